"""Talks to transform_tool: one process, many requests."""
import dataclasses
import json
import os
import pathlib
import subprocess

import numpy as np

REPO = pathlib.Path(__file__).resolve().parents[2]


def build_dir() -> pathlib.Path:
    return pathlib.Path(os.environ.get("FB_BUILD_DIR", REPO / "build"))


@dataclasses.dataclass
class Answer:
    error: str
    data: bytes = b""
    draw: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)
    out: tuple = (0, 0)
    region: tuple = (0, 0, 0, 0)
    scratch_bytes: int = 0
    is_identity: bool = False

    def image(self, dtype, layout: str) -> np.ndarray:
        """The data as height x width x 3."""
        h, w = self.out
        flat = np.frombuffer(self.data, dtype)
        return flat.reshape(3, h, w).transpose(1, 2, 0) if layout == "NCHW" else flat.reshape(h, w, 3)


class Tool:
    def __enter__(self):
        path = build_dir() / "tests" / "transform" / "transform_tool"
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        assert self.process.wait() == 0

    def _ask(self, line: str, *payloads: bytes):
        self.process.stdin.write(line.encode() + b"\n")
        for p in payloads:
            self.process.stdin.write(p)
        self.process.stdin.flush()
        head = self.process.stdout.readline()
        assert head, f"the tool died at '{line}'"
        code, text_bytes, data_bytes = map(int, head.split())
        return code, self.process.stdout.read(text_bytes).decode(), self.process.stdout.read(data_bytes)

    def run(self, pixels, spec, *, dtype, layout, seed=0, position=0, exif=False, orientation=1) -> Answer:
        h, w, _ = pixels.shape
        line = f"run {dtype} {layout} {int(exif)} {seed} {position} {orientation} {h} {w} {len(spec.encode())}"
        code, text, data = self._ask(line, spec.encode(), np.ascontiguousarray(pixels).tobytes())
        return Answer(error=text) if code else Answer(error="", data=data, **json.loads(text))

    def resize(self, pixels, filter_number, out_height, out_width) -> np.ndarray:
        h, w, c = pixels.shape
        code, text, data = self._ask(f"resize {int(filter_number)} {c} {h} {w} {out_height} {out_width}", pixels.tobytes())
        assert code == 0, text
        return np.frombuffer(data, np.uint8).reshape(out_height, out_width, c)

    def draws(self, spec, count, height, width, seed) -> np.ndarray:
        """Rows of top, left, height, width, then eight numbers of each step that shows draws: those of its plan."""
        code, text, data = self._ask(f"draws {count} {seed} {height} {width} {len(spec.encode())}", spec.encode())
        assert code == 0, text
        return np.frombuffer(data, np.float64).reshape(count, -1)
