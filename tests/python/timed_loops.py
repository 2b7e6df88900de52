"""Loops of many kinds with a clock of their own around ``next()``; as a program, one of them: timed_loops.py KIND FOLDER RESULT.json."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
from array_files import make_bags
from made_photos import make_photos

SLOW = "slow:latency_us=3000,iops=600"  # storage of another kind: waits are real
STEP, WORK = 0.004, 0.003


def sleeps(seconds: float) -> None:
    """A step on an accelerator."""
    time.sleep(seconds)


def computes(seconds: float) -> None:
    """A step on this core, which keeps the interpreter's lock."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def samples_of(batch: Any) -> int:
    return len(batch[0])


class Stopwatch:
    """What a clock around ``iter()`` and ``next()`` sees. Batches are dropped in the step, so freeing them is no part of a wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.steps: list[float] = []
        self.first_waits = 0.0
        self.step_samples = 0

    def epoch(self, iterable: Iterable[Any], step: Callable[[float], None]) -> None:
        is_first, last = True, 0.0
        asked = time.perf_counter()
        iterator = iter(iterable)
        while True:
            try:
                batch = next(iterator)
            except StopIteration:
                return
            now = time.perf_counter()
            self.waits.append(now - asked)
            if is_first:
                self.first_waits += now - asked
            else:
                self.steps.append(now - last)
                self.step_samples += samples_of(batch)
            is_first, last = False, now
            step(STEP)
            del batch
            asked = time.perf_counter()

    def figures(self) -> dict[str, float]:
        """By the names of the statistics."""
        stepping = sum(self.steps)
        wall = stepping + self.first_waits
        return {"batches": len(self.waits), "wall_seconds": wall, "exposed_wait_seconds": sum(self.waits),
                "exposed_wait_ratio": sum(self.waits) / wall, "step_mean_seconds": stepping / len(self.steps),
                "batches_per_second": len(self.steps) / stepping, "samples_per_second": self.step_samples / stepping}


def differences(said: dict[str, Any], clock: dict[str, float]) -> list[str]:
    """Figures that are further from the clock's than 1 %, and than half a point of the wall time if they are waits."""
    points = {"exposed_wait_ratio": 0.005, "exposed_wait_seconds": 0.005 * clock["wall_seconds"]}
    return [f"{name}: {said[name]:.6g}, and a stopwatch says {value:.6g}" for name, value in clock.items()
            if name in said and abs(said[name] - value) > max(0.01 * value, points.get(name, 0))]


# ---- what is iterated over


def shade(image: Any) -> Any:
    return image // 2


def sleepy_map(batch: Any) -> Any:
    time.sleep(WORK)
    return batch


def busy_map(batch: Any) -> Any:
    computes(WORK)
    return batch


def pictures(folder: Path, **options: Any) -> fb.Loader:
    transforms = options.pop("transforms", [fb.Resize((16, 16))])
    source = folder if folder.exists() else make_photos(folder, 160, side=24)
    return fb.Loader(source, **{"batch_size": 4, "shuffle": True, "transforms": transforms, "framework": "numpy", **options})


def rows(folder: Path, **options: Any) -> fb.Loader:
    folder.mkdir(exist_ok=True)
    np.save(folder / "rows.npy", np.arange(40 * 256 * 8, dtype=np.float32).reshape(-1, 8))
    return fb.Loader(folder / "rows.npy", **{"batch_size": 256, "shuffle": True, "framework": "numpy", **options})


def padded(folder: Path) -> fb.Loader:
    if not folder.exists():
        make_bags(folder, 60)
    return fb.Loader(folder, batch_size=3, shuffle=True, collate=fb.Pad(), framework="numpy")


class Generated:
    """Not of fullbore: sleeps for each batch."""

    def __iter__(self) -> Iterator[Any]:
        for i in range(50):
            time.sleep(WORK)
            yield np.full((4, 2), i), np.arange(4)


def data_loader(workers: int) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(Costly(), batch_size=4, num_workers=workers)  # type: ignore[arg-type]


class Costly:
    def __len__(self) -> int:
        return 160

    def __getitem__(self, i: int) -> Any:
        import torch

        computes(WORK / 4)
        return torch.full((8,), float(i)), i


def watched(iterable: Any) -> Any:
    return fb.monitor(iterable, quiet=True)


KINDS: dict[str, Callable[[Path], Any]] = {
    "pictures to numpy": lambda folder: pictures(folder),
    "pictures to torch": lambda folder: pictures(folder, framework="torch", transforms=[fb.Resize((16, 16)), fb.Normalize.imagenet()]),
    "rows": lambda folder: rows(folder),
    "rows to torch": lambda folder: rows(folder, framework="torch"),
    "padded bags": padded,
    "batch_map that sleeps": lambda folder: pictures(folder, batch_map=sleepy_map),
    "batch_map that computes": lambda folder: rows(folder, batch_map=busy_map),
    "Map": lambda folder: pictures(folder, transforms=[fb.Resize((16, 16)), fb.Map(shade)]),
    "own order": lambda folder: rows(folder, shuffle=False, sampler=range(40 * 256)),
    "monitor of a loader": lambda folder: watched(pictures(folder)),
    "monitor of a generator": lambda folder: watched(Generated()),
    "monitor of a DataLoader": lambda folder: watched(data_loader(0)),
    "monitor of a DataLoader with workers": lambda folder: watched(data_loader(2)),
}


def said_by(source: Any) -> list[dict[str, Any]]:
    """Every place where a loader or a monitor says its figures, by the names of the statistics."""
    stats, metrics = source._stats(), source.metrics()
    totals, gauges = ("batches", "wall_seconds", "exposed_wait_seconds"), ("exposed_wait_ratio", "step_mean_seconds", "batches_per_second",
                                                                          "samples_per_second")
    flat = {name: metrics[f"fullbore_{name}_total"] for name in totals} | {name: metrics[f"fullbore_{name}"] for name in gauges}
    if isinstance(source, fb.Loader):
        return [stats, stats["loop"], flat]
    return [stats["loop"], flat, *(said_by(source._loader) if source._loader is not None else [])]


def measure(source: Any, step: Callable[[float], None], epochs: int = 2) -> Stopwatch:
    watch = Stopwatch()
    for _ in range(epochs):
        watch.epoch(source, step)
    return watch


if __name__ == "__main__":
    kind, place, result = sys.argv[1:]
    os.environ["FULLBORE_IO"] = SLOW
    iterated = KINDS[kind](Path(place))
    clock = measure(iterated, sleeps, epochs=8).figures()
    Path(result).write_text(json.dumps({"clock": clock, "said": said_by(iterated)}))
