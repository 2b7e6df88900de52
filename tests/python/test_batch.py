"""A batch: the engine's own memory, in whatever shape a framework likes, unchanged for as long as anybody holds it."""

from __future__ import annotations

import gc
import logging
import pickle
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from fullbore.batch import to_numpy

CROP = [fb.RandomResizedCrop(16)]


def open_loader(source: Path, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 4, "transforms": CROP, "framework": "numpy", **arguments})


def torch_or_skip() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


def address(core_array: Any) -> int:
    return int(np.asarray(core_array).ctypes.data)


def test_a_batch_unpacks_and_knows_its_samples(photos: Path) -> None:
    with open_loader(photos) as loader:
        batch = next(iter(loader))
        images, labels = batch
        assert isinstance(batch, tuple) and batch.names == ("image", "label")
        assert images.shape == (4, 3, 16, 16) and images.dtype == np.uint8 and labels.shape == (4,) and labels.dtype == np.int64
        assert batch.sample_keys == ["apple/000.jpg", "apple/003.jpg", "apple/006.jpg", "apple/009.jpg"]
        assert batch.samples == [0, 1, 2, 3] and batch.repeats == [False] * 4
        assert batch.state["position"] == 4 and batch.state["epoch"] == 0


def test_draws_are_a_sequence_of_dicts_inside_the_image(photos: Path) -> None:
    from PIL import Image
    with open_loader(photos, transforms=[fb.RandomResizedCrop(16), fb.RandomHorizontalFlip(1.0)]) as loader:
        batch = next(iter(loader))
        assert len(batch.draws) == 4 and batch.draws[-1] == batch.draws[3] and batch.draws[1:3] == [batch.draws[1], batch.draws[2]]
        with pytest.raises(IndexError):
            batch.draws[4]
        for draw, key in zip(batch.draws, batch.sample_keys, strict=True):
            width, height = Image.open(photos / key).size
            assert draw["hflip"] is True
            assert 0 <= draw["top"] <= height - draw["height"] and 0 <= draw["left"] <= width - draw["width"]


def test_a_last_small_batch_is_filled_with_flagged_repeats_on_every_rank(photos: Path) -> None:
    flags = []
    for rank in range(5):
        with open_loader(photos, batch_size=1, rank=rank, world_size=5, indices=range(11)) as loader:
            flags.append([batch.repeats for batch in loader][-1])
    assert sorted(flag for rank in flags for flag in rank) == [False, True, True, True, True]


# ---- whose memory it is


def test_numpy_arrays_are_views_of_the_slot(photos: Path) -> None:
    with open_loader(photos) as loader:
        batch = next(iter(loader))
        for array, core in zip(batch, batch._core.arrays(), strict=True):
            assert array.ctypes.data == address(core) and not array.flags.owndata and array.flags.writeable


def test_torch_tensors_are_views_of_the_slot(photos: Path) -> None:
    torch = torch_or_skip()
    with open_loader(photos, framework="torch") as loader:
        batch = next(iter(loader))
        for tensor, core in zip(batch, batch._core.arrays(), strict=True):
            assert isinstance(tensor, torch.Tensor) and tensor.data_ptr() == address(core)
        assert batch[0].dtype == torch.uint8 and batch[1].dtype == torch.int64


def test_torch_is_used_when_it_is_loaded_and_not_unwanted(photos: Path) -> None:
    torch = torch_or_skip()
    with open_loader(photos, framework="auto") as loader, open_loader(photos, framework="numpy") as plain:
        assert isinstance(next(iter(loader))[0], torch.Tensor)
        assert isinstance(next(iter(plain))[0], np.ndarray)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("keep", ["batch", "images", "row", "labels"])
def test_what_is_kept_never_changes(photos: Path, framework: str, keep: str) -> None:
    if framework == "torch":
        torch_or_skip()
    kept, copies = [], []
    with open_loader(photos, shuffle=True, framework=framework) as loader:
        for batch in (batch for _ in range(8) for batch in loader):
            images, labels = batch
            copies.append(np.asarray(labels if keep == "labels" else images).copy())
            kept.append({"batch": batch, "images": images, "row": images[2], "labels": labels}[keep])
            del batch, images, labels
        assert loader.stats()["given_away_batches"] > 0
    for thing, copy in zip(kept, copies, strict=True):
        now = np.asarray(thing[0] if keep == "batch" else thing)
        assert np.array_equal(now, copy[2] if keep == "row" else copy)
    gc.collect()


def test_keeping_many_batches_is_warned_about_once(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fullbore"), open_loader(photos) as loader:
        kept = [batch for _ in range(8) for batch in loader]
    assert len(kept) == 48  # far more than the engine looks ahead
    assert len([record for record in caplog.records if record.name == "fullbore" and "kept" in record.getMessage()]) == 1


def test_a_batch_outlives_its_loader_with_all_it_knows(photos: Path) -> None:
    loader = open_loader(photos, shuffle=True)
    batch = next(iter(loader))
    copy, keys, draws, state = batch[0].copy(), list(batch.sample_keys), list(batch.draws), batch.state
    fresh = fb.batch.Batch._of(batch._core, to_numpy)
    loader.close()
    del loader, batch
    gc.collect()
    assert np.array_equal(fresh[0], copy) and fresh.sample_keys == keys and list(fresh.draws) == draws and fresh.state == state


def test_a_slot_goes_back_when_the_last_view_is_gone(photos: Path) -> None:
    with open_loader(photos) as loader:
        running = iter(loader)
        batch = next(running)
        row = batch[0][0]
        assert loader.stats()["held_batches"] == 1
        del batch
        assert loader.stats()["held_batches"] == 1
        del row
        assert loader.stats()["held_batches"] == 0


def test_a_loop_holds_no_more_than_two_batches(photos: Path) -> None:
    with open_loader(photos) as loader:
        most = 0
        for images, labels in loader:  # noqa: B007 (held by name until the next ones come)
            most = max(most, loader.stats()["held_batches"])
        assert most <= 2 and loader.stats()["given_away_batches"] == 0
        del images, labels


def test_a_pickled_batch_is_its_arrays(photos: Path) -> None:
    with open_loader(photos) as loader:
        batch = next(iter(loader))
        copy = pickle.loads(pickle.dumps(batch))
        assert type(copy) is tuple and all(np.array_equal(a, b) for a, b in zip(copy, batch, strict=True))


# ---- shapes and types


def test_channels_last_is_torchs_memory_format(photos: Path) -> None:
    torch = torch_or_skip()
    with open_loader(photos, layout="channels_last", framework="torch") as loader, open_loader(photos, framework="torch") as plain:
        one, other = next(iter(loader))[0], next(iter(plain))[0]
        assert one.shape == (4, 3, 16, 16) and one.is_contiguous(memory_format=torch.channels_last) and not one.is_contiguous()
        assert other.is_contiguous() and torch.equal(one, other)


def test_layouts_hold_the_same_pixels(photos: Path) -> None:
    images = {}
    for layout in ("NCHW", "NHWC", "channels_last"):
        with open_loader(photos, layout=layout) as loader:
            images[layout] = next(iter(loader))[0].copy()
    assert images["NHWC"].shape == (4, 16, 16, 3)
    assert np.array_equal(images["NHWC"].transpose(0, 3, 1, 2), images["NCHW"])
    assert np.array_equal(images["channels_last"], images["NCHW"])


def test_numpy_shows_bfloat16_through_ml_dtypes_or_says_what_is_missing(photos: Path) -> None:
    with open_loader(photos, dtype="bfloat16") as loader:
        try:
            import ml_dtypes
        except ImportError:
            with pytest.raises(fb.Error, match="bfloat16.*ml_dtypes"):
                next(iter(loader))
        else:
            assert next(iter(loader))[0].dtype == ml_dtypes.bfloat16


# ---- DLPack and buffers


@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_numpy_takes_arrays_by_dlpack(photos: Path, layout: str, dtype: str) -> None:
    with open_loader(photos, layout=layout, dtype=dtype) as loader:
        batch = next(iter(loader))
        for array, core in zip(batch, batch._core.arrays(), strict=True):
            taken = np.from_dlpack(core)
            assert taken.ctypes.data == array.ctypes.data and taken.dtype == array.dtype and taken.strides == array.strides
            assert np.array_equal(taken, array)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_torch_takes_arrays_by_dlpack(photos: Path, dtype: str) -> None:
    torch = torch_or_skip()
    with open_loader(photos, dtype=dtype, framework="torch") as loader:
        core = next(iter(loader))._core.arrays()[0]
        taken, legacy = torch.from_dlpack(core), torch.utils.dlpack.from_dlpack(core.__dlpack__())
        assert taken.data_ptr() == legacy.data_ptr() == (address(core) if dtype != "bfloat16" else taken.data_ptr())
        assert str(taken.dtype) == f"torch.{dtype}" and torch.equal(taken, legacy)


def test_dlpack_refuses_what_it_cannot_do(photos: Path) -> None:
    with open_loader(photos) as loader:
        core = next(iter(loader))._core.arrays()[0]
        assert core.__dlpack_device__() == (1, 0)
        for arguments in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 1}):
            with pytest.raises(BufferError):
                core.__dlpack__(**arguments)  # type: ignore[arg-type]


def test_an_unused_capsule_gives_its_reference_back(photos: Path) -> None:
    with open_loader(photos) as loader:
        batch = next(iter(loader))
        capsules = [core.__dlpack__(max_version=version) for core in batch._core.arrays() for version in (None, (0, 8), (1, 0), (2, 1))]
        del batch
        assert loader.stats()["held_batches"] == 1
        del capsules
        assert loader.stats()["held_batches"] == 0


def test_the_buffer_protocol_gives_only_what_is_true(photos: Path) -> None:
    with open_loader(photos, layout="channels_last") as loader, open_loader(photos) as plain:
        scattered, packed = next(iter(loader))._core.arrays()[0], next(iter(plain))._core.arrays()[0]
        view = memoryview(packed)
        assert (view.format, view.shape, view.strides, view.readonly) == ("B", (4, 3, 16, 16), (768, 256, 16, 1), False)
        assert bytes(packed) == view.tobytes()
        assert memoryview(scattered).strides == (768, 1, 48, 3)
        with pytest.raises(BufferError):
            import hashlib
            hashlib.sha256(scattered)  # wants one contiguous piece


def test_arrays_cannot_be_made_by_hand() -> None:
    from fullbore import _fullbore
    for kind in (_fullbore._Array, _fullbore._Batch):
        with pytest.raises(TypeError):
            kind()
