"""`fullbore audit`: ranks, restarts, other worlds, what is missing, two runs beside each other."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from trust import audit, audit_text, audited, epochs, open_loader

State = dict[str, Any] | None


def run_world(source: Path, logs: Path, world: int, batches: int | None = None, state: State = None, **arguments: Any) -> State:
    """All ranks, one after the other, `batches` of an epoch each; returns the state after them."""
    after = state
    for rank in range(world):
        with audited(logs), open_loader(source, rank=rank, world_size=world, **{"global_batch_size": 12, **arguments}) as loader:
            if state is not None:
                loader.load_state_dict(state)
            for batch in itertools.islice(loader, batches):
                after = batch.state
    return after


def test_a_plain_run_is_proved(tiny: Path, tmp_path: Path) -> None:
    with audited(tmp_path), open_loader(tiny, batch_size=10) as loader:
        for _ in range(3):
            list(loader)
    code, report = audit(tmp_path)
    assert code == 0 and report["is_proved"] and report["logs"] == 1
    assert [(e["verdict"], e["handed_out"]) for e in epochs(report).values()] == [("proved", 103)] * 3


def test_the_text_says_it_in_sentences(tiny: Path, tmp_path: Path) -> None:
    state = run_world(tiny, tmp_path, 2, batches=4)
    run_world(tiny, tmp_path, 3, state=state)
    code, text = audit_text(tmp_path)
    assert code == 0
    assert "103 samples (" in text and "seed 0, shuffled: 5 logs of up to 3 ranks, started again 1 time" in text
    assert "epoch 0    proved      103 samples, each once" in text and text.endswith("proved\n")


@pytest.mark.parametrize(("before", "after"), [(8, 3), (3, 8), (1, 4), (4, 1), (2, 2)])
def test_a_run_goes_on_in_another_world(tiny: Path, tmp_path: Path, before: int, after: int) -> None:
    state = run_world(tiny, tmp_path, before, batches=3)
    run_world(tiny, tmp_path, after, state=state)
    code, report = audit(tmp_path)
    assert code == 0 and epochs(report)[0]["handed_out"] == 103 and epochs(report)[0]["replayed"] == 0


def test_what_a_restart_repeats_is_taken_back_and_compared(tiny: Path, tmp_path: Path) -> None:
    state = run_world(tiny, tmp_path, 2, batches=2)
    run_world(tiny, tmp_path, 2, batches=3, state=state)  # killed three batches after the checkpoint
    run_world(tiny, tmp_path, 3, state=state)
    code, report = audit(tmp_path)
    assert code == 0 and epochs(report)[0]["handed_out"] == 103 and epochs(report)[0]["replayed"] == 36
    assert "36 came again after restarts, with the same bytes" in audit_text(tmp_path)[1]


def test_other_pixels_after_a_restart_are_caught(tiny: Path, tmp_path: Path) -> None:
    calls = itertools.count()

    def careless(image: Any) -> Any:
        return np.full_like(image, next(calls) % 251)

    state = None
    for batches in (4, None):
        with audited(tmp_path), open_loader(tiny, batch_size=10, transforms=[fb.CenterCrop(4), fb.Map(careless)], threads=1) as loader:
            if state is not None:
                loader.load_state_dict(state)
            for batch in itertools.islice(loader, batches):
                state = state or batch.state
    code, report = audit(tmp_path)
    assert code == 3 and "with other bytes" in report["problems"][0]["what"]


def test_other_transforms_after_a_restart_are_told_not_blamed(tiny: Path, tmp_path: Path) -> None:
    state = run_world(tiny, tmp_path, 1, batches=2)
    run_world(tiny, tmp_path, 1, batches=2, state=state)
    run_world(tiny, tmp_path, 1, state=state, transforms=[fb.CenterCrop(4)])
    code, text = audit_text(tmp_path)
    assert code == 0 and "the transforms changed between starts" in text


def test_a_restart_from_a_later_state_leaves_a_gap(tiny: Path, tmp_path: Path) -> None:
    state = run_world(tiny, tmp_path / "elsewhere", 2, batches=5)
    run_world(tiny, tmp_path, 2, batches=3)
    run_world(tiny, tmp_path, 2, state=state)
    code, report = audit(tmp_path)
    assert code == 3 and epochs(report)[0]["missing"] == 24
    assert "24 positions from here on were never handed out" in report["problems"][0]["what"]


def test_what_was_taken_back_and_never_came_again_is_missing(tiny: Path, tmp_path: Path) -> None:
    """A goes to batch 6, B starts at 2 and dies at 4, C starts at 5: the fifth batch was only A's, whose work B threw away."""
    run_world(tiny, tmp_path / "a", 1, batches=2)
    at_2 = run_world(tiny, tmp_path / "b", 1, batches=2)
    at_5 = run_world(tiny, tmp_path / "c", 1, batches=5)
    logs = tmp_path / "logs"
    run_world(tiny, logs, 1, batches=6)
    run_world(tiny, logs, 1, batches=2, state=at_2)
    run_world(tiny, logs, 1, state=at_5)
    code, report = audit(logs)
    assert code == 3 and epochs(report)[0]["missing"] == 12 and report["problems"][0]["position"] == 48


# ---- logs that are not all there


def logs_of(logs: Path, rank: int) -> list[Path]:
    return [path for path in sorted(logs.glob("*.audit")) if f'"rank":{rank},'.encode() in path.read_bytes()]


def test_a_missing_log_is_named(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path, 4)
    for path in logs_of(tmp_path, 2):
        path.unlink()
    code, report = audit(tmp_path)
    assert code == 3
    assert "rank 2's of 4, which has no log from position 0 on" in report["problems"][0]["what"]


def test_a_missing_log_of_an_unfinished_epoch_is_named(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path, 4, batches=5)
    for path in logs_of(tmp_path, 1):
        path.unlink()
    code, report = audit(tmp_path)
    assert code == 3 and "rank 1 of 4 has no log from position 0 on, where others took 5 batches" in report["problems"][0]["what"]


def test_a_cut_log_of_a_finished_epoch_is_named(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path, 3)
    (path,) = logs_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    code, report = audit(tmp_path)
    assert code == 3 and report["logs_torn"] == 1
    assert f"rank 1's of 3, whose log {path.name} is torn after" in report["problems"][0]["what"]


def test_a_cut_log_of_a_running_epoch_shows_who_is_behind(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path, 3, batches=6)
    (path,) = logs_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    code, text = audit_text(tmp_path)
    assert code == 0 and "unfinished" in text and "(rank 1 is the last; others came to 72)" in text
    assert "1 log ends in a record that is not whole" in text


def records_of(data: bytes) -> list[tuple[int, int]]:
    """Where each record begins and ends: type, length, check of both, payload, check of all."""
    found, at = [], 0
    while at < len(data):
        end = at + 9 + int.from_bytes(data[at + 1 : at + 5], "little") + 4
        found.append((at, end))
        at = end
    assert at == len(data)
    return found


def test_a_changed_byte_is_damage_wherever_it_lies(tiny: Path, tmp_path: Path) -> None:
    """In lengths, checks and payloads, of the first record, the last one and others: never taken for the end of a killed process."""
    run_world(tiny, tmp_path, 1)
    (path,) = tmp_path.glob("*.audit")
    data, rng = path.read_bytes(), random.Random(1)
    records = records_of(data)
    assert len(records) > 8
    places = [(at, at + i) for at, _ in (records[0], records[5], records[-1]) for i in range(9)]
    places += [(at, rng.randrange(at + 9, end)) for at, end in rng.sample(records, 8)] + [(records[-1][0], len(data) - 1)]
    for start, at in places:
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        code, report = audit(tmp_path)
        assert code == 3 and (report["logs_damaged"], report["logs_torn"]) == (1, 0), (start, at)
        assert f"is damaged at byte {start}:" in report["problems"][0]["what"]


def test_a_cut_log_is_torn_wherever_it_is_cut(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path, 1, batches=6)
    (path,) = tmp_path.glob("*.audit")
    data, rng = path.read_bytes(), random.Random(2)
    records = records_of(data)
    start, end = records[-2]
    for cut in [start, start + 1, start + 8, start + 9, end - 1, end, *(rng.randrange(1, len(data)) for _ in range(12))]:
        path.write_bytes(data[:cut])
        code, report = audit(tmp_path)
        is_whole = cut in {begin for begin, _ in records}
        assert (report["logs_damaged"], report["logs_torn"]) == (0, 0 if is_whole else 1), cut


def test_zeros_where_the_last_bytes_should_be_are_no_damage(tiny: Path, tmp_path: Path) -> None:
    """What file systems leave when the power goes: the length is there, what was written last is not."""
    run_world(tiny, tmp_path, 1, batches=6)
    (path,) = tmp_path.glob("*.audit")
    data = path.read_bytes()
    start, end = records_of(data)[-1]
    for left in (data[:start] + bytes(end - start), data + bytes(5000), data[: end - 6] + bytes(6)):
        path.write_bytes(left)
        code, report = audit(tmp_path)
        assert code == 0 and (report["logs_damaged"], report["logs_torn"]) == (0, 1)


def test_a_record_that_was_taken_out_is_noticed(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path, 1)
    (path,) = tmp_path.glob("*.audit")
    data = path.read_bytes()
    start, end = records_of(data)[4]
    path.write_bytes(data[:start] + data[end:])
    code, report = audit(tmp_path)
    assert code == 3 and report["logs_damaged"] == 1


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_no_logs_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    code, text = audit_text(tmp_path / name)
    assert code == 1 and name in text


# ---- epochs that are not whole


def test_an_epoch_left_by_the_program_is_no_fault(tiny: Path, tmp_path: Path) -> None:
    with audited(tmp_path), open_loader(tiny, batch_size=10) as loader:
        for _ in itertools.islice(loader, 4):
            pass
        list(loader)
    code, report = audit(tmp_path)
    assert code == 0
    assert (epochs(report)[0]["verdict"], epochs(report)[0]["reached"], epochs(report)[1]["verdict"]) == ("left", 40, "proved")


def test_an_epoch_that_was_not_finished_before_the_next_began_is_a_fault(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path, 2, batches=4)
    for rank in range(2):
        with audited(tmp_path), open_loader(tiny, global_batch_size=12, rank=rank, world_size=2) as loader:
            loader.set_epoch(1)
            list(loader)
    code, report = audit(tmp_path)
    assert code == 3 and epochs(report)[0]["missing"] == 103 - 48 and epochs(report)[1]["verdict"] == "proved"


def test_drop_last_repeats_and_skips_are_told(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path / "drop", 2, drop_last=True)
    run_world(tiny, tmp_path / "repeat", 8, global_batch_size=49)  # 103 = 2 x 49 + 5, and five samples do not go round eight ranks
    with audited(tmp_path / "skip"), open_loader(tiny, batch_size=10) as loader:
        loader.skip_range(6, 8)
        for number, _ in enumerate(loader):
            if number == 1:
                loader.skip(2)
    drop, repeat, skip = (audit(tmp_path / name) for name in ("drop", "repeat", "skip"))
    assert drop[0] == 0 and epochs(drop[1])[0]["dropped"] == 7 and epochs(drop[1])[0]["handed_out"] == 96
    assert repeat[0] == 0 and epochs(repeat[1])[0]["repeats"] == 3 and epochs(repeat[1])[0]["handed_out"] == 103
    assert skip[0] == 0 and epochs(skip[1])[0]["skipped"] == 40 and epochs(skip[1])[0]["handed_out"] == 63


def test_several_loaders_of_a_program_are_kept_apart(tiny: Path, tmp_path: Path) -> None:
    with audited(tmp_path), open_loader(tiny, batch_size=10, split=("train", 0.8)) as train, \
            open_loader(tiny, batch_size=10, shuffle=False, split=("val", 0.8)) as val, \
            open_loader(tiny, batch_size=10, weights=np.arange(1, 104)) as weighted, \
            open_loader(tiny, batch_size=10, shuffle=False, sampler=[5, 5, 9]) as given:
        for loader in (train, val, weighted, given, train):
            list(loader)
    code, report = audit(tmp_path)
    assert code == 0
    assert sorted((stream["order"], len(stream["epochs"])) for stream in report["streams"]) == [
        ("given", 1), ("plain", 1), ("shuffled", 2), ("weighted", 1)]


# ---- two runs


def test_equal_runs_are_equal_whatever_the_world(tiny: Path, tmp_path: Path) -> None:
    run_world(tiny, tmp_path / "one", 1)
    state = run_world(tiny, tmp_path / "many", 5, batches=3)
    run_world(tiny, tmp_path / "many", 2, state=state)
    code, report = audit(tmp_path / "one", tmp_path / "many")
    assert code == 0 and not report["is_different"] and report["samples_equal"] == 103
    assert epochs(report["first"])[0]["digest"] == epochs(report["second"])[0]["digest"]


def test_the_first_difference_is_shown(tiny: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(tiny, changed)
    run_world(tiny, tmp_path / "a", 2)
    with open_loader(tiny, global_batch_size=12, rank=0, world_size=1) as loader:
        keys = [key for batch in loader for key in batch.sample_keys]
    shutil.copy(changed / keys[3], changed / keys[57])  # another picture under the same name
    run_world(changed, tmp_path / "b", 2)
    code, report = audit(tmp_path / "a", tmp_path / "b")
    assert code == 3 and report["is_different"]
    assert "epoch 0, position 57: sample" in report["difference"] and "in both, with different bytes" in report["difference"]
    run_world(tiny, tmp_path / "c", 2, seed=4)
    assert "the seed: 0 in the first run, 4 in the other" in audit(tmp_path / "a", tmp_path / "c")[1]["difference"]
    run_world(tiny, tmp_path / "d", 2, batches=5)
    assert "epoch 0, position 60: only the first run has it" in audit(tmp_path / "a", tmp_path / "d")[1]["difference"]


# ---- rows, bags, windows


def run_epochs(logs: Path, source: Path, **arguments: Any) -> dict[str, Any]:
    with audited(logs), fb.Loader(source, batch_size=64, framework="numpy", **arguments) as loader:
        for _ in range(2):
            list(loader)
    code, report = audit(logs)
    assert code == 0, report["problems"]
    return report


def test_rows_and_windows_are_proved(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((5000, 8), dtype=np.float32))
    for shuffle in (False, True, "window"):
        report = run_epochs(tmp_path / f"{shuffle}", tmp_path / "rows.npy", shuffle=shuffle)
        assert [e["handed_out"] for e in epochs(report).values()] == [5000, 5000]


@pytest.mark.parametrize("collate", [fb.Pad(), fb.Ragged()])
def test_bags_are_proved(tmp_path: Path, collate: Any) -> None:
    bags = tmp_path / "bags"
    bags.mkdir()
    for i in range(100):
        np.save(bags / f"{i:03}.npy", np.random.default_rng(i).random((1 + i % 7, 4), dtype=np.float32))
    report = run_epochs(tmp_path / "logs", bags, shuffle=True, sample="file", collate=collate)
    assert [e["handed_out"] for e in epochs(report).values()] == [100, 100]
