"""The zoo's two tables, for `make bench`: how often the verdict is right, and predicted beside measured gains of the first remedies.

    bench/zoo.py [--seeds N] [--gain-seeds N] [--seconds S] [--minutes M] [--fresh] [--command FULLBORE]
    bench/zoo.py --generated [--odd | --even] [--seeds N | A:B] [--minutes M] [--fresh] [--no-gains] [--only WORD,...]
    bench/zoo.py --scripts [...]

Both want a quiet machine: programs that are limited by the CPU are told from each other by the cores that are left. Every run is kept in
build/zoo-runs.jsonl. With --minutes no run begins after that time, the tables show what there is, and the exit code is 4: call it again to
go on where it stopped. Runs of another command or of other programs do not count. --fresh forgets all. Tables go to build/zoo.json and
build/zoo-gains.json.

A verdict needs 4 seconds: most programs import torch (1 to 2 s, left out as warm-up) and 1.5 s must remain. Gains compare rates, where the
batches that are ready at the start count, so those runs take twice as long, two for each seed; slow_storage and slow_bandwidth need it
most.

--generated judges by programs drawn from seeds, each of which knows its own truth (tests/zoo/judge.py), and prints the confusion matrix,
the shares and the gains; --odd takes the seeds that judge, --even those that rules may be tuned on; 300 programs of either unless --seeds
says otherwise. --scripts judges by scripts in public style. A program takes half a minute; runs are kept in build/zoo-generated.jsonl.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTLY = 4


def judge(options: argparse.Namespace) -> int:
    seeds = options.seeds or "300"
    if ":" not in seeds:
        seeds = f"0:{int(seeds) * (2 if options.odd or options.even else 1)}"
    chosen = [f"--{name}" for name in ("odd", "even", "scripts", "fresh", "no-gains")
              if getattr(options, name.replace("-", "_"))]
    return subprocess.run([sys.executable, str(ROOT / "tests/zoo/judge.py"), "--seeds", seeds, "--minutes", str(options.minutes),
                           "--command", options.command, "--only", options.only, *chosen]).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="", help="runs per program, each with its own sizes and times (default 1); of --generated: "
                        "how many programs, or A:B")
    parser.add_argument("--gain-seeds", type=int, default=0, help="of the second table (default: --seeds, at most 3)")
    parser.add_argument("--seconds", type=float, default=4, help="of a run; those for the gains take twice as long")
    parser.add_argument("--minutes", type=float, default=0, help="begin no run after that (default: no limit)")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are kept")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--generated", action="store_true", help="judge by generated programs instead")
    parser.add_argument("--scripts", action="store_true", help="judge by scripts in public style instead")
    parser.add_argument("--odd", action="store_true", help="of the generated ones: those that judge")
    parser.add_argument("--even", action="store_true", help="of the generated ones: those that rules may be tuned on")
    parser.add_argument("--no-gains", action="store_true", help="of those: verdicts and shares only, in half the time")
    parser.add_argument("--only", default="", metavar="WORD,...", help="of those: classes and scripts with such a name")
    options = parser.parse_args()
    if options.generated or options.scripts:
        return judge(options)
    options.seeds = int(options.seeds or 1)
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
