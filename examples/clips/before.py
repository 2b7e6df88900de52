"""Features of many short recordings: half a second of each, cut or padded, through a spectrogram on the accelerator, kept by file name.

    python before.py FOLDER OUT.npz
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import soundfile
import torch

BATCH, SAMPLES, THREADS = 64, 8000, 4


def read(path):
    values = soundfile.read(path, frames=SAMPLES, dtype="float32")[0]
    return np.pad(values, (0, SAMPLES - len(values)))


def batches(folder):
    paths = sorted(Path(folder).rglob("*.wav"))
    groups = [paths[at:at + BATCH] for at in range(0, len(paths), BATCH)]
    with ThreadPoolExecutor(THREADS) as pool:
        for clips, group in zip(pool.map(lambda group: np.stack([read(path) for path in group]), groups), groups, strict=True):
            yield torch.from_numpy(clips), [str(path.relative_to(folder)) for path in group]


def main(folder, out):
    window, features, keys = torch.hann_window(512), [], []
    for clips, names in batches(folder):
        power = torch.stft(clips, 512, 256, window=window, return_complex=True).abs().square()
        features.append(power.mean(2).clamp(min=1e-10).log().numpy())
        keys += names
    features = np.concatenate(features)
    np.savez(out, features=features, keys=keys)
    print(f"{len(keys)} recordings, features {features.shape[0]} x {features.shape[1]}, mean {features.mean():.5f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
