"""What a loader can be pointed at, and which part of it takes part."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from made_photos import make_photos, photo


def open_loader(source: Any, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"batch_size": 8, "transforms": [fb.CenterCrop(8)], "framework": "numpy", **arguments})


def keys(loader: fb.Loader) -> list[str]:
    with loader:
        return [key for batch in loader for key in batch.sample_keys]


@pytest.fixture(scope="module")
def paths(photos: Path) -> list[Path]:
    return sorted(photos.rglob("*.jpg"), reverse=True)


# ---- lists with labels


def rows(loader: fb.Loader) -> dict[str, tuple[Any, ...]]:
    with loader:
        return {key: tuple(array[i].tolist() for array in batch[1:]) for batch in loader for i, key in enumerate(batch.sample_keys)}


def test_a_list_of_paths_without_labels_gives_images_alone(paths: list[Path]) -> None:
    with open_loader(paths) as loader:
        batch = next(iter(loader))
        assert len(batch) == 1 and batch.names == ("image",) and loader.sample_count == 24


@pytest.mark.parametrize("labels", [
    list(range(24)), tuple(range(24)), np.arange(24), np.arange(24, dtype=np.uint8), np.arange(24, dtype=np.float32) / 3,
    np.arange(24, dtype=np.int64)[::-1], np.arange(24, dtype=">i4"), np.arange(24) % 2 == 0,
])
def test_a_label_stays_with_its_path(paths: list[Path], labels: Any) -> None:
    found = rows(open_loader(paths, labels=labels, shuffle=True))
    assert len(found) == 24
    for path, label in zip(paths, np.asarray(labels).tolist(), strict=True):
        assert found[str(path)] == (label,)


def test_labels_keep_their_type(paths: list[Path]) -> None:
    for dtype in (np.uint8, np.int16, np.int64, np.float32, np.float64):
        with open_loader(paths, labels=np.arange(24).astype(dtype)) as loader:
            assert next(iter(loader))[1].dtype == dtype


def test_vectors_and_several_columns(paths: list[Path]) -> None:
    points = np.random.default_rng(0).normal(size=(24, 5))
    with open_loader(paths, labels={"pose": points, "age": np.arange(24)}) as loader:
        batch = next(iter(loader))
        assert batch.names == ("image", "pose", "age") and batch[1].shape == (8, 5)
    found = rows(open_loader(paths, labels={"pose": points, "age": np.arange(24)}))
    for i, path in enumerate(paths):
        assert found[str(path)] == (points[i].tolist(), i)


@pytest.mark.parametrize(("labels", "named"), [
    (list(range(23)), "23 rows for 24"), (["a"] * 24, "not numbers"), (np.zeros((24, 2, 2)), "shape"), ({"": range(24)}, "name"),
    (np.zeros(24, complex), "not numbers"), ("012", "labels"),
])
def test_labels_that_do_not_fit_are_refused(paths: list[Path], labels: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        open_loader(paths, labels=labels)


def test_relative_paths_start_here(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos)
    assert keys(open_loader(["pear/001.jpg", "apple/000.jpg"])) == ["apple/000.jpg", "pear/001.jpg"]


def test_a_path_that_is_not_there_is_named(paths: list[Path], photos: Path) -> None:
    with pytest.raises(fb.Error, match="missing.jpg"), open_loader([*paths, photos / "missing.jpg"]) as loader:
        list(loader)


# ---- manifests, globs, odd names


def test_a_manifest_brings_its_columns(photos: Path, paths: list[Path], tmp_path: Path) -> None:
    manifest = photos / "list.csv"
    with manifest.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "fruit", "weight"])
        for i, path in enumerate(paths):
            writer.writerow([path.relative_to(photos), path.parent.name, i / 4])
    try:
        with open_loader(manifest) as loader:
            assert loader.classes == ["apple", "pear", "plum"]
            for batch in loader:
                assert batch.names == ("image", "fruit", "weight")
                for key, fruit, weight in zip(batch.sample_keys, batch[1], batch[2], strict=True):
                    assert loader.classes[fruit] == key.split("/")[0] and paths[int(weight * 4)] == photos / key
    finally:
        manifest.unlink()


def test_a_glob_takes_what_it_matches(photos: Path) -> None:
    assert keys(open_loader(str(photos / "*" / "00[0-3].jpg"))) == sorted(
        str(p.relative_to(photos)) for p in photos.glob("*/00[0-3].jpg"))


def test_names_that_are_not_utf8_come_back_as_python_has_them(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    photo(1, 20, 20).save(tmp_path / "x.png")
    os.rename(tmp_path / "x.png", folder + b"/\xff.png")
    with open_loader(tmp_path) as loader:
        batch = next(iter(loader))
        assert batch.sample_keys == [os.fsdecode(b"caf\xe9/\xff.png")] and loader.classes == [os.fsdecode(b"caf\xe9")]
        assert os.path.exists(tmp_path / batch.sample_keys[0])


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fb.Error, match=tmp_path.name):
        open_loader(tmp_path)


def test_a_new_file_is_noticed_at_the_next_open(tmp_path: Path) -> None:
    make_photos(tmp_path, 3)
    assert len(keys(open_loader(tmp_path))) == 3
    photo(9, 20, 20).save(tmp_path / "cat" / "new.png")
    assert "cat/new.png" in keys(open_loader(tmp_path))


# ---- which part


def test_classes_by_name_number_and_file(photos: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("plum\napple\n")
    with open_loader(photos, classes=["plum", "apple"]) as named, open_loader(photos, classes=names) as filed, \
            open_loader(photos, classes=2, class_seed=1) as drawn, open_loader(photos, classes=2, class_seed=1) as again:
        assert named.classes == filed.classes == ["apple", "plum"] and named.sample_count == 16
        assert len(drawn.classes) == 2 and drawn.classes == again.classes
        labels = {int(label) for batch in named for label in batch[1]}
        assert labels == {0, 1}


def test_a_class_that_is_not_there_is_named(photos: Path) -> None:
    with pytest.raises(ValueError, match="plumm"):
        open_loader(photos, classes=["plumm"])


def test_per_class_fraction_and_indices(photos: Path) -> None:
    assert len(keys(open_loader(photos, per_class=2))) == 6
    half = keys(open_loader(photos, fraction=0.5, class_seed=3))
    assert 0 < len(half) < 24 and half == keys(open_loader(photos, fraction=0.5, class_seed=3))
    everything = keys(open_loader(photos))
    assert keys(open_loader(photos, indices=[5, 2, 9])) == [everything[i] for i in (5, 2, 9)]


def test_train_and_val_are_complements_that_stay_as_the_data_set_grows(tmp_path: Path) -> None:
    make_photos(tmp_path, 60, side=12)
    train, val = (set(keys(open_loader(tmp_path, split=(side, 0.7)))) for side in ("train", "val"))
    assert len(train | val) == 60 and not train & val and 25 < len(train) < 58
    make_photos(tmp_path, 90, side=12)
    assert train <= set(keys(open_loader(tmp_path, split=("train", 0.7)))) and val <= set(keys(open_loader(tmp_path, split=("val", 0.7))))
