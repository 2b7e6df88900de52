"""Head pose from faces: a small network learns pitch, yaw and roll, which lie in a .mat file beside each picture.

    python before.py FOLDER [EPOCHS]
"""

import random
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.io import loadmat
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def pose_of(path):
    return loadmat(Path(path).with_suffix(".mat"))["Pose_Para"][0, :3].astype(np.float32)  # pitch, yaw, roll


class Faces(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).rglob("*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        image = Image.open(self.paths[i]).convert("RGB").resize((64, 64), Image.Resampling.BILINEAR)
        pose = pose_of(self.paths[i])
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            pose *= np.array([1, -1, -1], np.float32)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - MEAN) / STD, torch.from_numpy(pose)


def main(folder, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 7 * 7, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(Faces(folder), batch_size=16, shuffle=True, num_workers=2)
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
