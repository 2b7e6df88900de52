"""What can go wrong, in words.

Every error names the stage, the file and offset where there are any, the cause, and what to do about it. All are :class:`Error`; some are
also the built-in exception that a Python program would expect, so ``except FileNotFoundError`` and ``except ValueError`` work as well.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from ._talk import shown

__all__ = ["ArgumentError", "BudgetError", "Error", "NoMemoryError", "NotFoundError", "SampleError", "UsageError"]


class Error(Exception):
    """Anything fullbore refuses or fails to do.

    >>> raise Error("the disk is on fire", stage="read", path="a.jpg", offset=512, remedy="use another one")
    Traceback (most recent call last):
    ...
    fullbore.errors.Error: read: a.jpg at byte 512: the disk is on fire; use another one
    """

    cause: str  #: one sentence
    remedy: str  #: what can be done, or ""
    stage: str  #: "dataset", "order", "read", "decode", "transform", "map", "batch", "feed" or "arguments"
    path: str  #: the file concerned, or ""
    offset: int | None  #: byte offset in that file
    sample: int | None  #: index in the data set's full catalog
    sys_errno: int | None

    def __init__(self, cause: str, *, stage: str = "arguments", path: str = "", offset: int | None = None, sample: int | None = None,
                 sys_errno: int | None = None, remedy: str = "") -> None:
        where = f"{path} at byte {offset}: " if path and offset is not None else f"{path}: " if path else ""
        super().__init__(shown(f"{stage}: {where}{cause}{'; ' if remedy else ''}{remedy}"))
        self.cause, self.remedy, self.stage, self.path = cause, remedy, stage, path
        self.offset, self.sample, self.sys_errno = offset, sample, sys_errno

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("stage", "path", "offset", "sample", "sys_errno", "remedy")
        return _rebuild, (type(self), self.cause, {name: getattr(self, name) for name in names})

    def __str__(self) -> str:  # OSError has its own idea of how it looks
        return str(self.args[0])


class SampleError(Error):
    """A sample that cannot be had: damaged, vanished, unreadable or too large. ``path``, ``offset``, ``stage`` and ``remedy`` say more."""


class BudgetError(Error):
    """The memory budget cannot hold one batch; the text names the smallest one that works."""


class UsageError(Error, ValueError):
    """An argument is wrong."""


class ArgumentError(UsageError, TypeError):
    """There is no such argument."""


class NotFoundError(Error, FileNotFoundError):
    """No such file or folder."""

    def __init__(self, cause: str, **details: Any) -> None:
        super().__init__(cause, **details)
        self.errno = self.sys_errno or errno.ENOENT
        self.strerror = os.strerror(self.errno)
        self.filename = self.path or None


class NoMemoryError(Error, MemoryError):
    """The system has no memory left."""


# The codes of fullbore.h.
_NO_MEMORY, _IO, _DATA, _USAGE, _NOT_FOUND, _BUDGET = -1, -2, -3, -4, -5, -6


def _rebuild(kind: type[Error], cause: str, details: dict[str, Any]) -> Error:
    return kind(cause, **details)


def _kind(code: int, sys_errno: int, sample: int, stage: str) -> type[Error]:
    if code == _DATA and stage in ("read", "decode", "transform", "map", "batch") or code in (_IO, _NOT_FOUND, _BUDGET) and sample >= 0:
        return SampleError
    if code == _NOT_FOUND and (sys_errno != 0 or stage in ("dataset", "read")):
        return NotFoundError
    return {_NO_MEMORY: NoMemoryError, _USAGE: UsageError, _NOT_FOUND: UsageError, _BUDGET: BudgetError}.get(code, Error)


def from_record(code: int, sys_errno: int, sample: int, offset: int, stage: str, path: str, cause: str, remedy: str) -> Error:
    """The exception for the engine's error record; called by the extension."""
    return _kind(code, sys_errno, sample, stage)(
        cause, stage=stage or "fullbore", path=path, offset=offset if offset >= 0 else None, sample=sample if sample >= 0 else None,
        sys_errno=sys_errno or None, remedy=remedy)
