"""Objects and ranges: the right bytes, of one version, whatever the key is called."""

from __future__ import annotations

import random

import pytest
from s3_client import E_DATA, E_NOT_FOUND, E_USAGE, GREW, Ask, get, listing, sha, some_bytes
from server import Server

# every character that some client or server has signed or escaped wrongly
KEYS = ["plain.jpg", "a=b.jpg", "a+b.jpg", "a@b.jpg", "a&b.jpg", "a%b.jpg", "a%20b.jpg", "a b.jpg", "it's.jpg", "(1).jpg", "~x.jpg",
        "x:y.jpg", "für/größe.jpg", "a//b.jpg", "./c.jpg", "a/./d.jpg", "a/../e.jpg", "100%.jpg", "q?x=1.jpg", "hash#1.jpg",
        "semi;colon,comma.jpg", "star*.jpg", "$dollar!.jpg", "back\\slash.jpg", "<tag>.jpg", 'quo"te.jpg', "[br]{ac}|^`.jpg", "日本語.jpg",
        " lead.jpg", "trail .jpg", "tab\there.jpg".replace("\t", "\u3000"), "a/b/c/d/e/f.jpg", "-._~.jpg", "=", "x" * 1000 + ".jpg"]


def test_every_key_is_listed_and_read_back(server: Server, env: dict[str, str]) -> None:
    data = {f"p/{k}": some_bytes(50 + i, i) for i, k in enumerate(KEYS)}
    for key, value in data.items():
        server.put("bucket", key, value)
    assert {f"p/{k}": size for k, (size, _) in listing(env, "s3://bucket/p").items()} == {k: len(v) for k, v in data.items()}
    answer = get(env, "s3://bucket/p", [Ask(k, size=len(data[f"p/{k}"])) for k in KEYS])
    assert [(o["status"], o["sha256"]) for o in answer.objects] == [(0, sha(data[f"p/{k}"])) for k in KEYS]


def test_listings_that_are_not_encoded_are_read_too(server: Server, env: dict[str, str]) -> None:
    server.encodes_keys = False
    for k in ("a b+c%20.jpg", "a&amp;<b>.jpg", "für.jpg"):
        server.put("bucket", k, b"x")
    assert set(listing(env, "s3://bucket")) == {"a b+c%20.jpg", "a&amp;<b>.jpg", "für.jpg"}


def test_ranges_are_the_bytes_of_the_object(server: Server, env: dict[str, str]) -> None:
    data = some_bytes(300_000)
    server.put("bucket", "o", data)
    draw = random.Random(1)
    asks = [Ask("o", at := draw.randrange(300_000), draw.randrange(1, 100_000)) for _ in range(40)] + [Ask("o", 0, 300_000), Ask("o", 7, 0)]
    answer = get(env, "s3://bucket", asks, options="part=65536")
    for ask, o in zip(asks, answer.objects, strict=True):
        want = data[ask.offset : ask.offset + ask.length]
        assert (o["status"], o["got"], o["sha256"]) == (0, len(want), sha(want)), (ask, o)
        assert ask.length == 0 or o["object_size"] == 300_000
    assert at >= 0


def test_a_range_beyond_the_end_is_empty(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", b"0123456789")
    o = get(env, "s3://bucket", [Ask("o", 20, 5), Ask("o", 8, 5)]).objects
    assert [(x["status"], x["got"], x["object_size"]) for x in o] == [(0, 0, 10), (0, 2, 10)]
    server.put("bucket", "large", b"x" * 200_000)
    o = get(env, "s3://bucket", [Ask("large", size=200_000), Ask("o", 20, 200_000), Ask("large", 100_000, 300_000)], options="part=65536",
            depth=1).objects
    assert [(x["status"], x["got"], x["object_size"]) for x in o] == [(0, 200_000, 200_000), (0, 0, 10), (0, 100_000, 200_000)]


def test_a_large_object_comes_in_parts_side_by_side(server: Server, env: dict[str, str]) -> None:
    data = some_bytes(3_000_000)
    server.put("bucket", "big", data)
    answer = get(env, "s3://bucket", [Ask("big", size=len(data))], options="part=262144,hedge=0")
    assert (answer.objects[0]["status"], answer.objects[0]["sha256"]) == (0, sha(data))
    ranges = sorted(int(r.headers["range"].split("=")[1].split("-")[0]) for r in server.log)
    assert ranges == list(range(0, 3_000_000, 262144))
    assert len({r.peer for r in server.log}) > 1


def test_an_object_larger_than_its_listing_asks_for_a_larger_buffer(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", b"x" * 5000)
    small, large = get(env, "s3://bucket", [Ask("o", size=100), Ask("o", size=100, capacity=6000)]).objects
    assert (small["status"], small["object_size"]) == (GREW, 5000)
    assert (large["status"], large["got"]) == (0, 5000)


def test_parts_cut_for_another_size_are_cut_again(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", some_bytes(500_000))
    o = get(env, "s3://bucket", [Ask("o", size=400_000), Ask("o", size=600_000)], options="part=65536").objects
    assert [(x["status"], x["object_size"]) for x in o] == [(GREW, 500_000)] * 2


def test_a_missing_object_is_said_at_once(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", b"x")
    answer = get(env, "s3://bucket", [Ask("none", size=1)])
    assert answer.objects[0]["status"] == E_NOT_FOUND and "NoSuchKey" in answer.objects[0]["cause"]
    assert answer.sum["requests"] == 1


def test_objects_of_another_bucket_are_refused(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", b"x")
    o = get(env, "s3://bucket", [Ask("s3://other/o", size=1), Ask("s3://bucket/o", size=1)]).objects
    assert (o[0]["status"], o[1]["status"]) == (E_USAGE, 0)


# ---------------------------------------------------------------------------------------------------------------- versions

def replace_after(server: Server, key: str, requests: int, data: bytes, **more: object) -> None:
    count = [0]

    def after(s: Server, bucket: str, asked: str) -> None:
        count[0] += asked == key
        if count[0] == requests:
            s.put(bucket, key, data, **more)

    server.after_get = after


@pytest.mark.parametrize("ignores_if_match", [False, True])
def test_an_object_replaced_mid_read_is_an_error(server: Server, env: dict[str, str], ignores_if_match: bool) -> None:
    server.ignores_if_match = ignores_if_match
    server.put("bucket", "big", b"a" * 2_000_000)
    replace_after(server, "big", 5, b"b" * 2_000_000)
    o = get(env, "s3://bucket", [Ask("big", size=2_000_000)], options="part=65536,concurrency=2").objects[0]
    assert o["status"] == E_DATA and "replaced" in o["cause"], o


HABITS: dict[str, dict] = {
    "honest": {},
    "no If-Match": {"ignores_if_match": True},
    "ranges as 200": {"ranges_as_200": True},
    "ranges as 200, no If-Match": {"ranges_as_200": True, "ignores_if_match": True},
    "no ranges": {"ignores_ranges": True},
    "no ranges, no If-Match": {"ignores_ranges": True, "ignores_if_match": True},
    "no ETag": {"sends_etag": False, "ignores_if_match": True},
    "no ETag, ranges as 200": {"sends_etag": False, "ignores_if_match": True, "ranges_as_200": True},
    "weak ETags": {"ignores_if_match": True, "etag": 'W/"same"'},
    "no sizes": {"ignores_if_match": True, "hides_size": True},
    "no ETag, no ranges": {"sends_etag": False, "ignores_if_match": True, "ignores_ranges": True},
}


# an answer that ends early and does not say that the object does is tried again and again: an error, but not a quick one
REPLACED = [(habit, size) for habit in HABITS for size in (400_000, 100_000, 500_000) if (habit, size) != ("no sizes", 100_000)]


@pytest.mark.parametrize(("habit", "size"), REPLACED)
def test_versions_are_never_mixed_whatever_the_servers_habits(server: Server, env: dict[str, str], habit: str, size: int) -> None:
    """Replaced after 1, 3 or 5 of 7 parts, within the second, by a version that is as large, smaller or larger."""
    how = HABITS[habit]
    vars(server).update(how)
    old, new = some_bytes(400_000, 1), some_bytes(size, 2)
    is_in_one = how.keys() & {"ignores_ranges", "sends_etag", "etag", "hides_size"}  # no reason to fail
    for after in (1, 3, 5):
        for ask in (Ask("big", size=400_000, capacity=600_000), Ask("big", 1000, 399_000)):
            server.put("bucket", "big", old, etag=how.get("etag", ""))
            replace_after(server, "big", after, new, etag=how.get("etag", ""))
            o = get(env, "s3://bucket", [ask], options="part=65536,concurrency=1,hedge=0").objects[0]
            whole = [old, new] if ask.length < 0 else [old[1000:], new[1000:400_000]]
            if o["status"] == 0:
                assert o["sha256"] in map(sha, whole), (habit, after, ask)
            else:
                assert (o["status"] == E_DATA and "replaced" in o["cause"]) or (o["status"], o["object_size"]) == (
                    GREW, size), (after, ask, o)
                assert not is_in_one, (after, ask, o)


def test_an_object_replaced_between_attempts_is_whole_or_an_error(server: Server, env: dict[str, str]) -> None:
    from server import Fault

    old, new = b"a" * 100_000, b"b" * 100_000
    server.put("bucket", "o", old)
    server.faults = [Fault("reset", "/o", times=1)]
    replace_after(server, "o", 1, new)
    o = get(env, "s3://bucket", [Ask("o", size=100_000)]).objects[0]
    assert (o["status"], o["sha256"]) == (0, sha(new))


def test_a_range_of_another_version_is_refused_when_it_must_match(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "pack.tar", b"a" * 1000)
    mtime = listing(env, "s3://bucket")["pack.tar"][1]
    good = get(env, "s3://bucket", [Ask("pack.tar", 10, 20, mtime_ns=mtime, must_match=1)]).objects[0]
    assert (good["status"], good["mtime_ns"]) == (0, mtime)
    server.put("bucket", "pack.tar", b"b" * 1000)
    bad, free = get(env, "s3://bucket", [Ask("pack.tar", 10, 20, mtime_ns=mtime, must_match=1),
                                         Ask("pack.tar", 10, 20, mtime_ns=mtime)]).objects
    assert bad["status"] == E_DATA and "replaced" in bad["cause"]
    assert free["status"] == 0 and free["mtime_ns"] != mtime


def test_the_listed_version_is_the_version_read(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", b"x" * 10, modified=1_700_000_000.9)  # listings and answers may round the second differently
    mtime = listing(env, "s3://bucket")["o"][1]
    server.buckets["bucket"]["o"].modified += 1
    assert get(env, "s3://bucket", [Ask("o", size=10, mtime_ns=mtime)]).objects[0]["mtime_ns"] == mtime


# ---------------------------------------------------------------------------------------------------- other people's servers

@pytest.mark.parametrize("how", ["ranges_as_200", "ignores_ranges", "no_etag", "no_etag_ignores_ranges"])
def test_odd_servers_give_the_right_bytes(server: Server, env: dict[str, str], how: str) -> None:
    server.ranges_as_200 = how == "ranges_as_200"
    server.ignores_ranges = how.endswith("ignores_ranges")
    server.sends_etag = not how.startswith("no_etag")
    data = some_bytes(700_000)
    server.put("bucket", "big", data)
    asks = [Ask("big", size=len(data)), Ask("big", 100_000, 300_000), Ask("big", 5, 10), Ask("big", 699_990, 100), Ask("big", 800_000, 5)]
    o = get(env, "s3://bucket", asks, options="part=65536").objects
    want = [data, data[100_000:400_000], data[5:15], data[699_990:], b""]
    assert [(x["status"], x["sha256"]) for x in o] == [(0, sha(w)) for w in want]


def test_virtual_hosts_are_used_when_asked_for(server: Server, env: dict[str, str]) -> None:
    server.virtual_host = True
    server.put("bucket", "o", b"x" * 10)
    env |= {"AWS_ENDPOINT_URL": server.url.replace("127.0.0.1", "localhost"), "FULLBORE_S3_ADDRESSING": "virtual"}
    o = get(env, "s3://bucket", [Ask("o", size=10)]).objects[0]
    assert o["status"] == 0 and server.log[0].headers["host"].startswith("bucket.localhost:") and server.log[0].path == "/o"


def test_public_buckets_are_read_without_a_signature(server: Server, env: dict[str, str]) -> None:
    server.is_anonymous = True
    server.put("bucket", "o", b"x" * 10)
    del env["AWS_ACCESS_KEY_ID"]
    o = get(env | {"FULLBORE_S3_ANONYMOUS": "1"}, "s3://bucket", [Ask("o", size=10)]).objects[0]
    assert o["status"] == 0


def test_another_region_is_learnt_from_the_server(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", b"x" * 10)
    answer = get(env | {"AWS_REGION": "us-east-1"}, "s3://bucket", [Ask("o", size=10)] * 50)
    assert {o["status"] for o in answer.objects} == {0}
    assert "eu-test-1" in answer.log
