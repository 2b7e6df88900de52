"""Packs against what they replace: packing against tar, reading cold against a bare ring, feeding warm against files, the first batch.

    bench/pack.py [--quick] [--build DIR] [--photos FOLDER] [--rounds N] [--samples N]

Sides take turns within a round; figures are medians. Prints a table, and one JSON object with --json.
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
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def timed(command: list[str], env: dict[str, str]) -> float:
    since = time.monotonic()
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - since


def answer(command: list[str], env: dict[str, str]) -> dict:
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {shlex.join(command)}\nended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where the command and the loops were built")
    parser.add_argument("--photos", type=Path, default=ROOT / ".cache" / "photos-4000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=1_200_000, help="in the index whose opening is measured")
    parser.add_argument("--quick", action="store_true",
                        help="one round, 1,000 photographs and a smaller index: shows that it works, not how fast")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.samples = 1, 100_000
        if (ROOT / ".cache/photos-1000").is_dir():
            options.photos = ROOT / ".cache/photos-1000"
    if not options.photos.is_dir():
        print(f"{options.photos} is not there: 'make bench' makes it", file=sys.stderr)
        return 1
    command = str(options.build / "src/cli/fullbore")
    work = Path(tempfile.mkdtemp(prefix="fullbore-pack-"))
    env = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)

    try:
        answer([command, "index", str(options.photos), "--learn", "--json"], env)  # so that both sides know the same
        pack = work / "p.tar"
        for _ in range(options.rounds):
            for p in work.glob("*.tar"):
                p.unlink()
            os.sync()
            note("tar_seconds", timed(["tar", "cf", str(work / "t.tar"), "-C", str(options.photos), "."], env))
            (work / "t.tar").unlink()
            os.sync()
            synced = 'tar cf "$0" -C "$1" . && sync "$0"'
            note("tar_synced_seconds", timed(["sh", "-c", synced, str(work / "t.tar"), str(options.photos)], env))
            os.sync()
            note("pack_seconds", timed([command, "pack", str(options.photos), "-o", str(pack), "--force"], env))
            for how in ("bare", "uring"):
                r = answer([str(options.build / "bench/pack_read"), str(pack), how, "64"], env)
                note(f"cold_{how}_bytes_per_second", r["bytes_per_second"])
            pack.read_bytes()
            note("take_over_seconds", answer([command, "info", str(pack), "--json"], env)["open_seconds"])  # what was learnt, once
            for name, source in (("files", options.photos), ("pack", pack)):
                r = answer([command, "bench", str(source), "--transform", "rrc224", "--batch-size", "64", "--dtype", "uint8",
                            "--json"], env)
                note(f"warm_{name}_samples_per_second", r["samples_per_second"])
                note(f"warm_{name}_cpu_seconds", r["cpu_seconds_per_1000_samples"])
                note(f"first_batch_{name}_seconds", r["time_to_first_batch_seconds"])
            for _ in range(5):
                note("start_seconds", timed([command, "help"], env))
                r = answer([command, "bench", str(pack), "--transform", "rrc224", "--batch-size", "1", "--dtype", "uint8", "--json"], env)
                note("first_sample_seconds", r["time_to_first_batch_seconds"])
        m = {k: statistics.median(v) for k, v in figures.items()}
        m |= answer([str(options.build / "bench/pack_open"), str(work), str(options.samples)], env)
    finally:
        shutil.rmtree(work, ignore_errors=True)

    def ratio(a: str, b: str) -> float:
        """Per round, so that what hits one round hits both sides."""
        return statistics.median(x / y for x, y in zip(figures[a], figures[b], strict=True))

    rows = [
        ("packing, warm, on the disk, against `tar cf` in memory", ratio("tar_seconds", "pack_seconds"), ">= 0.8"),
        ("packing, warm, against `tar cf` and sync", ratio("tar_synced_seconds", "pack_seconds"), ""),
        ("reading cold against a bare ring", ratio("cold_uring_bytes_per_second", "cold_bare_bytes_per_second"), ">= 0.95"),
        ("feeding warm against files", ratio("warm_pack_samples_per_second", "warm_files_samples_per_second"), ">= 1"),
        ("  by CPU time per sample", ratio("warm_files_cpu_seconds", "warm_pack_cpu_seconds"), ">= 1"),
        ("first batch from files, ms", 1e3 * m["first_batch_files_seconds"], ""),
        ("start of the command, exec to exit of `help`, ms", 1e3 * m["start_seconds"], ""),
        ("first batch from a pack, 64 photographs, ms from main", 1e3 * m["first_batch_pack_seconds"], "<= 50"),
        ("  of one photograph, ms", 1e3 * m["first_sample_seconds"], ""),
        ("first opening ever: takes over what was learnt, ms", 1e3 * m["take_over_seconds"], ""),
        (f"opening {m['samples']:,} samples, cold, ms", 1e3 * m["open_cold_seconds"], "< 50"),
        ("  warm, ms", 1e3 * m["open_warm_seconds"], ""),
        ("  memory, MiB", m["rss_bytes"] / 2**20, "< 64"),
    ]
    if options.json:
        print(json.dumps({"medians": m, "rows": rows}))
        return 0
    for what, value, wanted in rows:
        print(f"{what:58} {value:8.2f}   {wanted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
