"""SECURITY.md names every fuzz target that there is, and none that there is not."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def named() -> list[str]:
    table = (ROOT / "SECURITY.md").read_text().split("| target | what it reads |")[1].split("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.M)


def test_the_table_and_the_folder_name_the_same_targets() -> None:
    assert set(named()) == {p.stem for p in (ROOT / "tests/fuzz").glob("*.c")} - {"replay"}
    assert len(named()) == len(set(named()))


def test_every_target_is_built_and_has_inputs() -> None:
    built = set(re.findall(r"^  '(\w+)': \[", (ROOT / "tests/fuzz/meson.build").read_text(), re.M))
    assert built == set(named())
    assert [name for name in named() if not any((ROOT / "tests/fuzz/corpus" / name).iterdir())] == []


def test_what_it_says_of_the_network_is_true() -> None:
    """Sockets are opened by io/ alone (libcurl), and nobody listens."""
    tries = ROOT / "src/hdf5/sandbox_try.c"  # the helper's own proof that it cannot
    sources = {p: p.read_text() for p in (ROOT / "src").rglob("*.c") if p != tries}
    connecting = {p.relative_to(ROOT / "src").parts[0] for p, text in sources.items()
                  if re.search(r"\b(connect|socket|getaddrinfo)\(", text)}
    assert connecting <= {"io"}
    assert [p.name for p, text in sources.items() if re.search(r"\b(listen|accept4?|bind)\(", text)] == []
