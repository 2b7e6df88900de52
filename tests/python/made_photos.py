"""Small photographs, made with Pillow. A module of its own: there is more than one conftest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def photo(seed: int, height: int, width: int) -> Image.Image:
    """Something with edges and gradients: a coarse random picture, enlarged."""
    coarse = np.random.default_rng(seed).integers(0, 256, (max(2, height // 12), max(2, width // 12), 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def make_photos(folder: Path, count: int, classes: tuple[str, ...] = ("cat", "dog"), suffix: str = ".jpg", side: int = 80) -> Path:
    """`count` files of different sizes, spread over the classes: cat/000.jpg, dog/001.jpg, cat/002.jpg ..."""
    for i in range(count):
        path = folder / classes[i % len(classes)] / f"{i:03}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(i, side * 3 // 4 + i % 7, side + i % 5).save(path)
    return folder
