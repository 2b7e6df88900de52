"""A job of several processes, killed again and again: nothing is lost, nothing comes twice, every byte is that of a job left alone.

The test is the launcher. Ranks take a batch each when told to, as a collective operation would have them do; the launcher keeps the state
that all of them have reached, kills one rank or all of them at any moment, and starts the job again with another number of ranks.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from trust import IS_SOAK, audit, audit_text, epochs

KILLS = 100 if IS_SOAK else 5
EPOCHS = 12 if IS_SOAK else 3
GLOBAL_BATCH = 6

RANK = """
import json, sys
import fullbore as fb
source, state, threads, world = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
loader = fb.Loader(source, global_batch_size=%d, shuffle=True, seed=3, threads=threads, framework="numpy",
                   transforms=[fb.RandomResizedCrop(4), fb.RandomHorizontalFlip()])
assert loader.world_size == world  # from the environment
if state:
    loader.load_state_dict(state)
running = iter(loader)
for line in sys.stdin:
    batch = next(running, None)
    if batch is None:
        running = iter(loader)
        batch = next(running)
    print(json.dumps(batch.state), flush=True)
""" % GLOBAL_BATCH


@dataclass
class Job:
    source: Path
    logs: Path
    world: int
    state: Any
    threads: int = 2
    ranks: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Job:
        for rank in range(self.world):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(self.world), "LOCAL_RANK": str(rank),
                   "FULLBORE_AUDIT": str(self.logs)}
            self.ranks.append(subprocess.Popen(
                [sys.executable, "-c", RANK, str(self.source), json.dumps(self.state), str(self.threads), str(self.world)], env=env,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self.ranks:
            process.kill()
            process.wait(30)
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def tell(self) -> None:
        """Every rank is to take a batch."""
        for process in self.ranks:
            assert process.stdin is not None
            try:
                process.stdin.write("next\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass

    def hear(self) -> Any:
        """The state, if all ranks took theirs; None: one died."""
        states = []
        for process in self.ranks:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                return None
            states.append(json.loads(line))
        assert all(state == states[0] for state in states)
        return states[0]


def is_over(state: Any) -> bool:
    return state is not None and state["epoch"] == EPOCHS - 1 and state["position"] == 103


def run_until_killed(job: Job, chance: random.Random, steps: int) -> Any:
    """The last state that was kept: a checkpoint every few batches."""
    kept, every = job.state, chance.randint(1, 4)
    for step in range(steps):
        job.tell()
        state = job.hear()
        assert state is not None, "a rank died by itself"
        if step % every == 0 or is_over(state):
            kept = state
        if is_over(state):
            return kept
    job.tell()
    time.sleep(chance.choice([0, 0, 0.001, 0.01]))  # in the middle of a batch
    for victim in job.ranks if chance.random() < 0.5 else [chance.choice(job.ranks)]:
        victim.send_signal(signal.SIGKILL)
    return kept


@pytest.mark.parametrize("seed", [int(os.environ.get("FB_KILL_SEED", "1"))])
def test_a_job_that_is_killed_again_and_again_is_the_job_left_alone(tiny: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    logs, state, kills = tmp_path / "killed", None, 0
    batches = EPOCHS * -(-103 // GLOBAL_BATCH)
    while not is_over(state):
        steps = chance.randint(0, 2 * batches // KILLS) if kills < KILLS else 10**6
        with Job(tiny, logs, chance.randint(1, 3), state, chance.randint(1, 3)) as job:
            state = run_until_killed(job, chance, steps)
            kills += not is_over(state)
    code, report = audit(logs)
    assert code == 0, audit_text(logs)[1]
    assert [e["verdict"] for e in epochs(report).values()] == ["proved"] * EPOCHS
    assert kills >= KILLS // 2
    alone = tmp_path / "alone"
    with Job(tiny, alone, 1, None) as job:
        state = None
        while not is_over(state):
            job.tell()
            state = job.hear()
    code, both = audit(logs, alone)
    assert code == 0 and not both["is_different"] and both["samples_equal"] == 103 * EPOCHS


def test_a_rank_that_dies_does_not_disturb_the_others(tiny: Path, tmp_path: Path) -> None:
    with Job(tiny, tmp_path, 3, None) as job:
        job.tell()
        assert job.hear() is not None
        job.ranks[1].kill()
        survivors = Job(tiny, tmp_path, 3, None, ranks=[job.ranks[0], job.ranks[2]])
        for _ in range(25):  # to the end of the epoch, and on
            survivors.tell()
            assert survivors.hear() is not None
    code, report = audit(tmp_path)
    assert code == 3 and "rank 1's of 3, whose log" in report["problems"][0]["what"]
