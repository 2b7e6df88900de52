"""Every kind of bad input a data set can have, as a user of the command meets it: the exit code, a message with the cause and the file, and
whether the run goes on with --on-error skip, naming what it left out.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from PIL import Image

COMMAND = Path(os.environ.get("FULLBORE_COMMAND", Path(__file__).resolve().parents[2] / ".venv/bin/fullbore"))
DONE, FAILED, USAGE, DAMAGED, PARTLY = 0, 1, 2, 3, 4
GOOD = 11


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """11 good photographs in two classes; each test adds its own trouble as a/bad.jpg or the like."""
    for i in range(GOOD):
        path = tmp_path / "data" / "ab"[i % 2] / f"{i:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.radial_gradient("L").resize((90 + i, 70 + i)).convert("RGB").save(path)
    return tmp_path / "data"


def bench(source: Path, *options: str, io: str = "") -> subprocess.CompletedProcess[str]:
    home = source.parent / "home"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8", **({"FULLBORE_IO": io} if io else {})}
    return subprocess.run([COMMAND, "bench", str(source), "--batch-size", "4", "--threads", "2", "--epochs", "1", *options], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="surrogateescape", timeout=100)


def png(width: int, height: int, packed: bytes) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def test_the_remedy_names_an_option_of_the_verb(data: Path) -> None:
    (data / "a" / "bad.jpg").write_bytes(b"")
    assert "--on-error skip goes on with another sample" in bench(data).stderr
    packed = subprocess.run([COMMAND, "pack", data, "-o", data.parent / "x.npy", "--decode", "8x8"], capture_output=True, text=True,
                            timeout=100)
    assert packed.returncode == DAMAGED and "on_error" not in packed.stderr and "--skip-bad" in packed.stderr, packed.stderr


class Trouble(NamedTuple):
    name: str                     # of the file, below a/
    content: Callable[[bytes], bytes]  # made from a good file
    words: str


TROUBLES = {
    "zero bytes": Trouble("bad.jpg", lambda good: b"", "empty"),
    "truncated": Trouble("bad.jpg", lambda good: good[:len(good) // 2], "cut off"),
    "not an image": Trouble("bad.jpg", lambda good: b"<html>404 Not Found</html>", "not"),
    "a header of 65,500 x 65,500": Trouble("bad.png", lambda good: png(65500, 65500, zlib.compress(bytes(1000))), "65500 x 65500"),
    "a bomb within the limits": Trouble("bad.png", lambda good: png(13000, 13000, zlib.compress(bytes(100))), "its pixels end too early"),
    "a name that is not UTF-8": Trouble(os.fsdecode(b"b\xe4d.jpg"), lambda good: good[:100], r"b\xe4d.jpg"),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=list(TROUBLES))
def test_a_damaged_file_ends_the_run_with_3_or_is_left_out_by_name(data: Path, trouble: Trouble) -> None:
    (data / "a" / trouble.name).write_bytes(trouble.content((data / "a/00.jpg").read_bytes()))
    shown = trouble.name if trouble.name.isascii() else r"b\xe4d.jpg"
    stopped = bench(data)
    assert stopped.returncode == DAMAGED, stopped.stderr
    assert f"a/{shown}" in stopped.stderr and trouble.words in stopped.stderr
    skipped = bench(data, "--on-error", "skip", "--json")
    assert skipped.returncode == PARTLY, skipped.stderr
    report = json.loads(skipped.stdout)
    assert report["samples"] == GOOD + 1 and report["bad_samples"] >= 1
    assert shown in skipped.stderr


@pytest.mark.parametrize("suffix", [".png", ".webp", ".jpeg", ".gif", ""])
def test_a_wrong_extension_does_not_matter(data: Path, suffix: str) -> None:
    (data / "a" / f"odd{suffix}").write_bytes((data / "a/00.jpg").read_bytes())
    done = bench(data, "--json")
    assert done.returncode == DONE and json.loads(done.stdout)["samples"] == GOOD + 1, done.stderr


@pytest.mark.parametrize(("fault", "words"), [
    ("error=EIO,path=a/04", "Input/output error"), ("error=ENOENT,at=open,path=a/04", "vanished"),
    ("error=EACCES,at=open,path=a/04", "ermission"), ("shrink=200,path=a/04", "a/04.jpg"), ("short=200,path=a/04", "cut off"),
])
def test_a_read_that_fails_or_a_file_that_vanishes_or_shrinks_is_named(data: Path, fault: str, words: str) -> None:
    stopped = bench(data, io=f"fault:{fault}")
    assert stopped.returncode in (FAILED, DAMAGED) and "a/04.jpg" in stopped.stderr and words in stopped.stderr
    skipped = bench(data, "--on-error", "skip", io=f"fault:{fault}")
    assert skipped.returncode == PARTLY and "a/04.jpg" in skipped.stderr


@pytest.mark.parametrize(("error", "words"), [("EMFILE", "Too many open files"), ("ENFILE", "Too many open files"), ("ENOMEM", "memory")])
def test_what_no_other_sample_would_help_is_never_skipped(data: Path, error: str, words: str) -> None:
    for options in ((), ("--on-error", "skip")):
        done = bench(data, *options, io=f"fault:error={error},nth=5,forever")
        assert done.returncode == FAILED and words.lower() in done.stderr.lower(), done.stderr


@pytest.mark.parametrize(("make", "code", "words"), [
    (lambda data: data / "nowhere", FAILED, "nowhere"),
    (lambda data: (data / "none").mkdir() or data / "none", DAMAGED, "the folder is empty"),
])
def test_nothing_to_read_is_said(data: Path, make: Callable[[Path], Path], code: int, words: str) -> None:
    done = bench(make(data))
    assert done.returncode == code and words in done.stderr and not done.stdout, (done.returncode, done.stderr)


@pytest.mark.parametrize(("table", "words"), [
    ("path,label\na/00.jpg,1\na/none.jpg,2\nb/none.jpg,3\n", "2 of the files named are missing: a/none.jpg (line 3), b/none.jpg (line 4)"),
    ("path,label\na/00.jpg,1\na/02.jpg,\n", "line 3: column 'label' is empty"),
    ("path,label\na/00.jpg,1\na/00.jpg,2\n", "named twice, at line 2 and 3"),
    ("path,label\n", "names no files"),
])
def test_labels_and_files_that_do_not_match_are_named_with_their_lines(data: Path, table: str, words: str) -> None:
    (data / "list.csv").write_text(table)
    done = bench(data / "list.csv")
    assert done.returncode == DAMAGED and words in done.stderr, done.stderr


def test_a_missing_mask_is_named_and_can_be_skipped(data: Path) -> None:
    rows = ["image,mask"]
    for path in sorted(data.glob("*/*.jpg")):
        name = f"m{path.stem}.png"
        Image.new("L", Image.open(path).size, 3).save(data / name)
        rows.append(f"{path.relative_to(data)},{name}")
    (data / "pairs.csv").write_text("\n".join(rows))
    assert bench(data / "pairs.csv").returncode == DONE
    (data / "m04.png").unlink()
    stopped = bench(data / "pairs.csv")
    assert stopped.returncode in (FAILED, DAMAGED)
    assert "m04.png: there is no such file" in stopped.stderr and "the mask of a/04.jpg" in stopped.stderr
    skipped = bench(data / "pairs.csv", "--on-error", "skip")
    assert skipped.returncode == PARTLY and "m04.png" in skipped.stderr


@pytest.mark.parametrize("verb", [["pack", "-o", "out.tar"], ["pack", "--decode", "8x8", "-o", "out.npy"], ["stage", "copy"]])
def test_verbs_that_would_lose_masks_refuse_them(data: Path, tmp_path: Path, verb: list[str]) -> None:
    Image.new("L", (90, 70), 3).save(data / "m.png")
    (data / "pairs.csv").write_text("image,mask\na/00.jpg,m.png\n")
    name, *rest = verb
    done = subprocess.run([COMMAND, name, str(data / "pairs.csv"), *rest], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")})
    assert done.returncode != DONE and "several files each (there is a column 'mask')" in done.stderr, done.stderr
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(("out", "copy")) and (p.is_file() or any(p.rglob("*.jpg")))]
