"""HDF5 with other chunks: h5py is the oracle for everything that must stay, and for the chunks that must differ."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
IS_SOAK = bool(os.environ.get("FB_SOAK"))


def run(*args: object, code: int = 0) -> str:
    done = subprocess.run([COMMAND, "pack", *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stderr + done.stdout


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A bit of everything that people keep in HDF5 files."""
    rng = np.random.default_rng(0)
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as f:
        f.attrs["text"] = "Ümläut"
        f.attrs["numbers"] = np.arange(7, dtype=">i4")
        f.attrs["texts"] = ["a", "bc", ""]
        f.attrs["empty"] = h5py.Empty("f4")
        x = f.create_dataset("x", data=rng.normal(size=(1000, 33)).astype("f4"), chunks=(1000, 3), compression="gzip", shuffle=True)
        x.attrs["unit"] = "mV"
        f["plain"] = rng.integers(0, 255, (700, 16, 16), dtype=np.uint8)
        f.create_dataset("grows", data=rng.integers(0, 9, (101, 300)), maxshape=(None, 300), chunks=(50, 7), fillvalue=-5,
                         compression="gzip", compression_opts=9)
        f.create_dataset("checked", data=rng.normal(size=(500, 40)), chunks=(100, 40), fletcher32=True, shuffle=True)
        f.create_dataset("scaled", data=rng.integers(0, 9, (500, 40)), chunks=(100, 40), scaleoffset=0)
        f.create_dataset("sparse", shape=(4000, 64), dtype="f8", chunks=(1000, 64), fillvalue=2.5)[10:20] = 1
        f["scalar"] = 3.25
        f["small"] = np.arange(10)
        f["nothing"] = h5py.Empty("i2")
        f.create_dataset("no_rows", shape=(0, 5), maxshape=(None, 5), chunks=(10, 5), dtype="i2")
        g = f.create_group("deep/er", track_order=True)
        for name in ("second", "first"):
            g.attrs[name] = 1
        for name in ("z", "a", "m"):
            g[name] = np.arange(30000).reshape(3000, 10)
        f.create_dataset("texts", data=["word " * (i % 9) for i in range(3000)], dtype=h5py.string_dtype(), chunks=(100,))
        f.create_dataset("ragged", (200,), dtype=h5py.vlen_dtype("f4"), chunks=(10,))
        for i in range(200):
            f["ragged"][i] = np.arange(i % 11, dtype="f4")
        f["rows"] = np.array([(i, i / 3, b"abc") for i in range(5000)], dtype=[("i", "i8"), ("v", ">f4"), ("s", "S5")])
        f["flags"] = rng.random(90000) < 0.5
        f["half"] = rng.normal(size=(9000, 8)).astype("f2")
        f["kind"] = np.dtype([("a", "i4")])
        f["again"] = f["x"]
        f["soft"] = h5py.SoftLink("/deep/er/a")
        f["dangling"] = h5py.SoftLink("/nowhere")
        f["circle"] = f["deep"]
        f["x"].dims[0].label = "time"
        f["axis"] = np.arange(1000.0)
        f["axis"].make_scale("time")
        f["x"].dims[0].attach_scale(f["axis"])
        f.create_dataset("references", data=[f["x"].ref, f["deep/er"].ref, f["small"].ref], dtype=h5py.ref_dtype)
        f.attrs["reference"] = f["texts"].ref
    return path


def name_of(file: h5py.File, o: object) -> str:
    """Of the names that an object has, the first."""
    names: list[str] = []
    file.visit_links(names.append)
    return min(n for n in names if file.get(n) == o)


def refer(file: h5py.File, value: object) -> object:
    """References by what they lead to."""
    if isinstance(value, h5py.Reference):
        return name_of(file, file[value]) if value else None
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return [refer(file, v) for v in value]
    if isinstance(value, np.void):
        return [refer(file, value[n]) for n in value.dtype.names]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def attributes(file: h5py.File, o: object) -> dict:
    return {"names": list(o.attrs)} | {k: (str(o.attrs.get_id(k).dtype), refer(file, o.attrs[k])) for k in o.attrs}


def describe(path: Path) -> dict:
    found: dict = {}
    with h5py.File(path) as f:
        def walk(group: h5py.Group, at: str) -> None:
            found[at or "/"] = ("group", list(group), attributes(f, group))
            for name in group:
                link, here = group.get(name, getlink=True), f"{at}/{name}"
                if isinstance(link, h5py.SoftLink):
                    found[here] = ("soft", link.path)
                elif isinstance(link, h5py.ExternalLink):
                    found[here] = ("external", link.filename, link.path)
                elif group[name] in seen:
                    found[here] = ("hard", seen[group[name]])
                else:
                    seen[group[name]] = here
                    if isinstance(group[name], h5py.Group):
                        walk(group[name], here)
                    elif isinstance(group[name], h5py.Dataset):
                        d = group[name]
                        found[here] = ("dataset", d.shape, d.maxshape, str(d.dtype), repr(d.fillvalue), attributes(f, d))
                    else:
                        found[here] = ("type", str(group[name].dtype), attributes(f, group[name]))
        seen: dict = {}
        walk(f, "")
    return found


def assert_equal_data(a: Path, b: Path) -> int:
    count = 0
    with h5py.File(a) as x, h5py.File(b) as y:
        for name, kind in describe(a).items():
            if kind[0] != "dataset":
                continue
            count += 1
            old, new = x[name], y[name]
            if old.shape is None:
                assert new.shape is None
            elif old.dtype.hasobject:
                assert [refer(x, v) for v in np.atleast_1d(old[()])] == [refer(y, v) for v in np.atleast_1d(new[()])], name
            else:
                assert old[()].tobytes() == new[()].tobytes(), name
    return count


def filters(d: h5py.Dataset) -> list:
    p = d.id.get_create_plist()
    return [p.get_filter(i)[0] for i in range(p.get_nfilters())]


@pytest.mark.parametrize("compress", ["keep", "none", "gzip"])
def test_everything_stays_but_the_chunks(source: Path, tmp_path: Path, compress: str) -> None:
    out = tmp_path / "o.h5"
    answer = json.loads(run(source, "-o", out, "--rechunk", 64, "--compress", compress, "--json"))
    assert describe(out) == describe(source)
    assert assert_equal_data(source, out) == answer["datasets"] == 20
    with h5py.File(source) as old, h5py.File(out) as new:
        for name, rows in [("x", 64), ("grows", 64), ("checked", 64), ("scaled", 64), ("sparse", 64), ("plain", 64), ("deep/er/a", 64),
                           ("flags", 4096), ("texts", 512)]:
            assert new[name].chunks == (rows, *old[name].shape[1:]), name
            kept = filters(old[name])
            # texts lie elsewhere: their chunks hold addresses
            wanted = {"keep": kept, "none": [], "gzip": [] if name == "texts" else [2, 1]}
            assert filters(new[name]) == wanted[compress], name
        assert new["small"].chunks is None and new["scalar"].chunks is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.h5", "s.h5"]


def test_the_bytes_do_not_depend_on_threads_or_time(source: Path, tmp_path: Path) -> None:
    made = []
    for threads in (1, 2, 7):
        run(source, "-o", tmp_path / "o.h5", "--rechunk", 10, "--threads", threads, "--force")
        made.append((tmp_path / "o.h5").read_bytes())
        time.sleep(1.1)
    assert made[0] == made[1] == made[2]


def test_what_grows_later_is_filled_as_before(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.h5"
    run(source, "-o", out, "--rechunk", 64)
    with h5py.File(out, "a") as f:
        f["grows"].resize((150, 300))
        assert (f["grows"][101:] == -5).all()
        f["no_rows"].resize((3, 5))
        assert (f["no_rows"][:] == 0).all()


def test_large_rows_and_bands_of_many_chunks(tmp_path: Path) -> None:
    """More than one band of 256 MiB, chunks that divide neither bands nor rows."""
    rng = np.random.default_rng(1)
    path, out = tmp_path / "s.h5", tmp_path / "o.h5"
    data = rng.integers(0, 4, (331, 1 << 20), dtype=np.uint8)
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=data, chunks=(50, 1 << 16))
    run(path, "-o", out, "--rechunk", 7)
    with h5py.File(out) as f:
        assert f["x"].chunks == (7, 1 << 20)
        assert all((f["x"][i:i + 50] == data[i:i + 50]).all() for i in range(0, 331, 50))


def test_data_in_other_files_needs_leave(tmp_path: Path) -> None:
    other, out = tmp_path / "other.h5", tmp_path / "o.h5"
    with h5py.File(other, "w") as f:
        f["x"] = np.arange(100000.0).reshape(1000, 100)
    linked, virtual, stored = tmp_path / "linked.h5", tmp_path / "virtual.h5", tmp_path / "stored.h5"
    with h5py.File(linked, "w") as f:
        f["far"] = h5py.ExternalLink("other.h5", "/x")
    with h5py.File(virtual, "w") as f:
        layout = h5py.VirtualLayout((1000, 100), "f8")
        layout[:] = h5py.VirtualSource(str(other), "x", (1000, 100))
        f.create_virtual_dataset("far", layout)
    (tmp_path / "raw").write_bytes(np.arange(100000.0).tobytes())
    with h5py.File(stored, "w") as f:
        f.create_dataset("far", (1000, 100), "f8", external=[(str(tmp_path / "raw"), 0, 800000)])
    for path in (linked, virtual, stored):
        said = run(path, "-o", out, "--rechunk", 8, code=1)
        assert "far" in said and "--allow-external" in said and not out.exists()
        run(path, "-o", out, "--rechunk", 8, "--allow-external")
        with h5py.File(out) as f:
            assert (f["far"][()] == np.arange(100000.0).reshape(1000, 100)).all()
            assert f.get("far", getlink=True).__class__.__name__ == ("ExternalLink" if path == linked else "HardLink")
            assert path == linked or (f["far"].chunks == (8, 100) and not f["far"].is_virtual and not f["far"].external)
        out.unlink()


def test_what_cannot_be_kept_is_refused_by_name(tmp_path: Path) -> None:
    path, out = tmp_path / "s.h5", tmp_path / "o.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("squeezed", data=np.zeros((1000, 1000)), compression="lzf")
    assert "squeezed" in run(path, "-o", out, "--rechunk", 8, code=1)
    with h5py.File(path, "w") as f:
        f["x"] = np.arange(100)
        f.create_dataset("region", data=[f["x"].regionref[2:5]], dtype=h5py.regionref_dtype)
    assert "region" in run(path, "-o", out, "--rechunk", 8, code=1)
    with h5py.File(path, "w") as f:
        f.create_dataset("huge", (8, 1 << 20), "f8", chunks=(1, 1 << 10), maxshape=(None, 1 << 20))
    said = run(path, "-o", out, "--rechunk", 1000, code=1)
    assert "huge" in said and "fewer rows" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.h5"], "nothing is left behind"


@pytest.mark.parametrize("wrong", [["--rechunk", "0"], ["--rechunk", "8", "--resume"], ["--rechunk", "8", "--decode", "8x8"],
                                   ["--compress", "gzip"], ["--rechunk", "8", "--compress", "lzma"]])
def test_what_makes_no_sense_is_a_usage_error(source: Path, tmp_path: Path, wrong: list[str]) -> None:
    run(source, "-o", tmp_path / "o.h5", *wrong, code=2)
    run(source, "-o", tmp_path / "o.tar", "--rechunk", 8, code=2)
    assert not (tmp_path / "o.h5").exists()


def test_a_source_is_never_its_own_target(source: Path, tmp_path: Path) -> None:
    before = source.read_bytes()
    (tmp_path / "same.h5").hardlink_to(source)
    run(source, "-o", source, "--rechunk", 8, code=2)
    run(source, "-o", tmp_path / "same.h5", "--rechunk", 8, code=2)
    assert source.read_bytes() == before


def test_a_folder_is_refused_in_words(tmp_path: Path) -> None:
    said = run(tmp_path, "-o", tmp_path.parent / f"{tmp_path.name}.h5", "--rechunk", 4, code=2)
    assert "one HDF5 file" in said and "a folder" in said, said


def test_damaged_files_fail_in_words_and_leave_nothing(source: Path, tmp_path: Path) -> None:
    whole, rng, out, codes = source.read_bytes(), random.Random(7), tmp_path / "o.h5", set()
    bad = tmp_path / "bad.h5"
    for i in range(400 if IS_SOAK else 40):
        data = bytearray(whole)
        if i % 4 == 0:
            del data[rng.randrange(len(data)):]
        else:
            for _ in range(rng.randrange(1, 200)):
                data[rng.randrange(len(data) if i % 4 == 1 else 20000)] = rng.randrange(256)
        bad.write_bytes(data)
        done = subprocess.run([COMMAND, "pack", bad, "-o", out, "--rechunk", "64"], capture_output=True, text=True, errors="replace",
                              timeout=60)
        codes.add(done.returncode)
        assert done.returncode in (0, 1, 3), done.stderr
        assert (done.returncode == 0) == out.exists() and (done.returncode == 0 or len(done.stderr) > 20)
        out.unlink(missing_ok=True)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.h5", "s.h5"]
    assert 3 in codes


def test_a_kill_leaves_the_old_file_and_the_next_run_cleans_up(tmp_path: Path) -> None:
    path, out = tmp_path / "s.h5", tmp_path / "out" / "o.h5"
    out.parent.mkdir()
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=np.random.default_rng(0).integers(0, 9, (20000, 500)), chunks=(1000, 500), compression="gzip")
    began = time.monotonic()
    run(path, "-o", out, "--rechunk", 16)
    lasts, expected, rng, kills = time.monotonic() - began, out.read_bytes(), random.Random(1), 0
    out.write_bytes(b"the old one")
    for i in range(100 if IS_SOAK else 8):
        process = subprocess.Popen([COMMAND, "pack", path, "-o", out, "--rechunk", "16", "--force"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=rng.uniform(0, lasts))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL if i % 2 else signal.SIGINT)
            kills += process.wait() in (-9, -2, 130)  # or it was just through
        assert out.read_bytes() in (b"the old one", expected)
    run(path, "-o", out, "--rechunk", 16, "--force")
    assert out.read_bytes() == expected and kills > 0
    assert [p.name for p in out.parent.iterdir()] == ["o.h5"]


def test_an_output_that_is_there_stays_unless_forced(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.h5"
    out.write_bytes(b"the old one")
    assert "--force" in run(source, "-o", out, "--rechunk", 16, code=1)
    assert out.read_bytes() == b"the old one"
    run(source, "-o", out, "--rechunk", 16, "--force")
    assert out.read_bytes() != b"the old one"
    before = source.read_bytes()
    run(source, "-o", source, "--rechunk", 16, "--force", code=2)  # the source itself is never written to
    assert source.read_bytes() == before


def test_out_of_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path, disk = tmp_path / "s.h5", tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        with h5py.File(path, "w") as f:
            f["x"] = np.random.default_rng(0).normal(size=(1000, 1000))
        (disk / "o.h5").write_bytes(b"the old one")
        said = run(path, "-o", disk / "o.h5", "--rechunk", 8, "--force", code=1)
        assert "space" in said, said
        assert [(p.name, p.read_bytes()) for p in disk.iterdir()] == [("o.h5", b"the old one")]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_the_loader_reads_the_same_rows(source: Path, tmp_path: Path) -> None:
    import fullbore as fb
    run(source, "-o", tmp_path / "o.h5", "--rechunk", 4)
    one, two = (fb.Loader(p, batch_size=100, fields=["x"], sample="row", framework="numpy") for p in (source, tmp_path / "o.h5"))
    for a, b in zip(one, two, strict=True):
        assert (np.asarray(a[0]) == np.asarray(b[0])).all()
