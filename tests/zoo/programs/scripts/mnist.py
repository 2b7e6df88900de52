"""The first example everybody runs: MNIST. Training is loaded by a worker that starts anew with each epoch, testing by the main thread."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from script_common import again_and_again, parse
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, 1)
        self.conv2 = nn.Conv2d(16, 32, 3, 2)
        self.fc1 = nn.Linear(4608, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), dim=1)


class Digits(Dataset):
    """Random ones; what is done to each is what torchvision does: from array to picture to tensor, normalised."""

    def __init__(self, count, clock):
        generator = np.random.default_rng(0)
        self.images = generator.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        self.labels = generator.integers(0, 10, count)
        self.clock = clock

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        with self.clock.work("decode"):
            image = Image.fromarray(self.images[i]).rotate(5)
            x = torch.from_numpy(np.array(image)).float().div(255)
            return x.sub(0.1307).div(0.3081).unsqueeze(0), int(self.labels[i])


def train(args, model, loader, optimizer, epoch, clock):
    model.train()
    for batch_idx, (data, target) in enumerate(clock.timed(loader, "next", "next" if args.persistent else "restart")):
        with clock.part("step"):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            if batch_idx % args.log_interval == 0:
                print(f"Train Epoch: {epoch} [{batch_idx * len(data)}]\tLoss: {loss.item():.6f}")
        if clock.is_over():
            return True
    return False


def test(model, loader, clock):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in clock.timed(loader, "validation", "validation"):
            with clock.part("validation step"):
                correct += model(data).argmax(dim=1).eq(target).sum().item()
    print(f"Test set: Accuracy: {correct}/{len(loader.dataset)}")


def main():
    parser = argparse.ArgumentParser(description="PyTorch MNIST Example")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--test-workers", type=int, default=0)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--no-test", action="store_true")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--log-interval", type=int, default=10)
    args, clock = parse(parser)
    torch.manual_seed(1)
    train_loader = DataLoader(Digits(60 * args.batch_size, clock), batch_size=args.batch_size, shuffle=True, num_workers=args.num_workers,
                              worker_init_fn=clock.is_loader, persistent_workers=args.persistent and args.num_workers > 0)
    test_loader = DataLoader(Digits(2560, clock), batch_size=256, num_workers=args.test_workers)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    if args.step_only:
        train_loader, args.no_test, args.persistent = again_and_again(train_loader), True, True
    epoch = 1
    while not train(args, model, train_loader, optimizer, epoch, clock):
        if not args.no_test:
            test(model, test_loader, clock)
        epoch += 1
    clock.write(args.truth)


if __name__ == "__main__":
    main()
