"""A training loop in a process of its own, as people write it: what bench/consumer.py measures.

    bench/consumer_loop.py '{"kind": "photos", "source": FOLDER, "batch": 64, "threads": 2, "step": "sleep", "ms": 25.0, "seconds": 3}'

Prints one JSON object. The batches are torch tensors; every one is counted. What comes first, when the look-ahead is filled, is not
measured: four batches and at least a second and a half.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullbore as fb
import torch

KINDS: dict[str, dict[str, Any]] = {
    "photos": {"transforms": [fb.RandomResizedCrop(224), fb.RandomHorizontalFlip(), fb.Normalize.imagenet()]},
    "npz": {"sample": "file", "fields": ("volume",)},
    "rows": {"fields": ("features", "labels")},
    "sound": {"transforms": [fb.CropOrPad(24_000), fb.LogMel(48_000, n_mels=64)]},
}


def spec(kind: str) -> str:
    """The same transforms for the command."""
    return "; ".join(step.spec for step in KINDS[kind].get("transforms", ()))


def sleeping(ms: float) -> Callable[[], None]:
    return lambda: time.sleep(ms / 1000)


def computing(ms: float) -> Callable[[], None]:
    """Products of matrices that fit into a core's cache, until they have taken so much CPU time: the same work whatever the clock rate
    is."""
    torch.set_num_threads(1)
    x = torch.rand(64, 64)

    def step() -> None:
        until = time.thread_time() + ms / 1000
        while time.thread_time() < until:
            torch.mm(x, x)

    return step


def core_delay() -> float:
    """Seconds that this thread could have run and had no core."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


class Clock:
    """What the loop saw after it had warmed up."""

    WARM_UP, WARM_UP_SECONDS = 4, 1.5

    def __init__(self) -> None:
        self.batches = self.steps = 0
        self.first = 0.0
        self.since = self.began = self.asked = self.cpu = self.delay = self.steps_took = 0.0
        self.waits: list[float] = []

    def came(self) -> None:
        now = time.perf_counter()
        self.first = self.first or now
        if self.since:
            self.waits.append(now - self.asked)
        elif self.batches >= self.WARM_UP and now - self.first >= self.WARM_UP_SECONDS:
            self.since, self.cpu, self.delay = now, time.process_time(), core_delay()
        self.batches += 1
        self.began = now

    def done(self) -> float:
        """The step is over; seconds since the first measured one began."""
        self.asked = time.perf_counter()
        if not self.since:
            return 0.0
        self.steps += 1
        self.steps_took += self.asked - self.began
        return self.asked - self.since


def run(loader: fb.Loader, batch: int, step: Callable[[], None], seconds: float) -> Clock:
    clock = Clock()
    while True:
        for data in loader:
            clock.came()
            if len(data[0]) != batch:
                raise SystemExit(f"consumer: a batch of {len(data[0])} samples, {batch} were due")
            step()
            if clock.done() >= seconds:
                return clock


def main() -> None:
    order = json.loads(sys.argv[1])
    ms, batch = order["ms"], order["batch"]
    step = {"none": lambda _: lambda: None, "sleep": sleeping, "compute": computing}[order["step"]](ms)
    loader = fb.Loader(order["source"], batch_size=batch, shuffle=True, seed=0, drop_last=True, threads=order["threads"],
                       **KINDS[order["kind"]])
    clock = run(loader, batch, step, order["seconds"])
    wall, cpu, delay = clock.asked - clock.since, time.process_time() - clock.cpu, core_delay() - clock.delay
    exposed = loader.stats()["exposed_wait_ratio"]
    steps = clock.steps
    late = max(0.0, clock.steps_took - steps * ms / 1000 - delay) if ms else 0.0
    waits = sorted(clock.waits)
    print(json.dumps({
        "steps": steps, "wall_seconds": wall, "samples": steps * batch, "samples_per_second": steps * batch / wall,
        "busy_ratio": steps * ms / 1000 / (wall - late), "overshoot_ratio": late / wall, "core_delay_ratio": delay / wall,
        "next_median_seconds": waits[len(waits) // 2], "next_p99_seconds": waits[len(waits) * 99 // 100], "exposed_wait_ratio": exposed,
        "cpu_seconds_per_1000_samples": cpu / (steps * batch) * 1000,
        "rss_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
