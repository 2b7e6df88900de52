"""Generated programs: the draw, what follows from a clock's sums, what counts as right; and a dozen programs that are really run.

What is asserted of a run is that its truth agrees with itself: parts sum up to the whole, and the largest cause is really what costs the
time, because without it the program is as much faster as the clock said. Of verdicts only what holds today: IS_JUDGED, the seeds whose
verdict has to be right, grows as rules are mended; bench/zoo.py --generated has the whole table.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "programs"))

import generate
import judgement
import truth as of
from generate import NEVER, Plan, draw
from generated_runs import Change, Others, Runs, make_data, why_not
from stopwatch import Stopwatch

HERE = Path(__file__).resolve().parent
COMMAND = os.environ.get("FULLBORE_COMMAND", str(HERE.parents[1] / ".venv/bin/fullbore"))
SAMPLED = {8: "collate/queue_threads", 18: "small-reads/queue_threads", 22: "collate/none", 24: "decode/queue_processes",
           26: "small-reads/pool", 40: "pause-restart/processes", 42: "pause-gc/queue_threads", 46: "quota/queue_processes",
           54: "network/queue_processes", 68: "network/pool", 94: "transform/none", 112: "pause-validation/queue_threads"}
MOST_OTHERS = 0.5  # cores that other programs use: with more, a program that disagrees with itself shows nothing
IS_JUDGED = {18, 26, 54}


@pytest.fixture(scope="module")
def runs() -> Runs:
    data = Path(tempfile.gettempdir()) / "fullbore-zoo"
    make_data(data)
    return Runs(COMMAND, data)


def test_a_seed_is_the_same_program_everywhere() -> None:
    code = "import generate; print([generate.draw(seed) for seed in range(40)])"
    drawn = {subprocess.run([sys.executable, "-c", code], cwd=HERE, env={**os.environ, "PYTHONHASHSEED": str(k)}, capture_output=True,
                            text=True, check=True).stdout for k in (1, 2)}
    assert drawn == {f"{[draw(seed) for seed in range(40)]}\n"}


def test_every_class_is_drawn_and_only_sensible_programs() -> None:
    plans = [draw(seed) for seed in range(600)]
    assert {p.theme.split("-")[0] for p in plans} == {theme.split("-")[0] for theme in generate.THEMES}
    assert {p.loader for p in plans} == {*generate.OWN_LOADERS, "fullbore"}
    assert {p.step for p in plans} == set(generate.STEPS)
    assert {p.limit for p in plans} == {"none", "iops", "bytes", "memory", "quota", "core", "neighbour"}
    assert {p.theme for p in plans if p.theme.startswith("pause-")} == {f"pause-{name}" for name in generate.PAUSES}
    for p in plans:
        assert 1 <= p.step_ms <= 900 and 1 <= p.batch <= 512, p
        assert p.source != "mapped" or not p.needs_torch, p  # torch is larger than the limit
        assert (p.loader == "fullbore") <= (p.source == "photos"), p
        assert (p.limit in ("iops", "bytes")) == (p.source in ("small", "large") and p.theme in ("small-reads", "big-reads")), p
        assert p.persistent or p.epoch_steps < NEVER, p


def test_odd_and_even_seeds_are_drawn_alike() -> None:
    """Else rules tuned on the ones could not hold on the others."""
    for theme, (weight, _) in generate.THEMES.items():
        counts = [sum(draw(seed).theme.startswith(theme) for seed in range(first, 1200, 2)) for first in (0, 1)]
        assert min(counts) > 4 * weight and max(counts) < 3 * min(counts), (theme, counts)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_removed_is_gone(seed: int) -> None:
    plan = draw(seed)
    for cause in generate.REMOVED:
        changed = generate.without(plan, cause)
        assert changed.step_ms == plan.step_ms and changed.step == plan.step, cause
    alone = generate.without(plan, "all")
    assert (alone.loader, alone.source, alone.validation_ms, alone.checkpoint_every, alone.transform_ms) == ("none", "memory", 0, 0, 0)
    assert generate.changed(plan, "workers=7").workers == 7
    assert generate.changed(plan, "packed=1").packed is True
    assert generate.changed(plan, "scale=0.5").scale == 0.5


# ---- from sums to a truth


def sums(wall: float, loop: dict, inside: dict | None = None, loaders: dict | None = None, steps: int = 100) -> dict:
    return {"wall_seconds": wall, "steps": steps, "loop": loop, "inside": inside or {}, "loaders": loaders or {}}


def test_time_inside_next_belongs_to_what_the_loaders_did() -> None:
    truth = sums(10, {"next": [6, 0, 100], "step": [4, 0, 100]}, {"next collate": [1, 1, 100]}, {"read": [9, 0], "decode": [3, 3]})
    lost = of.causes(truth, Plan(0, "", loader="processes", source="small", limit="iops"))
    assert list(lost) == ["storage-latency", "cpu"]
    assert lost == pytest.approx({"storage-latency": 0.375, "cpu": 0.225})
    assert of.causes(truth, Plan(0, "", loader="processes", source="small")) == pytest.approx({"cpu": 0.6})


def test_threads_that_wait_for_a_lock_are_serial_and_processes_are_not() -> None:
    truth = sums(10, {"next": [5, 0, 100]}, {}, {"decode": [40, 9]})
    assert list(of.causes(truth, Plan(0, "", loader="pool", workers=4, is_python=True))) == ["serial"]
    assert list(of.causes(truth, Plan(0, "", loader="processes", workers=4, is_python=True))) == ["cpu"]
    assert list(of.causes(truth, Plan(0, "", loader="processes", workers=4, limit="quota"))) == ["cpu-quota"]


def test_a_pause_counts_as_often_as_it_was_drawn() -> None:
    """Two checkpoints in 30 steps by chance, one in 20 by construction."""
    truth = sums(5, {"step": [3, 0, 30], "checkpoint": [2, 0, 2]}, steps=30)
    assert of.seconds_per_step(truth, Plan(0, "", checkpoint_every=20)) == pytest.approx(0.1 + 1 / 20)


def test_the_stopwatch_counts_other_threads_and_leaves_out_the_warm_up() -> None:
    import threading
    import time
    clock = Stopwatch(seconds=0.2, warmup=0.05)
    ready = threading.Semaphore(0)

    def load() -> None:
        clock.is_loader(3)
        for _ in range(100):
            with clock.work("read"):
                time.sleep(0.01)
            ready.release()

    def batches():
        while ready.acquire():
            yield 1

    threading.Thread(target=load, daemon=True).start()
    for _ in clock.timed(batches()):
        with clock.part("step"):
            time.sleep(0.002)
        if clock.is_over():
            break
    truth = clock.truth()
    assert 0.9 < sum(of.shares(truth).values()) <= 1.001
    assert of.shares(truth)["next"] > of.shares(truth)["step"]
    assert truth["loaders"]["read"][0] > 5 * truth["loaders"]["read"][1]  # it slept
    assert truth["loop"]["step"][2] == truth["steps"]


# ---- what counts as right


def test_a_verdict_is_right_for_the_largest_cause() -> None:
    score = judgement.score_of
    assert score("data-bound: cpu", {"cpu": 0.5, "network": 0.1}, "cpu") == 1
    assert score("data-bound: cpu", {"network": 0.5, "cpu": 0.1}, "network") == 0
    assert score("unknown", {"cpu": 0.5}, "cpu") == 0.5
    assert score("mixed", {"cpu": 0.2, "network": 0.18, "restart": 0.1}, "cpu") == 1
    assert score("mixed", {"cpu": 0.5, "network": 0.1}, "cpu") == 0
    assert score("compute-bound", {"cpu": 0.06}, "cpu") == 1
    assert score("compute-bound", {"cpu": 0.2}, "cpu") == 0
    assert score("data-bound: cpu", {"cpu": 0.04}, judgement.NOTHING) == 1
    assert score("data-bound: cpu", {"cpu": 0.01}, judgement.NOTHING) == 0


def test_a_remedy_applies_only_to_a_program_that_can_take_it() -> None:
    threads, processes = Plan(0, "", loader="pool", is_python=True), Plan(0, "", loader="processes")
    words = "worker processes instead of threads: DataLoader(num_workers=2) (now 4 threads)"
    assert judgement.applied(threads, words) == Change(settings=("loader=processes", "workers=2"))
    assert judgement.applied(processes, words) is None
    assert judgement.applied(processes, "num_workers=8 (now 2): waits for storage overlap") == Change(settings=("workers=8",))
    assert judgement.applied(processes, "DataLoader(persistent_workers=True) (now False): workers live on between epochs") is None
    assert judgement.applied(processes, "decode with fullbore.Loader: 4 times less CPU than Pillow (now Pillow)") is None
    assert judgement.applied(processes, "a word nobody knows") is None


# ---- a dozen programs


def problems_of(seed: int, runs: Runs, again: int) -> list[str]:
    """Nothing, or what is wrong."""
    plan = draw(seed)
    watched = runs.generated(seed, seconds=3.4, is_watched=True, again=again)
    truth, summary = watched["truth"], watched["summary"]
    if not of.is_usable(truth):
        return [f"it did not run: exit code {watched['exit']}"]
    whole, lost, found = sum(of.shares(truth).values()), of.causes(truth, plan), []
    if not 0.9 < whole <= 1.01 or sum(lost.values()) > whole + 1e-9:
        found.append(f"the parts of the loop are {whole:.3f} of its time: {of.shares(truth)}")
    cause, share = next(iter(lost.items()))
    removed = Change(without=(judgement.REMOVES.get(cause, cause),))
    gain = judgement.gain([of.seconds_per_step(truth, plan)], runs.generated(seed, removed, seconds=2.2, again=again)["truth"],
                          generate.variant(seed, list(removed.without), []))
    if gain is None or gain < 1 + 0.4 * (1 / (1 - share) - 1):
        found.append(f"without {cause}, {share:.2f} of the time, it is {gain} times as fast")
    if seed in IS_JUDGED and judgement.score_of(summary["verdict"], lost, judgement.true_cause(lost)) < 1:
        found.append(f"{summary['verdict']}, but the truth is {lost}: {summary['evidence']}")
    if seed in IS_JUDGED and judgement.says_nothing_to_gain(summary):
        found.append(f"nothing can be gained, it says; the truth is {lost}")
    return found


@pytest.mark.parametrize("seed", SAMPLED, ids=SAMPLED.values())
def test_the_truth_agrees_with_itself(seed: int, runs: Runs) -> None:
    """Once more where it did not: another program on the machine takes part in what is measured."""
    plan = draw(seed)
    if plan.needs_torch:
        pytest.importorskip("torch")
    if reason := why_not(plan):
        pytest.skip(reason)
    assert plan.label == SAMPLED[seed]
    found = problems_of(seed, runs, 0)
    others = Others()
    found = found and problems_of(seed, runs, 1)
    if found and others.cores() > MOST_OTHERS:
        pytest.skip(f"other programs use {others.cores():.1f} cores: {found[0]}")
    assert found == []
