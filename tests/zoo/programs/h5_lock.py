"""Threads that read gzipped HDF5 chunks: the library lets one in at a time. With ZOO_PROCESSES=N processes instead: a remedy."""
import multiprocessing, os, queue, random, threading, time
import h5py
from zoo_common import DATA, running, say_rate, vary

step = vary(0.002)


def load(seed: int, ready) -> None:
    choose = random.Random(seed)
    with h5py.File(f"{DATA}/rows.h5", "r") as f:
        x = f["x"]
        while True:
            i = choose.randrange(x.shape[0] // 1024) * 1024
            try:
                ready.put(x[i:i + 1024].copy(), timeout=1)
            except queue.Full:
                pass


if __name__ == "__main__":
    processes = int(os.environ.get("ZOO_PROCESSES", "0"))
    ready = multiprocessing.Queue(8) if processes else queue.Queue(maxsize=8)
    make, count = (multiprocessing.Process, processes) if processes else (threading.Thread, 4)
    loaders = [make(target=load, args=(k, ready), daemon=True) for k in range(count)]
    for t in loaders:
        t.start()
    ready.get(timeout=30)
    started, steps = time.monotonic(), 0
    while running(started):
        ready.get(timeout=30)
        time.sleep(step)
        steps += 1
    say_rate(steps, started)
    for t in loaders if processes else []:
        t.kill()
    os._exit(0)  # daemon threads inside a library may block the normal end
