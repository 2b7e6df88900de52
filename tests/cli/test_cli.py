"""The command as a user sees it: one script per behaviour in cases/, what it must print beside it.

    cases/NAME.sh      run by bash -eu in an empty folder; `fullbore` is on the PATH, $PHOTOS is a folder of 24 images in 3 classes
    cases/NAME.out     what stdout must be; missing: nothing may be printed
    cases/NAME.err     what stderr must be; missing: nothing may be printed
    cases/NAME.exit    the exit code; missing: 0

In .out and .err `*` stands for anything within a line and a line `...` for any number of lines.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from PIL import Image

CASES = Path(__file__).parent / "cases"
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", Path(__file__).resolve().parents[2] / ".venv/bin/fullbore"))


def pattern(expected: str) -> re.Pattern[str]:
    lines = []
    for line in expected.splitlines():
        lines.append(r"(?:.*\n)*?" if line == "..." else ".*".join(re.escape(part) for part in line.split("*")) + "\n")
    return re.compile("".join(lines))


def check(case: Path, suffix: str, printed: str) -> None:
    path = case.with_suffix(suffix)
    expected = path.read_text() if path.exists() else ""
    if not pattern(expected).fullmatch(printed):
        pytest.fail(f"{case.name} {suffix[1:]} is\n{printed}\nand should be\n{expected}", pytrace=False)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "photos"
    for i in range(24):
        path = folder / ("cat", "dog", "owl")[i % 3] / f"{i:02d}.{('jpg', 'png', 'webp')[i // 3 % 3]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.radial_gradient("L").resize((300 + 7 * i, 260 + 5 * i)).rotate(15 * i)
        Image.merge("RGB", [image, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), image.point(lambda v: 255 - v)]).save(path)
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (1.7e9, 1.7e9))  # what changed a moment ago may change again unseen: such a folder is looked through anew
    return folder


@pytest.mark.parametrize("case", sorted(CASES.glob("*.sh")), ids=lambda p: p.stem)
def test_case(case: Path, photos: Path, tmp_path: Path) -> None:
    env = {"PATH": f"{COMMAND.parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"),
           "PHOTOS": str(photos), "LC_ALL": "C.UTF-8", "CASES": str(CASES)}
    work = tmp_path / "work"
    work.mkdir()
    result = subprocess.run(["bash", "-eu", str(case)], cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    code = case.with_suffix(".exit")
    assert result.returncode == (int(code.read_text()) if code.exists() else 0), result.stderr.decode(errors="replace")
    check(case, ".out", result.stdout.decode(errors="replace"))
    check(case, ".err", result.stderr.decode(errors="replace"))


def test_every_expectation_belongs_to_a_case() -> None:
    names = {p.stem for p in CASES.glob("*.sh")}
    assert {p.stem for p in CASES.iterdir()} == names


@pytest.mark.parametrize("expected, printed, fits", [
    ("a*c\n", "abbc\n", True), ("a*c\n", "ab\n", False), ("a\n...\nz\n", "a\nb\nz\n", True), ("a\n...\n", "b\n", False), ("", "x\n", False),
])
def test_patterns_tell_right_from_wrong(expected: str, printed: str, fits: bool) -> None:
    assert bool(pattern(expected).fullmatch(printed)) == fits
