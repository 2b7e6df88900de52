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
    assert abs(first["later_accelerator_utilization_ratio"] - min(1, first["later_samples_per_second"] / 8000)) < 1e-3
    rate = first["first_epoch_samples_per_second"] or first["later_samples_per_second"]  # one epoch: the first is all
    assert first["accelerator_utilization_ratio"] == pytest.approx(min(1, rate / 8000), rel=1e-3)


def test_busy_counts_the_first_epoch_and_the_later_ones(photos: Path) -> None:
    found = json.loads(doctor(photos, "--batch-size", "8", "--step-ms", "1", "--epochs", "7", "--json").stdout)
    for row in found["table"]:
        busy = 7 * 60 / 8000 / row["run_seconds"]
        assert row["accelerator_utilization_ratio"] == pytest.approx(busy, rel=1e-3)
        ends = sorted((row["first_epoch_accelerator_utilization_ratio"], row["later_accelerator_utilization_ratio"]))
        assert ends[0] * 0.999 <= busy <= ends[1] * 1.001


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
    for change, row in rows.items():  # other cores cannot be had for a moment
        assert (row["proved_later_samples_per_second"] is None) == ("machine" in change) == bool(row["not_proved_because"])
    assert sorted(photos.rglob("*")) == listed
    after = {path for folder in (photos, photos.parent, Path("/dev/shm"), Path("/tmp")) for path in folder.glob(".fullbore-doctor-*")}
    assert after <= before
    assert "tried on a sample" in doctor(photos, "--prove").stdout


def test_decoded_pictures_are_a_row_of_the_table(photos: Path) -> None:
    rows = {row["change"]: row for row in json.loads(doctor(photos, "--json").stdout)["table"]}
    decoded = rows["decoded once, 256 x 256 (lossy)"]
    assert decoded["disk_bytes"] == 60 * 256 * 256 * 3 and "--decode 256x256" in decoded["command"]
    key = "alone_later_samples_per_second"  # other programs may come and go between the two measurements
    assert decoded[key] >= rows["as it is"][key]


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


def is_proved_or_said_why(found: dict) -> dict:
    for row in found["table"]:
        is_proved = row["proved_later_samples_per_second"] is not None
        assert is_proved != bool(row["not_proved_because"]), row
    return {row["change"]: row for row in found["table"]}


def test_remedies_of_rows_are_tried(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "split.h5", chunks=(500, 8))
    done = doctor(path, "--prove", "--json", "--batch-size", "256")
    assert done.returncode == 0, done.stderr
    rows = is_proved_or_said_why(json.loads(done.stdout))
    for change in ("as it is", "mixed in a window, not everywhere", "all rows in memory", "chunks of 1024 whole rows"):
        assert rows[change]["proved_later_samples_per_second"] > 0, change
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cache", "split.h5"]
    text = doctor(path, "--prove").stdout
    assert "tried on a sample" in text and "not tried: other cores cannot be had for a moment" in text


@pytest.mark.parametrize("kind", ["npz", "npy", "h5"])
def test_remedies_of_bags_are_tried(tmp_path: Path, kind: str) -> None:
    numpy = pytest.importorskip("numpy")
    (tmp_path / "bags").mkdir()
    for i in range(24):
        x = numpy.arange((10 + i) * 16, dtype="float32").reshape(-1, 16)
        if kind == "npz":
            numpy.savez(tmp_path / f"bags/{i}.npz", x=x)
        elif kind == "npy":
            numpy.save(tmp_path / f"bags/{i}.npy", x)
        else:
            write_rows(tmp_path / f"bags/{i}.h5", rows=10 + i, columns=16)
    more = [] if kind == "npy" else ["--fields", "x"]
    done = doctor(tmp_path / "bags", "--prove", "--json", "--batch-size", "4", "--sample", "file", "--collate", "pad", *more)
    assert done.returncode == 0, done.stderr
    assert is_proved_or_said_why(json.loads(done.stdout))["as it is"]["proved_later_samples_per_second"] > 0


def test_remedies_of_recordings_are_tried(tmp_path: Path) -> None:
    done = doctor(write_recordings(tmp_path / "wavs", 50), "--prove", "--json", "--batch-size", "8")
    assert done.returncode == 0, done.stderr
    assert is_proved_or_said_why(json.loads(done.stdout))["as it is"]["proved_later_samples_per_second"] > 0


# ---- batches


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many") / "photos"
    for i in range(256):
        path = folder / str(i % 4) / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((320, 280), 50).convert("RGB").save(path)
    return folder


SMALL_CROP = "random_resized_crop size=64,64"


def look_at(many: Path, batch: int) -> dict:
    return json.loads(doctor(many, "--json", "--batch-size", str(batch), "--transform", SMALL_CROP).stdout)


@pytest.fixture(scope="module")
def small(many: Path) -> dict:
    return look_at(many, 32)


@pytest.mark.parametrize("batch", [16, 250, 1024])
def test_the_size_of_batches_does_not_change_what_a_sample_costs(many: Path, small: dict, batch: int) -> None:
    """Of 256 files: at 250 nearly all lie in the first batch, at 1024 there is no other."""
    large = look_at(many, batch)
    for key in ("known_cpu_seconds", "first_cpu_seconds"):
        assert large[key] == pytest.approx(small[key], rel=0.6), key
    for one in (small, large):
        for row in one["table"]:
            for when in ("first_epoch", "later"):
                rate, alone = row[f"{when}_samples_per_second"], row[f"alone_{when}_samples_per_second"]
                if rate is not None:
                    assert 0 < rate <= alone * 1.001
                    assert alone * one["batch_bytes_per_sample"] <= one["memory_limit_bytes_per_second"] * 1.001
        as_is, *remedies = one["table"]
        assert all(row["later_samples_per_second"] > 0.3 * as_is["later_samples_per_second"] for row in remedies)
        cores = one["cores"]
        assert as_is["later_samples_per_second"] * one["known_cpu_seconds"] <= cores * 1.05


def test_batches_that_nearly_all_files_fill_are_proved_too(many: Path) -> None:
    done = doctor(many, "--json", "--prove", "--batch-size", "250")
    assert done.returncode == 0, done.stderr
    for row in is_proved_or_said_why(json.loads(done.stdout)).values():
        assert row["not_proved_because"] or row["proved_first_epoch_samples_per_second"] is None or (
            row["proved_first_epoch_samples_per_second"] > 0), row


# ---- known files, cores


def test_looking_leaves_nothing_known_behind_and_what_is_known_is_seen(photos: Path, tmp_path: Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> float:
        env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        command = [COMMAND, "doctor", str(photos), "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout)["known_files_ratio"]

    assert look() == 0
    assert look() == 0  # nothing was learnt by the first look that an epoch would find
    assert not list(tmp_path.rglob(".fullbore-doctor-*"))
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([COMMAND, "bench", str(photos)], capture_output=True, env=env, check=True)
    assert look() > 0.9


def test_of_a_machine_of_which_it_may_use_one_core_it_wants_no_more_threads(photos: Path) -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("this machine has one core")
    env = {**os.environ, "XDG_CACHE_HOME": str(photos.parent / "cache")}
    done = subprocess.run([COMMAND, "doctor", str(photos), "--json", "--threads", "1"], capture_output=True, text=True, env=env,
                          preexec_fn=lambda: os.sched_setaffinity(0, {min(allowed)}), check=True)
    found = json.loads(done.stdout)
    assert found["cores"] == 1 and found["machine_cores"] >= 2
    changes = [row["change"] for row in found["table"]]
    assert f"all {found['machine_cores']} cores of this machine (1 allowed)" in changes
    assert not any("worker threads" in change for change in changes)


def test_a_busy_neighbour_is_named_and_taken_out(photos: Path) -> None:
    """One core, half of it taken: without the neighbour it would be quicker, and the table says both."""
    core = {min(os.sched_getaffinity(0))}
    neighbour = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.sched_setaffinity(0, core))
    try:
        env = {**os.environ, "XDG_CACHE_HOME": str(photos.parent / "cache")}
        command = [COMMAND, "doctor", str(photos)]
        on_core = {"capture_output": True, "text": True, "env": env, "check": True, "preexec_fn": lambda: os.sched_setaffinity(0, core)}
        found = json.loads(subprocess.run([*command, "--json"], **on_core).stdout)
        text = subprocess.run(command, **on_core).stdout
    finally:
        neighbour.kill()
        neighbour.wait()
    assert found["other_programs_cores"] > 0.2 and found["cores_wanted_in_vain"] > 0
    row = found["table"][0]
    assert row["alone_later_samples_per_second"] > 1.2 * row["later_samples_per_second"]
    assert row["alone_later_samples_per_second"] * found["known_cpu_seconds"] <= 1.05  # of one core
    for words in ("other programs used", "predicted, as the machine is now", "predicted, alone on the machine"):
        assert words in text


def write_recordings(folder: Path, count: int) -> Path:
    import wave
    for i in range(count):
        path = folder / str(i % 2) / f"{i}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as f:
            f.setparams((1, 2, 16000, 0, "NONE", ""))
            f.writeframes(bytes(2 * 8000))
    return folder


def test_recordings_are_fed_as_they_are(tmp_path: Path) -> None:
    write_recordings(tmp_path / "wavs", 50)
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
