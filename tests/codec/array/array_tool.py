"""Drives array_tool (see array_tool.c) and finds it and the shared data."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data"
TOOL = Path(os.environ.get("FB_BUILD_DIR", ROOT / "build")) / "tests/codec/array/array_tool"

E_IO, E_DATA, E_USAGE, E_UNSUPPORTED = -2, -3, -4, -7
PLAIN, SWAPPED, U8, S16, S24, S32, F32, F64, ALAW, MULAW = range(10)
BYTES = {U8: 1, S16: 2, S24: 3, S32: 4, F32: 4, F64: 8, ALAW: 1, MULAW: 1}


class Refused(Exception):
    """The answer was an error; `code` and `offset` as in struct fb_error."""

    def __init__(self, code: int, offset: int, cause: str) -> None:
        super().__init__(cause)
        self.code, self.offset = code, offset


@dataclass(frozen=True)
class Array:
    index: int
    name: str
    dtype: str
    code: int
    storage: str
    rate: int
    shape: tuple[int, ...]


def as_numpy(raw: bytes, dtype: str) -> np.ndarray:
    """bfloat16 comes as its bits."""
    return np.frombuffer(raw, np.uint16 if dtype == "bfloat16" else dtype)


class Tool:
    def __init__(self) -> None:
        self._process = subprocess.Popen([str(TOOL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, command: str, data: bytes = b"") -> list[str]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(command.encode() + b"\n" + data)
        self._process.stdin.flush()
        answer = self._process.stdout.readline().decode()
        assert answer, f"the tool died of: {command} (status {self._process.wait()})"
        words = answer.split()
        if words[0] == "error":
            raise Refused(int(words[1]), int(words[2]), answer.split(maxsplit=3)[3].strip())
        return words

    def _numbers(self, command: str, data: bytes = b"") -> bytes:
        n = int(self._ask(command, data)[1])
        assert self._process.stdout
        return self._process.stdout.read(n)

    def load(self, data: bytes) -> tuple[str, list[Array]]:
        _, name, count = self._ask(f"load {len(data)}", data)
        assert self._process.stdout
        arrays = []
        for i in range(int(count)):
            words = self._process.stdout.readline().decode().rstrip("\n").split(" ", 5)
            rest = words[5].split(" ", int(words[4]))
            arrays.append(Array(i, rest[-1], words[0], int(words[1]), words[2], int(words[3]), tuple(map(int, rest[:-1]))))
        return name, arrays

    def rows(self, a: Array, first: int = 0, rows: int | None = None, dtype: str = "-") -> np.ndarray:
        rows = (a.shape[0] if a.shape else 1) - first if rows is None else rows
        got = as_numpy(self._numbers(f"rows {a.index} {first} {rows} {dtype}"), a.dtype if dtype == "-" else dtype)
        return got.reshape((rows, *a.shape[1:]) if a.shape else ())

    def convert(self, stored: bytes, code: int, source: str, to: str, count: int, mean: np.ndarray | None = None,
                inv_std: np.ndarray | None = None, repeat: int = 1) -> np.ndarray:
        pairs = b"" if mean is None or inv_std is None else mean.astype("<f4").tobytes() + inv_std.astype("<f4").tobytes()
        period = len(pairs) // 8
        data = stored + pairs
        return as_numpy(self._numbers(f"convert {code} {source} {to} {count} {period} {repeat} {len(data)}", data), to)

    def planes(self, stored: bytes, code: int, to: str, channels: int, frames: int, after: int) -> np.ndarray:
        raw = self._numbers(f"planes {code} {to} {channels} {frames} {after} {len(stored)}", stored)
        return as_numpy(raw, to).reshape(channels, frames + after)

    def mono(self, stored: bytes, code: int, to: str, channels: int, frames: int, after: int) -> np.ndarray:
        return as_numpy(self._numbers(f"mono {code} {to} {channels} {frames} {after} {len(stored)}", stored), to)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(10) == 0
