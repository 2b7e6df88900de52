"""Head pose from faces: a small network learns pitch, yaw and roll, which lie in a .mat file beside each picture.

    python after.py FOLDER [EPOCHS]
"""

import sys
from pathlib import Path

import fullbore as fb
import numpy as np
import torch
from scipy.io import loadmat
from torch import nn


def pose_of(path):
    return loadmat(Path(path).with_suffix(".mat"))["Pose_Para"][0, :3].astype(np.float32)  # pitch, yaw, roll


def main(folder, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 7 * 7, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    flip = fb.RandomHorizontalFlip(negate=("label[1]", "label[2]"))
    loader = fb.Loader(folder, labels=pose_of, batch_size=16, shuffle=True, transforms=[fb.Resize((64, 64)), flip, fb.Normalize.imagenet()])
    for epoch in range(epochs):
        losses = []
        for images, poses in loader:
            loss = nn.functional.mse_loss(model(images), poses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: {len(loader)} batches, loss {np.mean(losses):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
