"""Staging: what is copied is what a loader would take, and nothing that goes wrong looks like success."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

COMMAND = Path(os.environ.get("FULLBORE_COMMAND", Path(__file__).resolve().parents[3] / ".venv/bin/fullbore"))
SOAK = bool(os.environ.get("FB_SOAK"))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "LC_ALL": "C.UTF-8"}


def run(env: dict[str, str], *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([COMMAND, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def stage(env: dict[str, str], *arguments: str | Path, code: int = 0) -> dict:
    done = run(env, "stage", *arguments, "--json", code=code)
    return json.loads(done.stdout) if done.stdout else {}


def files(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file but the log: its content and time."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_file() and name != ".fullbore-stage":
            found[name] = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
    return found


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train/ and val/ with the same 12 classes, and a file that is no sample."""
    root = tmp_path_factory.mktemp("imagenet")
    for part, count in (("train", 6), ("val", 3)):
        for c in range(12):
            for i in range(count):
                path = root / part / f"n{c:02d}" / f"{part}_{i}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (40 + i, 30 + c), (20 * c, 40 * i, 7)).save(path)
                os.utime(path, ns=(10**18, 10**18 + c * 1000 + i))
    (root / "LOC_synset_mapping.txt").write_text("n00 tench\n")
    return root


def fingerprint(env: dict[str, str], source: Path) -> str:
    return json.loads(run(env, "info", source, "--json").stdout)["fingerprint"]


# ---- what is copied


def test_everything_is_copied_byte_for_byte_with_its_times(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    told = stage(env, imagenet, tmp_path / "copy", "--verify")
    assert files(tmp_path / "copy") == files(imagenet)
    assert told["complete"] and told["copied_files"] == told["files"] == told["verified_files"] == 12 * 9 + 1
    assert told["bytes"] == told["copied_bytes"] == sum(p.stat().st_size for p in imagenet.rglob("*") if p.is_file())


@pytest.mark.parametrize("how", [
    ["--classes", "5", "--class-seed", "42"], ["--classes", "5", "--class-seed", "43", "--per-class", "2"],
    ["--classes", "n03,n07"], ["--per-class", "1"], ["--fraction", "0.9"],
])
def test_train_and_val_are_the_parts_that_loaders_take(env: dict[str, str], imagenet: Path, tmp_path: Path, how: list[str]) -> None:
    fb = pytest.importorskip("fullbore")
    told = stage(env, imagenet, tmp_path / "copy", *how)
    options = dict(zip(how[::2], how[1::2], strict=True))
    arguments: dict = {"class_seed": int(options.get("--class-seed", 0))}
    if "--classes" in options:
        arguments["classes"] = int(options["--classes"]) if options["--classes"].isdigit() else options["--classes"].split(",")
    if "--per-class" in options:
        arguments["per_class"] = int(options["--per-class"])
    if "--fraction" in options:
        arguments["fraction"] = float(options["--fraction"])
    for part in ("train", "val"):
        with fb.Loader(imagenet / part, transforms=[fb.Resize((8, 8))], framework="numpy", **arguments) as source, \
                fb.Loader(tmp_path / "copy" / part, transforms=[fb.Resize((8, 8))], framework="numpy") as copy:
            assert [b.sample_keys for b in source] == [b.sample_keys for b in copy]
            assert [int(b[1][0]) for b in source] == [int(b[1][0]) for b in copy]
            assert source.classes == copy.classes
    assert [p["name"] for p in told["parts"]] == ["train", "val"]
    assert [p["fingerprint"] for p in told["parts"]] == [fingerprint(env, tmp_path / "copy" / p) for p in ("train", "val")]


def test_classes_that_a_part_loses_are_said(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("n04/val_2.jpg\nn00/val_0.jpg\n")
    done = run(env, "stage", imagenet / "val", tmp_path / "copy", "--keys", tmp_path / "keys", "--json")
    assert json.loads(done.stdout)["parts"][0]["lost_classes"] == 10
    assert "10 of 12 classes have no sample in the part" in done.stderr


def test_classes_come_from_a_file(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("n01\nn11\n")
    stage(env, imagenet, tmp_path / "copy", "--classes", tmp_path / "names")
    assert sorted(p.name for p in (tmp_path / "copy/val").iterdir()) == ["n01", "n11"]


def test_a_folder_that_is_called_like_a_class_is_no_list_of_names(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    done = subprocess.run([COMMAND, "stage", imagenet, tmp_path / "copy", "--classes", "n03"], env=env, cwd=imagenet / "train",
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "copy/val").iterdir()) == ["n03"]


def test_samples_by_key(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    keys = ["train/n04/train_2.jpg", "val/n00/val_0.jpg", "train/n00/train_5.jpg"]
    (tmp_path / "keys").write_text("\n".join(keys) + "\n")
    stage(env, imagenet, tmp_path / "copy", "--keys", tmp_path / "keys")
    assert sorted(files(tmp_path / "copy")) == sorted(keys)
    (tmp_path / "keys").write_text("train/n04/no_such.jpg\n")
    assert "no_such" in run(env, "stage", imagenet, tmp_path / "other", "--keys", tmp_path / "keys", code=1).stderr


@pytest.mark.parametrize("stray", ["n04/train_2.jpg", "extra/n04/train_2.jpg", "trainn04/train_2.jpg", "train"])
def test_a_key_of_no_part_is_missing(env: dict[str, str], imagenet: Path, tmp_path: Path, stray: str) -> None:
    (tmp_path / "keys").write_text(f"train/n04/train_2.jpg\n{stray}\nval/n00/val_0.jpg\n")
    done = run(env, "stage", imagenet, tmp_path / "copy", "--keys", tmp_path / "keys", code=1)
    assert f"there is no sample '{stray}' in the source" in done.stderr and not (tmp_path / "copy").exists()


def test_a_key_that_is_written_twice_is_staged_once(env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    (source / "a/large.jpg").write_bytes(b"\xff\xd8\xff\xe0" + random.Random(4).randbytes(20 << 20))
    (source / "a/small.jpg").write_bytes(b"\xff\xd8\xff\xe0" + random.Random(5).randbytes(2000))
    (tmp_path / "keys").write_text("a/small.jpg\na/large.jpg\r\n\na/small.jpg\na/large.jpg")
    told = stage(env, source, tmp_path / "copy", "--keys", tmp_path / "keys", "--verify")
    assert told["complete"] and told["files"] == told["copied_files"] == told["parts"][0]["samples"] == 2
    assert files(tmp_path / "copy") == files(source)


def test_a_single_file_in_pieces(env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "train.H5"
    source.write_bytes(random.Random(1).randbytes(30 << 20) + b"tail")
    told = stage(env, source, tmp_path / "ssd", "--verify")
    assert files(tmp_path / "ssd") == {"train.H5": (hashlib.sha256(source.read_bytes()).hexdigest(), source.stat().st_mtime_ns)}
    assert told["complete"] and told["files"] == 1


def test_a_pack_as_it_is_or_a_part_of_it_as_files(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    run(env, "pack", imagenet / "train", "-o", tmp_path / "train.tar")
    stage(env, tmp_path / "train.tar", tmp_path / "whole")
    assert (tmp_path / "whole/train.tar").read_bytes() == (tmp_path / "train.tar").read_bytes()
    by_pack = stage(env, tmp_path / "train.tar", tmp_path / "part", "--classes", "3", "--class-seed", "9")
    by_folder = stage(env, imagenet / "train", tmp_path / "folder", "--classes", "3", "--class-seed", "9")
    assert by_pack["parts"][0]["fingerprint"] == by_folder["parts"][0]["fingerprint"]
    assert {k: v[0] for k, v in files(tmp_path / "part").items()} == {k: v[0] for k, v in files(tmp_path / "folder").items()}


def test_packs_of_several_folders(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    for folder, name, classes in (("a", "x.tar", "n00,n01"), ("b", "x.tar", "n02"), ("b", "y.tar", "n03")):
        stage(env, imagenet / "train", tmp_path / f"{folder}{name}", "--classes", classes)
        (tmp_path / folder).mkdir(exist_ok=True)
        run(env, "pack", tmp_path / f"{folder}{name}", "-o", tmp_path / folder / name)
    stage(env, f"{tmp_path}/{{a/x,b/y}}.tar", tmp_path / "copy")
    assert (tmp_path / "copy/x.tar").read_bytes() == (tmp_path / "a/x.tar").read_bytes()
    assert (tmp_path / "copy/y.tar").read_bytes() == (tmp_path / "b/y.tar").read_bytes()
    done = run(env, "stage", f"{tmp_path}/{{a,b}}/x.tar", tmp_path / "other", code=2)
    assert "have the same name" in done.stderr and not (tmp_path / "other").exists()


def test_a_manifest_and_its_files(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(imagenet / "val", source / "val")
    (source / "labels.csv").write_text("path,age\n" + "".join(f"val/n00/val_{i}.jpg,{i}\n" for i in range(3)))
    stage(env, source / "labels.csv", tmp_path / "copy")
    assert fingerprint(env, tmp_path / "copy/labels.csv") == fingerprint(env, source / "labels.csv")
    assert "part of a manifest" in run(env, "stage", source / "labels.csv", tmp_path / "x", "--fraction", "0.5", code=1).stderr


def test_names_of_all_kinds(env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a b", "é", "%41", "=+@&'()~:", ".hidden", "x" * 200, "new\nline"):
        (source / name).write_text(name)
    (source / "empty").touch()
    os.symlink("é", source / "link")
    os.symlink("nowhere", source / "dangling")
    os.symlink("..", source / "loop")
    stage(env, source, tmp_path / "copy", "--verify")
    assert {k: v[0] for k, v in files(tmp_path / "copy").items()} == {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in source.iterdir() if p.is_file()}
    assert not (tmp_path / "copy/link").is_symlink()


def test_a_dry_run_does_nothing(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    told = stage(env, imagenet, tmp_path / "copy", "--classes", "2", "--dry-run")
    assert told["dry_run"] and told["fits"] and told["files"] == 18 and not (tmp_path / "copy").exists()
    out = run(env, "stage", imagenet, tmp_path / "copy", "--dry-run").stdout
    assert "source" in out and "target" in out and "room" in out
    (tmp_path / "empty").mkdir()
    stage(env, imagenet, tmp_path / "empty", "--dry-run")
    assert not list((tmp_path / "empty").iterdir())


# ---- what is refused


def test_what_makes_no_sense_is_a_usage_error(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    for how in (["--fraction", "0.5", "--classes", "3"], ["--keys", "x", "--per-class", "1"], ["--classes", "0"], ["--to", "tape"]):
        run(env, "stage", imagenet, tmp_path / "copy", *how, code=2)
    assert "inside the source" in run(env, "stage", imagenet, imagenet / "copy", code=2).stderr
    assert not (imagenet / "copy").exists() and not (tmp_path / "copy").exists()
    run(env, "stage", tmp_path / "no-such", tmp_path / "copy", code=1)
    run(env, "stage", imagenet, code=2)


def test_a_folder_with_other_files_is_left_alone(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    target = tmp_path / "home"
    target.mkdir()
    (target / "thesis.tex").write_text("precious")
    assert "not empty" in run(env, "stage", imagenet, target, code=2).stderr
    assert "not empty" in run(env, "stage", imagenet, target, "--resume", code=2).stderr
    assert files(target).keys() == {"thesis.tex"}
    stage(env, imagenet, tmp_path / "copy")
    assert "another source" in run(env, "stage", imagenet / "val", tmp_path / "copy", "--resume", code=2).stderr
    assert "--resume" in run(env, "stage", imagenet, tmp_path / "copy", code=2).stderr


def test_the_kind_of_target_is_checked(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    done = run(env, "stage", imagenet, tmp_path / "copy", "--to", "ram", code=2)
    assert "lies on" in done.stderr and not (tmp_path / "copy").exists()


def test_names_that_lead_outside_are_not_written(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as t:
        for name in ("../../evil.jpg", "a/good.jpg"):
            t.add(imagenet / "train/n00/train_0.jpg", name)
    done = run(env, "stage", tmp_path / "evil.tar", tmp_path / "deep/er/copy", "--fraction", "0.999999", "--json", code=4)
    assert json.loads(done.stdout)["failed_files"] == 1 and "evil.jpg" in done.stderr
    assert files(tmp_path / "deep/er/copy").keys() == {"a/good.jpg"}
    assert not list(tmp_path.glob("evil.jpg")) and not list((tmp_path / "deep").glob("evil.jpg"))


def test_a_sample_called_like_a_file_of_staging_takes_no_place(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    """The log, and the unfinished part of a large file: of an archive, samples may be called like them."""
    photo = (imagenet / "train/n00/train_0.jpg").read_bytes()
    large = photo + bytes(9 << 20)
    (tmp_path / "in/a").mkdir(parents=True)
    for name, content in {"b.jpg": large, "b.jpg.fullbore-part": photo, "b.jpg.fullbore-marks": photo, "c.jpg": photo}.items():
        (tmp_path / "in/a" / name).write_bytes(content)
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "in/a", "a")
    done = run(env, "stage", tmp_path / "x.tar", tmp_path / "out", "--fraction", "0.999", "--json", code=4)
    told = json.loads(done.stdout)
    assert told["failed_files"] == 2 and told["copied_files"] == 2, done
    assert {p.name: p.read_bytes() for p in (tmp_path / "out/a").iterdir()} == {"b.jpg": large, "c.jpg": photo}
    assert "b.jpg.fullbore-part" in done.stderr and "staging uses names like this one" in done.stderr


def test_a_link_in_the_target_is_not_followed(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    stage(env, imagenet / "val", tmp_path / "copy", "--classes", "n00")
    shutil.rmtree(tmp_path / "copy/n00")
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "copy/n00")
    run(env, "stage", imagenet / "val", tmp_path / "copy", "--classes", "n00", "--resume", code=1)
    assert not list((tmp_path / "outside").iterdir())


# ---- resuming


def test_a_second_run_copies_only_what_is_missing_or_changed(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(imagenet, source)
    stage(env, source, tmp_path / "copy")
    told = stage(env, source, tmp_path / "copy", "--resume")
    assert told["copied_files"] == 0 and told["there_files"] == told["files"] and told["complete"]
    (source / "train/n00/train_0.jpg").write_bytes(b"other bytes")
    (source / "train/n00/new.jpg").write_bytes(b"new")
    (tmp_path / "copy/val/n03/val_1.jpg").unlink()
    (tmp_path / "copy/val/n04/val_1.jpg").write_bytes(b"somebody wrote here")
    told = stage(env, source, tmp_path / "copy", "--resume", "--verify")
    assert told["copied_files"] == 4 and told["complete"]
    assert files(tmp_path / "copy") == files(source)


def test_an_interrupted_run_says_so_and_goes_on(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    slow = "slow:latency_us=20000,iops=60"
    process = subprocess.Popen([COMMAND, "stage", imagenet, tmp_path / "copy", "--io", slow], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    while not files(tmp_path / "copy") and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, (out, err)
    assert "--resume" in err
    before = len(files(tmp_path / "copy"))
    told = stage(env, imagenet, tmp_path / "copy", "--resume", "--verify")
    assert told["complete"] and told["there_files"] == before and files(tmp_path / "copy") == files(imagenet)


@pytest.mark.parametrize("large", [False, True])
def test_a_killed_run_leaves_whole_files_and_goes_on(env: dict[str, str], imagenet: Path, tmp_path: Path, large: bool) -> None:
    source = imagenet
    if large:
        source = tmp_path / "big"
        source.mkdir()
        (source / "train.h5").write_bytes(random.Random(2).randbytes(80 << 20))
    want, dice = files(source), random.Random()
    for _ in range(40 if SOAK else 4):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        process = subprocess.Popen([COMMAND, "stage", source, tmp_path / "copy", "--io", "slow:latency_us=3000,iops=200"], env=env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0, 0.5))
        process.kill()
        process.wait()
        for name, found in files(tmp_path / "copy").items():
            if ".fullbore-" not in name:
                assert found == want[name], name
        told = stage(env, source, tmp_path / "copy", "--resume", "--verify")
        left = {name: found for name, found in files(tmp_path / "copy").items() if not Path(name).name.startswith(".fullbore-")}
        assert told["complete"] and left == want


def test_pieces_that_are_there_are_not_read_again(env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "train.h5"
    source.write_bytes(random.Random(3).randbytes(64 << 20))
    process = subprocess.Popen([COMMAND, "stage", source, tmp_path / "copy", "--io", "slow:iops=10"], env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    marks = tmp_path / "copy/train.h5.fullbore-marks"
    while not (marks.exists() and marks.read_bytes()[16:].count(1) >= 3):
        time.sleep(0.01)
    process.kill()
    process.wait()
    there = marks.read_bytes()[16:].count(1)
    done = run(env, "stage", source, tmp_path / "copy", "--resume", "--io", f"fault:error=EIO,nth={8 - there + 1}", "--json")
    assert json.loads(done.stdout)["complete"]  # a read more than the missing ones would have failed
    assert (tmp_path / "copy/train.h5").read_bytes() == source.read_bytes() and not marks.exists()


def test_a_staged_copy_is_staged_on(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    stage(env, imagenet, tmp_path / "ssd")
    left = ["train/n00/large.h5.fullbore-part", "train/n00/large.h5.fullbore-marks", "val/.fullbore-0123456789abcdef"]
    for name in left:  # by a run that was killed
        (tmp_path / "ssd" / name).write_bytes(b"half")
    (tmp_path / "ssd/.fullbore-notes").write_text("somebody's own")
    told = stage(env, tmp_path / "ssd", tmp_path / "ram", "--verify")
    want = {name: found for name, found in files(tmp_path / "ssd").items() if name not in left}
    assert told["complete"] and files(tmp_path / "ram") == want and ".fullbore-notes" in want
    told = stage(env, tmp_path / "ssd", tmp_path / "ram", "--resume")
    assert told["complete"] and told["copied_files"] == 0


# ---- when things go wrong


def test_a_file_that_cannot_be_read_makes_it_partly_done(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    done = run(env, "stage", imagenet, tmp_path / "copy", "--io", "fault:error=EIO,path=n07/train", "--json", code=4)
    told = json.loads(done.stdout)
    assert told["failed_files"] == 6 and told["copied_files"] == told["files"] - 6 and not told["complete"]
    assert "n07/train_3.jpg: " in done.stderr and "6 files were not staged" in done.stderr
    told = stage(env, imagenet, tmp_path / "copy", "--resume")
    assert told["complete"] and told["copied_files"] == 6
    run(env, "stage", imagenet, tmp_path / "none", "--io", "fault:error=EIO", code=1)


def test_an_archive_that_is_replaced_meanwhile_is_never_mixed(env: dict[str, str], tmp_path: Path) -> None:
    members = [f"c{i % 2}/{i:02d}.jpg" for i in range(40)] + ["c0/large.jpg"]
    versions: list[dict[str, bytes]] = []
    for version in range(2):  # names and sizes are the same
        dice = random.Random(version)
        versions.append({name: b"\xff\xd8\xff\xe0" + dice.randbytes(18 << 20 if "large" in name else 3000) for name in members})
        for name, data in versions[version].items():
            path = tmp_path / f"v{version}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        with tarfile.open(tmp_path / f"v{version}.tar", "w") as t:
            for name in members:
                t.add(tmp_path / f"v{version}" / name, name)
    archive, copy = tmp_path / "v0.tar", tmp_path / "copy"
    process = subprocess.Popen([COMMAND, "stage", archive, copy, "--per-class", "100", "--io", "slow:iops=40", "--json"], env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not files(copy) and process.poll() is None:
        time.sleep(0.005)
    os.replace(tmp_path / "v1.tar", archive)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4 and "its archive changed while it was copied" in err, (process.returncode, err)
    told = json.loads(out)
    assert not told["complete"] and told["copied_files"] + told["failed_files"] == len(members)
    there = {name: (copy / name).read_bytes() for name in members if (copy / name).exists()}
    assert there and all(data == versions[0][name] for name, data in there.items())
    assert stage(env, archive, copy, "--per-class", "100", "--resume", "--verify")["complete"]
    assert {name: (copy / name).read_bytes() for name in members} == versions[1]


def test_a_large_file_that_cannot_be_read_is_not_there(env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "train.h5"
    source.write_bytes(bytes(20 << 20))
    run(env, "stage", source, tmp_path / "copy", "--io", "fault:error=EIO,nth=2", code=1)
    assert not (tmp_path / "copy/train.h5").exists()
    assert stage(env, source, tmp_path / "copy", "--resume")["complete"]


def test_damage_in_the_copy_is_found_and_removed(env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    stage(env, imagenet, tmp_path / "copy")
    victim = tmp_path / "copy/train/n02/train_4.jpg"
    stat = victim.stat()
    content = bytearray(victim.read_bytes())
    content[100] ^= 4
    victim.write_bytes(content)
    os.utime(victim, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert stage(env, imagenet, tmp_path / "copy", "--resume")["complete"]  # size and time are right: only reading it tells
    done = run(env, "stage", imagenet, tmp_path / "copy", "--resume", "--verify", code=3)
    assert "train_4.jpg" in done.stderr and not victim.exists()
    assert stage(env, imagenet, tmp_path / "copy", "--resume", "--verify")["complete"]
    assert files(tmp_path / "copy") == files(imagenet)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_what_does_not_fit_is_refused_with_what_would(env: dict[str, str], small_disk: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for i in range(100):
        path = source / f"c{i % 4}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff\xe0" + random.Random(i).randbytes(90_000))
    done = run(env, "stage", source, small_disk / "copy", "--json", code=1)
    told = json.loads(done.stdout)
    assert not told["fits"] and 0.3 < told["fits_ratio"] < 0.5 and not (small_disk / "copy").exists()
    share = done.stderr.split("--fraction ")[1].split()[0]
    assert stage(env, source, small_disk / "copy", "--fraction", share, "--to", "ram")["complete"]


def test_a_disk_that_fills_up_ends_it_as_partly_done(env: dict[str, str], small_disk: Path, imagenet: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for i in range(30):
        (source / f"{i}.bin").write_bytes(random.Random(i).randbytes(100_000))
    process = subprocess.Popen([COMMAND, "stage", source, small_disk / "copy", "--io", "slow:iops=50"], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    while not any(n.endswith(".bin") for n in files(small_disk)):
        time.sleep(0.005)
    (small_disk / "ballast").write_bytes(bytes(2_000_000))  # somebody else needs room, too
    out, err = process.communicate(timeout=30)
    assert process.returncode == 4, (out, err)
    assert "No space left" in err and "--resume" in err
    (small_disk / "ballast").unlink()
    told = stage(env, source, small_disk / "copy", "--resume", "--verify")
    assert told["complete"] and files(small_disk / "copy") == files(source)


def test_memory_is_not_filled(env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "huge.npy"
    with open(source, "wb") as f:
        f.truncate(1 << 43)
    shm = Path("/dev/shm") / f"fullbore-test-{os.getpid()}"
    done = run(env, "stage", source, shm, "--dry-run", code=1)
    assert "it does not fit" in done.stderr and "must stay free" in done.stderr
    run(env, "stage", source, shm, code=1)
    assert not shm.exists()


@pytest.mark.parametrize("limit", ["machine", "control group"])
def test_memory_is_not_filled_where_the_file_system_would_have_room(env: dict[str, str], tmp_path: Path, limit: str) -> None:
    """In a mount namespace of its own: a tmpfs that is large enough, and little memory, as the machine or a control group says."""
    with open(tmp_path / "data.npy", "wb") as f:
        f.truncate(64 << 20)
    fake, ram = tmp_path / "fake", tmp_path / "ram"
    (fake / "group/job").mkdir(parents=True)
    ram.mkdir()
    (fake / "self").write_text("0::/job\n")
    (fake / "group/job/memory.current").write_text("0\n")
    mounts = f"mount -t tmpfs -o size=1g none '{ram}' && mount --bind '{fake}/meminfo' /proc/meminfo"
    if limit == "control group":
        mounts += f" && mount --bind '{fake}/group' /sys/fs/cgroup && mount --bind '{fake}/self' /proc/$$/cgroup"
    for mib, code in ((80, 1), (88, 0)):  # a quarter stays free: 60 and 66 MiB for what needs 64
        (fake / "meminfo").write_text(f"MemTotal: 8000000 kB\nMemAvailable: {mib * 1024 if limit == 'machine' else 4000000} kB\n")
        (fake / "group/job/memory.max").write_text(f"{mib << 20}\n")
        command = f"{mounts} || exit 99; exec '{COMMAND}' stage '{tmp_path}/data.npy' '{ram}/copy' --dry-run --json"
        done = subprocess.run(["unshare", "-m", "sh", "-c", command], env=env, capture_output=True, text=True, timeout=60)
        if done.returncode == 99 or "unshare" in done.stderr:
            pytest.skip("mounting needs root")
        assert done.returncode == code, (mib, done.stdout, done.stderr)
        told = json.loads(done.stdout)
        assert told["fits"] == (code == 0) and told["free_bytes"] == mib << 20 and told["keep_free_bytes"] == mib << 18
