"""Buckets through a cache, and staged: against the server of the S3 tests."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "io/s3"))
Image = pytest.importorskip("PIL.Image")
from s3_client import COMMAND  # noqa: E402
from server import Fault, Handler, Server  # noqa: E402


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for c in range(4):
        for i in range(10):
            path = folder / f"class {c}+" / f"photo={i}.jpg"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (40 + i, 30 + c), (20 * i, 60 * c, 5)).save(path)
    return folder


def upload(server: Server, folder: Path) -> None:
    for p in folder.rglob("*.jpg"):
        server.put("bucket", "data/" + p.relative_to(folder).as_posix(), p.read_bytes())


def run(env: dict[str, str], *arguments: object, code: int = 0) -> dict:
    done = subprocess.run([COMMAND, *map(str, arguments), "--json"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stderr)
    return json.loads(done.stdout) if done.stdout else {}


def contents(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*.jpg")}


def test_a_staged_bucket_is_the_folder(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    upload(server, photos)
    told = run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--verify")
    assert told["complete"] and told["source_device"] == "s3" and contents(tmp_path / "copy") == contents(photos)
    part = run(env, "stage", "s3://bucket/data", tmp_path / "part", "--classes", "2", "--class-seed", "7", "--per-class", "3")
    same = run(env, "stage", photos, tmp_path / "same", "--classes", "2", "--class-seed", "7", "--per-class", "3")
    assert part["parts"][0]["fingerprint"] == same["parts"][0]["fingerprint"]
    assert contents(tmp_path / "part") == contents(tmp_path / "same") and len(contents(tmp_path / "part")) == 6


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train/ and val/ with the same classes, and a file beside them that is no sample."""
    folder = tmp_path_factory.mktemp("imagenet")
    for part, count in (("train", 5), ("val", 3)):
        for c in range(6):
            for i in range(count):
                path = folder / part / f"n{c}" / f"{part}_{i}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (40 + i, 30 + c), (20 * i, 40 * c, count)).save(path)
    (folder / "mapping.txt").write_text("n0 tench\n")
    return folder


@pytest.mark.parametrize("how", [
    ["--classes", "2", "--class-seed", "42"], ["--classes", "4", "--class-seed", "7", "--per-class", "2"], ["--classes", "n1,n5"],
    ["--per-class", "1"], ["--fraction", "0.4"],
])
@pytest.mark.parametrize("page_size", [1000, 7])
def test_train_and_val_of_a_bucket_are_staged_as_those_of_a_folder(
        server: Server, env: dict[str, str], imagenet: Path, tmp_path: Path, how: list[str], page_size: int) -> None:
    upload(server, imagenet)
    server.put("bucket", "data/mapping.txt", b"n0 tench\n")
    server.page_size = page_size
    told = run(env, "stage", "s3://bucket/data/", tmp_path / "copy", *how)
    same = run(env, "stage", imagenet, tmp_path / "same", *how)
    assert contents(tmp_path / "copy") == contents(tmp_path / "same") != contents(imagenet)
    assert [(p["name"], p["fingerprint"], p["classes"]) for p in told["parts"]] == [
        (p["name"], p["fingerprint"], p["classes"]) for p in same["parts"]]
    assert [p["name"] for p in told["parts"]] == ["train", "val"]
    for part in ("train", "val"):  # the subset of a loader of that prefix
        alone = run(env, "stage", f"s3://bucket/data/{part}", tmp_path / f"alone-{part}", *how)
        assert contents(tmp_path / f"alone-{part}") == contents(tmp_path / "copy" / part)
        assert alone["parts"][0]["fingerprint"] == next(p["fingerprint"] for p in told["parts"] if p["name"] == part)


def test_a_loader_of_the_bucket_takes_what_was_staged(
        server: Server, env: dict[str, str], imagenet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fb = pytest.importorskip("fullbore")
    upload(server, imagenet)
    run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--classes", "3", "--class-seed", "42", "--per-class", "2")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for part in ("train", "val"):
        with fb.Loader(f"s3://bucket/data/{part}", classes=3, class_seed=42, per_class=2, transforms=[fb.Resize((8, 8))],
                       framework="numpy") as source, \
                fb.Loader(tmp_path / "copy" / part, transforms=[fb.Resize((8, 8))], framework="numpy") as copy:
            assert [b.sample_keys for b in source] == [b.sample_keys for b in copy]
            assert source.classes == copy.classes


def test_more_classes_than_a_part_has_are_refused(server: Server, env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    upload(server, imagenet)
    done = subprocess.run([COMMAND, "stage", "s3://bucket/data", str(tmp_path / "copy"), "--classes", "7"], env=env, capture_output=True,
                          text=True)
    assert done.returncode and "has 6" in done.stderr, done.stderr


def test_samples_of_a_bucket_by_key(server: Server, env: dict[str, str], imagenet: Path, tmp_path: Path) -> None:
    upload(server, imagenet)
    keys = ["val/n2/val_1.jpg", "train/n4/train_0.jpg"]
    (tmp_path / "keys").write_text("\n".join(keys) + "\n")
    run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--keys", tmp_path / "keys")
    assert sorted(contents(tmp_path / "copy")) == sorted(keys)
    (tmp_path / "keys").write_text("\n".join([*keys, "n4/train_0.jpg"]) + "\n")
    done = subprocess.run([COMMAND, "stage", "s3://bucket/data", str(tmp_path / "other"), "--keys", str(tmp_path / "keys")], env=env,
                          capture_output=True, text=True)
    assert done.returncode == 1 and "no sample 'n4/train_0.jpg'" in done.stderr


def test_options_of_the_reader_need_no_place(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    upload(server, photos)
    assert run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--io", "s3:hedge=0,concurrency=2")["complete"]
    assert contents(tmp_path / "copy") == contents(photos)
    from_environment = {**env, "FULLBORE_IO": "s3:hedge=0"}
    assert run(from_environment, "stage", "s3://bucket/data", tmp_path / "again")["complete"]
    for how, where in ((["--io", "s3:hedge=7"], env), ([], {**env, "FULLBORE_IO": "s3:hedge=7"})):  # they are read
        for command in (["stage", "s3://bucket/data", str(tmp_path / "none")], ["bench", "s3://bucket/data"]):
            done = subprocess.run([COMMAND, *command, *how], env=where, capture_output=True, text=True, timeout=60)
            assert done.returncode and "hedge" in done.stderr, (command, how, done.stderr)


def test_a_bucket_that_is_far_away_is_staged_by_hundreds_of_requests_at_once(
        server: Server, env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(400):
        server.put("bucket", f"data/c/{i}.jpg", b"\xff\xd8\xff\xe0" + bytes(i))
    state, enough = {"seen": 0, "waiting": 0, "most": 0}, threading.Event()

    def hold(self: Handler, f: Fault, r: object) -> bool:
        """The first answers say how far away it is; later ones wait for company."""
        with server.lock:
            state["seen"] += 1
            is_first = state["seen"] <= 32
            state["waiting"] += not is_first
            state["most"] = max(state["most"], state["waiting"])
        if is_first:
            time.sleep(0.1)
            return False
        if state["most"] > 128:
            enough.set()
        if not enough.wait(5):
            enough.set()  # nobody else comes
        with server.lock:
            state["waiting"] -= 1
        return False

    monkeypatch.setattr(Handler, "go_wrong", hold)
    server.faults = [Fault("hold", ".jpg")]
    assert run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--io", "s3:hedge=0")["complete"]
    assert state["most"] > 128, state


@pytest.fixture
def mounted(photos: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder with three photographs that looks like a bucket mounted by mountpoint-s3. Nobody but the command may touch it."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    program = Path(__file__).resolve().parents[1] / "io/s3/fake_mount.py"
    names = sorted(map(str, photos.rglob("*.jpg")))[:3]
    process = subprocess.Popen(["mount-s3", str(program), "the-bucket", str(folder), *names], executable=sys.executable,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout
    is_ready = process.stdout.readline() == "ready\n"
    if is_ready:
        yield folder
        subprocess.run(["umount", "-l", folder], check=True)
    process.kill()
    process.wait()
    if not is_ready:
        pytest.skip("mounting needs root and /dev/fuse")


@pytest.mark.parametrize("how", [[], ["--fraction", "0.999999"]])
def test_a_mounted_bucket_is_copied_and_its_url_offered(tmp_path: Path, photos: Path, mounted: Path, how: list[str]) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([COMMAND, "stage", mounted, tmp_path / "copy", *how], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"{mounted} is a bucket mounted by mountpoint-s3; opening s3://the-bucket/ instead" in done.stderr
    assert set(contents(tmp_path / "copy").values()) == {hashlib.sha256(p.read_bytes()).hexdigest()
                                                         for p in sorted(photos.rglob("*.jpg"))[:3]}


def test_a_cached_bucket_is_read_once(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    upload(server, photos)
    bench = ["bench", "s3://bucket/data", "--transform", "eval224", "--cache-dir", tmp_path / "kept"]
    first = run(env, *bench, "--epochs", "2")
    plain = run(env, "bench", photos, "--transform", "eval224", "--epochs", "2")
    assert first["checksum"] == plain["checksum"]
    assert len([p for p in (tmp_path / "kept").rglob("*") if len(p.name) == 16 and p.is_file()]) == 40
    before = len(server.log)
    again = run(env, *bench, "--epochs", "2")
    assert again["checksum"] == plain["checksum"]
    gets = [r for r in server.log[before:] if "photo" in str(r)]
    assert not gets, gets[:3]


def test_a_replaced_object_is_not_served(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    upload(server, photos)
    bench = ["bench", "s3://bucket/data", "--transform", "eval224", "--cache-dir", tmp_path / "kept"]
    run(env, *bench)
    Image.new("RGB", (77, 66), (1, 2, 3)).save(tmp_path / "new.jpg")
    server.put("bucket", "data/class 1+/photo=3.jpg", (tmp_path / "new.jpg").read_bytes())
    (tmp_path / "changed").mkdir()
    for p in photos.rglob("*.jpg"):
        to = tmp_path / "changed" / p.relative_to(photos)
        to.parent.mkdir(exist_ok=True)
        is_replaced = p.relative_to(photos).as_posix() == "class 1+/photo=3.jpg"
        to.write_bytes((tmp_path / "new.jpg" if is_replaced else p).read_bytes())
    fresh = dict(env, XDG_CACHE_HOME=str(tmp_path / "another"))  # listed anew
    assert run(fresh, *bench)["checksum"] == run(env, "bench", tmp_path / "changed", "--transform", "eval224")["checksum"]


# ------------------------------------------------------------------------------------------------------------ going wrong

def test_keys_that_lead_outside_are_not_written(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    data = next(photos.rglob("*.jpg")).read_bytes()
    for key in ("../../outside.jpg", "a/../../../outside.jpg", "a//b.jpg", "a/./c.jpg", "a/good.jpg"):
        server.put("bucket", "data/" + key, data)
    told = run(env, "stage", "s3://bucket/data", tmp_path / "deep/er/copy", code=4)
    assert not told["complete"] and told["failed_files"] >= 2
    assert not list(tmp_path.rglob("outside.jpg"))
    assert (tmp_path / "deep/er/copy/a/good.jpg").read_bytes() == data


def test_objects_that_cannot_be_read_make_it_partly_done(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    upload(server, photos)
    server.faults = [Fault("status", "photo%3D3", status=403, code="AccessDenied"),
                     Fault("status", "photo%3D7", status=404, code="NoSuchKey")]
    told = run(env, "stage", "s3://bucket/data", tmp_path / "copy", code=4)
    assert (told["complete"], told["failed_files"], told["copied_files"]) == (False, 8, 32)
    server.faults, server.log = [], []
    assert run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--resume", "--verify")["complete"]
    assert contents(tmp_path / "copy") == contents(photos)
    assert sum("photo" in r.path for r in server.log) == 8, "only what was missing is fetched"


def test_a_bad_server_gives_a_right_copy(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    upload(server, photos)
    server.faults = [Fault("reset", "photo", every=5), Fault("short", "photo", every=7), Fault("status", "photo", every=6)]
    assert run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--verify")["complete"]
    assert contents(tmp_path / "copy") == contents(photos)


@pytest.mark.parametrize("moment", range(4))
def test_a_killed_copy_of_a_bucket_goes_on(server: Server, env: dict[str, str], photos: Path, tmp_path: Path, moment: int) -> None:
    upload(server, photos)
    server.faults = [Fault("delay", "photo", seconds=0.05)]
    process = subprocess.Popen([COMMAND, "stage", "s3://bucket/data", str(tmp_path / "copy")], env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    since = time.monotonic()
    while sum("photo" in r.path for r in server.log) < 1 + 12 * moment and time.monotonic() - since < 20:
        time.sleep(0.002)
    process.kill()
    process.wait()
    there = {k: v for k, v in contents(tmp_path / "copy").items()} if (tmp_path / "copy").exists() else {}
    assert there.items() <= contents(photos).items(), "a file that is there is whole"
    server.faults = []
    assert run(env, "stage", "s3://bucket/data", tmp_path / "copy", "--resume", "--verify")["complete"]
    assert contents(tmp_path / "copy") == contents(photos)


def test_a_large_object_replaced_mid_copy_is_never_mixed(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    old, new = b"o" * (40 << 20), b"n" * (40 << 20)
    server.put("bucket", "h/train.h5", old)
    asked = [0]

    def replace(s: Server, bucket: str, key: str) -> None:
        asked[0] += 1
        if asked[0] == 4:
            s.put(bucket, key, new)

    server.after_get = replace
    done = subprocess.run([COMMAND, "stage", "s3://bucket/h/train.h5", str(tmp_path / "copy")], env=env, capture_output=True, text=True,
                          timeout=60)
    path = tmp_path / "copy/train.h5"
    assert done.returncode != 0 or path.read_bytes() in (old, new), done.stderr
    assert not path.exists() or path.read_bytes() in (old, new)


def test_a_full_disk_under_a_bucket_ends_the_cache_not_the_run(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    upload(server, photos)
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", small], capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        told = run(env, "bench", "s3://bucket/data", "--transform", "eval224", "--cache-dir", small, "--epochs", "2")
        assert told["checksum"] == run(env, "bench", photos, "--transform", "eval224", "--epochs", "2")["checksum"]
    finally:
        subprocess.run(["umount", small], check=True)
