"""The map of the source is true: it names every folder, its files exist, and the tree keeps to what it says."""

from __future__ import annotations

import collections
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
MOST_FILES = 16  # .c and .h in one folder
LARGE = {  # folders that are one idea all the same
    "base": 23,  # small primitives, each known by its own name
    "cli": 18,  # one file per verb
    "feed": 18,  # the headers by which the folders inside know each other
    "feed/engine": 24,  # one engine under one lock
    "feed/single": 18,  # pictures, recordings and bags, which share how a single place is filled
    "jobs/build": 17,  # one run and its parts
    "jobs/pack": 17,  # likewise
    "python": 22,  # one file per type of the extension module
}
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
    count = collections.Counter(str(path.parent.relative_to(SRC)) for path in sources() if path.suffix in (".c", ".h"))
    assert {folder: n for folder, n in count.items() if n > LARGE.get(folder, MOST_FILES)} == {}


def test_the_list_of_large_folders_only_shrinks() -> None:
    """A folder that has become smaller gets its new number here, or leaves the list."""
    count = collections.Counter(str(path.parent.relative_to(SRC)) for path in sources() if path.suffix in (".c", ".h"))
    assert {folder: count[folder] for folder in LARGE} == LARGE and all(n > MOST_FILES for n in LARGE.values())


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


# ---- tests/ mirrors src/

TESTS = ROOT / "tests"
INCLUDE = re.compile(r'^#include "([\w/.]+)\.h"$', re.M)
SHARED = ("base", "model")  # what every test may include says nothing about what it tests


def homes() -> dict[str, set[str]]:
    """The folders of the files of a name, without its ending: `crew` is feed/crew.h and feed/engine/crew.c."""
    found = collections.defaultdict(set)
    for path in sources():
        if path.suffix in (".c", ".h"):
            found[path.stem].add(str(path.parent.relative_to(SRC)))
    return found


def fixtures(test: Path) -> list[Path]:
    """The headers of tests/ that a test includes."""
    found = [(test.parent / f"{name}.h").resolve() for name in INCLUDE.findall(test.read_text())]
    return [path for path in found if path.is_file()]


def named_after(test: Path, of: dict[str, set[str]]) -> set[str]:
    """test_device_copy_broken.c is named after device_copy.c: the longest beginning of its name that is a source's."""
    words = test.stem.removeprefix("test_").split("_")
    return next((of["_".join(words[:n])] for n in range(len(words), 0, -1) if "_".join(words[:n]) in of), set())


def folders_of(test: Path, of: dict[str, set[str]]) -> set[str]:
    """Where the sources lie that a test is about: the one it is named after, those whose headers it includes (by a fixture, too), and any
    below the folder of its fixture. A test that includes nothing but the public header is about its own folder, whichever that is."""
    found = set(named_after(test, of))
    text = "".join(path.read_text() for path in [test, *fixtures(test)])
    headers = [name for name in INCLUDE.findall(text) if (SRC / f"{name}.h").is_file()]
    found |= {folder for name in headers if not name.startswith(SHARED) for folder in of[Path(name).name]}
    for place in {path.parent for path in fixtures(test)}:  # or a folder below that of the fixture
        if test.parent.is_relative_to(place) and place not in (TESTS, test.parent):
            found.add(str(test.parent.relative_to(TESTS)))
    if not found and test.is_relative_to(TESTS) and test.relative_to(TESTS).parts[0] in SHARED:
        found = {folder for name in headers for folder in of[Path(name).name]}
    return found


def test_every_c_test_lies_where_its_source_lies_or_one_above() -> None:
    of, wrong = homes(), []
    for test in sorted(TESTS.rglob("test_*.c")):
        folder = str(test.parent.relative_to(TESTS))
        tested = folders_of(test, of)
        allowed = {place for home in tested for place in (home, str(Path(home).parent))}
        if not (SRC / folder).is_dir() or (tested and folder not in allowed):
            wrong.append(f"{test.relative_to(ROOT)} is about {', '.join(sorted(tested)) or 'no folder of src/'}")
    assert wrong == []


def test_the_mirror_shows_a_test_that_lies_elsewhere(tmp_path: Path) -> None:
    of = {"crew": {"feed", "feed/engine"}, "file": {"base/file"}}
    test = tmp_path / "test_file.c"
    test.write_text('#include "base/error.h"\n')
    assert folders_of(test, of) == {"base/file"}
    test = tmp_path / "test_life.c"
    test.write_text('#include "tally.h"\n#include "feed/crew.h"\n')
    assert folders_of(test, of) == {"feed", "feed/engine"}
