"""What people run on arrays and sound: h5py, soundfile, plain Python with numpy, on the same files for the same batches.

    bench/arrays_peers.py rows FILE --limit N [--workers 2] [--batch-size 8192]        h5py row by row in a DataLoader
    bench/arrays_peers.py bags FOLDER --limit N [--threads 1]                           h5py with handles that stay open
    bench/arrays_peers.py soundfile|numpy FOLDER --limit N --threads T                  clips of 24000 into (1024, 24000) float32

Prints one JSON object. Every sample is counted. The time of rows begins with the first batch being asked for, that
of bags when all files are open, that of clips after a first batch.
"""

import argparse
import json
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

SAMPLES, CLIPS = 24_000, 1024


def report(count: int, started: float, cpu: float) -> None:
    seconds = time.perf_counter() - started
    used = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"samples": count, "wall_seconds": seconds, "samples_per_second": count / seconds,
                      "cpu_seconds_per_1000_samples": (used - cpu) / count * 1000}))


def rows(options: argparse.Namespace) -> None:
    import h5py
    import torch
    from torch.utils.data import DataLoader, Dataset, RandomSampler

    class Rows(Dataset):  # type: ignore[misc]
        """The usual one: the file is opened by each worker, a row is read when it is asked for."""

        def __init__(self, path: str) -> None:
            self.path, self.file = path, None
            with h5py.File(path) as file:
                self.count = len(file["features"])

        def __len__(self) -> int:
            return self.count

        def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
            if self.file is None:
                self.file = h5py.File(self.path)
            return torch.from_numpy(self.file["features"][i]), int(self.file["labels"][i])

    data, started = Rows(options.source), time.perf_counter()
    sampler = RandomSampler(data, replacement=False, generator=torch.Generator().manual_seed(0))
    batches = iter(DataLoader(data, batch_size=options.batch_size, sampler=sampler, num_workers=options.workers))
    done = 0
    while done < options.limit and (batch := next(batches, None)) is not None:
        done += len(batch[0])
    report(done, started, 0)


def bags(options: argparse.Namespace) -> None:
    import h5py

    files = [h5py.File(path) for path in sorted(Path(options.source).glob("*.h5"))]
    order = np.random.default_rng(0).permutation(len(files))

    def read(i: int) -> int:
        return len(files[i]["features"][:]) and len(files[i]["coords"][:]) and 1

    started = time.perf_counter()
    todo = [int(order[k % len(order)]) for k in range(options.limit)]
    with ThreadPoolExecutor(options.threads) as pool:
        done = sum(pool.map(read, todo) if options.threads > 1 else map(read, todo))
    report(done, started, 0)


def by_soundfile(path: str, to: np.ndarray) -> None:
    import soundfile

    values = soundfile.read(path, dtype="float32", frames=SAMPLES)[0]
    to[:len(values)] = values
    to[len(values):] = 0


def by_numpy(path: str, to: np.ndarray) -> None:
    with open(path, "rb", buffering=0) as file:
        data = file.read()
    values = np.frombuffer(data, "<i2", offset=44)[:SAMPLES]
    np.multiply(values, np.float32(1 / 32768), out=to[:len(values)])
    to[len(values):] = 0


def sound(options: argparse.Namespace) -> None:
    read = {"soundfile": by_soundfile, "numpy": by_numpy}[options.what]
    paths = [str(path) for path in sorted(Path(options.source).glob("*/*.wav"))]
    order = np.random.default_rng(0).permutation(len(paths))
    batches = [np.zeros((CLIPS, SAMPLES), np.float32) for _ in range(options.threads)]

    def task(at: int) -> int:
        batch = batches[at // CLIPS % options.threads]
        for k in range(CLIPS):
            read(paths[order[(at + k) % len(paths)]], batch[k])
        return CLIPS

    task(0)
    started, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(options.threads) as pool:
        done = sum(pool.map(task, range(CLIPS, CLIPS + options.limit, CLIPS)))
    report(done, started, cpu)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["rows", "bags", "soundfile", "numpy"])
    parser.add_argument("source")
    parser.add_argument("--limit", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=8192)
    options = parser.parse_args()
    {"rows": rows, "bags": bags}.get(options.what, sound)(options)


if __name__ == "__main__":
    main()
