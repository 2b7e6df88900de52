"""The line on the terminal while a build runs: the words of ``fullbore build``, and no colours."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from ._build_report import BuildReport

WIDTH = 24
LEAST_SECONDS = 0.1  # between two lines


def rest(done: int, total: int, seconds: float) -> str:
    """How long it will take at this pace.

    >>> rest(10, 100, 2.0), rest(1, 100, 2.0), rest(1, 10000, 2.0), rest(0, 10, 2.0)
    ('18 s', '3 min 18 s', '5 h 33 min', '0 s')
    """
    s = round((total - done) / done * seconds) if done else 0
    return f"{s // 3600} h {s // 60 % 60:02} min" if s >= 3600 else f"{s // 60} min {s % 60:02} s" if s >= 60 else f"{s} s"


def line(r: BuildReport, total: int, seconds: float) -> str:
    """
    >>> line(BuildReport("a.h5", rows=30, samples=30), 40, 1.5)
    'building [==================      ] 30 of 40 samples, 20 samples/s, 30 rows, 0 s left, most time: wait for data'
    """
    done = r.samples + r.all.left_out
    full = WIDTH * done // total if total else WIDTH
    return (f"building [{'=' * full:<{WIDTH}}] {done} of {total} samples, {done / max(seconds, 1e-9):.0f} samples/s, {r.rows} rows, "
            f"{rest(done, total, seconds)} left, most time: {r.verdict}")


class Bar:
    """One line, rewritten ten times a second at most, gone at the end: the report says more."""

    def __init__(self, terminal: TextIO, total: int) -> None:
        self._terminal, self._total = terminal, total
        self._started = self._told = time.perf_counter()
        self._is_shown = False

    def __call__(self, report: BuildReport) -> None:
        now = time.perf_counter()
        if now - self._told < LEAST_SECONDS:
            return
        self._told, self._is_shown = now, True
        self._terminal.write(f"\r\x1b[K{line(report, self._total, now - self._started)}")
        self._terminal.flush()

    def end(self) -> None:
        if self._is_shown:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()


def bar(total: int) -> Bar | None:
    """On a terminal only."""
    terminal = sys.stderr
    return Bar(terminal, total) if terminal is not None and terminal.isatty() else None
