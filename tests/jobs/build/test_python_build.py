"""fullbore.build, LogMel and SpecAugment: batches through a function into HDF5, and spectrograms straight from a loader."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np
import pytest
import soundfile
from fullbore._build_sink import Sink
from fullbore._hdf5_file import Hdf5File
from recordings import RATE, folder, put
from xxhash_of_rows import checksum


@pytest.fixture
def wavs(tmp_path: Path) -> Path:
    return folder(tmp_path / "wavs", 45)


CLIP = [fb.CropOrPad(4000)]


def samples(path: Path, n: int = 4000) -> np.ndarray:
    return np.pad(soundfile.read(path, dtype="float32")[0], (0, n))[:n]


def test_every_sample_goes_through_the_function_once_and_in_order(wavs: Path, tmp_path: Path) -> None:
    report = fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x.reshape(len(x), 8, 500).max(axis=2), batch=7, transforms=CLIP,
                      framework="numpy")
    with h5py.File(tmp_path / "a.h5") as f:
        keys = f["keys"].asstr()[:]
        assert list(keys) == sorted(p.relative_to(wavs).as_posix() for p in wavs.rglob("*.wav"))
        for i, key in enumerate(keys):
            assert np.array_equal(f["features"][i], samples(wavs / key).reshape(8, 500).max(axis=1))
        assert [("cat", "dog", "owl")[x] for x in f["labels"]] == [key.split("/")[0] for key in keys]
    assert report.rows == report.samples == 45 and report.bytes == (tmp_path / "a.h5").stat().st_size
    assert report.stages["compute"].batches == 7 and "verdict" in str(report)


def test_torch_tensors_and_several_fields_and_rows_per_sample(wavs: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def fn(x):
        cut = x.unfold(1, 1000, 500)
        return cut, cut.mean(dim=2).to(torch.float16)

    fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=16, fields=("features", "means"), flatten=True, transforms=CLIP, framework="torch")
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["features"].shape == (45 * 7, 1000) and f["means"].shape == (45 * 7,) and f["means"].dtype == np.float16
        assert list(f["segment"][:8]) == [0, 1, 2, 3, 4, 5, 6, 0] and f["keys"][6] == f["keys"][0] != f["keys"][7]
        assert np.array_equal(f["features"][9], samples(wavs / f["keys"].asstr()[9])[1000:2000])


def test_numbers_of_the_other_byte_order_keep_their_values(wavs: Path, tmp_path: Path) -> None:
    orders = itertools.cycle((">", "<"))  # also from one batch to the next

    def fn(x):
        order = next(orders)
        return {"a": x[:, :5].astype(f"{order}f4"), "b": np.arange(len(x)).astype(f"{order}i2"), "c": x[:, :2].astype(f"{order}f2")}

    report = fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, transforms=CLIP, framework="numpy",
                      batch_map=lambda batch: (batch[0], batch[1].astype(">i8")))
    with h5py.File(tmp_path / "a.h5") as f:
        keys = f["keys"].asstr()[:]
        whole = np.stack([samples(wavs / key) for key in keys])
        assert np.array_equal(f["a"][:], whole[:, :5]) and np.array_equal(f["c"][:], whole[:, :2].astype("f2"))
        assert f["b"][:].tolist() == [*range(20), *range(20), *range(5)]
        assert [("cat", "dog", "owl")[x] for x in f["labels"]] == [key.split("/")[0] for key in keys]
        assert f.attrs["checksum"] == report.checksum == checksum(f["a"][:])


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_function_may_give_all_its_results_in_the_same_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str) -> None:
    """Nothing is written before the next batch is computed: as with a disk that is slow."""
    wavs = folder(tmp_path / "wavs", 48)
    kept = np.zeros((4, 3), np.float32) if framework == "numpy" else pytest.importorskip("torch").zeros(4, 3)
    later, numbers, written, write = threading.Semaphore(0), itertools.count(1), itertools.count(1), Sink.write

    def fn(x):
        kept[:] = number = next(numbers)
        if number > 1:
            later.release()
        return kept

    def slow(self, *arguments):
        if next(written) < 12:
            assert later.acquire(timeout=20), "the next batch was not begun"
        return write(self, *arguments)

    monkeypatch.setattr(Sink, "write", slow)
    fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=4, transforms=CLIP, framework=framework)
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["features"][:].tolist() == [[float(i)] * 3 for i in range(1, 13) for _ in range(4)]


@pytest.mark.parametrize(("fn", "word"), [
    (lambda x: x[:-1], "first dimension"),
    (lambda x: 1 / 0, "ZeroDivisionError"),
    (lambda x: np.full((len(x), 2), np.nan), "NaN"),
    (lambda x: (x, x), "2 arrays"),
    (lambda x: np.zeros((len(x), len(x))), "of one shape"),
    (lambda x: x.astype(complex), "no such numbers"),
])
def test_what_the_function_does_wrong_is_said_and_leaves_nothing(wavs: Path, tmp_path: Path, fn, word: str) -> None:
    with pytest.raises(fb.Error, match=word):
        fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, transforms=CLIP, framework="numpy")
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []
    assert not any(t.name == "fb-build-write" for t in threading.enumerate())


def answers(*results):
    """A function that returns these, one batch after the other, and the last one from then on."""
    left = itertools.chain(results, itertools.repeat(results[-1]))
    return lambda x: {name: np.resize(np.asarray(value), (len(x), *np.shape(value))) for name, value in next(left).items()}


ONE, TWO = np.zeros((1, 4)), np.zeros((2, 4))


@pytest.mark.parametrize(("fn", "flatten", "word"), [
    (answers({"a": 1.0, "b": 1.0}, {"a": 1.0}), False, r"the fields \['a'\]; before they were \['a', 'b'\]"),
    (answers({"a": 1.0}, {"a": 1.0, "b": 1.0}), False, r"the fields \['a', 'b'\]; before"),
    (answers({"a": np.nan, "b": 1.0}, {"a": 1.0}), False, "before they were"),
    (answers({}), False, "no array"),
    (answers({"a": ONE}, {"a": TWO}), True, "2 rows of 'a'.*before it was 1"),
    (answers({"a": ONE * np.nan}, {"a": TWO}), True, "2 rows of 'a'.*before it was 1"),
    (answers({"a": TWO, "b": ONE}), True, "1 rows of 'b'.*before it was 2"),
], ids=["less", "more", "less, all left out before", "none", "more rows", "more rows, all left out before", "rows by field"])
def test_every_batch_gives_the_fields_and_rows_of_the_first_one(wavs: Path, tmp_path: Path, fn, flatten: bool, word: str) -> None:
    with pytest.raises(fb.errors.UsageError, match=word):
        fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, flatten=flatten, on_nan="skip", transforms=CLIP, framework="numpy")
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []


def test_rows_that_are_not_numbers_can_be_left_out(wavs: Path, tmp_path: Path) -> None:
    def fn(x):
        out = x.copy()
        out[::10, 5] = np.inf
        return out

    report = fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, on_nan="skip", transforms=CLIP, framework="numpy")
    assert report.rows == 45 - 5 and len(report.left_out) == 5
    with h5py.File(tmp_path / "a.h5") as f:
        assert np.isfinite(f["features"][:]).all() and len(f["keys"]) == 40
        for i, key in enumerate(f["keys"].asstr()[:]):
            assert np.array_equal(f["features"][i], samples(wavs / key))


def test_rows_that_are_not_numbers_can_be_kept(wavs: Path, tmp_path: Path) -> None:
    def fn(x):
        out = x.copy()
        out[3, 5] = np.nan
        return out

    report = fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=45, on_nan="keep", transforms=CLIP, framework="numpy")
    assert report.rows == 45
    with h5py.File(tmp_path / "a.h5") as f:
        assert np.argwhere(np.isnan(f["features"][:])).tolist() == [[3, 5]]


def test_an_error_of_the_function_names_the_sample_and_keeps_its_cause(wavs: Path, tmp_path: Path) -> None:
    def fn(x):
        raise KeyError("no such weight")

    with pytest.raises(fb.Error, match="no such weight") as caught:
        fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, transforms=CLIP, framework="numpy")
    assert isinstance(caught.value.__cause__, KeyError) and "cat/0000.wav" in str(caught.value)


def test_a_row_that_is_not_a_number_names_its_sample_and_what_can_be_done(wavs: Path, tmp_path: Path) -> None:
    def fn(x):
        out = x.copy()
        out[3, 5] = np.nan
        return out

    with pytest.raises(fb.Error, match=r"cat/0009.wav: fn returned NaN or infinity in 'features'; on_nan=\"skip\" leaves") as caught:
        fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, transforms=CLIP, framework="numpy")
    assert caught.value.path == "cat/0009.wav" and [n for n in os.listdir(tmp_path) if "a.h5" in n] == []


def test_nothing_but_bad_rows_is_an_error_and_leaves_nothing(wavs: Path, tmp_path: Path) -> None:
    with pytest.raises(fb.Error, match="every sample is bad, so there is nothing to build"):
        fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x * np.nan, batch=20, on_nan="skip", transforms=CLIP, framework="numpy")
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []


def test_an_interrupted_build_leaves_nothing(wavs: Path, tmp_path: Path) -> None:
    calls: list[int] = []

    def fn(x):
        calls.append(len(x))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return x

    with pytest.raises(KeyboardInterrupt):
        fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, transforms=CLIP, framework="numpy")
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []
    assert not any(t.name == "fb-build-write" for t in threading.enumerate())


@pytest.mark.parametrize("wrong", [{"on_nan": "zero"}, {"streams": 0}, {"fn": None}, {"shuffle": True}, {"global_batch_size": 8},
                                   {"on_error": "skip", "fraction": 0.5}])
def test_wrong_arguments_are_refused_before_anything_is_made(wavs: Path, tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(fb.errors.UsageError, match="build: "):
        fb.build(wavs, tmp_path / "a.h5", **{"fn": lambda x: x, "transforms": CLIP, **wrong})
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []


def test_two_builds_of_one_file_refuse_each_other(wavs: Path, tmp_path: Path) -> None:
    inner: list[str] = []

    def fn(x):
        if not inner:
            try:
                fb.build(wavs, tmp_path / "a.h5", fn=lambda y: y, transforms=CLIP, framework="numpy")
            except fb.Error as error:
                inner.append(str(error))
        return x

    fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=20, transforms=CLIP, framework="numpy")
    assert len(inner) == 1 and "another build is writing this file" in inner[0]
    with h5py.File(tmp_path / "a.h5") as f:
        assert len(f["features"]) == 45


def test_a_source_that_changes_between_looking_and_reading_is_refused(wavs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Hdf5File.__init__

    def slow(self, *arguments) -> None:
        put(wavs / "cat/0000a.wav", 1, 5000)  # after the first, so that all others have other numbers
        made(self, *arguments)

    monkeypatch.setattr(Hdf5File, "__init__", slow)
    with pytest.raises(fb.Error, match="the source changed while it was read"):
        fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, transforms=CLIP, framework="numpy")
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []


def test_a_full_disk_is_said_and_leaves_nothing(wavs: Path, tmp_path: Path) -> None:
    program = f"""
import resource, signal, fullbore as fb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))
try:
    fb.build({str(wavs)!r}, {str(tmp_path / "a.h5")!r}, fn=lambda x: x, batch=8, transforms=[fb.CropOrPad(4000)], framework="numpy")
except fb.Error as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "cannot write the file: File too large" in done.stdout, done.stdout + done.stderr
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []


def test_bad_samples_are_left_out_and_nothing_takes_their_place(wavs: Path, tmp_path: Path) -> None:
    (wavs / "dog/0001.wav").write_bytes(b"RIFFxxxxWAVE")
    with pytest.raises(fb.SampleError, match="dog/0001"):
        fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, batch=8, transforms=CLIP, framework="numpy")
    report = fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, batch=8, transforms=CLIP, framework="numpy", on_error="skip")
    assert report.rows == 44 and [key for key, _ in report.left_out] == ["dog/0001.wav"]
    with h5py.File(tmp_path / "a.h5") as f:
        keys = list(f["keys"].asstr()[:])
        assert len(set(keys)) == 44 and "dog/0001.wav" not in keys and keys == sorted(keys)
        for i, key in enumerate(keys):
            assert np.array_equal(f["features"][i], samples(wavs / key))


def test_an_output_that_is_there_stays_unless_overwritten(wavs: Path, tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_text("mine")
    with pytest.raises(fb.Error, match="already exists"):
        fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, transforms=CLIP)
    with pytest.raises(fb.Error, match="ZeroDivisionError"):
        fb.build(wavs, tmp_path / "a.h5", fn=lambda x: 1 / 0, transforms=CLIP, overwrite=True)
    assert (tmp_path / "a.h5").read_text() == "mine" and [n for n in os.listdir(tmp_path) if "a.h5" in n] == ["a.h5"]
    fb.build(wavs, tmp_path / "a.h5", fn=lambda x: np.asarray(x), transforms=CLIP, overwrite=True)
    with h5py.File(tmp_path / "a.h5") as f:
        assert len(f["features"]) == 45


def test_a_loader_feeds_what_was_built(wavs: Path, tmp_path: Path) -> None:
    fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x * 2, batch=16, transforms=CLIP, framework="numpy")
    with fb.Loader(tmp_path / "a.h5", batch_size=10, shuffle=True, framework="numpy") as loader:
        seen = 0
        for batch in loader:
            arrays = batch.as_dict()
            assert arrays["features"].shape[1:] == (4000,) and set(arrays) == {"features", "labels", "segment"}
            seen += len(batch[0])
    assert seen == 45


# ---- the transforms


def test_a_loader_makes_librosas_spectrograms(wavs: Path) -> None:
    librosa = pytest.importorskip("librosa")
    with fb.Loader(wavs, batch_size=9, framework="numpy", transforms=[*CLIP, fb.LogMel(n_fft=512, hop_length=160, n_mels=40)]) as loader:
        for batch in loader:
            assert batch[0].shape == (9, 40, 26)
            for row, key in zip(batch[0], batch.sample_keys, strict=True):
                power = librosa.feature.melspectrogram(y=samples(wavs / key), sr=RATE, n_fft=512, hop_length=160, n_mels=40,
                                                       pad_mode="constant")
                assert np.abs(row - librosa.power_to_db(power)).max() < 1e-4


def test_channels_have_their_own_spectrograms_or_are_mixed(tmp_path: Path) -> None:
    for i in range(4):
        put(tmp_path / f"s/{i}.wav", i, 5000, channels=2)
    mel = fb.LogMel(n_fft=512, n_mels=32)
    both = next(iter(fb.Loader(tmp_path / "s", batch_size=4, framework="numpy", transforms=[*CLIP, mel])))[0]
    mixed = next(iter(fb.Loader(tmp_path / "s", batch_size=4, framework="numpy", transforms=[*CLIP, fb.Mono(), mel])))[0]
    assert both.shape == (4, 2, 32, 16) and mixed.shape == (4, 32, 16)
    put(tmp_path / "t/a.wav", 1, 5000)  # the second file's first channel is made by seed 1
    alone = next(iter(fb.Loader(tmp_path / "t", framework="numpy", transforms=[*CLIP, mel])))[0]
    assert np.array_equal(both[1, 0], alone[0]) and not np.array_equal(both[1, 1], alone[0])


def test_normalize_behind_it_is_for_the_spectrogram(wavs: Path) -> None:
    mel = fb.LogMel(n_fft=512, n_mels=3)
    norms: list[list[fb.Transform]] = [[], [fb.Normalize([-30.0], [10.0])], [fb.Normalize([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])]]
    plain, one, each = (next(iter(fb.Loader(wavs, batch_size=5, framework="numpy", transforms=[*CLIP, mel, *norm])))[0] for norm in norms)
    assert np.allclose(one, (plain + 30) / 10, atol=1e-5)
    assert np.allclose(each, (plain - np.array([1, 2, 3])[:, None]) / np.array([1, 2, 4])[:, None], atol=1e-5)


def test_masks_are_drawn_by_position_and_change_with_the_epoch(wavs: Path) -> None:
    def epochs(threads: int) -> list[np.ndarray]:
        steps = [*CLIP, fb.LogMel(n_fft=512, n_mels=40), fb.SpecAugment(8, 6, n_time_masks=2, fill=-999.0)]
        with fb.Loader(wavs, batch_size=45, framework="numpy", seed=3, threads=threads, transforms=steps) as loader:
            return [next(iter(loader))[0].copy() for _ in range(2)]

    a, b = epochs(1), epochs(3)
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)) and not np.array_equal(a[0], a[1])
    masked = a[0] == -999
    bands, stretches = masked.all(axis=2).sum(axis=1), masked.all(axis=1).sum(axis=1)
    assert 0 < bands.max() <= 8 and 0 < stretches.max() <= 12
    assert np.array_equal(masked, masked.all(axis=2)[:, :, None] | masked.all(axis=1)[:, None, :])


def test_wrong_steps_are_refused_in_words(wavs: Path) -> None:
    with pytest.raises(fb.Error, match="after log_mel"):
        fb.Loader(wavs, transforms=[*CLIP, fb.SpecAugment(4, 4), fb.LogMel()])
    with pytest.raises(fb.Error, match="CropOrPad"):
        fb.Loader(wavs, transforms=[fb.LogMel()])
    with pytest.raises(fb.Error, match="log_mel needs at least|n_fft"):
        fb.Loader(wavs, transforms=[fb.CropOrPad(100), fb.LogMel(center=False)])
    with pytest.raises(ValueError, match="mel_scale"):
        fb.LogMel(mel_scale="bark")  # type: ignore[arg-type]


def test_a_recording_of_another_rate_is_a_bad_sample(wavs: Path) -> None:
    put(wavs / "owl/9000.wav", 1, 5000, rate=8000)
    with pytest.raises(fb.SampleError, match="8000"):
        list(fb.Loader(wavs, batch_size=4, transforms=[*CLIP, fb.LogMel(n_fft=512)]))
