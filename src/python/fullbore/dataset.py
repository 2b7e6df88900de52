"""The samples behind a loader, one at a time: for looking at them, and for programs that expect a data set beside their loader."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _fullbore
from .batch import Batch, converter

if TYPE_CHECKING:
    from .loader import Loader


class Dataset:
    """``loader.dataset[i]`` is one sample, as a batch would have it but without the batch dimension.

    It goes through the same transforms. Random ones draw for (seed, epoch 0, position 0), whatever ``i`` is: the same index always gives
    the same sample. It is read, decoded and transformed when it is asked for, one at a time: a loop over it is slow, a loop over the loader
    is not.

    >>> loader = Loader("photos", batch_size=4, transforms=[RandomResizedCrop(32)], framework="numpy")
    >>> image, label = loader.dataset[3]
    >>> image.shape, int(label), len(loader.dataset), loader.dataset.samples[3]
    ((3, 32, 32), 0, 12, ('photos/cat/006.jpg', 0))
    """

    def __init__(self, loader: Loader, reopen: Callable[[], _fullbore._Loader]) -> None:
        self._loader = loader
        self._reopen = reopen

    @cached_property
    def _single(self) -> _fullbore._Loader:
        return self._reopen()

    def __len__(self) -> int:
        return self._loader.sample_count

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        i = operator.index(index)
        count = len(self)
        if not -count <= i < count:
            raise IndexError(f"sample {i} of {count}")
        core = self._single
        core.start_epoch(0)
        core.push_order(np.array([i % count], np.uint64), True)
        batch = core.next(0)
        assert batch is not None
        return tuple(array[0] for array in Batch._of(batch, converter(self._loader._arguments["framework"])))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (self[i] for i in range(len(self)))

    def close(self) -> None:
        """What single samples needed."""
        if "_single" in self.__dict__:
            self._single.close()

    # ---- torchvision's names for what there is

    @cached_property
    def keys(self) -> list[str]:
        """Each sample's path, relative to the source, in the order that indices count in."""
        return self._loader._core.keys()

    @cached_property
    def paths(self) -> list[str]:
        """Each sample's path, to be opened from here."""
        source = self._loader._arguments["source"]
        shown = os.fsdecode(source) if isinstance(source, (str, bytes, os.PathLike)) else ""
        root = shown if os.path.isdir(shown) else self._loader.stats()["catalog"]["root"] if shown else ""
        return [os.path.join(root, key) for key in self.keys]

    @cached_property
    def labels(self) -> dict[str, Any]:
        """Every label of every sample, as numpy arrays by name."""
        columns = {}
        for name, dtype, width in self._loader._core.label_fields():
            array = np.empty((len(self), width) if width else len(self), dtype)
            self._loader._core.label_column(name, array.dtype.itemsize * max(width, 1), array)
            columns[name] = array
        return columns

    @cached_property
    def targets(self) -> list[Any]:
        """The first label of every sample, as ``ImageFolder`` has it; ``None`` where there is none."""
        first: Any = next(iter(self.labels.values()), None)
        return [None] * len(self) if first is None else list(first.tolist())

    @cached_property
    def samples(self) -> list[tuple[str, Any]]:
        """(path, first label) of each, as ``ImageFolder`` has it."""
        return list(zip(self.paths, self.targets, strict=True))

    @property
    def imgs(self) -> list[tuple[str, Any]]:
        """The same, by its older name."""
        return self.samples

    @property
    def classes(self) -> list[str]:
        """The loader's."""
        return self._loader.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The loader's."""
        return self._loader.class_to_idx
