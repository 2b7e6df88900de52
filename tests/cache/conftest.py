"""The bucket of the S3 tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "io/s3"))
from s3_fixtures import env, server
