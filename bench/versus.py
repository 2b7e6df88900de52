"""Is this build slower than another one? CPU time per sample of two checkouts, taken in turns.

    bench/versus.py OTHER [--rounds 7] [--only photos first rows gzip bags sound npz] [--threads N] [--most 1.02]

OTHER is the root of another checkout in which `make build` was run, say a worktree of the commit before. Each round runs both commands on
the same files, one after the other, in an order that changes from round to round; what they keep (catalogs, checkpoints) lies in a folder
of each one's own. A row gives the ratio here / there of CPU seconds per 1000 samples: the geometric mean of the rounds' ratios with its
95 % interval (Student's t), and the medians. The exit code is 5 if the interval of a row begins above --most: then it is slower beyond
doubt. A row whose interval reaches --most or less is as fast as before as far as this machine can tell.
"""

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import arrays
import consumer
import run as bench
from sides import Side, here_and_there

# by rounds
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20, 13: 2.18, 14: 2.16, 15: 2.14}


def cases(photos: int) -> dict[str, Callable[[], tuple[Path, list[str]]]]:
    """What `fullbore bench` is asked, by name: about two seconds each."""
    folder = bench.ROOT / ".cache" / f"photos-{photos}"
    rows = ["--fields", "features,labels", "--batch-size", "8192"]
    return {
        "photos": lambda: (folder, ["--transform", "rrc224", "--epochs", "3"]),
        "first": lambda: (folder, ["--transform", "rrc224"]),
        "rows": lambda: (arrays.row_file("contiguous", 256, 240_000), [*rows, "--epochs", "12"]),
        "gzip": lambda: (arrays.row_file("64-row chunks, gzip-4", 256, 960_000), [*rows, "--order", "window", "--memory", "640MiB"]),
        "bags": lambda: (arrays.slide_folder("1-row chunks", 40), ["--sample", "file", "--fields", "features,coords", "--collate", "ragged",
                                                                   "--batch-size", "4", "--epochs", "40"]),
        "sound": lambda: (arrays.wav_folder(4000), ["--transform", "crop_or_pad samples=24000", "--batch-size", "1024", "--epochs", "40"]),
        "npz": lambda: (consumer.volume_folder(True), ["--sample", "file", "--fields", "volume", "--batch-size", "8", "--epochs", "20"]),
    }


def run(side: Side, name: str, source: Path, options: list[str], threads: int, home: Path) -> float:
    """CPU seconds per 1000 samples decoded."""
    command = side.command
    if name == "first":
        with tempfile.TemporaryDirectory() as empty:
            env = side.environment(Path(empty))
            bench.run_json([command, "info", str(source), "--json"], env)
            return bench.cpu_per_1000_decoded(bench.run_json([command, "bench", str(source), *options, "--threads", str(threads), "--json"],
                                                             env))
    env = side.environment(home)
    record = bench.run_json([command, "bench", str(source), *options, "--threads", str(threads), "--json"], env)
    return record["cpu_seconds_per_1000_samples"] * arrays.done_share(record)


def compare(here: list[float], there: list[float]) -> tuple[float, float, float]:
    """(ratio, lower, upper end of its 95 % interval)."""
    logs = [math.log(a / b) for a, b in zip(here, there, strict=True)]
    mean, n = statistics.mean(logs), len(logs)
    half = T_95.get(n, 2.0) * statistics.stdev(logs) / math.sqrt(n)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares CPU time per sample of this build and another one.")
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--photos", type=int, default=4000)
    parser.add_argument("--most", type=float, default=1.02)
    parser.add_argument("--only", nargs="+", choices=["photos", "first", "rows", "gzip", "bags", "sound", "npz"])
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("an interval needs two rounds")
    bench.make_photos(bench.ROOT / ".cache" / f"photos-{options.photos}", options.photos)
    sides = here_and_there(options.other)
    is_slower = False
    print("| what | CPU s per 1000, here | there | ratio | 95 % interval |\n|---|---|---|---|---|")
    for name, make in cases(options.photos).items():
        if options.only and name not in options.only:
            continue
        source, arguments = make()
        seen: dict[str, list[float]] = {side.name: [] for side in sides}
        with tempfile.TemporaryDirectory() as homes:
            for side in sides:  # what there is to learn is learnt
                run(side, name, source, arguments, options.threads, Path(homes) / side.name)
            for number in range(options.rounds):
                for side in sides[::-1] if number % 2 else sides:
                    seen[side.name].append(run(side, name, source, arguments, options.threads, Path(homes) / side.name))
        ratio, low, high = compare(seen["here"], seen["there"])
        is_slower |= low > options.most
        medians = {side: statistics.median(values) for side, values in seen.items()}
        print(f"| {name} | {medians['here']:.4f} | {medians['there']:.4f} | {ratio:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    return 5 if is_slower else 0


if __name__ == "__main__":
    sys.exit(main())
