"""Reading ahead for somebody else's Dataset and DataLoader."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import fullbore as fb
import pytest
from fullbore import _readahead
from fullbore.torch import readahead

data = pytest.importorskip("torch.utils.data")
COLD_SECONDS = 0.005


class Files(data.Dataset):  # type: ignore[misc, name-defined, unused-ignore]
    """Whole files; one that is not in memory takes a while, as on a disk or a network."""

    def __init__(self, folder: Path) -> None:
        self.samples = [(str(path), i) for i, path in enumerate(sorted(folder.glob("*.bin")))]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> int:
        fd = os.open(self.samples[i][0], os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            if not is_cached(fd, size):
                time.sleep(COLD_SECONDS)
            return len(os.pread(fd, size, 0)) * 0 + i
        finally:
            os.close(fd)


def is_cached(fd: int, size: int) -> bool:
    try:
        return os.preadv(fd, [bytearray(size)], 0, os.RWF_NOWAIT) == size
    except BlockingIOError:
        return False


def evict(files: Files) -> None:
    for path, _ in files.samples:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("files")
    for i in range(400):
        (folder / f"{i:04}.bin").write_bytes(os.urandom(20_000))
    return Files(folder)


def test_every_sample_comes_once_in_the_samplers_order(files: Files) -> None:
    assert [int(i) for batch in data.DataLoader(files, batch_size=7, sampler=readahead(files)) for i in batch] == list(range(400))
    shuffled = readahead(files, shuffle=True, seed=3)
    first, second = ([int(i) for batch in data.DataLoader(files, batch_size=7, sampler=shuffled) for i in batch] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(400)) and first != second
    shuffled.set_epoch(0)
    assert [int(i) for batch in data.DataLoader(files, batch_size=7, sampler=shuffled) for i in batch] == first
    assert list(readahead(files, sampler=[5, 3, 5])) == [5, 3, 5] and len(readahead(files, sampler=[5, 3, 5])) == 3


def test_the_files_are_in_memory_when_they_are_wanted(files: Files) -> None:
    evict(files)
    order = iter(readahead(files))
    next(order)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        fds = [os.open(path, os.O_RDONLY) for path, _ in files.samples]
        try:
            cached = sum(is_cached(fd, 20_000) for fd in fds)
        except OSError:
            pytest.skip("this file system does not say what is in memory")
        finally:
            for fd in fds:
                os.close(fd)
        if cached >= 390:
            break
        time.sleep(0.05)
    assert cached >= 390


def reading_threads() -> int:
    count = 0
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            count += path.read_text().startswith("fb-ahead")
    return count


def test_it_stays_within_its_bytes_and_ends_with_the_loop(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[Any] = []

    class Watched:
        Ahead = _readahead._fullbore._Ahead

        def _Ahead(self, *arguments: int) -> Any:
            readers.append(self.Ahead(*arguments))
            return readers[-1]

    monkeypatch.setattr(_readahead, "_fullbore", Watched())
    order = iter(readahead(files, ahead=200_000, threads=2))
    next(order)
    time.sleep(0.3)
    pushed, taken, passed, ahead = readers[0].figures()
    assert pushed == 400 and passed == 1 and 10 <= taken <= 14 and 200_000 <= ahead <= 240_000
    for _ in range(100):
        next(order)
    time.sleep(0.3)
    pushed, taken, passed, ahead = readers[0].figures()
    assert passed == 101 and 110 <= taken <= 114 and 200_000 <= ahead <= 240_000  # those wanted before they could be read are left out
    assert reading_threads() >= 2
    order.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 5
    while reading_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reading_threads() == 0 and readers[0].figures() == (0, 0, 0, 0)


def test_a_fifo_or_a_folder_among_the_files_does_not_hold_it_up(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    named = [str(tmp_path / "fifo"), str(tmp_path), str(tmp_path / "gone"), files.samples[0][0]]
    assert list(readahead(files, lambda i: named)) == list(range(400))
    deadline = time.monotonic() + 5
    while reading_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reading_threads() == 0


@pytest.mark.parametrize("threads", [0, -1, 257])
def test_a_number_of_threads_that_is_none_is_refused(files: Files, threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        list(readahead(files, threads=threads))


def test_files_may_be_named_and_missing_ones_are_the_data_sets_business(files: Files, tmp_path: Path) -> None:
    class Plain:
        def __len__(self) -> int:
            return 5

    with pytest.raises(fb.Error, match="neither .samples nor .imgs"):
        readahead(Plain())
    assert list(readahead(Plain(), lambda i: [tmp_path / f"{i}.gone", files.samples[i][0]])) == list(range(5))


def rate(files: Files, sampler: Any) -> float:
    evict(files)
    since = time.monotonic()
    seen = sum(len(batch) for batch in data.DataLoader(files, batch_size=16, sampler=sampler, num_workers=2))
    assert seen == len(files)
    return seen / (time.monotonic() - since)


def test_a_cold_folder_is_fed_at_least_twice_as_fast_with_two_workers(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_readahead, "_DELAY_US", int(COLD_SECONDS * 1e6))  # the same latency for everybody
    try:
        ratios = [rate(files, readahead(files)) / rate(files, list(range(400))) for _ in range(3)]
    except OSError as error:
        pytest.skip(f"this file system does not say what is in memory: {error}")
    print(ratios)
    assert max(ratios) >= 2, ratios
