"""What a build does at each moment: intervals by stage, from which overlap is known and not guessed."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

WAIT, IN, COMPUTE, OUT, WRITE = STAGES = ("wait for data", "copy to device", "compute", "copy back", "write")
SLOWEST = 5

Interval = tuple[str, float, float]  #: stage, begin, end


@dataclass
class Times:
    """Of one stage, over all batches."""

    total_s: float = 0.0  #: summed over batches; two streams at once count twice
    max_s: float = 0.0
    batches: int = 0
    wall_s: float = 0.0  #: in which at least one batch was in it
    alone_s: float = 0.0  #: in which nothing else went on

    def add(self, seconds: float) -> None:
        self.total_s, self.max_s, self.batches = self.total_s + seconds, max(self.max_s, seconds), self.batches + 1

    @property
    def mean_s(self) -> float:
        return self.total_s / self.batches if self.batches else 0.0


@dataclass
class Cost:
    """Of one batch, its waiting left out."""

    first: str
    number: int
    seconds: float = 0.0


@dataclass
class Part:
    """One split, or everything."""

    samples: int = 0
    rows: int = 0
    left_out: int = 0
    batches: int = 0
    batch_total_s: float = 0.0
    batch_max_s: float = 0.0
    cpu_s: float = 0.0  #: of all threads of the process
    load_s: float = 0.0  #: decoding and transforming, summed over threads
    loaded: int = 0  #: samples, also those that were left out
    load_p99_s: float = 0.0

    def add(self, other: Part) -> None:
        for name in ("samples", "rows", "left_out", "batches", "batch_total_s", "cpu_s", "load_s", "loaded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("batch_max_s", "load_p99_s"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))


def cpu_seconds() -> float:
    """Of this process and of children that have ended: the helper that puts HDF5's structure around the rows is one."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def by_set(intervals: Iterable[Interval]) -> dict[frozenset[str], float]:
    """Seconds in which exactly these stages were going on.

    >>> {"+".join(sorted(stages)): s for stages, s in by_set([("a", 0, 4), ("a", 1, 5), ("b", 3, 8)]).items()}
    {'a': 3, 'a+b': 2, 'b': 3}
    """
    edges = sorted(edge for stage, begin, end in intervals if end > begin for edge in ((begin, 1, stage), (end, -1, stage)))
    seconds: dict[frozenset[str], float] = {}
    count: dict[str, int] = {}
    since, going_on = 0.0, frozenset[str]()
    for at, change, stage in edges:
        if going_on and at > since:
            seconds[going_on] = seconds.get(going_on, 0) + at - since
        since = at
        count[stage] = count.get(stage, 0) + change
        going_on = frozenset(name for name, n in count.items() if n)
    return seconds


@dataclass
class Meter:
    """Counts while the build runs; the thread that computes and the one that writes both tell it."""

    stages: dict[str, Times] = field(default_factory=lambda: {name: Times() for name in STAGES})
    slowest: list[tuple[float, str, int]] = field(default_factory=list)  #: (seconds, first sample, number of the batch)
    hold_s: float = 0.0  #: computing waited for the writer
    intervals: list[Interval] = field(default_factory=list)
    part: Part = field(default_factory=Part)  #: that goes on now
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, stage: str, begin: float, end: float, cost: Cost | None = None) -> None:
        with self._lock:
            self.stages[stage].add(end - begin)
            self.intervals.append((stage, begin, end))
            if cost is not None:
                cost.seconds += end - begin

    def end_batch(self, cost: Cost, samples: int, rows: int, left_out: int) -> None:
        """A batch is written."""
        with self._lock:
            p = self.part
            p.samples, p.rows, p.left_out, p.batches = p.samples + samples, p.rows + rows, p.left_out + left_out, p.batches + 1
            p.batch_total_s, p.batch_max_s = p.batch_total_s + cost.seconds, max(p.batch_max_s, cost.seconds)
            self.slowest = sorted([*self.slowest, (cost.seconds, cost.first, cost.number)], reverse=True)[:SLOWEST]

    def sum_up(self, begin: float, end: float) -> dict[frozenset[str], float]:
        """Sets what the wall saw of each stage; returns it by sets of stages. The clock of an accelerator may be a little off that of the
        wall, so nothing is before the beginning or behind the end."""
        seconds = by_set((stage, max(a, begin), min(b, end)) for stage, a, b in self.intervals)
        for name, times in self.stages.items():
            times.wall_s = sum(s for stages, s in seconds.items() if name in stages)
            times.alone_s = seconds.get(frozenset([name]), 0.0)
        return seconds
