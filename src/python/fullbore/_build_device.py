"""Where the function of a build runs: here and now, or on an accelerator's streams.

A runner is given a batch and returns how to fetch its results. What it measures it tells the meter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._build_meter import COMPUTE, IN, OUT, Cost, Meter
from .errors import Error, UsageError

Fetch = Callable[[], dict[str, Any]]


class Cpu:
    """Calls the function here and now; the clock on the wall is exact then.

    Results are copied before it is called again: it may fill the same memory anew for each batch, while the writer is still at the last.
    """

    is_timed_by_events = False

    def __init__(self, meter: Meter, names: tuple[str, ...]) -> None:
        self.meter, self.names = meter, names

    def run(self, fn: Callable[..., Any], data: Any, keys: list[str], cost: Cost) -> Fetch:
        since = time.perf_counter()
        results = named(call(fn, data, keys), self.names)
        arrays = {name: np.array(on_host(name, value), order="C") for name, value in results.items()}
        self.meter.add(COMPUTE, since, time.perf_counter(), cost)
        return lambda: arrays


class Cuda:
    """Batches on alternating streams: copies in, the function and copies out are queued, and waited for by the writer.

    Events tell when each of them began and ended, in milliseconds since the first event, which is waited for so that its time on the wall
    is known. Each batch is behind what the caller's own stream had to do when it was begun: the function's weights may still be on their
    way. Memory of a batch belongs to its stream, so what frees it may do so before it is used: the next user is behind it on that stream.
    """

    is_timed_by_events = True

    def __init__(self, meter: Meter, names: tuple[str, ...], device: str, streams: int) -> None:
        import torch

        self.meter, self.names, self.torch, self.device = meter, names, torch, torch.device(device)
        self.streams = [torch.cuda.Stream(self.device) for _ in range(streams)]
        self.turn = 0
        self.first = torch.cuda.Event(enable_timing=True)
        self.first.record(self.streams[0])
        self.first.synchronize()
        self.first_at = time.perf_counter()

    def run(self, fn: Callable[..., Any], data: Any, keys: list[str], cost: Cost) -> Fetch:
        torch = self.torch
        stream = self.streams[self.turn % len(self.streams)]
        self.turn += 1
        stream.wait_stream(torch.cuda.current_stream(self.device))
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        with torch.cuda.stream(stream):
            pinned = torch.as_tensor(data).pin_memory()
            marks[0].record(stream)
            there = pinned.to(self.device, non_blocking=True)
            marks[1].record(stream)
            results = named(call(fn, there, keys), self.names)
            marks[2].record(stream)
            host = {name: self._copy_back(value) for name, value in results.items()}
            marks[3].record(stream)
        return lambda: self._fetch(marks, host, cost)

    def _copy_back(self, value: Any) -> Any:
        tensor = self.torch.as_tensor(value).detach()
        host = self.torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        return host

    def _fetch(self, marks: list[Any], host: dict[str, Any], cost: Cost) -> dict[str, Any]:
        marks[3].synchronize()
        at = [self.first_at + self.first.elapsed_time(mark) / 1e3 for mark in marks]
        for i, stage in enumerate((IN, COMPUTE, OUT)):
            self.meter.add(stage, at[i], at[i + 1], cost)
        return {name: on_host(name, tensor) for name, tensor in host.items()}


def call(fn: Callable[..., Any], data: Any, keys: list[str]) -> Any:
    try:
        return fn(data)
    except Exception as error:
        raise Error(f"fn raised {type(error).__name__}: {error}", stage="build", path=keys[0],
                    remedy=f"the batch begins with this sample and has {len(keys)}") from error


def named(result: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(result, Mapping):
        return {str(name): value for name, value in result.items()}
    values = result if isinstance(result, tuple) else (result,)
    if len(values) != len(names):
        raise UsageError(f"fn returned {len(values)} arrays; fields= has {len(names)} names", stage="build")
    return dict(zip(names, values, strict=True))


def on_host(name: str, value: Any) -> Any:
    """As numpy sees it."""
    try:
        return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
    except (TypeError, ValueError) as error:  # bfloat16, ragged lists
        raise UsageError(f"fn returned {name!r}, which is no array for numpy: {error}", stage="build",
                         remedy="return float32, float16 or whole numbers") from error
