"""Pixels equal Pillow's Image.open(f).convert("RGB"), whole and by region, bit for bit; what Pillow cannot read is refused."""

from __future__ import annotations

import io
import os
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

sys.path.insert(0, str(Path(__file__).parent))
import image_files
from codec_tool import DATA, TOOL, Refused, Tool

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL.name} is not built (FB_BUILD_DIR says where)")
FB_E_DATA = -3
IS_SOAK = bool(os.environ.get("FB_SOAK"))


@pytest.fixture
def tool() -> Iterator[Tool]:
    t = Tool()
    yield t
    t.close()


def oracle(data: bytes) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of palettes with transparency, and of sizes near the limit
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def random_region(rng: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    top, left = int(rng.integers(height)), int(rng.integers(width))
    return top, left, int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1))


def compare(tool: Tool, name: str, data: bytes, rng: np.random.Generator, regions: int) -> int:
    """Compares the whole image and some regions; returns how many cases."""
    expected = oracle(data)
    header = tool.load(data)
    height, width = expected.shape[:2]
    assert (header.height, header.width) == (height, width), name
    for top, left, h, w in [(0, 0, height, width)] + [random_region(rng, height, width) for _ in range(regions)]:
        got = tool.decode(top, left, h, w)
        differing = int((got != expected[top : top + h, left : left + w]).sum())
        assert differing == 0, f"{name}: {differing} bytes differ in {w}x{h} at left {left}, top {top}"
    return regions + 1


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_every_region_of_a_webp_equals_pillow(tool: Tool, mode: str, lossless: bool) -> None:
    rng = np.random.default_rng(15)
    for height, width in [(1, 1), (2, 5), (21, 35), (37, 18)]:
        image = Image.fromarray(image_files.picture(rng, height, width, len(mode)))
        data = image_files.saved(image, "WEBP", lossless=lossless, quality=60, exact=True)
        expected = oracle(data)
        tool.load(data)
        for left in range(width):
            for w in range(1, width - left + 1):
                top = (left + w) % height
                assert np.array_equal(tool.decode(top, left, 1, w), expected[top : top + 1, left : left + w]), (top, left, w)
        for top in range(height):
            for h in range(1, height - top + 1):
                left = (top + h) % width
                assert np.array_equal(tool.decode(top, left, h, 1), expected[top : top + h, left : left + 1]), (top, left, h)


def test_a_lossless_webp_whose_pixels_end_early_is_refused_whatever_the_region(tool: Tool) -> None:
    """All its sizes fit together: nothing but the pixels tells."""
    rng = np.random.default_rng(20)
    for _ in range(12):
        height, width = (int(x) for x in rng.integers(8, 90, 2))
        data = image_files.saved(Image.fromarray(image_files.picture(rng, height, width)), "WEBP", lossless=True)
        for cut in rng.integers(21 + 10, len(data) - 4, 12):
            pixels = data[20:cut] + b"\0" * (cut % 2)
            damaged = b"RIFF" + struct.pack("<I", len(pixels) + 12) + b"WEBPVP8L" + struct.pack("<I", int(cut) - 20) + pixels
            is_readable = readable(damaged)
            for h in {1, height // 3, height * 2 // 3, height}:
                assert (verdict(tool, damaged, (0, 0, h, width)) is not None) == is_readable, (height, width, h, cut)


def shared(folder: str) -> list[Path]:
    if not (DATA / folder).is_dir():
        pytest.skip(f"the shared data ({folder}) is not here")
    return sorted((DATA / folder).iterdir())


@pytest.mark.parametrize("maker", ["jpegs", "pngs", "webps"])
def test_made_files_equal_pillow(tool: Tool, maker: str) -> None:
    rng = np.random.default_rng(7)
    cases = sum(compare(tool, name, data, rng, 6) for name, data in getattr(image_files, maker)(rng, 120))
    assert cases >= 800


def test_a_photograph_in_every_sampling_equals_pillow(tool: Tool) -> None:
    rng = np.random.default_rng(8)
    cases = 0
    for path in shared("jpeg-go"):
        if "truncated" not in path.name:
            cases += compare(tool, path.name, path.read_bytes(), rng, 25)
    assert cases >= 700


def test_the_png_suite_equals_pillow(tool: Tool) -> None:
    rng = np.random.default_rng(9)
    files = [p for p in shared("png-suite") if not p.name.startswith("png+x")]
    assert len(files) >= 150
    for path in files:
        compare(tool, path.name, path.read_bytes(), rng, 8)


def test_broken_files_of_the_png_suite_are_refused_as_pillow_does(tool: Tool) -> None:
    files = [p for p in shared("png-suite") if p.name.startswith("png+x")]
    assert len(files) >= 10
    for path in files:
        data = path.read_bytes()
        got = verdict(tool, data)
        assert (got is not None) == readable(data), path.name
        if got is not None:  # a wrong checksum of a chunk whose pixels are right by their own
            assert np.array_equal(got, oracle(data)), path.name


# Pillow does not look at a sum that is in another chunk than the last pixel, makes up rows and palettes that are not there, and passes over
# chunks and methods that no decoder may.
STRICTER = ("wrong adler, in", "wrong checksum of IDAT, adler missing", "unknown critical chunk before", "bytes too few", "no palette",
            "palette of 0 bytes", "interlace method 2")


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(("color", "depth"), [(2, 8), (3, 4), (3, 8), (0, 16), (6, 8), (4, 16), (0, 1)])
def test_a_damaged_png_is_refused_where_pillow_refuses_it(tool: Tool, color: int, depth: int, interlaced: bool) -> None:
    rng = np.random.default_rng(16)
    seen = {True: 0, False: 0}
    for name, data in image_files.damaged_pngs(rng, color, depth, interlaced):
        is_readable = readable(data)
        for region in [None, (0, 0, 1, 1), (28, 36, 1, 1), (9, 3, 11, 20)]:
            try:
                header = tool.load(data)
                top, left, h, w = region or (0, 0, header.height, header.width)
                got = tool.decode(top, left, h, w)
            except Refused as e:
                assert e.code == FB_E_DATA and 0 <= e.offset <= len(data), (name, region, str(e))
                assert not is_readable or any(s in name for s in STRICTER), (name, region, str(e))
            else:
                assert is_readable and not name.startswith(STRICTER[:2]), (name, region)
                assert np.array_equal(got, oracle(data)[top : top + h, left : left + w]), (name, region)
        seen[is_readable] += 1
    assert min(seen.values()) > 20, seen


def small_files(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    image = Image.fromarray(image_files.picture(rng, 18, 21))
    for kind, options in [("JPEG", {"quality": 60}), ("JPEG", {"quality": 60, "restart_marker_blocks": 1}), ("JPEG", {"progressive": True}),
                          ("WEBP", {"quality": 50}), ("WEBP", {"lossless": True}), ("PNG", {})]:
        yield f"{kind} {options}", image_files.saved(image, kind, **options)
    yield "JPEG grey", image_files.saved(image.convert("L"), "JPEG")
    alpha = Image.fromarray(image_files.picture(rng, 9, 11, 4))
    yield "WEBP with alpha", image_files.saved(alpha, "WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0")
    yield "WEBP animated", image_files.saved(alpha, "WEBP", save_all=True, append_images=[alpha.rotate(90)])
    yield "PNG interlaced", image_files.png(rng, 9, 11, 6, 16, True)
    before, z = image_files.idat_of(image_files.png(rng, 9, 11, 2, 8, False))
    parts = [z[:40], z[40:60], z[60:-3], z[-3:]]
    tail = [(b"tEXt", b"key\0text"), (b"zTXt", b"key\0\0" + z[:9]), (b"IEND", b"")]
    yield "PNG in many chunks", before + b"".join(image_files.chunk(n, d) for n, d in [*((b"IDAT", p) for p in parts), *tail])


def test_a_file_cut_at_any_byte_is_read_or_refused_as_pillow_does(tool: Tool) -> None:
    rng = np.random.default_rng(17)
    for name, data in small_files(rng):
        for cut in range(1, len(data)):
            is_readable = readable(data[:cut])
            got, corner = verdict(tool, data[:cut]), verdict(tool, data[:cut], (0, 0, 1, 1))
            assert (got is not None) == is_readable, f"{name} cut at {cut} of {len(data)}"
            assert (corner is not None) == is_readable, f"{name} cut at {cut} of {len(data)}: its first pixel"
            if got is not None:
                assert np.array_equal(got, oracle(data[:cut])), f"{name} cut at {cut} of {len(data)}"


@pytest.mark.parametrize("folder", ["jpeg-go", "jpeg-exif-8"])
def test_photographs_cut_anywhere_are_read_or_refused_as_pillow_does(tool: Tool, folder: str) -> None:
    rng = np.random.default_rng(18)
    for path in shared(folder):
        data = path.read_bytes()
        cuts = {len(data) - n for n in range(1, 5)} | set(map(int, rng.integers(1, len(data), 400 if IS_SOAK else 6)))
        for cut in sorted(cuts):
            got = verdict(tool, data[:cut])
            assert (got is not None) == readable(data[:cut]), f"{path.name} cut at {cut} of {len(data)}"
            if got is not None:
                assert np.array_equal(got, oracle(data[:cut])), f"{path.name} cut at {cut} of {len(data)}"


def test_orientation_is_what_pillow_says(tool: Tool) -> None:
    for path in shared("jpeg-exif-8"):
        with Image.open(path) as image:
            expected = image.getexif().get(0x0112, 1) or 1  # 0 is nonsense that Pillow also ignores
            assert tool.load(path.read_bytes()).orientation == expected, path.name


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 10))
def test_orientation_is_found_in_every_format(tool: Tool, kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x010F] = "a maker"
    exif[0x0112] = orientation
    header = tool.load(image_files.saved(Image.new("RGB", (20, 10)), kind, exif=exif))
    assert header.orientation == (orientation if orientation <= 8 else 1)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_orientation_is_found_in_xmp(tool: Tool, kind: str) -> None:
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    text = PngInfo()
    text.add_itxt("XML:com.adobe.xmp", xmp)
    data = image_files.saved(Image.new("RGB", (20, 10)), kind, **({"pnginfo": text} if kind == "PNG" else {"xmp": xmp}))
    assert tool.load(data).orientation == Image.open(io.BytesIO(data)).getexif()[0x0112] == 6


def cut_points(rng: np.random.Generator, n: int) -> list[int]:
    return sorted({*map(int, rng.integers(1, n, 40)), n - 1, n - 2, n - 3, n - 12, n - 13})


def readable(data: bytes) -> bool:
    try:
        oracle(data)
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError):
        return False
    return True


@pytest.mark.parametrize("maker", ["jpegs", "pngs", "webps"])
def test_a_cut_off_file_is_refused_whatever_the_region(tool: Tool, maker: str) -> None:
    rng = np.random.default_rng(10)
    refusals = 0
    for name, data in getattr(image_files, maker)(rng, 12):
        header = tool.load(data)
        for cut in cut_points(rng, len(data)):
            if cut <= 0:
                continue
            is_readable = readable(data[:cut])
            regions = [(0, 0, 1, 1), random_region(rng, header.height, header.width), (header.height - 1, header.width - 1, 1, 1)]
            for region in regions:
                try:
                    tool.load(data[:cut])
                    tool.decode(*region)
                except Refused as e:
                    assert e.code == FB_E_DATA and not is_readable, f"{name} cut at {cut} of {len(data)}: {e}"
                    refusals += 1
                else:
                    assert is_readable, f"{name} cut at {cut} of {len(data)}: {region} was decoded"
    assert refusals > 500


def verdict(tool: Tool, data: bytes, region: tuple[int, int, int, int] | None = None) -> np.ndarray | None:
    try:
        header = tool.load(data)
        return tool.decode(*(region or (0, 0, header.height, header.width)))
    except Refused as e:
        assert e.code == FB_E_DATA, e
        return None


def is_too_long(data: bytes) -> bool:
    """Beyond our limit on a side, which Pillow does not have."""
    try:
        return max(Image.open(io.BytesIO(data)).size) > 65500
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False


@pytest.mark.parametrize("maker", ["jpegs", "webps"])
def test_damaged_files_are_read_or_refused_as_pillow_does(tool: Tool, maker: str) -> None:
    """Not for PNG: there Pillow looks at fewer checksums of pixels, and at more of everything else."""
    rng = np.random.default_rng(13)
    seen = {True: 0, False: 0}
    for name, data in getattr(image_files, maker)(rng, 20):
        for _ in range(20):
            damaged = bytearray(data)
            for at in rng.integers(len(data), size=rng.integers(1, 4)):
                damaged[at] = rng.integers(256)
            if is_too_long(bytes(damaged)):
                continue
            is_readable, got = readable(bytes(damaged)), verdict(tool, bytes(damaged))
            assert (got is not None) == is_readable, name
            if got is not None and "'progressive': True" not in name:  # guessing lost coefficients changed in libjpeg-turbo 3
                assert np.array_equal(got, oracle(bytes(damaged))), name
            seen[is_readable] += 1
    assert min(seen.values()) > 20, seen


def test_a_stray_marker_in_a_jpeg_is_refused_whatever_the_region(tool: Tool) -> None:
    rng = np.random.default_rng(14)
    image = Image.fromarray(image_files.picture(rng, 200, 200))
    data = image_files.saved(image, "JPEG", quality=90)
    for at in (len(data) // 2, len(data) - 10):
        damaged = data[:at] + b"\xff\xc0" + data[at + 2 :]
        assert not readable(damaged)
        for region in [None, (0, 0, 1, 1), (0, 0, 50, 200), (199, 199, 1, 1)]:
            assert verdict(tool, damaged, region) is None, (at, region)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("marker", [0xC0, 0xC1, 0xC2, 0xC9, 0xCA])
def test_a_jpeg_that_ends_inside_a_second_frame_is_refused_whatever_the_region(tool: Tool, marker: int, is_whole: bool) -> None:
    """Rows that the marker cuts off would be grey."""
    rng = np.random.default_rng(19)
    data = image_files.saved(Image.fromarray(image_files.picture(rng, 60, 80)), "JPEG", quality=90)
    pixels = data[:-2] if is_whole else data[: len(data) // 2]
    for rest in (0, 1, 2, 5, 12):
        damaged = pixels + bytes([0xFF, marker]) + bytes([0, 17, 8, 0, 60, 0, 80, 3, 1, 0x22, 0, 2, 0x11])[:rest]
        assert not readable(damaged), rest
        for region in [None, (0, 0, 1, 1), (59, 79, 1, 1)]:
            assert verdict(tool, damaged, region) is None, (rest, region)


@pytest.mark.parametrize("maker", ["jpegs", "pngs", "webps"])
def test_the_header_of_a_part_is_that_of_the_file_or_asks_for_more(tool: Tool, maker: str) -> None:
    rng = np.random.default_rng(11)
    for name, data in getattr(image_files, maker)(rng, 10):
        whole = tool.load(data)
        answers = [tool.part(n) for n in [*range(min(700, len(data))), len(data)]]
        assert answers[0] is None and answers[-1] == whole, name
        assert all(a in (None, whole) for a in answers), name
        first = answers.index(whole)
        assert all(a == whole for a in answers[first:]), name


def test_bytes_after_the_end_do_no_harm(tool: Tool) -> None:
    rng = np.random.default_rng(12)
    for maker in (image_files.jpegs, image_files.pngs):
        for name, data in maker(rng, 6):
            compare(tool, name, data + bytes(100), rng, 3)
            compare(tool, name, data + bytes(range(256)) * 400, rng, 3)
