"""No room for what a run would like to keep: it goes on, says so once, and leaves nothing half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from made_photos import make_photos

SCRIPT = """
import os, resource, sys
import fullbore as fb
if sys.argv[2] != "0":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
options = {"batch_size": 5, "transforms": [fb.RandomResizedCrop(32)], "framework": "numpy", "shuffle": True}
seen = set()
for _ in range(2):  # two loaders: the second one finds what the first one left
    with fb.Loader(sys.argv[1], **options) as loader:
        for epoch in range(3):
            seen |= {key for batch in loader for key in batch.sample_keys}
files = [os.path.join(d, f) for d, _, names in os.walk(os.environ["XDG_CACHE_HOME"]) for f in names]
print(len(seen))
for file in files:
    print(os.path.basename(file), os.path.getsize(file))
"""
CATALOG, RECORDS = "the catalog could not be saved", "nothing more is learnt in this run"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 JPEGs that leave records of some size."""
    return make_photos(tmp_path_factory.mktemp("large"), 40, ("a", "b"), side=500)


def run(photos: Path, cache: Path, limit: int = 0, tmpfs: str = "") -> tuple[list[str], str]:
    cache.mkdir()
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", SCRIPT, str(photos), str(limit)]
    if tmpfs:
        command = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={tmpfs} none "$0" && exec "$@"', str(cache), *command]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def can_mount(tmp_path: Path) -> bool:
    if not shutil.which("unshare"):
        return False
    (tmp_path / "try").mkdir()
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path / "try")], capture_output=True).returncode == 0


def whole_files(lines: list[str]) -> dict[str, int]:
    files = {name: int(size) for name, size in (line.split() for line in lines)}
    assert not [name for name in files if "tmp" in name or "part" in name], files
    return files


@pytest.mark.parametrize("tmpfs", ["4k", "12k", "20k"])
def test_a_full_disk_stops_no_run(large: Path, tmp_path: Path, tmpfs: str) -> None:
    if not can_mount(tmp_path):
        pytest.skip("this process may not mount a small disk")
    (samples, *lines), talk = run(large, tmp_path / "cache", tmpfs=tmpfs)
    assert samples == "40"
    files = whole_files(lines)
    assert talk.count(RECORDS) + talk.count(CATALOG) >= 1, talk
    assert talk.count(RECORDS) <= 2 and talk.count(CATALOG) <= 2, talk  # once for each of the two loaders
    assert "No space left on device" in talk
    for name, size in files.items():
        assert size > 0, name


def test_a_limit_on_the_size_of_files_stops_no_run(large: Path, tmp_path: Path) -> None:
    (samples, *lines), talk = run(large, tmp_path / "cache", limit=200)
    assert samples == "40" and talk.count(CATALOG) == 2 and "File too large" in talk, talk
    assert not [name for name in whole_files(lines) if not name.startswith("seg-")]


def test_with_room_again_everything_is_kept(large: Path, tmp_path: Path) -> None:
    run(large, tmp_path / "cache", limit=200)
    shutil.move(tmp_path / "cache", tmp_path / "kept")
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "kept")}
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(large), "0"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and CATALOG not in done.stderr and RECORDS not in done.stderr, done.stderr
    assert sum(size for name, size in whole_files(done.stdout.splitlines()[1:]).items() if name.endswith(".rec")) > 10000
