"""Log-mel spectrograms of half a second of sound (24,000 samples to 64 x 94) from memory, as Python programs make them.

    python bench/log_mel_peers.py [SECONDS]

One thread each. Prints one JSON object: recordings per second of CPU time. `bench/log_mel` is our kernel under the same conditions.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import librosa
import numpy as np
import scipy.fft
import torch

torch.set_num_threads(1)
BANK = librosa.filters.mel(sr=48000, n_fft=1024, n_mels=64)
BANK_T, WINDOW_T = torch.from_numpy(BANK), torch.hann_window(1024)
WINDOW = np.hanning(1025)[:-1].astype(np.float32)
SOUND = np.random.default_rng(0).uniform(-1, 1, (64, 24000)).astype(np.float32)


def by_librosa() -> int:
    librosa.power_to_db(librosa.feature.melspectrogram(y=SOUND[0], sr=48000, n_fft=1024, hop_length=256, n_mels=64), top_db=None)
    return 1


def by_torch() -> int:
    s = torch.stft(torch.from_numpy(SOUND), 1024, 256, 1024, WINDOW_T, True, "constant", False, True, True)
    10 * torch.log10(torch.clamp(BANK_T @ (s.real**2 + s.imag**2), min=1e-10))
    return len(SOUND)


def by_scipy() -> int:
    padded = np.pad(SOUND[:8], ((0, 0), (512, 512)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, 1024, axis=1)[:, ::256]
    s = scipy.fft.rfft(frames * WINDOW, axis=-1)
    10 * np.log10(np.maximum((s.real**2 + s.imag**2) @ BANK.T, 1e-10))
    return 8


def rate(run: Callable[[], int], seconds: float) -> int:
    run()
    start, count = time.process_time(), 0
    while time.process_time() - start < seconds:
        count += run()
    return round(count / (time.process_time() - start))


if __name__ == "__main__":
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    print(json.dumps({"recordings_per_cpu_s": {f.__name__.removeprefix("by_"): rate(f, limit) for f in (by_librosa, by_torch, by_scipy)}}))
