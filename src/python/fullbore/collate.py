"""Samples of different lengths in one batch: padded to the longest, or one after another."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UsageError
from .transforms import Pad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._fullbore import _Array

_PAD, _RAGGED = 1, 2


@dataclass(frozen=True)
class Ragged:
    """``collate=fb.Ragged()``: the rows of all samples, one after another, in a :class:`RaggedRows`."""


def collate_code(collate: Any) -> int:
    """What ``collate=`` means to the engine."""
    if collate is None:
        return 0
    if isinstance(collate, Ragged):
        return _RAGGED
    if isinstance(collate, Pad) and not collate.padding:
        return _PAD
    raise UsageError(f"collate= is {collate!r}, not fullbore.Pad() or fullbore.Ragged()",
                     remedy="pass your function as batch_map=" if callable(collate) else "")


class _Lengths:
    """What padded and ragged rows have in common: torch's habits, for all their arrays at once."""

    values: Any
    _counts: Any  # lengths or offsets: whole numbers

    def __init__(self, values: Any, counts: Any) -> None:
        self.values = values
        self._counts = counts

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Every tensor moved; ``.to("cuda", non_blocking=True)``. A dtype is for the values, lengths stay whole numbers."""
        values = self.values.to(*args, **kwargs)
        return type(self)(values, self._counts.to(values.device, non_blocking=kwargs.get("non_blocking", False)))

    def pin_memory(self, device: Any = None) -> Any:
        """A copy in page-locked memory."""
        given = () if device is None else (device,)
        return type(self)(self.values.pin_memory(*given), self._counts.pin_memory(*given))


class Padded(_Lengths):
    """Samples of different lengths as one array ``values`` of shape (batch, longest, ...), 0 behind the end of each.

    ``lengths`` says how many rows of each sample are real, ``mask`` the same as booleans of shape (batch, longest).
    """

    @property
    def lengths(self) -> Any:
        """Rows of each sample."""
        return self._counts

    @cached_property
    def mask(self) -> Any:
        """True where there is data, of shape (batch, longest)."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(self.values, torch.Tensor):
            return torch.arange(self.values.shape[1], device=self.lengths.device)[None, :] < self.lengths[:, None]
        return np.arange(self.values.shape[1])[None, :] < np.asarray(self.lengths)[:, None]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Padded(values of shape {tuple(self.values.shape)}, lengths {self.lengths.tolist()})"


class RaggedRows(_Lengths):
    """Samples of different lengths one after another in one array ``values``: sample i is ``values[offsets[i]:offsets[i + 1]]``."""

    @property
    def offsets(self) -> Any:
        """Where each sample begins, and where the last one ends."""
        return self._counts

    @property
    def lengths(self) -> Any:
        """Rows of each sample."""
        return self.offsets[1:] - self.offsets[:-1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Any:
        i = range(len(self))[i]
        return self.values[int(self.offsets[i]):int(self.offsets[i + 1])]

    def __repr__(self) -> str:
        return f"RaggedRows(values of shape {tuple(self.values.shape)}, offsets {self.offsets.tolist()})"


def gathered(arrays: tuple[_Array, ...], convert: Callable[[_Array], Any]) -> Iterable[Any]:
    """The fields of a batch: arrays, and those of variable length together with their lengths."""
    if all(array.packing == 0 for array in arrays):
        return map(convert, arrays)
    lengths = convert(arrays[-1])  # the engine puts them last
    kinds: dict[int, Any] = {_PAD: Padded, _RAGGED: RaggedRows}
    return (kinds[array.packing](convert(array), lengths) if array.packing else convert(array) for array in arrays[:-1])
