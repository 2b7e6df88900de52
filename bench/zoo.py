"""The zoo's two tables, for `make bench`: how often the verdict is right, and predicted beside measured gains of the first remedies.

    bench/zoo.py [--seeds N] [--gain-seeds N] [--seconds S] [--minutes M] [--fresh] [--command FULLBORE]

Both want a quiet machine: programs that are limited by the CPU are told from each other by the cores that are left. Every run is kept in
build/zoo-runs.jsonl. With --minutes no run begins after that time, the tables show what there is, and the exit code is 4: call it again to
go on where it stopped. Runs of another command or of other programs do not count. --fresh forgets all. Tables go to build/zoo.json and
build/zoo-gains.json.

A verdict needs 4 seconds: most programs import torch (1 to 2 s, left out as warm-up) and 1.5 s must remain. Gains compare rates, where the
batches that are ready at the start count, so those runs take twice as long, two for each seed; slow_storage and slow_bandwidth need it
most.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTLY = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="runs per program, each with its own sizes and times")
    parser.add_argument("--gain-seeds", type=int, default=0, help="of the second table (default: --seeds, at most 3)")
    parser.add_argument("--seconds", type=float, default=4, help="of a run; those for the gains take twice as long")
    parser.add_argument("--minutes", type=float, default=0, help="begin no run after that (default: no limit)")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are kept")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    options = parser.parse_args()
    results = ROOT / "build/zoo-runs.jsonl"
    results.parent.mkdir(exist_ok=True)
    if options.fresh:
        results.unlink(missing_ok=True)
    until = time.monotonic() + 60 * options.minutes

    def table(*arguments: str) -> int:
        left = max(0.01, (until - time.monotonic()) / 60) if options.minutes else 0
        return subprocess.run([sys.executable, str(ROOT / "tests/zoo/run_zoo.py"), "--command", options.command, "--results", str(results),
                               "--minutes", str(left), *arguments]).returncode

    print(f"verdicts over {options.seeds} seeded runs per program", flush=True)
    wrong = table("--runs", str(options.seeds), "--seconds", str(options.seconds), "--json", str(ROOT / "build/zoo.json"))
    if wrong == PARTLY:
        return PARTLY
    seeds = options.gain_seeds or min(3, options.seeds)
    print(f"\npredicted and measured gains, medians over {seeds} seeded runs per program", flush=True)
    gains = table("--gains", "--runs", str(seeds), "--seconds", str(2 * options.seconds), "--json", str(ROOT / "build/zoo-gains.json"))
    return gains or wrong


if __name__ == "__main__":
    sys.exit(main())
