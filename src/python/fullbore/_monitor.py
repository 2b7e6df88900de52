"""One line in any loop: ``for x, y in fb.monitor(loader)``."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from . import _fullbore
from ._explain import Explains
from .loader import Loader

T = TypeVar("T")
_KNOWN = "_fullbore_monitor"  # where a loader keeps its monitor: a cycle, which ends with the loader
LOOK_PROGRAM, LOOK_SILENT = 2, 3  # silent: the loader tells whoever watches itself
LEAST_SECONDS = 1.0  # between two lines: an epoch of a second needs no ten of them
UNSIZED_SECONDS = 30.0  # between lines when nobody knows how long the epoch is


def monitor(iterable: Iterable[T], *, every: float = 0.1, say: Callable[[str], None] | None = None, quiet: bool = False) -> Monitor[T]:
    """Watches a loop over anything, a torch ``DataLoader`` too: how long it waits for batches, exactly, and why.

    A line comes every ``every`` of an epoch (a tenth), a summary with the verdict at its end; ``say`` takes them instead of stderr, and
    ``quiet`` leaves them out. What is wrapped keeps its ``len()``, attributes and methods, ``set_epoch`` too. Called again for the same
    loader, epoch after epoch, it goes on with the same monitor.

    >>> batches = monitor([[1, 2], [3, 4], [5, 6]], quiet=True)
    >>> for batch in batches: pass
    >>> len(batches), batches.metrics()["fullbore_samples_total"]
    (3, 6.0)
    >>> batches.close()
    """
    known = getattr(iterable, _KNOWN, None)
    watched: Monitor[T] = known if isinstance(known, Monitor) and not known.closed and known._iterable is iterable else Monitor(iterable)
    watched._every, watched._say, watched._quiet = every, say or _to_stderr, quiet
    return watched


class Monitor(Explains, Generic[T]):
    """What ``fb.monitor`` returns: the same batches, and ``verdict()``, ``status_line()``, ``metrics()``, ``postfix()``."""

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self._loader = iterable if isinstance(iterable, Loader) else None  # knows its own threads better than any look at them
        self._core = _fullbore._Monitor(LOOK_PROGRAM if self._loader is None else LOOK_SILENT)
        self._every, self._quiet = 0.1, False
        self._say: Callable[[str], None] = _to_stderr
        self._epochs = 0
        self.closed = False
        with contextlib.suppress(AttributeError, TypeError):  # lists and generators take no attributes
            setattr(iterable, _KNOWN, self)

    def __iter__(self) -> Iterator[T]:
        core = self._core
        core.ask()  # starting workers is waiting for the first batch, too
        length = self._length()
        line = _Line(self, length)
        core.begin(length)
        iterator = iter(self._iterable)
        try:
            while True:
                try:
                    batch = [next(iterator)]
                except StopIteration:
                    break
                line.count()
                core.take(samples_of(batch[0]))
                yield batch.pop()  # not kept by us: when the loop lets it go, it is freed, in the loop's own time
                core.ask()
                line.say_sometimes()  # the loop waits for that, too
        finally:
            core.end()
            self._epochs += 1
            line.end()

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name == "_iterable":  # not set yet
            raise AttributeError(name)
        return getattr(self._iterable, name)

    def status_line(self) -> str:
        """Accelerator, CPU, memory, disk, and what the loop waits for: the line of ``fullbore watch``."""
        return self._core.status_line() if self._loader is None else self._loader.status_line()

    def close(self) -> None:
        """Stops looking; the figures are gone. What was wrapped stays as it is."""
        self.closed = True
        self._core.close()

    def __repr__(self) -> str:
        return f"<monitor of {self._iterable!r}>"

    def _stats(self) -> dict[str, Any]:
        return {"loop": json.loads(self._core.figures())}

    def _verdict(self) -> str:
        return self._core.verdict() if self._loader is None else self._loader._verdict()

    def _length(self) -> int:
        try:
            return len(self)
        except TypeError:
            return 0


class _Line:
    """Says something now and then during one epoch, and sums it up."""

    def __init__(self, owner: Monitor[Any], length: int) -> None:
        self._owner = owner
        self._length = length
        self._stride = max(1, round(length * owner._every)) if length and owner._every > 0 else 0
        self._done = 0
        self._is_quiet = owner._quiet
        self._said = time.monotonic()

    def count(self) -> None:
        self._done += 1

    def say_sometimes(self) -> None:
        if self._is_quiet or (self._stride and (self._done % self._stride or self._done == self._length)):
            return
        now = time.monotonic()
        if now - self._said >= (LEAST_SECONDS if self._stride else UNSIZED_SECONDS):
            self._said = now
            self._owner._say(f"{self._where()} | {self._pace()} | {self._owner.status_line()}")

    def end(self) -> None:
        if self._is_quiet or not self._done:
            return
        loop, verdict = self._owner._figures(), self._owner.verdict()
        self._owner._say(
            f"fullbore: epoch {self._owner._epochs}: {self._done} batches in {loop['epoch_wall_seconds']:.1f} s, of which waited "
            f"{loop['epoch_exposed_wait_seconds']:.1f} s ({100 * loop['epoch_exposed_wait_ratio']:.0f} %) | {self._pace()} | "
            f"step p50 {1e3 * loop['step_p50_seconds']:.1f} p99 {1e3 * loop['step_p99_seconds']:.1f} ms | {verdict.kind}")
        for remedy in verdict.remedies[:1]:
            self._owner._say(f"fullbore:   {remedy!r}")

    def _where(self) -> str:
        epoch = f"fullbore: epoch {self._owner._epochs + 1}"
        if not self._length:
            return f"{epoch} batch {self._done}"
        return f"{epoch} {100 * self._done // self._length} % ({self._done}/{self._length})"

    def _pace(self) -> str:
        loop = self._owner._figures()
        rate = loop["epoch_batches_per_second"]  # 0: there was one batch
        return (f"{f'{rate:.1f}' if rate else 'n/a'} it/s | loader avg {1e3 * loop['epoch_wait_mean_seconds']:.1f} "
                f"max {1e3 * loop['epoch_wait_max_seconds']:.1f} ms")


def samples_of(batch: Any) -> int:
    """How many samples a batch seems to hold; 0 when that cannot be said."""
    while isinstance(batch, (tuple, list, Mapping)):
        if isinstance(batch, list) and batch and not hasattr(batch[0], "shape") and not isinstance(batch[0], (tuple, list, Mapping)):
            return len(batch)
        batch = next(iter(batch.values() if isinstance(batch, Mapping) else batch), None)
    shape = getattr(batch, "shape", None)
    try:
        return int(shape[0]) if shape else 0
    except (TypeError, ValueError):
        return 0


def _to_stderr(line: str) -> None:
    stream = sys.stderr
    if stream is not None:
        print(line, file=stream, flush=True)
