"""How well shuffle="window" mixes, on the worst file there is: rows sorted by class, in chunks of 64.

    bench/window_mixing.py [--rows N] [--batch-size N] [--epochs N]

For each window, over whole epochs of a loader:
    together    how often two rows that follow each other come from one chunk
    where       correlation of a row's place in the file with its place in the epoch; 0: none
    spread      variance of a class's count in a batch, compared with shuffle=True (1: the same; sorted rows in order: about the batch size)
    worth       batch size / spread: that many rows drawn from everything would balance the classes as well as the batch does
"""

import argparse
import tempfile
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np

CHUNK, CLASSES = 64, 100


def orders(path: Path, epochs: int, **how: object) -> "list[np.ndarray]":
    with fb.Loader(path, fields=["row"], batch_size=8192, framework="numpy", **how) as loader:
        return [np.concatenate([np.array(batch[0]) for batch in loader]) for _ in range(epochs)]


def measures(order: "np.ndarray", batch: int) -> "tuple[float, float, float]":
    rows = len(order)
    together = float(np.mean(order[1:] // CHUNK == order[:-1] // CHUNK))
    where = float(np.corrcoef(order, np.arange(rows))[0, 1])
    classes = (order * CLASSES // rows)[:rows // batch * batch].reshape(-1, batch)
    counts = np.stack([np.bincount(row, minlength=CLASSES) for row in classes])
    share = 1 / CLASSES
    whole = batch * share * (1 - share) * (rows - batch) / (rows - 1)  # drawn without putting back
    return together, where, float(np.mean((counts - batch * share) ** 2)) / whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_024_000)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sorted.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("row", data=np.arange(options.rows), chunks=(CHUNK,), compression="gzip", compression_opts=1)
        print(f"{options.rows} rows in chunks of {CHUNK}, {CLASSES} classes one after another, "
              f"batch {options.batch_size}, {options.epochs} epochs\n")
        print("| order | chunks a window | together | where | spread | worth |\n|---|---|---|---|---|---|")
        ways = {"as they lie": {}, **{f"window={n}": {"shuffle": "window", "window": n} for n in (1024, 4096, 16_384, 65_536)},
                "shuffle=True": {"shuffle": True}}
        for name, how in ways.items():
            seen = [measures(order, options.batch_size) for order in orders(path, options.epochs, **how)]
            together, where, spread = (float(np.mean([one[k] for one in seen])) for k in range(3))
            chunks = f"{how['window'] // CHUNK}" if "window" in how else "-"
            print(f"| {name} | {chunks} | {together:.5f} | {where:+.3f} | {spread:.2f} | {options.batch_size / spread:.0f} |", flush=True)


if __name__ == "__main__":
    main()
