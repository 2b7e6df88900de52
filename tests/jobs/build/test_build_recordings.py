"""fullbore build on recordings of every kind: all codings of WAV, chunks in odd places, files far longer than a row, mixed folders."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
import soundfile
from recordings import RATE, put, sound
from test_build import run

SAMPLES = 3000


def chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def wav_of(*chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + sum(map(len, chunks))) + b"WAVE" + b"".join(chunks)


FORMAT = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16))
PCM = (sound(3, SAMPLES) * 32767).astype("<i2")


SUBTYPES = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM", "GSM610"]
CODINGS = [(c, s) for c in ("WAV", "WAVEX", "W64", "RF64") for s in SUBTYPES if soundfile.check_format(c, s)]


@pytest.mark.parametrize(("container", "subtype"), CODINGS)
def test_every_coding_of_wav_gives_soundfiles_samples(tmp_path: Path, subtype: str, container: str) -> None:
    (tmp_path / "s").mkdir()
    for i in range(3):
        soundfile.write(tmp_path / f"s/{i}.wav", sound(i, 2000 + 900 * i), RATE, subtype=subtype, format=container)
    run(tmp_path / "s", "-o", tmp_path / "a.h5", "--raw", "--length", SAMPLES)
    with h5py.File(tmp_path / "a.h5") as f:
        for i in range(3):
            x = soundfile.read(tmp_path / f"s/{i}.wav", dtype="float32")[0]
            assert np.array_equal(f["features"][i], np.pad(x, (0, SAMPLES))[:SAMPLES])


ODD = {
    "behind": wav_of(FORMAT, chunk(b"data", PCM.tobytes()), chunk(b"LIST", b"INFO" * 50)),
    "far": wav_of(chunk(b"JUNK", bytes(200_001)), FORMAT, chunk(b"LIST", bytes(70_000)), chunk(b"data", PCM.tobytes())),
    "longer_than_said": wav_of(FORMAT, chunk(b"data", PCM.tobytes())) + b"what follows is nobody's",
}


@pytest.mark.parametrize("name", ODD)
def test_chunks_in_odd_places_are_found(tmp_path: Path, name: str) -> None:
    """Between plain ones, from which the reader has learnt how much to read."""
    put(tmp_path / "s/a.wav", 1, SAMPLES)
    (tmp_path / "s/b.wav").write_bytes(ODD[name])
    put(tmp_path / "s/c.wav", 2, SAMPLES)
    run(tmp_path / "s", "-o", tmp_path / "a.h5", "--raw", "--length", SAMPLES, "--threads", 1)
    with h5py.File(tmp_path / "a.h5") as f:
        assert np.array_equal(f["features"][1], PCM / np.float32(32768))
        for i, key in ((0, "a.wav"), (2, "c.wav")):
            assert np.array_equal(f["features"][i], soundfile.read(tmp_path / "s" / key, dtype="float32")[0])


def test_of_a_long_recording_only_the_beginning_is_read(tmp_path: Path) -> None:
    """Two gigabytes of it, with 64 MiB of memory."""
    put(tmp_path / "s/a.wav", 1, SAMPLES)
    length = 2 << 30
    with open(put(tmp_path / "s/b.wav", 2, SAMPLES), "r+b") as f:
        f.seek(4)
        f.write(struct.pack("<I", length + 36))
        f.seek(40)
        f.write(struct.pack("<I", length))
        f.truncate(length + 44)  # a hole: it takes no room
    how = ("--raw", "--memory", "64MiB", "--json")
    said = json.loads(run(tmp_path / "s", "-o", tmp_path / "a.h5", "--length", SAMPLES, *how))
    assert said["rows"] == 2 and said["all"]["bytes_read"] < 1 << 20 and said["memory_peak_bytes"] < 16 << 20
    with h5py.File(tmp_path / "a.h5") as f:
        assert np.array_equal(f["features"][1], soundfile.read(tmp_path / "s/b.wav", frames=SAMPLES, dtype="float32")[0])
    cut = run(tmp_path / "s", "-o", tmp_path / "b.h5", "--segment", SAMPLES, *how, code=3)
    assert "b.wav" in cut and "--memory" in cut


@pytest.mark.parametrize("threads", [1, 4])
def test_of_mixed_rates_the_first_other_one_is_named(tmp_path: Path, threads: int) -> None:
    for i in range(300):
        put(tmp_path / f"s/{i:03d}.wav", i, 500, rate=RATE if i not in (123, 124, 290) else 44100)
    said = run(tmp_path / "s", "-o", tmp_path / "a.h5", "--length", SAMPLES, "--threads", threads, code=3)
    assert "123.wav" in said and "124.wav" not in said and "290.wav" not in said
    assert "it has 44100 samples per second, not 16000" in said and not (tmp_path / "a.h5").exists()


@pytest.mark.parametrize("threads", [1, 4])
def test_of_mixed_channels_the_first_other_one_is_named(tmp_path: Path, threads: int) -> None:
    for i in range(120):
        put(tmp_path / f"s/{i:03d}.wav", i, 500, channels=2 if i in (77, 90) else 1)
    said = run(tmp_path / "s", "-o", tmp_path / "a.h5", "--length", SAMPLES, "--threads", threads, code=3)
    assert "077.wav" in said and "090.wav" not in said and "it has 2 channels" in said and "--mono" in said
    run(tmp_path / "s", "-o", tmp_path / "a.h5", "--raw", "--length", SAMPLES, "--mono")
    with h5py.File(tmp_path / "a.h5") as f:
        x = soundfile.read(tmp_path / "s/077.wav", dtype="float32")[0].mean(axis=1)
        assert np.array_equal(f["features"][77, :500], x)


def test_a_header_that_promises_more_than_there_is_is_no_row_of_garbage(tmp_path: Path) -> None:
    whole = wav_of(FORMAT, chunk(b"data", PCM.tobytes()))
    put(tmp_path / "s/a.wav", 1, SAMPLES)
    for cut in (45, 46, 100, 1001, len(whole) - 1):
        (tmp_path / "s/b.wav").write_bytes(whole[:cut])
        output = tmp_path / f"{cut}.h5"
        run(tmp_path / "s", "-o", output, "--raw", "--length", SAMPLES, "--skip-bad", code=4 if cut < 46 else 0)  # not one sample
        with h5py.File(output) as f:
            there = (cut - 44) // 2
            for row in f["features"][1:]:
                assert np.array_equal(row[:there], PCM[:there] / np.float32(32768)) and not row[there:].any()


LARGE = [1e5, 1e13, 1e20, 3e38]


@pytest.mark.parametrize("how", [("--raw",), ("--raw", "--dtype", "float16"), (), ("--exact",), ("--dtype", "float16"),
                                 ("--mel-scale", "htk", "--n-fft", 65536)], ids=str)
def test_samples_beyond_what_a_row_can_hold_make_no_row_of_garbage(tmp_path: Path, how: tuple[object, ...]) -> None:
    """Such a recording is bad, or its row is the right one."""
    put(tmp_path / "s/a.wav", 1, SAMPLES)
    for i, most in enumerate(LARGE):
        x = sound(i, SAMPLES).astype(np.float32)
        x[1000:1004] = np.float32(most)
        soundfile.write(tmp_path / f"s/b{i}.wav", x, RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "s/c.wav", np.full(SAMPLES, 1e300), RATE, subtype="DOUBLE")
    said = run(tmp_path / "s", "-o", tmp_path / "a.h5", "--length", SAMPLES, *how, "--skip-bad", code=4)
    assert "c.wav: its sample 0 is not a number" in said
    with h5py.File(tmp_path / "a.h5") as f:
        keys, rows = list(f["keys"].asstr()), f["features"][:]
    assert "a.wav" in keys and np.isfinite(rows).all()
    for i, most in enumerate(LARGE):
        if "--raw" in how and "float16" not in how:
            assert rows[keys.index(f"b{i}.wav")].max() == np.float32(most)
        elif f"b{i}.wav" in keys:
            assert "--raw" not in how and most < 1e13 and rows[keys.index(f"b{i}.wav")].max() > 40
        else:
            assert f"b{i}.wav: its sample 1000 is " in said and "too large for a row of" in said
