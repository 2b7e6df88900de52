"""Reads the files of somebody else's Dataset ahead of its DataLoader, so that its workers find them in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .errors import UsageError

_AHEAD_BYTES = 256 << 20
_THREADS = 16


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
        reader = _Reader((file for index in order for file in self._files(index)), self._ahead, self._threads)
        try:
            for index in order:
                for file in self._files(index):
                    reader.passed(os.fspath(file))
                yield index
        finally:
            reader.stop()


class _Reader:
    """Threads that read files in order, never more than `ahead` bytes beyond what was passed."""

    def __init__(self, files: Iterator[Any], ahead: int, threads: int) -> None:
        self._files, self._ahead = files, ahead
        self._lock = threading.Condition()
        self._sizes: dict[str, int] = {}  # read and not passed yet
        self._passed: dict[str, int] = {}  # passed before they were read
        self._bytes = 0
        self._is_over = False
        for i in range(threads):
            threading.Thread(target=self._run, name=f"fb-ahead{i}", daemon=True).start()

    def passed(self, file: str) -> None:
        """Its reader has been given it: no longer ahead."""
        with self._lock:
            size = self._sizes.pop(file, None)
            if size is None:
                self._passed[file] = self._passed.get(file, 0) + 1
            else:
                self._bytes -= size
                self._lock.notify_all()

    def stop(self) -> None:
        """Threads end after the read they are in."""
        with self._lock:
            self._is_over = True
            self._lock.notify_all()

    def _next(self) -> str | None:
        with self._lock:
            while self._bytes >= self._ahead and not self._is_over:
                self._lock.wait()
            file = None if self._is_over else next(self._files, None)
            if file is None:
                return None
            name = os.fspath(file)
            if self._passed.get(name, 0):  # too late: its reader is at it
                self._passed[name] -= 1
                return ""
            self._sizes[name] = 0
            return str(name)

    def _run(self) -> None:
        while (file := self._next()) is not None:
            if not file:
                continue
            size = _read(file)
            with self._lock:
                if file in self._sizes:
                    self._sizes[file] = size
                    self._bytes += size


def _read(file: str) -> int:
    """Has it read into the page cache; what cannot be read is the Dataset's to say."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        size = os.fstat(fd).st_size
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)  # the kernel reads it by itself: nothing is copied, nobody waits
        return size
    except OSError:
        return 0
    finally:
        os.close(fd)


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
