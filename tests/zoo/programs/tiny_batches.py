"""Hundreds of small launches per second: the host is busy, the accelerator is not."""
import os
import time

import torch
from emulated_gpu import Gpu
from zoo_common import running, say_rate, vary

torch.set_num_threads(1)
gpu, model = Gpu(), torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(12)])
times = int(os.environ.get("ZOO_BATCH", "1"))  # a larger batch: a remedy
x, started, steps, kernel = torch.zeros(2 * times, 8), time.monotonic(), 0, vary(0.00005) * times
while running(started):
    model(x).sum().backward()
    gpu.launch(kernel)
    steps += times  # in batches of the first size
say_rate(steps, started)
