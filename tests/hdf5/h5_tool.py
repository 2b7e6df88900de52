"""Drives h5_tool (see h5_tool.c) and finds it, the helper and the shared data."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "h5-pyfive"
BUILD = Path(os.environ.get("FB_BUILD_DIR", ROOT / "build"))
TOOL = BUILD / "tests" / "hdf5" / "h5_tool"
HELPER = BUILD / "src" / "hdf5" / "fullbore-hdf5"
FB_E_IO, FB_E_DATA, FB_E_NOT_FOUND, FB_E_UNSUPPORTED = -2, -3, -5, -7


class Refused(Exception):
    """The answer was an error; `code` as in struct fb_error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Layout:
    index: int
    storage: str
    dtype: str
    is_swapped: bool
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    chunks: int
    filters: tuple[int, ...]
    is_straight: bool
    name: str
    why: str


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",")) if text else ()


class Tool:
    def __init__(self, helper: Path | str = HELPER, pass_fds: tuple[int, ...] = (), **environment: str) -> None:
        env = {**os.environ, "FULLBORE_HDF5_HELPER": str(helper), **environment}
        self._process = subprocess.Popen([str(TOOL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, pass_fds=pass_fds)
        self.record_bytes = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def _ask(self, command: str) -> list[str]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(command.encode(errors="surrogateescape") + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().decode(errors="replace")
        assert answer, f"the tool died of: {command} (status {self._process.wait()})"
        words = answer.split()
        if words[0] == "error":
            raise Refused(int(words[1]), answer.split(maxsplit=2)[2].strip())
        return words

    def open(self, path: Path | str, allows_external: bool = False) -> dict[str, Layout]:
        _, count, record = self._ask(f"open {int(allows_external)} {path}")
        self.record_bytes = int(record)
        return {a.name: a for a in (self._array(i) for i in range(int(count)))}

    def _array(self, index: int) -> Layout:
        assert self._process.stdout
        line = self._process.stdout.readline().decode().rstrip("\n")
        storage, dtype, code, shape, chunk_shape, chunks, filters, straight, name, why = line.split("\t")
        return Layout(index, storage, dtype, code == "1", numbers(shape), numbers(chunk_shape), int(chunks), numbers(filters),
                      straight == "1", name, why)

    def rows(self, a: Layout, first: int = 0, rows: int | None = None) -> np.ndarray:
        """Numbers as stored, viewed as little- or big-endian as the layout says."""
        there = a.shape[0] if a.shape else 1
        rows = there - first if rows is None else rows
        n = int(self._ask(f"rows {a.index} {first} {rows}")[1])
        assert self._process.stdout
        data = self._process.stdout.read(n)
        dtype = np.dtype("uint16" if a.dtype == "bfloat16" else a.dtype).newbyteorder(">" if a.is_swapped else "<")
        return np.frombuffer(data, dtype).reshape((rows, *a.shape[1:]) if a.shape else ())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(10) == 0
