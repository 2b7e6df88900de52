"""Is this build slower than another one? CPU time per sample of two checkouts, taken in turns.

    bench/versus.py OTHER [--rounds 7] [--only photos first rows gzip bags sound npz s3 build] [--threads N] [--most 1.02]

OTHER is the root of another checkout in which `make build` was run, say a worktree of the commit before. Each round runs both commands on
the same files, one after the other, in an order that changes from round to round; what they keep (catalogs, checkpoints) lies in a folder
of each one's own. A row gives the ratio here / there of CPU seconds per 1000 samples: the geometric mean of the rounds' ratios with its
95 % interval (Student's t), and the medians. The exit code is 5 if the interval of a row begins above --most: then it is slower beyond
doubt. A row whose interval reaches --most or less is as fast as before as far as this machine can tell.
"""

import argparse
import contextlib
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import arrays
import consumer
import run as bench
import s3
from sides import Side, here_and_there

NAMES = ("photos", "first", "rows", "gzip", "bags", "sound", "npz", "s3", "build")
# by rounds
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20, 13: 2.18, 14: 2.16, 15: 2.14}
Case = Callable[[Side, Path], float]  # CPU seconds per 1000 samples, of a side that keeps what it learns in that folder


def bench_case(source: Path, options: list[str]) -> Case:
    """`fullbore bench` for about two seconds."""

    def run(side: Side, home: Path) -> float:
        record = bench.run_json([side.command, "bench", str(source), *options, "--json"], side.environment(home))
        return record["cpu_seconds_per_1000_samples"] * arrays.done_share(record)

    return run


def first_epoch_case(source: Path, options: list[str]) -> Case:
    """The files are listed, and nothing else is known of them."""

    def run(side: Side, home: Path) -> float:
        with tempfile.TemporaryDirectory() as empty:
            env = side.environment(Path(empty))
            bench.run_json([side.command, "info", str(source), "--json"], env)
            return bench.cpu_per_1000_decoded(bench.run_json([side.command, "bench", str(source), *options, "--json"], env))

    return run


def build_case(source: Path, options: list[str]) -> Case:
    """`fullbore build`, its helper included."""

    def run(side: Side, home: Path) -> float:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as output:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            rows = bench.run_json([side.command, "build", str(source), "-o", f"{output}/rows.h5", *options, "--json"],
                                  side.environment(home))["rows"]
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / rows * 1000

    return run


@contextlib.contextmanager
def s3_case(source: Path) -> Iterator[Case]:
    """Reading alone, from a real server: decoding would hide what it costs."""
    objects = [(str(path.relative_to(source)), path.stat().st_size) for path in sorted(source.rglob("*.jpg"))]
    lines = "".join(f"{key}\t0\t-1\t{size}\n" for key, size in objects)
    port = s3.free_port()
    server = s3.serve(source.parent, port)

    def run(side: Side, home: Path) -> float:
        tool = next((side.tree / "build/tests").glob("**/s3_tool"))
        done = subprocess.run([tool, "run", "-", f"s3://{source.name}", "64"], input=lines, capture_output=True, text=True, check=True,
                              env=s3.client_environment(port) | side.environment(home))
        record = json.loads(done.stdout.splitlines()[-1])
        if record["bytes"] != sum(size for _, size in objects):
            raise SystemExit(f"versus: {record['bytes']} bytes came from the bucket")
        return record["cpu_seconds"] / record["objects"] * 1000

    try:
        yield run
    finally:
        server.terminate()
        server.wait()


def make_case(name: str, options: argparse.Namespace, stack: contextlib.ExitStack) -> Case:
    """Makes what it reads first."""
    threads = ["--threads", str(options.threads)]
    rows = ["--fields", "features,labels", "--batch-size", "8192", *threads]
    photos = bench.ROOT / ".cache" / f"photos-{options.photos}"
    if name in ("photos", "first", "s3"):
        bench.make_photos(photos, options.photos)
    match name:
        case "photos":
            return bench_case(photos, ["--transform", "rrc224", "--epochs", "3", *threads])
        case "first":
            return first_epoch_case(photos, ["--transform", "rrc224", *threads])
        case "rows":
            return bench_case(arrays.row_file("contiguous", 256, 240_000), [*rows, "--epochs", "12"])
        case "gzip":
            return bench_case(arrays.row_file("64-row chunks, gzip-4", 256, 960_000), [*rows, "--order", "window", "--memory", "640MiB"])
        case "bags":
            return bench_case(arrays.slide_folder("1-row chunks", 40), ["--sample", "file", "--fields", "features,coords", "--collate",
                                                                        "ragged", "--batch-size", "4", "--epochs", "40", *threads])
        case "sound":
            return bench_case(arrays.wav_folder(4000), ["--transform", "crop_or_pad samples=24000", "--batch-size", "1024", "--epochs",
                                                        "40", *threads])
        case "npz":
            return bench_case(consumer.volume_folder(True), ["--sample", "file", "--fields", "volume", "--batch-size", "8", "--epochs",
                                                             "20", *threads])
        case "s3":
            return stack.enter_context(s3_case(photos))
        case _:
            return build_case(arrays.wav_folder(12_000), ["--log-mel", "64", "--length", "24000", "--skip-bad", *threads])


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
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("an interval needs two rounds")
    sides = here_and_there(options.other)
    is_slower = False
    print("| what | CPU s per 1000, here | there | ratio | 95 % interval |\n|---|---|---|---|---|")
    for name in options.only:
        seen: dict[str, list[float]] = {side.name: [] for side in sides}
        with tempfile.TemporaryDirectory() as homes, contextlib.ExitStack() as stack:
            run = make_case(name, options, stack)
            for side in sides:  # what there is to learn is learnt
                run(side, Path(homes) / side.name)
            for number in range(options.rounds):
                for side in sides[::-1] if number % 2 else sides:
                    seen[side.name].append(run(side, Path(homes) / side.name))
        ratio, low, high = compare(seen["here"], seen["there"])
        is_slower |= low > options.most
        medians = {side: statistics.median(values) for side, values in seen.items()}
        print(f"| {name} | {medians['here']:.4f} | {medians['there']:.4f} | {ratio:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    return 5 if is_slower else 0


if __name__ == "__main__":
    sys.exit(main())
