"""A sample is a row: of one HDF5 file, of a .npy, of several files end to end. h5py and numpy say what the rows are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fullbore as fb
import h5py
import numpy as np
import pytest
from array_files import LAYOUTS, ROWS, WIDTH, epoch_of, keys_of, make_rows, numbers, open_arrays, row_of_key, taken, write_h5
from trust import audit, audited, epochs

FIELDS = ("features", "labels")


@pytest.fixture(params=list(LAYOUTS))
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_rows(tmp_path / "train.h5", request.param)


def check_epoch(loader: fb.Loader, features: np.ndarray[Any, Any]) -> list[int]:
    """Every row is the one that its key and its label say; returns their numbers in order."""
    order: list[int] = []
    for batch in loader:
        values, labels = batch
        assert values.dtype == features.dtype and labels.dtype == np.int64
        assert [row_of_key(key) for key in batch.sample_keys] == labels.tolist()
        np.testing.assert_array_equal(values, features[labels])
        order += labels.tolist()
    return order


# ---- every row once, and right


def test_every_layout_gives_every_row_once(rows: Path) -> None:
    with h5py.File(rows) as file:
        features = file["features"][:]
    with open_arrays(rows, fields=FIELDS, shuffle=True, seed=3) as loader:
        first, second = check_epoch(loader, features), check_epoch(loader, features)
    assert sorted(first) == sorted(second) == list(range(ROWS)) and first != second


def test_without_shuffling_rows_come_as_they_lie(rows: Path) -> None:
    with open_arrays(rows, fields=FIELDS) as loader:
        assert [row for batch in loader for row in batch[1]] == list(range(ROWS))


def test_the_layout_does_not_change_a_batch(tmp_path: Path) -> None:
    seen = [epoch_of(make_rows(tmp_path / "train.h5", layout), shuffle=True, seed=9) for layout in LAYOUTS]
    for other in seen[1:]:
        np.testing.assert_array_equal(seen[0], other)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_any_number_of_threads_gives_the_same_batches(rows: Path, threads: int) -> None:
    options = {"fields": FIELDS, "shuffle": True, "batch_size": 96, "seed": 5}
    np.testing.assert_array_equal(epoch_of(rows, threads=1, **options), epoch_of(rows, threads=threads, **options))


@pytest.mark.parametrize("io", ["pread", "slow:latency_us=500", "uring"])
def test_any_back_end_gives_the_same_batches(rows: Path, io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want = epoch_of(rows, shuffle=True)
    monkeypatch.setenv("FULLBORE_IO", io)
    np.testing.assert_array_equal(epoch_of(rows, shuffle=True), want)


def test_rows_that_are_not_in_memory_are_read_all_the_same(rows: Path) -> None:
    want = epoch_of(rows, shuffle=True)
    fd = os.open(rows, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    np.testing.assert_array_equal(epoch_of(rows, shuffle=True), want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
                                   "float64", ">f4", ">i2", ">u8", "bool"])
@pytest.mark.parametrize("layout", ["contiguous", "gzip shuffle fletcher32", "split columns gzip"])
def test_every_dtype_equals_h5py(tmp_path: Path, dtype: str, layout: str) -> None:
    values = (numbers(150) > 0 if dtype == "bool" else np.abs(numbers(150))).astype(dtype)
    shape = LAYOUTS[layout]
    path = write_h5(tmp_path / "a.h5", {"x": values}, **shape)
    got = epoch_of(path, fields=["x"])
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 3, 5), (40, 2, 3, 4)])
def test_rows_of_any_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    np.save(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(epoch_of(tmp_path / "a.npy", batch_size=7), values)
    path = write_h5(tmp_path / "a.h5", {"x": values}, **({"chunks": (9, *shape[1:]), "compression": "gzip"} if len(shape) > 1 else {}))
    np.testing.assert_array_equal(epoch_of(path, batch_size=7), values)


def test_npy_in_either_order_npz_and_safetensors(tmp_path: Path) -> None:
    values = numbers(300)
    np.save(tmp_path / "c.npy", values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    np.savez(tmp_path / "stored.npz", features=values, labels=np.arange(300))
    np.savez_compressed(tmp_path / "deflated.npz", features=values, labels=np.arange(300))
    np.savez_compressed(tmp_path / "fortran.npz", features=np.asfortranarray(values), labels=np.arange(300))
    for name in ("c.npy", "f.npy"):
        order = [row_of_key(k) for k in keys_of(tmp_path / name, shuffle=True)]
        np.testing.assert_array_equal(epoch_of(tmp_path / name, shuffle=True), values[order])
    for name in ("stored.npz", "deflated.npz", "fortran.npz"):
        with open_arrays(tmp_path / name, fields=FIELDS, sample="row", shuffle=True) as loader:
            assert sorted(check_epoch(loader, values)) == list(range(300))


def test_chunks_that_were_never_written_give_the_fill_value(tmp_path: Path) -> None:
    for layout in ({}, {"compression": "gzip"}):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            data = file.create_dataset("x", (100, 80), "f4", chunks=(10, 80), fillvalue=7.5, **layout)
            data[30:50] = numbers(20, 80)
            want = data[:]
        for dtype in (None, "float16"):
            got = epoch_of(tmp_path / "a.h5", dtype=dtype, batch_size=8)
            np.testing.assert_array_equal(got, want.astype(dtype or "f4"))


def test_names_are_matched_whatever_their_case(tmp_path: Path) -> None:
    np.testing.assert_array_equal(epoch_of(make_rows(tmp_path / "TRAIN.H5")), numbers())
    np.save(tmp_path / "a.npy", numbers())
    (tmp_path / "a.npy").rename(tmp_path / "A.NPY")
    np.testing.assert_array_equal(epoch_of(tmp_path / "A.NPY"), numbers())


# ---- which fields


def test_fields_come_in_the_order_they_are_named_in(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    with open_arrays(path, fields=("labels", "features")) as loader:
        labels, features = next(iter(loader))
    np.testing.assert_array_equal(features, numbers()[labels])


def test_without_fields_all_arrays_that_have_as_many_rows_come(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "a.h5", {"x": numbers(50), "y": np.arange(50), "mean": np.zeros(WIDTH)})
    with open_arrays(path, batch_size=50) as loader:
        x, y = next(iter(loader))
    np.testing.assert_array_equal(x, numbers(50))
    np.testing.assert_array_equal(y, np.arange(50))


def test_arrays_in_groups_have_their_paths_as_names(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["train/x"] = numbers(30)
        file["val/x"] = numbers(10, seed=1)
    np.testing.assert_array_equal(epoch_of(tmp_path / "a.h5", fields=["train/x"]), numbers(30))


def test_labels_of_ones_own_go_with_the_rows(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    own = np.random.default_rng(1).integers(0, 9, ROWS)
    for labels in (own, own.tolist(), {"own": own}):
        with open_arrays(path, labels=labels, shuffle=True) as loader:
            for batch in loader:
                np.testing.assert_array_equal(batch[-1], own[[row_of_key(key) for key in batch.sample_keys]])


def test_labels_of_ones_own_are_for_the_selected_rows(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    indices = np.random.default_rng(2).permutation(ROWS)[:200]
    with open_arrays(path, fields=["features", "label"], labels=indices * 10, indices=indices, shuffle=True) as loader:
        for values, labels in loader:
            np.testing.assert_array_equal(values, numbers()[labels // 10])


def test_as_many_labels_as_rows_are_wanted(tmp_path: Path) -> None:
    with pytest.raises(fb.errors.UsageError, match=f"999 rows for {ROWS}"):
        open_arrays(make_rows(tmp_path / "a.h5"), labels=np.zeros(999, dtype=np.int64))


# ---- several files


def test_several_files_lie_end_to_end(tmp_path: Path) -> None:
    parts = [make_rows(tmp_path / f"part_{i}.h5", layout, rows=100 + 37 * i, seed=i) for i, layout in enumerate(LAYOUTS)]
    want = np.concatenate([numbers(100 + 37 * i, seed=i) for i in range(len(parts))])
    for threads in (1, 3):
        np.testing.assert_array_equal(epoch_of(f"{tmp_path}/*.h5", fields=["features"], threads=threads), want)
    got = epoch_of(f"{tmp_path}/*.h5", fields=["features"], shuffle=True)
    keys = keys_of(f"{tmp_path}/*.h5", fields=["features"], shuffle=True)
    starts = {part.name: int(sum(100 + 37 * k for k in range(i))) for i, part in enumerate(parts)}
    np.testing.assert_array_equal(got, want[[starts[key.split("#")[0]] + row_of_key(key) for key in keys]])
    assert len(set(keys)) == len(want)


def test_a_file_without_rows_among_others_is_passed_over(tmp_path: Path) -> None:
    make_rows(tmp_path / "a.h5", "gzip", rows=70)
    write_h5(tmp_path / "b.h5", {"features": np.zeros((0, WIDTH), "f4"), "labels": np.arange(0)})
    make_rows(tmp_path / "c.h5", "gzip", rows=30)
    assert epoch_of(f"{tmp_path}/*.h5", field=1).tolist() == [*range(70), *range(30)]


def test_a_list_of_files_is_taken_in_the_order_of_its_paths(tmp_path: Path) -> None:
    paths = [make_rows(tmp_path / f"{name}.h5", rows=50, seed=i) for i, name in enumerate("ba")]
    np.testing.assert_array_equal(epoch_of(paths, sample="row", fields=["features"]),
                                  np.concatenate([numbers(50, seed=1), numbers(50, seed=0)]))


# ---- which rows, in which order


def test_indices_take_those_rows_in_that_order(rows: Path) -> None:
    indices = np.random.default_rng(3).permutation(ROWS)[:123]
    np.testing.assert_array_equal(epoch_of(rows, indices=indices), numbers()[indices])


def test_a_split_leaves_nothing_out_and_takes_nothing_twice(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    train = epoch_of(path, 1, split=("train", 0.8), shuffle=True)
    val = epoch_of(path, 1, split=("val", 0.8))
    assert sorted([*train, *val]) == list(range(ROWS)) and 0.7 * ROWS < len(train) < 0.9 * ROWS


def test_a_fraction_is_that_much_and_a_larger_one_holds_the_smaller(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    some, more = set(epoch_of(path, 1, fraction=0.1)), set(epoch_of(path, 1, fraction=0.5))
    assert len(some) == ROWS // 10 and len(more) == ROWS // 2 and some < more
    assert some != set(epoch_of(path, 1, fraction=0.1, class_seed=1))


def test_ranks_share_the_rows(rows: Path) -> None:
    whole = epoch_of(rows, 1, shuffle=True, batch_size=60)
    parts = [epoch_of(rows, 1, shuffle=True, batch_size=20, rank=rank, world_size=3) for rank in range(3)]
    joined = [row for at in range(0, len(parts[0]), 20) for part in parts for row in part[at:at + 20]]
    assert joined[:len(whole)] == whole.tolist() and set(joined) == set(range(ROWS))


@pytest.mark.parametrize("shuffle", [True, "window"])
def test_a_run_goes_on_where_it_was_left(rows: Path, shuffle: Any) -> None:
    options = {"fields": FIELDS, "shuffle": shuffle, "seed": 2, "batch_size": 48}
    whole = epoch_of(rows, 1, **options)
    with open_arrays(rows, **options) as loader:
        running = iter(loader)
        begun = [next(running)[1] for _ in range(5)]
        state = loader.state_dict()
    with open_arrays(rows, **{**options, "batch_size": 16}, rank=0, world_size=3) as loader:
        loader.load_state_dict(state)
        assert next(iter(loader))[1].tolist() == whole[240:256].tolist()
    with open_arrays(rows, **options) as loader:
        loader.load_state_dict(state)
        np.testing.assert_array_equal(np.concatenate([*begun, taken(loader, 1)]), whole)


def test_a_state_of_another_selection_is_refused(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    with open_arrays(path, fraction=0.5, shuffle=True) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with open_arrays(path, shuffle=True) as loader, pytest.raises(fb.Error, match="select|sample|data"):
        loader.load_state_dict(state)


def test_a_sampler_names_rows(rows: Path) -> None:
    wanted = np.random.default_rng(4).integers(0, ROWS, 300).tolist()
    np.testing.assert_array_equal(epoch_of(rows, sampler=wanted), numbers()[wanted])


def test_single_rows_by_their_number(tmp_path: Path) -> None:
    with open_arrays(make_rows(tmp_path / "a.h5"), fields=FIELDS) as loader:
        for i in (0, 17, ROWS - 1):
            values, label = loader.dataset[i]
            assert int(label) == i
            np.testing.assert_array_equal(values, numbers()[i])


def test_weights_draw_rows(tmp_path: Path) -> None:
    weights = np.zeros(ROWS)
    weights[[3, 500, 999]] = 1, 2, 1
    assert set(epoch_of(make_rows(tmp_path / "a.h5"), 1, weights=weights, shuffle=True)) == {3, 500, 999}


# ---- windows


def test_window_order_has_every_row_once_and_reads_chunks_once(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip", rows=6400)
    with open_arrays(path, fields=FIELDS, shuffle="window", window=640, batch_size=64) as loader:
        order = [int(row) for batch in loader for row in batch[1]]
        stats = loader.stats()
    assert sorted(order) == list(range(6400)) and order != sorted(order)
    for at in range(0, 6400, 640):
        assert len({row // 64 for row in order[at:at + 640]}) == 10, "a window is ten whole chunks"
    assert stats["chunks"]["unfiltered"] == 100, "each chunk was inflated once"


def test_chunks_that_will_be_inflated_again_and_again_are_said_with_the_remedy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip", rows=20_000)
    for options, words in (({"shuffle": True}, 'up to 64 times an epoch; use shuffle="window"'), ({"shuffle": "window"}, "lower window="),
                           ({"shuffle": "window", "window": 1024}, ""), ({}, ""), ({"shuffle": True, "memory": "64MiB"}, "")):
        caplog.clear()
        with open_arrays(path, **{"memory": "8MiB", **options}):
            said = " ".join(record.getMessage() for record in caplog.records)
        assert words in said and bool(said) == bool(words), (options, said)


def test_window_is_larger_than_everything(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    np.testing.assert_array_equal(epoch_of(path, 1, shuffle="window", window=10**6, seed=1), epoch_of(path, 1, shuffle=True, seed=1))


# ---- casts, normalising


@pytest.mark.parametrize("layout", ["contiguous", "chunks", "gzip", "split columns"])
@pytest.mark.parametrize("preload", [False, True])
def test_rows_are_cast_on_the_way(tmp_path: Path, layout: str, preload: bool) -> None:
    torch = pytest.importorskip("torch")
    path = make_rows(tmp_path / "a.h5", layout)
    got = epoch_of(path, dtype="float16", preload=preload)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, numbers().astype(np.float16))
    with open_arrays(path, dtype="bfloat16", framework="torch", batch_size=ROWS, preload=preload) as loader:
        values, labels = next(iter(loader))
    assert values.dtype == torch.bfloat16 and labels.dtype == torch.int64
    assert torch.equal(values, torch.from_numpy(numbers()).to(torch.bfloat16))


def test_rows_are_normalised_on_the_way(tmp_path: Path) -> None:
    values = numbers(200, 100)
    mean, std = np.linspace(-3, 3, 100).tolist(), np.linspace(0.5, 4, 100).tolist()
    for layout in ({}, {"chunks": (16, 100), "compression": "gzip"}):
        path = write_h5(tmp_path / "a.h5", {"x": values, "y": np.arange(200.0)}, **layout)
        with open_arrays(path, transforms=[fb.Normalize(mean, std)], batch_size=200) as loader:
            x, y = next(iter(loader))
        np.testing.assert_allclose(x, (values - np.float32(mean)) / np.float32(std), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(y, np.arange(200.0))
    whole = write_h5(tmp_path / "b.h5", {"x": values.astype(np.uint8)})
    got = epoch_of(whole, transforms=[fb.Normalize([100.0], [50.0])], dtype="float16")
    np.testing.assert_allclose(got, ((values.astype(np.uint8) - np.float32(100)) / np.float32(50)).astype(np.float16), rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_rows_of_the_file_and_of_ones_own_come_together_cast_and_normalised(tmp_path: Path, layout: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    path, own = make_rows(tmp_path / "a.h5", layout), np.random.default_rng(5).random(ROWS)
    exact = torch.from_numpy((numbers() - np.float32(3)) * (np.float32(1) / np.float32(20))).to(getattr(torch, dtype))
    with open_arrays(path, fields=("features", "labels", "weight"), labels={"weight": own}, dtype=dtype, framework="torch", shuffle=True,
                     transforms=[fb.Normalize([3.0], [20.0])]) as loader:
        for features, labels, weight in loader:
            assert features.dtype == exact.dtype and labels.dtype == torch.int64 and weight.dtype == torch.float64
            torch.testing.assert_close(features, exact[labels], rtol=2**-7 if dtype == "bfloat16" else 2**-10, atol=0)
            assert torch.equal(weight, torch.from_numpy(own)[labels])


def test_numbers_to_normalise_by_must_fit_the_rows(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    with pytest.raises(fb.errors.UsageError, match="5 numbers.*96"):
        open_arrays(path, transforms=[fb.Normalize([0.0, 1.0, 2.0, 3.0, 4.0], [1.0] * 5)])


# ---- memory


def test_preload_reads_everything_before_the_first_batch(rows: Path) -> None:
    with open_arrays(rows, fields=FIELDS, shuffle=True, preload=True) as loader:
        at_open = loader.stats()["budget"]["used_bytes"]
        assert at_open >= ROWS * WIDTH * 4
        rows.write_bytes(b"")  # nobody looks at the file any more
        os.utime(rows, ns=(0, 0))
        assert sorted(check_epoch(loader, numbers())) == list(range(ROWS))


def test_preload_says_what_does_not_fit(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "a.h5", {"x": np.zeros((40_000, 256), "f4")})
    with pytest.raises(fb.BudgetError, match=r"'x' has 39.* Mi?B.*budget of 32"):
        open_arrays(path, preload=True, memory="32MiB")
    before = epoch_of(path, memory="32MiB", batch_size=256)
    assert before.shape == (40_000, 256)


def test_a_failed_preload_gives_its_memory_back(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip")
    used = []
    for _ in range(3):
        with open_arrays(make_rows(tmp_path / "b.h5", "contiguous")) as keeper:
            with pytest.raises(fb.Error):
                open_arrays(path, preload=True, memory="1MiB", transforms=[fb.SampleInstances(3)])
            used.append(keeper.stats()["budget"]["used_bytes"])
    assert used[0] == used[2]


@pytest.mark.parametrize("layout", ["contiguous", "chunks", "gzip", "split columns gzip"])
def test_a_small_budget_holds(tmp_path: Path, layout: str) -> None:
    path = make_rows(tmp_path / "a.h5", layout, rows=20_000)
    for options in ({"shuffle": True}, {"shuffle": "window"}):
        with open_arrays(path, fields=FIELDS, batch_size=256, memory="8MiB", threads=2, **options) as loader:
            assert sorted(check_epoch(loader, numbers(20_000))) == list(range(20_000))
            stats = loader.stats()
        assert stats["budget"]["peak_bytes"] <= 8 << 20


def test_a_chunk_larger_than_the_cache_is_inflated_once_per_batch_at_most(tmp_path: Path) -> None:
    rows = 40_000
    path = write_h5(tmp_path / "a.h5", {"x": numbers(rows), "y": np.arange(rows)}, chunks=(rows, WIDTH), compression="gzip")
    with open_arrays(path, batch_size=4000, memory="40MiB", threads=1, shuffle=True, fields=("x", "y")) as loader:
        assert sorted(check_epoch(loader, numbers(rows))) == list(range(rows))
        assert loader.stats()["chunks"]["unfiltered"] <= 20  # ten batches, and some of the next epoch


def test_a_cache_of_chunks_makes_room_for_another_loader(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5", "gzip", rows=20_000)
    np.save(tmp_path / "b.npy", numbers(40_000))
    with open_arrays(path, fields=FIELDS, shuffle=True, memory="30MiB", threads=2) as one:
        running = iter(one)
        for _ in range(100):
            next(running)
        with open_arrays(tmp_path / "b.npy", shuffle=True, batch_size=6000) as two:  # a batch of 2.3 MB, and three more ahead
            assert sum(len(batch[0]) for batch in two) == 40_000
            assert sum(len(batch[0]) for batch in running) == 20_000 - 6400
            assert two.stats()["budget"]["peak_bytes"] <= 30 << 20


@pytest.mark.parametrize("io", ["auto", "slow:latency_us=1"])
def test_chunks_that_are_neighbours_are_one_read(tmp_path: Path, io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLBORE_IO", io)
    path = write_h5(tmp_path / "a.h5", {"x": numbers(2000)}, chunks=(2, WIDTH), compression="gzip")
    with open_arrays(path, batch_size=100) as loader:
        for _ in loader:
            pass
        stats = loader.stats()
    assert stats["chunks"]["unfiltered"] >= 1000
    assert 0 < stats["io"]["reads"] <= stats["chunks"]["unfiltered"] / 8, "a load is 64 rows side by side, in 32 chunks"


# ---- one start after another


def test_the_second_start_asks_no_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_rows(tmp_path / "a.h5")
    want = epoch_of(path)
    monkeypatch.setenv("FULLBORE_HDF5_HELPER", "/nowhere")
    np.testing.assert_array_equal(epoch_of(path), want)


# ---- the audit


def test_rows_are_audited(tmp_path: Path) -> None:
    path = make_rows(tmp_path / "a.h5")
    for options in ({"shuffle": True}, {"shuffle": "window", "window": 128}, {"dtype": "float16", "shuffle": True}):
        logs = tmp_path / f"logs{len(options)}{options['shuffle']}"
        with audited(logs), open_arrays(path, **options) as loader:
            list(loader), list(loader)
        code, report = audit(logs)
        assert code == 0, report
        assert [(e["verdict"], e["handed_out"]) for e in epochs(report).values()] == [("proved", ROWS)] * 2
