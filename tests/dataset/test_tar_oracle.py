"""The members of an archive are those that Python's tarfile finds: names, places, sizes; in archives of others and in made-up ones."""

from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "tar-go"
TOOL = Path(os.environ.get("FB_BUILD_DIR", ROOT / "build")) / "tests" / "dataset" / "tar_tool"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL.name} is not built (FB_BUILD_DIR says where)")

Member = tuple[str, int, int, bytes]

# Where tarfile and we differ: why, and what we find instead (kind and name of each member, or the error).
DIFFERENT: dict[str, tuple[str, list[tuple[str, bytes]], str]] = {
    "pax-nul-path.tar": ("a name with a NUL is of no use", [("file", b"")], "end"),
    "pax-path-hdr.tar": ("an extended header without a member is damage", [], "error -3 1024"),
    "pax-bad-hdr-file.tar": ("malformed extended headers are damage", [], "error -3 0"),
    "pax-global-records.tar": ("an empty path takes the global one back",
                               [("file", n) for n in (b"global1", b"file2", b"file3", b"file4")], "end"),
    "pax-multi-hdrs.tar": ("of two extended headers the later one counts", [("link", b"PAX2/PAX2/long-path-name")], "end"),
    "gnu-multi-hdrs.tar": ("of two long names the later one counts", [("link", b"GNU2/GNU2/long-path-name")], "end"),
    "gnu-incremental.tar": ("GNU headers have times where others have a prefix",
                            [("other", b"test2/"), ("file", b"test2/foo"), ("sparse", b"test2/sparse")], "end"),
    "invalid-go17.tar": ("the same, in an archive by a program that mixed them up", [("file", b"foo")], "end"),
}


def ours(path: Path) -> tuple[list[Member], str]:
    lines = subprocess.run([TOOL, path], capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in lines[:-1]:
        kind, offset, size, _, *name = line.split(" ")
        found.append((kind, int(offset), int(size), bytes.fromhex(name[0] if name else "")))
    return found, lines[-1]


def kind_of(m: tarfile.TarInfo) -> str:
    if m.issparse():
        return "sparse"
    if m.isdir():
        return "folder"
    if m.isreg():
        return "file"
    if m.issym() or m.islnk():
        return "link"
    return "device" if m.isdev() else "other"


def theirs(path: Path) -> list[Member]:
    with tarfile.open(path, "r:", errorlevel=2) as t:
        return [(kind_of(m), m.offset_data, m.size, m.name.encode("utf-8", "surrogateescape")) for m in t]


def plain(members: list[Member]) -> list[Member]:
    """Python cuts trailing slashes; sizes of members without data are what the header happens to say; sparse ones are never read."""
    return [(k, o if k == "file" else 0, s if k == "file" else 0, n.rstrip(b"/")) for k, o, s, n in members]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.tar")) or [None], ids=lambda p: p.name.split("+")[-1] if p else "none")
def test_archives_of_others_are_read_as_tarfile_reads_them(path: Path | None) -> None:
    if path is None:
        pytest.skip("the archives are not on this machine")
    found, last = ours(path)
    name = path.name.split("+")[-1]
    if name in DIFFERENT:
        _, members, end = DIFFERENT[name]
        assert ([(k, n) for k, _, _, n in found], last) == (members, end)
        return
    try:
        expected = theirs(path)
    except tarfile.TarError:
        assert last.startswith("error -3 ")
        return
    if last.startswith("error"):  # tarfile does not look whether the data is there
        at = int(last.split()[2])
        assert any(o + s > path.stat().st_size and o >= at for _, o, s, _ in expected), f"{last}, tarfile: {expected}"
        expected = expected[:len(found)]
    assert plain(found) == plain(expected)


def names(rng: random.Random) -> list[str]:
    letters = "abcdefghij.-_ äß漢😀"
    out = ["a.jpg", "x" * 99, "y" * 100, "z" * 101, "d" * 150 + "/" + "f" * 90, "d/" * 60 + "e" * 99, "p" * 300 + "/" + "q" * 300,
           "bad\udcff.jpg", "long\udcfe" * 60, "./here.jpg", "tail/", "a/../b", "/abs/olute.png"]
    for _ in range(60):
        out.append("/".join("".join(rng.choice(letters) for _ in range(rng.choice([3, 10, 60, 120]))) for _ in range(rng.randint(1, 4))))
    return out


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "gnu", "pax"])
def test_generated_archives_are_read_as_tarfile_reads_them(form: int, tmp_path: Path) -> None:
    rng = random.Random(form)
    path = tmp_path / "x.tar"
    count = 0
    with tarfile.open(path, "w", format=form) as t:
        for name in names(rng):
            m = tarfile.TarInfo(name)
            m.type = rng.choice([tarfile.REGTYPE] * 6 +
                                [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.AREGTYPE])
            m.linkname = rng.choice(["t", "u" * 130]) if form != tarfile.USTAR_FORMAT else "t"
            m.mtime = rng.choice([0, 1, 1.5, 2**33 - 1])  # type: ignore[assignment]
            m.mtime = int(m.mtime) if form == tarfile.USTAR_FORMAT else m.mtime
            m.size = rng.choice([0, 1, 511, 512, 513, 70000]) if m.isreg() else 0
            try:
                t.addfile(m, io.BytesIO(rng.randbytes(m.size)))
                count += 1
            except (ValueError, UnicodeEncodeError):
                pass  # ustar has no room for it
    found, last = ours(path)
    assert last == "end"
    assert count > 30 and plain(found) == plain(theirs(path))


def test_tar_itself_and_sparse_members(tmp_path: Path) -> None:
    source = tmp_path / "s"
    source.mkdir()
    (source / "a.txt").write_bytes(b"abc")
    with open(source / "hole.bin", "wb") as f:
        for i in range(40):  # more pieces than fit in one header
            f.seek(i * 1_000_000)
            f.write(b"x" * 5000)
    (source / "z.txt").write_bytes(b"xyz")
    for form in ("v7", "oldgnu", "gnu", "ustar", "posix"):
        path = tmp_path / f"{form}.tar"
        sparse = [] if form in ("v7", "ustar") else ["--sparse"]
        subprocess.run(["tar", "cf", path, f"--format={form}", *sparse, "--sort=name", "-C", source, "."], check=True)
        found, last = ours(path)
        assert last == "end"
        assert plain(found) == plain(theirs(path)), form
        data = path.read_bytes()
        kept = {n: data[o:o + s] for k, o, s, n in found if k == "file"}
        assert kept[b"./a.txt"] == b"abc" and kept[b"./z.txt"] == b"xyz"
        if sparse:
            assert [k for k, _, _, n in found if n == b"./hole.bin"] == ["sparse"], form


def test_every_truncation_is_an_error_or_a_clean_prefix(tmp_path: Path) -> None:
    whole = tmp_path / "whole.tar"
    with tarfile.open(whole, "w", format=tarfile.PAX_FORMAT) as t:
        for name, size in (("a.jpg", 10), ("n" * 180, 700), ("c.jpg", 512)):
            m = tarfile.TarInfo(name)
            m.size = size
            t.addfile(m, io.BytesIO(b"q" * size))
    data = whole.read_bytes()
    members, _ = ours(whole)
    cut = tmp_path / "cut.tar"
    for n in [*range(0, len(data), 97), *range(0, len(data), 512)]:
        cut.write_bytes(data[:n])
        found, last = ours(cut)
        assert found == members[:len(found)]
        assert last == "end" or (last.startswith("error -3 ") and 0 <= int(last.split()[2]) <= n)
