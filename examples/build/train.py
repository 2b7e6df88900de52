"""A classifier of sounds from a built file: rows straight from HDF5 into batches, with the live line.

    fullbore build RECORDINGS -o train.h5 --log-mel 64 --length 0.5s --split 80/20
    python train.py train.h5 [EPOCHS]
"""

import sys

import fullbore as fb
import h5py
import torch
from torch import nn


def main(path, epochs):
    with h5py.File(path) as f:
        classes, (mels, frames) = f["classes"].asstr()[:], f["features"].shape[1:]
        splits = {name: range(*f.attrs[f"rows_{name}"]) for name in ("train", "val")}
    norm = fb.Normalize([-40.0], [20.0])
    train, val = (fb.Loader(path, batch_size=32, shuffle=name == "train", seed=0, fields=["features", "labels"], indices=rows,
                            transforms=[norm]) for name, rows in splits.items())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(mels * frames, 64), nn.ReLU(), nn.Linear(64, len(classes)))
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    for epoch in range(epochs):
        for features, labels in train:
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum((model(features).argmax(1) == labels).sum().item() for features, labels in val)
        print(f"epoch {epoch}: loss {loss.item():.4f}, right {right} of {val.sample_count} | {train.status_line()}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
