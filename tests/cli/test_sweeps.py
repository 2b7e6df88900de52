"""Long sweeps over the command, sampled by `make test` and run whole with FB_SOAK=1: kills at any moment, many epochs, many arguments."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from PIL import Image
from test_cli import COMMAND

IS_SOAK = os.environ.get("FB_SOAK") == "1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 small images in 30 classes."""
    root = tmp_path_factory.mktemp("many") / "photos"
    picture = root / "original.png"
    root.mkdir()
    Image.linear_gradient("L").resize((40, 30)).convert("RGB").save(picture)
    for i in range(3000):
        path = root / f"class{i % 30:02d}" / f"{i:05d}.png"
        path.parent.mkdir(exist_ok=True)
        os.link(picture, path)
    picture.unlink()
    return root


def run_json(*arguments: object, env: dict[str, str]) -> dict:
    result = subprocess.run([str(COMMAND), *map(str, arguments), "--json"], capture_output=True, text=True, timeout=600, env=env)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def leftovers(tmp_path: Path) -> list[Path]:
    return [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_a_kill_while_scanning_leaves_nothing_that_harms(folder: Path, tmp_path: Path) -> None:
    env = environment(tmp_path)
    rng = random.Random(1)
    fresh = []
    for round_number in range(400 if IS_SOAK else 25):
        changed = folder / "class00" / f"new{round_number % 2}.png"
        changed.unlink(missing_ok=True)
        os.link(folder / "class01/00001.png", changed)
        process = subprocess.Popen([str(COMMAND), "info", str(folder)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, 0.04))
        process.send_signal(signal.SIGKILL)
        process.wait()
        info = run_json("info", folder, env=env)
        assert info["samples"] == sum(1 for _ in folder.glob("*/*.png"))
        fresh.append(info["catalog_is_new"])
        changed.unlink()
    assert any(fresh), "no kill came before the catalog was kept"
    run_json("info", folder, env=env)
    files = leftovers(tmp_path)
    assert len(files) <= 8, f"kills left {len(files)} files behind: {[p.name for p in files][:20]}"


def test_a_kill_while_feeding_leaves_no_process_and_no_shared_memory(folder: Path, tmp_path: Path) -> None:
    env = environment(tmp_path)
    run_json("info", folder, env=env)
    before = set(os.listdir("/dev/shm"))
    rng = random.Random(2)
    for _ in range(200 if IS_SOAK else 10):
        process = subprocess.Popen([str(COMMAND), "bench", str(folder), "--epochs", "1000"], env=env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.01, 0.2))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert children == []
    assert set(os.listdir("/dev/shm")) - before == set()


def test_memory_does_not_grow_with_the_epochs(folder: Path, tmp_path: Path) -> None:
    env = environment(tmp_path)
    arguments = ("bench", folder, "--dtype", "uint8", "--memory", "64MiB", "--transform", "resize size=64,64")
    few = run_json(*arguments, "--epochs", 3, env=env)
    many = run_json(*arguments, "--epochs", 200 if IS_SOAK else 50, env=env)
    assert many["samples"] == 3000 * (200 if IS_SOAK else 50)
    assert many["budget_peak_bytes"] <= 64 << 20
    assert many["rss_peak_bytes"] < 1.15 * few["rss_peak_bytes"]


def test_every_epoch_is_complete_for_many_batch_sizes(folder: Path, tmp_path: Path) -> None:
    env = environment(tmp_path)
    sizes = range(1, 400) if IS_SOAK else (1, 7, 64, 299, 3000, 3001)
    for size in sizes:
        record = run_json("bench", folder, "--batch-size", size, "--transform", "resize size=16,16", "--dtype", "uint8", env=env)
        assert record["samples"] == 3000, size
        assert record["batches"] == -(-3000 // size), size
