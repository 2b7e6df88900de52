"""Does this build give the same bytes as another one? Batches, order, states, files and the command of two checkouts, compared.

    bench/same.py OTHER [--only 'loaders/photos/*' states ...] [--keep DIR]

OTHER is the root of another checkout in which `make build` was run, say a worktree of the commit before. Both sides get the same small
inputs (bench/same_inputs.py) and run the same cases (bench/same_cases.py), each in a process of its own with its own package and
command. Then each goes on from the states, and opens the files, that the other left. One row per case: how many lines of text tell of it
and their digest; where sides differ, the first such line of each. Times and the places where a side keeps its files are left out. Exit
code 0: all the same, 1: not.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import same_inputs
from sides import Side, here_and_there

CASES = Path(__file__).resolve().parent / "same_cases.py"
OWN_SETTINGS = ("FULLBORE_IO", "FULLBORE_AUDIT", "FULLBORE_SIMD", "RANK", "WORLD_SIZE")
Results = dict[str, list[str]]  # case -> its lines


def run_round(number: int, sides: tuple[Side, Side], root: Path, patterns: list[str]) -> dict[str, Results]:
    """Each side's results; both run at once, for there are two cores and nothing is timed."""
    for side in sides:
        (root / side.name).mkdir(exist_ok=True)
    running = {}
    for side, other in zip(sides, reversed(sides), strict=True):
        env = {name: value for name, value in os.environ.items() if name not in OWN_SETTINGS} | side.environment(root / side.name / "cache")
        running[side] = subprocess.Popen(
            [
                side.python,
                str(CASES),
                str(number),
                str(root / "inputs"),
                str(root / side.name),
                str(root / other.name),
                side.command,
                *patterns,
            ],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
    results = {}
    for side, process in running.items():
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"round {number} {side.name} ended with {process.returncode}")
        (root / f"round-{number}-{side.name}.json").write_text(out)
        results[side.name] = json.loads(out)
    return results


def first_difference(here: list[str], there: list[str]) -> str | None:
    """The first line that differs, of both; None: they are the same."""
    if here == there:
        return None
    at = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there)))
    shown = [lines[at] if at < len(lines) else "(ends)" for lines in (here, there)]
    count = sum(a != b for a, b in zip(here, there, strict=False)) + abs(len(here) - len(there))
    return f"  line {at + 1} here:  {shown[0]}\n  line {at + 1} there: {shown[1]}" + (f"\n  and {count - 1} more" if count > 1 else "")


def print_case(name: str, here: list[str], there: list[str], round_number: int) -> bool:
    difference = first_difference(here, there)
    digest = hashlib.sha256("\n".join(here).encode()).hexdigest()[:16]
    print(f"| {name} | {round_number} | {len(here)} | {digest} | {'same' if difference is None else 'DIFFERENT'} |", flush=True)
    if difference:
        print(difference, flush=True)
    return difference is None


def compare(sides: tuple[Side, Side], root: Path, patterns: list[str]) -> int:
    """The number of cases that differ."""
    different = 0
    first: Results = {}
    print("| case | round | lines | digest | |\n|---|---|---|---|---|")
    for number in (1, 2):
        results = run_round(number, sides, root, patterns)
        if number == 1 and not any(results.values()):
            raise SystemExit("no case has such a name")
        for name in results["here"] | results["there"]:
            here = results["here"].get(name, [])
            different += not print_case(name, here, results["there"].get(name, []), number)
            if name in first and first_difference(first[name], here):  # went on from the other's state
                different += not print_case(f"{name}, uninterrupted and not", first[name], here, number)
        first = results["here"]
    return different


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares what this build and another one give, byte by byte.")
    parser.add_argument("other", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="cases by name; * stands for any part, and a name for all below it")
    parser.add_argument(
        "--keep", type=Path, help="an empty folder for the inputs, what both sides write, and all lines (default: a temporary one)"
    )
    options = parser.parse_args()
    patterns = [pattern for only in options.only for pattern in (only, f"{only}/*")]
    if any(only.startswith("opened") for only in options.only):  # what is opened has to be made
        patterns.append("files/*")
    sides = here_and_there(options.other)
    with tempfile.TemporaryDirectory() as temporary:
        root = (options.keep or Path(temporary)).resolve()
        same_inputs.make(root / "inputs")
        different = compare(sides, root, patterns)
    print(f"{different} cases differ" if different else "all the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
