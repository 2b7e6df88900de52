"""One table of figures: stats(), metrics(), `fullbore bench --json` and docs/statistics.md say the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from fullbore import _fullbore
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("FULLBORE_COMMAND", str(ROOT / ".venv/bin/fullbore"))
TABLE: list[dict[str, str]] = json.loads(_fullbore.describe_stats())
PATHS = {row["path"] for row in TABLE}
FACTS = {"catalog.made_ns", "device.is_pinned"}  # numbers, but no figures
WITHOUT_CHUNKS = {path for path in PATHS if not path.startswith("chunks.")}
# what bench calls them, where it says more than the last part of the path
OF_BENCH = {"threads": "threads", "budget_peak_bytes": "budget.peak_bytes", "cached_reads": "io.cached_reads",
            "chunks_unfiltered": "chunks.unfiltered", "bad_samples": "bad", "device_copied_bytes": "device.copied_bytes"}
# what bench measures itself, with a clock or a consumer of its own; none of it is a figure of the loader
OWN_OF_BENCH = {"samples", "batches", "epochs", "batch_size", "wall_seconds", "samples_per_second", "last_epoch_samples_per_second",
                "step_seconds", "launch_thread_share", "accelerator_utilization_ratio", "exposed_wait_ratio",
                "cpu_seconds_per_1000_samples", "rss_peak_bytes", "time_to_first_batch_seconds", "epoch_gap_seconds",
                "step_median_seconds", "probe_lateness_p99_seconds", "evicted_ratio", "io_reads"}
NAMES_OF_BENCH = {"transforms", "dtype", "device", "io", "checksum", "stages"}  # no numbers; the stages are compared one by one
SET = re.compile(r'\bmetrics_(?:set|set_ns|get)\([^;"]*?"([^"]*)"|\bbench_figure\([^;"]*?"([^"]*)"')


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("statistics")
    for i in range(24):
        (folder / f"data/{i % 2}").mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"data/{i % 2}/{i}.jpg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "catalogs"))
        yield folder / "data"


@pytest.fixture
def full(photos: Path, tmp_path: Path) -> Iterator[fb.Loader]:
    """A loader with every part that photographs can have."""
    with fb.Loader(photos, batch_size=4, shuffle=True, transforms=[fb.Resize((8, 8))], framework="numpy", cache_ram="16MB",
                   cache_dir=tmp_path, cache_limit="1GB", device="emulated:12GB/s,20us", batch_map=lambda batch: batch) as loader:
        yield loader


def figures(value: Any, path: str = "") -> dict[str, float]:
    """Every number in stats(), by its path; the members of `stages` by their names, other lists left out."""
    if isinstance(value, list):
        value = {item["name"]: item for item in value} if path == "stages" else {}
    if not isinstance(value, dict):
        return {path: value} if isinstance(value, (int, float)) else {}
    return {name: number for key, item in value.items() for name, number in figures(item, f"{path}.{key}".lstrip(".")).items()}


def test_stats_and_the_table_have_the_same_figures(full: fb.Loader) -> None:
    list(full)
    assert set(figures(full.stats())) - FACTS == WITHOUT_CHUNKS


def test_rows_in_compressed_chunks_have_the_rest(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((100, 8), np.float32), chunks=(10, 8), compression="gzip")
    with fb.Loader(tmp_path / "a.h5", batch_size=10, framework="numpy") as loader:
        list(loader)
        assert PATHS - WITHOUT_CHUNKS <= set(figures(loader.stats()))


def test_metrics_are_the_figures_of_stats_under_their_names(full: fb.Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    list(full)
    stats = full.stats()
    monkeypatch.setattr(full, "_stats", lambda: stats)  # of one moment: the next epoch is being read ahead
    found = figures(stats)
    assert full.metrics() == {"fullbore_" + row["name"]: found[row["path"]] for row in TABLE if row["path"] in WITHOUT_CHUNKS}


def test_a_figure_that_there_is_not_is_left_out(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
        assert loader.stats()["cache"] is None and loader.stats()["device"] is None and "chunks" not in loader.stats()
        assert not [name for name in loader.metrics() if re.match("fullbore_(cache|device|chunks)_", name)]


def test_counters_never_fall(full: fb.Loader) -> None:
    names = ["fullbore_" + row["name"] for row in TABLE if row["kind"] == "counter" and row["path"] in WITHOUT_CHUNKS]
    before = full.metrics()
    for _ in range(2):
        for _batch in full:
            now = full.metrics()
            assert [name for name in names if now[name] < before[name]] == []
            before = now
    assert before["fullbore_samples_total"] == 48


def test_names_follow_the_rules_of_prometheus() -> None:
    for row in TABLE:
        name, is_counter = row["name"], row["kind"] == "counter"
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name) and name.endswith("_total") == is_counter, row
        if row["unit"]:
            assert f"_{row['unit'].replace(' ', '_')}" in f"_{name}", row
        assert row["help"].endswith(".") and "\n" not in row["help"] and "|" not in row["help"], row
    assert len(PATHS) == len(TABLE)


def test_only_what_loop_repeats_has_one_name_for_two_paths() -> None:
    count = Counter(row["name"] for row in TABLE)
    shared = {row["path"] for row in TABLE if count[row["name"]] > 1}
    assert {path for path in shared if "." not in path} == {path.removeprefix("loop.") for path in shared if "." in path}


def test_the_page_is_the_table() -> None:
    subprocess.run([sys.executable, str(ROOT / "tools/make_statistics.py"), "--check"], check=True)
    page = (ROOT / "docs/statistics.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| `fullbore_(\w+)` \| ([\w ]*) \| (counter|gauge) \| (.+) \|$", page, re.M)
    assert rows == [(row["path"], row["name"], row["unit"], row["kind"], row["help"]) for row in TABLE]


def bench(*words: str | Path, code: int = 0) -> dict[str, Any]:
    result = subprocess.run([COMMAND, "bench", *words, "--json"], capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def test_bench_shows_figures_of_the_table(photos: Path) -> None:
    said = bench(photos, "--device", "emulated:12GB/s,20us")
    assert set(said) == set(OF_BENCH) | OWN_OF_BENCH | NAMES_OF_BENCH, "a new figure of the loader is a row of the table and of OF_BENCH"
    assert set(OF_BENCH.values()) <= PATHS
    assert set(figures({"stages": said["stages"]})) == {path for path in PATHS if path.startswith("stages.")}
    units = {row["path"]: row["unit"] for row in TABLE}
    assert [key for key, path in OF_BENCH.items() if units[path] in ("", "bytes") and not isinstance(said[key], int)] == []


def test_the_figures_of_bench_are_those_of_what_it_did(photos: Path, tmp_path: Path) -> None:
    data = tmp_path / "photos"
    shutil.copytree(photos, data)
    (data / "0/bad.jpg").write_bytes((data / "0/0.jpg").read_bytes()[:400])
    said = bench(data, "--device", "emulated:12GB/s,20us", "--epochs", "3", "--batch-size", "5", "--threads", "2", "--order", "plain",
                 "--dtype", "uint8", "--on-error", "skip", "--memory", "512MiB", code=4)
    found = figures({"stages": said["stages"]})
    assert (said["samples"], said["batches"], said["epochs"], said["threads"]) == (75, 15, 3, 2)
    assert said["bad_samples"] >= 3, "one an epoch, and what is read ahead of the next"
    batch_bytes = 5 * (224 * 224 * 3 + 8)
    assert said["device_copied_bytes"] % batch_bytes == 0
    assert 15 <= said["device_copied_bytes"] // batch_bytes <= 20, "each batch once, and what is copied ahead of the next epoch"
    assert said["cached_reads"] + said["io_reads"] >= 75 and found["stages.deliver.items"] >= 14
    assert found["stages.transform.items"] >= 75 and found["stages.decode.items"] >= 75
    assert 75 * 224 * 224 * 3 / 15 < said["budget_peak_bytes"] <= 512 << 20
    assert said["samples_per_second"] > 0 and 0 <= said["exposed_wait_ratio"] <= 1


def test_bench_counts_decompressed_chunks(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = np.random.default_rng(0).random((100000, 32))  # more than fits into the memory below
        file.create_dataset("x", data=values, chunks=(1000, 32), compression="gzip", compression_opts=1)
    said = bench(tmp_path / "a.h5", "--batch-size", "100", "--order", "plain", "--memory", "8MiB")
    assert (said["samples"], said["bad_samples"]) == (100000, 0)
    assert 100 <= said["chunks_unfiltered"] <= 150, "each chunk once, and what is read ahead of the next epoch"
    assert 0 < said["cached_reads"] + said["io_reads"] <= 150, "likewise; what is read last is not decompressed any more"
    assert said["budget_peak_bytes"] <= 8 << 20


def test_every_path_that_is_counted_is_in_the_table() -> None:
    """metrics_set ignores a path that no row has where asserts are off."""
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.c")]
    named = {a or b for text in texts for a, b in SET.findall(text)}
    assert named - PATHS == set()
    assert len(named) > 60  # those of stages, of kinds of memory and of the loop are put together
    assert SET.findall('metrics_set(&m, "io.raeds", 1); x = bench_figure(r, "bda");') == [("io.raeds", ""), ("", "bda")]


def test_the_text_for_prometheus_has_help_type_and_value_of_each(full: fb.Loader) -> None:
    list(full)
    text = full.metrics(format="prometheus")
    kinds = {"fullbore_" + row["name"]: row["kind"] for row in TABLE}
    parts = re.findall(r"# HELP (\w+) (.+)\n# TYPE (\w+) (counter|gauge)\n(\w+) (\S+)\n", text)
    assert len(parts) == len(full.metrics()) == text.count("\n") / 3
    assert all(a == b == c and kinds[a] == kind and float(value) >= 0 for a, _, b, kind, c, value in parts)
    with pytest.raises(ValueError, match="format="):
        full.metrics(format="xml")  # type: ignore[call-overload]
