"""Photographs in a bucket, a class per folder: a small network learns the classes.

    python after.py s3://BUCKET/PREFIX [EPOCHS] [STEP_MS] [CACHE_FOLDER]

A step takes STEP_MS, as if an accelerator were busy so long; the rest of the time it waits for data.
"""

import sys
import time

import fullbore as fb
import torch
from torch import nn


def main(url, epochs, step_ms, cache_dir=None):
    torch.manual_seed(0)
    loader = fb.Loader(url, batch_size=32, shuffle=True, cache_dir=cache_dir, transforms=[fb.Resize((96, 96)), fb.Normalize.imagenet()])
    model = nn.Sequential(nn.Conv2d(3, 8, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 1000))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(epochs):
        since, busy, count = time.monotonic(), 0.0, 0
        for images, labels in loader:
            started = time.monotonic()
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(max(0.0, step_ms / 1e3 - (time.monotonic() - started)))
            busy, count = busy + time.monotonic() - started, count + len(labels)
        print(f"epoch {epoch}: {count} photos, {100 * busy / (time.monotonic() - since):.0f} % busy, loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2, float(sys.argv[3]) if len(sys.argv) > 3 else 50, *sys.argv[4:5])
