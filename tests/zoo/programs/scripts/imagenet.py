"""Training on a folder of photos with average meters, as ImageNet examples are: random crops by Pillow in two workers."""

import argparse
import random
import time

import numpy as np
import torch
from PIL import Image
from script_common import again_and_again, parse
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ImageFolder(Dataset):
    def __init__(self, root, clock, length=100_000):
        self.paths, self.clock, self.length = sorted(root.rglob("*.jpg")), clock, length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        with self.clock.work("decode"), open(self.paths[i % len(self.paths)], "rb") as f:
            return self.transform(Image.open(f).convert("RGB")), i % 10

    def transform(self, image):
        side = random.randint(120, min(image.size))
        left, top = random.randint(0, image.width - side), random.randint(0, image.height - side)
        image = image.resize((224, 224), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        x = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)
        return (x - 0.45) / 0.225


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt, self.val, self.sum, self.count = name, fmt, 0, 0, 0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n

    def __str__(self):
        return f"{self.name} {self.val:{self.fmt[1:]}} ({self.sum / self.count:{self.fmt[1:]}})"


class ProgressMeter:
    def __init__(self, meters, prefix=""):
        self.meters, self.prefix = meters, prefix

    def display(self, batch):
        print("\t".join([f"{self.prefix}[{batch}]", *map(str, self.meters)]))


def train(args, loader, model, criterion, optimizer, clock):
    batch_time, data_time, losses = AverageMeter("Time", ":6.3f"), AverageMeter("Data", ":6.3f"), AverageMeter("Loss", ":.4e")
    progress = ProgressMeter([batch_time, data_time, losses], prefix="Epoch: [0]")
    end = time.time()
    for i, (images, target) in enumerate(clock.timed(loader)):
        data_time.update(time.time() - end)
        with clock.part("step"):
            loss = criterion(model(images), target)
            losses.update(loss.item(), images.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            progress.display(i + 1)
        if clock.is_over():
            return


def main():
    parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
    parser.add_argument("-j", "--workers", type=int, default=2)
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("-p", "--print-freq", type=int, default=10)
    args, clock = parse(parser)
    loader = DataLoader(ImageFolder(args.data / "photos", clock), batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
                        pin_memory=True, worker_init_fn=clock.is_loader if args.workers else None)
    model = nn.Sequential(nn.Conv2d(3, 8, 7, 4), nn.ReLU(), nn.Conv2d(8, 16, 3, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    train(args, again_and_again(loader) if args.step_only else loader, model, nn.CrossEntropyLoss(), optimizer, clock)
    clock.write(args.truth)


if __name__ == "__main__":
    main()
