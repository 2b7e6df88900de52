"""Batches of samples that are about equally long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _fullbore
from ._rank import known_rank
from .errors import UsageError

_Indices = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]
_MOST_BUCKETS = 32
_BATCHES_IN_A_BUCKET = 4


class LengthBuckets:
    """An order for ``sampler=`` in which the samples of a batch are about equally long, so that little of it is padding.

    Samples are sorted into buckets by length; batches are made inside a bucket, at random, and come in random order. What is left over of
    the buckets is put together by length, and only the very last batch may be smaller. Every sample comes exactly once in an epoch; the
    same seed and epoch give the same batches on any machine. Ranks divide each global batch among them, as the loader does by itself.

    >>> lengths = [7, 900, 12, 880, 9, 15, 910, 11]
    >>> buckets = LengthBuckets(lengths, batch_size=4, buckets=2)
    >>> sorted(sorted(lengths[i] for i in batch) for batch in buckets.batches())
    [[7, 9, 11, 12], [15, 880, 900, 910]]
    >>> loader = Loader("photos", sampler=LengthBuckets(range(12), batch_size=4), batch_size=4, transforms=[Resize((8, 8))])
    >>> len(loader)
    3

    ``buckets`` is their number (they are equally full), or the lengths at which one ends and the next begins. Give the same
    ``batch_size`` to the loader. ``rank`` and ``world_size`` come from torch.distributed or the environment unless they are given.
    """

    def __init__(self, lengths: npt.ArrayLike, batch_size: int, *, buckets: int | Sequence[float] | None = None, shuffle: bool = True,
                 seed: int = 0, drop_last: bool = False, rank: int | None = None, world_size: int | None = None) -> None:
        self._lengths = _checked(lengths)
        self.batch_size, self.seed, self.epoch = _whole("batch_size", batch_size, 1), _whole("seed", seed, 0), 0
        self._buckets, self._is_shuffled, self.drop_last = buckets, bool(shuffle), bool(drop_last)
        self._given = _given_rank(rank, world_size)
        self._bounds()  # says now what is wrong with them

    # ---- what a sampler has

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration is of; a loader says it by itself."""
        self.epoch = _whole("epoch", epoch, 0)

    def __len__(self) -> int:
        """Samples of an epoch on this rank."""
        rank, world = self._rank()
        full, rest = divmod(len(self._lengths), self.batch_size * world)
        return full * self.batch_size + (0 if self.drop_last else _share(rest, rank, world)[1])

    def __iter__(self) -> Iterator[int]:
        for batch in self.batches():
            yield from batch

    # ---- and more

    def batches(self) -> list[list[int]]:
        """This rank's batches of the epoch."""
        rank, world = self._rank()
        return [part.tolist() for whole in self._global_batches(world) if len(part := _part(whole, rank, world, self.batch_size))]

    def padding(self) -> float:
        """The share of the epoch that is padding when each batch of this rank is padded to its longest sample."""
        batches = [self._lengths[batch] for batch in self.batches()]
        room = sum(float(part.max()) * len(part) for part in batches)
        return 1.0 - sum(float(part.sum()) for part in batches) / room if room else 0.0

    def check(self, batch_size: int, count: int) -> None:
        """Does it fit the loader?"""
        if batch_size != self.batch_size:
            raise UsageError(f"sampler= makes batches of {self.batch_size}, but batch_size= is {batch_size}", remedy="give both the same")
        if count != len(self._lengths):
            raise UsageError(f"LengthBuckets has {len(self._lengths)} lengths for {count} samples",
                             remedy="give one length for each selected sample, in the order of loader.dataset.keys")

    def _rank(self) -> tuple[int, int]:
        return self._given or known_rank() or _fullbore.find_rank()

    def _bounds(self) -> npt.NDArray[np.float64]:
        """Where one bucket ends and the next begins."""
        if self._buckets is None or isinstance(self._buckets, int):
            batches = -(-len(self._lengths) // self.batch_size)
            count = min(_MOST_BUCKETS, batches // _BATCHES_IN_A_BUCKET) if self._buckets is None else _whole("buckets", self._buckets, 1)
            cuts = np.arange(1, max(count, 1)) * len(self._lengths) // max(count, 1)
            return np.sort(self._lengths)[cuts]
        bounds = np.asarray(self._buckets, np.float64)
        if bounds.ndim != 1 or not np.all(np.isfinite(bounds)) or np.any(np.diff(bounds) <= 0):
            raise UsageError("LengthBuckets: buckets= is not a number, nor a list of lengths that grow")
        return bounds

    def _global_batches(self, world: int) -> list[_Indices]:
        size, count = self.batch_size * world, len(self._lengths)
        keys = _hashes(count, self.seed, self.epoch, 0) if self._is_shuffled else None
        order = np.arange(count, dtype=np.int64) if keys is None else np.argsort(keys, kind="stable")
        bucket = np.searchsorted(self._bounds(), self._lengths[order], side="right")
        by_bucket = np.split(order[np.argsort(bucket, kind="stable")], np.cumsum(np.bincount(bucket))[:-1])
        if keys is None:
            by_bucket = [part[np.argsort(self._lengths[part], kind="stable")] for part in by_bucket]
        full = [part[i:i + size] for part in by_bucket for i in range(0, len(part) - size + 1, size)]
        left = np.concatenate([part[len(part) // size * size:] for part in by_bucket])
        full += [left[i:i + size] for i in range(0, len(left) - size + 1, size)]
        if keys is not None:
            full = [full[i] for i in np.argsort(_hashes(len(full), self.seed, self.epoch, 1), kind="stable")]
        short = left[len(left) // size * size:]
        return [*full, short] if len(short) and not self.drop_last else full


def _hashes(count: int, seed: int, epoch: int, purpose: int) -> _Hashes:
    """One number for each of 0 .. count - 1: the same for ever, whatever numpy's generators become (splitmix64 over a mixed key)."""
    def mixed(x: _Hashes) -> _Hashes:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    with np.errstate(over="ignore"):
        key = np.zeros(1, np.uint64)
        for part in (seed, epoch, purpose):
            key = mixed(key + np.uint64(part % 2**64) + np.uint64(0x9E3779B97F4A7C15))
        return mixed(key + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def _share(count: int, rank: int, world: int) -> tuple[int, int]:
    """(first, how many) of a last batch: at least one, repeated if there are fewer samples than ranks."""
    if 0 < count < world:
        return rank % count, 1
    first = rank * count // world
    return first, (rank + 1) * count // world - first


def _part(whole: _Indices, rank: int, world: int, batch_size: int) -> _Indices:
    first, count = (rank * batch_size, batch_size) if len(whole) == batch_size * world else _share(len(whole), rank, world)
    return whole[first:first + count]


def _checked(lengths: npt.ArrayLike) -> npt.NDArray[np.float64]:
    array = np.asarray(lengths)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not len(array):
        raise UsageError("LengthBuckets: lengths are not a list of numbers, one for each sample")
    bad = np.flatnonzero(~np.isfinite(array) | (array < 0))
    if len(bad):
        raise UsageError(f"LengthBuckets: the length of sample {bad[0]} is {array[bad[0]]}")
    return array.astype(np.float64)


def _whole(name: str, value: Any, low: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < low:
        raise UsageError(f"LengthBuckets: {name} is {value!r}, not a whole number from {low} up")
    return int(value.__index__())


def _given_rank(rank: Any, world_size: Any) -> tuple[int, int] | None:
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        raise UsageError("LengthBuckets: rank= and world_size= go together")
    world = _whole("world_size", world_size, 1)
    if _whole("rank", rank, 0) >= world:
        raise UsageError(f"LengthBuckets: rank {rank} is not one of {world}")
    return int(rank), world
