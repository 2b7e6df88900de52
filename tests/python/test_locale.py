"""A program whose locale has a decimal comma gets the same numbers, and JSON stays JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[2] / ".venv/bin/fullbore"))


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with de_DE.UTF-8, made for the occasion: nothing is installed."""
    folder = tmp_path_factory.mktemp("locale")
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")], capture_output=True, text=True)
    if made.returncode not in (0, 1) or not (folder / "de_DE.UTF-8").exists():
        pytest.skip(f"no de_DE.UTF-8 can be made (the package locales has its sources): {made.stderr}")
    return {**os.environ, "LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}


SCRIPT = """
import json, locale, sys, threading
from pathlib import Path
import numpy as np
import fullbore as fb
if sys.argv[4] == "german":
    locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    assert locale.localeconv()["decimal_point"] == ","
photos, sounds, table, folder = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[5])
options = dict(batch_size=4, framework="numpy", seed=3, threads=2)
jitter = [fb.RandomResizedCrop(24, scale=(0.25, 0.75)), fb.ColorJitter(0.4, 0.4, 0.4, 0.1),
          fb.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
with fb.Loader(photos, transforms=jitter, dtype="float32", shuffle=True, fraction=0.75, memory="0.25GiB", **options) as loader:
    loader.trace(folder / "trace.json", batches=2)
    for batch in loader:
        print(sorted(map(str, batch.draws[0].items())), float(np.abs(batch[0]).sum()), batch.sample_keys)
    state = loader.state_dict()
    loader.stats(), loader.metrics(), loader.postfix(), loader.status_line(), str(loader.verdict())
json.loads((folder / "trace.json").read_text())
with fb.Loader(sounds, transforms=[fb.CropOrPad(64), fb.Normalize([0.5], [0.25])], **options) as loader:
    for batch in loader:
        print(float(np.abs(batch[0]).sum()))
with fb.Loader(sounds, transforms=[fb.CropOrPad(4096), fb.LogMel(sample_rate=8000, n_mels=8, top_db=12.5)], **options) as loader:
    for batch in loader:
        print(float(np.abs(batch[0]).sum()))
with fb.Loader(table, transforms=[fb.Resize((8, 8))], **options) as loader:
    for batch in loader:
        print(batch[1].tolist())
for wrong in (dict(fraction=1.5), dict(transforms=[fb.CropBox("score", "score", "score", "score")])):
    try:
        with fb.Loader(table, **wrong, **options) as loader:
            list(loader)
    except (fb.Error, ValueError) as e:
        print(e)
if sys.argv[4] == "german":
    assert locale.localeconv()["decimal_point"] == ","
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    from made_photos import make_photos
    folder = tmp_path_factory.mktemp("data")
    photos = make_photos(folder / "photos", 16)
    (folder / "sounds").mkdir()
    for i in range(4):
        soundfile.write(folder / "sounds" / f"{i}.wav", np.sin(np.arange(5000) * (i + 1) / 9), 8000)
    table = folder / "table.csv"
    names = sorted(str(p.relative_to(folder)) for p in photos.rglob("*.jpg"))
    table.write_text("path,score\n" + "".join(f"{name},{i + 0.25}\n" for i, name in enumerate(names)))
    return photos, folder / "sounds", table


def test_a_loader_gives_the_same_under_a_decimal_comma(data: tuple[Path, Path, Path], german: dict[str, str], tmp_path: Path) -> None:
    said = [subprocess.run([sys.executable, "-c", SCRIPT, *map(str, data), language, str(tmp_path)], env=german, capture_output=True,
                           text=True, timeout=100) for language in ("german", "plain")]
    assert [s.returncode for s in said] == [0, 0], said
    assert said[0].stdout == said[1].stdout and "0.25" in said[0].stdout


@pytest.mark.parametrize("verb", ["bench", "bench --step-ms 1.5", "info", "doctor --samples 4", "index --learn"])
def test_the_command_prints_json_under_a_decimal_comma(data: tuple[Path, Path, Path], german: dict[str, str], verb: str,
                                                       tmp_path: Path) -> None:
    words = verb.split()
    more = ["--epochs", "1", "--batch-size", "4", "--memory", "0.25GiB"] if words[0] in ("bench", "doctor") else []
    done = subprocess.run([COMMAND, words[0], str(data[0]), *words[1:], *more, "--json"], env={**german, "XDG_CACHE_HOME": str(tmp_path)},
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done
    json.loads(done.stdout)
