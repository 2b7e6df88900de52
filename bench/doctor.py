"""Does `fullbore doctor` say what `fullbore bench` then measures? For every format of images, from memory and from storage.

    bench/doctor.py [--photos N] [--rounds N] [--command FULLBORE] [--least]

The same photographs as JPEG, PNG, WebP and in a pack. In each round the doctor looks first, at files nothing is known of; then the bench
feeds them: an epoch from storage with nothing known, and one from memory with all known. Medians over the rounds. --least: exit code 5 if a
prediction is off by more than 15 %.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPEC = "random_resized_crop size=224,224; random_horizontal_flip p=0.5"


def make_sources(folder: Path, photos: Path, command: str) -> dict[str, Path]:
    from PIL import Image

    sources = {name: folder / name for name in ("jpeg", "png", "webp")}
    for i, path in enumerate(sorted(photos.rglob("*.jpg"))):
        places = {name: source / str(i % 10) / f"{i:05d}.{name}" for name, source in sources.items()}
        for place in places.values():
            place.parent.mkdir(parents=True, exist_ok=True)
        places["jpeg"].write_bytes(path.read_bytes())
        picture = Image.open(path).convert("RGB")
        picture.save(places["png"], compress_level=3)
        picture.save(places["webp"], quality=85, method=2)
    subprocess.run([command, "pack", str(sources["jpeg"]), "-o", str(folder / "pack.tar"), "--json"], check=True, capture_output=True)
    return {**sources, "pack": folder / "pack.tar"}


def ask(command: str, *arguments: str, cache: str) -> dict:
    env = {**os.environ, "XDG_CACHE_HOME": cache}
    done = subprocess.run([command, *arguments, "--json"], capture_output=True, text=True, check=True, env=env)
    return json.loads(done.stdout)


def one_round(command: str, source: Path, folder: Path) -> dict[str, tuple[float, float]]:
    """(predicted, measured) samples per second, cold and warm."""
    common = ["--batch-size", "64", "--dtype", "uint8", "--transform", SPEC]
    with tempfile.TemporaryDirectory(dir=folder) as one, tempfile.TemporaryDirectory(dir=folder) as other:
        first = ask(command, "doctor", str(source), *common, cache=one)["table"][0]
        cold = ask(command, "bench", str(source), *common, "--cold", cache=other)
        warm = ask(command, "bench", str(source), *common, "--epochs", "3", cache=other)
    predicted_cold = first["first_epoch_samples_per_second"]
    found = {"warm": (first["later_samples_per_second"], warm["samples_per_second"])}
    if predicted_cold:
        found["cold"] = (predicted_cold, cold["samples_per_second"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--least", action="store_true")
    options = parser.parse_args()
    photos = ROOT / ".cache" / f"photos-{options.photos}"
    if not photos.is_dir():
        subprocess.run([sys.executable, str(ROOT / "tools/make_photos.py"), str(photos), "--count", str(options.photos)], check=True)
    worst = 0.0
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as name:
        folder = Path(name)
        sources = make_sources(folder, photos, options.command)
        print(f"{'format':<8}{'':<6}{'predicted':>10}{'measured':>10}{'off':>8}   load {os.getloadavg()[0]:.1f}", flush=True)
        for kind, source in sources.items():
            rounds = [one_round(options.command, source, folder) for _ in range(options.rounds)]
            for state in ("cold", "warm"):
                pairs = [r[state] for r in rounds if state in r]
                if not pairs:
                    print(f"{kind:<8}{state:<6}not measured: the files could not be dropped from memory", flush=True)
                    continue
                predicted, measured = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
                off = predicted / measured - 1
                worst = max(worst, abs(off))
                print(f"{kind:<8}{state:<6}{predicted:>10.0f}{measured:>10.0f}{100 * off:>+7.0f} %", flush=True)
    print(f"furthest off: {100 * worst:.0f} % (wanted: within 15)")
    return 5 if options.least and worst > 0.15 else 0


if __name__ == "__main__":
    sys.exit(main())
