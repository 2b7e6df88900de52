"""Makes a small file for before.py and after.py: features of 256 numbers and a class for each, as a feature builder would write them.

    python make_data.py FILE.h5 [ROWS]
"""

import sys

import h5py
import numpy as np


def main(path, rows):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, rows)
    centres = rng.normal(0, 1, (10, 256))
    with h5py.File(path, "w") as file:
        features = (centres[labels] + rng.normal(0, 2, (rows, 256))).astype(np.float32)
        file.create_dataset("features", data=features, chunks=(64, 256), compression="gzip", compression_opts=4)
        file["labels"] = labels


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000)
