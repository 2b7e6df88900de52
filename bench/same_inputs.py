"""What bench/same.py feeds both sides: small files of every kind, the same in every run, and the corpora that the tests have.

All files and folders are dated alike and long ago, so that what is made of them does not depend on when they were made.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import wave
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared/data"  # others' files, which are not part of the project
SHARED_FOLDERS = ("jpeg-go", "png-suite", "jpeg-exif-8", "wav-scipy", "npy-go", "h5-pyfive", "speech")
DATE = 1_600_000_000
sys.path.insert(0, str(ROOT / "tests/python"))
import array_files
import made_photos


def photographs(root: Path) -> None:
    subprocess.run(
        [sys.executable, "tools/make_photos.py", str(root / "photos"), "--count", "48", "--classes", "4", "--offline"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for suffix in (".png", ".webp"):
        made_photos.make_photos(root / "small", 12, ("cat", "dog"), suffix)
    made_photos.make_photos(root / "many", 103, ("cat", "dog", "owl"), ".png", side=8)
    with tarfile.open(root / "photos.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted((root / "photos").rglob("*.jpg")):
            info = tar.gettarinfo(path, str(path.relative_to(root / "photos")))
            info.mtime, info.uid, info.gid, info.uname, info.gname = DATE, 0, 0, "", ""
            with path.open("rb") as file:
                tar.addfile(info, file)


def masks(root: Path) -> None:
    lines = ["image,mask,score,x0,y0,x1,y1"]
    for i, path in enumerate(sorted((root / "photos").rglob("*.jpg"))[:16]):
        mask = root / f"masks/{i}.png"
        mask.parent.mkdir(exist_ok=True)
        width, height = Image.open(path).size
        Image.fromarray(np.random.default_rng(i).integers(0, 5, (height, width), dtype=np.uint8)).save(mask)
        lines.append(f"{path.relative_to(root)},{mask.relative_to(root)},{i / 8},10,20,{width - 30},{height - 5}")
    (root / "masks.csv").write_text("\n".join(lines) + "\n")


def damaged(root: Path) -> None:
    """Photographs among which some are cut off, empty, of no format, or hold a flipped byte."""
    for i, path in enumerate(sorted((root / "photos").rglob("*.jpg"))):
        data = bytearray(path.read_bytes())
        data = {3: data[: len(data) // 2], 7: bytearray(), 11: bytearray(b"<html>"), 15: data[:20]}.get(i % 16, data)
        if i % 16 == 5:
            data[len(data) // 3] ^= 0xFF
        out = root / "damaged" / f"{i:03}.jpg"
        out.parent.mkdir(exist_ok=True)
        out.write_bytes(data)


def rows(root: Path) -> None:
    folder = root / "rows"
    folder.mkdir()
    for layout in array_files.LAYOUTS:
        array_files.make_rows(folder / f"{layout.replace(' ', '-')}.h5", layout)
    mixed = root / "mixed"
    mixed.mkdir()
    for i, layout in enumerate(("contiguous", "gzip", "lzf")):
        array_files.make_rows(mixed / f"{i}.h5", layout, 200, seed=i)
    np.savez(mixed / "3.npz", features=array_files.numbers(150, seed=3), labels=np.arange(150))
    array_files.make_rows(root / "spoilt.h5", "gzip")
    array_files.spoil_chunks(root / "spoilt.h5", [2, 9])


def bags(root: Path) -> None:
    array_files.make_bags(root / "bags", 14)
    array_files.make_bags(root / "bags-gzip", 14, chunks=True, compression="gzip")
    (root / "slides.csv").write_text("path,patient,label\n" + "".join(f"bags/slide_{i:02}.h5,P-{i // 3},{i // 3 % 2}\n" for i in range(14)))


def arrays(root: Path) -> None:
    import torch
    from safetensors.torch import save_file

    for folder in ("npy", "npz", "npz-packed", "safetensors"):
        (root / folder).mkdir()
    for i in range(12):
        volume = array_files.numbers(20, 30, seed=i, dtype="float64")
        np.save(root / f"npy/{i:02}.npy", volume)
        np.savez(root / f"npz/{i:02}.npz", volume=volume, age=np.int32(i))
        np.savez_compressed(root / f"npz-packed/{i:02}.npz", volume=volume.astype(">f4"), age=np.int32(i))
        save_file(
            {"volume": torch.from_numpy(volume).to(torch.bfloat16), "age": torch.tensor([i])}, root / f"safetensors/{i:02}.safetensors"
        )


def sound(root: Path) -> None:
    for i in range(24):
        rng = np.random.default_rng(i)
        path = root / "sound" / ("high", "low")[i % 2] / f"{i:02}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        frames = int(rng.integers(3000, 12000))
        tone = 9000 * np.sin(np.arange(frames)[:, None] * (0.05 + 0.2 * (i % 2))) + rng.normal(0, 500, (frames, 2))
        with wave.open(str(path), "wb") as file:
            file.setparams((2, 2, 8000, frames, "NONE", ""))
            file.writeframes(tone.astype("<i2").tobytes())


def corpora(root: Path) -> None:
    for folder in sorted((ROOT / "tests/fuzz/corpus").iterdir()):
        if folder.name.startswith(("codec_", "array_")):
            shutil.copytree(folder, root / "corpora" / folder.name)
    for name in SHARED_FOLDERS:
        if (SHARED / name).exists():
            shutil.copytree(SHARED / name, root / "corpora" / name)


def make(root: Path) -> None:
    for kind in (photographs, masks, damaged, rows, bags, arrays, sound, corpora):
        kind(root)
    for path in sorted(root.rglob("*"), reverse=True):  # a folder after what is in it
        os.utime(path, (DATE, DATE))
    os.utime(root, (DATE, DATE))
