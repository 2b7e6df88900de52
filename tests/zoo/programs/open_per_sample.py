"""The training loop opens an HDF5 file for every sample, by itself. With ZOO_WORKERS=N processes do it beside the step: a remedy."""
import multiprocessing
import os
import random
import time

import h5py
from zoo_common import CPU_SHARE, DATA, running, say_rate, vary

step = vary(0.01)


def load_batch() -> list:
    batch = []
    for _ in range(round(8 * CPU_SHARE)):
        with h5py.File(f"{DATA}/rows.h5", "r") as f:
            i = random.randrange(f["x"].shape[0] // 256) * 256
            batch.append(f["x"][i:i + 64])
    return batch


def work(ready) -> None:
    while True:
        ready.put(len(load_batch()))


if __name__ == "__main__":
    workers = int(os.environ.get("ZOO_WORKERS", "0"))
    ready = multiprocessing.Queue(2 * max(1, workers))
    loaders = [multiprocessing.Process(target=work, args=(ready,), daemon=True) for _ in range(workers)]
    for loader in loaders:
        loader.start()
    if workers:
        ready.get(timeout=30)
    started, steps = time.monotonic(), 0
    while running(started):
        batch = ready.get(timeout=30) if workers else load_batch()
        time.sleep(step)
        steps += 1
    say_rate(steps, started)
    for loader in loaders:
        loader.kill()
