"""fullbore feeds training loops.

>>> import fullbore as fb
>>> loader = fb.Loader("photos", batch_size=4, shuffle=True, seed=0, framework="numpy",
...                    transforms=[fb.RandomResizedCrop(32), fb.RandomHorizontalFlip(), fb.Normalize.imagenet()])
>>> for images, labels in loader:
...     pass                       # train(images, labels)
>>> images.shape
(4, 3, 32, 32)
"""

from __future__ import annotations

from . import ops
from ._buckets import LengthBuckets
from ._explain import Remedy, Verdict
from ._fullbore import version as _version
from ._monitor import Monitor, monitor
from ._replay import Replay, replay
from ._talk import listen as _listen
from .batch import Batch
from .build import BuildReport, build
from .collate import Padded, Ragged, RaggedRows
from .dataset import Dataset
from .errors import BudgetError, Error, SampleError
from .loader import Loader
from .transforms import (
    CenterCrop,
    ColorJitter,
    CropBox,
    CropOrPad,
    Grayscale,
    LogMel,
    Map,
    Mono,
    Normalize,
    Pad,
    RandomCrop,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    SampleInstances,
    SpecAugment,
    Transform,
)

_listen()
__version__ = _version()

__all__ = [
    "Batch",
    "BudgetError",
    "BuildReport",
    "CenterCrop",
    "ColorJitter",
    "CropBox",
    "CropOrPad",
    "Dataset",
    "Error",
    "Grayscale",
    "LengthBuckets",
    "Loader",
    "LogMel",
    "Map",
    "Monitor",
    "Mono",
    "Normalize",
    "Pad",
    "Padded",
    "Ragged",
    "RaggedRows",
    "RandomCrop",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Remedy",
    "Replay",
    "Resize",
    "SampleError",
    "SampleInstances",
    "SpecAugment",
    "Transform",
    "Verdict",
    "__version__",
    "build",
    "monitor",
    "ops",
    "replay",
]
