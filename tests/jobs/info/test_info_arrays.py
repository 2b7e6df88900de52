"""`fullbore info` of arrays and sound: shapes, dtypes, chunks, filters, and what will be slow with them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import soundfile

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[3] / ".venv/bin/fullbore"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def info(source: object, *options: str) -> tuple[dict[str, Any], str]:
    """The JSON, and the table."""
    said = [subprocess.run([COMMAND, "info", str(source), *options, *more], capture_output=True, text=True, timeout=60)
            for more in (["--json"], [])]
    assert all(run.returncode == 0 for run in said), said[0].stderr
    return json.loads(said[0].stdout), said[1].stdout


def test_arrays_are_described(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("features", data=np.zeros((1000, 96), "f4"), chunks=(64, 96), compression="gzip", shuffle=True)
        file.create_dataset("labels", data=np.arange(1000))
    said, table = info(tmp_path / "a.h5")
    assert said["family"] == "array" and said["formats"] == {"hdf5": 1} and said["rows"] == 1000 and said["fields"] == []
    features, labels = said["arrays"]
    assert (features["name"], features["dtype"], features["shape"]) == ("features", "float32", [1000, 96])
    stored = (features["storage"], features["chunk_shape"], features["chunks"], features["filters"])
    assert stored == ("chunked", [64, 96], 16, "shuffle, gzip")
    assert features["bytes"] == 384_000 and 0 < features["stored_bytes"] < 10_000
    assert (labels["storage"], labels["dtype"], labels["shape"], labels["stored_bytes"]) == ("contiguous", "int64", [1000], 8000)
    assert "features: float32 1000 x 96, 16 chunks of 64 x 96, shuffle, gzip, 375.0 KiB stored in" in table
    assert "64 rows per shuffle, gzip chunk" in said["slow"][0] and said["slow"][0] in table


def test_chunks_that_will_be_inflated_again_and_again_are_named_with_the_remedy(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (6400, 64), "f4", chunks=(64, 64), compression="gzip")
        data[:3200] = 1
    said, _ = info(tmp_path / "a.h5", "--memory", "2MiB")
    assert (said["arrays"][0]["chunks"], said["arrays"][0]["chunks_never_written"]) == (100, 50)
    (remark,) = said["slow"]
    assert "shuffling row by row decompresses each chunk up to 64 times" in remark and 'shuffle="window"' in remark


def test_rows_over_several_chunks_bad_compression_fortran_order_and_what_cannot_be_read(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).random((500, 90))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("split", data=noise, chunks=(50, 30), compression="gzip")
        file.create_dataset("words", data=["a", "b"], dtype=h5py.string_dtype())
        file.create_dataset("lists", (2,), h5py.vlen_dtype(np.int32))
    said, _ = info(tmp_path / "a.h5")
    text = "\n".join(said["slow"])
    assert "split: a row lies in 3 chunks" in text and "split: compression saves" in text
    assert "words: it cannot be read: variable-length" in text and "lists: " in text and "read by libhdf5 in a process of its own" in text
    np.save(tmp_path / "f.npy", np.asfortranarray(noise))
    said, _ = info(tmp_path / "f.npy")
    assert said["arrays"][0]["storage"] == "fortran" and said["slow"][0].startswith("the array: stored column by column (Fortran order)")


def test_bags_of_different_lengths_and_files_that_do_not_fit(tmp_path: Path) -> None:
    for i in range(6):
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            file["features"] = np.zeros((10 + i, 8), "f8" if i == 4 else "f4")
    (tmp_path / "6.h5").write_bytes(b"nothing of the kind")
    said, table = info(tmp_path)
    assert said["formats"] == {"hdf5": 6, "damaged": 1} and "6.h5" in said["damaged_example"]
    (features,) = said["arrays"]
    assert (features["rows_smallest"], features["rows_largest"], features["files"]) == (10, 15, 5)
    assert "only 5 of 7 files have it with this type and shape" in table and "(10 to 15 rows)" in table


def test_recordings_are_described(tmp_path: Path) -> None:
    for i, rate in enumerate((16000, 16000, 8000)):
        soundfile.write(tmp_path / f"{i}.{'flac' if i == 1 else 'wav'}", np.zeros((800 * (i + 1), 1 + i % 2)), rate)
    said, table = info(tmp_path)
    assert said["family"] == "sound" and said["formats"] == {"wav": 2, "FLAC": 1}
    sound = said["sound"]
    assert (sound["frames_shortest"], sound["frames_longest"]) == (800, 2400)
    assert (sound["rate_lowest_hz"], sound["rate_highest_hz"]) == (8000, 16000)
    assert (sound["channels_fewest"], sound["channels_most"]) == (1, 2)
    for words in ("33 % of the files are compressed", "sample rates differ", "channels differ, 1 to 2: use Mono()",
                  "lengths differ: use CropOrPad"):
        assert words in table


def test_names_from_files_do_not_reach_the_terminal_as_they_are(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x\x1b[31mred"] = np.zeros((3, 2))
    said, table = info(tmp_path / "a.h5")
    assert said["arrays"][0]["name"] == "x\x1b[31mred" and "\x1b" not in table
