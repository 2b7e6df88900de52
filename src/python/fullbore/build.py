"""A data set through a function of yours into one HDF5 file: reading, computing and writing at the same time.

>>> import numpy as np
>>> report = build("photos", "means.h5", fn=lambda images: images.mean(axis=(2, 3)), batch=8, transforms=[Resize((8, 8))],
...                framework="numpy", overwrite=True)
>>> report.rows
24
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ._fullbore import version
from ._hdf5_file import Hdf5File
from .batch import Batch
from .errors import Error, UsageError
from .loader import Loader

__all__ = ["BuildReport", "build"]
_STAGES = ("wait for data", "copy to device", "compute", "copy back", "write")


@dataclass
class Times:
    """Of one stage, over all batches."""

    total_s: float = 0.0
    max_s: float = 0.0
    batches: int = 0

    def add(self, seconds: float) -> None:
        self.total_s, self.max_s, self.batches = self.total_s + seconds, max(self.max_s, seconds), self.batches + 1


@dataclass
class BuildReport:
    """What a build did and what it cost. ``str()`` of it is a table."""

    output: str
    rows: int = 0
    samples: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)  #: (key, cause)
    bytes: int = 0
    seconds: float = 0.0
    stages: dict[str, Times] = field(default_factory=dict)
    queue_depth_mean: float = 0.0  #: batches done and not yet written
    queue_depth_max: int = 0
    is_timed_by_events: bool = False

    @property
    def verdict(self) -> str:
        """The stage that the others wait for."""
        return max(self.stages, key=lambda name: self.stages[name].total_s) if self.stages else "nothing"

    def __str__(self) -> str:
        lines = [f"{self.output}: {self.rows} rows of {self.samples} samples in {self.seconds:.2f} s, "
                 f"{self.samples / max(self.seconds, 1e-9):.0f} samples/s"]
        busy = 0.0
        for name, t in self.stages.items():
            if t.batches:
                busy += t.total_s
                lines.append(f"{name:<16} {100 * t.total_s / max(self.seconds, 1e-9):5.1f} % of the time, "
                             f"avg {1e3 * t.total_s / t.batches:.2f} ms, max {1e3 * t.max_s:.2f} ms a batch")
        lines.append(f"{'overlap':<16} {100 * max(0.0, busy - self.seconds) / max(self.seconds, 1e-9):5.1f} % of the time, at least, "
                     "had two stages at once")
        lines.append(f"{'verdict':<16} most of the time went into: {self.verdict}")
        return "\n".join(lines + [f"left out: {key}: {cause}" for key, cause in self.left_out])


class _Writer(threading.Thread):
    """Takes finished batches in order and writes them; the first failure is kept and ends it."""

    def __init__(self, sink: _Sink, depth: int, report: BuildReport) -> None:
        super().__init__(name="fb-build-write", daemon=True)
        self.sink, self.report, self.error = sink, report, None
        self.queue: queue.Queue[_Done | None] = queue.Queue(depth)
        self._depth_sum = self._puts = 0

    error: BaseException | None

    def put(self, done: _Done | None) -> None:
        while True:
            if self.error is not None:
                raise self.error
            try:
                self.queue.put(done, timeout=0.1)
                break
            except queue.Full:
                continue
        depth = self.queue.qsize()
        self._depth_sum, self._puts = self._depth_sum + depth, self._puts + 1
        self.report.queue_depth_mean = self._depth_sum / self._puts
        self.report.queue_depth_max = max(self.report.queue_depth_max, depth)

    def run(self) -> None:
        try:
            while (done := self.queue.get()) is not None:
                arrays = done.fetch()
                since = time.perf_counter()
                self.sink.write(done.keys, arrays, done.labels, done.kept)
                self.report.stages["write"].add(time.perf_counter() - since)
        except BaseException as error:  # handed to the caller
            self.error = error

    def give_up(self) -> None:
        """Ends it, whatever is left to write: nobody writes to a file that is about to go."""
        while self.is_alive():
            try:
                self.queue.get_nowait()
            except queue.Empty:
                self.queue.put(None)
                self.join()

    def end(self) -> None:
        self.put(None)
        self.join()
        if self.error is not None:
            raise self.error


@dataclass
class _Done:
    keys: list[str]
    labels: dict[str, Any]
    kept: np.ndarray[Any, Any] | None  # which samples, None: all
    fetch: Callable[[], dict[str, Any]]


class _Sink:
    """From results to rows of the file: checks shapes, numbers and names."""

    def __init__(self, file: Hdf5File, samples: int, flatten: bool, on_nan: str, report: BuildReport) -> None:
        self.file, self.samples, self.flatten, self.on_nan, self.report = file, samples, flatten, on_nan, report
        self.keys: list[str] = []
        self.shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self.per_sample = 0  # until the first batch

    def _check(self, name: str, array: Any, count: int, keys: list[str]) -> np.ndarray[Any, Any]:
        rows = np.asarray(array)
        if rows.ndim < 1 or len(rows) != count:
            raise UsageError(f"fn returned {name!r} of shape {rows.shape} for {count} samples", stage="build", path=keys[0],
                             remedy="the first dimension is that of the batch")
        if self.flatten and (rows.ndim < 2 or rows.shape[1] < 1):
            raise UsageError(f"fn returned {name!r} of shape {rows.shape}: flatten=True wants (batch, rows of a sample, ...)",
                             stage="build")
        shape = rows.shape[2:] if self.flatten else rows.shape[1:]
        many = rows.shape[1] if self.flatten else 1
        known = self.shapes.setdefault(name, (rows.dtype, shape))
        self.per_sample = self.per_sample or many
        if known != (rows.dtype, shape):
            raise UsageError(f"fn returned {name!r} as {rows.dtype} of shape {rows.shape}; before it was {known[0]} with rows of "
                             f"{known[1]}", stage="build", path=keys[0], remedy="all batches must give rows of one shape and dtype")
        if many != self.per_sample:
            raise UsageError(f"fn returned {many} rows of {name!r} for each sample; before it was {self.per_sample}", stage="build",
                             path=keys[0], remedy="all fields of all batches must give as many")
        return rows

    def _check_names(self, names: Mapping[str, Any], keys: list[str]) -> None:
        """Every batch has the fields of the first one, also when not a sample of that one was kept: else columns would not align."""
        if not names:
            raise UsageError("fn returned no array", stage="build", path=keys[0])
        if self.shapes and names.keys() != self.shapes.keys():
            raise UsageError(f"fn returned the fields {sorted(names)}; before they were {sorted(self.shapes)}", stage="build", path=keys[0],
                             remedy="all batches must give the same fields")

    def _bad(self, arrays: Mapping[str, np.ndarray[Any, Any]], keys: list[str], kept: np.ndarray[Any, Any]) -> None:
        """Rows that are not numbers: raise, leave out, or keep."""
        if self.on_nan == "keep":
            return
        for name, rows in arrays.items():
            if rows.dtype.kind not in "fc":
                continue
            wrong = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1) & kept
            if not wrong.any():
                continue
            first = int(np.flatnonzero(wrong)[0])
            if self.on_nan == "raise":
                raise Error(f"fn returned NaN or infinity in {name!r}", stage="build", path=keys[first],
                            remedy='on_nan="skip" leaves such samples out, "keep" keeps them')
            for i in np.flatnonzero(wrong):
                self.report.left_out.append((keys[i], f"fn returned NaN or infinity in {name!r}"))
            kept &= ~wrong

    def write(self, keys: list[str], results: dict[str, Any], labels: dict[str, Any], kept: np.ndarray[Any, Any] | None) -> None:
        chosen = np.ones(len(keys), dtype=bool) if kept is None else kept.copy()
        self._check_names(results, keys)
        arrays = {name: self._check(name, array, len(keys), keys) for name, array in results.items()}
        self._bad(arrays, keys, chosen)
        names = [key for key, is_kept in zip(keys, chosen, strict=True) if is_kept]
        for name, rows in {**arrays, **{n: np.asarray(v) for n, v in labels.items() if n not in arrays}}.items():
            flat = self.flatten and name in arrays
            rows = rows if chosen.all() else rows[chosen]
            if flat:
                rows = rows.reshape(-1, *rows.shape[2:])
            elif self.per_sample > 1:
                rows = np.repeat(rows, self.per_sample, axis=0)
            if name not in self.file.columns:
                self.file.add(name, rows.dtype, rows.shape[1:], self.samples * self.per_sample)
            self.file.append(self.file.columns[name], rows)
        self.keys += names
        self.report.samples += len(names)
        self.report.rows += len(names) * self.per_sample

    def finish(self) -> None:
        if not self.keys:
            raise Error("every sample is bad, so there is nothing to build", stage="build")
        keys = np.array([key.encode("utf-8", "surrogateescape") for key in self.keys])
        segment = np.tile(np.arange(self.per_sample, dtype=np.int32), len(keys))
        for name, column in (("segment", segment), ("keys", np.repeat(keys, self.per_sample))):
            if name not in self.file.columns:
                self.file.append(self.file.add(name, column.dtype, (), len(column)), column)


class _Cpu:
    """Calls the function here and now; the clock on the wall is exact then."""

    is_timed_by_events = False

    def __init__(self, report: BuildReport, names: tuple[str, ...]) -> None:
        self.report, self.names = report, names

    def run(self, fn: Callable[..., Any], data: Any, keys: list[str]) -> Callable[[], dict[str, Any]]:
        since = time.perf_counter()
        results = _named(_call(fn, data, keys), self.names)
        arrays = {name: _on_host(value) for name, value in results.items()}
        self.report.stages["compute"].add(time.perf_counter() - since)
        return lambda: arrays


class _Cuda:
    """Batches on alternating streams: copies in, the function and copies out are queued, and waited for by the writer."""

    is_timed_by_events = True

    def __init__(self, report: BuildReport, names: tuple[str, ...], device: str, streams: int) -> None:
        import torch

        self.report, self.names, self.torch, self.device = report, names, torch, torch.device(device)
        self.streams = [torch.cuda.Stream(self.device) for _ in range(streams)]
        self.turn = 0

    def run(self, fn: Callable[..., Any], data: Any, keys: list[str]) -> Callable[[], dict[str, Any]]:
        torch = self.torch
        stream = self.streams[self.turn % len(self.streams)]
        self.turn += 1
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        with torch.cuda.stream(stream):
            marks[0].record(stream)
            there = torch.as_tensor(data).pin_memory().to(self.device, non_blocking=True)
            marks[1].record(stream)
            results = _named(_call(fn, there, keys), self.names)
            marks[2].record(stream)
            host = {}
            for name, value in results.items():
                tensor = torch.as_tensor(value)
                host[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                host[name].copy_(tensor, non_blocking=True)
            marks[3].record(stream)

        def fetch() -> dict[str, Any]:
            marks[3].synchronize()
            for stage, begin, end in (("copy to device", 0, 1), ("compute", 1, 2), ("copy back", 2, 3)):
                self.report.stages[stage].add(marks[begin].elapsed_time(marks[end]) / 1e3)
            return {name: tensor.numpy() for name, tensor in host.items()}

        return fetch


def _call(fn: Callable[..., Any], data: Any, keys: list[str]) -> Any:
    try:
        return fn(data)
    except Exception as error:
        raise Error(f"fn raised {type(error).__name__}: {error}", stage="build", path=keys[0],
                    remedy=f"the batch begins with this sample and has {len(keys)}") from error


def _named(result: Any, names: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(result, Mapping):
        return {str(name): value for name, value in result.items()}
    values = result if isinstance(result, tuple) else (result,)
    if len(values) != len(names):
        raise UsageError(f"fn returned {len(values)} arrays; fields= has {len(names)} names", stage="build")
    return dict(zip(names, values, strict=True))


def _on_host(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _labels(batch: Batch) -> dict[str, Any]:
    fields = zip(batch.names[1:], batch[1:], strict=True)
    return {"labels" if name == "label" else name: _on_host(value).copy() for name, value in fields}


def _kept(samples: Sequence[int], position: int) -> np.ndarray[Any, Any] | None:
    """A sample that is not at its own position stands in for a bad one."""
    at_home = np.asarray(samples, dtype=np.int64) == np.arange(position, position + len(samples))
    return None if at_home.all() else at_home


def build(
    source: Any,
    output: str | os.PathLike[str],
    *,
    fn: Callable[..., Any],
    batch: int = 1024,
    device: str = "cpu",
    streams: int = 2,
    fields: Sequence[str] = ("features",),
    flatten: bool = False,
    on_nan: Literal["raise", "skip", "keep"] = "raise",
    on_error: Literal["raise", "skip"] = "raise",
    overwrite: bool = False,
    progress: Callable[[BuildReport], None] | None = None,
    **loader: Any,
) -> BuildReport:
    """Every sample of ``source``, in order, through ``fn`` in batches, into the HDF5 file ``output``.

    ``fn`` gets the first array of a batch (images, sound, rows; a tensor on ``device`` when torch is used) and returns an array whose first
    dimension is the batch, several of them as a tuple (named by ``fields``), or a dict. With ``flatten`` its results are of shape (batch,
    k, ...) and become k rows per sample. Labels, ``keys`` and ``segment`` are added. ``loader`` takes everything that :class:`Loader` takes
    but what changes the order.

    While a batch is computed, the next ones are read and the last ones are written; up to ``streams`` wait for the writer. With a CUDA
    device batches use that many streams in turn, and times are those of CUDA events.

    Nothing is under the name ``output`` before the file is complete and on the disk; after an error nothing is left.
    """
    for name in ("batch_size", "shuffle", "drop_last", "sampler", "weights", "rank", "world_size", "device", "collate"):
        if name in loader:
            raise UsageError(f"build: {name}= changes batches or their order", remedy="batch= is the size; the order is that of the source")
    chosen = {"classes", "per_class", "fraction", "indices", "split"} & loader.keys()
    if on_error == "skip" and chosen:
        raise UsageError(f'build: on_error="skip" goes with the whole source, not with {sorted(chosen)[0]}=')
    if not callable(fn) or on_nan not in ("raise", "skip", "keep") or streams < 1:
        raise UsageError("build: fn= is a function, on_nan= is raise, skip or keep, streams= is at least 1")
    report = BuildReport(os.fspath(output), stages={name: Times() for name in _STAGES})
    started = time.perf_counter()
    is_cuda = device.startswith("cuda")
    with Loader(source, batch_size=batch, on_error=on_error, rank=0, world_size=1,
                **({"framework": "torch"} | loader if is_cuda else loader)) as feed:
        runner = _Cuda(report, tuple(fields), device, streams) if is_cuda else _Cpu(report, tuple(fields))
        report.is_timed_by_events = runner.is_timed_by_events
        file = Hdf5File(output, overwrite)
        try:
            sink = _Sink(file, feed.sample_count, flatten, on_nan, report)
            _run(feed, fn, runner, sink, streams, report, progress, on_error == "skip")
            sink.finish()
            report.bytes = file.finish({"made_by": f"fullbore {version()}", "source_fingerprint": feed.fingerprint, "function": _name(fn),
                                        "samples": report.samples, "samples_left_out": len(report.left_out)})
        finally:
            file.drop()
    report.seconds = time.perf_counter() - started
    return report


def _run(feed: Loader, fn: Callable[..., Any], runner: _Cpu | _Cuda, sink: _Sink, streams: int, report: BuildReport,
         progress: Callable[[BuildReport], None] | None, skips: bool) -> None:
    writer = _Writer(sink, streams, report)
    writer.start()
    started, position = time.perf_counter(), 0
    batches = iter(feed)
    try:
        while True:
            since = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                break
            report.stages["wait for data"].add(time.perf_counter() - since)
            keys = list(batch.sample_keys)
            kept = _kept(batch.samples, position) if skips else None
            writer.put(_Done(keys, _labels(batch), kept, runner.run(fn, batch[0], keys)))
            position += len(keys)
            report.seconds = time.perf_counter() - started
            if progress is not None:
                progress(report)
        writer.end()
    finally:
        writer.give_up()
    report.left_out += [(bad["path"], bad["cause"]) for bad in feed.stats()["bad_samples"]] if skips else []


def _name(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', type(fn).__name__)}"
