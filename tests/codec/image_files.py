"""Image files for the codec tests: every kind that Pillow writes, and PNGs of every kind that it does not."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageFile

ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]  # top, left, steps
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
KINDS = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (4, 16), (6, 8), (6, 16)]


def picture(rng: np.random.Generator, height: int, width: int, channels: int = 3) -> np.ndarray:
    """Gradients, blocks and noise: content in which every neighbour matters."""
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(channels):
        a, b, c = rng.uniform(-3, 3, 3)
        blocks = ((x // rng.integers(3, 40) + y // rng.integers(3, 40)) % 2) * rng.uniform(0, 120)
        planes.append(a * x + b * y + c * 20 + blocks + rng.normal(0, rng.choice([0, 4, 30]), (height, width)))
    return (np.stack(planes, -1) % 256).astype(np.uint8)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    usual = ImageFile.MAXBLOCK
    ImageFile.MAXBLOCK = 1 << 22  # optimised JPEGs are written in one piece, for which Pillow's buffer can be too small
    try:
        image.save(out, kind, **options)
    finally:
        ImageFile.MAXBLOCK = usual
    return out.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_rows(samples: np.ndarray, depth: int) -> bytes:
    """The rows of one pass, each behind filter 0. samples: height x (width * channels)."""
    if samples.size == 0:
        return b""
    if depth == 16:
        packed = samples.astype(">u2").view(np.uint8)
    elif depth == 8:
        packed = samples.astype(np.uint8)
    else:
        bits = (samples[..., None] >> np.arange(depth - 1, -1, -1)) & 1
        packed = np.packbits(bits.reshape(len(samples), -1).astype(np.uint8), axis=1)
    return np.insert(packed, 0, 0, axis=1).tobytes()


def png(rng: np.random.Generator, height: int, width: int, color: int, depth: int, interlaced: bool = False, extra: bytes = b"") -> bytes:
    channels = CHANNELS[color]
    samples = rng.integers(0, 2**depth, (height, width, channels))
    passes = [samples[t::dy, l::dx] for t, l, dy, dx in ADAM7] if interlaced else [samples]
    raw = b"".join(png_rows(p.reshape(p.shape[0], p.shape[1] * channels), depth) for p in passes if p.size)
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    if color == 3:
        extra += chunk(b"PLTE", rng.integers(0, 256, 3 * rng.integers(1, 2**depth + 1), np.uint8).tobytes())
    data = zlib.compress(raw, int(rng.integers(0, 7)))
    cut = int(rng.integers(0, len(data)))
    pixels = chunk(b"IDAT", data[:cut]) + chunk(b"IDAT", data[cut:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + pixels + chunk(b"IEND", b"")


def sizes(rng: np.random.Generator) -> tuple[int, int]:
    high = rng.choice([4, 40, 200, 600])
    return int(rng.integers(1, high)), int(rng.integers(1, high))


def jpegs(rng: np.random.Generator, count: int) -> Iterator[tuple[str, bytes]]:
    for i in range(count):
        height, width = sizes(rng)
        mode = rng.choice(["RGB", "RGB", "RGB", "L", "CMYK"])
        image = Image.fromarray(picture(rng, height, width, 4 if mode == "CMYK" else 3), "CMYK" if mode == "CMYK" else "RGB").convert(mode)
        options = {"quality": int(rng.integers(1, 101)), "subsampling": int(rng.integers(0, 3)), "progressive": bool(rng.integers(2)),
                   "optimize": bool(rng.integers(2)), "restart_marker_rows": int(rng.choice([0, 0, 1, 3]))}
        if mode == "RGB" and rng.integers(6) == 0:
            options |= {"keep_rgb": True, "subsampling": 0}
        yield f"jpeg {i} {mode} {width}x{height} {options}", saved(image, "JPEG", **options)


def pngs(rng: np.random.Generator, count: int) -> Iterator[tuple[str, bytes]]:
    for i in range(count):
        height, width = sizes(rng)
        color, depth = KINDS[i % len(KINDS)]
        interlaced = bool(rng.integers(2))
        extra = chunk(b"tRNS", bytes(6)[: 2 if color == 0 else 6 if color == 2 else 1]) if color in (0, 2) and rng.integers(2) else b""
        name = f"png {i} colour {color} depth {depth} {width}x{height} {interlaced=}"
        yield name, png(rng, height, width, color, depth, interlaced, extra)
        mode = rng.choice(["RGB", "L", "P", "LA", "RGBA", "1", "I;16"])
        image = Image.fromarray(picture(rng, height, width))
        image = Image.fromarray(rng.integers(0, 70000, (height, width)).astype(np.uint16)) if mode == "I;16" else image.convert(mode)
        transparency = {"transparency": bytes(range(200))} if mode == "P" and rng.integers(2) else {}
        yield f"png {i} by Pillow, {mode} {width}x{height}", saved(image, "PNG", **transparency)


def webps(rng: np.random.Generator, count: int) -> Iterator[tuple[str, bytes]]:
    for i in range(count):
        height, width = sizes(rng)
        mode = rng.choice(["RGB", "RGBA"])
        images = [Image.fromarray(picture(rng, height, width, len(mode))) for _ in range(3 if rng.integers(4) == 0 else 1)]
        options = {"quality": int(rng.integers(1, 101)), "lossless": bool(rng.integers(2)), "method": int(rng.integers(0, 5)),
                   "exact": bool(rng.integers(2))}
        if len(images) > 1:
            options |= {"save_all": True, "append_images": images[1:], "minimize_size": bool(rng.integers(2))}
        yield f"webp {i} {mode} {width}x{height} {len(images)} frames {options}", saved(images[0], "WEBP", **options)
