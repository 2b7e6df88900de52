"""Listings: every key once, whatever the page size, the folders and the server's habits."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_listing import made_server
from s3_client import COMMAND, environment, listing
from server import Server


def fill(server: Server, keys: list[str]) -> dict[str, int]:
    for i, key in enumerate(keys):
        server.put("bucket", key, b"x" * (i % 50))
    return {key: i % 50 for i, key in enumerate(keys)}


SHAPES = {
    "classes": [f"train/c{c:02}/{i:03}.jpg" for c in range(40) for i in range(10)],
    "two levels": [f"{s}/c{c}/{i}.jpg" for s in ("train", "val") for c in range(20) for i in range(9)],
    "flat": [f"{i:04}.jpg" for i in range(350)],
    "one class": [f"only/{i:04}.jpg" for i in range(350)],
    "a folder each": [f"f{i:04}/x.jpg" for i in range(350)],
    "markers": [f"c{c}/" for c in range(30)] + [f"c{c}/{i}.jpg" for c in range(30) for i in range(5)],
    "uneven": [f"a/{i}.jpg" for i in range(300)] + [f"{c}/1.jpg" for c in "bcdefghij"] + ["zz.jpg", "A.jpg"],
    "bytes": [f"ü{i}/ß{k}.jpg" for i in range(20) for k in range(8)] + [f"z{i}/+ %.jpg" for i in range(30)],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("page_size", [7, 100, 1000])
def test_every_key_is_listed_once(server: Server, env: dict[str, str], shape: str, page_size: int) -> None:
    want = fill(server, SHAPES[shape])
    server.page_size = page_size
    assert {k: size for k, (size, _) in listing(env, "s3://bucket").items()} == want


@pytest.mark.parametrize("how", ["ignores_start_after", "not encoded"])
def test_servers_without_start_after_are_read_page_by_page(server: Server, env: dict[str, str], how: str) -> None:
    want = fill(server, SHAPES["classes"])
    server.page_size = 20
    server.ignores_start_after = how == "ignores_start_after"
    server.encodes_keys = how != "not encoded"
    assert {k: size for k, (size, _) in listing(env, "s3://bucket").items()} == want


@pytest.mark.parametrize("ignores_start_after", [False, True])
@pytest.mark.parametrize("shape", ["classes", "flat", "two levels"])
def test_a_page_without_keys_may_go_on(server: Server, env: dict[str, str], shape: str, ignores_start_after: bool) -> None:
    want = fill(server, SHAPES[shape])
    server.page_size = 20
    server.begins_empty = True
    server.ignores_start_after = ignores_start_after
    assert {k: size for k, (size, _) in listing(env, "s3://bucket").items()} == want


def test_only_the_prefix_is_listed(server: Server, env: dict[str, str]) -> None:
    fill(server, ["train/a/1.jpg", "train2/a/1.jpg", "train/b/1.jpg", "trai", "train"])
    for url in ("s3://bucket/train", "s3://bucket/train/"):
        assert set(listing(env, url)) == {"a/1.jpg", "b/1.jpg"}


def test_many_keys_are_asked_for_side_by_side(server: Server, env: dict[str, str]) -> None:
    fill(server, [f"c{c:03}/{i:03}.jpg" for c in range(100) for i in range(50)])
    server.page_size = 50
    assert len(listing(env, "s3://bucket")) == 5000
    asked = [r for r in server.log if "delimiter" not in r.query]
    assert len(asked) <= 5000 / 50 + 70  # pages, and one more per stretch
    assert sum("start-after" in r.query for r in asked) > 10


def test_a_listing_of_random_keys_is_complete(server: Server, env: dict[str, str]) -> None:
    draw = random.Random(7)
    keys = list({"/".join("".join(draw.choice("ab/.~ü+") for _ in range(draw.randrange(1, 6))) for _ in range(draw.randrange(1, 4)))
                 for _ in range(800)})
    keys = [k for k in keys if k]
    want = fill(server, keys)
    server.page_size = 23
    assert {k: size for k, (size, _) in listing(env, "s3://bucket").items()} == want


# ------------------------------------------------------------------------------------------------------------------ large

@pytest.fixture
def large(tmp_path: Path) -> Iterator[tuple[Server, dict[str, str]]]:
    s = made_server(60_000, 300, delay=0.02)
    yield s, environment(s, tmp_path)
    s.stop()


def test_a_large_listing_is_paged_kept_and_not_asked_for_again(large: tuple[Server, dict[str, str]], tmp_path: Path) -> None:
    server, env = large
    command = [COMMAND, "stage", "s3://bench/data", str(tmp_path / "x"), "--dry-run", "--json"]
    first = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert first.returncode == 0, first.stderr
    pages = len(server.log)
    assert 60 <= pages <= 60 + 40  # a page has a thousand keys
    again = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert json.loads(again.stdout)["parts"] == json.loads(first.stdout)["parts"]
    assert json.loads(again.stdout)["files"] == 60_000
    assert len(server.log) == pages, "the kept listing was not used"


def test_a_large_listing_shows_how_far_it_is_on_a_terminal(large: tuple[Server, dict[str, str]], tmp_path: Path) -> None:
    server, env = large
    ours, theirs = pty.openpty()
    process = subprocess.Popen([COMMAND, "stage", "s3://bench/data", str(tmp_path / "x"), "--dry-run"], env=env | {"TERM": "xterm"},
                               stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            some = os.read(ours, 4096)
        except OSError:
            break
        if not some:
            break
        said += some
    os.close(ours)
    assert process.wait(30) == 0
    counts = [int(n.replace(b",", b"").replace(b" ", b"")) for n in re.findall(rb"scanning[^0-9]*([0-9][0-9, ]*)", said)]
    assert len(counts) > 1 and counts == sorted(counts) and 0 < counts[-1] <= 60_000, said[-500:]


def test_an_interrupt_ends_a_large_listing_at_once(large: tuple[Server, dict[str, str]], tmp_path: Path) -> None:
    server, env = large
    server.delay = 3.0  # type: ignore[attr-defined]
    process = subprocess.Popen([COMMAND, "info", "s3://bench/data"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not server.log:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    since = time.monotonic()
    assert process.wait(30) == 130
    assert time.monotonic() - since < 2.5
    assert process.stderr
    process.stderr.close()
