"""Pictures with masks to try the example on: discs and squares on noise, and a table that names both files of each.

    python make_data.py FOLDER [COUNT]
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def main(folder, count):
    rng = np.random.default_rng(0)
    for name in ("images", "masks"):
        Path(folder, name).mkdir(parents=True, exist_ok=True)
    rows = ["image,mask"]
    for i in range(count):
        width, height = (int(side) for side in rng.integers(90, 140, 2))
        image = Image.fromarray(rng.integers(0, 120, (height, width, 3), dtype=np.uint8))
        mask = Image.new("L", (width, height))
        for shape in (1, 2):  # disc, square; 0 is the ground
            x, y, size = (int(v) for v in (rng.integers(0, width - 40), rng.integers(0, height - 40), rng.integers(20, 40)))
            for picture, colour in ((image, (230, 40, 40) if shape == 1 else (40, 40, 230)), (mask, shape)):
                pen = ImageDraw.Draw(picture)
                (pen.ellipse if shape == 1 else pen.rectangle)((x, y, x + size, y + size), fill=colour)
        image.save(Path(folder, f"images/{i:04}.jpg"), quality=90)
        mask.save(Path(folder, f"masks/{i:04}.png"))
        rows.append(f"images/{i:04}.jpg,masks/{i:04}.png")
    Path(folder, "pairs.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 400)
