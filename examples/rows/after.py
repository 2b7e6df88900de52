"""A classifier on the rows of one HDF5 file: features and labels, large batches in random order.

    python after.py FILE.h5 [EPOCHS]
"""

import sys

import fullbore as fb
import torch
from torch import nn

BATCH = 1024


def main(path, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = fb.Loader(path, fields=("features", "labels"), batch_size=BATCH, shuffle=True)
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
