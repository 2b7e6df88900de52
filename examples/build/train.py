"""A classifier of sounds from a built file: rows straight from HDF5 into batches, with the live line.

    fullbore build RECORDINGS -o train.h5 --log-mel 64 --length 0.5s --split 80/20
    python train.py train.h5 [EPOCHS]

from_wavs.py goes the whole way, from the recordings on.
"""

import sys

import fullbore as fb
import h5py
import torch
from torch import nn


def main(path, epochs):
    with h5py.File(path) as f:
        classes, mels = f["classes"].asstr()[:], f["features"].shape[1]
        splits = {name: range(*f.attrs[f"rows_{name}"]) for name in ("train", "val")}
    norm = fb.Normalize([-40.0], [20.0])
    train, val = (fb.Loader(path, batch_size=32, shuffle=name == "train", seed=0, fields=["features", "labels"], indices=rows,
                            transforms=[norm]) for name, rows in splits.items())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(mels, 64, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(64, 128, 5, padding=2), nn.ReLU(),
                          nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(512, len(classes)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    train.status_line()  # from the first one on a thread looks at the machine
    for epoch in range(epochs):
        losses = []
        for features, labels in train:
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            right = sum((model(features).argmax(1) == labels).sum().item() for features, labels in val)
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}, right {right} of {val.sample_count} | {train.status_line()}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
