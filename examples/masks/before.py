"""Segmentation: a small network learns which pixels are disc, square and ground, from pictures and their masks.

    python before.py PAIRS.csv [EPOCHS]
"""

import csv
import random
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, SIZE = 16, 48


class Pairs(Dataset):
    def __init__(self, path):
        self.folder = Path(path).parent
        self.rows = list(csv.DictReader(open(path)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        image = Image.open(self.folder / self.rows[i]["image"]).convert("RGB")
        mask = Image.open(self.folder / self.rows[i]["mask"])
        left, top = random.randint(0, image.width - SIZE), random.randint(0, image.height - SIZE)  # the same for both
        image, mask = (picture.crop((left, top, left + SIZE, top + SIZE)) for picture in (image, mask))
        if random.random() < 0.5:
            image, mask = (picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for picture in (image, mask))
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - 0.5) / 0.5, torch.from_numpy(np.array(mask))


def main(path, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 1))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    loader = DataLoader(Pairs(path), BATCH, shuffle=True, num_workers=2)
    for epoch in range(epochs):
        seen = right = 0
        for images, masks in loader:
            scores = model(images)
            loss = nn.functional.cross_entropy(scores, masks.long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += masks.numel()
            right += (scores.argmax(1) == masks).sum().item()
        print(f"epoch {epoch}: {len(loader)} batches, {right / seen:.1%} of the pixels right")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
