"""Transforms say what they mean before anything is opened."""

from __future__ import annotations

import enum
import pickle

import fullbore as fb
import pytest
from PIL import Image


class InterpolationMode(enum.Enum):  # as torchvision's
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    NEAREST = "nearest"
    LANCZOS = "lanczos"


@pytest.mark.parametrize(("transform", "spec"), [
    (fb.RandomResizedCrop(224), "random_resized_crop size=224,224 scale=0.08,1.0 ratio=0.75,1.3333333333333333 interpolation=bilinear"),
    (fb.RandomResizedCrop([3, 4], scale=(0.1, 0.2), ratio=(1, 1), interpolation="bicubic"),
     "random_resized_crop size=3,4 scale=0.1,0.2 ratio=1.0,1.0 interpolation=bicubic"),
    (fb.Resize(256), "resize size=256 interpolation=bilinear"),
    (fb.Resize((20, 30)), "resize size=20,30 interpolation=bilinear"),
    (fb.Resize(9, interpolation=InterpolationMode.NEAREST), "resize size=9 interpolation=nearest"),
    (fb.RandomCrop(8, mask_fill=255), "random_crop size=8,8 pad_if_needed=false fill=0 padding_mode=constant mask_fill=255"),
    (fb.Resize(100, max_size=150), "resize size=100 max_size=150 interpolation=bilinear"),
    (fb.CenterCrop((5, 6)), "center_crop size=5,6"),
    (fb.RandomCrop(32, padding=4), "random_crop size=32,32 padding=4 pad_if_needed=false fill=0 padding_mode=constant"),
    (fb.RandomCrop(32, pad_if_needed=True, fill=(1, 2, 3), padding_mode="reflect"),
     "random_crop size=32,32 pad_if_needed=true fill=1,2,3 padding_mode=reflect"),
    (fb.Pad((1, 2, 3, 4), fill=9, padding_mode="edge"), "pad padding=1,2,3,4 fill=9 padding_mode=edge"),
    (fb.RandomHorizontalFlip(), "random_horizontal_flip p=0.5"),
    (fb.RandomVerticalFlip(1), "random_vertical_flip p=1.0"),
    (fb.ColorJitter(0.4, 0.4, 0.4, 0.1), "color_jitter brightness=0.6,1.4 contrast=0.6,1.4 saturation=0.6,1.4 hue=-0.1,0.1"),
    (fb.ColorJitter(brightness=2), "color_jitter brightness=0.0,3.0"),
    (fb.Grayscale(), "grayscale channels=3"),
    (fb.RandomGrayscale(), "random_grayscale p=0.1"),
    (fb.Normalize([0.5], [0.25]), "normalize mean=0.5,0.5,0.5 std=0.25,0.25,0.25"),
    (fb.Normalize.imagenet(), "normalize mean=0.485,0.456,0.406 std=0.229,0.224,0.225"),
])
def test_a_transform_renders_to_the_text_that_the_engine_reads(transform: fb.Transform, spec: str) -> None:
    assert transform.spec == spec


def test_floats_survive_the_text_exactly() -> None:
    share = 0.1 + 0.2
    text = fb.RandomResizedCrop(8, scale=(share, 1)).spec
    assert float(text.split("scale=")[1].split(",")[0]) == share


@pytest.mark.parametrize("bicubic", ["bicubic", 3, Image.Resampling.BICUBIC, InterpolationMode.BICUBIC])
def test_interpolation_may_be_a_name_or_another_librarys_enum(bicubic: object) -> None:
    assert fb.Resize(8, interpolation=bicubic).interpolation == "bicubic"


@pytest.mark.parametrize(("make", "named"), [
    (lambda: fb.Resize(8, interpolation="lanczos"), "interpolation"),
    (lambda: fb.Resize(8, interpolation=InterpolationMode.LANCZOS), "interpolation"),
    (lambda: fb.Pad(1, mask_fill=256), "mask_fill"),
    (lambda: fb.RandomCrop(8, mask_fill=-1), "mask_fill"),
    (lambda: fb.Resize(8, antialias=False), "antialias"),
    (lambda: fb.RandomResizedCrop(8, antialias=False), "Pillow"),
    (lambda: fb.Resize(0), "size"),
    (lambda: fb.Resize(True), "size"),
    (lambda: fb.Resize((1, 2, 3)), "size"),
    (lambda: fb.Resize("224"), "size"),
    (lambda: fb.Resize((8, 8), max_size=9), "max_size"),
    (lambda: fb.Resize(8, max_size=8), "max_size"),
    (lambda: fb.CenterCrop(70000), "size"),
    (lambda: fb.RandomResizedCrop(8, scale=(1, 0.5)), "scale"),
    (lambda: fb.RandomResizedCrop(8, scale=(0, 0.5)), "scale"),
    (lambda: fb.RandomResizedCrop(8, ratio=(float("nan"), 1)), "ratio"),
    (lambda: fb.RandomHorizontalFlip(1.1), "p is 1.1"),
    (lambda: fb.RandomHorizontalFlip("often"), "p is 'often'"),
    (lambda: fb.Pad((1, 2, 3)), "padding"),
    (lambda: fb.Pad(-1), "padding"),
    (lambda: fb.Pad(1, fill=256), "fill"),
    (lambda: fb.Pad(1, padding_mode="mirror"), "padding_mode"),  # type: ignore[arg-type]
    (lambda: fb.ColorJitter(hue=0.6), "hue"),
    (lambda: fb.ColorJitter(brightness=-1), "brightness"),
    (lambda: fb.Grayscale(1), "num_output_channels"),
    (lambda: fb.Normalize([1] * 70000, [1] * 70000), "mean"),
    (lambda: fb.Normalize((0, 0, 0), (1, 0, 1)), "std"),
])
def test_a_wrong_parameter_is_refused_by_its_name(make: object, named: str) -> None:
    with pytest.raises(ValueError, match=named) as caught:
        make()  # type: ignore[operator]
    assert isinstance(caught.value, fb.Error)


def test_transforms_are_values() -> None:
    crop = fb.RandomResizedCrop(8)
    assert crop == fb.RandomResizedCrop((8, 8)) != fb.RandomResizedCrop(9)
    assert pickle.loads(pickle.dumps(crop)) == crop
    assert len({crop, fb.RandomResizedCrop(8)}) == 1
    with pytest.raises(AttributeError):
        crop.size = (1, 1)  # type: ignore[misc]
