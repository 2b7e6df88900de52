"""`fullbore doctor` on a small folder."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from PIL import Image

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[2] / ".venv/bin/fullbore"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "photos"
    for i in range(60):
        path = folder / ("cat", "dog")[i % 2] / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((320, 280), 50).convert("RGB").save(path)
    return folder


def doctor(photos: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_CACHE_HOME": str(photos.parent / "cache")}
    return subprocess.run([COMMAND, "doctor", str(photos), *arguments], capture_output=True, text=True, timeout=120, env=env)


def test_it_measures_and_predicts(photos: Path) -> None:
    done = doctor(photos, "--batch-size", "8", "--step-ms", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["samples"] == 60 and found["measured_samples"] >= 60
    assert found["warm_samples_per_second"] > 0 and found["decode_seconds"] > 0
    assert found["wanted_samples_per_second"] == 8000
    first, *others = found["table"]
    assert first["change"] == "as it is" and others
    assert abs(first["accelerator_utilization_ratio"] - min(1, first["later_samples_per_second"] / 8000)) < 1e-3


def test_for_people_it_says_what_is_in_the_way(photos: Path) -> None:
    done = doctor(photos)
    assert done.returncode == 0, done.stderr
    for word in ("machine", "data", "measured", "bottleneck", "as it is"):
        assert word in done.stdout


def test_a_path_that_does_not_exist_is_said(tmp_path: Path) -> None:
    done = doctor(tmp_path / "nothing")
    assert done.returncode == 1 and "nothing" in done.stderr
