"""What `fullbore build` and `fullbore.build` say of their time agrees with a stopwatch around them, and their figures with each other."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import fullbore as fb
import numpy as np
import pytest
from recordings import folder
from test_build import COMMAND

RECORDINGS = 1200


@dataclass
class Clocked:
    said: dict
    seconds: float
    cpu_seconds: float


@pytest.fixture(scope="module")
def wavs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder(tmp_path_factory.mktemp("stopwatch") / "wavs", RECORDINGS)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def clocked(wavs: Path, output: Path, *how: str) -> Clocked:
    command = [COMMAND, "build", str(wavs), "-o", str(output), "--length", "8000", "--split", "60/20/20", "--json", "--force", *how]
    since, cpu = time.perf_counter(), cpu_of_children()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Clocked(json.loads(done.stdout), time.perf_counter() - since, cpu_of_children() - cpu)


def of_nothing() -> float:
    """What starting and ending the command costs, which no report of its own can know."""
    since = time.perf_counter()
    subprocess.run([COMMAND, "--version"], capture_output=True, check=True)
    return time.perf_counter() - since


def test_the_reports_rates_times_and_counts_agree_with_each_other_and_with_a_stopwatch(wavs: Path, tmp_path: Path) -> None:
    clocked(wavs, tmp_path / "a.h5")  # the catalog and the page cache
    for how in ((), ("--compress", "gzip-6"), ("--threads", "1")):
        run = clocked(wavs, tmp_path / "a.h5", *how)
        said = run.said
        assert said["files_per_s"] * said["seconds"] == pytest.approx(RECORDINGS, rel=0.01)
        assert said["rows_per_s"] * said["seconds"] == pytest.approx(said["all"]["rows"], rel=0.01)
        assert said["all"]["files"] == sum(split["files"] for split in said["splits"].values()) == RECORDINGS
        assert said["opening_seconds"] + said["wall_seconds"] + said["finish_seconds"] == pytest.approx(said["seconds"], rel=0.01)
        assert said["queue_depth_mean"] <= said["queue_depth_max"]
        for split in (said["all"], *said["splits"].values()):
            assert split["task_seconds_mean"] <= split["task_seconds_max"]
        assert said["seconds"] <= run.seconds < said["seconds"] * 1.05 + 10 * of_nothing()
        assert run.cpu_seconds * 0.9 - 10 * of_nothing() < said["cpu_seconds"] <= run.cpu_seconds * 1.01 + 0.004  # two ticks
        of_files = said["all"]["file_cpu_seconds_mean"] * RECORDINGS
        assert 0.5 * said["cpu_seconds"] < of_files <= said["cpu_seconds"] * 1.01
        parts = sum(split["file_cpu_seconds_mean"] * split["files"] for split in said["splits"].values())
        assert parts == pytest.approx(of_files, rel=0.01)


def test_compressing_is_part_of_what_a_file_costs(wavs: Path, tmp_path: Path) -> None:
    plain, packed = (min((clocked(wavs, tmp_path / "a.h5", *how) for _ in range(3)), key=lambda run: run.cpu_seconds)
                     for how in ((), ("--compress", "gzip-9")))
    told = [run.said["all"]["file_cpu_seconds_mean"] * RECORDINGS for run in (plain, packed)]
    assert told[1] > 1.5 * told[0]
    assert told[1] - told[0] == pytest.approx(packed.cpu_seconds - plain.cpu_seconds, rel=0.1)


def test_in_words_the_rate_is_that_of_the_seconds_beside_it(wavs: Path, tmp_path: Path) -> None:
    command = [COMMAND, "build", str(wavs), "-o", str(tmp_path / "a.h5"), "--length", "8000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, files = map(float, re.search(r"built in +([\d.]+) s .*, ([\d.]+) files/s", done.stdout + done.stderr).groups())
    assert seconds * files == pytest.approx(RECORDINGS, rel=0.01 + 0.005 / seconds)  # two digits


@pytest.mark.parametrize("is_cold", [False, True])
def test_python_says_the_same_as_a_stopwatch(wavs: Path, tmp_path: Path, is_cold: bool) -> None:
    if is_cold:
        os.sync()
        for path in wavs.rglob("*.wav"):
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    since, cpu = time.perf_counter(), time.process_time() + cpu_of_children()
    report = fb.build(wavs, tmp_path / "a.h5", fn=lambda x: np.abs(np.fft.rfft(x)).astype(np.float32), batch=64, progress=False,
                      transforms=[fb.CropOrPad(4000)], framework="numpy", splits=(80, 20))
    seconds, cpu = time.perf_counter() - since, time.process_time() + cpu_of_children() - cpu
    said = report.as_dict()
    assert said["samples_per_s"] * said["seconds"] == pytest.approx(RECORDINGS, rel=0.01)
    assert said["rows_per_s"] * said["seconds"] == pytest.approx(RECORDINGS, rel=0.01)
    assert said["seconds"] == pytest.approx(seconds, rel=0.01)
    assert said["cpu_seconds"] == pytest.approx(cpu, rel=0.02, abs=0.01)
    assert said["opening_seconds"] + said["wall_seconds"] + said["finish_seconds"] == pytest.approx(said["seconds"], rel=0.01)
    assert said["all"]["cpu_s"] <= 1.01 * said["cpu_seconds"]
    assert said["queue_depth_mean"] <= said["queue_depth_max"]
    assert said["batches_before_writer_mean"] <= said["batches_before_writer_max"]
    for name, stage in said["stages"].items():
        assert (stage["batch_seconds_mean"] or 0) <= (stage["batch_seconds_max"] or 0), name
    mean, most = map(float, re.search(r"queue +avg ([\d.]+), max (\d+) reads", str(report)).groups())
    assert mean <= most + 0.05
    told, rate = map(float, re.search(r"built in +([\d.]+) s .*?, ([\d.]+) samples/s", str(report)).groups())
    assert told * rate == pytest.approx(RECORDINGS, rel=0.01 + 0.005 / told)
