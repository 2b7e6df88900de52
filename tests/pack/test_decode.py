"""Decoded packs: a plain .npy that numpy opens and that stays the data set it was made from. Pillow is the oracle for pixels."""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

import fullbore as fb
import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
HEIGHT, WIDTH = 24, 32


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ramps with noise, of all shapes, in two classes, as JPEG and PNG."""
    random = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for i in range(20):
        h, w = (int(x) for x in random.integers(10, 90, 2))
        pixels = np.linspace(0, 200, h * w * 3).reshape(h, w, 3) + random.integers(0, 50, (h, w, 3))
        path = folder / f"class{i % 2}" / f"{i:03}.{'png' if i % 3 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


def run(*args: object, code: int = 0) -> str:
    done = subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stderr + done.stdout


def decode(photos: Path, out: Path, *more: object) -> np.ndarray:
    run("pack", photos, "-o", out, "--decode", f"{HEIGHT}x{WIDTH}", *more)
    return np.load(out)


def keys(out: Path) -> list[str]:
    with out.with_suffix(".csv").open(newline="") as file:
        return [row["path"] for row in csv.DictReader(file)]


def by_pillow(path: Path, fit: str) -> np.ndarray:
    image = Image.open(path).convert("RGB")
    w, h = image.size
    if fit == "stretch":
        return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR))
    takes_height = HEIGHT * w >= WIDTH * h if fit == "crop" else HEIGHT * w <= WIDTH * h
    nh = HEIGHT if takes_height else max(1, (WIDTH * h + w // 2) // w)
    nw = max(1, (HEIGHT * w + h // 2) // h) if takes_height else WIDTH
    small = np.asarray(image.resize((nw, nh), Image.Resampling.BILINEAR))
    if fit == "crop":
        top, left = round((nh - HEIGHT) / 2), round((nw - WIDTH) / 2)
        return small[top:top + HEIGHT, left:left + WIDTH]
    padded = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    top, left = (HEIGHT - nh) // 2, (WIDTH - nw) // 2
    padded[top:top + nh, left:left + nw] = small
    return padded


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_every_row_is_what_pillow_makes_of_its_picture(photos: Path, tmp_path: Path, fit: str) -> None:
    pixels = decode(photos, tmp_path / "p.npy", "--fit", fit)
    names = keys(tmp_path / "p.npy")
    assert pixels.shape == (20, HEIGHT, WIDTH, 3) and pixels.dtype == np.uint8
    assert names == sorted(names)
    for row, key in zip(pixels, names, strict=True):
        assert np.array_equal(row, by_pillow(photos / key, fit)), key


def test_it_is_the_data_set_it_was_made_from(photos: Path, tmp_path: Path) -> None:
    decode(photos, tmp_path / "p.npy", "--fit", "stretch")
    same = {"batch_size": 6, "shuffle": True, "seed": 3, "framework": "numpy"}
    folder = fb.Loader(photos, transforms=[fb.Resize((HEIGHT, WIDTH))], **same)
    pack = fb.Loader(tmp_path / "p.npy", **same)
    assert pack.fingerprint == folder.fingerprint and pack.classes == folder.classes
    state = None
    for i, (a, b) in enumerate(zip(folder, pack, strict=True)):
        assert a.sample_keys == b.sample_keys
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
        state = a.state if i == 1 else state
    later = fb.Loader(tmp_path / "p.npy", **same)
    later.load_state_dict(state)
    folder.load_state_dict(state)
    assert [batch.sample_keys for batch in folder] == [batch.sample_keys for batch in later]


def test_transforms_work_on_decoded_pictures(photos: Path, tmp_path: Path) -> None:
    pixels = decode(photos, tmp_path / "p.npy")
    with fb.Loader(tmp_path / "p.npy", batch_size=20, transforms=[fb.CenterCrop(16)], layout="NHWC", framework="numpy") as loader:
        images, _ = next(iter(loader))
    assert np.array_equal(images, pixels[:, 4:20, 8:24])


def test_a_pack_may_be_renamed_with_its_catalog(photos: Path, tmp_path: Path) -> None:
    pixels = decode(photos, tmp_path / "p.npy")
    (tmp_path / "p.npy").rename(tmp_path / "other.npy")
    (tmp_path / "p.npy.catalog").rename(tmp_path / "other.npy.catalog")
    with fb.Loader(tmp_path / "other.npy", batch_size=20, layout="NHWC", framework="numpy") as loader:
        assert np.array_equal(next(iter(loader))[0], pixels)


def test_a_catalog_beside_other_pixels_is_not_believed(photos: Path, tmp_path: Path) -> None:
    decode(photos, tmp_path / "p.npy")
    np.save(tmp_path / "p.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    with fb.Loader(tmp_path / "p.npy", batch_size=4, framework="numpy") as loader:
        (rows,) = next(iter(loader))
    assert rows.tolist() == np.arange(12, dtype=np.float32).reshape(4, 3).tolist()


def test_bad_pictures_fail_or_are_left_out(photos: Path, tmp_path: Path) -> None:
    (photos / "class0" / "000.jpg").write_bytes(b"not a picture")
    said = run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8", code=3)
    assert "class0/000.jpg" in said and list(tmp_path.glob("p.npy*")) == []
    run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8", "--skip-bad", code=4)
    assert np.load(tmp_path / "p.npy").shape[0] == 19 and "class0/000.jpg" not in keys(tmp_path / "p.npy")


def test_it_says_beforehand_what_it_takes_and_buys(photos: Path, tmp_path: Path) -> None:
    said = run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8")
    assert "20 pictures will take" in said and "are free there" in said


@pytest.mark.parametrize("wrong", [["--decode", "8"], ["--decode", "0x8"], ["--decode", "8x8", "--dtype", "float32"], ["--fit", "pad"],
                                   ["--decode", "8x8", "--resume"], ["--decode", "8x8x3"]])
def test_what_makes_no_sense_is_a_usage_error(photos: Path, tmp_path: Path, wrong: list[str]) -> None:
    run("pack", photos, "-o", tmp_path / "p.npy", *wrong, code=2)
    run("pack", photos, "-o", tmp_path / "p.tar", "--decode", "8x8", code=2)
