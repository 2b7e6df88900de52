"""What fullbore.build says: while it runs and afterwards. Figures are given, so that what is said of them is known."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np
import pytest
from fullbore import _build_progress
from fullbore._build_meter import COMPUTE, IN, OUT, WAIT, WRITE, Cost, Meter, Part, Times
from fullbore._build_report import BuildReport, Loading, best_remedy
from recordings import folder, put
from xxhash_of_rows import checksum

CLIP = [fb.CropOrPad(4000)]


@pytest.fixture
def wavs(tmp_path: Path) -> Path:
    return folder(tmp_path / "wavs", 60)


def report(load: Loading | None = None, **more) -> BuildReport:
    """Ten seconds; stages by name as (total, wall, alone)."""
    stages = {name: Times(total, total / 10, 100, wall, alone) for name, (total, wall, alone) in more.pop("stages", {}).items()}
    full = {name: stages.get(name, Times()) for name in (WAIT, IN, COMPUTE, OUT, WRITE)}
    load = load or Loading(threads=2, cores=2, samples=1000, busy_s=2, reads=1000, cached_reads=1000, read_s=0.5, wall_s=10)
    return BuildReport("a.h5", rows=2000, samples=1000, seconds=11, wall_s=10, stages=full, loading=load, all=Part(1000, 2000), **more)


FROM_DISK = Loading(threads=2, cores=2, samples=1000, busy_s=2, idle_s=16, reads=1000, read_s=30, wall_s=10, in_flight_s=30,
                    in_flight_max=4)


# ---- pure functions


def test_a_slow_function_is_the_verdict_and_the_gain_is_bounded_by_what_goes_on_beside_it() -> None:
    r = report(stages={COMPUTE: (8, 8, 8), WAIT: (1, 1, 1), WRITE: (1, 1, 0)})
    assert r.verdict == COMPUTE and best_remedy(r) == ("a function twice as quick: everything else waits for it", pytest.approx(10 / 6))
    r = report(stages={COMPUTE: (9, 9, 9), WRITE: (8, 8, 0)})
    assert r.predicted_gain == pytest.approx(10 / 8)  # writing takes eight seconds in any case


def test_slow_storage_with_few_reads_under_way_is_called_low_queue_depth() -> None:
    r = report(FROM_DISK, stages={WAIT: (7, 7, 7), COMPUTE: (3, 3, 3)})
    assert r.verdict == WAIT and r.is_queue_depth_low and "LOW QUEUE DEPTH" in str(r) and "(storage)" in str(r)
    assert r.remedy.startswith("read from faster storage") and r.predicted_gain == pytest.approx(10 / 3)
    assert "avg 3.0, max 4 reads asked for at once" in str(r)
    deep = report(Loading(**{**vars(FROM_DISK), "in_flight_s": 300.0, "in_flight_max": 40}), stages={WAIT: (7, 7, 7), COMPUTE: (3, 3, 3)})
    assert not deep.is_queue_depth_low and "LOW QUEUE DEPTH" not in str(deep) and deep.remedy.startswith("read from faster")


def test_slow_decoding_asks_for_cores_and_not_for_storage() -> None:
    busy = {"samples": 1000, "busy_s": 16, "reads": 1000, "cached_reads": 1000, "wall_s": 10}
    stages = {WAIT: (8, 8, 8), COMPUTE: (1, 1, 1)}
    few, all_ = (report(Loading(threads=t, cores=4, **busy), stages=stages) for t in (2, 4))
    assert "(decoding)" in str(few) and few.remedy == "let it load on all cores: leave threads= out"
    assert few.predicted_gain == pytest.approx(10 / 6)
    assert all_.remedy == "twice the cores: the work is decoding" and all_.predicted_gain == pytest.approx(10 / 6)
    assert not few.is_queue_depth_low


def test_a_slow_writer_asks_for_a_faster_disk_or_fewer_bytes() -> None:
    stages = {WRITE: (9, 9, 6), COMPUTE: (3, 3, 1)}
    r = report(stages=stages, hold_s=5.0, widest="float32")
    assert r.verdict == WRITE and r.remedy == "write to a faster disk" and r.predicted_gain == pytest.approx(2)
    assert "5" in str(r) and "50.0 % for the writer" in str(r)


def test_one_stream_asks_for_a_second() -> None:
    stages = {IN: (3, 3, 3), COMPUTE: (3, 3, 3), OUT: (3, 3, 3)}
    one = report(stages=stages, device="cuda", streams=1)
    assert one.remedy == "streams=2: copies go on while another batch is computed" and one.predicted_gain == pytest.approx(10 / 7)
    assert "streams=2" not in report(stages=stages, device="cuda", streams=2).remedy


def test_what_would_gain_nothing_is_not_advised() -> None:
    r = report(stages={COMPUTE: (0.1, 0.1, 0.1)})
    assert (r.remedy, r.predicted_gain) == ("", 1.0) and "remedy" not in str(r)


def test_two_streams_at_once_never_take_more_than_the_whole_wall() -> None:
    r = report(stages={COMPUTE: (19.6, 9.9, 9.0)}, device="cuda", streams=2)
    compute = r.as_dict()["stages"][COMPUTE]
    assert compute["thread_share"] == pytest.approx(0.98) and compute["wall_share"] == pytest.approx(0.99)
    assert compute["samples_per_s_alone"] == pytest.approx(1000 / 9.8)
    assert max(float(x) for x in re.findall(r"([\d.]+) %", str(r))) <= 100


def test_the_slowest_batches_are_kept_in_order() -> None:
    meter = Meter()
    for i in range(20):
        cost = Cost(f"{i}.wav", i)
        meter.add(COMPUTE, 0, (i * 7 % 20) / 10, cost)
        meter.end_batch(cost, 4, 8, 1)
    assert [number for _, _, number in meter.slowest] == [i for s in range(19, 14, -1) for i in range(20) if i * 7 % 20 == s]
    assert (meter.part.samples, meter.part.rows, meter.part.left_out, meter.part.batches) == (80, 160, 20, 20)


# ---- of a build


def test_the_report_adds_up(wavs: Path, tmp_path: Path) -> None:
    r = fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x.reshape(len(x), 2, -1), flatten=True, batch=7, splits=(50, 50), transforms=CLIP,
                 framework="numpy")
    said = json.loads(json.dumps(r.as_dict()))
    assert list(r.splits) == ["train", "val"] and r.samples == 60 and r.rows == 120
    for name in ("samples", "rows", "batches", "left_out"):
        assert sum(part[name] for part in said["splits"].values()) == said["all"][name]
    assert said["all"]["samples"] == 60 and said["all"]["rows"] == 120 and said["all"]["batches"] == r.stages["compute"].batches
    assert said["all"]["batch_total_s"] == pytest.approx(sum(r.stages[name].total_s for name in ("compute", "write")))
    assert r.all.cpu_s > 0 and r.loading.samples == 60  # and nothing of a second epoch
    alone = [stage["alone_share"] for stage in said["stages"].values() if stage["alone_share"] is not None]
    assert sum(alone) + said["overlap_share"] + said["idle_share"] == pytest.approx(1)
    text = str(r)
    for word in ("built in", "all  ", "train", "val", "thread time", "samples/s alone", "overlap", "queue", "slowest", "verdict", "decode"):
        assert word in text, word
    assert max(float(x) for x in re.findall(r"([\d.]+) %", text)) <= 100


def test_splits_are_those_of_the_command(wavs: Path, tmp_path: Path) -> None:
    (wavs / "dog/0001.wav").write_bytes(b"RIFFxxxxWAVE")
    r = fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, batch=7, splits=(60, 20, 20), split_seed=3, on_error="skip", transforms=CLIP,
                 framework="numpy")
    sides = {}
    for name, parts in {"train": ("train", 0.6), "either": ("train", 0.8)}.items():
        with fb.Loader(wavs, split=parts, class_seed=3, transforms=CLIP) as loader:
            sides[name] = set(loader._core.keys()) - {"dog/0001.wav"}
    with h5py.File(tmp_path / "a.h5") as f:
        keys, at = list(f["keys"].asstr()[:]), {name: range(*f.attrs[f"rows_{name}"]) for name in ("train", "val", "test")}
        assert {keys[i] for i in at["train"]} == sides["train"] and {keys[i] for i in at["val"]} == sides["either"] - sides["train"]
        assert at["train"].stop == at["val"].start and at["val"].stop == at["test"].start and at["test"].stop == len(keys) == 59
        assert f["split"][:].tolist() == [0] * len(at["train"]) + [1] * len(at["val"]) + [2] * len(at["test"])
        assert all(keys[i] < keys[i + 1] for rows in at.values() for i in rows[:-1])
        assert f["classes"].asstr()[:].tolist() == ["cat", "dog", "owl"]
    assert [key for key, _ in r.left_out] == ["dog/0001.wav"] and sum(part.left_out for part in r.splits.values()) == 1


def test_rows_of_a_file_are_a_source_too_but_have_no_paths_to_split_by(wavs: Path, tmp_path: Path) -> None:
    fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, transforms=CLIP, framework="numpy")
    how = {"fn": lambda x: x * 2, "batch": 16, "framework": "numpy"}
    r = fb.build(tmp_path / "a.h5", tmp_path / "b.h5", **how)
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert np.array_equal(b["features"][:], 2 * a["features"][:]) and np.array_equal(a["labels"][:], b["labels"][:])
    assert r.samples == 60 and "verdict" in str(r)
    with h5py.File(tmp_path / "one.h5", "w") as f:
        f["features"] = np.zeros((1, 4), np.float32)  # as many rows as files
    for source in ("a.h5", "one.h5"):
        with pytest.raises(fb.errors.UsageError, match="splits= goes by the paths of samples, and these have none"):
            fb.build(tmp_path / source, tmp_path / "c.h5", splits=(1, 1), **how)
        with fb.Loader(tmp_path / source) as loader, pytest.raises(fb.Error, match="rows of arrays have none") as caught:
            _ = loader.dataset.keys
        assert "remove" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir() if "c.h5" in path.name] == []


def test_a_split_of_nothing_is_an_empty_stretch(wavs: Path, tmp_path: Path) -> None:
    r = fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, splits=(0, 1, 0), transforms=CLIP, framework="numpy")
    with h5py.File(tmp_path / "a.h5") as f:
        assert [f.attrs[f"rows_{name}"].tolist() for name in ("train", "val", "test")] == [[0, 0], [0, 60], [60, 60]]
    assert r.splits["train"].batches == 0 and r.splits["val"].samples == 60


@pytest.mark.parametrize("wrong", [{"splits": (1, 2, 3, 4)}, {"splits": (0, 0)}, {"splits": (-1, 2)}, {"splits": (1, 1), "fraction": 0.5},
                                   {"splits": (1, 1), "class_seed": 3}])
def test_wrong_splits_are_refused(wavs: Path, tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(fb.errors.UsageError, match="splits="):
        fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, transforms=CLIP, **wrong)


def test_the_file_says_how_it_was_made(wavs: Path, tmp_path: Path) -> None:
    r = fb.build(wavs, tmp_path / "a.h5", fn=len_and_half, fields=("features", "half"), batch=16, on_nan="skip", transforms=CLIP,
                 framework="numpy", indices=np.arange(50))
    with h5py.File(tmp_path / "a.h5") as f:
        about = dict(f.attrs)
        assert about["made_by"] == f"fullbore {fb.__version__}" and about["function"].endswith("len_and_half")
        assert (about["batch"], about["device"], about["streams"], about["fields"]) == (16, "cpu", 2, "features,half")
        assert (about["flatten"], about["on_nan"], about["on_error"], about["samples"]) == (0, "skip", "raise", 50)
        given = json.loads(about["loader"])
        assert given == {"framework": "numpy", "indices": "50 values", "transforms": ["CropOrPad(samples=4000, random=False)"]}
        assert about["checksum"] == r.checksum == checksum(f["features"][:]) == f["features"].attrs["checksum"]
        assert f["half"].attrs["checksum"] == checksum(f["half"][:]) != about["checksum"]


def len_and_half(x):
    return x[:, ::100] * 2, (x[:, ::2] / 2).astype(np.float16)


def test_all_that_are_left_out_are_counted_also_when_not_all_are_listed(tmp_path: Path) -> None:
    good = put(tmp_path / "wavs/0.wav", 0, 400).read_bytes()
    for i in range(1, 4400):
        (tmp_path / f"wavs/{i}.wav").write_bytes(good if i % 4 else b"RIFFxxxxWAVE")
    seen: list[int] = []
    r = fb.build(tmp_path / "wavs", tmp_path / "a.h5", fn=lambda x: x[:, :1], batch=100, on_error="skip", transforms=CLIP,
                 framework="numpy", progress=lambda r: seen.append(r.all.left_out))
    assert r.samples == 3301 and len(r.left_out) == 1000 and r.all.left_out == r.as_dict()["left_out_samples"] == 1099
    assert str(r).endswith("left out: 99 more") and seen == sorted(seen) and 0 < seen[-1] <= 1099
    with h5py.File(tmp_path / "a.h5") as f:
        assert f.attrs["samples_left_out"] == 1099


def test_the_checksum_does_not_depend_on_batches(wavs: Path, tmp_path: Path) -> None:
    def build(batch: int) -> str:
        return fb.build(wavs, tmp_path / f"{batch}.h5", fn=lambda x: x[:, ::9], batch=batch, transforms=CLIP, framework="numpy").checksum

    assert build(7) == build(60)


# ---- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_far_it_is_and_others_see_nothing(wavs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_build_progress, "LEAST_SECONDS", -1.0)
    how = {"fn": lambda x: x, "batch": 8, "transforms": CLIP, "framework": "numpy", "overwrite": True}
    for progress, terminal, is_seen in ((True, Terminal(), True), (False, Terminal(), False), (True, io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", terminal)
        fb.build(wavs, tmp_path / "a.h5", progress=progress, **how)
        said = terminal.getvalue()
        assert ("building [" in said) == is_seen
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    fb.build(wavs, tmp_path / "a.h5", **how)
    lines = [line for line in terminal.getvalue().split("\r\x1b[K") if line.startswith("building")]
    assert len(lines) == 8
    form = r"building \[=* *\] \d+ of 60 samples, \d+ samples/s, \d+ rows, .* left, most time: (wait for data|compute|write)"
    assert all(re.fullmatch(form, line) for line in lines)
    assert terminal.getvalue().endswith("\r\x1b[K") and not re.search(r"\x1b\[[\d;]*m", terminal.getvalue())  # wiped, and no colours


def test_a_function_of_ones_own_sees_the_report_grow(wavs: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    fb.build(wavs, tmp_path / "a.h5", fn=lambda x: x, batch=8, progress=lambda r: seen.append(r.samples), transforms=CLIP,
             framework="numpy")
    assert len(seen) == 8 and seen == sorted(seen) and seen[-1] <= 60
