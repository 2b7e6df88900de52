"""An order of the user's own: an iterable of indices, read as far ahead as the engine can use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UsageError

if TYPE_CHECKING:
    from . import _fullbore
    from .loader import Loader

_BATCHES_AHEAD = 66  # the engine's deepest look-ahead and two


class Order:
    """Hands a sampler's indices to the engine while an epoch runs."""

    def __init__(self, core: _fullbore._Loader, sampler: Any, batch_size: int, start: int) -> None:
        self._core = core
        self._indices: Iterator[Any] | None = iter(sampler)
        self._wanted = batch_size * _BATCHES_AHEAD
        self._batch_size = batch_size
        self._ahead = -start  # those before the start were used up by the run that is being continued

    @property
    def is_used_up(self) -> bool:
        """Every index was given and asked for."""
        return self._indices is None and self._ahead <= 0

    def advance(self) -> None:
        """Before each batch."""
        missing = self._wanted - self._ahead if self._indices is not None else 0
        if self._indices is not None and missing > 0:
            taken = list(itertools.islice(self._indices, missing))
            is_last = len(taken) < missing
            self._core.push_order(_as_indices(taken), is_last)
            self._ahead += len(taken)
            if is_last:
                self._indices = None
        self._ahead -= self._batch_size


def _as_indices(taken: list[Any]) -> np.ndarray[Any, Any]:
    try:
        array = np.array([index.__index__() for index in taken], np.int64)
    except (AttributeError, TypeError, OverflowError):
        odd = next((index for index in taken if not hasattr(index, "__index__")), taken[0])
        hint = "a batch sampler makes batches; give the sampler inside it, and batch_size=" if isinstance(odd, list) else ""
        raise UsageError(f"sampler= yields {odd!r}, not whole numbers", remedy=hint) from None
    if len(array) and array.min() < 0:
        raise UsageError(f"sampler= yields {array.min()}: indices count from 0")
    return array.astype(np.uint64)


def length(sampler: Any, batch_size: int, drop_last: bool, start: int) -> int:
    """Batches from ``start`` on; the whole epoch if that leaves none."""
    if not isinstance(sampler, Sized):
        raise TypeError(f"sampler= is a {type(sampler).__name__} without a length, so the loader has none")
    count = len(sampler)
    left = count - start if count > start else count
    return left // batch_size if drop_last else -(-left // batch_size)


class OwnSampler:
    """What ``loader.sampler`` is when none was given: the loader's own order, for programs that call ``sampler.set_epoch``."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """The loader's."""
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        """Samples of an epoch on this rank."""
        count, world = self._loader.sample_count, self._loader.world_size
        return (count + world - 1) // world
