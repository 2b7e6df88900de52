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


def test_storage_and_memory_are_measured(photos: Path) -> None:
    found = json.loads(doctor(photos, "--json").stdout)
    depths = [point["depth"] for point in found["storage_reads"]]
    assert depths == [1, 4, 16, 64]
    assert all(point["reads_per_second"] > 0 and point["latency_seconds"] > 0 for point in found["storage_reads"])
    assert found["memory_copy_bytes_per_second"] > 1e8 and found["open_seconds"] > 0
    assert found["open_files_limit"] > 0 and "locked_memory_limit_bytes" in found


def test_every_remedy_has_its_command(photos: Path) -> None:
    rows = json.loads(doctor(photos, "--json", "--transform", "resize size=64,64").stdout)["table"]
    commands = {row["change"]: row["command"] for row in rows}
    assert commands["packed into one file"].startswith(f"fullbore pack {photos}")
    assert "--resize-shorter 73" in commands["packed, shorter side 73 (lossy)"]  # pictures of 280 are far larger than 64
    assert all(row["disk_bytes"] is not None and row["ram_bytes"] is not None for row in rows)


def test_a_proof_measures_and_leaves_nothing_behind(photos: Path, tmp_path: Path) -> None:
    before = {path for folder in (photos, photos.parent, Path("/dev/shm"), Path("/tmp")) for path in folder.glob(".fullbore-doctor-*")}
    listed = sorted(photos.rglob("*"))
    done = doctor(photos, "--prove", "--json", "--batch-size", "8")
    assert done.returncode == 0, done.stderr
    rows = {row["change"]: row for row in json.loads(done.stdout)["table"]}
    for change in ("as it is", "packed into one file"):
        assert rows[change]["proved_later_samples_per_second"] > 0
    assert [row["proved_later_samples_per_second"] for change, row in rows.items() if "worker threads" in change] == [None]
    assert sorted(photos.rglob("*")) == listed
    after = {path for folder in (photos, photos.parent, Path("/dev/shm"), Path("/tmp")) for path in folder.glob(".fullbore-doctor-*")}
    assert after == before
    assert "tried on a sample" in doctor(photos, "--prove").stdout


def test_a_path_that_does_not_exist_is_said(tmp_path: Path) -> None:
    done = doctor(tmp_path / "nothing")
    assert done.returncode == 1 and "nothing" in done.stderr
