"""One line in any loop: exact waits, lines, verdicts, metrics, traces; and the model's own speed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fullbore as fb
import numpy as np
import pytest
from made_photos import make_photos

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("FULLBORE_COMMAND", str(ROOT / ".venv/bin/fullbore"))


class Slow:
    """Batches that each take a while; with a length, an attribute and set_epoch."""

    batch_size = 4

    def __init__(self, seconds: float, count: int = 10) -> None:
        self.seconds, self.count, self.epoch = seconds, count, -1

    def __len__(self) -> int:
        return self.count

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.count):
            time.sleep(self.seconds)
            yield np.full((4, 2), i), np.arange(4)


def test_waits_are_those_of_the_iterable_and_of_nothing_else() -> None:
    watched = fb.monitor(Slow(0.02), quiet=True)
    for _ in watched:
        time.sleep(0.06)
    m = watched.metrics()
    assert m["fullbore_batches_total"] == 10 and m["fullbore_samples_total"] == 40
    assert 0.2 <= m["fullbore_exposed_wait_seconds_total"] < m["fullbore_wall_seconds_total"] / 2
    assert m["fullbore_epoch_wait_mean_seconds"] >= 0.02
    assert m["fullbore_step_p50_seconds"] > 0.07
    watched.close()


def test_every_metric_is_a_float_with_a_name_of_the_page(photos: Path) -> None:
    watched = fb.monitor([[1], [2]], quiet=True)
    list(watched)
    loader = fb.Loader(photos, batch_size=8, transforms=[fb.Resize((8, 8))], framework="numpy")
    list(loader)
    page = (ROOT / "docs/statistics.md").read_text()
    for source in (watched, loader):
        metrics = source.metrics()
        assert all(type(value) is float for value in metrics.values())
        assert [name for name in metrics if f"`{name}`" not in page] == []
    assert set(watched.metrics()) < set(loader.metrics())
    assert set(loader.metrics("x/")) == {name.replace("fullbore_", "x/") for name in loader.metrics()}
    loader.close()


def test_what_is_wrapped_keeps_its_length_attributes_and_methods() -> None:
    inner = Slow(0)
    watched = fb.monitor(inner, quiet=True)
    watched.set_epoch(7)
    assert inner.epoch == 7 and len(watched) == 10 and watched.batch_size == 4 and watched
    assert [int(x[0, 0]) for x, _ in watched] == list(range(10)) == [int(x[0, 0]) for x, _ in watched]
    with pytest.raises(AttributeError):
        _ = watched.nothing_like_that
    endless = fb.monitor((i for i in range(3)), quiet=True)
    with pytest.raises(TypeError):
        len(endless)
    assert bool(endless) and list(endless) == [0, 1, 2]


def test_a_line_every_tenth_and_a_summary_with_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullbore._monitor.LEAST_SECONDS", 0.0)
    said: list[str] = []
    for _ in fb.monitor(Slow(0.002, 50), say=said.append):
        pass
    lines = [line for line in said if " % (" in line and "it/s" in line and "GPU" in line]
    assert len(lines) == 9  # the tenth is the summary
    assert re.search(r"epoch 1 10 % \(5/50\) \| [\d.]+ it/s \| loader avg [\d.]+ max [\d.]+ ms \| GPU: ", lines[0])
    assert re.match(r"fullbore: epoch 1: 50 batches in [\d.]+ s, of which waited [\d.]+ s \(\d+ %\)", said[9])


def test_quiet_is_quiet_and_a_loop_left_early_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    watched = fb.monitor(Slow(0), quiet=True)
    for _ in watched:
        break
    assert watched.metrics()["fullbore_batches_total"] == 1
    assert capsys.readouterr().err == ""
    for _ in fb.monitor(Slow(0, 3)):
        break
    assert "epoch 1: 1 batches" in capsys.readouterr().err


def test_the_same_loader_keeps_its_monitor_from_epoch_to_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    inner = Slow(0, 3)
    for _ in range(2):
        for _ in fb.monitor(inner):
            pass
    assert "epoch 2: 3 batches" in capsys.readouterr().err
    first = fb.monitor(inner, quiet=True)
    assert first is fb.monitor(inner) and first.metrics()["fullbore_batches_total"] == 6
    first.close()
    assert fb.monitor(inner, quiet=True) is not first
    assert fb.monitor(Slow(0), quiet=True) is not fb.monitor(inner)


def test_an_error_of_the_iterable_goes_through() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        list(fb.monitor(broken(), quiet=True))


def test_batches_are_not_kept() -> None:
    import weakref

    class Thing:
        pass

    seen: list[Any] = []

    def things() -> Iterator[Thing]:
        for _ in range(3):
            assert all(ref() is None for ref in seen)  # what came before is gone when the next is made
            thing = Thing()
            seen.append(weakref.ref(thing))
            yield thing
            del thing

    for _thing in fb.monitor(things(), quiet=True):
        del _thing
    assert len(seen) == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_a_torch_dataloader_that_burns_cpu_is_told_so(workers: int, run_python: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text("""
import sys, time, json, torch, fullbore as fb
from torch.utils.data import DataLoader, Dataset
class Costly(Dataset):
    def __len__(self): return 200
    def __getitem__(self, i):
        end = time.thread_time() + 0.006
        while time.thread_time() < end: pass
        return torch.zeros(8)
if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = fb.monitor(DataLoader(Costly(), batch_size=4, num_workers=int(sys.argv[1]), persistent_workers=sys.argv[1] != "0"), quiet=True)
    began = time.monotonic()
    while time.monotonic() - began < 5:
        for batch in loader: time.sleep(0.004)
    print(json.dumps(loader.verdict().data))
""")
    done = subprocess.run([sys.executable, str(script), str(workers)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "data-bound: cpu", verdict["evidence"]
    assert verdict["starved_ratio"] > 0.3 and verdict["remedies"]


def test_a_loader_explains_itself(tmp_path: Path) -> None:
    folder = make_photos(tmp_path / "photos", 64, side=400)
    with fb.Loader(folder, batch_size=8, shuffle=True, threads=1, transforms=[fb.RandomResizedCrop(64)], framework="numpy") as loader:
        assert loader.verdict().kind == "start-up"
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            for _ in loader:
                pass
        verdict = loader.verdict()
        assert verdict.kind == "data-bound: cpu", str(verdict)
        assert verdict.starved_ratio is not None and verdict.starved_ratio > 0.5
        assert verdict.gain_bound is not None and verdict.remedies
        assert all(remedy.predicted_gain is None or remedy.predicted_gain <= verdict.gain_bound for remedy in verdict.remedies)
        assert "starved" in str(verdict) and "num_workers" not in str(verdict)
        time.sleep(1.2)
        assert re.match(r"GPU: .* \| CPU: [\d.]+% \| RAM:.*\| starved \d+%: CPU$", loader.status_line())
        assert set(loader.postfix()) == {"wait", "load", "max"}


def test_a_slow_program_is_not_starved(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            for _ in loader:
                time.sleep(0.05)
        verdict = loader.verdict()
        assert verdict.kind == "compute-bound" and verdict.remedies == [], str(verdict)


def test_the_monitor_of_a_loader_uses_the_loaders_own_verdict(photos: Path) -> None:
    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
        watched = fb.monitor(loader, quiet=True)
        list(watched)
        assert watched.verdict().data["program"] == "fullbore.Loader" == loader.verdict().data["program"]
        assert watched.metrics()["fullbore_batches_total"] == 6 == loader.metrics()["fullbore_batches_total"]
        watched.trace("/dev/null")  # attributes of the loader's


def test_replay_repeats_its_batches_and_says_how_long_a_step_takes(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
        again = fb.replay(loader, batches=2, steps=20)
        images = []
        for x, _ in again:
            time.sleep(0.01)
            images.append(x)
        assert all(np.array_equal(images[i], images[i % 2]) for i in range(20)) and not np.array_equal(images[0], images[1])
        assert again.step_ms is not None and again.step_ms >= 10
        assert f"--step-ms {again.step_ms:.2f}" in capsys.readouterr().err
        assert loader.stats()["held_batches"] <= 1  # the kept ones are copies
        assert len(list(fb.replay(loader, batches=3, quiet=True))) == len(loader)
    with pytest.raises(TypeError, match="steps="):
        list(fb.replay(iter([1, 2]), batches=2, quiet=True))
    with pytest.raises(ValueError, match="at least 1"):
        fb.replay([1], batches=0)
    assert list(fb.replay([], steps=3, quiet=True)) == []


def test_a_trace_shows_each_thread(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with fb.Loader(photos, batch_size=4, threads=2, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
        loader.trace(path, batches=3)
        with pytest.raises(fb.Error, match="already"):
            loader.trace(tmp_path / "second.json", batches=3)
        for i, _ in enumerate(loader):
            assert (path.stat().st_size > 0) == (i >= 2)  # written when its batches have passed
        trace = json.loads(path.read_text())
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
        assert {"fb-plan"} < names and any(name.startswith("fb-w") for name in names)
        count = {name: sum(event["name"] == name for event in trace["traceEvents"]) for name in ("wait", "decode", "transform")}
        assert count["wait"] == 3 and count["decode"] >= 12 and count["transform"] >= 12
        assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in trace["traceEvents"] if event["ph"] == "X")
        loader.trace(path, batches=100)
        list(loader)
    assert json.loads(path.read_text())["traceEvents"]  # closing writes what there is
    with fb.Loader(photos, batch_size=4, transforms=[fb.Resize((8, 8))], framework="numpy") as loader:
        with pytest.raises(fb.Error, match="nowhere"):
            loader.trace("/nowhere/trace.json")
        with pytest.raises(fb.Error, match="at least 1"):
            loader.trace(path, batches=0)


def test_debug_lines_come_when_asked_for(photos: Path, run_python: Callable[..., Any]) -> None:
    code = ("import sys, fullbore as fb\nl = fb.Loader(sys.argv[1], batch_size=8, transforms=[fb.Resize((8, 8))], framework='numpy')\n"
            "for b in l: pass\n")
    quiet = run_python(code, photos)
    assert quiet.returncode == 0 and quiet.stderr == ""
    told = run_python(code, photos, env={"FULLBORE_LOG": "debug"})
    assert told.returncode == 0 and "fullbore: opened" in told.stderr and "epoch 0: 3 batches in" in told.stderr


def test_a_watched_program_tells_its_loop(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time, fullbore as fb\nclass Slow:\n    def __iter__(self):\n        for i in range(40):\n"
                      "            time.sleep(0.03); yield [i]\n"
                      "slow = Slow()\nfor epoch in range(2):\n    for b in fb.monitor(slow, quiet=True): time.sleep(0.03)\n")
    summary, run = tmp_path / "s.json", tmp_path / "run.fbr"
    done = subprocess.run([COMMAND, "watch", "--quiet", "--summary", str(summary), "-o", str(run), "--", sys.executable, str(script)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(summary.read_text())
    assert 0.4 < found["starved_ratio"] < 0.6, found["evidence"]  # a sleep inside next() is a wait; outside it is a step
    assert any("reported by the training loop" in line for line in found["evidence"])
    both = subprocess.run([COMMAND, "report", str(run), str(run)], capture_output=True, text=True, timeout=60).stdout
    assert re.search(r"step time, p50 +6\d\.\d +6\d\.\d ms", both), both
    for row in ("step time, p99", "step time, variation", "longest epoch gap", "it/s of epoch 1", "it/s of epoch 2"):
        assert row in both


def test_a_forked_child_gets_an_error_and_not_a_hang() -> None:
    watched = fb.monitor([[1]], quiet=True)
    list(watched)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            watched.verdict()
        except fb.Error:
            code = 0
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    watched.close()
    with pytest.raises(fb.Error, match="closed"):
        watched.verdict()


def test_lightning_gets_the_metrics(photos: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning.pytorch")
    from fullbore.torch import lightning_callback

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.layer(batch[0]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    logged: list[dict[str, float]] = []

    class Keeps(lightning.loggers.CSVLogger):  # type: ignore[misc, name-defined]
        def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
            logged.append(metrics)

    batches = fb.monitor([(torch.zeros(2, 4), torch.zeros(2))] * 6, quiet=True)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=Keeps(str(tmp_path)), enable_progress_bar=False,
                                enable_model_summary=False, enable_checkpointing=False, callbacks=[lightning_callback(batches, every=2)])
    trainer.fit(Model(), batches)
    ours = [metrics for metrics in logged if "fullbore_batches_total" in metrics]
    assert len(ours) == 3 and ours[-1]["fullbore_batches_total"] >= 5


def test_tqdm_shows_the_postfix() -> None:
    tqdm = pytest.importorskip("tqdm")
    import io

    out, batches = io.StringIO(), fb.monitor(Slow(0.001, 5), quiet=True)
    with tqdm.tqdm(batches, file=out, mininterval=0) as bar:
        for _ in bar:
            bar.set_postfix(batches.postfix())
    assert "wait=" in out.getvalue() and "load=" in out.getvalue()
