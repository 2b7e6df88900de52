"""Transforms that cost CPU, in as many workers as the first argument says."""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset
from zoo_common import SEED, burn, running, say_rate, vary

COST = vary(0.004)


class Costly(Dataset):
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, i: int) -> torch.Tensor:
        burn(COST)
        return torch.zeros(3, 64, 64)


if __name__ == "__main__":
    torch.manual_seed(SEED)
    step, steps, started = vary(0.008), 0, None
    for batch in DataLoader(Costly(), batch_size=8, num_workers=int(sys.argv[1])):
        started = started or time.monotonic()
        time.sleep(step)
        steps += 1
        if not running(started):
            break
    say_rate(steps, started)
