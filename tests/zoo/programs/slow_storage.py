"""Small files on storage that serves few reads a second: two workers wait for it. With ZOO_PACKED=1 they read them packed: a remedy."""
import glob
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from zoo_common import DATA, SEED, running, say_rate, vary


class Files(Dataset):
    def __init__(self) -> None:
        self.paths = sorted(glob.glob(f"{DATA}/small/*"))

    def __len__(self) -> int:
        return len(self.paths) * 50

    def __getitem__(self, i: int) -> torch.Tensor:
        with open(self.paths[i % len(self.paths)], "rb") as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)


class Packed(IterableDataset):
    """The same samples one behind the other in one file, read in blocks of a megabyte."""

    def __iter__(self):
        worker = get_worker_info()
        with open(f"{DATA}/big.bin", "rb", buffering=0) as f:
            f.seek(worker.id * (40 << 20))
            while True:
                block = f.read(1 << 20)
                if len(block) < 1 << 20:
                    f.seek(0)
                for at in range(0, len(block) - 12000, 12000):
                    yield torch.frombuffer(bytearray(block[at:at + 12000]), dtype=torch.uint8)


if __name__ == "__main__":
    torch.manual_seed(SEED)
    step, steps, started = vary(0.01), 0, None
    packed = os.environ.get("ZOO_PACKED") == "1"
    for batch in DataLoader(Packed() if packed else Files(), batch_size=8, num_workers=2, shuffle=None if packed else True):
        started = started or time.monotonic()
        time.sleep(step)
        steps += 1
        if not running(started):
            break
    say_rate(steps, started)
