"""The public header stands alone, and the libraries export what it declares and nothing else."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/fullbore/fullbore.h"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-I", str(ROOT / "include")]


def declared_functions() -> set[str]:
    return set(re.findall(r"FB_API[^;()]*?\b(fb_\w+)\(", HEADER.read_text()))


@pytest.mark.parametrize("compiler, language, standard", [
    ("cc", "c", "c11"), ("cc", "c", "gnu17"), ("c++", "c++", "c++17"), ("c++", "c++", "c++20"),
])
def test_the_header_compiles_alone(tmp_path: Path, compiler: str, language: str, standard: str) -> None:
    source = tmp_path / ("a.c" if language == "c" else "a.cc")
    source.write_text("#include <fullbore/fullbore.h>\n#include <fullbore/fullbore.h>\nint main(void) { return fb_version() == 0; }\n")
    result = subprocess.run([compiler, f"-std={standard}", *STRICT, "-c", str(source), "-o", str(tmp_path / "a.o")], capture_output=True,
                            text=True)
    assert result.returncode == 0, result.stderr


def test_the_export_list_is_the_header() -> None:
    listed = set(re.findall(r"\b(fb_\w+);", (ROOT / "src/fullbore.map").read_text()))
    assert listed == declared_functions()


def test_the_shared_library_exports_the_header_and_nothing_else() -> None:
    library = ROOT / "build/src/libfullbore.so"
    output = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    symbols = {line.split()[-1].split("@")[0] for line in output.splitlines()} - {"FULLBORE_0"}
    assert symbols == declared_functions()
