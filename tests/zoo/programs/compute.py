"""A model that is slower than its loader."""
import time

import torch
from torch.utils.data import DataLoader, Dataset
from zoo_common import SEED, running, say_rate, vary


class Ready(Dataset):
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((256,), float(i % 7))


if __name__ == "__main__":
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    width = int(vary(1024))
    model = torch.nn.Sequential(torch.nn.Linear(256, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.Linear(width, 1))
    best = torch.optim.SGD(model.parameters(), lr=1e-3)
    steps, started = 0, None
    for batch in DataLoader(Ready(), batch_size=256, num_workers=1, prefetch_factor=4):
        started = started or time.monotonic()
        for _ in range(3):
            best.zero_grad()
            model(batch).square().mean().backward()
            best.step()
        steps += 1
        if not running(started):
            break
    say_rate(steps, started)
