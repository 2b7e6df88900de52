"""`fullbore build` beside what people write in Python, a bare C loop, and our own kernels from memory.

    bench/build.py [--build DIR] [--files N] [--peer-files N] [--rounds N] [--json]

Recordings of about 60 KB (48 kHz, 16 bit, 0.6 s) are made first and are in memory when they are read; of 30,000 the start and the end weigh
little. Sides take turns within a round; figures are medians. "From memory" is the same conversion and kernel on the same threads with all
samples and rows in memory: what a build would be without files. "Bare loop" reads, computes and writes through the page cache with nothing
around it (floor_build.c). Peers write with h5py and use as many processes (torch: threads) as there are cores; they get fewer recordings,
as they need a few seconds for a thousand. CPU seconds are those of the whole process, so that ratios of them hold on a machine that has
other things to do.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import h5py
import librosa
import numpy as np
import scipy.fft
import soundfile
import torch

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
FLOORS = {"bare loop, raw": "raw", "bare loop, log-mel": "log-mel", "from memory": "memory", "from memory, exact": "memory-exact"}
BANK = librosa.filters.mel(sr=48000, n_fft=1024, n_mels=64)
WINDOW = np.hanning(1025)[:-1].astype(np.float32)


def make(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    noise = (rng.normal(0, 0.2, 48000 * 4) * 8000).astype("<i2")
    for i in range(count):
        at = folder / f"c{i % 10}"
        at.mkdir(exist_ok=True)
        with wave.open(str(at / f"{i:06d}.wav"), "wb") as w:
            w.setnchannels(1)
            w.setsampwidth(2)
            w.setframerate(48000)
            first = int(rng.integers(0, 100000))
            w.writeframes(noise[first : first + 28000 + int(rng.integers(0, 4000))].tobytes())


# ---- what people write


def clip(path: str) -> np.ndarray:
    x, _ = soundfile.read(path, dtype="float32")
    return np.pad(x, (0, max(0, 24000 - len(x))))[:24000]


def by_librosa(paths: list[str]) -> np.ndarray:
    return np.stack([librosa.power_to_db(librosa.feature.melspectrogram(y=clip(p), sr=48000, n_fft=1024, hop_length=256, n_mels=64))
                     for p in paths]).astype(np.float32)


def by_scipy(paths: list[str]) -> np.ndarray:
    padded = np.pad(np.stack([clip(p) for p in paths]), ((0, 0), (512, 512)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, 1024, axis=1)[:, ::256]
    s = scipy.fft.rfft(frames * WINDOW, axis=-1)
    return (10 * np.log10(np.maximum((s.real**2 + s.imag**2) @ BANK.T, 1e-10))).transpose(0, 2, 1).astype(np.float32)


def by_torch(paths: list[str]) -> np.ndarray:
    x = torch.from_numpy(np.stack([clip(p) for p in paths]))
    s = torch.stft(x, 1024, 256, window=torch.hann_window(1024), pad_mode="constant", return_complex=True)
    return (10 * torch.log10(torch.clamp(torch.from_numpy(BANK) @ (s.real**2 + s.imag**2), min=1e-10))).numpy()


def peer(way: Callable[[list[str]], np.ndarray], paths: list[str], output: Path, size: int) -> float:
    """Files per second, with one process per core (torch: threads)."""
    parts = [paths[i : i + size] for i in range(0, len(paths), size)]
    pool: concurrent.futures.Executor = (concurrent.futures.ThreadPoolExecutor(CORES) if way is by_torch
                                         else concurrent.futures.ProcessPoolExecutor(CORES))
    with pool, h5py.File(output, "w") as f:
        list(pool.map(way, [paths[:2]] * CORES))  # warm
        since = time.perf_counter()
        features, at = f.create_dataset("features", (len(paths), 64, 94), "f4"), 0
        for rows in pool.map(way, parts):
            features[at : at + len(rows)] = rows
            at += len(rows)
        f.flush()
        return len(paths) / (time.perf_counter() - since)


# ---- ours


def settle(*old: Path) -> None:
    """Removing old files, and writing back what others left, are not part of the work."""
    for path in old:
        path.unlink(missing_ok=True)
    os.sync()


def ours(command: Path, wavs: Path, output: Path, *how: str) -> dict[str, float]:
    settle(output)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads(subprocess.run([command, "build", wavs, "-o", output, *how, "--json"], check=True, capture_output=True).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"files_per_s": said["files"] / said["seconds"], "rows_per_s": said["rows"] / said["seconds"],
            "files_per_s_before_fsync": said["files"] / (said["seconds"] - said["finish_seconds"]),
            "cpu_us_per_file": 1e6 * cpu / said["files"],
            "size_over_payload": said["file_bytes"] / said["payload_bytes"], "memory_peak_mib": said["memory_peak_bytes"] / 2**20}


def median(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--files", type=int, default=30_000)
    parser.add_argument("--peer-files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    command = a.build / "src/cli/fullbore"
    os.environ.setdefault("FULLBORE_HDF5_HELPER", str(a.build / "src/hdf5/fullbore-hdf5"))
    rows: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = name + "/cache"
        wavs = folder / "wavs"
        wavs.mkdir()
        make(wavs, a.files)
        paths = sorted(map(str, wavs.rglob("*.wav")))
        os.sync()
        time.sleep(2.5)  # a folder that changed two seconds ago is listed anew by every run
        half = ("--length", "0.5s", "--top-db", "0")
        ours(command, wavs, folder / "warm.h5", "--raw", "--length", "0.5s")
        for _ in range(a.rounds):
            def add(side: str, figures: dict[str, float]) -> None:
                rows.setdefault(side, []).append(figures)

            add("log-mel", ours(command, wavs, folder / "a.h5", *half))
            add("log-mel exact", ours(command, wavs, folder / "a.h5", *half, "--exact"))
            add("log-mel gzip", ours(command, wavs, folder / "a.h5", *half, "--compress", "gzip-1"))
            many = ("--segment", "0.1s", "--stride", "6ms", "--log-mel", "32", "--dtype", "float16")
            add("80 rows a file", ours(command, wavs, folder / "a.h5", *many))
            add("raw", ours(command, wavs, folder / "a.h5", "--raw", "--length", "0.5s"))
            for side, mode in FLOORS.items():
                settle(folder / "floor")
                loop = [a.build / "bench/floor_build", folder / "floor", "24000", str(CORES), mode]
                add(side, json.loads(subprocess.run(loop, input="\n".join(paths), text=True, check=True, capture_output=True).stdout))
            kernel = json.loads(subprocess.run([a.build / "bench/log_mel", "0.5"], check=True, capture_output=True).stdout)
            speed = kernel["recordings_per_cpu_s"]
            best_us = 1e6 / max(speed["avx2"], speed["c"])
            add("kernels alone, cached", {"cpu_us_per_file": best_us, "exact_cpu_us_per_file": 1e6 / speed["exact"]})
            settle(folder / "floor", folder / "a.h5")
            for way, size in ((by_librosa, 32), (by_scipy, 16), (by_torch, 64)):
                add(way.__name__.removeprefix("by_"), {"files_per_s": peer(way, paths[: a.peer_files], folder / "p.h5", size)})
    figures = {side: median(each) for side, each in rows.items()}
    best = max(figures[side]["files_per_s"] for side in ("librosa", "scipy", "torch"))

    def share(side: str, of: str, key: str = "files_per_s") -> float:
        """Of speed, or of CPU time per file."""
        a, b = figures[side][key], figures[of][key]
        return b / a if key == "cpu_us_per_file" else a / b

    cpu = "cpu_us_per_file"
    figures["ratios"] = {"log-mel / best of Python": figures["log-mel"]["files_per_s"] / best,
                         "log-mel exact / best of Python": figures["log-mel exact"]["files_per_s"] / best,
                         "log-mel / from memory, with fsync": share("log-mel", "from memory"),
                         "log-mel / from memory, by CPU": share("log-mel", "from memory", cpu),
                         "bare loop / from memory, by CPU": share("bare loop, log-mel", "from memory", cpu),
                         "log-mel / bare loop, by CPU": share("log-mel", "bare loop, log-mel", cpu),
                         "log-mel / from memory, before fsync": figures["log-mel"]["files_per_s_before_fsync"]
                                                                / figures["from memory"]["files_per_s"],
                         "bare loop / from memory, before fsync": share("bare loop, log-mel", "from memory"),
                         "exact: log-mel / from memory, by CPU": share("log-mel exact", "from memory, exact", cpu),
                         "raw / bare loop": figures["raw"]["files_per_s"] / figures["bare loop, raw"]["files_per_s_with_fsync"]}
    if a.json:
        print(json.dumps(figures))
        return
    for side, values in figures.items():
        print(f"{side:<22}", ", ".join(f"{key} {value:,.{4 if value < 2 else 2 if value < 100 else 0}f}" for key, value in values.items()))


if __name__ == "__main__":
    main()
