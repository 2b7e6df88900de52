"""A server and the environment that leads to it. Imported rather than in a conftest.py, whose name other folders of tests use, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_client import TOOL, environment
from server import Server


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
