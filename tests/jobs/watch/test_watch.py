"""`fullbore watch` and `fullbore report` as a user meets them."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[3] / ".venv/bin/fullbore"))


def watch(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, "watch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload]


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


@pytest.mark.parametrize("code, expected", [("pass", 0), ("import sys; sys.exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_exit_code_is_the_childs(code: str, expected: int) -> None:
    assert watch("--", *python(code)).returncode == expected


def test_what_the_child_prints_is_untouched_and_talk_goes_to_stderr() -> None:
    done = watch("--line-every", "0.2", "--", *python("import time\nfor i in range(3): print('step', i, flush=True); time.sleep(0.5)"))
    assert done.stdout == "step 0\nstep 1\nstep 2\n"
    assert "CPU: " in done.stderr and "RAM:" in done.stderr


def test_the_line_has_the_form_people_know(tmp_path: Path) -> None:
    done = watch("--line-every", "0.5", "--", *python("import time; time.sleep(2)"))
    line = next(row for row in done.stderr.splitlines() if "CPU:" in row)
    parts = line.split(" | ")
    assert parts[0].startswith("GPU: ")
    assert parts[1].startswith("CPU: ") and parts[1].endswith("%")
    assert parts[2].startswith("RAM:") and parts[2].endswith("%)") and "GB(" in parts[2]


def test_a_command_that_does_not_exist_is_said() -> None:
    done = watch("--", "/nowhere/train")
    assert done.returncode == 1 and "/nowhere/train" in done.stderr and "No such file" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--pid", "1", "--", "true"], ["--pid", "-3"], ["--nonsense", "--", "true"]])
def test_wrong_arguments_are_usage_errors(arguments: list[str]) -> None:
    done = watch(*arguments)
    assert done.returncode == 2 and "usage: fullbore watch" in done.stderr


def test_a_process_that_is_gone_is_said() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = watch("--pid", str(gone.pid))
    assert done.returncode == 1 and str(gone.pid) in done.stderr


def test_a_running_process_can_be_watched_until_it_ends(tmp_path: Path) -> None:
    child = subprocess.Popen(python("import time; time.sleep(3)"))
    done = watch("--quiet", "--summary", str(tmp_path / "s.json"), "--pid", str(child.pid))
    assert done.returncode == 0
    assert json.loads((tmp_path / "s.json").read_text())["watched_seconds"] > 1
    child.wait()


def test_an_interrupt_ends_watching_and_not_the_process() -> None:
    child = subprocess.Popen(python("import time; time.sleep(30)"))
    watcher = subprocess.Popen([COMMAND, "watch", "--quiet", "--pid", str(child.pid)], stderr=subprocess.PIPE)
    time.sleep(1)
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(10) == 0
    assert child.poll() is None
    child.kill()
    child.wait()


def test_signals_are_passed_on_once() -> None:
    code = ("import signal, sys, time\nseen = []\nsignal.signal(signal.SIGTERM, lambda *a: seen.append(1))\nprint('ready', flush=True)\n"
            "t = time.time()\nwhile time.time() - t < 1.5: time.sleep(0.05)\nsys.exit(40 + len(seen))")
    command = [COMMAND, "watch", "--quiet", "--", *python(code)]
    watcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watcher.stdout and watcher.stdout.readline() == "ready\n"
    watcher.send_signal(signal.SIGTERM)
    assert watcher.wait(20) == 41


def test_a_verdict_on_demand() -> None:
    watcher = subprocess.Popen([COMMAND, "watch", "--quiet", "--", *python("import time; print('ready', flush=True); time.sleep(3)")],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watcher.stdout and watcher.stdout.readline() == "ready\n"
    time.sleep(0.8)
    watcher.send_signal(signal.SIGUSR1)
    _, talk = watcher.communicate(timeout=20)
    assert watcher.returncode == 0
    assert talk.count("fullbore: python") == 2


def test_secrets_in_the_command_line_are_kept_nowhere(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time; time.sleep(2.2)")
    command = [sys.executable, str(script), "--token=hunter2", "hunter2"]
    done = watch("--summary", str(tmp_path / "s.json"), "-o", str(tmp_path / "run.fbr"), "--", *command)
    page = tmp_path / "page.html"
    assert subprocess.run([COMMAND, "report", str(tmp_path / "run.fbr"), "-o", str(page)]).returncode == 0
    for text in (done.stderr.encode(), (tmp_path / "s.json").read_bytes(), (tmp_path / "run.fbr").read_bytes(), page.read_bytes()):
        assert b"hunter2" not in text
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["script"] == "train.py" and summary["program"].startswith("python")


@pytest.mark.parametrize("command", [
    ["bash", "-c", 'exec -a "python train.py --token=hunter2" sleep 2'],       # a title written over the arguments
    ["env", "TOKEN=hunter2.py", "sleep", "2"],
    [sys.executable, "-c", "import time; time.sleep(2)  # hunter2.py"],
    ["sh", "-c", "sleep 2; true hunter2.sh"],
])
def test_titles_assignments_and_code_are_no_names(command: list[str], tmp_path: Path) -> None:
    done = watch("--summary", str(tmp_path / "s.json"), "-o", str(tmp_path / "run.fbr"), "--line-every", "0.5", "--", *command)
    assert done.returncode == 0
    for text in (done.stderr.encode(), (tmp_path / "s.json").read_bytes(), (tmp_path / "run.fbr").read_bytes()):
        assert b"hunter2" not in text


def test_the_summary_has_its_keys_and_no_figure_of_a_missing_device(tmp_path: Path) -> None:
    env = {**os.environ, "FULLBORE_NVML": "/nowhere/libnvidia-ml.so"}
    watch("--quiet", "--summary", str(tmp_path / "s.json"), "--", *python("import time; time.sleep(1.5)"), env=env)
    summary = json.loads((tmp_path / "s.json").read_text())
    assert {"verdict", "starved_ratio", "gain_bound", "evidence", "remedies", "series"} <= set(summary)
    assert summary["gpu_ratio_p50"] is None and summary["gpu_reason"]
    assert all(x is None for x in summary["series"]["gpu_ratio"])


def test_two_thousand_threads_are_followed_cheaply(tmp_path: Path) -> None:
    code = ("import threading, time\nts = [threading.Thread(target=time.sleep, args=(9,)) for _ in range(2000)]\n"
            "for t in ts: t.start()\nfor t in ts: t.join()")
    before = os.times()
    child = subprocess.Popen(python(code))
    time.sleep(2)
    command = [COMMAND, "watch", "--quiet", "--pid", str(child.pid), "--json"]
    watcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(5)
    watcher.send_signal(signal.SIGINT)
    text, _ = watcher.communicate(timeout=20)
    usage = os.times()
    child.kill()
    child.wait()
    assert json.loads(text)["watched_seconds"] > 3
    spent = usage.children_user + usage.children_system - before.children_user - before.children_system
    print(f"watching 2000 idle threads for 5 s took {spent:.2f} s of CPU")
    assert spent < 0.5


def test_children_that_come_and_go_are_followed(tmp_path: Path) -> None:
    code = ("import multiprocessing as m, time\ndef f():\n    t = time.time()\n    while time.time() - t < 1: pass\n"
            "if __name__ == '__main__':\n    c = m.get_context('fork')\n    for _ in range(3):\n"
            "        p = [c.Process(target=f) for _ in range(2)]\n"
            "        for x in p: x.start()\n        for x in p: x.join()\n")
    script = tmp_path / "go.py"
    script.write_text(code)
    watch("--quiet", "--summary", str(tmp_path / "s.json"), "--", sys.executable, str(script))
    threads = json.loads((tmp_path / "s.json").read_text())["series"]["loader_threads"]
    assert max(threads) == 2


def test_on_a_terminal_the_line_has_its_own_row_and_the_row_is_given_back() -> None:
    pid, master = pty.fork()
    if pid == 0:
        os.execv(COMMAND, [COMMAND, "watch", "--", *python("import time; print('hello'); time.sleep(1.6)")])
    import fcntl
    import struct
    import termios
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    seen = b""
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"hello" in seen and b"CPU: " in seen
    assert b"\x1b[r" in seen or b"\x1b[1;29r" not in seen


def test_a_closed_terminal_does_not_end_the_program(tmp_path: Path) -> None:
    mark = tmp_path / "done"
    read_end, write_end = os.pipe()
    code = f"import time; time.sleep(1.5); open({str(mark)!r}, 'w')"
    child = subprocess.Popen([COMMAND, "watch", "--line-every", "0.2", "--", *python(code)], stderr=write_end)
    os.close(write_end)
    os.close(read_end)
    assert child.wait(20) == 0
    assert mark.exists()


def test_when_the_terminal_goes_away_a_program_that_stays_is_watched_to_its_end(tmp_path: Path) -> None:
    mark, summary = tmp_path / "done", tmp_path / "s.json"
    code = ("import signal, time; signal.signal(signal.SIGHUP, signal.SIG_IGN); print('ready', flush=True); time.sleep(3); "
            f"open({str(mark)!r}, 'w')")
    pid, master = pty.fork()
    if pid == 0:
        os.execv(COMMAND, [COMMAND, "watch", "--summary", str(summary), "--", *python(code)])
    seen = b""
    while b"ready" not in seen:
        seen += os.read(master, 4096)
    time.sleep(0.5)
    os.close(master)  # the window is closed: hang-up, and every write fails from now on
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert mark.exists()
    assert json.loads(summary.read_text())["watched_seconds"] > 2.5


def test_a_file_that_cannot_be_written_is_said_before_the_program_starts(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    done = watch("-o", "/nowhere/run.fbr", "--", *python(f"open({str(mark)!r}, 'w')"))
    assert done.returncode == 1 and "/nowhere/run.fbr" in done.stderr
    assert not mark.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_plain_user_can_watch_its_own_program_and_not_anothers() -> None:
    as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    if subprocess.run([*as_user, COMMAND, "--version"], capture_output=True).returncode != 0:
        pytest.skip("another user cannot run the command here")
    done = subprocess.run([*as_user, COMMAND, "watch", "--quiet", "--json", "--", "sleep", "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    own = json.loads(done.stdout)
    assert own["not_seen"] is None
    child = subprocess.Popen(["sleep", "4"])
    done = subprocess.run([*as_user, COMMAND, "watch", "--quiet", "--json", "--pid", str(child.pid)], capture_output=True, text=True)
    child.wait()
    other = json.loads(done.stdout)
    assert other["verdict"] in ("unknown", "start-up")
    assert "run as its user" in other["not_seen"]


JUMPING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
/* The wall clock jumps by ten years at every look, back and forth. */
int clock_gettime(clockid_t which, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    static int looks;
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(which, t);
    if (which == CLOCK_REALTIME)
        t->tv_sec += (looks++ % 2 ? -1 : 1) * 315360000L;
    return rc;
}
"""


def test_a_jump_of_the_wall_clock_changes_nothing(tmp_path: Path) -> None:
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc:
        pytest.skip("no C compiler")
    (tmp_path / "jump.c").write_text(JUMPING)
    subprocess.run([cc, "-shared", "-fPIC", "-o", str(tmp_path / "jump.so"), str(tmp_path / "jump.c"), "-ldl"], check=True)
    env = {**os.environ, "LD_PRELOAD": str(tmp_path / "jump.so")}
    done = watch("--quiet", "--summary", str(tmp_path / "s.json"), "--", "sleep", "3", env=env)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "s.json").read_text())
    times = summary["series"]["at_seconds"]
    assert 2.5 < summary["watched_seconds"] < 30 and times == sorted(times) and times[0] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to hide /proc")
def test_without_proc_the_program_runs_to_its_end_unwatched(tmp_path: Path) -> None:
    hidden = ["unshare", "-m", "--propagation", "private", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace can be made here")
    command = [*hidden, COMMAND, "watch", "--quiet"]
    done = subprocess.run([*command, "--", "sh", "-c", "sleep 1; exit 7"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7 and "cannot be watched" in done.stderr
    done = subprocess.run([*command, "--pid", "1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "there is no process 1" in done.stderr


def test_a_terminal_that_is_resized_gets_its_line_in_the_new_last_row() -> None:
    import fcntl
    import struct
    import termios
    import threading

    pid, master = pty.fork()
    if pid == 0:
        os.execv(COMMAND, [COMMAND, "watch", "--", *python("import time; time.sleep(3)")])

    def resize(rows: int) -> None:
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 120, 0, 0))

    resize(30)
    timer = threading.Timer(1.6, resize, [20])
    timer.start()
    seen = b""
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:
        pass
    timer.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"\x1b[1;19r" in seen  # the region above the line, after the resize
