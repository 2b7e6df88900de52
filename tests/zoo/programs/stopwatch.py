"""A training program's own stopwatch: where its wall time went, by its own clock.

The loop says what it does (`timed` around what it iterates over, `part` around the rest); whoever loads says what it does (`work`), in the
main thread, in other threads, or in other processes: their sums lie in memory that is shared by fork. Nothing of it can be seen from
outside: no file, no pipe and no system call but those that read a clock. The truth is written once, at the end.

What was counted before `warmup` seconds after the first batch is left out: a watcher leaves out its warm-up as well.
"""

import json
import mmap
import threading
import time
from collections.abc import Iterable, Iterator

WORK = ("read", "network", "fault", "decode", "collate")
SLOTS = 33  # loaders that can be told from each other


class Timed:
    """A context: wall time and CPU time of this thread between its beginning and its end."""
    __slots__ = ("began", "cpu", "add", "name")

    def __init__(self, add, name: str) -> None:
        self.add, self.name = add, name

    def __enter__(self) -> None:
        self.began, self.cpu = time.perf_counter(), time.thread_time()

    def __exit__(self, *ignored) -> None:
        self.add(self.name, time.perf_counter() - self.began, time.thread_time() - self.cpu)


class Stopwatch:
    def __init__(self, seconds: float = 6, warmup: float = 0.8) -> None:
        self.seconds, self.warmup = seconds, warmup
        self.shared = memoryview(mmap.mmap(-1, 8 * 2 * len(WORK) * SLOTS)).cast("d")
        self.local = threading.local()
        self.loop: dict[str, list[float]] = {}  # what the loop did: wall, CPU, how often
        self.inside: dict[str, list[float]] = {}  # "next read": what the main thread did inside next()
        self.kind = ""
        self.steps, self.first_at, self.over_at = 0, 0.0, 0.0
        self.begun_at, self.base = 0.0, ({}, {}, [], 0)

    # ---- loaders

    def is_loader(self, number: int) -> None:
        """Called once by each loader, thread or process: its number, from 0."""
        self.local.slot = number % SLOTS

    def work(self, name: str) -> Timed:
        return Timed(self.add_work, name)

    def add_work(self, name: str, wall: float, cpu: float) -> None:
        slot = getattr(self.local, "slot", None)
        if slot is None:
            add(self.inside, f"{self.kind} {name}", wall, cpu)
            return
        at = 2 * (slot * len(WORK) + WORK.index(name))
        self.shared[at] += wall
        self.shared[at + 1] += cpu

    # ---- the loop

    def part(self, name: str) -> Timed:
        return Timed(self.add_part, name)

    def add_part(self, name: str, wall: float, cpu: float) -> None:
        add(self.loop, name, wall, cpu)

    def timed(self, batches: Iterable, kind: str = "next", first: str = "next") -> Iterator:
        """The same batches; the time to get one is counted as `kind`, that of the first of an epoch (starting the workers) as `first`."""
        self.kind = kind
        with self.part(first if self.first_at else "start"):
            iterator = iter(batches)
            batch = next(iterator, self)
        while batch is not self:
            if not self.first_at:
                self.first_at = time.perf_counter()
            yield batch
            self.kind = kind
            with self.part(kind):
                batch = next(iterator, self)

    def is_over(self) -> bool:
        """Asked after each step of the training loop; counts it, too."""
        now = time.perf_counter()
        self.steps += 1
        if not self.begun_at and now - self.first_at > self.warmup:
            self.begun_at, self.base = now, (copy(self.loop), copy(self.inside), list(self.shared), self.steps)
        self.over_at = now
        return now - self.first_at > self.seconds

    # ---- the truth

    def truth(self) -> dict:
        """Sums over the steady part: `loop` and `inside` of the main thread, `loaders` of all loaders together."""
        loop, inside, shared, steps = self.base
        sums = [now - before for now, before in zip(self.shared, shared or [0] * len(self.shared), strict=True)]
        loaders = {name: [sum(sums[2 * k::2 * len(WORK)]), sum(sums[2 * k + 1::2 * len(WORK)])] for k, name in enumerate(WORK)}
        wall = self.over_at - self.begun_at if self.begun_at else 0
        return {"wall_seconds": wall, "steps": self.steps - steps, "loop": less(self.loop, loop), "inside": less(self.inside, inside),
                "loaders": {name: entry for name, entry in loaders.items() if entry[0] > 0}}

    def write(self, path: str, **more) -> None:
        if not path:
            return
        with open(path, "w") as f:
            json.dump({**more, **self.truth()}, f)


def add(sums: dict[str, list[float]], name: str, wall: float, cpu: float) -> None:
    entry = sums.setdefault(name, [0.0, 0.0, 0])
    entry[0] += wall
    entry[1] += cpu
    entry[2] += 1


def copy(sums: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: list(entry) for name, entry in sums.items()}


def less(sums: dict[str, list[float]], before: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: [a - b for a, b in zip(entry, before.get(name, [0, 0, 0]), strict=True)] for name, entry in sums.items()}
