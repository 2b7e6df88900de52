"""The table of docs/trust.md names tests that exist, and that are run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def is_run(path: Path, name: str) -> bool:
    """Python: a function of the module. C: a function that main hands to cmocka."""
    if not path.is_file():
        return False
    text = path.read_text()
    if path.suffix == ".py":
        return re.search(rf"^def {name}\(", text, re.MULTILINE) is not None
    return re.search(rf"^static void {name}\(void \*\*state\)", text, re.MULTILINE) is not None and \
        re.search(rf"cmocka_unit_test\w*\({name}\b", text) is not None


def test_every_test_named_in_the_page_exists() -> None:
    page = (ROOT / "docs/trust.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.(?:py|c))::(\w+)`", page)
    assert len(named) >= 20
    assert [f"{path}::{name}" for path, name in named if not is_run(ROOT / path, name)] == []


def test_every_case_of_the_table_has_a_test() -> None:
    table = (ROOT / "docs/trust.md").read_text().split("| case | known from | test |")[1].split("\n\n")[0]
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    assert len(rows) >= 20
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.(?:py|c)::\w+` \|$", row)] == []


def test_a_name_that_is_only_called_does_not_count() -> None:
    assert not is_run(Path(__file__), "findall") and not is_run(ROOT / "tests/nowhere.py", "test_x")
