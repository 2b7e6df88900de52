"""How large what is built and what is written has become: this checkout beside another one.

    bench/sizes.py OTHER

OTHER is a second checkout, an older commit say. Both must have been built (`make build`) with one compiler and the same options; if they
were not, that is said, and nothing is compared. The text of a program is its machine code and constants, as size(1) counts it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import code_lines

BUILT = {"libfullbore.so": "build/src/libfullbore.so", "extension": "build/src/python/_fullbore*.so", "command": "build/src/cli/fullbore"}
ELSEWHERE = ("prefix", "install_env", "werror", "backend_startup_project")  # options that are about places, or stop a build


def built(checkout: Path, pattern: str) -> Path:
    found = [path for path in checkout.glob(pattern) if path.is_file()]
    if len(found) != 1:
        raise SystemExit(f"sizes: {checkout} has {len(found) or 'no'} {pattern}: run `make build` there")
    return found[0]


def text_of(path: Path) -> int:
    return int(subprocess.check_output(["size", path], text=True).splitlines()[1].split()[0])


def flags(checkout: Path) -> dict[str, str]:
    """Compiler and options of a build."""
    meson = Path(sys.executable).with_name("meson")
    said = json.loads(subprocess.check_output([meson, "introspect", "--buildoptions", "--compilers", "build"], cwd=checkout, text=True))
    options = {o["name"]: str(o["value"]) for o in said["buildoptions"] if not o["name"].endswith(ELSEWHERE)}
    return {**options, "compiler": said["compilers"]["host"]["c"]["full_version"]}


def check_alike(a: dict[str, str], b: dict[str, str]) -> None:
    unlike = [f"{name}: {a.get(name)} here, {b.get(name)} there" for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]
    if unlike:
        raise SystemExit("sizes: the two were built differently:\n  " + "\n  ".join(unlike))


def rows(here: Path, there: Path) -> list[tuple[str, int, int]]:
    table = [(f"text of {name}", text_of(built(here, pattern)), text_of(built(there, pattern))) for name, pattern in BUILT.items()]
    lines = code_lines.code_lines(here), code_lines.code_lines(there)
    return table + [(f"code lines, {language}", lines[0][language], lines[1][language]) for language in lines[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description="sizes of this checkout beside another one's")
    parser.add_argument("other", type=Path)
    other = parser.parse_args().other.resolve()
    check_alike(flags(ROOT), flags(other))
    print("| | there | here | |\n|---|---:|---:|---:|")
    for name, here, there in rows(ROOT, other):
        print(f"| {name} | {there:,} | {here:,} | {100 * (here / there - 1):+.1f} % |")


if __name__ == "__main__":
    main()
