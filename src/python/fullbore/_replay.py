"""How fast the model is by itself: the same few batches again and again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from ._monitor import _to_stderr
from .batch import Batch

T = TypeVar("T")


def replay(loader: Iterable[T], batches: int = 8, *, steps: int | None = None, quiet: bool = False) -> Replay[T]:
    """The first batches of a loader, kept in memory and repeated for an epoch (or ``steps``): what is left is the model's own time.

    At the end it says how long a step takes, for ``--step-ms`` of ``fullbore doctor`` and ``bench``; ``replay.step_ms`` has it too.
    On an accelerator steps are queued; the last ones may still run when the loop ends, so a few dozen steps are better than a few.

    >>> again = replay([[1, 2], [3, 4], [5, 6]], batches=2, steps=7, quiet=True)
    >>> [batch[0] for batch in again]
    [1, 3, 1, 3, 1, 3, 1]
    >>> again.step_ms >= 0
    True
    """
    if batches < 1:
        raise ValueError(f"replay: batches={batches} is not at least 1")
    return Replay(loader, batches, steps, quiet)


class Replay(Generic[T]):
    """What ``fb.replay`` returns. ``step_ms``: the mean time between batches after one round of them, in milliseconds."""

    def __init__(self, loader: Iterable[T], batches: int, steps: int | None, quiet: bool) -> None:
        self._loader = loader
        self._wanted, self._steps, self._quiet = batches, steps, quiet
        self._kept: list[T] = []
        self.step_ms: float | None = None

    def __iter__(self) -> Iterator[T]:
        if not self._kept:
            self._kept = [_own(batch) for batch, _ in zip(self._loader, range(self._wanted), strict=False)]
        kept, total = self._kept, len(self)
        warm = min(len(kept), total // 2)  # the first round finds caches, kernels and memory
        began = time.perf_counter()
        for i in range(total if kept else 0):
            if i == warm:
                began = time.perf_counter()
            yield kept[i % len(kept)]
        if kept and total > warm:
            self.step_ms = 1e3 * (time.perf_counter() - began) / (total - warm)
            if not self._quiet:
                _to_stderr(f"fullbore: without its loader a step takes {self.step_ms:.2f} ms ({1e3 / max(self.step_ms, 1e-9):.1f} it/s): "
                           f"fullbore doctor DATA --step-ms {self.step_ms:.2f}")

    def __len__(self) -> int:
        if self._steps is not None:
            return self._steps
        try:
            return len(self._loader)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError("replay: this loader has no length; say how many steps=") from None

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # not set yet
            raise AttributeError(name)
        return getattr(self._loader, name)


def _own(batch: Any) -> Any:
    """A batch of the engine's is copied, without its memory of where it came from: keeping many of them would take the engine's slots."""
    if isinstance(batch, Batch):
        return Batch(x.clone() if hasattr(x, "clone") else x.copy() for x in batch)
    return batch
