"""Helpers for programs that train with torch and its frameworks. Nothing here is needed to use a loader with torch."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._monitor import _to_stderr
from ._readahead import ReadAhead, readahead

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["ForLightning", "ReadAhead", "lightning_callback", "readahead", "trainer_callback"]


class ForLightning:
    """``trainer.fit(model, ForLightning(loader))``: the loader, with the length of the whole epoch also after a state was loaded.

    Lightning counts the batches of a resumed epoch from its beginning. Checkpoints hold the loader's state by themselves.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return self.loader.batches_per_epoch

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not set yet: being unpickled
            raise AttributeError(name)
        return getattr(self.loader, name)

    def state_dict(self) -> dict[str, Any]:
        """The loader's."""
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The loader's."""
        self.loader.load_state_dict(state)


def lightning_callback(source: Any, every: int = 50) -> Any:
    """A callback for Lightning: ``source.metrics()`` to the trainer's loggers every so many batches, the verdict at the end of each epoch.

    ``source`` is a loader, or ``fb.monitor`` of any other: ``batches = fb.monitor(dataloader, quiet=True)``, then
    ``Trainer(callbacks=[lightning_callback(batches)])`` and ``trainer.fit(model, batches)``.
    """
    package = "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning"
    base: Any = importlib.import_module(f"{package}.callbacks").Callback

    class LoaderMetrics(base):  # type: ignore[misc, unused-ignore]
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
            if batch_index % every == 0:
                for logger in trainer.loggers:
                    logger.log_metrics(source.metrics(), step=trainer.global_step)

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            if trainer.is_global_zero:
                for line in str(source.verdict()).splitlines()[:2]:
                    _to_stderr(f"fullbore: {line}")

    return LoaderMetrics()


def trainer_callback(loader: Loader) -> Any:
    """A callback for the Hugging Face Trainer: every checkpoint gets the loader's state, and a resumed run goes on with the next sample.

    Use it with ``ignore_data_skip=True``, since nothing has to be read and thrown away, and a ``get_train_dataloader`` that returns the
    loader.
    """
    from transformers import TrainerCallback  # type: ignore[import-not-found, unused-ignore]

    class LoaderState(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:  # the state is the same on all ranks
                with open(_place(args, state), "w") as file:
                    json.dump(loader.state_dict(), file)

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step > 0 and os.path.exists(_place(args, state)):  # resumed
                with open(_place(args, state)) as file:
                    loader.load_state_dict(json.load(file))

    return LoaderState()


def _place(args: Any, state: Any) -> str:
    return os.path.join(args.output_dir, f"checkpoint-{state.global_step}", "fullbore.json")
