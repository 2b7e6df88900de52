"""What the tests of arrays and sound share: files made by h5py, numpy and soundfile, and the numbers that went into them."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[2] / ".venv/bin/fullbore"))
ROWS, WIDTH = 1000, 96  # rows of more than 256 bytes: smaller ones are kept in memory anyway
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "row chunks": {"chunks": (1, WIDTH)},
    "chunks": {"chunks": (64, WIDTH)},
    "gzip": {"chunks": (64, WIDTH), "compression": "gzip", "compression_opts": 4},
    "gzip shuffle fletcher32": {"chunks": (50, WIDTH), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": (33, WIDTH), "compression": "lzf"},
    "split columns": {"chunks": (64, 25)},
    "split columns gzip": {"chunks": (30, 40), "compression": "gzip"},
    "one chunk gzip": {"chunks": (ROWS, WIDTH), "compression": "gzip"},
}


def numbers(rows: int = ROWS, width: int = WIDTH, seed: int = 0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Something that deflate gets smaller, no two rows alike."""
    values = np.random.default_rng(seed).integers(-2000, 2000, (rows, width)) / 8
    values[:, 0] = np.arange(rows)
    return values.astype(dtype)


def write_h5(path: Path, arrays: dict[str, np.ndarray[Any, Any]], **layout: Any) -> Path:
    """The layout is for arrays of two dimensions and more; the others are contiguous."""
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, **(layout if values.ndim > 1 else {}))
    return path


def make_rows(path: Path, layout: str = "gzip", rows: int = ROWS, seed: int = 0) -> Path:
    """`features` and `labels`: label = row number of that file."""
    shape = dict(LAYOUTS[layout])
    if shape.get("chunks", (0,))[0] > rows:
        shape["chunks"] = (rows, WIDTH)
    return write_h5(path, {"features": numbers(rows, seed=seed), "labels": np.arange(rows)}, **shape)


def make_bags(folder: Path, count: int = 12, **layout: Any) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """One file per bag: `features` n x 6, `coords` n x 2, `slide` of 3 numbers. Returns what is in them, by key."""
    folder.mkdir(parents=True, exist_ok=True)
    bags = {}
    for i in range(count):
        rng = np.random.default_rng(i)
        n = int(rng.integers(3, 40))
        arrays = {"features": rng.random((n, 6), dtype=np.float32), "coords": rng.integers(0, 9999, (n, 2), dtype=np.int32),
                  "slide": np.array([i, 2 * i, 3 * i], dtype=np.float64)}
        write_h5(folder / f"slide_{i:02}.h5", arrays, **layout)
        bags[f"slide_{i:02}.h5"] = arrays
    return bags


def open_arrays(source: Any, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 64, "framework": "numpy", **arguments})


def taken(loader: fb.Loader, field: int = 0) -> np.ndarray[Any, Any]:
    """One epoch of a field, batches joined."""
    return np.concatenate([np.array(batch[field]) for batch in loader])


def epoch_of(source: Any, field: int = 0, **arguments: Any) -> np.ndarray[Any, Any]:
    with open_arrays(source, **arguments) as loader:
        return taken(loader, field)


def keys_of(source: Any, **arguments: Any) -> list[str]:
    with open_arrays(source, **arguments) as loader:
        return [key for batch in loader for key in batch.sample_keys]


def row_of_key(key: str) -> int:
    return int(key.rsplit("#", 1)[1])


def chunk_places(path: Path, name: str = "features") -> list[tuple[int, int]]:
    """(offset, length) of every chunk, in the order of their coordinates."""
    with h5py.File(path) as file:
        chunks = [file[name].id.get_chunk_info(i) for i in range(file[name].id.get_num_chunks())]
        return [(c.byte_offset, c.size) for c in sorted(chunks, key=lambda c: c.chunk_offset)]


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def spoil_chunks(path: Path, which: list[int], name: str = "features") -> None:
    """Breaks deflated chunks in the middle of their streams."""
    places = chunk_places(path, name)
    for i in which:
        offset, length = places[i]
        overwrite(path, offset + length // 2, bytes(255 - b for b in zlib.compress(b"not what was here")[:16]))


def command(*arguments: object, env: dict[str, str] | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, arguments)], env={**os.environ, **(env or {})}, capture_output=True, text=True,
                          timeout=timeout)
