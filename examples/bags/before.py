"""Multiple-instance learning on slide features: one HDF5 file per slide, a label per slide, attention over its patches.

    python before.py FOLDER LABELS.csv [EPOCHS]
"""

import csv
import sys
from pathlib import Path

import h5py
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = ("normal", "tumour")


class Slides(Dataset):
    def __init__(self, folder, table):
        with open(table, newline="") as file:
            self.slides = [(Path(folder, row["path"]), CLASSES.index(row["label"])) for row in csv.DictReader(file)]

    def __len__(self):
        return len(self.slides)

    def __getitem__(self, i):
        path, label = self.slides[i]
        with h5py.File(path) as file:
            return torch.from_numpy(file["features"][:]), label


def collate(bags):
    lengths = torch.tensor([len(features) for features, _ in bags])
    padding = [torch.zeros(lengths.max() - len(features), features.shape[1]) for features, _ in bags]
    values = torch.stack([torch.cat([features, zeros]) for (features, _), zeros in zip(bags, padding, strict=True)])
    mask = torch.arange(lengths.max()) < lengths[:, None]
    return values, mask, torch.tensor([label for _, label in bags])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.classify = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1)), nn.Linear(256, 2)

    def forward(self, values, mask):
        weights = self.score(values).squeeze(2).masked_fill(~mask, float("-inf")).softmax(1)
        return self.classify((weights[:, :, None] * values).sum(1))


def main(folder, table, epochs):
    torch.manual_seed(0)
    model = Attention()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    loader = DataLoader(Slides(folder, table), batch_size=4, shuffle=True, num_workers=2, collate_fn=collate)
    for epoch in range(epochs):
        seen = right = 0
        for values, mask, labels in loader:
            scores = model(values, mask)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(labels)
            right += (scores.argmax(1) == labels).sum().item()
        print(f"epoch {epoch}: {len(loader)} batches, {seen} slides, {right / seen:.1%} right")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2)
