"""Iteration: epochs, lengths, early ends, second iterators, closing."""

from __future__ import annotations

import pickle
import weakref
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest

CROP = [fb.CenterCrop(8)]


def open_loader(source: Path, **arguments: object) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 10, "transforms": CROP, "framework": "numpy", **arguments})  # type: ignore[arg-type]


def keys(loader: fb.Loader) -> list[str]:
    return [key for batch in loader for key in batch.sample_keys]


def test_len_is_what_an_epoch_yields(tiny: Path) -> None:
    with open_loader(tiny) as loader, open_loader(tiny, drop_last=True) as cut:
        assert len(loader) == len(list(loader)) == 11
        assert len(cut) == len(list(cut)) == 10


def test_without_shuffle_samples_come_in_order_of_their_paths(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        found = keys(loader)
    assert found == sorted(str(p.relative_to(tiny)) for p in tiny.rglob("*.png"))


def test_labels_are_the_first_directory(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        assert loader.classes == ["cat", "dog"] and loader.class_to_idx == {"cat": 0, "dog": 1}
        for batch in loader:
            assert batch[1].tolist() == [loader.class_to_idx[key.split("/")[0]] for key in batch.sample_keys]


def test_each_epoch_has_its_own_order_and_set_epoch_repeats_one(tiny: Path) -> None:
    with open_loader(tiny, shuffle=True, seed=3) as loader, open_loader(tiny, shuffle=True, seed=3) as other:
        first, second = keys(loader), keys(loader)
        assert sorted(first) == sorted(second) and first != second
        other.set_epoch(1)
        assert keys(other) == second
        loader.set_epoch(0)
        assert keys(loader) == first
        assert keys(loader) == second  # goes on from there


def test_another_seed_is_another_order(tiny: Path) -> None:
    with open_loader(tiny, shuffle=True, seed=1) as one, open_loader(tiny, shuffle=True, seed=2) as two:
        assert keys(one) != keys(two)


@pytest.mark.parametrize("wrong", [-1, 1.5, None, True])
def test_set_epoch_wants_a_number(tiny: Path, wrong: object) -> None:
    with open_loader(tiny) as loader, pytest.raises(ValueError, match="set_epoch"):
        loader.set_epoch(wrong)  # type: ignore[arg-type]


def test_break_abandons_the_epoch(tiny: Path) -> None:
    with open_loader(tiny, shuffle=True) as loader, open_loader(tiny, shuffle=True) as whole:
        for _ in loader:
            break
        assert loader.state_dict()["epoch"] == 0
        list(whole)
        assert keys(loader) == keys(whole)  # both epoch 1, from its start


def test_a_second_live_iterator_is_refused_with_the_remedy(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        first = iter(loader)
        next(first)
        with pytest.raises(fb.Error, match="already.*; finish that loop") as caught:
            iter(loader)
        assert caught.value.remedy
        assert len(list(first)) == 10  # and the first one is unharmed
        assert len(list(loader)) == 11
        del first


def test_a_deleted_iterator_makes_room_for_another(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        first = iter(loader)
        next(first)
        del first
        assert len(list(loader)) == 11


def test_an_exhausted_iterator_stays_exhausted(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        first = iter(loader)
        assert len(list(first)) == 11
        with pytest.raises(StopIteration):
            next(first)
        second = iter(loader)
        with pytest.raises(StopIteration):
            next(first)
        assert len(list(second)) == 11


def test_a_closed_loader_says_so_every_time(tiny: Path) -> None:
    loader = open_loader(tiny)
    running = iter(loader)
    next(running)
    loader.close()
    loader.close()
    assert loader.closed
    for _ in range(2):
        with pytest.raises(fb.Error, match="closed"):
            next(running)
    for ask in (lambda: iter(loader), lambda: len(loader), loader.stats, lambda: loader.classes):
        with pytest.raises(fb.Error, match="closed"):
            ask()
    assert "closed" in repr(loader)


def test_with_closes(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        assert not loader.closed
    assert loader.closed


def test_the_loader_has_no_cycles(tiny: Path) -> None:
    """The last reference closes it, without the garbage collector: so a notebook cell that is run again frees the old loader."""
    loader = open_loader(tiny)
    for _ in loader:
        break
    list(loader)
    gone, core = weakref.ref(loader), loader._core
    del loader, _
    assert gone() is None
    import sys
    assert sys.getrefcount(core) == 2  # this name and the argument


def test_a_loop_over_a_nameless_loader_works(tiny: Path) -> None:
    assert sum(len(labels) for _, labels in open_loader(tiny)) == 103


def test_repr_helps(tiny: Path) -> None:
    with open_loader(tiny, shuffle=True) as loader:
        assert "103 samples" in repr(loader) and "tiny" in repr(loader) and "batch_size=10" in repr(loader)
        list(loader)
        assert "11 batches" in repr(loader)


def test_what_a_loader_is_can_be_asked(tiny: Path) -> None:
    with open_loader(tiny) as loader, open_loader(tiny, batch_size=3, shuffle=True) as other, open_loader(tiny, per_class=2) as part:
        assert loader.batch_size == 10 and loader.sample_count == 103 and (loader.rank, loader.world_size) == (0, 1)
        assert len(loader.fingerprint) == 16 and loader.fingerprint == other.fingerprint != part.fingerprint
        assert loader.state_dict()["fingerprint"] == loader.fingerprint


def test_stats_count_what_was_delivered(tiny: Path) -> None:
    with open_loader(tiny) as loader:
        list(loader)
        stats = loader.stats()
        assert stats["samples"] == 103 and stats["batches"] == 11
        assert stats["budget"]["peak_bytes"] <= stats["budget"]["limit_bytes"]


def test_a_loader_pickles_as_its_arguments(tiny: Path) -> None:
    with open_loader(tiny, shuffle=True, seed=5, transforms=[fb.RandomResizedCrop(8)]) as loader:
        with pickle.loads(pickle.dumps(loader)) as copy:
            for (one, _), (other, _) in zip(loader, copy, strict=True):
                assert np.array_equal(one, other)


def test_two_loaders_run_at_once(tiny: Path, photos: Path) -> None:
    with open_loader(tiny, shuffle=True) as train, open_loader(photos) as val:
        alone = {"train": keys(open_loader(tiny, shuffle=True)), "val": keys(open_loader(photos))}
        running = iter(train)
        seen = [key for _ in range(3) for key in next(running).sample_keys]
        assert keys(val) == alone["val"]  # a validation in the middle of an epoch
        seen += [key for batch in running for key in batch.sample_keys]
        assert seen == alone["train"]


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "dropped"])
def test_batches_kept_of_a_closed_loader_leave_the_budget_to_others(photos: Path, closes: bool, run_python: Any) -> None:
    script = """
import sys, fullbore as fb
def open_loader():
    return fb.Loader(sys.argv[1], batch_size=8, threads=1, memory="20MiB", transforms=[fb.Resize((384, 384))], framework="numpy")
kept = []
for _ in range(4):
    loader = open_loader()
    kept += [batch for batch, _ in zip(loader, range(2))]
    sums = [batch[0].sum() for batch in kept]
    if sys.argv[2] == "True":
        loader.close()
    del loader
assert [batch[0].sum() for batch in kept] == sums and len(set(sums)) == 2
assert open_loader().stats()["budget"]["used_bytes"] < 1 << 20
"""
    done = run_python(script, photos, closes, timeout=40)
    assert done.returncode == 0, done.stderr


def test_batches_kept_of_an_idle_loader_leave_a_smaller_budget_to_the_next(photos: Path, run_python: Any) -> None:
    script = """
import sys, fullbore as fb
def open_loader(memory):
    return fb.Loader(sys.argv[1], batch_size=8, threads=1, memory=memory, transforms=[fb.Resize((384, 384))], framework="numpy")
first = open_loader("64MiB")
kept = list(first)[:2]
sums = [batch[0].sum() for batch in kept]
assert len(list(open_loader("16MiB"))) == len(first)
assert [batch[0].sum() for batch in kept] == sums
"""
    done = run_python(script, photos, timeout=40)
    assert done.returncode == 0, done.stderr
