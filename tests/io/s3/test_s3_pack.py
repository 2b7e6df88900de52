"""Packs from buckets: `fullbore pack s3://...` gives what packing the folder gives."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from s3_client import COMMAND
from server import Fault, Server

Image = pytest.importorskip("PIL.Image")


def run(env: dict[str, str], *arguments: object, code: int = 0) -> str:
    done = subprocess.run([COMMAND, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stderr + done.stdout


@pytest.fixture
def photos(tmp_path: Path, server: Server) -> Path:
    """A folder, and the same in the bucket; one object is longer than a piece of a large copy."""
    rng = np.random.default_rng(0)
    for i in range(90):
        path = tmp_path / "photos" / f"class {i % 3}" / f"{i:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (30 + i, 40, 3), dtype=np.uint8)).save(path)
    with path.open("ab") as f:
        f.write(rng.bytes(33 << 20))
    for p in (tmp_path / "photos").rglob("*.jpg"):
        server.put("bucket", "data/" + p.relative_to(tmp_path / "photos").as_posix(), p.read_bytes())
    return tmp_path / "photos"


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as t:
        return {m.name: t.extractfile(m).read() for m in t if m.name != "__fullbore_index__"}  # type: ignore[union-attr]


def test_a_pack_of_a_bucket_holds_what_a_pack_of_the_folder_holds(env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    run(env, "pack", photos, "-o", tmp_path / "f.tar")
    answer = json.loads(run(env, "pack", "s3://bucket/data", "-o", tmp_path / "b.tar", "--json"))
    assert answer["samples"] == 90
    assert members(tmp_path / "b.tar") == members(tmp_path / "f.tar")
    prints = {json.loads(run(env, "info", s, "--json"))["fingerprint"]
              for s in (photos, tmp_path / "f.tar", tmp_path / "b.tar", "s3://bucket/data")}
    assert len(prints) == 1
    run(env, "verify", tmp_path / "b.tar")
    run(env, "pack", "s3://bucket/data", "-o", tmp_path / "one.tar", "--threads", 1)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "b.tar").read_bytes(), "whatever the number of threads"


def test_decoded_pictures_of_a_bucket_are_those_of_the_folder(env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    run(env, "pack", photos, "-o", tmp_path / "f.npy", "--decode", "16x16")
    run(env, "pack", "s3://bucket/data", "-o", tmp_path / "b.npy", "--decode", "16x16")
    assert (tmp_path / "f.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert (tmp_path / "f.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_an_object_that_is_replaced_meanwhile_is_noticed(env: dict[str, str], server: Server, photos: Path, tmp_path: Path) -> None:
    run(env, "info", "s3://bucket/data")
    server.put("bucket", "data/class 1/001.jpg", b"another version, and a longer one " * 400)
    done = subprocess.run([COMMAND, "pack", "s3://bucket/data", "-o", tmp_path / "b.tar"], env=env, capture_output=True, text=True,
                          timeout=120)
    if done.returncode == 0:  # the listing was asked for again: then it is the new version, whole
        assert members(tmp_path / "b.tar")["class 1/001.jpg"] == b"another version, and a longer one " * 400
    else:
        assert "001.jpg" in done.stderr and not (tmp_path / "b.tar").exists()


def test_bad_weather_changes_nothing_but_the_time(env: dict[str, str], server: Server, photos: Path, tmp_path: Path) -> None:
    run(env, "pack", "s3://bucket/data", "-o", tmp_path / "calm.tar")
    for i in range(0, 90, 7):
        server.faults.append(Fault("status", path=f"/{i:03}.jpg", status=503, times=2))
    run(env, "pack", "s3://bucket/data", "-o", tmp_path / "storm.tar")
    assert (tmp_path / "calm.tar").read_bytes() == (tmp_path / "storm.tar").read_bytes()


def test_a_missing_object_fails_or_is_left_out_by_name(env: dict[str, str], server: Server, photos: Path, tmp_path: Path) -> None:
    run(env, "info", "s3://bucket/data")
    server.faults.append(Fault("status", path="/005.jpg", status=404, code="NoSuchKey"))
    said = run(env, "pack", "s3://bucket/data", "-o", tmp_path / "b.tar", code=1)
    assert "005.jpg" in said and not (tmp_path / "b.tar").exists()
    said = run(env, "pack", "s3://bucket/data", "-o", tmp_path / "b.tar", "--skip-bad", code=4)
    assert "005.jpg" in said and len(members(tmp_path / "b.tar")) == 2 * 89
