"""Recordings for tests: made, small, and reproducible."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

RATE = 16000


def sound(seed: int, samples: int) -> np.ndarray:
    """A tone in noise, from -1 to 1."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) / RATE
    return np.clip(0.4 * np.sin(2 * np.pi * (150 + 37 * seed % 4000) * t) + rng.normal(0, 0.1, samples), -1, 0.999)


def put(path: Path, seed: int, samples: int, *, rate: int = RATE, channels: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = np.stack([sound(seed + k, samples) for k in range(channels)], axis=1)
    with wave.open(str(path), "wb") as w:
        w.setnchannels(channels)
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes((data * 32767).astype("<i2").tobytes())
    return path


def folder(root: Path, count: int) -> Path:
    """Three classes; lengths from 0.3 to 0.7 seconds."""
    for i in range(count):
        put(root / ("cat", "dog", "owl")[i % 3] / f"{i:04d}.wav", i, 4800 + (i * 977) % 6400)
    return root
