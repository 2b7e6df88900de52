"""Features in an HDF5 file, a row per sample, opened lazily in each worker of a DataLoader; a multi-layer perceptron."""

import argparse

import h5py
import torch
from script_common import again_and_again, parse
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Features(Dataset):
    def __init__(self, path, clock):
        self.path, self.clock, self.rows = path, clock, None
        with h5py.File(path, "r") as f:
            self.length = len(f["x"])

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if self.rows is None:
            self.rows = h5py.File(self.path, "r")["x"]
        with self.clock.work("decode"):
            return torch.from_numpy(self.rows[i]), i % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    args, clock = parse(parser)
    loader = DataLoader(Features(args.data / "rows.h5", clock), batch_size=args.batch_size, shuffle=True, num_workers=args.num_workers,
                        worker_init_fn=clock.is_loader if args.num_workers else None, persistent_workers=args.num_workers > 0)
    model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters())
    if args.step_only:
        loader = again_and_again(loader)
    is_over = False
    while not is_over:
        for x, y in clock.timed(loader):
            with clock.part("step"):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            is_over = clock.is_over()
            if is_over:
                break
    clock.write(args.truth)


if __name__ == "__main__":
    main()
