"""Drives s3_tool (see s3_tool.c) against a server."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from server import ACCESS_KEY, REGION, SECRET_KEY, Server

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("FB_BUILD_DIR", ROOT / "build"))
TOOL = BUILD / "tests/io/s3/s3_tool"
COMMAND = os.environ.get("FULLBORE_COMMAND", str(BUILD / "src/cli/fullbore"))
GREW, E_IO, E_DATA, E_USAGE, E_NOT_FOUND = 1, -2, -3, -4, -5


def environment(server: Server | None, folder: Path, **more: str) -> dict[str, str]:
    """A clean environment: nothing of the machine's own settings, no metadata service."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "FULLBORE_")) and "proxy" not in k.lower()}
    env |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "AWS_EC2_METADATA_DISABLED": "true"}
    if server:
        env |= {"AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION}
    return env | more


@dataclass
class Answer:
    objects: list[dict]
    sum: dict
    log: str


@dataclass
class Ask:
    path: str
    offset: int = 0
    length: int = -1
    size: int = 0
    mtime_ns: int = 0
    must_match: int = 0
    capacity: int = 0

    def line(self) -> bytes:
        fields = [self.path, *map(str, (self.offset, self.length, self.size, self.mtime_ns, self.must_match, self.capacity))]
        return "\t".join(fields).encode("utf-8", "surrogateescape") + b"\n"


def get(env: dict[str, str], url: str, asks: Iterable[Ask], options: str = "-", depth: int = 16, timeout: float = 60) -> Answer:
    done = subprocess.run([TOOL, "get", options, url, str(depth)], env=env, input=b"".join(a.line() for a in asks), capture_output=True,
                          timeout=timeout)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return Answer(lines[:-1], lines[-1], done.stderr.decode(errors="replace"))


def listing(env: dict[str, str], url: str, timeout: float = 60) -> dict[str, tuple[int, int]]:
    done = subprocess.run([TOOL, "list", url], env=env, capture_output=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    out = {}
    for line in done.stdout.decode().splitlines():
        key, size, mtime_ns = line.rsplit(" ", 2)
        assert json.loads(key) not in out, f"{key} is listed twice"
        out[json.loads(key)] = (int(size), int(mtime_ns))
    return out


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def some_bytes(n: int, seed: int = 0) -> bytes:
    block = hashlib.sha256(str(seed).encode()).digest() * 64
    return b"".join(block[i % 31 :] for i in range(n // 2000 + 2))[:n]
