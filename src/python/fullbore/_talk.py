"""What the engine says while it works: lines to ``logging``, progress to a terminal."""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import TextIO

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_logger = logging.getLogger("fullbore")


# C0 and C1 controls, line separators, marks that turn the direction of writing, and halves of characters (bytes that are not UTF-8).
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def shown(text: str) -> str:
    """A name or a sentence as it may be printed: nothing in it steers a terminal. The engine escapes what it says in the same way.

    >>> shown("a\\x1b[31m.jpg")
    'a\\\\x1b[31m.jpg'
    """
    return _STEERING.sub(lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode(errors=_errors_of(match[0]))), text)


def _errors_of(character: str) -> str:
    return "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"


def listen() -> None:
    """``FULLBORE_LOG=debug``: the engine's lines on stderr, unless the program has handlers of its own."""
    names = ("error", "warn", "info", "debug")
    wanted = os.environ.get("FULLBORE_LOG")
    if wanted not in names:
        return
    _logger.setLevel(_LEVELS[names.index(wanted)])
    if not _logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s fullbore: %(message)s"))
        _logger.addHandler(handler)


def say(level: int, line: str) -> None:
    """One line of the engine's log."""
    if not sys.is_finalizing():
        _logger.log(_LEVELS[min(level, len(_LEVELS) - 1)], "%s", shown(line))


class Progress:
    """One line on a terminal, rewritten while a new source is scanned, gone afterwards.

    >>> import io
    >>> terminal = io.StringIO()
    >>> progress = Progress(terminal)
    >>> progress("scanning", 1200, 0); progress("scanning", 3000, 12000); progress.end()
    >>> terminal.getvalue().split("\\r")[:3]
    ['', '\\x1b[Kfullbore: scanning 1,200', '\\x1b[Kfullbore: scanning 3,000 of 12,000 (25 %)']
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._is_shown = False

    def __call__(self, what: str, done: int, total: int) -> None:
        share = f" of {total:,} ({100 * done // total} %)" if total else ""
        self._terminal.write(f"\r\x1b[Kfullbore: {what} {done:,}{share}")
        self._terminal.flush()
        self._is_shown = True

    def end(self) -> None:
        """Wipes the line."""
        if self._is_shown:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()


def progress_line() -> Progress | None:
    """On a terminal only."""
    terminal = sys.stderr
    return Progress(terminal) if terminal is not None and terminal.isatty() else None
