"""A sample is a file: a bag of instances, padded, one after another, or drawn from; whole arrays of one shape. h5py and numpy say what is
in them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np
import pytest
from array_files import make_bags, numbers, open_arrays, write_h5
from trust import audit, audited, epochs

FIELDS = ("features", "coords")
BAG_LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "row chunks": {"chunks": True, "maxshape": (None, None)},
    "gzip": {"compression": "gzip"},
    "gzip shuffle fletcher32": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
}


@pytest.fixture(params=list(BAG_LAYOUTS))
def bags(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    return tmp_path / "slides", make_bags(tmp_path / "slides", **BAG_LAYOUTS[request.param])


def of(folder: Path, **arguments: Any) -> fb.Loader:
    return open_arrays(f"{folder}/*.h5", **{"sample": "file", "batch_size": 4, "fields": FIELDS, **arguments})


def as_pairs(loader: fb.Loader) -> list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """(key, features, coords) of every bag of an epoch, whatever the packing."""
    out = []
    for batch in loader:
        features, coords = batch[0], batch[1]
        for i, key in enumerate(batch.sample_keys):
            if isinstance(features, fb.RaggedRows):
                out.append((key, np.array(features[i]), np.array(coords[i])))
            else:
                n = int(features.lengths[i])
                out.append((key, np.array(features.values[i, :n]), np.array(coords.values[i, :n])))
    return out


# ---- packing


@pytest.mark.parametrize("collate", [fb.Pad(), fb.Ragged()])
def test_bags_equal_h5py(bags: tuple[Path, dict[str, Any]], collate: Any) -> None:
    folder, want = bags
    with of(folder, collate=collate, shuffle=True) as loader:
        for _ in range(2):
            seen = as_pairs(loader)
            assert sorted(key for key, *_ in seen) == sorted(want)
            for key, features, coords in seen:
                assert features.dtype == np.float32 and coords.dtype == np.int32
                np.testing.assert_array_equal(features, want[key]["features"])
                np.testing.assert_array_equal(coords, want[key]["coords"])


def test_padded_bags_are_zero_behind_their_ends(bags: tuple[Path, dict[str, Any]]) -> None:
    folder, want = bags
    with of(folder, collate=fb.Pad(), shuffle=True) as loader:
        for _ in range(3):  # slots are used again: nothing of earlier batches may show
            for batch in loader:
                features, coords = batch
                lengths = [len(want[key]["features"]) for key in batch.sample_keys]
                assert features.lengths.tolist() == coords.lengths.tolist() == lengths
                assert features.values.shape == (len(lengths), max(lengths), 6) and coords.values.shape == (len(lengths), max(lengths), 2)
                assert features.mask.sum(axis=1).tolist() == lengths
                assert not features.values[~features.mask].any() and not coords.values[~coords.mask].any()


def test_ragged_bags_lie_end_to_end(bags: tuple[Path, dict[str, Any]]) -> None:
    folder, want = bags
    with of(folder, collate=fb.Ragged()) as loader:
        for batch in loader:
            features, _ = batch
            lengths = [len(want[key]["features"]) for key in batch.sample_keys]
            assert features.offsets.tolist() == [0, *np.cumsum(lengths).tolist()] and features.lengths.tolist() == lengths
            assert features.values.shape == (sum(lengths), 6) and len(features) == len(lengths)
            np.testing.assert_array_equal(features.values, np.concatenate([want[key]["features"] for key in batch.sample_keys]))


def test_torch_gets_tensors_with_torchs_habits(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    make_bags(tmp_path)
    with of(tmp_path, collate=fb.Pad(), framework="torch") as loader:
        features, _ = next(iter(loader))
    half = features.to(torch.float16)
    assert half.values.dtype == torch.float16 and half.lengths.dtype == torch.int64 and half.mask.dtype == torch.bool
    assert torch.equal(half.mask, features.mask) and torch.equal(half.lengths, features.lengths)
    with of(tmp_path, collate=fb.Ragged(), framework="torch") as loader:
        features, _ = next(iter(loader))
    moved = features.to("cpu", torch.float64, non_blocking=True)
    assert moved.values.dtype == torch.float64 and moved.offsets.dtype == torch.int64
    nested = torch.nested.nested_tensor_from_jagged(features.values, features.offsets)
    assert nested.size(0) == 4


def test_fields_of_one_shape_come_stacked_beside_bags(tmp_path: Path) -> None:
    make_bags(tmp_path)
    with of(tmp_path, fields=("features", "slide"), collate=fb.Pad()) as loader:
        for batch in loader:
            _, slide = batch
            numbers = [int(key[6:8]) for key in batch.sample_keys]
            np.testing.assert_array_equal(slide, [[i, 2 * i, 3 * i] for i in numbers])


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_any_number_of_threads_gives_the_same_batches(bags: tuple[Path, dict[str, Any]], threads: int) -> None:
    folder, _ = bags
    for options in ({"collate": fb.Pad()}, {"collate": fb.Ragged()}):
        with of(folder, shuffle=True, seed=3, threads=threads, **options) as loader:
            seen = as_pairs(loader)
        with of(folder, shuffle=True, seed=3, threads=2, **options) as loader:
            want = as_pairs(loader)
        assert [key for key, *_ in seen] == [key for key, *_ in want]
        assert all(np.array_equal(a[1], b[1]) and np.array_equal(a[2], b[2]) for a, b in zip(seen, want, strict=True))


@pytest.mark.parametrize("io", ["pread", "uring", "slow:latency_us=500"])
def test_any_back_end_gives_the_same_bags(bags: tuple[Path, dict[str, Any]], io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, want = bags
    monkeypatch.setenv("FULLBORE_IO", io)
    for options in ({"collate": fb.Pad()}, {"collate": fb.Ragged(), "dtype": "float16"}):
        with of(folder, **options) as loader:
            for key, features, coords in as_pairs(loader):
                np.testing.assert_array_equal(features, want[key]["features"].astype(features.dtype))
                np.testing.assert_array_equal(coords, want[key]["coords"])


def test_bags_are_cast_and_normalised_on_the_way(bags: tuple[Path, dict[str, Any]]) -> None:
    folder, want = bags
    mean, std = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.5, 1, 2, 3, 4, 5]
    with of(folder, collate=fb.Pad(), dtype="float16", transforms=[fb.Normalize(mean, std)]) as loader:
        for key, features, coords in as_pairs(loader):
            assert features.dtype == np.float16 and coords.dtype == np.int32
            exact = (want[key]["features"] - np.float32(mean)) / np.float32(std)
            np.testing.assert_allclose(features, exact, rtol=2e-3, atol=1e-4)
            np.testing.assert_array_equal(coords, want[key]["coords"])


def test_chunks_that_were_never_written_give_the_fill_value(tmp_path: Path) -> None:
    want = []
    for i in range(4):
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            data = file.create_dataset("x", (50 + i, 3), "f4", chunks=(4, 3), fillvalue=2.5, compression="gzip" if i % 2 else None)
            data[8:20] = i
            want.append(data[:])
    for dtype in (None, "float16"):
        with open_arrays(f"{tmp_path}/*.h5", sample="file", collate=fb.Ragged(), dtype=dtype, batch_size=4) as loader:
            (rows,) = next(iter(loader))
        np.testing.assert_array_equal(rows.values, np.concatenate(want))


# ---- instances drawn


def test_instances_are_drawn_from_their_own_bag_each_once(bags: tuple[Path, dict[str, Any]]) -> None:
    folder, want = bags
    with of(folder, transforms=[fb.SampleInstances(3)], shuffle=True) as loader:
        first: dict[str, Any] = {}
        for epoch in range(2):
            for batch in loader:
                features, coords = batch
                assert features.shape == (len(batch.sample_keys), 3, 6) and coords.shape == (len(batch.sample_keys), 3, 2)
                for i, key in enumerate(batch.sample_keys):
                    rows = [np.flatnonzero((want[key]["features"] == row).all(axis=1))[0] for row in features[i]]
                    assert sorted(set(rows)) == rows, "each once, in the order of the file"
                    np.testing.assert_array_equal(coords[i], want[key]["coords"][rows])
                    if epoch:
                        first[key] = first[key] != rows
                    else:
                        first[key] = rows
        assert any(first.values()), "another epoch draws others"


def test_a_bag_smaller_than_the_draw_repeats_its_instances_evenly(tmp_path: Path) -> None:
    write_h5(tmp_path / "a.h5", {"x": np.arange(5, dtype="f4").reshape(5, 1)})
    with open_arrays(f"{tmp_path}/*.h5", sample="file", transforms=[fb.SampleInstances(12)], batch_size=1) as loader:
        (values,) = next(iter(loader))
    counts = np.bincount(values.ravel().astype(int), minlength=5)
    assert counts.sum() == 12 and set(counts.tolist()) == {2, 3}


def stage(stats: dict[str, Any], name: str) -> dict[str, Any]:
    return next(stage for stage in stats["stages"] if stage["name"] == name)


def test_a_draw_reads_only_what_it_needs(tmp_path: Path) -> None:
    write_h5(tmp_path / "a.h5", {"x": np.zeros((2000, 1024), "f4")}, chunks=(1, 1024))
    with open_arrays(f"{tmp_path}/*.h5", sample="file", transforms=[fb.SampleInstances(10)], batch_size=1) as loader:
        next(iter(loader))
        read = stage(loader.stats(), "read")
    assert read["bytes"] % (10 * 4096) == 0 and 0 < read["items"] <= read["bytes"] / 4096  # ten rows a time


# ---- how it is read: in the page cache by the worker, or (a slow device) by io, while the load is away


ON_ANY_THREAD = pytest.mark.parametrize("io", ["auto", "slow:latency_us=1"])


@ON_ANY_THREAD
@pytest.mark.parametrize("layout", [{}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}])
def test_chunks_that_are_neighbours_are_one_read(tmp_path: Path, layout: dict[str, Any], io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLBORE_IO", io)
    write_h5(tmp_path / "a.h5", {"x": numbers(400, 64)}, chunks=(4, 64), **layout)
    with h5py.File(tmp_path / "a.h5") as file:
        bytes_of_bag = file["x"].id.get_storage_size()
    with open_arrays(f"{tmp_path}/*.h5", sample="file", collate=fb.Ragged(), batch_size=1) as loader:
        list(loader)
        stats = loader.stats()
    bags, rest = divmod(stage(stats, "read")["bytes"], bytes_of_bag)
    assert bags >= 1 and rest < bytes_of_bag
    assert stage(stats, "read")["items"] <= 4 * (bags + 1), "a hundred chunks; the index of the file lies between some of them"
    assert (stats["io"]["cached_reads"] > 0) == (io == "auto")


@ON_ANY_THREAD
def test_a_file_is_probed_once_for_each_time_it_is_read(tmp_path: Path, io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its arrays lie goes with the load that waits for io, and is not found out again when it comes back."""
    monkeypatch.setenv("FULLBORE_IO", io)
    for i in range(48):
        write_h5(tmp_path / f"{i}.h5", {"x": numbers(20, 64, seed=i)}, chunks=(4, 64), compression="gzip")
    with open_arrays(f"{tmp_path}/*.h5", sample="file", collate=fb.Ragged(), batch_size=4) as loader:
        learnt = loader.stats()["learnt"]
        before = learnt["found"] + learnt["missed"]
        for _ in range(6):
            for _ in loader:
                pass
        stats = loader.stats()
    probes, loads = stats["learnt"]["found"] + stats["learnt"]["missed"] - before, stage(stats, "decode")["items"]
    assert 6 * 48 <= loads <= probes < 1.5 * loads, "those whose reads are under way have been probed, too"
    assert (stats["io"]["cached_reads"] > 0) == (io == "auto")


def test_reads_of_one_load_share_one_error_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one each (over a kilobyte), thousands of scattered rows would cost more memory for errors than for numbers."""
    monkeypatch.setenv("FULLBORE_IO", "slow:latency_us=20000")
    write_h5(tmp_path / "a.h5", {"x": numbers(20000, 64)}, chunks=(1, 64))
    with open_arrays(f"{tmp_path}/*.h5", sample="file", transforms=[fb.SampleInstances(4000)], batch_size=1, memory="256MiB") as loader:
        next(iter(loader))
        stats = loader.stats()
    assert stats["io"]["in_flight_peak"] > 2000
    assert stats["budget"]["kinds"]["reads"]["peak_bytes"] < 600 * stats["io"]["in_flight_peak"]


# ---- files that are arrays as a whole


def test_files_of_one_shape_are_stacked(tmp_path: Path) -> None:
    want = [np.random.default_rng(i).random((4, 5)) for i in range(10)]
    for i, values in enumerate(want):
        np.save(tmp_path / f"{i}.npy", values if i % 2 else np.asfortranarray(values))
    with open_arrays(f"{tmp_path}/*.npy", batch_size=10) as loader:
        (values,) = next(iter(loader))
    np.testing.assert_array_equal(values, np.stack(want))


def test_npz_and_safetensors_as_bags(tmp_path: Path) -> None:
    (tmp_path / "z").mkdir()
    for i in range(6):
        values = {"features": np.full((3 + i, 2), i, "f4"), "id": np.int64(i)}
        (np.savez if i % 2 else np.savez_compressed)(tmp_path / "z" / f"{i}.npz", **values)
    with open_arrays(f"{tmp_path}/z/*.npz", sample="file", collate=fb.Ragged(), fields=("features", "id"), batch_size=6) as loader:
        features, number = next(iter(loader))
    assert features.lengths.tolist() == [3, 4, 5, 6, 7, 8] and number.tolist() == [0, 1, 2, 3, 4, 5]
    assert all((features[i] == i).all() for i in range(6))


def test_arrays_of_variable_length_are_read_by_the_helper(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (4,), h5py.vlen_dtype(np.int32))
        for i in range(4):
            data[i] = np.arange(i + 1)
    with open_arrays(tmp_path / "a.h5", fields=["x"], batch_size=4) as loader:
        (values,) = next(iter(loader))
    assert values.tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 2, 0], [0, 1, 2, 3]]


# ---- labels


def test_labels_by_a_table_of_names(tmp_path: Path) -> None:
    want = make_bags(tmp_path / "slides")
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "months", "event"])
        for i, key in enumerate(sorted(want)):
            table.writerow([key.removesuffix(".h5"), ["benign", "tumour"][i % 2], i / 4, i % 3 == 0])
    with of(tmp_path / "slides", labels=tmp_path / "labels.csv", fields=("features", "label", "months"), collate=fb.Pad(),
            shuffle=True) as loader:
        assert loader.label_classes["label"] == ["benign", "tumour"]
        for batch in loader:
            _, label, months = batch
            numbers = [int(key[6:8]) for key in batch.sample_keys]
            assert label.tolist() == [i % 2 for i in numbers] and months.tolist() == [i / 4 for i in numbers]


def test_labels_by_a_function_and_by_the_folder(tmp_path: Path) -> None:
    for name in ("benign", "tumour"):
        make_bags(tmp_path / name, count=5)
    with open_arrays(tmp_path, sample="file", fields=["features", "label"], collate=fb.Ragged(), batch_size=10) as loader:
        assert loader.classes == ["benign", "tumour"]
        batch = next(iter(loader))
        assert batch[1].tolist() == [int(key.startswith("tumour")) for key in batch.sample_keys]
    with open_arrays(tmp_path, sample="file", fields=["features", "label"], labels=len, collate=fb.Ragged(), batch_size=10) as loader:
        batch = next(iter(loader))
        assert set(batch[1].tolist()) == {len(str(tmp_path / key)) for key in batch.sample_keys}


def test_classes_splits_and_weights_choose_bags(tmp_path: Path) -> None:
    for name in ("benign", "tumour"):
        make_bags(tmp_path / name, count=8)
    options: dict[str, Any] = {"sample": "file", "fields": ["features"], "collate": fb.Pad(), "batch_size": 3}

    def keys(**arguments: Any) -> list[str]:
        with open_arrays(tmp_path, **options, **arguments) as loader:
            return [key for batch in loader for key in batch.sample_keys]

    assert all(key.startswith("tumour") for key in keys(classes=["tumour"]))
    assert sorted(keys(split=("train", 0.5)) + keys(split=("val", 0.5))) == sorted(keys())
    assert keys(indices=[3, 1]) == ["benign/slide_03.h5", "benign/slide_01.h5"]
    assert sorted(keys(rank=0, world_size=2, shuffle=True) + keys(rank=1, world_size=2, shuffle=True))[:16:1] == sorted(keys())
    assert len(keys(weights="balanced", shuffle=True)) == 16


# ---- state and trust


def test_a_run_goes_on_where_it_was_left(tmp_path: Path) -> None:
    make_bags(tmp_path)
    for options in ({"collate": fb.Pad()}, {"transforms": [fb.SampleInstances(4)]}):
        with of(tmp_path, shuffle=True, **options) as loader:
            whole = [np.array(getattr(batch[0], "values", batch[0])) for batch in loader]
        with of(tmp_path, shuffle=True, **options) as loader:
            next(iter(loader))
            state = loader.state_dict()
        with of(tmp_path, shuffle=True, **options) as loader:
            loader.load_state_dict(state)
            rest = [np.array(getattr(batch[0], "values", batch[0])) for batch in loader]
        assert len(rest) == len(whole) - 1
        assert all(np.array_equal(a, b) for a, b in zip(rest, whole[1:], strict=True))


def test_bags_are_audited(tmp_path: Path) -> None:
    make_bags(tmp_path / "slides")
    for name, options in {"pad": {"collate": fb.Pad()}, "ragged": {"collate": fb.Ragged()},
                          "drawn": {"transforms": [fb.SampleInstances(2)]}}.items():
        with audited(tmp_path / name), of(tmp_path / "slides", shuffle=True, **options) as loader:
            for _ in loader:
                pass
        code, report = audit(tmp_path / name)
        assert code == 0 and epochs(report)[0]["verdict"] == "proved"


def test_the_second_start_looks_into_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_bags(tmp_path)
    with of(tmp_path, collate=fb.Pad()) as loader:
        first = as_pairs(loader)
    monkeypatch.setenv("FULLBORE_HDF5_HELPER", "/nowhere")
    with of(tmp_path, collate=fb.Pad()) as loader:
        assert [key for key, *_ in as_pairs(loader)] == [key for key, *_ in first]


# ---- memory


def test_a_small_budget_holds(tmp_path: Path) -> None:
    for i in range(40):
        n = 200 + 37 * i % 300
        write_h5(tmp_path / f"{i:02}.h5", {"x": np.full((n, 64), i, "f4")}, chunks=(16, 64), **({"compression": "gzip"} if i % 2 else {}))
    with open_arrays(f"{tmp_path}/*.h5", sample="file", collate=fb.Pad(), batch_size=4, memory="8MiB", threads=2, shuffle=True) as loader:
        for batch in loader:
            assert all((batch[0].values[i, : batch[0].lengths[i]] == int(key[:2])).all() for i, key in enumerate(batch.sample_keys))
        assert loader.stats()["budget"]["peak_bytes"] <= 8 << 20


@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("collate", ["Pad", "Ragged"])
def test_batches_that_fill_the_budget_and_are_kept_do_not_stop_the_next(collate: str, kept: int, tmp_path: Path, run_python: Any) -> None:
    """Who waits for a batch may be the one who keeps those before it: `for batch in loader` keeps one, always."""
    for i in range(8):
        np.save(tmp_path / f"{i}.npy", np.full((2000 + i, 512), i, "f4"))
    script = """
import sys, warnings, fullbore as fb
warnings.simplefilter("ignore")
loader = fb.Loader(sys.argv[1] + "/*.npy", sample="file", collate=getattr(fb, sys.argv[2])(), batch_size=2, threads=2, memory="12MiB",
                   framework="numpy")
kept, seen = [], []
for _ in range(2):
    for batch in loader:
        kept = [*kept, batch][-int(sys.argv[3]):]
        for one in kept:
            rows = one[0] if isinstance(one[0], fb.RaggedRows) else [v[:n] for v, n in zip(one[0].values, one[0].lengths)]
            assert all((row == int(key[0])).all() for row, key in zip(rows, one.sample_keys))
        seen += batch.sample_keys
assert sorted(seen) == sorted(2 * [f"{i}.npy" for i in range(8)])
assert loader.stats()["budget"]["peak_bytes"] <= 12 << 20
"""
    done = run_python(script, tmp_path, collate, kept, timeout=40)
    assert done.returncode == 0, done.stderr


def test_batches_ahead_leave_memory_to_those_who_decode(tmp_path: Path) -> None:
    for i in range(4):
        np.savez_compressed(tmp_path / f"{i}.npz", x=np.full((700, 16, 33), i, "f4"))
    for _ in range(8):
        with fb.Loader(f"{tmp_path}/*.npz", sample="file", collate=fb.Ragged(), batch_size=1, memory="64MiB", threads=2, dtype="float64",
                       framework="numpy") as loader:
            for _ in range(20):
                for batch in loader:
                    assert (batch[0][0] == int(batch.sample_keys[0][0])).all()


def test_a_batch_that_can_never_fit_says_so(tmp_path: Path) -> None:
    write_h5(tmp_path / "a.h5", {"x": np.zeros((20_000, 256), "f4")})
    with pytest.raises(fb.BudgetError, match="memory budget of 16.0 MiB"):
        with open_arrays(f"{tmp_path}/*.h5", sample="file", collate=fb.Pad(), batch_size=1, memory="16MiB") as loader:
            list(loader)


def test_several_loaders_share_one_budget(tmp_path: Path) -> None:
    make_bags(tmp_path / "slides", count=30, compression="gzip")
    np.save(tmp_path / "x.npy", np.arange(20_000, dtype="f4").reshape(-1, 2))
    with of(tmp_path / "slides", collate=fb.Pad(), memory="24MiB") as bags, open_arrays(tmp_path / "x.npy", shuffle=True) as rows:
        for _ in range(3):
            for a, b in zip(bags, rows, strict=False):
                assert len(a) == 2 and len(b) == 1
        assert rows.stats()["budget"]["peak_bytes"] <= 24 << 20
