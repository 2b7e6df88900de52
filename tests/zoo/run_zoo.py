"""The zoo: programs that wait for a known reason, watched from outside; how often is the verdict right?

    tests/zoo/run_zoo.py [--runs N] [--first-seed N] [--only NAME,...] [--seconds S] [--show] [--gains] [--json FILE] [--command FULLBORE]
                         [--nvml LIBRARY] [--results FILE] [--minutes M]

Each program runs N times with different seeds (its sizes and times vary by a quarter). Limits on reads, bytes, cores and memory are real
ones, set by control groups (version 1, root); without the right to make them those programs are skipped with the reason. The table ends
with the count of programs that were right in 95 % of their runs. Exit code 1: a program was right in less than --least of its runs.

--gains applies the first remedy of each verdict, whatever it is, runs the program again, and prints predicted beside measured: medians over
the runs. A first remedy that cannot be applied here counts as a miss.

--results keeps every run in a file and does not repeat what is there already, as long as the command and the programs are the same; with
--minutes no run begins after that time, the table shows what there is, and the exit code is 4: call it again to go on. Seeds come first, so
a table of a part is one of all programs. For verdicts, programs that only wait for a limit run two at a time, one that reads storage beside
one that does not; those that need the CPU run alone.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GROUPS = Path("/sys/fs/cgroup")


@dataclass
class Fix:
    """How to apply a remedy: the first whose words are in it. A number that follows the words goes into {n}."""
    words: str
    argv: list[str] | None = None
    env: dict[str, str] = field(default_factory=dict)
    unlimited: bool = False
    in_memory: bool = False
    warm: bool = False  # the data are in memory already, as after an epoch


@dataclass
class Program:
    name: str
    argv: list[str]
    verdict: str
    limits: dict[str, str] = field(default_factory=dict)  # "blkio/blkio.throttle...": value; {dev} is the data's device
    cold: bool = False
    warm: bool = False
    gpu: bool = False
    server: list[str] | None = None
    env: dict[str, str] = field(default_factory=dict)
    fixes: list[Fix] = field(default_factory=list)
    reads: tuple[str, ...] = ("small", "large", "big.bin")  # of the data: dropped from memory before a cold run
    lane: str = "alone"  # "disk", "other": it hardly needs the CPU, and one of each may run at the same time


IN_MEMORY = Fix("/dev/shm", in_memory=True)
HALF = Fix("halve the CPU", env={"ZOO_CPU_SHARE": "0.5"})
PROCESSES = Fix("num_workers=", env={"ZOO_PROCESSES": "{n}"})

PROGRAMS = [
    Program("slow_storage", ["slow_storage.py"], "data-bound: disk-latency",
            {"blkio/blkio.throttle.read_iops_device": "{dev} 120"}, cold=True, lane="disk", reads=("small", "big.bin"),
            fixes=[Fix("pack ", env={"ZOO_PACKED": "1"}), IN_MEMORY]),
    Program("slow_bandwidth", ["slow_bandwidth.py"], "data-bound: disk-bandwidth",
            {"blkio/blkio.throttle.read_bps_device": "{dev} 25000000"}, cold=True, lane="disk", reads=("large",), fixes=[IN_MEMORY]),
    Program("few_workers", ["cpu_workers.py", "1"], "data-bound: cpu", fixes=[Fix("num_workers=", ["cpu_workers.py", "{n}"]), HALF]),
    Program("many_workers", ["cpu_workers.py", "8"], "data-bound: cpu", fixes=[Fix("num_workers=", ["cpu_workers.py", "{n}"]), HALF]),
    Program("gil_threads", ["gil_threads.py"], "data-bound: serial-section", fixes=[PROCESSES]),
    Program("socket_fed", ["socket_fed.py", "{port}", "2"], "data-bound: network-latency", server=["socket_fed.py", "serve"],
            lane="other", fixes=[Fix("num_workers=", ["socket_fed.py", "{port}", "{n}"])]),
    Program("mmap_thrash", ["mmap_thrash.py"], "data-bound: memory-thrash", {"memory/memory.limit_in_bytes": "160M"}, cold=True,
            lane="disk", reads=("big.bin",), fixes=[Fix("memory limit", unlimited=True, warm=True)]),
    Program("quota", ["cpu_workers.py", "2"], "data-bound: cpu-quota", {"cpu/cpu.cfs_quota_us": "20000"},
            lane="other", fixes=[Fix("CPU limit", unlimited=True)]),
    Program("h5_lock", ["h5_lock.py"], "data-bound: serial-section", fixes=[PROCESSES]),
    Program("open_per_sample", ["open_per_sample.py"], "data-bound: cpu",
            fixes=[Fix("num_workers=", env={"ZOO_WORKERS": "{n}"}), HALF]),
    Program("worker_restart", ["worker_restart.py"], "pause", lane="other", fixes=[Fix("persistent_workers", env={"ZOO_PERSISTENT": "1"})]),
    Program("tiny_batches", ["tiny_batches.py"], "host-bound", gpu=True, fixes=[Fix("twice as large", env={"ZOO_BATCH": "2"})]),
    Program("compute", ["compute.py"], "compute-bound"),
    Program("fullbore", ["FULLBORE", "bench", "{data}/photos", "--step-ms", "1", "--epochs", "{epochs}", "--json"], "data-bound: cpu"),
    Program("idle_uring", ["idle_uring.py"], "compute-bound"),
]


def make_rows(folder: Path) -> None:
    """Apart from the others: h5py may come later than they did."""
    if (folder / "rows.h5").exists():
        return
    with contextlib.suppress(ImportError):
        import h5py
        import numpy as np
        folder.mkdir(parents=True, exist_ok=True)
        x = np.random.default_rng(0).integers(0, 40, (16384, 512), dtype="int16").astype("float32")
        with h5py.File(folder / "rows.part", "w") as f:
            f.create_dataset("x", data=x, chunks=(256, 512), compression="gzip")
        (folder / "rows.part").rename(folder / "rows.h5")


def make_data(folder: Path) -> None:
    """Files the programs read. Kept between runs of the same folder."""
    make_rows(folder)
    if (folder / "done").exists():
        return
    from PIL import Image
    choose = random.Random(0)
    for name, count, size in (("small", 3000, 12000), ("large", 60, 4_000_000)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (folder / name / f"{i:05d}").write_bytes(choose.randbytes(size))
    with open(folder / "big.bin", "wb") as f:
        for _ in range(100):
            f.write(os.urandom(4 << 20))
    (folder / "photos/a").mkdir(parents=True, exist_ok=True)
    for i in range(200):
        noise = Image.effect_noise((500, 400), 60 + i % 40)
        Image.merge("RGB", [noise, noise.transpose(0), noise.transpose(1)]).save(folder / f"photos/a/{i}.jpg", quality=90)
    (folder / "done").write_text("")


def drop_from_cache(where: Path) -> None:
    for path in [where, *where.rglob("*")]:
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def device_of(path: Path) -> str:
    dev = os.stat(path).st_dev
    return f"{os.major(dev)}:{os.minor(dev)}"


@contextlib.contextmanager
def limited(program: Program, data: Path):
    """Control groups with the program's limits; yields the files that a process joins them by."""
    made: list[Path] = []
    try:
        for key, value in program.limits.items():
            controller, name = key.split("/")
            folder = GROUPS / controller / f"fullbore-zoo-{os.getpid()}-{program.name}"
            folder.mkdir(exist_ok=True)
            made.append(folder)
            (folder / name).write_text(value.format(dev=device_of(data)))
        yield [folder / "cgroup.procs" for folder in made]
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def why_not(program: Program, nvml: str) -> str:
    for key in program.limits:
        folder = GROUPS / key.split("/")[0]
        if not os.access(folder, os.W_OK) or not folder.is_dir():
            return f"{folder} cannot be written (control groups version 1 and root are needed)"
    if program.gpu and not Path(nvml).exists():
        return "the stand-in NVML is not built"
    if program.name.startswith(("h5", "open_per")):
        try:
            import h5py  # noqa: F401
        except ImportError:
            return "h5py is not installed"
    return ""


def run_to_its_end(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess:
    """A program that hangs is ended with everything it started."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, talk = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, talk = process.communicate()
        talk += "\nit hung and was ended\n"
    return subprocess.CompletedProcess(command, process.returncode, out, talk)


def run_once(program: Program, seed: int, data: Path, options: argparse.Namespace) -> dict:
    env = {**os.environ, "ZOO_DATA": str(data), "ZOO_SEED": str(seed), "ZOO_SECONDS": str(options.seconds), "OMP_NUM_THREADS": "1",
           "ZOO_GPU": str(data / "gpu"), "PYTHONDONTWRITEBYTECODE": "1", **program.env}
    if program.gpu:
        env["FULLBORE_NVML"] = options.nvml
    else:
        env.pop("FULLBORE_NVML", None)
    server, port = None, ""
    if program.server:
        server = subprocess.Popen([sys.executable, str(HERE / "programs" / program.server[0]), *program.server[1:]], stdout=subprocess.PIPE,
                                  text=True, env=env)
        port = server.stdout.readline().strip()
    argv = [a.format(port=port, data=data, epochs=max(1, int(options.seconds * 12))) for a in program.argv]
    argv = [options.command, *argv[1:]] if argv[0] == "FULLBORE" else [sys.executable, str(HERE / "programs" / argv[0]), *argv[1:]]
    if program.cold:
        for name in program.reads:
            drop_from_cache(data / name)
    if program.warm:
        for path in data.glob("*.bin"):
            path.read_bytes()
    own = Path(tempfile.mkdtemp(prefix="run-", dir=options.data))
    summary = own / "summary.json"
    with limited(program, options.data) as groups:
        inner = [sys.executable, "-c", "import os,sys\nfor p in sys.argv[1].split(','):\n  p and open(p,'w').write(str(os.getpid()))\n"
                 "os.execv(sys.argv[2],sys.argv[2:])", ",".join(map(str, groups)), *argv]
        watch = [options.command, "watch", "--quiet", "--summary", str(summary), "-o", str(own / "run.fbr"), "--", *inner]
        done = run_to_its_end(watch, env)
    if server:
        server.kill()
        server.wait()
    result = json.loads(summary.read_text()) if summary.exists() else {"verdict": "none"}
    shutil.rmtree(own, ignore_errors=True)
    rate = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ZOO ")]
    result.update(exit=done.returncode, said=done.stderr, rate=float(rate[0]) if rate else None)
    return result


def apply(program: Program, change: str) -> tuple[Program, bool] | None:
    """The program with the remedy applied, and whether its data must be in memory; None: there is no way to do that here."""
    for fix in program.fixes:
        if fix.words not in change:
            continue
        found = re.search(re.escape(fix.words) + r"(\d+)", change)
        n = found[1] if found else ""
        return dataclasses.replace(program, argv=[a.replace("{n}", n) for a in fix.argv or program.argv],
                                   limits={} if fix.unlimited else program.limits,
                                   env={name: value.replace("{n}", n) for name, value in fix.env.items()},
                                   cold=program.cold and not fix.in_memory and not fix.warm, warm=fix.warm), fix.in_memory
    return None


@contextlib.contextmanager
def data_for(options: argparse.Namespace, in_memory: bool):
    if not in_memory:
        yield options.data
        return
    data = Path(tempfile.mkdtemp(prefix="fullbore-zoo-", dir="/dev/shm"))
    try:
        for name in ("small", "large"):
            shutil.copytree(options.data / name, data / name, dirs_exist_ok=True)
        yield data
    finally:
        shutil.rmtree(data, ignore_errors=True)


# ---- runs, kept and gone on with


def identity(options: argparse.Namespace) -> str:
    """Of what is judged: the command, the programs and this file. Runs of others do not count."""
    files = [Path(options.command), HERE / "run_zoo.py", *sorted((HERE / "programs").glob("*.py"))]
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()[:16]


def verdict_once(program: Program, seed: int, options: argparse.Namespace) -> dict:
    result = run_once(program, seed, options.data, options)
    if options.show:
        print(result["said"], "rate", result["rate"], flush=True)
    return {"verdict": result["verdict"], "starved": result.get("starved_ratio")}


def gain_once(program: Program, seed: int, options: argparse.Namespace) -> dict:
    """Predicted and measured gain of the first remedy, steps per second by the program's own clock; or why there is none."""
    before = run_once(program, seed, options.data, options)
    if not before.get("remedies") or not before["rate"]:
        return {"why": f"no remedy: {before['verdict']}"}
    first = before["remedies"][0]
    fixed = apply(program, first["change"])
    if fixed is None or not first["predicted_gain"]:
        return {"why": f"cannot be applied here: {first['change']}"}
    with data_for(options, fixed[1]) as data:
        after = run_once(fixed[0], seed, data, options)
    if options.show:
        print(before["said"], after["said"], before["rate"], after["rate"], flush=True)
    return {"predicted": first["predicted_gain"], "measured": (after["rate"] or 0) / before["rate"], "change": first["change"]}


class Runs:
    """What was found so far, by program and seed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.lock, self.found = options, threading.Lock(), {}
        self.key = {"of": identity(options), "kind": "gain" if options.gains else "verdict", "seconds": options.seconds}
        self.deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
        self.longest = 0.0
        if options.results and options.results.exists():
            for line in options.results.read_text().splitlines():
                run = json.loads(line)
                if all(run[name] == value for name, value in self.key.items()):
                    self.found[run["program"], run["seed"]] = run

    def of(self, program: Program) -> list[dict]:
        return [run for (name, _), run in sorted(self.found.items()) if name == program.name]

    def do(self, program: Program, seed: int, once: Callable[[Program, int, argparse.Namespace], dict]) -> None:
        began = time.monotonic()
        if (program.name, seed) in self.found or began + self.longest > self.deadline:
            return
        result = once(program, seed, self.options)
        took = time.monotonic() - began
        run = {**self.key, "program": program.name, "seed": seed, "took_seconds": round(took, 1), **result}
        with self.lock:
            self.found[program.name, seed] = run
            self.longest = max(self.longest, took)
            if self.options.results:
                with open(self.options.results, "a") as f:
                    f.write(json.dumps(run) + "\n")

    def do_all(self, programs: list[Program], once: Callable[[Program, int, argparse.Namespace], dict]) -> int:
        """Returns how many are left."""
        seeds = range(self.options.first_seed, self.options.first_seed + self.options.runs)
        for seed in seeds:
            lanes: dict[str, list[Program]] = {}
            for program in programs:
                lanes.setdefault("alone" if self.options.gains else program.lane, []).append(program)
            for program in lanes.pop("alone", []):
                self.do(program, seed, once)
            beside = [threading.Thread(target=lambda mine=mine, seed=seed: [self.do(p, seed, once) for p in mine])
                      for mine in lanes.values()]
            for thread in beside:
                thread.start()
            for thread in beside:
                thread.join()
        return len(programs) * len(seeds) - sum((p.name, seed) in self.found for p in programs for seed in seeds)


# ---- the tables


def gain_row(program: Program, runs: list[dict]) -> dict:
    good, failures = [r for r in runs if "why" not in r], [r["why"] for r in runs if "why" in r]
    if len(good) <= len(failures):
        print(f"{program.name:<18}{failures[0]}", flush=True)
        return {"program": program.name, "is_near": False, "why": failures[0]}
    predicted, measured = (statistics.median(r[k] for r in good) for k in ("predicted", "measured"))
    is_near = abs(predicted - measured) <= 0.2 * measured
    print(f"{program.name:<18}{predicted:>8.2f}x {measured:>8.2f}x  {'within' if is_near else 'outside'} 20 %  {len(good):>2} runs  "
          f"{good[0]['change']}", flush=True)
    return {"program": program.name, "predicted_gain": predicted, "measured_gain": measured, "is_near": is_near,
            "change": good[0]["change"]}


def print_gains(programs: list[Program], runs: Runs) -> list[dict]:
    print(f"{'program':<18}{'predicted':>9} {'measured':>9}   first remedy, applied", flush=True)
    table = [gain_row(p, runs.of(p)) for p in programs if runs.of(p)]
    print(f"{sum(r['is_near'] for r in table)} of {len(table)} first remedies within 20 % of what was predicted", flush=True)
    return table


def verdict_row(program: Program, runs: list[dict]) -> dict:
    verdicts, starved = [r["verdict"] for r in runs], [r["starved"] for r in runs if r["starved"] is not None]
    right = verdicts.count(program.verdict) / len(verdicts)
    others = {v: verdicts.count(v) for v in sorted(set(verdicts)) if v != program.verdict}
    mean = f"{100 * sum(starved) / len(starved):6.0f}%" if starved else "    n/a"
    wrong = ", ".join(f"{k} x{n}" for k, n in others.items())
    took = statistics.mean(r["took_seconds"] for r in runs)
    print(f"{program.name:<18}{program.verdict:<30}{100 * right:>7.0f}%{len(runs):>6}  {mean}{took:>7.1f}  {wrong}", flush=True)
    return {"program": program.name, "expected": program.verdict, "right_ratio": right, "verdicts": verdicts}


def print_verdicts(programs: list[Program], runs: Runs) -> list[dict]:
    print(f"{'program':<18}{'expected':<30}{'right':>8}{'runs':>6}  starved  s each  other verdicts", flush=True)
    table = [verdict_row(p, runs.of(p)) for p in programs if runs.of(p)]
    print(f"{sum(r['right_ratio'] >= 0.95 for r in table)} of {len(table)} programs right in at least 95 % of their runs", flush=True)
    return table


def make_nvml(options: argparse.Namespace) -> None:
    options.data.mkdir(parents=True, exist_ok=True)
    if options.nvml:
        return
    options.nvml = str(options.data / "fake_nvml_busy.so")
    cc = shutil.which(os.environ.get("CC", "cc"))
    if cc:
        subprocess.run([cc, "-shared", "-fPIC", "-o", options.nvml, str(HERE / "fake_nvml_busy.c")], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("--gains", action="store_true", help="apply first remedies; print predicted beside measured gain")
    parser.add_argument("--json", type=Path, help="write the table there, too")
    parser.add_argument("--show", action="store_true", help="print each verdict in words")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--nvml", default=os.environ.get("ZOO_NVML", ""))
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "fullbore-zoo")
    parser.add_argument("--results", type=Path, help="keep every run there, and do not repeat those that are")
    parser.add_argument("--minutes", type=float, default=0, help="begin no run after that")
    options = parser.parse_args()
    make_nvml(options)
    make_data(options.data)
    chosen = [p for p in PROGRAMS if (not options.only or p.name in options.only.split(",")) and (p.fixes or not options.gains)]
    for program in chosen:
        if reason := why_not(program, options.nvml):
            print(f"{program.name:<18}skipped: {reason}", flush=True)
    chosen = [p for p in chosen if not why_not(p, options.nvml)]
    runs = Runs(options)
    left = runs.do_all(chosen, gain_once if options.gains else verdict_once)
    table = (print_gains if options.gains else print_verdicts)(chosen, runs)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    if left:
        print(f"{left} of {len(chosen) * options.runs} runs are left: call it again to go on", flush=True)
        return 4
    return 1 if any(r.get("right_ratio", 1) < options.least for r in table) else 0


if __name__ == "__main__":
    sys.exit(main())
