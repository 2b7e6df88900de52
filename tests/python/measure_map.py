"""What a function of the user's costs beside itself: CPU time per sample with `Map(lambda image: image)` and the like, less that without.

    python tests/python/measure_map.py [COUNT]      timing, so not a test
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fullbore as fb
from made_photos import make_photos


def cpu_us(folder: Path, count: int, steps: list[Any]) -> tuple[float, dict[str, Any]]:
    """(CPU microseconds per sample, the least of eight epochs; statistics)"""
    with fb.Loader(folder, batch_size=50, threads=1, framework="numpy", transforms=[fb.CenterCrop(224), *steps]) as loader:
        best = float("inf")
        for _ in range(8):
            since = time.process_time()
            for _ in loader:
                pass
            best = min(best, (time.process_time() - since) / count * 1e6)
        return best, loader.stats()


def main(count: int) -> None:
    """Prints a line per kind of function."""
    functions: dict[str, Any] = {
        "fn(image)": lambda image: image, "fn(image, label)": lambda image, label: image,
        "fn(image, label, rng)": lambda image, label, rng: image,
    }
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_photos(Path(scratch), count, side=300)
        for name, function in functions.items():
            without, _ = cpu_us(folder, count, [])
            with_it, stats = cpu_us(folder, count, [fb.Map(function)])
            entry = stats["maps"][0]
            print(f"{name}: {with_it - without:.1f} us beyond the {without:.1f} us without; "
                  f"in Python {1e6 * entry['seconds'] / entry['calls']:.1f} us, "
                  f"waiting for its lock {1e6 * entry['gil_wait_seconds'] / entry['calls']:.1f} us per call")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
