"""Buckets as data sets: the command, the loader, packs, mounts; against our own server and, where it can be installed, a real one."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3_client import COMMAND, ROOT, Ask, environment, get, listing, sha, some_bytes
from server import Fault, Server
from test_s3_get import KEYS

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, a JPEG without an extension, things to leave out."""
    folder = tmp_path_factory.mktemp("photos")
    for c in range(3):
        (folder / f"class {c}+").mkdir()
        for i in range(20):
            image = Image.new("RGB", (40 + i, 30 + c), (10 * i, 80 * c, 5 * i))
            image.save(folder / f"class {c}+" / f"photo={i:02}.{'png' if i % 5 == 0 else 'jpg'}")
    (folder / "class 0+" / "photo=01.jpg").rename(folder / "class 0+" / "no-extension")
    (folder / "class 1+" / "labels.txt").write_text("x")
    (folder / "class 1+" / ".hidden.jpg").write_bytes(b"x")
    return folder


def upload(server: Server, folder: Path, prefix: str = "data/") -> None:
    for p in folder.rglob("*"):
        if p.is_file():
            server.put("bucket", prefix + p.relative_to(folder).as_posix(), p.read_bytes())


def run(env: dict[str, str], *arguments: str, code: int = 0) -> str:
    done = subprocess.run([COMMAND, *arguments], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def info(env: dict[str, str], source: object) -> dict:
    return json.loads(run(env, "info", str(source), "--json"))


def test_a_bucket_is_the_same_data_set_as_its_folder(server: Server, env: dict[str, str], photos: Path) -> None:
    upload(server, photos)
    ours, theirs = info(env, "s3://bucket/data"), info(env, photos)
    for name in ("fingerprint", "samples", "bytes", "classes", "formats", "width_largest", "left_out"):
        assert ours[name] == theirs[name], name
    assert ours["kind"] == "s3"


def test_keys_and_answers_do_not_steer_a_terminal(server: Server, env: dict[str, str], photos: Path) -> None:
    """Keys, and what a server says when it refuses, may hold anything."""
    hostile = "e\x1b]0;owned\x07\x1b[31m\r\nfullbore: all is well\x9b2J\u202e"
    good = next(photos.rglob("*.jpg")).read_bytes()
    for i in range(4):
        server.put("bucket", f"data/{hostile}/{hostile}{i}.jpg", good if i % 2 else b"\x1b[2J")
    env = env | {"FULLBORE_LOG": "debug", "FULLBORE_S3_LIST_MAX_AGE": "0"}
    refused = Fault("status", "jpg", status=403, code=hostile)
    for faults in ([], [refused]):
        server.faults = faults
        skips = ("bench", "--batch-size", "2", "--epochs", "1", "--on-error", "skip", "--json")
        for words in (("info",), ("info", "--json"), ("bench", "--epochs", "1"), *(() if faults else (skips,))):
            done = subprocess.run([COMMAND, words[0], "s3://bucket/data", *words[1:]], env=env, capture_output=True, timeout=100)
            said = (done.stdout + done.stderr).decode()
            assert not [c for c in said if (not c.isprintable() and c != "\n")], said
            assert not [line for line in said.splitlines() if line.startswith("fullbore: all is well")]
            if done.returncode == 0 and "--json" in words:
                json.loads(done.stdout)


def test_listings_are_kept_for_a_while(server: Server, env: dict[str, str], photos: Path) -> None:
    upload(server, photos)
    assert info(env, "s3://bucket/data")["catalog_is_new"]
    lists = sum("list-type" in r.query for r in server.log)
    assert not info(env, "s3://bucket/data/")["catalog_is_new"]
    assert sum("list-type" in r.query for r in server.log) == lists
    assert info(env | {"FULLBORE_S3_LIST_MAX_AGE": "0"}, "s3://bucket/data")["catalog_is_new"]


def test_bench_delivers_every_sample_and_the_same_bytes(server: Server, env: dict[str, str], photos: Path) -> None:
    upload(server, photos)
    arguments = ("--transform", "resize size=32,32", "--batch-size", "16", "--epochs", "2", "--json")
    ours, theirs = (json.loads(run(env, "bench", str(s), *arguments)) for s in ("s3://bucket/data", photos))
    assert ours["samples"] == theirs["samples"] == 120
    assert ours["checksum"] == theirs["checksum"]


def test_bench_survives_a_bad_server(server: Server, env: dict[str, str], photos: Path) -> None:
    upload(server, photos)
    arguments = ("--transform", "resize size=32,32", "--batch-size", "16", "--json")
    want = json.loads(run(env, "bench", str(photos), *arguments))["checksum"]
    server.faults = [Fault("reset", "/data", every=5), Fault("status", "/data", every=7), Fault("short", "/data", every=11)]
    assert json.loads(run(env, "bench", "s3://bucket/data", *arguments))["checksum"] == want


def test_sources_that_are_not_there_are_said(server: Server, env: dict[str, str], photos: Path) -> None:
    upload(server, photos)
    assert "no objects below" in run(env, "info", "s3://bucket/dat", code=1)
    assert "no bucket 'other'" in run(env, "info", "s3://other", code=1)
    assert "s3://bucket/prefix" in run(env, "info", "s3://", code=2)
    server.put("bucket", "text/a.txt", b"x")
    assert "none an image, sound or an array: .txt 1" in run(env, "info", "s3://bucket/text", code=3)
    server.put("bucket", "mixed/a.jpg", b"x")
    server.put("bucket", "mixed/b/a.jpg", b"x")
    assert "directly below the prefix" in run(env, "info", "s3://bucket/mixed", code=3)


# ------------------------------------------------------------------------------------------------------------------ packs

def test_packs_in_a_bucket_are_opened_by_their_index(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    run(env, "pack", str(photos), "-o", str(tmp_path / "p.tar"))
    server.put("bucket", "packs/p.tar", (tmp_path / "p.tar").read_bytes())
    assert info(env, "s3://bucket/packs/p.tar")["fingerprint"] == info(env, photos)["fingerprint"]
    assert all("range" in r.headers for r in server.log)
    arguments = ("--transform", "resize size=32,32", "--batch-size", "16", "--json")
    ours, theirs = (json.loads(run(env, "bench", str(s), *arguments)) for s in ("s3://bucket/packs/p.tar", photos))
    assert ours["checksum"] == theirs["checksum"]
    assert sum(int(r.headers["range"].split("-")[1]) - int(r.headers["range"].split("=")[1].split("-")[0]) + 1 for r in server.log
               if "range" in r.headers) < 3 * (tmp_path / "p.tar").stat().st_size


def test_shards_in_a_bucket_are_one_data_set(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    halves = tmp_path / "halves"
    for i, classes in enumerate((("class 0+", "class 1+"), ("class 2+",))):
        for c in classes:
            shutil.copytree(photos / c, halves / str(i) / c)
        run(env, "pack", str(halves / str(i)), "-o", str(tmp_path / f"t-{i}.tar"))
        server.put("bucket", f"t-{i}.tar", (tmp_path / f"t-{i}.tar").read_bytes())
    assert info(env, "s3://bucket/t-{0..1}.tar")["fingerprint"] == info(env, photos)["fingerprint"]
    assert not info(env, "s3://bucket/t-{0..1}.tar")["catalog_is_new"]


def test_archives_without_an_index_are_read_through_once(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "cf", tmp_path / "x.tar", "-C", photos, "."], check=True)
    server.put("bucket", "x.tar", (tmp_path / "x.tar").read_bytes())
    first = info(env, "s3://bucket/x.tar")
    assert (first["fingerprint"], first["samples"]) == (info(env, photos)["fingerprint"], info(env, photos)["samples"])
    ours = json.loads(run(env, "bench", "s3://bucket/x.tar", "--transform", "resize size=32,32", "--json"))
    theirs = json.loads(run(env, "bench", str(photos), "--transform", "resize size=32,32", "--json"))
    assert ours["checksum"] == theirs["checksum"]
    server.log.clear()
    assert not info(env, "s3://bucket/x.tar")["catalog_is_new"]
    whole = [r for r in server.log if "range" in r.headers and r.headers["range"].startswith("bytes=0-")
             and r.headers["range"] != "bytes=0-511"]
    assert not whole, "it was read through again"
    server.put("bucket", "y.tar", b"short")
    assert "ends before" in run(env, "info", "s3://bucket/y.tar", code=3)


def tar_of(members: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    return out.getvalue()


def test_labels_beside_the_images_of_an_archive_come_from_a_bucket(server: Server, env: dict[str, str], photos: Path,
                                                                   tmp_path: Path) -> None:
    pictures = [p.read_bytes() for p in sorted(photos.rglob("photo*.jpg"))]
    long = "deep/" * 40
    for k in range(2):
        members = [m for i, data in enumerate(pictures[k::2]) for m in ((f"{long}{k}{i:03}.jpg", data),
                                                                        (f"{long}{k}{i:03}.cls", str(i % 7).encode()),
                                                                        (f"{long}{k}{i:03}.bin", b"?" * 3000))]
        (tmp_path / f"w-{k}.tar").write_bytes(tar_of(members))
        server.put("bucket", f"w-{k}.tar", (tmp_path / f"w-{k}.tar").read_bytes())
    far, near = (subprocess.run([sys.executable, "-c", LOADER, s], env=env, capture_output=True, text=True, timeout=120)
                 for s in ("s3://bucket/w-{0..1}.tar", str(tmp_path / "w-{0..1}.tar")))
    assert far.returncode == 0, far.stderr
    assert far.stdout == near.stdout


def test_members_larger_than_the_window_are_passed_over(server: Server, env: dict[str, str], photos: Path) -> None:
    pictures = [p.read_bytes() for p in sorted(photos.rglob("*.jpg"))[:3]]
    server.put("bucket", "big.tar", tar_of([("a.jpg", pictures[0]), ("film.mov", bytes(80 << 20)), ("b.jpg", pictures[1]),
                                            ("c.jpg", pictures[2])]))
    server.log.clear()
    assert info(env, "s3://bucket/big.tar")["samples"] == 3
    asked = 0
    for r in server.log:
        if "range" in r.headers:
            first, last = map(int, r.headers["range"].removeprefix("bytes=").split("-"))
            asked += last - first + 1
    assert asked < 50 << 20


def test_an_archive_replaced_while_it_is_read_through_is_refused(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "cf", tmp_path / "x.tar", "-C", photos, "."], check=True)
    data = (tmp_path / "x.tar").read_bytes() + bytes(40 << 20)
    server.put("bucket", "x.tar", data)
    asked = [0]

    def replace(s: Server, bucket: str, key: str) -> None:
        asked[0] += 1
        if asked[0] == 4:
            s.put(bucket, key, data[:-512] + b"x" * 512)

    server.after_get = replace
    assert "replaced" in run(env, "info", "s3://bucket/x.tar", code=3)


@pytest.mark.parametrize("harm", ["cut", "header", "text"])
def test_damaged_archives_are_named_with_their_place(server: Server, env: dict[str, str], photos: Path, harm: str) -> None:
    data = tar_of([(p.name, p.read_bytes()) for p in sorted(photos.rglob("photo*.jpg"))])
    if harm == "cut":
        data = data[:700]
    elif harm == "header":
        data = data[:156] + b"\xff" * 300 + data[456:]
    else:
        data = b"This is no archive. " * 500
    server.put("bucket", "bad.tar", data)
    said = run(env, "info", "s3://bucket/bad.tar", code=3)
    assert "s3://bucket/bad.tar" in said and "/proc/" not in said


def test_a_pack_replaced_after_opening_gives_no_sample(server: Server, env: dict[str, str], photos: Path, tmp_path: Path) -> None:
    run(env, "pack", str(photos), "-o", str(tmp_path / "p.tar"))
    data = (tmp_path / "p.tar").read_bytes()
    server.put("bucket", "p.tar", data)
    asked = [0]

    def replace(s: Server, bucket: str, key: str) -> None:
        asked[0] += 1
        if asked[0] == 10:
            s.put(bucket, key, bytes(reversed(data)))

    server.after_get = replace
    assert "replaced" in run(env, "bench", "s3://bucket/p.tar", "--transform", "resize size=32,32", code=3)


# ----------------------------------------------------------------------------------------------------------------- Python

LOADER = """
import sys, hashlib, numpy, fullbore as fb
with fb.Loader(sys.argv[1], batch_size=16, shuffle=True, seed=3, framework="numpy", transforms=[fb.Resize((24, 24))]) as loader:
    h = hashlib.sha256()
    for images, labels in loader:
        h.update(numpy.ascontiguousarray(images).tobytes() + numpy.ascontiguousarray(labels).tobytes())
    print(len(loader), h.hexdigest())
"""


def test_the_loader_gives_the_same_batches_from_a_bucket(server: Server, env: dict[str, str], photos: Path) -> None:
    pytest.importorskip("fullbore")
    upload(server, photos)
    said = [subprocess.run([sys.executable, "-c", LOADER, str(s)], env=env, capture_output=True, text=True, timeout=120)
            for s in ("s3://bucket/data", photos)]
    assert said[0].returncode == 0, said[0].stderr
    assert said[0].stdout == said[1].stdout


# ------------------------------------------------------------------------------------------------------------ a real server

@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    program = shutil.which("rclone", path=str(ROOT / ".venv/bin")) or shutil.which("rclone")
    if not program:
        pytest.skip("rclone is not installed")
    folder = tmp_path_factory.mktemp("rclone")
    (folder / "bucket").mkdir()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([program, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", "RCLONEACCESS,rcloneSecretKey",
                                "--dir-cache-time", "0s", str(folder)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}", folder / "bucket"
    process.terminate()
    process.wait()


def rclone_env(url: str, folder: Path) -> dict[str, str]:
    return environment(None, folder, AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="RCLONEACCESS", AWS_SECRET_ACCESS_KEY="rcloneSecretKey")


def test_rclone_gives_every_key_a_file_system_can_have(rclone: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = rclone
    keys = [k for k in KEYS if "//" not in k and "./" not in k and len(k) < 200 and "\\" not in k and not k.endswith(" ") and k != "="]
    data = {k: some_bytes(100 + i, i) for i, k in enumerate(keys)}
    for k, v in data.items():
        (bucket / "keys" / k).parent.mkdir(parents=True, exist_ok=True)
        (bucket / "keys" / k).write_bytes(v)
    env = rclone_env(url, tmp_path)
    assert {k: size for k, (size, _) in listing(env, "s3://bucket/keys").items()} == {k: len(v) for k, v in data.items()}
    objects = get(env, "s3://bucket/keys", [Ask(k, size=len(v)) for k, v in data.items()]).objects
    assert [(o["status"], o["sha256"]) for o in objects] == [(0, sha(v)) for v in data.values()]


def test_rclone_gives_ranges_and_the_listed_version(rclone: tuple[str, Path], tmp_path: Path) -> None:
    url, bucket = rclone
    data = some_bytes(1_500_000)
    (bucket / "big").mkdir()
    (bucket / "big/o").write_bytes(data)
    env = rclone_env(url, tmp_path)
    mtime = listing(env, "s3://bucket/big")["o"][1]
    asks = [Ask("o", size=len(data), mtime_ns=mtime), Ask("o", 1000, 700_000, mtime_ns=mtime, must_match=1), Ask("o", 2_000_000, 10)]
    objects = get(env, "s3://bucket/big", asks, options="part=65536").objects
    assert [(o["status"], o["sha256"]) for o in objects] == [(0, sha(data)), (0, sha(data[1000:701_000])), (0, sha(b""))]
    assert objects[0]["mtime_ns"] == mtime


def test_rclone_serves_a_data_set(rclone: tuple[str, Path], photos: Path, tmp_path: Path) -> None:
    url, bucket = rclone
    shutil.copytree(photos, bucket / "photos")
    env = rclone_env(url, tmp_path)
    assert info(env, "s3://bucket/photos")["fingerprint"] == info(env, photos)["fingerprint"]
    run(env, "bench", "s3://bucket/photos", "--transform", "resize size=32,32", "--batch-size", "16", "--json")


@pytest.mark.parametrize("where", ["list-type", "/data/"])
def test_an_interrupt_ends_a_run_that_waits_for_the_server(server: Server, env: dict[str, str], photos: Path, where: str) -> None:
    upload(server, photos)
    server.faults = [Fault("delay", where, seconds=20)]
    process = subprocess.Popen([COMMAND, "bench", "s3://bucket/data", "--transform", "resize size=32,32"], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    while not any(where in r.wire for r in server.log):
        time.sleep(0.02)
    start = time.monotonic()
    process.send_signal(2)
    process.communicate(timeout=10)
    assert process.returncode == 130
    assert time.monotonic() - start < 5  # a count of the machine's patience, not of ours: close takes less than one
