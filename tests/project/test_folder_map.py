"""The map of the source is true: it names every folder, its files exist, and the tree keeps to what it says."""

from __future__ import annotations

import collections
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
ROW = re.compile(r"^\| `([\w/]+)/` \| .+ \| `([\w./]+)` \|$", re.M)


def sources() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def rows() -> dict[str, str]:
    return dict(ROW.findall((SRC / "README.md").read_text()))


def test_the_map_names_every_folder_and_no_other() -> None:
    folders = {str(path.parent.relative_to(SRC)) for path in sources() if path.suffix in (".c", ".h", ".py")}
    assert set(rows()) == folders


def test_every_row_says_where_to_start_reading() -> None:
    assert [start for start in rows().values() if not (SRC / start).is_file()] == []


SAME_NAMES = {  # names that several files have, by where they lie
    r"(.+/)?(__init__|conftest)\.py": "Python's and pytest's own",
    r"examples/[^/]+/(before|after|make_data)\.py": "each example is a folder of its own",
    r"tests/fuzz/.+\.c": "a fuzz target is called like the file that it tries",
    r"bench/(array_convert|log_mel)\.c": "a bench that is called like the file whose speed it measures",
    r"bench/build\.py": "likewise, the verb",
}


def same_names(listed: list[str]) -> list[str]:
    kept = [path for path in listed if not any(re.fullmatch(pattern, path) for pattern in SAME_NAMES)]
    count = collections.Counter(Path(path).name for path in kept)
    return sorted(path for path in kept if count[Path(path).name] > 1)


def test_file_names_are_unique() -> None:
    said = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.py"], cwd=ROOT, text=True)
    listed = [path for path in said.splitlines() if (ROOT / path).is_file()]
    assert same_names(listed) == []
    everywhere = collections.Counter(Path(path).name for path in listed)
    for pattern in SAME_NAMES:
        assert any(re.fullmatch(pattern, path) and everywhere[Path(path).name] > 1 for path in listed), f"not needed any more: {pattern}"
    assert same_names(["src/a/x.c", "tests/b/x.c", "tests/fuzz/x.c"]) == ["src/a/x.c", "tests/b/x.c"]
    assert same_names(["examples/a/after.py", "examples/b/after.py", "tests/conftest.py"]) == []


def test_no_folder_hides_its_parts() -> None:
    count = collections.Counter(str(path.parent.relative_to(SRC)) for path in sources() if path.suffix == ".c")
    assert {folder: n for folder, n in count.items() if n > 20} == {}


def test_what_is_internal_is_included_by_its_own_folder_only() -> None:
    found = []
    for path in sources():
        if path.suffix in (".c", ".h"):
            for header in re.findall(r'#include "([\w/]+_internal\.h)"', path.read_text()):
                if not path.is_relative_to((SRC / header).parent):
                    found.append(f"{path.relative_to(SRC)}: {header}")
    assert found == []


def test_every_file_is_compiled() -> None:
    lists = "".join(path.read_text() for path in SRC.glob("*/meson.build"))
    names = [path.relative_to(SRC) for path in sources() if path.suffix == ".c"]
    assert [str(name) for name in names if f"'{name.relative_to(name.parts[0])}'" not in lists] == []
