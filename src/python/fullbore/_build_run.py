"""A build at work: one thread takes batches and calls the function, another fetches results and writes them.

Between them at most ``streams`` batches are under way: begun and not yet fetched. Whoever wants to begin one more waits.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._build_device import Cpu, Cuda, Fetch, on_host
from ._build_meter import WAIT, WRITE, Cost, Meter
from ._build_sink import Sink
from .batch import Batch
from .loader import Loader


@dataclass
class _Done:
    keys: list[str]
    labels: dict[str, Any]
    kept: np.ndarray[Any, Any] | None  # which samples, None: all
    fetch: Fetch
    cost: Cost


class Writer(threading.Thread):
    """Takes finished batches in order and writes them; the first failure is kept and ends it."""

    def __init__(self, sink: Sink, most: int, meter: Meter) -> None:
        super().__init__(name="fb-build-write", daemon=True)
        self.sink, self.meter = sink, meter
        self.error: BaseException | None = None
        self.depth_sum = self.depth_max = self.puts = 0
        self._queue: queue.SimpleQueue[_Done | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(most)
        self._written = 0
        self._news = threading.Condition()

    def wait_for_room(self) -> None:
        """One more batch may begin."""
        since = time.perf_counter()
        while not self._free.acquire(timeout=0.1):
            self._check()
        self._check()
        self.meter.hold_s += time.perf_counter() - since

    def put(self, done: _Done) -> None:
        self._queue.put(done)
        depth = self._queue.qsize()
        self.depth_sum, self.depth_max, self.puts = self.depth_sum + depth, max(self.depth_max, depth), self.puts + 1

    def run(self) -> None:
        try:
            while (done := self._queue.get()) is not None:
                arrays = done.fetch()
                self._free.release()
                self._write(done, arrays)
        except BaseException as error:  # handed to the caller
            self._tell(error)
            self._free.release()

    def _write(self, done: _Done, arrays: dict[str, Any]) -> None:
        since = time.perf_counter()
        kept = self.sink.write(done.keys, arrays, done.labels, done.kept)
        self.meter.add(WRITE, since, time.perf_counter(), done.cost)
        self.meter.end_batch(done.cost, kept, kept * self.sink.per_sample, len(done.keys) - kept)
        self._tell(None)

    def _tell(self, error: BaseException | None) -> None:
        with self._news:
            self.error, self._written = error, self._written + 1
            self._news.notify_all()

    def give_up(self) -> None:
        """Ends it, whatever is left to write: nobody writes to a file that is about to go."""
        while self.is_alive():
            try:
                self._queue.get_nowait()
            except queue.Empty:
                self._queue.put(None)
                self.join()

    def drain(self) -> None:
        """Until everything that was put is written."""
        with self._news:
            self._news.wait_for(lambda: self._written >= self.puts or self.error is not None)
        self._check()

    def end(self) -> None:
        """When everything is written."""
        self._queue.put(None)
        self.join()
        self._check()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def run(feed: Loader, fn: Callable[..., Any], runner: Cpu | Cuda, writer: Writer, expected: np.ndarray[Any, Any] | None,
        told: Callable[[], None]) -> None:
    """All batches of ``feed``. ``expected`` samples, when others may stand in for bad ones; ``told`` is called after each batch."""
    meter, position, batches = writer.meter, 0, iter(feed)
    while True:
        since = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        meter.add(WAIT, since, time.perf_counter())
        writer.wait_for_room()
        keys = list(batch.sample_keys)
        cost = Cost(keys[0], meter.stages[WAIT].batches - 1)
        kept = None if expected is None else _kept(batch, expected[position: position + len(keys)])
        writer.put(_Done(keys, _labels(batch), kept, runner.run(fn, batch[0], keys, cost), cost))
        position += len(keys)
        told()


def _kept(batch: Batch, expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A sample that is not the one of its place stands in for a bad one."""
    return np.asarray(np.asarray(batch.samples, dtype=np.int64) == expected)


def _labels(batch: Batch) -> dict[str, Any]:
    fields = zip(batch.names[1:], batch[1:], strict=True)
    return {name: on_host(name, value).copy() for name, value in fields}
