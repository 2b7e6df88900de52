"""cache_dir=, cache_limit=, cache_ram=: the same batches, fewer reads, and nothing old."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from made_photos import make_photos, photo

SIZE = [fb.Resize((16, 16))]


@pytest.fixture
def old_photos(tmp_path: Path) -> Path:
    """60 photographs that nobody has changed lately."""
    folder = make_photos(tmp_path / "photos", 60)
    for path in folder.rglob("*.jpg"):
        os.utime(path, (1e9, 1e9))
    return folder


def contents(loader: fb.Loader) -> list[tuple[tuple[str, ...], bytes]]:
    return [(tuple(batch.sample_keys), batch[0].tobytes()) for batch in loader]


def cache_of(loader: fb.Loader) -> dict[str, Any]:
    found = loader.stats()["cache"]
    assert isinstance(found, dict)
    return found


def settle(loader: fb.Loader, name: str, value: int) -> None:
    """What is kept is written after its batch was delivered."""
    for _ in range(1000):
        if cache_of(loader)[name] >= value:
            return
        time.sleep(0.005)
    pytest.fail(f"{name} is {cache_of(loader)}, not {value}")


@pytest.mark.parametrize("how", [{"shuffle": True, "seed": 5}, {}, {"shuffle": True, "weights": np.arange(60) % 5 + 1.0},
                                 {"fraction": 0.5, "shuffle": True}, {"sampler": list(range(59, -1, -2))}])
@pytest.mark.parametrize("where", ["disk", "ram", "both", "small"])
def test_batches_are_the_same_with_any_cache(old_photos: Path, tmp_path: Path, how: dict[str, Any], where: str) -> None:
    caches: dict[str, Any] = {"disk": {"cache_dir": tmp_path / "c"}, "ram": {"cache_ram": "16MiB"},
                              "both": {"cache_dir": tmp_path / "c", "cache_ram": "100KiB"},
                              "small": {"cache_dir": tmp_path / "c", "cache_limit": "64KiB"}}[where]
    options = {"batch_size": 7, "transforms": SIZE, "framework": "numpy", **how}
    with fb.Loader(old_photos, **options) as plain, fb.Loader(old_photos, **options, **caches) as cached:
        for _ in range(3):
            assert contents(plain) == contents(cached)
        assert plain.stats()["cache"] is None
        found = cache_of(cached)
        assert found["damaged"] == 0 and found["off"] is None
        assert found["ram_hits"] + found["disk_hits"] + found["misses"] + found["joined"] >= 60 if not how else True


def test_a_second_run_reads_nothing_from_the_source(old_photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 7, "transforms": SIZE, "framework": "numpy", "shuffle": True, "cache_dir": tmp_path / "c"}
    with fb.Loader(old_photos, **options) as loader:
        contents(loader)
        settle(loader, "stored", 60)
    with fb.Loader(old_photos, **options, seed=9) as loader:
        contents(loader)
        found = cache_of(loader)
        assert found["misses"] == 0 and found["disk_hits"] >= 60 and found["over"] in ("uring", "pread")


def test_a_full_memory_cache_has_a_hit_rate_of_its_share(old_photos: Path) -> None:
    total = sum(p.stat().st_size for p in old_photos.rglob("*.jpg"))
    options: dict[str, Any] = {"batch_size": 5, "transforms": SIZE, "framework": "numpy", "shuffle": True}
    with fb.Loader(old_photos, **options, cache_ram=total // 2) as loader:
        for _ in range(2):
            contents(loader)
        before = cache_of(loader)
        for _ in range(10):
            contents(loader)
        after = cache_of(loader)
        hits, misses = after["ram_hits"] - before["ram_hits"], after["misses"] - before["misses"]
        assert after["evicted"] == 0 and after["ram_bytes"] <= total // 2
        assert 0.3 < hits / (hits + misses) < 0.55, (hits, misses)  # a blob has a little more than its bytes


def test_a_file_that_changes_is_read_anew(old_photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 60, "transforms": SIZE, "framework": "numpy"}
    tried: tuple[dict[str, Any], ...] = ({"cache_dir": tmp_path / "c"}, {"cache_ram": "16MiB"})
    for i, caches in enumerate(tried):
        with fb.Loader(old_photos, **options, **caches) as loader:
            first = contents(loader)
            settle(loader, "stored" if "cache_dir" in caches else "ram_bytes", 60)
            victim = old_photos / first[0][0][3]
            photo(1000 + i, 64, 80).save(tmp_path / "new.jpg")
            os.utime(tmp_path / "new.jpg", (1e9 + 7 + i, 1e9 + 7 + i))
            os.replace(tmp_path / "new.jpg", victim)  # the loader reads ahead: it must not see half a file
            with fb.Loader(old_photos, **options) as plain:
                new = contents(plain)
            assert new != first
            assert any(contents(loader) == new for _ in range(100))  # what was read ahead may still be the old one, at most 64 batches
            assert [contents(loader) for _ in range(4)][-1] == new  # a worker that was held up may have read the one before it later


def test_a_pack_is_cached_by_sample(old_photos: Path, tmp_path: Path) -> None:
    command = os.environ.get("FULLBORE_COMMAND") or Path(sys.executable).with_name("fullbore")
    subprocess.run([str(command), "pack", str(old_photos), "-o", str(tmp_path / "p.tar")], check=True, capture_output=True)
    os.utime(tmp_path / "p.tar", (1e9, 1e9))
    options: dict[str, Any] = {"batch_size": 7, "transforms": SIZE, "framework": "numpy", "shuffle": True}
    with fb.Loader(old_photos, **options) as plain, fb.Loader(tmp_path / "p.tar", **options, cache_dir=tmp_path / "c") as cached:
        assert contents(plain) == contents(cached)
        settle(cached, "stored", 60)
        assert contents(plain) == contents(cached)
        assert cache_of(cached)["stored"] == 60


def test_ranks_share_a_cache(old_photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 3, "transforms": SIZE, "framework": "numpy", "shuffle": True, "cache_dir": tmp_path / "c"}
    seen: list[str] = []
    for epoch in range(2):
        for rank in range(2):
            with fb.Loader(old_photos, **options, rank=rank, world_size=2) as loader:
                loader.set_epoch(epoch)
                seen += [key for keys, _ in contents(loader) for key in keys]
    assert sorted(set(seen)) == sorted(str(p.relative_to(old_photos)) for p in old_photos.rglob("*.jpg"))
    assert len(seen) == 120


def test_memory_beyond_the_budget_is_refused_with_a_number(old_photos: Path) -> None:
    with pytest.raises(fb.BudgetError, match="budget") as caught:
        fb.Loader(old_photos, transforms=SIZE, memory="64MiB", cache_ram="1GiB")
    assert "cache_ram=" in str(caught.value)


def test_a_cache_inside_the_data_set_is_refused(old_photos: Path) -> None:
    for inside in (old_photos / "cache", old_photos, old_photos / "a/b/c"):
        with pytest.raises(ValueError, match="cache_dir= lies inside"):
            fb.Loader(old_photos, transforms=SIZE, cache_dir=inside)
    assert sorted(p.name for p in old_photos.iterdir()) == ["cat", "dog"]


def test_a_folder_of_other_things_is_refused(old_photos: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="other files"):
        fb.Loader(old_photos, transforms=SIZE, cache_dir=tmp_path / "home")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k,nr_inodes=30,mode=0700", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_one_warning_and_the_run_goes_on(old_photos: Path, small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"batch_size": 7, "transforms": SIZE, "framework": "numpy", "shuffle": True}
    with fb.Loader(old_photos, **options) as plain, fb.Loader(old_photos, **options, cache_dir=small_disk / "c") as cached:
        for _ in range(3):
            assert contents(plain) == contents(cached)
        assert len(list(small_disk.rglob("*"))) > 3


def test_a_resumed_run_with_a_cache_is_the_same_run(old_photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 7, "transforms": [fb.RandomResizedCrop(16)], "framework": "numpy", "shuffle": True}
    with fb.Loader(old_photos, **options) as plain, fb.Loader(old_photos, **options, cache_dir=tmp_path / "c") as cached:
        for batch in plain:
            state = batch.state
            break
        plain.load_state_dict(state)
        cached.load_state_dict(state)
        assert contents(plain) == contents(cached)
