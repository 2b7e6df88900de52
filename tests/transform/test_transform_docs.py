"""docs/transforms.md names what there is: every transform and option, and its examples open."""
import re

import numpy as np
from transform_client import REPO, Tool

PAGE = (REPO / "docs" / "transforms.md").read_text()


def known():
    """name -> options, read from the tables in the source."""
    tables, names = {}, {}
    for path in sorted((REPO / "src" / "transform").rglob("*.c")):
        text = path.read_text()
        here = {m[1]: re.findall(r'\{"(\w+)", OPTION_', m[2]) for m in re.finditer(r"struct option (\w+)\[\] = \{(.*?)\n?\};", text, re.S)}
        tables.update(here)
        for m in re.finditer(r"const struct transform_ops (\w+) = \{(.*?)\n\};", text, re.S):
            name, options = re.search(r'\.name = "(\w+)"', m[2])[1], re.search(r"\.options = (\w+)", m[2])[1]
            names[name] = here[options]
    return names


def test_every_transform_and_option_is_on_the_page():
    names = known()
    assert len(names) >= 12
    page = PAGE[: PAGE.index("## Randomness")]  # whose table has rows of the same names
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)` \|.*$", page, re.M)}
    for name, options in names.items():
        assert name in rows, name
        for option in options:
            assert f"{option}=" in rows[name], (name, option)


def test_the_pages_examples_open():
    pixels = np.zeros((300, 280, 3), np.uint8)
    examples = [b.strip() for b in re.findall(r"^```\n(.*?)^```", PAGE, re.S | re.M)] + re.findall(r"`(resize size=256; [^`]*)`", PAGE)
    assert len(examples) >= 2
    with Tool() as tool:
        for spec in examples:
            assert not tool.run(pixels, spec, dtype="auto", layout="NCHW").error, spec
