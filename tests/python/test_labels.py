"""Labels of the user's own: tables, arrays, dicts, functions; and what transforms do with them."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from made_photos import make_photos
from PIL import Image

NUMPY: dict[str, Any] = {"framework": "numpy", "layout": "NHWC", "transforms": [fb.Resize((8, 8))]}


def by_key(*args: Any, **kwargs: Any) -> dict[str, tuple[Any, ...]]:
    """key -> label values"""
    with fb.Loader(*args, **{**NUMPY, "batch_size": 5, **kwargs}) as loader:
        return {key: tuple(column[i].tolist() for column in batch[1:]) for batch in loader for i, key in enumerate(batch.sample_keys)}


def keys_of(folder: Path) -> list[str]:
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*.jpg"))


def pose(key: str) -> dict[str, float]:
    number = int(Path(key).stem)
    return {"yaw": number + 0.5, "pitch": -float(number), "roll": 2.0 * number}


# ---- where they come from


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("how", ["relative", "absolute", "name", "stem"])
def test_a_table_is_matched_to_the_folder(photos: Path, tmp_path: Path, suffix: str, how: str) -> None:
    table = tmp_path / f"labels{suffix}"
    name = {"relative": str, "absolute": lambda key: str(photos / key), "name": os.path.basename, "stem": lambda key: Path(key).stem}[how]
    rows = [{"file": name(key), **pose(key), "age": i, "box": [i, 2, 3.5]} for i, key in enumerate(reversed(keys_of(photos)))]
    if suffix == ".jsonl":
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        separator = "," if suffix == ".csv" else "\t"
        lines = [separator.join(rows[0])] + [separator.join(f'"{v}"' for v in row.values()) for row in rows]
        table.write_text("\n".join(lines) + "\n")
    found = by_key(photos, labels=table)
    for i, key in enumerate(reversed(keys_of(photos))):
        assert found[key] == (*pose(key).values(), i, [i, 2, 3.5])
    with fb.Loader(photos, labels=str(table), **NUMPY) as loader:
        batch = next(iter(loader))
        assert batch.names == ("image", "yaw", "pitch", "roll", "age", "box")
        assert [array.dtype for array in batch[1:]] == [np.float32] * 3 + [np.int64, np.float32]


def test_an_array_a_dict_of_columns_and_a_dict_by_path(photos: Path) -> None:
    keys = keys_of(photos)
    points = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
    assert {k: v[0] for k, v in by_key(photos, labels=points).items()} == {k: points[i].tolist() for i, k in enumerate(keys)}
    two = by_key(photos, labels={"point": points, "age": list(range(24))})
    assert two == {k: (points[i].tolist(), i) for i, k in enumerate(keys)}
    assert by_key(photos, labels={key: i for i, key in enumerate(keys)}) == {k: (i,) for i, k in enumerate(keys)}
    assert by_key(photos, labels={photos / key: pose(key) for key in keys}) == {k: tuple(pose(k).values()) for k in keys}


def test_text_becomes_classes(photos: Path) -> None:
    with fb.Loader(photos, labels={key: "xyz"[i % 3] for i, key in enumerate(keys_of(photos))}, **NUMPY) as loader:
        assert loader.label_classes == {"label": ["x", "y", "z"]}
    found = by_key(photos, labels={key: "xyz"[i % 3] for i, key in enumerate(keys_of(photos))})
    assert [found[key][0] for key in keys_of(photos)] == [i % 3 for i in range(24)]


def test_labels_follow_the_selection(photos: Path) -> None:
    found = by_key(photos, labels=lambda path: int(Path(path).stem), classes=["pear", "plum"], fraction=0.5)
    assert found and all(key.startswith(("pear", "plum")) and label == (int(Path(key).stem),) for key, label in found.items())


def test_fields_choose_names_and_order(photos: Path) -> None:
    with fb.Loader(photos, labels=lambda path: pose(path), fields=["image", "roll", "label", "yaw"], **NUMPY) as loader:
        batch = next(iter(loader))
        assert batch.names == ("image", "roll", "label", "yaw") and batch[2].dtype == np.int64
    with pytest.raises(fb.Error, match="no label called 'jaw'.*'yaw', 'pitch'"):
        fb.Loader(photos, labels=lambda path: pose(path), fields=["jaw"], **NUMPY)


def test_a_list_of_paths_takes_functions_and_tables_too(photos: Path, tmp_path: Path) -> None:
    paths = [str(photos / key) for key in keys_of(photos)]
    found = by_key(paths, labels=lambda path: int(Path(path).stem))
    assert found == {path: (int(Path(path).stem),) for path in paths}


# ---- functions run once


def test_a_function_runs_once_per_file_and_again_when_the_catalog_changes(tmp_path: Path, run_python: Any) -> None:
    folder = make_photos(tmp_path / "p", 6)
    script = tmp_path / "labels.py"
    script.write_text("""
import sys
import fullbore as fb
calls = []
def label(path):
    calls.append(path)
    return {"size": len(path), "v": [1.5, 2]}
with fb.Loader(sys.argv[1], labels=label, batch_size=6, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
    batch = next(iter(loader))
    print(len(calls), batch.names, float(batch[2].sum()))
""")
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = f"import runpy, sys; sys.argv = ['labels', sys.argv[1]]; runpy.run_path({str(script)!r})"
    os.utime(folder, ns=(1, 1))
    for sub in folder.iterdir():
        os.utime(sub, ns=(1, 1))  # settled long ago
    assert run_python(run, folder, env=env).stdout == "6 ('image', 'size', 'v') 21.0\n"
    assert run_python(run, folder, env=env).stdout == "0 ('image', 'size', 'v') 21.0\n"
    kept = tmp_path / "cache/fullbore/labels"
    kept.chmod(0o777)  # others may have put something there
    assert run_python(run, folder, env=env).stdout.startswith("6 ")
    kept.chmod(0o700)
    make_photos(folder, 8)
    assert run_python(run, folder, env=env).stdout.startswith("8 ")
    script.write_text(script.read_text().replace("[1.5, 2]", "[1.5, 3]"))
    assert run_python(run, folder, env=env).stdout.startswith("8 ")  # another function


def test_a_function_with_memory_of_its_own_is_not_kept(photos: Path) -> None:
    for offset in (1, 100):
        found = by_key(photos, labels=lambda path: int(Path(path).stem) + offset)  # noqa: B023
        assert found["apple/000.jpg"] == (offset,)


# ---- what is wrong


def test_missing_labels_are_named(photos: Path, tmp_path: Path) -> None:
    table = tmp_path / "few.csv"
    table.write_text("path,age\n" + "".join(f"{key},1\n" for key in keys_of(photos)[4:]))
    with pytest.raises(fb.Error, match=r"4 samples \(apple/000.jpg, apple/003.jpg, apple/006.jpg, ...\) have no label in the table"):
        fb.Loader(photos, labels=table, **NUMPY)
    table.write_text("path,age\n" + "".join(f"{key},{'' if i == 3 else 1}\n" for i, key in enumerate(keys_of(photos))))
    with pytest.raises(fb.Error, match=r"1 sample \(apple/009.jpg\) has no value for the label 'age'"):
        fb.Loader(photos, labels=table, **NUMPY)


@pytest.mark.parametrize(("odd", "text"), [
    ("text", "is a number for apple/000.jpg but text for pear/001.jpg"),
    ([1, 2], "is a number for apple/000.jpg but 2 numbers for pear/001.jpg"),
    ({"a": 1}, "labels of pear/001.jpg|'label' is a number"),
    (None, r"1 sample \(pear/001.jpg\) has no value"),
])
def test_mixed_labels_name_the_first_offenders(photos: Path, odd: Any, text: str) -> None:
    with pytest.raises(fb.Error, match=text):
        fb.Loader(photos, labels=lambda path: odd if path.endswith("001.jpg") else 3, **NUMPY)


def test_a_function_that_fails_names_the_file(photos: Path) -> None:
    def broken(path: str) -> int:
        raise KeyError("Pose_Para")

    with pytest.raises(fb.SampleError, match="labels=.*broken failed: KeyError: 'Pose_Para'") as caught:
        fb.Loader(photos, labels=broken, **NUMPY)
    assert caught.value.path == "apple/000.jpg" and isinstance(caught.value.__cause__, KeyError)


def test_rows_that_belong_to_nothing_are_said(photos: Path, caplog: Any) -> None:
    labels = {**{key: 1 for key in keys_of(photos)}, "apple/gone.jpg": 2}
    with caplog.at_level(logging.WARNING, "fullbore"):
        by_key(photos, labels=labels)
    assert "1 row (apple/gone.jpg) has no file" in caplog.text


@pytest.mark.parametrize("weights", [[1.0] * 23, [float("nan")] * 24, [0.0] * 24, "even"])
def test_wrong_weights_are_refused(photos: Path, weights: Any) -> None:
    with pytest.raises(ValueError, match="weight"):
        fb.Loader(photos, weights=weights, shuffle=True, **NUMPY)


def test_balanced_weights_draw_every_class_equally_often(tmp_path: Path) -> None:
    folder = make_photos(tmp_path / "rare", 60, ("common",) * 11 + ("rare",), side=8, suffix=".png")
    drawn: list[int] = []
    with fb.Loader(folder, batch_size=20, shuffle=True, weights="balanced", **NUMPY) as loader:
        for _ in range(10):
            drawn += [int(label) for batch in loader for label in batch[1]]
    assert 0.42 < np.mean(drawn) < 0.58
    with pytest.raises(fb.Error, match="needs classes"):
        fb.Loader(folder, labels=np.zeros(60, np.float32), shuffle=True, weights="balanced", **NUMPY)


# ---- transforms that know labels


def test_a_flip_negates_and_swaps(photos: Path) -> None:
    def labels(path: str) -> dict[str, Any]:
        return {**pose(path), "left": 1, "right": 2, "eye": [int(Path(path).stem), 5.0]}

    flip = fb.RandomHorizontalFlip(0.5, negate=("yaw", "roll", "eye[1]"), swap=[("left", "right")])
    with fb.Loader(photos, labels=labels, batch_size=24, framework="numpy", transforms=[fb.Resize((8, 8)), flip]) as loader:
        batch = next(iter(loader))
    flipped = [draw["hflip"] for draw in batch.draws]
    assert 4 < sum(flipped) < 20
    for i, key in enumerate(batch.sample_keys):
        sign, expected = -1 if flipped[i] else 1, pose(key)
        got = {name: column[i].tolist() for name, column in zip(batch.names[1:], batch[1:], strict=True)}
        assert (got["yaw"], got["pitch"], got["roll"]) == (sign * expected["yaw"], expected["pitch"], sign * expected["roll"])
        assert (got["left"], got["right"]) == ((2, 1) if flipped[i] else (1, 2))
        assert got["eye"] == [int(Path(key).stem), sign * 5.0]


@pytest.mark.parametrize(("flip", "text"), [
    (fb.RandomHorizontalFlip(negate=("jaw",)), "no label called 'jaw'"),
    (fb.RandomHorizontalFlip(negate=("eye[2]",)), "'eye\\[2\\]' is not a number of the label 'eye', which has 2"),
    (fb.RandomHorizontalFlip(swap=[("eye", "age")]), "another type or size"),
    (fb.CropBox("eye", "age", "age", "age"), "'eye' is not a single number"),
])
def test_labels_that_a_transform_cannot_use_are_refused(photos: Path, flip: Any, text: str) -> None:
    labels = {"eye": np.zeros((24, 2), np.float32), "age": np.arange(24)}
    with pytest.raises(fb.Error, match=text):
        fb.Loader(photos, labels=labels, transforms=[fb.Resize((8, 8)), flip])


def test_a_box_from_labels_is_cropped(photos: Path) -> None:
    keys = keys_of(photos)
    boxes = np.random.default_rng(1).integers(0, 25, (24, 4)) + [0, 0, 30, 30] + 0.25
    columns = dict(zip(("x0", "y0", "x1", "y1"), boxes.T, strict=True))
    steps = [fb.CropBox("x0", "y0", "x1", "y1"), fb.Resize((16, 16))]
    with fb.Loader(photos, labels=columns, batch_size=24, framework="numpy", layout="NHWC", transforms=steps) as loader:
        batch = next(iter(loader))
    for array, key in zip(batch[0], batch.sample_keys, strict=True):
        box = [int(round(v)) for v in boxes[keys.index(key)]]
        image = Image.open(photos / key)
        image = image.crop((box[0], box[1], min(box[2], image.width), min(box[3], image.height)))
        assert np.array_equal(array, np.asarray(image.resize((16, 16), Image.Resampling.BILINEAR)))


def test_a_margin_widens_the_box_and_a_box_outside_is_a_bad_sample(photos: Path) -> None:
    columns: dict[str, Any] = {"x0": np.full(24, 20.0), "y0": np.full(24, 10.0), "x1": np.full(24, 40.0), "y1": np.full(24, 20.0)}
    wide = fb.CropBox("x0", "y0", "x1", "y1", margin=0.5)
    with fb.Loader(photos, labels=columns, batch_size=2, framework="numpy", transforms=[wide]) as loader:
        batch = next(iter(loader))
        assert batch[0].shape == (2, 3, 20, 40)
        assert batch.draws[0] == {"top": 5, "left": 10, "height": 20, "width": 40}
    columns["x0"][5] = 900.0
    with pytest.raises(fb.SampleError, match="no pixels inside the image"), \
            fb.Loader(photos, labels=columns, batch_size=24, transforms=[fb.CropBox("x0", "y0", "x1", "y1")]) as loader:
        next(iter(loader))


def test_given_labels_belong_to_the_fingerprint(photos: Path) -> None:
    def fingerprint(labels: Any) -> str:
        with fb.Loader(photos, labels=labels, **NUMPY) as loader:
            return loader.fingerprint

    assert fingerprint(np.arange(24)) == fingerprint(np.arange(24)) != fingerprint(np.arange(24) + 1)
