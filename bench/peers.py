"""What most people run: torch's DataLoader with Pillow, on the same files, doing the same work as the engine.

    bench/peers.py FOLDER --workers N [--batch-size 64] [--dtype float32|uint8] [--epochs 1] [--limit N]

Every image is opened with Pillow, cropped by RandomResizedCrop(224)'s formulas (scale 0.08-1, ratio 3/4-4/3, ten tries), resized
antialiased (bilinear), flipped, and turned into a CHW tensor, normalised for float32. Prints one JSON object: rate over whole epochs with
persistent workers, the first epoch (warm-up) left out; CPU seconds of all processes; resident memory of all of them. Every batch is touched
and counted.
"""

import argparse
import json
import math
import os
import resource
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def draw_crop(width: int, height: int) -> tuple[int, int, int, int]:
    """(left, top, width, height), as torchvision's RandomResizedCrop draws it."""
    log_ratio = torch.log(torch.tensor([3 / 4, 4 / 3]))
    for _ in range(10):
        area = height * width * torch.empty(1).uniform_(0.08, 1.0).item()
        ratio = torch.exp(torch.empty(1).uniform_(log_ratio[0].item(), log_ratio[1].item())).item()
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return (int(torch.randint(0, width - w + 1, (1,)).item()), int(torch.randint(0, height - h + 1, (1,)).item()), w, h)
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


class Photos(Dataset):
    def __init__(self, folder: Path, dtype: str, limit: int) -> None:
        self.files = sorted(str(p) for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))[:limit or None]
        self.classes = {name: i for i, name in enumerate(sorted({Path(f).parent.name for f in self.files}))}
        self.dtype = dtype

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.files[index]
        with open(path, "rb") as f:
            image = Image.open(f).convert("RGB")
        left, top, w, h = draw_crop(*image.size)
        image = image.crop((left, top, left + w, top + h)).resize((224, 224), Image.Resampling.BILINEAR)
        if torch.rand(1).item() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        if self.dtype == "float32":
            pixels = pixels.to(torch.float32).div_(255).sub_(MEAN).div_(STD)
        return pixels, self.classes[Path(path).parent.name]


def one_thread(_: int) -> None:
    torch.set_num_threads(1)


def family_rss() -> int:
    """Resident bytes of this process and its children, shared pages counted where they are mapped (proportional set size)."""
    total = 0
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for pid in ["self", *children]:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def cpu_seconds() -> float:
    """Of this process and of children that still run (persistent workers) or have ended."""
    total = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    tick = os.sysconf("SC_CLK_TCK")
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


def run_epoch(loader: DataLoader) -> tuple[int, float]:
    count, total = 0, 0.0
    for images, _labels in loader:
        count += len(images)
        total += float(images[:, :, ::56, ::56].sum(dtype=torch.float64))
    return count, total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--dtype", choices=["float32", "uint8"], default="float32")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="only the first N files")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = Photos(options.folder, options.dtype, options.limit)
    loader = DataLoader(data, batch_size=options.batch_size, shuffle=True, num_workers=options.workers, worker_init_fn=one_thread,
                        persistent_workers=options.workers > 0)
    begun = time.monotonic()
    iterator = iter(loader)
    next(iterator)
    first_batch = time.monotonic() - begun
    for _ in iterator:
        pass

    started, cpu = time.monotonic(), cpu_seconds()
    count = 0
    for _ in range(options.epochs):
        samples, _sum = run_epoch(loader)
        count += samples
    seconds, cpu = time.monotonic() - started, cpu_seconds() - cpu
    assert count == len(data) * options.epochs, f"{count} samples came, {len(data) * options.epochs} expected"
    print(json.dumps({
        "name": "torch DataLoader + Pillow", "workers": options.workers, "samples": count, "samples_per_second": count / seconds,
        "cpu_seconds_per_1000_samples": cpu / count * 1000, "rss_peak_bytes": family_rss(), "time_to_first_batch_seconds": first_batch,
        "torch": torch.__version__, "pillow": Image.__version__,
    }))


if __name__ == "__main__":
    main()
