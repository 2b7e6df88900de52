"""What the sources keep to: numbers are written and read with a point in any locale, and what is printed goes through one door."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FLOAT = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[lL]?[aefgAEFG]")


def sources(folder: str) -> list[Path]:
    return sorted(p for p in (ROOT / "src" / folder).rglob("*") if p.suffix in (".c", ".h"))


def code_of(path: Path) -> str:
    """Without comments; strings stay."""
    text = path.read_text()
    return COMMENT.sub(lambda m: " " if not STRING.search(m.group()) or m.group().startswith("/*") else m.group(), text)


def calls(text: str, name: str) -> list[str]:
    """The arguments of every call of a function, up to the bracket that closes it."""
    found = []
    for match in re.finditer(rf"(?<![\w.>])(?:{name})\(", text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            string = STRING.match(text, at)
            if string:
                at = string.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        found.append(text[match.start():at])
    return found


def has_fraction(literal: str) -> bool:
    return bool(FLOAT.search(literal.replace("%%", "")))


def offences(path: Path) -> list[str]:
    text = code_of(path)
    bad = calls(text, r"strtod|strtof|strtold|strtod_l|atof|setlocale|v\w*printf")
    for call in calls(text, r"printf|fprintf|snprintf|sprintf|dprintf|asprintf|sscanf|fscanf"):
        if any(has_fraction(literal) for literal in STRING.findall(call)):
            bad.append(call)
    return [f"{path.relative_to(ROOT)}: {call.splitlines()[0]}" for call in bad]


def test_numbers_with_a_fraction_go_through_base() -> None:
    """printf, strtod and their kin follow the locale of the host program: with a decimal comma 1.5 becomes 1,5, which is two numbers in
    JSON. text_printf, text_format, text_words, say and text_parse_double do not."""
    found = [line for path in sources(".") if path.parent.name != "base" for line in offences(path)]
    assert found == []


def test_the_verbs_print_through_say_and_talk() -> None:
    """Both escape their arguments; a printf in a verb would print a hostile name as it is. man.c prints roff of our own words."""
    found = []
    for path in sources("cli"):
        if path.name not in ("cli.c", "cli.h", "man.c"):
            for call in calls(code_of(path), r"printf|fprintf|puts|fputs|putchar|putc|fputc|fwrite|dprintf|write"):
                found.append(f"{path.name}: {call.splitlines()[0]}")
    assert found == []


def test_the_rules_see_what_they_are_made_for() -> None:
    assert calls('x(snprintf(a, 3, "%s)", f(1)));', "snprintf") == ['snprintf(a, 3, "%s)", f(1))']
    assert [has_fraction(s) for s in ("%.3f", "%g", "%-8.*e", "%5.1lf", "%d", "100 %% full", "%s", "%llu")] == [True] * 4 + [False] * 4
