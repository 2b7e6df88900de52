"""One clock, one definition: what loaders, monitors, `fullbore watch` and `fullbore report` say of a loop is what a stopwatch around its
``iter()`` and ``next()`` says, within 1 %, or half a point of a ratio.

A thread may lose its core between two clocks, and then they differ by what it waited: a comparison that fails is made again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from timed_loops import KINDS, SLOW, computes, differences, measure, pictures, rows, said_by, sleeps

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("FULLBORE_COMMAND", str(ROOT / ".venv/bin/fullbore"))
ATTEMPTS = 5


def until_right(attempt: Callable[[], list[str]]) -> None:
    wrong: list[str] = []
    for _ in range(ATTEMPTS):
        wrong = attempt()
        if not wrong:
            return
    raise AssertionError(wrong)


@pytest.mark.parametrize("step", [sleeps, computes])
@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_those_of_a_stopwatch(kind: str, step: Callable[[float], None], tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    if "torch" in kind or "DataLoader" in kind:
        pytest.importorskip("torch")
    monkeypatch.setenv("FULLBORE_IO", SLOW)

    def attempt() -> list[str]:
        source = KINDS[kind](tmp_path / "data")
        clock = measure(source, step).figures()
        wrong = [line for said in said_by(source) for line in differences(said, clock)]
        source.close()
        return wrong

    until_right(attempt)


@pytest.mark.parametrize("kind", ["batch_map that sleeps", "monitor of a generator", "monitor of a loader", "rows"])
def test_a_watcher_and_its_report_say_the_same(kind: str, tmp_path: Path) -> None:
    def attempt() -> list[str]:
        result, run = tmp_path / "result.json", tmp_path / "run.fbr"
        told = subprocess.run([COMMAND, "watch", "--quiet", "--json", "-o", str(run), "--", sys.executable,
                               str(Path(__file__).with_name("timed_loops.py")), kind, str(tmp_path / "data"), str(result)],
                              capture_output=True, text=True, timeout=120)
        assert told.returncode == 0, told.stderr
        report = subprocess.run([COMMAND, "report", "--json", str(run)], capture_output=True, text=True, timeout=60)
        assert report.returncode == 0, report.stderr
        of_run = json.loads(result.read_text())
        loops = [json.loads(told.stdout)["loop"], json.loads(report.stdout)["loop"], *of_run["said"]]
        both = subprocess.run([COMMAND, "report", str(run), str(run)], capture_output=True, text=True, timeout=60).stdout.splitlines()
        mean = next(float(line.split()[3]) for line in both if line.startswith("step time, mean"))
        loops.append({"step_mean_seconds": mean / 1e3})
        return [line for said in loops for line in differences(said, of_run["clock"])]

    until_right(attempt)


def test_time_inside_batch_map_is_wait_and_shown_apart(tmp_path: Path) -> None:
    with KINDS["batch_map that sleeps"](tmp_path / "data") as loader:
        measure(loader, sleeps, epochs=8)
        stats = loader.stats()
        assert 0 < stats["batch_map_seconds"] <= stats["exposed_wait_seconds"]
        verdict = loader.verdict()
        assert verdict.starved_ratio > 0.2 and "batch_map" in repr(verdict.remedies[0])


def test_starting_an_epoch_is_waiting_for_its_first_batch(tmp_path: Path) -> None:
    class Slow:
        """A sampler that takes its time to begin."""

        def __len__(self) -> int:
            return 1024

        def __iter__(self) -> Any:
            time.sleep(0.2)
            return iter(range(1024))

    with rows(tmp_path / "data", shuffle=False, sampler=Slow()) as loader:
        for _ in loader:
            pass
        loop = loader.stats()["loop"]
        assert loop["first_wait_seconds"] >= 0.2 and loop["exposed_wait_seconds"] >= 0.2
        iterator = iter(loader)
        before = loop["wall_seconds"]
        time.sleep(1)  # the program's own: neither wait nor step
        next(iterator)
        assert loader.stats()["wall_seconds"] - before < 1


def test_freeing_batches_has_a_figure_of_its_own(tmp_path: Path) -> None:
    with pictures(tmp_path / "data") as loader:
        freeing = 0.0
        for batch in loader:
            since = time.perf_counter()
            del batch
            freeing += time.perf_counter() - since
        stats = loader.stats()
        assert 0 < stats["release_seconds"] <= freeing
        assert loader.metrics()["fullbore_release_seconds_total"] == stats["release_seconds"]


def test_a_batch_that_failed_on_its_way_is_counted_with_its_time(tmp_path: Path) -> None:
    def fails(batch: Any) -> Any:
        time.sleep(0.01)
        raise ValueError("not this one")

    with rows(tmp_path / "data", batch_map=fails) as loader:
        iterator = iter(loader)
        for _ in range(3):
            with pytest.raises(ValueError, match="not this one"):
                next(iterator)
        loop = loader.stats()["loop"]
        assert loop["batches"] == 3 and loop["exposed_wait_seconds"] >= 0.03


def test_the_state_of_a_batch_is_that_of_its_loader(tmp_path: Path) -> None:
    with rows(tmp_path / "data") as loader:
        iterator = iter(loader)
        for i, batch in enumerate(iterator):
            assert batch.state == loader.state_dict()
            if i == 3:
                assert loader.skip(2) == 2
            if i == 5:
                loader.skip_range(12, 14)
        assert i == 40 - 5
        assert np.array_equal(loader.state_dict()["position"], 40 * 256)


def test_an_epoch_of_one_batch_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in fb.monitor([[1, 2]]):
        pass
    assert "n/a it/s" in capsys.readouterr().err
