"""Lines of code: without blank lines and comments (and docstrings), C after clang-format with this checkout's rules.

    tools/code_lines.py [CHECKOUT]

Prints them for src/ and include/, C and Python.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)

LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def bare_c(text: str) -> list[str]:
    """The lines that have code."""
    code = TOKEN.sub(lambda m: re.sub(r"[^\n]", "", m[0]) if m[0].startswith("/") else m[0], text)
    return [line for line in code.splitlines() if line.strip()]


def bare_python(text: str) -> list[str]:
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in LAYOUT]
    code = {number for token in tokens for number in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return [line for number, line in enumerate(text.splitlines(), 1) if number in code]


def formatted(files: list[Path]) -> list[str]:
    """One after another, so that a thousand files are a few calls."""
    program = Path(sys.executable).with_name("clang-format")
    style = f"--style=file:{ROOT / '.clang-format'}"
    return [subprocess.run([program, style, *files[at:at + 100]], capture_output=True, text=True, check=True).stdout
            for at in range(0, len(files), 100)]


def code_lines(checkout: Path) -> dict[str, int]:
    tracked = subprocess.check_output(["git", "ls-files", "src", "include"], cwd=checkout, text=True).splitlines()
    files = [checkout / name for name in tracked if (checkout / name).is_file()]
    c = sum(len(bare_c(text)) for text in formatted([path for path in files if path.suffix in (".c", ".h")]))
    return {"C": c, "Python": sum(len(bare_python(path.read_text())) for path in files if path.suffix == ".py")}


if __name__ == "__main__":
    for language, count in code_lines(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT).items():
        print(f"{language:8} {count:7,}")
