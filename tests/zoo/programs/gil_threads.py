"""Loader threads that parse in Python: four of them, one lock. With ZOO_PROCESSES=N processes instead: a remedy."""
import glob, multiprocessing, os, queue, threading, time
from zoo_common import DATA, burn, running, say_rate, vary

paths = sorted(glob.glob(f"{DATA}/small/*"))
cost, step = vary(0.003), vary(0.004)


def load(first: int, workers: int, ready) -> None:
    i = first
    while True:
        batch = []
        for _ in range(4):
            with open(paths[i % len(paths)], "rb") as f:
                batch.append(f.read())
            burn(cost)
            i += workers
        try:
            ready.put(batch, timeout=1)
        except queue.Full:
            pass


if __name__ == "__main__":
    processes = int(os.environ.get("ZOO_PROCESSES", "0"))
    ready = multiprocessing.Queue(8) if processes else queue.Queue(maxsize=8)
    make, count = (multiprocessing.Process, processes) if processes else (threading.Thread, 4)
    loaders = [make(target=load, args=(k, count, ready), daemon=True) for k in range(count)]
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
