"""What the datasets of fullbore.build are called: labels, fields of the function and the file's own never take each other's names."""

from __future__ import annotations

import os
from pathlib import Path

import fullbore as fb
import h5py
import numpy as np
import pytest
from recordings import put

KINDS = ("owl", "cat", "cat", "dog")


def manifest(root: Path, **columns) -> Path:
    """Four recordings, 0.wav to 3.wav, and a table of them."""
    for i in range(4):
        put(root / f"{i}.wav", i, 500)
    lines = [",".join(("path", *columns)), *(",".join((f"{i}.wav", *(str(values[i]) for values in columns.values()))) for i in range(4))]
    (root / "m.csv").write_text("\n".join(lines) + "\n")
    return root / "m.csv"


def build(source: Path, output: Path, fn=lambda x: x[:, :3], **how) -> h5py.File:
    fb.build(source, output, fn=fn, batch=3, framework="numpy", transforms=[fb.CropOrPad(400)], **how)
    return h5py.File(output)


def test_the_class_is_called_labels_whatever_its_column_is_called(tmp_path: Path) -> None:
    with build(manifest(tmp_path, age=[1, 0, 2, 1], kind=KINDS, labels=[7, 8, 9, 10]), tmp_path / "a.h5") as f:
        assert set(f) == {"features", "labels", "classes", "age", "label_labels", "keys", "segment"}
        assert [f["classes"].asstr()[i] for i in f["labels"]] == list(KINDS)
        assert f["age"][:].tolist() == [1, 0, 2, 1] and f["label_labels"][:].tolist() == [7, 8, 9, 10]


def test_so_is_the_only_label(tmp_path: Path) -> None:
    with build(manifest(tmp_path, age=[3, 4, 5, 6]), tmp_path / "a.h5") as f:
        assert set(f) == {"features", "labels", "keys", "segment"} and f["labels"][:].tolist() == [3, 4, 5, 6]


def test_classes_are_those_of_the_labels_that_were_given(tmp_path: Path) -> None:
    for i, kind in enumerate(KINDS):
        put(tmp_path / f"wavs/{kind}/{i}.wav", i, 500)
    with build(tmp_path / "wavs", tmp_path / "a.h5", labels=lambda path: f"not {Path(path).parent.name}") as f:
        assert f["classes"].asstr()[:].tolist() == ["not cat", "not dog", "not owl"]
        for key, label in zip(f["keys"].asstr()[:], f["labels"], strict=True):
            assert f["classes"].asstr()[label] == f"not {key.split('/')[0]}"


def test_a_label_that_is_called_like_something_else_in_the_file_gets_another_name(tmp_path: Path) -> None:
    columns = {name: np.arange(4) + 10 * i for i, name in enumerate(("keys", "split", "segment", "classes", "x", "label_x"))}

    def fn(x):
        return {"x": x[:, :3], "labels": np.full(len(x), 5)}

    with build(manifest(tmp_path, kind=KINDS, **columns), tmp_path / "a.h5", fn, splits=(1, 1)) as f:
        order = [int(key[0]) for key in f["keys"].asstr()[:]]
        assert sorted(order) == [0, 1, 2, 3] and f["split"][:].tolist() == sorted(f["split"][:].tolist())
        for name in ("keys", "split", "segment", "classes"):
            assert f[f"label_{name}"][:].tolist() == columns[name][order].tolist()
        assert f["label_x"][:].tolist() == columns["label_x"][order].tolist()
        assert f["label_label_x"][:].tolist() == columns["x"][order].tolist()
        assert f["labels"][:].tolist() == [5] * 4 and f["x"].shape == (4, 3)
        assert [f["classes"].asstr()[i] for i in f["label_labels"]] == [KINDS[i] for i in order]


def test_a_file_made_of_a_file_made_of_a_file_keeps_every_column(tmp_path: Path) -> None:
    build(manifest(tmp_path, kind=KINDS), tmp_path / "a.h5", lambda x: x.reshape(len(x), 2, -1), flatten=True).close()
    how = {"fn": lambda x: x, "framework": "numpy"}
    fb.build(tmp_path / "a.h5", tmp_path / "b.h5", **how)
    fb.build(tmp_path / "b.h5", tmp_path / "c.h5", **how)
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "c.h5") as c:
        assert a["labels"][:].tolist() == c["labels"][:].tolist() and c["label_segment"][:].tolist() == a["segment"][:].tolist()
        assert c["segment"][:].tolist() == [0] * 8


@pytest.mark.parametrize("name", ["keys", "segment", "split", "classes", "a/b", ".", ""])
def test_a_field_that_cannot_have_its_name_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(fb.errors.UsageError, match=f"fn returned a field called '{name}'.*give it another name"):
        build(manifest(tmp_path, kind=KINDS), tmp_path / "a.h5", lambda x: {"features": x, name: x})
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []


def test_a_label_that_cannot_be_a_dataset_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(fb.errors.UsageError, match="there is a label called 'a/b'.*without a slash"):
        build(manifest(tmp_path, **{"kind": KINDS, "a/b": [1, 2, 3, 4]}), tmp_path / "a.h5")
    assert [n for n in os.listdir(tmp_path) if "a.h5" in n] == []
