"""Keyword spotting as in the tutorial: waveforms of one second, padded and turned into MFCCs in collate_fn, num_workers=0."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from script_common import again_and_again, parse
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, WINDOW, HOP, MELS = 16000, 400, 160, 40


def mel_filters():
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), MELS + 2)
    bins = np.floor((WINDOW + 1) * 700 * (10 ** (mel / 2595) - 1) / RATE).astype(int)
    filters = np.zeros((MELS, WINDOW // 2 + 1), dtype=np.float32)
    for m in range(MELS):
        left, middle, right = bins[m:m + 3]
        filters[m, left:middle + 1] = np.linspace(0, 1, max(1, middle - left + 1))
        filters[m, middle:right + 1] = np.linspace(1, 0, max(1, right - middle + 1))
    return filters


FILTERS = mel_filters()
COSINES = np.cos(np.pi / MELS * np.outer(np.arange(20), np.arange(MELS) + 0.5)).astype(np.float32)


def mfcc(waveform):
    frames = np.lib.stride_tricks.sliding_window_view(waveform, WINDOW)[::HOP] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames)) ** 2
    return (COSINES @ np.log(power @ FILTERS.T + 1e-6).T).astype(np.float32)


class SpeechCommands(Dataset):
    def __init__(self):
        self.waveforms = np.random.default_rng(0).standard_normal((400, RATE)).astype(np.float32)

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        length = RATE - i % 7 * 500
        return self.waveforms[i % len(self.waveforms)][:length], i % 35


class M5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(20, 64, 5)
        self.conv2 = nn.Conv1d(64, 64, 5, stride=2)
        self.fc = nn.Linear(64, 35)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return F.log_softmax(self.fc(x.mean(dim=2)), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--num-workers", type=int, default=0)
    args, clock = parse(parser)

    def collate_fn(batch):
        with clock.work("collate"):
            features = [np.pad(waveform, (0, RATE - len(waveform))) for waveform, _ in batch]
            return torch.from_numpy(np.stack([mfcc(x) for x in features])), torch.tensor([label for _, label in batch])

    torch.manual_seed(0)
    loader = DataLoader(SpeechCommands(), batch_size=args.batch_size, shuffle=True, collate_fn=collate_fn, num_workers=args.num_workers,
                        worker_init_fn=clock.is_loader if args.num_workers else None)
    model = M5()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch_idx, (data, target) in enumerate(clock.timed(again_and_again(loader) if args.step_only else loader)):
        with clock.part("step"):
            loss = F.nll_loss(model(data), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch_idx % 20 == 0:
                print(f"Train [{batch_idx}]\tLoss: {loss.item():.6f}")
        if clock.is_over():
            break
    clock.write(args.truth)


if __name__ == "__main__":
    main()
