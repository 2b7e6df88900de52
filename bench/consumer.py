"""How busy does a training loop in Python keep its accelerator? A part of `make bench`.

    bench/consumer.py [--quick] [--rounds N] [--threads N] [--only photos npz rows sound] [--steps sleep compute]

Each figure comes from a process of its own (bench/consumer_loop.py) that runs `for batch in loader: step()`. Two kinds of step: one sleeps,
as a loop does that waits for its accelerator, and one computes on one core. The demand is 0.3 to 0.9 of the attainable rate, which is what
the same loop takes when its step does nothing. Beside a computing step it is what one worker less attains, because the step has that core.

    busy = steps x nominal time / wall time from the first batch to the end of the last step

So everything that `next()` costs counts, and every moment in which the step's thread wanted a core that the workers had. Only what steps
took too long although a core was there is taken off the wall time: sleeps overshoot, and the host of a virtual machine takes its cores
away. The kernel counts how long a thread wanted a core (schedstat), so that both can be told apart. `fullbore bench --step-ms` runs beside
it, with the same step on the same files, reckons the same way and must say the same. All figures go to build/bench-consumer.json.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import arrays
import consumer_loop
import run as bench

SHARES = (0.3, 0.5, 0.7, 0.9)
STEPS_MS = (25.0, 5.0)  # at a demand of 0.9; the batch stays the same, so steps are longer when less is wanted
WANTED = {25.0: (0.985, 0.97), 5.0: (0.97, 0.96)}  # up to 0.7; at 0.9
FIRST_GUESS = {"photos": 64, "npz": 16, "rows": 8192, "sound": 256}


# ---------------------------------------------------------------------------------------------------------------------- files


def photo_folder(quick: bool) -> Path:
    count = 1000 if quick else 4000
    folder = bench.ROOT / ".cache" / f"photos-{count}"
    bench.make_photos(folder, count)
    return folder


def volume_folder(quick: bool) -> Path:
    """Deflated volumes of 2 MB, smooth with some noise, as scans are."""
    import numpy as np

    def make(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(3)
        z, y, x = np.meshgrid(*(np.linspace(0, 3, n) for n in (64, 128, 128)), indexing="ij")
        for i in range(50 if quick else 200):
            waves = sum(np.sin(rng.uniform(1, 4) * axis + rng.uniform(0, 6)) for axis in (z, y, x, x + y))
            volume = (1000 * waves + rng.normal(0, 4, waves.shape)).astype("i2")
            np.savez_compressed(folder / f"{i:04d}.npz", volume=volume)

    return arrays.made(arrays.CACHE / "arrays" / f"volumes-{50 if quick else 200}", make)


SOURCES = {
    "photos": photo_folder,
    "npz": volume_folder,
    "rows": lambda quick: arrays.row_file("contiguous", 256, 240_000),
    "sound": lambda quick: arrays.wav_folder(4000),
}


def environment(kind: str, source: Path) -> dict[str, str]:
    """Where everything is known that there is to know of the photographs; the others learn in their first epoch."""
    if kind != "photos":
        return {}
    count = int(source.name.removeprefix("photos-"))
    return bench.all_known(source, count, bench.ROOT / ".cache" / f"known-{count}")


# ---------------------------------------------------------------------------------------------------------------------- sides


class Case:
    """One kind of data, one batch size, one number of workers."""

    def __init__(self, kind: str, source: Path, threads: int, seconds: float = 3.0) -> None:
        self.kind, self.source, self.threads, self.seconds = kind, source, threads, seconds
        self.env = environment(kind, source)
        self.batch = FIRST_GUESS[kind]

    def loop(self, step: str, ms: float, threads: int = 0) -> dict:
        order = {"kind": self.kind, "source": str(self.source), "batch": self.batch, "threads": threads or self.threads, "step": step,
                 "ms": ms, "seconds": self.seconds}
        return bench.run_json([sys.executable, "bench/consumer_loop.py", json.dumps(order)], self.env)

    def attainable(self, threads: int = 0) -> float:
        return self.loop("none", 0.0, threads)["samples_per_second"]

    def command(self, ms: float, rate: float) -> dict:
        """The same by the command, for about as long."""
        options = {"photos": [], "npz": ["--sample", "file", "--fields", "volume"], "rows": ["--fields", "features,labels"],
                   "sound": []}[self.kind]
        transform = ["--transform", consumer_loop.spec(self.kind)] if consumer_loop.spec(self.kind) else []
        samples = bench.run_json([bench.COMMAND, "info", str(self.source), "--json"], self.env)["samples"]
        if self.kind == "rows":
            samples = 240_000
        epochs = max(1, round(self.seconds * rate / samples))
        return bench.run_json([bench.COMMAND, "bench", str(self.source), *options, *transform, "--batch-size", str(self.batch), "--threads",
                               str(self.threads), "--step-ms", f"{ms:.3f}", "--epochs", str(epochs), "--json"], self.env)


def measure(b: "bench.Bench", case: Case, at_09_ms: float, step: str) -> None:
    """All shares of the attainable rate, for one kind of step and one batch size."""
    workers = case.threads if step == "sleep" else max(1, case.threads - 1)
    case.batch = FIRST_GUESS[case.kind]
    case.batch = max(1, round(case.attainable(workers) * 0.9 * at_09_ms / 1000))
    shares = SHARES[1::2] if b.options.quick else SHARES
    seen: dict[float, list[dict]] = {share: [] for share in shares}
    for _ in range(b.options.rounds):
        rate = case.attainable(workers)
        for share in shares:
            ms = case.batch / (share * rate) * 1000
            loop = case.loop(step, ms)
            both = {"step_ms": ms, "rate": rate, "loop": loop}
            if step == "sleep":
                both["command"] = case.command(ms, share * rate)
            seen[share].append(both)
    b.results[f"{case.kind}_{step}_{at_09_ms:.0f}"] = {"batch": case.batch, "shares": seen}
    for share, records in seen.items():
        report(b, case, at_09_ms, step, share, records)


def report(b: "bench.Bench", case: Case, at_09_ms: float, step: str, share: float, records: list[dict]) -> None:
    wanted = WANTED[at_09_ms][share > 0.7]
    loops = [r["loop"] for r in records]
    busy = bench.median(loops, "busy_ratio")
    ms = statistics.median(r["step_ms"] for r in records)
    how = (f"steps of {ms:.1f} ms, batch {case.batch}, {case.threads} threads, {b.options.rounds} rounds; "
           f"next() {bench.median(loops, 'next_median_seconds') * 1000:.2f} ms, p99 {bench.median(loops, 'next_p99_seconds') * 1000:.2f} "
           f"ms; own wait for a core {bench.median(loops, 'core_delay_ratio'):.4f}; taken off {bench.median(loops, 'overshoot_ratio'):.4f}")
    name = (f"Python loop, {case.kind}, {'sleeping' if step == 'sleep' else 'computing'} step of {at_09_ms:.0f} ms and more, "
            f"wanting {share} of the rate: busy")
    other = "-"
    if step == "sleep":
        other = f"{statistics.median(r['command']['accelerator_utilization_ratio'] for r in records):.4f}"
    b.row(name, f"{busy:.4f}", other, f"{busy:.3f}", f">= {wanted}", how)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures how busy training loops in Python keep an emulated accelerator.")
    parser.add_argument("--quick", action="store_true", help="one round, two demands, fewer photographs: figures become rough")
    parser.add_argument("--rounds", type=int, help="default 3; with --quick 1")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--steps", nargs="+", choices=["sleep", "compute"], default=["sleep", "compute"])
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.photos = 0
    b = bench.Bench(options)
    if os.getloadavg()[0] > 0.5:
        print(f"bench: others use this machine too (load {os.getloadavg()[0]:.1f}): trust ratios, not rates", file=sys.stderr)
    for kind in options.only:
        case = Case(kind, SOURCES[kind](options.quick), options.threads, options.seconds)
        for step in options.steps:
            for at_09_ms in STEPS_MS:
                measure(b, case, at_09_ms, step)
    bench.print_table(b)
    b.results |= {"rows": b.rows, "load": os.getloadavg()}
    (arrays.BUILD / "bench-consumer.json").write_text(json.dumps(b.results, indent=1) + "\n")


if __name__ == "__main__":
    main()
