"""Makes a folder of realistic photographs: what the demo, the benches and the tests feed on.

    tools/make_photos.py OUT --count N [--seed S] [--classes K] [--offline] [--cache DIR]

The photographs are cut from those in Debian's wallpaper packages (fetched and unpacked into --cache, never installed): a random part,
scaled by a random factor, so that thousands of distinct pictures come from some thirty. Sizes, samplings and qualities follow what
ImageNet has: about 466 x 401 pixels and 100 KB on average, three quarters 4:4:4, a fifth 4:2:0, a few grey. Without the packages (or with
--offline and an empty cache) pictures are synthesised: noise with the 1/f spectrum of natural scenes, cut into overlapping shapes; it
says so.

The same arguments give the same files, byte for byte, as long as Pillow's version and the source are the same. A finished folder is
marked by `.made` with its arguments and is not made again.
"""

import argparse
import io
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

ROOT = Path(__file__).resolve().parent.parent

# Photographs only: these packages also hold drawings and renderings.
PACKAGES = {
    "plasma-workspace-wallpapers": [f"usr/share/wallpapers/{name}/contents/images/2560x1600.jpg" for name in (
        "Autumn", "BytheWater", "ColorfulCups", "EveningGlow", "FallenLeaf", "Grey", "OneStandsOut", "Path")],
    "mate-backgrounds": ["usr/share/backgrounds/mate/abstract/Elephants_3840x2160.jpg"] + [f"usr/share/backgrounds/mate/nature/{name}.jpg"
        for name in ("Blinds", "Dune", "Garden", "GreenMeadow", "LadyBird", "RainDrops", "TwoWings", "Wood", "YellowFlower")],
    "lomiri-wallpapers-16.04": [f"usr/share/backgrounds/{name}.jpg" for name in (
        "Dragonfly_by_Bolly", "Picture_0B_by_freespace", "Picture_1A_by_freespace", "Wine_by_Jakkub_Mede", "aitzgorri_by_Aitzol_Berasategi",
        "friends_by_Aitzol_Berasategi", "life_by_Aitzol_Berasategi", "picosdeeuropa_by_Aitzol_Berasategi", "seeding_by_Clements_Engelhardt",
        "sunset_by_Aitzol_Berasategi")],
    "lomiri-wallpapers-20.04": ["usr/share/backgrounds/Kleiber_by_Lukas_Baubkus.jpg"],
}

# (share, Pillow's subsampling, mode)
SAMPLINGS = [(0.76, 0, "RGB"), (0.20, 2, "RGB"), (0.02, 1, "RGB"), (0.02, 0, "L")]
# (share, width, height): the common shapes; the rest are drawn around them.
SHAPES = [(0.46, 500, 375), (0.13, 375, 500), (0.16, 500, 333), (0.05, 333, 500), (0.06, 500, 400), (0.05, 400, 400), (0.09, 0, 0)]


# ------------------------------------------------------------------------------------------------------------------- sources

def unpack(package: str, cache: Path) -> None:
    """Fetches a package with apt-get's own checks and unpacks it without installing."""
    folder = cache / package
    if (folder / "usr").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "-qq", "download", package], cwd=folder, check=True, capture_output=True, timeout=300)
    archive = next(folder.glob("*.deb"))
    subprocess.run(["dpkg-deb", "-x", archive.name, "."], cwd=folder, check=True, capture_output=True)
    archive.unlink()


def find_photographs(cache: Path, offline: bool) -> list[Path]:
    """The wallpapers that are there, fetching them if allowed; an empty list when there are none."""
    found = []
    for package, names in PACKAGES.items():
        try:
            if not offline:
                unpack(package, cache)
        except (OSError, StopIteration, subprocess.SubprocessError) as error:
            detail = getattr(error, "stderr", b"") or str(error).encode()
            print(f"make_photos: {package} cannot be had: {detail.decode(errors='replace').strip().splitlines()[-1:]}", file=sys.stderr)
        found += [p for p in (cache / package / name for name in names) if p.is_file()]
    return found


def synthesise(seed: int) -> Image.Image:
    """A scene of 1400 x 1000: layers of 1/f noise, each with its own colours, cut by smooth outlines; fine grain like a sensor's on top."""
    rng = np.random.default_rng(seed)
    height, width = 1000, 1400
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = 1

    def noise(power: float) -> np.ndarray:
        phase = rng.uniform(0, 2 * np.pi, frequency.shape)
        field = np.fft.irfft2(np.exp(1j * phase) / frequency**power, s=(height, width))
        return (field - field.mean()) / field.std()

    scene = np.zeros((height, width, 3))
    for layer in range(4):
        outline = noise(2.2) > rng.uniform(-0.3, 0.6) if layer else np.ones((height, width), bool)
        colour, tint = rng.uniform(40, 215, 3), rng.uniform(-14, 14, 3)
        texture = noise(rng.uniform(1.0, 1.5)) * rng.uniform(12, 34)
        shade = noise(1.8)
        scene[outline] = (colour + texture[..., None] + shade[..., None] * tint)[outline]
    scene += rng.normal(0, 2.0, scene.shape)
    return Image.fromarray(scene.clip(0, 255).astype(np.uint8))


# -------------------------------------------------------------------------------------------------------------------- pictures

def pick(rng: random.Random, table: list[tuple]) -> tuple:
    x = rng.random() * sum(row[0] for row in table)
    for row in table:
        x -= row[0]
        if x < 0:
            return row
    return table[-1]


def draw_size(rng: random.Random) -> tuple[int, int]:
    _, width, height = pick(rng, SHAPES)
    if not width:
        return rng.randint(300, 600), rng.randint(300, 600)
    return width, height


def detail(source: Image.Image, box: tuple[int, int, int, int]) -> float:
    """How much fine structure a part has: mean difference between neighbours."""
    grey = np.asarray(source.reduce(4, box=box).convert("L"), dtype=np.float32)
    return float(np.abs(np.diff(grey, axis=1)).mean())


def cut(source: Image.Image, rng: random.Random) -> Image.Image:
    """A random part of the source, shrunk and sharpened as photographs on the web are. Wallpapers are calmer than what people photograph,
    so the busiest of a few parts is taken: that brings the bytes per picture near ImageNet's."""
    width, height = draw_size(rng)
    largest = min(source.width / width, source.height / height)
    scale = min(largest, rng.uniform(1.5, 4.0))
    part_width, part_height = int(width * scale), int(height * scale)
    boxes = []
    for _ in range(3):
        left, top = rng.randint(0, source.width - part_width), rng.randint(0, source.height - part_height)
        boxes.append((left, top, left + part_width, top + part_height))
    box = max(boxes, key=lambda b: detail(source, b))
    part = source.resize((width, height), Image.Resampling.LANCZOS, box=box).filter(ImageFilter.UnsharpMask(0.8, rng.randint(70, 180), 0))
    return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part


def encode(picture: Image.Image, rng: random.Random) -> bytes:
    _, subsampling, mode = pick(rng, SAMPLINGS)
    buffer = io.BytesIO()
    picture.convert(mode).save(buffer, "JPEG", quality=rng.randint(92, 96), subsampling=subsampling)
    return buffer.getvalue()


def make_some(job: tuple) -> int:
    """All pictures of one source, so that it is decoded once. Returns their bytes."""
    source, indices, out, seed, classes = job
    scene = synthesise(source) if isinstance(source, int) else Image.open(source).convert("RGB")
    total = 0
    for index in indices:
        rng = random.Random(seed * 1_000_003 + index)
        data = encode(cut(scene, rng), rng)
        folder = Path(out) / f"class{index % classes:03d}"
        folder.mkdir(exist_ok=True)
        (folder / f"photo{index:06d}.jpg").write_bytes(data)
        total += len(data)
    return total


def make(out: Path, count: int, seed: int, classes: int, sources: list) -> int:
    out.mkdir(parents=True)
    jobs = [(source, range(k, count, len(sources)), str(out), seed, classes) for k, source in enumerate(sources)]
    with multiprocessing.get_context("spawn").Pool(min(len(jobs), len(os.sched_getaffinity(0)))) as pool:
        return sum(pool.imap_unordered(make_some, jobs))


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes a folder of realistic photographs.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", type=int, default=10, help="folders to spread them over (default 10)")
    parser.add_argument("--offline", action="store_true", help="fetch nothing: use what is in the cache, or synthesise")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/wallpapers")
    options = parser.parse_args()
    if options.count < 1 or options.classes < 1:
        parser.error("--count and --classes are at least 1")

    wanted = {"count": options.count, "seed": options.seed, "classes": options.classes, "recipe": 1}
    mark = options.out / ".made"
    if mark.exists():
        made = json.loads(mark.read_text())
        if wanted.items() <= made.items():
            print(f"{options.out}: {made['count']} pictures already there ({made['source']})", file=sys.stderr)
            return 0
    elif options.out.exists():
        parser.error(f"{options.out} exists and was not made by this program; name another folder")

    photographs = find_photographs(options.cache, options.offline)
    sources = photographs or [options.seed * 1000 + k for k in range(min(24, options.count))]
    kind = f"cut from {len(photographs)} photographs" if photographs else "synthesised, no photographs at hand"
    shutil.rmtree(options.out, ignore_errors=True)
    size = make(options.out, options.count, options.seed, options.classes, sources)
    mark.write_text(json.dumps({**wanted, "source": kind, "bytes": size}) + "\n")
    print(f"{options.out}: {options.count} pictures, {size / 1e6:.0f} MB, {kind}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
