"""cache_dir= and cache_ram= over arrays and sound: the same batches, fewer reads from the source, and nothing of another version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
import soundfile
from array_files import ROWS, make_bags, make_rows, numbers, open_arrays
from test_caches import cache_of, settle

FIELDS = ("features", "labels")
BLOCK = 256 << 10


def aged(path: Path, at: float = 1e9) -> Path:
    """Changed long ago, as far as anybody can see: what is young is not kept."""
    for file in [path] if path.is_file() else path.rglob("*.*"):
        os.utime(file, (at, at))
    return path


def values_of(field: Any) -> np.ndarray[Any, Any]:
    return np.array(getattr(field, "values", field))


def contents(loader: fb.Loader) -> list[tuple[Any, ...]]:
    return [(tuple(batch.sample_keys), *(values_of(field).tobytes() for field in batch)) for batch in loader]


def caches_in(tmp_path: Path) -> dict[str, dict[str, Any]]:
    return {"disk": {"cache_dir": tmp_path / "c"}, "ram": {"cache_ram": "16MiB"},
            "both": {"cache_dir": tmp_path / "d", "cache_ram": "300KiB"}, "full": {"cache_dir": tmp_path / "e", "cache_limit": "300KiB"}}


def check_same(source: Any, tmp_path: Path, **options: Any) -> None:
    with open_arrays(source, **options) as loader:
        want = [contents(loader) for _ in range(3)]
    for name, cache in caches_in(tmp_path).items():
        with open_arrays(source, **options, **cache) as loader:
            assert [contents(loader) for _ in range(3)] == want, name
            found = cache_of(loader)
            assert found["off"] is None and found["damaged"] == 0, (name, found)
            assert found["misses"] + found["filled"] > 0, "what was not fetched for the reader was fetched ahead of it"


# ---- the same batches


@pytest.mark.parametrize("layout", ["contiguous", "row chunks", "chunks", "gzip", "split columns gzip"])
@pytest.mark.parametrize("how", [{"shuffle": True}, {"shuffle": "window", "window": 200}, {}, {"dtype": "float64", "shuffle": True}])
def test_rows_are_the_same_with_any_cache(tmp_path: Path, layout: str, how: dict[str, Any]) -> None:
    check_same(aged(make_rows(tmp_path / "a.h5", layout, rows=3000)), tmp_path, fields=FIELDS, **how)


@pytest.mark.parametrize("how", [{"collate": fb.Pad()}, {"collate": fb.Ragged()}, {"transforms": [fb.SampleInstances(3)]}])
@pytest.mark.parametrize("layout", [{}, {"compression": "gzip"}, {"chunks": True, "maxshape": (None, None)}])
def test_bags_are_the_same_with_any_cache(tmp_path: Path, layout: dict[str, Any], how: dict[str, Any]) -> None:
    make_bags(tmp_path / "slides", 20, **layout)
    check_same(f"{aged(tmp_path / 'slides')}/*.h5", tmp_path, sample="file", batch_size=4, fields=("features", "coords"), shuffle=True,
               **how)


@pytest.mark.parametrize("random", [False, True])
def test_recordings_are_the_same_with_any_cache(tmp_path: Path, random: bool) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "sound").mkdir()
    for i, frames in enumerate([3000, 900, 5000, 400_000, 300_000, 800]):  # the large ones are read in part
        for suffix in ("wav", "flac") if frames < 9000 else ("wav",):
            soundfile.write(tmp_path / "sound" / f"{i}.{suffix}", rng.uniform(-0.9, 0.9, frames), 16_000, subtype="PCM_16")
    check_same(aged(tmp_path / "sound"), tmp_path, batch_size=3, shuffle=True, transforms=[fb.CropOrPad(2000, random=random)])


def test_several_files_and_threads(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for i in range(4):
        make_rows(tmp_path / "rows" / f"{i}.h5", "contiguous", seed=i)
    aged(tmp_path / "rows")
    seen = []
    for threads in (1, 3, 8):
        with open_arrays(f"{tmp_path}/rows/*.h5", fields=FIELDS, shuffle=True, threads=threads, cache_dir=tmp_path / "c") as loader:
            seen.append([contents(loader) for _ in range(2)])
    assert seen[0] == seen[1] == seen[2]


# ---- fewer reads


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_rows_are_read_from_the_source_once(tmp_path: Path, layout: str) -> None:
    path = aged(make_rows(tmp_path / "a.h5", layout, rows=6000))
    blocks = -(-path.stat().st_size // BLOCK)
    options: dict[str, Any] = {"fields": ["features"], "shuffle": True, "cache_dir": tmp_path / "c", "batch_size": 256}
    with open_arrays(path, **options) as loader:
        want = contents(loader)
        settle(loader, "stored", blocks - 1)  # the last block may hold nothing but structure
        assert cache_of(loader)["misses"] <= blocks, "a block is fetched once, however many rows ask for it"
    with open_arrays(path, **options) as loader:
        assert contents(loader) == want
        found = cache_of(loader)
        assert found["misses"] == 0 and found["disk_hits"] > 0 and found["stored"] == 0


def test_a_second_run_reads_no_bag_from_the_source(tmp_path: Path) -> None:
    make_bags(tmp_path / "slides", 20, chunks=True, maxshape=(None, None))
    source = f"{aged(tmp_path / 'slides')}/*.h5"
    options: dict[str, Any] = {"sample": "file", "fields": ("features", "coords"), "collate": fb.Ragged(), "batch_size": 4, "shuffle": True,
                               "cache_dir": tmp_path / "c"}
    with open_arrays(source, **options) as loader:
        contents(loader)
        settle(loader, "stored", 20)
    with open_arrays(source, **options, seed=7) as loader:
        contents(loader)
        assert cache_of(loader)["misses"] == 0


def test_bags_are_fetched_ahead_of_the_reader(tmp_path: Path) -> None:
    make_bags(tmp_path / "slides", 300)
    with open_arrays(f"{aged(tmp_path / 'slides')}/*.h5", sample="file", fields=["features"], collate=fb.Pad(), batch_size=2, shuffle=True,
                     cache_dir=tmp_path / "c") as loader:
        next(iter(loader))
        settle(loader, "stored", 300)
        assert cache_of(loader)["filled"] > 0


def test_memory_serves_what_it_has(tmp_path: Path) -> None:
    path = aged(make_rows(tmp_path / "a.h5", "contiguous", rows=6000))
    with open_arrays(path, fields=["features"], shuffle=True, cache_ram="32MiB", memory="128MiB") as loader:
        for _ in range(3):
            contents(loader)
        found = cache_of(loader)
    assert found["ram_bytes"] >= path.stat().st_size * 0.9 and found["ram_hits"] > 2 * 6000 * 0.9
    assert found["misses"] <= 40, "some were asked for again before they were kept, nine blocks at most a few times"


def test_a_full_cache_costs_no_blocks(tmp_path: Path) -> None:
    """When nothing more can be kept, a row costs the source a row."""
    path = aged(make_rows(tmp_path / "a.h5", "contiguous", rows=20_000))
    with open_arrays(path, fields=["features"], shuffle=True, cache_ram="1MiB", batch_size=500) as loader:
        contents(loader)
        first = cache_of(loader)["miss_bytes"]
        contents(loader)
        assert cache_of(loader)["miss_bytes"] - first <= 1.5 * 20_000 * 96 * 4


# ---- nothing of another version


@pytest.mark.parametrize("cache", ["disk", "ram"])
def test_a_file_replaced_while_open_stays_the_old_one(tmp_path: Path, cache: str) -> None:
    path = aged(make_rows(tmp_path / "a.h5", "contiguous", rows=6000))
    kept = caches_in(tmp_path)[cache]
    with open_arrays(path, fields=FIELDS, shuffle=True, batch_size=100, **kept) as loader:
        running = iter(loader)
        first = next(running)
        aged(make_rows(tmp_path / "new.h5", "contiguous", rows=6000, seed=99), 1e9 + 50).rename(path)
        for batch in [first, *running]:
            np.testing.assert_array_equal(batch[0], numbers(6000)[batch[1]])
    with open_arrays(path, fields=FIELDS, shuffle=True, batch_size=100, **kept) as loader:
        for features, labels in loader:
            np.testing.assert_array_equal(features, numbers(6000, seed=99)[labels])


def test_bags_that_change_are_read_anew(tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    make_bags(folder, 6)
    aged(folder)
    options: dict[str, Any] = {"sample": "file", "fields": ["features"], "collate": fb.Ragged(), "batch_size": 6,
                               "cache_dir": tmp_path / "c"}
    with open_arrays(f"{folder}/*.h5", **options) as loader:
        contents(loader)
        settle(loader, "stored", 6)
    new = make_bags(tmp_path / "other", 7)["slide_06.h5"]
    aged(tmp_path / "other", 1e9 + 9)
    (tmp_path / "other" / "slide_06.h5").replace(folder / "slide_03.h5")
    with open_arrays(f"{folder}/*.h5", **options) as loader:
        (features,) = next(iter(loader))
        np.testing.assert_array_equal(features[3], new["features"])
        assert cache_of(loader)["misses"] <= 1


def test_damaged_entries_are_read_from_the_source(tmp_path: Path) -> None:
    path = aged(make_rows(tmp_path / "a.h5", "contiguous", rows=6000))
    options: dict[str, Any] = {"fields": ["features"], "shuffle": True, "cache_dir": tmp_path / "c"}
    with open_arrays(path, **options) as loader:
        want = contents(loader)
        settle(loader, "stored", 8)
    for entry in [e for e in (tmp_path / "c").rglob("*") if e.is_file() and e.stat().st_size > BLOCK][::2]:
        with open(entry, "r+b") as file:
            file.seek(100_000)
            file.write(b"damage")
    with open_arrays(path, **options) as loader:
        assert contents(loader) == want
        assert cache_of(loader)["damaged"] > 0


def test_a_budget_holds_with_a_cache(tmp_path: Path) -> None:
    path = aged(make_rows(tmp_path / "a.h5", "contiguous", rows=20_000))
    with open_arrays(path, fields=["features"], shuffle=True, batch_size=256, memory="24MiB", cache_ram="4MiB", cache_dir=tmp_path / "c",
                     threads=2) as loader:
        assert sum(len(batch[0]) for _ in range(2) for batch in loader) == 40_000
        assert loader.stats()["budget"]["peak_bytes"] <= 24 << 20


@pytest.mark.parametrize("io", ["pread", "slow:latency_us=300", "fault:error=EIO,p=0.01,seed=3"])
def test_any_back_end_below(tmp_path: Path, io: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = aged(make_rows(tmp_path / "a.h5", "gzip"))
    with open_arrays(path, fields=FIELDS, shuffle=True) as loader:
        want = contents(loader)
    monkeypatch.setenv("FULLBORE_IO", io)
    with open_arrays(path, fields=FIELDS, shuffle=True, cache_dir=tmp_path / "c", on_error="skip") as loader:
        seen = [contents(loader) for _ in range(2)]
    assert seen[0] == want and sum(len(batch[0]) for batch in seen[1]) == ROWS
