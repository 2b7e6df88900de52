"""Short epochs, and workers that are started anew for each."""
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset
from zoo_common import SEED, running, say_rate, vary

INIT, STEP = vary(0.5), vary(0.02)


class Small(Dataset):
    def __len__(self) -> int:
        return 160

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.zeros(3, 32, 32)


def prepare(worker: int) -> None:
    time.sleep(INIT)  # opens its files, builds its tables


if __name__ == "__main__":
    torch.manual_seed(SEED)
    lives_on = os.environ.get("ZOO_PERSISTENT") == "1"
    loader = DataLoader(Small(), batch_size=8, num_workers=2, worker_init_fn=prepare, persistent_workers=lives_on)
    started, steps = time.monotonic(), 0
    while running(started):
        for batch in loader:
            time.sleep(STEP)
            steps += 1
    say_rate(steps, started)
