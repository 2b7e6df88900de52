"""A small classifier with Accelerate; saves everything in the middle of an epoch, and goes on from there.

    python before.py FOLDER CHECKPOINT [--steps N] [--resume]        accelerate launch, torchrun: the same
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, folder):
        self.classes = sorted(p.name for p in Path(folder).iterdir() if p.is_dir())
        self.samples = [(path, label) for label, name in enumerate(self.classes) for path in sorted(Path(folder, name).rglob("*.jpg"))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        image = Image.open(path).convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - 0.5) / 0.25, label


def main(options):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    data = Photos(options.folder)
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(),
                          nn.Linear(32 * 7 * 7, len(data.classes)))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 1e-3), loader)
    steps = first_epoch = 0
    if options.resume:
        accelerator.load_state(options.checkpoint)
    for epoch in range(first_epoch, 2):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps == options.steps:
                accelerator.save_state(options.checkpoint)
                return print(f"stopped after {steps} steps")
    print(f"{steps} steps")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("checkpoint")
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--resume", action="store_true")
    main(parser.parse_args())
