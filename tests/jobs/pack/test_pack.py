"""Packs: what tar, tarfile and webdataset find in them, that they are the data set they came from, that they survive what happens to files.

The command is the one that is installed, or FULLBORE_COMMAND.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from PIL import Image, ImageChops

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
IS_SOAK = bool(os.environ.get("FB_SOAK"))
INDEX = "__fullbore_index__"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run(*args: object, code: int = 0) -> str:
    done = subprocess.run([COMMAND, *map(str, args)], capture_output=True)
    assert done.returncode == code, done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    said = done.stdout.decode(errors="replace")
    return said if code == 0 else done.stderr.decode(errors="replace") + said


def info(source: object) -> dict:
    return json.loads(run("info", source, "--json"))


def put(path: Path, seed: int = 0, size: int | None = None) -> Path:
    """A picture; its name's extension decides the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    image = Image.effect_noise((40 + seed % 17, 30 + seed % 13), 50).convert("RGB")
    kind = {"png": "PNG", "webp": "WEBP"}.get(path.suffix[1:].lower(), "JPEG")
    image.save(path, kind)
    if size is not None:
        with open(path, "ab") as f:
            f.write(rng.randbytes(size))
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for i in range(30):
        put(folder / ("cat", "dog", "owl")[i % 3] / f"{i:03d}.{('jpg', 'png', 'webp')[i // 3 % 3]}", i)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {os.fsencode(p.relative_to(folder)).decode("utf-8", "surrogateescape"): p.read_bytes()
            for p in sorted(folder.rglob("*")) if p.is_file()}


def members(pack: Path) -> dict[str, bytes]:
    with tarfile.open(pack) as t:
        return {m.name: t.extractfile(m).read() for m in t if m.isfile()}  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------------------ what others read

def test_tarfile_finds_every_sample_with_its_label(photos: Path, tmp_path: Path) -> None:
    pack = tmp_path / "p.tar"
    run("pack", photos, "-o", pack)
    found = members(pack)
    assert list(found)[-1] == INDEX
    originals = contents(photos)
    classes = ["cat", "dog", "owl"]
    for name, data in originals.items():
        assert found.pop(name) == data
        assert found.pop(name.rsplit(".", 1)[0] + ".cls") == str(classes.index(name.split("/")[0])).encode()
    assert list(found) == [INDEX]


def test_tar_lists_it_without_a_word(photos: Path, tmp_path: Path) -> None:
    run("pack", photos, "-o", tmp_path / "p.tar")
    done = subprocess.run(["tar", "tf", tmp_path / "p.tar"], capture_output=True, text=True, check=True)
    assert done.stderr == "" and len(done.stdout.splitlines()) == 61
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["tar", "xf", tmp_path / "p.tar", "-C", out], check=True)
    assert all((out / n).read_bytes() == data for n, data in contents(photos).items())


def test_webdataset_yields_the_same_samples_and_labels(photos: Path, tmp_path: Path) -> None:
    import webdataset as wds
    run("pack", photos, "-o", tmp_path / "p.tar", "--shard-size", "64KiB")
    shards = sorted(tmp_path.glob("p-*.tar"))
    assert len(shards) > 1
    found = {}
    for sample in wds.WebDataset([str(s) for s in shards], shardshuffle=False, empty_check=False):
        kinds = [k for k in sample if not k.startswith("__") and k != "cls"]
        assert len(kinds) == 1
        found[f"{sample['__key__']}.{kinds[0]}"] = (sample[kinds[0]], int(sample["cls"]))
    classes = ["cat", "dog", "owl"]
    assert found == {n: (d, classes.index(n.split("/")[0])) for n, d in contents(photos).items()}


AWKWARD = [
    "a/x.y.z.jpg", "a/x_y_z.jpg", "a/same.jpg", "a/same.png", "a/same.webp", "a/noext", "a/_..odd.jpg", "a/real.cls",
    "a/" + "k" * 99 + ".jpg", "b.c/d.jpg", "b.c/sp ace.jpg", "b.c/Ümläut 漢.jpg", "b.c/bad\udcff.jpg", "b.c/" + "w\udcfe" * 60 + ".jpg",
    "b.c/" + "l" * 180 + ".jpg", "b.c/" + "m/" * 60 + "n" * 110 + ".jpg", "c/" + "d" * 155 + "/" + "e" * 96 + ".jpg", "__meta__/1.jpg",
]


def awkward(folder: Path) -> Path:
    for i, name in enumerate(AWKWARD):
        path = folder / os.fsdecode(name.encode("utf-8", "surrogateescape"))
        path.parent.mkdir(parents=True, exist_ok=True)
        put(folder / "made.jpg", i)
        (folder / "made.jpg").rename(path)
    return folder


def test_awkward_names_are_safe_in_the_pack_and_whole_again_outside(tmp_path: Path) -> None:
    import webdataset as wds
    folder, pack = awkward(tmp_path / "f"), tmp_path / "p.tar"
    run("pack", folder, "-o", pack)
    assert info(pack)["fingerprint"] == info(folder)["fingerprint"]
    run("verify", pack)
    run("unpack", pack, tmp_path / "out")
    originals = contents(folder)
    assert contents(tmp_path / "out") == originals
    taken = info(folder)["samples"]
    names = [n for n in members(pack) if n != INDEX]
    assert len(names) == len(set(names)) == 2 * taken
    samples = list(wds.WebDataset(str(pack), shardshuffle=False, empty_check=False))
    assert len(samples) == taken, "every sample has a key of its own"
    assert all(len([k for k in s if not k.startswith("__")]) == 2 for s in samples)
    stored = {v for s in samples for k, v in s.items() if not k.startswith("__") and k != "cls"}
    assert stored == set(originals.values())


def test_labels_of_a_manifest_ride_as_json(tmp_path: Path) -> None:
    for i in range(4):
        put(tmp_path / f"{i}.jpg", i)
    (tmp_path / "m.csv").write_text("path,kind,age,pose\n" + "".join(f"{i}.jpg,{'ab'[i % 2]},{i}.5,{i} {i + 1}\n" for i in range(4)))
    run("pack", tmp_path / "m.csv", "-o", tmp_path / "p.tar")
    found = members(tmp_path / "p.tar")
    assert json.loads(found["3.json"]) == {"kind": "b", "age": 3.5, "pose": [3, 4]}
    assert found["3.cls"] == b"1"
    assert info(tmp_path / "p.tar")["fingerprint"] == info(tmp_path / "m.csv")["fingerprint"]


# -------------------------------------------------------------------------------------------------------------- the same data set

def test_folder_pack_and_shards_are_the_same_data_set(photos: Path, tmp_path: Path) -> None:
    import fullbore as fb
    run("pack", photos, "-o", tmp_path / "p.tar")
    run("pack", photos, "-o", tmp_path / "s.tar", "--shard-size", "64KiB")
    run("pack", tmp_path / "p.tar", "-o", tmp_path / "again.tar")
    run("pack", str(tmp_path / "s-*.tar"), "-o", tmp_path / "joined.tar")
    last = sorted(tmp_path.glob("s-*.tar"))[-1].name
    sources = [photos, tmp_path / "p.tar", f"{tmp_path}/s-{{000000..{last[2:8]}}}.tar", tmp_path / "again.tar", tmp_path / "joined.tar"]
    options = dict(batch_size=7, shuffle=True, seed=3, transforms=[fb.RandomResizedCrop(16), fb.RandomHorizontalFlip()], framework="numpy")
    seen, states = [], []
    for source in sources:
        with fb.Loader(str(source), **options) as loader:
            batches = list(loader)
            seen.append([(tuple(b.sample_keys), b[0].tobytes(), b[1].tobytes()) for b in batches])
            states.append([b.state for b in batches])
            assert len({k for b in batches for k in b.sample_keys}) == 30
    assert all(s == seen[0] for s in seen[1:])
    assert all(s == states[0] for s in states[1:])
    with fb.Loader(str(sources[1]), **options) as loader:  # a state of the folder goes on in the pack
        loader.load_state_dict(states[0][1])
        assert [tuple(b.sample_keys) for b in loader] == [k for k, _, _ in seen[0][2:]]


def test_a_renamed_or_copied_pack_still_opens(photos: Path, tmp_path: Path) -> None:
    run("pack", photos, "-o", tmp_path / "p.tar")
    expected = info(photos)["fingerprint"]
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(tmp_path / "p.tar", tmp_path / "elsewhere" / "other name.tar")
    (tmp_path / "p.tar").unlink()
    assert info(tmp_path / "elsewhere" / "other name.tar")["fingerprint"] == expected


def test_what_was_learnt_rides_along(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for p in photos.rglob("*.jpg"):  # large enough to be worth a record
        Image.effect_noise((640, 480), 60).convert("RGB").save(p)
    known = json.loads(run("index", photos, "--learn", "--json"))["records"]
    assert known >= 10
    run("pack", photos, "-o", tmp_path / "p.tar")
    run("verify", tmp_path / "p.tar")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    shutil.copy(tmp_path / "p.tar", tmp_path / "copy.tar")  # another time, too
    assert json.loads(run("index", tmp_path / "copy.tar", "--json"))["records"] == known
    for _ in range(3):  # and again, at the same place: what was known of the one before does not stand in the way
        run("pack", tmp_path / "copy.tar", "-o", tmp_path / "again.tar", "--force")
        run("info", tmp_path / "again.tar")
        assert json.loads(run("index", tmp_path / "again.tar", "--json"))["records"] == known


# ------------------------------------------------------------------------------------------------------------------- how it is written

def test_the_bytes_do_not_depend_on_threads_time_or_cache(photos: Path, tmp_path: Path) -> None:
    sums = set()
    for threads in (1, 2, 3, 8):
        pack = tmp_path / f"t{threads}.tar"
        run("pack", photos, "-o", pack, "--threads", threads)
        sums.add(hashlib.sha256(pack.read_bytes()).hexdigest())
        shutil.rmtree(tmp_path / "cache")
    assert len(sums) == 1


def test_nothing_but_the_pack_is_left(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run("pack", photos, "-o", out / "p.tar")
    run("pack", photos, "-o", out / "s.tar", "--shard-size", "64KiB")
    assert all(p.suffix == ".tar" for p in out.iterdir())


def test_large_files_are_copied_in_pieces(tmp_path: Path) -> None:
    put(tmp_path / "f" / "big.jpg", 1, size=40 << 20)
    put(tmp_path / "f" / "small.jpg", 2)
    run("pack", tmp_path / "f", "-o", tmp_path / "p.tar")
    run("verify", tmp_path / "p.tar")
    run("unpack", tmp_path / "p.tar", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "f")


def test_bad_files_can_be_left_out_and_are_named(photos: Path, tmp_path: Path) -> None:
    (photos / "cat" / "broken.jpg").write_bytes(b"not a picture")
    (photos / "dog" / "empty.jpg").write_bytes(b"")
    run("pack", photos, "-o", tmp_path / "all.tar")  # a copy of what is there, whatever it is
    assert info(tmp_path / "all.tar")["fingerprint"] == info(photos)["fingerprint"]
    said = run("pack", photos, "-o", tmp_path / "good.tar", "--skip-bad", code=4)
    assert "cat/broken.jpg" in said and "dog/empty.jpg" in said
    assert info(tmp_path / "good.tar")["samples"] == 30


def test_a_file_that_vanishes_is_noticed(photos: Path, tmp_path: Path) -> None:
    old = time.time() - 3600
    for p in [photos, *photos.rglob("*")]:
        os.utime(p, (old, old))
    info(photos)
    (photos / "cat" / "000.jpg").unlink()
    os.utime(photos / "cat", (old, old))  # so that the kept catalog is believed
    said = run("pack", photos, "-o", tmp_path / "p.tar", code=1)
    assert "cat/000.jpg" in said
    assert not list(tmp_path.glob("*.tar"))


def test_the_output_must_have_a_sensible_name(photos: Path, tmp_path: Path) -> None:
    assert "-o" in run("pack", photos, code=2)
    run("pack", photos, "-o", tmp_path / "p.zip", code=2)
    run("pack", photos, "-o", tmp_path / "no" / "such" / "p.tar", code=1)


@pytest.mark.parametrize("there, more", [("p.tar", []), ("p-000000.tar", ["--shard-size", "64KiB"]),
                                         ("p-000099.tar", ["--shard-size", "64KiB"])])
def test_an_output_that_is_there_stays_unless_forced(photos: Path, tmp_path: Path, there: str, more: list[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / there).write_bytes(b"the old one")
    for further in ((), ("--resume",)):
        said = run("pack", photos, "-o", out / "p.tar", *more, *further, code=1)
        assert "--force" in said and there in said
        assert [(p.name, p.read_bytes()) for p in out.iterdir()] == [(there, b"the old one")]
    run("pack", photos, "-o", out / "p.tar", *more, "--force")
    run("verify", out / ("p-000000.tar" if more else "p.tar"))


def test_other_names_do_not_stand_in_the_way(photos: Path, tmp_path: Path) -> None:
    for name in ("p-1.tar", "p-00000x.tar", "p-000000.tar.old", "q-000000.tar", "p.csv", "p.tar"):
        (tmp_path / name).write_bytes(b"another")
    run("pack", photos, "-o", tmp_path / "p.tar", "--shard-size", "64KiB")
    assert (tmp_path / "p.tar").read_bytes() == b"another"


@pytest.mark.parametrize("source, more", [("p-{000000..000001}.tar", []), ("p-*.tar", []), ("p-*.tar", ["--shard-size", "64KiB"])])
def test_no_archive_of_a_source_is_written_to(photos: Path, tmp_path: Path, source: str, more: list[str]) -> None:
    run("pack", photos, "-o", tmp_path / "p.tar", "--shard-size", "64KiB")
    before = {p.name: p.read_bytes() for p in tmp_path.glob("p-*.tar")}
    assert len(before) > 1
    said = run("pack", tmp_path / source, "-o", tmp_path / ("p.tar" if more else "p-000001.tar"), *more, "--force", code=2)
    assert "never written to" in said and {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


@pytest.mark.parametrize("more", [[], ["--force"]])
def test_a_folder_is_no_output(photos: Path, tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "out/p.tar").mkdir(parents=True)
    said = run("pack", photos, "-o", tmp_path / "out/p.tar", *more, code=2)
    assert "is a folder" in said and "--force" not in said
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["p.tar"]


def test_a_link_is_not_followed_and_a_source_never_written_to(photos: Path, tmp_path: Path) -> None:
    run("pack", photos, "-o", tmp_path / "p.tar")
    before = (tmp_path / "p.tar").read_bytes()
    (tmp_path / "link.tar").symlink_to("p.tar")
    (tmp_path / "lost.tar").symlink_to("nowhere")
    for name in ("link.tar", "p.tar"):
        run("pack", tmp_path / "p.tar", "-o", tmp_path / name, "--force", code=2)
    for name in ("link.tar", "lost.tar"):
        run("pack", photos, "-o", tmp_path / name, code=1)
    assert (tmp_path / "p.tar").read_bytes() == before and not (tmp_path / "nowhere").exists()


def test_a_file_that_comes_while_packing_stays(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "p.tar"
    out.parent.mkdir()
    process = subprocess.Popen([COMMAND, "pack", many, "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not list(out.parent.iterdir()):
        time.sleep(0.001)
    out.write_bytes(b"came meanwhile")
    _, said = process.communicate()
    assert process.returncode == 1 and "--force" in said and out.read_bytes() == b"came meanwhile"
    run("pack", many, "-o", out, "--resume", "--force")
    run("verify", out)


def test_out_of_disk_leaves_the_old_pack(photos: Path, tmp_path: Path) -> None:
    """A file system of 300 KiB; needs the right to mount one."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", small], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        run("pack", photos / "cat", "-o", small / "p.tar")
        before = (small / "p.tar").read_bytes()
        for i in range(20):
            put(photos / "cat" / f"more{i}.jpg", i, size=9000)
        said = run("pack", photos, "-o", small / "p.tar", "--force", code=1)
        assert "free" in said or "No space" in said
        assert (small / "p.tar").read_bytes() == before
        run("verify", small / "p.tar")
        (small / "p.tar").unlink()
        with open(small / "filler", "wb") as f:  # and when the shortage shows only while writing: room for the samples, not for the rest
            f.write(b"x" * (300 * 1024 - 56 * 1024))
        shutil.rmtree(photos / "dog")
        for i in range(20):
            (photos / "cat" / f"more{i}.jpg").unlink()
        run("pack", photos, "-o", small / "q.tar", code=1)
        assert not (small / "q.tar").exists()
    finally:
        subprocess.run(["umount", small], check=True)


# ---------------------------------------------------------------------------------------------------------------- smaller, when asked for

def test_pictures_become_smaller_only_by_name_and_only_large_ones(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    wide = Image.radial_gradient("L").resize((300, 120)).convert("RGB")
    wide.save(folder / "wide.jpg", quality=95, exif=exif)
    wide.rotate(90, expand=True).save(folder / "tall.v2.png")
    wide.resize((90, 60)).save(folder / "small.webp")
    run("pack", folder, "-o", tmp_path / "p.tar", "--resize-shorter", 64, "--jpeg-quality", 90)
    run("verify", tmp_path / "p.tar")
    found = members(tmp_path / "p.tar")
    assert sorted(found) == sorted(["small.webp", "tall_v2.jpg", "wide.jpg", INDEX])
    assert found["small.webp"] == (folder / "small.webp").read_bytes()
    assert info(tmp_path / "p.tar")["fingerprint"] == info(folder)["fingerprint"]
    for name, size in (("wide.jpg", (160, 64)), ("tall_v2.jpg", (64, 160))):
        ours = Image.open(io.BytesIO(found[name]))
        assert (ours.format, ours.size) == ("JPEG", size)
        original = Image.open(folder / name.replace("_v2.jpg", ".v2.png")).convert("RGB").resize(size, Image.Resampling.BILINEAR)
        buffer = io.BytesIO()
        original.save(buffer, "JPEG", quality=90)
        theirs = Image.open(buffer)
        worst = max(ImageChops.difference(ours.convert("RGB"), theirs.convert("RGB")).getextrema(), key=lambda e: e[1])[1]
        assert worst <= 2, f"{name} differs by {worst} from what Pillow makes of it"
        assert ours.quantization == theirs.quantization
    assert Image.open(io.BytesIO(found["wide.jpg"])).getexif()[0x0112] == 6
    run("pack", folder, "-o", tmp_path / "q.tar", "--jpeg-quality", 90, code=2)


def test_smaller_pictures_do_not_depend_on_threads(photos: Path, tmp_path: Path) -> None:
    for threads in (1, 3):
        run("pack", photos, "-o", tmp_path / f"{threads}.tar", "--resize-shorter", 20, "--threads", threads)
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "3.tar").read_bytes()
    (photos / "cat" / "broken.jpg").write_bytes(b"no picture")
    assert "cat/broken.jpg" in run("pack", photos, "-o", tmp_path / "b.tar", "--resize-shorter", 20, code=3)
    run("pack", photos, "-o", tmp_path / "b.tar", "--resize-shorter", 20, "--skip-bad", code=4)


# ------------------------------------------------------------------------------------------------------------------ killed and resumed

@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    seed = put(tmp_path / "seed.jpg", 1).read_bytes()
    rng = random.Random(5)
    for i in range(1500):
        path = folder / f"c{i % 7}" / f"{i:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(seed + rng.randbytes(rng.randrange(60000)))
    return folder


@pytest.mark.parametrize("shard", [[], ["--shard-size", "4MiB"]], ids=["one", "shards"])
def test_a_killed_packer_leaves_the_old_pack_and_can_be_resumed(many: Path, tmp_path: Path, shard: list[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    run("pack", many, "-o", tmp_path / "whole.tar", *shard)
    expected = [p.read_bytes() for p in sorted(tmp_path.glob("whole*.tar"))]
    (out / "p.tar").write_bytes(b"the old one")
    (out / "p-000000.tar").write_bytes(b"the old one")
    rng = random.Random(11)
    began = time.monotonic()
    run("pack", many, "-o", tmp_path / "timed.tar", *shard)
    lasts = time.monotonic() - began
    kills = resumed = 0
    for _ in range(200 if IS_SOAK else 12):
        process = subprocess.Popen([COMMAND, "pack", many, "-o", out / "p.tar", "--resume", "--force", "--json", *shard],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            process.communicate(timeout=rng.uniform(0, lasts * 1.2))
            if process.returncode:
                pytest.fail(f"exit code {process.returncode}")
            found = sorted(out.glob("p-*.tar" if shard else "p.tar"))
            assert [p.read_bytes() for p in found] == expected
            for p in found:
                p.write_bytes(b"the old one")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            for p in out.glob("*.tar"):  # whole or the old one, never a part
                assert p.read_bytes() == b"the old one" or p.read_bytes() in expected
    answer = json.loads(run("pack", many, "-o", out / "p.tar", "--resume", "--force", "--json", *shard))
    resumed = answer["resumed_samples"]
    assert [p.read_bytes() for p in sorted(out.glob("p-*.tar" if shard else "p.tar"))][:len(expected)] == expected
    assert not [p.name for p in out.iterdir() if p.name.startswith(".")]
    assert kills > 0
    print(f"{kills} kills, {resumed} samples resumed at the end")


def stop_midway(many: Path, out: Path) -> None:
    """Interrupts a packer once it has written something."""
    process = subprocess.Popen([COMMAND, "pack", many, "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not any(p.stat().st_size > 200_000 for p in out.parent.glob(".p.tar.*.partial")):
        assert process.poll() is None and time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_resuming_takes_over_what_is_whole_and_nothing_else(many: Path, tmp_path: Path) -> None:
    run("pack", many, "-o", tmp_path / "whole.tar")
    out = tmp_path / "out"
    out.mkdir()
    stop_midway(many, out / "p.tar")
    partial = next(out.glob(".p.tar.*.partial"))
    data = bytearray(partial.read_bytes())
    data[100_000] ^= 1  # as a power cut may leave it
    partial.write_bytes(data)
    answer = json.loads(run("pack", many, "-o", out / "p.tar", "--resume", "--json"))
    assert 0 < answer["resumed_samples"] < 1500
    assert (out / "p.tar").read_bytes() == (tmp_path / "whole.tar").read_bytes()


def test_resuming_a_changed_source_packs_what_is_there_now(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_midway(many, out / "p.tar")
    victim = sorted(many.rglob("*.jpg"))[2]
    put(victim, 9)
    answer = json.loads(run("pack", many, "-o", out / "p.tar", "--resume", "--json"))
    assert answer["resumed_samples"] <= 2
    assert members(out / "p.tar")[str(victim.relative_to(many))] == victim.read_bytes()


def test_without_resume_a_dead_run_is_cleaned_up(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_midway(many, out / "p.tar")
    assert list(out.glob(".*"))
    run("pack", many, "-o", out / "p.tar")
    assert [p.name for p in out.iterdir()] == ["p.tar"]


def test_files_that_come_while_packing_are_noticed(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    process = subprocess.Popen([COMMAND, "pack", many, "-o", out / "p.tar"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not any(p.stat().st_size > 200_000 for p in out.glob(".p.tar.*.partial")):
        assert process.poll() is None and time.monotonic() < deadline
    process.send_signal(signal.SIGSTOP)
    put(many / "c0" / "new.jpg", 1)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "changed while it was packed" in said
    assert list(out.iterdir()) == []


def test_an_interrupt_ends_with_130_and_says_how_to_go_on(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    process = subprocess.Popen([COMMAND, "pack", many, "-o", out / "p.tar"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not any(p.stat().st_size > 200_000 for p in out.glob(".p.tar.*.partial")):
        assert process.poll() is None and time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130 and "--resume" in said
    assert not (out / "p.tar").exists()
