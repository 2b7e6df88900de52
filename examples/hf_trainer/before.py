"""A small vision transformer with the Hugging Face Trainer; checkpoints every other step, and goes on from the last one.

    python before.py FOLDER CHECKPOINTS [--steps N] [--resume]        torchrun: the same
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification


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
        return {"pixel_values": (pixels - 0.5) / 0.25, "labels": label}


def main(options):
    data = Photos(options.folder)
    model = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                intermediate_size=64, num_labels=len(data.classes)))
    arguments = TrainingArguments(options.checkpoints, num_train_epochs=2, max_steps=options.steps, per_device_train_batch_size=4,
                                  save_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, dataloader_num_workers=2,
                                  remove_unused_columns=False)
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train(resume_from_checkpoint=options.resume)
    print(f"{trainer.state.global_step} steps, epoch {trainer.state.epoch}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("checkpoints")
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--resume", action="store_true")
    main(parser.parse_args())
