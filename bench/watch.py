"""What watching costs: the watcher's own CPU for a tree of 64 threads, and how much slower the watched program gets.

    bench/watch.py [--rounds N] [--seconds S] [--threads N] [--command FULLBORE] [--least]

The program has 64 threads that wake 50 times a second and one that counts how much work it gets done, in CPU time of its own and in wall
time. Watched and unwatched runs take turns; figures are medians over the rounds. --least: exit code 5 if either is above 1 %.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import sys, threading, time
seconds, threads = float(sys.argv[1]), int(sys.argv[2])
end = time.monotonic() + seconds
def idle():
    while time.monotonic() < end: time.sleep(0.02)
for _ in range(threads): threading.Thread(target=idle, daemon=True).start()
time.sleep(0.2)
work, cpu, wall = 0, time.thread_time(), time.monotonic()
while time.monotonic() < end - 0.2:
    sum(range(2000)); work += 1
print(work / (time.thread_time() - cpu), work / (time.monotonic() - wall))
"""


def run(options: argparse.Namespace, is_watched: bool) -> tuple[float, float, float]:
    """Work per CPU second and per second of the program, and CPU seconds that the watcher used."""
    inner = [sys.executable, "-c", PROGRAM, str(options.seconds), str(options.threads)]
    if not is_watched:
        per_cpu, per_wall = map(float, subprocess.run(inner, capture_output=True, text=True, check=True).stdout.split())
        return per_cpu, per_wall, 0.0
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [options.command, "watch", "--quiet", "-o", f"{folder}/run.fbr", "--", *measured(inner, folder)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = json.loads(Path(folder, "cpu").read_text())
    both = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    per_cpu, per_wall = map(float, out.split())
    return per_cpu, per_wall, both - child


def measured(inner: list[str], folder: str) -> list[str]:
    """The program, started by something that writes down the CPU it used."""
    code = ("import json, os, resource, subprocess, sys\nrc = subprocess.run(sys.argv[2:]).returncode\n"
            "u = [resource.getrusage(w) for w in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]\n"
            "json.dump(sum(x.ru_utime + x.ru_stime for x in u), open(sys.argv[1] + '/cpu', 'w'))\nsys.exit(rc)")
    return [sys.executable, "-c", code, folder, *inner]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--least", action="store_true")
    options = parser.parse_args()
    plain, watched = [], []
    for _ in range(options.rounds):
        plain.append(run(options, False))
        watched.append(run(options, True))
    cost = statistics.median(w[2] for w in watched) / options.seconds
    slower_cpu = 1 - statistics.median(w[0] for w in watched) / statistics.median(p[0] for p in plain)
    slower_wall = 1 - statistics.median(w[1] for w in watched) / statistics.median(p[1] for p in plain)
    spread = (max(p[0] for p in plain) - min(p[0] for p in plain)) / statistics.median(p[0] for p in plain)
    print(f"{options.threads} threads that wake 50 times a second, {options.rounds} rounds of {options.seconds:.0f} s, "
          f"load {os.getloadavg()[0]:.1f}")
    print(f"the watcher uses {100 * cost:.2f} % of one core (wanted: under 1)")
    print(f"the program does {100 * slower_cpu:+.2f} % less work per CPU second while watched, {100 * slower_wall:+.2f} % per second "
          f"(wanted: under 1; unwatched runs differ by {100 * spread:.1f} % among themselves)")
    return 5 if options.least and (cost > 0.01 or slower_cpu > 0.01) else 0


if __name__ == "__main__":
    sys.exit(main())
