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
    passes = [samples[top::dy, left::dx] for top, left, dy, dx in ADAM7] if interlaced else [samples]
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


def idat_of(data: bytes) -> tuple[bytes, bytes]:
    """A PNG's bytes before its pixels, and its compressed pixels."""
    at, pixels, before = 8, b"", b""
    while at < len(data):
        n = struct.unpack(">I", data[at : at + 4])[0]
        if data[at + 4 : at + 8] == b"IDAT":
            before = before or data[:at]
            pixels += data[at + 8 : at + 8 + n]
        at += n + 12
    return before, pixels


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def damaged_pngs(rng: np.random.Generator, color: int, depth: int, interlaced: bool) -> Iterator[tuple[str, bytes]]:
    """One image in many states of repair."""
    whole = png(rng, 29, 37, color, depth, interlaced)
    before, z = idat_of(whole)
    raw = zlib.decompress(z)
    end, text, ihdr = chunk(b"IEND", b""), chunk(b"tEXt", b"a\0b" * 30), before[16:29]
    wrong = b"\1\2\3\4"

    def idat(*parts: bytes) -> bytes:
        return before + b"".join(chunk(b"IDAT", p) for p in parts)

    def broken(name: bytes, data: bytes) -> bytes:
        return chunk(name, data)[:-4] + wrong

    def with_before(extra: bytes) -> bytes:
        return before + extra + idat(z)[len(before) :] + end

    yield "good", whole
    yield "wrong adler", idat(flipped(z, -2)) + end
    yield "wrong adler, in a chunk of its own", idat(z[:-4], flipped(z, -2)[-4:]) + end
    yield "wrong adler, in two chunks", idat(z[:-2], flipped(z, -2)[-2:]) + end
    for n in (1, 3, 4, 5, 8, 40):
        yield f"{n} bytes of pixels missing", idat(z[:-n]) + end
    for i in range(12):
        yield f"pixels flipped {i}", idat(flipped(z, int(rng.integers(2, len(z))))) + end
        stored = zlib.compress(raw, 0)
        yield f"stored pixels flipped {i}", idat(flipped(stored, int(rng.integers(7, len(stored))))) + end
    unfinished = zlib.compressobj()
    yield "compressed data without an end", idat(unfinished.compress(raw) + unfinished.flush(zlib.Z_SYNC_FLUSH)) + end
    yield "no IEND", idat(z)
    for n in (2, 4, 5, 9, 13):
        yield f"cut by {n}", (idat(z) + end)[:-n]
    yield "wrong checksum of IEND", idat(z) + broken(b"IEND", b"")
    yield "wrong checksum of IDAT", before + broken(b"IDAT", z) + end
    yield "wrong checksum of IDAT, adler missing", before + broken(b"IDAT", z[:-4]) + end
    yield "wrong checksum of IDAT and adler", before + broken(b"IDAT", flipped(z, -1)) + end
    yield "wrong checksum of IHDR", whole[:29] + wrong + whole[33:]
    for name in (b"gAMA", b"tEXt", b"zzZz", b"PLTE", b"XXXX"):
        yield f"wrong checksum of {name!r} before", with_before(broken(name, b"\0\0\xb1\x8f\0\0"))
    yield "unknown critical chunk before", with_before(chunk(b"XXXX", b"abc"))
    yield "unknown critical chunk after", idat(z) + chunk(b"XXXX", b"abc") + end
    yield "wrong checksum after", idat(z) + broken(b"tEXt", b"a\0b") + end
    for name in (b"tEXt", b"zzZz", b"IDAT"):
        yield f"cut inside {name!r} after", idat(z) + chunk(name, b"a\0b" * 30)[:-40]
        yield f"cut before the checksum of {name!r} after", idat(z) + chunk(name, b"a\0b" * 30)[:-4]
    yield "impossible name before", with_before(chunk(b"1\0Xx", b"abc"))
    yield "impossible name between", idat(z[:50]) + chunk(b"1\0Xx", b"abc") + chunk(b"IDAT", z[50:]) + end
    yield "impossible name after", idat(z) + chunk(b"1\0Xx", b"abc") + end
    yield "text between", idat(z[:50]) + text + chunk(b"IDAT", z[50:]) + end
    yield "text between the last pixel and its sum", idat(z[:-4]) + text + chunk(b"IDAT", z[-4:]) + end
    yield "empty chunks", idat(b"", z[:50], b"", z[50:], b"") + end
    yield "a byte a chunk", idat(*(z[i : i + 1] for i in range(len(z)))) + end
    yield "bytes after IEND", whole + b"hello" * 20
    yield "bytes after the compressed data", idat(z + b"hello") + end
    yield "another chunk after the compressed data", idat(z, b"hello") + end
    for n in (1, 5000):
        yield f"{n} bytes too many", idat(zlib.compress(raw + bytes(n))) + end
        yield f"{n} bytes too many, wrong adler", idat(zlib.compress(raw + bytes(n))[:-4] + wrong) + end
        yield f"{n} bytes too few", idat(zlib.compress(raw[:-n])) + end
    yield "a filter that does not exist, first row", idat(zlib.compress(b"\5" + raw[1:])) + end
    row = len(raw) // 29
    yield "a filter that does not exist, last row", idat(zlib.compress(raw[:-row] + b"\xff" + raw[len(raw) - row + 1 :])) + end
    yield "wrong zlib header", idat(b"\x79" + z[1:]) + end
    yield "zlib with a dictionary", idat(b"\x78\xbb" + z[2:]) + end
    yield "a chunk longer than the file", before + struct.pack(">I", len(z) + 1000) + b"IDAT" + z + end
    yield "short transparency", with_before(chunk(b"tRNS", b"a"))
    yield "transparency", with_before(chunk(b"tRNS", bytes(6)))
    for n in (0, 3, 7, 15, 48, 51, 768, 771):
        yield f"palette of {n} bytes", before[:33] + chunk(b"PLTE", rng.bytes(n)) + idat(z)[len(before) :] + end
    yield "no palette", before[:33] + idat(z)[len(before) :] + end
    yield "two palettes", before[:33] + chunk(b"PLTE", rng.bytes(30)) + chunk(b"PLTE", rng.bytes(21)) + idat(z)[len(before) :] + end
    for value in (1, 2, 255):
        head = before[:8] + chunk(b"IHDR", ihdr[:12] + bytes([value])) + before[33:]
        yield f"interlace method {value}", head + idat(z)[len(before) :] + end
    yield "filter method 1", before[:8] + chunk(b"IHDR", ihdr[:11] + b"\1" + ihdr[12:]) + before[33:] + idat(z)[len(before) :] + end
