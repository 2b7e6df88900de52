"""Names that would steer a terminal, in every place a data set, an archive, a table, a log or a recording can have one: whatever verb meets
them, and whatever Python raises, prints no control character that is not its own, and JSON stays JSON.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import xxhash
from PIL import Image

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[2] / ".venv/bin/fullbore"))

# A title and a colour, BEL, CR, a line of its own, C1 controls as UTF-8, marks that turn the writing, and bytes that are no UTF-8.
HOSTILE = [b"e\x1b]0;owned\x07\x1b[31m", b"r\rok\x08\x7f", b"n\nfullbore: all is well", "c\x9b2J\x85".encode(),
           "b\u202egpj\u2066x\u2069".encode(),
           b"u\xff\xfe\xc3(", b"a\xed\xa0\x80\xf4\x90\x80\x80"]
HOSTILE_TEXT = [n.decode() for n in HOSTILE[:5]]  # where only text can be written


def steers(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cs") or c in \
        "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def check_output(said: bytes, what: object) -> None:
    text = said.decode()  # UTF-8, or this fails
    odd = [c for c in text if steers(c) and c != "\n"]
    assert not odd, (what, odd, text)
    assert not any(line.startswith("fullbore: all is well") for line in text.splitlines()), (what, text)


class Runner:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LC_ALL": "C.UTF-8", "FULLBORE_LOG": "debug",
                    "AWS_EC2_METADATA_DISABLED": "true"}

    def __call__(self, *arguments: object, **env: str) -> None:
        """A command that does its work, or fails at it."""
        assert self.any(*arguments, **env) != 2, arguments

    def any(self, *arguments: object, **env: str) -> int:
        """A command that may be refused as wrong usage."""
        words = [a if isinstance(a, bytes) else os.fsencode(str(a)) for a in arguments]
        done = subprocess.run([os.fsencode(COMMAND), *words], env={**self.env, **env}, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=100)
        assert done.returncode in (0, 1, 2, 3, 4, 5), (words, done)
        check_output(done.stdout, words)
        check_output(done.stderr, words)
        if b"--json" in words and done.returncode in (0, 4):
            json.loads(done.stdout)
        return done.returncode

    def python(self, script: str, *arguments: object) -> None:
        """Errors, their parts that are printed, and what is logged."""
        words = [a if isinstance(a, bytes) else os.fsencode(str(a)) for a in arguments]
        done = subprocess.run([sys.executable, "-c", PYTHON + script, *words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=100)
        assert done.returncode == 0, done
        assert b"is not an argument of" not in done.stdout, done  # then nothing of it was tried
        check_output(done.stdout, words)
        check_output(done.stderr, words)


PYTHON = """
import os, sys, logging, fullbore as fb
source = sys.argv[1]
def attempt(work):
    try:
        print(work())
    except (fb.Error, ValueError, TypeError) as e:
        print(e); print(str(e.args[0]) if e.args else "")
        if "is not an argument of" in str(e):
            raise  # then this test tries nothing
def run(**options):
    options = {"batch_size": 2, "framework": "numpy", "threads": 1, **options}
    def work():
        with fb.Loader(source, **options) as loader:
            for batch in loader:
                pass
            print(loader.verdict()); print(loader.status_line())
            return len(loader)
    attempt(work)
"""


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def photo(side: int = 24) -> bytes:
    out = io.BytesIO()
    Image.radial_gradient("L").resize((side, side)).convert("RGB").save(out, "JPEG")
    return out.getvalue()


def file_in(folder: Path, name: bytes, content: bytes) -> Path:
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Classes and files with such names; every second class has one that is no photograph."""
    for i, name in enumerate(HOSTILE):
        file_in(tmp_path / "data", name + b"/" + name + b".jpg", photo())
        file_in(tmp_path / "data", name + b"/2.jpg", b"not a photograph \x1b[2J\x07" if i % 2 else photo(20))
    return tmp_path / "data"


def test_photographs(run: Runner, photos: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for more in ((), ("--json",)):
        run("info", photos, *more)
        run("bench", photos, "--batch-size", 2, "--threads", 1, "--epochs", 1, *more)
        run("bench", photos, "--batch-size", 2, "--threads", 1, "--epochs", 1, "--on-error", "skip", *more, FULLBORE_AUDIT=str(logs))
        run("index", photos, "--learn", *more)
        run("audit", logs, *more)
        run("audit", logs, photos, *more)
        run("stage", photos, tmp_path / f"staged{len(more)}", *more)
        run.any("stage", photos, tmp_path / f"staged{len(more)}", *more)
        run("pack", photos, "-o", tmp_path / f"p{len(more)}.tar", *more)
        run("pack", photos, "-o", tmp_path / f"s{len(more)}.tar", "--skip-bad", *more)
        run("pack", photos, "-o", tmp_path / f"d{len(more)}.npy", "--decode", "8x8", "--skip-bad", *more)
        run("doctor", photos, "--samples", 8, "--threads", 1, "--batch-size", 2, *more)
    run.python("run(); run(on_error='skip'); run(split=os.fsdecode(sys.argv[2].encode('utf-8','surrogateescape')))\n"
               "run(transforms=[fb.Map(lambda image: {}[source])])\n", photos, HOSTILE[0])


@pytest.mark.parametrize("name", HOSTILE)
def test_the_source_and_the_options_themselves(run: Runner, tmp_path: Path, name: bytes) -> None:
    one = file_in(tmp_path, name + b"/a.jpg", photo()).parent
    for verb in ("info", "bench", "index", "verify", "audit", "report", "doctor"):
        run.any(verb, one / os.fsdecode(b"missing" + name))
    run.any("info", one), run.any("info", one, "--json"), run.any("bench", one, "--" + os.fsdecode(name))
    run.any(name), run.any("info", one, one)
    run.any("bench", one, b"--transforms", name), run.any("bench", one, b"--dtype=" + name), run.any("pack", one, "-o", one / "out.tar")
    run.any("stage", one, tmp_path / "copy", "--keys", one / "a.jpg")
    run.any("stage", one, tmp_path / "copy", "--classes", name)
    run.any("build", one, "-o", one / "out.h5"), run.any("unpack", one / "a.jpg", tmp_path / "out")
    run.any("watch", "-o", one, "--", one / "none")
    run.python("run(); run(labels=source); run(dtype=sys.argv[2]); run(fields=[sys.argv[2]]); attempt(lambda: fb.Resize(sys.argv[2]))\n"
               "attempt(lambda: fb.Loader([sys.argv[2]], labels=[sys.argv[2]], batch_size=1))\n", one, name)


def arrays(folder: Path, kind: str, shape_of: Callable[[int], tuple[int, ...]]) -> Path:
    folder.mkdir()
    for i in range(2):
        values = {name: np.zeros(shape_of(i), np.uint32) for name in HOSTILE_TEXT}
        if kind == "h5":
            with h5py.File(folder / f"{i}.h5", "w") as f:
                for name, value in values.items():
                    f[name] = value
                    f[name].attrs[name] = name
                f["group\x1b[5m/inner\x07"] = np.array(["x"], "S3")
        elif kind == "npz":
            np.savez(folder / f"{i}.npz", **values)
        else:
            head = {name: {"dtype": "U32", "shape": list(v.shape), "data_offsets": [k * v.nbytes, (k + 1) * v.nbytes]}
                    for k, (name, v) in enumerate(values.items())}
            text = json.dumps({**head, "__metadata__": {"\x1b": "\x07"}}, ensure_ascii=bool(i)).encode()
            (folder / f"{i}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in values.values()))
    return folder


@pytest.mark.parametrize("kind", ["h5", "npz", "safetensors"])
@pytest.mark.parametrize("differ", ["rows", "shape", "nothing"])
def test_arrays(run: Runner, tmp_path: Path, kind: str, differ: str) -> None:
    shapes = {"rows": lambda i: (4 + i, 3), "shape": lambda i: (4, 3 + i), "nothing": lambda i: (4, 3)}
    data = arrays(tmp_path / "data", kind, shapes[differ])
    for more in ((), ("--json",)):
        run("info", data, *more)
        run("bench", data, "--batch-size", 2, "--threads", 1, "--epochs", 1, *more)
        run("doctor", data, "--samples", 8, "--threads", 1, "--batch-size", 2, *more)
        if kind == "h5":
            run("pack", data / "0.h5", "-o", tmp_path / f"r{len(more)}.h5", "--rechunk", 2, *more)
    run.python("run(); run(sample='file'); run(fields=sys.argv[2:]); run(fields=[sys.argv[2] + 'x'], on_error='skip')\n"
               "run(fields=sys.argv[2:4], sample='file'); run(preload=True); run(fields=sys.argv[2:3], group_by=sys.argv[3])\n", data,
               *HOSTILE[:5])


def test_broken_arrays(run: Runner, tmp_path: Path) -> None:
    """Headers that lie, with such names in them."""
    np.savez(tmp_path / "x.npz", **{HOSTILE_TEXT[0]: np.zeros(9, np.uint32)})
    good = (tmp_path / "x.npz").read_bytes()
    for at in range(0, len(good), 23):
        (tmp_path / "x.npz").write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1:])
        if at % 3 == 0:
            run("info", tmp_path / "x.npz", "--json")
        else:
            run("bench", tmp_path / "x.npz", "--batch-size", 1, "--epochs", 1)
    head = b"{'descr': '<\x1b[31mf4\x07', 'fortran_order': False, 'shape': (3,), }"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(12))
    run("info", tmp_path / "x.npy"), run("bench", tmp_path / "x.npy", "--batch-size", 1)
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", 20) + b'{"\x1b[31m\x07":{"dtype"}')
    run("info", tmp_path / "x.safetensors"), run("bench", tmp_path / "x.safetensors", "--batch-size", 1)


def test_tables(run: Runner, tmp_path: Path) -> None:
    for i in range(3):
        file_in(tmp_path, f"{i}.jpg".encode(), photo() if i else b"\x1b[2J")
    quoted = ['"' + name.replace('"', '""') + '"' for name in HOSTILE_TEXT]
    columns = ["path", *quoted]
    texts = {"numbers": [[f"{i}.jpg", *("1" for _ in quoted)] for i in range(3)],
             "classes": [["0.jpg", *quoted], ["1.jpg", *quoted], ["2.jpg", *quoted]],
             "huge": [[f"{i}.jpg", *("1e300" for _ in quoted)] for i in range(3)],
             "mixed": [["0.jpg", *("1" for _ in quoted)], ["1.jpg", *quoted], ["2.jpg", *("1 2" for _ in quoted)]],
             "missing": [[quoted[0], *quoted]], "short": [["0.jpg", quoted[0]]], "open": [["0.jpg", '"' + HOSTILE_TEXT[0]]],
             "vectors": [["0.jpg", *("[1,2]" for _ in quoted)], ["1.jpg", *("[1,2,3]" for _ in quoted)]]}
    for name, rows in texts.items():
        table = tmp_path / f"{name}.csv"
        table.write_text("\n".join(",".join(row) for row in [columns, *rows]) + "\n")
        for more in ((), ("--json",)):
            run("info", table, *more), run("bench", table, "--batch-size", 1, "--epochs", 1, "--threads", 1, *more)
        run.python("run(); run(fields=sys.argv[2:]); run(fields=[sys.argv[2] + 'x'])\n"
                   "run(classes=sys.argv[2:]); attempt(lambda: run(transforms=[fb.CropBox(*sys.argv[2:6])]))\n"
                   "globals().__setitem__('source', os.path.dirname(source)); run(labels=sys.argv[1])\n", table, *HOSTILE[:5])
    lines = tmp_path / "x.jsonl"
    for row in ({"path": "0.jpg", **dict.fromkeys(HOSTILE_TEXT, "\x1b[31m")}, {"path": "1.jpg", HOSTILE_TEXT[0]: {"\x07": 1}},
                {HOSTILE_TEXT[0]: 1}, {"path": HOSTILE_TEXT[0]}):
        lines.write_text(json.dumps(row) + "\n" + json.dumps({**row, "path": "2.jpg"}, ensure_ascii=False) + "\n")
        run("info", lines), run("info", lines, "--json"), run("bench", lines, "--batch-size", 1, "--epochs", 1)
    lines.write_bytes(b'{"path": "\x1b[31m\x07')
    run("info", lines)


def test_archives(run: Runner, tmp_path: Path) -> None:
    plain, cut = tmp_path / "x.tar", tmp_path / "cut.tar"
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as out:
        for i, name in enumerate(HOSTILE):
            for suffix, content in ((".jpg", photo() if i % 2 else b"\x1b[2J"), (".cls", name), (".json", b'{"\\u001b[31m": "\\u0007"}')):
                member = tarfile.TarInfo(os.fsdecode(name) + suffix)
                member.size = len(content)
                out.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link\x1b[5m.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/\x1b[31mpasswd"
        out.addfile(link)
        out.addfile(tarfile.TarInfo("../up\x1b[5m.txt"))
    cut.write_bytes(plain.read_bytes()[:-12000])
    for archive in (plain, cut):
        for more in ((), ("--json",)):
            run("info", archive, *more), run("verify", archive, *more)
            run("unpack", archive, tmp_path / f"{archive.stem}{len(more)}", *more)
            run("bench", archive, "--batch-size", 2, "--threads", 1, "--epochs", 1, "--on-error", "skip", *more)
            run("pack", archive, "-o", tmp_path / f"again{archive.stem}{len(more)}.tar", "--skip-bad", *more)
        run.python("run(); run(on_error='skip')\n", archive)
    packed = tmp_path / "p.tar"
    run("pack", plain, "-o", packed, "--skip-bad")
    broken = bytearray(packed.read_bytes())
    for at in range(600, len(broken), 1999):
        broken[at] ^= 0x41
    packed.write_bytes(broken)
    run("verify", packed), run("verify", packed, "--json"), run("info", packed), run("unpack", packed, tmp_path / "broken")


def test_sound(run: Runner, tmp_path: Path) -> None:
    head = b"RIFF" + struct.pack("<I", 1000) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    for i, name in enumerate(HOSTILE):
        file_in(tmp_path / "data", name + b".wav", head + b"data" + struct.pack("<I", 100) + bytes(100 if i % 2 else 10))
        file_in(tmp_path / "data", name + b"2.wav", head + b"\x1b[2J" + struct.pack("<I", 4))
    for more in ((), ("--json",)):
        run("info", tmp_path / "data", *more), run("bench", tmp_path / "data", "--batch-size", 2, "--epochs", 1, *more)
        run("build", tmp_path / "data", "-o", tmp_path / f"o{len(more)}.h5", "--raw", "--length", 40, "--skip-bad", *more)
    run("build", tmp_path / "data", "-o", tmp_path / "o.h5", "--raw", "--length", 40)
    run.python("crop = [fb.CropOrPad(40)]; run(transforms=crop); run(transforms=crop, on_error='skip')\n", tmp_path / "data")


def recording(path: Path, fill: Callable[[int], float], texts: bytes) -> Path:
    """As src/meter/recording.h says: facts and 100 snapshots."""
    def block(kind: int, payload: bytes) -> bytes:
        return struct.pack("<IIQ", kind, len(payload), xxhash.xxh3_64_intdigest(payload)) + payload

    sizes = (128, 128, 96, 160, 128, 64, 256)
    facts = b"".join(struct.pack(f"{n}s", texts) for n in sizes) + struct.pack("<6d", *(fill(i) for i in range(6)))
    width = 1320 // 8
    rows = b"".join(block(2, struct.pack(f"<{width}d", i * 0.5, 0.5, *(fill(k) for k in range(width - 2)))) for i in range(100))
    path.write_bytes(b"FBR1" + struct.pack("<I", 2) + block(1, facts) + rows)
    return path


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("fill", [
    lambda k: 0.0, lambda k: float(k), lambda k: float("nan"), lambda k: float("inf"), lambda k: -1e300, lambda k: 1e300,
    lambda k: float("nan") if k >= 103 else 1e8, lambda k: float("inf") if k >= 103 else k * 1e6])
def test_recordings(run: Runner, tmp_path: Path, name: bytes, fill: Callable[[int], float]) -> None:
    made = recording(tmp_path / "run.fbr", fill, name)
    run("report", made), run("report", made, "--json"), run("report", made, made), run("report", made, made, "--json")
    page = tmp_path / "page.html"
    run("report", made, "-o", page)
    if page.exists():
        check_output(page.read_bytes(), name)
        words = page.read_bytes().split(b"</style>")[1].split(b"<script>")[0]
        assert not re.search(rb"\b-?(nan|inf)\b", words), re.findall(rb".{60}\b-?(?:nan|inf)\b.{20}", words)


def test_watched_programs(run: Runner, tmp_path: Path) -> None:
    script = file_in(tmp_path, HOSTILE[0] + HOSTILE[3] + b".py", b"import time\ntime.sleep(1.2)\n")
    program = tmp_path / os.fsdecode(HOSTILE[1] + b"python")
    program.symlink_to(sys.executable)
    run("watch", "-o", tmp_path / "run.fbr", "--summary", tmp_path / "s.json", "--", program, script)
    json.loads((tmp_path / "s.json").read_text())
    run("report", tmp_path / "run.fbr"), run("report", tmp_path / "run.fbr", "--json")
