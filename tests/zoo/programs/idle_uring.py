"""A program that computes while a thread waits at an idle io_uring: the kernel calls that iowait."""
import ctypes
import os
import threading
import time

import torch
from zoo_common import running, say_rate, vary

libc = ctypes.CDLL(None, use_errno=True)
SETUP, ENTER, GETEVENTS = 425, 426, 1


def wait_for_ever() -> None:
    params = (ctypes.c_uint8 * 120)()
    ring = libc.syscall(SETUP, 8, ctypes.byref(params))
    if ring < 0:
        raise SystemExit(77)
    libc.syscall(ENTER, ring, 0, 1, GETEVENTS, None, 0)


threading.Thread(target=wait_for_ever, daemon=True).start()
torch.set_num_threads(1)
width = int(vary(700))
a, started, steps = torch.rand(width, width), time.monotonic(), 0
while running(started):
    a = (a @ a).clamp(-1, 1)
    steps += 1
say_rate(steps, started)
os._exit(0)
