"""The whole way, from a folder of recordings (class = first directory) to a trained model: log-mel into one HDF5 file, then training from
it.

    python from_wavs.py WAVS OUT.h5 [EPOCHS] [--command]

Features are computed by a function of our own, with torch, on whole batches; with --command by `fullbore build`, on all cores without
Python. A folder that is not there is made, with recordings a little like speech.
"""

import os
import subprocess
import sys

import fullbore as fb
import make_data
import torch
import train

SAMPLES, MELS, SPLIT = 8000, 64, (80, 20)


def log_mel(sound):
    """(batch, samples) -> (batch, mels, frames), in dB."""
    power = torch.stft(sound, 1024, 256, window=torch.hann_window(1024, device=sound.device), pad_mode="constant",
                       return_complex=True).abs() ** 2
    edges = 700 * (10 ** (torch.linspace(0, 2840, MELS + 2, device=sound.device) / 2595) - 1)  # up to 8 kHz
    bins = torch.linspace(0, 8000, 513, device=sound.device)
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return 10 * torch.log10((torch.minimum(up, down).clamp(min=0) @ power).clamp(min=1e-10))


def build(wavs, out):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    report = fb.build(wavs, out, fn=log_mel, batch=256, device=device, splits=SPLIT, transforms=[fb.Mono(), fb.CropOrPad(SAMPLES)],
                      framework="torch")
    print(report)


def build_by_command(wavs, out):
    shares = "/".join(map(str, SPLIT))
    subprocess.run(["fullbore", "build", wavs, "-o", out, "--log-mel", str(MELS), "--length", str(SAMPLES), "--mono", "--split", shares],
                   check=True)


def main(wavs, out, epochs, by_command):
    if not os.path.exists(wavs):
        make_data.main(wavs, 600)
    if not os.path.exists(out):
        (build_by_command if by_command else build)(wavs, out)
    train.main(out, epochs)


if __name__ == "__main__":
    plain = [argument for argument in sys.argv[1:] if argument != "--command"]
    main(plain[0], plain[1], int(plain[2]) if len(plain) > 2 else 20, "--command" in sys.argv)
