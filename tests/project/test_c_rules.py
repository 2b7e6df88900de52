"""What the sources keep to: numbers are written and read with a point in any locale, what is printed goes through one door, and the engine
names no format. test_primitives.py is about what exists once."""

from __future__ import annotations

import re
from pathlib import Path

from c_text import ROOT, calls, code_of, sources, strings, without

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


FORMATS = re.compile(r"jpe?g|png|webp|hdf5|\bh5|\bwav\b|npy|npz|safetensors|flac", re.I)
KINDS = re.compile(r"is_image|is_sound|FAMILY_\w+|->arrays|arrays_of|images_of|CODEC_\w+|codec_\w+|pipeline_\w+|transform_\w+|image_header")
OPEN_TO_THE_ENGINE = re.compile(  # of the headers in src/feed/; what else lies there belongs to kinds of loads
    r"feed/(engine/\w+|feed|crew|load_ops|labels|read_buffers|device_copy|audit_writer|delivery|source_cache|source_io)\.h")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def kind_words(text: str) -> list[str]:
    """What the engine should not know: formats, kinds of data sets, decoders and transforms, by name or by header."""
    code = without(("comment",), text)
    headers = [h for h in INCLUDE.findall(text)
               if h.startswith(("codec/", "transform/")) or h.startswith("feed/") and not OPEN_TO_THE_ENGINE.fullmatch(h)]
    return FORMATS.findall(text) + KINDS.findall(code) + headers


def test_the_engine_names_no_format() -> None:
    """What a sample is, the engine knows by a table (src/feed/load_ops.h); formats are the business of the kinds of loads."""
    engine = [*sources("feed/engine"), *(ROOT / "src/feed" / name for name in ("feed.h", "crew.h", "load_ops.h", "labels.h"))]
    found = {path.name: kind_words(path.read_text()) for path in engine}
    assert {name: words for name, words in found.items() if words} == {}
    assert kind_words("if (f->arrays && is_jpeg(x))") == ["jpeg", "->arrays"]
    assert kind_words('#include "codec/image/codec.h"\n#include "feed/crew.h"\n#include "feed/gather_reads.h"') == [
        "codec/image/codec.h", "feed/gather_reads.h"]
    assert kind_words("if (f->dataset.family == FAMILY_SOUND) w->state.is_sound = CODEC_PLAIN; /* is_image: */") == [
        "FAMILY_SOUND", "is_sound", "CODEC_PLAIN"]
