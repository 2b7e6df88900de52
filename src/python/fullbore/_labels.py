"""``labels=``: tables, arrays, dicts and functions -> columns of numbers, one row per sample. What is missing or mixed is said by name."""

from __future__ import annotations

import csv
import hashlib
import inspect
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ._talk import progress_line, shown
from .errors import SampleError, UsageError

_logger = logging.getLogger("fullbore")
_PATH_COLUMNS = ("path", "file", "filename", "file_name", "image", "image_path", "filepath")
_FEW = 3


@dataclass
class Columns:
    """Named columns, and the names of classes for those that were text."""

    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Samples:
    """The samples that want labels: their paths relative to ``root``, and what is known of the catalog."""

    keys: Sequence[str]
    root: str
    made: int  # when the catalog was made; 0: there is none

    def path(self, key: str) -> str:
        """The file itself."""
        return os.path.join(self.root, key)


def columns_of(labels: Any, samples: Samples) -> Columns:
    """Whatever ``labels=`` is."""
    if callable(labels):
        return _from_function(labels, samples)
    if isinstance(labels, (str, os.PathLike)):
        return _from_rows(_table(Path(labels)), samples, f"the table {os.fspath(labels)}")
    if isinstance(labels, Mapping):
        return _from_mapping(labels, samples)
    if isinstance(labels, (bytes, int, float)):
        raise UsageError(f"labels= is {labels!r}, not a table, an array, a dict or a function")
    return Columns({"label": _column("label", labels, samples)})


def _column(name: str, values: Any, samples: Samples) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise UsageError(f"labels= has the shape {array.shape} for {name!r}",
                         remedy=f"one number or one vector for each of {len(samples.keys)} samples")
    if len(array) != len(samples.keys):
        raise UsageError(f"labels= has {len(array)} rows for {len(samples.keys)} samples",
                         remedy="one row for each sample, in the order of loader.dataset.samples")
    return array


# ---- dicts


def _from_mapping(labels: Mapping[Any, Any], samples: Samples) -> Columns:
    if not labels:
        raise UsageError("labels= is an empty dict")
    by_key = {os.fsdecode(k) if isinstance(k, (bytes, os.PathLike)) else k: v for k, v in labels.items()}
    if any(not isinstance(k, str) for k in by_key):
        raise UsageError(f"labels= has the key {next(k for k in by_key if not isinstance(k, str))!r}: keys are paths or names of labels")
    if all(_is_column(v, len(samples.keys)) for v in by_key.values()) and not _finder(by_key, samples)(samples.keys[0]):
        return Columns({name: _column(name, values, samples) for name, values in by_key.items()})
    return _from_rows(by_key, samples, "the dict")


def _is_column(value: Any, count: int) -> bool:
    return not isinstance(value, (str, bytes, Mapping)) and hasattr(value, "__len__") and len(value) == count


def _finder(rows: Mapping[str, Any], samples: Samples) -> Callable[[str], str | None]:
    """key -> the row's own key: the path, relative or absolute; or else the name, or the name without its extension, if that is unique."""
    plain = {_tidy(row, samples.root): row for row in rows}
    names = _unique(os.path.basename(key) for key in samples.keys)
    stems = _unique(_stem(key) for key in samples.keys)

    def find(key: str) -> str | None:
        for candidate in (key, _stem_path(key), os.path.basename(key) if os.path.basename(key) in names else None,
                          _stem(key) if _stem(key) in stems else None):
            if candidate is not None and candidate in plain:
                return plain[candidate]
        return None

    return find


def _tidy(row: str, root: str) -> str:
    path = os.path.normpath(row) if row else row
    return os.path.relpath(path, root) if os.path.isabs(path) and root else path


def _stem(key: str) -> str:
    return os.path.splitext(os.path.basename(key))[0]


def _stem_path(key: str) -> str:
    return os.path.splitext(key)[0]


def _unique(names: Iterable[str]) -> set[str]:
    once: set[str] = set()
    twice: set[str] = set()
    for name in names:
        (twice if name in once else once).add(name)
    return once - twice


def _from_rows(rows: Mapping[str, Any], samples: Samples, where: str) -> Columns:
    find = _finder(rows, samples)
    found = [find(key) for key in samples.keys]
    missing = [key for key, row in zip(samples.keys, found, strict=True) if row is None]
    if missing:
        raise UsageError(f"{_some(missing, 'sample')} no label in {where}", stage="dataset", path=missing[0],
                         remedy="its paths are relative to the source, or absolute; indices= leaves samples out")
    unused = rows.keys() - set(found)
    if unused:
        _logger.warning("labels: %s no file among the samples", shown(_some(sorted(unused), "row")))
    return _columns([rows[row] for row in found if row is not None], samples.keys)


def _some(items: Sequence[str], what: str) -> str:
    shown = ", ".join(items[:_FEW]) + (", ..." if len(items) > _FEW else "")
    return f"{len(items)} {what}{'s' if len(items) != 1 else ''} ({shown}) {'have' if len(items) != 1 else 'has'}"


# ---- tables


def _table(path: Path) -> dict[str, Any]:
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".jsonl"):
        raise UsageError(f"labels= is {os.fspath(path)!r}, not a .csv, .tsv or .jsonl file")
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            records = _jsonl(file) if kind == ".jsonl" else _csv(file, "\t" if kind == ".tsv" else ",")
    except OSError as error:
        raise UsageError(f"labels= cannot be read: {error}") from error
    if not records:
        raise UsageError(f"labels= {os.fspath(path)!r} has no rows")
    column = _path_column(list(records[0]))
    rows: dict[str, Any] = {}
    for number, record in enumerate(records, 2 if kind != ".jsonl" else 1):
        key = str(record.pop(column, ""))
        if key in rows:
            raise UsageError(f"labels= names {key!r} twice, the second time in line {number}", path=os.fspath(path))
        rows[key] = record
    return rows


def _path_column(names: Sequence[str]) -> str:
    lower = {name.lower(): name for name in names}
    return next((lower[name] for name in _PATH_COLUMNS if name in lower), next(iter(names)))


def _csv(file: Iterable[str], separator: str) -> list[dict[str, Any]]:
    reader = csv.reader(file, delimiter=separator)
    header = next(reader, [])
    wrong = next((name for name in header if header.count(name) > 1), None)
    if wrong is not None:
        raise UsageError(f"labels= has two columns called {wrong!r}")
    lines = [line for line in reader if line]
    short = next((i for i, line in enumerate(lines) if len(line) != len(header)), None)
    if short is not None:
        raise UsageError(f"labels= has {len(lines[short])} cells in record {short + 2}, but {len(header)} columns")
    kept = [i for i, name in enumerate(header) if name]  # pandas' row numbers have no name
    if not kept:
        return []
    path = header.index(_path_column([header[i] for i in kept]))
    cells: dict[int, list[Any]] = {i: [line[i] for line in lines] for i in kept}
    cells |= {i: _typed(cells[i]) for i in kept if i != path}
    return [{header[i]: cells[i][row] for i in kept} for row in range(len(lines))]


def _typed(cells: list[str]) -> list[Any]:
    """A column of text as whole numbers, numbers or lists of numbers, if all of it is; an empty cell is nothing."""
    for convert in (int, float, _numbers):
        try:
            return [None if cell == "" else convert(cell) for cell in cells]
        except ValueError:
            continue
    return [None if cell == "" else cell for cell in cells]


def _numbers(cell: str) -> list[float]:
    return [float(x) for x in re.split(r"[\s,;]+", cell.strip().removeprefix("[").removesuffix("]").strip())]


def _jsonl(file: Iterable[str]) -> list[dict[str, Any]]:
    records = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise UsageError(f"labels= has no JSON in line {number}: {error}") from None
        if not isinstance(record, dict):
            raise UsageError(f"labels= has no JSON object in line {number}")
        records.append(record)
    return records


# ---- values, one per sample


def _columns(values: Sequence[Any], keys: Sequence[str]) -> Columns:
    columns = Columns()
    if not isinstance(values[0], Mapping):
        _add(columns, "label", values, keys)
        return columns
    names = list(values[0])
    if not names:
        raise UsageError("labels= has no columns beside the paths")
    for value, key in zip(values, keys, strict=True):
        if not isinstance(value, Mapping) or value.keys() != values[0].keys():
            raise UsageError(f"the labels of {key} are {_kind(value)}, those of {keys[0]} are {_kind(values[0])}", stage="dataset",
                             path=key)
    for name in names:
        _add(columns, str(name), [value[name] for value in values], keys)
    return columns


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(repr, value))}"
    if value is None:
        return "missing"
    if isinstance(value, (str, bytes)):
        return "text"
    shape = np.shape(value)
    return "a number" if shape == () else f"{shape[0]} numbers" if len(shape) == 1 else f"an array of the shape {shape}"


def _add(columns: Columns, name: str, values: Sequence[Any], keys: Sequence[str]) -> None:
    kinds: dict[str, str] = {}
    for value, key in zip(values, keys, strict=True):
        kinds.setdefault(_kind(value), key)
    if "missing" in kinds:
        missing = [key for value, key in zip(values, keys, strict=True) if value is None]
        raise UsageError(f"{_some(missing, 'sample')} no value for the label {name!r}", stage="dataset", path=missing[0])
    if len(kinds) > 1:
        (a, first), (b, second) = list(kinds.items())[:2]
        raise UsageError(f"the label {name!r} is {a} for {first} but {b} for {second}", stage="dataset", path=second)
    if next(iter(kinds)) == "text":
        texts = [value.decode() if isinstance(value, bytes) else value for value in values]
        columns.classes[name] = sorted(set(texts))
        number = {text: i for i, text in enumerate(columns.classes[name])}
        columns.arrays[name] = np.array([number[text] for text in texts], np.int64)
        return
    array = np.array(values)
    if array.ndim > 2 or array.dtype.kind not in "biuf":
        raise UsageError(f"the label {name!r} is {next(iter(kinds))} of {array.dtype}, not one number or one vector", stage="dataset",
                         path=keys[0])
    columns.arrays[name] = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)


# ---- functions


def _from_function(function: Callable[[str], Any], samples: Samples) -> Columns:
    kept = _Kept(function, samples)
    known = kept.load()
    todo = [key for key in samples.keys if key not in known]
    if todo:
        known |= _call(function, todo, samples)
        kept.store(known)
    return _columns([known[key] for key in samples.keys], samples.keys)


def _call(function: Callable[[str], Any], keys: Sequence[str], samples: Samples) -> dict[str, Any]:
    progress = progress_line()
    results = {}
    try:
        for i, key in enumerate(keys):
            if progress is not None and i % 64 == 0:
                progress("labelling", i, len(keys))
            results[key] = _plain(function(samples.path(key)))
    except Exception as error:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise SampleError(f"labels={name} failed: {type(error).__name__}: {error}", stage="dataset", path=key) from error
    finally:
        if progress is not None:
            progress.end()
    return results


def _plain(value: Any) -> Any:
    """As JSON would have it, so that kept labels are the same as new ones."""
    if isinstance(value, Mapping):
        return {str(name): _plain(v) for name, v in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


class _Kept:
    """What a function said before, beside the catalogs: for the same function (its text), the same source and the same catalog."""

    def __init__(self, function: Callable[..., Any], samples: Samples) -> None:
        text = _identity(function)
        self._path: Path | None = None
        self._made = samples.made
        if text is None or not samples.made:
            return
        folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        name = hashlib.sha256(f"{os.path.realpath(samples.root)}\0{text}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._path = Path(folder, "fullbore", "labels", f"{name}.json")

    def load(self) -> dict[str, Any]:
        """Nothing, if there is nothing that fits."""
        if self._path is None:
            return {}
        try:
            if not (_is_trusted(self._path.parent) and _is_trusted(self._path)):
                return {}
            kept = json.loads(self._path.read_text())
            labels: dict[str, Any] = kept["labels"] if kept["made"] == self._made else {}
            return labels
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def store(self, labels: dict[str, Any]) -> None:
        """Whole or not at all; that it cannot be kept costs time, not correctness."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = self._path.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps({"made": self._made, "labels": labels}))
            os.replace(part, self._path)
        except (OSError, TypeError, ValueError) as error:
            _logger.info("labels: they will be made again next time: %s", shown(str(error)))


def _is_trusted(path: Path) -> bool:
    """As with catalogs: ours or root's, and not everybody may write to it."""
    found = path.stat()
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o002


def _identity(function: Callable[..., Any]) -> str | None:
    """Where the function is and what it says; None: it cannot be told apart from another one."""
    if not inspect.isfunction(function) or function.__closure__ or function.__defaults__ or function.__kwdefaults__:
        return None
    try:
        return f"{function.__module__}.{function.__qualname__}\n{inspect.getsource(function)}"
    except (OSError, TypeError):
        return None


def check_names(columns: Columns) -> Columns:
    """Refuses names that a batch cannot have."""
    for name in columns.arrays:
        if not name or name == "image" or len(name.encode()) > 63 or "\n" in name or "\0" in name:
            raise UsageError(f"labels= has a label called {name!r}",
                             remedy="a name has 1 to 63 bytes and is not 'image', which is the picture")
    return columns
