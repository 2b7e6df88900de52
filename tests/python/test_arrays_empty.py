"""Arrays and recordings without a single number: batches of no bytes have the shape that numpy gives them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np
import pytest
import soundfile
from array_files import open_arrays
from trust import audited

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def no_endless_wait() -> Iterator[None]:
    """A batch that never comes fails its test instead of holding up all others."""

    def stop(*_: Any) -> None:
        raise TimeoutError("no batch came")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def h5_with(**options: Any) -> Callable[[Path, Array], Path]:
    def write(path: Path, values: Array) -> Path:
        path = path.with_suffix(".h5")
        grows = {"maxshape": tuple(None for _ in values.shape), "chunks": tuple(4 for _ in values.shape)} if options and values.ndim else {}
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=values, **(options | grows if values.ndim else {}))
        return path

    return write


def npy(path: Path, values: Array) -> Path:
    np.save(path.with_suffix(".npy"), values)
    return path.with_suffix(".npy")


def fortran(path: Path, values: Array) -> Path:
    return npy(path, np.asarray(values, order="F"))


def npz(path: Path, values: Array) -> Path:
    np.savez(path.with_suffix(".npz"), x=values)
    return path.with_suffix(".npz")


def deflated(path: Path, values: Array) -> Path:
    np.savez_compressed(path.with_suffix(".npz"), x=np.asarray(values, order="F"))
    return path.with_suffix(".npz")


def safetensors(path: Path, values: Array) -> Path:
    path = path.with_suffix(".safetensors")
    pytest.importorskip("safetensors.numpy").save_file({"x": np.ascontiguousarray(values).reshape(values.shape)}, path)
    return path


WRITERS: dict[str, Callable[[Path, Array], Path]] = {
    "npy": npy, "fortran": fortran, "npz": npz, "deflated": deflated, "safetensors": safetensors, "h5": h5_with(),
    "h5 chunks": h5_with(fillvalue=3), "h5 gzip": h5_with(compression="gzip"),
}
EMPTY = ((0,), (0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 2, 3), (2, 3, 0))


def folder_of(folder: Path, write: Callable[[Path, Array], Path], arrays: list[Array]) -> list[str]:
    return [str(write(folder / f"{i:02}", values)) for i, values in enumerate(arrays)]


def joined(batches: list[Array]) -> Array:
    return np.concatenate([np.array(b) for b in batches])


# ---- files


@pytest.mark.parametrize("shape", [*EMPTY, (), (1,)])
@pytest.mark.parametrize("kind", WRITERS)
def test_files_of_one_shape_are_stacked_even_if_it_has_no_numbers(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    arrays = [np.full(shape, i, "f4") for i in range(5)]
    with open_arrays(folder_of(tmp_path, WRITERS[kind], arrays), sample="file", batch_size=2) as loader:
        got = joined([batch[0] for batch in loader])
    assert got.dtype == np.float32 and got.shape == (5, *shape)
    np.testing.assert_array_equal(got, np.stack(arrays))


@pytest.mark.parametrize("rows", [[0, 0, 0, 0], [0, 3, 0, 2], [2, 0, 0, 0]])
@pytest.mark.parametrize("tail", [(), (3,), (0,), (2, 0)])
@pytest.mark.parametrize("kind", WRITERS)
def test_bags_without_rows_have_length_zero(tmp_path: Path, kind: str, tail: tuple[int, ...], rows: list[int]) -> None:
    arrays = [np.full((n, *tail), i, "f4") for i, n in enumerate(rows)]
    source = folder_of(tmp_path, WRITERS[kind], arrays)
    with open_arrays(source, sample="file", batch_size=2, collate=fb.Pad()) as loader:
        for k, batch in enumerate(loader):
            mine = rows[2 * k : 2 * k + 2]
            assert batch[0].lengths.tolist() == mine and batch[0].values.shape == (2, max(mine), *tail)
            assert batch[0].mask.shape == (2, max(mine))
            for i, n in enumerate(mine):
                np.testing.assert_array_equal(batch[0].values[i, :n], arrays[2 * k + i])
    with open_arrays(source, sample="file", batch_size=2, collate=fb.Ragged()) as loader:
        for k, batch in enumerate(loader):
            mine = rows[2 * k : 2 * k + 2]
            assert batch[0].offsets.tolist() == [0, *np.cumsum(mine).tolist()] and batch[0].values.shape == (sum(mine), *tail)
            np.testing.assert_array_equal(batch[0].values, np.concatenate(arrays[2 * k : 2 * k + 2]))


@pytest.mark.parametrize("collate", [None, fb.Pad(), fb.Ragged()])
def test_torch_gets_tensors_without_numbers(tmp_path: Path, collate: Any) -> None:
    torch = pytest.importorskip("torch")
    source = folder_of(tmp_path, npy, [np.zeros((0, 3), "f4")] * 4)
    with open_arrays(source, sample="file", batch_size=4, collate=collate, framework="torch") as loader:
        values = next(iter(loader))[0]
    values = getattr(values, "values", values) if collate else values
    assert isinstance(values, torch.Tensor) and values.shape == ((0, 3) if isinstance(collate, fb.Ragged) else (4, 0, 3))


def test_an_empty_field_stands_beside_others(tmp_path: Path) -> None:
    for i in range(3):
        np.savez(tmp_path / f"{i}.npz", x=np.full((2, 2), i, "f4"), none=np.zeros((0, 7), "i8"), one=np.float64(i))
    with open_arrays(f"{tmp_path}/*.npz", fields=("none", "x", "one"), batch_size=3) as loader:
        none, x, one = next(iter(loader))
    assert none.shape == (3, 0, 7) and none.dtype == np.int64
    np.testing.assert_array_equal(x[:, 0, 0], [0, 1, 2])
    np.testing.assert_array_equal(one, [0, 1, 2])


def test_no_instance_can_be_drawn_from_an_empty_bag(tmp_path: Path) -> None:
    source = folder_of(tmp_path, npy, [np.zeros((0, 3), "f4")])
    with open_arrays(source, sample="file", batch_size=1, transforms=[fb.SampleInstances(2)]) as loader:
        with pytest.raises(fb.SampleError, match="empty"):
            next(iter(loader))


def test_a_dataset_without_a_space_has_no_numbers(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.Empty("f4")
    with open_arrays(tmp_path / "a.h5", sample="file", batch_size=1) as loader:
        assert next(iter(loader))[0].size == 0


# ---- rows


@pytest.mark.parametrize("fields", [None, ["x"]])
@pytest.mark.parametrize("preload", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_rows_without_numbers_are_rows(tmp_path: Path, kind: str, preload: bool, fields: Any) -> None:
    if kind in ("npy", "fortran") and fields:
        return
    source = folder_of(tmp_path, WRITERS[kind], [np.zeros((3, 0), "f4"), np.zeros((0, 0), "f4"), np.zeros((4, 0), "f4")])
    with open_arrays(source, sample="row", batch_size=2, preload=preload, fields=fields, shuffle=True) as loader:
        assert len(loader) == 4 and [batch[0].shape for batch in loader] == [(2, 0), (2, 0), (2, 0), (1, 0)]


@pytest.mark.parametrize("kind", WRITERS)
def test_no_rows_at_all_is_said_at_once(tmp_path: Path, kind: str) -> None:
    with pytest.raises(fb.Error, match="no rows|no array"):
        open_arrays(folder_of(tmp_path, WRITERS[kind], [np.zeros((0, 3), "f4")] * 2), sample="row", batch_size=1)


# ---- sound


@pytest.fixture(params=["a.wav", "a.flac", "a.aiff", "adpcm.wav"])
def silent(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for i in range(4):
        subtype = "IMA_ADPCM" if request.param == "adpcm.wav" else "PCM_16"
        path = tmp_path / f"{i}{request.param}"
        soundfile.write(path, np.zeros((0, 1), "f4"), 16000, subtype=subtype)
        if not path.stat().st_size:
            pytest.skip("soundfile writes an empty file")
    return tmp_path


def test_recordings_without_a_sample(silent: Path) -> None:
    with open_arrays(silent, batch_size=4) as loader:
        assert next(iter(loader))[0].shape == (4, 0)
    with open_arrays(silent, batch_size=4, collate=fb.Pad()) as loader:
        clips = next(iter(loader))[0]
        assert clips.values.shape == (4, 0) and clips.lengths.tolist() == [0] * 4
    with open_arrays(silent, batch_size=4, collate=fb.Ragged()) as loader:
        clips = next(iter(loader))[0]
        assert clips.values.shape == (0,) and clips.offsets.tolist() == [0] * 5
    crop = fb.CropOrPad(100)
    for value, steps in ((0, [crop]), (0, [fb.Mono(), crop]), (-1, [crop, fb.Normalize([0.5], [0.5])])):
        with open_arrays(silent, batch_size=4, transforms=steps) as loader:
            np.testing.assert_array_equal(next(iter(loader))[0], np.full((4, 100), value))
    with open_arrays(silent, batch_size=4, transforms=[fb.CropOrPad(8000), fb.LogMel()]) as loader:
        assert np.isfinite(next(iter(loader))[0]).all()


def test_stereo_without_a_sample(tmp_path: Path) -> None:
    for i in range(3):
        soundfile.write(tmp_path / f"{i}.wav", np.zeros((0, 2), "f4"), 16000, subtype="PCM_16")
    with open_arrays(tmp_path, batch_size=3) as loader:
        assert next(iter(loader))[0].shape == (3, 2, 0)
    with open_arrays(tmp_path, batch_size=3, transforms=[fb.Mono()]) as loader:
        assert next(iter(loader))[0].shape == (3, 0)
    with open_arrays(tmp_path, batch_size=3, collate=fb.Pad()) as loader:
        assert next(iter(loader))[0].values.shape == (3, 0, 2)


def test_some_recordings_are_empty(tmp_path: Path) -> None:
    want = [np.linspace(-0.5, 0.5, n).astype("f4") for n in (0, 5, 0, 3)]
    for i, values in enumerate(want):
        soundfile.write(tmp_path / f"{i}.wav", values, 16000, subtype="FLOAT")
    with open_arrays(tmp_path, batch_size=2, collate=fb.Ragged()) as loader:
        got = [batch[0] for batch in loader]
    np.testing.assert_array_equal(np.concatenate([b.values for b in got]), np.concatenate(want))
    with open_arrays(tmp_path, batch_size=1, collate=fb.Pad()) as loader:
        assert [batch[0].values.shape for batch in loader] == [(1, 0), (1, 5), (1, 0), (1, 3)]
    with pytest.raises(fb.Error, match="same shape"):
        open_arrays(tmp_path, batch_size=2)


# ---- on the way


@pytest.mark.parametrize("collate", [None, fb.Pad(), fb.Ragged()])
def test_batches_without_bytes_are_audited_shipped_and_repeated(tmp_path: Path, collate: Any) -> None:
    source = folder_of(tmp_path, npy, [np.zeros((0, 3), "f4")] * 5)
    options = {"sample": "file", "batch_size": 2, "collate": collate, "shuffle": True}
    for more in ({"device": "emulated"}, {"threads": 3}, {"cache_ram": "1MiB"}):
        with open_arrays(source, **options, **more) as loader:
            for _ in range(3):
                assert sum(1 for _ in loader) == 3
    with audited(tmp_path / "log"), open_arrays(source, **options) as loader:
        assert sum(1 for _ in loader) == 3
