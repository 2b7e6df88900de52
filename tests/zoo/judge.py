"""Judges `fullbore watch` by generated programs and by scripts in public style; prints the tables.

    tests/zoo/judge.py [--seeds A:B] [--odd | --even] [--only WORD,...] [--scripts] [--no-gains] [--seconds S] [--minutes M]
                       [--results FILE] [--fresh] [--json FILE] [--command FULLBORE] [--data DIR] [--patience S] [--show]

Each program is run watched, with its own clock running unseen; once more by itself (two truths that differ by more than 5 points judge
nobody: "unstable", not counted as right); with its largest cause removed; with the first remedy applied; and, when the verdict says that
nothing can be gained, with the step alone. What counts as right is in judgement.py. Rules may be tuned on even seeds; odd seeds judge.

Runs are kept in --results (default build/zoo-generated.jsonl), so the next call goes on; --minutes begins no run after that time, the
tables show what there is, and the exit code is 4. Else it is 1 if a verdict was a false "nothing can be gained", 0 if not. A quiet machine
is needed: who shares the cores takes part in what is measured.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generate import draw, seeds_of
from generated_runs import Late, Runs, make_data
from judgement import NOTHING, Judgement, Subject, judge, subject_of_script, subject_of_seed
from scripts import SCRIPTS

ROOT = Path(__file__).resolve().parents[2]
PARTLY = 4


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "n/a"


def times(value: float | None) -> str:
    return f"{value:.2f}x" if value is not None else "n/a"


def losses(j: Judgement) -> str:
    shown = [f"{cause} {100 * share:.0f}" for cause, share in j.lost.items() if share >= 0.03]
    return ", ".join(shown) or NOTHING


def named(what: Judgement | Subject) -> str:
    subject = what.subject if isinstance(what, Judgement) else what.name
    return f"{subject + ' ' + what.label:<42}"


def line_of(j: Judgement) -> str:
    said = f"{100 * j.starved_said:.0f}" if j.starved_said is not None else "n/a"
    disturbed = f"; others used {j.others_cores:.1f} cores" if j.is_disturbed else ""
    mark = "unstable" if not j.is_stable else "right" if j.score == 1 else "half" if j.score == 0.5 else "WRONG"
    return (f"{named(j)}{mark:<9}{j.verdict:<28}truth: {losses(j)}; starved {100 * j.starved_true:.0f} said {said}; "
            f"cause removed {times(j.removed_gain)}, all {times(j.best_gain)}; "
            f"remedy {j.gain_is}: said {times(j.predicted_gain)}, measured {times(j.measured_gain)}{disturbed}")


def with_gains(stable: list[Judgement]) -> list[Judgement]:
    return [j for j in stable if j.gain_is in ("near", "far", "miss")]


def print_classes(found: list[Judgement]) -> None:
    classes: dict[str, list[Judgement]] = {}
    for j in found:
        classes.setdefault(j.label.split("/")[0], []).append(j)
    print(f"\n{'class':<22}{'programs':>9}{'stable':>8}{'right':>8}{'shares':>8}{'gains':>8}")
    for label, of_class in [*sorted(classes.items()), ("all", found)]:
        stable = [j for j in of_class if j.is_stable]
        shares = [j for j in stable if j.is_share_right is not None]
        gains = with_gains(stable)
        print(f"{label:<22}{len(of_class):>9}{len(stable):>8}{percent(sum(j.score for j in stable), len(stable)):>8}"
              f"{percent(sum(bool(j.is_share_right) for j in shares), len(shares)):>8}"
              f"{percent(sum(j.gain_is == 'near' for j in gains), len(gains)):>8}")


def print_confusion(found: list[Judgement]) -> None:
    stable = [j for j in found if j.is_stable]
    counts = collections.Counter((j.cause, j.verdict) for j in stable)
    verdicts = sorted({j.verdict for j in stable})
    print("\nlargest true cause (rows) and verdict (columns)")
    print(f"{'':<20}" + "".join(f"{v.removeprefix('data-bound: '):>19}" for v in verdicts))
    for cause in sorted({j.cause for j in stable}):
        print(f"{cause:<20}" + "".join(f"{counts[cause, v] or '.':>19}" for v in verdicts))


def print_wrong(found: list[Judgement]) -> None:
    print("\nwrong: what was said, the truth, and the evidence")
    for j in found:
        if j.is_stable and (j.score < 1 or j.is_false_nothing):
            gained = f" (alone the step is {times(j.best_gain)} as fast)" if j.best_gain else ""
            print(f"{named(j)}{j.verdict}; truth: {j.cause}{gained}: {losses(j)}; {j.why}")
    print("\nremedies that missed")
    for j in found:
        if j.is_stable and j.gain_is in ("far", "miss"):
            words = j.remedy or "no remedy"
            print(f"{named(j)}{times(j.predicted_gain)} said, {times(j.measured_gain)} measured: {words}")


def totals(found: list[Judgement], with_unstable: bool = False) -> dict:
    stable = [j for j in found if j.is_stable or with_unstable]
    shares, gains = [j for j in stable if j.is_share_right is not None], with_gains(stable)
    return {"programs": len(found), "stable": len(stable), "right": sum(j.score for j in stable), "shares_told": len(shares),
            "shares_right": sum(bool(j.is_share_right) for j in shares), "gains": len(gains),
            "gains_near": sum(j.gain_is == "near" for j in gains), "false_nothing": sum(j.is_false_nothing for j in stable)}


def print_totals(what: str, t: dict) -> None:
    print(f"{what}: {t['programs'] - t['stable']} unstable, {t['stable']} judged: cause right {percent(t['right'], t['stable'])}; "
          f"starved share within 10 points {percent(t['shares_right'], t['shares_told'])} of {t['shares_told']}; first remedy within 20 % "
          f"{percent(t['gains_near'], t['gains'])} of {t['gains']}; falsely nothing to gain: {t['false_nothing']}", flush=True)


def print_tables(found: list[Judgement]) -> dict:
    print_confusion(found)
    print_wrong(found)
    print_classes(found)
    print()
    print_totals("all", totals(found))
    print_totals("unstable ones too, each by the clock of the run that was watched", totals(found, with_unstable=True))
    if any(j.is_disturbed for j in found):
        print_totals("while other programs used less than 0.4 cores", totals([j for j in found if not j.is_disturbed]))
    return {**totals(found), "judgements": [dataclasses.asdict(j) for j in found]}


def chosen(options: argparse.Namespace, runs: Runs) -> list[Subject]:
    words = [word for word in options.only.split(",") if word]
    if options.scripts:
        return [subject_of_script(s, runs) for s in SCRIPTS if not words or s.name in words]
    seeds = [s for s in options.seeds if (s % 2 == 1 or not options.odd) and (s % 2 == 0 or not options.even)]
    return [subject_of_seed(s, runs) for s in seeds if not words or any(word in draw(s).label for word in words)]


def judge_all(subjects: list[Subject], seconds: float, with_gains: bool) -> tuple[list[Judgement], int]:
    """What was found, and how many are left."""
    found, left = [], 0
    for subject in subjects:
        try:
            result = judge(subject, seconds, with_gains)
        except Late:
            left += 1
            continue
        print(line_of(result) if isinstance(result, Judgement) else f"{named(subject)}{result}", flush=True)
        if isinstance(result, Judgement):
            found.append(result)
    return found, left


def options_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=seeds_of, default=range(0, 300), metavar="A:B")
    parser.add_argument("--odd", action="store_true", help="those that judge")
    parser.add_argument("--even", action="store_true", help="those that rules may be tuned on")
    parser.add_argument("--only", default="", metavar="WORD,...", help="classes with one of these words in their name; names of scripts")
    parser.add_argument("--scripts", action="store_true", help="the scripts in public style instead of generated programs")
    parser.add_argument("--no-gains", action="store_true", help="verdicts and shares only: two runs of each program instead of four")
    parser.add_argument("--seconds", type=float, default=7, help="of a watched run, after its first batch")
    parser.add_argument("--minutes", type=float, default=0, help="begin no run after that (default: no limit)")
    parser.add_argument("--results", type=Path, default=ROOT / "build/zoo-generated.jsonl", help="keep runs there")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are kept")
    parser.add_argument("--json", type=Path, default=ROOT / "build/zoo-generated.json", help="write the table there, too")
    parser.add_argument("--command", default=str(ROOT / ".venv/bin/fullbore"))
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "fullbore-zoo")
    parser.add_argument("--patience", type=float, default=0, help="before each run wait so many seconds for others to become quiet")
    parser.add_argument("--show", action="store_true", help="print what the runs say")
    return parser.parse_args()


def main() -> int:
    options = options_of()
    options.results.parent.mkdir(exist_ok=True)
    if options.fresh:
        options.results.unlink(missing_ok=True)
    make_data(options.data)
    runs = Runs(options.command, options.data, options.results, options.minutes, options.show, options.patience)
    found, left = judge_all(chosen(options, runs), options.seconds, not options.no_gains)
    table = print_tables(found)
    options.json.write_text(json.dumps({**table, "left": left}, indent=1) + "\n")
    if left:
        print(f"{left} programs are left: call it again to go on", flush=True)
        return PARTLY
    return 1 if table["false_nothing"] else 0


if __name__ == "__main__":
    sys.exit(main())
