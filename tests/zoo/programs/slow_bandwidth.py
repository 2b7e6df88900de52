"""Large files on storage that gives few bytes a second: two workers wait for it."""
import glob
import time

import torch
from torch.utils.data import DataLoader, Dataset
from zoo_common import DATA, SEED, running, say_rate, vary


class Files(Dataset):
    def __init__(self) -> None:
        self.paths = sorted(glob.glob(f"{DATA}/large/*"))

    def __len__(self) -> int:
        return len(self.paths) * 50

    def __getitem__(self, i: int) -> torch.Tensor:
        with open(self.paths[i % len(self.paths)], "rb") as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)


if __name__ == "__main__":
    torch.manual_seed(SEED)
    step, steps, started = vary(0.01), 0, None
    for batch in DataLoader(Files(), batch_size=2, num_workers=2, shuffle=True):
        started = started or time.monotonic()
        time.sleep(step)
        steps += 1
        if not running(started):
            break
    say_rate(steps, started)
