"""A loader's arguments -> the plain values that the engine takes. What is wrong is said with the argument's name."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _fullbore
from ._labels import Columns, Samples, check_names, columns_of
from ._talk import progress_line, say
from ._torchvision import is_foreign, translate
from .collate import collate_code
from .errors import ArgumentError, UsageError
from .transforms import Transform

_LAYOUTS = {"NCHW": 0, "NHWC": 1, "channels_last": 2}
_ON_ERROR = {"raise": 0, "skip": 1}
_DTYPES = ("uint8", "float16", "bfloat16", "float32", "float64", "int16")
_SHUFFLES = {False: 0, True: 1, "window": 2}
_SAMPLES = {"auto": 0, "row": 1, "file": 2}
_HDF5 = (".h5", ".hdf5", ".he5", ".hdf", ".mat", ".nc", ".nc4")
_ONE_ARRAY = (".npy", ".npz", ".safetensors")

def plain_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of ``Loader``, by name -> the options of fullbore.h, by name."""
    a = dict(arguments)
    steps, a["dtype"] = _with_dtype(a)
    return {
        **_what(a["source"]),
        **_which(a),
        **_order(a),
        **_fields(a["fields"]),
        **_masks(a["masks"]),
        "transforms": "; ".join(step.spec for step in steps).encode(),
        "dtype": _dtype(a["dtype"]),
        "layout": _choice("layout", a["layout"], _LAYOUTS),
        "exif": _flag("exif", a["exif"]),
        "threads": 0 if a["threads"] is None else _whole("threads", a["threads"], 1, 4096),
        "memory": 0 if a["memory"] is None else _bytes("memory", a["memory"]),
        **_caches(a),
        **_arrays(a),
        "on_error": _choice("on_error", a["on_error"], _ON_ERROR),
        "max_errors": _max_errors(a["max_errors"], a["on_error"]),
        **({"io": os.fsencode(os.environ["FULLBORE_IO"])} if os.environ.get("FULLBORE_IO") else {}),
    }


def _with_dtype(a: dict[str, Any]) -> tuple[list[Transform], Any]:
    steps, natural = steps_of(a["transforms"])
    return steps, natural if a["dtype"] is None else a["dtype"]


# torch.utils.data.DataLoader's, and what stands for them here.
_INSTEAD = {
    "num_workers": "threads= (the default suits: there are no worker processes)",
    "prefetch_factor": "nothing: the look-ahead adapts itself, within memory=",
    "persistent_workers": "nothing: threads last as long as the loader",
    "collate_fn": "batch_map= for batches, fullbore.Map for single samples",
    "batch_sampler": "sampler= with batch_size=",
    "worker_init_fn": "nothing: there are no worker processes; fullbore.Map gives each sample its own rng",
    "multiprocessing_context": "nothing: there are no worker processes",
    "generator": "seed=",
    "timeout": "nothing: a wait of more than ten seconds is explained in the log",
    "pin_memory_device": "device=",
    "in_order": "nothing: batches always come in order",
    "transform": "transforms=",
    "target_transform": "labels= or fullbore.Map",
}


def refuse_unknown(unknown: Sequence[str], known: Sequence[str]) -> None:
    """Arguments that there are not, with what to use instead."""
    for name in unknown:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}=?" if near else "docs/python.md lists all of them"
        remedy = f"use {_INSTEAD[name]}" if name in _INSTEAD else hint
        raise ArgumentError(f"{name}= is not an argument of Loader", remedy=remedy.replace("use nothing: ", "leave it out: "))


# ---- what


def _what(source: Any) -> dict[str, Any]:
    if isinstance(source, (str, bytes, os.PathLike)):
        return {"source": _path("source", source)}
    if hasattr(source, "tolist"):  # numpy's, pandas'
        source = source.tolist()
    if not isinstance(source, Sequence):
        raise _wrong("source", source, "a path or a list of paths")
    paths = [_path("source", path) for path in source]
    if not paths:
        raise UsageError("source is an empty list")
    return {"paths": paths}


def with_labels(values: dict[str, Any], labels: Any) -> tuple[dict[str, Any], Columns]:
    """The same with ``labels=`` as columns: for the files of a list, or for the selected samples of a folder or manifest."""
    if labels is None:
        return values, Columns()
    samples = _samples(values, labels)
    columns = check_names(columns_of(labels, samples))
    count = len(samples.keys)
    rows: dict[str, Any] = {} if "paths" in values else {"column_rows": count}
    return {**values, **rows, "columns": [_column(name, array, count) for name, array in columns.arrays.items()]}, columns


def _samples(values: dict[str, Any], labels: Any) -> Samples:
    if "paths" in values:
        return Samples([os.fsdecode(path) for path in values["paths"]], "", 0)
    count = _column_length(labels) if _are_rows(values) else None
    return _selected(values) if count is None else Samples([""] * count, "", 0)  # the engine checks that there are as many rows


def _are_rows(values: dict[str, Any]) -> bool:
    """Is a sample a row, by the engine's own rule? (What a folder holds only the engine knows: there it takes ``sample="row"``.)"""
    if values.get("sample") != _SAMPLES["auto"]:
        return values.get("sample") == _SAMPLES["row"]
    name = os.fsdecode(values.get("source", b"")).lower()
    return name.endswith(_HDF5) or os.path.isfile(values.get("source", b"")) and (name.endswith(_ONE_ARRAY) or _is_hdf5(values["source"]))


def _is_hdf5(path: bytes) -> bool:
    """By the format's signature, at the beginning or behind a user block of 512 bytes or twice that, again and again."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            places = [0, *(512 << k for k in range(64) if 512 << k < size)]
            return any(os.pread(file.fileno(), 8, place) == b"\x89HDF\r\n\x1a\n" for place in places)
    except OSError:
        return False


def _column_length(labels: Any) -> int | None:
    """Of columns that are given as they are; None: a table or a function."""
    if isinstance(labels, Mapping):
        lengths = {_column_length(column) for column in labels.values()}
        return lengths.pop() if len(lengths) == 1 else None
    return len(labels) if hasattr(labels, "__len__") and not isinstance(labels, (str, bytes, os.PathLike)) else None


def _selected(values: dict[str, Any]) -> Samples:
    """The samples that the source has and the selection leaves."""
    which = ("source", "group_by", "classes", "class_count", "class_seed", "per_class", "fraction", "indices", "split", "split_share",
             "threads", "memory")
    core = _fullbore._Loader({**{name: values[name] for name in which if name in values}, "transforms": b"digest"}, say, progress_line())
    catalog = json.loads(core.stats())["catalog"]
    keys = core.keys()
    core.close()
    return Samples(keys, catalog["root"], catalog["made_ns"])


def _path(name: str, path: Any) -> bytes:
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise _wrong(name, path, "a path")
    encoded = os.fsencode(path)
    if not encoded or b"\0" in encoded:
        raise _wrong(name, path, "a path")
    return encoded


def _column(name: Any, values: Any, count: int) -> tuple[bytes, int, int, np.ndarray[Any, Any]]:
    array = np.ascontiguousarray(values)
    code = _fullbore.dtype_code(array.dtype.name)
    if code == 0:
        raise UsageError(f"labels= holds {array.dtype}, not numbers", remedy="number the classes: numpy.unique(names, return_inverse=True)")
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise UsageError(f"labels= has the shape {array.shape}, not one number or one vector per path")
    if len(array) != count:
        raise UsageError(f"labels= has {len(array)} rows for {count} paths")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return name.encode(), code, array.shape[1] if array.ndim == 2 else 0, native


# ---- which of it


def _which(a: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"class_seed": _whole("class_seed", a["class_seed"], 0, 2**64 - 1)}
    if a["classes"] is not None:
        values |= _classes(a["classes"])
    if a["per_class"] is not None:
        values["per_class"] = _whole("per_class", a["per_class"], 1)
    if a["fraction"] is not None:
        values["fraction"] = _share("fraction", a["fraction"], 1.0)
    if a["indices"] is not None:
        values["indices"] = _indices(a["indices"])
    if a["split"] is not None:
        values |= _split(a["split"])
    return values


def _classes(classes: Any) -> dict[str, Any]:
    number = _as_int(classes)
    if number is not None:
        return {"class_count": _whole("classes", number, 1)}
    if isinstance(classes, (str, os.PathLike)):
        path = Path(classes)
        if isinstance(classes, str) and not path.is_file():
            raise UsageError(f"classes= is {classes!r}, and there is no such file of names", remedy="names go in a list: classes=[...]")
        return {"classes": b"@" + _path("classes", path)}
    if not isinstance(classes, (Sequence, np.ndarray, set, frozenset)) or isinstance(classes, bytes):
        raise _wrong("classes", classes, "a number, a list of names, or a file with one name per line")
    names = [os.fsencode(str(name)) for name in classes]
    if not names or any(not name or b"\n" in name or b"\0" in name for name in names) or names[0].startswith(b"@"):
        raise _wrong("classes", classes, "a list of names")
    return {"classes": b"\n".join(names)}


def _indices(indices: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(indices)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0 or array.min() < 0:
        raise UsageError("indices= is not a list of positions (whole numbers from 0 up)",
                         remedy="numpy.flatnonzero turns a mask into positions" if array.dtype.kind == "b" else "")
    return np.ascontiguousarray(array, dtype=np.uint64)


def _split(split: Any) -> dict[str, Any]:
    if not isinstance(split, (tuple, list)) or len(split) != 2 or split[0] not in ("train", "val"):
        raise UsageError(f"split= is {split!r}", remedy='split=("train", 0.85) takes 85 %, split=("val", 0.85) what that leaves')
    return {"split": split[0].encode(), "split_share": _share("split", split[1], 1.0, is_open=True)}


# ---- in which order


def _order(a: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "batch_size": _whole("batch_size", a["batch_size"], 1, 2**31 - 1),
        "shuffle": _shuffle(a["shuffle"]),
        "seed": _whole("seed", a["seed"], 0, 2**64 - 1),
        "drop_last": _flag("drop_last", a["drop_last"]),
        **_ranks(a["rank"], a["world_size"]),
    }
    if a["global_batch_size"] is not None:
        values["global_batch_size"] = _whole("global_batch_size", a["global_batch_size"], 1, 2**31 - 1)
    if isinstance(a["weights"], str):
        if a["weights"] != "balanced":
            raise _wrong("weights", a["weights"], 'a list of numbers or "balanced"')
        values["is_balanced"] = 1
    elif a["weights"] is not None:
        values["weights"] = _weights(a["weights"])
    if a["sampler"] is not None:
        values |= _sampler(a)
    return values


def _shuffle(shuffle: Any) -> int:
    if isinstance(shuffle, (bool, np.bool_)):
        return int(shuffle)
    if shuffle != "window":
        raise _wrong("shuffle", shuffle, 'True, False or "window"')
    return _SHUFFLES["window"]


def _arrays(a: dict[str, Any]) -> dict[str, Any]:
    """What only arrays and sound have."""
    if a["window"] is not None and a["shuffle"] != "window":
        raise UsageError("window= is how many rows are mixed with each other", remedy='it goes with shuffle="window"')
    return {
        "sample": _choice("sample", a["sample"], _SAMPLES),
        **_group(a["group_by"]),
        "collate": collate_code(a["collate"]),
        "preload": _flag("preload", a["preload"]),
        "allow_external": _flag("allow_external", a["allow_external"]),
        "window": 0 if a["window"] is None else _whole("window", a["window"], 1),
    }


def _group(column: Any) -> dict[str, Any]:
    if column is None:
        return {}
    if not isinstance(column, str) or not column or "\0" in column:
        raise _wrong("group_by", column, "the name of a column of the manifest")
    return {"group_by": column.encode()}


def _sampler(a: dict[str, Any]) -> dict[str, Any]:
    if not hasattr(a["sampler"], "__iter__") or isinstance(a["sampler"], (str, bytes, Mapping)):
        raise _wrong("sampler", a["sampler"], "an iterable of indices")
    if iter(a["sampler"]) is a["sampler"]:
        raise UsageError("sampler= is an iterator, which can be used only once",
                             remedy="give a list, or an object whose __iter__ starts anew")
    for name, unused in (("shuffle", False), ("weights", None), ("rank", None), ("global_batch_size", None)):
        if a[name] is not unused and a[name] != unused:
            raise UsageError(f"sampler= and {name}= do not go together",
                             remedy="the sampler says which samples this process gets, and in which order")
    return {"takes_order": 1, "rank": -1, "world_size": -1}


def _fields(fields: Any) -> dict[str, Any]:
    if fields is None:
        return {}
    if isinstance(fields, str) or not isinstance(fields, Sequence) or not all(isinstance(f, str) and f and "\n" not in f for f in fields):
        raise _wrong("fields", fields, "a list of names of arrays or labels")
    names = list(fields[1:]) if fields and fields[0] == "image" else list(fields)
    if "image" in names:
        raise _wrong("fields", fields, "a list that begins with 'image': the picture comes first")
    return {"fields": "\n".join(names).encode()}


def _masks(masks: Any) -> dict[str, Any]:
    if masks is None:
        return {}
    if isinstance(masks, str) or not isinstance(masks, Sequence) or not all(isinstance(m, str) and m and "\n" not in m for m in masks):
        raise _wrong("masks", masks, "a list of names of columns")
    return {"masks": "\n".join(masks).encode()}


def _ranks(rank: Any, world_size: Any) -> dict[str, int]:
    if rank is None and world_size is None:
        return {"rank": -1, "world_size": -1}
    if rank is None or world_size is None:
        raise UsageError("rank= and world_size= go together")
    world = _whole("world_size", world_size, 1, 2**31 - 1)
    return {"rank": _whole("rank", rank, 0, world - 1), "world_size": world}


def _weights(weights: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(weights)
    if array.ndim != 1 or array.dtype.kind not in "iufb" or array.size == 0:
        raise UsageError("weights= is not a list of numbers, one for each sample")
    return np.ascontiguousarray(array, dtype=np.float64)


# ---- into what


def steps_of(transforms: Any) -> tuple[list[Transform], str | None]:
    """What ``transforms=`` comes to, and the dtype it asks for by itself."""
    steps = [transforms] if isinstance(transforms, Transform) or is_foreign(transforms) else transforms
    if not isinstance(steps, Sequence) or isinstance(steps, (str, bytes)):
        raise _wrong("transforms", transforms, "a list of transforms")
    for step in steps:
        if not isinstance(step, Transform) and not is_foreign(step):
            raise UsageError(f"transforms= holds {_short(step)}, which is not a transform",
                             remedy="wrap your function: fullbore.Map(function)" if callable(step) else
                             "fullbore has torchvision's names: fullbore.RandomResizedCrop(224) and so on")
    return translate(steps)


def _dtype(dtype: Any) -> int:
    if dtype is None:
        return 0
    name = dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            pass
    if name not in _DTYPES:
        raise _wrong("dtype", dtype, f"one of {', '.join(_DTYPES)}")
    return _fullbore.dtype_code(name)


def _bytes(name: str, size: Any) -> int:
    if isinstance(size, str):
        try:
            return _fullbore.parse_size(size)
        except ValueError:
            raise _wrong(name, size, 'a size such as "2GiB" or a number of bytes') from None
    return _whole(name, size, 1, 2**63 - 1)


def _caches(a: dict[str, Any]) -> dict[str, Any]:
    sizes = {name: _bytes(name, a[name]) for name in ("cache_limit", "cache_ram") if a[name] is not None}
    if a["cache_dir"] is not None:
        return {"cache_dir": _path("cache_dir", a["cache_dir"]), **sizes}
    if a["cache_limit"] is not None:
        raise UsageError("cache_limit= is the size of the cache on disk, but there is none", remedy="give cache_dir= as well")
    return sizes


def _max_errors(max_errors: Any, on_error: Any) -> int:
    if max_errors is None:
        return -1
    if on_error != "skip":
        raise UsageError('max_errors= goes with on_error="skip"')
    return _whole("max_errors", max_errors, 0)


# ---- single values


def _wrong(name: str, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{name}= is {_short(value)}, not {wanted}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _as_int(value: Any) -> int | None:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        return None
    try:
        return int(value.__index__())
    except TypeError:  # an array
        return None


def _whole(name: str, value: Any, low: int, high: int = 2**63 - 1) -> int:
    number = _as_int(value)
    if number is None or not low <= number <= high:
        raise _wrong(name, value, f"a whole number from {low} up" if high >= 2**31 - 1 else f"a whole number from {low} to {high}")
    return number


def _share(name: str, value: Any, high: float, *, is_open: bool = False) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0.0 < share <= high or is_open and share == high:
        raise _wrong(name, value, "a share between 0 and 1")
    return share


def _flag(name: str, value: Any) -> int:
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong(name, value, "True or False")
    return int(value)


def _choice(name: str, value: Any, choices: Mapping[str, int]) -> int:
    if not isinstance(value, str) or value not in choices:
        raise _wrong(name, value, " or ".join(repr(choice) for choice in choices))
    return choices[value]
