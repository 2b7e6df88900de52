"""Pillow is the oracle: what a batch holds equals what Pillow makes of the same files with the recorded draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from made_photos import photo
from PIL import Image, ImageOps

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All formats and modes, wrong names included."""
    folder = tmp_path_factory.mktemp("mixed")
    makers: dict[str, Any] = {
        "a.jpg": {}, "b.jpg": {"subsampling": 0}, "c.jpg": {"progressive": True}, "d.png": {}, "e.webp": {"lossless": True}, "f.webp": {},
    }
    for i, (name, options) in enumerate(makers.items()):
        photo(i, 61 + i, 93 - 2 * i).save(folder / name, **options)
    photo(7, 70, 80).convert("L").save(folder / "grey.jpg")
    photo(8, 70, 80).convert("CMYK").save(folder / "cmyk.jpg")
    photo(9, 70, 80).convert("P").save(folder / "palette.png")
    photo(10, 70, 80).convert("LA").save(folder / "grey_alpha.png")
    photo(11, 70, 80).save(folder / "really_a_png.jpg", format="PNG")
    return folder


def opened(path: Path) -> Image.Image:
    return Image.open(path).convert("RGB")


def cropped(image: Image.Image, draw: dict[str, Any]) -> Image.Image:
    return image.crop((draw["left"], draw["top"], draw["left"] + draw["width"], draw["top"] + draw["height"]))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_random_resized_crops_and_flips_equal_pillows(mixed: Path, interpolation: str) -> None:
    transforms = [fb.RandomResizedCrop((40, 56), interpolation=interpolation), fb.RandomHorizontalFlip(), fb.RandomVerticalFlip(0.3)]
    flips = set()
    with fb.Loader(mixed, batch_size=4, shuffle=True, transforms=transforms, layout="NHWC", framework="numpy") as loader:
        for batch in (batch for _ in range(3) for batch in loader):
            for pixels, key, draw in zip(batch[0], batch.sample_keys, batch.draws, strict=True):
                image = cropped(opened(mixed / key), draw).resize((56, 40), FILTERS[interpolation])
                image = ImageOps.mirror(image) if draw["hflip"] else image
                image = ImageOps.flip(image) if draw["vflip"] else image
                assert np.array_equal(pixels, np.asarray(image)), (key, draw)
                flips.add((draw["hflip"], draw["vflip"]))
    assert len(flips) > 2


def test_the_usual_evaluation_pipeline_equals_pillows(mixed: Path) -> None:
    with fb.Loader(mixed, batch_size=3, transforms=[fb.Resize(48), fb.CenterCrop(40)], layout="NHWC", framework="numpy") as loader:
        for batch in loader:
            for pixels, key in zip(batch[0], batch.sample_keys, strict=True):
                image = opened(mixed / key)
                w, h = image.size
                size = (int(48 * w / h), 48) if h <= w else (48, int(48 * h / w))
                image = image.resize(size, Image.Resampling.BILINEAR)
                top, left = round((size[1] - 40) / 2.0), round((size[0] - 40) / 2.0)
                assert np.array_equal(pixels, np.asarray(image.crop((left, top, left + 40, top + 40)))), key


def test_grey_equals_pillows(mixed: Path) -> None:
    with fb.Loader(mixed, transforms=[fb.Resize((32, 32)), fb.Grayscale()], layout="NHWC", framework="numpy") as loader:
        for batch in loader:
            image = opened(mixed / batch.sample_keys[0]).resize((32, 32), Image.Resampling.BILINEAR).convert("L")
            assert np.array_equal(batch[0][0], np.repeat(np.asarray(image)[:, :, None], 3, 2))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_normalize_is_torchs_arithmetic_in_float32(photos: Path, layout: str, dtype: str) -> None:
    normalize = fb.Normalize.imagenet()
    plain = {"transforms": [fb.CenterCrop(16)], "framework": "numpy", "batch_size": 8}
    done = {**plain, "transforms": [fb.CenterCrop(16), normalize], "layout": layout, "dtype": dtype}
    mean, std = (np.asarray(x, np.float32)[:, None, None] for x in (normalize.mean, normalize.std))
    with fb.Loader(photos, **plain) as one, fb.Loader(photos, **done) as other:  # type: ignore[arg-type]
        for (pixels, _), (values, _) in zip(one, other, strict=True):
            expected = ((pixels.astype(np.float32) / np.float32(255) - mean) / std).astype(dtype)
            assert np.array_equal(values if layout != "NHWC" else values.transpose(0, 3, 1, 2), expected)


def test_bfloat16_is_float32_rounded_as_torch_rounds(photos: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    arguments = {"transforms": [fb.RandomResizedCrop(16), fb.Normalize.imagenet()], "framework": "torch", "batch_size": 8}
    with fb.Loader(photos, **arguments) as one, fb.Loader(photos, dtype="bfloat16", **arguments) as other:  # type: ignore[arg-type]
        for (full, _), (half, _) in zip(one, other, strict=True):
            assert half.dtype == torch.bfloat16 and torch.equal(full.to(torch.bfloat16), half)


def test_without_transforms_the_files_pixels_come_as_they_are(tmp_path: Path) -> None:
    for i in range(5):
        photo(i, 33, 47).save(tmp_path / f"{i}.png")
    with fb.Loader(tmp_path, batch_size=2, layout="NHWC", framework="numpy") as loader:
        for batch in loader:
            for pixels, key in zip(batch[0], batch.sample_keys, strict=True):
                assert np.array_equal(pixels, np.asarray(opened(tmp_path / key)))


def test_exif_orientation_is_applied_when_asked_for(tmp_path: Path) -> None:
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        photo(orientation, 40, 60).save(tmp_path / f"{orientation}.jpg", exif=exif)
    with fb.Loader(tmp_path, transforms=fb.Resize((20, 30)), layout="NHWC", framework="numpy") as off, \
            fb.Loader(tmp_path, transforms=fb.Resize((20, 30)), layout="NHWC", framework="numpy", exif=True) as on:
        for turned, plain in zip(on, off, strict=True):
            image = Image.open(tmp_path / plain.sample_keys[0])
            for batch, shown in ((plain, image), (turned, ImageOps.exif_transpose(image))):
                assert np.array_equal(batch[0][0], np.asarray(shown.convert("RGB").resize((30, 20), Image.Resampling.BILINEAR)))
