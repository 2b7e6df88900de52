"""Files that are replaced or written to while their pieces are under way: a sample is the old file or the new one, whole, or an error."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np
import pytest
import soundfile
from array_files import open_arrays

Array = np.ndarray[Any, Any]
LATENCY_S = 0.25


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads take a while, and nothing is known from earlier runs: there is no place to keep it."""
    monkeypatch.setenv("FULLBORE_IO", f"slow:latency_us={int(LATENCY_S * 1e6)}")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def values_of(version: int, rows: int) -> Array:
    r = np.random.default_rng(version)
    return (r.integers(0, 40, (rows, 6)) + version * 1000).astype("f4")


def npz(path: Path, values: Array, version: int) -> None:
    order = {"x": values, "pad": np.zeros(5000, "i8")} if version == 1 else {"pad": np.arange(5000), "x": np.asfortranarray(values)}
    (np.savez_compressed if version == 1 else np.savez)(path, **order)


def h5(path: Path, values: Array, version: int) -> None:
    with h5py.File(path, "w") as file:
        if version == 1:
            file.create_dataset("x", data=values, chunks=(16, 6), compression="gzip")
        else:
            file.create_dataset("pad", data=np.arange(20000))
            file.create_dataset("x", data=values.astype(">f4"), chunks=(50, 5), shuffle=True, compression="lzf")


def npy(path: Path, values: Array, version: int) -> None:
    np.save(path, values if version == 1 else np.asfortranarray(values.astype(">f4")))


WRITERS: dict[str, Callable[[Path, Array, int], None]] = {".npz": npz, ".h5": h5, ".npy": npy}


def replace(old: Path, new: Path) -> None:
    os.replace(new, old)


def write_over(old: Path, new: Path) -> None:
    old.write_bytes(new.read_bytes())


def write_same_size(old: Path, new: Path) -> None:
    size = old.stat().st_size
    with open(old, "r+b") as file:
        file.write(new.read_bytes()[:size].ljust(size, b"\0"))


def cut(old: Path, new: Path) -> None:
    os.truncate(old, old.stat().st_size // 2)


WAYS = [replace, write_over, write_same_size, cut]


def later(delay: float, way: Callable[[Path, Path], None], old: Path, new: Path) -> threading.Thread:
    def run() -> None:
        time.sleep(delay)
        way(old, new)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("rows", [300, 70])
def test_a_file_that_changes_while_it_is_read_is_one_version_or_an_error(tmp_path: Path, suffix: str, way: Any, rows: int) -> None:
    versions = [values_of(1, 300), values_of(2, rows)]
    folder, new = tmp_path / "data", tmp_path / f"new{suffix}"
    folder.mkdir()
    WRITERS[suffix](folder / f"a{suffix}", versions[0], 1)
    WRITERS[suffix](new, versions[1], 2)
    before = time.time() - 60
    os.utime(folder / f"a{suffix}", (before, before))
    fields = ["x"] if suffix != ".npy" else None
    with open_arrays(folder, sample="file", batch_size=1, collate=fb.Pad(), fields=fields, threads=1) as loader:
        thread = later(random.Random(rows).uniform(0.3, 0.6) * LATENCY_S, way, folder / f"a{suffix}", new)
        try:
            got = next(iter(loader))[0].values[0]
        except fb.Error as error:
            assert f"a{suffix}" in str(error)
        else:
            assert any(got.shape == v.shape and np.array_equal(got, v) for v in versions)
        thread.join()


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("subtype", ["PCM_16", "IMA_ADPCM"])
def test_a_recording_that_changes_while_it_is_read_is_one_version_or_an_error(tmp_path: Path, subtype: str, way: Any) -> None:
    folder, new = tmp_path / "data", tmp_path / "new.wav"
    folder.mkdir()
    old = folder / "a.wav"
    rng = np.random.default_rng(0)
    soundfile.write(old, rng.uniform(-0.4, 0.4, 600000), 16000, subtype=subtype)
    soundfile.write(new, rng.uniform(-0.4, 0.4, (600000, 1)), 16000, subtype="FLOAT")
    os.utime(old, (time.time() - 60, time.time() - 60))
    versions = [soundfile.read(path, dtype="float32")[0][:9000] for path in (old, new)]
    with open_arrays(folder, batch_size=1, transforms=[fb.CropOrPad(9000)], threads=1) as loader:
        thread = later(0.4 * LATENCY_S, way, old, new)
        try:
            got = next(iter(loader))[0][0]
        except fb.Error as error:
            assert "a.wav" in str(error)
        else:
            assert any(np.array_equal(got, v) for v in versions)
        thread.join()


@pytest.mark.parametrize("width", [6, 200])  # small rows are kept in memory
@pytest.mark.parametrize("unit", ["row", "file"])
def test_a_file_rewritten_in_its_place_between_two_starts_is_read_as_it_is_now(tmp_path: Path, width: int, unit: str) -> None:
    """The folder's time does not tell: the catalog, and what was learnt of the file, are older than it."""

    def write(path: Path, values: Array, **layout: Any) -> None:
        data = tmp_path / "new.h5"
        with h5py.File(data, "w") as file:
            file.create_dataset("x", data=values, **layout)
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.truncate(0)
            file.write(data.read_bytes())

    folder = tmp_path / "data"
    folder.mkdir()
    values = np.arange(2 * 120 * width, dtype="i4").reshape(2, 120, width)
    for i in range(2):
        write(folder / f"{i}.h5", values[0])
    os.utime(folder, (time.time() - 60, time.time() - 60))
    options = {"sample": unit, "batch_size": 60 if unit == "row" else 1}

    def rows() -> Array:
        with open_arrays(folder, **options) as loader:
            return np.concatenate([np.array(batch[0]).reshape(-1, width) for batch in loader])

    np.testing.assert_array_equal(rows(), np.concatenate([values[0], values[0]]))
    write(folder / "1.h5", values[1].astype(">i4"), chunks=(7, width), compression="gzip", shuffle=True)
    np.testing.assert_array_equal(rows(), np.concatenate([values[0], values[1]]))
    write(folder / "1.h5", values[0, :70])
    try:
        got = rows()
    except fb.Error as error:
        assert unit == "file" and "1.h5" in str(error)  # files of two shapes do not stack
    else:
        np.testing.assert_array_equal(got, np.concatenate([values[0], values[0, :70]]))
