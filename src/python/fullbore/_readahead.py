"""Reads the files of somebody else's Dataset ahead of its DataLoader, so that its workers find them in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _fullbore
from .errors import UsageError

_AHEAD_BYTES = 256 << 20
_THREADS = 32
_SAMPLES_KNOWN = 4096  # named to the readers beyond the one that is handed on
_DELAY_US = 0  # of every file: tests have slower storage with it


class ReadAhead:
    """A sampler that knows the future: it hands on another one's indices, and has their files read into the page cache meanwhile.

    Give it to the DataLoader as ``sampler=``. It keeps ``ahead`` bytes of files between what was read and what the workers were given;
    reads happen on ``threads`` threads of this process, which wait for the disk and take no time of the interpreter's.
    """

    def __init__(self, dataset: Any, sampler: Any, files: Callable[[int], Sequence[Any]], ahead: int, threads: int) -> None:
        self._dataset, self._sampler, self._files, self._ahead, self._threads = dataset, sampler, files, ahead, threads

    def __len__(self) -> int:
        return len(self._sampler)

    def set_epoch(self, epoch: int) -> None:
        """The sampler's, if it has it."""
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        order = list(self._sampler)
        reader = _fullbore._Ahead(self._threads, self._ahead, _DELAY_US)
        counts: deque[int] = deque()  # files of each sample that is known to the readers
        known = iter(order)
        try:
            for index in order:
                while len(counts) < _SAMPLES_KNOWN and (later := next(known, None)) is not None:
                    counts.append(self._push(reader, later))
                reader.pass_(counts.popleft())
                yield index
        finally:
            reader.stop()

    def _push(self, reader: _fullbore._Ahead, index: int) -> int:
        files = self._files(index)
        for file in files:
            reader.push(os.fsencode(file))
        return len(files)


def readahead(dataset: Any, files: Callable[[int], Sequence[Any]] | None = None, *, sampler: Any = None, shuffle: bool = False,
              seed: int = 0, ahead: int = _AHEAD_BYTES, threads: int = _THREADS) -> ReadAhead:
    """A sampler for ``DataLoader(dataset, sampler=readahead(dataset))`` that has the files read before the workers want them.

    ``files(i)`` says which files sample ``i`` needs; without it ``dataset.samples`` or ``dataset.imgs`` do (``ImageFolder`` has them).
    The order is ``sampler``'s, or shuffled by ``seed`` and epoch, or as it is.
    """
    if files is None:
        listed = getattr(dataset, "samples", None) or getattr(dataset, "imgs", None)
        if listed is None:
            raise UsageError("readahead: the data set has neither .samples nor .imgs",
                             remedy="say which files sample i needs: files=lambda i: [...]")
        files = _Listed(listed)
    return ReadAhead(dataset, sampler if sampler is not None else _Order(len(dataset), shuffle, seed), files, ahead, threads)


class _Listed:
    def __init__(self, listed: Sequence[Any]) -> None:
        self._listed = listed

    def __call__(self, i: int) -> Sequence[Any]:
        entry = self._listed[i]
        return [entry[0] if isinstance(entry, (tuple, list)) else entry]


class _Order:
    def __init__(self, count: int, shuffle: bool, seed: int) -> None:
        self._count, self._shuffle, self._seed, self._epoch = count, shuffle, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        import numpy as np

        rng = np.random.default_rng([self._seed, self._epoch])
        self._epoch += 1
        return iter(rng.permutation(self._count).tolist() if self._shuffle else range(self._count))
