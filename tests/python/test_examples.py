"""Everything that the documentation shows runs, and the types are what they say."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import fullbore
import pytest
from made_photos import make_photos, photo

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(fullbore.__file__).parent


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the examples are run in: photos/cat, photos/dog, photo.jpg."""
    make_photos(tmp_path / "photos", 12)
    photo(1, 60, 80).save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "least"), [
    ("fullbore", 3), ("fullbore.loader", 8), ("fullbore.transforms", 9), ("fullbore.ops", 4), ("fullbore.errors", 1), ("fullbore._talk", 4),
    ("fullbore._explain", 5), ("fullbore._monitor", 4), ("fullbore._replay", 3), ("fullbore._buckets", 5), ("fullbore._device", 1),
    ("fullbore.build", 3), ("fullbore._build_meter", 1), ("fullbore._build_names", 2), ("fullbore._build_progress", 2),
])
def test_the_docstrings_examples_run(here: Path, name: str, least: int) -> None:
    extra = {key: getattr(fullbore, key) for key in fullbore.__all__}
    failed, attempted = doctest.testmod(importlib.import_module(name), extraglobs=extra)
    assert failed == 0 and attempted >= least


def test_the_pages_examples_run(here: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.M | re.S)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(blocks) >= 5


def test_the_page_names_every_argument(here: Path) -> None:
    import inspect
    page = (ROOT / "docs" / "python.md").read_text()
    missing = [name for name in inspect.signature(fullbore.Loader).parameters if f"`{name}" not in page]
    assert missing == []


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file() and (PACKAGE / "_fullbore.pyi").is_file()


def test_mypy_has_nothing_to_say() -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir=/dev/null"],
                          cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_stub_is_what_the_extension_has() -> None:
    from fullbore import _fullbore
    stub = (PACKAGE / "_fullbore.pyi").read_text()
    functions = set(re.findall(r"^def (\w+)\(", stub, re.M))
    assert functions == {n for n in dir(_fullbore) if not n.startswith("_") and callable(getattr(_fullbore, n))}
    for kind in ("_Array", "_Batch", "_Loader"):
        body = stub.split(f"class {kind}:")[1].split("@final")[0].split("\ndef ")[0]
        names = {n for n in re.findall(r"def (\w+)\(", body) if not n.startswith("__")}
        assert names == {n for n in dir(getattr(_fullbore, kind)) if not n.startswith("_")}


def test_the_version_is_the_librarys() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", fullbore.__version__)
