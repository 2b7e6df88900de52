"""Drives decode_tool (see decode_tool.c) and finds it and the shared data."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data"
TOOL = Path(os.environ.get("FB_BUILD_DIR", ROOT / "build")) / "tests/codec/image/decode_tool"


class Refused(Exception):
    """The codec's answer was an error; `code` and `offset` as in struct fb_error."""

    def __init__(self, code: int, offset: int, cause: str) -> None:
        super().__init__(cause)
        self.code, self.offset = code, offset


@dataclass(frozen=True)
class Header:
    codec: str
    width: int
    height: int
    orientation: int


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

    def load(self, data: bytes) -> Header:
        _, codec, width, height, orientation = self._ask(f"load {len(data)}", data)
        return Header(codec, int(width), int(height), int(orientation))

    def part(self, n: int) -> Header | None:
        """The header of the first n bytes of the loaded file; None: more is needed."""
        words = self._ask(f"part {n}")
        return None if words[0] == "more" else Header(words[1], *map(int, words[2:]))

    def decode(self, top: int, left: int, height: int, width: int) -> np.ndarray:
        n = int(self._ask(f"decode {top} {left} {height} {width}")[1])
        assert self._process.stdout
        return np.frombuffer(self._process.stdout.read(n), np.uint8).reshape(height, width, 3)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(10) == 0
