"""A small classifier with Accelerate; saves everything in the middle of an epoch, and goes on from there.

    python after.py FOLDER CHECKPOINT [--steps N] [--resume]        accelerate launch, torchrun: the same
"""

import argparse

import fullbore as fb
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn


def main(options):
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    loader = fb.Loader(options.folder, batch_size=4, shuffle=True, transforms=[fb.Resize((32, 32)), fb.Normalize([0.5], [0.25])])
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(),
                          nn.Linear(32 * 7 * 7, len(loader.classes)))
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 1e-3))
    accelerator.register_for_checkpointing(loader)
    steps = first_epoch = 0
    if options.resume:
        accelerator.load_state(options.checkpoint)
        first_epoch = loader.state_dict()["epoch"]
    for epoch in range(first_epoch, 2):
        for images, labels in (batch.to(accelerator.device) for batch in loader):
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
