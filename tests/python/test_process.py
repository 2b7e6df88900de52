"""A loader among threads, signals, forks, exits and kills."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from made_photos import make_photos

SLOW = {"FULLBORE_IO": "slow:latency_us=2000000"}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def open_loader(source: Path, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 5, "transforms": [fb.CenterCrop(8)], "framework": "numpy", **arguments})


def engine_threads() -> list[str]:
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:
            pass
    return [name for name in names if name.startswith("fb-")]


def policies() -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it may end meanwhile
            found.setdefault((task / "comm").read_text().strip(), set()).add(os.sched_getscheduler(int(task.name)))
    return found


def niceness() -> dict[str, int]:
    found: dict[str, int] = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found[(task / "comm").read_text().strip()] = os.getpriority(os.PRIO_PROCESS, int(task.name))
    return found


def test_only_the_worker_on_the_last_core_lets_the_step_go_first(photos: Path) -> None:
    """All of them being nice would starve the loader beside any other program."""
    cores = len(os.sched_getaffinity(0))
    if cores < 2 or os.getpriority(os.PRIO_PROCESS, 0) > 9:
        pytest.skip("needs two cores, and to be less nice than it gets")
    own, last = os.getpriority(os.PRIO_PROCESS, 0), f"fb-w{cores - 1}"
    with open_loader(photos, threads=cores) as loader:
        next(iter(loader))
        for _ in range(1000):
            found = niceness()
            if found.get(last) == own + 10:
                break
            time.sleep(0.01)
    assert (found["fb-w0"], found[last]) == (own, own + 10)


def test_the_engines_threads_work_in_the_background_and_the_programs_own_does_not(photos: Path) -> None:
    ours = {"fb-w0", "fb-w1", "fb-w2", "fb-plan", "fb-help"}
    with open_loader(photos, threads=3) as loader:
        next(iter(loader))
        found = policies()
        for _ in range(1000):  # each thread sees to it when it begins, and a third worker may not have been needed yet
            if all(found.get(name) == {os.SCHED_BATCH} for name in ours):
                break
            time.sleep(0.01)
            found = policies()
    assert {name: found.get(name) for name in ours} == {name: {os.SCHED_BATCH} for name in ours}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


FORBIDDEN = """
import ctypes, struct, sys
import fullbore as fb
number = {"x86_64": 314, "aarch64": 274}[__import__("platform").machine()]  # sched_setattr
# load it; is it that? EPERM; allowed
code = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, number, 0x06, 0, 0, 0x50001, 0x06, 0, 0, 0x7FFF0000)
memory = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(memory)), 16)
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
    sys.exit(77)
for _ in range(2):
    with fb.Loader(sys.argv[1], batch_size=5, transforms=[fb.CenterCrop(8)], framework="numpy") as loader:
        print(sum(len(batch[0]) for batch in loader))
"""


def test_a_sandbox_that_keeps_threads_in_the_foreground_is_told_once(photos: Path) -> None:
    run = subprocess.run([sys.executable, "-c", FORBIDDEN, str(photos)], capture_output=True, text=True, timeout=120)
    if run.returncode == 77:
        pytest.skip("this kernel takes no seccomp filter")
    with open_loader(photos) as loader:
        count = loader.sample_count
    assert run.stdout.split() == [str(count)] * 2, run.stderr
    assert run.stderr.count("SCHED_BATCH") == 1, run.stderr


# ---- forks


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_the_childs_copy_says_so_and_the_parents_works(photos: Path) -> None:
    def child(pipe: Any) -> None:
        said = []
        for ask in (lambda: next(running), lambda: len(loader), lambda: iter(loader), loader.stats, loader.state_dict):
            try:
                ask()
                said.append("worked")
            except fb.Error as error:
                said.append(str(error))
        said.append(int(batch[0].sum()))  # what is already there can be read
        loader.close()
        with open_loader(photos) as own:  # and a new one can be opened
            said.append(len(list(own)))
        pipe.send(said)

    loader = open_loader(photos)
    running = iter(loader)
    batch = next(running)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(there,))
    process.start()
    assert here.poll(30), "the child hangs"
    said = here.recv()
    process.join(30)
    assert process.exitcode == 0
    assert all("parent process" in text for text in said[:5]), said
    assert said[5] == int(batch[0].sum()) and said[6] == 5
    assert len(list(running)) == 4
    loader.close()


def test_a_child_that_drops_everything_ends(photos: Path, run_python: Run) -> None:
    done = run_python("""
import os, sys, fullbore as fb
loader = fb.Loader(sys.argv[1], batch_size=5, transforms=fb.CenterCrop(8), framework="numpy")
running = iter(loader)
batch = next(running)
pid = os.fork()
if pid == 0:
    del batch, running, loader
    sys.exit(7)
del batch
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sum(1 for _ in running))
""", photos, env={"PYTHONWARNINGS": "ignore::DeprecationWarning"})  # 3.12 on warns of every fork beside threads
    assert done.stdout == "7 4\n" and done.stderr == "", done


# ---- the end of the interpreter


@pytest.mark.parametrize("state", ["loader = open()", "loader = open(); it = iter(loader)", "it = iter(open()); b = next(it)",
                                   "import builtins; builtins.kept = next(iter(open()))", "it = iter(open()); b = next(it); it.me = it"])
def test_a_loader_left_open_at_exit_closes_in_silence(photos: Path, run_python: Run, state: str) -> None:
    script = """
import sys, fullbore as fb
def open():
    return fb.Loader(sys.argv[1], batch_size=5, transforms=fb.CenterCrop(8), framework="numpy", shuffle=True)
"""
    done = run_python(script + state, photos)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_slow_read_does_not_hold_up_the_exit(photos: Path, run_python: Run) -> None:
    started = time.monotonic()
    done = run_python("""
import sys, fullbore as fb
running = iter(fb.Loader(sys.argv[1], batch_size=5, transforms=fb.CenterCrop(8), framework="numpy"))
""", photos, env={"FULLBORE_IO": "slow:latency_us=30000000"})
    assert done.returncode == 0 and done.stderr == "" and time.monotonic() - started < 15


def test_a_daemon_thread_in_the_middle_of_next_does_not_hold_up_the_exit(photos: Path, run_python: Run) -> None:
    done = run_python("""
import sys, threading, time, fullbore as fb
loader = fb.Loader(sys.argv[1], batch_size=5, transforms=fb.CenterCrop(8), framework="numpy")
def work():
    try:
        next(iter(loader))
    except fb.Error as error:
        assert "closed" in str(error)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
""", photos, env={"FULLBORE_IO": "slow:latency_us=30000000"}, timeout=30)
    assert done.returncode == 0 and done.stderr == "", done


def test_kill_leaves_nothing_behind(photos: Path, tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    script = """
import sys, fullbore as fb
loader = fb.Loader(sys.argv[1], batch_size=5, transforms=fb.RandomResizedCrop(32), framework="numpy", shuffle=True)
while True:
    for images, labels in loader:
        print("batch", flush=True)
"""
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", script, str(photos)], env=env, stdout=subprocess.PIPE, text=True)
        assert process.stdout and process.stdout.readline() == "batch\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        process.kill()
        process.wait()
        process.stdout.close()
        assert children == "", "worker processes"
    assert set(os.listdir("/dev/shm")) <= before
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert left and all(p.is_relative_to(tmp_path / "cache" / "fullbore") for p in left), left
    assert not [p for p in left if "tmp" in p.name], left


# ---- ctrl-C


INTERRUPTED = """
import os, signal, sys, threading, time, fullbore as fb
loader = fb.Loader(sys.argv[1], batch_size=5, transforms=fb.CenterCrop(8), framework="numpy")
running = iter(loader)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
started = time.monotonic()
try:
    next(running)
    print("a batch")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - started < 1.5)
"""


def test_ctrl_c_ends_a_wait_for_a_batch(photos: Path, run_python: Run) -> None:
    done = run_python(INTERRUPTED, photos, env=SLOW)
    assert done.stdout == "interrupted True\n" and done.stderr == "", done


def test_after_ctrl_c_the_same_epoch_can_go_on(photos: Path, run_python: Run) -> None:
    done = run_python(INTERRUPTED + "print(sum(1 for _ in running))", photos, env=SLOW)
    assert done.stdout == "interrupted True\n5\n" and done.stderr == "", done


def test_an_uncaught_ctrl_c_ends_the_program_as_usual(photos: Path, run_python: Run) -> None:
    done = run_python(INTERRUPTED.replace("except KeyboardInterrupt:", "except ZeroDivisionError:"), photos, env=SLOW)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr, done


def test_ctrl_c_ends_an_open(photos: Path, run_python: Run) -> None:
    done = run_python("""
import os, signal, sys, threading, fullbore as fb
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    fb.Loader(sys.argv[1])  # reads one file to learn the size of images
except KeyboardInterrupt:
    print("interrupted")
""", photos, env=SLOW)
    assert done.stdout == "interrupted\n" and done.stderr == "", done


def test_a_signal_handler_may_ask_for_the_state_and_close(photos: Path, run_python: Run) -> None:
    done = run_python("""
import os, signal, sys, threading, fullbore as fb
loader = fb.Loader(sys.argv[1], batch_size=5, transforms=fb.CenterCrop(8), framework="numpy")
def handler(number, frame):
    print(loader.state_dict()["position"])
    try:
        len(loader)
    except fb.Error as error:
        print("inside" in str(error))
    loader.close()
signal.signal(signal.SIGUSR1, handler)
running = iter(loader)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
try:
    next(running)
except fb.Error as error:
    print(error.cause)
""", photos, env=SLOW)
    assert done.stdout == "0\nTrue\nthe loader is closed\n" and done.stderr == "", done


# ---- threads


def test_other_threads_run_while_a_batch_is_waited_for(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLBORE_IO", "slow:latency_us=400000")
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.005):
            ticks += 1

    with open_loader(photos) as loader:
        running = iter(loader)
        thread = threading.Thread(target=tick)
        thread.start()
        before = ticks
        next(running)
        during = ticks - before
        stop.set()
        thread.join()
    assert during > 10


def test_stats_answer_while_another_thread_waits(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLBORE_IO", "slow:latency_us=600000")
    with open_loader(photos) as loader:
        running = iter(loader)
        thread = threading.Thread(target=next, args=(running,))
        thread.start()
        time.sleep(0.1)
        assert loader.stats()["batches"] == 0 and thread.is_alive()
        thread.join()
        assert loader.stats()["batches"] == 1


def test_close_from_another_thread_ends_the_wait(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLBORE_IO", "slow:latency_us=20000000")
    loader = open_loader(photos)
    said: list[str] = []

    def work() -> None:
        try:
            next(iter(loader))
        except fb.Error as error:
            said.append(error.cause)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.3)
    started = time.monotonic()
    loader.close()
    thread.join(10)
    assert said == ["the loader is closed"] and time.monotonic() - started < 5


def test_threads_that_share_an_iterator_get_each_batch_once(photos: Path) -> None:
    with open_loader(photos, batch_size=1) as loader:
        running = iter(loader)
        seen: list[str] = []

        def work() -> None:
            seen.extend(key for batch in running for key in batch.sample_keys)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == len(set(seen)) == 24


def test_a_dropped_loader_takes_its_threads_along(photos: Path) -> None:
    gc.collect()
    before = len(engine_threads())
    loader = open_loader(photos)
    next(iter(loader))
    assert len(engine_threads()) > before
    loader = None  # type: ignore[assignment]
    deadline = time.monotonic() + 5
    while len(engine_threads()) > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(engine_threads()) <= before


def test_a_rerun_cell_frees_the_old_loader(photos: Path) -> None:
    files = len(os.listdir("/proc/self/fd"))
    cell = "loader = open_loader(photos)\nfor images, labels in loader:\n    break\n"
    names: dict[str, Any] = {"open_loader": open_loader, "photos": photos}
    for _ in range(5):
        exec(cell, names)
    assert len(engine_threads()) <= len(set(engine_threads())) + 8
    names.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= files + 1


# ---- memory


def test_a_budget_that_is_too_small_names_one_that_works(tmp_path: Path) -> None:
    make_photos(tmp_path, 12)
    arguments = {"batch_size": 12, "transforms": fb.Resize((224, 224)), "dtype": "float32", "threads": 2}
    with pytest.raises(fb.BudgetError, match="memory=") as caught:
        open_loader(tmp_path, memory="1MiB", **arguments)
    smallest = int(caught.value.remedy.split("memory=")[1].split()[0])
    with open_loader(tmp_path, memory=smallest, **arguments) as loader:
        for _ in range(2):
            assert sum(len(labels) for _, labels in loader) == 12
        assert loader.stats()["budget"]["peak_bytes"] <= smallest
    with pytest.raises(fb.BudgetError):
        open_loader(tmp_path, memory=smallest - 1, **arguments)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_memory_does_not_grow_over_50_epochs(photos: Path) -> None:
    with open_loader(photos, transforms=[fb.RandomResizedCrop(64), fb.Normalize.imagenet()], shuffle=True, memory="64MiB") as loader:
        sizes = []
        for _ in range(50):
            for batch in loader:
                batch.sample_keys, batch.draws[0], batch.state
            del batch
            gc.collect()
            sizes.append(resident())
    assert max(sizes[25:]) - max(sizes[5:25]) < 4 << 20, sizes


def test_opening_and_closing_does_not_leak(photos: Path) -> None:
    def once() -> None:
        with open_loader(photos, labels=None) as loader:
            next(iter(loader))

    for _ in range(5):
        once()
    gc.collect()
    size, files = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        once()
    gc.collect()
    assert resident() - size < 6 << 20 and len(os.listdir("/proc/self/fd")) <= files


def test_references_are_counted_right(photos: Path) -> None:
    """Every object of the extension is dropped when its last user is gone."""
    from fullbore import _fullbore
    before = sys.getrefcount(_fullbore._Array), sys.getrefcount(_fullbore._Batch), sys.getrefcount(_fullbore._Loader)
    with open_loader(photos) as loader:
        for batch in loader:
            np.asarray(batch[0]), memoryview(batch._core.arrays()[0]), batch.draws[0], batch.names
            with pytest.raises(IndexError):
                batch._core.draw(99)
        del batch
    del loader
    assert before == (sys.getrefcount(_fullbore._Array), sys.getrefcount(_fullbore._Batch), sys.getrefcount(_fullbore._Loader))
