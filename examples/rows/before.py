"""A classifier on the rows of one HDF5 file: features and labels, large batches in random order.

    python before.py FILE.h5 [EPOCHS]
"""

import sys

import h5py
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 1024


class Rows(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path) as file:
            self.count = len(file["labels"])

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if self.file is None:  # each worker has to open it for itself
            self.file = h5py.File(self.path)
        return torch.from_numpy(self.file["features"][i]), int(self.file["labels"][i])


def main(path, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(Rows(path), batch_size=BATCH, shuffle=True, num_workers=2, persistent_workers=True)
    for epoch in range(epochs):
        seen = right = 0
        for features, labels in loader:
            scores = model(features)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(labels)
            right += (scores.argmax(1) == labels).sum().item()
        print(f"epoch {epoch}: {len(loader)} batches, {seen} rows, {right / seen:.1%} right")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
