"""Batches on an accelerator: which one, and what is left to do there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ._arguments import steps_of
from .batch import Batch
from .errors import UsageError
from .transforms import Map

_NAMES = re.compile(r"cuda(:\d{1,4})?|emulated(:.*)?")
_FLOATS = ("float32", "float16", "bfloat16")


def device_name(device: Any) -> str | None:
    """``device=`` as the engine takes it: "cuda:1", "emulated:12GB/s,20us", or None for main memory.

    >>> device_name("cuda:1"), device_name(1), device_name("cpu"), device_name(None)
    ('cuda:1', 'cuda:1', None, None)
    """
    if device is None:
        return None
    if isinstance(device, int) and not isinstance(device, bool) and 0 <= device < 1024:  # as torch takes numbers
        return f"cuda:{device}"
    name = device if isinstance(device, str) else str(device) if type(device).__module__ == "torch" else ""
    if name == "cpu":
        return None
    if not _NAMES.fullmatch(name):
        raise UsageError(f"device= is {device!r}, not a device", remedy='use "cuda", "cuda:N", or "emulated:12GB/s,20us"')
    return name


def device_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's options for ``pin_memory=`` and ``device=``."""
    pins, name = arguments["pin_memory"], device_name(arguments["device"])
    if not isinstance(pins, bool):
        raise UsageError(f"pin_memory= is {pins!r}, not True or False")
    if name is not None and name.startswith("cuda") and arguments["framework"] == "numpy":
        raise UsageError('numpy has no arrays on a device, so framework="numpy" does not go with device="cuda"',
                         remedy='leave framework= out, or use device=None')
    return {**({"pin_memory": 1} if pins else {}), **({"device": name.encode()} if name else {})}


class Finish:
    """What ``device_normalize=True`` leaves to the device: bytes come over the bus, and become floats there, by torch.

    The same numbers as ``Normalize`` gives: ``(x / 255 - mean) / std`` in float32, then rounded to ``dtype``.
    """

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], dtype: str, layout: str) -> None:
        self._mean, self._std, self._dtype, self._layout = mean, std, dtype, layout
        self._constants: dict[Any, tuple[Any, Any, Any]] = {}

    def __call__(self, batch: Batch) -> Batch:
        import torch

        # pictures are the only fields of four dimensions: masks have three, labels at most two
        return batch._like(self._normalised(array, torch) if array.dim() == 4 else array for array in batch)

    def _normalised(self, image: Any, torch: Any) -> Any:
        scale, mean, std = self._on(image.device, torch)
        # by tensors: torch multiplies by the reciprocal of a plain number on CUDA, which rounds differently
        return image.to(torch.float32).div_(scale).sub_(mean).div_(std).to(getattr(torch, self._dtype))

    def _on(self, device: Any, torch: Any) -> tuple[Any, Any, Any]:
        if device not in self._constants:
            shape = (1, 1, 1, 3) if self._layout == "NHWC" else (1, 3, 1, 1)
            mean, std = (torch.tensor(numbers, dtype=torch.float32, device=device).view(shape) for numbers in (self._mean, self._std))
            self._constants[device] = torch.tensor(255.0, device=device), mean, std
        return self._constants[device]


def split_for_device(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Finish | None]:
    """With ``device_normalize=True``: the arguments for the engine, which then ends with bytes, and what the device does."""
    a, wanted = dict(arguments), arguments["device_normalize"]
    if not isinstance(wanted, bool):
        raise UsageError(f"device_normalize= is {wanted!r}, not True or False")
    if not wanted:
        return a, None
    if device_name(a["device"]) is None:
        raise UsageError("device_normalize=True needs a device", remedy='say device="cuda", or leave it out')
    if a["framework"] == "numpy":
        raise UsageError('device_normalize=True works with torch, not with framework="numpy"', remedy="leave framework= out")
    steps, natural = steps_of(a["transforms"])
    left = steps[-1]._on_device() if steps else None
    dtype = str(a["dtype"] or natural or ("float32" if left else "uint8")).removeprefix("torch.")
    if any(step._on_device() for step in steps[:-1]) or natural and steps and isinstance(steps[-1], Map):
        raise UsageError("device_normalize=True, but Normalize is not the last transform", remedy="move it to the end")
    if dtype not in _FLOATS:
        raise UsageError(f"device_normalize=True, but dtype is {dtype}: there is nothing to normalise",
                         remedy="end transforms= with Normalize, or say dtype=\"float32\"")
    mean, std = left or ((0.0,) * 3, (1.0,) * 3)
    a |= {"transforms": steps[:-1] if left else steps, "dtype": "uint8"}
    return a, Finish(mean, std, dtype, a["layout"])
