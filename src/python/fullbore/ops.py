"""Single images, with the loader's pixels: what the engine does to a sample, one step at a time.

Every function lets other Python threads run while it works.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _fullbore
from .errors import Error, NotFoundError, SampleError, UsageError

__all__ = ["decode_image", "decode_region", "resize", "resized_crop"]

Image = npt.NDArray[np.uint8]
Source = bytes | bytearray | memoryview | str | os.PathLike[str]

_FILTERS = {"bilinear": 2, "bicubic": 3, 2: 2, 3: 3}


def decode_image(bytes_or_path: Source, exif: bool = False) -> Image:
    """The whole image: height x width x 3, RGB, equal to Pillow's ``convert("RGB")``. ``exif=True`` turns it upright.

    >>> decode_image("photo.jpg").shape
    (60, 80, 3)
    """
    data, path = _read(bytes_or_path)
    try:
        height, width = _fullbore.image_size(data, exif)
        return _region(data, exif, 0, 0, height, width)
    except SampleError as error:
        raise _named(error, path) from None


def decode_region(bytes_or_path: Source, top: int, left: int, height: int, width: int, exif: bool = False) -> Image:
    """Only that part of the image, and no more work than it needs: equal to ``decode_image(...)[top:top + height, left:left + width]``.

    >>> part = decode_region("photo.jpg", 10, 20, 30, 40)
    >>> bool((part == decode_image("photo.jpg")[10:40, 20:60]).all())
    True
    """
    data, path = _read(bytes_or_path)
    try:
        full_height, full_width = _fullbore.image_size(data, exif)
        _check_inside(top, left, height, width, full_height, full_width)
        return _region(data, exif, top, left, height, width)
    except SampleError as error:
        raise _named(error, path) from None


def resize(array: npt.ArrayLike, size: int | Sequence[int], interpolation: Any = "bilinear") -> Image:
    """Antialiased, equal to Pillow's ``Image.resize``. ``array`` is height x width, or height x width x 1, 3 or 4 (RGBA), in uint8.
    ``size`` is (height, width); one number is the shorter side, and the other keeps the ratio.

    >>> resize(decode_image("photo.jpg"), 30).shape
    (30, 40, 3)
    """
    pixels = _pixels(array)
    height, width = pixels.shape[:2]
    return _resize(pixels, _target(size, height, width), interpolation)


def resized_crop(array_or_bytes: npt.ArrayLike | Source, top: int, left: int, height: int, width: int, size: int | Sequence[int],
                 interpolation: Any = "bilinear") -> Image:
    """That part of an image (pixels, a file's bytes, or a path), resized to ``size``: (height, width), or one number for a square.

    >>> resized_crop("photo.jpg", 10, 20, 30, 40, 16).shape
    (16, 16, 3)
    """
    target = (size, size) if isinstance(size, int) else _target(size, 1, 1)
    if isinstance(array_or_bytes, (bytes, bytearray, memoryview, str, os.PathLike)):
        return _resize(decode_region(array_or_bytes, top, left, height, width), target, interpolation)
    pixels = _pixels(array_or_bytes)
    _check_inside(top, left, height, width, *pixels.shape[:2])
    return _resize(np.ascontiguousarray(pixels[top:top + height, left:left + width]), target, interpolation)


def _read(source: Source) -> tuple[bytes | bytearray | memoryview, str]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return source, ""
    if not isinstance(source, (str, os.PathLike)):
        raise UsageError(f"{type(source).__name__} is neither the bytes of an image file nor a path", stage="decode")
    path = os.fspath(source)
    try:
        with open(path, "rb") as file:
            return file.read(), path
    except FileNotFoundError as error:
        raise NotFoundError("cannot open it: no such file", stage="read", path=path, sys_errno=error.errno) from None
    except OSError as error:
        raise Error(f"cannot read it: {error.strerror}", stage="read", path=path, sys_errno=error.errno) from error


def _named(error: SampleError, path: str) -> SampleError:
    return SampleError(error.cause, stage=error.stage, path=error.path or path, offset=error.offset, remedy=error.remedy)


def _region(data: bytes | bytearray | memoryview, exif: bool, top: int, left: int, height: int, width: int) -> Image:
    out: Image = np.empty((height, width, 3), np.uint8)
    _fullbore.decode_region(data, exif, top, left, height, width, out)
    return out


def _check_inside(top: int, left: int, height: int, width: int, full_height: int, full_width: int) -> None:
    if top < 0 or left < 0 or height < 1 or width < 1 or top + height > full_height or left + width > full_width:
        raise UsageError(f"the region {height} x {width} at ({top}, {left}) is not inside the image of {full_height} x {full_width} pixels",
                         stage="decode")


def _pixels(array: npt.ArrayLike) -> Image:
    pixels = np.ascontiguousarray(array)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or 0 in pixels.shape or pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4):
        raise UsageError(f"an image is height x width x 1, 3 or 4 in uint8, not {pixels.shape} in {pixels.dtype}", stage="transform")
    return pixels


def _target(size: int | Sequence[int], height: int, width: int) -> tuple[int, int]:
    if isinstance(size, int):
        short, long = min(height, width), max(height, width)
        other = int(size * long / short)
        return (size, other) if height <= width else (other, size)
    if len(size) != 2:
        raise UsageError(f"size is {size!r}, not one number or (height, width)", stage="transform")
    return int(size[0]), int(size[1])


def _resize(pixels: Image, target: tuple[int, int], interpolation: Any) -> Image:
    kind = _FILTERS.get(getattr(interpolation, "value", interpolation))
    if kind is None:
        raise UsageError(f"interpolation is {interpolation!r}, not 'bilinear' or 'bicubic'", stage="transform")
    if min(target) < 1 or max(target) > 65500:
        raise UsageError(f"size is {target}, not from 1 to 65500", stage="transform")
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    out: Image = np.empty(target + pixels.shape[2:], np.uint8)
    _fullbore.resize_image(pixels, pixels.shape[0], pixels.shape[1], channels, kind, target[0], target[1], out)
    return out
