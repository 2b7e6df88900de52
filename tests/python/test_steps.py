"""Steps of sound and arrays run in the order of the list; what they draw is shown, and repeats the result by other means."""

from __future__ import annotations

import itertools
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np
import pytest
import soundfile

RATE = 8000


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of 300 to 3000 frames, one or two channels apart."""
    root = tmp_path_factory.mktemp("clips")
    g = np.random.default_rng(5)
    for i in range(24):
        for channels in (1, 2):
            (root / f"c{channels}").mkdir(exist_ok=True)
            soundfile.write(root / f"c{channels}/{i:02}.wav", g.uniform(-0.9, 0.9, (int(g.integers(300, 3000)), channels)), RATE)
    return root


@pytest.fixture(scope="module")
def spectrograms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What build writes: features of (rows, mels, frames), in chunks; and the same with channels."""
    path = tmp_path_factory.mktemp("rows") / "features.h5"
    g = np.random.default_rng(6)
    with h5py.File(path, "w") as f:
        f.create_dataset("features", data=g.normal(size=(200, 16, 20)).astype("f4"), chunks=(8, 16, 20), compression="gzip")
        f.create_dataset("labels", data=np.arange(200))
    return path


def crop_or_pad(x: np.ndarray, samples: int, start: int) -> np.ndarray:
    x = x[start:start + samples]
    return np.concatenate([x, np.zeros((samples - len(x), *x.shape[1:]), x.dtype)])


def blank(x: np.ndarray, masks: list[dict], fill: float, plane: int = 0) -> np.ndarray:
    x = x.copy()
    for m in masks:
        if m["plane"] == plane:
            where = slice(m["first"], m["first"] + m["count"])
            x[(where, slice(None)) if m["axis"] == "freq" else (slice(None), where)] = fill
    return x


def batches(source: Path, steps: list, **options) -> list:
    with fb.Loader(source, batch_size=8, transforms=steps, framework="numpy", seed=4, shuffle=True, **options) as loader:
        return [(b[0].copy(), b.sample_keys, list(b.draws), b) for b in loader]


def test_a_second_crop_is_a_crop_of_the_first(clips: Path) -> None:
    for first, second in itertools.product((1000, 2000), (500, 1000, 2500)):
        for data, keys, draws, _ in batches(clips / "c1", [fb.CropOrPad(first, random=True), fb.CropOrPad(second)]):
            for x, key, draw in zip(data, keys, draws, strict=True):
                whole = soundfile.read(clips / "c1" / key, dtype="float32")[0]
                assert draw["samples"] == min(len(whole), first, second)
                want = crop_or_pad(whole, first, draw["start"])  # what the first one gives, then the beginning of that
                assert np.array_equal(x, crop_or_pad(want, second, 0)), (key, first, second)


def test_a_random_crop_of_a_padded_recording_may_be_silent(clips: Path) -> None:
    seen = set()
    for data, keys, draws, _ in batches(clips / "c1", [fb.CropOrPad(3000), fb.CropOrPad(200, random=True)]):
        for x, key, draw in zip(data, keys, draws, strict=True):
            whole = soundfile.read(clips / "c1" / key, dtype="float32")[0]
            assert np.array_equal(x, crop_or_pad(whole, 3000, 0)[draw["start"]:][:draw["samples"]].tolist() + [0] * (200 - draw["samples"]))
            seen.add(draw["samples"] == 0)
    assert seen == {True, False}


@pytest.mark.parametrize("kind, names", [("c1", 1), ("c2", 2)])
def test_silence_is_normalised_only_if_it_was_there_before(clips: Path, kind: str, names: int) -> None:
    norm = fb.Normalize([0.25] * names if names == 1 else [0.25, -0.5], [0.5] * names)
    mean = np.array([0.25, -0.5][:names], "f4")
    for steps, pads_last in (([fb.CropOrPad(2500), norm], False), ([norm, fb.CropOrPad(2500)], True)):
        for data, keys, _, _ in batches(clips / kind, steps):
            for x, key in zip(data, keys, strict=True):
                whole = soundfile.read(clips / kind / key, dtype="float32", always_2d=True)[0]
                normed = (whole - mean) * np.float32(2)
                want = crop_or_pad(normed, 2500, 0) if pads_last else (crop_or_pad(whole, 2500, 0) - mean) * np.float32(2)
                assert np.array_equal(x, want.T if names == 2 else want[:, 0]), key


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("fill_is_normalised", [True, False])
def test_masks_and_normalising_follow_the_order(spectrograms: Path, dtype: str, fill_is_normalised: bool) -> None:
    masks, norm = fb.SpecAugment(5, 6, n_time_masks=2, fill=9.0), fb.Normalize([0.5], [2.0])
    with h5py.File(spectrograms) as f:
        stored = f["features"][:]
    drawn = 0
    for data, _, draws, batch in batches(spectrograms, [masks, norm] if fill_is_normalised else [norm, masks], dtype=dtype):
        assert data.dtype == dtype
        for x, draw, label in zip(data, draws, batch["labels"], strict=True):
            row = stored[int(label)]
            drawn += sum(m["count"] > 0 for m in draw["masks"])
            want = (blank(row, draw["masks"], 9) - 0.5) / 2 if fill_is_normalised else blank((row - 0.5) / 2, draw["masks"], 9)
            assert np.array_equal(x, want) if dtype == "float32" else np.allclose(x, want, atol=2e-2)
    assert drawn > 200


def test_rows_are_blanked_by_position_whatever_the_threads(spectrograms: Path) -> None:
    def epoch(**options) -> list:
        return [(data, draws) for data, _, draws, _ in batches(spectrograms, [fb.SpecAugment(5, 6)], **options)]

    one, three, kept = epoch(threads=1), epoch(threads=3), epoch(threads=2, preload=True)
    for (a, drawn), (b, again), (c, once_more) in zip(one, three, kept, strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c) and drawn == again == once_more


def test_arrays_in_files_of_their_own_are_blanked_too(tmp_path: Path) -> None:
    g = np.random.default_rng(7)
    stored = {f"x/{i}.npy": g.normal(size=(3, 8, 10)).astype("f4") for i in range(12)}  # three channels
    (tmp_path / "x").mkdir()
    for key, x in stored.items():
        np.save(tmp_path / key, x)
    for data, keys, draws, _ in batches(tmp_path, [fb.SpecAugment(3, 4), fb.SpecAugment(2, 2, fill="mean")], sample="file"):
        for x, key, draw in zip(data, keys, draws, strict=True):
            assert len(draw["masks"]) == 12 and {m["plane"] for m in draw["masks"]} == {0, 1, 2}
            for k in range(3):
                half = [m for m in draw["masks"] if m["plane"] == k]
                once = blank(stored[key][k], half[:2], 0, k)
                assert np.allclose(x[k], blank(once, half[2:], float(once.astype("f8").mean()), k), atol=1e-7), key


@pytest.mark.parametrize("steps, words", [
    ([fb.CropOrPad(100), fb.LogMel(), fb.CropOrPad(50)], "crop_or_pad must come before log_mel"),
    ([fb.CropOrPad(4000), fb.LogMel(), fb.LogMel()], "log_mel takes sound"),
    ([fb.CropOrPad(4000), fb.Normalize([0.5], [1.0]), fb.CropOrPad(5000)], "not between them"),
    ([fb.Normalize([0.5], [1.0]), fb.Normalize([0.5], [1.0])], "normalize appears twice"),
    ([fb.Normalize([0.5, 0.1], [1.0, 1.0]), fb.Mono()], "mono must come before"),
    ([fb.CropOrPad(4000), fb.LogMel(), fb.Mono()], "mono must come before log_mel"),
    ([fb.CropOrPad(4000), fb.Normalize([0.5], [1.0]), fb.LogMel()], "after log_mel"),
    ([fb.Mono(), fb.Normalize([0.5, 0.1], [1.0, 1.0])], "one channel after mono"),
    ([fb.CropOrPad(4000), fb.Mono(), fb.Normalize([0.5, 0.1], [1.0, 1.0])], "one channel after mono"),
    ([fb.CropOrPad(400), fb.LogMel(pad_mode="reflect")], "400 samples; log_mel needs at least 513"),
    ([fb.CropOrPad(1000), fb.LogMel(center=False)], "1000 samples; log_mel needs at least 1024"),
])
def test_an_order_that_cannot_be_kept_is_refused(clips: Path, steps: list, words: str) -> None:
    with pytest.raises(fb.Error, match=words):
        fb.Loader(clips / "c2", transforms=steps)


@pytest.mark.parametrize("collate", [None, fb.Pad(), fb.Ragged()])
@pytest.mark.parametrize("steps, dtype, words", [
    ([fb.Mono(), fb.Normalize([0.5, 0.1], [1.0, 1.0])], None, "one channel after mono"),
    ([fb.Normalize([0.5, 0.1, 0.2], [1.0, 1.0, 1.0])], None, "3 numbers"),
    ([fb.Mono()], "int16", "mixed into float32, float16 or bfloat16, not int16: .*dtype="),
    ([fb.Mono()], "float64", "mixed into float32, float16 or bfloat16, not float64: .*dtype="),
    ([fb.Normalize([0.5], [1.0])], "int16", "float dtype"),
    ([], "uint8", "sound is given as"),
])
def test_what_no_recording_can_become_is_refused_at_once(clips: Path, collate: object, steps: list, dtype: str | None, words: str) -> None:
    with pytest.raises(fb.Error, match=words):
        fb.Loader(clips / "c2", transforms=steps + [fb.CropOrPad(4000)] * (collate is None), dtype=dtype, collate=collate)


def test_spectrograms_are_made_of_recordings_of_one_length(clips: Path, tmp_path: Path) -> None:
    for i in range(3):
        soundfile.write(tmp_path / f"{i}.wav", np.full(2000, i / 4), RATE)
    for collate in (fb.Pad(), fb.Ragged()):
        for source in (clips / "c1", tmp_path):
            with pytest.raises(fb.Error, match=r"one length.*CropOrPad\(samples\).*leave collate= out"):
                fb.Loader(source, transforms=[fb.LogMel(n_fft=256)], collate=collate)
    with pytest.raises(fb.Error, match=r"same shape in all files.*CropOrPad\(samples\)") as refused:
        fb.Loader(clips / "c1", transforms=[fb.LogMel(n_fft=256)])
    assert "collate" not in str(refused.value)
    assert batches(tmp_path, [fb.LogMel(n_fft=256)])[0][0].shape == (3, 64, 8)  # all have one length


@pytest.mark.parametrize("std", [0.0, -1.0, 1e-320, 1e-40, 1e39, float("nan"), float("inf"), -float("inf")])
def test_a_deviation_that_cannot_be_divided_by_is_refused(clips: Path, spectrograms: Path, std: float) -> None:
    for source, before in ((clips / "c1", [fb.CropOrPad(2000)]), (spectrograms, []), (spectrograms, [fb.SpecAugment(2, 2)])):
        with pytest.raises(fb.Error, match="std") as refused:
            fb.Loader(source, transforms=[*before, fb.Normalize([0.5, 0.5], [1.0, std])])
        assert "2 numbers" not in str(refused.value)  # the cause is the number, not how many there are


def test_the_smallest_deviation_gives_finite_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((3, 2), 1e-6, "f4"))
    with fb.Loader(tmp_path / "x.npy", batch_size=3, framework="numpy", transforms=[fb.Normalize([1e-320], [3e-39])]) as loader:
        assert np.isfinite(next(iter(loader))[0]).all()


@pytest.mark.parametrize("p", [0.1, 0.29, 0.3, 0.57, 0.58, 0.7, 0.9, 0.99, 1 - 1e-12, 1e-310])
def test_no_stretch_is_longer_than_its_share(tmp_path: Path, p: float) -> None:
    """int(p * frames) in double precision; in single, 0.7 * 10 would be 6."""
    for frames in (1, 10, 100):
        np.save(tmp_path / "x.npy", np.ones((300, 1, frames), "f4"))
        steps = [fb.SpecAugment(0, 1000, n_freq_masks=0, n_time_masks=32, p=p)]
        masks = [m for _, _, draws, _ in batches(tmp_path / "x.npy", steps) for d in draws for m in d["masks"]]
        assert max(m["count"] for m in masks) == int(p * frames)
        assert all(0 <= m["first"] <= frames - m["count"] for m in masks)


@pytest.mark.parametrize("planes, sample", list(itertools.product((1, 700, 8000), ("row", "file"))))
def test_all_masks_of_many_planes_are_told(tmp_path: Path, planes: int, sample: str) -> None:
    stored = np.random.default_rng(planes).normal(size=(2, planes, 3, 4)).astype("f4")
    np.save(tmp_path / "x.npy", stored)
    masks = fb.SpecAugment(2, 3, n_freq_masks=12, n_time_masks=20, fill=7)
    [(data, _, draws, batch)] = batches(tmp_path / "x.npy", [masks], sample=sample)
    for x, row, draw in zip(data, stored[batch.samples] if sample == "row" else stored[None], draws, strict=True):
        flat, want = x.reshape(-1, 3, 4), row.reshape(-1, 3, 4)
        assert len(draw["masks"]) == 32 * len(flat)
        for k in range(0, len(flat), 97):
            assert np.array_equal(flat[k], blank(want[k], draw["masks"][32 * k:32 * k + 32], 7, k))


@pytest.mark.parametrize("planes", [2**15, 2**26, 2**27, 2**40])
@pytest.mark.parametrize("sample", ["row", "file"])
def test_more_masks_than_can_be_kept_are_refused(tmp_path: Path, planes: int, sample: str) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, planes, 1, 0), "f4"))  # no bytes, but planes
    with pytest.raises(fb.Error, match="spec_augment.*each sample.*fewer masks"):
        fb.Loader(tmp_path / "x.npy", transforms=[fb.SpecAugment(2, 2, 16, 16)], sample=sample)
    none = batches(tmp_path / "x.npy", [fb.SpecAugment(2, 2, 0, 0)], sample=sample)
    assert none[0][2] == [{"masks": []}] * len(none[0][2])


def test_arrays_that_are_no_spectrograms_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", np.zeros((10, 7), "f4"))
    np.save(tmp_path / "whole.npy", np.zeros((10, 7, 7), "f8"))
    with pytest.raises(fb.Error, match="two dimensions"):
        fb.Loader(tmp_path / "flat.npy", transforms=[fb.SpecAugment(2, 2)])
    with pytest.raises(fb.Error, match="float32, float16 or bfloat16"):
        fb.Loader(tmp_path / "whole.npy", transforms=[fb.SpecAugment(2, 2)])
    with pytest.raises(fb.Error, match="sample_instances appears twice"):
        fb.Loader(tmp_path / "flat.npy", sample="file", transforms=[fb.SampleInstances(3), fb.SampleInstances(2)])
