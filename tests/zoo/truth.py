"""From what a program's own clock counted to its truth: pure functions.

    shares(truth)              of the wall time: what the loop did
    starved(truth)             of the wall time: inside next(), without and with what starting workers took
    causes(truth, plan)        of the wall time: lost to each cause
    seconds_per_step(...)      wall time per step, whatever part of an epoch the clock saw

Time inside next() belongs to what the main thread did there itself; the rest to what the loaders did meanwhile, in proportion to the time
it took them. Reading counts as storage as far as the reader did not run and reading is limited; where all data are in memory it is CPU
time. Waiting for a core counts as CPU. Threads that hold a lock while they work and mostly wait for it are serial.
"""

from __future__ import annotations

from generate import NEVER, Plan

PAUSE_KINDS = ("restart", "validation", "checkpoint", "logging", "gc", "transform")
LEAST_LOSS = 0.05  # below, nothing can be gained
STEPS_OF_TRUTH = 5  # fewer tell nothing


def shares(truth: dict) -> dict[str, float]:
    return {kind: entry[0] / truth["wall_seconds"] for kind, entry in truth["loop"].items() if entry[2] > 0}


def starved(truth: dict) -> tuple[float, float]:
    of = shares(truth)
    waited = of.get("next", 0) + of.get("validation", 0)
    return waited, waited + of.get("restart", 0)


def cause_of_storage(plan: Plan) -> str:
    return "storage-bandwidth" if plan.limit == "bytes" else "storage-latency"


def is_serial(truth: dict, plan: Plan) -> bool:
    wall, cpu = truth["loaders"].get("decode", [0, 0])
    takes_turns = plan.has_threads and plan.workers > 1 and (plan.is_python or plan.source == "rows")
    return takes_turns and wall - cpu > 0.25 * wall and cpu > 0.3 * truth["wall_seconds"]


def split_work(part: str, wall: float, cpu: float, plan: Plan, serial: bool) -> dict[str, float]:
    """A part of loading by cause: seconds."""
    running, off = min(wall, cpu), max(0.0, wall - cpu)
    cpu_cause = "cpu-quota" if plan.limit == "quota" else "cpu"
    if part == "read" and plan.limit in ("iops", "bytes"):
        return {cpu_cause: running, cause_of_storage(plan): off}
    if part == "network":
        return {cpu_cause: running, "network": off}
    if part == "fault":
        return {"memory" if plan.limit == "memory" else cpu_cause: wall}
    return {"serial" if part == "decode" and serial else cpu_cause: wall}


def add(sums: dict[str, float], more: dict[str, float], times: float = 1) -> None:
    for cause, value in more.items():
        sums[cause] = sums.get(cause, 0) + times * value


def causes(truth: dict, plan: Plan) -> dict[str, float]:
    """Shares of the wall time lost, biggest first."""
    wall, loop = truth["wall_seconds"], truth["loop"]
    lost: dict[str, float] = {kind: loop[kind][0] for kind in PAUSE_KINDS if kind in loop}
    serial = is_serial(truth, plan)
    left = loop.get("next", [0])[0]
    for name, (seconds, cpu, _) in truth["inside"].items():
        kind, part = name.split(" ", 1)
        if kind == "next":
            add(lost, split_work(part, seconds, cpu, plan, False))
            left -= seconds
    of_loaders: dict[str, float] = {}
    for part, (seconds, cpu) in truth["loaders"].items():
        add(of_loaders, split_work(part, seconds, cpu, plan, serial))
    everything = sum(of_loaders.values())
    if everything <= 0:
        of_loaders, everything = {"cpu-quota" if plan.limit == "quota" else "cpu": 1}, 1
    add(lost, of_loaders, max(0, left) / everything)
    return {cause: seconds / wall for cause, seconds in sorted(lost.items(), key=lambda item: -item[1]) if seconds > 0}


def per_step(kind: str, plan: Plan) -> float:
    """How often a pause comes, by construction."""
    epoch = 0 if plan.epoch_steps == NEVER else 1 / plan.epoch_steps
    return {"restart": epoch, "validation": (plan.validation_steps + 1) * epoch, "validation step": plan.validation_steps * epoch,
            "checkpoint": 1 / plan.checkpoint_every if plan.checkpoint_every else 0,
            "logging": 1 / plan.log_every if plan.log_every else 0, "gc": 1 / plan.garbage_every if plan.garbage_every else 0}[kind]


def seconds_per_step(truth: dict, plan: Plan) -> float:
    """A run of a few seconds sees one pause more or less by chance; here each counts as often as it was drawn."""
    rare = ("restart", "validation", "validation step", "checkpoint", "logging", "gc")
    steady = truth["wall_seconds"] - sum(entry[0] for kind, entry in truth["loop"].items() if kind in rare)
    pauses = sum(entry[0] / entry[2] * per_step(kind, plan) for kind, entry in truth["loop"].items() if kind in rare and entry[2] > 0)
    return steady / max(1, truth["steps"]) + pauses


def is_usable(truth: dict) -> bool:
    return bool(truth) and truth["wall_seconds"] > 0.5 and truth["steps"] >= STEPS_OF_TRUTH


def differ(a: dict, b: dict, plan: Plan) -> float:
    """How far two truths of the same program are apart: the largest difference of a cause, or of what is lost altogether."""
    x, y = causes(a, plan), causes(b, plan)
    apart = [abs(x.get(cause, 0) - y.get(cause, 0)) for cause in {*x, *y}]
    return max([*apart, abs(sum(x.values()) - sum(y.values()))], default=0)
