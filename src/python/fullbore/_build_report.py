"""What a build cost and where, in words and as a dict; pure functions of what was counted. The words are those of ``fullbore build``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ._build_meter import COMPUTE, IN, OUT, STAGES, WAIT, WRITE, Part, Times
from ._talk import shown

LOW_DEPTH = 8  # reads under way; storage has more to give
LEAST_GAIN = 1.05  # less is not worth a word
MOST_GAIN = 20.0


@dataclass
class Loading:
    """What the loader's own threads did."""

    threads: int = 1
    cores: int = 1
    samples: int = 0
    busy_s: float = 0.0  #: decoding and transforming, summed over threads
    idle_s: float = 0.0  #: threads that waited for something to decode
    reads: int = 0
    read_s: float = 0.0  #: from request to bytes, summed over requests
    bytes_read: int = 0
    cached_reads: int = 0  #: done by the threads themselves, from the system's memory
    wall_s: float = 0.0
    in_flight_s: float = 0.0  #: summed over the requests that were under way; those the threads did themselves never were
    in_flight_max: int = 0

    def add(self, stats: dict[str, Any], wall_s: float) -> None:
        """What ``Loader.stats()`` says."""
        stage = {one["name"]: one for one in stats["stages"]}
        self.threads = stats["threads"]
        self.samples += stage["decode"]["items"]
        self.busy_s += stage["decode"]["busy_seconds"] + stage["transform"]["busy_seconds"]
        self.idle_s += stage["decode"]["waiting_for_input_seconds"]
        self.reads += stage["read"]["items"]
        self.read_s += stage["read"]["busy_seconds"]
        self.bytes_read += stage["read"]["bytes"]
        self.cached_reads += stats["io"]["cached_reads"]
        self.wall_s += wall_s
        self.in_flight_s += stats["io"]["in_flight_seconds"]
        self.in_flight_max = max(self.in_flight_max, stats["io"]["in_flight_peak"])

    @property
    def is_from_memory(self) -> bool:
        return 2 * self.cached_reads >= self.reads

    @property
    def in_flight_mean(self) -> float:
        """By Little's law: the requests' time over the time. Of the same requests as the maximum."""
        return _ratio(self.in_flight_s, self.wall_s)


@dataclass
class BuildReport:
    """What a build did and what it cost. ``str()`` of it is a table, ``as_dict()`` goes into JSON."""

    output: str
    rows: int = 0
    samples: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)  #: (key, cause); of each split the first thousand that could not be read
    bytes: int = 0
    checksum: str = ""
    seconds: float = 0.0  #: of all
    cpu_s: float = 0.0  #: of the process and its HDF5 helper, from the beginning to the end
    wall_s: float = 0.0  #: without opening the source and without the end
    finish_s: float = 0.0  #: of the end: structure, and bringing it to the disk
    device: str = "cpu"
    streams: int = 1
    stages: dict[str, Times] = field(default_factory=lambda: {name: Times() for name in STAGES})
    all: Part = field(default_factory=Part)
    splits: dict[str, Part] = field(default_factory=dict)
    loading: Loading = field(default_factory=Loading)
    overlap_s: float = 0.0  #: two or more stages at once
    idle_s: float = 0.0  #: none
    hold_s: float = 0.0  #: computing waited for the writer
    widest: str = ""  #: dtype of the largest field
    queue_depth_mean: float = 0.0  #: batches done and not yet written
    queue_depth_max: int = 0
    slowest: list[tuple[float, str, int]] = field(default_factory=list)  #: (seconds, first sample, number of the batch)
    is_timed_by_events: bool = False

    @property
    def opening_s(self) -> float:
        """Before the first batch was asked for."""
        return max(0.0, self.seconds - self.wall_s - self.finish_s)

    @property
    def verdict(self) -> str:
        """The stage that the others wait for."""
        return max(self.stages, key=lambda name: self.stages[name].wall_s or self.stages[name].total_s) if self.stages else "nothing"

    @property
    def is_storage_slow(self) -> bool:
        """The function waited for data while the threads that decode had none either."""
        return not self.loading.is_from_memory and self.loading.idle_s / self.loading.threads > self.stages[WAIT].total_s / 2

    @property
    def is_queue_depth_low(self) -> bool:
        return self.verdict == WAIT and self.is_storage_slow and self.loading.in_flight_mean < LOW_DEPTH

    @property
    def remedy(self) -> str:
        """The change that would gain most, or nothing."""
        return best_remedy(self)[0]

    @property
    def predicted_gain(self) -> float:
        """The time now over the time with the remedy."""
        return best_remedy(self)[1]

    def as_dict(self) -> dict[str, Any]:
        return as_dict(self)

    def __str__(self) -> str:
        return as_text(self)


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else 0.0


# ---- the remedy


def best_remedy(r: BuildReport) -> tuple[str, float]:
    """In words, and the gain that these figures predict; 1: nothing would help."""
    text, gain = max(_remedies(r), key=lambda one: one[1], default=("", 1.0))
    return (text, gain) if gain > LEAST_GAIN else ("", 1.0)


def _gain(r: BuildReport, saved_s: float) -> float:
    """No quicker than what goes on beside it: the writer, and the threads that load."""
    floor = max(r.stages[WRITE].wall_s, r.loading.busy_s / r.loading.threads, r.wall_s / MOST_GAIN)
    return _ratio(r.wall_s, max(r.wall_s - saved_s, min(floor, r.wall_s)))


def _remedies(r: BuildReport) -> list[tuple[str, float]]:
    return [*_remedies_of_loading(r), *_remedies_of_computing(r), *_remedies_of_writing(r)]


def _remedies_of_loading(r: BuildReport) -> list[tuple[str, float]]:
    wait, load = r.stages[WAIT].total_s, r.loading
    if r.is_storage_slow:
        return [("read from faster storage: `fullbore stage` copies to a local disk or /dev/shm", _gain(r, wait))]
    if load.threads < load.cores:
        return [("let it load on all cores: leave threads= out", _ratio(r.wall_s, r.wall_s - wait * (1 - load.threads / load.cores)))]
    return [("twice the cores: the work is decoding", _ratio(r.wall_s, r.wall_s - wait / 2))]


def _remedies_of_computing(r: BuildReport) -> list[tuple[str, float]]:
    copies = r.stages[IN].total_s + r.stages[OUT].total_s
    found = [("a function twice as quick: everything else waits for it", _gain(r, r.stages[COMPUTE].alone_s / 2))]
    if r.device != "cpu" and r.streams == 1:
        found.append(("streams=2: copies go on while another batch is computed", _gain(r, min(copies, r.stages[COMPUTE].total_s))))
    if r.widest in ("float32", "float64"):
        found.append((f"return {_half(r)}: half the bytes to copy back", _gain(r, r.stages[OUT].alone_s / 2)))
    return found


def _remedies_of_writing(r: BuildReport) -> list[tuple[str, float]]:
    found = [("write to a faster disk", _ratio(r.wall_s, max(r.wall_s - r.hold_s, r.wall_s / MOST_GAIN)))]
    if r.widest in ("float32", "float64"):  # costs nothing, so it goes first when the gain is the same
        found.insert(0, (f"return {_half(r)}: half the bytes to write", _ratio(r.wall_s, r.wall_s - r.hold_s / 2)))
    return found


def _half(r: BuildReport) -> str:
    return "float16" if r.widest == "float32" else "float32"


# ---- words


def as_text(r: BuildReport) -> str:
    lines = [f"{'built in':<10} {r.seconds:.2f} s on {r.device}, {r.loading.threads} threads load, "
             f"{_ratio(r.samples, r.seconds):.0f} samples/s, {_ratio(r.rows, r.seconds):.0f} rows/s; {r.cpu_s:.2f} s of CPU, "
             f"{r.opening_s:.2f} s to open", _part("all", r.all)]
    lines += [_part(name, part) for name, part in r.splits.items()]
    lines += [*_stages(r), *_waits(r), *_ends(r)]
    lines += [f"left out: {key}: {cause}" for key, cause in r.left_out]
    more = r.all.left_out - len(r.left_out)
    return "\n".join(shown(line) for line in lines + ([f"left out: {more} more"] if more > 0 else []))


def _part(name: str, p: Part) -> str:
    return (f"{name:<10} {p.samples} samples, {p.rows} rows, {p.left_out} left out; {p.batches} batches took {p.batch_total_s:.3f} s, "
            f"avg {1e3 * _ratio(p.batch_total_s, p.batches):.1f} ms, max {1e3 * p.batch_max_s:.1f} ms; "
            f"per sample CPU avg {1e3 * _ratio(p.cpu_s, p.samples):.3f} ms, loading avg {1e3 * _ratio(p.load_s, p.loaded):.3f} ms, "
            f"p99 {1e3 * p.load_p99_s:.2f} ms")


def _row(name: str, shares: tuple[float | None, ...], rates: tuple[float | None, ...], batch: tuple[float | None, ...]) -> str:
    cells = [f"{'-':>12}" if x is None else f"{100 * x:10.1f} %" for x in shares]
    cells += [f"{'-':>17}" if x is None else f"{x:17.0f}" for x in rates]
    cells += [f"{'-':>{width}}" if x is None else f"{1e3 * x:{width - 3}.2f} ms" for x, width in zip(batch, (13, 10), strict=True)]
    return f"{name:<15}{''.join(cells)}"


def _stages(r: BuildReport) -> list[str]:
    head = f"{'stage':<15}{'thread time':>12}{'of the wall':>12}{'alone':>12}{'samples/s alone':>17}{'rows/s alone':>17}"
    lines, shares = [f"{head}{'a batch avg':>13}{'max':>10}"], stage_shares(r)
    for name, s in shares.items():
        lines.append(_row(name, (s["thread_share"], s["wall_share"], s["alone_share"]), (s["samples_per_s_alone"], s["rows_per_s_alone"]),
                          (s["batch_seconds_mean"], s["batch_seconds_max"])))
    return [*lines, f"{'overlap':<10} {100 * _ratio(r.overlap_s, r.wall_s):.1f} % of the wall had two or more stages at once, "
                    f"{100 * _ratio(r.idle_s, r.wall_s):.1f} % none"]


def _waits(r: BuildReport) -> list[str]:
    load = r.loading
    lines = [f"{'waited':<10} {100 * _ratio(r.stages[WAIT].total_s, r.wall_s):.1f} % of the wall for data, "
             f"{100 * _ratio(r.hold_s, r.wall_s):.1f} % for the writer",
             f"{'queue':<10} avg {load.in_flight_mean:.1f}, max {load.in_flight_max} reads asked for at once, "
             f"{100 * _ratio(load.cached_reads, load.reads):.0f} % found in memory; "
             f"avg {r.queue_depth_mean:.1f}, max {r.queue_depth_max} batches before the writer"]
    if r.is_queue_depth_low:
        lines.append("LOW QUEUE DEPTH: waiting for storage with few reads under way")
    for i, (seconds, first, number) in enumerate(r.slowest):
        lines.append(f"{'' if i else 'slowest':<10} {1e3 * seconds:.2f} ms batch {number}, from {first}")
    return lines


def _ends(r: BuildReport) -> list[str]:
    why = "" if r.verdict != WAIT else " (storage)" if r.is_storage_slow else " (decoding)"
    lines = [f"{'file':<10} {r.output}, {r.bytes:,} bytes; at the end {r.finish_s:.2f} s for structure and disk",
             f"{'verdict':<10} most of the time went into: {r.verdict}{why}"]
    text, gain = best_remedy(r)
    return lines + ([f"{'remedy':<10} {text} (about {gain:.1f}x)"] if text else [])


# ---- figures


def stage_shares(r: BuildReport) -> dict[str, dict[str, float | None]]:
    """Shares of each stage, none above 1. What the loader's threads did is known by their time, not by the wall's."""
    load = r.loading
    read_lanes = load.threads if load.is_from_memory else max(load.in_flight_max, 1)
    busy = {"read": (load.read_s, read_lanes, load.is_from_memory), "decode": (load.busy_s, load.threads, True)}
    found: dict[str, dict[str, float | None]] = {}
    for name, (seconds, lanes, has_threads) in busy.items():
        found[name] = _figures(r, seconds * _ratio(r.samples, load.samples), lanes)
        if not has_threads:  # requests: nobody's thread
            found[name]["thread_share"] = None
    for name, times in r.stages.items():
        if times.batches:
            found[name] = _figures(r, times.total_s, 1 if name in (WAIT, WRITE) else r.streams, times)
    if WAIT in found:
        found[WAIT] |= {"samples_per_s_alone": None, "rows_per_s_alone": None}  # it is no work
    return found


def _figures(r: BuildReport, seconds: float, lanes: int, times: Times | None = None) -> dict[str, float | None]:
    return {
        "seconds": seconds,
        "thread_share": min(1.0, _ratio(seconds, r.wall_s * lanes)),
        "wall_share": None if times is None else _ratio(times.wall_s, r.wall_s),
        "alone_share": None if times is None else _ratio(times.alone_s, r.wall_s),
        "samples_per_s_alone": _ratio(r.samples, seconds / lanes),
        "rows_per_s_alone": _ratio(r.rows, seconds / lanes),
        "batch_seconds_mean": None if times is None else times.mean_s,
        "batch_seconds_max": None if times is None else times.max_s,
    }


def as_dict(r: BuildReport) -> dict[str, Any]:
    """Plain values; names as in the JSON of ``fullbore build`` where they mean the same."""
    text, gain = best_remedy(r)
    return {
        "output": r.output, "samples": r.samples, "rows": r.rows, "left_out_samples": r.all.left_out, "file_bytes": r.bytes,
        "checksum": r.checksum, "seconds": r.seconds, "wall_seconds": r.wall_s, "finish_seconds": r.finish_s, "device": r.device,
        "streams": r.streams, "threads": r.loading.threads, "bytes_read": r.loading.bytes_read,
        "opening_seconds": r.opening_s, "cpu_seconds": r.cpu_s,
        "samples_per_s": _ratio(r.samples, r.seconds), "rows_per_s": _ratio(r.rows, r.seconds),
        "all": asdict(r.all), "splits": {name: asdict(part) for name, part in r.splits.items()},
        "stages": stage_shares(r), "overlap_share": _ratio(r.overlap_s, r.wall_s), "idle_share": _ratio(r.idle_s, r.wall_s),
        "wait_for_writer_seconds": r.hold_s,
        "queue_depth_mean": r.loading.in_flight_mean, "queue_depth_max": r.loading.in_flight_max,
        "is_queue_depth_low": r.is_queue_depth_low,
        "batches_before_writer_mean": r.queue_depth_mean, "batches_before_writer_max": r.queue_depth_max,
        "slowest": [{"milliseconds": 1e3 * seconds, "first_key": first, "batch": number} for seconds, first, number in r.slowest],
        "left_out": [{"key": key, "cause": cause} for key, cause in r.left_out],
        "is_timed_by_events": r.is_timed_by_events, "verdict": r.verdict, "remedy": text, "predicted_gain": gain,
    }
