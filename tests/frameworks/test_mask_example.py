"""The example of pictures and masks: both sides learn, little changes between them, every pair comes once."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_frameworks import EXAMPLES, run


def last_share(text: str) -> float:
    return float(re.findall(r"([\d.]+)% of the pixels right", text)[-1])


def test_little_changes() -> None:
    before, after = ((EXAMPLES / "masks" / f"{which}.py").read_text().splitlines() for which in ("before", "after"))
    written = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line.startswith("+") and line[1:].strip()][1:]
    assert 0 < len(written) <= 15, "\n".join(written)
    assert len(after) < len(before)


def test_masks_are_learnt_before_and_after(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, str(EXAMPLES / "masks/make_data.py"), str(tmp_path), "96"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    before, _ = run(tmp_path, "masks", "before.py", tmp_path / "pairs.csv", 3)
    after, (batches,) = run(tmp_path, "masks", "after.py", tmp_path / "pairs.csv", 3)
    assert before.count("6 batches") == after.count("6 batches") == 3
    assert last_share(before) > 75 and last_share(after) > 75
    for epoch in range(3):
        assert sorted(key for number, keys in batches if number == epoch for key in keys) == [f"images/{i:04}.jpg" for i in range(96)]
