"""fullbore.build and the command on one output: whoever comes second is told so, and the first one's file is as if nobody had come."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np
import pytest
import soundfile
from fullbore._hdf5_file import find_helper
from recordings import folder

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
CLIP = [fb.CropOrPad(1000)]


@pytest.fixture
def wavs(tmp_path: Path) -> Path:
    return folder(tmp_path / "wavs", 30)


def command(wavs: Path, output: Path, *more: str) -> list[str]:
    return [str(COMMAND), "build", str(wavs), "-o", str(output), "--raw", "--length", "1000", *more]


def check(wavs: Path, output: Path, factor: int) -> None:
    """Complete, right, and alone."""
    with h5py.File(output) as f:
        keys = f["keys"].asstr()[:].tolist()
        assert keys == sorted(path.relative_to(wavs).as_posix() for path in wavs.rglob("*.wav"))
        for row, key in zip(f["features"], keys, strict=True):
            assert np.array_equal(row, factor * soundfile.read(wavs / key, dtype="float32")[0][:1000])
    assert [name for name in os.listdir(output.parent) if "a.h5" in name] == ["a.h5"]


def test_the_command_is_refused_while_a_function_is_at_work(wavs: Path, tmp_path: Path) -> None:
    said: list[tuple[int, str]] = []

    def fn(x):
        if not said:
            for more in ((), ("--force",), ("--resume",)):
                done = subprocess.run(command(wavs, tmp_path / "a.h5", *more), capture_output=True, text=True, timeout=60)
                said.append((done.returncode, done.stderr))
        return 2 * x

    fb.build(wavs, tmp_path / "a.h5", fn=fn, batch=8, transforms=CLIP, framework="numpy")
    assert [code for code, _ in said] == [1, 1, 1]
    for _, text in said:
        assert re.search("a.h5: another build is writing this file\\s+wait for it, or choose another name", text), text
    check(wavs, tmp_path / "a.h5", 2)


def test_a_function_is_refused_while_the_command_is_at_work(wavs: Path, tmp_path: Path) -> None:
    """The command's rows are written and it waits for a program that puts the structure around them: one that waits for us."""
    helper = tmp_path / "helper"
    helper.write_text(f'#!/bin/sh\ncd "{tmp_path}" && : > waits\nwhile [ ! -e go ]; do sleep 0.01; done\nexec "{find_helper()}" "$@"\n')
    helper.chmod(0o755)
    environment = {**os.environ, "FULLBORE_HDF5_HELPER": str(helper)}
    called: list[int] = []
    child = subprocess.Popen(command(wavs, tmp_path / "a.h5"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "waits").exists() and child.poll() is None:
            time.sleep(0.01)
        for overwrite in (False, True):
            with pytest.raises(fb.Error, match="another build is writing this file; wait for it, or choose another name"):
                fb.build(wavs, tmp_path / "a.h5", fn=lambda x: called.append(len(x)) or x, transforms=CLIP, framework="numpy",
                         overwrite=overwrite)
    finally:
        (tmp_path / "go").touch()
        _, text = child.communicate(timeout=60)
    assert child.returncode == 0 and called == [], text
    check(wavs, tmp_path / "a.h5", 1)
