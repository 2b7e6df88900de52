"""`fullbore watch` reads the main thread's Python stack: its shares agree with the program's own stopwatch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[3] / ".venv/bin/fullbore"))

# A loop that times itself: `clock[name]` has the seconds of each of its parts. It ends after `seconds` and prints their shares.
STOPWATCH = """
import json, sys, time
clock = {"loading": 0.0, "step": 0.0, "saving": 0.0}
def spend(seconds, name):
    # half of it on the CPU, half of it not
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds / 2: sum(range(200))
    time.sleep(max(0, seconds - (time.perf_counter() - begun)))
    if name: clock[name] += time.perf_counter() - begun
def run(batches, step, seconds=6):
    batches = iter(batches)
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        before = time.perf_counter()
        batch = next(batches)
        clock["loading"] += time.perf_counter() - before
        step(batch)
    whole = time.perf_counter() - begun
    print(json.dumps({name: spent / whole for name, spent in clock.items()}))
"""

GENERATOR = STOPWATCH + """
def batches():
    while True:
        spend(0.006, None)
        yield 1
run(batches(), lambda batch: spend(0.014, "step"))
"""

TORCH = STOPWATCH + """
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Numbers(Dataset):
    def __len__(self): return 1 << 20
    def __getitem__(self, i):
        spend(LOADING, None)
        return torch.nn.functional.relu(torch.ones(64))
net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
steps = 0
def step(x):
    global steps
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.02:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    clock["step"] += time.perf_counter() - begun
    steps += 1
    if SAVING and steps % 10 == 0:
        begun = time.perf_counter()
        for _ in range(8): torch.save({"w": ballast}, SAVING)
        clock["saving"] += time.perf_counter() - begun
ballast = torch.ones(1 << 19)
run(DataLoader(Numbers(), batch_size=4, num_workers=0), step)
"""


def torch_program(loading: float, saving: str = "") -> str:
    pytest.importorskip("torch")
    return f"LOADING, SAVING = {loading}, {saving!r}\n" + TORCH


def watch(tmp_path: Path, *arguments: str) -> tuple[dict, subprocess.CompletedProcess[str]]:
    """The summary, and what the program printed."""
    summary = tmp_path / "summary.json"
    done = subprocess.run([COMMAND, "watch", "--quiet", "--summary", str(summary), *arguments], capture_output=True, text=True, timeout=120)
    return json.loads(summary.read_text()), done


def differences(tmp_path: Path, program: str, interpreter: str = sys.executable) -> dict[str, float]:
    script = tmp_path / "train.py"
    script.write_text(program)
    seen, done = watch(tmp_path, "--", interpreter, str(script))
    assert done.returncode == 0, done.stderr
    own = json.loads(done.stdout.splitlines()[-1])
    print(own, {name: value for name, value in seen.items() if name.startswith("stack_")}, seen["not_seen"])
    assert seen["stack_known"] is not None and seen["stack_known"] > 0.7
    found = {"loading": seen["stack_loading_ratio"], "saving": seen["stack_saving_ratio"]}
    found["step"] = 1 - found["loading"] - found["saving"]
    return {name: abs(found[name] - own[name]) for name in found}


def agree(tmp_path: Path, program: str, interpreter: str = sys.executable) -> None:
    """Looks are a sample, and other programs may disturb it: one of three runs must agree within 10 points everywhere."""
    seen = []
    for _ in range(3):
        seen.append(differences(tmp_path, program, interpreter))
        if max(seen[-1].values()) <= 0.10:
            return
    raise AssertionError(f"the stopwatch says otherwise: {seen}")


def interpreters() -> list[str]:
    """Every CPython from 3.9 on that can be found, once per version."""
    found: dict[tuple[str, ...], str] = {}
    candidates = [shutil.which(f"python3.{minor}") for minor in range(9, 15)]
    candidates += [str(p) for p in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
    for path in [sys.executable, *filter(None, candidates)]:
        code = "import sys; print(sys.implementation.name, *sys.version_info[:2])"
        done = subprocess.run([path, "-c", code], capture_output=True, text=True)
        name, *version = done.stdout.split() or ["none"]
        if done.returncode == 0 and name == "cpython" and (3, 9) <= tuple(map(int, version)) <= (3, 14):
            found.setdefault(tuple(version), path)
    return list(found.values())


@pytest.mark.parametrize("interpreter", interpreters())
def test_a_generator_that_loads_is_told_from_the_step(interpreter: str, tmp_path: Path) -> None:
    agree(tmp_path, GENERATOR, interpreter)


def test_a_data_set_in_the_main_thread_is_told_from_the_step(tmp_path: Path) -> None:
    agree(tmp_path, torch_program(0.004))


def test_a_program_that_only_computes_is_not_told_to_wait(tmp_path: Path) -> None:
    agree(tmp_path, torch_program(0.0))


def test_saving_is_told_from_both(tmp_path: Path) -> None:
    agree(tmp_path, torch_program(0.002, str(tmp_path / "model.pt")))


def test_what_was_ambiguous_is_judged(tmp_path: Path) -> None:
    """Loading and computing in one thread, all of it CPU and without a sign of a step: from outside nothing can be told."""
    script = tmp_path / "train.py"
    script.write_text(STOPWATCH.replace("seconds / 2", "seconds") + GENERATOR.removeprefix(STOPWATCH))
    with_stacks, _ = watch(tmp_path, "--", sys.executable, str(script))
    assert with_stacks["verdict"] == "data-bound: cpu"
    assert any("Python stack" in line for line in with_stacks["evidence"])


def test_stacks_can_be_left_alone(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(GENERATOR.replace("0.014", "0.010"))
    seen, done = watch(tmp_path, "--no-stacks", "--", sys.executable, str(script))
    assert done.returncode == 0
    assert seen["stack_known"] is None and seen["stack_loading_ratio"] is None
    assert not any("Python stack" in line for line in seen["evidence"])


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_without_stacks_no_memory_is_read_for_them(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code = "import time\nend = time.time() + 2\nwhile time.time() < end: sum(range(1000))"
    for arguments, reads in ((["--no-stacks"], False), ([], True)):
        command = ["strace", "-o", str(trace), "-e", "trace=process_vm_readv", COMMAND, "watch", "--quiet", *arguments, "--"]
        subprocess.run([*command, sys.executable, "-c", code], capture_output=True, timeout=120)
        assert ("process_vm_readv(" in trace.read_text()) == reads


@pytest.mark.parametrize("code, expected", [("pass", 0), ("import sys; sys.exit(3)", 3), ("import os; os.abort()", 134)])
def test_programs_that_end_at_once_or_crash_are_no_matter(code: str, expected: int, tmp_path: Path) -> None:
    _, done = watch(tmp_path, "--", sys.executable, "-c", code)
    assert done.returncode == expected


def test_renamed_threads_and_many_of_them_are_no_matter(tmp_path: Path) -> None:
    rename = ("import ctypes, threading\nctypes.CDLL(None).prctl(15, b'pt_data_worker', 0, 0, 0)\nimport time\n"
              "for _ in range(200): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n")
    code = GENERATOR.replace("import json", rename + "import json", 1)
    agree(tmp_path, code.replace("pt_data_worker", "renamed"))


def test_a_shell_that_becomes_python_is_followed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(GENERATOR)
    seen, _ = watch(tmp_path, "--", "sh", "-c", f"sleep 0.5; exec {sys.executable} {script}")
    assert seen["stack_known"] > 0.7


@pytest.mark.parametrize("command", [["sleep", "2"], ["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"]])
def test_other_programs_have_no_stack_and_nothing_is_missing(command: list[str], tmp_path: Path) -> None:
    seen, done = watch(tmp_path, "--", *command)
    assert done.returncode == 0
    assert not seen["stack_known"] and seen["stack_loading_ratio"] is None and seen["not_seen"] is None


def test_names_of_the_program_are_in_no_recording(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(GENERATOR.replace("batches", "hunter_two"))
    recording = tmp_path / "run.fbr"
    seen, done = watch(tmp_path, "-o", str(recording), "--", sys.executable, str(script))
    assert seen["stack_known"] > 0.7
    assert b"hunter_two" not in recording.read_bytes() and "hunter_two" not in json.dumps(seen) + done.stderr


DENYING = """
import ctypes, sys
# As a container's profile does: seccomp lets no process_vm_readv (310) through. Set for the watcher, which is started from here.
import os, struct
program = struct.pack("HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 0, 1, 310, 0x06, 0, 0, 0x00050001, 0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(program)
class Fprog(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, ctypes.byref(Fprog(4, ctypes.addressof(buffer))), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter is written for x86-64")
def test_where_it_is_not_allowed_it_says_so_and_goes_on(tmp_path: Path) -> None:
    script, summary = tmp_path / "train.py", tmp_path / "summary.json"
    script.write_text(GENERATOR)
    command = [sys.executable, "-c", DENYING, COMMAND, "watch", "--quiet", "--summary", str(summary), "--", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = json.loads(summary.read_text())
    assert "Python stack" in seen["not_seen"] and seen["stack_loading_ratio"] is None
    assert done.stderr.count("not seen:") == 1
    assert seen["verdict"] and seen["watched_seconds"] > 4
