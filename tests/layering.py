#!/usr/bin/env python3
"""Checks who includes whom under src/, and that headers compile alone.

    layering.py [--src DIR] [--include DIR] [--no-compile] [--self-test]

Stages know base/, model/ and themselves; feed/, monitor/ and jobs/ put them together, and the folders inside of feed/ and jobs/ do not know
each other, and of the headers that lie directly in feed/ and jobs/ those that are listed; cli/ talks to jobs/; python/ to the public header
(and base/). The rules are the tables below. Exit 0: all is well; 1: a violation, each on a line of its own; 77: no C++ compiler to try the
public header with.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("dataset", "order", "io", "cache", "codec", "transform", "batch", "device", "meter", "host", "diagnose")
ANYTHING = {"base", "model", *STAGES, "feed", "monitor"}

# folder -> the folders whose headers it may include, besides its own and the public ones
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "model": {"base"},
    **{stage: {"base", "model"} for stage in STAGES},
    "feed": {"base", "model", *STAGES},
    "monitor": {"base", "model", *STAGES, "feed"},
    "jobs": ANYTHING,
    "cli": {"base", "jobs"},
    "python": {"base"},
    "hdf5": {"base", "model"},
}

# Folders inside of these do not know each other; `output` is there to be shared.
APART = {"feed": set(), "jobs": {"output"}}

# folder inside of feed/ or jobs/ -> which of the headers that lie directly in those two it may include: its own, and what others offer it.
# So a header that is moved up to be seen by all is still seen by those alone that are meant.
OFFERED: dict[str, set[str]] = {
    "feed/array": {"feed/array_walk.h", "feed/arrays.h", "feed/feed.h", "feed/gather_reads.h", "feed/load_ops.h", "feed/worker.h"},
    "feed/device": {"feed/device_copy.h", "feed/feed.h"},
    "feed/engine": {
        "feed/audit_writer.h", "feed/crew.h", "feed/delivery.h", "feed/feed.h", "feed/labels.h", "feed/load_ops.h",
        "feed/source_cache.h", "feed/source_io.h",
    },
    "feed/group": {"feed/array_walk.h", "feed/arrays.h", "feed/chunk_cache.h", "feed/load_ops.h", "feed/worker.h"},
    "feed/single": {"feed/array_walk.h", "feed/arrays.h", "feed/feed.h", "feed/labels.h", "feed/load_ops.h", "feed/source_cache.h",
                    "feed/worker.h"},
    "feed/source": {"feed/crew.h", "feed/load_ops.h", "feed/read_buffers.h", "feed/source_cache.h", "feed/source_io.h"},
    "jobs/audit": {"jobs/audit.h", "jobs/audit_text.h"},
    "jobs/bench": {"jobs/bench.h", "feed/feed.h"},
    "jobs/build": {"jobs/build.h", "jobs/build_report.h"},
    "jobs/decode": {"jobs/decode.h", "feed/feed.h"},
    "jobs/doctor": {
        "jobs/doctor.h",
        "jobs/bench.h", "jobs/decode.h", "jobs/pack.h", "jobs/pack_rechunk.h",  # it tries what it recommends
    },
    "jobs/info": {
        "jobs/info.h", "jobs/index.h",
        "jobs/bench.h",  # `index --learn` is an epoch of it
        "feed/array_probe.h",  # what is in a file
    },
    "jobs/output": set(),
    "jobs/pack": {"jobs/pack.h", "jobs/pack_rechunk.h"},
    "jobs/report": {"jobs/report.h"},
    "jobs/stage": {"jobs/stage.h", "feed/source_io.h"},
    "jobs/unpack": {"jobs/unpack.h", "jobs/verify.h"},
    "jobs/watch": {"jobs/watch.h"},
}

HDF5 = subprocess.run(["pkg-config", "--cflags", "hdf5"], capture_output=True, text=True).stdout.split()
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def includes(source: Path) -> list[tuple[int, str, str]]:
    """(line, quote, path) of every #include that is not in a comment."""
    text = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), source.read_text(encoding="utf-8"))
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := INCLUDE.match(line):
            found.append((number, match.group(1), match.group(2)))
    return found


def check_include(src: Path, source: Path, quote: str, path: str) -> str | None:
    """What is wrong with one #include, or None."""
    own = source.relative_to(src).parts[0]
    target = path.split("/")[0] if "/" in path else own
    if quote == "<":
        # a system header, unless src/ has it: then it is one of ours in disguise
        if not (src / path).is_file() or target == "fullbore":
            return None
    if ".." in path.split("/"):
        return f"{path} climbs out of its folder"
    if quote == '"' and path.startswith("fullbore/"):
        return None
    if quote == '"' and not any(p.is_file() for p in (src / path, source.parent / path)):
        return f"{path} is not a header under src/"
    if target != own and target not in ALLOWED[own]:
        return f"{own}/ may not include {path}"
    return check_siblings(source.relative_to(src).parts, tuple(path.split("/")))


def check_siblings(source: tuple[str, ...], target: tuple[str, ...]) -> str | None:
    """A header inside of a folder's folder belongs to that folder, and to the public header of the same name. One that lies above is for
    the folders that it is offered to."""
    if len(source) > 2 and len(target) == 2 and source[0] in APART and target[0] in APART:
        folder, header = "/".join(source[:2]), "/".join(target)
        return None if header in OFFERED.get(folder, set()) else f"{folder}/ may not include {header}, which is not offered to it"
    is_inside = len(target) > 2 and target[0] in APART and target[1] not in APART[target[0]]
    if is_inside and (source[0], source[1].removesuffix(".h")) != target[:2]:
        return f"{'/'.join(source[:-1])}/ may not include {'/'.join(target)}, which belongs to {'/'.join(target[:2])}/"
    return None


def check_directions(src: Path) -> list[str]:
    problems = []
    sources = sorted(p for p in src.rglob("*") if p.suffix in (".c", ".h"))
    if not sources:
        problems.append(f"{src} holds no C files")
    for source in sources:
        relative = source.relative_to(src)
        if relative.parts[0] not in ALLOWED:
            problems.append(f"src/{relative}: the folder {relative.parts[0]}/ has no rule; add it to the table in tests/layering.py")
            continue
        for line, quote, path in includes(source):
            if problem := check_include(src, source, quote, path):
                problems.append(f"src/{relative}:{line}: {problem}")
    return problems


def check_offers(src: Path) -> list[str]:
    """What is listed is used: the list does not grow old."""
    used = {(("/".join(source.relative_to(src).parts[:2])), path) for source in src.rglob("*.[ch]") for _, _, path in includes(source)}
    return [f"tests/layering.py: {folder}/ no longer includes {header}: take it off the list"
            for folder, headers in OFFERED.items() for header in sorted(headers) if (folder, header) not in used]


def compiles(compiler: list[str], flags: list[str], header: str, suffix: str) -> str | None:
    """Compiles a file that includes the header, twice, and nothing else. None, or the compiler's first error."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"alone{suffix}"
        source.write_text(f"#include <{header}>\n#include <{header}>\n")
        done = subprocess.run([*compiler, *flags, "-fsyntax-only", str(source)], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    return (errors or done.stderr.splitlines() or ["the compiler failed"])[0]


def check_headers(src: Path, include: Path, cc: list[str], cxx: list[str] | None) -> list[str]:
    problems = []
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{include}"]
    for header in sorted(include.rglob("*.h")):
        name = str(header.relative_to(include))
        if error := compiles(cc, ["-std=c11", *strict], name, ".c"):
            problems.append(f"include/{name} does not compile alone as C11: {error}")
        if cxx and (error := compiles(cxx, ["-std=c++17", *strict], name, ".cc")):
            problems.append(f"include/{name} does not compile alone as C++17: {error}")
    python = sysconfig.get_paths()["include"]
    inner = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{include}", f"-I{src}", f"-isystem{python}"]
    for header in sorted(src.rglob("*.h")):
        name = header.relative_to(src)
        is_avx2 = header.stem.endswith("_avx2")
        if name.parts[0] == "python" and not (Path(python) / "Python.h").is_file():
            continue
        if is_avx2 and platform.machine() != "x86_64":
            continue
        library = HDF5 if name.parts[0] == "hdf5" else []
        if name.parts[0] == "hdf5" and not library:
            continue
        if error := compiles(cc, [*inner, *library, *(["-mavx2", "-mfma"] if is_avx2 else [])], str(name), ".c"):
            problems.append(f"src/{name} does not compile alone: {error}")
    return problems


def self_test(cc: list[str]) -> list[str]:
    """Made-up trees with one violation each must be reported, and a clean one must not."""
    cases = {
        "base/a.c": ('#include "model/m.h"\n', "base/ may not include model/m.h"),
        "model/a.c": ('#include "io/i.h"\n', "model/ may not include io/i.h"),
        "io/a.c": ('int x;\n  #  include "order/o.h"\n', "io/ may not include order/o.h"),
        "order/a.c": ("#include <feed/f.h>\n", "order/ may not include feed/f.h"),
        "codec/a.c": ('#include "../io/i.h"\n', "climbs out"),
        "feed/a.c": ('#include "cli/c.h"\n', "feed/ may not include cli/c.h"),
        "cli/a.c": ('#include "feed/f.h"\n', "cli/ may not include feed/f.h"),
        "python/a.c": ('#include "io/i.h"\n', "python/ may not include io/i.h"),
        "host/a.c": ('#include "host/none.h"\n', "host/none.h is not a header"),
        "new/a.c": ("int x;\n", "has no rule"),
        "jobs/pack/a.c": ('#include "jobs/stage/s.h"\n', "belongs to jobs/stage/"),
        "jobs/a.c": ('#include "jobs/stage/s.h"\n', "belongs to jobs/stage/"),
        "feed/single/a.c": ('#include "feed/group/g.h"\n', "belongs to feed/group/"),
        "feed/engine/a.c": ('#include "feed/arrays.h"\n', "feed/engine/ may not include feed/arrays.h, which is not offered"),
        "feed/group/a.c": ('#include "feed/f.h"\n', "feed/group/ may not include feed/f.h, which is not offered"),
        "jobs/doctor/a.c": ('#include "jobs/stage.h"\n', "jobs/doctor/ may not include jobs/stage.h, which is not offered"),
        "jobs/new/a.c": ('#include "feed/arrays.h"\n', "jobs/new/ may not include feed/arrays.h, which is not offered"),
    }
    clean = {
        "io/fine.c": '#include <stdio.h>\n#include <fullbore/fullbore.h>\n#include "base/b.h"\n#include "model/m.h"\n#include "i.h"\n',
        "jobs/stage/fine.c": '#include "jobs/stage/s.h"\n#include "jobs/output/o.h"\n#include "jobs/stage.h"\n',
        "feed/group/fine.c": '#include "feed/arrays.h"\n#include "feed/group/g.h"\n',
        "jobs/stage.h": '#include "jobs/stage/s.h"\n',
        "jobs/fine.c": '#include "feed/f.h"\n#include "io/i.h"\n/* #include "cli/c.h" */\n',
        "cli/fine.c": '#include "jobs/j.h"\n#include "base/b.h"\n#include "cli/c.h"\n',
    }
    headers = {f"{f}/{f[0]}.h": "typedef int x_t;\n" for f in ("base", "model", "io", "order", "feed", "cli", "jobs")}
    headers["feed/arrays.h"] = "typedef int x_t;\n"
    headers |= {f"{f}/{f.rsplit('/')[-1][0]}.h": "typedef int x_t;\n" for f in ("jobs/stage", "jobs/output", "feed/group")}

    def tree(folder: str, files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Path(folder)

    problems = []
    with tempfile.TemporaryDirectory() as folder:
        if said := check_directions(tree(folder, {**headers, **clean})):
            problems.append(f"self-test: a clean tree gives {said}")
    for name, (text, words) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            said = check_directions(tree(folder, {**headers, **clean, name: text}))
            if len(said) != 1 or words not in said[0] or name not in said[0]:
                problems.append(f"self-test: {name} should be refused with '{words}', got {said}")
    with tempfile.TemporaryDirectory() as folder:
        said = check_offers(tree(folder, {**headers, **clean}))
        used = ("feed/group/ no longer includes feed/arrays.h", "jobs/stage/ no longer includes jobs/stage.h")
        if len(said) != sum(map(len, OFFERED.values())) - len(used) or any(words in line for words in used for line in said):
            problems.append(f"self-test: what is no longer included should be told, got {said}")
    with tempfile.TemporaryDirectory() as folder:
        src = tree(folder, {"src/base/bad.h": "size_t x;\n", "src/base/good.h": "#include <stddef.h>\nextern size_t x;\n"}) / "src"
        said = check_headers(src, src / "none", cc, None)
        if len(said) != 1 or "base/bad.h" not in said[0]:
            problems.append(f"self-test: base/bad.h should not compile, got {said}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description="checks include directions under src/ and that headers compile alone")
    parser.add_argument("--src", type=Path, default=ROOT / "src")
    parser.add_argument("--include", type=Path, default=ROOT / "include")
    parser.add_argument("--no-compile", action="store_true", help="directions only")
    parser.add_argument("--self-test", action="store_true", help="check the checker instead")
    args = parser.parse_args()
    cc = os.environ.get("CC", "cc").split()
    cxx = os.environ.get("CXX", "c++").split()
    has_cxx = shutil.which(cxx[0]) is not None
    if args.self_test:
        problems = self_test(cc)
    else:
        problems = check_directions(args.src) + check_offers(args.src)
        if not args.no_compile:
            problems += check_headers(args.src, args.include, cc, cxx if has_cxx else None)
    for problem in problems:
        print(problem)
    if problems:
        return 1
    if not has_cxx and not args.no_compile and not args.self_test:
        print(f"skipped: no C++ compiler ({cxx[0]}) to try the public header with")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
