"""The examples of arrays and sound: both sides run on data that their generator makes, little changes between them, and they see the
same."""

from __future__ import annotations

import difflib
import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from test_frameworks import EXAMPLES, run

NEEDS = {"rows": ["torch", "h5py"], "bags": ["torch", "h5py"], "clips": ["torch", "soundfile"]}


def made(name: str, *arguments: object) -> None:
    for package in NEEDS[name]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    done = subprocess.run([sys.executable, str(EXAMPLES / name / "make_data.py"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr


def last_share(text: str) -> float:
    return float(re.findall(r"([\d.]+)% right", text)[-1])


@pytest.mark.parametrize("name", NEEDS)
def test_little_changes(name: str) -> None:
    before, after = ((EXAMPLES / name / f"{which}.py").read_text().splitlines() for which in ("before", "after"))
    written = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line.startswith("+") and line[1:].strip()][1:]
    assert 0 < len(written) <= 15, "\n".join(written)
    assert len(after) < len(before)


def test_rows_are_learnt_before_and_after(tmp_path: Path) -> None:
    made("rows", tmp_path / "train.h5", 3000)
    before, _ = run(tmp_path, "rows", "before.py", tmp_path / "train.h5", 4)
    after, (batches,) = run(tmp_path, "rows", "after.py", tmp_path / "train.h5", 4)
    assert before.count("3 batches, 3000 rows") == after.count("3 batches, 3000 rows") == 4
    assert last_share(before) > 80 and last_share(after) > 80
    for epoch in range(4):
        assert Counter(key for number, keys in batches if number == epoch for key in keys) == Counter(f"train.h5#{i}" for i in range(3000))


def test_bags_are_learnt_before_and_after(tmp_path: Path) -> None:
    made("bags", tmp_path / "slides", 24)
    before, _ = run(tmp_path, "bags", "before.py", tmp_path / "slides", tmp_path / "labels.csv", 4)
    after, (batches,) = run(tmp_path, "bags", "after.py", tmp_path / "slides", tmp_path / "labels.csv", 4)
    assert before.count("6 batches, 24 slides") == after.count("6 batches, 24 slides") == 4
    assert last_share(before) > 80 and last_share(after) > 80
    for epoch in range(4):
        assert sorted(key for number, keys in batches if number == epoch for key in keys) == [f"slide_{i:03d}.h5" for i in range(24)]


def test_clips_give_the_same_features_before_and_after(tmp_path: Path) -> None:
    made("clips", tmp_path / "wavs", 100)
    for script, out in (("before.py", "old.npz"), ("after.py", "new.npz")):
        text, _ = run(tmp_path, "clips", script, tmp_path / "wavs", tmp_path / out)
        assert text.startswith("100 recordings, features 100 x 257")
    old, new = np.load(tmp_path / "old.npz"), np.load(tmp_path / "new.npz")
    assert old["keys"].tolist() == new["keys"].tolist()
    np.testing.assert_array_equal(old["features"], new["features"])
