"""Single images against Pillow."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from fullbore import ops
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_photos import photo
from PIL import Image, ImageOps


def encoded(image: Image.Image, format: str = "JPEG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def jpeg() -> bytes:
    return encoded(photo(1, 75, 101), quality=90)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_decode_equals_pillow(format: str, tmp_path: Path) -> None:
    data = encoded(photo(2, 50, 70), format)
    path = tmp_path / "x"
    path.write_bytes(data)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    for source in (data, bytearray(data), memoryview(data), path, str(path)):
        decoded = ops.decode_image(source)
        assert decoded.dtype == np.uint8 and np.array_equal(decoded, expected)


def test_decode_turns_upright_when_asked() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(photo(3, 40, 60), exif=exif)
    image = Image.open(io.BytesIO(data))
    assert np.array_equal(ops.decode_image(data), np.asarray(image))
    assert np.array_equal(ops.decode_image(data, exif=True), np.asarray(ImageOps.exif_transpose(image)))
    assert np.array_equal(ops.decode_region(data, 5, 6, 30, 20, exif=True), np.asarray(ImageOps.exif_transpose(image))[5:35, 6:26])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_region_equals_that_part_of_the_whole(jpeg: bytes, data: st.DataObject) -> None:
    top, left = data.draw(st.integers(0, 74)), data.draw(st.integers(0, 100))
    height, width = data.draw(st.integers(1, 75 - top)), data.draw(st.integers(1, 101 - left))
    expected = np.asarray(Image.open(io.BytesIO(jpeg)))[top:top + height, left:left + width]
    assert np.array_equal(ops.decode_region(jpeg, top, left, height, width), expected)


@settings(max_examples=60, deadline=None)
@given(shape=st.tuples(st.integers(1, 60), st.integers(1, 60)), target=st.tuples(st.integers(1, 60), st.integers(1, 60)),
       channels=st.sampled_from([0, 1, 3, 4]), interpolation=st.sampled_from(["bilinear", "bicubic"]))
def test_resize_equals_pillow(shape: tuple[int, int], target: tuple[int, int], channels: int, interpolation: str) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (*shape, channels) if channels else shape, dtype=np.uint8)
    mode = {0: "L", 1: "L", 3: "RGB", 4: "RGBA"}[channels]
    image = Image.frombytes(mode, shape[::-1], pixels.tobytes())
    expected = np.asarray(image.resize(target[::-1], Image.Resampling[interpolation.upper()])).reshape(target + pixels.shape[2:])
    assert np.array_equal(ops.resize(pixels, target, interpolation), expected)


def test_one_number_is_the_shorter_side(jpeg: bytes) -> None:
    image = ops.decode_image(jpeg)
    assert ops.resize(image, 30).shape == (30, 40, 3)
    assert ops.resize(image.transpose(1, 0, 2), 30).shape == (40, 30, 3)


def test_resized_crop_takes_pixels_bytes_or_a_path(jpeg: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(jpeg)
    expected = np.asarray(Image.open(path).crop((7, 5, 57, 45)).resize((24, 20), Image.Resampling.BICUBIC))
    for source in (jpeg, path, ops.decode_image(jpeg)):
        assert np.array_equal(ops.resized_crop(source, 5, 7, 40, 50, (20, 24), "bicubic"), expected)
    assert ops.resized_crop(jpeg, 0, 0, 10, 20, 8).shape == (8, 8, 3)


def test_what_is_no_image_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    path.write_text("hello")
    with pytest.raises(fb.SampleError, match="x.jpg") as caught:
        ops.decode_image(path)
    assert caught.value.path == str(path) and caught.value.stage == "decode"
    for nothing in (b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"):
        with pytest.raises(fb.SampleError):
            ops.decode_image(nothing)
    with pytest.raises(FileNotFoundError, match="gone"):
        ops.decode_image(tmp_path / "gone.jpg")
    with pytest.raises(fb.Error):
        ops.decode_image(tmp_path)


@pytest.mark.parametrize("region", [(-1, 0, 5, 5), (0, -1, 5, 5), (0, 0, 0, 5), (0, 0, 5, 0), (71, 0, 5, 5), (0, 97, 5, 5)])
def test_a_region_outside_the_image_is_refused(jpeg: bytes, region: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="75 x 101"):
        ops.decode_region(jpeg, *region)
    with pytest.raises(ValueError, match="75 x 101"):
        ops.resized_crop(ops.decode_image(jpeg), *region, 8)


@pytest.mark.parametrize("array", [
    np.zeros((4, 4, 2), np.uint8), np.zeros((4, 4, 3)), np.zeros(4, np.uint8), np.zeros((0, 4, 3), np.uint8),
])
def test_what_is_no_picture_is_refused(array: Any) -> None:
    with pytest.raises(ValueError, match="an image is"):
        ops.resize(array, 8)


@pytest.mark.parametrize("size", [0, -1, (8,), (8, 8, 8), (70000, 8)])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        ops.resize(np.zeros((4, 4, 3), np.uint8), size)


def test_the_extension_checks_its_buffers_itself(jpeg: bytes) -> None:
    from fullbore import _fullbore
    with pytest.raises(ValueError, match="too small"):
        _fullbore.decode_region(jpeg, False, 0, 0, 75, 101, bytearray(75 * 101 * 3 - 1))
    with pytest.raises(ValueError, match="too small"):
        _fullbore.resize_image(bytes(47), 4, 4, 3, 2, 2, 2, bytearray(12))
    with pytest.raises(ValueError, match="too small"):
        _fullbore.resize_image(bytes(48), 4, 4, 3, 2, 1 << 30, 1 << 30, bytearray(12))


def test_other_threads_run_meanwhile() -> None:
    data = encoded(photo(4, 3000, 4000))
    ticks, stop = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    ops.decode_image(data)
    during = ticks - before
    stop.set()
    thread.join()
    assert during >= 3
