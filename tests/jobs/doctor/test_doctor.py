"""`fullbore doctor` on a small folder."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from PIL import Image

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[3] / ".venv/bin/fullbore"))


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


def test_decoded_pictures_are_a_row_of_the_table(photos: Path) -> None:
    rows = {row["change"]: row for row in json.loads(doctor(photos, "--json").stdout)["table"]}
    decoded = rows["decoded once, 256 x 256 (lossy)"]
    assert decoded["disk_bytes"] == 60 * 256 * 256 * 3 and "--decode 256x256" in decoded["command"]
    assert decoded["later_samples_per_second"] >= rows["as it is"]["later_samples_per_second"]


def test_decoded_pictures_themselves_are_measured(photos: Path, tmp_path: Path) -> None:
    subprocess.run([COMMAND, "pack", str(photos), "-o", str(tmp_path / "p.npy"), "--decode", "64x64"], check=True, capture_output=True)
    found = json.loads(doctor(tmp_path / "p.npy", "--json", "--transform", "random_horizontal_flip p=0.5").stdout)
    assert found["samples"] == 60 and found["table"][0]["later_samples_per_second"] > 0
    assert not any("decoded once" in row["change"] for row in found["table"])


def write_rows(path: Path, rows: int = 4000, columns: int = 64, **how: object) -> Path:
    h5py = pytest.importorskip("h5py")
    numpy = pytest.importorskip("numpy")
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=numpy.arange(rows * columns, dtype="float32").reshape(rows, columns), **how)
        f.create_dataset("y", data=numpy.arange(rows))
    return path


def test_rows_are_counted_fed_as_they_are_and_tried_in_other_orders(tmp_path: Path) -> None:
    done = doctor(write_rows(tmp_path / "rows.h5"), "--json", "--batch-size", "256")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["samples"] == 4000 and found["measured_samples"] >= 4000 and "bad_chunks" not in found
    rows = {row["command"]: row for row in found["table"]}
    assert rows['Loader(..., shuffle="window")']["later_samples_per_second"] > 0
    assert rows["Loader(..., preload=True)"]["ram_bytes"] == 4000 * 64 * 4 + 4000 * 8
    assert not any("pack" in command or "cache_dir" in command for command in rows)


def test_a_row_that_lies_in_many_chunks_is_named_with_the_command_that_mends_it(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "split.h5", chunks=(500, 8))
    found = json.loads(doctor(path, "--json").stdout)
    assert found["bad_chunks"] == {"array": "x", "chunk_rows": 500, "chunks_per_row": 8, "wanted_chunk_rows": 1024}
    assert any(row["command"] == f"fullbore pack {path} --rechunk 1024 -o rechunked.h5" for row in found["table"])
    text = doctor(path).stdout
    assert "slow for rows: one row of x lies in 8 chunks" in text and "to know" in text


def test_bags_are_whole_files_put_together_as_asked(tmp_path: Path) -> None:
    (tmp_path / "bags").mkdir()
    for i in range(24):
        write_rows(tmp_path / "bags" / f"{i}.h5", rows=10 + i, columns=16)
    done = doctor(tmp_path / "bags", "--json", "--batch-size", "4", "--sample", "file", "--collate", "pad", "--fields", "x", "--memory",
                  "256MiB")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["samples"] == 24 and not any("preload" in row["command"] for row in found["table"])


def test_remedies_of_rows_cannot_be_tried_on_a_sample_of_files(tmp_path: Path) -> None:
    done = doctor(write_rows(tmp_path / "rows.h5"), "--prove")
    assert done.returncode == 1 and "files of pictures" in done.stderr


def test_recordings_are_fed_as_they_are(tmp_path: Path) -> None:
    import wave
    for i in range(50):
        path = tmp_path / "wavs" / str(i % 2) / f"{i}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as f:
            f.setparams((1, 2, 16000, 0, "NONE", ""))
            f.writeframes(bytes(2 * 8000))
    done = doctor(tmp_path / "wavs", "--json", "--batch-size", "8")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["samples"] == 50 and found["table"][0]["later_samples_per_second"] > 0
    assert not any("pack" in row["command"] for row in found["table"])


def test_a_bucket_has_a_budget(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "io/s3"))
    from server import ACCESS_KEY, REGION, SECRET_KEY, Server

    server = Server()
    for path in photos.rglob("*.jpg"):
        server.put("data", f"train/{path.relative_to(photos)}", path.read_bytes())
    env = {**os.environ, "AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
           "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true", "XDG_CACHE_HOME": str(tmp_path)}
    command = [COMMAND, "doctor", "s3://data/train", "--batch-size", "8", "--step-ms", "100"]
    try:
        found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120, env=env, check=True).stdout)
        text = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=True).stdout
    finally:
        server.stop()
    bucket, size = found["bucket"], sum(path.stat().st_size for path in photos.rglob("*.jpg"))
    assert bucket["cache_bytes"] == size and bucket["wanted"]["requests_per_second"] == 80
    assert abs(bucket["wanted"]["bytes_per_second"] / (80 * size / 60) - 1) < 1e-3
    assert bucket["batches_ahead"] >= 2 and bucket["ram_bytes"] > 0 and bucket["given"]["bytes_per_second"] > 0
    assert [point["depth"] for point in found["storage_reads"]] == [1, 4, 16, 64]
    commands = [row["command"] for row in found["table"]]
    assert any("cache_limit=" in c for c in commands) and any(c.startswith("fullbore stage s3://data/train") for c in commands)
    for words in ("in a bucket", "epoch 0", "batches ahead", "epoch 1 on"):
        assert words in text


def test_a_path_that_does_not_exist_is_said(tmp_path: Path) -> None:
    done = doctor(tmp_path / "nothing")
    assert done.returncode == 1 and "nothing" in done.stderr
