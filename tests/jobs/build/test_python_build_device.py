"""fullbore.build on an accelerator, with a stand-in for one: order, overlap, and times by events."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np
import pytest
import stand_in_cuda
from fullbore._build_device import Cpu, Cuda
from fullbore._build_meter import COMPUTE, IN, OUT, Cost, Meter, by_set
from recordings import folder


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "torch", stand_in_cuda.torch())


def begin(cuda: Cuda, count: int):
    """So many batches, begun and not fetched."""
    costs = [Cost(f"{i}", i) for i in range(count)]
    data = [np.full((3, 4), i, np.float32) for i in range(count)]
    return costs, [cuda.run(lambda x: x.map(lambda a: a + 100), data[i], [f"{i}"], costs[i]) for i in range(count)]


def test_copies_and_the_function_are_queued_and_nothing_is_waited_for_before_the_fetch() -> None:
    cuda = Cuda(Meter(), ("features",), "cuda:0", 2)
    _, fetches = begin(cuda, 2)
    assert stand_in_cuda.log == []
    assert fetches[0]()["features"].tolist() == [[100.0] * 4] * 3
    assert stand_in_cuda.log == [(0, "copy in"), (0, "compute"), (0, "copy out")]  # the other stream's goes on by itself
    assert fetches[1]()["features"].tolist() == [[101.0] * 4] * 3


def test_every_batch_waits_for_what_the_callers_own_stream_has_to_do() -> None:
    """Weights that are still on their way to the device when the build begins, or when one of its batches does."""
    cuda, own = Cuda(Meter(), ("features",), "cuda:0", 2), stand_in_cuda.current[-1]
    weights = np.full(4, stand_in_cuda.NOISE, np.float32)

    def run(number: int):
        own.queue("copy in", lambda: weights.__setitem__(..., number))
        return cuda.run(lambda x: x.map(lambda a: a + weights), np.zeros((3, 4), np.float32), [f"{number}"], Cost(f"{number}", number))

    for number in range(4):
        assert run(number)()["features"].tolist() == [[float(number)] * 4] * 3
        assert stand_in_cuda.log[-4:] == [(stand_in_cuda.OWN, "copy in"),
                                          *((number % 2, kind) for kind in ("copy in", "compute", "copy out"))]


def test_batches_take_the_streams_in_turn() -> None:
    cuda = Cuda(Meter(), ("features",), "cuda:0", 3)
    _, fetches = begin(cuda, 7)
    for i, fetch in enumerate(fetches):
        assert fetch()["features"][0, 0] == 100 + i
    assert [s for s, kind in stand_in_cuda.log if kind == "compute"] == [0, 1, 2, 0, 1, 2, 0]


def test_events_tell_each_stages_times_and_two_streams_share_the_wall() -> None:
    meter = Meter()
    cuda = Cuda(meter, ("features",), "cuda", 2)
    costs, fetches = begin(cuda, 4)
    for fetch in fetches:
        fetch()
    assert {name: t.batches for name, t in meter.stages.items() if t.batches} == {IN: 4, COMPUTE: 4, OUT: 4}
    assert [round(1e3 * meter.stages[name].total_s, 6) for name in (IN, COMPUTE, OUT)] == [8, 20, 4]
    assert all(round(1e3 * cost.seconds, 6) == 8 for cost in costs)
    relative = [(stage, round(1e3 * (a - cuda.first_at), 3), round(1e3 * (b - cuda.first_at), 3)) for stage, a, b in meter.intervals]
    assert relative[:6] == [(IN, 0, 2), (COMPUTE, 2, 7), (OUT, 7, 8)] * 2  # both streams at once
    assert relative[6:9] == [(IN, 8, 10), (COMPUTE, 10, 15), (OUT, 15, 16)]
    meter.sum_up(cuda.first_at, cuda.first_at + 1)
    assert [round(1e3 * meter.stages[name].wall_s, 3) for name in (IN, COMPUTE, OUT)] == [4, 10, 2]


def test_a_build_on_it_gives_what_the_processor_gives(tmp_path: Path) -> None:
    wavs = folder(tmp_path / "wavs", 45)
    how = {"batch": 8, "transforms": [fb.CropOrPad(4000)], "framework": "numpy"}
    report = fb.build(wavs, tmp_path / "a.h5", fn=lambda x: {"x": x.map(lambda a: a[:, :50] * 2), "y": x.map(lambda a: a.max(axis=1))},
                      device="cuda", streams=2, **how)
    fb.build(wavs, tmp_path / "b.h5", fn=lambda x: {"x": x[:, :50] * 2, "y": x.max(axis=1)}, **how)
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert list(a) == list(b) and a.attrs["checksum"] == b.attrs["checksum"] and a.attrs["device"] == "cuda"
        assert all(np.array_equal(a[name][:], b[name][:]) for name in a)
    assert report.is_timed_by_events and report.device == "cuda"
    assert [report.stages[name].batches for name in (IN, COMPUTE, OUT)] == [6, 6, 6]
    for name, stage in report.as_dict()["stages"].items():
        shares = [stage[key] for key in ("thread_share", "wall_share", "alone_share") if stage[key] is not None]
        assert all(0 <= share <= 1 for share in shares), (name, stage)
    assert all(word in str(report) for word in ("copy to device", "copy back"))


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_no_more_batches_are_under_way_than_there_are_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: int) -> None:
    under_way, most, lock = 0, 0, threading.Lock()
    run = Cuda.run

    def counted(self, fn, data, keys, cost):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        fetch = run(self, fn, data, keys, cost)

        def fetched():
            nonlocal under_way
            if not is_full.wait(20):  # until as many as there may be have begun
                raise AssertionError("fewer batches were begun than there are streams")
            with lock:
                under_way -= 1
            return fetch()

        if under_way >= streams:
            is_full.set()
        return fetched

    is_full = threading.Event()
    monkeypatch.setattr(Cuda, "run", counted)
    wavs = folder(tmp_path / "wavs", 45)
    fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x.map(lambda a: a), batch=4, device="cuda", streams=streams,
             transforms=[fb.CropOrPad(400)], framework="numpy")
    assert most == streams


def test_what_the_function_raises_on_it_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    wavs = folder(tmp_path / "wavs", 9)

    def fn(x):
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(fb.Error, match="fn raised RuntimeError: CUDA out of memory"):
        fb.build(wavs, tmp_path / "a.h5", fn=fn, device="cuda", transforms=[fb.CropOrPad(400)], framework="numpy")
    assert [path.name for path in tmp_path.iterdir() if "a.h5" in path.name] == []


def test_results_that_numpy_does_not_know_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def detach(self):
            raise TypeError("Got unsupported ScalarType BFloat16")

    with pytest.raises(fb.errors.UsageError, match="'features', which is no array for numpy: .*BFloat16"):
        Cpu(Meter(), ("features",)).run(lambda x: Odd(), np.zeros(3), ["a"], Cost("a", 0))


def test_intervals_of_one_stage_that_overlap_count_once() -> None:
    seconds = by_set([("a", 0, 4), ("a", 2, 6), ("b", 5, 9), ("b", 20, 20), ("a", 10, 11)])
    assert seconds == {frozenset("a"): 6, frozenset("ab"): 1, frozenset("b"): 3}
