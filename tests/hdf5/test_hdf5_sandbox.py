"""What the helper cannot do, whatever a file makes it want: see secrets, go on the network, start programs, write files, outlive its host;
and how long it is waited for. The helper tries it all itself (`fullbore-hdf5 try`, behind the same doors as its real work)."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="h5py writes the files")
sys.path.insert(0, str(Path(__file__).parent))
from h5_tool import HELPER, ROOT, TOOL, Tool  # noqa: E402

pytestmark = pytest.mark.skipif(not (TOOL.exists() and HELPER.exists()), reason="h5_tool is not built (FB_BUILD_DIR says where)")
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
SECRETS = {"AWS_SECRET_ACCESS_KEY": "canary-4711", "HF_TOKEN": "canary-4712", "LD_PRELOAD_NOT": "canary-4713"}
KNOWN = {"LC_ALL", "HDF5_USE_FILE_LOCKING", "HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD", "LD_LIBRARY_PATH",
         "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"}


def has_sanitizer() -> bool:
    options = subprocess.run(["nm", "-D", HELPER], capture_output=True, text=True).stdout
    return "__asan" in options or "__tsan" in options


def make_file(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(40.0).reshape(10, 4)
        file["words"] = np.array([b"a", b"b"])
    return path


def names_of(environ: bytes) -> set[str]:
    return {entry.split(b"=")[0].decode() for entry in environ.split(b"\0") if entry}


def children(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# ---- what it sees


def test_a_running_helper_knows_no_secret(tmp_path: Path) -> None:
    tool = Tool(**SECRETS)
    tool.open(make_file(tmp_path / "a.h5"))
    (child,) = children(tool.pid)
    environ = Path(f"/proc/{child}/environ").read_bytes()
    assert b"canary" not in environ and names_of(environ) <= KNOWN, environ
    tool.close()


def test_a_running_helper_has_no_descriptor_of_its_host(tmp_path: Path) -> None:
    """Not even one that the host lets every child have."""
    (tmp_path / "secret").write_text("canary")
    with open(tmp_path / "secret") as secret:
        tool = Tool(pass_fds=(secret.fileno(),))
        tool.open(make_file(tmp_path / "a.h5"))
        assert "secret" in str(open_files(tool.pid))
        (child,) = children(tool.pid)
        assert set(open_files(child)) == {"0", "1", "2"}, open_files(child)
        tool.close()


def open_files(pid: int) -> dict[str, str]:
    folder = Path(f"/proc/{pid}/fd")
    return {fd.name: os.readlink(fd) for fd in folder.iterdir()}


FAKE = """#!{python}
import os, sys, time
with open({said!r}, "ab") as out:
    out.write(open("/proc/self/environ", "rb").read())
    out.write(b"FDS=" + ",".join(sorted(os.listdir("/proc/self/fd"))).encode() + b"\\0")
{body}
"""


def make_fake(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "helper"
    path.write_text(FAKE.format(python=sys.executable, said=str(tmp_path / "said"), body=body))
    path.chmod(0o755)
    return path


def run_job(job: str, tmp_path: Path, body: str, limit: int = 1) -> subprocess.CompletedProcess[str]:
    """A build or a rechunking with a helper that does `body` instead of its work."""
    env = {**os.environ, **SECRETS, "FULLBORE_HDF5_HELPER": str(make_fake(tmp_path, body)), "FULLBORE_HDF5_TIMEOUT": str(limit)}
    if job == "rechunk":
        arguments = ["pack", str(make_file(tmp_path / "source.h5")), "-o", str(tmp_path / "out.h5"), "--rechunk", "2"]
    else:
        soundfile = pytest.importorskip("soundfile")
        (tmp_path / "wavs").mkdir()
        soundfile.write(tmp_path / "wavs" / "a.wav", np.zeros(4000, "f4"), 8000)
        arguments = ["build", str(tmp_path / "wavs"), "-o", str(tmp_path / "out.h5"), "--raw", "--length", "1000"]
    if job == "python":
        code = ("import sys, fullbore as fb\n"
                f"fb.build({str(tmp_path / 'wavs')!r}, {str(tmp_path / 'out.h5')!r}, fn=lambda x: x, "
                "transforms=[fb.CropOrPad(1000)], framework='numpy')")
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    return subprocess.run([COMMAND, *arguments], env=env, capture_output=True, text=True, timeout=60)


JOBS = ["rechunk", "build", "python"]
needs_command = pytest.mark.skipif(not COMMAND.exists(), reason="the command is not installed")


@needs_command
@pytest.mark.parametrize("job", JOBS)
def test_jobs_tell_their_helper_no_secret_either(job: str, tmp_path: Path) -> None:
    done = run_job(job, tmp_path, "sys.exit(1)")
    assert done.returncode != 0 and not (tmp_path / "out.h5").exists()
    said = (tmp_path / "said").read_bytes()
    assert b"canary" not in said and names_of(said) <= KNOWN | {"FDS", "LC_CTYPE"}, said


# ---- how long it is waited for

STUCK = {
    "sleeps": "time.sleep(1000)",
    "spins": "while True: pass",
    "closes its output and stays": "os.close(1)\ntime.sleep(1000)",
    "leaves its output to a child": "if os.fork() == 0: time.sleep(20)\nos._exit(0 if len(sys.argv) < 2 else 1)",
}


@needs_command
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("way", STUCK)
def test_a_helper_that_gets_nowhere_is_ended_and_named(job: str, way: str, tmp_path: Path) -> None:
    began = time.monotonic()
    done = run_job(job, tmp_path, STUCK[way])
    said = done.stdout + done.stderr
    assert done.returncode != 0 and not (tmp_path / "out.h5").exists()
    assert ("source.h5" if job == "rechunk" else "out.h5") in said, said
    if way != "leaves its output to a child":
        assert "FULLBORE_HDF5_TIMEOUT" in said, said
    assert time.monotonic() - began < 18, "it was waited for"


@needs_command
@pytest.mark.parametrize("job", JOBS)
def test_a_helper_that_gets_on_may_take_longer_than_the_limit(job: str, tmp_path: Path) -> None:
    line = "e -3 slowly but surely" if job == "rechunk" else "slowly but surely"
    body = f"for i in range(9):\n    os.write(1, b'p %d 9\\n' % i)\n    time.sleep(0.3)\nos.write(1, b'{line}\\n')\nsys.exit(1)"
    done = run_job(job, tmp_path, body)
    assert done.returncode != 0 and "slowly but surely" in done.stdout + done.stderr, done


# ---- what it can do


def tried(kind: str, tmp_path: Path) -> dict[str, str]:
    """What came of each thing it tries: "ok" or the name of an errno."""
    target = os.open(tmp_path / "target", os.O_RDWR | os.O_CREAT, 0o644)
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "exec").write_text(f"#!/bin/sh\ntouch {tmp_path}/was_run\n")
    (tmp_path / "exec").chmod(0o755)
    here, there = socket.socketpair()
    def place() -> None:
        os.dup2(target, 3)
    done = subprocess.run([HELPER, "try", kind, str(tmp_path)], stdin=there, capture_output=True, text=True, timeout=30,
                          pass_fds=(3,) if target == 3 else (), preexec_fn=place, close_fds=False)
    here.close(), there.close(), os.close(target)
    assert done.returncode == 0, done
    answers = dict(line.split() for line in done.stdout.splitlines())
    assert (tmp_path / "victim").read_text() == "untouched" and not (tmp_path / "was_run").exists() and not (tmp_path / "made").exists()
    return answers


@pytest.mark.parametrize("kind", ["read", "adopt", "rechunk"])
def test_every_way_out_is_shut(kind: str, tmp_path: Path) -> None:
    if has_sanitizer():
        pytest.skip("sanitizers need system calls of their own")
    answers = tried(kind, tmp_path)
    if os.geteuid() != 0 and ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
        answers.pop("host_environ")  # a user's own processes are only shut by Landlock
    allowed = {name for name, answer in answers.items() if answer == "ok"}
    refused = {"socket", "unix_socket", "connect", "bind", "exec", "fork", "ptrace", "open_write", "open_create", "openat2", "unlink",
               "rename", "link", "symlink", "mkdir", "chmod", "truncate", "mount", "io_uring", "kill_parent", "code", "code_later",
               "keyring", "bpf", "process_vm", "memfd"}
    assert refused <= set(answers) and not refused & allowed and answers.get("host_environ") != "ok", answers
    wanted = {"adopt": {"memory", "write_target"}, "read": {"memory", "open_read"}}.get(kind, {"memory", "open_read", "write_target"})
    wanted |= {"thread", "open_target"} if kind == "rechunk" else set()
    assert allowed == wanted, answers


def test_a_helper_is_filtered_and_limited_while_it_works(tmp_path: Path) -> None:
    tool = Tool()
    tool.open(make_file(tmp_path / "a.h5"))
    (child,) = children(tool.pid)
    status = Path(f"/proc/{child}/status").read_text()
    limits = Path(f"/proc/{child}/limits").read_text()
    assert "NoNewPrivs:\t1" in status
    if not has_sanitizer():
        assert "Seccomp:\t2" in status
        assert next(line for line in limits.splitlines() if line.startswith("Max address space")).split()[4] == str(4 << 30)
    for name, value in {"Max core file size": "0", "Max file size": "0", "Max processes": "0", "Max open files": "32"}.items():
        words = next(line for line in limits.splitlines() if line.startswith(name))[len(name):].split()
        assert words[:2] == [value, value], words
    tool.close()


@pytest.mark.parametrize("kind", ["read", "adopt", "rechunk"])
def test_a_busy_helper_ends_with_its_host(kind: str, tmp_path: Path) -> None:
    """It computes without end; the host is killed."""
    code = ("import os, socket, subprocess, sys, time\n"
            "here, there = socket.socketpair()\n"
            f"child = subprocess.Popen([{str(HELPER)!r}, 'try', 'spin-{kind}', '/', str(os.getpid())], "
            "stdin=there, stdout=subprocess.PIPE)\n"
            "there.close()\nprint(child.pid, child.stdout.readline().decode(), end='', flush=True)\ntime.sleep(1000)")
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert host.stdout
    pid = int(host.stdout.readline().split()[0])
    host.send_signal(signal.SIGKILL)
    host.wait()
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


