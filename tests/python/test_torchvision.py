"""torchvision's transforms, by look-alikes: torchvision itself is not needed."""

from __future__ import annotations

import enum
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from fullbore._arguments import steps_of

torch = pytest.importorskip("torch")


class InterpolationMode(enum.Enum):
    NEAREST = "nearest"
    LANCZOS = "lanczos"
    BILINEAR = "bilinear"


def like(name: str, call: Any = None, **attributes: Any) -> Any:
    """An object of a class of that name in torchvision, with those attributes."""
    members: dict[str, Any] = {"__call__": lambda self, x: call(x)} if call else {}
    kind = type(name, (), members)
    kind.__module__ = "torchvision.transforms.transforms"
    thing = kind()
    thing.__dict__.update(attributes)
    return thing


def compose(*steps: Any) -> Any:
    return like("Compose", transforms=list(steps))


CROP = like("RandomResizedCrop", size=(32, 32), scale=(0.08, 1.0), ratio=(0.75, 4 / 3),
            interpolation=InterpolationMode.BILINEAR, antialias=True)
FLIP = like("RandomHorizontalFlip", p=0.5)
TO_TENSOR = like("ToTensor", call=lambda x: torch.from_numpy(np.asarray(x).transpose(2, 0, 1).copy()).float() / 255)
NORMALIZE = like("Normalize", call=lambda x: (x - 0.5) / 0.25, mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25], inplace=False)


def first(photos: Path, transforms: Any) -> Any:
    with fb.Loader(photos, batch_size=8, seed=3, transforms=transforms, framework="numpy") as loader:
        return next(iter(loader))[0].copy()


def test_the_usual_training_pipeline_becomes_the_engines(photos: Path, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "fullbore"):
        got = first(photos, compose(CROP, FLIP, TO_TENSOR, NORMALIZE))
    expected = first(photos, [fb.RandomResizedCrop(32), fb.RandomHorizontalFlip(), fb.Normalize((0.5,), (0.25,))])
    assert got.dtype == np.float32 and np.array_equal(got, expected)
    assert "RandomResizedCrop, RandomHorizontalFlip, ToTensor, Normalize run in the engine" in caplog.text


def test_v2s_conversions_are_understood(photos: Path) -> None:
    v2 = compose(like("ToImage"), CROP, like("ToDtype", dtype=torch.float32, scale=True), NORMALIZE)
    assert np.array_equal(first(photos, v2), first(photos, [fb.RandomResizedCrop(32), fb.Normalize((0.5,), (0.25,))]))
    assert first(photos, compose(like("PILToTensor"), CROP)).dtype == np.uint8
    alone = first(photos, compose(CROP, TO_TENSOR))
    assert alone.dtype == np.float32 and 0 <= alone.min() and alone.max() <= 1


@pytest.mark.parametrize(("theirs", "ours"), [
    (like("Resize", size=256, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True), fb.Resize(256)),
    (like("Resize", size=[256], interpolation=InterpolationMode.BILINEAR, max_size=None), fb.Resize(256)),
    (like("CenterCrop", size=(224, 224)), fb.CenterCrop(224)),
    (like("RandomCrop", size=(32, 32), padding=4, pad_if_needed=False, fill=0, padding_mode="reflect"),
     fb.RandomCrop(32, padding=4, padding_mode="reflect")),
    (like("Pad", padding=[1, 2], fill={object: 7}, padding_mode="constant"), fb.Pad((1, 2), fill=7)),
    (like("RandomVerticalFlip", p=0.25), fb.RandomVerticalFlip(0.25)),
    (like("ColorJitter", brightness=(0.6, 1.4), contrast=None, saturation=[0.5, 1.5], hue=(-0.1, 0.1)),
     fb.ColorJitter(brightness=0.4, saturation=0.5, hue=0.1)),
    (like("Grayscale", num_output_channels=3), fb.Grayscale()),
    (like("RandomGrayscale", p=0.1), fb.RandomGrayscale(0.1)),
])
def test_each_known_class_is_translated(theirs: Any, ours: Any) -> None:
    steps, dtype = steps_of(compose(theirs))
    assert [step.spec for step in steps] == [ours.spec] and dtype is None


def test_the_rest_runs_as_functions_and_it_says_which(photos: Path, caplog: Any) -> None:
    seen: list[str] = []

    def solarize(image: Any) -> Any:
        seen.append(type(image).__module__)
        return image.point(lambda v: 255 - v)

    with caplog.at_level(logging.WARNING, "fullbore"):
        got = first(photos, compose(CROP, like("RandomSolarize", call=solarize), TO_TENSOR, NORMALIZE))
    assert "RandomSolarize run as Python functions" in caplog.text and seen[0].startswith("PIL")
    plain = first(photos, compose(CROP, TO_TENSOR))
    assert np.allclose(got, ((1 - plain) - 0.5) / 0.25, atol=1e-5)


def test_what_follows_on_floats_runs_from_there_as_one_function(photos: Path) -> None:
    erase = like("RandomErasing", call=lambda x: x * 0 + 0.25)
    got = first(photos, compose(CROP, FLIP, TO_TENSOR, NORMALIZE, erase))
    assert got.dtype == np.float32 and got.shape == (8, 3, 32, 32) and np.all(got == 0.25)


def test_parameters_that_only_torchvision_has_make_it_a_function(photos: Path) -> None:
    for mode, kind in ((InterpolationMode.LANCZOS, fb.Map), (InterpolationMode.NEAREST, fb.Resize)):
        resize = like("Resize", call=lambda image: image.resize((20, 20)), size=[20, 20], interpolation=mode, max_size=None)
        steps, _ = steps_of(compose(resize))
        assert isinstance(steps[0], kind)


def test_a_bare_function_is_refused_with_the_way_to_give_it(photos: Path) -> None:
    with pytest.raises(fb.Error, match="fullbore.Map"):
        fb.Loader(photos, transforms=[lambda image: image])  # type: ignore[list-item]
    with pytest.raises(fb.Error, match="torchvision's names"):
        fb.Loader(photos, transforms=[SimpleNamespace()])  # type: ignore[list-item]
