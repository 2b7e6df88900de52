"""Loader threads that parse in Python: four of them, one lock. With ZOO_PROCESSES=N a DataLoader's workers instead: a remedy."""
import glob
import os
import queue
import threading
import time

from zoo_common import DATA, burn, running, say_rate, vary

paths = sorted(glob.glob(f"{DATA}/small/*"))
cost, step = vary(0.003), vary(0.004)


def batches(first: int, workers: int):
    i = first
    while True:
        batch = []
        for _ in range(4):
            with open(paths[i % len(paths)], "rb") as f:
                batch.append(f.read())
            burn(cost)
            i += workers
        yield batch


def from_threads(count: int):
    ready: queue.Queue = queue.Queue(maxsize=8)

    def load(first: int) -> None:
        for batch in batches(first, count):
            ready.put(batch)

    for k in range(count):
        threading.Thread(target=load, args=(k,), daemon=True).start()
    while True:
        yield ready.get(timeout=30)


def from_processes(count: int):
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Parsed(IterableDataset):
        def __iter__(self):
            worker = get_worker_info()
            return batches(worker.id, worker.num_workers)

    return iter(DataLoader(Parsed(), batch_size=None, num_workers=count))


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
