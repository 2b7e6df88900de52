"""Caches and staging: an accelerator over slow storage in the first epoch and later, cached against local, staging against its halves.

    bench/cache.py [--build DIR] [--photos FOLDER] [--samples N] [--rounds N] [--only slow cached stage] [--json]

Slow storage is the `slow` back-end (src/io/README.md) over local files: a rotating disk, NFS, a FUSE mount of a bucket. For each, the
attainable rate is measured first (no cache, no accelerator); the emulated accelerator then takes 0.8 of it. Epoch 0 starts with an empty
cache folder, epoch 1 is a new process on the folder that epoch 0 left; over a network it still asks for each file's size and time. Sides
take turns within a round; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BATCH = 32
SLOW = {
    "rotating disk": "slow:latency_us=8000,iops=120,bandwidth=150MB",
    "NFS": "slow:latency_us=700,jitter_us=800,bandwidth=40MB,ask_us=700",
    "FUSE mount": "slow:latency_us=30000,jitter_us=20000,iops=400,ask_us=30000",
}


def answer(command: list[str], env: dict[str, str]) -> dict:
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {shlex.join(command)}\nended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


class Bench:
    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.build, self.work = options.build, work
        self.command = str(options.build / "src/cli/fullbore")
        self.folders = 0
        self.env = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
        self.photos, self.many = work / "photos", work / "many"
        self.figures: dict[str, list[float]] = {}
        chosen = [p for p in sorted(options.photos.rglob("*.jpg")) if p.stat().st_size < 256 << 10][: options.samples]  # one read each
        for path in chosen:
            to = self.photos / path.relative_to(options.photos)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
        for path in options.photos.rglob("*.jpg"):  # four times all: files that are near are copied in no time
            for i in range(4):
                to = self.many / str(i) / path.relative_to(options.photos)
                to.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, to) if path.stat().st_dev == work.stat().st_dev else shutil.copy2(path, to)
        self.feed()  # the catalog and what decoding learns: the same for all that follows

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    def feed(self, *arguments: str, source: Path | None = None) -> dict:
        command = [self.command, "bench", str(source or self.photos), "--batch-size", str(BATCH), "--dtype", "uint8", "--json"]
        return answer([*command, *arguments], self.env)

    def stages(self) -> None:
        self.stage("local files", "auto", self.many)
        for name in ("NFS", "FUSE mount"):
            self.stage(name, SLOW[name], self.photos)

    def slow(self, name: str, spec: str) -> None:
        """Utilisation at 0.8 of what the storage gives."""
        self.folders += 1
        cache = self.work / f"c{self.folders}"  # none is removed before the end: ext4 searches long after many files were
        rate = self.feed("--io", spec)["samples_per_second"]
        step = ["--step-ms", f"{1e3 * BATCH / (0.8 * rate):.3f}", "--io", spec, "--cache-dir", str(cache)]
        self.note(f"{name}, attainable samples/s", rate)
        self.note(f"{name}, epoch 0", self.feed(*step)["accelerator_utilization_ratio"])
        self.note(f"{name}, epoch 1", self.feed(*step)["accelerator_utilization_ratio"])

    def cached_against_local(self) -> None:
        cache = self.work / "l"
        if not cache.exists():
            self.feed("--cache-dir", str(cache), "--epochs", "2")
        local = self.feed("--epochs", "2")
        disk = self.feed("--epochs", "2", "--cache-dir", str(cache))
        ram = self.feed("--epochs", "3", "--cache-ram", "512MiB", "--memory", "1GiB")
        self.note("local samples/s", local["samples_per_second"])
        self.note("cached on disk, of local", disk["samples_per_second"] / local["samples_per_second"])
        self.note("cached on disk, CPU of local", disk["cpu_seconds_per_1000_samples"] / local["cpu_seconds_per_1000_samples"])
        self.note("cached in RAM (1 of 3 epochs fills it), of local", ram["samples_per_second"] / local["samples_per_second"])

    def stage(self, name: str, spec: str, source: Path) -> None:
        """Into memory: on a disk ext4 searches long for an inode while thousands of others were deleted a minute ago."""
        floor = str(self.build / "bench/floor_stage")
        memory = Path(tempfile.mkdtemp(prefix="fullbore-cache-", dir="/dev/shm"))
        alone, target = str(memory / "alone"), str(memory / "target")
        read = answer([floor, "read", str(source), spec], self.env)["seconds"]
        write = answer([floor, "write", str(source), alone], self.env)["seconds"]
        both = answer([self.command, "stage", str(source), target, "--io", spec, "--json"], self.env)["seconds"]
        shutil.rmtree(memory)
        self.note(f"stage from {name}: source alone, s", read)
        self.note(f"stage from {name}: target alone, s", write)
        self.note(f"stage from {name}, of the slower", max(read, write) / both)
        self.note(f"stage from {name}, of one after the other", (read + write) / both)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where the command and the loops were built")
    parser.add_argument("--photos", type=Path, default=ROOT / ".cache" / "photos-4000")
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=("slow", "cached", "stage"), default=["slow", "cached", "stage"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.photos.is_dir():
        print(f"{options.photos} is not there: 'make bench' makes it", file=sys.stderr)
        return 1
    work = Path(tempfile.mkdtemp(prefix="fullbore-cache-", dir="/var/tmp"))
    try:
        bench = Bench(options, work)
        for _ in range(options.rounds):
            for name, spec in SLOW.items() if "slow" in options.only else ():
                bench.slow(name, spec)
            if "cached" in options.only:
                bench.cached_against_local()
            if "stage" in options.only:
                bench.stages()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    wanted = {"epoch 0": ">= 0.95", "epoch 1": ">= 0.99", "cached on disk, of local": ">= 0.95", "of the slower": ">= 0.9"}
    rows = [(what, statistics.median(values), next((w for ending, w in wanted.items() if what.endswith(ending)), ""))
            for what, values in bench.figures.items()]
    if options.json:
        print(json.dumps({"rows": rows}))
        return 0
    for what, value, target in rows:
        print(f"{what:52} {value:9.3f}   {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
