"""From the results of a build's function to rows of its file: checks names, shapes and numbers, and adds what is known of each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._build_names import check_fields, label_names
from ._fullbore import checksum_rows
from ._hdf5_file import Hdf5File
from .errors import Error, UsageError


class Sink:
    """From results to rows of the file: checks shapes, numbers and names."""

    def __init__(self, file: Hdf5File, samples: int, flatten: bool, on_nan: str, left_out: list[tuple[str, str]],
                 main_label: str | None = None) -> None:
        self.file, self.samples, self.flatten, self.on_nan, self.left_out = file, samples, flatten, on_nan, left_out
        self.main_label = main_label  # whose dataset is `labels`
        self.keys: list[str] = []
        self.shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self.per_sample = 0  # until the first batch
        self.hashes: dict[str, list[np.ndarray[Any, Any]]] = {}  # of the rows of each field

    def _check(self, name: str, array: Any, count: int, keys: list[str]) -> np.ndarray[Any, Any]:
        rows = _native(array)
        if rows.ndim < 1 or len(rows) != count:
            raise UsageError(f"fn returned {name!r} of shape {rows.shape} for {count} samples", stage="build", path=keys[0],
                             remedy="the first dimension is that of the batch")
        if self.flatten and (rows.ndim < 2 or rows.shape[1] < 1):
            raise UsageError(f"fn returned {name!r} of shape {rows.shape}: flatten=True wants (batch, rows of a sample, ...)",
                             stage="build")
        shape = rows.shape[2:] if self.flatten else rows.shape[1:]
        many = rows.shape[1] if self.flatten else 1
        known = self.shapes.setdefault(name, (rows.dtype, shape))
        self.per_sample = self.per_sample or many
        if known != (rows.dtype, shape):
            raise UsageError(f"fn returned {name!r} as {rows.dtype} of shape {rows.shape}; before it was {known[0]} with rows of "
                             f"{known[1]}", stage="build", path=keys[0], remedy="all batches must give rows of one shape and dtype")
        if many != self.per_sample:
            raise UsageError(f"fn returned {many} rows of {name!r} for each sample; before it was {self.per_sample}", stage="build",
                             path=keys[0], remedy="all fields of all batches must give as many")
        return rows

    def _check_names(self, names: Mapping[str, Any], keys: list[str]) -> None:
        """Every batch has the fields of the first one, also when not a sample of that one was kept: else columns would not align."""
        if not names:
            raise UsageError("fn returned no array", stage="build", path=keys[0])
        check_fields(names)
        if self.shapes and names.keys() != self.shapes.keys():
            raise UsageError(f"fn returned the fields {sorted(names)}; before they were {sorted(self.shapes)}", stage="build", path=keys[0],
                             remedy="all batches must give the same fields")

    def _bad(self, arrays: Mapping[str, np.ndarray[Any, Any]], keys: list[str], kept: np.ndarray[Any, Any]) -> None:
        """Rows that are not numbers: raise, leave out, or keep."""
        if self.on_nan == "keep":
            return
        for name, rows in arrays.items():
            if rows.dtype.kind not in "fc":
                continue
            wrong = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1) & kept
            if not wrong.any():
                continue
            first = int(np.flatnonzero(wrong)[0])
            if self.on_nan == "raise":
                raise Error(f"fn returned NaN or infinity in {name!r}", stage="build", path=keys[first],
                            remedy='on_nan="skip" leaves such samples out, "keep" keeps them')
            for i in np.flatnonzero(wrong):
                self.left_out.append((keys[i], f"fn returned NaN or infinity in {name!r}"))
            kept &= ~wrong

    def write(self, keys: list[str], results: dict[str, Any], labels: dict[str, Any], kept: np.ndarray[Any, Any] | None) -> int:
        """Returns how many samples were kept."""
        chosen = np.ones(len(keys), dtype=bool) if kept is None else kept.copy()
        self._check_names(results, keys)
        arrays = {name: self._check(name, array, len(keys), keys) for name, array in results.items()}
        self._bad(arrays, keys, chosen)
        names = [key for key, is_kept in zip(keys, chosen, strict=True) if is_kept]
        for name, rows in arrays.items():
            flat = rows if chosen.all() else rows[chosen]
            flat = np.ascontiguousarray(flat.reshape(len(names) * self.per_sample, *flat.shape[2:]) if self.flatten else flat)
            self._append(name, flat)
            self.hashes.setdefault(name, []).append(row_hashes(flat))
        for name, dataset in label_names(labels, self.main_label, arrays).items():
            self._append(dataset, np.repeat(_native(labels[name])[chosen], self.per_sample, axis=0))
        self.keys += names
        return len(names)

    def _append(self, name: str, rows: np.ndarray[Any, Any]) -> None:
        if name not in self.file.columns:
            self.file.add(name, rows.dtype, rows.shape[1:], self.samples * self.per_sample)
        self.file.append(self.file.columns[name], rows)

    @property
    def rows(self) -> int:
        return len(self.keys) * self.per_sample

    @property
    def widest(self) -> str:
        """The dtype of the field that has most bytes."""
        return max(self.shapes.values(), key=lambda s: s[0].itemsize * int(np.prod(s[1], dtype=np.int64)))[0].name if self.shapes else ""

    def checksums(self) -> dict[str, str]:
        """Of each field: xxh3 over the xxh3 of each of its rows."""
        return {name: f"{int(row_hashes(np.concatenate(hashes)[None])[0]):016x}" for name, hashes in self.hashes.items()}

    def finish(self, classes: list[str], split: np.ndarray[Any, Any] | None) -> None:
        """What is known of each row: ``split`` has one number for each of them."""
        if not self.keys:
            raise Error("every sample is bad, so there is nothing to build", stage="build")
        segment = np.tile(np.arange(self.per_sample, dtype=np.int32), len(self.keys))
        columns = {"segment": segment, "keys": np.repeat(_texts(self.keys), self.per_sample)}
        columns |= {} if split is None else {"split": split}
        columns |= {"classes": _texts(classes)} if classes else {}
        for name, column in columns.items():
            self.file.append(self.file.add(name, column.dtype, (), len(column)), column)


def _native(values: Any) -> np.ndarray[Any, Any]:
    """In the byte order of this machine, which is what the file says its numbers have."""
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def row_hashes(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """xxh3 of each row's bytes."""
    hashes = np.empty(len(rows), dtype=np.uint64)
    checksum_rows(rows.reshape(-1).view(np.uint8) if rows.size else b"", hashes)
    return hashes


def _texts(texts: list[str]) -> np.ndarray[Any, Any]:
    return np.array([text.encode("utf-8", "surrogateescape") for text in texts])
