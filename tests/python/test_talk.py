"""What the engine says: through logging, and as progress on a terminal only."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import fullbore as fb
import pytest


def keep_many(source: Path) -> int:
    """Something that the engine warns about."""
    with fb.Loader(source, batch_size=6, transforms=[fb.CenterCrop(8)], framework="numpy") as loader:
        return len([batch for _ in range(12) for batch in loader])


def test_warnings_reach_the_logger(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "fullbore"):
        assert keep_many(photos) == 48
    records = [record for record in caplog.records if record.name == "fullbore"]
    assert any(record.levelno == logging.WARNING and "kept" in record.getMessage() for record in records)


def test_a_logging_filter_that_fails_does_not_stop_the_run(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: failures.append(failure.exc_type))

    def fail(record: logging.LogRecord) -> bool:
        raise ZeroDivisionError

    logger = logging.getLogger("fullbore")
    logger.addFilter(fail)
    try:
        assert keep_many(photos) == 48
    finally:
        logger.removeFilter(fail)
    assert ZeroDivisionError in failures


def scan(source: Path, cache: Path, stderr: int) -> None:
    script = "import sys, fullbore as fb; fb.Loader(sys.argv[1], transforms=fb.CenterCrop(8)).close()"
    subprocess.run([sys.executable, "-c", script, str(source)], stderr=stderr, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, check=True,
                   timeout=120)


def seen_on_a_terminal(source: Path, cache: Path) -> bytes:
    here, there = pty.openpty()
    os.set_blocking(here, False)
    scan(source, cache, there)
    try:
        return os.read(here, 65536)
    except BlockingIOError:
        return b""
    finally:
        os.close(here)
        os.close(there)


def test_a_long_first_scan_shows_progress_on_a_terminal_only(tmp_path: Path) -> None:
    source, made, seen = tmp_path / "many" / "a", 0, b""
    source.mkdir(parents=True)
    while b"scanning" not in seen and made < 160_000:  # until it is long enough for this machine
        for number in range(made, made + 20_000):
            (source / f"{number}.jpg").touch()
        made += 20_000
        for folder in (source, source.parent):
            os.utime(folder, (1e9, 1e9))  # one that was changed just now is looked at again
        seen = seen_on_a_terminal(source.parent, tmp_path / f"cache{made}")
    assert b"fullbore: scanning" in seen and seen.endswith(b"\r\x1b[K"), seen
    with open(tmp_path / "said", "w+b") as file:
        scan(source.parent, tmp_path / "another", file.fileno())
        file.seek(0)
        assert file.read() == b""
    assert b"scanning" not in seen_on_a_terminal(source.parent, tmp_path / "another")  # the second time there is nothing to wait for
