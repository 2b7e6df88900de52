"""One training loop that trains nothing, with a stopwatch of its own: what bench/doctor.py holds the doctor's predictions against.

    bench/doctor_loop.py SPEC      a JSON object: source, batch, is_cold, later_seconds, and `loader`, more arguments of fullbore.Loader

Prints a JSON object: samples per second of the first epoch, from asking for its first batch to having its last, and of those behind it. The
latter go on for `later_seconds` (0: there are none); whole epochs only. `alone`: what both would have been with the cores that its threads
wanted in vain while others used them, so that a machine that is not quiet can be judged, too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import fullbore as fb

LEAST_BATCHES = 8
PICTURES = {"transforms": [fb.RandomResizedCrop(224), fb.RandomHorizontalFlip()], "dtype": "uint8"}


class Cores:
    """Mean cores of a stretch: used, wanted in vain, used by others."""

    def __init__(self) -> None:
        self.since = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float, dict[str, float]]:
        vain = {task.name: int((task / "schedstat").read_text().split()[1]) / 1e9 for task in Path("/proc/self/task").iterdir()}
        ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        busy = sum(sum(map(int, (*row[1:4], *row[6:9]))) for row in rows if row and row[0] in ours) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter(), time.process_time(), busy, vain

    def quicker_alone(self) -> float:
        """By how much it would have been without the others."""
        now = self._now()
        wall, used, busy = (b - a for a, b in zip(self.since[:3], now[:3], strict=True))
        vain = sum(waited - self.since[3].get(task, 0) for task, waited in now[3].items())
        wanted = min(used + max(0.0, min(vain, busy - used)), wall * len(os.sched_getaffinity(0)))
        return max(1.0, wanted / used) if used > 0 else 1.0


def files_of(source: Path) -> list[Path]:
    return [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]


def drop(source: Path) -> float:
    """From the page cache; the share of the bytes that are gone."""
    os.sync()
    files, left, whole = files_of(source), 0, 0
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    for path in files[:: len(files) // 200 + 1]:
        fd = os.open(path, os.O_RDONLY)
        size = min(1 << 20, path.stat().st_size)
        whole += size
        try:
            left += os.preadv(fd, [bytearray(4096)], 0, os.RWF_NOWAIT) * size // 4096  # type: ignore[attr-defined]
        except OSError:
            pass
        os.close(fd)
    return 1 - left / max(whole, 1)


def epoch(loader: fb.Loader) -> tuple[int, float]:
    since, samples = time.perf_counter(), 0
    for batch in loader:
        samples += len(batch.sample_keys) if not hasattr(batch, "samples") else len(batch.samples)
    return samples, time.perf_counter() - since


def run(spec: dict[str, Any]) -> dict[str, Any]:
    how = {**(PICTURES if spec.get("are_pictures") else {}), **spec.get("loader", {})}
    gone = drop(Path(spec["source"])) if spec["is_cold"] else 0.0
    opened, cores = time.perf_counter(), Cores()
    how = {"shuffle": True, "framework": "numpy", "on_error": "skip", **how}
    with fb.Loader(spec["source"], batch_size=spec["batch"], **how) as loader:
        opened = time.perf_counter() - opened
        opening, cores = cores.quicker_alone(), Cores()
        samples, seconds = epoch(loader)
        alone = seconds / cores.quicker_alone() + (opened / opening if how.get("preload") else 0)
        seconds += opened if how.get("preload") else 0  # that is when rows are loaded
        found: dict[str, Any] = {"first": samples / seconds, "dropped_ratio": gone, "samples": samples}
        found["first_alone"] = samples / alone
        samples, seconds, cores = 0, 0.0, Cores()
        batches = LEAST_BATCHES if spec["later_seconds"] else 0  # with fewer, memory that is touched for the first time is what is timed
        while seconds < spec["later_seconds"] or samples < batches * min(spec["batch"], found["samples"]):
            more, took = epoch(loader)
            samples, seconds = samples + more, seconds + took
        found["later"] = samples / seconds if seconds else None
        found["later_alone"] = samples / seconds * cores.quicker_alone() if seconds else None
    return found


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
