"""What the programs of the zoo share: how long to run, the seed, an emulated step."""

import os
import random
import time

SECONDS = float(os.environ.get("ZOO_SECONDS", "6"))
SEED = int(os.environ.get("ZOO_SEED", "0"))
DATA = os.environ.get("ZOO_DATA", "")
random.seed(SEED)


CPU_SHARE = float(os.environ.get("ZOO_CPU_SHARE", "1"))  # of the CPU time per sample: a remedy


def vary(value: float, share: float = 0.25) -> float:
    """A value that differs a little from seed to seed, so that a verdict cannot rest on one lucky number."""
    return value * random.uniform(1 - share, 1 + share)


def running(started: float) -> bool:
    return time.monotonic() - started < SECONDS


def burn(cpu_seconds: float) -> None:
    """Uses the CPU with the interpreter's lock held."""
    end = time.thread_time() + cpu_seconds * CPU_SHARE
    x = 0
    while time.thread_time() < end:
        for k in range(200):
            x += k * k


def say_rate(steps: int, started: float) -> None:
    print(f"ZOO {steps / (time.monotonic() - started):.4f} steps/s", flush=True)
