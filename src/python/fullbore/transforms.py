"""What happens to an image between its file and the batch: torchvision's names, parameters and defaults, Pillow's pixels.

A transform is a small immutable description; the engine runs it. ``spec`` is how the engine, the command and the C library are told:

>>> RandomResizedCrop(224).spec
'random_resized_crop size=224,224 scale=0.08,1.0 ratio=0.75,1.3333333333333333 interpolation=bilinear'
>>> Normalize.imagenet()
Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from .errors import UsageError

__all__ = [
    "CenterCrop", "ColorJitter", "CropBox", "CropOrPad", "Grayscale", "LogMel", "Map", "Mono", "Normalize", "Pad", "RandomCrop",
    "RandomGrayscale", "RandomHorizontalFlip", "RandomResizedCrop", "RandomVerticalFlip", "Resize", "SampleInstances", "SpecAugment",
    "Transform",
]

Size = int | Sequence[int]
PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
MAX_SIDE = 65500
_FILTERS: dict[int | str, str] = {"bilinear": "bilinear", "bicubic": "bicubic", "nearest": "nearest", 2: "bilinear", 3: "bicubic",
                                0: "nearest"}  # with Pillow's numbers


@dataclass(frozen=True)
class Transform:
    """What all transforms are."""

    name: ClassVar[str]

    @property
    def spec(self) -> str:
        """The transform as the engine reads it: ``name key=value key=value,value``."""
        return " ".join([self.name, *(f"{key}={_text(value)}" for key, value in self._options().items() if value is not None)])

    def _options(self) -> dict[str, Any]:
        return {}

    def _on_device(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:  # mean and std, if a device can do it to whole batches
        return None

    def _set(self, **values: Any) -> None:  # what a frozen dataclass does to itself
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def _wrong(self, cause: str, remedy: str = "") -> UsageError:
        return UsageError(f"{type(self).__name__}: {cause}", stage="transform", remedy=remedy)

    def _whole(self, name: str, value: object, low: int, high: int = MAX_SIDE) -> int:
        number = _as_int(value)
        if number is None or not low <= number <= high:
            raise self._wrong(f"{name} is {value!r}, not a whole number from {low} to {high}")
        return number

    def _real(self, name: str, value: object, low: float, high: float = math.inf) -> float:
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not (low <= number <= high and math.isfinite(number)):
            raise self._wrong(f"{name} is {value!r}, not a number " + (f"from {low} up" if high == math.inf else f"from {low} to {high}"))
        return number

    def _pair(self, name: str, value: object, low: float, high: float = math.inf) -> tuple[float, float]:
        numbers = [self._real(name, x, low, high) for x in self._items(name, value)]
        if len(numbers) != 2 or numbers[0] > numbers[1]:
            raise self._wrong(f"{name} is {value!r}, not (lowest, highest)")
        return numbers[0], numbers[1]

    def _items(self, name: str, value: object) -> list[object]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise self._wrong(f"{name} is {value!r}, not a sequence")
        return list(value)

    def _square(self, size: object) -> tuple[int, int]:
        """(height, width); one number is both."""
        if _as_int(size) is not None:
            return (self._whole("size", size, 1),) * 2
        numbers = [self._whole("size", x, 1) for x in self._items("size", size)]
        if len(numbers) not in (1, 2):
            raise self._wrong(f"size is {size!r}, not one number or (height, width)")
        return numbers[0], numbers[-1]

    def _borders(self, padding: object) -> tuple[int, ...]:
        """All sides; (left and right, top and bottom); or (left, top, right, bottom)."""
        if _as_int(padding) is not None:
            return (self._whole("padding", padding, 0),)
        numbers = tuple(self._whole("padding", x, 0) for x in self._items("padding", padding))
        if len(numbers) not in (1, 2, 4):
            raise self._wrong(f"padding is {padding!r}, not 1, 2 or 4 numbers")
        return numbers

    def _colour(self, fill: object) -> tuple[int, ...]:
        """One number for all channels, or one for each of red, green and blue."""
        if isinstance(fill, float) and fill.is_integer():
            fill = int(fill)
        if _as_int(fill) is not None:
            return (self._whole("fill", fill, 0, 255),)
        numbers = tuple(self._whole("fill", x, 0, 255) for x in self._items("fill", fill))
        if len(numbers) not in (1, 3):
            raise self._wrong(f"fill is {fill!r}, not one number or (red, green, blue)")
        return numbers

    def _labels(self, what: str, names: object) -> tuple[str, ...]:
        items = self._items(what, names)
        for name in items:
            if not isinstance(name, str) or not re.fullmatch(r"[^\s,;:=]+", name):
                raise self._wrong(f"{what} holds {name!r}, not the name of a label", "names must not contain spaces or any of , ; : =")
        return tuple(str(name) for name in items)

    def _mode(self, padding_mode: object) -> str:
        if padding_mode not in get_args(PaddingMode):
            raise self._wrong(f"padding_mode is {padding_mode!r}, not one of {', '.join(get_args(PaddingMode))}")
        return str(padding_mode)

    def _filter(self, interpolation: object, antialias: object) -> str:
        if antialias not in (True, None):
            raise self._wrong("antialias=False is not offered: it aliases, and differs from Pillow's pixels", "leave antialias out")
        value = getattr(interpolation, "value", interpolation)  # Pillow's and torchvision's enums
        if not isinstance(value, (int, str)) or value not in _FILTERS:
            raise self._wrong(f"interpolation is {interpolation!r}, not 'bilinear', 'bicubic' or 'nearest'")
        return _FILTERS[value]


def _as_int(value: object) -> int | None:
    try:
        return None if isinstance(value, bool) else value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        return None


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_text(x) for x in value)
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value if isinstance(value, str) else repr(value)


@dataclass(frozen=True, init=False)
class RandomResizedCrop(Transform):
    """A random part of the image, resized: ``scale`` is its share of the area, ``ratio`` its width by its height.

    ``draft=True`` lets large JPEGs be decoded at 1/2, 1/4 or 1/8 of their size first, as Pillow's ``draft()`` does: other pixels; see
    ``docs/transforms.md`` for when it pays.

    >>> RandomResizedCrop((192, 256), scale=(0.5, 1), interpolation="bicubic").size
    (192, 256)
    """

    name: ClassVar[str] = "random_resized_crop"
    size: tuple[int, int]
    scale: tuple[float, float]
    ratio: tuple[float, float]
    interpolation: str
    draft: bool

    def __init__(self, size: Size, scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3 / 4, 4 / 3),
                 interpolation: Any = "bilinear", antialias: bool | None = True, draft: bool = False) -> None:
        self._set(size=self._square(size), scale=self._pair("scale", scale, 0.0), ratio=self._pair("ratio", ratio, 0.0),
                  interpolation=self._filter(interpolation, antialias), draft=bool(draft))
        if self.scale[0] <= 0 or self.ratio[0] <= 0:
            raise self._wrong("scale and ratio are larger than 0")

    def _options(self) -> dict[str, Any]:
        return {"size": self.size, "scale": self.scale, "ratio": self.ratio, "interpolation": self.interpolation,
                "draft": 1 if self.draft else None}


@dataclass(frozen=True, init=False)
class Resize(Transform):
    """To (height, width); one number is the shorter side, the other keeps the ratio, ``max_size`` limits the longer one.

    ``draft=True`` lets large JPEGs be decoded at 1/2, 1/4 or 1/8 of their size first, as Pillow's ``draft()`` does: other pixels; see
    ``docs/transforms.md`` for when it pays.

    >>> Resize(256).spec
    'resize size=256 interpolation=bilinear'
    """

    name: ClassVar[str] = "resize"
    size: tuple[int, ...]
    interpolation: str
    max_size: int | None
    draft: bool

    def __init__(self, size: Size, interpolation: Any = "bilinear", max_size: int | None = None, antialias: bool | None = True,
                 draft: bool = False) -> None:
        is_short_side = _as_int(size) is not None or len(self._items("size", size)) == 1
        sides = self._square(size)
        self._set(size=sides[:1] if is_short_side else sides, interpolation=self._filter(interpolation, antialias),
                  max_size=None if max_size is None else self._whole("max_size", max_size, 1), draft=bool(draft))
        if self.max_size is not None and (not is_short_side or self.max_size <= self.size[0]):
            raise self._wrong(f"max_size={max_size} goes with one number for size, and is larger than it")

    def _options(self) -> dict[str, Any]:
        return {"size": self.size, "max_size": self.max_size, "interpolation": self.interpolation, "draft": 1 if self.draft else None}


@dataclass(frozen=True, init=False)
class CenterCrop(Transform):
    """The middle of the image; an image that is smaller gets black borders.

    >>> CenterCrop(224).spec
    'center_crop size=224,224'
    """

    name: ClassVar[str] = "center_crop"
    size: tuple[int, int]

    def __init__(self, size: Size) -> None:
        self._set(size=self._square(size))

    def _options(self) -> dict[str, Any]:
        return {"size": self.size}


@dataclass(frozen=True, init=False)
class RandomCrop(Transform):
    """A random part of that size, after ``padding`` and, with ``pad_if_needed``, as much more as a smaller image needs.

    >>> RandomCrop(32, padding=4).spec
    'random_crop size=32,32 padding=4 pad_if_needed=false fill=0 padding_mode=constant'

    ``mask_fill`` is what borders of masks hold: 255, say, for pixels that a loss ignores.
    """

    name: ClassVar[str] = "random_crop"
    size: tuple[int, int]
    padding: tuple[int, ...] | None
    pad_if_needed: bool
    fill: tuple[int, ...]
    padding_mode: str
    mask_fill: int

    def __init__(self, size: Size, padding: Size | None = None, pad_if_needed: bool = False, fill: Size = 0,
                 padding_mode: PaddingMode = "constant", mask_fill: int = 0) -> None:
        self._set(size=self._square(size), padding=None if padding is None else self._borders(padding), pad_if_needed=bool(pad_if_needed),
                  fill=self._colour(fill), padding_mode=self._mode(padding_mode), mask_fill=self._whole("mask_fill", mask_fill, 0, 255))

    def _options(self) -> dict[str, Any]:
        return {"size": self.size, "padding": self.padding, "pad_if_needed": self.pad_if_needed, "fill": self.fill,
                "padding_mode": self.padding_mode, "mask_fill": self.mask_fill or None}


@dataclass(frozen=True, init=False)
class Pad(Transform):
    """Borders: one number for all sides, (left and right, top and bottom), or (left, top, right, bottom).

    ``Pad()`` without borders is for ``collate=``: samples of different lengths are padded to the longest of their batch.

    >>> Pad((1, 2), fill=(255, 0, 0)).spec
    'pad padding=1,2 fill=255,0,0 padding_mode=constant'
    """

    name: ClassVar[str] = "pad"
    padding: tuple[int, ...]
    fill: tuple[int, ...]
    padding_mode: str
    mask_fill: int

    def __init__(self, padding: Size | None = None, fill: Size = 0, padding_mode: PaddingMode = "constant", mask_fill: int = 0) -> None:
        self._set(padding=() if padding is None else self._borders(padding), fill=self._colour(fill), padding_mode=self._mode(padding_mode),
                  mask_fill=self._whole("mask_fill", mask_fill, 0, 255))

    def _options(self) -> dict[str, Any]:
        if not self.padding:
            raise self._wrong("as a transform it needs the widths of borders", "Pad(4); Pad() without any is for collate=")
        return {"padding": self.padding, "fill": self.fill, "padding_mode": self.padding_mode, "mask_fill": self.mask_fill or None}


@dataclass(frozen=True, init=False)
class CropOrPad(Transform):
    """Clips of one length: longer recordings are cut, shorter ones followed by silence. Of a large file only the clip is read.
    ``batch.draws[i]`` says what was used: ``start`` and ``samples``.

    >>> CropOrPad(24000, random=True).spec
    'crop_or_pad samples=24000 random=1'
    """

    name: ClassVar[str] = "crop_or_pad"
    samples: int
    random: bool

    def __init__(self, samples: int, random: bool = False) -> None:
        self._set(samples=self._whole("samples", samples, 1, 2**40), random=bool(random))

    def _options(self) -> dict[str, Any]:
        return {"samples": self.samples, "random": int(self.random)}


@dataclass(frozen=True)
class Mono(Transform):
    """All channels of a recording mixed into one: their mean."""

    name: ClassVar[str] = "mono"


@dataclass(frozen=True, init=False)
class LogMel(Transform):
    """Recordings of one length (``CropOrPad`` before it) as log-mel spectrograms of shape (mels, frames).

    Parameters are named as librosa and torchaudio name them; the defaults are librosa's ``power_to_db(melspectrogram(...))``. For
    torchaudio's ``MelSpectrogram`` use ``mel_scale="htk", norm=None, pad_mode="reflect", log=None``. ``sample_rate`` None: that of the
    first recording; one of another rate is a bad sample. ``ref="max"``: 0 dB is the recording's loudest. ``exact=False`` transforms in
    float32, as torch does: about twice as fast. A ``Normalize`` behind it is for the spectrogram: one number, or one per mel.

    >>> LogMel(n_mels=40, top_db=None).spec.split()[:6]
    ['log_mel', 'n_fft=1024', 'hop_length=256', 'n_mels=40', 'f_min=0.0', 'window=hann']
    """

    name: ClassVar[str] = "log_mel"
    options: tuple[tuple[str, Any], ...]

    def __init__(
        self,
        sample_rate: int | None = None,
        n_fft: int = 1024,
        hop_length: int = 256,
        win_length: int | None = None,
        n_mels: int = 64,
        f_min: float = 0.0,
        f_max: float | None = None,
        *,
        window: Literal["hann", "hamming", "ones"] = "hann",
        mel_scale: Literal["slaney", "htk"] = "slaney",
        norm: Literal["slaney"] | None = "slaney",
        center: bool = True,
        pad_mode: Literal["constant", "reflect"] = "constant",
        power: float = 2.0,
        log: Literal["db", "ln", "log10"] | None = "db",
        amin: float = 1e-10,
        offset: float = 0.0,
        ref: float | Literal["max"] = 1.0,
        top_db: float | None = 80.0,
        exact: bool = True,
    ) -> None:
        options = {
            "sample_rate": None if sample_rate is None else self._whole("sample_rate", sample_rate, 1, 10**7),
            "n_fft": self._whole("n_fft", n_fft, 4, 65536),
            "hop_length": self._whole("hop_length", hop_length, 1, 10**6),
            "win_length": None if win_length is None else self._whole("win_length", win_length, 1, 65536),
            "n_mels": self._whole("n_mels", n_mels, 1, 4096),
            "f_min": self._real("f_min", f_min, 0),
            "f_max": None if f_max is None else self._real("f_max", f_max, 0),
            "window": self._one_of("window", window, ("hann", "hamming", "ones")),
            "mel_scale": self._one_of("mel_scale", mel_scale, ("slaney", "htk")),
            "norm": self._one_of("norm", norm or "none", ("slaney", "none")),
            "center": int(bool(center)),
            "pad_mode": self._one_of("pad_mode", pad_mode, ("constant", "reflect")),
            "power": self._whole("power", int(power) if power in (1, 2) else power, 1, 2),
            "log": self._one_of("log", log or "none", ("db", "ln", "log10", "none")),
            "amin": self._real("amin", amin, 0),
            "offset": self._real("offset", offset, 0),
            "ref": 0 if ref == "max" else self._real("ref", ref, 0),
            "top_db": 0 if top_db is None else self._real("top_db", top_db, 0),
            "exact": int(bool(exact)),
        }
        self._set(options=tuple(options.items()))

    def _one_of(self, name: str, value: object, words: tuple[str, ...]) -> str:
        if value not in words:
            raise self._wrong(f"{name} is {value!r}; it is one of {', '.join(words)}")
        return str(value)

    def _options(self) -> dict[str, Any]:
        return dict(self.options)


@dataclass(frozen=True, init=False)
class SpecAugment(Transform):
    """Bands of frequencies and stretches of time of a spectrogram are blanked. Named as torchaudio's.

    Of sound it stands behind ``LogMel``. Of arrays, such as rows that ``fullbore build`` wrote, it takes samples whose last two dimensions
    are mels and frames.

    Each band is 0 to ``freq_mask_param`` mels wide, each stretch 0 to ``time_mask_param`` frames long and no longer than ``p`` of all of
    them. ``fill="mean"`` puts the spectrogram's mean there.

    >>> SpecAugment(freq_mask_param=12, time_mask_param=20, n_time_masks=2).spec
    'spec_augment freq_mask_param=12 time_mask_param=20 n_freq_masks=1 n_time_masks=2 p=1.0 fill=0.0'
    """

    name: ClassVar[str] = "spec_augment"
    freq_mask_param: int
    time_mask_param: int
    n_freq_masks: int
    n_time_masks: int
    p: float
    fill: float | str

    def __init__(
        self,
        freq_mask_param: int,
        time_mask_param: int,
        n_freq_masks: int = 1,
        n_time_masks: int = 1,
        p: float = 1.0,
        fill: float | Literal["mean"] = 0.0,
    ) -> None:
        self._set(
            freq_mask_param=self._whole("freq_mask_param", freq_mask_param, 0, 10**6),
            time_mask_param=self._whole("time_mask_param", time_mask_param, 0, 10**9),
            n_freq_masks=self._whole("n_freq_masks", n_freq_masks, 0, 32),
            n_time_masks=self._whole("n_time_masks", n_time_masks, 0, 32),
            p=self._real("p", p, 0, 1),
            fill="mean" if fill == "mean" else self._real("fill", fill, -math.inf),
        )

    def _options(self) -> dict[str, Any]:
        masks = {k: getattr(self, k) for k in ("freq_mask_param", "time_mask_param", "n_freq_masks", "n_time_masks", "p")}
        return {**masks, "mean": 1} if self.fill == "mean" else {**masks, "fill": self.fill}


@dataclass(frozen=True, init=False)
class SampleInstances(Transform):
    """``count`` instances drawn from each bag, in the order of the file; only what holds them is read. A smaller bag repeats its own.

    >>> SampleInstances(512).spec
    'sample_instances count=512'
    """

    name: ClassVar[str] = "sample_instances"
    count: int

    def __init__(self, count: int) -> None:
        self._set(count=self._whole("count", count, 1, 10**9))

    def _options(self) -> dict[str, Any]:
        return {"count": self.count}


@dataclass(frozen=True, init=False)
class CropBox(Transform):
    """The part of the image that four labels say, in pixels: left, top, right, bottom. ``margin`` widens it on every side by that share of
    its own size.

    >>> CropBox("x0", "y0", "x1", "y1", margin=0.2).spec
    'crop_box labels=x0,y0,x1,y1 margin=0.2'
    """

    name: ClassVar[str] = "crop_box"
    labels: tuple[str, ...]
    margin: float

    def __init__(self, left: str, top: str, right: str, bottom: str, *, margin: float = 0.0) -> None:
        self._set(labels=self._labels("CropBox", (left, top, right, bottom)), margin=self._real("margin", margin, -0.49, 100.0))

    def _options(self) -> dict[str, Any]:
        return {"labels": self.labels, "margin": self.margin}


@dataclass(frozen=True, init=False)
class Map(Transform):
    """A function of yours in the middle of the transforms: ``fn(image)``, ``fn(image, label)`` or ``fn(image, label, rng)``.

    ``image`` is height x width x 3, uint8, RGB, and may be changed in place. ``label`` is the sample's number or vector, or a dict of them
    if there are several. ``rng`` is a ``numpy.random.Generator`` of this sample's own: the same in every run, with any number of threads.
    The function returns the image, or ``(image, label)``. Another size is fine if a later step fixes it, or ``size=(height, width)`` says
    what comes out.

    >>> def darker(image, label, rng):
    ...     return (image * rng.uniform(0.5, 1.0)).astype("uint8")
    >>> loader = Loader("photos", batch_size=4, transforms=[Resize((32, 32)), Map(darker), Normalize.imagenet()], framework="numpy")
    >>> next(iter(loader))[0].shape
    (4, 3, 32, 32)
    """

    name: ClassVar[str] = "map"
    function: Callable[..., Any]
    size: tuple[int, int] | None

    def __init__(self, function: Callable[..., Any], *, size: Size | None = None) -> None:
        if not callable(function):
            raise self._wrong(f"{function!r} is not a function")
        self._set(function=function, size=None if size is None else self._square(size))

    @property
    def title(self) -> str:
        """What messages and statistics call it."""
        name = getattr(self.function, "__qualname__", None) or type(self.function).__qualname__
        return re.sub(r"[^\w.<>-]", "_", str(name))[:90]

    def _options(self) -> dict[str, Any]:
        return {"name": self.title, "size": self.size}


@dataclass(frozen=True, init=False)
class _Chance(Transform):
    p: float

    def _options(self) -> dict[str, Any]:
        return {"p": self.p}


@dataclass(frozen=True, init=False)
class _Flip(_Chance):
    negate: tuple[str, ...]
    swap: tuple[tuple[str, str], ...]

    def __init__(self, p: float = 0.5, *, negate: str | Sequence[str] = (), swap: Sequence[Sequence[str]] = ()) -> None:
        pairs = [self._labels("swap", pair) for pair in self._items("swap", swap)]
        if any(len(pair) != 2 for pair in pairs):
            raise self._wrong(f"swap is {swap!r}, not pairs of labels", 'swap=(("left", "right"),)')
        self._set(p=self._real("p", p, 0.0, 1.0), negate=self._labels("negate", [negate] if isinstance(negate, str) else negate),
                  swap=tuple(pairs))

    def _options(self) -> dict[str, Any]:
        return {"p": self.p, "negate": self.negate or None, "swap": ",".join(f"{a}:{b}" for a, b in self.swap) or None}


@dataclass(frozen=True, init=False)
class RandomHorizontalFlip(_Flip):
    """Left and right swapped with probability ``p``. Labels that mean a side or a turn change with the picture: those named in ``negate``
    change their sign, those paired in ``swap`` their values; ``"pose[1]"`` is one number of a vector.

    >>> RandomHorizontalFlip(negate=("yaw", "roll"), swap=[("left_eye", "right_eye")]).spec
    'random_horizontal_flip p=0.5 negate=yaw,roll swap=left_eye:right_eye'
    """

    name: ClassVar[str] = "random_horizontal_flip"


@dataclass(frozen=True, init=False)
class RandomVerticalFlip(_Flip):
    """Top and bottom swapped with probability ``p``; ``negate`` and ``swap`` as in ``RandomHorizontalFlip``."""

    name: ClassVar[str] = "random_vertical_flip"


@dataclass(frozen=True, init=False)
class RandomGrayscale(_Chance):
    """Grey (three equal channels) with probability ``p``."""

    name: ClassVar[str] = "random_grayscale"

    def __init__(self, p: float = 0.1) -> None:
        self._set(p=self._real("p", p, 0.0, 1.0))


@dataclass(frozen=True, init=False)
class Grayscale(Transform):
    """Grey. Images have three channels here, so ``num_output_channels`` is 3 (torchvision's default is 1).

    >>> Grayscale().spec
    'grayscale channels=3'
    """

    name: ClassVar[str] = "grayscale"
    num_output_channels: int

    def __init__(self, num_output_channels: int = 3) -> None:
        if num_output_channels != 3:
            raise self._wrong(f"num_output_channels is {num_output_channels!r}: images keep three channels here",
                              "use Grayscale(3) and take one channel of the batch: images[:, :1]")
        self._set(num_output_channels=3)

    def _options(self) -> dict[str, Any]:
        return {"channels": self.num_output_channels}


@dataclass(frozen=True, init=False)
class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed at random, in random order. A number ``x`` means factors from ``max(0, 1 - x)`` to
    ``1 + x`` (hue: shifts from ``-x`` to ``x``, at most 0.5); a pair gives both ends.

    >>> ColorJitter(brightness=0.5, hue=(-0.1, 0.2)).spec
    'color_jitter brightness=0.5,1.5 hue=-0.1,0.2'
    """

    name: ClassVar[str] = "color_jitter"
    brightness: tuple[float, float] | None
    contrast: tuple[float, float] | None
    saturation: tuple[float, float] | None
    hue: tuple[float, float] | None

    def __init__(self, brightness: float | Sequence[float] = 0, contrast: float | Sequence[float] = 0,
                 saturation: float | Sequence[float] = 0, hue: float | Sequence[float] = 0) -> None:
        self._set(brightness=self._factor("brightness", brightness), contrast=self._factor("contrast", contrast),
                  saturation=self._factor("saturation", saturation), hue=self._shift(hue))

    def _factor(self, name: str, value: object) -> tuple[float, float] | None:
        if isinstance(value, Iterable):
            low, high = self._pair(name, value, 0.0)
        else:
            x = self._real(name, value, 0.0)
            low, high = max(0.0, 1.0 - x), 1.0 + x
        return None if low == high == 1.0 else (low, high)

    def _shift(self, value: object) -> tuple[float, float] | None:
        if isinstance(value, Iterable):
            low, high = self._pair("hue", value, -0.5, 0.5)
        else:
            high = self._real("hue", value, 0.0, 0.5)
            low = -high
        return None if low == high == 0.0 else (low, high)

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("brightness", "contrast", "saturation", "hue")}


@dataclass(frozen=True, init=False)
class Normalize(Transform):
    """``(x / 255 - mean) / std`` per channel, in float32 as torch computes it (then rounded to ``dtype``).

    Of arrays and sound the first field becomes ``(x - mean) / std``: with one number, or one for each column or channel.
    """

    name: ClassVar[str] = "normalize"
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self._set(mean=self._channels("mean", mean), std=self._channels("std", std))
        if 0.0 in self.std:
            raise self._wrong("std holds a 0: nothing can be divided by it")

    def _on_device(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        return self.mean, self.std

    @classmethod
    def imagenet(cls) -> Normalize:
        """The mean and standard deviation of ImageNet, which most published weights were trained with."""
        return cls((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    def _channels(self, name: str, value: object) -> tuple[float, ...]:
        numbers = tuple(self._real(name, x, -math.inf) for x in self._items(name, value))
        if not 1 <= len(numbers) <= 65536:
            raise self._wrong(f"{name} has {len(numbers)} numbers, not one for each channel")
        return numbers * 3 if len(numbers) == 1 else numbers

    def _options(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std}
