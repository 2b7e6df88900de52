"""Features of many short recordings: half a second of each, cut or padded, through a spectrogram on the accelerator, kept by file name.

    python after.py FOLDER OUT.npz
"""

import sys

import fullbore as fb
import numpy as np
import torch

BATCH, SAMPLES = 64, 8000


def main(folder, out):
    window, features, keys = torch.hann_window(512), [], []
    for batch in fb.Loader(folder, batch_size=BATCH, transforms=[fb.CropOrPad(SAMPLES)]):
        power = torch.stft(batch[0], 512, 256, window=window, return_complex=True).abs().square()
        features.append(power.mean(2).clamp(min=1e-10).log().numpy())
        keys += batch.sample_keys
    features = np.concatenate(features)
    np.savez(out, features=features, keys=keys)
    print(f"{len(keys)} recordings, features {features.shape[0]} x {features.shape[1]}, mean {features.mean():.5f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
