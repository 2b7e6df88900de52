"""The C example, from the public header only: compiled as a user would, against the installed and against the static library, and run."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples/c/loader.c"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def run(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)  # type: ignore[call-overload]


def pkg_config(*flags: str) -> list[str]:
    folder = next((ROOT / ".venv").glob("lib/**/pkgconfig/fullbore.pc")).parent
    return run(["pkg-config", *flags, "fullbore"], env={**os.environ, "PKG_CONFIG_PATH": str(folder)}, check=True).stdout.split()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "photos"
    for i in range(20):
        path = folder / ("cat", "dog")[i % 2] / f"{i:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.radial_gradient("L").resize((250 + 10 * i, 240)).convert("RGB").save(path)
    return folder


@pytest.fixture(scope="module", params=["shared", "static"])
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bin") / "loader"
    if request.param == "shared":
        libraries = pkg_config("--libs")
        flags = [*pkg_config("--cflags"), *libraries, *(f"-Wl,-rpath,{f[2:]}" for f in libraries if f.startswith("-L"))]
    else:
        flags = ["-I", str(ROOT / "include"), str(ROOT / "build/src/libfullbore.a"), *private_libraries()]
    result = run(["cc", *STRICT, str(SOURCE), *flags, "-o", str(out)])
    assert result.returncode == 0, result.stderr
    return out


def private_libraries() -> list[str]:
    """What fullbore.pc says libfullbore.a needs besides, shared (--static would ask for static ones of them, too)."""
    names = [name for name in pkg_config("--print-requires-private") if not re.match(r"[<>=\d]", name)]
    return [*run(["pkg-config", "--libs", *names], check=True).stdout.split(), "-lpthread", "-lm"]


def test_it_runs_two_epochs_and_resumes(example: Path, photos: Path, tmp_path: Path) -> None:
    result = run([str(example), str(photos), "6"], env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"epoch 0: 20 samples, mean -?\d+\.\d{4}", lines[0])
    assert re.fullmatch(r"epoch 1: 20 samples, mean -?\d+\.\d{4}", lines[1])
    assert lines[0][8:] != lines[1][8:], "two epochs drew the same crops"
    assert re.fullmatch(r"resumed at (cat|dog)/\d\d\.jpg with the same batch", lines[2])


def test_it_fails_in_words(example: Path, tmp_path: Path) -> None:
    result = run([str(example), str(tmp_path / "nothing")], env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert result.returncode == 1
    assert result.stderr.startswith("loader: ")
    assert "nothing" in result.stderr
