"""A stand-in for torch with CUDA: streams whose work happens only when it is waited for, on a clock of their own.

Work is queued as on an accelerator: a copy's target is full of noise until an event behind the copy was waited for, so whoever fetches
too early sees it. The same goes for work of the caller's own stream, for which another waits only if it is told to. Each stream's clock
goes on by the cost of its work, in milliseconds; streams do not hinder each other.
"""

from __future__ import annotations

import contextlib
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

COST = {"copy in": 2.0, "compute": 5.0, "copy out": 1.0}
NOISE = 77
OWN = -1  # the number of the caller's stream


class Stream:
    all: list[Stream] = []

    def __init__(self, device: Any = None) -> None:
        self.now, self.work = 0.0, deque[Callable[[], None]]()
        self.number = len(Stream.all)
        Stream.all.append(self)

    def queue(self, kind: str, do: Callable[[], None]) -> None:
        def step() -> None:
            do()
            self.now += COST[kind]
            log.append((self.number, kind))

        self.work.append(step)

    def wait_stream(self, other: Stream) -> None:
        """What is queued here from now on begins when what the other has to do by now is done."""
        mark = Event()
        mark.record(other)

        def step() -> None:
            mark.synchronize()
            self.now = max(self.now, mark.at or 0.0)

        self.work.append(step)


log: list[tuple[int, str]] = []
current: list[Stream] = []


class Event:
    def __init__(self, enable_timing: bool = False) -> None:
        self.stream: Stream | None = None
        self.at: float | None = None

    def record(self, stream: Stream) -> None:
        self.stream = stream
        stream.work.append(lambda: setattr(self, "at", stream.now))

    def synchronize(self) -> None:
        assert self.stream is not None, "an event that nobody recorded"
        while self.at is None:
            self.stream.work.popleft()()

    def elapsed_time(self, other: Event) -> float:
        assert self.at is not None and other.at is not None, "asked for its time before it happened"
        return other.at - self.at


class Tensor:
    def __init__(self, array: np.ndarray, place: str = "host") -> None:
        self.array, self.place = array, place

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def detach(self) -> Tensor:
        return self

    def pin_memory(self) -> Tensor:
        return Tensor(self.array.copy(), "pinned")

    def to(self, device: str, non_blocking: bool = False) -> Tensor:
        assert self.place == "pinned" and non_blocking, "only such copies go on by themselves"
        there = Tensor(np.full_like(self.array, NOISE), device)
        current[-1].queue("copy in", lambda: there.array.__setitem__(..., self.array))
        return there

    def copy_(self, other: Tensor, non_blocking: bool = False) -> None:
        assert self.place == "pinned" and non_blocking
        current[-1].queue("copy out", lambda: self.array.__setitem__(..., other.array))

    def cpu(self) -> Tensor:
        assert self.place == "pinned"
        return self

    def numpy(self) -> np.ndarray:
        return self.array

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Tensor:
        """A computation on the current stream."""
        assert self.place.startswith("cuda"), "the function got what is not on the device"
        result = Tensor(np.full_like(function(self.array), NOISE), self.place)
        current[-1].queue("compute", lambda: result.array.__setitem__(..., function(self.array)))
        return result


@contextlib.contextmanager
def stream(which: Stream) -> Iterator[None]:
    current.append(which)
    yield
    current.pop()


def torch() -> types.ModuleType:
    """The module, new."""
    own = Stream()  # the caller's
    own.number = OWN
    Stream.all, log[:], current[:] = [], [], [own]
    module = types.ModuleType("torch")
    module.cuda = types.SimpleNamespace(Stream=Stream, Event=Event, stream=stream, current_stream=lambda device=None: current[-1])
    module.device = str
    module.as_tensor = lambda value: value if isinstance(value, Tensor) else Tensor(np.asarray(value))
    module.empty = lambda shape, dtype, pin_memory: Tensor(np.full(shape, NOISE, dtype), "pinned" if pin_memory else "host")
    return module
