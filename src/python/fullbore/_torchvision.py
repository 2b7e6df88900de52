"""torchvision's transforms, recognised by class name and attributes (torchvision is not imported): known ones become the engine's, the rest
run as functions. v1 and v2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import transforms as ours
from .errors import Error, UsageError
from .transforms import Map, Transform

_logger = logging.getLogger("fullbore")


def is_foreign(step: object) -> bool:
    """Is it torchvision's, or so much like it that it is meant to be?"""
    module = type(step).__module__.split(".")[0]
    return module == "torchvision" or _is_compose(step) and module != "albumentations"


def _is_compose(step: object) -> bool:
    return type(step).__name__ == "Compose" and hasattr(step, "transforms")


@dataclass
class _Reading:
    """What has been understood so far."""

    steps: list[Transform] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    is_tensor: bool = False  # torchvision would have a uint8 tensor here, not a Pillow image
    is_float: bool = False  # and here a float tensor


def translate(transforms: Iterable[object]) -> tuple[list[Transform], str | None]:
    """(steps, dtype that they ask for or None)."""
    items = list(_flat(transforms))
    if not any(is_foreign(item) or not isinstance(item, Transform) for item in items):
        return [item for item in items if isinstance(item, Transform)], None
    r = _Reading()
    for i, item in enumerate(items):
        if not _read(r, item):
            if r.is_float:  # on floats: from where they begin, everything runs as one function
                return _with_tail(items, i)
            _as_function(r, item)
    _tell(r)
    return r.steps, "float32" if r.is_float else None


def _flat(transforms: Iterable[object]) -> Iterable[object]:
    for item in transforms:
        if _is_compose(item) and is_foreign(item):
            yield from _flat(item.transforms)  # type: ignore[attr-defined]
        else:
            yield item


# ---- known ones


def _get(item: object, *names: str) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names if hasattr(item, name)}


def _jitter(item: object) -> Transform:
    values = _get(item, "brightness", "contrast", "saturation", "hue")
    return ours.ColorJitter(**{name: 0 if value is None else value for name, value in values.items()})


def _one_size(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value


def _resize(item: object) -> Transform:
    values = _get(item, "size", "interpolation", "max_size")
    return ours.Resize(**{**values, "size": _one_size(values["size"])})


def _fill(values: dict[str, Any]) -> dict[str, Any]:
    fill = values.get("fill")
    if isinstance(fill, dict):  # v2 keeps one per type
        fill = next(iter(fill.values()), 0)
    return {**values, "fill": 0 if fill is None else fill}


_KNOWN: dict[str, Callable[[Any], Transform]] = {
    "RandomResizedCrop": lambda t: ours.RandomResizedCrop(**_get(t, "size", "scale", "ratio", "interpolation")),
    "Resize": _resize,
    "CenterCrop": lambda t: ours.CenterCrop(t.size),
    "RandomCrop": lambda t: ours.RandomCrop(**_fill(_get(t, "size", "padding", "pad_if_needed", "fill", "padding_mode"))),
    "Pad": lambda t: ours.Pad(**_fill(_get(t, "padding", "fill", "padding_mode"))),
    "RandomHorizontalFlip": lambda t: ours.RandomHorizontalFlip(t.p),
    "RandomVerticalFlip": lambda t: ours.RandomVerticalFlip(t.p),
    "ColorJitter": _jitter,
    "Grayscale": lambda t: ours.Grayscale(t.num_output_channels),
    "RandomGrayscale": lambda t: ours.RandomGrayscale(t.p),
}
_ON_FLOATS = ("CenterCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "RandomResizedCrop", "Resize", "RandomCrop")


def _read(r: _Reading, item: object) -> bool:
    """True: understood."""
    if isinstance(item, Transform):
        r.steps.append(item)
        return True
    name = type(item).__name__
    if any(isinstance(step, ours.Normalize) for step in r.steps):
        return name == "ToPureTensor"
    if not (_is_conversion(r, item, name) or _is_translated(r, item, name)):
        return False
    r.known.append(name)
    return True


def _is_conversion(r: _Reading, item: Any, name: str) -> bool:
    """Steps that only change how torchvision holds the image."""
    if name in ("PILToTensor", "ToImage", "ToPureTensor", "Identity", "ToImageTensor"):
        r.is_tensor = r.is_tensor or name not in ("Identity", "ToPureTensor")
        return True
    is_scaled = name in ("ToTensor", "ConvertImageDtype", "ConvertDtype") or name == "ToDtype" and getattr(item, "scale", False)
    dtype = str(getattr(item, "dtype", "float32")).removeprefix("torch.")
    if is_scaled and dtype == "float32":
        r.is_tensor = r.is_float = True
        return True
    return is_scaled and dtype == "uint8" and not r.is_float


def _is_translated(r: _Reading, item: Any, name: str) -> bool:
    if name == "Normalize" and r.is_float:
        r.steps.append(ours.Normalize(item.mean, item.std))
        return True
    if name not in _KNOWN or r.is_float and name not in _ON_FLOATS:
        return False
    try:
        r.steps.append(_KNOWN[name](item))
    except (Error, AttributeError, TypeError):  # parameters that only torchvision has
        return False
    return True


# ---- the rest


class Foreign:
    """A transform of torchvision's as a function on arrays."""

    def __init__(self, steps: list[Any], is_tensor: bool) -> None:
        self.steps, self.is_tensor = steps, is_tensor
        self.__qualname__ = "+".join(type(step).__name__ for step in steps)

    def __call__(self, image: np.ndarray[Any, Any]) -> Any:
        value = _tensor(image) if self.is_tensor else _pillow(image)
        for step in self.steps:
            value = step(value)
        return value


def _tensor(image: np.ndarray[Any, Any]) -> Any:
    import torch

    return torch.from_numpy(image.transpose(2, 0, 1).copy())


def _pillow(image: np.ndarray[Any, Any]) -> Any:
    from PIL import Image

    return Image.fromarray(image)


def _as_function(r: _Reading, item: object) -> None:
    if not callable(item):
        raise UsageError(f"transforms= holds {item!r}, which is neither a transform nor a function")
    if type(item).__module__.split(".")[0] == "albumentations":
        r.steps.append(Map(item))
    else:
        r.steps.append(Map(Foreign([item], r.is_tensor)))
    r.functions.append(type(item).__name__)


def _with_tail(items: list[object], first_unknown: int) -> tuple[list[Transform], str | None]:
    r = _Reading()
    for i, item in enumerate(items[:first_unknown]):
        before = _Reading(list(r.steps), list(r.known), list(r.functions), r.is_tensor, r.is_float)
        if not _read(r, item):
            _as_function(r, item)
        if r.is_float:
            if any(isinstance(step, Transform) for step in items[i:]):
                raise UsageError("transforms= mixes fullbore's transforms with torchvision's behind a ToTensor",
                                 remedy="use one kind after the conversion to floats")
            before.steps.append(Map(Foreign(list(items[i:]), before.is_tensor)))
            before.functions += [type(item).__name__ for item in items[i:]]
            _tell(before)
            return before.steps, "float32"
    raise AssertionError("there is a conversion to floats before the first unknown step")


def _tell(r: _Reading) -> None:
    if r.known:
        _logger.info("transforms: %s run in the engine", ", ".join(r.known))
    if r.functions:
        _logger.warning("transforms: %s run as Python functions, one at a time under the interpreter's lock, and draw from torch's global "
                        "generator: not repeatable", ", ".join(r.functions))
