"""Segmentation: a small network learns which pixels are disc, square and ground, from pictures and their masks.

    python after.py PAIRS.csv [EPOCHS]
"""

import sys

import fullbore as fb
import torch
from torch import nn

BATCH, SIZE = 16, 48
STEPS = [fb.RandomCrop(SIZE), fb.RandomHorizontalFlip(), fb.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]  # one draw moves picture and mask


def main(path, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 1))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    loader = fb.Loader(path, fields=("image", "mask"), batch_size=BATCH, shuffle=True, transforms=STEPS)
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
