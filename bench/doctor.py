"""Does `fullbore doctor` say what a loop with a stopwatch then measures? For every kind of data, batch size, state and remedy.

    bench/doctor.py [--photos N] [--rounds N] [--only NAME,...] [--batch N,...] [--no-remedies] [--keep FILE] [--minutes N] [--least]

The same photographs as JPEG, PNG, WebP, in a pack, decoded, and in a bucket (rclone, 30 ms away); recordings as WAV and FLAC; rows of HDF5
files, as they are and in compressed chunks, rows of a .npy; bags as .npz. Batches of 16, 64, 250 and 1024. States: files that nothing is
known of and known ones, from storage and from memory. Remedies are carried out on all of the data, as the doctor's command says.

Each prediction is compared twice: as the machine is now, and alone on it, which the loop works out of the cores that it wanted in vain.
What storage would give alone neither can know: the doctor promises no more than it gave, so those are shown and not counted.
In each round the doctor looks with catalogs of its own, and bench/doctor_loop.py feeds; who begins changes. Medians over the rounds. A
bucket's objects never lie in memory: there both are what it gives. --keep: what was measured is kept there, and the next call goes on
behind it; with --minutes it stops in time, and the exit code is 4 until all of it was measured. --least: exit code 5 if fewer than 90 % of
the predictions are within 15 %, or one is above a limit that the doctor itself measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CROP = ["--dtype", "uint8", "--transform", "random_resized_crop size=224,224; random_horizontal_flip p=0.5"]
KEYS = "BENCHACCESSKEY", "benchsecretkey"
LATER_SECONDS = 1.5
FROM_MEMORY = ("known, memory", "new, memory", "later")


@dataclass
class Source:
    location: str
    are_pictures: bool = False
    loader: dict[str, Any] = field(default_factory=dict)  # arguments of the loop, and with `arguments` of the doctor
    arguments: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def changed(self, location: str | None = None, **loader: Any) -> Source:
        return replace(self, location=location or self.location, loader={**self.loader, **loader})


@dataclass
class Maker:
    folder: Path
    photos: Path
    command: str
    proxy: str
    running: list[subprocess.Popen] = field(default_factory=list)

    def pictures(self, kind: str, **how: object) -> Source:
        from PIL import Image

        for i, path in enumerate(sorted(self.photos.rglob("*.jpg"))):
            to = self.folder / kind / str(i % 10) / f"{i:05d}.{kind}"
            to.parent.mkdir(parents=True, exist_ok=True)
            if kind == "jpeg":
                shutil.copyfile(path, to)
            else:
                Image.open(path).convert("RGB").save(to, **how)  # type: ignore[arg-type]
        return Source(str(self.folder / kind), True)

    def packed(self, name: str, *more: str) -> Source:
        command = [self.command, "pack", str(self.photos), "-o", str(self.folder / name), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"bench: {done.stderr}")
        return Source(str(self.folder / name), True)

    def sound(self, kind: str) -> Source:
        import numpy as np
        import soundfile

        choose = np.random.default_rng(0)
        for i in range(3000):
            to = self.folder / kind / str(i % 10) / f"{i:05d}.{kind}"
            to.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(to, (0.1 * choose.standard_normal(24000)).astype("float32"), 48000, subtype="PCM_16")
        return Source(str(self.folder / kind))

    def rows(self, name: str, **how: object) -> Source:
        import h5py
        import numpy as np

        x = np.random.default_rng(0).integers(0, 40, (60000, 1024), dtype="int16").astype("float32")
        if name.endswith(".npy"):
            np.save(self.folder / name, x)
        else:
            with h5py.File(self.folder / name, "w") as f:
                f.create_dataset("x", data=x, **how)
        return Source(str(self.folder / name))

    def bags(self) -> Source:
        import numpy as np

        choose = np.random.default_rng(0)
        for i in range(1200):
            to = self.folder / "bags" / str(i % 4) / f"{i:04d}.npz"
            to.parent.mkdir(parents=True, exist_ok=True)
            np.savez(to, x=choose.standard_normal((40 + i % 20, 256)).astype("float32"))
        return Source(str(self.folder / "bags"), False, {"sample": "file", "collate": "pad"}, ["--sample", "file", "--collate", "pad"])

    def bucket(self) -> Source:
        rclone = shutil.which("rclone", path=f"{ROOT}/.venv/bin:{os.environ['PATH']}")
        if not rclone or not Path(self.proxy).exists():
            raise FileNotFoundError("rclone is not installed" if not rclone else f"{self.proxy} is not built")
        shutil.copytree(self.photos, self.folder / "root/bench/photos")
        near, far = free_port(), free_port()
        self.running.append(subprocess.Popen([rclone, "serve", "s3", "--addr", f"127.0.0.1:{near}", "--auth-key", ",".join(KEYS),
                                              "--vfs-cache-mode", "off", str(self.folder / "root")], stderr=subprocess.DEVNULL))
        wait_for(near)
        self.running.append(subprocess.Popen([self.proxy, str(far), str(near), "30"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        wait_for(far)
        env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{far}", "AWS_ACCESS_KEY_ID": KEYS[0], "AWS_SECRET_ACCESS_KEY": KEYS[1],
               "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
        return Source("s3://bench/photos", True, env=env)

    def close(self) -> None:
        for process in self.running:
            process.terminate()
            process.wait()


FORMATS: dict[str, Callable[[Maker], Source]] = {
    "jpeg": lambda m: m.pictures("jpeg"),
    "png": lambda m: m.pictures("png", compress_level=3),
    "webp": lambda m: m.pictures("webp", quality=85, method=2),
    "pack": lambda m: m.packed("pack.tar"),
    "decoded": lambda m: m.packed("decoded.npy", "--decode", "256x256"),
    "wav": lambda m: m.sound("wav"),
    "flac": lambda m: m.sound("flac"),
    "rows": lambda m: m.rows("rows.h5"),
    "chunks": lambda m: m.rows("chunks.h5", chunks=(64, 1024), compression="gzip"),
    "npy": lambda m: m.rows("rows.npy"),
    "npz": lambda m: m.bags(),
    "s3": lambda m: m.bucket(),
}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.05)
    raise SystemExit("bench: the server does not come up")


# ---- what is predicted, what is measured


def output_of(command: list[str], env: dict[str, str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(command[:4])}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def ask(command: str, source: Source, batch: int, cache: str) -> dict[str, Any]:
    crop = CROP if source.are_pictures else []
    return output_of([command, "doctor", source.location, "--batch-size", str(batch), *crop, *source.arguments, "--json"],
                     {"XDG_CACHE_HOME": cache, **source.env})


def feed(source: Source, batch: int, cache: str, is_cold: bool, later_seconds: float) -> dict[str, Any]:
    spec = {"source": source.location, "batch": batch, "is_cold": is_cold and not source.env, "later_seconds": later_seconds,
            "are_pictures": source.are_pictures, "loader": source.loader}
    return output_of([sys.executable, str(ROOT / "bench/doctor_loop.py"), json.dumps(spec)], {"XDG_CACHE_HOME": cache, **source.env})


def with_remedy(change: str, row: dict[str, Any], source: Source, command: str, folder: Path) -> Source | None:
    """The data with the change carried out, once; None: other machines and disks are not here."""
    if change.startswith("mixed in a window"):
        return source.changed(shuffle="window")
    if change.startswith("all rows in memory"):
        return source.changed(preload=True)
    if change.endswith("worker threads"):
        return source.changed(threads=int(change.split()[0]))
    words = row["command"].split()
    if words[:2] != ["fullbore", "pack"]:
        return None
    to = folder / f"remedy-{words[words.index('-o') + 1]}"
    words[0], words[words.index("-o") + 1] = command, str(to)
    if not to.exists():
        with tempfile.TemporaryDirectory(dir=folder) as cache:  # of new files: a pack would take along what is known of them
            subprocess.run(words, capture_output=True, check=True, env={**os.environ, "XDG_CACHE_HOME": cache})
        os.sync()
    return source.changed(str(to))


@contextlib.contextmanager
def in_memory(source: Source) -> Iterator[Source]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as there:
        of = Path(source.location)
        (shutil.copytree if of.is_dir() else shutil.copyfile)(of, Path(there) / of.name)
        yield source.changed(str(Path(there) / of.name))


@dataclass
class Case:
    kind: str
    batch: int
    change: str
    state: str
    predicted: Pair  # as the machine is now, alone on it
    measured: Pair
    turn: int


Pair = tuple[float | None, float | None]


def pair(once: dict[str, Any], what: str) -> Pair:
    return once[what], once[f"{what}_alone"]


def cold(once: dict[str, Any], source: Source) -> Pair:
    return pair(once, "first") if source.env or once["dropped_ratio"] > 0.5 else (None, None)


def foretold(row: dict[str, Any], epoch: str) -> Pair:
    return row[f"{epoch}_samples_per_second"], row[f"alone_{epoch}_samples_per_second"]


def measured_states(source: Source, batch: int, folder: Path) -> dict[str, Pair]:
    """Of the data as it is."""
    found: dict[str, Pair] = {}
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        once = feed(source, batch, cache, True, LATER_SECONDS)
        found["new, storage"], found["known, memory"] = cold(once, source), pair(once, "later")
        if source.are_pictures and not source.env:
            found["known, storage"] = cold(feed(source, batch, cache, True, 0), source)
    if source.are_pictures and not source.env:
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            feed(source, batch, cache, False, 0)  # into memory
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            found["new, memory"] = pair(feed(source, batch, cache, False, 0), "first")
    return found


def predicted_states(found: dict[str, Any]) -> dict[str, Pair]:
    now, alone, as_is = found["measured_samples_per_second"], found["alone_samples_per_second"], found["table"][0]
    return {"new, storage": foretold(as_is, "first_epoch"), "known, memory": foretold(as_is, "later"),
            "known, storage": (now["known_files_from_storage"], alone["known_files_from_storage"]),
            "new, memory": (now["new_files_from_memory"], alone["new_files_from_memory"])}


def remedies_of(found: dict[str, Any], source: Source, batch: int, command: str,
                folder: Path) -> Iterator[tuple[str, str, Pair, Pair]]:
    for row in found["table"][1:]:
        change = row["change"]
        with contextlib.ExitStack() as stack:
            is_memory = change == "copied to the RAM disk"
            other = stack.enter_context(in_memory(source)) if is_memory else with_remedy(change, row, source, command, folder)
            if other is None or source.env:
                continue
            cache = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
            once = feed(other, batch, cache, not is_memory, LATER_SECONDS)
            yield change, "first", foretold(row, "first_epoch"), pair(once, "first") if is_memory else cold(once, other)
            yield change, "later", foretold(row, "later"), pair(once, "later")


def over_limits(found: dict[str, Any]) -> list[str]:
    """Rates that the doctor's own measurements rule out."""
    wrong = []
    for row in found["table"]:
        for key in ("first_epoch", "later", "alone_first_epoch", "alone_later"):
            rate = row[f"{key}_samples_per_second"] or 0
            if rate * found["batch_bytes_per_sample"] > 1.001 * (found["memory_limit_bytes_per_second"] or float("inf")):
                wrong.append(f"{row['change']}: {key} {rate:.0f}/s is more than memory can copy")
    as_is = found["table"][0]
    if as_is["alone_later_samples_per_second"] * found["known_cpu_seconds"] > 1.02 * found["cores"]:
        wrong.append("as it is: more CPU time than there are cores")
    return wrong


def one_round(kind: str, source: Source, batch: int, folder: Path, turn: int, options: argparse.Namespace) -> tuple[list[Case], list[str]]:
    """Who begins changes: what the machine does meanwhile hits both."""
    measured = measured_states(source, batch, folder) if turn % 2 else {}
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        found = ask(options.command, source, batch, cache)
    measured = measured or measured_states(source, batch, folder)
    predicted = predicted_states(found)
    cases = [("as it is", state, predicted[state], value) for state, value in measured.items()]
    if not options.no_remedies:
        cases += list(remedies_of(found, source, batch, options.command, folder))
    return [Case(kind, batch, change, state, p, m, turn) for change, state, p, m in cases if p[0] and m[0]], over_limits(found)


# ---- all of it


def print_cases(cases: list[Case]) -> tuple[list[float], list[float]]:
    """Medians over the turns; how far off each is, as the machine is now and without what others took."""
    off: tuple[list[float], list[float]] = ([], [])
    for key in dict.fromkeys((c.kind, c.batch, c.change, c.state) for c in cases):
        own = [c for c in cases if (c.kind, c.batch, c.change, c.state) == key]
        line = f"{key[0]:<9}{key[1]:>6}  {key[2][:32]:<33}{key[3]:<15}"
        for k in (0, 1):
            predicted, measured = (statistics.median(values[k] or 0 for values in both) for both in
                                   ([c.predicted for c in own], [c.measured for c in own]))
            if k == 0 or key[3] in FROM_MEMORY:
                off[k].append(abs(predicted / measured - 1))
            line += f"{predicted:>10.0f}{measured:>10.0f}{100 * (predicted / measured - 1):>+6.0f} %"
        print(line, flush=True)
    return off


def print_share(name: str, off: list[float]) -> float:
    share = sum(x <= 0.15 for x in off) / max(len(off), 1)
    print(f"{name}: {sum(x <= 0.15 for x in off)} of {len(off)} within 15 % ({100 * share:.0f} %); "
          f"median {100 * statistics.median(off or [0]):.0f} % off, furthest {100 * max(off, default=0):.0f} %")
    return share


def kept(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()] if path and Path(path).exists() else []


def measure_kind(kind: str, maker: Maker, options: argparse.Namespace, done: list[dict[str, Any]], until: float) -> bool:
    """False: there was no time for all of it."""
    wanted = [(batch, turn) for turn in range(options.rounds) for batch in options.batches
              if not any((one["kind"], one["batch"], one["turn"]) == (kind, batch, turn) for one in done)]
    source = FORMATS[kind](maker) if wanted else None
    os.sync()  # what was just written is not written while it is read
    for batch, turn in wanted:
        if time.monotonic() > until:
            return False
        assert source is not None
        cases, wrong = one_round(kind, source, batch, maker.folder, turn, options)
        done.append({"kind": kind, "batch": batch, "turn": turn, "cases": [asdict(c) for c in cases], "over_limits": wrong,
                     "load": os.getloadavg()[0]})
        if options.keep:
            with open(options.keep, "a") as f:
                f.write(json.dumps(done[-1]) + "\n")
        print_cases(cases)
    return True


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--batch", dest="batches", default="16,64,250,1024")
    parser.add_argument("--no-remedies", action="store_true")
    parser.add_argument("--keep", default="")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--delay-proxy", default=str(ROOT / "build/bench/delay_proxy"))
    parser.add_argument("--least", action="store_true")
    options = parser.parse_args()
    options.batches = [int(n) for n in options.batches.split(",")]
    return options


def main() -> int:
    options = arguments()
    photos = ROOT / ".cache" / f"photos-{options.photos}"
    if not photos.is_dir():
        subprocess.run([sys.executable, str(ROOT / "tools/make_photos.py"), str(photos), "--count", str(options.photos)], check=True)
    done, until, is_whole = kept(options.keep), time.monotonic() + 60 * options.minutes, True
    print(f"{'data':<9}{'batch':>6}  {'change':<33}{'state':<15}{'predicted':>10}{'measured':>10}{'off':>8}{'alone:':>10}{'measured':>10}"
          f"{'off':>8}   samples/s", flush=True)
    for kind in FORMATS:
        if options.only and kind not in options.only.split(","):
            continue
        with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
            maker = Maker(Path(folder), photos, options.command, options.delay_proxy)
            try:
                is_whole &= measure_kind(kind, maker, options, done, until)
            except (ImportError, FileNotFoundError) as e:
                print(f"{kind:<9}left out: {e}", flush=True)
            finally:
                maker.close()
    print("\nmedians over the turns")
    now, alone = print_cases([Case(**c) for one in done for c in one["cases"]])
    wrong = [what for one in done for what in one["over_limits"]]
    share = print_share("as the machine was", now)
    print_share("alone on it, from memory", alone)
    print(f"{len(wrong)} rates above a limit; load while it ran {statistics.median([one['load'] for one in done] or [0]):.1f}")
    print("".join(f"  {what}\n" for what in wrong), end="")
    return 5 if options.least and (share < 0.9 or wrong) else 0 if is_whole else 4


if __name__ == "__main__":
    sys.exit(main())
