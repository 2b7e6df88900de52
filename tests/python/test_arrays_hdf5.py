"""HDF5 files of every make: user blocks, names that do not say what they are, links, up to eight dimensions. h5py says what is in them."""

from __future__ import annotations

import itertools
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np
import pytest
from array_files import COMMAND, open_arrays, taken

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
LIBVERS = ["earliest", "v108", "v110"]
DTYPES = ["u1", "<i2", ">i4", "<i8", "<f4", ">f8", "bool"]
MATLAB = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan 01 00:00:00 2024 HDF5 schema 1.00 .".ljust(124) + b"\x00\x02IM"
SEEDS = range(400 if os.environ.get("FB_SOAK") else 24)


def write_matlab(path: Path, values: np.ndarray[Any, Any], name: str = "x") -> Path:
    with h5py.File(path, "w", userblock_size=512) as file:
        file[name] = values
    with open(path, "r+b") as raw:
        raw.write(MATLAB)
    return path


def write_netcdf(path: Path, values: np.ndarray[Any, Any], name: str = "x") -> Path:
    with h5py.File(path, "w") as file:
        file[name] = values
        file.attrs["_NCProperties"] = "version=2,netcdf=4.9.0,hdf5=1.12.2"
    return path


def rows_of(source: Any, name: str, **arguments: Any) -> np.ndarray[Any, Any]:
    with open_arrays(source, fields=(name,), sample="row", batch_size=7, **arguments) as loader:
        return taken(loader)


def file_of(source: Any, name: str) -> np.ndarray[Any, Any]:
    with open_arrays(source, fields=(name,), sample="file", batch_size=1) as loader:
        return np.array(next(iter(loader))[0])[0]


def check_array(path: Path, name: str, expected: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(file_of(path, name), expected)
    if expected.ndim:
        np.testing.assert_array_equal(rows_of(path, name), expected)


# ---- a generator of files


def some_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return rng.integers(0, 2 if dtype == "bool" else 120, shape).astype(dtype)


def some_shape(rng: np.random.Generator, ndim: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 4 if ndim > 4 else 9, ndim))


def some_layout(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    kind = int(rng.integers(3)) if shape else 0
    chunks = tuple(int(rng.integers(1, n + 1)) for n in shape)
    return [{}, {"chunks": chunks}, {"chunks": chunks, "compression": "gzip", "shuffle": True}][kind]


def make_any(path: Path, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """What h5py gives for every name that leads to a dataset, links and second paths included."""
    rng = np.random.default_rng(seed)
    userblock = [0, 512, 1024, 2048, 4096, 1 << 16][int(rng.integers(6))]
    names = []
    with h5py.File(path, "w", userblock_size=userblock, libver=LIBVERS[seed % len(LIBVERS)]) as file:
        for i in range(4):
            name = ["top{}", "a/x{}", "a/b/x{}", "c/x{}"][i].format(i)
            shape, dtype = some_shape(rng, int(rng.integers(1, 9))), DTYPES[int(rng.integers(len(DTYPES)))]
            file.create_dataset(name, data=some_values(rng, shape, dtype), **some_layout(rng, shape))
            names.append(name)
        file["hard"] = file["a/x1"]
        file["soft"] = h5py.SoftLink("/a/b/x2")
        file["again"] = file["a"]                   # a second path to a group, and to the group in it
        file["c/deeper"] = file["a/b"]
        file["bend"] = h5py.SoftLink("/c")
        file["a/b/up"] = file["a"]                  # a circle
        file["a/root"] = file["/"]                  # and another
        file["c/loop"] = h5py.SoftLink("/c/loop")   # one that leads nowhere
        names += ["hard", "soft", "again/x1", "again/b/x2", "c/deeper/x2", "bend/x3"]
        if userblock:
            expected = {name: file[name][()] for name in names}
    if userblock:
        with open(path, "r+b") as raw:
            raw.write(rng.integers(32, 127, 300 if seed % 2 else userblock, dtype=np.uint8).tobytes())
        return expected
    with h5py.File(path) as file:
        return {name: file[name][()] for name in names}


@pytest.mark.parametrize("seed", SEEDS)
def test_files_of_every_make_give_what_h5py_gives(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "any.h5"
    for name, values in make_any(path, seed).items():
        check_array(path, name, values)


# ---- user blocks


@pytest.mark.parametrize("userblock", [512 << k for k in range(12)])
@pytest.mark.parametrize("libver", LIBVERS)
def test_a_user_block_of_any_size_is_passed_over(tmp_path: Path, userblock: int, libver: str) -> None:
    path = tmp_path / "a.h5"
    values = np.arange(60, dtype="<f8").reshape(20, 3)
    with h5py.File(path, "w", userblock_size=userblock, libver=libver) as file:
        file["plain"] = values
        file.create_dataset("chunked", data=values, chunks=(6, 2), compression="gzip")
    for name in ("plain", "chunked"):
        check_array(path, name, values)


def test_what_begins_as_something_else_is_that_whatever_follows(tmp_path: Path) -> None:
    """An .npy whose numbers happen to be an HDF5 file."""
    inner = tmp_path / "inner.h5"
    with h5py.File(inner, "w") as file:
        file["x"] = np.arange(5)
    numbers = np.frombuffer(bytes(512 - 128) + inner.read_bytes(), np.uint8)  # the header has 128 bytes
    np.save(tmp_path / "a.npy", numbers)
    assert (tmp_path / "a.npy").read_bytes()[512:520] == b"\x89HDF\r\n\x1a\n"
    with open_arrays(tmp_path / "a.npy", sample="row") as loader:
        np.testing.assert_array_equal(taken(loader), numbers)


# ---- names that do not say what they are

VALUES = np.arange(3000.0).reshape(1000, 3)
MAKES = {".mat": write_matlab, ".nc": write_netcdf, ".nc4": write_netcdf, ".NC": write_netcdf, ".h5ad": write_netcdf, ".loom": write_netcdf,
         "": write_netcdf}


@pytest.fixture(params=list(MAKES))
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "folder").mkdir()
    yield MAKES[request.param](tmp_path / "folder" / f"data{request.param}", VALUES)


def test_a_single_file_is_known_by_its_content(foreign: Path) -> None:
    check_array(foreign, "x", VALUES)
    with open_arrays(foreign) as loader:  # without any word about it
        np.testing.assert_array_equal(taken(loader), VALUES)


def test_a_list_a_folder_a_glob_and_a_manifest_are_known_by_content(foreign: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"path,label\nfolder/{foreign.name},3\n")
    for source in ([str(foreign)], foreign.parent, f"{foreign.parent}/*", table):
        np.testing.assert_array_equal(rows_of(source, "x"), VALUES)
        np.testing.assert_array_equal(file_of(source, "x"), VALUES)


def test_a_kept_catalog_still_knows(foreign: Path) -> None:
    for _ in range(3):
        np.testing.assert_array_equal(rows_of(f"{foreign.parent}/*", "x"), VALUES)
        np.testing.assert_array_equal(rows_of(foreign, "x"), VALUES)


def test_older_files_of_those_names_are_left_out_with_a_word(tmp_path: Path) -> None:
    """MATLAB before 7.3 and netCDF 3 are not HDF5."""
    (tmp_path / "old.mat").write_bytes(b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(2000))
    (tmp_path / "old.nc").write_bytes(b"CDF\x01".ljust(2000, b"\0"))
    with pytest.raises(fb.Error, match=r"none an image, sound or an array: \.mat 1, \.nc 1|\.nc 1, \.mat 1") as e:
        open_arrays(tmp_path)
    assert "7.3" in str(e.value)
    for name in ("old.mat", "old.nc"):
        with pytest.raises(fb.Error, match=name):
            open_arrays(tmp_path / name)
    write_matlab(tmp_path / "new.mat", VALUES)
    np.testing.assert_array_equal(rows_of(tmp_path, "x"), VALUES)


def test_names_of_other_kinds_are_read_from_a_list_and_a_folder_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(6).reshape(3, 2)
    with pytest.raises(fb.Error, match=r"none an image, sound or an array: \.bin 1.*not opened.* as a list"):
        open_arrays(tmp_path)
    with open_arrays([str(path)], batch_size=3) as loader:
        np.testing.assert_array_equal(next(iter(loader))[0], np.arange(6).reshape(3, 2))


def test_images_sound_and_plain_names_come_first(tmp_path: Path, photos: Path) -> None:
    """What a folder was before stays what it is: annotations beside pictures or arrays are no samples."""
    shutil.copytree(photos, tmp_path / "photos")
    write_matlab(tmp_path / "photos" / "boxes.mat", VALUES)
    with fb.Loader(tmp_path / "photos", batch_size=4, framework="numpy", transforms=[fb.CenterCrop(8)]) as loader:
        assert next(iter(loader))[0].ndim == 4
    (tmp_path / "arrays").mkdir()
    with h5py.File(tmp_path / "arrays" / "a.h5", "w") as file:
        file["x"] = VALUES[:10]
    write_matlab(tmp_path / "arrays" / "notes.mat", VALUES)
    np.testing.assert_array_equal(rows_of(tmp_path / "arrays", "x"), VALUES[:10])


def test_many_files_known_by_content_are_one_long_array(tmp_path: Path) -> None:
    for i in range(5):
        write_matlab(tmp_path / f"part{i}.mat", VALUES[i * 200 : (i + 1) * 200])
    np.testing.assert_array_equal(rows_of(f"{tmp_path}/*.mat", "x"), VALUES)


@pytest.mark.parametrize("name", ["a.h5", "a.nc"])
def test_a_folder_of_links_to_arrays_is_one_of_arrays(tmp_path: Path, name: str) -> None:
    write_netcdf(tmp_path / name, VALUES)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / name).symlink_to(tmp_path / name)
    np.testing.assert_array_equal(rows_of(tmp_path / "links", "x"), VALUES)


def test_an_archive_whose_first_member_is_hdf5_is_still_an_archive(tmp_path: Path, photos: Path) -> None:
    """The member's signature lies at byte 512, where that of a file with a user block would."""
    write_netcdf(tmp_path / "a.h5", VALUES)
    picture = next(photos.rglob("*.jpg"))
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(tmp_path / "a.h5", "a.h5")
        tar.add(picture, "a.jpg")
    assert (tmp_path / "a.tar").read_bytes()[512:516] == b"\x89HDF"
    with fb.Loader(tmp_path / "a.tar", batch_size=1, framework="numpy", transforms=[fb.CenterCrop(8)]) as loader:
        assert next(iter(loader))[0].shape == (1, 3, 8, 8)


def test_inside_an_archive_hdf5_is_refused_in_words(tmp_path: Path) -> None:
    path = write_matlab(tmp_path / "a.mat", VALUES)
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add(path, "a.mat")
    with pytest.raises(fb.Error, match=r"\.mat 1|archive"):
        open_arrays(tmp_path / "a.tar", sample="file")


# ---- dimensions


@pytest.mark.parametrize("ndim", [7, 8])
@pytest.mark.parametrize("layout", ["contiguous", "chunked", "npy"])
def test_arrays_of_eight_dimensions_come_as_rows_and_as_files(tmp_path: Path, ndim: int, layout: str) -> None:
    shape = (5, 2, 3, 1, 2, 2, 1, 3)[:ndim]
    values = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    path = tmp_path / f"a.{'npy' if layout == 'npy' else 'h5'}"
    name = "" if layout == "npy" else "x"
    if layout == "npy":
        np.save(path, values)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values, **({"chunks": tuple(min(2, n) for n in shape), "compression": "gzip"}
                                                     if layout == "chunked" else {}))
    options: dict[str, Any] = {"fields": (name,)} if name else {}
    for sample in ("row", "file"):
        with open_arrays(path, sample=sample, batch_size=5, **options) as loader:
            got = taken(loader)
        np.testing.assert_array_equal(got, values if sample == "row" else values[None])
    for collate in (fb.Pad(), fb.Ragged()):
        with open_arrays(path, sample="file", batch_size=1, collate=collate, **options) as loader:
            got = np.array(next(iter(loader))[0].values)
        np.testing.assert_array_equal(got, values[None] if isinstance(collate, fb.Pad) else values)


def test_more_dimensions_than_eight_are_refused_by_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep"] = np.zeros((2,) * 9)
        file["flat"] = np.arange(8.0)
    check_array(tmp_path / "a.h5", "flat", np.arange(8.0))
    for sample in ("row", "file"):
        with pytest.raises(fb.Error, match="deep.*dimensions"), open_arrays(tmp_path / "a.h5", fields=("deep",), sample=sample) as loader:
            next(iter(loader))


# ---- what cannot be read says so, by name


def make_odd(path: Path) -> list[str]:
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(4.0)
        file.create_dataset("words", data=["a", "bc", "d", "e"], dtype=h5py.string_dtype())
        file.create_dataset("mixed", (4,), np.dtype([("a", "i4"), ("b", h5py.string_dtype())]))
        region = file.create_dataset("regions", (4,), h5py.regionref_dtype)
        region[0] = file["good"].regionref[1:3]
        layout = h5py.VirtualLayout((4,), "f8")
        layout[:] = h5py.VirtualSource(str(path.parent / "elsewhere.h5"), "x", (4,))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("outside", (4,), "f8", external=[(str(path.parent / "raw"), 0, 32)])
        file["link"] = h5py.ExternalLink(str(path.parent / "elsewhere.h5"), "x")
    return ["words", "mixed", "virtual", "outside", "link"]


def test_arrays_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    names = make_odd(path)
    check_array(path, "good", np.arange(4.0))
    for name, sample in itertools.product(names, ("row", "file")):
        with (pytest.raises(fb.Error, match=f"{name}|variable-length"),
              open_arrays(path, fields=(name,), sample=sample, batch_size=4) as loader):
            next(iter(loader))


# ---- other people's files


def compare_with_h5py(path: Path) -> int:
    """Every dataset of numbers that h5py can read."""
    compared = 0
    with h5py.File(path) as file:
        found: dict[str, Any] = {}
        file.visititems(lambda name, thing: found.__setitem__(name, thing) if isinstance(thing, h5py.Dataset) else None)
        for name, dataset in found.items():
            try:
                is_number = dataset.dtype.kind in "biuf" and dataset.dtype.subdtype is None and dataset.shape is not None and dataset.size
            except TypeError:
                continue  # numpy has no such type
            if is_number and dataset.size < 1 << 20 and dataset.ndim <= 8:
                np.testing.assert_array_equal(file_of(path, name), dataset[()], err_msg=f"{path.name}:{name}")
                compared += 1
    return compared


FOREIGN = sorted((SHARED / "data" / "h5-pyfive").glob("*")) + sorted((SHARED / "repro").glob("*.h5"))


@pytest.mark.skipif(not FOREIGN, reason="the shared data folder is absent")
def test_other_peoples_hdf5_files_give_what_h5py_gives(tmp_path: Path) -> None:
    assert sum(compare_with_h5py(path) for path in FOREIGN) > 60


@pytest.mark.skipif(not (SHARED / "data" / "npy-go").is_dir(), reason="the shared data folder is absent")
def test_other_peoples_npy_files_give_what_numpy_gives() -> None:
    compared = 0
    for path in sorted((SHARED / "data" / "npy-go").glob("*.npy")):
        try:
            values = np.load(path)
        except ValueError:
            continue  # objects
        if values.dtype.kind in "biuf" and values.dtype.itemsize <= 8:
            np.testing.assert_array_equal(file_of_npy(path), values)
            compared += 1
    assert compared > 40


def file_of_npy(path: Path) -> np.ndarray[Any, Any]:
    with open_arrays(path, sample="file", batch_size=1) as loader:
        return np.array(next(iter(loader))[0])[0]


@pytest.mark.parametrize("ndim", [9, 12, 32])
@pytest.mark.parametrize("sample", ["row", "file"])
def test_arrays_of_more_dimensions_than_eight_are_refused_for_that_reason(tmp_path: Path, ndim: int, sample: Any) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros((2,) + (1,) * (ndim - 2) + (3,))
    with pytest.raises(fb.Error, match="more dimensions than 8"):
        with open_arrays([str(path)], fields=("x",), sample=sample, batch_size=1) as loader:
            next(iter(loader))


# ---- info sees the same


def test_info_and_the_loader_see_the_same_names(tmp_path: Path) -> None:
    import subprocess

    path = tmp_path / "any.h5"
    names = make_any(path, 3)
    said = subprocess.run([COMMAND, "info", path], capture_output=True, text=True, timeout=60).stdout
    assert all(f"{name}: " in said for name in names), said
