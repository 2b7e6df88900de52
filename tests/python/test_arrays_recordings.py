"""Every kind of recording that libsndfile writes, small and large, whatever its name: soundfile says what the samples are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
import soundfile
from array_files import open_arrays
from trust import IS_SOAK

Array = np.ndarray[Any, Any]
RATE, LARGE = 16000, 256 << 10  # bytes: from there on only a part of a recording is read
BYTES_PER_SAMPLE = {"GSM610": 0.2, "IMA_ADPCM": 0.5, "MS_ADPCM": 0.5, "G721_32": 0.5, "NMS_ADPCM_16": 0.25, "NMS_ADPCM_24": 0.375,
                    "NMS_ADPCM_32": 0.5, "G723_24": 0.375, "G723_40": 0.6, "VORBIS": 0.3, "OPUS": 0.25, "MPEG_LAYER_I": 0.5,
                    "MPEG_LAYER_II": 0.4, "MPEG_LAYER_III": 0.25, "PCM_U8": 1, "PCM_S8": 1, "ULAW": 1, "ALAW": 1, "DWVW_12": 1}
LOSSY = ("VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III")  # soundfile brings its own decoders of these
ONE_CHANNEL = ("GSM610", "G721_32", "NMS_ADPCM_16", "NMS_ADPCM_24", "NMS_ADPCM_32", "G723_24", "G723_40", "DWVW_12", "DWVW_16", "DWVW_24")
CONTAINERS = ("WAV", "WAVEX", "RF64", "AIFF", "AU", "CAF", "W64", "FLAC", "OGG", "MP3")
OFTEN = {("WAV", s) for s in ("PCM_16", "PCM_24", "FLOAT", "ULAW", "IMA_ADPCM", "MS_ADPCM", "GSM610")} | {
    ("RIFX", "PCM_16"), ("RIFX", "FLOAT"), ("RF64", "PCM_16"), ("W64", "MS_ADPCM"), ("AIFF", "PCM_16"), ("AU", "PCM_24"),
    ("CAF", "ALAC_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"),
}
ALL = sorted({(c, s) for c in CONTAINERS for s in soundfile.available_subtypes(c)} | {("RIFX", s) for s in ("PCM_16", "PCM_24", "FLOAT")})
MONO = [k for k in ALL if IS_SOAK or k in OFTEN]
STEREO = [k for k in MONO if k[1] not in ONE_CHANNEL and (IS_SOAK or k[1] in ("PCM_16", "IMA_ADPCM"))]


def noise(seed: int, frames: int, channels: int) -> Array:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (frames, channels))


def write(path: Path, container: str, subtype: str, frames: int, channels: int, seed: int = 0) -> None:
    kind, endian = ("WAV", "BIG") if container == "RIFX" else (container, "FILE")
    try:
        soundfile.write(path, noise(seed, frames, channels), 48000 if subtype == "OPUS" else RATE, format=kind, subtype=subtype,
                        endian=endian)
    except (soundfile.LibsndfileError, ValueError) as error:
        pytest.skip(f"soundfile does not write {container} {subtype}: {error}")


def read(path: Path) -> Array:
    """(channels, frames), or (frames,) of one channel."""
    values = soundfile.read(path, dtype="float32", always_2d=True)[0].T
    return values if len(values) > 1 else values[0]


def fitted(values: Array, frames: int) -> Array:
    values = values[..., :frames]
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, frames - values.shape[-1])])


def first_of(path: Path, **options: Any) -> Any:
    with open_arrays([str(path)], batch_size=1, **options) as loader:
        return next(iter(loader))[0]


def check_file(path: Path, atol: float) -> None:
    want = read(path)
    frames = want.shape[-1]
    same = {"rtol": 0, "atol": atol, "err_msg": path.name}
    np.testing.assert_allclose(first_of(path)[0], want, **same)
    np.testing.assert_allclose(first_of(path, transforms=[fb.CropOrPad(frames // 3)])[0], want[..., : frames // 3], **same)
    np.testing.assert_allclose(first_of(path, transforms=[fb.CropOrPad(frames + 777)])[0], fitted(want, frames + 777), **same)
    padded = first_of(path, collate=fb.Pad())
    assert padded.lengths.tolist() == [frames]
    np.testing.assert_allclose(padded.values[0].T, want, **same)
    clip = first_of(path, transforms=[fb.CropOrPad(2000, random=True)])[0]
    check_is_part(clip, want, atol)


def check_is_part(clip: Array, whole: Array, atol: float) -> None:
    one, every = (clip, whole) if clip.ndim == 1 else (clip[0], whole[0])
    if len(every) < 2000:
        np.testing.assert_allclose(clip, fitted(whole, 2000), rtol=0, atol=atol)
        return
    starts = np.flatnonzero(np.abs(every[: len(every) - 1999] - one[0]) <= atol)
    assert any(np.allclose(whole[..., s : s + 2000], clip, rtol=0, atol=atol) for s in starts)


@pytest.mark.parametrize("container, subtype, channels", [(*k, 1) for k in MONO] + [(*k, 2) for k in STEREO])
def test_every_kind_of_recording_equals_soundfile_at_any_size(tmp_path: Path, container: str, subtype: str, channels: int) -> None:
    atol = 2e-4 if subtype in LOSSY else 0.0
    large = int(1.15 * LARGE / BYTES_PER_SAMPLE.get(subtype, 2) / channels)
    for size, frames in (("small", 3001), ("large", large)):
        path = tmp_path / f"{size}.wav"
        write(path, container, subtype, frames, channels)
        assert size == "small" or path.stat().st_size >= LARGE, path.stat().st_size
        try:
            check_file(path, atol)
        except fb.Error as error:
            assert "libsndfile" in str(error) or "cannot be read" in str(error), error  # an older libsndfile than soundfile's
            pytest.skip(f"libsndfile here: {error}")


def test_large_recordings_of_many_kinds_come_together(tmp_path: Path) -> None:
    kinds = [("WAV", s) for s in ("PCM_16", "IMA_ADPCM", "FLOAT", "ULAW", "MS_ADPCM")] + [("FLAC", "PCM_16"), ("RIFX", "PCM_16")]
    for i, (container, subtype) in enumerate(kinds * 2):
        large = int(1.1 * LARGE / BYTES_PER_SAMPLE.get(subtype, 2))
        write(tmp_path / f"{i:02}.wav", container, subtype, large if i < len(kinds) else 4000, 1, seed=i)
    for way in ({"threads": 1}, {"threads": 3, "shuffle": True}, {"cache_ram": "64MiB"}):
        with open_arrays(tmp_path, batch_size=4, transforms=[fb.CropOrPad(9000)], **way) as loader:
            for _ in range(2):
                for batch in loader:
                    for i, key in enumerate(batch.sample_keys):
                        np.testing.assert_array_equal(batch[0][i], fitted(read(tmp_path / key), 9000), err_msg=key)


def test_large_compressed_recordings_come_as_spectrograms_and_mixed(tmp_path: Path) -> None:
    for name, kind in (("a.wav", ("WAV", "PCM_16")), ("b.wav", ("WAV", "IMA_ADPCM"))):
        write(tmp_path / name, *kind, 620000, 2)
    with open_arrays(tmp_path, batch_size=2, transforms=[fb.Mono(), fb.CropOrPad(5000)]) as loader:
        got = next(iter(loader))[0]
    for i, name in enumerate(("a.wav", "b.wav")):
        np.testing.assert_array_equal(got[i], soundfile.read(tmp_path / name, dtype="float32")[0].mean(axis=1)[:5000])
    with open_arrays(tmp_path, batch_size=2, transforms=[fb.Mono(), fb.CropOrPad(5000), fb.LogMel()]) as loader:
        assert np.isfinite(next(iter(loader))[0]).all()


def test_what_is_no_recording_is_refused_whatever_its_name(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", noise(0, 3000, 1), RATE)
    for values in (np.ones(5000, "f4"), np.ones((100, 5000), "i2"), np.ones((500, 1000), "f4", order="F"), np.ones((3, 4, 5), "f4")):
        np.save(tmp_path / "b.npy", values)
        (tmp_path / "b.npy").rename(tmp_path / "b.wav")
        check_second_is_refused(tmp_path)
        np.savez_compressed(tmp_path / "b.npz", x=values)
        (tmp_path / "b.npz").rename(tmp_path / "b.wav")
        check_second_is_refused(tmp_path)


def check_second_is_refused(folder: Path) -> None:
    for options in ({"transforms": [fb.CropOrPad(1000)]}, {"collate": fb.Pad()}):
        with open_arrays(folder, batch_size=1, **options) as loader, pytest.raises(fb.SampleError, match=r"b\.wav.*no(t| ).*sound"):
            for _ in loader:
                pass


@pytest.mark.parametrize("sample", ["file", "row"])
def test_a_recording_among_arrays_is_refused(tmp_path: Path, sample: str) -> None:
    np.save(tmp_path / "a.npy", np.ones((3000, 1), "f4"))
    for container, subtype in (("WAV", "PCM_16"), ("WAV", "FLOAT"), ("FLAC", "PCM_16")):
        write(tmp_path / "b.wav", container, subtype, 3000, 1)
        (tmp_path / "b.wav").rename(tmp_path / "b.npy")
        with pytest.raises(fb.Error, match=r"b\.npy.*sound"), open_arrays(f"{tmp_path}/*.npy", sample=sample, batch_size=1) as loader:
            for _ in loader:
                pass


@pytest.mark.parametrize("name, container, endian", [
    ("a.au", "AU", "BIG"), ("a.au", "AU", "LITTLE"), ("a.snd", "AU", "BIG"), ("a.caf", "CAF", "FILE"), ("a.w64", "W64", "FILE"),
    ("a.AU", "AU", "BIG"), ("a.wav", "AU", "LITTLE"),
])
def test_recordings_are_known_by_the_names_of_all_formats_that_are_read(tmp_path: Path, name: str, container: str, endian: str) -> None:
    """In a folder, in a list, and alone."""
    folder = tmp_path / "set"
    folder.mkdir()
    path = folder / name
    soundfile.write(path, noise(3, 1200, 1), RATE, format=container, subtype="PCM_16", endian=endian)
    for source in (folder, [str(path)], f"{folder}/*"):
        with open_arrays(source, batch_size=1, transforms=[fb.CropOrPad(1000)]) as loader:
            np.testing.assert_array_equal(next(iter(loader))[0][0], read(path)[:1000])
