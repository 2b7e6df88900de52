"""Threads that read gzipped HDF5 chunks: the library lets one in at a time. With ZOO_PROCESSES=N a DataLoader's workers instead: a
remedy."""
import os
import queue
import random
import threading
import time

import h5py
from zoo_common import DATA, running, say_rate, vary

step = vary(0.002)


def batches(seed: int):
    choose = random.Random(seed)
    with h5py.File(f"{DATA}/rows.h5", "r") as f:
        x = f["x"]
        while True:
            i = choose.randrange(x.shape[0] // 1024) * 1024
            yield x[i:i + 1024]


def from_threads(count: int):
    ready: queue.Queue = queue.Queue(maxsize=8)

    def load(seed: int) -> None:
        for batch in batches(seed):
            ready.put(batch)

    for k in range(count):
        threading.Thread(target=load, args=(k,), daemon=True).start()
    while True:
        yield ready.get(timeout=30)


def from_processes(count: int):
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Rows(IterableDataset):
        def __iter__(self):
            return map(torch.from_numpy, batches(get_worker_info().id))

    return iter(DataLoader(Rows(), batch_size=None, num_workers=count))


processes = int(os.environ.get("ZOO_PROCESSES", "0"))
source = from_processes(processes) if processes else from_threads(4)
next(source)
started, steps = time.monotonic(), 0
while running(started):
    next(source)
    time.sleep(step)
    steps += 1
say_rate(steps, started)
if not processes:
    os._exit(0)  # daemon threads inside a library may block the normal end
