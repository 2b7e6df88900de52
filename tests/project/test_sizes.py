"""The tools that count: comments and blank lines are no code, and builds that differ are not compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench")]

import code_lines  # noqa: E402
import sizes  # noqa: E402


def test_what_is_no_code_is_not_counted() -> None:
    c = '/* a\n * b */\n#include <x.h>\n\nint f(void) /* c */\n{\n    // d\n    return g("/* e */", \'"\', "//") / 2; // f\n}\n'
    assert len(code_lines.bare_c(c)) == 5
    python = '"""a\nb"""\n\nimport c  # d\n\n\ndef e():\n    """f"""\n    # g\n    return """h\n# i"""\n'
    assert code_lines.bare_python(python) == ["import c  # d", "def e():", '    return """h', '# i"""']


def test_a_checkout_is_counted_after_formatting(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.c").write_text("int f(void) { return 1; }\n/* no */\n")
    (tmp_path / "src/a.py").write_text("x = 1\n# no\n")
    (tmp_path / "src/untracked.c").write_text("int x;\n")
    for words in (["init", "-q"], ["add", "src/a.c", "src/a.py"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert code_lines.code_lines(tmp_path) == {"C": 4, "Python": 1}


def test_what_was_built_differently_is_not_compared() -> None:
    with pytest.raises(SystemExit, match="buildtype: release here, debug there"):
        sizes.check_alike({"buildtype": "release", "uring": "auto"}, {"buildtype": "debug", "uring": "auto"})
    sizes.check_alike({"a": "b"}, {"a": "b"})


def test_this_checkout_has_what_is_measured() -> None:
    table = sizes.rows(ROOT, ROOT)
    assert [name for name, *_ in table] == ["text of libfullbore.so", "text of extension", "text of command", "code lines, C",
                                            "code lines, Python"]
    assert all(here == there > 10000 for name, here, there in table if name.startswith("text"))
    assert sizes.flags(ROOT)["buildtype"] == "release"


def test_a_checkout_that_is_not_built_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make build"):
        sizes.built(tmp_path, sizes.BUILT["libfullbore.so"])
