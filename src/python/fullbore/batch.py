"""What a loader yields."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np

from .collate import gathered
from .errors import Error, UsageError

if TYPE_CHECKING:
    from ._fullbore import _Array, _Batch

Framework = Literal["auto", "torch", "numpy"]
Converter = Callable[["_Array"], Any]
_LEGACY_STREAM = 1  # CUDA's default stream
_DLPACK_CPU = 1


class Draws(Sequence[dict[str, Any]]):
    """The random parameters of each sample of a batch, made when asked for."""

    def __init__(self, core: _Batch) -> None:
        self._core = core

    def __len__(self) -> int:
        return len(self._core)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[i] for i in range(len(self))[place]]
        draw: dict[str, Any] = json.loads(self._core.draw(range(len(self))[place]))
        return draw


class Batch(tuple[Any, ...]):
    """The arrays of a batch, ``images, labels = batch``, in the engine's own memory: never copied, and never changed while anything refers
    to it. Beside the arrays it knows where they came from.
    """

    _origin: _Batch | None = None

    @classmethod
    def _of(cls, core: _Batch, convert: Converter) -> Batch:
        batch = cls(gathered(core.arrays(), convert))
        batch._origin = core
        return batch

    def _like(self, arrays: Iterable[Any]) -> Batch:
        """Other arrays of the same samples."""
        batch = type(self)(arrays)
        batch._origin = self._origin
        return batch

    @property
    def _core(self) -> _Batch:
        if self._origin is None:
            raise Error("this batch was assembled from arrays by other code, so it does not know its samples", stage="batch",
                        remedy="ask the batch that the loader yielded; its own .to() and .pin_memory() keep this knowledge")
        return self._origin

    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: Any) -> Any:
        """The array of that number or name: ``batch[1]``, ``batch["mask"]``.

        >>> loader = Loader("photos", batch_size=4, transforms=[Resize((8, 8))], framework="numpy")
        >>> next(iter(loader))["label"].shape
        (4,)
        """
        if not isinstance(key, str):
            return super().__getitem__(key)
        names = self.names
        if key not in names:
            raise KeyError(f"there is no {key!r} in this batch; there is {', '.join(names)}")
        return super().__getitem__(names.index(key))

    # ---- torch's habits

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """Every tensor moved or converted: ``batch.to("cuda", non_blocking=True)``."""
        moved = self._like(array.to(*args, **kwargs) for array in self._tensors("to"))
        for device in {array.device for array in moved if array.device.type == "cuda"}:
            self._use_now(device.index)
        return moved

    def pin_memory(self, device: Any = None) -> Batch:
        """In page-locked memory: itself, if it is there (``pin_memory=True``), else a copy. Needs a driver that locks pages (CUDA's)."""
        if self._origin is not None and self._origin.memory()[0] == "pinned":
            return self
        tensors = self._tensors("pin_memory")
        try:
            return self._like(array.pin_memory() if device is None else array.pin_memory(device) for array in tensors)
        except (RuntimeError, NotImplementedError) as error:  # no CUDA
            raise Error(f"there is no page-locked memory here: {str(error).splitlines()[0]}", stage="batch",
                        remedy="batches in ordinary memory work everywhere; page-locked ones need a CUDA driver") from error

    def record_stream(self, stream: Any) -> None:
        """Says that a CUDA stream other than the current one uses the batch: its memory stays as it is until the stream got that far.

        As ``torch.Tensor.record_stream``, for all arrays. ``stream`` is a ``torch.cuda.Stream`` or its number.
        """
        self._core.use(int(getattr(stream, "cuda_stream", stream)) or _LEGACY_STREAM)

    def _use_now(self, device: int | None = None) -> None:
        """Whatever torch has queued on its current stream may still read the batch's page-locked memory when the batch is gone."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if self._origin is None or cuda is None or not cuda.is_initialized():
            return
        memory, own = self._origin.memory()
        if memory != "pinned":
            return
        stream = cuda.current_stream(own if device is None else device)
        if device is None or device == own:
            self._origin.use(int(stream.cuda_stream) or _LEGACY_STREAM)
        else:  # an event of one device cannot be recorded on a stream of another
            stream.synchronize()

    def _tensors(self, what: str) -> tuple[Any, ...]:
        if not all(hasattr(array, what) for array in self):
            raise Error(f"{what}() is for torch tensors, and these are numpy arrays", stage="batch",
                        remedy='import torch, or say framework="torch"')
        return tuple(self)

    def as_dict(self, **rename: str) -> dict[str, Any]:
        """The arrays by name; ``as_dict(image="pixel_values", label="labels")`` gives them other names.

        >>> loader = Loader("photos", batch_size=4, transforms=[Resize((8, 8))], framework="numpy")
        >>> sorted(next(iter(loader)).as_dict(image="pixel_values", label="labels"))
        ['labels', 'pixel_values']
        """
        unknown = rename.keys() - set(self.names)
        if unknown:
            raise UsageError(f"as_dict: there is no {sorted(unknown)[0]!r} in this batch", remedy=f"there is {', '.join(self.names)}")
        return {rename.get(name, name): array for name, array in zip(self.names, self, strict=True)}

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)  # what goes to another process is the arrays

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each array: ``("image", "label")``, or the manifest's columns."""
        arrays = self._core.arrays()
        return tuple(array.name for array in arrays[:len(self)])

    @cached_property
    def sample_keys(self) -> list[str]:
        """Each sample's path, relative to the source."""
        return self._core.keys()

    @cached_property
    def samples(self) -> list[int]:
        """Each sample's index in the data set's full catalog."""
        return self._core.samples()

    @cached_property
    def repeats(self) -> list[bool]:
        """True for samples that only fill up a last batch with fewer samples than ranks."""
        return self._core.repeats()

    @property
    def draws(self) -> Draws:
        """What was drawn at random for each sample: ``batch.draws[0]["top"]`` and so on, in pixels of the source image."""
        return Draws(self._core)

    @property
    def state(self) -> dict[str, Any]:
        """The loader's state after this batch: what ``load_state_dict`` takes to go on with the next one."""
        state: dict[str, Any] = json.loads(self._core.state())
        return state


@functools.cache
def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise Error("numpy has no bfloat16", stage="batch",
                    remedy='install ml_dtypes, import torch, or use dtype="float16" or "float32"') from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def to_numpy(array: _Array) -> Any:
    """A numpy array over the same memory."""
    result = np.asarray(array)
    return result.view(_bfloat16()) if array.dtype == "bfloat16" else result


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise UsageError('framework="torch", but torch is not installed', remedy='install torch, or use framework="numpy"') from None
    return torch


def _to_torch(from_dlpack: Callable[[Any], Any]) -> Converter:
    """A torch tensor over the same memory. Given a capsule, from_dlpack asks no questions: 50 microseconds less for a batch that finds the
    processor's caches cold. Memory of a device is the exception: torch has to say on which stream it will be used.
    """

    def convert(array: _Array) -> Any:
        return from_dlpack(array if array.__dlpack_device__()[0] != _DLPACK_CPU else array.__dlpack__())

    return convert


def converter(framework: Framework) -> Converter:
    """How to show an array of a batch: as a torch tensor if torch is wanted, or loaded and not unwanted; else as a numpy array."""
    if framework == "torch":
        return _to_torch(_torch().from_dlpack)
    from_dlpack = getattr(sys.modules.get("torch"), "from_dlpack", None)  # None: half imported
    return _to_torch(from_dlpack) if framework == "auto" and from_dlpack is not None else to_numpy
