"""fullbore build: other people's numbers, the same file with any threads, and nothing lost or made up when it is interrupted.

The command is the one that is installed, or FULLBORE_COMMAND.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import soundfile
import xxhash_of_rows
from recordings import RATE, folder, put

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
KILLS = 100 if os.environ.get("FB_SOAK") else 12


@pytest.fixture
def wavs(tmp_path: Path) -> Path:
    return folder(tmp_path / "wavs", 60)


def run(*args: object, code: int = 0) -> str:
    done = subprocess.run([COMMAND, "build", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout if code == 0 else done.stderr + done.stdout


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def left_behind(output: Path) -> list[str]:
    return sorted(p.name for p in output.parent.iterdir() if output.name in p.name and p != output)


def samples(path: Path, n: int) -> np.ndarray:
    x, rate = soundfile.read(path, dtype="float32")
    assert rate == RATE
    return np.pad(x, (0, n))[:n]


# ---- other people's numbers


def test_rows_are_librosas_spectrograms(wavs: Path, tmp_path: Path) -> None:
    librosa = pytest.importorskip("librosa")
    run(wavs, "-o", tmp_path / "a.h5", "--log-mel", 40, "--n-fft", 512, "--hop", 128, "--length", "0.5s", "--exact")
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["features"].shape == (60, 40, 63) and f["features"].dtype == np.float32
        for i in range(0, 60, 7):
            y = samples(wavs / f["keys"].asstr()[i], 8000)
            power = librosa.feature.melspectrogram(y=y, sr=RATE, n_fft=512, hop_length=128, n_mels=40, pad_mode="constant")
            assert np.abs(librosa.power_to_db(power) - f["features"][i]).max() < 1e-4


def test_rows_without_exact_are_as_near_as_torch(wavs: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    librosa = pytest.importorskip("librosa")
    run(wavs, "-o", tmp_path / "a.h5", "--log-mel", 40, "--n-fft", 512, "--hop", 128, "--length", "0.5s", "--top-db", 0)
    bank = torch.from_numpy(librosa.filters.mel(sr=RATE, n_fft=512, n_mels=40))
    with h5py.File(tmp_path / "a.h5") as f:
        for i in range(0, 60, 11):
            y = torch.from_numpy(samples(wavs / f["keys"].asstr()[i], 8000))
            s = torch.stft(y, 512, 128, window=torch.hann_window(512), pad_mode="constant", return_complex=True)
            power = bank @ (s.real**2 + s.imag**2)
            loud = (power > 1e-5 * power.max()).numpy()
            wanted = (10 * torch.log10(torch.clamp(power, min=1e-10))).numpy()
            assert np.abs(wanted - f["features"][i])[loud].max() < 2e-4


def test_raw_rows_are_soundfiles_samples(wavs: Path, tmp_path: Path) -> None:
    run(wavs, "-o", tmp_path / "a.h5", "--raw", "--length", 8000)
    with h5py.File(tmp_path / "a.h5") as f:
        for i in range(60):
            assert np.array_equal(f["features"][i], samples(wavs / f["keys"].asstr()[i], 8000))


def test_segments_are_cut_from_each_recording(wavs: Path, tmp_path: Path) -> None:
    run(wavs, "-o", tmp_path / "a.h5", "--raw", "--segment", 1600, "--stride", 700, "--dtype", "float16", "--chunk-rows", 7)
    with h5py.File(tmp_path / "a.h5") as f:
        at = 0
        for key in sorted(p.relative_to(wavs).as_posix() for p in wavs.rglob("*.wav")):
            x, _ = soundfile.read(wavs / key, dtype="float32")
            for k in range(1 + (len(x) - 1600) // 700):
                assert np.array_equal(f["features"][at], x[k * 700 : k * 700 + 1600].astype(np.float16))
                assert f["keys"].asstr()[at] == key and f["segment"][at] == k
                assert f["classes"].asstr()[f["labels"][at]] == key.split("/")[0]
                at += 1
        assert at == len(f["features"])


def test_the_file_says_how_it_was_made(wavs: Path, tmp_path: Path) -> None:
    said = json.loads(run(wavs, "-o", tmp_path / "a.h5", "--log-mel", 32, "--length", "250ms", "--json"))
    with h5py.File(tmp_path / "a.h5") as f:
        made = f["features"].attrs
        assert (made["n_mels"], made["n_fft"], made["hop_length"], made["rate"], made["samples"]) == (32, 1024, 256, RATE, 4000)
        assert f.attrs["made_by"].startswith("fullbore ") and f.attrs["checksum"] == said["checksum"]
        assert f.attrs["checksum"] == xxhash_of_rows.checksum(f["features"])
    assert said["files"] == said["rows"] == 60 and said["shape"] == [60, 32, 16]
    assert said["file_bytes"] == (tmp_path / "a.h5").stat().st_size


def test_the_file_says_what_it_was_made_of(wavs: Path, tmp_path: Path) -> None:
    """In the words of the command: a path of this machine is not there unless somebody wrote it."""
    table = labelled(wavs, tmp_path / "t.csv", "kind", "x")
    for name, how, rows, labels in (
        ("a", ("--length", "250ms"), "beginning", "source"),
        ("b", ("--segment", "1600", "--labels", "folder"), "segments", "folder"),
        ("c", ("--segment", "1600", "--stride", "1600", "--labels", "none"), "segments", "none"),
        ("d", ("--length", "250ms", "--labels", table.name), "beginning", "t.csv"),
    ):
        subprocess.run([COMMAND, "build", "wavs", "-o", f"{name}.h5", *how], cwd=tmp_path, check=True, capture_output=True, timeout=60)
        with h5py.File(tmp_path / f"{name}.h5") as f:
            made = f["features"].attrs
            assert (f.attrs["source"], f.attrs["labels_source"], made["rows"]) == ("wavs", labels, rows)
            assert (made["ref"], made["win_length"], "stride" in made) == (1, 1024, rows == "segments")
        assert os.fsencode(tmp_path) not in (tmp_path / f"{name}.h5").read_bytes()
    put(tmp_path / "one/a.wav", 1, 4000)
    run(tmp_path / "one", "-o", tmp_path / "e.h5", "--raw")
    with h5py.File(tmp_path / "e.h5") as f:
        assert f["features"].attrs["rows"] == "whole" and f.attrs["source"] == str(tmp_path / "one") and f.attrs["labels_source"] == "none"


def test_compressed_rows_are_the_same(wavs: Path, tmp_path: Path) -> None:
    for name, how in (("a", "none"), ("b", "gzip"), ("c", "gzip-9")):
        run(wavs, "-o", tmp_path / f"{name}.h5", "--length", "0.5s", "--compress", how)
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b, h5py.File(tmp_path / "c.h5") as c:
        assert b["features"].compression == "gzip" and b["features"].shuffle and a["features"].chunks is None
        assert np.array_equal(a["features"], b["features"]) and np.array_equal(a["features"], c["features"])
        assert a.attrs["checksum"] == b.attrs["checksum"]


def test_uncompressed_files_are_hardly_larger_than_their_rows(tmp_path: Path) -> None:
    folder(tmp_path / "wavs", 300)
    said = json.loads(run(tmp_path / "wavs", "-o", tmp_path / "a.h5", "--length", "0.5s", "--json"))
    assert said["payload_bytes"] <= said["file_bytes"] < 1.01 * said["payload_bytes"]


def test_small_rows_are_not_outweighed_by_what_is_said_about_them(tmp_path: Path) -> None:
    """Rows of 1.2 KB, more than a hundred of each recording: class, segment and key of each in less than twelve bytes."""
    folder(tmp_path / "wavs", 150)
    how = ("--segment", 1600, "--stride", 40, "--log-mel", 32, "--n-fft", 512, "--hop", 88, "--dtype", "float16", "--json")
    said = json.loads(run(tmp_path / "wavs", "-o", tmp_path / "a.h5", *how))
    assert said["rows"] > 100 * 150 and said["payload_bytes"] == said["rows"] * 32 * 19 * 2
    assert said["file_bytes"] < 1.01 * said["payload_bytes"]
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["segment"].dtype == np.int16 and f["segment"][:3].tolist() == [0, 1, 2] and f["segment"][:].max() > 100
    put(tmp_path / "long/a.wav", 1, 40000)
    run(tmp_path / "long", "-o", tmp_path / "b.h5", "--raw", "--segment", 2, "--stride", 1)
    with h5py.File(tmp_path / "b.h5") as f:
        assert f["segment"].dtype == np.int32 and np.array_equal(f["segment"], np.arange(39999))


# ---- the same file


@pytest.mark.parametrize("how", [
    ("--length", "0.5s"),
    ("--length", "0.5s", "--chunk-rows", "7"),
    ("--segment", "1600", "--stride", "400", "--chunk-rows", "50", "--split", "70/20/10", "--dtype", "float16"),
    ("--segment", "1600", "--stride", "400", "--compress", "gzip", "--split", "80/20"),
    ("--raw", "--segment", "800"),
])
def test_the_file_is_the_same_with_any_number_of_threads(wavs: Path, tmp_path: Path, how: tuple[str, ...]) -> None:
    found = set()
    for threads in (1, 2, 7):
        run(wavs, "-o", tmp_path / f"{threads}.h5", *how, "--threads", threads)
        found.add(digest(tmp_path / f"{threads}.h5"))
    assert len(found) == 1


def test_splits_go_by_recording_and_stay_when_the_folder_grows(wavs: Path, tmp_path: Path) -> None:
    def sides(output: Path) -> dict[str, int]:
        run(wavs, "-o", output, "--segment", 1600, "--split", "60/20/20", "--seed", 5)
        with h5py.File(output) as f:
            keys, split = f["keys"].asstr()[:], f["split"][:]
            for s, name in enumerate(("train", "val", "test")):
                first, last = f.attrs[f"rows_{name}"]
                assert (split[first:last] == s).all() and (split == s).sum() == last - first
        found: dict[str, int] = {}
        for key, side in zip(keys, split, strict=True):
            assert found.setdefault(key, side) == side
        return found

    before = sides(tmp_path / "a.h5")
    assert set(before.values()) == {0, 1, 2}
    for i in range(60, 90):
        put(wavs / "dog" / f"{i:04d}.wav", i, 6000)
    after = sides(tmp_path / "b.h5")
    assert len(after) == 90 and before.items() <= after.items()


def test_labels_come_from_a_table(wavs: Path, tmp_path: Path) -> None:
    keys = sorted(p.relative_to(wavs).as_posix() for p in wavs.rglob("*.wav"))
    table = tmp_path / "labels.csv"
    table.write_text("path,kind,level\n" + "".join(f"{k},{'ab'[i % 2]},{i / 4}\n" for i, k in enumerate(keys)))
    run(wavs, "-o", tmp_path / "a.h5", "--length", "0.2s", "--labels", table)
    with h5py.File(tmp_path / "a.h5") as f:
        assert [f["classes"].asstr()[x] for x in f["labels"]] == ["ab"[i % 2] for i in range(60)]
        assert np.array_equal(f["level"], np.arange(60) / 4)
    table.write_text("path,kind\n" + "".join(f"{k},x\n" for k in keys[:-1]))
    assert keys[-1] in run(wavs, "-o", tmp_path / "b.h5", "--length", "0.2s", "--labels", table, code=3)


def labelled(wavs: Path, table: Path, head: str, *cells: str) -> Path:
    keys = sorted(p.relative_to(wavs).as_posix() for p in wavs.rglob("*.wav"))
    table.write_text("\n".join([f"path,{head}", *(",".join((k, *cells)) for k in keys)]) + "\n")
    return table


def test_columns_of_a_table_have_names_of_their_own(wavs: Path, tmp_path: Path) -> None:
    """Those that the file itself needs get another beginning."""
    table = labelled(wavs, tmp_path / "a.csv", "kind,labels,split,keys", "x", "7", "0.5", "3")
    run(wavs, "-o", tmp_path / "a.h5", "--length", "0.2s", "--labels", table, "--split", "50/50")
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["classes"].asstr()[f["labels"][0]] == "x"
        assert (f["label_labels"][0], f["label_split"][0], f["label_keys"][0]) == (7, 0.5, 3)
        assert f["split"].dtype == np.uint8 and f["keys"].asstr()[0].endswith(".wav")
    run(wavs, "-o", tmp_path / "b.h5", "--length", "0.2s", "--labels", labelled(wavs, table, "split", "2.5"))
    with h5py.File(tmp_path / "b.h5") as f:
        assert f["labels"][0] == 2.5


@pytest.mark.parametrize("column", ["a/b", "/", "."])
def test_columns_that_cannot_be_datasets_are_refused_at_once(wavs: Path, tmp_path: Path, column: str) -> None:
    table = labelled(wavs, tmp_path / "a.csv", f"kind,{column}", "x", "7")
    said = run(wavs, "-o", tmp_path / "a.h5", "--length", "0.2s", "--labels", table, code=2)
    assert f"'{column}'" in said and "another name" in said and left_behind(tmp_path / "a.h5") == []


# ---- bad input


def spoil(wavs: Path) -> dict[str, str]:
    """Bad recordings of every kind, and a word of what is said about each."""
    good = (wavs / "cat/0000.wav").read_bytes()
    put(wavs / "bad/rate.wav", 1, 4800, rate=8000)
    put(wavs / "bad/stereo.wav", 1, 4800, channels=2)
    put(wavs / "bad/nothing.wav", 1, 0)
    (wavs / "bad/empty.wav").write_bytes(b"")
    (wavs / "bad/text.wav").write_text("not a recording at all, but long enough to look at\n")
    (wavs / "bad/header.wav").write_bytes(good[:30])
    soundfile.write(wavs / "bad/nan.wav", np.array([0.1, np.nan] * 3000, dtype=np.float32), RATE, subtype="FLOAT")
    return {"rate": "8000", "stereo": "2 channels", "nothing": "0 samples", "empty": "empty", "text": "", "header": "",
            "nan": "not a number"}


def test_bad_recordings_are_named_and_left_out(wavs: Path, tmp_path: Path) -> None:
    bad = spoil(wavs)
    said = run(wavs, "-o", tmp_path / "a.h5", "--raw", "--length", "0.3s", "--rate", RATE, "--skip-bad", code=4)
    for name, word in bad.items():
        line = next(x for x in said.splitlines() if x.startswith(f"bad/{name}.wav: "))
        assert word in line
    with h5py.File(tmp_path / "a.h5") as f:
        keys = f["keys"].asstr()[:]
        assert len(keys) == len(f["features"]) == 60 and f.attrs["files_left_out"] == len(bad)
        for i in range(0, 60, 9):
            assert np.array_equal(f["features"][i], samples(wavs / keys[i], 4800))


@pytest.mark.parametrize("said", [("--rate", RATE, "--length", "0.3s"), ("--length", "0.3s")])
def test_many_bad_recordings_in_front_are_left_out_like_others(wavs: Path, tmp_path: Path, said: tuple[object, ...]) -> None:
    (wavs / "ant").mkdir()
    for i in range(20):
        (wavs / f"ant/{i:02d}.wav").write_bytes(b"")
    run(wavs, "-o", tmp_path / "a.h5", *said, "--skip-bad", code=4)
    with h5py.File(tmp_path / "a.h5") as f:
        assert len(f["features"]) == 60 and f.attrs["files_left_out"] == 20 and f["features"].attrs["rate"] == RATE
    words = run(wavs, "-o", tmp_path / "b.h5", *said, code=3)
    assert "00.wav" in words and "the file is empty" in words and "15.wav" not in words


def test_a_bad_recording_ends_the_build_and_is_the_first_one(wavs: Path, tmp_path: Path) -> None:
    spoil(wavs)
    for threads in (1, 4):
        said = run(wavs, "-o", tmp_path / "a.h5", "--length", "0.3s", "--rate", RATE, "--threads", threads, code=3)
        assert "bad/empty.wav" in said and "the file is empty" in said
    assert not (tmp_path / "a.h5").exists()


def test_mixed_rates_name_the_file(wavs: Path, tmp_path: Path) -> None:
    put(wavs / "dog/0500.wav", 1, 4800, rate=44100)
    said = run(wavs, "-o", tmp_path / "a.h5", "--length", "0.3s", code=3)
    assert "dog/0500.wav" in said and "44100" in said and str(RATE) in said


def test_channels_are_mixed_only_when_asked(tmp_path: Path) -> None:
    put(tmp_path / "wavs/a.wav", 1, 4000, channels=2)
    assert "--mono" in run(tmp_path / "wavs", "-o", tmp_path / "a.h5", "--raw", "--length", 4000, code=3)
    run(tmp_path / "wavs", "-o", tmp_path / "a.h5", "--raw", "--length", 4000, "--mono")
    x, _ = soundfile.read(tmp_path / "wavs/a.wav", dtype="float32")
    with h5py.File(tmp_path / "a.h5") as f:
        assert np.array_equal(f["features"][0], x.mean(axis=1))


def test_lengths_that_differ_are_refused_without_a_length(wavs: Path, tmp_path: Path) -> None:
    assert "--length" in run(wavs, "-o", tmp_path / "a.h5", "--raw", code=3)


def test_rows_shorter_than_a_frame_are_padded_or_refused(tmp_path: Path) -> None:
    put(tmp_path / "wavs/a.wav", 1, 100)
    put(tmp_path / "wavs/b.wav", 2, 9000)
    run(tmp_path / "wavs", "-o", tmp_path / "a.h5", "--length", 4000)
    said = run(tmp_path / "wavs", "-o", tmp_path / "b.h5", "--segment", 4000, "--skip-bad", code=4)
    assert "a.wav: it has 100 samples" in said
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert len(a["features"]) == 2 and list(b["keys"].asstr()) == ["b.wav", "b.wav"]


def test_nothing_good_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    (tmp_path / "wavs/a.wav").write_bytes(b"")
    run(tmp_path / "wavs", "-o", tmp_path / "a.h5", "--length", 4000, "--skip-bad", code=3)
    assert not (tmp_path / "a.h5").exists() and left_behind(tmp_path / "a.h5") == []


@pytest.mark.parametrize("wrong", [
    ("--length", "five"), ("--length", "0"), ("--split", "80"), ("--split", "0/0"), ("--split", "a/b"), ("--dtype", "int8"),
    ("--compress", "lzf"), ("--compress", "gzip-10"), ("--raw", "--log-mel", "64"), ("--length", "1s", "--segment", "1s"),
    ("--stride", "1s"),
    ("--length", "1s", "--n-fft", "7"),
])
def test_wrong_options_are_refused(wavs: Path, tmp_path: Path, wrong: tuple[str, ...]) -> None:
    run(wavs, "-o", tmp_path / "a.h5", *wrong, code=2)
    assert not (tmp_path / "a.h5").exists() and left_behind(tmp_path / "a.h5") == []


# ---- the output


def test_an_output_that_is_there_stays_unless_forced(wavs: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.h5"
    output.write_text("mine")
    assert "--force" in run(wavs, "-o", output, "--length", "0.2s", code=1)
    assert output.read_text() == "mine"
    run(wavs, "-o", output, "--length", "0.2s", "--force")
    with h5py.File(output) as f:
        assert len(f["features"]) == 60


@pytest.mark.parametrize("more", [(), ("--resume",)], ids=str)
def test_a_finished_file_that_has_the_partial_name_as_well_stays_whole(wavs: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    """As a crash leaves it between the two steps of publishing where RENAME_NOREPLACE is not to be had."""
    output, partial = tmp_path / "a.h5", tmp_path / ".a.h5.partial"
    output.write_bytes(b"a finished build")
    os.link(output, partial)
    assert "already" in run(wavs, "-o", output, "--length", "0.2s", *more, code=1)
    (wavs / "owl/9999.wav").write_bytes(b"")
    run(wavs, "-o", output, "--length", "0.2s", "--force", *more, code=3)
    assert output.read_bytes() == b"a finished build"
    (wavs / "owl/9999.wav").unlink()
    run(wavs, "-o", output, "--length", "0.2s", "--force", *more)
    with h5py.File(output) as f:
        assert len(f["features"]) == 60
    assert left_behind(output) == [] and output.stat().st_nlink == 1


@pytest.mark.parametrize("part", ["partial", "journal"])
def test_two_builds_of_one_file_do_not_meet(wavs: Path, tmp_path: Path, part: str) -> None:
    """Whoever writes holds a lock on the partial file, and this command on its journal as well; neither is touched by who comes second."""
    held = tmp_path / f".a.h5.{part}"
    held.write_bytes(b"somebody else's")
    with open(held, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        for more in ((), ("--force",), ("--resume",)):
            said = run(wavs, "-o", tmp_path / "a.h5", "--length", "0.2s", *more, code=1)
            assert "another build is writing this file" in said
        assert held.read_bytes() == b"somebody else's" and left_behind(tmp_path / "a.h5") == [held.name]
    run(wavs, "-o", tmp_path / "a.h5", "--length", "0.2s")
    assert left_behind(tmp_path / "a.h5") == []


def is_locked(path: Path) -> bool:
    """By somebody else."""
    try:
        with open(path, "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def test_a_journal_that_was_removed_while_we_waited_is_made_anew(wavs: Path, tmp_path: Path) -> None:
    """As fullbore.build of the Python package does, with the lock on the partial file in hand."""
    (wavs / "owl/9999.wav").write_bytes(b"")
    journal, what = tmp_path / ".a.h5.journal", (wavs, "-o", tmp_path / "a.h5", "--length", "0.2s", "--chunk-rows", 7, "--threads", 1)
    (tmp_path / ".a.h5.partial").write_bytes(b"")
    with open(tmp_path / ".a.h5.partial", "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        child = subprocess.Popen([COMMAND, "build", *map(str, what)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not is_locked(journal) and child.poll() is None:
            time.sleep(0.002)
        journal.unlink()
    said = child.communicate(timeout=60)[1]
    assert child.returncode == 3 and "--resume" in said, said
    assert journal.exists()
    (wavs / "owl/9999.wav").unlink()
    assert json.loads(run(*what, "--resume", "--json"))["resumed_rows"] > 0


def test_a_build_holds_its_lock_until_the_file_has_its_name(tmp_path: Path) -> None:
    """Seen from outside, by the lock that fullbore.build of the Python package asks for."""
    wavs = folder(tmp_path / "wavs", 60)
    how = ("--segment", "800", "--stride", "8", "--threads", "1")
    child = subprocess.Popen([COMMAND, "build", wavs, "-o", tmp_path / "a.h5", *how], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        partial = tmp_path / ".a.h5.partial"
        while not (partial.exists() and partial.stat().st_size) and child.poll() is None:
            time.sleep(0.002)
        os.kill(child.pid, signal.SIGSTOP)  # so that it cannot end meanwhile
        assert child.poll() is None and partial.exists()
        with open(partial, "rb") as f, pytest.raises(BlockingIOError):
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert "another build" in run(wavs, "-o", tmp_path / "a.h5", "--length", "0.2s", "--force", code=1)
        os.kill(child.pid, signal.SIGCONT)
    finally:
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGCONT)
        assert child.wait(timeout=60) in (0, 130)


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    wavs = folder(tmp_path / "wavs", 60)
    output = tmp_path / "a.h5"
    how = ("--segment", "800", "--stride", "8", "--threads", "1")
    child = subprocess.Popen([COMMAND, "build", wavs, "-o", output, *how], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / ".a.h5.partial").exists() and child.poll() is None:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGSTOP)
    assert not output.exists()
    output.write_text("mine")
    os.kill(child.pid, signal.SIGCONT)
    said = child.communicate(timeout=120)[1]
    assert child.returncode == 1 and "the output already exists" in said, said
    assert output.read_text() == "mine" and "--resume" in said
    run(wavs, "-o", output, *how, "--resume", "--force")
    run(wavs, "-o", tmp_path / "b.h5", *how)
    assert digest(output) == digest(tmp_path / "b.h5")


def run_with_room(kib: int, *args: object) -> str:
    """As on a disk that is full after so many KiB."""
    words = shlex.join(map(str, (COMMAND, "build", *args)))
    done = subprocess.run(["bash", "-c", f"trap '' XFSZ; ulimit -f {kib}; exec {words}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "write" in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize("how", [
    ("--raw", "--length", "0.5s"),
    ("--raw", "--length", "0.5s", "--chunk-rows", "3"),
    ("--length", "0.5s"),
    ("--raw", "--segment", "800"),
], ids=" ".join)
def test_a_full_disk_leaves_nothing_under_the_name(tmp_path: Path, how: tuple[str, ...]) -> None:
    """Rows that did arrive are kept, and the next run goes on behind them."""
    wavs = folder(tmp_path / "wavs", 300)
    run(wavs, "-o", tmp_path / "whole.h5", *how)
    room = (tmp_path / "whole.h5").stat().st_size * 2 // 3 >> 10
    run_with_room(room, wavs, "-o", tmp_path / "a.h5", *how)
    assert not (tmp_path / "a.h5").exists() and (tmp_path / ".a.h5.partial").exists()
    said = json.loads(run(wavs, "-o", tmp_path / "a.h5", *how, "--resume", "--json"))
    assert 0 < said["resumed_rows"] < said["rows"]
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "whole.h5")


# ---- interrupted


KINDS = {
    "contiguous": ("--segment", "1600", "--stride", "100", "--skip-bad"),
    "chunked": ("--segment", "1600", "--stride", "100", "--chunk-rows", "33", "--skip-bad", "--split", "80/20"),
    "deflated": ("--segment", "1600", "--stride", "200", "--compress", "gzip", "--skip-bad"),
    "raw": ("--raw", "--length", "8000", "--skip-bad"),
    "one_row_each": ("--length", "0.5s", "--chunk-rows", "5", "--skip-bad"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_build_goes_on_to_the_same_file(tmp_path: Path, kind: str) -> None:
    wavs = folder(tmp_path / "wavs", 240)
    (wavs / "cat/0003.wav").write_bytes(b"")
    (wavs / "owl/9999.wav").write_bytes(b"RIFF")
    how = (*KINDS[kind], "--labels", "none")
    run(wavs, "-o", tmp_path / "whole.h5", *how, code=4)
    took = time.monotonic()
    run(wavs, "-o", tmp_path / "again.h5", *how, code=4)
    took = time.monotonic() - took
    wanted, rng, kills, resumed = digest(tmp_path / "whole.h5"), random.Random(kind), 0, 0
    for _ in range(KILLS):
        output = tmp_path / "killed.h5"
        for _ in range(rng.randint(1, 3)):
            child = subprocess.Popen([COMMAND, "build", wavs, "-o", output, *how, "--resume", "--threads", str(rng.randint(1, 3))],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * took)
            child.kill()
            kills += child.wait() == -signal.SIGKILL
            if output.exists():
                break
        if not output.exists():
            said = json.loads(subprocess.run([COMMAND, "build", wavs, "-o", output, *how, "--resume", "--json"], capture_output=True,
                                             check=False, timeout=60).stdout)
            resumed += said["resumed_rows"] > 0
        assert digest(output) == wanted
        assert left_behind(output) == []
        output.unlink()
    assert kills > 0 and resumed > 0


def test_damage_to_what_was_left_is_found_and_made_anew(tmp_path: Path) -> None:
    wavs = folder(tmp_path / "wavs", 120)
    how = ("--segment", "1600", "--stride", "100", "--threads", "1")
    run(wavs, "-o", tmp_path / "whole.h5", *how)
    bad = put(wavs / "owl/9999.wav", 1, 4800)
    spoiled = bad.read_bytes()
    bad.write_bytes(b"")  # the last one ends the build
    run(wavs, "-o", tmp_path / "a.h5", *how, code=3)
    partial = tmp_path / ".a.h5.partial"
    assert partial.exists()
    bad.write_bytes(spoiled)
    run(wavs, "-o", tmp_path / "with.h5", *how)
    with open(partial, "r+b") as f:
        f.seek(partial.stat().st_size // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    said = json.loads(run(wavs, "-o", tmp_path / "a.h5", *how, "--resume", "--json"))
    assert 0 < said["resumed_rows"] < said["rows"]
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "with.h5")


def age(root: Path) -> None:
    """Folders that are older than what is noted about them: what is noted is trusted."""
    for path in (root, *filter(Path.is_dir, root.rglob("*"))):
        os.utime(path, (time.time() - 3600,) * 2)


def test_a_build_goes_on_from_the_first_recording_that_changed(tmp_path: Path) -> None:
    """Rewritten in its place, which no folder tells."""
    wavs = folder(tmp_path / "wavs", 120)
    how = ("--segment", "1600", "--stride", "400", "--threads", "1")
    bad = wavs / "owl/0110.wav"
    good = bad.read_bytes()
    bad.write_bytes(b"")
    age(wavs)
    run(wavs, "-o", tmp_path / "a.h5", *how, code=3)
    before = {path: path.stat().st_mtime_ns for path in wavs.iterdir()}
    put(wavs / "dog/0001.wav", 77, 9000)  # another one, before it
    bad.write_bytes(good)
    assert before == {path: path.stat().st_mtime_ns for path in wavs.iterdir()}
    said = json.loads(run(wavs, "-o", tmp_path / "a.h5", *how, "--resume", "--json"))
    assert 0 < said["resumed_rows"] < 0.5 * said["rows"]
    run(wavs, "-o", tmp_path / "b.h5", *how)
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "b.h5")


def test_what_was_written_of_recordings_that_went_does_not_show(tmp_path: Path) -> None:
    wavs = folder(tmp_path / "wavs", 120)
    how = ("--raw", "--segment", "801", "--threads", "1")  # rows end beside columns' places
    (wavs / "owl/9999.wav").write_bytes(b"")
    run(wavs, "-o", tmp_path / "a.h5", *how, code=3)
    for path in sorted((wavs / "owl").iterdir())[3:]:
        path.unlink()
    said = json.loads(run(wavs, "-o", tmp_path / "a.h5", *how, "--resume", "--json"))
    assert said["resumed_rows"] > 0
    run(wavs, "-o", tmp_path / "b.h5", *how)
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "b.h5")


@pytest.mark.parametrize("is_mended", [False, True])
def test_a_bad_recording_is_counted_once_after_two_stops(tmp_path: Path, is_mended: bool) -> None:
    """It is the last one of the first task, so the row before it is where the second run begins."""
    for i in range(96):
        put(tmp_path / f"s/{i:03d}.wav", i, 8000)
    bad = tmp_path / "s/031.wav"
    good = bad.read_bytes()
    bad.write_bytes(b"RIFF")
    how = (tmp_path / "s", "--raw", "--length", "8000", "--skip-bad", "--threads", "1")
    run_with_room(1200, "-o", tmp_path / "a.h5", *how)
    if is_mended:
        bad.write_bytes(good)
    run(*how, "-o", tmp_path / "b.h5", code=0 if is_mended else 4)
    run_with_room(2400, "-o", tmp_path / "a.h5", *how, "--resume")
    run(*how, "-o", tmp_path / "a.h5", "--resume", code=0 if is_mended else 4)
    with h5py.File(tmp_path / "a.h5") as f:
        assert (f.attrs["files"], f.attrs["files_left_out"]) == ((96, 0) if is_mended else (95, 1))
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "b.h5")


def test_other_options_do_not_go_on_with_what_was_left(tmp_path: Path) -> None:
    wavs = folder(tmp_path / "wavs", 40)
    (wavs / "owl/9999.wav").write_bytes(b"")
    run(wavs, "-o", tmp_path / "a.h5", "--raw", "--length", "0.2s", code=3)
    again = [COMMAND, "build", wavs, "-o", tmp_path / "a.h5", "--raw", "--length", "0.1s", "--resume", "--skip-bad", "--json"]
    said = json.loads(subprocess.run(again, capture_output=True, timeout=60).stdout)
    assert said["resumed_rows"] == 0 and said["rows"] == 40


# ---- the report


@pytest.mark.parametrize("how", ["--segment 1600", "--raw --length 16384 --threads 1"])  # the latter: others write
def test_the_report_adds_up(wavs: Path, tmp_path: Path, how: str) -> None:
    what = (wavs, "-o", tmp_path / "a.h5", *how.split(), "--split", "50/50")
    said = json.loads(run(*what, "--json", "--report", tmp_path / "r.txt"))
    splits = said["splits"]
    assert splits["train"]["files"] + splits["val"]["files"] == said["all"]["files"] == 60
    assert splits["train"]["rows"] + splits["val"]["rows"] == said["rows"]
    shares = said["wall_share"]
    assert all(0 <= share <= 1 for share in shares.values())
    assert sum(shares[name] for name in shares if name.endswith("_alone")) <= 1
    own = said["all"]["write_thread_seconds"] if said["writers"] else 0
    assert said["all"]["total_thread_seconds"] - own <= said["wall_seconds"] * said["threads"] * 1.01
    assert own <= said["wall_seconds"] * said["writers"] * 1.01
    assert (said["writers"] > 0) == ("--raw" in how and on_a_disk(tmp_path))
    assert shares["finish"] == shares["finish_alone"] > 0
    assert abs(said["files_per_s"] * said["seconds"] - 60) < 1
    text = (tmp_path / "r.txt").read_text()
    assert text.count("s of threads in total: ") == 3  # all, train, val
    assert "verdict" in text and "overlap" in text and "slowest" in text
    assert all(float(share) <= 100 for share in re.findall(r"(\S+) %", text)), text


def test_time_of_a_chunk_is_that_of_its_own_split(tmp_path: Path) -> None:
    """Also when its rows had to be copied, because it is larger than what tasks may hold."""
    how = ("--raw", "--segment", "1600", "--stride", "200", "--chunk-rows", "2400", "--split", "50/50", "--memory", "64MiB", "--threads", 1)
    said = json.loads(run(unlike(tmp_path / "s"), "-o", tmp_path / "a.h5", *how, "--json"))
    for split in said["splits"].values():
        assert split["rows"] > 2 * 2400 and split["write_thread_seconds"] > 0
        stages = [split[f"{stage}_thread_seconds"] for stage in ("read", "compute", "compress", "write")]
        assert abs(split["total_thread_seconds"] - sum(stages)) < 1e-5


def on_a_disk(path: Path) -> bool:
    """One that is written past the page cache."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout.strip()
    return kind in ("ext2/ext3", "xfs")


def test_threads_write_for_the_others_where_it_is_past_the_page_cache(tmp_path: Path) -> None:
    wavs, writers = folder(tmp_path / "wavs", 300), {}
    for how in ("--raw --length 8192", "--raw --length 6016 --dtype float16", "--raw --length 8001",
                "--raw --length 8192 --compress gzip-1", "--raw --length 8192 --chunk-rows 16", "--raw --segment 1504 --dtype float16"):
        writers[how] = json.loads(run(wavs, "-o", tmp_path / "a.h5", *how.split(), "--json", "--force"))["writers"]
    assert list(writers.values()) == ([2, 2, 0, 0, 0, 0] if on_a_disk(tmp_path) else [0] * 6), writers


MEASURE = """
import os, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, done.returncode)
"""


def resident(*args: object, code: int = 0) -> int:
    """The most bytes of memory that it had, by the system's count. Asked for by a small process: a child begins with its parent's."""
    command = [sys.executable, "-S", "-c", MEASURE, COMMAND, "build", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    most, got = map(int, done.stdout.split())
    assert got == code, done.stderr
    return most


def unlike(root: Path) -> Path:
    """A short recording first, then others: of two seconds, of ten, and one of forty."""
    put(root / "0.wav", 0, 1700)
    for i in range(24):
        put(root / f"1{i:02d}.wav", i, 16 * RATE if i % 8 == 4 else 5 * RATE)
    put(root / "2.wav", 99, 40 * RATE)
    soundfile.write(root / "3.flac", np.zeros(10 * RATE), RATE)  # a few bytes
    return root


@pytest.mark.parametrize("how", [
    (),
    ("--chunk-rows", "100"),
    ("--compress", "gzip-1"),
    ("--dtype", "float16", "--split", "50/50"),
], ids=str)
def test_memory_stays_inside_the_budget(tmp_path: Path, how: tuple[str, ...]) -> None:
    """Whatever the first recording is like: the system's count, less that of a build of nothing much."""
    what = (unlike(tmp_path / "s"), "--raw", "--segment", "1600", "--stride", "200", *how)
    put(tmp_path / "one/a.wav", 1, 1600)
    alone = resident(tmp_path / "one", "-o", tmp_path / "one.h5", "--raw", "--segment", "1600", "--threads", 2)
    assert resident(*what, "-o", tmp_path / "a.h5", "--memory", "64MiB", "--threads", 2) - alone < 64 << 20
    said = json.loads(run(*what, "-o", tmp_path / "b.h5", "--memory", "64MiB", "--threads", 5, "--json"))
    assert said["memory_peak_bytes"] <= 64 << 20
    run(*what, "-o", tmp_path / "c.h5", "--memory", "1GiB")
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "b.h5") == digest(tmp_path / "c.h5")


def test_a_recording_too_large_for_the_memory_is_named_with_its_size(tmp_path: Path) -> None:
    """Which ones are does not depend on threads, and what is left is all there."""
    what = (unlike(tmp_path / "s"), "--raw", "--segment", "1600", "--stride", "200", "--memory", "32MiB")
    said = run(*what, "-o", tmp_path / "a.h5", code=3)
    assert "2.wav" in said and "1.2 MiB" in said and "3193 rows" in said and "--memory" in said
    for threads in (1, 4):
        output = tmp_path / f"{threads}.h5"
        assert "2.wav: " in run(*what, "-o", output, "--skip-bad", "--threads", threads, code=4)
        with h5py.File(output) as f:
            assert f.attrs["files_left_out"] == 1 and len(set(f["keys"][:])) == 26
    assert digest(tmp_path / "1.h5") == digest(tmp_path / "4.h5")
    assert "memory" in run(tmp_path / "s", "-o", tmp_path / "b.h5", "--length", "0.5s", "--memory", "64KiB", code=1)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_too_large_is_found_behind_a_large_one_that_is_bad_as_well(tmp_path: Path, threads: int) -> None:
    """Both take a few bytes, so they are in one task, and the first may have what is kept for one that is large."""
    put(tmp_path / "s/0.wav", 1, 1700)
    for name, seconds in (("1", 9), ("2", 17)):
        soundfile.write(tmp_path / f"s/{name}.flac", np.zeros(seconds * RATE), RATE)
    first = tmp_path / "s/1.flac"
    first.write_bytes(first.read_bytes()[: first.stat().st_size // 2])
    how = ("--raw", "--segment", "1600", "--stride", "800", "--memory", "8MiB", "--skip-bad", "--threads", threads)
    said = run(tmp_path / "s", "-o", tmp_path / "a.h5", *how, code=4)
    assert "1.flac: " in said and "2.flac: 4." in said and "of memory for its " in said, said


def run_without_helper(folder: Path, *args: object) -> None:
    """Everything is computed and noted, and then it ends."""
    done = subprocess.run([COMMAND, "build", *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "FULLBORE_HDF5_HELPER": str(folder / "none")})
    assert done.returncode == 1 and "fullbore-hdf5" in done.stderr and "--resume" in done.stderr, done.stderr


@pytest.mark.parametrize("memory", ["64MiB", "33MiB"])
def test_one_left_out_for_want_of_memory_is_tried_again_with_more(tmp_path: Path, memory: str) -> None:
    """And is left out again, with nothing done twice, when that is still too little."""
    what = (unlike(tmp_path / "s"), "--raw", "--segment", "1600", "--stride", "200", "--skip-bad", "--threads", 1)
    run_without_helper(tmp_path, *what, "-o", tmp_path / "a.h5", "--memory", "32MiB")
    is_enough = memory == "64MiB"
    said = run(*what, "-o", tmp_path / "a.h5", "--memory", memory, "--resume", code=0 if is_enough else 4)
    run(*what, "-o", tmp_path / "b.h5", "--memory", memory, code=0 if is_enough else 4)
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "b.h5")
    if not is_enough:
        with h5py.File(tmp_path / "b.h5") as f:
            assert f"{len(f['features'])} rows were there from before" in said


def test_flac_is_sound_too(tmp_path: Path) -> None:
    x = (np.sin(np.arange(6000) / 9) * 0.5).astype(np.float32)
    (tmp_path / "s").mkdir()
    soundfile.write(tmp_path / "s/a.flac", x, RATE)
    soundfile.write(tmp_path / "s/b.wav", x, RATE, subtype="PCM_24")
    run(tmp_path / "s", "-o", tmp_path / "a.h5", "--raw", "--length", 6000)
    with h5py.File(tmp_path / "a.h5") as f:
        for i, key in enumerate(("a.flac", "b.wav")):
            assert np.array_equal(f["features"][i], soundfile.read(tmp_path / "s" / key, dtype="float32")[0])


def test_a_helper_that_is_not_there_is_named(wavs: Path, tmp_path: Path) -> None:
    """What was computed is kept, and goes on with the helper."""
    what = (wavs, "-o", tmp_path / "a.h5", "--length", "0.2s")
    run_without_helper(tmp_path, *what)
    assert not (tmp_path / "a.h5").exists()
    assert json.loads(run(*what, "--resume", "--json"))["resumed_rows"] == 60


def test_the_example_learns_from_what_was_built(tmp_path: Path) -> None:
    """From recordings to a trained model, as the example shows it."""
    pytest.importorskip("torch")
    wavs = folder(tmp_path / "wavs", 150)
    for i, path in enumerate(sorted(wavs.rglob("*.wav"))):  # classes that can be told apart
        put(path, {"cat": 3, "dog": 60, "owl": 100}[path.parent.name] + 117 * (i % 3), 8000)
    run(wavs, "-o", tmp_path / "train.h5", "--length", "0.25s", "--split", "80/20")
    done = subprocess.run([sys.executable, ROOT / "examples/build/train.py", tmp_path / "train.h5", "10"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    right, of = map(int, re.search(r"right (\d+) of (\d+)", last).groups())
    assert of > 15 and right > 0.8 * of and "GPU: " in last, done.stdout
