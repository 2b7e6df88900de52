"""Exactly once, whatever the batch size, the world, the threads and the interruptions."""

from __future__ import annotations

import itertools
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CROP = [fb.CenterCrop(4)]


def open_loader(source: Path, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"transforms": CROP, "framework": "numpy", "shuffle": True, "threads": 2, **arguments})


def stream(loaders: list[fb.Loader]) -> list[tuple[list[int], list[bool]]]:
    """The global batches: what all ranks got, rank by rank."""
    rounds = itertools.zip_longest(*loaders)
    return [([s for b in batches for s in b.samples], [r for b in batches for r in b.repeats]) for batches in rounds]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1, 103), batch=st.integers(1, 40), world=st.integers(1, 5), drop=st.booleans(), seed=st.integers(0, 9))
def test_every_sample_comes_exactly_once_in_an_epoch(tiny: Path, n: int, batch: int, world: int, drop: bool, seed: int) -> None:
    arguments = {"indices": range(n), "batch_size": batch, "drop_last": drop, "seed": seed, "world_size": world}
    if drop and n < batch * world:
        with pytest.raises(fb.Error, match="drop_last leaves nothing"):
            len(open_loader(tiny, rank=0, **arguments))
        return
    loaders = [open_loader(tiny, rank=rank, **arguments) for rank in range(world)]
    assert len({len(loader) for loader in loaders}) == 1
    batches = stream(loaders)
    assert len(batches) == len(loaders[0])
    counts = Counter(s for samples, repeats in batches for s, r in zip(samples, repeats, strict=True) if not r)
    assert set(counts.values()) == {1}
    assert len(counts) == (n // (batch * world) * batch * world if drop else n)
    for loader in loaders:
        loader.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stop=st.integers(0, 12), world=st.integers(1, 4), later_world=st.integers(1, 4), later_threads=st.integers(1, 4),
       through_batch=st.booleans())
def test_a_run_continues_exactly_where_it_stopped(tiny: Path, stop: int, world: int, later_world: int, later_threads: int,
                                                  through_batch: bool) -> None:
    arguments = {"global_batch_size": 12, "seed": 7}
    with open_loader(tiny, rank=0, world_size=1, **arguments) as whole:
        expected = [key for _ in range(2) for batch in whole for key in batch.sample_keys]
    first = [open_loader(tiny, rank=r, world_size=world, **arguments) for r in range(world)]
    stop = min(stop, len(first[0]))
    seen, states = [], []
    for loader in first:
        batches = list(itertools.islice(loader, stop))
        states.append(batches[-1].state if through_batch and batches else loader.state_dict())
        seen.append([b.sample_keys for b in batches])
        loader.close()
    assert all(state == states[0] for state in states)  # the same on all ranks
    done = [key for parts in zip(*seen, strict=True) for part in parts for key in part]
    later = [open_loader(tiny, rank=r, world_size=later_world, threads=later_threads, **arguments) for r in range(later_world)]
    rest: list[list[list[str]]] = []
    for loader in later:
        loader.load_state_dict(states[0])
        rest.append([b.sample_keys for b in loader])
        loader.close()
    done += [key for parts in zip(*rest, strict=True) for part in parts for key in part]
    epochs = 2 if stop == 9 else 1  # stopped at the very end: the next epoch follows
    assert done == expected[:103 * epochs]


def test_a_state_survives_json_and_a_restart_in_the_middle_of_a_batch_stream(tiny: Path) -> None:
    import json
    with open_loader(tiny, batch_size=9) as loader:
        batches = list(loader)
        text = json.dumps(batches[4].state)
        assert len(text) < 1024 and batches[4].state["position"] == 45
    with open_loader(tiny, batch_size=9) as loader:
        loader.load_state_dict(json.loads(text))
        assert len(loader) == len(batches) - 5
        for got, expected in zip(loader, batches[5:], strict=True):
            assert got.sample_keys == expected.sample_keys and np.array_equal(got[0], expected[0])
        assert len(loader) == len(batches)  # the next epoch is a whole one


@pytest.mark.parametrize("change", [{"seed": 1}, {"per_class": 3}])
def test_a_state_of_another_seed_or_data_set_is_refused(tiny: Path, change: dict[str, int]) -> None:
    with open_loader(tiny) as loader, open_loader(tiny, **change) as other, pytest.raises(fb.Error, match="seed|data set"):
        other.load_state_dict(loader.state_dict())


@pytest.mark.parametrize("state", ["", "{}", "[1]", "{\"version\": 99}", {"version": 1, "seed": "x"}])
def test_nonsense_is_no_state(tiny: Path, state: Any) -> None:
    with open_loader(tiny) as loader, pytest.raises(fb.Error):
        loader.load_state_dict(state)


def test_loading_a_state_ends_a_running_epoch(tiny: Path) -> None:
    with open_loader(tiny, batch_size=10) as loader:
        running = iter(loader)
        state = next(running).state
        second = next(running).sample_keys
        loader.load_state_dict(state)
        with pytest.raises(fb.Error, match="load_state_dict"):
            next(running)
        assert next(iter(loader)).sample_keys == second


def test_set_epoch_after_load_state_dict_keeps_the_position_in_that_epoch(tiny: Path) -> None:
    """As training loops do it: load, then set_epoch at the top of every epoch."""
    with open_loader(tiny, batch_size=10) as loader:
        loader.set_epoch(2)
        running = iter(loader)
        state, rest = [next(running) for _ in range(4)][-1].state, [batch.sample_keys for batch in running]
    with open_loader(tiny, batch_size=10) as loader:
        loader.load_state_dict(state)
        loader.set_epoch(2)
        assert [batch.sample_keys for batch in loader] == rest
    with open_loader(tiny, batch_size=10) as loader:
        loader.load_state_dict(state)
        loader.set_epoch(3)
        assert sum(len(batch.sample_keys) for batch in loader) == 103


def test_the_same_batches_come_from_any_number_of_threads(photos: Path) -> None:
    transforms = [fb.RandomResizedCrop(24), fb.RandomHorizontalFlip(), fb.ColorJitter(0.3, 0.3, 0.3, 0.1), fb.Normalize.imagenet()]
    seen = []
    for threads in (1, 2, 3, 8):
        with open_loader(photos, batch_size=5, threads=threads, transforms=transforms, seed=11) as loader:
            seen.append([(b[0].copy(), b[1].copy(), b.sample_keys, list(b.draws)) for _ in range(2) for b in loader])
    for other in seen[1:]:
        for (images, labels, keys, draws), (images2, labels2, keys2, draws2) in zip(seen[0], other, strict=True):
            assert np.array_equal(images, images2) and np.array_equal(labels, labels2) and keys == keys2 and draws == draws2


def test_the_world_does_not_change_a_pixel(photos: Path) -> None:
    arguments = {"global_batch_size": 6, "transforms": [fb.RandomResizedCrop(16), fb.RandomHorizontalFlip()]}
    with open_loader(photos, rank=0, world_size=1, **arguments) as loader:
        alone = np.concatenate([b[0].copy() for b in loader])
    ranks = [open_loader(photos, rank=r, world_size=3, **arguments) for r in range(3)]
    together = np.concatenate([b[0].copy() for parts in zip(*ranks, strict=True) for b in parts])
    assert np.array_equal(alone, together)


def test_weights_draw_with_replacement(tiny: Path) -> None:
    weights = np.zeros(103)
    weights[[3, 50]] = 1, 3
    with open_loader(tiny, weights=weights, batch_size=103) as loader:
        counts = Counter(next(iter(loader)).samples)
    assert set(counts) == {3, 50} and counts[50] > counts[3]


# ---- who am I


def test_rank_comes_from_the_environment_when_nobody_says(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with open_loader(tiny) as loader, open_loader(tiny, rank=0, world_size=1) as told:
        assert (loader.rank, loader.world_size) == (2, 4)
        assert (told.rank, told.world_size) == (0, 1)


def test_local_rank_alone_is_refused_and_never_rank_0(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    loader = open_loader(tiny)  # the rank is asked for later: torch.distributed may come yet
    for ask in (lambda: iter(loader), lambda: len(loader), loader.state_dict):
        with pytest.raises(ValueError, match="LOCAL_RANK"):
            ask()
    loader.close()


def test_rank_comes_from_torch_distributed_if_it_is_there_by_the_first_iteration(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = types.ModuleType("torch.distributed")
    distributed.is_available = lambda: True  # type: ignore[attr-defined]
    distributed.is_initialized = lambda: True  # type: ignore[attr-defined]
    distributed.get_rank = lambda: 1  # type: ignore[attr-defined]
    distributed.get_world_size = lambda: 3  # type: ignore[attr-defined]
    monkeypatch.setenv("LOCAL_RANK", "1")
    with open_loader(tiny) as loader, open_loader(tiny, rank=0, world_size=2) as told:
        repr(loader), loader.sample_count, loader.fingerprint, loader.classes  # none of these settles it
        monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
        assert (loader.rank, loader.world_size) == (1, 3)
        assert (told.rank, told.world_size) == (0, 2)
