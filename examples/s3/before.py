"""Photographs in a bucket, a class per folder: a small network learns the classes.

    python before.py s3://BUCKET/PREFIX [EPOCHS] [STEP_MS]

A step takes STEP_MS, as if an accelerator were busy so long; the rest of the time it waits for data.
"""

import io
import sys
import time

import boto3
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Photos(Dataset):
    def __init__(self, url):
        self.bucket, _, prefix = url.removeprefix("s3://").partition("/")
        pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix + "/")
        self.keys = sorted(o["Key"] for page in pages for o in page["Contents"] if o["Key"].endswith(".jpg"))
        self.names = sorted({key.split("/")[-2] for key in self.keys})
        self.client = None

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, i):
        self.client = self.client or boto3.client("s3")  # one for each worker
        body = self.client.get_object(Bucket=self.bucket, Key=self.keys[i])["Body"].read()
        image = Image.open(io.BytesIO(body)).convert("RGB").resize((96, 96), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - MEAN) / STD, self.names.index(self.keys[i].split("/")[-2])


def main(url, epochs, step_ms):
    torch.manual_seed(0)
    loader = DataLoader(Photos(url), batch_size=32, shuffle=True, num_workers=4, prefetch_factor=4)
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
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2, float(sys.argv[3]) if len(sys.argv) > 3 else 50)
