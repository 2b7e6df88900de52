"""Does `fullbore doctor` say what `fullbore bench` then measures? For every format, from storage and from memory.

    bench/doctor.py [--photos N] [--rounds N] [--only NAME,...] [--command FULLBORE] [--delay-proxy PROGRAM] [--least]

The same photographs as JPEG, PNG, WebP, in a pack, decoded, and in a bucket (rclone, 30 ms away); recordings as WAV and FLAC; rows of HDF5
files, as they are and in compressed chunks, rows of a .npy. In each round the doctor looks at files nothing is known of, and the bench
feeds them, too: an epoch from storage with nothing known, then several from memory; who begins changes. Medians over the rounds. A bucket's
objects never lie in memory: there both are what it gives. --least: exit code 5 if a prediction is off by more than 15 %.
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
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CROP = ["--dtype", "uint8", "--transform", "random_resized_crop size=224,224; random_horizontal_flip p=0.5"]
KEYS = "BENCHACCESSKEY", "benchsecretkey"


@dataclass
class Source:
    location: str
    arguments: list[str]
    epochs: int = 4  # of the run from memory
    env: dict[str, str] = field(default_factory=dict)


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
        return Source(str(self.folder / kind), ["--batch-size", "64", *CROP])

    def packed(self, name: str, *more: str) -> Source:
        command = [self.command, "pack", str(self.photos), "-o", str(self.folder / name), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"bench: {done.stderr}")
        return Source(str(self.folder / name), ["--batch-size", "64", *CROP], 30 if more else 4)

    def sound(self, kind: str) -> Source:
        import numpy as np
        import soundfile

        choose = np.random.default_rng(0)
        for i in range(3000):
            to = self.folder / kind / str(i % 10) / f"{i:05d}.{kind}"
            to.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(to, (0.1 * choose.standard_normal(24000)).astype("float32"), 48000, subtype="PCM_16")
        return Source(str(self.folder / kind), ["--batch-size", "64"], 30 if kind == "wav" else 4)

    def rows(self, name: str, **how: object) -> Source:
        import h5py
        import numpy as np

        x = np.random.default_rng(0).integers(0, 40, (60000, 1024), dtype="int16").astype("float32")
        if name.endswith(".npy"):
            np.save(self.folder / name, x)
        else:
            with h5py.File(self.folder / name, "w") as f:
                f.create_dataset("x", data=x, **how)
        return Source(str(self.folder / name), ["--batch-size", "1024"], 30)

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
        return Source("s3://bench/photos", ["--batch-size", "64", *CROP], 4, env)

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


def ask(command: str, source: Source, verb: str, *more: str, cache: str) -> dict:
    env = {**os.environ, "XDG_CACHE_HOME": cache, **source.env}
    done = subprocess.run([command, verb, source.location, *source.arguments, *more, "--json"], capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"bench: {verb} {source.location}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def one_round(command: str, source: Source, folder: Path, is_doctor_first: bool) -> dict[str, tuple[float, float]]:
    """(predicted, measured) samples per second, cold and warm."""
    with tempfile.TemporaryDirectory(dir=folder) as one, tempfile.TemporaryDirectory(dir=folder) as other:
        first = ask(command, source, "doctor", cache=one)["table"][0] if is_doctor_first else {}
        cold = ask(command, source, "bench", "--cold", cache=other)
        warm = ask(command, source, "bench", "--epochs", str(source.epochs), cache=other)
        first = first or ask(command, source, "doctor", cache=one)["table"][0]
    measured = warm["last_epoch_samples_per_second"] if warm["chunks_unfiltered"] else warm["samples_per_second"]
    found = {"warm": (first["later_samples_per_second"], measured)}
    if first["first_epoch_samples_per_second"]:
        whole = cold["samples"] / (cold["time_to_first_batch_seconds"] + cold["wall_seconds"])  # its first batch unfilters for all others
        found["cold"] = (first["first_epoch_samples_per_second"], whole if cold["chunks_unfiltered"] else cold["samples_per_second"])
    return found


def compare(name: str, source: Source, folder: Path, options: argparse.Namespace) -> Iterator[float]:
    os.sync()  # what was just written is not written while it is read
    rounds = [one_round(options.command, source, folder, i % 2 == 0) for i in range(options.rounds)]
    for state in ("cold", "warm"):
        pairs = [r[state] for r in rounds if state in r]
        if not pairs:
            print(f"{name:<9}{state:<6}not measured: the files could not be dropped from memory", flush=True)
            continue
        predicted, measured = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
        off = predicted / measured - 1
        print(f"{name:<9}{state:<6}{predicted:>11.0f}{measured:>11.0f}{100 * off:>+7.0f} %", flush=True)
        yield abs(off)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--delay-proxy", default=str(ROOT / "build/bench/delay_proxy"))
    parser.add_argument("--least", action="store_true")
    options = parser.parse_args()
    photos = ROOT / ".cache" / f"photos-{options.photos}"
    if not photos.is_dir():
        subprocess.run([sys.executable, str(ROOT / "tools/make_photos.py"), str(photos), "--count", str(options.photos)], check=True)
    off: list[float] = []
    print(f"{'format':<9}{'':<6}{'predicted':>11}{'measured':>11}{'off':>8}   samples/s, load {os.getloadavg()[0]:.1f}", flush=True)
    for name, make in FORMATS.items():
        if options.only and name not in options.only.split(","):
            continue
        with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
            maker = Maker(Path(folder), photos, options.command, options.delay_proxy)
            try:
                off += compare(name, make(maker), Path(folder), options)
            except (ImportError, FileNotFoundError) as e:
                print(f"{name:<9}left out: {e}", flush=True)
            finally:
                maker.close()
    print(f"{sum(x <= 0.15 for x in off)} of {len(off)} within 15 %; furthest off: {100 * max(off, default=0):.0f} %")
    return 5 if options.least and max(off, default=0) > 0.15 else 0


if __name__ == "__main__":
    sys.exit(main())
