"""Runs every group of tests and adds them up: the engine behind `make test` and `make soak`.

    tools/run_tests.py [--soak] [--jobs N] [--fuzz-seconds N] [GROUP...]

Results are read from what the runners write for machines (meson's testlog.json, pytest's JUnit file, libFuzzer's exit code), not from
their talk. The last line is `N passed, N failed, N skipped`; the exit code is 1 if anything failed. A group that ran nothing has failed:
a test that cannot run shows nothing. Only the standard library is used.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv/bin"
MESON = str(BIN / "meson")

# The plain build runs release code with asserts off, as users do; these find what it cannot. One build by clang serves the C tests under
# AddressSanitizer and the fuzzers, and shows clang's warnings beside gcc's.
SANITIZED = ["-Dbuildtype=debugoptimized", "-Db_lundef=false", "-Dpython=disabled"]
ASAN = SANITIZED + ["-Db_sanitize=address,undefined", "-Dfuzzers=true", "-Dwerror=true"]
TSAN = SANITIZED + ["-Db_sanitize=thread"]
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)  # a line for each, shown again at the very end

    def add(self, other: "Tally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures

    def fail(self, reason: str) -> None:
        self.failed += 1
        self.failures.append(reason.partition("\n")[0])
        print(indent(reason.rstrip()), flush=True)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def indent(text: str) -> str:
    return "\n".join("    | " + line for line in text.splitlines())


running: set[subprocess.Popen[str]] = set()  # added and removed by the thread that runs it


def stop_running() -> None:
    for process in tuple(running):
        os.killpg(process.pid, signal.SIGKILL)


def run(command: list[str], *, limit_s: float, env: dict[str, str] | None = None, live: bool = False) -> tuple[int, str]:
    """Runs a command in its own process group; returns (exit code, output). Over the limit the whole group is killed: code 124. Threads
    may run several at once."""
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **(env or {})}, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    lines: list[str] = []
    timed_out = threading.Event()

    def over() -> None:
        timed_out.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit_s, over)
    timer.start()
    running.add(process)
    try:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if live:
                print(indent(line), flush=True)
        code = process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        timer.cancel()
        running.discard(process)
    if timed_out.is_set():
        lines.append(f"stopped: longer than {limit_s:.0f} s\n")
        return 124, "".join(lines)
    return code, "".join(lines)


# ------------------------------------------------------------------------------------------------------------------ C tests

CASE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\w+)", re.M)


def count_cases(record: dict) -> Tally:
    """The cases of one test program: cmocka's lines, or the program as a whole when it prints none."""
    cases: dict[str, str] = {}
    for text in (record.get("stdout"), record.get("stderr")):
        for state, name in CASE.findall(text or ""):
            if cases.get(name) != "FAILED":
                cases[name] = state
    states = list(cases.values())
    tally = Tally(states.count("OK"), states.count("FAILED"), states.count("SKIPPED"),
                  [f"{record['name']}: {name}" for name, state in cases.items() if state == "FAILED"])
    result = record["result"]
    if result == "SKIP" and not states:
        tally.skipped += 1
    elif result in ("OK", "EXPECTEDFAIL") and not states:
        tally.passed += 1
    elif result not in ("OK", "EXPECTEDFAIL", "SKIP") and tally.failed == 0:
        tally.failed += 1
        tally.failures.append(f"{record['name']}: {result}, exit code {record.get('returncode')}")
    return tally


def read_testlog(path: Path) -> Tally:
    total = Tally()
    if not path.exists():
        total.fail("meson wrote no testlog.json")
        return total
    for line in path.read_text(errors="replace").splitlines():
        record = json.loads(line)
        tally = count_cases(record)
        total.add(tally)
        if tally.failed:
            total_output = (record.get("stdout") or "") + (record.get("stderr") or "")
            print(indent(f"FAILED {record['name']}: {record['result']}, exit code {record.get('returncode')}\n"
                         f"{' '.join(record['command'])}\n{total_output}"), flush=True)
        elif tally.skipped and not tally.passed:
            why = ((record.get("stdout") or "") + (record.get("stderr") or "")).strip().splitlines()
            print(indent(f"skipped {record['name']}: {why[-1] if why else 'no reason given'}"), flush=True)
    return total


def programs(folder: str, prefix: str) -> list[Path]:
    out = subprocess.run([MESON, "introspect", "--targets", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(Path(t["filename"][0]) for t in json.loads(out) if t["name"].startswith(prefix))


def test_programs(folder: str, suites: list[str]) -> list[Path]:
    out = subprocess.run([MESON, "introspect", "--tests", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = {f"fullbore:{suite}" for suite in suites}
    return sorted({Path(t["cmd"][0]) for t in json.loads(out) if wanted & set(t["suite"])})


def meson_build(folder: str, options: list[str], jobs: int, env: dict[str, str] | None = None, prefix: str = "",
                suites: list[str] | None = None) -> str:
    """Configures and compiles all programs, those whose names begin with `prefix`, or the tests of `suites`; returns what went wrong or
    ''."""
    if not (ROOT / folder / "build.ninja").exists():
        code, output = run([MESON, "setup", folder, *options], limit_s=300, env=env)
        if code:
            return output
    wanted = programs(folder, prefix) if prefix else test_programs(folder, suites) if suites else []
    targets = [str(p.relative_to(ROOT / folder)) for p in wanted if p.is_relative_to(ROOT / folder)]
    code, output = run([str(BIN / "ninja"), "--quiet", "-C", folder, "-j", str(jobs), *targets], limit_s=1800, env=env)
    return output[-20000:] if code else ""


def meson_tests(folder: str, suites: list[str], jobs: int, timeout_factor: int, env: dict[str, str] | None = None) -> Tally:
    log = ROOT / folder / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    command = [MESON, "test", "-C", folder, "--no-rebuild", "--num-processes", str(jobs), "-t", str(timeout_factor)]
    for suite in suites:
        command += ["--suite", suite]
    code, output = run(command, limit_s=3600 * timeout_factor, env=env)
    tally = read_testlog(log)
    if code and not tally.failed:
        tally.fail(f"meson test: exit code {code}\n{output[-4000:]}")
    return tally


def c_tests(options: argparse.Namespace) -> Tally:
    """Every C test, on the build that users get."""
    return meson_tests("build", [], options.jobs, options.timeout_factor)


SANITIZED_SUITES = {"asan": [], "tsan": ["io", "cache", "feed", "build"]}  # none: all of them


def find_clang() -> str | None:
    """The one that tools/setup.sh installs, else the machine's own."""
    return next((name for name in ("clang-14", "clang") if shutil.which(name)), None)


def build_asan(options: argparse.Namespace, prefix: str = "") -> str:
    """Builds the tests and the fuzzers, or the programs whose names begin with `prefix`; returns what went wrong or ''."""
    clang = find_clang()
    if not clang:
        return "no clang; tools/setup.sh fuzz installs it"
    return meson_build("build-asan", ASAN, options.jobs, {"CC": clang}, prefix=prefix)


def sanitized(group: str, options: argparse.Namespace) -> Tally:
    suites = SANITIZED_SUITES[group]
    problem = build_asan(options) if group == "asan" else meson_build("build-tsan", TSAN, options.jobs, suites=suites)
    if problem:
        tally = Tally()
        tally.fail(problem)
        return tally
    return meson_tests(f"build-{group}", suites, options.jobs, 4 * options.timeout_factor, SANITIZER_ENV)


def asan_tests(options: argparse.Namespace) -> Tally:
    """Every C test with address, leak and undefined-behaviour checks."""
    return sanitized("asan", options)


def tsan_tests(options: argparse.Namespace) -> Tally:
    """The tests of reading and of the engine with race detection."""
    return sanitized("tsan", options)


# ------------------------------------------------------------------------------------------------------------------- fuzzing

def fuzz(program: Path, seconds: int) -> str:
    """Runs one fuzzer from the committed corpus; returns what went wrong or ''."""
    found = ROOT / "build-asan/found" / program.name
    found.mkdir(parents=True, exist_ok=True)
    corpus = ROOT / "tests/fuzz/corpus" / program.name.removeprefix("fuzz_")
    code, output = run([str(program), f"-max_total_time={seconds}", "-rss_limit_mb=4096", "-timeout=20", f"-artifact_prefix={found}/",
                        str(found), str(corpus)], limit_s=seconds + 300, env=SANITIZER_ENV)
    return f"FAILED {program.name}: exit code {code}, input kept in {found.relative_to(ROOT)}\n{output[-8000:]}" if code else ""


def fuzz_tests(options: argparse.Namespace) -> Tally:
    """libFuzzer on every parser for --fuzz-seconds, from the committed corpus; what it finds is shown and kept."""
    tally = Tally()
    problem = build_asan(options, prefix="fuzz_")
    if problem:
        tally.fail(problem)
        return tally
    with ThreadPoolExecutor(options.jobs) as pool:
        results = [pool.submit(fuzz, program, options.fuzz_seconds) for program in programs("build-asan", "fuzz_")]
        try:
            for result in results:
                if result.result():
                    tally.fail(result.result())
                else:
                    tally.passed += 1
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_running()
            raise
    return tally


# -------------------------------------------------------------------------------------------------------------------- pytest

def read_junit(path: Path) -> Tally:
    tally = Tally()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        kinds = {child.tag: child.get("message", "") for child in case}
        wrong = kinds.get("failure", kinds.get("error"))
        if wrong is not None:
            tally.failed += 1
            tally.failures.append(f"{case.get('classname')}::{case.get('name')}: {' '.join(wrong.split())[:300]}")
        elif "skipped" in kinds:
            tally.skipped += 1
        else:
            tally.passed += 1
    return tally


def pytest(paths: list[str], options: argparse.Namespace, jobs: int = 1) -> Tally:
    """`jobs` files of tests at once: many of them mostly wait."""
    with tempfile.TemporaryDirectory() as scratch:
        junit = Path(scratch) / "junit.xml"
        command = [str(BIN / "python"), "-m", "pytest", "-q", "--no-header", "--tb=short", "-rs", "-p", "no:cacheprovider",
                   "-o", "faulthandler_timeout=300", f"--junit-xml={junit}", *paths]
        if jobs > 1:
            command += ["-n", str(jobs), "--dist", "loadfile"]
        code, output = run(command, limit_s=1500 * options.timeout_factor, env={"FULLBORE_COMMAND": str(BIN / "fullbore")}, live=True)
        if not junit.exists():
            tally = Tally()
            tally.fail(f"pytest ended with {code} and no report\n{output[-4000:]}")
            return tally
        tally = read_junit(junit)
        if code not in (0, 1) or (code == 1 and not tally.failed):
            tally.fail(f"pytest: exit code {code}")
        return tally


def python_tests(options: argparse.Namespace) -> Tally:
    """The Python package, and codecs and transforms through small tools; Pillow, numpy and torch are the oracles."""
    tally = pytest(["tests", "--ignore=tests/cli", "--ignore=tests/project", "--ignore=tests/zoo"], options, options.jobs)
    tally.add(pytest(["tests/zoo"], options))  # by itself: it is about who waits for whom
    return tally


def cli_tests(options: argparse.Namespace) -> Tally:
    """The command: scripts with the expected output and exit code beside them."""
    return pytest(["tests/cli"], options)


def project_tests(options: argparse.Namespace) -> Tally:
    """The project itself: headers, exports, libraries, doors, the C example, and that the documents tell the truth."""
    return pytest(["tests/project"], options)


GROUPS = {
    "c": c_tests,
    "python": python_tests,
    "cli": cli_tests,
    "project": project_tests,
    "asan": asan_tests,
    "tsan": tsan_tests,
    "fuzz": fuzz_tests,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs the groups of tests and adds them up.", epilog="groups: " + ", ".join(
        f"{name} ({(run_group.__doc__ or '').strip()})" for name, run_group in GROUPS.items()))
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="only these; default all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--soak", action="store_true", help="the long sweeps whole (sets FB_SOAK=1)")
    parser.add_argument("--fuzz-seconds", type=int, help="per fuzz target; default 2, with --soak 300")
    options = parser.parse_args()
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no group called {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    options.timeout_factor = 40 if options.soak else 3
    options.fuzz_seconds = options.fuzz_seconds or (300 if options.soak else 2)
    if options.soak:
        os.environ["FB_SOAK"] = "1"
    return options


def run_groups(groups: list[str], options: argparse.Namespace) -> Tally:
    total = Tally()
    for name in groups:
        print(f"== {name}: {GROUPS[name].__doc__}", flush=True)
        started = time.monotonic()
        tally = GROUPS[name](options)
        if tally.passed + tally.failed == 0:
            tally.fail(f"FAILED {name}: no test ran")
        print(f"   {name}: {tally} in {time.monotonic() - started:.0f} s", flush=True)
        total.add(tally)
    return total


def main() -> int:
    options = parse_arguments()
    os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"  # meson looks for ninja there, tests for the command
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored, and tests of ctrl-C inherit that
    total = run_groups(options.groups or list(GROUPS), options)
    for failure in total.failures:
        print(f"FAILED {failure.removeprefix('FAILED ')}")
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
