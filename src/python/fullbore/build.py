"""A data set through a function of yours into one HDF5 file: reading, computing and writing at the same time.

>>> import numpy as np
>>> report = build("photos", "means.h5", fn=lambda images: images.mean(axis=(2, 3)), batch=8, transforms=[Resize((8, 8))],
...                framework="numpy", overwrite=True)
>>> report.rows
12
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ._build_device import Cpu, Cuda
from ._build_meter import Meter, Part, cpu_seconds
from ._build_progress import bar
from ._build_report import BuildReport
from ._build_run import Writer, run
from ._build_sink import Sink
from ._fullbore import version
from ._hdf5_file import Attribute, Hdf5File
from .errors import Error, UsageError
from .loader import Loader

__all__ = ["BuildReport", "build"]
_SPLITS = ("train", "val", "test")
_OURS = ("batch_size", "global_batch_size", "shuffle", "drop_last", "sampler", "weights", "rank", "world_size", "device", "collate")
_CHOOSE = ("classes", "per_class", "fraction", "indices", "split")


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
    splits: Sequence[float] | None = None,
    split_seed: int = 0,
    overwrite: bool = False,
    progress: Callable[[BuildReport], None] | bool | None = True,
    **loader: Any,
) -> BuildReport:
    """Every sample of ``source``, in order, through ``fn`` in batches, into the HDF5 file ``output``.

    ``fn`` gets the first array of a batch (images, sound, rows; a tensor on ``device`` when torch is used) and returns an array whose first
    dimension is the batch, several of them as a tuple (named by ``fields``), or a dict. With ``flatten`` its results are of shape (batch,
    k, ...) and become k rows per sample. Labels, ``keys`` and ``segment`` are added. ``loader`` takes everything that :class:`Loader` takes
    but what changes the order.

    ``splits=(80, 10, 10)`` are shares of train, val and test, by a hash of the key, as ``fullbore build --split`` does it: rows are in the
    order of splits then, ``split`` has a number for each, and attributes ``rows_train``, ``rows_val``, ``rows_test`` say which they are.

    While a batch is computed, the next ones are read and the last ones are written; ``streams`` batches are begun and not yet fetched. With
    a CUDA device batches use that many streams in turn, and times are those of CUDA events.

    A line on the terminal says how far it is; ``progress=False`` leaves it out, and a function is called with the report after each batch
    instead.

    Nothing is under the name ``output`` before the file is complete and on the disk; after an error nothing is left.
    """
    job = _Job(fn, batch, device, streams, tuple(fields), flatten, on_nan, on_error, splits, split_seed, loader)
    return job.run(source, output, overwrite, progress)


@dataclass
class _Source:
    """What is to be read: for each split the numbers of its samples, or all of them."""

    samples: int
    main_label: str | None  # whose dataset is `labels`
    classes: list[str]  # that its numbers mean
    fingerprint: str
    sides: dict[str, np.ndarray[Any, Any]]


class _Job:
    """One build: checks what is asked for, opens, runs each split, finishes, reports."""

    def __init__(self, fn: Callable[..., Any], batch: int, device: str, streams: int, fields: tuple[str, ...], flatten: bool, on_nan: str,
                 on_error: str, splits: Sequence[float] | None, split_seed: int, loader: dict[str, Any]) -> None:
        self.fn, self.batch, self.device, self.streams, self.fields, self.flatten = fn, batch, device, streams, fields, flatten
        self.on_nan, self.on_error, self.splits, self.split_seed, self.loader = on_nan, on_error, splits, split_seed, loader
        self._check()
        self.is_cuda = device.startswith("cuda")
        self.options: dict[str, Any] = {"batch_size": batch, "on_error": on_error} | (
            {"framework": "torch"} if self.is_cuda else {}) | loader
        self.meter = Meter()

    def _check(self) -> None:
        for name in _OURS:
            if name in self.loader:
                raise UsageError(f"build: {name}= changes batches or their order",
                                 remedy="batch= is the size; the order is that of the source")
        chosen = [name for name in _CHOOSE if name in self.loader]
        if chosen and (self.on_error == "skip" or self.splits is not None):
            what = "splits=" if self.splits is not None else 'on_error="skip"'
            raise UsageError(f"build: {what} goes with the whole source, not with {chosen[0]}=")
        if self.splits is not None and "class_seed" in self.loader:
            raise UsageError("build: splits= are drawn by split_seed=, not by class_seed=")
        if not callable(self.fn) or self.on_nan not in ("raise", "skip", "keep") or self.streams < 1:
            raise UsageError("build: fn= is a function, on_nan= is raise, skip or keep, streams= is at least 1")
        if self.splits is not None and not (1 <= len(self.splits) <= 3 and min(self.splits) >= 0 and sum(self.splits) > 0):
            raise UsageError(f"build: splits={self.splits!r} are not one to three shares")

    def run(self, source: Any, output: str | os.PathLike[str], overwrite: bool,
            progress: Callable[[BuildReport], None] | bool | None) -> BuildReport:
        started, cpu = time.perf_counter(), cpu_seconds()
        report = BuildReport(os.fspath(output), stages=self.meter.stages, device=self.device, streams=self.streams if self.is_cuda else 1)
        runner = Cuda(self.meter, self.fields, self.device, self.streams) if self.is_cuda else Cpu(self.meter, self.fields)
        report.is_timed_by_events = runner.is_timed_by_events
        about = self._look(source)
        file = Hdf5File(output, overwrite)
        try:
            sink = Sink(file, about.samples, self.flatten, self.on_nan, report.left_out, about.main_label)
            self._run_all(source, about, runner, sink, report, progress)
            finishing = time.perf_counter()
            self._finish(about, sink, report)
        finally:
            file.drop()
        report.finish_s, report.seconds = time.perf_counter() - finishing, time.perf_counter() - started
        report.cpu_s = cpu_seconds() - cpu
        return report

    # ---- the source

    def _look(self, source: Any) -> _Source:
        """Closed again, so that the loaders to come have all the memory."""
        with Loader(source, **self.options) as whole:
            count = whole.sample_count
            sides = {"all": np.arange(count)} if self.splits is None else self._sides(source, whole)
            return _Source(count, *_main_label(whole), whole.fingerprint, sides)

    def _sides(self, source: Any, whole: Loader) -> dict[str, np.ndarray[Any, Any]]:
        """Which samples are in which split: those below each threshold are the loader's own train side."""
        ends = np.cumsum(self.splits or ())
        try:
            number = {key: i for i, key in enumerate(whole._core.keys())}
        except Error as error:
            raise UsageError("build: splits= goes by the paths of samples, and these have none, as they are rows of arrays",
                             remedy='split=("train", 0.8) and ("val", 0.8) build each side on its own') from error
        before, sides = set[int](), {}
        for name, share in zip(_SPLITS, ends / ends[-1], strict=False):
            below = set(number.values()) if share >= 1 else set[int]()
            if 0 < share < 1:
                with Loader(source, **self.options, split=("train", float(share)), class_seed=self.split_seed) as some:
                    below = {number[key] for key in some._core.keys()}
            sides[name] = np.array(sorted(below - before), dtype=np.int64)
            before |= below
        return sides

    # ---- running

    def _run_all(self, source: Any, about: _Source, runner: Cpu | Cuda, sink: Sink, report: BuildReport,
                 progress: Callable[[BuildReport], None] | bool | None) -> None:
        shown = bar(about.samples) if progress is True else None
        tell = progress if callable(progress) else shown
        writer = Writer(sink, self.streams, self.meter)
        begin = time.perf_counter()

        def told() -> None:
            report.samples, report.rows, report.seconds = len(sink.keys), sink.rows, time.perf_counter() - begin
            report.all = _sum([*report.splits.values(), self.meter.part])
            if tell is not None:
                tell(report)

        writer.start()
        try:
            for name, indices in about.sides.items():
                since = time.perf_counter()  # opening reads, too
                with Loader(source, **self.options, sampler=indices) as feed:  # so that no second epoch is read ahead
                    if feed.fingerprint != about.fingerprint:
                        raise Error("the source changed while it was read", stage="build", path=str(source), remedy="build again")
                    report.splits[name] = self._run_part(feed, runner, writer, indices, report, told, since)
            writer.end()
            report.all = _sum(report.splits.values())
            report.splits.pop("all", None)
        finally:
            writer.give_up()
            if shown is not None:
                shown.end()
        self._sum_up(writer, begin, report)

    def _run_part(self, feed: Loader, runner: Cpu | Cuda, writer: Writer, indices: np.ndarray[Any, Any], report: BuildReport,
                  told: Callable[[], None], since: float) -> Part:
        """One split, to its last row; what it took is its own."""
        part = self.meter.part = Part()
        cpu = time.process_time()
        run(feed, self.fn, runner, writer, indices if self.on_error == "skip" else None, told)
        writer.drain()
        part.cpu_s = time.process_time() - cpu
        stats = feed.stats()
        report.loading.add(stats, time.perf_counter() - since)
        stage = {one["name"]: one for one in stats["stages"]}
        part.loaded, part.load_p99_s = stage["decode"]["items"], stats["load_p99_seconds"]
        part.load_s = stage["decode"]["busy_seconds"] + stage["transform"]["busy_seconds"]
        report.left_out += [(bad["path"], bad["cause"]) for bad in stats["bad_samples"]]
        return part

    # ---- the end

    def _sum_up(self, writer: Writer, begin: float, report: BuildReport) -> None:
        end, meter = time.perf_counter(), self.meter
        seconds = meter.sum_up(begin, end)
        report.samples, report.rows, report.widest = len(writer.sink.keys), writer.sink.rows, writer.sink.widest
        report.wall_s, report.hold_s, report.slowest = end - begin, meter.hold_s, meter.slowest
        report.overlap_s = sum(s for stages, s in seconds.items() if len(stages) > 1)
        report.idle_s = max(0.0, report.wall_s - sum(seconds.values()))
        report.queue_depth_mean, report.queue_depth_max = writer.depth_sum / max(writer.puts, 1), writer.depth_max
        report.loading.cores = len(os.sched_getaffinity(0))

    def _finish(self, about: _Source, sink: Sink, report: BuildReport) -> None:
        rows = [part.rows for part in report.splits.values()]
        side = np.repeat([_SPLITS.index(name) for name in report.splits], rows).astype(np.uint8) if self.splits is not None else None
        sink.finish(about.classes, side)
        sums = sink.checksums()
        report.checksum = next(iter(sums.values()))
        attributes: dict[str, Attribute] = {
            "made_by": f"fullbore {version()}", "checksum": report.checksum, "source_fingerprint": about.fingerprint,
            "samples": report.samples, "samples_left_out": report.all.left_out, **self._parameters(), **self._stretches(report)}
        report.bytes = sink.file.finish(attributes, {name: {"checksum": value} for name, value in sums.items()})

    def _parameters(self) -> dict[str, Attribute]:
        """What the file was made with, but for where the source lay."""
        given = {name: _shown(value) for name, value in sorted(self.loader.items())}
        found: dict[str, Attribute] = {
            "function": _name(self.fn), "batch": self.batch, "device": self.device, "streams": self.streams,
            "fields": ",".join(self.fields), "flatten": int(self.flatten), "on_nan": self.on_nan, "on_error": self.on_error,
            "loader": json.dumps(given, ensure_ascii=False)}
        if self.splits is not None:
            found |= {"split_shares": tuple(float(share) for share in (*self.splits, 0.0, 0.0))[:3], "split_seed": self.split_seed}
        return found

    def _stretches(self, report: BuildReport) -> dict[str, Attribute]:
        """First row of each split and the one behind its last."""
        found: dict[str, Attribute] = {}
        at = 0
        for name in _SPLITS[: len(self.splits or ())]:
            rows = report.splits[name].rows if name in report.splits else 0
            found[f"rows_{name}"] = (at, at + rows)
            at += rows
        return found


def _main_label(whole: Loader) -> tuple[str | None, list[str]]:
    """The class, or the only label, or the one that is called so; and the names behind its numbers."""
    class_field, labels = whole._core.class_field(), [name for name, _, _ in whole._core.label_fields()]
    if class_field is not None:
        return class_field, whole.classes
    main = labels[0] if len(labels) == 1 else "label"
    return main, whole.label_classes.get(main, [])


def _sum(parts: Iterable[Part]) -> Part:
    whole = Part()
    for part in parts:
        whole.add(part)
    return whole


def _name(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', type(fn).__name__)}"


def _shown(value: Any) -> Any:
    """An argument as text that is the same in every run; of many numbers how many there are."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _shown(one) for name, one in value.items()}
    if hasattr(value, "shape") or isinstance(value, Sequence) and len(value) > 100:
        return f"{len(value)} values"
    if isinstance(value, (list, tuple)):
        return [_shown(one) for one in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return _name(value)
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
