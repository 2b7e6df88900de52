"""The examples: before and after run, little changes between them, nothing is lost when a run is resumed or shared by two processes."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
from made_photos import make_photos

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
PHOTOS, BATCHES = 32, 8
NEEDS = {"faces": ["torch", "scipy"], "lightning": ["torch", "lightning"], "accelerate": ["torch", "accelerate"],
         "hf_trainer": ["torch", "accelerate", "transformers"]}


def need(name: str) -> None:
    for package in NEEDS[name]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("examples") / "photos", PHOTOS)


SETTINGS = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
IMPORTS = {"lightning": ["lightning"], "accelerate": ["accelerate"], "hf_trainer": ["transformers.trainer"]}


@functools.cache
def launcher(*packages: str) -> subprocess.Popen[str]:
    """Started once per process of tests; it ends with its standard input."""
    return subprocess.Popen([sys.executable, str(Path(__file__).parent / "launcher.py"), "torch._dynamo", *packages],
                            env={**os.environ, **SETTINGS}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_fork(tmp_path: Path, name: str, arguments: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    """(exit code, what it prints, what it complains about)"""
    process = launcher(*IMPORTS.get(name, []))
    assert process.stdin and process.stdout
    printed = [tmp_path / "printed", tmp_path / "complaints"]
    job = {"arguments": arguments, "folder": str(tmp_path), "env": env, "printed": [str(p) for p in printed]}
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    code = int(process.stdout.readline())
    return code, printed[0].read_text(), printed[1].read_text()


def run_ranks(tmp_path: Path, ranks: int, arguments: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--master-addr=127.0.0.1", f"--master-port={port}"]
    done = subprocess.run([*start, str(Path(__file__).parent / "trace.py"), *arguments], env={**os.environ, **SETTINGS, **env},
                          cwd=tmp_path, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout, done.stderr


def run(tmp_path: Path, name: str, script: str, *arguments: object, ranks: int = 1) -> tuple[str, list[list[list[Any]]]]:
    """(what it prints, the batches of each rank)"""
    trace = tmp_path / "trace"
    for old in tmp_path.glob("trace.*"):
        old.unlink()
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [str(trace), str(EXAMPLES / name / script), *map(str, arguments)]
    code, printed, complaints = run_ranks(tmp_path, ranks, command, env) if ranks > 1 else run_fork(tmp_path, name, command, env)
    assert code == 0, printed[-2000:] + complaints[-4000:]
    files = [trace.with_name(f"trace.{rank}") for rank in range(ranks)]
    return printed, [[json.loads(line) for line in f.read_text().splitlines()] if f.exists() else [] for f in files]


def consumed(batches: list[list[Any]], first: int = 0) -> list[list[str]]:
    return [keys for _, keys in batches[first:]]


@pytest.mark.parametrize("name", NEEDS)
def test_little_changes(name: str) -> None:
    before, after = ((EXAMPLES / name / f"{which}.py").read_text().splitlines() for which in ("before", "after"))
    written = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line.startswith("+") and line[1:].strip()][1:]
    assert 0 < len(written) <= 15, "\n".join(written)
    assert len(after) < len(before)


def test_faces_run_before_and_after(photos: Path, tmp_path: Path) -> None:
    need("faces")
    from scipy.io import savemat

    for i, path in enumerate(sorted(photos.rglob("*.jpg"))):
        savemat(path.with_suffix(".mat"), {"Pose_Para": np.array([[0.01 * i, 0.5 + i, 1.5 - i, 1, 2, 3, 4]])})
    text, _ = run(tmp_path, "faces", "before.py", photos, 2)
    assert text.count("2 batches") == 2
    text, (batches,) = run(tmp_path, "faces", "after.py", photos, 2)
    assert text.count("2 batches") == 2
    everything = [str(path.relative_to(photos)) for path in photos.rglob("*.jpg")]
    assert Counter(key for epoch, keys in batches if epoch == 0 for key in keys) == Counter(everything)


def test_the_faces_poses_are_those_of_the_files(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("faces")
    import fullbore as fb
    from scipy.io import savemat

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    poses = {}
    for i, path in enumerate(sorted(photos.rglob("*.jpg"))):
        poses[str(path.relative_to(photos))] = pose = np.array([0.01 * i, 0.5 + i, 1.5 - i], np.float32)
        savemat(path.with_suffix(".mat"), {"Pose_Para": np.array([[*pose, 1, 2, 3, 4]])})
    spec = importlib.util.spec_from_file_location("after", EXAMPLES / "faces" / "after.py")
    assert spec and spec.loader
    after = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(after)
    flip = fb.RandomHorizontalFlip(negate=("label[1]", "label[2]"))
    with fb.Loader(photos, labels=after.pose_of, batch_size=PHOTOS, transforms=[fb.Resize((8, 8)), flip], framework="numpy") as loader:
        batch = next(iter(loader))
        for key, pose, draw in zip(batch.sample_keys, batch[1], batch.draws, strict=True):
            sign = np.array([1, -1, -1] if draw["hflip"] else [1, 1, 1], np.float32)
            assert np.array_equal(pose, poses[key] * sign)


CASES = {
    "lightning": ([], lambda at: ["--resume", at / "step=2.ckpt"], 2),
    "accelerate": ([], lambda at: ["--resume"], 3),
    "hf_trainer": ([], lambda at: ["--resume"], 3),
}


@pytest.mark.parametrize("name", CASES)
def test_a_framework_runs_and_goes_on_in_the_middle_of_an_epoch(photos: Path, tmp_path: Path, name: str) -> None:
    need(name)
    text, _ = run(tmp_path, name, "before.py", photos, tmp_path / "old")
    assert f"{2 * BATCHES} steps" in text
    text, (whole,) = run(tmp_path, name, "after.py", photos, tmp_path / "whole")
    assert f"{2 * BATCHES} steps" in text
    for epoch in (0, 1):
        seen = Counter(key for number, keys in whole if number == epoch for key in keys)
        assert len(seen) == PHOTOS and set(seen.values()) == {1}

    more, resume, done = CASES[name]
    _, (first,) = run(tmp_path, name, "after.py", photos, tmp_path / "at", "--steps", 3, *more)
    assert consumed(first)[:3] == consumed(whole)[:3]
    _, (rest,) = run(tmp_path, name, "after.py", photos, tmp_path / "at", *resume(tmp_path / "at"))
    assert consumed(rest) == consumed(whole, done)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_share_every_epoch(photos: Path, tmp_path: Path, name: str) -> None:
    need(name)
    devices = ["--devices", 2] if name == "lightning" else []
    _, ranks = run(tmp_path, name, "after.py", photos, tmp_path / "ddp", *devices, ranks=2)
    for epoch in (0, 1):
        shares = [[key for number, keys in batches if number == epoch for key in keys] for batches in ranks]
        assert [len(share) for share in shares] == [PHOTOS // 2, PHOTOS // 2]
        assert len(set(shares[0]) | set(shares[1])) == PHOTOS
