"""Writing HDF5 without libhdf5's lock: numbers go to their places in a plain file, and ``fullbore-hdf5 adopt`` puts the structure around
them at the end. The layout of what it is told is that of src/model/hdf5/hdf5_adopt.h.

Until then the file is ``.NAME.partial``. Whoever writes it, this or the command, holds a lock on it, and empties it only when it is certain
that the file it locked still has that name: between opening and locking another build may have given it its final one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .errors import Error

FIRST = 4096  # bytes before the data
_TRIES = 10
_TEXT, _OF_FILE = 32 << 10, 0xFFFFFFFF
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
_MAGIC, _FD, _NAME, _DIMS = 0x31414866, 3, 64, 8
_CODES = {"uint8": 1, "int8": 2, "uint16": 3, "int16": 4, "uint32": 5, "int32": 6, "uint64": 7, "int64": 8, "float16": 9, "float32": 11,
          "float64": 12, "bool": 13}

Attribute = str | int | float | tuple[int, ...] | tuple[float, ...]


def find_helper() -> str:
    """The program that is linked with libhdf5."""
    here = Path(__file__).resolve().parent
    places = [os.environ.get("FULLBORE_HDF5_HELPER"), Path(__file__).parent / "fullbore-hdf5", here / "fullbore-hdf5",
              Path(sys.prefix) / "libexec/fullbore/fullbore-hdf5", "/usr/local/libexec/fullbore/fullbore-hdf5",
              "/usr/libexec/fullbore/fullbore-hdf5"]
    for place in places:
        if place and os.access(place, os.X_OK):
            return str(place)
    raise Error("HDF5 files need the program fullbore-hdf5, which was not found", stage="build",
                remedy="it is installed with the package; FULLBORE_HDF5_HELPER may name it")


class Column:
    """One dataset: rows of one shape and dtype, one after the other."""

    def __init__(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> None:
        self.name, self.dtype, self.shape, self.offset, self.rows = name, dtype, shape, offset, 0
        self.row_bytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))

    def record(self) -> bytes:
        shape = (self.rows, *self.shape)
        code = 0 if self.dtype.kind == "S" else _CODES[self.dtype.name]
        return struct.pack(f"<{_NAME}s4I{_DIMS}Q3Q", self.name.encode(), code, self.dtype.itemsize, len(shape), 0,
                           *shape, *[0] * (_DIMS - len(shape)), 0, self.offset, 0)


class Hdf5File:
    """An HDF5 file being made under a temporary name. Nothing is under its own before ``finish``."""

    def __init__(self, output: str | os.PathLike[str], overwrite: bool) -> None:
        self.path = Path(output)
        self.partial = self.path.parent / f".{self.path.name}.partial"
        self._helper = find_helper()
        self.overwrite = overwrite
        with self._doing("make it"):
            self.fd = self._open()
        self.columns: dict[str, Column] = {}
        self.end = FIRST

    def _open(self) -> int:
        """The partial file, empty and locked."""
        self._check_output()
        for _ in range(_TRIES):
            fd = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                self._lock(fd)
                if self._is_still_there(fd):
                    self._check_again(fd)
                    os.ftruncate(fd, 0)
                    self._journal().unlink(missing_ok=True)  # of a command's build whose rows were just put away
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise Error("another process keeps creating and deleting it", stage="build", path=str(self.partial))

    def _check_output(self) -> None:
        if not os.path.lexists(self.path):
            return
        if self.path.exists() and not self.path.is_file():
            raise Error("the output exists and is not a file", stage="build", path=str(self.path))
        if not self.overwrite:
            raise self._is_there()

    def _check_again(self, fd: int) -> None:
        """With the lock in hand; what we made for nothing goes."""
        try:
            self._check_output()
        except Error:
            if os.fstat(fd).st_size == 0:
                self.partial.unlink()
            raise

    def _is_there(self) -> Error:
        return Error("the output already exists", stage="build", path=str(self.path), remedy="overwrite=True replaces it, at the end")

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Error("another build is writing this file", stage="build", path=str(self.path),
                        remedy="wait for it, or choose another name") from None

    def _is_still_there(self, fd: int) -> bool:
        """The name is that of the file which is locked. One that has another name as well is a finished build that ended in a crash between
        getting the one and losing the other: it keeps the other."""
        mine = os.fstat(fd)
        try:
            there = os.stat(self.partial, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
            return False
        if mine.st_nlink > 1:
            os.unlink(self.partial)
        return mine.st_nlink == 1

    def _journal(self) -> Path:
        return self.path.parent / f".{self.path.name}.journal"

    @contextlib.contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Error(f"cannot {what}: {error.strerror}", stage="build", path=str(self.path), sys_errno=error.errno) from error

    def add(self, name: str, dtype: Any, shape: tuple[int, ...], most_rows: int) -> Column:
        """Room for a dataset of at most so many rows."""
        kind = np.dtype(dtype)
        if kind.kind != "S" and kind.name not in _CODES:
            raise Error(f"{name!r} is {kind}: HDF5 has no such numbers", stage="build", remedy="return float32, float16 or whole numbers")
        if len(name.encode()) >= _NAME or len(shape) >= _DIMS:
            raise Error(f"{name!r} has a name or a shape that is too long", stage="build")
        column = Column(name, kind, shape, -(-self.end // 64) * 64 if self.columns else FIRST)
        self.end = column.offset + most_rows * column.row_bytes
        self.columns[name] = column
        return column

    def append(self, column: Column, rows: Any) -> None:
        data = np.ascontiguousarray(rows, dtype=column.dtype).data.cast("B") if len(rows) else memoryview(b"")
        at = column.offset + column.rows * column.row_bytes
        while data:
            try:
                written = os.pwrite(self.fd, data[: 1 << 30], at)
            except OSError as error:
                raise Error(f"cannot write the file: {error.strerror}", stage="write", path=str(self.path),
                            sys_errno=error.errno) from error
            at, data = at + written, data[written:]
        column.rows += len(rows)

    def finish(self, attributes: dict[str, Attribute], of_columns: dict[str, dict[str, Attribute]] | None = None) -> int:
        """Structure, disk, name; attributes of the file and of its columns. Returns the size of the file."""
        columns = [c for c in self.columns.values() if c.rows]
        end = max((c.offset + c.rows * c.row_bytes for c in columns), default=FIRST)
        records = [_attribute(name, value, _OF_FILE) for name, value in attributes.items()]
        records += [_attribute(name, value, i) for i, c in enumerate(columns) for name, value in (of_columns or {}).get(c.name, {}).items()]
        text = struct.pack("<4IQ", _MAGIC, len(columns), len(records), 0, end) + b"".join([c.record() for c in columns] + records)
        with self._doing("put HDF5's structure around it"):
            os.ftruncate(self.fd, end)
            with tempfile.TemporaryFile() as description:
                description.write(text)
                description.seek(0)
                self._adopt(description.fileno())
        with self._doing("bring it to the disk"):
            size = os.fstat(self.fd).st_size
            os.fsync(self.fd)
        with self._doing("give the file its name"):
            self._publish()
            os.close(self.fd)
            self.fd = -1
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(folder)
            os.close(folder)
        return size

    def _publish(self) -> None:
        if self.overwrite:
            return os.rename(self.partial, self.path)
        try:
            _rename_new(self.partial, self.path)
        except FileExistsError:
            raise self._is_there() from None

    def _adopt(self, description: int) -> None:
        data = fcntl.fcntl(self.fd, fcntl.F_DUPFD_CLOEXEC, 10)
        read, write = os.pipe()
        high = fcntl.fcntl(write, fcntl.F_DUPFD_CLOEXEC, 10)
        source = fcntl.fcntl(description, fcntl.F_DUPFD_CLOEXEC, 10)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, high, 1), (os.POSIX_SPAWN_DUP2, data, _FD),
                       (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
            child = os.posix_spawn(self._helper, ["fullbore-hdf5", "adopt", str(os.getpid())], _environment(), file_actions=actions)
        finally:
            for fd in (data, write, high, source):
                os.close(fd)
        try:
            status, said = self._follow(child, read)
        finally:
            os.close(read)
        if status != 0:
            lines = [line for line in said.decode(errors="replace").splitlines() if not line.startswith("p ")]
            why = " ".join(lines).encode("unicode_escape").decode("ascii") or "it ended without a message"
            raise Error(f"fullbore-hdf5 could not make the file: {why}", stage="build", path=str(self.path))

    def _follow(self, child: int, pipe: int) -> tuple[int, bytes]:
        """Until it ends: its status and what it said. Whoever says nothing and writes nothing for the time that an answer may take is
        ended."""
        os.set_blocking(pipe, False)
        said, moved, seen, limit = bytearray(), time.monotonic(), os.fstat(self.fd), _timeout()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            some, now = _read_some(pipe), os.fstat(self.fd)
            said = (said + some)[-_TEXT:]
            if ended:
                return os.waitstatus_to_exitcode(status), bytes(said)
            if some or (now.st_size, now.st_blocks, now.st_mtime_ns) != (seen.st_size, seen.st_blocks, seen.st_mtime_ns):
                moved, seen = time.monotonic(), now
            if time.monotonic() - moved > limit:
                _end(child)
                raise Error(f"fullbore-hdf5 made no progress for {limit} s and was stopped", stage="build", path=str(self.path),
                            remedy="if the storage is slow, set FULLBORE_HDF5_TIMEOUT to more seconds")
            time.sleep(0.01)

    def drop(self) -> None:
        """Gives up: nothing is left."""
        if self.fd >= 0:
            self.partial.unlink(missing_ok=True)
            os.close(self.fd)
            self.fd = -1


def _environment() -> dict[str, str]:
    """What the helper needs to start; the rest, secrets among it, is none of its business."""
    fixed = {"LC_ALL": "C", "HDF5_USE_FILE_LOCKING": "FALSE", "HDF5_PLUGIN_PATH": "", "HDF5_PLUGIN_PRELOAD": "::"}
    passed_on = ("LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS")
    return fixed | {name: os.environ[name] for name in passed_on if name in os.environ}


def _timeout() -> int:
    wish = os.environ.get("FULLBORE_HDF5_TIMEOUT", "")
    return int(wish) if wish.isdecimal() and 1 <= int(wish) <= 86400 else 120


def _read_some(pipe: int) -> bytes:
    try:
        return os.read(pipe, 65536)
    except BlockingIOError:
        return b""


def _end(child: int) -> None:
    """Kills it, and waits a moment: one that hangs in the kernel is left behind."""
    os.kill(child, signal.SIGKILL)
    for _ in range(500):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.01)


def _rename_new(old: Path, new: Path) -> None:
    """Never replaces anything. Where the file system or the C library cannot do that at once: a second name, then the first one goes."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        if rename(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), _RENAME_NOREPLACE) == 0:
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(new))
    os.link(old, new)
    os.unlink(old)


def _attribute(name: str, value: Attribute, dataset: int) -> bytes:
    if isinstance(value, str):
        kind, data = 1, value.encode("utf-8", "surrogateescape")[:_TEXT].decode("utf-8", "ignore").encode()  # whole characters
    else:
        numbers = value if isinstance(value, tuple) else (value,)
        is_whole = all(isinstance(number, int) for number in numbers)
        kind, data = 2 if is_whole else 3, struct.pack(f"<{len(numbers)}{'q' if is_whole else 'd'}", *numbers)
    return struct.pack(f"<{_NAME}s4I", name.encode(), dataset, kind, len(data), 0) + data
