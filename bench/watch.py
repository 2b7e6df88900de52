"""What watching costs: the watcher's own CPU for a tree of 64 threads, and how much slower the watched program gets.

    bench/watch.py [--rounds N] [--seconds S] [--threads N] [--command FULLBORE] [--least]

The program has 64 threads that wake 50 times a second and one that counts how much work it gets done. A watcher is attached to it and taken
away again and again in one and the same run, so that what differs from run to run (addresses, clock rates) is the same for both. A round is
a window with a watcher between two halves without one: a steady drift of the machine cancels. How much work was done per CPU second of that
thread is what watching can change in the program; per second of wall time it also has what other programs take, which is stated beside it.
--least: exit code 5 if the watcher takes more than 1 % of a core, or the program is slowed down by more than 1 % beyond the noise.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import sys, threading, time
threads = int(sys.argv[1])
def idle():
    while True: time.sleep(0.02)
for _ in range(threads): threading.Thread(target=idle, daemon=True).start()
work, told = 0, 0
while True:
    for _ in range(20): sum(range(2000))
    work += 20
    now = time.monotonic()
    if now - told > 0.02:
        told = now
        print(work, time.thread_time(), now, flush=True)
"""


class Program:
    """It tells how far it has got; `between` gives work per CPU second and per second of a stretch of time."""

    def __init__(self, threads: int) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(threads)], stdout=subprocess.PIPE, text=True)
        self.told: list[tuple[float, float, float]] = []
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            work, cpu, now = map(float, line.split())
            self.told.append((work, cpu, now))

    def between(self, since: float, until: float) -> tuple[float, float]:
        inside = [t for t in self.told if since <= t[2] <= until]
        work, cpu, wall = (inside[-1][k] - inside[0][k] for k in range(3))
        return work / cpu, work / wall

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def watched(program: Program, options: argparse.Namespace, seconds: float) -> tuple[float, float, float]:
    """When the watcher was at work, and the CPU seconds that it used."""
    watcher = subprocess.Popen([options.command, "watch", "--quiet", "--pid", str(program.process.pid)], stderr=subprocess.DEVNULL)
    time.sleep(0.3)  # its own start
    since, before = time.monotonic(), cpu_of(watcher.pid)
    time.sleep(seconds)
    until, after = time.monotonic(), cpu_of(watcher.pid)
    watcher.send_signal(signal.SIGINT)
    watcher.wait()
    return since, until, after - before


def cpu_of(pid: int) -> float:
    """Of all its threads, in nanoseconds as the scheduler counts them."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def plain(seconds: float) -> tuple[float, float]:
    since = time.monotonic()
    time.sleep(seconds)
    return since, time.monotonic()


def spread(values: list[float]) -> float:
    """Of a median: 1.25 standard errors of a mean, by the median deviation."""
    middle = statistics.median(values)
    return 1.25 * 1.48 * statistics.median(abs(v - middle) for v in values) / len(values) ** 0.5


def measure(options: argparse.Namespace) -> tuple[list[float], list[float], list[float]]:
    program = Program(options.threads)
    costs, windows = [], []
    try:
        time.sleep(1)
        for _ in range(options.rounds):
            left = plain(options.seconds / 2)
            since, until, cpu = watched(program, options, options.seconds)
            right = plain(options.seconds / 2)
            costs.append(cpu / (until - since))
            windows.append((left, (since, until), right))
    finally:
        program.stop()
    slower: tuple[list[float], list[float]] = ([], [])
    for left, middle, right in windows:
        a, b, c = (program.between(*w) for w in (left, middle, right))
        for k in (0, 1):
            slower[k].append(1 - b[k] / ((a[k] + c[k]) / 2))
    return costs, *slower


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--least", action="store_true")
    options = parser.parse_args()
    costs, by_cpu, by_wall = measure(options)
    cost, slower = statistics.median(costs), statistics.median(by_cpu)
    print(f"{options.threads} threads that wake 50 times a second, {options.rounds} rounds of {options.seconds:.0f} s with and without a "
          f"watcher, load {os.getloadavg()[0]:.1f}")
    print(f"the watcher uses {100 * cost:.2f} % of one core (wanted: under 1)")
    print(f"the program does {100 * slower:+.2f} +- {100 * spread(by_cpu):.2f} % less work per CPU second while watched (wanted: under 1); "
          f"{100 * statistics.median(by_wall):+.2f} +- {100 * spread(by_wall):.2f} % per second of wall time")
    return 5 if options.least and (cost > 0.01 or slower - spread(by_cpu) > 0.01) else 0


if __name__ == "__main__":
    sys.exit(main())
