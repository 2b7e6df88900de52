"""The tool that the tests of this folder talk to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from array_tool import TOOL, Tool


@pytest.fixture
def tool() -> Iterator[Tool]:
    if not TOOL.exists():
        pytest.skip(f"{TOOL.name} is not built (FB_BUILD_DIR says where)")
    t = Tool()
    yield t
    t.close()
