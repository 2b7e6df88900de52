"""Any run, cut into any pieces: the same samples with the same pixels as an uninterrupted one, and the audit proves it.

The model is a list of positions. A run is a sequence of sessions; each has its own world, batch size and threads, may skip batches, and
goes on from the state of the session before it, or from an earlier one, as after a kill.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trust import IS_SOAK, audit, audited, epochs, open_loader

COUNT = 61
Seen = list[tuple[str, bytes]]  # key and pixels, by position


@pytest.fixture(scope="session")
def damaged(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny images, four of which are none."""
    folder = tmp_path_factory.mktemp("damaged") / "photos"
    shutil.copytree(tiny, folder)
    for name in ("cat/004.png", "cat/018.png", "cat/050.png", "dog/003.png"):
        (folder / name).write_bytes(b"\x89PNG\r\n\x1a\n and nothing else")
    return folder


@dataclass(frozen=True)
class Session:
    world: int
    batch: int  # global
    threads: int
    batches: int  # to take
    lost: int  # of them, after the last checkpoint: the next session knows nothing of these
    skip: int
    skip_range: tuple[int, int] | None


sessions = st.builds(
    lambda world, more, threads, batches, lost, skip, skip_range: Session(world, world + more, threads, batches, min(lost, batches), skip,
                                                                          skip_range),
    st.integers(1, 4), st.integers(0, 15), st.integers(1, 3), st.integers(0, 5), st.sampled_from([0, 0, 0, 1, 2, 5]),
    st.sampled_from([0, 0, 0, 0, 1, 2]),
    st.none() | st.none() | st.tuples(st.integers(0, 6), st.integers(0, 4)).map(lambda r: (r[0], r[0] + r[1])))


@dataclass
class Model:
    """Where the run is, and what it has left out."""

    n: int
    position: int
    out: frozenset[int] = frozenset()

    def left(self) -> list[int]:
        return [p for p in range(self.position, self.n) if p not in self.out]

    def skip(self, session: Session) -> None:
        if session.skip_range is not None:
            first, last = (session.batch * edge for edge in session.skip_range)
            self.out |= frozenset(range(max(first, self.position), min(last, self.n)))
        self.out |= frozenset(self.left()[: session.skip * session.batch])

    def take(self, batch: int) -> list[int]:
        taken = self.left()[:batch]
        if taken:
            self.position = taken[-1] + 1
        return taken


@cache
def whole(source: Path, n: int, seed: int) -> Seen:
    """The epoch, uninterrupted, by one rank, one thread, one sample at a time."""
    with open_loader(source, indices=range(n), seed=seed, rank=0, world_size=1, threads=1, on_error="skip") as loader:
        return [(batch.sample_keys[0], batch[0].tobytes()) for batch in loader]


def take_session(source: Path, logs: Path, n: int, seed: int, session: Session, state: Any, batches: int) -> list[tuple[Seen, Any]]:
    """What the ranks got together, batch by batch, with the state after each."""
    parts: list[list[tuple[Seen, Any]]] = []
    for rank in range(session.world):
        with audited(logs), open_loader(source, indices=range(n), seed=seed, rank=rank, world_size=session.world, threads=session.threads,
                                        global_batch_size=session.batch, on_error="skip") as loader:
            if state is not None:
                loader.load_state_dict(state)
            if session.skip_range is not None:
                loader.skip_range(*session.skip_range)
            if session.skip:
                loader.skip(session.skip)
            mine: list[tuple[Seen, Any]] = [([], loader.state_dict())]
            if batches:
                for batch in loader:
                    real = [i for i, is_repeat in enumerate(batch.repeats) if not is_repeat]
                    mine.append(([(batch.sample_keys[i], batch[0][i].tobytes()) for i in real], batch.state))
                    if len(mine) > batches:
                        break
            parts.append(mine)
    assert len({len(mine) for mine in parts}) == 1
    for steps in zip(*parts, strict=True):
        assert all(state == steps[0][1] for _, state in steps)  # equal on all ranks
    return [([item for seen, _ in steps for item in seen], steps[0][1]) for steps in zip(*parts, strict=True)]


def check_run(source: Path, logs: Path, n: int, seed: int, plan: list[Session]) -> None:
    expected = whole(source, n, seed)
    model, state, handed_out = Model(n, 0), None, 0
    last = Session(2, 2 + len(plan), 2, n, 0, 0, None)  # to the end
    for session in [*plan, last]:
        if state is not None and not model.left():
            break  # going on would be the next epoch
        after_skip = replace(model)
        after_skip.skip(session)
        if after_skip.left():
            model = after_skip
        else:
            session = replace(session, skip=0, skip_range=None)  # it would end the epoch
        got = take_session(source, logs, n, seed, session, state, session.batches)
        kept, running = max(len(got) - session.lost, 1), replace(model)
        for number, (seen, after) in enumerate(got):
            positions = running.take(session.batch) if number else []
            assert seen == [expected[p] for p in positions]
            if number < kept:
                model, state = replace(running), after
                handed_out += len(positions)
    if not list(logs.glob("*.audit")) or model.left():
        return
    code, report = audit(logs)
    assert code == 0, report["problems"]
    if report["streams"]:
        epoch = epochs(report)[0]
        assert epoch["handed_out"] == handed_out and epoch["problems"] == 0


@settings(max_examples=10_000 if IS_SOAK else 500, deadline=None, database=None, derandomize=not IS_SOAK,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(n=st.integers(1, COUNT), seed=st.integers(0, 3), plan=st.lists(sessions, max_size=4), is_damaged=st.booleans())
def test_any_run_cut_into_pieces_is_the_uninterrupted_one(tiny: Path, damaged: Path, n: int, seed: int, plan: list[Session],
                                                          is_damaged: bool) -> None:
    logs = Path(tempfile.mkdtemp())
    try:
        check_run(damaged if is_damaged and n > 8 else tiny, logs, n, seed, plan)
    finally:
        shutil.rmtree(logs)
