"""Makes recordings that are a little like speech: three "words" of two vowels each, by speakers of different pitch and pace, in noise.

    python make_data.py FOLDER [FILES]
"""

import sys
import wave
from pathlib import Path

import numpy as np

RATE = 16_000
VOWELS = {"a": (800, 1200), "e": (450, 2000), "i": (300, 2300), "o": (500, 900), "u": (320, 800)}  # the two lowest resonances, Hz
WORDS = {"mali": "ai", "sofu": "ou", "kebo": "eo"}


def vowel(name, pitch, seconds):
    """Harmonics of the pitch, as loud as the resonances let them be."""
    t = np.arange(int(seconds * RATE)) / RATE
    harmonics = np.arange(pitch, 4000, pitch)
    loud = sum(np.exp(-(((harmonics - f) / 150) ** 2)) for f in VOWELS[name]) + 0.02
    return (loud[:, None] * np.sin(2 * np.pi * harmonics[:, None] * t)).sum(axis=0) * np.hanning(len(t))


def word(name, rng):
    pitch, pace = rng.uniform(90, 250), rng.uniform(0.8, 1.2)
    sound = np.concatenate([np.zeros(int(rng.uniform(0, 0.05) * RATE)), *(vowel(v, pitch, 0.2 * pace) for v in WORDS[name])])
    return 0.5 * sound / np.abs(sound).max() + rng.normal(0, 0.02, len(sound))


def main(folder, files):
    rng = np.random.default_rng(0)
    for i in range(files):
        name = list(WORDS)[i % len(WORDS)]
        path = Path(folder, name, f"{i:05d}.wav")
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as out:
            out.setparams((1, 2, RATE, 0, "NONE", ""))
            out.writeframes((np.clip(word(name, rng), -1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 600)
