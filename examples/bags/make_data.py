"""Makes a few small slides for before.py and after.py: one HDF5 file each (features n x 256 and coords n x 2, resizable, one row per
chunk), and labels.csv beside the folder.

    python make_data.py FOLDER [SLIDES]
"""

import csv
import sys
from pathlib import Path

import h5py
import numpy as np


def main(folder, slides):
    rng = np.random.default_rng(0)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "labels.csv", "w", newline="") as table:
        rows = csv.writer(table)
        rows.writerow(["path", "label"])
        for i in range(slides):
            n, is_tumour = int(rng.integers(50, 400)), i % 2
            features = rng.normal(0, 1, (n, 256)).astype(np.float32)
            if is_tumour:
                features[: n // 5] += 1  # a fifth of the tissue
            with h5py.File(folder / f"slide_{i:03d}.h5", "w") as file:
                file.create_dataset("features", data=rng.permutation(features), chunks=(1, 256), maxshape=(None, 256))
                file.create_dataset("coords", data=rng.integers(0, 50_000, (n, 2)), chunks=(1, 2), maxshape=(None, 2))
            rows.writerow([f"slide_{i:03d}.h5", ["normal", "tumour"][is_tumour]])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 64)
