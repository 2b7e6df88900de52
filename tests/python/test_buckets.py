"""Batches by length: every sample once, the same everywhere, and little padding."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def lengths_of(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).lognormal(5, 1, count).astype(int).tolist()


@settings(max_examples=200, deadline=None)
@given(count=st.integers(1, 300), batch=st.integers(1, 17), world=st.integers(1, 5), drop=st.booleans(), shuffle=st.booleans(),
       seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 9), buckets=st.sampled_from([None, 1, 3, 50, [10], [50, 100.5, 1e9]]))
def test_every_sample_comes_exactly_once_over_the_ranks(count: int, batch: int, world: int, drop: bool, shuffle: bool, seed: int,
                                                        epoch: int, buckets: Any) -> None:
    ranks = [fb.LengthBuckets(lengths_of(count), batch, buckets=buckets, shuffle=shuffle, seed=seed, drop_last=drop, rank=rank,
                              world_size=world) for rank in range(world)]
    for sampler in ranks:
        sampler.set_epoch(epoch)
    batches = [sampler.batches() for sampler in ranks]
    assert len({len(of_rank) for of_rank in batches}) == 1  # nobody waits for a rank that has run out
    for sampler, of_rank in zip(ranks, batches, strict=True):
        assert len(sampler) == sum(map(len, of_rank)) and list(sampler) == [i for part in of_rank for i in part]
        assert all(len(part) == batch for part in of_rank[:-1]) and all(len(part) <= batch for part in of_rank)
    seen = Counter(i for of_rank in batches for part in of_rank for i in part)
    size = batch * world
    rest = count % size
    if drop:
        assert set(seen.values()) <= {1} and len(seen) == count // size * size
    else:
        assert set(seen) == set(range(count))
        assert sum(seen.values()) == (count if rest >= world or rest == 0 else count - rest + world)


def test_the_same_seed_and_epoch_give_the_same_order_for_ever() -> None:
    lengths = [i * 7919 % 1000 for i in range(1000)]
    sampler = fb.LengthBuckets(lengths, 16, seed=3)
    first = list(sampler)
    assert first == list(sampler) == list(pickle.loads(pickle.dumps(sampler)))
    assert first[:8] == [88, 162, 51, 396, 594, 853, 1, 569]
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(fb.LengthBuckets(lengths, 16, seed=4)) != first


def test_it_leaves_little_padding() -> None:
    lengths = lengths_of(5000)
    mixed, sorted_in = fb.LengthBuckets(lengths, 32, buckets=1).padding(), fb.LengthBuckets(lengths, 32).padding()
    assert mixed > 0.7 and sorted_in < 0.3  # 0.81 and 0.23: lengths that differ by a factor of a hundred
    assert fb.LengthBuckets(lengths, 32, shuffle=False).padding() < sorted_in
    assert fb.LengthBuckets([5] * 100, 7).padding() == 0 == fb.LengthBuckets([0] * 10, 3).padding()


def test_batches_come_in_no_order_of_length() -> None:
    lengths = np.array(lengths_of(5000))
    means = [lengths[batch].mean() for batch in fb.LengthBuckets(lengths, 32).batches()]
    ups = sum(b > a for a, b in itertools.pairwise(means)) / (len(means) - 1)
    assert 0.4 < ups < 0.6
    shuffled = [set(batch) for batch in fb.LengthBuckets(lengths, 32).batches()]
    other = fb.LengthBuckets(lengths, 32)
    other.set_epoch(1)
    assert not any(set(batch) in shuffled for batch in other.batches()[:-1])  # other company every epoch


def test_own_bounds_keep_buckets_apart() -> None:
    lengths = [5] * 40 + [50] * 40 + [500] * 40
    for batch in fb.LengthBuckets(lengths, 8, buckets=[10, 100]).batches():
        assert len({lengths[i] for i in batch}) == 1


# ---- in a loader

SMALL: dict[str, Any] = {"framework": "numpy", "transforms": [fb.CenterCrop(4)]}


def samples_of(loader: fb.Loader) -> list[list[int]]:
    return [batch.samples for batch in loader]


def test_a_loader_follows_it_epoch_by_epoch(tiny: Path) -> None:
    lengths = lengths_of(103)
    with fb.Loader(tiny, batch_size=8, sampler=fb.LengthBuckets(lengths, 8, seed=1), **SMALL) as loader:
        for epoch in range(3):
            expected = fb.LengthBuckets(lengths, 8, seed=1)
            expected.set_epoch(epoch)
            assert samples_of(loader) == expected.batches() and len(loader) == 13


@pytest.mark.parametrize("done", [0, 1, 7, 12, 13])
def test_a_state_is_continued(tiny: Path, done: int) -> None:
    options: dict[str, Any] = {"batch_size": 8, **SMALL}
    with fb.Loader(tiny, sampler=fb.LengthBuckets(lengths_of(103), 8), **options) as loader:
        whole = samples_of(loader) + samples_of(loader)
    with fb.Loader(tiny, sampler=fb.LengthBuckets(lengths_of(103), 8), **options) as loader:
        for _ in itertools.islice(loader, done):
            pass
        state = loader.state_dict()
    with fb.Loader(tiny, sampler=fb.LengthBuckets(lengths_of(103), 8), **options) as loader:
        loader.load_state_dict(state)
        assert samples_of(loader) == (whole[done:13] if done < 13 else whole[13:])


def test_ranks_share_an_epoch(tiny: Path) -> None:
    loaders = [fb.Loader(tiny, batch_size=8, sampler=fb.LengthBuckets(lengths_of(103), 8, rank=rank, world_size=3), **SMALL)
               for rank in range(3)]
    seen = [i for loader in loaders for batch in samples_of(loader) for i in batch]
    assert sorted(seen) == list(range(103)) and len({len(loader) for loader in loaders}) == 1
    for loader in loaders:
        loader.close()


def test_the_rank_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = fb.LengthBuckets(lengths_of(100), 5)
    assert len(sampler) == 100
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert len(sampler) == 25 and list(sampler) == list(fb.LengthBuckets(lengths_of(100), 5, rank=1, world_size=4))
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(fb.Error, match="LOCAL_RANK"):
        len(sampler)


# ---- what is wrong


@pytest.mark.parametrize(("arguments", "text"), [
    (([], 4), "lengths are not"), (([[1, 2]], 4), "lengths are not"), ((["a"], 4), "lengths are not"),
    (([1, float("nan")], 4), "sample 1 is nan"), (([1, -2], 4), "sample 1 is -2"), (([1], 0), "batch_size is 0"),
    (([1], 2.5), "batch_size is 2.5"),
])
def test_wrong_lengths_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fb.LengthBuckets(*arguments)


@pytest.mark.parametrize(("more", "text"), [
    ({"buckets": 0}, "buckets is 0"), ({"buckets": [5, 5]}, "that grow"), ({"buckets": [[1]]}, "that grow"), ({"seed": -1}, "seed is -1"),
    ({"buckets": [float("inf")]}, "that grow"), ({"rank": 0}, "go together"), ({"rank": 2, "world_size": 2}, "rank 2 is not one of 2"),
    ({"rank": 0, "world_size": 0}, "world_size is 0"),
])
def test_wrong_arguments_are_refused(more: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fb.LengthBuckets([1, 2, 3], 2, **more)


def test_what_does_not_fit_the_loader_is_said(tiny: Path) -> None:
    with pytest.raises(ValueError, match="batches of 4, but batch_size= is 8"):
        fb.Loader(tiny, batch_size=8, sampler=fb.LengthBuckets(lengths_of(103), 4), **SMALL)
    with pytest.raises(ValueError, match="7 lengths for 103 samples"):
        fb.Loader(tiny, batch_size=4, sampler=fb.LengthBuckets(lengths_of(7), 4), **SMALL)
