"""The doors: setup installs only what is missing and says what it may not do; the runner counts what ran; pictures never vary."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import run_tests  # noqa: E402


def stub(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def setup(folder: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    """tools/setup.sh with a PATH where the programs in `folder` come first; nothing is ever installed."""
    stub(folder, "apt-get", "echo apt-get must not run >&2; exit 99")
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    return subprocess.run(["bash", str(ROOT / "tools/setup.sh"), *parts], env=env, capture_output=True, text=True, timeout=120)


def test_a_repeat_installs_nothing_and_says_nothing(tmp_path: Path) -> None:
    result = setup(tmp_path, "build", "demo", "test")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_without_rights_the_exact_line_is_printed(tmp_path: Path) -> None:
    stub(tmp_path, "id", "echo 1000")
    stub(tmp_path, "sudo", "exit 1")
    stub(tmp_path, "dpkg-query", "exit 1")
    result = setup(tmp_path, "build")
    assert result.returncode == 1
    assert "apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev pkg-config libcmocka-dev" in result.stderr
    assert "apt-get must not run" not in result.stderr


def test_with_sudo_it_installs_by_sudo(tmp_path: Path) -> None:
    stub(tmp_path, "id", "echo 1000")
    stub(tmp_path, "dpkg-query", "exit 1")
    stub(tmp_path, "sudo", f'printf "%s\\n" "$*" >> {tmp_path}/log')
    assert setup(tmp_path, "build").returncode == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[:2] == ["-n true", "-n apt-get -qq update"]
    assert lines[2].startswith("-n env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends gcc ")


@pytest.mark.parametrize("parts", [[], ["everything"]])
def test_a_wrong_part_is_a_usage_error(tmp_path: Path, parts: list[str]) -> None:
    assert setup(tmp_path, *parts).returncode == 2


def test_help_names_every_door() -> None:
    text = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for door in ("build", "demo", "test", "soak", "bench", "wheel", "clean", "asan", "tsan", "fuzz", "format"):
        assert f"make {door}" in text


@pytest.mark.parametrize("how, is_error", [
    ({}, False), ({"CI": "true"}, True), ({"WERROR": "1"}, True), ({"CI": "true", "WERROR": ""}, False),
])
def test_warnings_are_errors_where_nobody_else_builds(how: dict[str, str], is_error: bool) -> None:
    """In CI; a user's compiler may warn about what ours does not know, and gcc's sanitizers make it warn of paths that cannot be. clang's
    do not, so that its warnings are errors in the build with AddressSanitizer."""
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "WERROR", "MAKEFLAGS")}
    lines = subprocess.run(["make", "-n", "build"], cwd=ROOT, env={**env, **how}, capture_output=True, text=True, check=True).stdout
    assert ("-Dwerror=true" in lines) == is_error
    assert "-Dwerror=true" in run_tests.ASAN
    assert not any("werror" in option for option in run_tests.TSAN)
    assert "werror" not in (ROOT / "meson.build").read_text()


def test_a_build_folder_that_is_there_is_told_as_well(tmp_path: Path) -> None:
    stub(tmp_path, "meson", f'echo "$*" >> {tmp_path}/log; mkdir -p build; touch build/build.ninja')
    stub(tmp_path, "fullbore", ":")
    stub(tmp_path, "python", ":")
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "WERROR", "MAKEFLAGS")}

    def configured(**more: str) -> list[str]:
        """What meson is told by a build, besides to set up and to install."""
        (tmp_path / "log").unlink(missing_ok=True)
        command = ["make", "-f", ROOT / "Makefile", "build", f"BIN={tmp_path}", "SETUP=:", "NINJA=:"]
        subprocess.run(command, cwd=tmp_path, env={**env, **more}, check=True, capture_output=True)
        return [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("configure")]

    assert configured() == []
    assert configured(CI="true") == ["configure build -Dwerror=true"]
    assert configured(CI="true") == []
    assert configured() == ["configure build -Dwerror=false"]
    assert configured(WERROR="1") == ["configure build -Dwerror=true"]


def test_ci_calls_itself_ci(tmp_path: Path) -> None:
    stub(tmp_path, "make", 'echo "$CI: $*"')
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "WERROR")}
    said = subprocess.run([ROOT / ".ci/run"], env={**env, "PATH": f"{tmp_path}:{env['PATH']}"}, capture_output=True, text=True, check=True)
    assert said.stdout == "true: test\n"


@pytest.mark.parametrize("record, passed, failed, skipped", [
    ({"result": "OK", "stdout": "[       OK ] a\n[       OK ] b\n"}, 2, 0, 0),
    ({"result": "OK", "stdout": ""}, 1, 0, 0),
    ({"result": "SKIP", "stdout": ""}, 0, 0, 1),
    ({"result": "OK", "stdout": "[       OK ] a\n[  SKIPPED ] b\n"}, 1, 0, 1),
    ({"result": "FAIL", "stdout": "[       OK ] a\n", "stderr": "[  FAILED  ] b\n[  FAILED  ] b\n"}, 1, 1, 0),
    ({"result": "FAIL", "stdout": "[       OK ] a\n"}, 1, 1, 0),
    ({"result": "TIMEOUT", "stdout": ""}, 0, 1, 0),
    ({"result": "ERROR"}, 0, 1, 0),
])
def test_cases_of_a_program_are_counted(record: dict, passed: int, failed: int, skipped: int) -> None:
    tally = run_tests.count_cases({"name": "program", **record})
    assert (tally.passed, tally.failed, tally.skipped) == (passed, failed, skipped)
    assert len(tally.failures) == failed and all(line.startswith("program: ") for line in tally.failures)


def test_a_group_that_runs_nothing_has_failed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_tests, "GROUPS", {"nothing": lambda options: run_tests.Tally()})
    monkeypatch.setattr(sys, "argv", ["run_tests.py"])
    assert run_tests.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_a_group_that_hangs_is_stopped() -> None:
    code, output = run_tests.run(["sh", "-c", "echo begun; sleep 100 & sleep 100"], limit_s=0.5)
    assert code == 124
    assert output.startswith("begun\n")


def test_pictures_are_the_same_every_time(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        out = tmp_path / name
        subprocess.run([sys.executable, str(ROOT / "tools/make_photos.py"), str(out), "--count", "4", "--classes", "2", "--offline",
                        "--cache", str(tmp_path / "none")], check=True, capture_output=True)
        digests.append([(p.relative_to(out), hashlib.sha256(p.read_bytes()).hexdigest()) for p in sorted(out.glob("*/*.jpg"))])
    assert len(digests[0]) == 4
    assert digests[0] == digests[1]


def test_pictures_never_replace_a_folder_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/precious.jpg").write_bytes(b"x")
    result = subprocess.run([sys.executable, str(ROOT / "tools/make_photos.py"), str(tmp_path / "mine"), "--count", "2", "--offline"],
                            capture_output=True, text=True)
    assert result.returncode == 2
    assert (tmp_path / "mine/precious.jpg").read_bytes() == b"x"
