"""Folders whose array files are not alike: byte order, layout, filters, fill value, gaps, length, order of axes, even format.

A seed makes a folder and a way to read it; h5py and numpy say what the rows are. What cannot be joined must be refused, never misread.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np
import pytest
from array_files import open_arrays
from trust import IS_SOAK

Array = np.ndarray[Any, Any]
SEEDS = range(2000 if IS_SOAK else 60)
KINDS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?")
ROW_SHAPES = ((), (3,), (97,), (300,), (300,), (9, 33), (16, 24), (2, 300))  # above 256 bytes they are not kept in memory


# ---- files


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "f":
        return (rng.integers(-2000, 2000, shape) / 8).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True, dtype=dtype.newbyteorder("=")).astype(dtype)


def some_filters(r: random.Random) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if r.random() < 0.7:
        out["compression"] = r.choice(["gzip", "lzf"])
    if r.random() < 0.5:
        out["shuffle"] = True
    if r.random() < 0.4:
        out["fletcher32"] = True
    return out


def some_chunks(r: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    rows = max(1, min(shape[0], r.choice([1, 2, 7, 16, 33, 200])))
    return (rows, *(d if r.random() < 0.6 else r.randint(1, d) for d in shape[1:]))


def compact(file: h5py.File, name: str, values: Array) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(values.shape)
    *group, last = name.split("/")
    parent = file.require_group(group[0]) if group else file
    data = h5py.h5d.create(parent.id, last.encode(), h5py.h5t.py_create(values.dtype, logical=True), space, dcpl=plist)
    h5py.Dataset(data)[...] = values


def write_h5(r: random.Random, path: Path, name: str, values: Array) -> None:
    fill = values.reshape(-1)[0] if values.size and r.random() < 0.7 else None
    with h5py.File(path, "w" if not path.exists() else "a", libver=r.choice([("earliest", "v110"), ("v110", "v110")])) as file:
        layout = r.choice(["contiguous", "compact", "chunked", "chunked", "filtered", "filtered"])
        if layout == "compact" and values.nbytes < 60000 and values.size:
            compact(file, name, values)
            return
        options: dict[str, Any] = {"fillvalue": fill}
        if layout in ("chunked", "filtered"):
            options["chunks"] = some_chunks(r, values.shape)
        if layout == "filtered":
            options |= some_filters(r)
        if "chunks" in options and (not len(values) or r.random() < 0.3):  # chunks larger than the array: only of one that may grow
            options["maxshape"] = (None, *values.shape[1:])
        data = file.create_dataset(name, values.shape, values.dtype, **options)
        if r.random() < 0.4 and len(values):  # partly written, or not at all
            first, last = sorted((r.randint(0, len(values)), r.randint(0, len(values))))
            data[first:last] = values[first:last]
        else:
            data[...] = values


def write_npy(r: random.Random, path: Path, name: str, values: Array) -> None:
    np.save(path, np.asfortranarray(values) if r.random() < 0.4 else values)


def write_npz(r: random.Random, path: Path, name: str, values: Array) -> None:
    save = r.choice([np.savez, np.savez_compressed])
    save(path, **{name: np.asfortranarray(values) if r.random() < 0.4 else values})


WRITERS: dict[str, Callable[[random.Random, Path, str, Array], None]] = {".h5": write_h5, ".npy": write_npy, ".npz": write_npz}


def read_back(path: Path, name: str) -> Array:
    """What h5py or numpy says is in it, in the machine's own byte order."""
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            values = file[name][()]
    else:
        loaded = np.load(path)
        values = loaded[name] if path.suffix == ".npz" else loaded
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="))).reshape(values.shape)


class Mixed:
    """A folder of files that have one kind of row and nothing else in common."""

    def __init__(self, seed: int, folder: Path, suffixes: tuple[str, ...], lengths: tuple[int, ...]) -> None:
        self.r = r = random.Random(seed)
        rng = np.random.default_rng(seed)
        kind, row = r.choice(KINDS), r.choice(ROW_SHAPES)
        self.name = "x" if r.random() < 0.8 else "group/x"
        folder.mkdir()
        self.want: dict[str, Array] = {}
        for i in range(r.randint(2, 4)):
            suffix = r.choice(suffixes) if i else suffixes[0]
            dtype = np.dtype(kind).newbyteorder(r.choice("<>"))
            path = folder / f"{i}{suffix}"
            name = self.name.replace("/", ".") if suffix == ".npz" else self.name
            WRITERS[suffix](r, path, name, numbers(rng, (r.choice(lengths), *row), dtype))
            self.want[path.name] = read_back(path, name)
        self.kind = np.dtype(kind)
        self.folder = folder

    @property
    def rows(self) -> int:
        return sum(len(values) for values in self.want.values())

    def wanted_dtype(self) -> str | None:
        return self.r.choice([None, None, "float32", "float64"]) if self.kind.kind == "f" else None

    def cast(self, values: Array, dtype: str | None) -> Array:
        return values.astype(dtype or values.dtype)


def some_way(r: random.Random) -> dict[str, Any]:
    return {
        "shuffle": r.choice([False, True, "window"]), "threads": r.randint(1, 3), "batch_size": r.choice([1, 7, 64, 200]),
        "seed": r.randint(0, 99), "memory": r.choice(["64MiB", "1GiB"]), **({"preload": True} if r.random() < 0.15 else {}),
    }


# ---- rows


def check_rows(mixed: Mixed, source: Any, dtype: str | None, **way: Any) -> None:
    seen: set[str] = set()
    with open_arrays(source, sample="row", dtype=dtype, **way) as loader:
        for _ in range(2):
            seen.clear()
            for batch in loader:
                values = batch[0]
                for i, key in enumerate(batch.sample_keys):
                    name, row = key.rsplit("#", 1)
                    want = mixed.cast(mixed.want[Path(name).name][int(row)], dtype)
                    assert values.dtype == want.dtype
                    np.testing.assert_array_equal(values[i], want, err_msg=f"{key} {way}")
                    seen.add(key)
            assert len(seen) == mixed.rows


@pytest.mark.parametrize("seed", SEEDS)
def test_a_folder_of_mixed_hdf5_files_gives_the_rows_h5py_gives(tmp_path: Path, seed: int) -> None:
    mixed = Mixed(seed, tmp_path / "mixed", (".h5",), (0, 1, 5, 64, 130, 300))
    if mixed.rows:
        check_rows(mixed, f"{mixed.folder}/*.h5", mixed.wanted_dtype(), fields=[mixed.name], **some_way(mixed.r))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_folder_of_mixed_npy_and_npz_files_gives_the_rows_numpy_gives(tmp_path: Path, seed: int) -> None:
    suffix = (".npy", ".npz")[seed % 2]
    mixed = Mixed(seed, tmp_path / "mixed", (suffix,), (0, 1, 5, 64, 130, 300))
    if mixed.rows:
        check_rows(mixed, f"{mixed.folder}/*{suffix}", mixed.wanted_dtype(), **some_way(mixed.r))


@pytest.mark.parametrize("seed", SEEDS[: len(SEEDS) // 3])
def test_rows_of_files_of_several_formats_are_joined(tmp_path: Path, seed: int) -> None:
    mixed = Mixed(seed, tmp_path / "mixed", (".npy", ".h5", ".npz"), (1, 5, 64, 130))  # the first has no name: any only array is it
    check_rows(mixed, [str(mixed.folder / name) for name in mixed.want], mixed.wanted_dtype(), **some_way(mixed.r))


@pytest.mark.parametrize("order", list(itertools.permutations("abcd")))
def test_the_order_of_mixed_files_does_not_matter(tmp_path: Path, order: tuple[str, ...]) -> None:
    values = {name: np.arange(i * 10**6, i * 10**6 + rows * 256, dtype="u4").reshape(rows, 256) for i, (name, rows) in
              enumerate({"a": 64, "b": 700, "c": 700, "d": 300}.items())}
    layouts: dict[str, dict[str, Any]] = {
        "a": {}, "b": {"chunks": (16, 256), "shuffle": True}, "c": {}, "d": {"chunks": (300, 256), "fillvalue": 7},
    }
    want = []
    for place, name in enumerate(order):
        with h5py.File(tmp_path / f"{place}.h5", "w") as file:
            data = file.create_dataset("x", values[name].shape, ">u4" if name in "cd" else "<u4", **layouts[name])
            if name != "d":  # never written
                data[...] = values[name]
            want.append(data[...].astype("u4"))
    with open_arrays(f"{tmp_path}/*.h5", shuffle=True, seed=3, threads=1) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                name, row = key.rsplit("#", 1)
                np.testing.assert_array_equal(batch[0][i], want[int(Path(name).stem)][int(row)], err_msg=key)


@pytest.mark.parametrize("suffix", [".h5", ".npy", ".npz"])
@pytest.mark.parametrize("other", [("i4", (300,)), ("f8", (300,)), ("f4", (301,)), ("f4", (300, 1)), ("f4", (30, 10))])
def test_rows_that_cannot_be_joined_are_refused_with_their_file(tmp_path: Path, suffix: str, other: tuple[str, tuple[int, ...]]) -> None:
    r = random.Random(0)
    WRITERS[suffix](r, tmp_path / f"a{suffix}", "x", np.ones((20, 300), "f4"))
    WRITERS[suffix](r, tmp_path / f"b{suffix}", "x", np.ones((20, *other[1]), other[0]))
    with pytest.raises(fb.Error, match=f"b{suffix}.*first file"):
        open_arrays(f"{tmp_path}/*{suffix}", sample="row")


# ---- files


def bag_at(field: Any, i: int) -> Array:
    """Sample i of a field, whatever its packing."""
    if isinstance(field, fb.RaggedRows):
        return np.array(field[i])
    return np.array(field.values[i, : int(field.lengths[i])]) if isinstance(field, fb.Padded) else np.array(field[i])


def check_bags(mixed: Mixed, source: Any, dtype: str | None, **way: Any) -> None:
    with open_arrays(source, sample="file", dtype=dtype, **way) as loader:
        for _ in range(2):
            seen = set()
            for batch in loader:
                for i, key in enumerate(batch.sample_keys):
                    want, got = mixed.cast(mixed.want[Path(key).name], dtype), bag_at(batch[0], i)
                    assert got.dtype == want.dtype and got.shape == want.shape, (key, way)
                    np.testing.assert_array_equal(got, want, err_msg=f"{key} {way}")
                    seen.add(Path(key).name)
            assert seen == set(mixed.want)


@pytest.mark.parametrize("seed", SEEDS)
def test_mixed_files_as_samples_equal_h5py_and_numpy(tmp_path: Path, seed: int) -> None:
    suffix = (".h5", ".npy", ".npz")[seed % 3]
    is_stacked = seed % 4 == 3
    mixed = Mixed(seed, tmp_path / "mixed", (suffix,), (40,) if is_stacked else (0, 1, 5, 64, 130))
    way = {k: v for k, v in some_way(mixed.r).items() if k not in ("preload", "batch_size")}
    way["collate"] = None if is_stacked else mixed.r.choice([fb.Pad(), fb.Ragged()])
    fields = {"fields": [mixed.name]} if suffix == ".h5" else {}
    check_bags(mixed, f"{mixed.folder}/*{suffix}", mixed.wanted_dtype(), batch_size=mixed.r.randint(1, 3), **way, **fields)


@pytest.mark.parametrize("io", ["slow:latency_us=300", "pread"])
@pytest.mark.parametrize("seed", SEEDS[: len(SEEDS) // 6])
def test_mixed_files_that_io_brings_are_the_same(tmp_path: Path, seed: int, io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLBORE_IO", io)
    mixed = Mixed(1000 + seed, tmp_path / "mixed", (".h5",), (1, 5, 64, 130))
    dtype = mixed.wanted_dtype()
    check_rows(mixed, f"{mixed.folder}/*.h5", dtype, fields=[mixed.name], **some_way(mixed.r))
    check_bags(mixed, f"{mixed.folder}/*.h5", dtype, fields=[mixed.name], collate=fb.Pad(), batch_size=2)


@pytest.mark.parametrize("seed", SEEDS[: len(SEEDS) // 3])
def test_instances_drawn_from_mixed_files_are_theirs(tmp_path: Path, seed: int) -> None:
    mixed = Mixed(seed, tmp_path / "mixed", ((".h5", ".npy", ".npz")[seed % 3],), (1, 5, 64, 130))
    fields = {"fields": [mixed.name]} if seed % 3 == 0 else {}
    drawn = {"sample": "file", "batch_size": 2, "transforms": [fb.SampleInstances(9)], "shuffle": True, **fields}
    with open_arrays(f"{mixed.folder}/*", **drawn) as loader:
        for _ in range(3):
            for batch in loader:
                for i, key in enumerate(batch.sample_keys):
                    want = mixed.want[Path(key).name]
                    there = {row.tobytes() for row in want}
                    assert all(row.tobytes() in there for row in np.ascontiguousarray(batch[0][i])), key


@pytest.mark.parametrize("seed", SEEDS[: len(SEEDS) // 3])
def test_unlike_files_are_joined_to_one_sample(tmp_path: Path, seed: int) -> None:
    mixed = Mixed(seed, tmp_path / "mixed", ((".h5", ".npy", ".npz")[seed % 3],), (0, 1, 5, 64))
    groups: dict[str, list[str]] = {}
    for name in mixed.want:
        groups.setdefault(mixed.r.choice("pq"), []).append(name)
    table = tmp_path / "table.csv"
    table.write_text("path,patient\n" + "".join(f"mixed/{name},{group}\n" for group, names in groups.items() for name in names))
    fields = {"fields": [mixed.name]} if seed % 3 == 0 else {}
    with open_arrays(table, group_by="patient", collate=fb.Ragged(), batch_size=2, **fields) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                np.testing.assert_array_equal(bag_at(batch[0], i), np.concatenate([mixed.want[name] for name in groups[key]]), err_msg=key)
