"""Makes a few short WAV files for before.py and after.py: tones of different pitch and length, 16 kHz.

    python make_data.py FOLDER [FILES]
"""

import sys
import wave
from pathlib import Path

import numpy as np


def main(folder, files):
    rng = np.random.default_rng(0)
    for i in range(files):
        n, pitch = int(rng.integers(6_000, 12_000)), rng.uniform(100, 3000)
        sound = 0.4 * np.sin(2 * np.pi * pitch * np.arange(n) / 16_000) + rng.normal(0, 0.05, n)
        path = Path(folder, f"speaker{i % 4}", f"{i:05d}.wav")
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as out:
            out.setparams((1, 2, 16_000, n, "NONE", ""))
            out.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 400)
