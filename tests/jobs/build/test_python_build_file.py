"""The file that fullbore.build makes: whoever else wants its name, what is finished stays whole and two never write one file."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np
import pytest
from fullbore import _hdf5_file
from fullbore._hdf5_file import Hdf5File


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


def partial(output: Path) -> Path:
    return output.parent / f".{output.name}.partial"


def fill(file: Hdf5File, number: float) -> None:
    file.append(file.add("features", np.float32, (2,), 3), np.full((3, 2), number, np.float32))


def is_finished(output: Path, number: float) -> bool:
    with h5py.File(output) as f:
        return bool((f["features"][:] == number).all()) and os.listdir(output.parent) == [output.name]


@pytest.fixture
def another(output: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Another process finishes the same output between our opening of the partial file and our lock on it."""
    real, log = fcntl.flock, list[str]()

    def flock(fd: int, how: int) -> None:
        if not log:
            log.append("finished")
            partial(output).write_text("the other's finished file")
            os.rename(partial(output), output)
        real(fd, how)

    monkeypatch.setattr(_hdf5_file.fcntl, "flock", flock)
    return log


def test_an_output_that_is_finished_while_we_open_ours_is_not_emptied(output: Path, another: list[str]) -> None:
    with pytest.raises(fb.Error, match="already exists"):
        Hdf5File(output, overwrite=False)
    assert another and output.read_text() == "the other's finished file" and os.listdir(output.parent) == [output.name]


def test_nor_is_one_that_may_be_overwritten_before_ours_is_complete(output: Path, another: list[str]) -> None:
    file = Hdf5File(output, overwrite=True)
    fill(file, 1)
    assert another and output.read_text() == "the other's finished file"
    file.finish({})
    assert is_finished(output, 1)


def test_whoever_holds_the_lock_on_the_partial_file_is_the_only_one(output: Path) -> None:
    theirs = os.open(partial(output), os.O_RDWR | os.O_CREAT)
    os.write(theirs, b"rows of a command's build")
    fcntl.flock(theirs, fcntl.LOCK_EX)
    with pytest.raises(fb.Error, match="another build is writing this file"):
        Hdf5File(output, overwrite=True)
    assert partial(output).read_text() == "rows of a command's build"
    os.close(theirs)
    file = Hdf5File(output, overwrite=True)
    mine = os.open(partial(output), os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(mine)
    file.drop()
    assert os.listdir(output.parent) == []


def without_renameat2(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(_hdf5_file.ctypes, "CDLL", lambda *_, **__: type("Library", (), {"renameat2": staticmethod(refuse)}))


@pytest.mark.parametrize("has_renameat2", [True, False])
def test_an_output_that_came_in_the_meantime_is_not_replaced(output: Path, monkeypatch: pytest.MonkeyPatch, has_renameat2: bool) -> None:
    if not has_renameat2:
        without_renameat2(monkeypatch)
    file = Hdf5File(output, overwrite=False)
    fill(file, 1)
    output.write_text("mine")
    with pytest.raises(fb.Error, match="already exists"):
        file.finish({})
    file.drop()
    assert output.read_text() == "mine" and os.listdir(output.parent) == [output.name]
    output.unlink()
    file = Hdf5File(output, overwrite=False)
    fill(file, 2)
    file.finish({})
    assert is_finished(output, 2)


def test_a_finished_file_that_still_has_its_partial_name_is_not_emptied(output: Path) -> None:
    """As a crash leaves it between the two steps of publishing where renameat2 is not to be had."""
    output.write_text("finished")
    os.link(output, partial(output))
    file = Hdf5File(output, overwrite=True)
    assert output.read_text() == "finished"
    fill(file, 3)
    file.finish({})
    assert is_finished(output, 3)


def test_what_an_interrupted_command_left_is_put_away(output: Path) -> None:
    partial(output).write_text("rows")
    (output.parent / ".a.h5.journal").write_text("journal")
    file = Hdf5File(output, overwrite=False)
    fill(file, 4)
    file.finish({})
    assert is_finished(output, 4)


def test_a_folder_of_that_name_is_refused_before_any_work(output: Path) -> None:
    output.mkdir()
    with pytest.raises(fb.Error, match="is not a file"):
        Hdf5File(output, overwrite=True)


def test_a_disk_that_fails_at_the_end_is_said_and_leaves_nothing(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = Hdf5File(output, overwrite=False)
    fill(file, 5)
    monkeypatch.setattr(_hdf5_file.os, "fsync", fail)
    with pytest.raises(fb.Error, match="cannot bring it to the disk: No space left") as caught:
        file.finish({})
    file.drop()
    assert caught.value.sys_errno == errno.ENOSPC and os.listdir(output.parent) == []
