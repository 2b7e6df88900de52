"""Loader threads that parse in Python: four of them, one lock."""
import glob, os, queue, threading, time
from zoo_common import DATA, burn, running, say_rate, vary

ready: queue.Queue = queue.Queue(maxsize=8)
paths = sorted(glob.glob(f"{DATA}/small/*"))
cost, stop = vary(0.003), False


def load(first: int) -> None:
    i = first
    while not stop:
        batch = []
        for _ in range(4):
            with open(paths[i % len(paths)], "rb") as f:
                batch.append(f.read())
            burn(cost)
            i += 4
        try:
            ready.put(batch, timeout=1)
        except queue.Full:
            pass


threads = [threading.Thread(target=load, args=(k,), daemon=True) for k in range(4)]
for t in threads:
    t.start()
started, steps, step = time.monotonic(), 0, vary(0.004)
while running(started):
    ready.get()
    time.sleep(step)
    steps += 1
say_rate(steps, started)
os._exit(0)  # daemon threads inside a library may block the normal end
