"""C as text, for tests that look for words in it: files, comments taken out, literals, calls."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOKEN = re.compile(r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>'(?:\\.|[^'\\\n])*')""", re.DOTALL)


def sources(folder: str) -> list[Path]:
    return sorted(p for p in (ROOT / "src" / folder).rglob("*") if p.suffix in (".c", ".h"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "src").as_posix()


def without(kinds: tuple[str, ...], text: str) -> str:
    """The text with a space in place of each comment, string or char literal, as `kinds` says."""
    return TOKEN.sub(lambda m: " " if m.lastgroup in kinds else m.group(), text)


def code_of(path: Path) -> str:
    return without(("comment",), path.read_text())


def words_of(text: str) -> str:
    """Neither comments nor literals nor the names of included files."""
    return re.sub(r"^\s*#\s*include[^\n]*", "", without(("comment", "string", "char"), text), flags=re.M)


def strings(text: str) -> list[str]:
    """Every string literal, quotes included."""
    return [m.group() for m in TOKEN.finditer(text) if m.lastgroup == "string"]


def calls(text: str, name: str) -> list[str]:
    """Every call of a function, with its arguments up to the bracket that closes them."""
    found = []
    for match in re.finditer(rf"(?<![\w.>])(?:{name})\(", text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            token = TOKEN.match(text, at)
            if token:
                at = token.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        found.append(text[match.start():at])
    return found
