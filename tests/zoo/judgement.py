"""What is said of one program, beside its truth: is the cause right, are the shares, does the first remedy bring what was predicted?

    right       the verdict's kind is accepted for the largest true cause; "mixed" is right when no cause has half of the loss; "unknown"
                counts half; where about 5 % are lost "compute-bound" is right, too
    share       starved_ratio within 10 points of the time inside next(), with or without what starting workers took
    gain        the first remedy's prediction within 20 % of what it brought; one that does not apply is a miss; nothing is counted where
                the program's own rate differed by more than 10 % between two runs
    false none  "nothing can be gained" where more than 20 % can: never

A new kind of verdict is one word in ACCEPTED, a new remedy one line in REMEDIES.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import truth as of
from generate import NEVER, Plan, draw, variant
from generated_runs import Change, Runs, Script, why_not

NOTHING = "nothing"

ACCEPTED = {
    NOTHING: {"compute-bound"},
    "storage-latency": {"data-bound: disk-latency"},
    "storage-bandwidth": {"data-bound: disk-bandwidth"},
    "network": {"data-bound: network-latency", "data-bound: network-bandwidth"},
    "cpu": {"data-bound: cpu"},
    "cpu-quota": {"data-bound: cpu-quota"},
    "memory": {"data-bound: memory-thrash"},
    "serial": {"data-bound: serial-section"},
    "validation": {"pause", "data-bound: cpu"},  # the main thread loads by itself now and then: both are true
    "restart": {"pause"},
    "checkpoint": {"pause"},
    "logging": {"pause", "host-bound"},
    "gc": {"pause", "host-bound"},
    "transform": {"host-bound", "data-bound: cpu"},
    "contention": {"data-bound: cpu", "host-bound"},  # hardly a wait, but the step is alone much faster: loaders take its cores or its lock
}
REMOVES = {"storage-latency": "storage", "storage-bandwidth": "storage", "cpu-quota": "quota"}  # the others are called alike


# ---- remedies: what applies the words to a program; None: they do not apply to it


def more_workers(plan: Plan, n: str) -> Change | None:
    if plan.loader in ("none", "inline"):
        return Change(settings=("loader=processes", f"workers={n}"))
    if plan.loader == "fullbore":
        return None
    return Change(settings=(f"workers={n}",))


def loading_beside(plan: Plan, n: str) -> Change | None:
    """Advice for loops that load by themselves."""
    if plan.loader in ("none", "inline"):
        return more_workers(plan, n)
    return Change(without=("validation",)) if plan.validation_ms else None


def without_pause(plan: Plan, n: str) -> Change | None:
    if plan.checkpoint_every:
        return Change(without=("checkpoint",))
    return Change(without=("logging",)) if plan.log_every else None


def native_loader(plan: Plan, n: str) -> Change | None:
    return Change(settings=("loader=fullbore",)) if plan.source == "photos" and plan.loader != "fullbore" else None


def is_restarted(plan: Plan) -> bool:
    return plan.loader in ("processes", "iterable") and not plan.persistent and plan.epoch_steps != NEVER


def when(applies: bool, *causes: str, settings: tuple[str, ...] = ()) -> Change | None:
    return Change(causes, settings) if applies else None


REMEDIES = [
    (r"^DataLoader\(persistent_workers=True\)", lambda plan, n: when(is_restarted(plan), "restart")),
    (r"^worker processes instead of threads: DataLoader\(num_workers=(\d+)",
     lambda plan, n: when(plan.has_threads, settings=("loader=processes", f"workers={n}"))),
    (r"^DataLoader\(num_workers=(\d+).*\(now 0", loading_beside),
    (r"num_workers=(\d+)", more_workers),
    (r"^threads=(\d+)", lambda plan, n: when(plan.loader == "fullbore", settings=(f"workers={n}",))),
    (r"^more worker threads \(threads=\): (\d+)",
     lambda plan, n: when(plan.loader == "fullbore", settings=(f"workers={plan.workers + int(n)}",))),
    (r"^pack ", lambda plan, n: when(plan.source == "small", settings=("packed=1",))),
    (r"/dev/shm", lambda plan, n: when(plan.limit in ("iops", "bytes"), "storage")),
    (r"^copy the data to a local disk", lambda plan, n: when(plan.source == "network", "network")),
    (r"CPU limit of", lambda plan, n: when(plan.limit == "quota", "quota")),
    (r"memory limit", lambda plan, n: when(plan.limit == "memory", "memory")),
    (r"fullbore.Loader", native_loader),
    (r"^halve the CPU", lambda plan, n: when(plan.cost_ms > 0 or plan.source in ("photos", "zlib", "rows"), settings=("scale=0.5",))),
    (r"^halve the bytes", lambda plan, n: when(plan.source == "large", settings=("bytes_scale=0.5",))),
    (r"^write checkpoints", without_pause),
]


def applied(plan: Plan, words: str) -> Change | None:
    for pattern, change in REMEDIES:
        if found := re.search(pattern, words):
            return change(plan, found[1] if found.groups() else "")
    return None


# ---- one program


def true_cause(lost: dict[str, float]) -> str:
    return next(iter(lost)) if sum(lost.values()) >= of.LEAST_LOSS else NOTHING


def score_of(verdict: str, lost: dict[str, float], cause: str) -> float:
    total = sum(lost.values())
    if verdict == "unknown":
        return 0.5
    if verdict in ACCEPTED[cause] or (verdict == "compute-bound" and total < of.LEAST_LOSS + 0.03):
        return 1
    if cause == NOTHING:  # nearly enough is lost for it to be worth a word
        return float(total > of.LEAST_LOSS - 0.02 and verdict in ACCEPTED[next(iter(lost))])
    return float(verdict == "mixed" and lost.get(cause, 0) < 0.5 * total)


def is_share_right(summary: dict, truth: dict) -> bool | None:
    if summary["starved_ratio"] is None:
        return None
    return min(abs(summary["starved_ratio"] - share) for share in of.starved(truth)) <= 0.1


def gain(before: list[float], truth: dict, plan: Plan) -> float | None:
    return sum(before) / len(before) / of.seconds_per_step(truth, plan) if of.is_usable(truth) else None


def says_nothing_to_gain(summary: dict) -> bool:
    return summary["verdict"] == "compute-bound" or (summary["lost_ratio"] is not None and summary["lost_ratio"] < of.LEAST_LOSS)


@dataclass
class Judgement:
    subject: str
    label: str
    lost: dict[str, float]
    verdict: str
    score: float
    cause: str
    starved_true: float
    starved_said: float | None
    is_share_right: bool | None
    apart: float  # the two truths
    removed_gain: float | None = None
    remedy: str = ""
    predicted_gain: float | None = None
    measured_gain: float | None = None
    gain_is: str = "none"  # near, far, miss (does not apply, or none where one is due), none, unsteady, untried
    best_gain: float | None = None
    is_false_nothing: bool = False
    why: str = ""
    rates_apart: float = 0  # as a share, of the two runs
    others_cores: float = 0  # what other programs used meanwhile, at most

    @property
    def is_disturbed(self) -> bool:
        return self.others_cores > 0.4

    @property
    def is_steady(self) -> bool:
        return self.apart <= 0.05 and self.rates_apart <= 0.1

    @property
    def is_stable(self) -> bool:
        """Else its truth is not known: the clock differed, or whether the step is much faster alone cannot be said."""
        return self.is_steady or (self.apart <= 0.05 and not (self.cause == NOTHING and (self.best_gain or 1) > 1.2))


@dataclass
class Subject:
    """A program that can be run: as it is, or with something changed. Times of runs in seconds after the first batch."""
    name: str
    label: str
    plan: Plan
    run: Callable[..., dict]  # (change, seconds=, is_watched=, again=)
    applied: Callable[[str], Change | None]
    removal: Callable[[str], Change | None]
    changed_plan: Callable[[Change], Plan]


def subject_of_seed(seed: int, runs: Runs) -> Subject:
    plan = draw(seed)
    return Subject(str(seed), plan.label, plan, run=lambda change, **how: runs.generated(seed, change, **how),
                   applied=lambda words: applied(plan, words), removal=lambda cause: Change(without=(cause,)),
                   changed_plan=lambda change: variant(seed, list(change.without), list(change.settings)))


def subject_of_script(script: Script, runs: Runs) -> Subject:
    def fix(words: str) -> Change | None:
        for pattern, argv in script.fixes:
            if found := re.search(pattern, words):
                return Change(settings=tuple(word.replace("{n}", found[1] if found.groups() else "") for word in argv))
        return None

    def removal(cause: str) -> Change | None:
        argv = dict(script.removed).get(cause)
        return Change(settings=argv) if argv else None

    return Subject(script.name, f"script/{script.plan.loader}", script.plan, applied=fix,
                   run=lambda change, **how: runs.script(script, change.settings, **how),
                   removal=removal, changed_plan=lambda change: script.plan)


def measure(subject: Subject, change: Change | None, seconds: float, before: list[float]) -> float | None:
    if change is None:
        return None
    return gain(before, subject.run(change, seconds=seconds)["truth"], subject.changed_plan(change))


def judge_remedy(j: Judgement, subject: Subject, seconds: float, before: list[float], remedies: list[dict]) -> None:
    if not remedies:
        j.gain_is = "none" if j.cause == NOTHING or sum(j.lost.values()) < 2 * of.LEAST_LOSS else "miss"
        return
    j.remedy, j.predicted_gain = remedies[0]["change"], remedies[0]["predicted_gain"]
    if subject.plan.loader == "fullbore" and j.remedy.startswith("halve the CPU"):
        j.gain_is = "untried"  # nothing here does that
        return
    change = subject.applied(j.remedy)
    if change is None or j.predicted_gain is None:
        j.gain_is = "miss"
        return
    j.measured_gain = measure(subject, change, seconds, before)
    is_near = j.measured_gain is not None and abs(j.predicted_gain - j.measured_gain) <= 0.2 * j.measured_gain
    j.gain_is = "unsteady" if not j.is_steady else "near" if is_near else "far"


def judge_cause(j: Judgement, subject: Subject, seconds: float, before: list[float], summary: dict) -> None:
    """By the stopwatch; where it saw no loss, or the watcher none, by how fast the step is alone."""
    if j.cause == NOTHING or says_nothing_to_gain(summary):
        j.best_gain = measure(subject, subject.removal("all"), seconds, before)
        gains_much = j.is_steady and (j.best_gain or 1) > 1.2
        j.is_false_nothing = gains_much and says_nothing_to_gain(summary)
        if j.cause == NOTHING and gains_much:
            j.cause = "contention"
    if j.cause not in (NOTHING, "contention"):
        j.removed_gain = measure(subject, subject.removal(REMOVES.get(j.cause, j.cause)), seconds, before)


def judge_by_the_clock(j: Judgement, summary: dict) -> None:
    """Without runs in which something is removed: what could be gained follows from what the clock saw."""
    j.is_false_nothing = says_nothing_to_gain(summary) and 1 / (1 - min(0.99, sum(j.lost.values()))) > 1.2


def judge(subject: Subject, seconds: float, with_gains: bool = True) -> Judgement | str:
    """Or why it cannot be judged."""
    if reason := why_not(subject.plan):
        return f"skipped: {reason}"
    short, plan = 0.6 * seconds, subject.plan
    watched, again = subject.run(Change(), seconds=seconds, is_watched=True), subject.run(Change(), seconds=short)
    summary, truth = watched["summary"], watched["truth"]
    if not of.is_usable(truth) or not of.is_usable(again["truth"]) or summary["verdict"] is None:
        steps = [run["truth"].get("steps", 0) for run in (watched, again)]
        return f"cannot be judged: exit codes {watched['exit']}, {again['exit']}; {steps[0]} and {steps[1]} steps"
    before = [of.seconds_per_step(truth, plan), of.seconds_per_step(again["truth"], plan)]
    lost = of.causes(truth, plan)
    j = Judgement(subject.name, subject.label, lost, summary["verdict"], 0, true_cause(lost), of.starved(truth)[0],
                  summary["starved_ratio"], is_share_right(summary, truth), of.differ(truth, again["truth"], plan),
                  why=" | ".join((summary["evidence"] or [])[:2]), rates_apart=abs(before[0] - before[1]) / min(before),
                  others_cores=max(watched["others_cores"], again["others_cores"]))
    if with_gains:
        judge_cause(j, subject, short, before, summary)
        judge_remedy(j, subject, short, before, summary["remedies"] or [])
    else:
        judge_by_the_clock(j, summary)
    j.score = score_of(j.verdict, j.lost, j.cause)
    return j
