"""The one signature: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest

SIGNATURE = {
    "batch_size": 1, "global_batch_size": None, "shuffle": False, "window": None, "seed": 0, "drop_last": False, "transforms": (),
    "fields": None, "masks": None, "sample": "auto", "group_by": None, "labels": None, "collate": None, "batch_map": None, "classes": None,
    "class_seed": 0, "per_class": None, "fraction": None, "indices": None, "split": None, "weights": None, "sampler": None, "rank": None,
    "world_size": None, "threads": None, "memory": None, "cache_dir": None, "cache_limit": None, "cache_ram": None, "preload": False,
    "allow_external": False, "dtype": None, "layout": "NCHW", "exif": False, "on_error": "raise", "max_errors": None, "framework": "auto",
    "pin_memory": False, "device": None, "device_normalize": False,
}


def test_the_signature_is_the_agreed_one() -> None:
    parameters = list(inspect.signature(fb.Loader).parameters.values())
    assert parameters[0].name == "source"
    assert {p.name: p.default for p in parameters[1:]} == SIGNATURE
    assert [p.name for p in parameters[1:]] == list(SIGNATURE)
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[1:])


@pytest.mark.parametrize(("name", "value"), [
    ("batch_size", 0), ("batch_size", 2.0), ("batch_size", True), ("batch_size", "8"), ("global_batch_size", 0), ("shuffle", 1),
    ("shuffle", "yes"), ("seed", -1), ("seed", 2**64), ("drop_last", None), ("transforms", "resize"), ("transforms", [str]),
    ("labels", [1]), ("classes", 0), ("classes", "no-such-file.txt"), ("classes", []), ("classes", ["a\nb"]), ("class_seed", -1),
    ("per_class", 0), ("fraction", 0), ("fraction", 1.5), ("fraction", "half"), ("indices", [-1]), ("indices", []), ("indices", [0.5]),
    ("indices", [True, False]), ("split", "train"), ("split", ("test", 0.5)), ("split", ("train", 1)), ("split", ("train", 0)),
    ("weights", [[1.0]]), ("weights", "heavy"), ("rank", 0), ("world_size", 2), ("threads", 0), ("threads", 1.5), ("memory", 0),
    ("memory", "lots"), ("cache_dir", 3), ("cache_dir", ""), ("cache_limit", "1GiB"), ("cache_ram", "much"), ("cache_ram", 0),
    ("dtype", "int32"), ("dtype", "complex64"), ("layout", "CHW"), ("exif", 1), ("on_error", "ignore"), ("max_errors", 3),
    ("framework", "jax"), ("sample", "column"), ("collate", list), ("collate", fb.Pad(4)), ("window", 10), ("window", 0), ("preload", 1),
    ("allow_external", 1), ("pin_memory", 1), ("device", "gpu"), ("device", ""), ("device", True), ("device_normalize", 1),
])
def test_a_wrong_value_is_refused_by_its_name(photos: Path, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        fb.Loader(photos, **{name: value})
    assert isinstance(caught.value, fb.Error)


@pytest.mark.parametrize("source", [None, 3, {"a": 1}, [], ["a.jpg", 4], ""])
def test_a_source_that_is_no_path_is_refused(source: Any) -> None:
    with pytest.raises(ValueError, match="source"):
        fb.Loader(source)


def test_rank_outside_the_world_is_refused(photos: Path) -> None:
    with pytest.raises(ValueError, match="rank"):
        fb.Loader(photos, rank=2, world_size=2)


@pytest.mark.parametrize("memory", [64 << 20, "64MiB", "64 MiB", "0.0625GiB", np.int64(64 << 20)])
def test_memory_is_bytes_or_a_size_in_words(photos: Path, memory: Any) -> None:
    with fb.Loader(photos, memory=memory, transforms=fb.CenterCrop(8)) as loader:
        assert loader.stats()["budget"]["limit_bytes"] == 64 << 20


@pytest.mark.parametrize("dtype", ["float16", np.float16, np.dtype("float16")])
def test_dtype_may_be_a_name_or_numpys(photos: Path, dtype: Any) -> None:
    with fb.Loader(photos, dtype=dtype, transforms=fb.CenterCrop(8), framework="numpy") as loader:
        assert next(iter(loader))[0].dtype == np.float16


def test_dtype_may_be_torchs(photos: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with fb.Loader(photos, dtype=torch.bfloat16, transforms=fb.CenterCrop(8)) as loader:
        assert next(iter(loader))[0].dtype == torch.bfloat16


@pytest.mark.parametrize(("values", "error"), [
    ({"nonsense": 1}, TypeError), ({1: 2}, TypeError), ({"source": "text"}, TypeError), ({"source": b"a\0b"}, ValueError),
    ({"threads": 2**40}, OverflowError), ({"seed": -1}, OverflowError), ({"seed": 1.5}, TypeError), ({"fraction": "x"}, TypeError),
    ({"paths": (b"a",)}, SystemError), ({"paths": ["a"]}, TypeError), ({"indices": 5}, TypeError),
    ({"weights": np.zeros((4, 4))[:, ::2]}, ValueError),
    ({"columns": [(b"x", 8, 0, np.zeros(3, np.int64))]}, ValueError), ({"columns": [(b"x", 99, 0, b"")]}, ValueError),
    ({"columns": [(b"x", 8)]}, TypeError), ({"columns": [None] * 33}, ValueError), ({}, ValueError),
])
def test_the_extension_refuses_what_the_package_would_never_pass(values: dict[Any, Any], error: type[Exception]) -> None:
    from fullbore import _fullbore
    with pytest.raises(error):
        _fullbore._Loader(values, print, None)
