"""A small classifier with Lightning; checkpoints every other step, and goes on from one.

    python before.py FOLDER CHECKPOINTS [--devices N] [--steps N] [--resume FILE]
"""

import argparse
from pathlib import Path

import lightning as L
import numpy as np
import torch
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


class Classifier(L.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(),
                                 nn.Linear(32 * 7 * 7, classes))

    def training_step(self, batch, _):
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def main(options):
    L.seed_everything(0)
    data = Photos(options.folder)
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2)
    model = Classifier(len(data.classes))
    checkpoints = L.pytorch.callbacks.ModelCheckpoint(options.checkpoints, filename="{step}", every_n_train_steps=2, save_top_k=-1)
    trainer = L.Trainer(max_epochs=2, max_steps=options.steps, accelerator="cpu", devices=options.devices, callbacks=[checkpoints],
                        strategy="ddp" if options.devices > 1 else "auto", logger=False, enable_progress_bar=False)
    trainer.fit(model, loader, ckpt_path=options.resume)
    print(f"{trainer.global_step} steps, epoch {trainer.current_epoch}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("checkpoints")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--resume")
    main(parser.parse_args())
