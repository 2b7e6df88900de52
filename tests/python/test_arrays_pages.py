"""The page on arrays is followed to the letter, on the data that the examples make."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import fullbore as fb
import pytest

ROOT = Path(__file__).resolve().parents[2]


def made(name: str, *arguments: object) -> None:
    spec = importlib.util.spec_from_file_location("make_data", ROOT / "examples" / name / "make_data.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(*arguments)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """train.h5 of 4000 rows, slides/*.h5 with labels.csv, slides.csv, wavs/."""
    made("rows", tmp_path / "train.h5", 4000)
    made("bags", tmp_path / "slides", 8)
    made("clips", tmp_path / "wavs", 40)
    slides = sorted((tmp_path / "slides").glob("*.h5"))
    rows = [f"slides/{path.name},P-{i // 2},{i // 2 % 2}" for i, path in enumerate(slides)]
    (tmp_path / "slides.csv").write_text("\n".join(["path,patient,label", *rows]) + "\n")
    for path in tmp_path.rglob("*.*"):
        os.utime(path, (1e9, 1e9))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_of_the_page_runs(here: Path) -> None:
    pytest.importorskip("torch")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "arrays.md").read_text(), re.M | re.S)
    assert len(blocks) >= 9
    names: dict[str, object] = {"__name__": "page", "fb": fb}
    for block in blocks:
        exec(compile(block, "docs/arrays.md", "exec"), names)
        loader = names["loader"]
        assert isinstance(loader, fb.Loader)
        assert sum(len(batch.sample_keys) for batch in loader) == loader.sample_count
        loader.close()


def test_the_sizes_on_the_page_are_those_of_the_engine() -> None:
    assert "ARRAYS_CACHE_BLOCK = 256 << 10" in (ROOT / "src/feed/arrays.h").read_text()
    assert "KEPT_WHOLE_MOST = 32 << 20" in (ROOT / "src/feed/single/bag.c").read_text()
    for page in ("arrays.md", "caches.md"):
        text = (ROOT / "docs" / page).read_text()
        assert "256 KiB" in text and "32 MiB" in text
