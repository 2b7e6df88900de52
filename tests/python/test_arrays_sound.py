"""Clips of sound: WAV straight from the read buffer, everything else by libsndfile; soundfile says what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
import soundfile
from array_files import open_arrays
from trust import audit, audited, epochs

RATE = 16000
KINDS = {"u8.wav": "PCM_U8", "s16.wav": "PCM_16", "s24.WAV": "PCM_24", "s32.wav": "PCM_32", "f32.wav": "FLOAT", "f64.wav": "DOUBLE",
         "a.wav": "ALAW", "mu.wav": "ULAW", "c.flac": "PCM_16", "d.ogg": "VORBIS", "e.aiff": "PCM_16"}


def sound(seed: int, frames: int, channels: int = 1) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(seed).standard_normal((frames, channels)).cumsum(axis=0)
    return (values / np.abs(values).max()).astype(np.float64)


def make_clips(folder: Path, count: int = 30, channels: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        soundfile.write(folder / f"{i:03}.wav", sound(i, 500 + 61 * i, channels), RATE, subtype="PCM_16")
    return folder


def read(path: Path, frames: int | None = None) -> np.ndarray[Any, Any]:
    """(channels, frames) float32, cut at the end or followed by silence."""
    values = soundfile.read(path, dtype="float32", always_2d=True)[0].T
    if frames is not None:
        values = np.pad(values[:, :frames], [(0, 0), (0, max(0, frames - values.shape[1]))])
    return values


def of(source: Any, **arguments: Any) -> fb.Loader:
    return open_arrays(source, **{"batch_size": 8, "transforms": [fb.CropOrPad(1000)], **arguments})


def clips(loader: fb.Loader) -> dict[str, np.ndarray[Any, Any]]:
    return {key: np.array(batch[0][i]) for batch in loader for i, key in enumerate(batch.sample_keys)}


# ---- same numbers


def test_every_kind_of_file_equals_soundfile(tmp_path: Path) -> None:
    for i, (name, subtype) in enumerate(KINDS.items()):
        soundfile.write(tmp_path / name.lower(), sound(i, 700 + 100 * i), RATE, subtype=subtype)
        (tmp_path / name.lower()).rename(tmp_path / name)
    with of(tmp_path) as loader:
        seen = clips(loader)
    assert sorted(seen) == sorted(KINDS)
    for name, values in seen.items():
        assert values.dtype == np.float32 and values.shape == (1000,)
        atol = 1e-6 if name == "d.ogg" else 0  # soundfile brings its own libvorbis
        np.testing.assert_allclose(values, read(tmp_path / name, 1000)[0], rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_channels_come_apart(tmp_path: Path, channels: int) -> None:
    make_clips(tmp_path, 12, channels)
    with of(tmp_path, shuffle=True) as loader:
        for key, values in clips(loader).items():
            want = read(tmp_path / key, 1000)
            np.testing.assert_array_equal(values, want if channels > 1 else want[0])


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_mono_is_their_mean(tmp_path: Path, channels: int) -> None:
    make_clips(tmp_path, 12, channels)
    with of(tmp_path, transforms=[fb.Mono(), fb.CropOrPad(1000)]) as loader:
        for key, values in clips(loader).items():
            want = soundfile.read(tmp_path / key, dtype="float32", always_2d=True)[0].mean(axis=1)[:1000]
            np.testing.assert_array_equal(values, np.pad(want, (0, 1000 - len(want))))


def test_mono_mixes_files_of_different_channels(tmp_path: Path) -> None:
    for i, channels in enumerate((1, 2, 1, 3)):
        soundfile.write(tmp_path / f"{i}.wav", sound(i, 900, channels), RATE)
    with of(tmp_path, transforms=[fb.Mono(), fb.CropOrPad(900)]) as loader:
        for key, values in clips(loader).items():
            np.testing.assert_array_equal(values, soundfile.read(tmp_path / key, dtype="float32", always_2d=True)[0].mean(axis=1))
    with of(tmp_path) as loader, pytest.raises(fb.SampleError, match="1.wav: it has 2 channels, the first file 1; use Mono"):
        list(loader)


def test_dtypes(tmp_path: Path) -> None:
    make_clips(tmp_path, 8)
    want = np.stack([read(tmp_path / f"{i:03}.wav", 1000)[0] for i in range(8)])
    for dtype in ("float16", "float64", "int16"):
        with of(tmp_path, dtype=dtype) as loader:
            (values,) = next(iter(loader))
        exact = (want * 32768).astype(np.int16) if dtype == "int16" else want.astype(dtype)
        assert values.dtype == dtype
        np.testing.assert_array_equal(values, exact)


def test_normalised_sound_has_normalised_silence(tmp_path: Path) -> None:
    make_clips(tmp_path, 4)
    for steps in ([fb.CropOrPad(1000)], [fb.Mono(), fb.CropOrPad(1000)]):
        with of(tmp_path, transforms=[*steps, fb.Normalize([0.25], [0.5])]) as loader:
            for key, values in clips(loader).items():
                np.testing.assert_allclose(values, (read(tmp_path / key, 1000)[0] - 0.25) / 0.5, rtol=1e-6)


# ---- lengths


def test_recordings_of_different_lengths(tmp_path: Path) -> None:
    make_clips(tmp_path, 12)
    with of(tmp_path, transforms=[], collate=fb.Pad()) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                want = read(tmp_path / key)[0]
                assert int(batch[0].lengths[i]) == len(want)
                np.testing.assert_array_equal(batch[0].values[i, :len(want)], want)
                assert not batch[0].values[i, len(want):].any()
    with of(tmp_path, transforms=[], collate=fb.Ragged(), shuffle=True) as loader:
        for batch in loader:
            for i, key in enumerate(batch.sample_keys):
                np.testing.assert_array_equal(batch[0][i], read(tmp_path / key)[0])
    with pytest.raises(fb.Error, match=r"001.wav.*same shape.*CropOrPad"):
        of(tmp_path, transforms=[])


def test_recordings_of_one_length_need_no_crop(tmp_path: Path) -> None:
    for i in range(5):
        soundfile.write(tmp_path / f"{i}.wav", sound(i, 640), RATE)
    with of(tmp_path, transforms=[]) as loader:
        assert all(np.array_equal(values, read(tmp_path / key)[0]) for key, values in clips(loader).items())


def test_a_random_crop_is_a_part_of_the_recording_and_changes_with_the_epoch(tmp_path: Path) -> None:
    make_clips(tmp_path)
    with of(tmp_path, transforms=[fb.CropOrPad(600, random=True)], shuffle=True) as loader:
        first, second = clips(loader), clips(loader)
    starts = {}
    for key, values in first.items():
        whole = read(tmp_path / key)[0]
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(whole, (0, max(0, 600 - len(whole)))), 600)
        found = np.flatnonzero((windows == values).all(axis=1))
        assert len(found), f"{key}: no part of it"
        starts[key] = int(found[0])
    assert len(set(starts.values())) > 5 and any(not np.array_equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize("random", [False, True])
def test_of_a_large_recording_only_the_crop_is_read(tmp_path: Path, random: bool) -> None:
    whole = (sound(1, 400_000) * 32767).astype(np.int16)[:, 0]
    soundfile.write(tmp_path / "a.wav", whole, RATE, subtype="PCM_16")
    with of(tmp_path / "a.wav", transforms=[fb.CropOrPad(1000, random=random)], batch_size=1, dtype="int16", drop_last=True) as loader:
        for batch in loader:
            windows = np.lib.stride_tricks.sliding_window_view(whole, 1000)
            assert (windows == np.array(batch[0][0])).all(axis=1).any()
        reads = next(stage for stage in loader.stats()["stages"] if stage["name"] == "read")
    assert reads["bytes"] <= reads["items"] * 4000


# ---- one answer


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_any_number_of_threads_gives_the_same_clips(tmp_path: Path, threads: int) -> None:
    make_clips(tmp_path)
    options: dict[str, Any] = {"transforms": [fb.CropOrPad(700, random=True)], "shuffle": True}
    with of(tmp_path, threads=1, **options) as loader:
        want = clips(loader)
    with of(tmp_path, threads=threads, **options) as loader:
        seen = clips(loader)
    assert list(seen) == list(want) and all(np.array_equal(seen[key], want[key]) for key in want)


@pytest.mark.parametrize("io", ["pread", "uring", "slow:latency_us=500"])
def test_any_back_end_gives_the_same_clips(tmp_path: Path, io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_clips(tmp_path)
    soundfile.write(tmp_path / "large.wav", sound(1, 400_000), RATE, subtype="PCM_16")
    monkeypatch.setenv("FULLBORE_IO", io)
    with of(tmp_path, shuffle=True) as loader:
        seen = clips(loader)
    assert len(seen) == 31 and all(np.array_equal(values, read(tmp_path / key, 1000)[0]) for key, values in seen.items())


def test_labels_and_resuming(tmp_path: Path) -> None:
    for name in ("no", "yes"):
        make_clips(tmp_path / name, 10)
    with of(tmp_path, shuffle=True, batch_size=4) as loader:
        assert loader.classes == ["no", "yes"]
        whole = []
        for batch in loader:
            assert batch[1].tolist() == [int(key.startswith("yes")) for key in batch.sample_keys]
            whole += batch.sample_keys
    with of(tmp_path, shuffle=True, batch_size=4) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with of(tmp_path, shuffle=True, batch_size=4) as loader:
        loader.load_state_dict(state)
        assert [key for batch in loader for key in batch.sample_keys] == whole[4:]


def test_sound_is_audited(tmp_path: Path) -> None:
    make_clips(tmp_path / "wavs")
    with audited(tmp_path / "logs"), of(tmp_path / "wavs", shuffle=True, transforms=[fb.CropOrPad(800, random=True)]) as loader:
        for _ in loader:
            pass
    code, report = audit(tmp_path / "logs")
    assert code == 0 and epochs(report)[0]["verdict"] == "proved"


def test_a_small_budget_holds(tmp_path: Path) -> None:
    make_clips(tmp_path, 60)
    soundfile.write(tmp_path / "large.flac", sound(1, 500_000), RATE, subtype="PCM_16")
    with of(tmp_path, memory="8MiB", threads=2, shuffle=True) as loader:
        assert len(clips(loader)) == 61
        assert loader.stats()["budget"]["peak_bytes"] <= 8 << 20


# ---- bad files


def test_bad_recordings_are_named_or_skipped(tmp_path: Path) -> None:
    make_clips(tmp_path)
    (tmp_path / "003.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    (tmp_path / "007.wav").write_bytes(b"")
    (tmp_path / "011.wav").write_bytes(b"<html>404</html>")
    with of(tmp_path) as loader, pytest.raises(fb.SampleError, match="003.wav"):
        list(loader)
    orders = []
    for threads in (1, 3):
        with of(tmp_path, on_error="skip", shuffle=True, seed=4, threads=threads) as loader:
            seen = [key for batch in loader for key in batch.sample_keys]
            stats = loader.stats()
        orders.append(seen)
        assert {Path(bad["path"]).name for bad in stats["bad_samples"]} == {"003.wav", "007.wav", "011.wav"}
        assert {bad["cause"] for bad in stats["bad_samples"]} >= {"the file is empty"}
    assert orders[0] == orders[1]
    make_clips(tmp_path / "good")
    with of(tmp_path / "good", shuffle=True, seed=4) as loader:
        whole = [key for batch in loader for key in batch.sample_keys]
    bad = {"003.wav", "007.wav", "011.wav"}
    assert all(a == b for a, b in zip(orders[0], whole, strict=True) if b not in bad), "nothing else moved"


def test_recordings_have_no_rows(tmp_path: Path) -> None:
    make_clips(tmp_path, 3)
    with pytest.raises(fb.Error, match="recordings have no rows"):
        of(tmp_path, sample="row")
    with pytest.raises(fb.Error, match="no transform 'resize' for sound; there are: crop_or_pad, mono"):
        of(tmp_path, transforms=[fb.Resize(32)])
