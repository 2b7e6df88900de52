"""bench/same.py: equal sides are called the same, and a difference is found, shown and ends with exit code 1."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import same  # noqa: E402


def test_a_build_is_the_same_as_itself() -> None:
    done = subprocess.run(
        [sys.executable, "bench/same.py", str(ROOT), "--only", "loaders/order/plain", "states/order/window", "files/manifest.tar"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| same |") == 4  # the state, and going on from the other's
    assert done.stdout.endswith("all the same\n")


def test_an_only_that_names_no_case_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same.same_inputs, "make", Path.mkdir)  # no case will read them
    monkeypatch.setattr(sys, "argv", ["same.py", str(ROOT), "--only", "loaders/nothing"])
    with pytest.raises(SystemExit, match="no case"):
        same.main()


def test_the_first_line_that_differs_is_shown_of_both_sides() -> None:
    assert same.first_difference(["a", "b"], ["a", "b"]) is None
    shown = same.first_difference(["a", "b", "c"], ["a", "x", "y"])
    assert shown == "  line 2 here:  b\n  line 2 there: x\n  and 1 more"
    assert same.first_difference(["a"], ["a", "b"]) == "  line 2 here:  (ends)\n  line 2 there: b"


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ({"here": ["a"], "there": ["a"]}, {"here": ["a"], "there": ["a"]}, 0),
        ({"here": ["a"], "there": ["b"]}, {"here": ["a"], "there": ["a"]}, 1),
        ({"here": ["a"], "there": ["a"]}, {"here": ["b"], "there": ["b"]}, 1),  # both go on from a state otherwise than without it
    ],
)
def test_sides_and_rounds_that_differ_are_counted(
    monkeypatch: pytest.MonkeyPatch, first: dict[str, list[str]], second: dict[str, list[str]], wanted: int
) -> None:
    rounds = {1: first, 2: second}
    monkeypatch.setattr(same, "run_round", lambda number, *_: {side: {"case": lines} for side, lines in rounds[number].items()})
    assert same.compare((), Path(), []) == wanted


def test_a_case_that_only_one_side_has_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same, "run_round", lambda *_: {"here": {}, "there": {"case": ["a"]}})
    assert same.compare((), Path(), []) > 0
