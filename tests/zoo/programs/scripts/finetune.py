"""Fine-tuning with gradient checkpointing that saves model and optimizer every few steps, synchronously, as trainers do by default."""

import argparse
import os

import torch
from script_common import again_and_again, parse
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(8000, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(4))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x.mean(dim=1))


def save(args, model, optimizer, step):
    path = args.out / "checkpoint.pt"
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    with open(path, "rb") as f:
        os.fsync(f.fileno())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--save-steps", type=int, default=15)
    args, clock = parse(parser)
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randint(0, 8000, (20_000, 32)), torch.randint(0, 2, (20_000,)))
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
    model = Model(384)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if args.step_only:
        loader, args.save_steps = again_and_again(loader), 0
    is_over, step = False, 0
    while not is_over:
        for tokens, labels in clock.timed(loader):
            with clock.part("step"):
                loss = nn.functional.cross_entropy(model(tokens), labels)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            step += 1
            if args.save_steps and step % args.save_steps == 0:
                with clock.part("checkpoint"):
                    save(args, model, optimizer, step)
            is_over = clock.is_over()
            if is_over:
                break
    clock.write(args.truth)


if __name__ == "__main__":
    main()
