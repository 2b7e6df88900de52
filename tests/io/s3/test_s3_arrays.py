"""Sound and arrays in a bucket: the same batches as from a folder of the same files; what is not read there is said with its remedy."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from s3_client import COMMAND
from server import Fault, Server

pytest.importorskip("fullbore")

LOADER = """
import hashlib, json, sys
import numpy, fullbore as fb
source, options = sys.argv[1], eval(sys.argv[2], {"fb": fb})
with fb.Loader(source, batch_size=8, shuffle=True, seed=3, framework="numpy", **options) as loader:
    h, keys = hashlib.sha256(), []
    for epoch in range(int(sys.argv[3])):
        for batch in loader:
            keys += batch.sample_keys
            for field in batch:
                h.update(numpy.ascontiguousarray(getattr(field, "values", field)).tobytes())
    print(json.dumps({"hash": h.hexdigest(), "keys": keys, "cache": loader.stats()["cache"]}))
"""


def load(env: dict[str, str], source: str | Path, options: str = "{}", epochs: int = 1, code: int = 0) -> dict:
    done = subprocess.run([sys.executable, "-c", LOADER, str(source), options, str(epochs)], env=env, capture_output=True, text=True,
                          timeout=120)
    assert (done.returncode == 0) == (code == 0), done.stderr
    return json.loads(done.stdout) if code == 0 else {"said": done.stderr}


def upload(server: Server, folder: Path, prefix: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            server.put("bucket", f"{prefix}/{path.relative_to(folder)}", path.read_bytes())


def wav(frames: int, channels: int = 1, seed: int = 0) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(channels)
        w.setsampwidth(2)
        w.setframerate(16000)
        w.writeframes(np.random.default_rng(seed).integers(-30000, 30000, frames * channels, dtype=np.int16).tobytes())
    return out.getvalue()


@pytest.fixture
def wavs(tmp_path: Path) -> Path:
    for i in range(40):
        path = tmp_path / f"wavs/{'ab'[i % 2]}/{i:02}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wav(200_000 if i == 7 else 3000 + 17 * i, seed=i))
    return tmp_path / "wavs"


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    for i in range(30):
        path = tmp_path / f"arrays/{'xy'[i % 2]}/{i:02}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.random.default_rng(i).normal(size=(5, 7)).astype(np.float32))
    return tmp_path / "arrays"


@pytest.mark.parametrize("options", ["{'transforms': [fb.CropOrPad(2000)]}",
                                     "{'transforms': [fb.CropOrPad(2000, random=True), fb.LogMel(16000, n_mels=8)]}",
                                     "{'collate': fb.Pad()}"])
def test_recordings_in_a_bucket_give_the_batches_of_their_folder(server: Server, env: dict[str, str], wavs: Path, options: str) -> None:
    upload(server, wavs, "wavs")
    assert load(env, "s3://bucket/wavs", options) == load(env, wavs, options)


@pytest.mark.parametrize("options", ["{}", "{'transforms': [fb.Normalize([1.0], [2.0])]}", "{'dtype': 'float16'}"])
def test_arrays_in_a_bucket_give_the_batches_of_their_folder(server: Server, env: dict[str, str], arrays: Path, options: str) -> None:
    upload(server, arrays, "arrays")
    assert load(env, "s3://bucket/arrays", options) == load(env, arrays, options)


def test_archives_of_arrays_and_bags_come_from_a_bucket(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "bags"
    folder.mkdir()
    for i in range(12):
        rng = np.random.default_rng(i)
        save = np.savez_compressed if i % 2 else np.savez
        save(folder / f"{i:02}.npz", features=rng.normal(size=(3 + i, 9)).astype(np.float32),
             order=np.asfortranarray(rng.normal(size=(4, 3))))
    upload(server, folder, "bags")
    for options in ("{'collate': fb.Pad()}", "{'collate': fb.Ragged()}", "{'transforms': [fb.SampleInstances(4)]}"):
        assert load(env, "s3://bucket/bags", options) == load(env, folder, options)


def test_many_objects_are_looked_into_side_by_side(server: Server, env: dict[str, str], arrays: Path) -> None:
    upload(server, arrays, "arrays")
    server.faults = [Fault("delay", "/arrays/", seconds=0.2)]
    load(env, "s3://bucket/arrays")
    looks = [r.at for r in server.log if "range" in r.headers]
    assert len(looks) >= 30
    assert max(looks) - min(looks) < 30 * 0.2 / 3  # one after the other they would take six seconds
    server.log.clear()
    load(env, "s3://bucket/arrays")
    assert not [r for r in server.log if "range" in r.headers], "what was learnt is not learnt again"


def test_a_cache_serves_what_it_kept(server: Server, env: dict[str, str], arrays: Path, wavs: Path, tmp_path: Path) -> None:
    upload(server, arrays, "arrays")
    upload(server, wavs, "wavs")
    for name, options in (("arrays", "'sample': 'file'"), ("wavs", "'transforms': [fb.CropOrPad(900)]")):
        plain = load(env, f"s3://bucket/{name}", "{%s}" % options, epochs=2)
        for _ in range(6):  # what cannot be stored in time is only read: on a busy machine it takes more than one turn
            server.log.clear()
            cached = load(env, f"s3://bucket/{name}", "{%s, 'cache_dir': %r}" % (options, str(tmp_path / f"cache-{name}")), epochs=2)
            assert (cached["hash"], cached["keys"]) == (plain["hash"], plain["keys"])
            if not (asked := [r.path for r in server.log if "list-type" not in r.query and "range" not in r.headers]):
                break
        assert asked == [], "what was kept was fetched again"


def test_damaged_objects_are_bad_samples(server: Server, env: dict[str, str], arrays: Path) -> None:
    upload(server, arrays, "arrays")
    server.put("bucket", "arrays/x/00.npy", (arrays / "x/00.npy").read_bytes()[:-20])
    server.put("bucket", "arrays/y/01.npy", b"")
    server.put("bucket", "arrays/x/02.npy", b"no array at all, by its looks")
    assert "x/0" in load(env, "s3://bucket/arrays", code=1)["said"]
    skipped = load(env, "s3://bucket/arrays", "{'on_error': 'skip'}")
    assert len(skipped["keys"]) == 30
    assert not {"x/00.npy", "y/01.npy", "x/02.npy"} & set(skipped["keys"])


def test_an_object_replaced_by_another_shape_is_a_bad_sample(server: Server, env: dict[str, str], arrays: Path) -> None:
    upload(server, arrays, "arrays")
    load(env, "s3://bucket/arrays")
    out = io.BytesIO()
    np.save(out, np.zeros((6, 7), np.float32))
    server.put("bucket", "arrays/x/04.npy", out.getvalue(), modified=1_800_000_000.0)
    assert "04.npy" in load(env, "s3://bucket/arrays", code=1)["said"]


def test_hdf5_and_rows_in_a_bucket_are_refused_with_the_remedy(server: Server, env: dict[str, str], arrays: Path, tmp_path: Path) -> None:
    upload(server, arrays, "arrays")
    server.put("bucket", "h/train.h5", b"\x89HDF\r\n\x1a\n" + bytes(5000))
    for source in ("s3://bucket/h", "s3://bucket/h/train.h5"):
        said = load(env, source, code=1)["said"]
        assert "HDF5 files are not read in a bucket" in said and "fullbore stage" in said
    said = load(env, "s3://bucket/arrays/x/02.npy", code=1)["said"]
    assert "fullbore stage s3://bucket/arrays/x/02.npy" in said and "file" in said
    assert load(env, "s3://bucket/arrays/x/02.npy", "{'sample': 'file'}")["keys"] == ["02.npy"]
    assert "404" in load(env, "s3://bucket/h/none.npy", code=1)["said"]


def test_the_remedy_works(server: Server, env: dict[str, str], arrays: Path, tmp_path: Path) -> None:
    upload(server, arrays, "arrays")
    data = os.urandom(3000)
    server.put("bucket", "h/train.h5", data)
    for source, name, expected in (("s3://bucket/h/train.h5", "train.h5", data),
                                   ("s3://bucket/arrays", "x/02.npy", (arrays / "x/02.npy").read_bytes())):
        target = tmp_path / "staged" / source.replace("/", "-")
        done = subprocess.run([COMMAND, "stage", source, str(target)], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert (target / name).read_bytes() == expected


def test_images_beside_sound_make_a_data_set_of_images(server: Server, env: dict[str, str], wavs: Path) -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, "PNG")
    upload(server, wavs, "mixed")
    server.put("bucket", "mixed/z/last.png", out.getvalue())
    done = subprocess.run([COMMAND, "info", "s3://bucket/mixed", "--json"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["samples"] == 1


def test_info_looks_into_the_objects_of_a_bucket(server: Server, env: dict[str, str], arrays: Path, wavs: Path) -> None:
    upload(server, arrays, "arrays")
    upload(server, wavs, "wavs")
    for name, folder in (("arrays", arrays), ("wavs", wavs)):
        ours, theirs = (subprocess.run([COMMAND, "info", str(source)], env=env, capture_output=True, text=True, timeout=60).stdout
                        for source in (f"s3://bucket/{name}", folder))
        assert "damaged" not in ours
        assert [line for line in ours.splitlines() if line.startswith(("fingerprint", "arrays", "labels"))] == [
            line for line in theirs.splitlines() if line.startswith(("fingerprint", "arrays", "labels"))]
