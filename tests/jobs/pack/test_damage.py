"""Damaged, cut, joined, forged and hostile packs: found, named with their place, and never followed out of the folder."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_pack import COMMAND, INDEX, IS_SOAK, contents, info, put, run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for i in range(3):
        put(tmp_path / "small" / f"c{i % 2}" / f"{i}.jpg", i)
    run("pack", tmp_path / "small", "-o", tmp_path / "small.tar")
    return tmp_path / "small.tar"


def verify(path: Path) -> tuple[int, dict]:
    done = subprocess.run([COMMAND, "verify", path, "--json"], capture_output=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}


def test_every_truncation_is_found_by_opening_and_by_verifying(small: Path, tmp_path: Path) -> None:
    data = small.read_bytes()
    cut = tmp_path / "cut.tar"
    rng = random.Random(1)
    # all places where something begins or ends, and others; with FB_SOAK every byte
    edges = {n + d for n in range(0, len(data), 512) for d in (-1, 0, 1) if 0 <= n + d < len(data)}
    ends = {0, 1, 511, 512, 513, *(len(data) - n for n in (1, 512, 1024, 1025, 1088))}
    places = set(range(len(data))) if IS_SOAK else ends | set(rng.sample(sorted(edges), 60))
    for n in sorted(places):
        cut.write_bytes(data[:n])
        code, said = verify(cut)
        assert code == 3 and said["damages"] >= 1, f"cut at {n}: {said}"
        assert 0 <= said["damaged"][0]["offset"] <= n
        opened = subprocess.run([COMMAND, "info", cut], capture_output=True, text=True)
        assert opened.returncode == 3, f"cut at {n} is opened: {opened.stdout}"
        assert "byte " in opened.stderr, f"cut at {n} names no place: {opened.stderr}"


def test_every_flipped_bit_is_found(small: Path, tmp_path: Path) -> None:
    data = small.read_bytes()
    bad = tmp_path / "bad.tar"
    rng = random.Random(2)
    places = range(len(data)) if IS_SOAK else sorted(rng.sample(range(len(data)), 150)) + list(range(len(data) - 1100, len(data), 40))
    for n in places:
        flipped = bytearray(data)
        flipped[n] ^= 1 << rng.randrange(8)
        bad.write_bytes(flipped)
        code, said = verify(bad)
        assert code == 3 and said["damages"] >= 1, f"a bit of byte {n} of {len(data)} is flipped, and verify says {said}"


def test_damage_in_a_sample_names_record_offset_and_key(small: Path, tmp_path: Path) -> None:
    with tarfile.open(small) as t:
        member = t.getmember("c1/1.jpg")
    data = bytearray(small.read_bytes())
    data[member.offset_data + 10] ^= 4
    small.write_bytes(data)
    code, said = verify(small)
    assert code == 3
    assert said["damaged"] == [{"file": str(small), "record": 2, "offset": member.offset_data, "key": "c1/1.jpg",
                                "what": "the sample's bytes do not match their checksum"}]
    said = run("unpack", small, tmp_path / "out", code=3)
    assert "c1/1.jpg" in said
    assert sorted(contents(tmp_path / "out")) == ["c0/0.jpg", "c0/2.jpg"]


def test_two_packs_in_one_file_are_refused(small: Path, tmp_path: Path) -> None:
    put(tmp_path / "f" / "x.jpg", 5)
    run("pack", tmp_path / "f", "-o", tmp_path / "b.tar")
    joined = tmp_path / "joined.tar"
    joined.write_bytes(small.read_bytes() + (tmp_path / "b.tar").read_bytes())
    assert "another pack" in run("info", joined, code=3)
    assert verify(joined)[0] == 3
    joined.write_bytes(small.read_bytes() + b"\0" * 10240)  # as a tool that pads would leave it
    assert "cut off, or was changed" in run("info", joined, code=3)


def test_the_index_of_another_pack_is_refused(tmp_path: Path) -> None:
    packs = []
    for name in ("a", "b"):  # the same sizes and names
        path = put(tmp_path / name / "c" / "1.jpg", 3)
        with open(path, "r+b") as f:
            f.seek(300)
            f.write(name.encode() * 8)
        os.utime(path, (1000, 1000 + ord(name)))
        run("pack", tmp_path / name, "-o", tmp_path / f"{name}.tar")
        packs.append((tmp_path / f"{name}.tar").read_bytes())
    assert len(packs[0]) == len(packs[1])
    with tarfile.open(tmp_path / "a.tar") as t:
        at = t.getmember(INDEX).offset
    forged = tmp_path / "forged.tar"
    forged.write_bytes(packs[0][:at] + packs[1][at:])
    assert "another pack" in run("info", forged, code=3)
    assert verify(forged)[0] == 3


# ------------------------------------------------------------------------------------------------------------------------ hostile names

HOSTILE = ["../out.jpg", "a/../../out.jpg", "/tmp/fullbore-hostile.jpg", "a/./b.jpg", "a//b.jpg", "..", "a/..", "link/x.jpg"]


def hostile(path: Path, extra: list[tarfile.TarInfo] | None = None) -> None:
    with tarfile.open(path, "w") as t:
        for m in extra or []:
            t.addfile(m)
        for name in [*HOSTILE, "good/ok.jpg"]:
            m = tarfile.TarInfo(name)
            m.size = 5
            t.addfile(m, io.BytesIO(b"bytes"))


def test_unpack_never_leaves_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, str(outside)
    hostile(tmp_path / "h.tar", [link])
    box = tmp_path / "box"
    (box / "in").mkdir(parents=True)
    before = {p for p in tmp_path.rglob("*")}
    said = run("unpack", tmp_path / "h.tar", box / "in", code=4)
    made = {p.relative_to(tmp_path) for p in tmp_path.rglob("*")} - {p.relative_to(tmp_path) for p in before}
    assert made == {Path("box/in/good"), Path("box/in/good/ok.jpg"), Path("box/in/link"), Path("box/in/link/x.jpg")}
    assert "it is a link" in said and "../out.jpg" in said
    assert not Path("/tmp/fullbore-hostile.jpg").exists() and not list(outside.iterdir())


def test_unpack_does_not_follow_links_that_are_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good").symlink_to(outside)
    hostile(tmp_path / "h.tar")
    run("unpack", tmp_path / "h.tar", folder, code=4)
    assert not list(outside.iterdir())


def test_unpack_never_replaces_a_file(small: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "c0").mkdir(parents=True)
    (tmp_path / "out" / "c0" / "0.jpg").write_bytes(b"precious")
    assert "c0/0.jpg" in run("unpack", small, tmp_path / "out", code=2)
    assert (tmp_path / "out" / "c0" / "0.jpg").read_bytes() == b"precious"


def test_a_pack_with_hostile_keys_unpacks_under_safe_names(tmp_path: Path) -> None:
    """A manifest may name files outside its folder; the pack of it still stays inside where it is unpacked."""
    far = put(tmp_path / "far" / "1.jpg", 1)
    (tmp_path / "m").mkdir()
    near = put(tmp_path / "m" / "2.jpg", 2)
    (tmp_path / "m" / "m.csv").write_text(f"path,label\n../far/1.jpg,a\n{near},b\n")
    run("pack", tmp_path / "m" / "m.csv", "-o", tmp_path / "p.tar")
    assert info(tmp_path / "p.tar")["fingerprint"] == info(tmp_path / "m" / "m.csv")["fingerprint"]
    run("unpack", tmp_path / "p.tar", tmp_path / "out")
    assert contents(tmp_path / "out") == {"up/far/1.jpg": far.read_bytes(), "2.jpg": near.read_bytes()}


def test_a_member_that_claims_ten_gigabytes_is_refused_at_once(tmp_path: Path) -> None:
    m = tarfile.TarInfo("huge.jpg")
    m.size = 10 << 30
    (tmp_path / "h.tar").write_bytes(m.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)
    said = run("info", tmp_path / "h.tar", code=3)
    assert "10737418240" in said
    run("unpack", tmp_path / "h.tar", tmp_path / "out", code=3)
    assert verify(tmp_path / "h.tar")[0] == 3


def test_random_damage_never_crashes_anything(small: Path, tmp_path: Path) -> None:
    data = small.read_bytes()
    rng = random.Random(4)
    for i in range(300 if IS_SOAK else 40):
        bad = bytearray(data)
        for _ in range(rng.randrange(1, 20)):
            at = rng.randrange(len(bad))
            bad[at:at + 8] = struct.pack("<Q", rng.choice([0, 1, 2**63, 2**64 - 1, rng.getrandbits(64), len(data)]))[:len(bad) - at]
        if rng.random() < 0.3:
            bad = bad[:rng.randrange(len(bad))]
        (tmp_path / "r.tar").write_bytes(bad)
        for verb in (["verify", tmp_path / "r.tar"], ["info", tmp_path / "r.tar"], ["unpack", tmp_path / "r.tar", tmp_path / f"o{i}"]):
            done = subprocess.run([COMMAND, *map(str, verb)], capture_output=True)
            assert done.returncode in (0, 1, 2, 3, 4), (verb, done.returncode, done.stderr)
