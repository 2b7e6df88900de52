"""Threads that read gzipped HDF5 chunks: the library lets one in at a time."""
import os, queue, random, threading, time
import h5py
from zoo_common import DATA, running, say_rate, vary

ready: queue.Queue = queue.Queue(maxsize=8)
stop = False


def load(seed: int) -> None:
    choose = random.Random(seed)
    with h5py.File(f"{DATA}/rows.h5", "r") as f:
        x = f["x"]
        while not stop:
            i = choose.randrange(x.shape[0] // 1024) * 1024
            try:
                ready.put(x[i:i + 1024], timeout=1)
            except queue.Full:
                pass


for k in range(4):
    threading.Thread(target=load, args=(k,), daemon=True).start()
started, steps, step = time.monotonic(), 0, vary(0.002)
while running(started):
    ready.get()
    time.sleep(step)
    steps += 1
say_rate(steps, started)
os._exit(0)  # daemon threads inside a library may block the normal end
