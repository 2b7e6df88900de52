"""Damaged files: named when they stop the run, named when they do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fullbore as fb
import pytest
from made_photos import make_photos, photo


def open_loader(source: Path, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 6, "transforms": [fb.RandomResizedCrop(16)], "framework": "numpy", **arguments})


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """30 photographs, three of them no longer."""
    make_photos(tmp_path, 30)
    (tmp_path / "cat" / "004.jpg").write_bytes(b"")
    (tmp_path / "cat" / "010.jpg").write_bytes(b"<html>not found</html>")
    whole = (tmp_path / "dog" / "013.jpg").read_bytes()
    (tmp_path / "dog" / "013.jpg").write_bytes(whole[:len(whole) // 2])
    return tmp_path


BAD = {"cat/004.jpg", "cat/010.jpg", "dog/013.jpg"}


def test_a_damaged_file_stops_the_epoch_with_its_name(damaged: Path) -> None:
    with open_loader(damaged) as loader, pytest.raises(fb.SampleError) as caught:
        list(loader)
    error = caught.value
    assert error.path.endswith("cat/004.jpg") and error.stage == "decode" and error.cause and "004.jpg" in str(error)


def test_the_remedy_names_the_argument_that_helps(damaged: Path) -> None:
    with open_loader(damaged) as loader, pytest.raises(fb.SampleError) as caught:
        list(loader)
    assert 'on_error="skip"' in caught.value.remedy and "bad_samples" not in str(caught.value)


def test_skip_says_when_nothing_good_is_found(tmp_path: Path) -> None:
    make_photos(tmp_path, 30)
    for path in tmp_path.rglob("*.jpg"):
        path.write_bytes(b"nothing")
    with (open_loader(tmp_path, on_error="skip") as loader,
          pytest.raises(fb.SampleError, match="257 of 257 samples tried for one place") as caught):
        list(loader)
    assert "bad_samples" in caught.value.remedy


def test_skip_finds_the_size_of_the_images_behind_bad_ones(tmp_path: Path) -> None:
    for i in range(300):
        photo(i, 20, 30).save(tmp_path / f"{i:03}.jpg")
    for i in range(200):
        (tmp_path / f"{i:03}.jpg").write_bytes(b"nothing")
    with open_loader(tmp_path, transforms=[], on_error="skip") as loader:
        assert {batch[0].shape[2:] for batch in loader} == {(20, 30)}
    with pytest.raises(fb.SampleError, match="16 of 16 samples tried to find it were bad") as caught:
        open_loader(tmp_path, transforms=[])
    assert "CenterCrop" in caught.value.remedy and 'on_error="skip"' in caught.value.remedy


def test_after_a_failure_a_new_epoch_may_be_started(damaged: Path) -> None:
    with open_loader(damaged, shuffle=True) as loader:
        for _ in range(3):
            with pytest.raises(fb.SampleError):
                list(loader)
        (damaged / "x").mkdir()
        running = iter(loader)
        with pytest.raises(fb.SampleError):
            list(running)
        with pytest.raises(StopIteration):
            next(running)


def test_a_cut_off_file_says_where(damaged: Path) -> None:
    with open_loader(damaged, classes=["dog"]) as loader, pytest.raises(fb.SampleError) as caught:
        list(loader)
    assert caught.value.path.endswith("dog/013.jpg")


def test_skip_fills_the_places_and_names_the_files(damaged: Path) -> None:
    with open_loader(damaged, on_error="skip", shuffle=True) as loader:
        batches = list(loader)
        assert [len(batch[1]) for batch in batches] == [6] * 5
        seen = [key for batch in batches for key in batch.sample_keys]
        assert len(seen) == 30 and not BAD & set(seen)
        stats = loader.stats()
        assert {entry["path"].split("/", entry["path"].count("/") - 1)[-1] for entry in stats["bad_samples"]} == BAD
        assert stats["bad"] >= 3 and all(entry["cause"] for entry in stats["bad_samples"])


def test_skip_moves_no_other_sample(damaged: Path) -> None:
    with open_loader(damaged, on_error="skip", shuffle=True) as loader:
        with_bad = [key for batch in loader for key in batch.sample_keys]
    good = make_photos(damaged / ".." / (damaged.name + "_whole"), 30)
    with open_loader(good, shuffle=True) as loader:
        without = [key for batch in loader for key in batch.sample_keys]
    assert all(a == b for a, b in zip(with_bad, without, strict=True) if b not in BAD)


def test_skip_is_the_same_on_any_number_of_threads(damaged: Path) -> None:
    seen = []
    for threads in (1, 3):
        with open_loader(damaged, on_error="skip", shuffle=True, threads=threads) as loader:
            seen.append([batch.sample_keys for _ in range(2) for batch in loader])
    assert seen[0] == seen[1]


def test_max_errors_is_the_limit_of_an_epoch(damaged: Path) -> None:
    with open_loader(damaged, on_error="skip", max_errors=3) as loader:
        for _ in range(2):
            assert len(list(loader)) == 5
    with open_loader(damaged, on_error="skip", max_errors=2) as loader, pytest.raises(fb.Error, match="max_errors=2"):
        list(loader)
    with open_loader(damaged, on_error="skip", max_errors=0) as loader, pytest.raises(fb.Error, match="max_errors=0"):
        list(loader)


def test_ranks_stay_in_step_when_only_one_meets_bad_files(damaged: Path) -> None:
    loaders = [open_loader(damaged, on_error="skip", batch_size=4, rank=rank, world_size=2) for rank in range(2)]
    counts = [len(list(loader)) for loader in loaders]
    assert counts == [4, 4]


def test_a_vanished_file_is_a_sample_error(damaged: Path) -> None:
    with open_loader(damaged, classes=["dog"], batch_size=1) as loader:
        os.unlink(damaged / "dog" / "029.jpg")
        os.unlink(damaged / "dog" / "013.jpg")
        with pytest.raises(fb.SampleError) as caught:
            list(loader)
    assert caught.value.path.endswith("dog/013.jpg") and caught.value.stage == "read"


def test_all_bad_ends_and_does_not_loop(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for i in range(5):
        (tmp_path / "a" / f"{i}.jpg").write_bytes(b"nothing")
    with pytest.raises(fb.Error), open_loader(tmp_path, on_error="skip", batch_size=2) as loader:
        list(loader)


def test_a_file_that_shrinks_after_the_scan_is_read_as_it_is_now(tmp_path: Path) -> None:
    make_photos(tmp_path, 4)
    with open_loader(tmp_path, batch_size=1) as loader:
        small = (tmp_path / "cat" / "000.jpg").read_bytes()
        (tmp_path / "dog" / "003.jpg").write_bytes(small)
        assert len(list(loader)) == 4
        assert loader.stats()["changed_files"] >= 1
