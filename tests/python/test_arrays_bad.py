"""Bad arrays: each is named with its cause, none ends the process, and with on_error="skip" everything else comes as it would have."""

from __future__ import annotations

import os
import stat
import struct
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np
import pytest
import soundfile
from array_files import (
    ROWS,
    WIDTH,
    chunk_places,
    epoch_of,
    keys_of,
    make_bags,
    make_rows,
    numbers,
    open_arrays,
    overwrite,
    row_of_key,
    spoil_chunks,
    write_h5,
)
from trust import audit, audited

FIELDS = ("features", "labels")


def refused(source: Any, match: str, kind: type[fb.Error] = fb.Error, **arguments: Any) -> fb.Error:
    """Opening, or else the first epoch, fails with these words."""
    with pytest.raises(kind, match=match) as caught, open_arrays(source, **arguments) as loader:
        for _ in loader:
            pass
    return caught.value


def bags(folder: Path, **arguments: Any) -> dict[str, Any]:
    return {"source": f"{folder}/*.h5", "sample": "file", "collate": fb.Pad(), "batch_size": 4, "fields": ("features", "coords"),
            **arguments}


def bags_left(folder: Path, bad: dict[str, str]) -> None:
    """With skip, the bad files are named with their causes, and all others come where they would have."""
    orders = []
    for threads in (1, 3):
        with open_arrays(**bags(folder), on_error="skip", shuffle=True, seed=2, threads=threads) as loader:
            orders.append([key for batch in loader for key in batch.sample_keys])
            found = {Path(entry["path"]).name: entry["cause"] for entry in loader.stats()["bad_samples"]}
        assert found.keys() == bad.keys(), found
        assert all(words in found[name] for name, words in bad.items()), found
    assert orders[0] == orders[1] and not set(orders[0]) & set(bad)
    names = sorted(path.name for path in folder.glob("*.h5"))
    good = folder.with_name(folder.name + "_good")
    make_bags(good, len(names))
    with open_arrays(**bags(good), shuffle=True, seed=2) as loader:
        whole = [key for batch in loader for key in batch.sample_keys]
    assert all(a == b for a, b in zip(orders[0], whole, strict=True) if b not in bad)


# ---- truncated, wrong magic


def test_a_truncated_file_of_rows(tmp_path: Path) -> None:
    for layout in ("contiguous", "chunks", "gzip"):
        path = make_rows(tmp_path / "a.h5", layout)
        os.truncate(path, path.stat().st_size * 2 // 3)
        refused(path, r"a\.h5.*(truncated|cut|ends)")
    np.save(tmp_path / "a.npy", numbers())
    os.truncate(tmp_path / "a.npy", 10_000)
    refused(tmp_path / "a.npy", r"a\.npy.*(end|cut|bytes)")


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"%PDF-1.4 this is not it" * 10)
    refused(tmp_path / "a.h5", r"a\.h5: it is neither sound nor an array")
    (tmp_path / "b.npy").write_bytes(b"")
    refused(tmp_path / "b.npy", r"b\.npy: the file is empty")


def test_truncated_and_foreign_bags(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    make_bags(folder, 14, compression="gzip")
    os.truncate(folder / "slide_03.h5", 700)
    (folder / "slide_07.h5").write_bytes(b"<html>404 not found</html>")
    (folder / "slide_09.h5").write_bytes(b"")
    refused(**bags(folder), match=r"slide_03\.h5")
    bags_left(folder, {"slide_03.h5": "truncated", "slide_07.h5": "neither sound nor an array", "slide_09.h5": "empty"})


# ---- missing datasets, row counts, dtypes


def test_a_missing_field_is_named_with_what_there_is(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    refused(path, r"a\.h5: there is no array 'featurs' in it; it has: features, labels", fields=["featurs"])
    refused(path, r"a\.h5: there is no array 'y' in it; it has: features, labels", fields=["features", "y"])
    write_h5(tmp_path / "b.h5", {"features": numbers(10)})
    refused(f"{tmp_path}/*.h5", r"b\.h5: there is no array 'labels' in it; it has: features", fields=FIELDS)
    np.save(tmp_path / "c.npy", numbers(10))
    refused([str(path), str(tmp_path / "c.npy")], r"c\.npy: there is no array 'labels' in it; it has: one array without a name",
            fields=["labels"])


def test_an_array_behind_the_256th_is_not_said_to_be_missing(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "a.h5", {f"x{i:03}": np.arange(6).reshape(3, 2) for i in range(257)})
    refused(path, r"a\.h5: there is no array 'x256' among its first 256 arrays.*nearer to the root", fields=["x256"])
    with open_arrays(path, fields=["x255"], batch_size=3) as loader:
        np.testing.assert_array_equal(next(iter(loader))[0], np.arange(6).reshape(3, 2))


def test_a_bag_without_the_field(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    make_bags(folder, 12)
    write_h5(folder / "slide_05.h5", {"features": numbers(7, 6)})
    refused(**bags(folder), match=r"slide_05\.h5: there is no array 'coords' in it")
    bags_left(folder, {"slide_05.h5": "there is no array 'coords' in it"})


def test_arrays_of_different_row_counts(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "a.h5", {"features": numbers(50), "labels": np.arange(49)})
    refused(path, r"a\.h5: 'features' has 50 rows, 'labels' 49; choose arrays of one length", fields=FIELDS)


def test_bags_whose_fields_differ_in_length(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    make_bags(folder, 12)
    write_h5(folder / "slide_05.h5", {"features": numbers(7, 6), "coords": np.zeros((6, 2), np.int32), "slide": np.zeros(3)})
    refused(**bags(folder), match=r"slide_05\.h5.*'coords' has neither as many rows as 'features' nor the same shape")


def test_a_dtype_or_shape_that_changes_between_files(tmp_path: Path) -> None:
    make_rows(tmp_path / "a.h5", rows=20)
    write_h5(tmp_path / "b.h5", {"features": numbers(20).astype("f8"), "labels": np.arange(20)})
    refused(f"{tmp_path}/*.h5", rf"b\.h5: a row of 'features' is float64 of {WIDTH} here, but float32 of {WIDTH} in the first file")
    write_h5(tmp_path / "b.h5", {"features": numbers(20, 5), "labels": np.arange(20)})
    refused(f"{tmp_path}/*.h5", rf"b\.h5: a row of 'features' is float32 of 5 here, but float32 of {WIDTH} in the first file")


def test_a_bag_of_another_dtype(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    make_bags(folder, 12)
    write_h5(folder / "slide_05.h5", {"features": numbers(7, 6, dtype="f8"), "coords": np.zeros((7, 2), np.int32), "slide": np.zeros(3)})
    refused(**bags(folder), match=r"slide_05\.h5: 'features' is float64 with 2 dimensions, of another type or shape")
    bags_left(folder, {"slide_05.h5": "of another type or shape"})


# ---- chunks


def test_a_chunk_beyond_the_end_of_the_file(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip")
    old = struct.pack("<Q", chunk_places(path)[3][0])
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, struct.pack("<Q", 1 << 40)))
    refused(path, r'a\.h5.*"?features"?.*1099511627776')


def test_a_corrupt_stream_says_where_and_by_which_filter(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip")
    spoil_chunks(path, [3])
    error = refused(path, r"a\.h5.*deflate", kind=fb.SampleError, fields=FIELDS)
    assert error.offset == chunk_places(path)[3][0] and error.stage == "decode"
    path = make_rows(tmp_path / "b.h5", "gzip shuffle fletcher32")
    offset, length = chunk_places(path)[5]
    overwrite(path, offset + length - 4, b"\0\1\2\3")
    refused(path, r"b\.h5.*(fletcher32|checksum|sum)", kind=fb.SampleError)


@pytest.mark.parametrize("layout", ["gzip", "split columns gzip"])
@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}, {"preload": True}, {"shuffle": "window", "window": 256}])
def test_rows_of_corrupt_chunks_are_replaced_and_nothing_else_moves(tmp_path: Path, layout: str, options: dict[str, Any]) -> None:
    order = {"shuffle": True, "seed": 6, "fields": FIELDS, **options}
    whole = keys_of(make_rows(tmp_path / "a.h5", layout), **order)
    path = make_rows(tmp_path / "a.h5", layout)
    chunks = chunk_places(path)
    spoil_chunks(path, [2, len(chunks) - 2])
    beside = 1 if layout == "gzip" else 3
    height = 64 if layout == "gzip" else 30
    bad = {row for chunk in (2, len(chunks) - 2) for row in range(chunk // beside * height, chunk // beside * height + height)
           if row < ROWS}
    seen = []
    for threads in (1, 2, 3, 8):
        with open_arrays(path, **order, on_error="skip", threads=threads) as loader:
            keys = []
            for batch in loader:
                keys += batch.sample_keys
                rows = [row_of_key(key) for key in batch.sample_keys]
                np.testing.assert_array_equal(batch[0], numbers()[rows].astype(batch[0].dtype))
                np.testing.assert_array_equal(batch[1], rows)
            stats = loader.stats()
        seen.append(keys)
        named = {entry["path"].rsplit("/", 1)[-1] for entry in stats["bad_samples"]}
        assert named == {f"a.h5#{row}" for row in bad}
    assert all(keys == seen[0] for keys in seen)
    for got, wanted in zip(seen[0], whole, strict=True):
        assert row_of_key(got) not in bad
        assert got == wanted or row_of_key(wanted) in bad


def test_more_errors_than_allowed_end_the_epoch(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip")
    spoil_chunks(path, [1])
    with pytest.raises(fb.Error, match="max_errors|more than"), open_arrays(path, on_error="skip", max_errors=10) as loader:
        for _ in loader:
            pass


def test_skipped_rows_are_audited(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip")
    spoil_chunks(path, [4])
    with audited(tmp_path / "logs"), open_arrays(path, on_error="skip", shuffle=True) as loader:
        for _ in loader:
            pass
    code, report = audit(tmp_path / "logs")
    assert code == 0 and "a.h5#" in str(report)


def test_corrupt_bags(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    make_bags(folder, 12, compression="gzip")
    spoil_chunks(folder / "slide_02.h5", [0])
    spoil_chunks(folder / "slide_08.h5", [0], "coords")
    refused(**bags(folder), match=r"slide_02\.h5.*deflate", kind=fb.SampleError)
    bags_left(folder, {"slide_02.h5": "deflate", "slide_08.h5": "deflate"})


def test_stand_ins_of_any_length_fit_into_ragged_batches(tmp_path: Path) -> None:
    want = make_bags(tmp_path, 12, compression="gzip")
    for i in (1, 4, 9):
        spoil_chunks(tmp_path / f"slide_{i:02}.h5", [0])
    for collate in (fb.Pad(), fb.Ragged()):
        with open_arrays(**{**bags(tmp_path), "collate": collate}, on_error="skip", shuffle=True) as loader:
            for _ in range(3):
                for batch in loader:
                    for i, key in enumerate(batch.sample_keys):
                        n = len(want[key]["features"])
                        rows = batch[0][i] if isinstance(collate, fb.Ragged) else batch[0].values[i]
                        np.testing.assert_array_equal(rows[:n], want[key]["features"])
                        assert not rows[n:].any() and int(batch[0].lengths[i]) == n


def test_an_unknown_filter_is_named_with_the_package_that_has_it(tmp_path: Path) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=numbers(64), chunks=(32, WIDTH), **hdf5plugin.Blosc())
    refused(tmp_path / "a.h5", r"a\.h5.*32001.*hdf5plugin")


# ---- bags without instances, claims


def test_what_only_libhdf5_undoes_is_not_to_be_rewritten_with_what_it_lacks(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(6000).reshape(60, 100), chunks=(7, 100), scaleoffset=0, compression="lzf")
    refused(tmp_path / "a.h5", r"a\.h5: .*32000 \(lzf\), which is not read here; rewrite it once with .*, with gzip or without a filter",
            fields=["x"])


def test_rows_that_libhdf5_has_to_read_are_asked_for_by_name(tmp_path: Path) -> None:
    values = np.arange(6000).reshape(60, 100)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(7, 100), scaleoffset=0)
    refused(tmp_path / "a.h5", r"a\.h5: there is no array of plain numbers in it: 'x' has .*scaleoffset.*; .*fields=\['x'\]")
    with open_arrays(tmp_path / "a.h5", fields=["x"], batch_size=60) as loader:
        np.testing.assert_array_equal(next(iter(loader))[0], values)


def test_an_empty_bag(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    want = make_bags(folder, 6)
    empty = {"features": np.zeros((0, 6), "f4"), "coords": np.zeros((0, 2), np.int32), "slide": np.zeros(3)}
    write_h5(folder / "slide_02.h5", empty)
    with open_arrays(**bags(folder)) as loader:
        lengths = {key: int(batch[0].lengths[i]) for batch in loader for i, key in enumerate(batch.sample_keys)}
    assert lengths == {key: 0 if key == "slide_02.h5" else len(bag["features"]) for key, bag in want.items()}
    refused(**bags(folder, collate=None, transforms=[fb.SampleInstances(3)]), match=r"slide_02\.h5: the bag is empty", kind=fb.SampleError)


def test_a_file_without_rows(tmp_path: Path) -> None:
    refused(write_h5(tmp_path / "a.h5", {"x": np.zeros((0, 4), "f4")}), "no rows")
    refused(write_h5(tmp_path / "b.h5", {"x": np.float32(3)}), r"no rows|no array")


def test_claims_of_a_billion_rows(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (10**9, 10**6), "f8", chunks=(1, 1000), fillvalue=2.5)
    since = time.monotonic()
    with open_arrays(tmp_path / "a.h5", batch_size=1, shuffle=True, memory="256MiB") as loader:
        assert loader.sample_count == 10**9
        assert (next(iter(loader))[0] == 2.5).all()
    refused(tmp_path / "a.h5", "PiB|EiB|TiB|GiB", preload=True, batch_size=1, memory="256MiB")
    refused(f"{tmp_path}/*.h5", "memory budget", sample="file", collate=fb.Pad(), batch_size=1, memory="256MiB")
    assert time.monotonic() - since < 60
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000), }".ljust(117) + b"\n"
    (tmp_path / "b.npy").write_bytes(header + b"\0" * 4096)
    refused(tmp_path / "b.npy", r"b\.npy.*(end|bytes)")


@pytest.mark.parametrize("fields", [1, 7, 8, 9])
def test_claims_that_no_counter_holds_together(tmp_path: Path, fields: int) -> None:
    names = [f"f{i}" for i in range(fields)]
    for k in range(16):
        with h5py.File(tmp_path / f"{k}.h5", "w") as f:
            for name in names:
                f.create_dataset(name, shape=(4, 2**52), dtype="f8")  # never written: 2^57 bytes each
    with pytest.raises(fb.Error, match="too large|too small"):
        fb.Loader(tmp_path, fields=names, batch_size=16, sample="file")


def test_a_zip_bomb(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        head = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '|u1', 'fortran_order': False, 'shape': (268435456,), }".ljust(117) + b"\n"
        archive.writestr("x.npy", head + bytes(1 << 28))
    assert (tmp_path / "a.npz").stat().st_size < 1 << 20
    refused(tmp_path / "a.npz", "budget", memory="32MiB", sample="row", batch_size=4)
    refused(tmp_path / "a.npz", "budget", memory="32MiB", sample="file", batch_size=1)


def test_chunks_that_inflate_to_more_than_the_budget(tmp_path: Path) -> None:
    """A quarter of a megabyte on disk, 256 MB unfiltered."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((4096, 16384), "f4"), chunks=(4096, 16384), compression="gzip")
    assert (tmp_path / "a.h5").stat().st_size < 1 << 20
    refused(tmp_path / "a.h5", r"a\.h5.*budget", memory="32MiB", batch_size=1, threads=2)
    refused(f"{tmp_path}/*.h5", "budget", memory="32MiB", batch_size=1, sample="file", collate=fb.Pad(), threads=2)
    refused(f"{tmp_path}/*.h5", r"a\.h5.*budget", memory="32MiB", batch_size=1, sample="file", transforms=[fb.SampleInstances(2)],
            threads=2)


def test_a_recording_that_claims_a_billion_frames(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", np.zeros(5000), 8000, subtype="PCM_16")
    data = bytearray((tmp_path / "a.flac").read_bytes())
    packed = struct.unpack_from(">Q", data, 18)[0]
    struct.pack_into(">Q", data, 18, (packed & ~((1 << 36) - 1)) | 10**9)
    (tmp_path / "a.flac").write_bytes(data)
    refused(tmp_path, "budget", batch_size=1, memory="32MiB", collate=fb.Pad())
    refused(tmp_path, r"a\.flac.*(ends|frame)", batch_size=1, memory="32MiB", transforms=[fb.CropOrPad(6000)])


def test_pickles_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (os.system, (f"touch {tmp_path}/sprung",))

    np.save(tmp_path / "a.npy", np.array([Trap()] * 3, dtype=object), allow_pickle=True)
    refused(tmp_path / "a.npy", r"a\.npy.*(object|pickle)")
    assert not (tmp_path / "sprung").exists()


def test_other_files_are_not_read_without_leave(tmp_path: Path) -> None:
    numbers(10).tofile(tmp_path / "secret.bin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (10, WIDTH), "f4", external=[(str(tmp_path / "secret.bin"), 0, 10 * WIDTH * 4)])
    refused(tmp_path / "a.h5", r"allow_external", fields=["x"])
    np.testing.assert_array_equal(epoch_of(tmp_path / "a.h5", fields=["x"], allow_external=True), numbers(10))


# ---- files that change, reads that fail


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_a_file_replaced_while_open_stays_the_old_one(tmp_path: Path, layout: str) -> None:
    path = make_rows(tmp_path / "a.h5", layout)
    with open_arrays(path, shuffle=True, batch_size=8) as loader:
        running = iter(loader)
        first = next(running)
        make_rows(tmp_path / "new.h5", layout, seed=99).rename(path)
        for batch in [first, *running]:
            np.testing.assert_array_equal(batch[0], numbers()[batch[1]])


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_a_file_written_to_while_open_is_refused(tmp_path: Path, layout: str) -> None:
    path = make_rows(tmp_path / "a.h5", layout, rows=60_000)
    with open_arrays(path, shuffle=True, batch_size=64) as loader:
        running = iter(loader)
        next(running)
        overwrite(path, path.stat().st_size, b"more")
        with pytest.raises(fb.SampleError, match=r"a\.h5.*changed since the data set was opened"):
            for _ in running:
                pass
    with pytest.raises(fb.Error, match="changed since"), open_arrays(path, on_error="skip", batch_size=64) as loader:
        running = iter(loader)
        next(running)
        overwrite(path, path.stat().st_size, b"more")
        for _ in running:
            pass


def test_a_bag_that_was_replaced_by_a_longer_one_is_refused(tmp_path: Path) -> None:
    make_bags(tmp_path, 30)
    with open_arrays(**bags(tmp_path, batch_size=1)) as loader:
        running = iter(loader)
        next(running)
        for i in range(30):
            whole = write_h5(tmp_path / "new", {"features": numbers(90, 6), "coords": np.zeros((90 if i % 2 else 80, 2), np.int32),
                                                "slide": np.zeros(3)})
            whole.rename(tmp_path / f"slide_{i:02}.h5")  # at once: the engine reads meanwhile
        with pytest.raises(fb.SampleError, match=r"(has 90 rows, but \d+ were expected)|('coords' has 80 rows, 'features' 90)"):
            for _ in range(9):  # what was read ahead comes as it was
                for _ in running:
                    pass
                running = iter(loader)


def test_bags_that_vanish_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    make_bags(folder, 60)
    gone = folder / "slide_55.h5"
    with open_arrays(**bags(folder, batch_size=1)) as loader:
        gone.unlink()
        with pytest.raises(fb.SampleError, match=r"slide_55\.h5: it has vanished"):
            for _ in loader:
                pass


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_a_file_cut_while_open_is_an_error_not_a_crash(tmp_path: Path, layout: str) -> None:
    path = make_rows(tmp_path / "a.h5", layout, rows=60_000)
    with open_arrays(path, shuffle=True, batch_size=64) as loader:
        running = iter(loader)
        next(running)
        os.truncate(path, 5000)
        with pytest.raises(fb.SampleError, match=r"a\.h5"):
            for _ in running:
                pass


@pytest.mark.parametrize("layout", ["contiguous", "chunks", "gzip"])
def test_reads_that_fail_are_named_and_with_skip_tried_once_more(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_rows(tmp_path / "a.h5", layout)
    monkeypatch.setenv("FULLBORE_IO", "fault:error=EIO,p=0.2,seed=1")
    refused(path, r"a\.h5: cannot read the file: Input/output error", shuffle=True)
    with open_arrays(path, fields=FIELDS, shuffle=True, on_error="skip") as loader:
        rows = 0
        for batch in loader:
            np.testing.assert_array_equal(batch[0], numbers()[batch[1]])
            rows += len(batch[1])
    assert rows == ROWS


# ---- helpers that misbehave


HELPERS = {
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "import time; time.sleep(60)",
    "lies": "import sys, struct; sys.stdout.buffer.write(struct.pack('<IiQ', 0x31354866, 0, 40) + b'x' * 40); import time; time.sleep(1)",
    "talks nonsense": "print('hello ' * 1000)",
}

# Hands every question to the real one, but for those about slide_05.
TOUCHY = """#!{python}
import os, select, signal, socket, subprocess
here, (near, far) = socket.socket(fileno=0), socket.socketpair()
subprocess.Popen(["{real}"], stdin=far)
far.close()
while True:
    ready = select.select([here, near], [], [])[0]
    for one, other in ((here, near), (near, here)):
        data = one.recv(1 << 16) if one in ready else None
        if data == b"":
            os._exit(0)
        if data and one is here and b"slide_05" in data:
            {body}
        if data:
            other.sendall(data)
"""


@pytest.mark.parametrize(("body", "words"), [("os.kill(os.getpid(), signal.SIGSEGV)", "crashed the HDF5 helper"),
                                             ("signal.alarm(20), signal.pause()", "exceeded the time limit of the HDF5 helper"),
                                             ("here.sendall(b'x' * 64)", "send an invalid answer")])
def test_a_file_that_upsets_the_helper_is_one_bad_bag(tmp_path: Path, run_python: Any, body: str, words: str) -> None:
    make_bags(tmp_path / "slides", 9)
    real = os.environ.get("FULLBORE_HDF5_HELPER") or next(Path(sys.prefix).rglob("fullbore-hdf5"))
    helper = tmp_path / "helper"
    helper.write_text(TOUCHY.format(python=sys.executable, real=real, body=body))
    helper.chmod(0o755)
    done = run_python(SKIP, f"{tmp_path}/slides/*.h5", env={"FULLBORE_HDF5_HELPER": str(helper), "FULLBORE_HDF5_TIMEOUT": "3"}, timeout=100)
    assert done.returncode == 0, done.stderr
    seen, named, cause = done.stdout.splitlines()
    assert seen == "9" and named == "['slide_05.h5']" and words in cause, done.stdout


SKIP = """
import sys, fullbore as fb
with fb.Loader(sys.argv[1], sample="file", fields=["features"], collate=fb.Pad(), on_error="skip", framework="numpy",
               batch_size=3) as loader:
    keys = [key for batch in loader for key in batch.sample_keys]
    bad = loader.stats()["bad_samples"]
print(len(keys))
print(sorted({entry["path"].rsplit("/", 1)[-1] for entry in bad}))
print(bad[0]["cause"])
assert "slide_05.h5" not in keys
"""

TRY = """
import sys, fullbore as fb
for i in range(2):
    try:
        fb.Loader(sys.argv[1], framework="numpy")
    except fb.Error as error:
        print(error)
    else:
        sys.exit("it was believed")
"""


@pytest.mark.parametrize("way", list(HELPERS))
def test_a_helper_that(way: str, tmp_path: Path, run_python: Any) -> None:
    helper = tmp_path / "helper"
    helper.write_text(f"#!{sys.executable}\n{HELPERS[way]}\n")
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    path = make_rows(tmp_path / "a.h5")
    done = run_python(TRY, path, env={"FULLBORE_HDF5_HELPER": str(helper), "FULLBORE_HDF5_TIMEOUT": "2"})
    assert done.returncode == 0, done.stderr
    assert "a.h5: " in done.stdout and len(done.stdout.splitlines()) == 2, done.stdout
