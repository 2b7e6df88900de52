"""Some programs of the zoo once; FB_SOAK=1: every one, twenty times. `make bench` prints the table."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
COMMAND = os.environ.get("FULLBORE_COMMAND", str(HERE.parents[1] / ".venv/bin/fullbore"))

spec = importlib.util.spec_from_file_location("run_zoo", HERE / "run_zoo.py")
assert spec and spec.loader
run_zoo = importlib.util.module_from_spec(spec)
sys.modules["run_zoo"] = run_zoo
spec.loader.exec_module(run_zoo)


IS_SOAK = bool(os.environ.get("FB_SOAK"))
SAMPLED = [p.name for p in run_zoo.PROGRAMS][::1 if IS_SOAK else 5]


def run(name: str, runs: int, first_seed: int) -> subprocess.CompletedProcess:
    command = [sys.executable, str(HERE / "run_zoo.py"), "--only", name, "--runs", str(runs), "--first-seed", str(first_seed),
               "--seconds", "5", "--command", COMMAND, "--show"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    print(done.stdout)
    if "skipped: " in done.stdout:
        pytest.skip(done.stdout.split("skipped: ", 1)[1].splitlines()[0])
    return done


@pytest.mark.parametrize("name", SAMPLED)
def test_the_verdict_is_right(name: str) -> None:
    """95 of 100 verdicts are to be right. A single run cannot show that: where it went wrong, the next two must both be right."""
    pytest.importorskip("torch")
    done = run(name, 20 if IS_SOAK else 1, 0)
    if done.returncode and not IS_SOAK:
        done = run(name, 2, 1)
    assert done.returncode == 0, done.stdout + done.stderr
