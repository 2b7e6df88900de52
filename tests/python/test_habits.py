"""What people who come from a torch DataLoader expect: samplers, data sets, batches that move, and hints."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest

SMALL: dict[str, Any] = {"framework": "numpy", "transforms": [fb.Resize((8, 8))]}


def keys_of(loader: fb.Loader) -> list[list[str]]:
    return [batch.sample_keys for batch in loader]


# ---- an order of one's own


def test_a_sampler_says_which_samples_and_in_which_order(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, sampler=[5, 5, 0, 23, 7, 1, 2], **SMALL) as loader:
        names = loader.dataset.keys
        assert len(loader) == 2 and loader.sampler == [5, 5, 0, 23, 7, 1, 2]
        expected = [[names[i] for i in part] for part in ([5, 5, 0, 23], [7, 1, 2])]
        assert keys_of(loader) == expected and keys_of(loader) == expected  # every epoch anew
    with fb.Loader(photos, batch_size=4, sampler=[5, 5, 0, 23, 7, 1, 2], drop_last=True, **SMALL) as loader:
        assert len(loader) == 1 and len(keys_of(loader)) == 1


class Shuffled:
    """As torch's DistributedSampler: another order for each epoch."""

    def __init__(self, count: int) -> None:
        self.count, self.epoch, self.epochs = count, 0, []  # type: ignore[var-annotated]

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.epochs.append(epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self.epoch).permutation(self.count).tolist())

    def __len__(self) -> int:
        return self.count


def test_set_epoch_is_passed_on(photos: Path) -> None:
    sampler = Shuffled(24)
    with fb.Loader(photos, batch_size=6, sampler=sampler, **SMALL) as loader:
        first, second = keys_of(loader), keys_of(loader)
        loader.set_epoch(0)
        assert keys_of(loader) == first != second and sampler.epochs == [0, 1, 0]


@pytest.mark.parametrize("done", [0, 1, 3, 4])
def test_a_state_is_continued_in_the_samplers_order(photos: Path, done: int) -> None:
    options: dict[str, Any] = {**SMALL, "batch_size": 7, "transforms": [fb.RandomResizedCrop(8)]}
    with fb.Loader(photos, sampler=Shuffled(24), **options) as loader:
        whole = [(batch.sample_keys, batch[0].copy()) for epoch in range(2) for batch in loader]
    with fb.Loader(photos, sampler=Shuffled(24), **options) as loader:
        for _ in itertools.islice(loader, done):
            pass
        state = loader.state_dict()
    with fb.Loader(photos, sampler=Shuffled(24), **options) as loader:
        loader.load_state_dict(state)
        if 0 < done < 4:
            assert len(loader) == 4 - done
        rest = [(batch.sample_keys, batch[0].copy()) for batch in loader]
        if done == 4:
            assert [k for k, _ in rest] == [k for k, _ in whole[4:]]  # the next epoch
        else:
            assert [k for k, _ in rest] == [k for k, _ in whole[done:4]]
            assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(rest, whole[done:4], strict=True))


def test_an_endless_sampler_is_read_only_as_far_as_needed(photos: Path) -> None:
    class Endless:
        taken = 0

        def __iter__(self) -> Iterator[int]:
            for i in itertools.count():
                self.taken = i
                yield i % 24

    sampler = Endless()
    with fb.Loader(photos, batch_size=4, sampler=sampler, **SMALL) as loader:
        with pytest.raises(TypeError, match="without a length"):
            len(loader)
        for number, batch in enumerate(loader):
            assert batch.samples == [(4 * number + i) % 24 for i in range(4)]
            if number == 200:
                break
        assert 800 < sampler.taken < 1300


def test_larger_batches_than_the_data_set_and_empty_samplers(photos: Path) -> None:
    with fb.Loader(photos, batch_size=50, sampler=[1] * 120, **SMALL) as loader:
        assert [len(batch[0]) for batch in loader] == [50, 50, 20]
    with fb.Loader(photos, batch_size=50, sampler=[], **SMALL) as loader:
        assert list(loader) == [] and list(loader) == []


@pytest.mark.parametrize(("sampler", "text"), [
    ([0, 24], "the index 24, but there are 24 samples"), ([[0, 1], [2, 3]], "batch sampler"), ([0, -1], "count from 0"),
    (["a"], "not whole"),
])
def test_a_sampler_that_is_wrong_is_told_what(photos: Path, sampler: Any, text: str) -> None:
    with fb.Loader(photos, sampler=sampler, **SMALL) as loader, pytest.raises(fb.Error, match=text):
        list(loader)


@pytest.mark.parametrize("more", [{"shuffle": True}, {"rank": 0, "world_size": 2}, {"weights": [1.0] * 24, "shuffle": True}])
def test_what_does_not_go_with_a_sampler_is_refused(photos: Path, more: dict[str, Any]) -> None:
    with pytest.raises(fb.Error, match="do not go together"):
        fb.Loader(photos, sampler=[0], **more, **SMALL)
    with pytest.raises(fb.Error, match="only once"):
        fb.Loader(photos, sampler=iter([0]), **SMALL)


# ---- the data set


def test_the_data_set_gives_single_samples(photos: Path) -> None:
    with fb.Loader(photos, batch_size=24, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
        images, labels = next(iter(loader))
        assert len(loader.dataset) == 24
        for i in (0, 7, 23, -1):
            image, label = loader.dataset[i]
            assert np.array_equal(image, images[i]) and label == labels[i]
        with pytest.raises(IndexError):
            loader.dataset[24]
        assert loader.dataset.targets == labels.tolist() and loader.dataset.classes == loader.classes
        assert loader.dataset.samples[7] == (str(photos / "apple/021.jpg"), 0) == loader.dataset.imgs[7]
        assert sum(1 for _ in loader.dataset) == 24


def test_a_sample_is_always_the_same_and_may_be_asked_for_in_the_middle_of_an_epoch(photos: Path) -> None:
    steps = [fb.RandomResizedCrop(8), fb.Map(lambda image, label, rng: (image * rng.random()).astype(np.uint8))]
    with fb.Loader(photos, batch_size=4, shuffle=True, transforms=steps, framework="numpy") as loader:
        seen = []
        for batch in loader:
            seen.append(batch.sample_keys)
            assert np.array_equal(loader.dataset[3][0], loader.dataset[3][0])
        assert len(sum(seen, [])) == len(set(sum(seen, []))) == 24


# ---- batches


def test_a_batch_moves_and_keeps_what_it_knows(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8))], framework="torch") as loader:
        batch = next(iter(loader))
        moved = batch.to("cpu", torch.float64, non_blocking=True)
        assert type(moved) is fb.Batch and moved[0].dtype == torch.float64 and moved.sample_keys == batch.sample_keys
        assert type(batch)(x + 1 for x in batch)[1].tolist() == (batch[1] + 1).tolist()  # as frameworks rebuild tuples
        with pytest.raises(fb.Error, match="does not know its samples"):
            type(batch)(batch).sample_keys  # noqa: B018
        assert set(batch.as_dict(image="pixel_values")) == {"pixel_values", "label"}
        with pytest.raises(fb.Error, match="no 'pixels'"):
            batch.as_dict(pixels="x")


def test_torchs_own_helpers_take_batches(photos: Path) -> None:
    pytest.importorskip("torch")
    from torch.utils.data._utils.pin_memory import pin_memory

    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8))], framework="torch") as loader:
        batch = next(iter(loader))
        assert callable(batch.pin_memory) and pin_memory  # torch calls the batch's own method first
    with fb.Loader(photos, batch_size=4, **SMALL) as loader, pytest.raises(fb.Error, match="torch tensors"):
        next(iter(loader)).to("cpu")


def test_a_function_for_whole_batches(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, batch_map=lambda batch: (batch[0] * 0, batch[1], batch[1] + 1), **SMALL) as loader:
        batch = next(iter(loader))
        assert len(batch) == 3 and batch[0].max() == 0 and batch.sample_keys and batch.state["position"] == 4
        assert loader.stats()["batch_map_seconds"] > 0
    with fb.Loader(photos, batch_size=4, batch_map=lambda b: b.as_dict(image="pixel_values", label="labels"), **SMALL) as loader:
        assert sorted(next(iter(loader))) == ["labels", "pixel_values"]
    with pytest.raises(fb.Error, match="batch_map="):
        fb.Loader(photos, batch_map=3, **SMALL)  # type: ignore[arg-type]


def test_a_function_for_batches_that_raises_is_the_users_own_error_and_the_epoch_goes_on(photos: Path) -> None:
    calls = []

    def sometimes(batch: fb.Batch) -> fb.Batch:
        calls.append(batch.sample_keys)
        if len(calls) == 2:
            raise KeyError("no such thing")
        return batch

    with fb.Loader(photos, batch_size=4, batch_map=sometimes, **SMALL) as loader:
        batches = iter(loader)
        next(batches)
        with pytest.raises(KeyError, match="no such thing") as caught:
            next(batches)
        assert caught.traceback[-1].name == "sometimes"
        assert len(list(batches)) == 4 and len({key for keys in calls for key in keys}) == 24


# ---- loaders


def test_attributes_that_programs_ask_a_loader_for(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, shuffle=True, drop_last=True, **SMALL) as loader:
        assert (loader.batch_size, loader.drop_last, loader.pin_memory, len(loader.sampler)) == (4, True, False, 24)
        first = keys_of(loader)
        keys_of(loader)
        loader.sampler.set_epoch(0)
        assert keys_of(loader) == first


@pytest.mark.parametrize(("name", "text"), [
    ("num_workers", "use threads="), ("prefetch_factor", "leave it out: the look-ahead adapts"), ("persistent_workers", "leave it out"),
    ("collate_fn", "use batch_map= for batches, fullbore.Map"), ("batch_sampler", "use sampler="), ("generator", "use seed="),
    ("worker_init_fn", "leave it out"), ("multiprocessing_context", "leave it out"), ("timeout", "explained in the log"),
    ("pin_memory_device", "use device="), ("batchsize", "did you mean batch_size="), ("colour", "docs/python.md"),
])
def test_dataloaders_arguments_are_refused_with_what_to_use_instead(photos: Path, name: str, text: str) -> None:
    with pytest.raises(fb.Error, match=text):
        fb.Loader(photos, **{name: 1})
    with pytest.raises(TypeError):
        fb.Loader(photos, **{name: 1})


def test_a_loader_pickles_as_its_arguments(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, sampler=[3, 1], transforms=[fb.Resize((8, 8)), fb.Map(np.ascontiguousarray)]) as loader:
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert keys_of(copy) == keys_of(loader)


@pytest.mark.parametrize("more", [{"transforms": [fb.Resize((8, 8)), fb.Map(lambda image: image)]}, {"batch_map": lambda b: b},
                                  {"labels": lambda path: 1}])
def test_a_function_that_cannot_be_pickled_is_named(photos: Path, more: dict[str, Any]) -> None:
    with fb.Loader(photos, **{"transforms": [fb.Resize((8, 8))], **more}) as loader:
        with pytest.raises(fb.Error, match=f"because {next(iter(more))}= cannot.*functions of a module"):
            pickle.dumps(loader)
