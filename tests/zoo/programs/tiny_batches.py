"""Hundreds of small launches per second: the host is busy, the accelerator is not."""
import time
import torch
from emulated_gpu import Gpu
from zoo_common import running, say_rate, vary

torch.set_num_threads(1)
gpu, model = Gpu(), torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(12)])
x, started, steps, kernel = torch.zeros(2, 8), time.monotonic(), 0, vary(0.00005)
while running(started):
    model(x).sum().backward()
    gpu.launch(kernel)
    steps += 1
say_rate(steps, started)
