"""Pixels against Pillow, numbers against torch: the same drawn parameters must give the same bytes.

torchvision's rules (sizes, rounding, order of operations on Pillow images) are written out here with Pillow calls. FB_TRANSFORM_CASES
raises the number of random cases; FULLBORE_SIMD=c tests the plain C kernels.
"""
import math
import os
import random

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from transform_client import Tool

CASES = int(os.environ.get("FB_TRANSFORM_CASES", "2400"))
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC, "nearest": Image.Resampling.NEAREST}


@pytest.fixture(scope="module")
def tool():
    with Tool() as t:
        yield t


def make_image(rng: random.Random) -> np.ndarray:
    """Noise, gradients and flat areas; sizes from one pixel to strips."""
    shape = rng.choice([(rng.randint(1, 8), rng.randint(1, 8)), (rng.randint(1, 90), rng.randint(1, 90)),
                        (rng.randint(80, 260), rng.randint(80, 260)), (1, rng.randint(1, 700)), (rng.randint(1, 700), 1)])
    g = np.random.default_rng(rng.getrandbits(32))
    kind = rng.randrange(4)
    if kind == 0:
        return g.integers(0, 256, (*shape, 3), dtype=np.uint8)
    if kind == 1:
        return g.choice(np.array([0, 255], np.uint8), (*shape, 3))
    if kind == 2:
        y, x = np.mgrid[: shape[0], : shape[1]]
        return np.stack([(y * 3 + x) % 256, (x * 5) % 256, (y + x * y) % 256], axis=-1).astype(np.uint8)
    low = g.integers(0, 256, ((shape[0] + 7) // 8, (shape[1] + 7) // 8, 3), dtype=np.uint8)
    return np.ascontiguousarray(np.kron(low, np.ones((8, 8, 1), np.uint8))[: shape[0], : shape[1]])


# ------------------------------------------------------------------------------------------------- torchvision's rules, on Pillow images
def pad(img, padding, fill, mode):
    padding = [int(v) for v in padding]
    if len(padding) == 1:
        left = top = right = bottom = padding[0]
    elif len(padding) == 2:
        left, top = right, bottom = padding
    else:
        left, top, right, bottom = padding
    if mode == "constant":
        return ImageOps.expand(img, border=(left, top, right, bottom), fill=fill if isinstance(fill, tuple) else (fill,) * 3)
    return Image.fromarray(np.pad(np.asarray(img), ((top, bottom), (left, right), (0, 0)), mode))


def center_crop(img, h, w):
    iw, ih = img.size
    if w > iw or h > ih:
        border = [(w - iw) // 2 if w > iw else 0, (h - ih) // 2 if h > ih else 0,
                  (w - iw + 1) // 2 if w > iw else 0, (h - ih + 1) // 2 if h > ih else 0]
        img = pad(img, border, 0, "constant")
        iw, ih = img.size
        if (w, h) == (iw, ih):
            return img
    top, left = int(round((ih - h) / 2.0)), int(round((iw - w) / 2.0))
    return img.crop((left, top, left + w, top + h))


def resized_size(w, h, size, max_size):
    if len(size) == 2:
        return size[1], size[0]
    short, long = (w, h) if w <= h else (h, w)
    new_short, new_long = size[0], int(size[0] * long / short)
    if max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if w <= h else (new_long, new_short)


def jitter(img, order, factors):
    for which in order:
        if which == 255:
            break
        f = factors[int(which)]
        if which == 0:
            img = ImageEnhance.Brightness(img).enhance(f)
        elif which == 1:
            img = ImageEnhance.Contrast(img).enhance(f)
        elif which == 2:
            img = ImageEnhance.Color(img).enhance(f)
        else:
            h, s, v = img.convert("HSV").split()
            h = Image.fromarray(np.asarray(h) + np.int32(f * 255).astype(np.uint8))
            img = Image.merge("HSV", (h, s, v)).convert("RGB")
    return img


# ---------------------------------------------------------------------------------------------------------------------- random pipelines
def draw_size(rng, top=130):
    return rng.choice([1, 2, 3, rng.randint(1, 24), rng.randint(1, top), rng.randint(1, top)])


def random_fill(rng):
    return rng.randint(0, 255) if rng.random() < 0.5 else tuple(rng.randint(0, 255) for _ in range(3))


def fill_text(fill):
    return ",".join(map(str, fill)) if isinstance(fill, tuple) else str(fill)


def rrc(rng):
    h, w, f = draw_size(rng), draw_size(rng), rng.choice(list(FILTERS))
    scale = (0.08, 1.0) if rng.random() < 0.6 else (0.01, 0.3)

    def apply(img, v):
        top, left, height, width = map(int, v[:4])
        return img.crop((left, top, left + width, top + height)).resize((w, h), FILTERS[f])

    return f"random_resized_crop size={h},{w} scale={scale[0]},{scale[1]} interpolation={f}", apply


def resize(rng):
    f = rng.choice(list(FILTERS))
    size = [draw_size(rng)] if rng.random() < 0.5 else [draw_size(rng), draw_size(rng)]
    max_size = size[0] + rng.randint(1, 60) if len(size) == 1 and rng.random() < 0.6 else None
    text = f"resize size={','.join(map(str, size))} interpolation={f}" + (f" max_size={max_size}" if max_size else "")

    def apply(img, v):
        w, h = resized_size(*img.size, size, max_size)
        if w < 1 or h < 1 or w * h > 4_000_000:
            return None
        return img.resize((w, h), FILTERS[f])

    return text, apply


def center(rng):
    h, w = draw_size(rng), draw_size(rng)
    return f"center_crop size={h},{w}", lambda img, v: center_crop(img, h, w)


def random_crop(rng):
    h, w = draw_size(rng, 60), draw_size(rng, 60)
    padding = [rng.randint(0, 9) for _ in range(rng.choice([1, 2, 4]))] if rng.random() < 0.7 else None
    mode = rng.choice(["constant", "constant", "edge", "reflect", "symmetric"])
    fill = random_fill(rng)
    text = f"random_crop size={h},{w} pad_if_needed=1 fill={fill_text(fill)} padding_mode={mode}"
    text += f" padding={','.join(map(str, padding))}" if padding else ""

    def apply(img, v):
        if padding is not None:
            img = pad(img, padding, fill, mode)
        if img.size[0] < w:
            img = pad(img, [w - img.size[0], 0], fill, mode)
        if img.size[1] < h:
            img = pad(img, [0, h - img.size[1]], fill, mode)
        top, left = int(v[0]), int(v[1])
        assert 0 <= top <= img.size[1] - h and 0 <= left <= img.size[0] - w
        return img.crop((left, top, left + w, top + h))

    return text, apply


def padding_step(rng):
    padding = [rng.randint(0, 30) for _ in range(rng.choice([1, 2, 4]))]
    mode = rng.choice(["constant", "edge", "reflect", "symmetric"])
    fill = random_fill(rng)
    text = f"pad padding={','.join(map(str, padding))} fill={fill_text(fill)} padding_mode={mode}"
    return text, lambda img, v: pad(img, padding, fill, mode)


def hflip(rng):
    text = f"random_horizontal_flip p={rng.choice([0.5, 1])}"
    return text, lambda img, v: img.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if v[0] else img


def vflip(rng):
    return f"random_vertical_flip p={rng.choice([0.5, 1])}", lambda img, v: img.transpose(Image.Transpose.FLIP_TOP_BOTTOM) if v[0] else img


def color_jitter(rng):
    ranges, names = ["0.4", "0.3,2.5", "0.8,0.9", "0", "3"], ("brightness", "contrast", "saturation")
    parts = [f"{name}={rng.choice(ranges)}" for name in names if rng.random() < 0.7]
    if rng.random() < 0.6:
        parts.append(f"hue={rng.choice(['0.1', '0.5', '-0.3,0.2'])}")
    return " ".join(["color_jitter", *parts]), lambda img, v: jitter(img, v[4:8], v[:4])


def gray(rng):
    if rng.random() < 0.5:
        return "grayscale channels=3", lambda img, v: img.convert("L").convert("RGB")
    return "random_grayscale p=0.5", lambda img, v: img.convert("L").convert("RGB") if v[0] else img


STEPS = [rrc, rrc, resize, resize, center, random_crop, padding_step, hflip, vflip, color_jitter, gray]


def random_pipeline(rng):
    if rng.random() < 0.35:  # what people use
        return [resize(rng), center(rng)] if rng.random() < 0.5 else [rrc(rng), hflip(rng)]
    return [rng.choice(STEPS)(rng) for _ in range(rng.randint(1, 4))]


EXIF = {1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90}


def expected(steps, pixels, orientation, values):
    img = Image.fromarray(pixels)
    if EXIF[orientation] is not None:
        img = img.transpose(EXIF[orientation])
    for (_, apply), v in zip(steps, values, strict=False):
        img = apply(img, v)
        if img is None:
            return None
    return np.asarray(img)


def test_random_pipelines_equal_pillow_byte_for_byte(tool):
    compared = refused = 0
    for case in range(CASES):
        rng = random.Random(case)
        pixels, steps = make_image(rng), random_pipeline(rng)
        spec = "; ".join(text for text, _ in steps)
        orientation = rng.randint(1, 8) if rng.random() < 0.3 else 1
        layout = rng.choice(["NCHW", "NHWC", "channels_last"])
        answer = tool.run(pixels, spec, dtype="uint8", layout=layout, seed=case, exif=True, orientation=orientation)
        if answer.error:
            assert "would become" in answer.error or "beyond the limit" in answer.error, (case, spec, answer.error)
            refused += 1
            continue
        want = expected(steps, pixels, orientation, answer.steps)
        if want is None:
            continue
        got = answer.image(np.uint8, layout)
        assert got.shape == want.shape, (case, spec, got.shape, want.shape)
        differing = int((got != want).sum())
        what = f"{pixels.shape} orientation {orientation} '{spec}' {answer.draw}"
        assert differing == 0, f"case {case}: {differing} of {want.size} bytes differ: {what}"
        compared += 1
    assert compared >= CASES * 0.9, (compared, refused)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_equals_exif_transpose(tool, orientation):
    pixels = np.random.default_rng(orientation).integers(0, 256, (13, 29, 3), dtype=np.uint8)
    img = Image.fromarray(pixels)
    exif = img.getexif()
    exif[0x0112] = orientation
    want = np.asarray(ImageOps.exif_transpose(img))
    answer = tool.run(pixels, "", dtype="uint8", layout="NHWC", exif=True, orientation=orientation)
    assert np.array_equal(answer.image(np.uint8, "NHWC"), want)
    ignored = tool.run(pixels, "", dtype="uint8", layout="NHWC", exif=False, orientation=orientation)
    assert np.array_equal(ignored.image(np.uint8, "NHWC"), pixels)


@pytest.mark.parametrize("mode,channels", [("L", 1), ("RGB", 3), ("RGBA", 4)])
def test_resize_image_equals_pillow(tool, mode, channels):
    rng = random.Random(7)
    for case in range(150):
        h, w = rng.choice([(1, 1), (rng.randint(1, 20), rng.randint(1, 20)), (rng.randint(1, 200), rng.randint(1, 200))])
        oh, ow = rng.choice([(1, 1), (h, rng.randint(1, 100)), (rng.randint(1, 300), w), (rng.randint(1, 120), rng.randint(1, 120))])
        pixels = np.random.default_rng(case).integers(0, 256, (h, w, channels), dtype=np.uint8)
        name = rng.choice(["bilinear", "bicubic"])
        want = np.asarray(Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode=None).resize((ow, oh), FILTERS[name]))
        got = tool.resize(pixels, FILTERS[name], oh, ow)
        assert np.array_equal(got.reshape(want.shape), want), (mode, case, name, h, w, oh, ow)


@pytest.mark.parametrize("shape,spec", [
    ((3, 65500), "resize size=2"),
    ((65500, 1), "random_resized_crop size=64,64"),
    ((3, 65500), "resize size=5,7 interpolation=bicubic"),
    ((1, 1), "random_resized_crop size=224,224 interpolation=bicubic"),
    ((40, 30), "resize size=1,1"),
    ((2, 30000), "center_crop size=50,20000"),
])
def test_extreme_shapes_equal_pillow(tool, shape, spec):
    pixels = np.random.default_rng(1).integers(0, 256, (*shape, 3), dtype=np.uint8)
    answer = tool.run(pixels, spec, dtype="uint8", layout="NHWC", seed=3)
    assert not answer.error
    img, v = Image.fromarray(pixels), answer.steps[0]
    f = Image.Resampling.BICUBIC if "bicubic" in spec else Image.Resampling.BILINEAR
    h, w = answer.out
    if spec.startswith("random"):
        top, left, height, width = map(int, v[:4])
        img = img.crop((left, top, left + width, top + height))
    img = center_crop(img, h, w) if spec.startswith("center") else img.resize((w, h), f)
    assert np.array_equal(answer.image(np.uint8, "NHWC"), np.asarray(img))


def test_a_long_strip_is_resized_only_where_the_crop_looks(tool):
    """Whole, the resized image would have 16,768,000 x 256 pixels; what is shown needs a few."""
    pixels = np.random.default_rng(2).integers(0, 256, (1, 65500, 3), dtype=np.uint8)
    answer = tool.run(pixels, "resize size=256; center_crop size=224", dtype="uint8", layout="NHWC")
    assert not answer.error
    assert answer.region[3] <= 4 and answer.scratch_bytes < 1 << 20, (answer.region, answer.scratch_bytes)


def test_every_colour_turns_to_pillows_hue_and_gray(tool):
    """All 2^24 colours, one shift: conversions to HSV and back, and luma."""
    every = np.arange(1 << 24, dtype=np.uint32)
    pixels = np.stack([every >> 16, every >> 8 & 255, every & 255], axis=-1).astype(np.uint8).reshape(4096, 4096, 3)
    answer = tool.run(pixels, "color_jitter hue=0.5", dtype="uint8", layout="NHWC", seed=1)
    want = np.asarray(jitter(Image.fromarray(pixels), answer.steps[0][4:8], answer.steps[0][:4]))
    assert np.array_equal(answer.image(np.uint8, "NHWC"), want)
    answer = tool.run(pixels, "grayscale", dtype="uint8", layout="NHWC")
    assert np.array_equal(answer.image(np.uint8, "NHWC"), np.asarray(Image.fromarray(pixels).convert("L").convert("RGB")))
    answer = tool.run(pixels, "color_jitter saturation=2.5,2.5", dtype="uint8", layout="NHWC")
    want = np.asarray(ImageEnhance.Color(Image.fromarray(pixels)).enhance(2.5))
    assert np.array_equal(answer.image(np.uint8, "NHWC"), want)


def test_every_hue_shift_equals_pillows(tool):
    pixels = np.random.default_rng(5).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for i in range(-127, 128, 2):
        h = i / 255 + (0.0005 if i >= 0 else -0.0005)
        answer = tool.run(pixels, f"color_jitter hue={h},{h}", dtype="uint8", layout="NHWC")
        want = np.asarray(jitter(Image.fromarray(pixels), answer.steps[0][4:8], answer.steps[0][:4]))
        assert np.array_equal(answer.image(np.uint8, "NHWC"), want), h


# ------------------------------------------------------------------------------------------------------------------------ torch's numbers
def test_normalized_numbers_equal_torch_bit_for_bit(tool):
    torch = pytest.importorskip("torch")
    rng = random.Random(11)
    pixels = np.concatenate([np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2),
                             np.random.default_rng(3).integers(0, 256, (7, 256, 3), dtype=np.uint8)])
    for case in range(300):
        mean = [0.485, 0.456, 0.406] if case == 0 else [rng.choice([0.0, 0.5, rng.random(), rng.uniform(-2, 2)]) for _ in range(3)]
        std = [0.229, 0.224, 0.225] if case == 0 else [
            rng.choice([1.0, 0.5, rng.uniform(0.01, 1), rng.uniform(-3, -0.1), 1e-3, 1e-30, 3e38]) for _ in range(3)]
        name = rng.choice(["float32", "float16", "bfloat16"])
        layout = rng.choice(["NCHW", "NHWC", "channels_last"])
        width = rng.randint(1, 256)
        part = np.ascontiguousarray(pixels[:, :width] if case else pixels)
        flip = rng.random() < 0.5
        spec = "random_horizontal_flip p=1; " if flip else ""
        spec += f"normalize mean={','.join(map(repr, mean))} std={','.join(map(repr, std))}"
        x = torch.from_numpy(part.copy()).permute(2, 0, 1).to(torch.float32).div(255)
        m, s = (torch.tensor(v, dtype=torch.float32).view(-1, 1, 1) for v in (mean, std))
        want = x.sub(m).div(s).to(getattr(torch, name))
        want = want.flip(2) if flip else want
        answer = tool.run(part, spec, dtype=name, layout=layout)
        bits = np.uint32 if name == "float32" else np.uint16
        got = answer.image(bits, layout)
        signed = torch.int32 if name == "float32" else torch.int16
        assert np.array_equal(got, want.permute(1, 2, 0).contiguous().view(signed).numpy().view(bits)), (case, spec, name, layout, width)


def test_floats_without_normalize_are_to_tensors(tool):
    torch = pytest.importorskip("torch")
    pixels = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    for name in ("float32", "float16", "bfloat16"):
        want = torch.from_numpy(pixels).permute(2, 0, 1).to(torch.float32).div(255).to(getattr(torch, name))
        answer = tool.run(pixels, "", dtype=name, layout="NCHW")
        assert answer.data == want.contiguous().view(torch.uint8).numpy().tobytes(), name


def test_a_digest_is_the_same_for_the_same_pixels_only(tool):
    pixels = np.random.default_rng(9).integers(0, 256, (31, 17, 3), dtype=np.uint8)
    a = tool.run(pixels, "digest", dtype="auto", layout="NCHW")
    assert len(a.data) == 8
    flipped = tool.run(np.ascontiguousarray(pixels[:, ::-1]), "random_horizontal_flip p=1; digest", dtype="auto", layout="NHWC")
    cropped = tool.run(np.pad(pixels, ((3, 3), (4, 4), (0, 0))), "center_crop size=31,17; digest", dtype="auto", layout="NHWC")
    turned = tool.run(pixels.reshape(17, 31, 3), "digest", dtype="auto", layout="NHWC")
    assert a.data == flipped.data == cropped.data
    assert a.data != turned.data


# -------------------------------------------------------------------------------------------------------------------------- distributions
def resized_crop_draw(g, h, w, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """torchvision's RandomResizedCrop.get_params."""
    for _ in range(10):
        area = h * w * g.uniform(*scale)
        aspect = math.exp(g.uniform(math.log(ratio[0]), math.log(ratio[1])))
        cw, ch = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
        if 0 < cw <= w and 0 < ch <= h:
            return g.randint(0, h - ch), g.randint(0, w - cw), ch, cw
    if w / h < min(ratio):
        ch, cw = int(round(w / min(ratio))), w
    elif w / h > max(ratio):
        ch, cw = h, int(round(h * max(ratio)))
    else:
        ch, cw = h, w
    return (h - ch) // 2, (w - cw) // 2, ch, cw


def largest_gap(a, b):
    """Kolmogorov and Smirnov's statistic of two samples."""
    both = np.sort(np.concatenate([a, b]))
    return np.abs(np.searchsorted(np.sort(a), both, "right") / len(a) - np.searchsorted(np.sort(b), both, "right") / len(b)).max()


@pytest.mark.parametrize("h,w", [(401, 468), (500, 333), (120, 900), (64, 64)])
def test_resized_crops_have_torchvisions_distribution(tool, h, w):
    n = 20000
    got = tool.draws("random_resized_crop size=224", n, h, w, seed=h)[:, :4]
    g = random.Random(w)
    want = np.array([resized_crop_draw(g, h, w) for _ in range(n)])
    bound = 2.3 * math.sqrt(2 / n)  # exceeded by chance once in 20,000 tests
    views = {"top": lambda d: d[:, 0], "left": lambda d: d[:, 1], "height": lambda d: d[:, 2], "width": lambda d: d[:, 3],
             "area": lambda d: d[:, 2] * d[:, 3], "aspect": lambda d: d[:, 3] / d[:, 2],
             "top share": lambda d: d[:, 0] / np.maximum(h - d[:, 2], 1), "left share": lambda d: d[:, 1] / np.maximum(w - d[:, 3], 1)}
    for name, view in views.items():
        gap = largest_gap(view(got.astype(float)), view(want.astype(float)))
        assert gap < bound, (name, gap, bound)


def test_other_draws_have_torchvisions_distribution(tool):
    n = 20000
    spec = "random_horizontal_flip p=0.3; color_jitter brightness=0.4 contrast=0.2,1.1 saturation=0.1 hue=0.1"
    d = tool.draws(spec + "; random_grayscale p=0.2; random_vertical_flip", n, 50, 60, seed=1)

    def sigma(p: float) -> float:
        return 4.5 * math.sqrt(p * (1 - p) / n)

    hflip, jitter, gray, vflip = (4 + 8 * i for i in range(4))  # what is seen, then eight numbers of each step
    for column, p in ((hflip, 0.3), (vflip, 0.5), (gray, 0.2)):
        assert abs(d[:, column].mean() - p) < sigma(p), column
    for column, low, high in ((jitter, 0.6, 1.4), (jitter + 1, 0.2, 1.1), (jitter + 2, 0.9, 1.1), (jitter + 3, -0.1, 0.1)):
        gap = np.abs(np.sort((d[:, column] - low) / (high - low)) - (np.arange(n) + 0.5) / n).max()
        assert gap < 2.3 / math.sqrt(n), column
    orders, counts = np.unique(d[:, jitter + 4:jitter + 8], axis=0, return_counts=True)
    assert len(orders) == 24
    assert ((counts - n / 24) ** 2 / (n / 24)).sum() < 60  # chi-squared, 23 degrees of freedom: p < 1e-4
    for a in (hflip, vflip, gray):
        for b in range(jitter, jitter + 4):
            assert abs(np.corrcoef(d[:, a], d[:, b])[0, 1]) < 4.5 / math.sqrt(n), (a, b)


def test_a_steps_draws_do_not_depend_on_the_other_steps(tool):
    a = tool.draws("random_resized_crop size=8; random_horizontal_flip", 500, 90, 80, seed=4)
    b = tool.draws("random_resized_crop size=8 scale=0.5,0.6; random_horizontal_flip", 500, 90, 80, seed=4)
    c = tool.draws("random_resized_crop size=8; resize size=20; random_horizontal_flip; random_vertical_flip", 500, 90, 80, seed=4)
    assert np.array_equal(a[:, 4], b[:, 4]) and np.array_equal(a[:, 4], c[:, 4])
    assert np.array_equal(a[:, 2:4], c[:, 2:4])
    assert not np.array_equal(a[:, :4], b[:, :4])
    assert 0.4 < (c[:, 4] == c[:, 12]).mean() < 0.6
