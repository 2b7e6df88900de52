"""The training loop opens an HDF5 file for every sample, by itself."""
import random, time
import h5py
from zoo_common import DATA, running, say_rate, vary

started, steps, step = time.monotonic(), 0, vary(0.01)
while running(started):
    for _ in range(8):
        with h5py.File(f"{DATA}/rows.h5", "r") as f:
            i = random.randrange(f["x"].shape[0] // 256) * 256
            f["x"][i:i + 64]
    time.sleep(step)
    steps += 1
say_rate(steps, started)
