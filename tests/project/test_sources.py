"""What the sources keep to: numbers are written and read with a point in any locale, JSON has one writer, what is printed goes through one
door, reading and writing all of something is done in one place, and the engine names no format."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
JSON_BY_HAND = re.compile(r'\\":|^"\{\\"')
SENTENCES = {  # words for people that quote a name before a colon
    r'"the array \"%s\": %s"',
    r'"weights=\"balanced\": the label %lld is not a class number from 0 to %lld"',
}
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


# Files that call pread, pwrite, write or their kin themselves, and why base/file/file.h is not for them.
OWN_CALLS = {
    "cache/cache_entry.c": "reads that must not block (RWF_NOWAIT)",
    "hdf5/sandbox_try.c": "tries what the sandbox refuses",
    "host/proc/proc_file.c": "the first short answer of /proc is its end: asking again would cost a second answer",
    "jobs/doctor/doctor_probe.c": "times single reads",
    "jobs/watch/watch_child.c": "one number into a pipe between fork and exec",
    "meter/marks.c": "one append per group of marks: the rest of a torn one must not follow later",
}


def own_calls(text: str) -> list[str]:
    return calls(text, r"p(?:read|write)(?:64|v|v2|v64|v64v2)?|writev?")


def test_all_of_it_is_read_and_written_by_base() -> None:
    """A loop around pread or write has to get interruptions, short answers, the end of the file and a full disk right. file_read_all_at
    and file_write_all do; io/ has loops of its own kind, which are asynchronous or wake a thread."""
    found = {}
    for path in sources("."):
        name = path.relative_to(ROOT / "src")
        if name.parts[0] not in ("base", "io") and (own := own_calls(code_of(path))):
            found[name.as_posix()] = own
    assert found.keys() - OWN_CALLS.keys() == set(), found
    assert OWN_CALLS.keys() - found.keys() == set(), "named here, but they no longer have such a call"


def json_by_hand(text: str) -> list[str]:
    """Literals that hold a quoted key and its colon, or begin an object."""
    return [literal for literal in STRING.findall(text) if JSON_BY_HAND.search(literal) and literal not in SENTENCES]


def test_json_is_written_by_one_writer() -> None:
    """A format with quotes and commas in it gets escapes, NaN or the comma before the first item wrong one day; base/text/json_writer.h
    does not. The writer itself is the only one that may put brackets and quotes together."""
    found = [f"{path.relative_to(ROOT)}: {literal}" for path in sources(".") if path.name != "json_writer.c"
             for literal in json_by_hand(code_of(path))]
    assert found == []


def test_the_rules_see_what_they_are_made_for() -> None:
    assert calls('x(snprintf(a, 3, "%s)", f(1)));', "snprintf") == ['snprintf(a, 3, "%s)", f(1))']
    assert [has_fraction(s) for s in ("%.3f", "%g", "%-8.*e", "%5.1lf", "%d", "100 %% full", "%s", "%llu")] == [True] * 4 + [False] * 4
    loop = "while (n) { ssize_t got = pread(fd, p, n, at); pwritev2(fd, v, 1, 0, 0); if (write(fd, p, n) < 0) return; }"
    assert [call.split("(")[0] for call in own_calls(loop)] == ["pread", "pwritev2", "write"]
    assert own_calls("rows_pread(o, at); l->write(ctx, line); log.write(line); fwrite(p, 1, n, f); spread(w); file_write_all(fd, p);") == []
    hand_made = [r'text_printf(t, ",\"files\":%llu", n);', r'say("{\"name\" : 1}");', r'put("%s\"%s\":[", comma, name);']
    assert [len(json_by_hand(text)) for text in hand_made] == [1, 1, 1]
    assert json_by_hand(r'J("files", n); say("{}"); puts("<i class=\"a\">"); error(e, "the array \"%s\": %s", name, cause);') == []


FORMATS = re.compile(r"jpe?g|png|webp|hdf5|\bh5|\bwav\b|npy|npz|safetensors|flac", re.I)
KINDS = re.compile(r"is_image|is_sound|FAMILY_\w+|->arrays|arrays_of|images_of|CODEC_\w+|codec_\w+|pipeline_\w+|transform_\w+|image_header")
OPEN_TO_THE_ENGINE = re.compile(  # of the headers in src/feed/; what else lies there belongs to kinds of loads
    r"feed/(engine/\w+|feed|crew|load_ops|labels|read_buffers|device_copy|audit_writer|source_cache|source_io)\.h")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def kind_words(text: str) -> list[str]:
    """What the engine should not know: formats, kinds of data sets, decoders and transforms, by name or by header."""
    code = COMMENT.sub(" ", text)
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
