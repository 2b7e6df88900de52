"""Pages that are followed to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_photos import make_photos

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_way_from_a_dataloader_is_followed_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    make_photos(tmp_path / "photos", 14)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "from-dataloader.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) >= 7
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/from-dataloader.md", "exec"), names)


def test_every_argument_of_dataloader_is_on_the_page() -> None:
    import inspect

    data = pytest.importorskip("torch.utils.data")
    page = (ROOT / "docs" / "from-dataloader.md").read_text()
    arguments = [name for name in inspect.signature(data.DataLoader).parameters if name != "self"]
    assert [name for name in arguments if f"`{name}`" not in page] == []
