"""The zoo: programs that wait for a known reason, watched from outside; how often is the verdict right?

    tests/zoo/run_zoo.py [--runs N] [--only NAME,...] [--seconds S] [--show] [--gains] [--command FULLBORE] [--nvml LIBRARY]

Each program runs N times with different seeds (its sizes and times vary by a quarter). Limits on reads, bytes, cores and memory are real
ones, set by control groups (version 1, root); without the right to make them those programs are skipped with the reason. The table ends
with the count of programs that were right in 95 % of their runs. Exit code 1: a program was right in less than --least of its runs.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GROUPS = Path("/sys/fs/cgroup")


@dataclass
class Program:
    name: str
    argv: list[str]
    verdict: str
    limits: dict[str, str] = field(default_factory=dict)  # "blkio/blkio.throttle...": value; {dev} is the data's device
    cold: bool = False
    gpu: bool = False
    server: list[str] | None = None
    env: dict[str, str] = field(default_factory=dict)
    remedy: str = ""  # words of the remedy whose prediction --gains checks; a number in it goes into {n} below
    fix_argv: list[str] | None = None
    fix_env: dict[str, str] = field(default_factory=dict)
    fix_unlimited: bool = False
    fix_in_memory: bool = False


PROGRAMS = [
    Program("slow_storage", ["slow_storage.py"], "data-bound: disk-latency",
            {"blkio/blkio.throttle.read_iops_device": "{dev} 120"}, cold=True, remedy="/dev/shm", fix_in_memory=True),
    Program("slow_bandwidth", ["slow_bandwidth.py"], "data-bound: disk-bandwidth",
            {"blkio/blkio.throttle.read_bps_device": "{dev} 25000000"}, cold=True, remedy="/dev/shm", fix_in_memory=True),
    Program("few_workers", ["cpu_workers.py", "1"], "data-bound: cpu", remedy="num_workers=", fix_argv=["cpu_workers.py", "{n}"]),
    Program("many_workers", ["cpu_workers.py", "8"], "data-bound: cpu"),
    Program("gil_threads", ["gil_threads.py"], "data-bound: serial-section"),
    Program("socket_fed", ["socket_fed.py", "{port}", "2"], "data-bound: network-latency", server=["socket_fed.py", "serve"],
            remedy="num_workers=", fix_argv=["socket_fed.py", "{port}", "{n}"]),
    Program("mmap_thrash", ["mmap_thrash.py"], "data-bound: memory-thrash", {"memory/memory.limit_in_bytes": "160M"}, cold=True,
            remedy="memory limit", fix_unlimited=True),
    Program("quota", ["cpu_workers.py", "2"], "data-bound: cpu-quota", {"cpu/cpu.cfs_quota_us": "20000"},
            remedy="CPU limit", fix_unlimited=True),
    Program("h5_lock", ["h5_lock.py"], "data-bound: serial-section"),
    Program("open_per_sample", ["open_per_sample.py"], "data-bound: cpu"),
    Program("worker_restart", ["worker_restart.py"], "pause", remedy="persistent_workers", fix_env={"ZOO_PERSISTENT": "1"}),
    Program("tiny_batches", ["tiny_batches.py"], "host-bound", gpu=True),
    Program("compute", ["compute.py"], "compute-bound"),
    Program("fullbore", ["FULLBORE", "bench", "{data}/photos", "--step-ms", "1", "--epochs", "{epochs}", "--json"], "data-bound: cpu"),
    Program("idle_uring", ["idle_uring.py"], "compute-bound"),
]


def make_data(folder: Path) -> None:
    """Files the programs read. Kept between runs of the same folder."""
    if (folder / "done").exists():
        return
    import numpy as np
    from PIL import Image
    choose = random.Random(0)
    for name, count, size in (("small", 3000, 12000), ("large", 60, 4_000_000)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (folder / name / f"{i:05d}").write_bytes(choose.randbytes(size))
    with open(folder / "big.bin", "wb") as f:
        for _ in range(100):
            f.write(os.urandom(4 << 20))
    with contextlib.suppress(ImportError):
        import h5py
        with h5py.File(folder / "rows.h5", "w") as f:
            x = np.random.default_rng(0).integers(0, 40, (16384, 512), dtype="int16").astype("float32")
            f.create_dataset("x", data=x, chunks=(256, 512), compression="gzip")
    (folder / "photos/a").mkdir(parents=True, exist_ok=True)
    for i in range(200):
        noise = Image.effect_noise((500, 400), 60 + i % 40)
        Image.merge("RGB", [noise, noise.transpose(0), noise.transpose(1)]).save(folder / f"photos/a/{i}.jpg", quality=90)
    (folder / "done").write_text("")


def drop_from_cache(folder: Path) -> None:
    for path in folder.rglob("*"):
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
            folder = GROUPS / controller / f"fullbore-zoo-{os.getpid()}"
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
        drop_from_cache(data)
    summary = data / "summary.json"
    summary.unlink(missing_ok=True)
    with limited(program, options.data) as groups:
        inner = [sys.executable, "-c", "import os,sys\nfor p in sys.argv[1].split(','):\n  p and open(p,'w').write(str(os.getpid()))\n"
                 "os.execv(sys.argv[2],sys.argv[2:])", ",".join(map(str, groups)), *argv]
        watch = [options.command, "watch", "--quiet", "--summary", str(summary), "-o", str(data / "run.fbr"), "--", *inner]
        done = subprocess.run(watch, env=env, capture_output=True, text=True, timeout=120)
    if server:
        server.kill()
        server.wait()
    result = json.loads(summary.read_text()) if summary.exists() else {"verdict": "none"}
    rate = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ZOO ")]
    result.update(exit=done.returncode, said=done.stderr, rate=float(rate[0]) if rate else None)
    return result


def check_gain(program: Program, options: argparse.Namespace) -> bool | None:
    """Predicted beside measured: the program as it is and with its remedy applied, steps per second by its own clock."""
    before = run_once(program, 0, options.data, options)
    found = [r for r in before.get("remedies", []) if program.remedy in r["change"]]
    if not found or not found[0]["predicted_gain"] or not before["rate"]:
        print(f"{program.name:<18}no such remedy in: {before['verdict']}", flush=True)
        return None
    number = re.search(r"num_workers=(\d+)", found[0]["change"])
    argv = [a.replace("{n}", number[1] if number else "") for a in program.fix_argv or program.argv]
    fixed = dataclasses.replace(program, argv=argv, limits={} if program.fix_unlimited else program.limits, env=program.fix_env,
                                cold=program.cold and not program.fix_in_memory)
    data = options.data
    if program.fix_in_memory:
        data = Path("/dev/shm/fullbore-zoo")
        for name in ("small", "large"):
            shutil.copytree(options.data / name, data / name, dirs_exist_ok=True)
    after = run_once(fixed, 0, data, options)
    if program.fix_in_memory:
        shutil.rmtree(data)
    predicted, measured = found[0]["predicted_gain"], (after["rate"] or 0) / before["rate"]
    is_near = abs(predicted - measured) <= 0.2 * measured
    near = "within" if is_near else "outside"
    print(f"{program.name:<18}{predicted:>8.2f}x {measured:>8.2f}x  {near} 20 %  {found[0]['change']}", flush=True)
    return is_near


def check_gains(chosen: list[Program], options: argparse.Namespace) -> int:
    print(f"{'program':<18}{'predicted':>9} {'measured':>9}", flush=True)
    results = [check_gain(p, options) for p in chosen if p.remedy and not why_not(p, options.nvml)]
    print(f"{results.count(True)} of {len(results)} predictions within 20 % of what was measured", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("--gains", action="store_true", help="apply a remedy of each program and print predicted beside measured gain")
    parser.add_argument("--show", action="store_true", help="print each verdict in words")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--nvml", default=os.environ.get("ZOO_NVML", ""))
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "fullbore-zoo")
    options = parser.parse_args()
    if not options.nvml:
        options.nvml = str(options.data / "fake_nvml_busy.so")
        options.data.mkdir(parents=True, exist_ok=True)
        cc = shutil.which(os.environ.get("CC", "cc"))
        if cc:
            subprocess.run([cc, "-shared", "-fPIC", "-o", options.nvml, str(HERE / "fake_nvml_busy.c")], check=True)
    make_data(options.data)
    chosen = [p for p in PROGRAMS if not options.only or p.name in options.only.split(",")]
    if options.gains:
        return check_gains(chosen, options)
    good = judged = skipped = 0
    failed = False
    print(f"{'program':<18}{'expected':<30}{'right':>8}  starved  other verdicts", flush=True)
    for program in chosen:
        if reason := why_not(program, options.nvml):
            print(f"{program.name:<18}skipped: {reason}", flush=True)
            skipped += 1
            continue
        verdicts, starved = [], []
        for seed in range(options.runs):
            result = run_once(program, seed, options.data, options)
            verdicts.append(result["verdict"])
            if result.get("starved_ratio") is not None:
                starved.append(result["starved_ratio"])
            if options.show:
                print(result["said"], "rate", result["rate"], flush=True)
        right = verdicts.count(program.verdict) / len(verdicts)
        judged += 1
        good += right >= 0.95
        failed |= right < options.least
        others = {v: verdicts.count(v) for v in sorted(set(verdicts)) if v != program.verdict}
        mean = f"{100 * sum(starved) / len(starved):6.0f}%" if starved else "    n/a"
        wrong = ", ".join(f"{k} x{n}" for k, n in others.items())
        print(f"{program.name:<18}{program.verdict:<30}{100 * right:>7.0f}%  {mean}  {wrong}", flush=True)
    print(f"{good} of {judged} programs right in at least 95 % of {options.runs} runs; {skipped} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
