"""draft=True: JPEGs decoded at a reduced size first, equal to Pillow's draft() + resize; by name only."""

from __future__ import annotations

import io
from pathlib import Path

import fullbore as fb
import numpy as np
import pytest
from PIL import Image


def picture(width: int, height: int, seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (max(2, height // 37), max(2, width // 31), 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("draft")
    sizes = [(2000, 1500), (1600, 1201), (901, 1333), (640, 480), (333, 250), (100, 80), (1025, 1023), (1, 1), (17, 4000)]
    for i, (width, height) in enumerate(sizes):
        for k, sampling in enumerate((0, 1, 2)):
            options = {"quality": 88, "subsampling": sampling, "progressive": i % 3 == 2}
            picture(width, height, 10 * i + k).save(root / f"{i}-{k}.jpg", **options)
        picture(width, height, i).convert("L").save(root / f"{i}-grey.jpg", quality=88)
        picture(width, height, i).save(root / f"{i}.png")
    return root


def one_by_one(folder: Path, *transforms: fb.Transform) -> list[tuple[str, np.ndarray, dict[str, int]]]:
    found = []
    with fb.Loader(folder, batch_size=1, transforms=transforms, layout="NHWC", framework="numpy", on_error="skip") as loader:
        for batch in loader:
            found.append((batch.sample_keys[0], batch[0][0].copy(), dict(batch.draws[0])))
    return found


@pytest.mark.parametrize("size", [(64, 80), (224, 224), (300, 1000)])
def test_resize_equals_pillows_draft_and_resize(folder: Path, size: tuple[int, int]) -> None:
    for key, pixels, _ in one_by_one(folder, fb.Resize(size, draft=True)):
        image = Image.open(folder / key)
        image.draft("RGB", (size[1], size[0]))
        expected = np.asarray(image.convert("RGB").resize((size[1], size[0]), Image.Resampling.BILINEAR))
        assert np.array_equal(pixels, expected), key


def test_the_shorter_side_is_decided_by_the_full_image(folder: Path) -> None:
    for key, pixels, _ in one_by_one(folder, fb.Resize(96, draft=True), fb.CenterCrop(90)):
        image = Image.open(folder / key)
        width, height = image.size
        size = (96, int(96 * height / width)) if width <= height else (int(96 * width / height), 96)
        image.draft("RGB", size)
        resized = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
        left, top = int(round((resized.width - 90) / 2.0)), int(round((resized.height - 90) / 2.0))
        expected = np.asarray(resized.crop((left, top, left + 90, top + 90)))
        assert np.array_equal(pixels, expected), key


def test_a_random_crop_is_drawn_as_without_draft_and_cut_from_the_reduced_image(folder: Path) -> None:
    crop = {"size": 50, "scale": (0.3, 1.0)}
    plain = {key: draws for key, _, draws in one_by_one(folder, fb.RandomResizedCrop(**crop))}
    for key, pixels, draws in one_by_one(folder, fb.RandomResizedCrop(**crop, draft=True)):
        full = plain[key]
        image = Image.open(folder / key)
        scale = 1
        if key.endswith(".jpg"):
            most = min(full["height"] // 50, full["width"] // 50)
            scale = next((s for s in (8, 4, 2) if most >= s), 1)
        if scale > 1:
            image.draft("RGB", (image.width // scale, image.height // scale))
        top, left, height, width = (full[name] // scale for name in ("top", "left", "height", "width"))
        expected = image.convert("RGB").crop((left, top, left + width, top + height)).resize((50, 50), Image.Resampling.BILINEAR)
        assert np.array_equal(pixels, np.asarray(expected)), (key, full, draws)


def test_later_epochs_and_other_sizes_start_from_what_was_learnt_and_change_no_pixel(folder: Path) -> None:
    crops = [fb.RandomResizedCrop(70, scale=(0.1, 1.0), draft=True)]
    for transforms in ([fb.Resize((64, 80), draft=True)], crops, [fb.Resize((64, 80))]):
        first = one_by_one(folder, *transforms)
        for _ in range(2):
            for (key, pixels, draws), (again, same, drawn) in zip(first, one_by_one(folder, *transforms), strict=True):
                assert key == again and draws == drawn and np.array_equal(pixels, same), key


def test_a_reduced_decode_leaves_checkpoints_and_uses_them(tmp_path: Path) -> None:
    for i in range(4):
        picture(1600, 1200, i).save(tmp_path / f"{i}.jpg", quality=90)
    with fb.Loader(tmp_path, transforms=[fb.Resize((64, 64), draft=True)], framework="numpy") as loader:
        for _ in range(3):
            for _batch in loader:
                pass
        regions = loader.stats()["regions"]
    assert regions["by_fallback"] == 0 and regions["plainly"] >= 4 and regions["by_checkpoints"] >= 4, regions


def test_without_draft_nothing_changes(folder: Path) -> None:
    for key, pixels, _ in one_by_one(folder, fb.Resize((64, 80))):
        expected = np.asarray(Image.open(folder / key).convert("RGB").resize((80, 64), Image.Resampling.BILINEAR))
        assert np.array_equal(pixels, expected), key


def test_a_truncated_file_is_refused_in_draft_too(tmp_path: Path) -> None:
    whole = io.BytesIO()
    picture(1600, 1200, 5).save(whole, "JPEG", quality=90)
    (tmp_path / "cut.jpg").write_bytes(whole.getvalue()[: len(whole.getvalue()) * 2 // 3])
    with fb.Loader(tmp_path, transforms=[fb.Resize((64, 64), draft=True)], framework="numpy") as loader:
        with pytest.raises(fb.SampleError, match="cut.jpg"):
            next(iter(loader))
