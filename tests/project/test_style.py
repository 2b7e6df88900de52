"""What tools can check of how the code reads: its format, its width, the length of its functions, what clang-tidy and ruff find in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
WIDTH = 140
# With asserts, which tell the analyzer something; and it looks at each function by itself: see .clang-tidy.
TIDY_WORDS = ("-UNDEBUG", "-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, text=True)
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).is_file()]


def said(command: list[str | Path]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def longest_function() -> int:
    found = re.search(r"function-size\.LineThreshold: (\d+)", (ROOT / ".clang-tidy").read_text())
    assert found
    return int(found[1])


def functions(text: str) -> list[tuple[str, int]]:
    """The last line of each head, and how many lines lie between the brackets: clang-format puts both into the first column."""
    lines, found, begun = text.splitlines(), [], None
    for at, line in enumerate(lines):
        if line == "{" and begun is None:
            begun = at
        elif line.startswith("}") and begun is not None:
            found.append((lines[begun - 1].strip(), at - begun - 1))
            begun = None
    return found


def test_c_is_formatted() -> None:
    """`make format` does it."""
    assert said([BIN / "clang-format", "--dry-run", "-Werror", *tracked("*.c", "*.h")]) == ""


def test_ruff_finds_nothing() -> None:
    assert said([BIN / "ruff", "check", "--quiet", "--no-cache", "--output-format", "concise", "."]) == ""


def test_lines_fit() -> None:
    found = [f"{path.relative_to(ROOT)}:{number}" for path in tracked("*.c", "*.h", "*.py")
             for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > WIDTH]
    assert found == []


def test_functions_are_short() -> None:
    most = longest_function()
    found = [f"{path.relative_to(ROOT)}: {head}: {count} lines" for path in tracked("*.c", "*.h")
             for head, count in functions(path.read_text()) if count > most]
    assert found == []
    assert functions("int f(void)\n{\n    return 1;\n}\nstruct s {\n};\nstatic int g(int a,\n             int b)\n{\n}\n") == [
        ("int f(void)", 1), ("int b)", 0)]


def test_clang_tidy_finds_nothing() -> None:
    """All of src/: a minute on two cores."""
    build = ROOT / "build"
    if not (build / "compile_commands.json").exists():
        pytest.skip("no compile_commands.json in build: run make build")
    files = [path for path in tracked("src/*.c") if f'"../{path.relative_to(ROOT)}"' in (build / "compile_commands.json").read_text()]
    command = [BIN / "clang-tidy", "--quiet", "-p", build, *(f"--extra-arg={word}" for word in TIDY_WORDS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda at: said([*command, *files[at:at + 8]]), range(0, len(files), 8)))
    assert "".join(found) == ""
    assert len(files) > 300


def test_the_hosted_ci_has_both_compilers_on_both_machines() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    clang = re.search(r"\bclang-\d+\b", (ROOT / "tools/setup.sh").read_text())
    assert clang
    found = set()
    for job in jobs.values():
        matrix = job["strategy"]["matrix"]
        assert matrix.keys() == {"machine", "compiler"}, "what is left out of it would be hidden here"
        assert job["runs-on"] == "${{ matrix.machine }}" and job["env"]["CC"] == "${{ matrix.compiler }}"
        machines = {"arm" if machine.endswith("-arm") else "x86" for machine in matrix["machine"]}
        found |= {(machine, compiler) for machine in machines for compiler in matrix["compiler"]}
    assert found >= {(machine, compiler) for machine in ("arm", "x86") for compiler in ("gcc", clang[0])}


def test_the_hosted_ci_calls_doors_that_exist() -> None:
    doors = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    work = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert work["permissions"] == {"contents": "read"}
    for job in work["jobs"].values():
        assert "permissions" not in job and job["timeout-minutes"] <= 120
        lines = [line.split() for step in job["steps"] for line in step.get("run", "").splitlines()]
        assert {words[1] for words in lines if words[0] == "make"} <= doors
        assert [words for words in lines if words[0] == "bash" and not (ROOT / words[1]).is_file()] == []
        assert [words for words in lines if words[0] not in ("make", "bash")] == []
        assert [step["uses"] for step in job["steps"] if "uses" in step and not re.search(r"@[0-9a-f]{40}$", step["uses"])] == []
