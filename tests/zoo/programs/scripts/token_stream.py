"""Pre-training on an endless stream: an IterableDataset tokenises files as they come; each worker has every n-th file."""

import argparse
import itertools

import torch
from script_common import again_and_again, parse
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, folder, block, clock):
        self.paths, self.block, self.clock = sorted(folder.iterdir()), block, clock

    def tokens(self, path):
        with self.clock.work("read"), open(path, "rb") as f:
            text = f.read()
        with self.clock.work("decode"):
            return [(text[i] << 3 ^ text[i + 1]) % 512 for i in range(len(text) - 1)]

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        buffer = []
        for path in itertools.cycle(self.paths[first::step]):
            buffer += self.tokens(path)
            while len(buffer) > self.block:
                yield torch.tensor(buffer[:self.block + 1])
                buffer = buffer[self.block:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--block", type=int, default=64)
    args, clock = parse(parser)
    loader = DataLoader(Stream(args.data / "small", args.block, clock), batch_size=args.batch_size, num_workers=args.num_workers,
                        worker_init_fn=clock.is_loader if args.num_workers else None)
    model = nn.Sequential(nn.Embedding(512, 192), nn.Linear(192, 768), nn.GELU(), nn.Linear(768, 192), nn.Linear(192, 512))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, tokens in enumerate(clock.timed(again_and_again(loader) if args.step_only else loader)):
        with clock.part("step"):
            logits = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")
        if clock.is_over():
            break
    clock.write(args.truth)


if __name__ == "__main__":
    main()
