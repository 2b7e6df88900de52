"""Random rows of a mapped file that is larger than the memory it may use."""
import random
import time

import numpy as np
from zoo_common import DATA, running, say_rate, vary

rows = np.memmap(f"{DATA}/big.bin", dtype=np.uint8, mode="r").reshape(-1, 4096)
started, steps, step, x = time.monotonic(), 0, vary(0.003), 0
while running(started):
    index = [random.randrange(len(rows)) for _ in range(64)]
    x += int(rows[index].sum())
    time.sleep(step)
    steps += 1
say_rate(steps, started)
