"""A small classifier with Lightning; checkpoints every other step, and goes on from one.

    python after.py FOLDER CHECKPOINTS [--devices N] [--steps N] [--resume FILE]
"""

import argparse

import fullbore as fb
import lightning as L
import torch
from fullbore.torch import ForLightning
from torch import nn


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
    loader = fb.Loader(options.folder, batch_size=4, shuffle=True, transforms=[fb.Resize((32, 32)), fb.Normalize([0.5], [0.25])])
    model = Classifier(len(loader.classes))
    checkpoints = L.pytorch.callbacks.ModelCheckpoint(options.checkpoints, filename="{step}", every_n_train_steps=2, save_top_k=-1)
    trainer = L.Trainer(max_epochs=2, max_steps=options.steps, accelerator="cpu", devices=options.devices, callbacks=[checkpoints],
                        strategy="ddp" if options.devices > 1 else "auto", logger=False, enable_progress_bar=False)
    trainer.fit(model, ForLightning(loader), ckpt_path=options.resume)
    print(f"{trainer.global_step} steps, epoch {trainer.current_epoch}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("checkpoints")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--resume")
    main(parser.parse_args())
