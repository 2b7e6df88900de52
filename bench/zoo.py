"""The zoo's two tables, for `make bench`: how often the verdict is right, and predicted beside measured gains of the first remedies.

    bench/zoo.py [--seeds N] [--seconds S] [--command FULLBORE]

Both want a quiet machine: programs that are limited by the CPU are told from each other by the cores that are left. Results go to
build/zoo.json and build/zoo-gains.json.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="runs per program, each with its own sizes and times")
    parser.add_argument("--seconds", type=float, default=6, help="of a run; those for the gains take twice as long")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    options = parser.parse_args()
    common = [sys.executable, str(ROOT / "tests/zoo/run_zoo.py"), "--runs", str(options.seeds), "--command", options.command]
    (ROOT / "build").mkdir(exist_ok=True)
    print(f"verdicts over {options.seeds} seeded runs per program", flush=True)
    wrong = subprocess.run([*common, "--seconds", str(options.seconds), "--json", str(ROOT / "build/zoo.json")]).returncode
    print(f"\npredicted and measured gains, medians over {options.seeds} seeded runs per program", flush=True)
    gains = ["--gains", "--seconds", str(2 * options.seconds), "--json", str(ROOT / "build/zoo-gains.json")]
    subprocess.run([*common, *gains], check=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
