"""The whole way of examples/build: a folder of recordings, features in one file, a model that learns from it, and the live line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))


def run(tmp_path: Path, script: str, *arguments: object) -> str:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, ROOT / "examples/build" / script, *map(str, arguments)], capture_output=True, text=True,
                          timeout=240, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", [[], ["--command"]], ids=["function", "command"])
def test_from_recordings_to_a_model_with_the_live_line(tmp_path: Path, how: list[str]) -> None:
    pytest.importorskip("torch")
    run(tmp_path, "make_data.py", tmp_path / "wavs", 300)
    said = run(tmp_path, "from_wavs.py", tmp_path / "wavs", tmp_path / "train.h5", 60, *how)
    with h5py.File(tmp_path / "train.h5") as f:
        assert f["features"].shape == (300, 64, 32) and f["classes"].asstr()[:].tolist() == ["kebo", "mali", "sofu"]
        val = len(range(*f.attrs["rows_val"]))
    lines = [line for line in said.splitlines() if line.startswith("epoch ")]
    losses = [float(re.search(r"loss ([\d.]+)", line)[1]) for line in lines]
    assert len(losses) == 60 and losses[-1] < losses[0] / 4, said
    assert int(re.search(r"right (\d+) of", lines[-1])[1]) > 0.9 * val, said
    assert re.search(r"\| GPU: .* \| CPU: [\d.]+% \| RAM:", lines[-1]), said
    if not how:
        assert "verdict" in said and "train  " in said  # the report of the build
