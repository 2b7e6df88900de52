"""Runs of generated programs and of the scripts: with their limits, watched or not, whole or with something changed; each is done once.

A run is named by its subject, by what was changed and by whether it was watched. It is kept in a file (one line of JSON each) and is not
repeated as long as the programs are the same; a watched one, and one that uses fullbore, as long as the command is the same, too. So after
a change of the rules only the watched runs are repeated: what a program does by itself is still true.

What other programs used of the cores meanwhile is kept with each run: they take part in what is measured. With `patience` a run first waits
that many seconds for them to become quiet.

Limits are control groups (version 1, root), as in run_zoo.py; what limits reading begins with nothing of the data in memory, everything
else with all of it. A neighbour and a server run outside what is watched.
"""

import contextlib
import functools
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import run_zoo
from generate import Plan, variant

HERE = Path(__file__).resolve().parent
GENERATED, STOPWATCH = HERE / "programs/generated.py", HERE / "programs/stopwatch.py"
FOLDERS = {"small": "small", "large": "large", "photos": "photos", "zlib": "zlib", "rows": "rows.h5", "mapped": "big.bin"}
JOIN = """import os, sys
for path in filter(None, sys.argv[1].split(",")):
    open(path, "w").write(str(os.getpid()))
if sys.argv[2]:
    os.sched_setaffinity(0, {int(sys.argv[2])})
os.execv(sys.argv[3], sys.argv[3:])
"""
BUSY = "x = 0\nwhile True:\n    x += 1\n"
KEPT = ("verdict", "starved_ratio", "lost_ratio", "gain_bound", "evidence", "remedies", "steady_seconds", "warmup_seconds")


@dataclass(frozen=True)
class Change:
    """What a run differs by from the program as it was drawn."""
    without: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return [word for cause in self.without for word in ("--without", cause)] + [word for s in self.settings for word in ("--set", s)]

    def __str__(self) -> str:
        return " ".join([*("-" + cause for cause in self.without), *self.settings]) or "as it is"


@dataclass(frozen=True)
class Script:
    """A script in public style (programs/scripts): what it is, and the arguments that remove a cause or apply a remedy."""
    name: str
    plan: Plan
    removed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fixes: tuple[tuple[str, tuple[str, ...]], ...] = ()  # words of a remedy (a regular expression); {n}: its number


def make_data(folder: Path) -> None:
    run_zoo.make_data(folder)
    made = folder / "zlib"
    if made.exists():
        return
    part = folder / "zlib.part"
    part.mkdir(parents=True, exist_ok=True)
    import numpy as np
    r = np.random.default_rng(0)
    for i in range(200):
        (part / f"{i}.z").write_bytes(zlib.compress(r.integers(0, 12, 3 * 224 * 224, dtype=np.uint8).tobytes(), 6))
    part.rename(made)


def limits_of(plan: Plan) -> dict[str, str]:
    value = f"{plan.limit_value:.0f}"
    return {"iops": {"blkio/blkio.throttle.read_iops_device": "{dev} " + value},
            "bytes": {"blkio/blkio.throttle.read_bps_device": "{dev} " + value},
            "memory": {"memory/memory.limit_in_bytes": value},
            "quota": {"cpu/cpu.cfs_quota_us": f"{1e5 * plan.limit_value:.0f}"}}.get(plan.limit, {})


def why_not(plan: Plan) -> str:
    return run_zoo.why_not(run_zoo.Program("generated", [], "", limits_of(plan)), "")


def prepare(where: Path, is_cold: bool) -> None:
    if is_cold:
        run_zoo.drop_from_cache(where)
        return
    for path in [where, *where.rglob("*")]:
        if path.is_file():
            path.read_bytes()


@contextlib.contextmanager
def server_of(plan: Plan):
    """The port, or 0."""
    if plan.source != "network":
        yield 0
        return
    process = subprocess.Popen([sys.executable, str(GENERATED), "--seed", str(plan.seed), "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def neighbours_of(plan: Plan):
    count = int(plan.limit_value) if plan.limit == "neighbour" else 0
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def core_of(plan: Plan) -> str:
    return str(max(os.sched_getaffinity(0))) if plan.limit == "core" else ""


@contextlib.contextmanager
def surroundings(plan: Plan, data: Path):
    """Everything a plan needs around it; yields the words before its command and those after it."""
    name = f"generated-{plan.seed}"
    with server_of(plan) as port, neighbours_of(plan), run_zoo.limited(run_zoo.Program(name, [], "", limits_of(plan)), data) as groups:
        if plan.source in FOLDERS:
            prepare(data / FOLDERS[plan.source], plan.limit in ("iops", "bytes", "memory"))
        join = [sys.executable, "-c", JOIN, ",".join(map(str, groups)), core_of(plan)] if groups or plan.limit == "core" else []
        yield join, ["--port", str(port)] if port else []


def summary_of(path: Path) -> dict:
    summary = json.loads(path.read_text()) if path.exists() else {"verdict": "none"}
    return {name: summary.get(name) for name in KEPT}


def busy_seconds() -> float:
    """CPU time of the whole machine so far."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    return sum(r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Others:
    """Cores that other programs used on average since this was made."""

    def __init__(self) -> None:
        self.at, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()

    def cores(self) -> float:
        return max(0.0, busy_seconds() - self.busy - own_seconds() + self.own) / max(1e-3, time.monotonic() - self.at)


def wait_for_quiet(patience: float) -> None:
    until = time.monotonic() + patience
    while time.monotonic() < until:
        others = Others()
        time.sleep(1)
        if others.cores() < 0.25:
            return


class Late(Exception):
    """There is no time left to begin a run."""


@functools.cache
def digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


class Runs:
    def __init__(self, command: str, data: Path, results: Path | None = None, minutes: float = 0, show: bool = False,
                 patience: float = 0) -> None:
        self.command, self.data, self.results, self.show, self.patience = command, data, results, show, patience
        self.deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        self.binary = digest(Path(command))
        self.found: dict[str, dict] = {}
        for line in results.read_text().splitlines() if results and results.exists() else []:
            run = json.loads(line)
            self.found[run["key"]] = run

    def key(self, program: Path, subject: str, change: Change, seconds: float, again: int, is_watched: bool, uses_fullbore: bool) -> str:
        of = digest(program, STOPWATCH, HERE / "generate.py") + (" " + self.binary if is_watched or uses_fullbore else "")
        return f"{of} {subject} | {change} | {'watched' if is_watched else 'alone'} {seconds:g} s #{again}"

    def generated(self, seed: int, change: Change = Change(), *, seconds: float, is_watched: bool = False, again: int = 0) -> dict:
        plan = variant(seed, list(change.without), list(change.settings))
        key = self.key(GENERATED, str(seed), change, seconds, again, is_watched, plan.monitor or plan.loader == "fullbore")
        if self.is_due(key):
            wait_for_quiet(self.patience)
            others = Others()
            with surroundings(plan, self.data) as (before, after):
                command = [*before, sys.executable, str(GENERATED), "--seed", str(seed), *change.words, "--data", str(self.data), *after]
                run = self.run(command, seconds, is_watched)
            self.keep(key, {**run, "others_cores": round(others.cores(), 2)})
        return self.found[key]

    def script(self, script: Script, words: tuple[str, ...] = (), *, seconds: float, is_watched: bool = False, again: int = 0) -> dict:
        program = HERE / "programs/scripts" / f"{script.name}.py"
        key = self.key(program, script.name, Change(settings=words), seconds, again, is_watched, False)
        if self.is_due(key):
            if script.plan.source in FOLDERS:
                prepare(self.data / FOLDERS[script.plan.source], False)
            wait_for_quiet(self.patience)
            others, command = Others(), [sys.executable, str(program), *words, "--data", str(self.data)]
            run = self.run(command, seconds, is_watched)
            self.keep(key, {**run, "others_cores": round(others.cores(), 2)})
        return self.found[key]

    def is_due(self, key: str) -> bool:
        if key not in self.found and time.monotonic() > self.deadline:
            raise Late
        return key not in self.found

    def keep(self, key: str, run: dict) -> None:
        self.found[key] = {"key": key, **run}
        if self.results and run["truth"]:
            with open(self.results, "a") as f:
                f.write(json.dumps(self.found[key]) + "\n")

    def run(self, command: list[str], seconds: float, is_watched: bool) -> dict:
        own = Path(tempfile.mkdtemp(prefix="run-", dir=self.data))
        command = [*command, "--out", str(own), "--seconds", str(seconds), "--truth", str(own / "truth.json")]
        if is_watched:
            command = [self.command, "watch", "--quiet", "--summary", str(own / "summary.json"), "--", *command]
        began = time.monotonic()
        done = run_zoo.run_to_its_end(command, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"})
        truth = json.loads((own / "truth.json").read_text()) if (own / "truth.json").exists() else {}
        run = {"truth": truth, "summary": summary_of(own / "summary.json") if is_watched else None, "exit": done.returncode,
               "took_seconds": round(time.monotonic() - began, 1)}
        if self.show or not truth:
            print(" ".join(command), done.stderr[-3000:], sep="\n", file=sys.stderr, flush=True)
        shutil.rmtree(own, ignore_errors=True)
        return run
