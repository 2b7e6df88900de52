"""The loader: a data set in, batches out."""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import pickle
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

import numpy.typing as npt

from . import _fullbore
from ._arguments import plain_values, refuse_unknown, steps_of, with_labels
from ._buckets import LengthBuckets
from ._device import device_name, device_values, split_for_device
from ._explain import Explains
from ._map import Step
from ._rank import known_rank
from ._sampler import Order, OwnSampler, length
from ._talk import progress_line, say
from .batch import Batch, Converter, Framework, converter
from .dataset import Dataset
from .errors import Error, UsageError
from .transforms import Map, Transform

Path = str | bytes | os.PathLike[str]
NEXT_EPOCH = -1
FROM_ENVIRONMENT = (-1, -1)
_NOT_OF_A_SAMPLE = ("weights", "is_balanced", "global_batch_size", "pin_memory", "device")

_open_loaders: weakref.WeakSet[Loader] = weakref.WeakSet()


_Init = TypeVar("_Init", bound=Callable[..., None])


def _says_what_to_use_instead(init: _Init) -> _Init:
    """Arguments that there are not, DataLoader's above all, are refused with a hint."""
    known = inspect.signature(init).parameters

    @functools.wraps(init)
    def checked(self: Loader, *args: Any, **named: Any) -> None:
        refuse_unknown([name for name in named if name not in known], list(known))
        init(self, *args, **named)

    return cast(_Init, checked)


class Loader(Explains):
    """Feeds a training loop: reads, decodes, transforms and batches images, so that the next batch is ready when it is asked for.

    ``source`` is a folder (class = first directory), a glob, a manifest (``.csv``, ``.tsv``, ``.jsonl``), or a list of paths with
    ``labels``.

    >>> loader = Loader("photos", batch_size=4, shuffle=True, transforms=[RandomResizedCrop(32), Normalize.imagenet()], framework="numpy")
    >>> len(loader), loader.classes
    (3, ['cat', 'dog'])
    >>> for images, labels in loader:
    ...     print(images.shape, images.dtype, labels.dtype)
    (4, 3, 32, 32) float32 int64
    (4, 3, 32, 32) float32 int64
    (4, 3, 32, 32) float32 int64
    >>> loader.close()

    Batches are torch tensors if torch is imported, else numpy arrays; in both cases in the engine's memory, without a copy. See
    ``docs/python.md`` for every argument.
    """

    @_says_what_to_use_instead
    def __init__(
        self,
        source: Path | Sequence[Path],
        *,
        batch_size: int = 1,
        global_batch_size: int | None = None,
        shuffle: bool | Literal["window"] = False,
        window: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
        transforms: Sequence[Transform] | Transform = (),
        fields: Sequence[str] | None = None,
        masks: Sequence[str] | None = None,
        sample: Literal["auto", "row", "file"] = "auto",
        group_by: str | None = None,
        labels: npt.ArrayLike | Mapping[str, Any] | Path | Callable[[str], Any] | None = None,
        collate: Any = None,
        batch_map: Callable[..., Any] | None = None,
        classes: int | Sequence[str] | Path | None = None,
        class_seed: int = 0,
        per_class: int | None = None,
        fraction: float | None = None,
        indices: npt.ArrayLike | None = None,
        split: tuple[Literal["train", "val"], float] | None = None,
        weights: npt.ArrayLike | Literal["balanced"] | None = None,
        sampler: Any = None,
        rank: int | None = None,
        world_size: int | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
        cache_dir: Path | None = None,
        cache_limit: int | str | None = None,
        cache_ram: int | str | None = None,
        preload: bool = False,
        allow_external: bool = False,
        dtype: Any = None,
        layout: Literal["NCHW", "NHWC", "channels_last"] = "NCHW",
        exif: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        max_errors: int | None = None,
        framework: Framework = "auto",
        pin_memory: bool = False,
        device: Any = None,
        device_normalize: bool = False,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        if framework not in ("auto", "torch", "numpy"):
            raise UsageError(f"framework= is {framework!r}, not 'auto', 'torch' or 'numpy'")
        engine, self._finish = split_for_device(self._arguments)
        values, self._columns = with_labels({**plain_values(engine), **device_values(self._arguments)}, labels)
        needs_torch = self._finish is not None or (device_name(device) or "").startswith("cuda")
        self._framework: Framework = "torch" if needs_torch else framework
        if self._framework == "torch":
            converter("torch")  # says now that torch is missing
        if batch_map is not None and not callable(batch_map):
            raise UsageError(f"batch_map= is {batch_map!r}, not a function")
        self._values = values
        self._core = _open(values, _maps(transforms))
        if isinstance(sampler, LengthBuckets):
            sampler.check(batch_size, self.sample_count)
        self._batch_map_seconds = 0.0
        self._look: _fullbore._Monitor | None = None
        self._fullbore_monitor: Any = None
        self._is_ranked = self._is_continued = self._is_untouched = False
        self._order: Order | None = None
        self._epoch: int = NEXT_EPOCH
        self._iterator: Callable[[], _Epoch | None] = _nothing
        _open_loaders.add(self)

    # ---- iterating

    def __iter__(self) -> Iterator[Batch]:
        """Starts the next epoch, or the one that ``set_epoch`` named; after ``load_state_dict``, continues there."""
        asked_ns = time.monotonic_ns()
        running = self._iterator()
        if running is not None and not running.is_over and not running.is_spent and not self.closed:
            if running.has_begun:
                raise Error("this loader is being iterated over already", stage="feed",
                            remedy="finish that loop, or delete its iterator; for two loops at once open two loaders")
            running.abandon()
        elif running is not None:
            running.is_over = True  # whoever asks it for one more batch gets none of the new epoch's
        self._resolve_rank()
        if not self._is_begun_anew():
            self._order = self._start_order() if self._arguments["sampler"] is not None else None
            if self._order is None:
                self._core.start_epoch(self._epoch)
        self._epoch = NEXT_EPOCH
        self._is_untouched, self._is_continued = True, False
        epoch = _Epoch(self, self._core, converter(self._framework), self._order)
        self._iterator = weakref.ref(epoch)
        epoch.starting_ns = time.monotonic_ns() - asked_ns
        return epoch

    def _is_begun_anew(self) -> bool:
        """An epoch that nobody has taken a batch of has not happened: another iterator begins the same one. (Lightning makes several.)"""
        return self._is_untouched and self._epoch in (NEXT_EPOCH, json.loads(self._core.save_state())["epoch"])

    def _start_order(self) -> Order:
        """An epoch in the sampler's order. A state is continued by leaving out as many of its indices as were used."""
        sampler, state = self._arguments["sampler"], json.loads(self._core.save_state())
        if self._is_continued and self._epoch == NEXT_EPOCH and isinstance(sampler, Sized) and state["position"] >= len(sampler):
            self._epoch = state["epoch"] + 1
        epoch = self._core.start_epoch(self._epoch)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        start = json.loads(self._core.save_state())["position"]
        self._is_continued = False
        return Order(self._core, sampler, self.batch_size, start)

    def __len__(self) -> int:
        """Batches per epoch on this rank."""
        if self._arguments["sampler"] is not None:
            start = json.loads(self._core.save_state())["position"] if self._is_continued else 0
            return length(self._arguments["sampler"], self.batch_size, self._arguments["drop_last"], start)
        self._resolve_rank()
        return self._core.ranks()[0]

    def set_epoch(self, epoch: int) -> None:
        """The number of the epoch that the next ``iter()`` starts: the same seed and epoch give the same batches."""
        if isinstance(epoch, bool) or not hasattr(epoch, "__index__") or epoch.__index__() < 0:
            raise UsageError(f"set_epoch({epoch!r}): not a whole number from 0 up")
        self._epoch = epoch.__index__()

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Where the run is, after the last batch taken: small, JSON, the same on all ranks.

        >>> options = {"batch_size": 5, "shuffle": True, "transforms": [RandomResizedCrop(32)], "framework": "numpy"}
        >>> loader = Loader("photos", **options)
        >>> for batch in loader:
        ...     break
        >>> state = loader.state_dict()
        >>> state["epoch"], state["position"]
        (0, 5)
        >>> later = Loader("photos", **options)
        >>> later.load_state_dict(state)
        >>> sum(len(labels) for images, labels in later)
        7
        """
        self._resolve_rank()
        state: dict[str, Any] = json.loads(self._core.save_state())
        return state

    def load_state_dict(self, state: Mapping[str, Any] | str, force: bool = False) -> None:
        """The next ``iter()`` continues after the batch that ``state`` was saved at, at any world size, thread count or machine.

        A state of other data, another selection, seed or order, and one that was changed, is refused with everything that differs; with
        ``force=True`` it is taken all the same, and a warning says what that means for the rest of the epoch.
        """
        self._resolve_rank()
        self._core.load_state(state if isinstance(state, str) else json.dumps(dict(state)), force)
        self._epoch = NEXT_EPOCH
        self._is_continued, self._is_untouched = True, False
        running = self._iterator()
        if running is not None:
            running.abandon()

    def skip(self, batches: int) -> int:
        """Leaves out the next batches: of the running epoch, or of the one that the next ``iter()`` starts or continues.

        Never more than are left of that epoch; returns how many. Batches are global ones: call it on every rank alike.

        >>> with Loader("photos", batch_size=2, shuffle=True, transforms=[Resize((8, 8))], framework="numpy") as loader:
        ...     whole = [batch.sample_keys for batch in loader]
        ...     loader.set_epoch(0)
        ...     running = iter(loader)
        ...     first = next(running).sample_keys
        ...     loader.skip(3)
        ...     [first] + [batch.sample_keys for batch in running] == [whole[0]] + whole[4:]
        3
        True
        """
        self._resolve_rank()
        self._check_pending_epoch("skip")
        skipped = self._core.skip(_count("skip", batches))
        self._count_again()
        return skipped

    def skip_range(self, first: int, last: int) -> None:
        """Leaves out batches ``first`` to ``last - 1`` of the running epoch, or of the one that the next ``iter()`` starts or continues: to
        jump over the ones before a loss spike after going back to a state.

        They are counted from the beginning of the epoch, in global batches of the present size. What was returned already is not affected.
        Later batches are the ones they would have been, and the state remembers what is left out.
        """
        self._resolve_rank()
        self._check_pending_epoch("skip_range")
        self._core.skip_range(_count("skip_range", first), _count("skip_range", last))
        self._count_again()

    def _check_pending_epoch(self, what: str) -> None:
        if self._epoch != NEXT_EPOCH:
            raise UsageError(f"{what}() after set_epoch({self._epoch}): that epoch has not begun", remedy="take iter(loader) first")

    def _count_again(self) -> None:
        running = self._iterator()
        if running is not None and not running.is_over:
            running.count_again()

    # ---- what there is

    @property
    def batch_size(self) -> int:
        """As it was given: per rank."""
        return int(self._arguments["batch_size"])

    @property
    def batches_per_epoch(self) -> int:
        """Batches of a whole epoch on this rank; ``len`` counts from the state that was loaded."""
        if self._arguments["sampler"] is not None:
            return length(self._arguments["sampler"], self.batch_size, self.drop_last, 0)
        size = self._arguments["global_batch_size"] or self.batch_size * self.world_size
        return self.sample_count // size if self.drop_last else -(-self.sample_count // size)

    @property
    def drop_last(self) -> bool:
        """As it was given."""
        return bool(self._arguments["drop_last"])

    @property
    def pin_memory(self) -> bool:
        """As it was given."""
        return bool(self._arguments["pin_memory"])

    @property
    def sampler(self) -> Any:
        """The sampler that was given; else the loader's own order, with ``set_epoch``."""
        given = self._arguments["sampler"]
        return OwnSampler(self) if given is None else given

    @cached_property
    def dataset(self) -> Dataset:
        """The samples, one at a time: ``loader.dataset[i]``, ``len(loader.dataset)``, ``loader.dataset.samples``."""
        single = {name: value for name, value in self._values.items() if name not in _NOT_OF_A_SAMPLE}
        if self._finish is not None:  # a single sample is normalised by the engine
            whole = plain_values(self._arguments)
            single |= {"transforms": whole["transforms"], "dtype": whole["dtype"]}
        single |= {"takes_order": 1, "batch_size": 1, "shuffle": 0, "drop_last": 0, "rank": 0, "world_size": 1, "on_error": 0,
                   "max_errors": -1}
        return Dataset(self, lambda: _open(single, _maps(self._arguments["transforms"])))

    @property
    def sample_count(self) -> int:
        """Samples of an epoch, over all ranks."""
        return self._core.counts()[0]

    @property
    def classes(self) -> list[str]:
        """The names of the classes; a label is an index into it. Empty when the source has no classes."""
        return self._core.classes()

    @property
    def label_classes(self) -> dict[str, list[str]]:
        """The names behind the numbers of each label that was given as text in ``labels=``."""
        return dict(self._columns.classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class."""
        return {name: label for label, name in enumerate(self.classes)}

    @property
    def fingerprint(self) -> str:
        """What was selected, as 16 hex digits over keys and labels: equal wherever the data set lies."""
        return f"{self._core.counts()[1]:016x}"

    @property
    def rank(self) -> int:
        """This process's place in the world."""
        self._resolve_rank()
        return self._core.ranks()[1]

    @property
    def world_size(self) -> int:
        """How many processes share the epoch."""
        self._resolve_rank()
        return self._core.ranks()[2]

    def stats(self) -> dict[str, Any]:
        """What the loader has done since it was opened; see ``docs/statistics.md``. Any thread may ask at any time."""
        stats: dict[str, Any] = json.loads(self._core.stats())
        stats["batch_map_seconds"] = self._batch_map_seconds
        return stats

    def status_line(self) -> str:
        """Accelerator, CPU, memory, disk, and what the loop waits for: the line of ``fullbore watch``. From the first call on a thread
        looks at the machine twice a second; rates need two looks."""
        return self._core.status_line(self._looking())

    def trace(self, file: Path, batches: int = 100) -> None:
        """What each thread does until so many more batches were taken, as Chrome trace events: open ``file`` at https://ui.perfetto.dev.
        The file is written when they were, or when the loader is closed.

        >>> loader = Loader("photos", batch_size=4, transforms=[Resize((8, 8))], framework="numpy")
        >>> loader.trace("trace.json", batches=2)
        >>> for batch in loader: pass
        >>> sorted({event["name"] for event in json.load(open("trace.json"))["traceEvents"]} & {"decode", "wait", "transform"})
        ['decode', 'transform', 'wait']
        """
        if batches < 1:
            raise UsageError(f"trace: batches={batches!r} is not at least 1")
        self._core.trace(os.fspath(file), batches)

    def _looking(self) -> _fullbore._Monitor:
        if self._look is None:
            self._look = _fullbore._Monitor(1)
        return self._look

    def _stats(self) -> dict[str, Any]:
        return self.stats()

    def _verdict(self) -> str:
        return self._core.verdict(self._looking())

    # ---- the end

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self._core.closed

    def close(self) -> None:
        """Stops all threads and frees all memory but that of batches still held. Closing twice is fine."""
        if "dataset" in self.__dict__:
            self.dataset.close()
        if self._look is not None:
            self._look.close()
            self._look = None
        self._core.close()
        _open_loaders.discard(self)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        source = self._arguments["source"]
        shown = repr(os.fspath(source)) if isinstance(source, (str, bytes, os.PathLike)) else f"<{len(source)} paths>"
        given = [f"{name}={self._arguments[name]!r}" for name in ("batch_size", "shuffle", "seed") if self._arguments[name]]
        try:
            state = f"{self.sample_count:,} samples" + (f", {len(self):,} batches" if self._is_ranked else "")
        except Error:
            state = "closed" if self._core.closed else "of another process"
        return f"<Loader({', '.join([shown, *given])}): {state}>"

    def __reduce__(self) -> tuple[Any, ...]:
        for name, value in self._arguments.items():
            try:
                pickle.dumps(value)
            except Exception as error:
                raise Error(f"the loader cannot be pickled, because {name}= cannot: {error}",
                            remedy="use functions of a module instead of lambdas and local ones") from error
        return _reopen, (self._arguments,)

    def _resolve_rank(self) -> None:
        """Rank and world size, once, as late as possible: the arguments, else torch.distributed, else Ray Train, else the environment."""
        if self._is_ranked:
            return
        rank, world_size = self._arguments["rank"], self._arguments["world_size"]
        if self._arguments["sampler"] is not None:
            rank, world_size = 0, 1  # its indices are this process's own
        known = known_rank() if rank is None else (rank, world_size)
        self._core.set_rank(*(FROM_ENVIRONMENT if known is None else known))
        self._is_ranked = True


class _Epoch(Iterator[Batch]):
    """A running epoch. It keeps its loader alive; the loader does not keep it, so a loop that is left early ends the epoch at once.

    The engine counts as exposed wait what passes from the first line of ``__next__`` to its last, and ``iter()`` before the first batch.
    """

    def __init__(self, loader: Loader, core: _fullbore._Loader, convert: Converter, order: Order | None) -> None:
        self._loader = loader
        self._core = core
        self._convert = convert
        self._order = order
        self._finish, self._batch_map = loader._finish, loader._arguments["batch_map"]
        self._pins = bool(loader._arguments["pin_memory"])
        self.starting_ns = 0  # what iter() took, until there is a batch
        self.has_begun = False
        self._left = core.ranks()[0]  # 0: not known
        self.is_spent = False  # every batch was taken, though nobody has asked for one more
        self.is_over = False
        self._is_abandoned = False

    def __next__(self) -> Batch:
        asked_ns = time.monotonic_ns()
        if self._is_abandoned:
            raise Error("this iterator was ended by load_state_dict or by another iterator", stage="feed",
                        remedy="take a new one: iter(loader)")
        if self.is_over:
            raise StopIteration
        self.has_begun, self._loader._is_untouched = True, False
        try:
            if self._order is not None:
                self._order.advance()
            core = self._core.next(asked_ns - self.starting_ns)
        except Error:
            self.is_over = not self._core.closed  # a closed loader says so every time
            raise
        if core is None:
            self.is_over = True
            raise StopIteration
        try:
            self.starting_ns = 0
            self._left -= 1
            self.is_spent = self._left == 0 or self._order is not None and self._order.is_used_up
            batch = Batch._of(core, self._convert)
            if self._pins:
                batch._use_now()
            if self._finish is not None:
                batch = self._finish(batch)
            return batch if self._batch_map is None else self._mapped(batch)
        finally:
            core.deliver()

    def count_again(self) -> None:
        """Batches were left out."""
        self._left = self._core.ranks()[0]
        self.is_spent = self._left == 0

    def _mapped(self, batch: Batch) -> Any:
        since = time.perf_counter()
        result = self._batch_map(batch)
        self._loader._batch_map_seconds += time.perf_counter() - since
        return batch._like(result) if type(result) is tuple else result

    def abandon(self) -> None:
        """The loader moved on to somewhere else."""
        self._is_abandoned = not self.is_over
        self.is_over = True


def _maps(transforms: Any) -> list[Step]:
    return [Step(step) for step in steps_of(transforms)[0] if isinstance(step, Map)]


def _count(what: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= value.__index__() < 1 << 63:
        raise UsageError(f"{what}({value!r}): not a whole number from 0 up")
    return int(value.__index__())


def _nothing() -> None:
    return None


def _open(values: dict[str, Any], maps: list[Step]) -> _fullbore._Loader:
    progress = progress_line()
    try:
        core = _fullbore._Loader(values, say, progress, [(step, step.wants_labels) for step in maps] or None)
    finally:
        if progress is not None:
            progress.end()
    labels = core.label_fields() if maps else []
    for step in maps:
        step.bind(labels)
    return core


def _reopen(arguments: dict[str, Any]) -> Loader:
    return Loader(**arguments)


@atexit.register
def _close_all() -> None:
    """Before the interpreter ends, while everything still works."""
    for loader in list(_open_loaders):
        loader.close()
    _fullbore.map_end()
