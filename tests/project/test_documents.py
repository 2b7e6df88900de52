"""The documents tell the truth: links lead somewhere, commands and options exist, examples run."""

import os
import re
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.md")])
COMMAND = ROOT / ".venv/bin/fullbore"
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


TRAIN = """
count = 0
def train(images, labels):
    global count
    count += len(images)
    assert images.shape[1:] == (3, 224, 224)
"""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


@EVERY_PAGE
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", without_blocks(page.read_text()))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@EVERY_PAGE
def test_every_path_in_the_text_exists(page: Path) -> None:
    paths = re.findall(r"`((?:src|tests|tools|bench|docs|include|examples)/[\w./-]+)`", page.read_text())
    assert [p for p in paths if "NAME" not in p and not (ROOT / p).exists()] == []


@EVERY_PAGE
def test_every_make_target_exists(page: Path) -> None:
    doors = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    text = page.read_text()
    named = re.findall(r"`make ([a-z]+)", text) + re.findall(r"^make ([a-z]+)", "".join(blocks(text, "sh")), re.M)
    assert set(named) - doors == set()


def help_of(verb: str) -> str:
    result = subprocess.run([str(COMMAND), verb, "--help"], capture_output=True, text=True)
    assert result.returncode == 0, f"fullbore {verb} --help: {result.stderr}"
    return result.stdout


@EVERY_PAGE
def test_every_command_and_option_exists(page: Path) -> None:
    text = page.read_text()
    lines = [line for block in blocks(text, "sh") + blocks(text, "console") for line in block.splitlines()]
    lines += re.findall(r"`(fullbore [^`]+)`", text)
    for line in lines:
        match = re.match(r"(?:\$ )?(?:\S*/)?fullbore (\w+)(.*)", line)
        if not match:
            continue
        known = set(re.findall(r"--[a-z][a-z0-9-]*", help_of(match[1])))
        assert set(re.findall(r"--[a-z][a-z0-9-]*", match[2].split("#")[0])) <= known, line


@EVERY_PAGE
def test_every_environment_variable_is_read_somewhere(page: Path) -> None:
    source = "".join(p.read_text() for p in [*ROOT.glob("src/**/*.[ch]"), *ROOT.glob("src/python/**/*.py"), *ROOT.glob("tools/*.py")])
    assert [name for name in re.findall(r"\b(FULLBORE_[A-Z]+)\b", page.read_text()) if f'"{name}"' not in source] == []


@EVERY_PAGE
def test_every_python_name_exists(page: Path) -> None:
    import fullbore

    for block in blocks(page.read_text(), "python"):
        for name in re.findall(r"\bfb\.((?:ops\.)?\w+)", block):
            target: object = fullbore
            for part in name.split("."):
                assert hasattr(target, part), f"fullbore has no {name}"
                target = getattr(target, part)


def test_the_first_example_of_the_readme_runs(tmp_path: Path) -> None:
    for i in range(6):
        path = tmp_path / "photos" / ("cat", "dog")[i % 2] / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.linear_gradient("L").resize((320, 280)).convert("RGB").save(path)
    example = blocks((ROOT / "README.md").read_text(), "python")[0]
    assert "range(50)" in example
    program = TRAIN + example.replace("range(50)", "range(2)") + "\nassert count == 12, count\n"
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert result.returncode == 0, result.stderr


def test_the_readme_shows_measured_figures() -> None:
    section = (ROOT / "README.md").read_text().split("## Measured")[1].split("\n## ")[0]
    assert len(re.findall(r"^\|", section, re.M)) >= 6
    assert re.search(r"\d", section)


def test_the_picture_is_small_and_well_formed() -> None:
    for picture in ROOT.glob("docs/*.svg"):
        assert picture.stat().st_size < 30_000
        xml.dom.minidom.parse(str(picture))


def test_no_page_is_left_out_of_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    assert [p.name for p in ROOT.glob("docs/*.md") if p.name != "README.md" and f"({p.name})" not in index] == []
