"""Decoded packs: a plain .npy that numpy opens and that stays the data set it was made from. Pillow is the oracle for pixels."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import fullbore as fb
import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
IS_SOAK = bool(os.environ.get("FB_SOAK"))
HEIGHT, WIDTH = 24, 32


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ramps with noise, of all shapes, in two classes, as JPEG and PNG."""
    random = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for i in range(20):
        h, w = (int(x) for x in random.integers(10, 90, 2))
        pixels = np.linspace(0, 200, h * w * 3).reshape(h, w, 3) + random.integers(0, 50, (h, w, 3))
        path = folder / f"class{i % 2}" / f"{i:03}.{'png' if i % 3 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


def run(*args: object, code: int = 0) -> str:
    done = subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stderr + done.stdout


def decode(photos: Path, out: Path, *more: object) -> np.ndarray:
    run("pack", photos, "-o", out, "--decode", f"{HEIGHT}x{WIDTH}", *more)
    return np.load(out)


def keys(out: Path) -> list[str]:
    with out.with_suffix(".csv").open(newline="") as file:
        return [row["path"] for row in csv.DictReader(file)]


def by_pillow(path: Path, fit: str) -> np.ndarray:
    image = Image.open(path).convert("RGB")
    w, h = image.size
    if fit == "stretch":
        return np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR))
    takes_height = HEIGHT * w >= WIDTH * h if fit == "crop" else HEIGHT * w <= WIDTH * h
    nh = HEIGHT if takes_height else max(1, (WIDTH * h + w // 2) // w)
    nw = max(1, (HEIGHT * w + h // 2) // h) if takes_height else WIDTH
    small = np.asarray(image.resize((nw, nh), Image.Resampling.BILINEAR))
    if fit == "crop":
        top, left = round((nh - HEIGHT) / 2), round((nw - WIDTH) / 2)
        return small[top:top + HEIGHT, left:left + WIDTH]
    padded = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    top, left = (HEIGHT - nh) // 2, (WIDTH - nw) // 2
    padded[top:top + nh, left:left + nw] = small
    return padded


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_every_row_is_what_pillow_makes_of_its_picture(photos: Path, tmp_path: Path, fit: str) -> None:
    pixels = decode(photos, tmp_path / "p.npy", "--fit", fit)
    names = keys(tmp_path / "p.npy")
    assert pixels.shape == (20, HEIGHT, WIDTH, 3) and pixels.dtype == np.uint8
    assert names == sorted(names)
    for row, key in zip(pixels, names, strict=True):
        assert np.array_equal(row, by_pillow(photos / key, fit)), key


def test_it_is_the_data_set_it_was_made_from(photos: Path, tmp_path: Path) -> None:
    decode(photos, tmp_path / "p.npy", "--fit", "stretch")
    same = {"batch_size": 6, "shuffle": True, "seed": 3, "framework": "numpy"}
    folder = fb.Loader(photos, transforms=[fb.Resize((HEIGHT, WIDTH))], **same)
    pack = fb.Loader(tmp_path / "p.npy", **same)
    assert pack.fingerprint == folder.fingerprint and pack.classes == folder.classes
    state = None
    for i, (a, b) in enumerate(zip(folder, pack, strict=True)):
        assert a.sample_keys == b.sample_keys
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
        state = a.state if i == 1 else state
    later = fb.Loader(tmp_path / "p.npy", **same)
    later.load_state_dict(state)
    folder.load_state_dict(state)
    assert [batch.sample_keys for batch in folder] == [batch.sample_keys for batch in later]


def test_transforms_work_on_decoded_pictures(photos: Path, tmp_path: Path) -> None:
    pixels = decode(photos, tmp_path / "p.npy")
    with fb.Loader(tmp_path / "p.npy", batch_size=20, transforms=[fb.CenterCrop(16)], layout="NHWC", framework="numpy") as loader:
        images, _ = next(iter(loader))
    assert np.array_equal(images, pixels[:, 4:20, 8:24])


def test_a_pack_may_be_renamed_with_its_catalog(photos: Path, tmp_path: Path) -> None:
    pixels = decode(photos, tmp_path / "p.npy")
    (tmp_path / "p.npy").rename(tmp_path / "other.npy")
    (tmp_path / "p.npy.catalog").rename(tmp_path / "other.npy.catalog")
    with fb.Loader(tmp_path / "other.npy", batch_size=20, layout="NHWC", framework="numpy") as loader:
        assert np.array_equal(next(iter(loader))[0], pixels)


def test_a_catalog_beside_other_pixels_is_not_believed(photos: Path, tmp_path: Path) -> None:
    decode(photos, tmp_path / "p.npy")
    np.save(tmp_path / "p.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    with fb.Loader(tmp_path / "p.npy", batch_size=4, framework="numpy") as loader:
        (rows,) = next(iter(loader))
    assert rows.tolist() == np.arange(12, dtype=np.float32).reshape(4, 3).tolist()


def test_bad_pictures_fail_or_are_left_out(photos: Path, tmp_path: Path) -> None:
    (photos / "class0" / "000.jpg").write_bytes(b"not a picture")
    said = run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8", code=3)
    assert "class0/000.jpg" in said and list(tmp_path.glob("p.npy*")) == []
    run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8", "--skip-bad", code=4)
    assert np.load(tmp_path / "p.npy").shape[0] == 19 and "class0/000.jpg" not in keys(tmp_path / "p.npy")


def test_bad_pictures_that_are_left_out_are_named_with_their_causes(photos: Path, tmp_path: Path) -> None:
    whole = (photos / "class1" / "003.jpg").read_bytes()
    (photos / "class0" / "000.jpg").write_bytes(b"not a picture")
    (photos / "class1" / "003.jpg").write_bytes(whole[: len(whole) // 2])
    assert "--skip-bad leaves it out" in run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8", code=3)
    said = run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8", "--skip-bad", code=4)
    assert "class0/000.jpg: not an image" in said and "class1/003.jpg: the JPEG file is cut off" in said


def test_it_says_beforehand_what_it_takes_and_buys(photos: Path, tmp_path: Path) -> None:
    said = run("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8")
    assert "20 pictures will take" in said and "are free there" in said


@pytest.mark.parametrize("wrong", [["--decode", "8"], ["--decode", "0x8"], ["--decode", "8x8", "--dtype", "float32"], ["--fit", "pad"],
                                   ["--decode", "4294967304x8"], ["--decode", "8x8", "--shard-size", "1GiB"], ["--decode", "8x8x3"]])
def test_what_makes_no_sense_is_a_usage_error(photos: Path, tmp_path: Path, wrong: list[str]) -> None:
    run("pack", photos, "-o", tmp_path / "p.npy", *wrong, code=2)
    run("pack", photos, "-o", tmp_path / "p.tar", "--decode", "8x8", code=2)


def test_what_does_not_fit_is_said_before_it_starts_and_the_old_files_stay(photos: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        for name in ("p.npy", "p.csv"):
            (disk / name).write_bytes(b"the old one")
        said = run("pack", photos, "-o", disk / "p.npy", "--decode", "224x224", "--force", code=1)
        assert "need" in said and "free" in said
        assert {p.name: p.read_bytes() for p in disk.iterdir()} == {"p.npy": b"the old one", "p.csv": b"the old one"}
    finally:
        subprocess.run(["umount", disk], check=True)


# ------------------------------------------------------------------------------------------------------------ interruptions

@pytest.fixture
def many(photos: Path, tmp_path: Path) -> Path:
    """Enough for ten batches; one in a hundred is no picture."""
    folder = tmp_path / "many"
    pictures = sorted(p for p in photos.rglob("*") if p.is_file())
    for i in range(640 + 17):
        path = folder / f"c{i % 3}" / f"{i:04}{pictures[i % 20].suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not a picture" if i % 100 == 55 else pictures[i % 20].read_bytes())
    return folder


SIZE = "96x128"


def result_of(out: Path) -> dict[str, bytes]:
    return {"x" + p.name[len(out.stem):]: p.read_bytes() for p in out.parent.iterdir() if p.name.startswith(out.stem + ".")}


def whole(many: Path, tmp_path: Path) -> dict[str, bytes]:
    (tmp_path / "whole").mkdir()
    run("pack", many, "-o", tmp_path / "whole" / "w.npy", "--decode", SIZE, "--skip-bad", code=4)
    return result_of(tmp_path / "whole" / "w.npy")


def stop_midway(many: Path, out: Path, sent: signal.Signals = signal.SIGKILL) -> tuple[int, str]:
    process = subprocess.Popen([COMMAND, "pack", many, "-o", out, "--decode", SIZE, "--skip-bad", "--threads", "1"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not any(p.stat().st_size > 130 * 96 * 128 * 3 for p in out.parent.glob(f".{out.name}.*.partial")):
        assert process.poll() is None and time.monotonic() < deadline
    process.send_signal(sent)
    said = process.communicate()[1]
    return process.returncode, said


def resume(many: Path, out: Path, *more: str) -> dict:
    done = subprocess.run([COMMAND, "pack", many, "-o", out, "--decode", SIZE, "--skip-bad", "--resume", "--json", *more],
                          capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    assert len(done.stderr.split("left out:\n")[1].splitlines()) == 7, "those that the first run left out are named too"
    return json.loads(done.stdout)


def test_a_killed_decoder_is_resumed_to_the_same_bytes(many: Path, tmp_path: Path) -> None:
    expected, out = whole(many, tmp_path), tmp_path / "out" / "p.npy"
    out.parent.mkdir()
    stop_midway(many, out)
    assert not out.exists()
    answer = resume(many, out)
    assert 64 <= answer["resumed_samples"] < 657 and answer["samples"] == 650 and answer["skipped_samples"] == 7
    assert result_of(out) == expected
    assert sorted(p.name for p in out.parent.iterdir()) == ["p.csv", "p.npy", "p.npy.catalog"], "nothing else is left"


def test_rows_that_did_not_arrive_are_decoded_again(many: Path, tmp_path: Path) -> None:
    expected, out = whole(many, tmp_path), tmp_path / "out" / "p.npy"
    out.parent.mkdir()
    stop_midway(many, out)
    partial = next(out.parent.glob(".p.npy.*.partial"))
    with partial.open("r+b") as f:  # as a power cut may leave it: row 70, of the second batch
        f.seek(128 + 70 * 96 * 128 * 3 + 5)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))
    assert resume(many, out)["resumed_samples"] == 64
    assert result_of(out) == expected


def test_a_picture_that_changed_meanwhile_is_decoded_as_it_is_now(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "p.npy"
    out.parent.mkdir()
    stop_midway(many, out)
    victim = sorted(p.relative_to(many) for p in many.rglob("*") if p.is_file())[66]
    image = Image.new("RGB", (WIDTH, HEIGHT), (200, 10, 10))
    image.save(many / victim)
    assert resume(many, out)["resumed_samples"] <= 66
    row = np.load(out)[keys(out).index(str(victim))]
    assert np.abs(row.astype(int) - (200, 10, 10)).max() < 8


def test_another_question_starts_anew(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "p.npy"
    out.parent.mkdir()
    stop_midway(many, out)
    said = run("pack", many, "-o", out, "--decode", SIZE, "--fit", "pad", "--skip-bad", "--resume", "--json", code=4)
    assert '"resumed_samples":0' in said
    assert sorted(p.name for p in out.parent.iterdir()) == ["p.csv", "p.npy", "p.npy.catalog"], "what the dead run left is gone"


def test_an_interrupted_decoder_says_how_to_go_on(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "p.npy"
    out.parent.mkdir()
    code, said = stop_midway(many, out, signal.SIGINT)
    assert code == 130 and "--resume" in said


@pytest.mark.parametrize("name", ["p.npy", "p.csv", "p.npy.catalog"])
def test_outputs_that_are_there_stay_unless_forced(photos: Path, tmp_path: Path, name: str) -> None:
    """Names and labels lie beside the pixels: a table that somebody wrote by hand is not theirs to replace."""
    (tmp_path / name).write_bytes(b"the old one")
    how = ("pack", photos, "-o", tmp_path / "p.npy", "--decode", "8x8")
    for more in ((), ("--resume",)):
        said = run(*how, *more, code=1)
        assert "--force" in said and name in said
        assert [(p.name, p.read_bytes()) for p in tmp_path.glob("p.*")] == [(name, b"the old one")]
    run(*how, "--force")
    assert len(np.load(tmp_path / "p.npy")) > 0 and (tmp_path / "p.csv").read_text().startswith("path")


def test_a_manifest_is_not_replaced_by_the_table_of_its_own_pixels(photos: Path, tmp_path: Path) -> None:
    manifest = photos / "list.csv"
    manifest.write_text("path\n" + "".join(f"{p.relative_to(photos)}\n" for p in sorted(photos.rglob("*.jpg"))))
    before = manifest.read_bytes()
    said = run("pack", manifest, "-o", photos / "list.npy", "--decode", "8x8", "--force", code=2)
    assert "source" in said and manifest.read_bytes() == before and not (photos / "list.npy").exists()


def test_a_decoder_killed_at_any_moment_leaves_the_old_files_or_the_new(many: Path, tmp_path: Path) -> None:
    expected, out = whole(many, tmp_path), tmp_path / "out" / "p.npy"
    out.parent.mkdir()
    began = time.monotonic()
    run("pack", many, "-o", tmp_path / "timed.npy", "--decode", SIZE, "--skip-bad", code=4)
    lasts, rng, kills = time.monotonic() - began, random.Random(3), 0
    out.write_bytes(b"the old one")
    for _ in range(100 if IS_SOAK else 6):
        process = subprocess.Popen([COMMAND, "pack", many, "-o", out, "--decode", SIZE, "--skip-bad", "--resume", "--force"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=rng.uniform(0, lasts))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        assert out.read_bytes() in (b"the old one", expected["x.npy"])
    resume(many, out, "--force")
    assert result_of(out) == expected and kills > 0


@pytest.mark.parametrize("other", ["channels first", "another type"])
def test_another_array_of_the_same_size_is_not_taken_for_the_pictures(photos: Path, tmp_path: Path, other: str) -> None:
    out = tmp_path / "small.npy"
    pixels = decode(photos, out)
    array = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)) if other == "channels first" else pixels.reshape(len(pixels), -1).view("<u2")
    size = out.stat().st_size
    np.save(out, array)
    assert out.stat().st_size == size
    with fb.Loader(out, batch_size=len(array), framework="numpy") as loader:
        (batch,) = loader
    assert np.array_equal(batch[0], array)
