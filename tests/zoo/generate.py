"""Training programs drawn from a seed, each with a truth of its own.

    tests/zoo/generate.py --seed N          prints the plan of program N as JSON
    tests/zoo/generate.py --seeds A:B       one line for each

A plan says who loads, where the samples come from, where the CPU work is, what a step is, what the loop does besides, and which limits
the program runs under. programs/generated.py runs a plan and times itself; generated_runs.py starts it with its limits, watched or not,
whole or with one cause removed; judge.py compares the watcher's verdict with what the program's own clock said.

The draw depends on the seed alone, not on the machine. Rules may be tuned on even seeds; odd seeds judge. Only sensible programs are drawn:
a theme says what the program mostly waits for, if for anything, and the rest has to go with it. Loading is drawn 0.2 to 5 times as slow as
the step and never about as fast, where a small disturbance would turn the truth around.
"""

import argparse
import dataclasses
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

TORCH_LOADERS = ("inline", "processes", "iterable")  # DataLoader: num_workers=0, map-style, IterableDataset
THREAD_LOADERS = ("pool", "queue_threads")  # ThreadPoolExecutor, own queue
PROCESS_LOADERS = ("processes", "iterable", "queue_processes")
OWN_LOADERS = ("none", "inline", *THREAD_LOADERS, *PROCESS_LOADERS)
STEPS = ("sleep", "one", "all", "syncs")
NEVER = 1 << 30  # steps of an epoch that does not end

# CPU of one sample in milliseconds on a machine of 2023, to choose the step by; the truth is measured, not computed from these.
NOMINAL_MS = {"memory": 0.02, "small": 0.05, "large": 2.0, "photos": 4.0, "zlib": 1.2, "rows": 2.5, "network": 0.1, "mapped": 0.1}


@dataclass(frozen=True)
class Plan:
    seed: int
    theme: str
    loader: str = "processes"
    workers: int = 2
    persistent: bool = True
    pin: bool = False
    source: str = "memory"  # memory, small, large, photos, zlib, rows, network, mapped
    cost_ms: float = 0  # CPU per sample besides what the source costs, in the loader
    is_python: bool = False  # that CPU time holds the interpreter's lock
    collate_ms: float = 0  # CPU per batch in the main thread, inside next()
    transform_ms: float = 0  # CPU per batch in the main thread, between next() and the step
    answer_ms: float = 0  # a server's time per request
    batch: int = 8
    step: str = "sleep"
    step_ms: float = 20
    epoch_steps: int = NEVER
    start_ms: float = 0  # what a worker does before its first sample
    validation_steps: int = 0  # batches per epoch, loaded by the main thread
    validation_ms: float = 0  # CPU per sample of them
    checkpoint_mb: float = 0
    checkpoint_every: int = 0
    log_ms: float = 0
    log_every: int = 0
    garbage_every: int = 0
    limit: str = "none"  # none, iops, bytes, memory, quota, core, neighbour
    limit_value: float = 0
    monitor: bool = False  # the loop is wrapped in fb.monitor
    scale: float = 1  # of the CPU per sample: a remedy
    bytes_scale: float = 1  # of the bytes per sample: a remedy
    packed: bool = False  # small files in one: a remedy

    @property
    def label(self) -> str:
        """The class a program is counted under."""
        return f"{self.theme}/{self.loader}"

    @property
    def needs_torch(self) -> bool:
        return self.loader in TORCH_LOADERS or self.step == "all"

    @property
    def has_threads(self) -> bool:
        return self.loader in THREAD_LOADERS

    @property
    def has_processes(self) -> bool:
        return self.loader in PROCESS_LOADERS


# ---- themes: what the program mostly waits for


def loading_times(r: random.Random, *choices: float) -> float:
    """How many times as long as the step a batch takes to load."""
    return r.choice(choices) * r.uniform(0.9, 1.1)


def sized(r: random.Random, plan: Plan, times: float, least_ms: float = 8) -> Plan:
    """Step and batch such that loading takes `times` the step: the step follows from what a batch costs."""
    per_sample = NOMINAL_MS[plan.source] + plan.cost_ms + plan.answer_ms
    beside = plan.workers if plan.loader not in ("none", "inline") else 1
    if plan.is_python and plan.has_threads:
        beside = 1
    elif not plan.answer_ms and plan.loader != "none":
        beside = min(beside, 2)  # cores of a small machine
    step_ms = plan.batch * per_sample / beside / times
    batch = plan.batch
    while step_ms < least_ms:
        step_ms, batch = 2 * step_ms, 2 * batch
    while step_ms > 120 and batch > 1:
        step_ms, batch = step_ms / 2, batch // 2
    return dataclasses.replace(plan, batch=batch, step_ms=round(step_ms, 2))


def light(r: random.Random, plan: Plan) -> Plan:
    """The step sets the pace."""
    loader = r.choice(OWN_LOADERS)
    alone = loader in ("none", "inline")
    plan = dataclasses.replace(plan, loader=loader, source=r.choice(("memory", "small")), cost_ms=0.05 if alone else r.uniform(0.3, 1))
    return sized(r, plan, loading_times(r, 0.015, 0.03) if alone else loading_times(r, 0.2, 0.35))


def decode(r: random.Random, plan: Plan) -> Plan:
    """CPU of the loaders that runs beside the interpreter's lock, or in processes."""
    plan = dataclasses.replace(plan, loader=r.choice(OWN_LOADERS), source=r.choice(("photos", "zlib", "memory", "small")))
    if plan.source in ("memory", "small"):
        plan = dataclasses.replace(plan, cost_ms=r.uniform(1.5, 5), is_python=plan.has_processes and r.random() < 0.5)
    return sized(r, plan, loading_times(r, 0.5, 1.7, 2.5, 4))


def native(r: random.Random, plan: Plan) -> Plan:
    """fullbore.Loader."""
    return sized(r, dataclasses.replace(plan, loader="fullbore", source="photos"), 2.5 * loading_times(r, 0.3, 1.7, 2.5, 4))


def serial(r: random.Random, plan: Plan) -> Plan:
    """Threads that take turns at a lock: the interpreter's or HDF5's."""
    plan = dataclasses.replace(plan, loader=r.choice(THREAD_LOADERS), workers=r.choice((2, 3, 4)),
                               source=r.choice(("memory", "small", "rows")))
    if plan.source == "rows":
        plan = dataclasses.replace(plan, batch=4)
    else:
        plan = dataclasses.replace(plan, cost_ms=r.uniform(1.5, 4), is_python=True)
    return sized(r, plan, loading_times(r, 1.7, 2.5, 4))


def rows(r: random.Random, plan: Plan) -> Plan:
    """Compressed HDF5 rows, read in one process each or by the loop itself."""
    return sized(r, dataclasses.replace(plan, loader=r.choice(("none", "inline", *PROCESS_LOADERS)), source="rows", batch=4),
                 loading_times(r, 0.5, 1.7, 2.5))


def small_reads(r: random.Random, plan: Plan) -> Plan:
    """Small files on storage that serves few requests a second. Pack and memory are the remedies, so the limit is for all workers."""
    iops = r.choice((80, 120, 200))
    plan = dataclasses.replace(plan, loader=r.choice(OWN_LOADERS), source="small", limit="iops", limit_value=iops, batch=r.choice((4, 8)),
                               cost_ms=r.choice((0, 0, 1)))
    return dataclasses.replace(plan, step_ms=round(1.1e3 * plan.batch / iops / loading_times(r, 1.7, 3, 5), 2))


def big_reads(r: random.Random, plan: Plan) -> Plan:
    """Large files on storage that gives few bytes a second."""
    rate = r.choice((15, 20, 25))
    plan = dataclasses.replace(plan, loader=r.choice(OWN_LOADERS), source="large", limit="bytes", limit_value=rate * 1e6, batch=1)
    return dataclasses.replace(plan, step_ms=round(4e3 / rate / loading_times(r, 1.7, 3, 5), 2))


def network(r: random.Random, plan: Plan) -> Plan:
    """A server that answers after a while, one request at a time per connection."""
    plan = dataclasses.replace(plan, loader=r.choice(OWN_LOADERS), source="network", answer_ms=r.choice((4, 10, 25)) * r.uniform(0.9, 1.1))
    return sized(r, dataclasses.replace(plan, batch=2), loading_times(r, 0.4, 1.7, 3, 5))


def memory(r: random.Random, plan: Plan) -> Plan:
    """A mapped file larger than the memory the program may use. Without torch, whose size would be most of the limit."""
    plan = dataclasses.replace(plan, loader=r.choice(("none", "queue_threads", "queue_processes")), source="mapped", limit="memory",
                               limit_value=180e6, step=r.choice(("sleep", "one")), batch=r.choice((2, 4)))
    return dataclasses.replace(plan, step_ms=r.uniform(15, 60))


def collate(r: random.Random, plan: Plan) -> Plan:
    """Samples come from threads or memory; putting the batch together is the main thread's."""
    plan = dataclasses.replace(plan, loader=r.choice(("none", "inline", "pool", "queue_threads", "queue_processes")), cost_ms=0.2)
    step = r.uniform(10, 40)
    return dataclasses.replace(plan, step_ms=step, collate_ms=step * loading_times(r, 0.25, 0.7, 2))


def transform(r: random.Random, plan: Plan) -> Plan:
    """The main thread works on the batch between next() and the step."""
    plan = dataclasses.replace(plan, loader=r.choice(OWN_LOADERS), cost_ms=0.05)
    step = r.uniform(10, 40)
    return dataclasses.replace(plan, step_ms=step, transform_ms=step * loading_times(r, 0.25, 0.7, 2))


def pauses(r: random.Random, plan: Plan) -> Plan:
    """Loading is beside the step; something else stops the loop now and then."""
    plan = dataclasses.replace(light(r, plan), theme="pause-" + r.choice(tuple(PAUSES)))
    return PAUSES[plan.theme.removeprefix("pause-")](r, plan)


def quota(r: random.Random, plan: Plan) -> Plan:
    """Loaders that want more of the CPU than the control group gives."""
    plan = dataclasses.replace(plan, loader=r.choice(("inline", *PROCESS_LOADERS)), cost_ms=r.uniform(1.5, 4), step="sleep", limit="quota",
                               limit_value=r.choice((0.25, 0.4, 0.6)))
    return sized(r, plan, loading_times(r, 0.8, 1.2))


def one_core(r: random.Random, plan: Plan) -> Plan:
    """Loaders that share one core, with each other and perhaps with the step."""
    plan = dataclasses.replace(plan, loader=r.choice(PROCESS_LOADERS), cost_ms=r.uniform(1.5, 4), step=r.choice(("sleep", "one", "syncs")),
                               limit="core", workers=r.choice((2, 4)))
    return sized(r, plan, loading_times(r, 0.4, 1.2, 2.5))


def neighbour(r: random.Random, plan: Plan) -> Plan:
    """Another program wants the same cores."""
    return dataclasses.replace(decode(r, plan), limit="neighbour", limit_value=r.choice((1, 2)))


# ---- pauses


def validation(r: random.Random, plan: Plan) -> Plan:
    steps = max(10, round(900 / plan.step_ms))
    cost = r.uniform(1, 4)
    wanted_ms = steps * plan.step_ms * r.choice((0.15, 0.4, 0.8))
    return dataclasses.replace(plan, epoch_steps=steps, validation_ms=cost, validation_steps=max(1, round(wanted_ms / (8 * cost))))


def checkpoint(r: random.Random, plan: Plan) -> Plan:
    every = max(5, round(r.choice((400, 900)) / plan.step_ms))
    return dataclasses.replace(plan, checkpoint_every=every, checkpoint_mb=r.choice((20, 60, 120)))


def restart(r: random.Random, plan: Plan) -> Plan:
    loader = r.choice(("processes", "iterable"))
    steps = max(10, round(r.choice((500, 900)) / plan.step_ms))
    return dataclasses.replace(plan, loader=loader, persistent=False, epoch_steps=steps, start_ms=r.choice((0, 150, 400)))


def logging(r: random.Random, plan: Plan) -> Plan:
    every = r.choice((1, 5))
    return dataclasses.replace(plan, log_every=every, log_ms=every * plan.step_ms * r.choice((0.1, 0.35)))


def garbage(r: random.Random, plan: Plan) -> Plan:
    return dataclasses.replace(plan, garbage_every=max(1, round(r.choice((80, 200)) / plan.step_ms)))


THEMES: dict[str, tuple[int, Callable[[random.Random, Plan], Plan]]] = {
    "light": (3, light), "decode": (5, decode), "native": (2, native), "serial": (2, serial), "rows": (1, rows),
    "small-reads": (3, small_reads), "big-reads": (2, big_reads), "network": (3, network), "memory": (1, memory), "collate": (2, collate),
    "transform": (2, transform), "pause": (5, pauses), "quota": (2, quota), "one-core": (1, one_core), "neighbour": (2, neighbour)}
PAUSES: dict[str, Callable[[random.Random, Plan], Plan]] = {
    "validation": validation, "checkpoint": checkpoint, "restart": restart, "logging": logging, "gc": garbage}


# ---- the draw


def draw(seed: int) -> Plan:
    r = random.Random(f"fullbore zoo {seed}")
    theme = r.choices(tuple(THEMES), [weight for weight, _ in THEMES.values()])[0]
    plan = Plan(seed, theme, workers=r.choice((1, 2, 2, 4)), pin=r.random() < 0.3, step=r.choice(STEPS), batch=r.choice((4, 8, 16)))
    plan = THEMES[theme][1](r, plan)
    if theme not in ("pause", "memory", "quota") and r.random() < 0.2:
        plan = PAUSES[r.choice(("validation", "checkpoint", "logging"))](r, plan)
    if plan.loader not in ("fullbore", "none") and plan.source != "mapped" and r.random() < 0.15:
        plan = dataclasses.replace(plan, monitor=True)
    rounded = {f.name: round(v, 3) for f in dataclasses.fields(plan) if isinstance(v := getattr(plan, f.name), float)}
    return dataclasses.replace(plan, **rounded)


# ---- causes removed


NO_PAUSES = {"validation": {"validation_ms": 0}, "checkpoint": {"checkpoint_every": 0}, "restart": {"persistent": True, "start_ms": 0},
             "logging": {"log_every": 0}, "gc": {"garbage_every": 0}, "transform": {"transform_ms": 0}}
READY = {"source": "memory", "cost_ms": 0, "collate_ms": 0, "answer_ms": 0}
NO_LIMIT = {"limit": "none", "limit_value": 0}


def lock_removed(plan: Plan) -> dict:
    return {"loader": "queue_processes"}


def cpu_removed(plan: Plan) -> dict:
    """Decoding replaced by an array that is ready; what is read is still read."""
    if plan.loader == "fullbore":
        return {**READY, "loader": "none"}
    return {"scale": 0, "collate_ms": 0}


def all_removed(plan: Plan) -> dict:
    """Step only. The limits stay: they are the machine's."""
    nothing: dict = {}
    for fields in NO_PAUSES.values():
        nothing |= fields
    return {**READY, **nothing, "loader": "none", "epoch_steps": NEVER, "monitor": False}


REMOVED: dict[str, Callable[[Plan], dict]] = {
    **{name: (lambda plan, fields=fields: fields) for name, fields in NO_PAUSES.items()},
    **{name: (lambda plan: NO_LIMIT) for name in ("storage", "memory", "quota", "core", "neighbour")},
    "network": lambda plan: {"source": "memory", "answer_ms": 0}, "cpu": cpu_removed, "serial": lock_removed, "all": all_removed}


def without(plan: Plan, cause: str) -> Plan:
    """The same program with a cause removed. Storage and memory: the data must be in memory, too (generated_runs.py sees to that)."""
    return dataclasses.replace(plan, **REMOVED[cause](plan))


def changed(plan: Plan, setting: str) -> Plan:
    """KEY=VALUE, as the command line has it."""
    key, value = setting.split("=", 1)
    kind = {f.name: f.type for f in dataclasses.fields(Plan)}[key]
    return dataclasses.replace(plan, **{key: value == "1" if kind is bool else kind(value)})


def variant(seed: int, causes: list[str], settings: list[str]) -> Plan:
    plan = draw(seed)
    for cause in causes:
        plan = without(plan, cause)
    for setting in settings:
        plan = changed(plan, setting)
    return plan


def seeds_of(text: str) -> range:
    """A:B, B not included, or one seed."""
    first, _, after = text.partition(":")
    return range(int(first), int(after)) if after else range(int(first), int(first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=seeds_of, default=range(0, 20))
    options = parser.parse_args()
    if options.seed is not None:
        print(json.dumps(dataclasses.asdict(draw(options.seed)), indent=1))
        return
    for seed in options.seeds:
        p = draw(seed)
        print(f"{seed:>4} {p.label:<34}{p.source:<9}x{p.workers} batch {p.batch:<4}{p.step:<6}{p.step_ms:>6.1f} ms"
              f"  limit {p.limit} {p.limit_value:g}{'  monitor' if p.monitor else ''}")


if __name__ == "__main__":
    main()
