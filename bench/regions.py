"""What JPEG checkpoints buy, end to end: ratios in one run, sides taking turns.

    bench/regions.py [--rounds N] [--photos N] [--threads N]

Rows: the engine on files whose checkpoints are known, with the records in memory and with the records evicted from the page cache first,
against torch's DataLoader with Pillow at its best of 1 to 4 workers. 2-megapixel photographs: bench/run.py --only draft. The decoder alone
is measured by build/bench/jpeg_region.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

import run as bench


def evict(folder: Path) -> None:
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def rate(records: list[dict]) -> str:
    return (f"{statistics.median(r['samples_per_second'] for r in records):,.0f} per second, "
            f"{statistics.median(r['cpu_seconds_per_1000_samples'] for r in records):.3f} CPU s per 1000")


def ratio(a: list[dict], b: list[dict]) -> float:
    return statistics.median(x["samples_per_second"] / y["samples_per_second"] for x, y in zip(a, b, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--photos", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=2)
    b = bench.Bench(parser.parse_args())
    env = bench.known(b)
    workers = bench.best_workers(b)
    sides: dict[str, list[dict]] = {name: [] for name in ("known", "records cold", "peer")}
    for _ in range(b.options.rounds):
        sides["known"].append(bench.ours(b.photos, threads=b.options.threads, env=env))
        sides["peer"].append(bench.peer(b, "float32", workers))
        evict(Path(env["XDG_CACHE_HOME"]))
        sides["records cold"].append(bench.ours(b.photos, threads=b.options.threads, env=env))
    for name, records in sides.items():
        print(f"{name:14s} {rate(records)}")
    print(f"known files against DataLoader + Pillow ({workers} workers): {ratio(sides['known'], sides['peer']):.2f}x")
    print(f"records cold on disk against DataLoader + Pillow: {ratio(sides['records cold'], sides['peer']):.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
