"""Archives compressed as a whole are the data set that the plain archive is; tarfile, gzip, zstd and webdataset are the oracles."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FULLBORE_COMMAND", ROOT / ".venv/bin/fullbore"))
HAS_ZSTD = shutil.which("zstd") is not None


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run(*args: object, code: int = 0) -> str:
    done = subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stderr + done.stdout


def info(source: object) -> dict:
    done = subprocess.run([COMMAND, "info", str(source), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def unpacked(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.tar"))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A WebDataset shard: pictures and numbers beside them."""
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as t:
        for i in range(60):
            image = io.BytesIO()
            Image.effect_noise((50 + i, 40), 60).convert("RGB").save(image, "JPEG")
            for name, data in ((f"{i:04}.jpg", image.getvalue()), (f"{i:04}.cls", str(i % 5).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                t.addfile(member, io.BytesIO(data))
    return path


def squeeze(plain: Path, how: str) -> Path:
    out = plain.with_name(f"q.tar.{how}")
    if how == "zst":
        if not HAS_ZSTD:
            pytest.skip("the program zstd is not here")
        subprocess.run(["zstd", "-q", "-f", plain, "-o", out], check=True)
    else:
        out.write_bytes(gzip.compress(plain.read_bytes()))
    return out


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_it_is_the_data_set_of_the_plain_archive(plain: Path, cache: Path, how: str) -> None:
    path = squeeze(plain, how)
    said = run("info", path)
    assert "compressed as a whole" in said and "unpacked, once" in said
    assert [p.read_bytes() for p in unpacked(cache)] == [plain.read_bytes()]
    assert "compressed" not in run("info", path), "said once"
    a, b = info(plain), info(path)
    assert a["fingerprint"] == b["fingerprint"] and b["samples"] == 60
    sums = [json.loads(subprocess.run([COMMAND, "bench", p, "--transform", "eval224", "--json"], capture_output=True, text=True,
                                      check=True).stdout)["samples"] for p in (plain, path)]
    assert sums == [60, 60]


def test_loader_gives_the_same_batches_in_any_order(plain: Path) -> None:
    import fullbore as fb
    import numpy as np
    path = squeeze(plain, "gz")
    loaders = [fb.Loader(p, batch_size=7, shuffle=True, seed=3, transforms=[fb.Resize((32, 32))], framework="numpy") for p in (plain, path)]
    for (x, y), (u, v) in zip(*loaders, strict=True):
        assert (np.asarray(x) == np.asarray(u)).all() and (np.asarray(y) == np.asarray(v)).all()


def test_webdataset_reads_the_same_samples(plain: Path, tmp_path: Path) -> None:
    import webdataset as wds
    path = squeeze(plain, "gz")
    run("pack", path, "-o", tmp_path / "p.tar")
    ours = {s["__key__"]: (s["jpg"], s["cls"]) for s in wds.WebDataset(str(tmp_path / "p.tar"), shardshuffle=False, empty_check=False)}
    theirs = {s["__key__"]: (s["jpg"], s["cls"]) for s in wds.WebDataset(str(path), shardshuffle=False, empty_check=False)}
    assert ours == theirs and len(ours) == 60


def test_shards_may_be_mixed_and_are_told_apart_by_content(plain: Path, tmp_path: Path) -> None:
    squeeze(plain, "gz").rename(tmp_path / "a-1.tar")
    shutil.copy(plain, tmp_path / "a-0.tar")
    assert info(tmp_path / "a-{0..1}.tar")["samples"] == 120


def test_members_in_a_row_and_padding_are_read_as_gzip_reads_them(plain: Path, cache: Path, tmp_path: Path) -> None:
    data, path = plain.read_bytes(), tmp_path / "q.tar.gz"
    path.write_bytes(gzip.compress(data[:5000]) + gzip.compress(b"") + gzip.compress(data[5000:]) + bytes(512))
    assert info(path)["samples"] == 60
    assert [p.read_bytes() for p in unpacked(cache)] == [data]


def test_a_changed_archive_is_unpacked_again_and_the_old_copy_goes(plain: Path, cache: Path, tmp_path: Path) -> None:
    path = squeeze(plain, "gz")
    info(path)
    with tarfile.open(plain, "a") as t:
        image = io.BytesIO()
        Image.new("RGB", (9, 9)).save(image, "PNG")
        for name, data in (("9999.png", image.getvalue()), ("9999.cls", b"1")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            t.addfile(member, io.BytesIO(data))
    squeeze(plain, "gz")
    assert info(path)["samples"] == 61
    assert [p.read_bytes() for p in unpacked(cache)] == [plain.read_bytes()]


@pytest.mark.parametrize("data", [b"", b"x", bytes(100), bytes(512), bytes(1 << 20), b"some text\n" * 9000, os.urandom(70000)],
                         ids=["empty", "short", "zeros", "a zero block", "many zeros", "text", "noise"])
@pytest.mark.parametrize("how", ["gz", "zst"])
def test_what_holds_no_archive_is_not_unpacked(tmp_path: Path, cache: Path, how: str, data: bytes) -> None:
    (tmp_path / "s.tar").write_bytes(data)
    said = run("info", squeeze(tmp_path / "s.tar", how), code=3)
    assert "no tar archive" in said
    assert unpacked(cache) == [] and not list(cache.rglob("*.unpacking"))


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_a_stream_that_grows_beyond_measure_is_stopped_early(tmp_path: Path, cache: Path, how: str) -> None:
    """A sound archive of one sample and 200 MiB of zeros."""
    with tarfile.open(tmp_path / "s.tar", "w") as t:
        image = io.BytesIO()
        Image.new("RGB", (9, 9)).save(image, "PNG")
        for name, data in (("1.png", image.getvalue()), ("2.bin", bytes(200 << 20))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            t.addfile(member, io.BytesIO(data))
    path = squeeze(tmp_path / "s.tar", how)
    said = run("info", path, code=3)
    assert "250 times" in said and "plain .tar" in said
    assert unpacked(cache) == [] and not list(cache.rglob("*.unpacking"))


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_every_truncation_is_found_with_its_position(plain: Path, cache: Path, how: str) -> None:
    whole = squeeze(plain, how).read_bytes()
    bad, rng = plain.with_name(f"bad.tar.{how}"), random.Random(1)
    for n in [4, 5, 10, 11, 100, len(whole) // 2, *(rng.randrange(4, len(whole)) for _ in range(12)), *range(len(whole) - 9, len(whole))]:
        bad.write_bytes(whole[:n])
        said = run("info", bad, code=3)
        assert "cut off" in said and (f"byte {n}" in said or f"offset {n}" in said or str(n) in said), said
        assert unpacked(cache) == [] and not list(cache.rglob("*.unpacking")), "nothing half-unpacked is left"


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_damage_never_goes_unnoticed(plain: Path, cache: Path, how: str) -> None:
    """gzip and zstd (as its program writes it) have checksums, so every flipped bit in the data is found."""
    whole, rng, found = squeeze(plain, how).read_bytes(), random.Random(2), 0
    bad = plain.with_name(f"bad.tar.{how}")
    for _ in range(25):
        data = bytearray(whole)
        at = rng.randrange(20, len(data))
        data[at] ^= 1 << rng.randrange(8)
        bad.write_bytes(data)
        done = subprocess.run([COMMAND, "info", bad], capture_output=True, text=True)
        assert done.returncode == 3, f"byte {at}: {done.stdout}"
        found += "damaged" in done.stderr or "cut off" in done.stderr
    assert found == 25 and unpacked(cache) == []


def test_what_grows_without_end_is_stopped_by_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "none", disk], capture_output=True).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        bomb = tmp_path / "bomb.tar.gz"
        member = tarfile.TarInfo("1.bin")
        member.size = 600 << 20
        bomb.write_bytes(gzip.compress(member.tobuf()) + gzip.compress(bytes(1 << 20) + os.urandom(16 << 10)) * 590)  # 50 times its size
        said = run("info", bomb, code=1)
        assert "no room" in said or "space" in said
        assert sum(p.stat().st_size for p in disk.rglob("*") if p.is_file()) < 1 << 20
    finally:
        subprocess.run(["umount", disk], check=True)


def test_several_processes_unpack_it_once(plain: Path, cache: Path) -> None:
    path = squeeze(plain, "gz")
    started = [subprocess.Popen([COMMAND, "info", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(4)]
    said = [p.communicate() for p in started]
    assert all(p.returncode == 0 for p in started)
    assert len({json.loads(o)["fingerprint"] for o, _ in said}) == 1
    assert sum("unpacked, once" in e for _, e in said) == 1
    assert len(unpacked(cache)) == 1


def test_other_kinds_are_refused_with_a_remedy(plain: Path, tmp_path: Path) -> None:
    import lzma
    (tmp_path / "x.tar.xz").write_bytes(lzma.compress(plain.read_bytes()))
    said = run("info", tmp_path / "x.tar.xz", code=1)
    assert "xz" in said and "plain .tar" in said
