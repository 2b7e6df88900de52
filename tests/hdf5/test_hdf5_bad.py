"""Damaged files and misbehaving helpers: a bad sample that names its file, never the end of the process."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="h5py writes the files")
sys.path.insert(0, str(Path(__file__).parent))
import h5_tool  # noqa: E402
from h5_tool import DATA, FB_E_DATA, FB_E_NOT_FOUND, FB_E_UNSUPPORTED, HELPER, TOOL, Refused, Tool  # noqa: E402

pytestmark = pytest.mark.skipif(not (TOOL.exists() and HELPER.exists()), reason="h5_tool is not built (FB_BUILD_DIR says where)")
MAGIC = 0x31354866
SOAK = bool(os.environ.get("FB_SOAK"))


@pytest.fixture
def tool() -> Iterator[Tool]:
    t = Tool()
    yield t
    t.close()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=np.arange(4000, dtype="f4").reshape(100, 40), chunks=(10, 40), compression="gzip", shuffle=True)
        f.create_dataset("sum", data=np.arange(100), chunks=(10,), fletcher32=True)
        f.create_dataset("plain", data=np.arange(100, dtype="i8"))
    return path


def children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def check_still_works(tool: Tool, good: Path) -> None:
    assert tool.rows(tool.open(good)["plain"])[-1] == 99


def refused(tool: Tool, path: Path, code: int = FB_E_DATA, words: str | None = None) -> str:
    with pytest.raises(Refused, match=words) as e:
        tool.open(path)
    assert e.value.code == code, e.value
    assert path.name in str(e.value), "the file is not named"
    return str(e.value)


# ---------------------------------------------------------------------------------------------------------------- files


def test_no_file_a_folder_a_pipe_and_no_hdf5_are_refused(tool: Tool, tmp_path: Path, good: Path) -> None:
    with pytest.raises(Refused) as e:
        tool.open(tmp_path / "none.h5")
    assert e.value.code == FB_E_NOT_FOUND
    os.mkfifo(tmp_path / "pipe.h5")
    refused(tool, tmp_path / "pipe.h5", words="not a regular file")
    refused(tool, tmp_path, words="not a regular file")
    (tmp_path / "text.h5").write_text("no such thing")
    refused(tool, tmp_path / "text.h5", words="signature not found")
    (tmp_path / "empty.h5").write_bytes(b"")
    refused(tool, tmp_path / "empty.h5")
    check_still_works(tool, good)


def test_every_truncation_is_refused_or_whole(tool: Tool, tmp_path: Path, good: Path) -> None:
    data = good.read_bytes()
    for n in range(0, len(data), max(1, len(data) // 60)):
        cut = tmp_path / "cut.h5"
        cut.write_bytes(data[:n])
        refused(tool, cut)
    check_still_works(tool, good)


def test_a_damaged_stream_is_refused_by_name(tool: Tool, good: Path) -> None:
    with h5py.File(good) as f:
        where = {name: f[name].id.get_chunk_info(3) for name in ("x", "sum")}
    data = bytearray(good.read_bytes())
    for info in where.values():
        for i in range(5, info.size - 5):
            data[info.byte_offset + i] ^= 0x5A
    good.write_bytes(data)
    found = tool.open(good)
    for name, words in {"x": "deflate stream is broken", "sum": "fletcher32 checksum does not fit"}.items():
        with pytest.raises(Refused, match=words) as e:
            tool.rows(found[name])
        assert e.value.code == FB_E_DATA and f'"{name}"' in str(e.value)
        assert len(tool.rows(found[name], 0, 5)) == 5, "the other chunks are still there"


def test_a_stream_that_gives_less_or_more_is_refused(tool: Tool, good: Path) -> None:
    import zlib

    with h5py.File(good, "r+") as f:
        f["x"].id.write_direct_chunk((0, 0), zlib.compress(bytes(1599)))
        f["x"].id.write_direct_chunk((10, 0), zlib.compress(bytes(1601)))
    found = tool.open(good)["x"]
    for first in (0, 10):
        with pytest.raises(Refused, match="gives another size"):
            tool.rows(found, first, 1)
    assert tool.rows(found, 20, 1).shape == (1, 40)


def test_a_chunk_too_small_for_its_shape_is_refused_before_anything_is_allocated(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "bomb.h5"
    with h5py.File(path, "w") as f:
        d = f.create_dataset("x", (1 << 30,), "u1", chunks=(1 << 30,), compression="gzip")
        d.id.write_direct_chunk((0,), b"x" * 100)
    refused(tool, path, words="too small to hold")


def test_a_chunk_behind_the_end_of_the_file_is_refused_with_its_offset(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        d = f.create_dataset("x", data=np.arange(100), chunks=(50,))
        address = d.id.get_chunk_info(1).byte_offset
    data = path.read_bytes()
    old = struct.pack("<Q", address)
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, struct.pack("<Q", 1 << 40)))
    refused(tool, path, words='"x".* 1099511627776')


def test_claims_of_a_billion_rows_cost_nothing(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("nothing", (10**9, 10**6), "f8", chunks=(1, 1000), fillvalue=2.5)
        d = f.create_dataset("one", (10**9, 10**6), "f8", chunks=(1, 1000), fillvalue=2.5)
        d[5, :10] = 1
    start = time.monotonic()
    found = tool.open(path)
    assert tool.record_bytes < 1000
    assert found["nothing"].storage == "chunked" and found["nothing"].chunks == 1
    assert found["one"].storage == "opaque" and "more chunks than the file can hold" in found["one"].why
    assert (tool.rows(found["nothing"], 10**9 - 1, 1) == 2.5).all()
    assert tool.rows(found["one"], 5, 1)[0, :11].tolist() == [1] * 10 + [2.5]
    assert time.monotonic() - start < 60


def test_other_files_are_not_read_without_leave(tool: Tool, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_bytes(b"hush" * 100)
    other, path = tmp_path / "other.h5", tmp_path / "a.h5"
    with h5py.File(other, "w") as f:
        f["y"] = np.arange(7)
        f.create_dataset("z", (0,), "i4", maxshape=(None,))
    with h5py.File(path, "w") as f:
        f.create_dataset("storage", (400,), "u1", external=[(str(secret), 0, 400)])
        f["link"] = h5py.ExternalLink(str(other), "/y")
        f["by way of"] = h5py.SoftLink("/link")
        layout = h5py.VirtualLayout((7,), "i8")
        layout[:] = h5py.VirtualSource(str(other), "y", (7,))
        f.create_virtual_dataset("virtual", layout)
    found = tool.open(path)
    assert sorted(found) == ["link", "storage", "virtual"]
    for a in found.values():
        assert a.storage == "opaque" and "refused without allow_external" in a.why
        with pytest.raises(Refused) as e:
            tool.rows(a)
        assert b"hush".decode() not in str(e.value)
    with pytest.raises(Refused, match="allow_external=True") as e:
        tool.rows(found["storage"])
    assert e.value.code == FB_E_UNSUPPORTED
    found = tool.open(path, allows_external=True)
    assert tool.rows(found["storage"]).tobytes() == secret.read_bytes()
    for name in ("link", "by way of", "virtual"):
        assert tool.rows(found[name]).tolist() == list(range(7)), name


def test_an_unknown_filter_is_named_with_the_package_that_has_it(tool: Tool, tmp_path: Path) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=np.arange(100), chunks=(50,), **hdf5plugin.Blosc())
        f.create_dataset("y", data=np.arange(100), chunks=(50,))
    found = tool.open(path)
    assert "32001" in found["x"].why and "hdf5plugin" in found["x"].why
    with pytest.raises(Refused, match="32001.*hdf5plugin") as e:
        tool.rows(found["x"])
    assert e.value.code == FB_E_UNSUPPORTED
    assert tool.rows(found["y"])[-1] == 99


def test_plug_ins_named_by_the_environment_are_not_loaded(tmp_path: Path) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=np.arange(100), chunks=(50,), **hdf5plugin.Blosc())
    tool = Tool(HDF5_PLUGIN_PATH=hdf5plugin.PLUGIN_PATH)
    with pytest.raises(Refused, match="not read here"):
        tool.rows(tool.open(path)["x"])
    tool.close()


def test_a_newer_file_says_so(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as f:
        f.create_dataset("x", data=np.array([True, False]), chunks=(1,))
    try:
        found = tool.open(path)
    except Refused as e:
        assert e.code == FB_E_UNSUPPORTED and 'without libver="latest"' in str(e)
    else:
        assert tool.rows(found["x"]).tolist() == [1, 0]


def small_files(tmp_path: Path, good: Path) -> list[bytes]:
    files = [good.read_bytes()]
    with h5py.File(tmp_path / "new.h5", "w", libver="v110") as f:
        f.create_dataset("g/x", data=np.arange(600).reshape(60, 10), chunks=(7, 4), maxshape=(None, 10), compression="gzip")
        f.create_dataset("s", data=np.arange(60, dtype="f4"), chunks=(60,))
        f["r"] = h5py.SoftLink("/g/x")
    files.append((tmp_path / "new.h5").read_bytes())
    if DATA.is_dir():
        files += [p.read_bytes() for p in sorted(DATA.glob("*")) if p.stat().st_size < 12000]
    return files


def test_random_damage_is_survived(tmp_path: Path, good: Path) -> None:
    """Bytes of the structure changed at random: an answer or a refusal within seconds, and the next file is read as ever."""
    tool = Tool(FULLBORE_HDF5_TIMEOUT="5")
    rng = np.random.default_rng(21)
    path = tmp_path / "damaged.h5"
    verdicts = {"read": 0, "refused": 0}
    files = small_files(tmp_path, good)
    for i in range(6000 if SOAK else 400):
        data = bytearray(files[i % len(files)])
        for _ in range(int(rng.integers(1, 9))):
            at = int(rng.integers(min(len(data), 4096 if rng.integers(2) else len(data))))
            data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
        path.write_bytes(data)
        try:
            for a in tool.open(path).values():
                rows = a.shape[0] if a.shape else 1
                try:
                    if np.prod(a.shape[1:], dtype=float) < 1e6:
                        tool.rows(a, 0, min(rows, 3))
                except Refused:
                    pass
            verdicts["read"] += 1
        except Refused:
            verdicts["refused"] += 1
    assert min(verdicts.values()) > 20, verdicts
    check_still_works(tool, good)
    tool.close()


# -------------------------------------------------------------------------------------------------------------- helpers

def make_helper(tmp_path: Path, body: str) -> Path:
    """A helper with a life of its own: `s` is its socket, `request()` waits for a question."""
    path = tmp_path / "helper"
    path.write_text(f"""#!{sys.executable}
import os, random, signal, socket, struct, sys, time
s = socket.socket(fileno=0)
def request():
    data = s.recv(8192)
    if not data: sys.exit(0)
    return data
def answer(code, payload, magic={MAGIC}, n=None):
    s.sendall(struct.pack("<IiQ", magic, code, len(payload) if n is None else n) + payload)
{body}
""")
    path.chmod(0o755)
    return path


LIES = {
    "crashes": ("request(); os.kill(os.getpid(), signal.SIGSEGV)", "crashed the HDF5 helper"),
    "exits": ("request()", "crashed the HDF5 helper"),
    "exits_at_once": ("", "crashed the HDF5 helper"),
    "hangs": ("request(); time.sleep(1000)", "exceeded the time limit of the HDF5 helper"),
    "stops_half_way": ("request(); s.sendall(b'fH51'); time.sleep(1000)", "exceeded the time limit"),
    "drips": ("request()\nfor b in struct.pack('<IiQ', 0x31354866, 0, 1 << 20) + bytes(1 << 20): s.sendall(bytes([b])); time.sleep(.1)",
              "exceeded the time limit"),
    "talks_nonsense": ("request(); s.sendall(random.Random(1).randbytes(1 << 16)); time.sleep(1000)", "send an invalid answer"),
    "claims_too_much": ("request(); answer(0, b'', n=1 << 60); time.sleep(1000)", "send an invalid answer"),
    "is_of_another_version": ("request(); answer(0, b'', magic=1)", "send an invalid answer"),
    "promises_a_positive_code": ("request(); answer(5, b'')", "send an invalid answer"),
    "sends_an_empty_record": ("\nwhile True: request(); answer(0, b'')", "is damaged"),
    "sends_a_random_record": ("\nwhile True: request(); answer(0, random.Random(2).randbytes(500))", "is damaged"),
    "speaks_of_npy": ("\nwhile True: request(); answer(0, bytes([2, 0, 0]))", "another format"),
    "lies_about_offsets": (
        "\nwhile True: request(); answer(0, b'\\2\\3\\1\\1x' + bytes([11, 0, 4, 0, 0, 1, 100, 0xff, 0xff, 0x7f, 0x90, 3]))",
        "reaches beyond the end"),
    "names_a_strange_code": ("\nwhile True: request(); answer(-77, b'so there')", "so there"),
    "speaks_in_colours": ("\nwhile True: request(); answer(-3, b'\\x1b[31mred\\x07' + bytes(1) + b'\\x1b[0m')", "red"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_helper_that(lie: str, tmp_path: Path, good: Path) -> None:
    body, words = LIES[lie]
    tool = Tool(make_helper(tmp_path, body), FULLBORE_HDF5_TIMEOUT="2")
    start = time.monotonic()
    said = refused(tool, good, words=words)
    assert "\x1b" not in said and "\x07" not in said
    assert time.monotonic() - start < 10
    refused(tool, good)  # and again, with another one
    assert len(children(tool.pid)) <= 1
    tool.close()


def test_rows_of_another_size_are_refused(tmp_path: Path, good: Path) -> None:
    record = bytes([2, 3, 1, 1]) + b"x" + bytes([1, 0, 1, 0, 6, 1, 100, 3]) + b"why"
    body = f"while True:\n    q = request()\n    if q[4] == 1: answer(0, {record!r})\n    else: answer(0, bytes(99))"
    tool = Tool(make_helper(tmp_path, body), FULLBORE_HDF5_TIMEOUT="2")
    a = tool.open(good)["x"]
    assert a.storage == "opaque" and a.shape == (100,)
    with pytest.raises(Refused, match="send an invalid answer"):
        tool.rows(a)
    tool.close()


@pytest.mark.parametrize("what", ["missing", "not executable", "a folder", "not a program"])
def test_no_helper_is_said_with_the_remedy(tmp_path: Path, good: Path, what: str) -> None:
    path = tmp_path / "helper"
    if what == "a folder":
        path.mkdir()
    elif what != "missing":
        path.write_bytes(b"\x7fELF nonsense")
        path.chmod(0o755 if what == "not a program" else 0o644)
    tool = Tool(path)
    with pytest.raises(Refused, match="fullbore-hdf5|start the HDF5 helper"):
        tool.open(good)
    tool.close()


PLACES = [("bin", "bin"), ("bin", "libexec/fullbore"), ("lib/python3.11/site-packages/x", "libexec/fullbore"),
          ("bin", "lib/python3.13/site-packages/fullbore")]


@pytest.mark.parametrize("tool_at, helper_at", PLACES)
def test_the_helper_is_found_near_the_program(tmp_path: Path, good: Path, tool_at: str, helper_at: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, program in ((tool_at, TOOL), (helper_at, HELPER)):
        (tmp_path / "prefix" / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(program, tmp_path / "prefix" / folder)
    monkeypatch.setattr(h5_tool, "TOOL", tmp_path / "prefix" / tool_at / TOOL.name)
    tool = Tool("")
    check_still_works(tool, good)
    (child,) = children(tool.pid)
    assert os.readlink(f"/proc/{child}/exe") == str(tmp_path / "prefix" / helper_at / HELPER.name)
    tool.close()


def test_a_helper_killed_between_files_is_replaced_unnoticed(tool: Tool, good: Path) -> None:
    for _ in range(3):
        check_still_works(tool, good)
        (child,) = children(tool.pid)
        os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
    check_still_works(tool, good)


def test_one_helper_serves_many_files(tool: Tool, good: Path) -> None:
    check_still_works(tool, good)
    first = children(tool.pid)
    for _ in range(50):
        check_still_works(tool, good)
    assert children(tool.pid) == first


def test_helpers_are_limited_and_hold_nothing_open(tool: Tool, good: Path) -> None:
    check_still_works(tool, good)
    (child,) = children(tool.pid)
    limits = Path(f"/proc/{child}/limits").read_text()
    for name in ("Max core file size", "Max file size"):
        assert next(line for line in limits.splitlines() if line.startswith(name)).split()[4] == "0", name
    assert "NoNewPrivs:\t1" in Path(f"/proc/{child}/status").read_text()
    held = {os.readlink(f"/proc/{child}/fd/{fd}") for fd in os.listdir(f"/proc/{child}/fd")}
    assert all(h.startswith("socket:") or h == "/dev/null" for h in held), held


def test_helpers_end_with_the_process_however_it_ends(good: Path) -> None:
    tool = Tool()
    check_still_works(tool, good)
    (child,) = children(tool.pid)
    os.kill(tool.pid, signal.SIGKILL)
    tool._process.wait(10)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()
