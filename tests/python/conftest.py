"""Small photographs, and an environment that nobody else's settings reach."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made_photos import make_photos

RANK_VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK", "PMI_SIZE", "FULLBORE_IO",
)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Catalogs go to a place of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for name in RANK_VARIABLES:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 JPEGs in three classes."""
    return make_photos(tmp_path_factory.mktemp("photos"), 24, ("apple", "pear", "plum"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """103 very small PNGs: for questions of order."""
    return make_photos(tmp_path_factory.mktemp("tiny"), 103, side=8, suffix=".png")


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in its own interpreter; FULLBORE_IO and the like go in `env`."""

    def run(script: str, *args: object, env: dict[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", script, *map(str, args)], env={**os.environ, **(env or {})}, capture_output=True,
                              text=True, timeout=timeout)

    return run
