"""What the sources keep to: numbers are written and read with a point in any locale, what is printed goes through one door, and the engine
names no format. test_primitives.py is about what exists once."""

from __future__ import annotations

import re
from pathlib import Path

from c_text import ROOT, calls, code_of, sources, strings

FLOAT = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[lL]?[aefgAEFG]")


def has_fraction(literal: str) -> bool:
    return bool(FLOAT.search(literal.replace("%%", "")))


def offences(path: Path) -> list[str]:
    text = code_of(path)
    bad = calls(text, r"strtod|strtof|strtold|strtod_l|atof|setlocale|v\w*printf")
    for call in calls(text, r"printf|fprintf|snprintf|sprintf|dprintf|asprintf|sscanf|fscanf"):
        if any(has_fraction(literal) for literal in strings(call)):
            bad.append(call)
    return [f"{path.relative_to(ROOT)}: {call.splitlines()[0]}" for call in bad]


def test_numbers_with_a_fraction_go_through_base() -> None:
    """printf, strtod and their kin follow the locale of the host program: with a decimal comma 1.5 becomes 1,5, which is two numbers in
    JSON. text_printf, text_format, text_words, say and text_parse_double do not."""
    found = [line for path in sources(".") if "base" not in path.relative_to(ROOT / "src").parts[:1] for line in offences(path)]
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


FORMATS = re.compile(r"jpe?g|png|webp|hdf5|\bh5|\bwav\b|npy|npz|safetensors|flac|f->arrays|feed/arrays", re.I)


def named_formats(text: str) -> list[str]:
    return FORMATS.findall(text)


def test_the_engine_names_no_format() -> None:
    """What a sample is, the engine knows by a table (src/feed/load_ops.h); formats are the business of the kinds of loads."""
    found = {path.name: named_formats(path.read_text()) for path in sources("feed/engine")}
    assert {name: words for name, words in found.items() if words} == {}
    assert named_formats("if (f->arrays && is_jpeg(x))") == ["f->arrays", "jpeg"]
