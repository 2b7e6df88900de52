"""What the tests of trust share: a loader over tiny images, and `fullbore audit` on what it logged."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fullbore as fb

COMMAND = os.environ.get("FULLBORE_COMMAND", str(Path(__file__).resolve().parents[2] / ".venv/bin/fullbore"))
IS_SOAK = os.environ.get("FB_SOAK") == "1"


def open_loader(source: Any, **arguments: Any) -> fb.Loader:
    return fb.Loader(source, **{"transforms": [fb.RandomResizedCrop(4), fb.RandomHorizontalFlip()], "framework": "numpy", "shuffle": True,
                                "threads": 2, **arguments})


@contextmanager
def audited(logs: Path) -> Iterator[None]:
    """Loaders opened inside write audit logs."""
    before = os.environ.get("FULLBORE_AUDIT")
    os.environ["FULLBORE_AUDIT"] = str(logs)
    try:
        yield
    finally:
        if before is None:
            del os.environ["FULLBORE_AUDIT"]
        else:
            os.environ["FULLBORE_AUDIT"] = before


def audit(*logs: Path) -> tuple[int, dict[str, Any]]:
    """The exit code, and what it says."""
    done = subprocess.run([COMMAND, "audit", *map(str, logs), "--json"], capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def audit_text(*logs: Path) -> tuple[int, str]:
    done = subprocess.run([COMMAND, "audit", *map(str, logs)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def epochs(report: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The epochs of the only stream, by number."""
    (stream,) = report["streams"]
    return {epoch["epoch"]: epoch for epoch in stream["epochs"]}
