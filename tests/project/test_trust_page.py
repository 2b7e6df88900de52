"""The table of docs/trust.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_named_in_the_page_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.(?:py|c))::(\w+)`", (ROOT / "docs/trust.md").read_text())
    assert len(named) >= 20
    missing = [f"{path}::{name}" for path, name in named if not re.search(rf"\b{name}\(", (ROOT / path).read_text())]
    assert missing == []
