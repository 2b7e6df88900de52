"""What a loop waits for, in words and in figures: the same four answers from a loader and from a monitor."""

from __future__ import annotations

import json
from typing import Any

from ._talk import shown

# name in metrics() -> name in the loop's figures
_LOOP = {
    "epochs_total": "epochs",
    "batches_total": "batches",
    "samples_total": "samples",
    "wall_seconds_total": "wall_seconds",
    "exposed_wait_seconds_total": "exposed_wait_seconds",
    "exposed_wait_ratio": "exposed_wait_ratio",
    "epoch_exposed_wait_ratio": "epoch_exposed_wait_ratio",
    "epoch_batches_per_second": "epoch_batches_per_second",
    "epoch_samples_per_second": "epoch_samples_per_second",
    "epoch_wait_mean_seconds": "epoch_wait_mean_seconds",
    "epoch_wait_max_seconds": "epoch_wait_max_seconds",
    "epoch_gap_seconds": "epoch_gap_seconds",
    "wait_p50_seconds": "wait_p50_seconds",
    "wait_p99_seconds": "wait_p99_seconds",
    "step_p50_seconds": "step_p50_seconds",
    "step_p99_seconds": "step_p99_seconds",
}


class Remedy:
    """A change and what it would bring: ``remedy.change``, ``remedy.predicted_gain`` (times as fast; None: cannot be predicted)."""

    def __init__(self, change: str, predicted_gain: float | None) -> None:
        self.change = change
        self.predicted_gain = predicted_gain

    def __repr__(self) -> str:
        return shown(self.change if self.predicted_gain is None else f"{self.predicted_gain:.2f}x  {self.change}")


class Verdict:
    """What a loop waits for. ``print(verdict)`` says it in sentences; ``verdict.data`` is all of it, as ``watch --summary`` has it.

    >>> loader = Loader("photos", batch_size=4, transforms=[Resize((8, 8))], framework="numpy")
    >>> loader.verdict().kind               # nothing was fed yet
    'start-up'
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.kind: str = data.get("verdict", "unknown")
        self.starved_ratio: float | None = data.get("starved_ratio")
        self.gain_bound: float | None = data.get("gain_bound")
        self.evidence: list[str] = data.get("evidence", [])
        self.remedies = [Remedy(r["change"], r["predicted_gain"]) for r in data.get("remedies", [])]

    def __str__(self) -> str:
        starved = "" if self.starved_ratio is None else f", starved {100 * self.starved_ratio:.0f} % of the time"
        lines = [self.kind + starved, *("  " + shown(line) for line in self.evidence)]
        if self.remedies and self.gain_bound is not None:
            lines.append(f"  at best {self.gain_bound:.2f} times as fast; what would help, best first:")
        return "\n".join(lines + [f"    {remedy!r}" for remedy in self.remedies])

    def __repr__(self) -> str:
        return f"<Verdict: {self.kind}>"


def from_loop(figures: dict[str, Any], prefix: str) -> dict[str, float]:
    """The part of ``metrics()`` that every loop has."""
    return {prefix + name: float(figures[key]) for name, key in _LOOP.items()}


class Explains:
    """``verdict()``, ``status_line()``, ``metrics()`` and ``postfix()``, over two questions that the class answers."""

    def _figures(self) -> dict[str, Any]:
        raise NotImplementedError

    def _verdict(self) -> str:
        raise NotImplementedError

    def verdict(self) -> Verdict:
        """What the loop waits for, how much could be gained, and what to change, best first."""
        return Verdict(json.loads(self._verdict()))

    def metrics(self, prefix: str = "fullbore_") -> dict[str, float]:
        """Floats under fixed names (``docs/monitor.md``), for ``wandb.log``, ``log_dict``, TensorBoard and the like.

        >>> loader = Loader("photos", batch_size=4, transforms=[Resize((8, 8))], framework="numpy")
        >>> for batch in loader: pass
        >>> loader.metrics()["fullbore_batches_total"]
        3.0
        """
        return from_loop(self._figures(), prefix)

    def postfix(self) -> dict[str, str]:
        """Three short values for a progress bar: ``bar.set_postfix(loader.postfix())``."""
        loop = self._figures()
        return {
            "wait": f"{100 * loop['epoch_exposed_wait_ratio']:.0f}%",
            "load": f"{1e3 * loop['epoch_wait_mean_seconds']:.1f}ms",
            "max": f"{1e3 * loop['epoch_wait_max_seconds']:.0f}ms",
        }
