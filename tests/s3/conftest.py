from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from s3_client import TOOL, environment  # noqa: E402
from server import Server  # noqa: E402


@pytest.fixture
def server() -> Iterator[Server]:
    if not TOOL.exists():
        pytest.skip(f"{TOOL} is not built")
    s = Server()
    yield s
    s.stop()


@pytest.fixture
def env(server: Server, tmp_path: Path) -> dict[str, str]:
    return environment(server, tmp_path)
