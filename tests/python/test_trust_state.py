"""States that do not fit, states forced, batches skipped, ranks from Ray."""

from __future__ import annotations

import itertools
import json
import logging
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest

FIELDS = ("seed", "epoch", "position", "fingerprint", "samples", "data", "data_samples", "keys", "labels", "order", "check")


def open_loader(source: Path, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"transforms": [fb.RandomResizedCrop(4)], "framework": "numpy", "shuffle": True, "threads": 2,
                                "batch_size": 10, **arguments})


def keys_of(loader: fb.Loader) -> list[list[str]]:
    return [batch.sample_keys for batch in loader]


def whole_epoch(source: Path, **arguments: Any) -> list[list[str]]:
    with open_loader(source, **arguments) as loader:
        return keys_of(loader)


def state_after(source: Path, batches: int, **arguments: Any) -> dict[str, Any]:
    with open_loader(source, **arguments) as loader:
        return list(itertools.islice(loader, batches))[-1].state


# ---- what differs is named


@pytest.mark.parametrize(("change", "words"), [
    ({"seed": 1}, "seed 0, this loader has seed 1"),
    ({"per_class": 3}, "another selection of it (103 of its 103 samples there, 6 here)"),
    ({"indices": range(102, -1, -1)}, "another selection"),
    ({"shuffle": False}, "order is shuffled, this loader's is plain"),
    ({"weights": np.ones(103)}, "order is shuffled, this loader's is weighted"),
])
def test_a_state_that_does_not_fit_says_what_differs(tiny: Path, change: dict[str, Any], words: str) -> None:
    state = state_after(tiny, 3)
    with open_loader(tiny, **change) as loader, pytest.raises(fb.Error) as refused:
        loader.load_state_dict(state)
    assert words in str(refused.value) and refused.value.remedy


def test_changed_files_are_told_apart(tiny: Path, tmp_path: Path) -> None:
    state = state_after(tiny, 3)

    def refusal(change: Any) -> str:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        shutil.copytree(tiny, folder)
        change(folder)
        with open_loader(folder) as loader, pytest.raises(fb.Error) as refused:
            loader.load_state_dict(state)
        return str(refused.value)

    assert "103 samples there, 104 here" in refusal(lambda f: shutil.copy(f / "cat/000.png", f / "cat/more.png"))
    assert "other names" in refusal(lambda f: (f / "cat/000.png").rename(f / "cat/renamed.png"))
    assert "other names" in refusal(lambda f: (f / "dog").rename(f / "wolf"))


def test_other_labels_are_told_apart(tiny: Path, tmp_path: Path) -> None:
    paths = sorted(str(p) for p in tiny.rglob("*.png"))
    for name, labels in (("a", range(103)), ("b", reversed(range(103)))):
        rows = "\n".join(f"{path},{label}" for path, label in zip(paths, labels, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"path,label\n{rows}\n")
    state = state_after(tmp_path / "a.csv", 2)
    with open_loader(tmp_path / "b.csv") as loader, pytest.raises(fb.Error, match="the same names, but other labels"):
        loader.load_state_dict(state)


def test_the_same_data_elsewhere_is_accepted(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "moved")
    with open_loader(tmp_path / "moved") as loader:
        loader.load_state_dict(state_after(tiny, 3))
        assert keys_of(loader) == whole_epoch(tiny)[3:]


@pytest.mark.parametrize("field", FIELDS)
def test_a_state_that_was_changed_is_refused(tiny: Path, field: str) -> None:
    state = state_after(tiny, 3)
    value = state[field]
    state[field] = value + 1 if isinstance(value, int) else "plain" if field == "order" else "0123456789abcdef"
    with open_loader(tiny) as loader, pytest.raises(fb.Error, match="was changed after it was saved"):
        loader.load_state_dict(state)


def test_a_state_without_its_check_is_refused(tiny: Path) -> None:
    state = state_after(tiny, 3)
    del state["check"]
    with open_loader(tiny) as loader, pytest.raises(fb.Error, match="check is missing"):
        loader.load_state_dict(state)


def test_a_state_of_the_first_version_goes_on(tiny: Path) -> None:
    state = state_after(tiny, 3)
    old = {"version": 1, **{name: state[name] for name in ("seed", "epoch", "position", "fingerprint")}}
    with open_loader(tiny) as loader:
        loader.load_state_dict(old)
        assert keys_of(loader) == whole_epoch(tiny)[3:]


def test_a_state_stays_below_a_kilobyte_with_everything_in_it(tiny: Path) -> None:
    with open_loader(tiny, batch_size=1, seed=2**64 - 1) as loader:
        running = iter(loader)
        for i in range(8):
            loader.skip_range(10 * i + 5, 10 * i + 7)
        assert len(json.dumps(next(running).state)) < 1024


# ---- force


def test_force_goes_on_and_says_what_that_means(tiny: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = state_after(tiny, 3)
    other = whole_epoch(tiny, seed=5)
    with caplog.at_level(logging.WARNING, "fullbore"), open_loader(tiny, seed=5) as loader:
        loader.load_state_dict(state, force=True)
        assert keys_of(loader) == other[3:]
        assert sum(map(len, keys_of(loader))) == 103  # the epoch after it is a whole one
    assert "seed 0, this loader has seed 5" in caplog.text and "shows some samples again and leaves others out" in caplog.text


def test_force_takes_a_changed_position(tiny: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = state_after(tiny, 3) | {"position": 50}
    with caplog.at_level(logging.WARNING, "fullbore"), open_loader(tiny) as loader:
        loader.load_state_dict(state, force=True)
        assert keys_of(loader) == whole_epoch(tiny)[5:]
    assert "was changed after it was saved" in caplog.text


def test_force_with_fewer_samples_than_the_position_starts_the_next_epoch(tiny: Path) -> None:
    state = state_after(tiny, 9)
    with open_loader(tiny, per_class=4) as loader:
        loader.load_state_dict(state, force=True)
        assert sum(map(len, keys_of(loader))) == 8 and loader.state_dict()["epoch"] == 1


def test_force_says_nothing_when_the_state_fits(tiny: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = state_after(tiny, 3)
    with caplog.at_level(logging.WARNING, "fullbore"), open_loader(tiny) as loader:
        loader.load_state_dict(state, force=True)
    assert caplog.text == ""


@pytest.mark.parametrize("nonsense", ["", "{}", "[1]", '{"version": 3}', {"version": 2, "seed": 1}])
def test_force_does_not_make_a_state_of_nonsense(tiny: Path, nonsense: Any) -> None:
    with open_loader(tiny) as loader, pytest.raises(fb.Error):
        loader.load_state_dict(nonsense, force=True)


# ---- skip


def test_skip_leaves_out_exactly_the_next_batches(tiny: Path) -> None:
    expected = whole_epoch(tiny)
    with open_loader(tiny) as loader:
        running = iter(loader)
        got = [next(running).sample_keys for _ in range(2)]
        assert loader.skip(3) == 3
        assert loader.state_dict()["position"] == 50
        got += [batch.sample_keys for batch in running]
        assert got == expected[:2] + expected[5:]
        assert sum(map(len, keys_of(loader))) == 103  # the next epoch is a whole one


def test_skip_keeps_pixels_and_draws(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        whole = [(batch[0].copy(), list(batch.draws)) for batch in loader]
    with open_loader(tiny) as loader:
        loader.skip(4)
        for (image, draws), batch in zip(whole[4:], loader, strict=True):
            assert np.array_equal(image, batch[0]) and draws == list(batch.draws)


def test_skip_before_the_first_batch_and_after_a_state(tiny: Path) -> None:
    expected = whole_epoch(tiny)
    with open_loader(tiny) as loader:
        assert loader.skip(1) == 1
        assert len(loader) == 10 and keys_of(loader) == expected[1:]
    with open_loader(tiny) as loader:
        loader.load_state_dict(state_after(tiny, 3))
        assert loader.skip(2) == 2
        assert keys_of(loader) == expected[5:]


def test_skip_stops_at_the_end_of_the_epoch(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        running = iter(loader)
        next(running)
        assert loader.skip(1000) == 10 and loader.skip(1) == 0
        assert list(running) == [] and loader.state_dict()["position"] == 103
        assert len(keys_of(loader)) == 11 and loader.state_dict()["epoch"] == 1


def test_a_state_saved_after_a_skip_goes_on_after_it(tiny: Path) -> None:
    expected = whole_epoch(tiny)
    with open_loader(tiny) as loader:
        running = iter(loader)
        next(running)
        loader.skip(4)
        state = loader.state_dict()
    with open_loader(tiny) as loader:
        loader.load_state_dict(state)
        assert keys_of(loader) == expected[5:]


def test_a_range_is_left_out_when_its_time_comes(tiny: Path) -> None:
    expected = whole_epoch(tiny)
    with open_loader(tiny) as loader:
        loader.load_state_dict(state_after(tiny, 2))
        loader.skip_range(4, 7)
        got, states = [], []
        for batch in loader:
            got.append(batch.sample_keys)
            states.append(batch.state)
        assert got == expected[2:4] + expected[7:]
    for done, state in enumerate(states, 1):  # the state remembers, before and after
        with open_loader(tiny) as loader:
            loader.load_state_dict(state)
            assert (keys_of(loader) if done < len(got) else []) == got[done:]


def test_ranges_join_and_what_was_returned_is_not_affected(tiny: Path) -> None:
    expected = whole_epoch(tiny)
    with open_loader(tiny) as loader:
        running = iter(loader)
        got = [next(running).sample_keys for _ in range(3)]
        for first, last in ((0, 4), (5, 6), (6, 7), (2, 4), (9, 9), (100, 200)):
            loader.skip_range(first, last)
        assert got + [batch.sample_keys for batch in running] == expected[:3] + expected[4:5] + expected[7:]


def test_a_range_is_samples_when_the_batch_size_changes(tiny: Path) -> None:
    everything = [key for batch in whole_epoch(tiny) for key in batch]
    with open_loader(tiny) as loader:
        loader.skip_range(3, 5)
        state = next(iter(loader)).state
    with open_loader(tiny, batch_size=7) as loader:
        loader.load_state_dict(state)
        batches = keys_of(loader)
    assert [key for batch in batches for key in batch] == everything[10:30] + everything[50:]
    assert {len(batch) for batch in batches[:-1]} == {7}  # one of them reaches over the hole


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_skip_alike(tiny: Path, world: int) -> None:
    everything = [key for batch in whole_epoch(tiny, global_batch_size=12) for key in batch]
    parts = []
    for rank in range(world):
        with open_loader(tiny, global_batch_size=12, rank=rank, world_size=world) as loader:
            running = iter(loader)
            part = [next(running).sample_keys]
            loader.skip(2)
            parts.append(part + [batch.sample_keys for batch in running])
    stream = [key for batches in zip(*parts, strict=True) for batch in batches for key in batch]
    assert stream == everything[:12] + everything[36:]


def test_skip_says_what_it_cannot_do(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        for nonsense in (-1, 1.5, True, "3", None):
            with pytest.raises(fb.Error, match="whole number"):
                loader.skip(nonsense)  # type: ignore[arg-type]
        with pytest.raises(fb.Error, match="the end comes before the beginning"):
            loader.skip_range(4, 3)
        for i in range(8):
            loader.skip_range(1 + 2 * i % 11, 2 + 2 * i % 11)
        loader.set_epoch(4)
        with pytest.raises(fb.Error, match="has not begun"):
            loader.skip(1)
    with open_loader(tiny, batch_size=1) as loader:
        for i in range(8):
            loader.skip_range(3 * i + 3, 3 * i + 4)
        with pytest.raises(fb.Error, match="more than 8 separate ranges"):
            loader.skip_range(50, 51)
    with open_loader(tiny, sampler=range(103), shuffle=False) as loader, pytest.raises(fb.Error, match="sampler"):
        loader.skip(1)


# ---- Ray


def fake_ray(rank: Any, world_size: Any) -> types.ModuleType:
    module = types.ModuleType("ray.train")
    context = types.SimpleNamespace(get_world_rank=lambda: rank, get_world_size=lambda: world_size)
    module.get_context = lambda: context  # type: ignore[attr-defined]
    return module


def test_a_worker_of_ray_train_knows_its_rank(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.train", fake_ray(2, 4))
    monkeypatch.setenv("SLURM_PROCID", "1")  # of the raylet's launcher
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("RAY_RAYLET_PID", "77")
    with open_loader(tiny) as loader:
        assert (loader.rank, loader.world_size) == (2, 4)


def test_ray_outside_a_worker_says_nothing(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.train", fake_ray(None, None))
    with open_loader(tiny) as loader:
        assert (loader.rank, loader.world_size) == (0, 1)


def test_ray_and_torch_must_agree(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = types.ModuleType("torch.distributed")
    for name, value in (("is_available", True), ("is_initialized", True), ("get_rank", 1), ("get_world_size", 4)):
        setattr(distributed, name, lambda value=value: value)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    monkeypatch.setitem(sys.modules, "ray.train", fake_ray(2, 4))
    with open_loader(tiny) as loader, pytest.raises(fb.Error, match=r"torch.distributed says rank 1 of 4, Ray Train says rank 2 of 4"):
        len(loader)


@pytest.mark.parametrize(("rank", "world_size"), [(0, 0), (3, 3), (-1, 2), (5, 2)])
def test_an_impossible_rank_is_refused(tiny: Path, rank: int, world_size: int) -> None:
    with pytest.raises(fb.Error, match="rank|world"), open_loader(tiny, rank=rank, world_size=world_size) as loader:
        len(loader)
