"""What a loop waits for, in words and in figures: the same four answers from a loader and from a monitor."""

from __future__ import annotations

import functools
import json
from typing import Any, Literal, overload

from . import _fullbore
from ._talk import shown
from .errors import UsageError


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


@functools.cache
def metrics_table() -> list[dict[str, str]]:
    """Every figure: its path in ``stats()``, its name, ``unit``, ``kind`` and a sentence."""
    table: list[dict[str, str]] = json.loads(_fullbore.describe_stats())
    return table


def _value(stats: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(stats, list):
            stats = {stage["name"]: stage for stage in stats}
        stats = (stats or {}).get(key)
    return stats


def _as_prometheus(metrics: dict[str, float], prefix: str) -> str:
    """Prometheus' text format, version 0.0.4."""
    rows = {prefix + row["name"]: row for row in metrics_table()}
    return "".join(f"# HELP {name} {rows[name]['help']}\n# TYPE {name} {rows[name]['kind']}\n{name} {value!r}\n"
                   for name, value in metrics.items())


class Explains:
    """``verdict()``, ``status_line()``, ``metrics()`` and ``postfix()``, over two questions that the class answers."""

    def _stats(self) -> dict[str, Any]:
        raise NotImplementedError

    def _figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = self._stats()["loop"]
        return figures

    def _verdict(self) -> str:
        raise NotImplementedError

    def verdict(self) -> Verdict:
        """What the loop waits for, how much could be gained, and what to change, best first."""
        return Verdict(json.loads(self._verdict()))

    @overload
    def metrics(self, prefix: str = ..., format: Literal["dict"] = ...) -> dict[str, float]: ...

    @overload
    def metrics(self, prefix: str = ..., *, format: Literal["prometheus"]) -> str: ...

    def metrics(self, prefix: str = "fullbore_", format: Literal["dict", "prometheus"] = "dict") -> dict[str, float] | str:
        """Floats under fixed names (``docs/statistics.md``), for ``wandb.log``, ``log_dict``, TensorBoard and the like. Figures that there
        are none of, such as those of a cache without a cache, are left out. ``format="prometheus"``: as text that Prometheus reads.

        >>> loader = Loader("photos", batch_size=4, transforms=[Resize((8, 8))], framework="numpy")
        >>> for batch in loader: pass
        >>> loader.metrics()["fullbore_batches_total"]
        3.0
        >>> print(loader.metrics(format="prometheus").split("# HELP ")[3].strip())
        fullbore_samples_total Samples taken, as far as a batch shows how many it holds.
        # TYPE fullbore_samples_total counter
        fullbore_samples_total 12.0
        """
        if format not in ("dict", "prometheus"):
            raise UsageError(f"metrics: format={format!r} is not 'dict' or 'prometheus'")
        stats = self._stats()
        found = {prefix + row["name"]: _value(stats, row["path"]) for row in metrics_table()}
        metrics = {name: float(value) for name, value in found.items() if value is not None}
        return metrics if format == "dict" else _as_prometheus(metrics, prefix)

    def postfix(self) -> dict[str, str]:
        """Three short values for a progress bar: ``bar.set_postfix(loader.postfix())``."""
        loop = self._figures()
        return {
            "wait": f"{100 * loop['epoch_exposed_wait_ratio']:.0f}%",
            "load": f"{1e3 * loop['epoch_wait_mean_seconds']:.1f}ms",
            "max": f"{1e3 * loop['epoch_wait_max_seconds']:.0f}ms",
        }
