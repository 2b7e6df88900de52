"""Functions of the user's inside the engine: how they are called, what they may give back, what is said when they fail."""

from __future__ import annotations

import copy
import inspect
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _fullbore
from .errors import Error, UsageError
from .transforms import Map

Label = tuple[str, str, int]  # name, dtype, numbers per sample or 0
_OWN = os.path.dirname(__file__)


class ResultError(Error, TypeError):
    """A function returned something that is not an image."""


class _Source:
    """What numpy.random.Generator wants of a bit generator."""

    def __init__(self) -> None:
        self.capsule = _fullbore.random_new()
        self.lock = threading.Lock()


class _Randoms:
    """Generators that can be started anywhere; one per call under way."""

    def __init__(self) -> None:
        self._free: list[tuple[Any, np.random.Generator]] = []

    def take(self, a: int, b: int) -> tuple[Any, np.random.Generator]:
        """One at the start of the stream (a, b)."""
        try:
            pair = self._free.pop()
        except IndexError:
            source = _Source()
            pair = source.capsule, np.random.Generator(source)  # type: ignore[arg-type]
        _fullbore.random_start(pair[0], a, b)
        return pair

    def give(self, pair: tuple[Any, np.random.Generator]) -> None:
        """Back."""
        self._free.append(pair)


class Step:
    """One map step, as the engine calls it."""

    def __init__(self, step: Map) -> None:
        self._title = step.title
        self._function, self._arguments = _adapt(step.function, step.title)
        self._randoms = _Randoms()
        self._labels: Sequence[Label] = ()

    @property
    def wants_labels(self) -> bool:
        """Does the function look at labels?"""
        return self._arguments > 1

    def bind(self, labels: Sequence[Label]) -> None:
        """The labels of the loader, before the first call."""
        self._labels = labels

    def __call__(self, pixels: Any, labels: tuple[bytes, ...], a: int, b: int) -> tuple[Any, Any]:
        image = np.asarray(pixels)
        if self._arguments == 1:
            answer = self._function(image)
        elif self._arguments == 2:
            answer = self._function(image, self._shown(labels))
        else:
            pair = self._randoms.take(a, b)
            try:
                answer = self._function(image, self._shown(labels), pair[1])
            finally:
                self._randoms.give(pair)
        changed = None
        if type(answer) is tuple and len(answer) == 2:
            answer, label = answer
            changed = self._kept(label)
        if type(answer) is np.ndarray and answer.dtype == np.uint8 and answer.ndim == 3 and answer.shape[2] == 3:
            return answer if answer.flags.c_contiguous else np.ascontiguousarray(answer), changed
        return self._image(answer), changed

    # ---- labels

    def _shown(self, labels: tuple[bytes, ...]) -> Any:
        values = {name: _value(raw, dtype, width) for raw, (name, dtype, width) in zip(labels, self._labels, strict=True)}
        return values if len(values) > 1 else next(iter(values.values()), None)

    def _kept(self, label: Any) -> tuple[bytes | None, ...] | None:
        if label is None:
            return None
        given = label if isinstance(label, dict) else {self._labels[0][0]: label} if len(self._labels) == 1 else None
        if given is None or not given.keys() <= {name for name, _, _ in self._labels}:
            names = ", ".join(repr(name) for name, _, _ in self._labels) or "none"
            raise self._wrong(f"returned the label {label!r}, but the labels are {names}", "return a dict of those that change")
        return tuple(self._raw(given[name], name, dtype, width) if name in given else None for name, dtype, width in self._labels)

    def _raw(self, value: Any, name: str, dtype: str, width: int) -> bytes:
        try:
            array = np.asarray(value, dtype=dtype)
        except (TypeError, ValueError) as error:
            raise self._wrong(f"returned {value!r} as the label {name!r}, which is {dtype}") from error
        if array.shape != ((width,) if width else ()):
            raise self._wrong(f"returned a label {name!r} of the shape {array.shape}, not {(width,) if width else ()}")
        return array.tobytes()

    # ---- images

    def _image(self, answer: Any) -> Any:
        array = self._array(answer)
        if array.ndim != 3 or array.shape[2] != 3:
            raise self._wrong(f"returned an array of the shape {array.shape}, not (height, width, 3)",
                              "grey images: numpy.repeat(image[..., None], 3, axis=2)" if array.ndim == 2 else "")
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        if array.dtype not in (np.uint8, np.float32):
            raise self._wrong(f"returned an array of {array.dtype}, not uint8", "image.clip(0, 255).astype('uint8')")
        return np.ascontiguousarray(array)

    def _array(self, answer: Any) -> Any:
        if isinstance(answer, np.ndarray):
            return answer
        if hasattr(answer, "getbands") and hasattr(answer, "convert"):  # Pillow's
            return np.asarray(answer.convert("RGB"))
        if hasattr(answer, "detach") and hasattr(answer, "permute"):  # torch's: channels first
            array = answer.detach().cpu()
            return (array.permute(1, 2, 0) if array.ndim == 3 and array.shape[0] == 3 else array).numpy()
        raise self._wrong(f"returned {'nothing' if answer is None else type(answer).__qualname__}, not an image",
                          "end it with: return image" if answer is None else "an image is a numpy array, height x width x 3, uint8")

    def _wrong(self, cause: str, remedy: str = "") -> ResultError:
        return ResultError(f"{self._title} {cause}", stage="map", remedy=remedy)


def _value(raw: bytes, dtype: str, width: int) -> Any:
    array: np.ndarray[Any, Any] = np.frombuffer(raw, dtype)
    return array.copy() if width else array[0].item()


def _adapt(function: Callable[..., Any], title: str) -> tuple[Callable[..., Any], int]:
    """The function, and how many of (image, label, rng) it takes."""
    if type(function).__module__.split(".")[0] == "albumentations":
        return _Albumentations(function), 3
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin that does not say
        return function, 1
    for count in (3, 2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        required = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return function, _wanted(required, count)
    raise UsageError(f"Map: {title} takes {signature}, which cannot be called with (image), (image, label) or (image, label, rng)",
                     stage="transform")


def _wanted(positional: list[inspect.Parameter], most: int) -> int:
    """Further arguments with defaults are the function's own, unless they are called label and rng: ``blur(image, radius=3)``."""
    count = 1
    for parameter, name in zip(positional[1:most], ("label", "rng"), strict=False):
        if parameter.default is parameter.empty or parameter.name in (name, name + "s"):
            count += 1
        else:
            break
    return max(count, 1)


class _Albumentations:
    """``transform(image=image)["image"]``, on a copy of its own per call under way, seeded by the sample."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform
        self._free: list[Any] = []

    def __call__(self, image: Any, label: Any, rng: np.random.Generator) -> Any:
        try:
            transform = self._free.pop()
        except IndexError:
            transform = copy.deepcopy(self._transform)
        try:
            if hasattr(transform, "set_random_seed"):
                transform.set_random_seed(int(rng.integers(2**31)))
            return transform(image=image)["image"]
        finally:
            self._free.append(transform)


def describe(error: BaseException) -> tuple[str, str]:
    """(cause, remedy) in one line each: ``ValueError: too dark (in augment, train.py line 12)``."""
    if isinstance(error, ResultError):
        return error.cause, error.remedy
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.dirname(f.filename) != _OWN]
    where = f" (in {frames[-1].name}, {os.path.basename(frames[-1].filename)} line {frames[-1].lineno})" if frames else ""
    text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines() or [type(error).__name__]
    return text[0] + where, ""
