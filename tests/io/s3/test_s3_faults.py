"""What goes wrong between here and a bucket: tried again where that helps, said in words where it does not, never wrong bytes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from s3_client import E_DATA, E_IO, E_NOT_FOUND, Ask, environment, get, listing, sha, some_bytes
from server import ACCESS_KEY, SECRET_KEY, Fault, Server

DATA = some_bytes(200_000)


def put_many(server: Server, count: int, size: int = 2000) -> list[Ask]:
    for i in range(count):
        server.put("bucket", f"o{i}", some_bytes(size + i, i))
    return [Ask(f"o{i}", size=size + i) for i in range(count)]


def all_right(objects: list[dict], size: int = 2000) -> bool:
    return all(o["status"] == 0 and o["sha256"] == sha(some_bytes(size + i, i)) for i, o in enumerate(objects))


# ------------------------------------------------------------------------------------------------------- tried again

@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 408])
def test_passing_errors_are_tried_again_on_a_new_connection(server: Server, env: dict[str, str], status: int) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("status", "/o", times=2, status=status, code="X")]
    answer = get(env, "s3://bucket", [Ask("o", size=len(DATA))], options="hedge=0")
    assert answer.objects[0]["sha256"] == sha(DATA)
    assert (answer.sum["requests"], answer.sum["retries"]) == (3, 2)
    assert len({r.peer for r in server.log}) == 3


@pytest.mark.parametrize("kind", ["reset", "short", "lie", "flip", "long"])
def test_broken_bodies_are_never_used(server: Server, env: dict[str, str], kind: str) -> None:
    server.put("bucket", "o", DATA)
    mtime = listing(env, "s3://bucket")["o"][1]
    server.faults = [Fault(kind, "/o", times=3)]
    answer = get(env, "s3://bucket", [Ask("o", 10, 150_000, mtime_ns=mtime), Ask("o", size=len(DATA), mtime_ns=mtime)], options="hedge=0",
                 depth=1)
    part, whole = answer.objects
    if kind in ("reset", "short", "flip") or (kind == "long" and part["sha256"]):
        assert part["sha256"] == sha(DATA[10:150_010]), part
    assert part["status"] != 0 or part["sha256"] == sha(DATA[10:150_010])
    assert whole["sha256"] == sha(DATA)


def test_a_body_without_end_is_given_up(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("endless", "/o", times=2)]
    answer = get(env, "s3://bucket", [Ask("o", size=len(DATA))], options="hedge=0")
    assert answer.objects[0]["sha256"] == sha(DATA) and answer.sum["retries"] == 2


def test_a_storm_of_503_slows_us_down_and_ends_well(server: Server, env: dict[str, str]) -> None:
    asks = put_many(server, 300)
    server.faults = [Fault("status", "/o", until=time.monotonic() + 2)]
    answer = get(env, "s3://bucket", asks, depth=128, options="hedge=0")
    assert all_right(answer.objects)
    assert answer.sum["slow_downs"] >= 32, answer.sum
    asked_in_storm = sum(r.at < server.faults[0].until for r in server.log)
    assert asked_in_storm < 32 * 8, asked_in_storm  # no hammering


def test_every_third_answer_broken_and_all_is_right(server: Server, env: dict[str, str]) -> None:
    asks = put_many(server, 200, 20_000)
    server.faults = [Fault("reset", "/o", every=5), Fault("short", "/o", every=7), Fault("status", "/o", every=6)]
    assert all_right(get(env, "s3://bucket", asks, depth=32).objects, 20_000)


def is_calm(figures: dict) -> bool:
    """The loop's thread sleeps until something happens; a request makes a few things happen."""
    return figures["turns"] < 100 * figures["requests"]


def test_a_retry_that_finds_no_room_is_waited_for_in_peace(server: Server, env: dict[str, str]) -> None:
    """One 503 halves the window; the others are slow, so that what is due again has to wait for them."""
    asks = put_many(server, 16)
    server.faults = [Fault("status", "/o", times=1), Fault("delay", "/o", times=15, seconds=1)]
    answer = get(env, "s3://bucket", asks, options="hedge=0")
    assert all_right(answer.objects) and answer.sum["retries"] == 1
    assert is_calm(answer.sum), answer.sum


def test_late_requests_that_may_not_be_sent_again_are_waited_for_in_peace(server: Server, env: dict[str, str]) -> None:
    """All of the second requests that are allowed are late, too."""
    asks = put_many(server, 4)
    server.faults = [Fault("delay", "/o", seconds=2.5)]
    answer = get(env, "s3://bucket", asks)
    assert all_right(answer.objects) and answer.sum["hedges"] == 1
    assert is_calm(answer.sum), answer.sum


def test_retry_after_is_waited_for(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("status", "/o", times=1, headers={"Retry-After": "2"})]
    assert get(env, "s3://bucket", [Ask("o", size=len(DATA))], options="hedge=0").objects[0]["status"] == 0
    first, second = (r.at for r in server.log)
    assert second - first >= 1.9


def test_everything_is_tried_ten_times(server: Server, env: dict[str, str]) -> None:
    """By an answer that is tried again without waiting: a clock that is said to be wrong and is not."""
    server.put("bucket", "o", DATA)
    server.faults = [Fault("status", "", status=403, code="RequestTimeTooSkewed")]
    o = get(env, "s3://bucket", [Ask("o", size=len(DATA))], options="hedge=0").objects[0]
    assert o["status"] == E_IO and "10 attempts" in o["cause"] and len(server.log) == 10
    server.log.clear()
    with pytest.raises(RuntimeError, match="10 attempts"):
        listing(env, "s3://bucket")
    assert len(server.log) == 10


def test_as_many_attempts_as_asked_for_then_words(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("status", "/o")]
    answer = get(env, "s3://bucket", [Ask("o", size=len(DATA))], options="hedge=0,attempts=4")
    assert answer.objects[0]["status"] == E_IO
    assert "503 (SlowDown" in answer.objects[0]["cause"] and "4 attempts" in answer.objects[0]["cause"]
    assert len(server.log) == 4


def test_a_drip_is_below_the_limit_and_tried_again(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("drip", "/o", times=1)]
    answer = get(env, "s3://bucket", [Ask("o", size=len(DATA))], options="hedge=0,stall-s=2,stall-bytes=1024")
    assert answer.objects[0]["sha256"] == sha(DATA) and answer.sum["retries"] == 1


@pytest.mark.parametrize(("piece", "requests"), [(600, 1), (30, 2)])
def test_the_limit_is_a_rate_not_a_time(server: Server, env: dict[str, str], piece: int, requests: int) -> None:
    """12,000 bytes per second for three times as long as the limit looks at are left alone; 600 are not."""
    data = DATA[:36_000]
    server.put("bucket", "o", data)
    server.faults = [Fault("drip", "/o", times=1, piece=piece)]
    answer = get(env, "s3://bucket", [Ask("o", size=len(data))], options="hedge=0,stall-s=1,stall-bytes=2000")
    assert (answer.objects[0]["sha256"], answer.sum["requests"]) == (sha(data), requests)


# --------------------------------------------------------------------------------------------------- not tried again

@pytest.mark.parametrize(("status", "code", "words"), [(400, "InvalidRequest", "400"), (403, "AccessDenied", "s3:GetObject"),
                                                       (404, "NoSuchKey", "404"), (403, "InvalidObjectState", "Glacier")])
def test_refusals_are_not_tried_again(server: Server, env: dict[str, str], status: int, code: str, words: str) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("status", "/o", status=status, code=code)]
    o = get(env, "s3://bucket", [Ask("o", size=len(DATA))]).objects[0]
    assert o["status"] == (E_NOT_FOUND if status == 404 else E_IO) and words in o["cause"] + o["remedy"]
    assert len(server.log) == 1


def test_wrong_keys_are_said_in_words(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", DATA)
    o = get(env | {"AWS_SECRET_ACCESS_KEY": "wrong"}, "s3://bucket", [Ask("o", size=1)]).objects[0]
    assert "SignatureDoesNotMatch" in o["cause"] and "AWS_SECRET_ACCESS_KEY" in o["remedy"]
    o = get(env | {"AWS_ACCESS_KEY_ID": "AKOTHER"}, "s3://bucket", [Ask("o", size=1)]).objects[0]
    assert "InvalidAccessKeyId" in o["cause"] and "AWS_PROFILE" in o["remedy"]


def test_a_wrong_etag_is_another_version(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", DATA)
    mtime = listing(env, "s3://bucket")["o"][1]
    server.faults = [Fault("etag", "/o")]
    whole, part = get(env, "s3://bucket", [Ask("o", size=len(DATA), mtime_ns=mtime), Ask("o", 5, 10, mtime_ns=mtime, must_match=1)]).objects
    assert whole["status"] == 0 and whole["mtime_ns"] != mtime  # a whole object is consistent in itself: the caller sees that it is another
    assert part["status"] == E_DATA


def test_nobody_at_the_other_end(env: dict[str, str]) -> None:
    o = get(env | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "s3://bucket", [Ask("o", size=1)], options="attempts=2").objects[0]
    assert o["status"] == E_IO and "cannot be reached" in o["cause"] and "AWS_ENDPOINT_URL" in o["remedy"]


# --------------------------------------------------------------------------------------------------------- redirects

@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x/", "javascript:alert(1)", "/elsewhere", "//x/y"])
def test_redirects_to_other_schemes_are_not_followed(server: Server, env: dict[str, str], where: str) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("redirect", "/o", headers={"Location": where})]
    o = get(env, "s3://bucket", [Ask("o", size=len(DATA))]).objects[0]
    assert o["status"] == E_IO and "not followed" in o["cause"] and len(server.log) == 1


@pytest.mark.parametrize("host", ["localhost", "[::1]", "127.0.0.2", "0.0.0.0", "2130706433", "127.1", "169.254.169.254", "example.org",
                                  "127.0.0.1@localhost", "127.0.0.1.nip.io"])
def test_redirects_to_other_hosts_are_not_followed(server: Server, env: dict[str, str], host: str) -> None:
    """Nobody is asked there: the same port listens for the names of this machine."""
    server.put("bucket", "o", DATA)
    port = server.url.rsplit(":", 1)[1]
    server.faults = [Fault("redirect", "/o", headers={"Location": f"http://{host}:{port}/bucket/elsewhere"})]
    o = get(env, "s3://bucket", [Ask("o", size=len(DATA))]).objects[0]
    assert o["status"] == E_IO and "not followed" in o["cause"] and "AWS_ENDPOINT_URL" in o["remedy"]
    assert len(server.log) == 1


@pytest.mark.parametrize("code", ["PermanentRedirect", "AuthorizationHeaderMalformed"])
def test_a_bucket_in_another_region_is_still_found(server: Server, env: dict[str, str], code: str) -> None:
    """Amazon's answer to a wrong region is a redirect, too: it names the region, and the request is signed anew for that."""
    server.put("bucket", "o", DATA)
    status = 301 if code == "PermanentRedirect" else 400
    server.region = "eu-north-1"
    headers = {"x-amz-bucket-region": server.region, "Location": "http://169.254.169.254/"}
    server.faults = [Fault("status", "/o", times=1, status=status, code=code, headers=headers)]
    o = get(env | {"AWS_REGION": "us-west-2"}, "s3://bucket", [Ask("o", size=len(DATA))]).objects[0]
    assert o["sha256"] == sha(DATA), o


def test_redirects_carry_no_credentials(server: Server, env: dict[str, str]) -> None:
    other = Server()
    try:
        other.is_anonymous = True
        other.put("bucket", "o", DATA)
        server.put("bucket", "o", DATA)
        server.faults = [Fault("redirect", "/o", headers={"Location": f"{other.url}/bucket/o"})]
        o = get(env | {"AWS_SESSION_TOKEN": "canaryToken"}, "s3://bucket", [Ask("o", 10, 100)]).objects[0]
        assert o["sha256"] == sha(DATA[10:110])
        assert other.log and all("authorization" not in r.headers and "x-amz-security-token" not in r.headers for r in other.log)
    finally:
        other.stop()


def test_redirects_in_circles_end(server: Server, env: dict[str, str]) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("redirect", "/o", headers={"Location": f"{server.url}/bucket/o"})]
    assert get(env, "s3://bucket", [Ask("o", size=len(DATA))]).objects[0]["status"] == E_IO
    assert len(server.log) == 4


# ---------------------------------------------------------------------------------------------------- clocks and keys

@pytest.mark.parametrize("hours", [-30, 30])
def test_a_wrong_clock_is_set_by_the_servers(server: Server, env: dict[str, str], hours: float) -> None:
    server.clock_offset = hours * 3600
    asks = put_many(server, 40)
    answer = get(env, "s3://bucket", asks, options="hedge=0")
    assert all_right(answer.objects) and "clock" in answer.log
    assert answer.sum["retries"] <= 32  # those that were under way when the first answer came


def test_a_token_that_expires_mid_run_is_renewed(server: Server, tmp_path: Path) -> None:
    """From a profile file, which somebody renews while we read."""
    env = environment(server, tmp_path, AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "credentials"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del env[name]

    def write(token: str) -> None:
        (tmp_path / "credentials").write_text(
            f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\naws_session_token = {token}\n")

    def after(s: Server, bucket: str, key: str) -> None:
        if key == "o100" and "first" in (s.tokens or ()):
            s.tokens = {"second"}
            write("second")

    write("first")
    server.tokens = {"first"}
    server.after_get = after
    asks = put_many(server, 300)
    answer = get(env, "s3://bucket", asks, depth=8, options="hedge=0")
    assert all_right(answer.objects), [o for o in answer.objects if o["status"]][:2]
    assert {r.headers["x-amz-security-token"] for r in server.log} == {"first", "second"}


def test_an_expired_token_that_nobody_renews_is_said(server: Server, env: dict[str, str]) -> None:
    server.tokens = {"other"}
    server.put("bucket", "o", DATA)
    o = get(env | {"AWS_SESSION_TOKEN": "old"}, "s3://bucket", [Ask("o", size=1)]).objects[0]
    assert o["status"] == E_IO and "expired" in o["cause"] and "log in again" in o["remedy"]


# ---------------------------------------------------------------------------------------------------------- stragglers

def test_late_answers_are_asked_for_a_second_time(server: Server, env: dict[str, str]) -> None:
    asks = put_many(server, 600, 500)
    server.faults = [Fault("delay", "/o", every=100, seconds=4, skip=99)]
    start = time.monotonic()
    answer = get(env, "s3://bucket", asks, depth=8)
    assert all_right(answer.objects, 500)
    assert answer.sum["hedges_won"] >= 4
    assert answer.sum["most_ms"] < 3000, answer.sum
    assert answer.sum["hedges"] <= 0.05 * len(asks) + 16, answer.sum
    assert time.monotonic() - start < 60


def test_without_second_requests_late_ones_are_waited_for(server: Server, env: dict[str, str]) -> None:
    asks = put_many(server, 60, 500)
    server.faults = [Fault("delay", "/o", times=1, seconds=2, skip=50)]
    answer = get(env, "s3://bucket", asks, options="hedge=0", depth=4)
    assert answer.sum["hedges"] == 0 and answer.sum["most_ms"] > 1900


def test_slow_servers_are_not_asked_twice_for_everything(server: Server, env: dict[str, str]) -> None:
    asks = put_many(server, 300, 500)
    server.faults = [Fault("delay", "/o", every=2, seconds=0.3)]  # half of them: that is how the server is
    answer = get(env, "s3://bucket", asks, depth=16)
    assert all_right(answer.objects, 500)
    assert answer.sum["requests"] <= 1.05 * 300 + 2, answer.sum


# ------------------------------------------------------------------------------------------------------------ listings

@pytest.mark.parametrize("text", [b"", b"<html><body>welcome</body></html>", b"<ListBucketResult><Contents><Key>a", b"\x00\x01\x02",
                                  b"<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult>&a;</ListBucketResult>",
                                  b"<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
                                  b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", b"<a>" * 100])
def test_bad_listings_are_refused(server: Server, env: dict[str, str], text: bytes) -> None:
    server.put("bucket", "o", DATA)
    server.faults = [Fault("text", "list-type", text=text)]
    with pytest.raises(RuntimeError, match="listing cannot be read"):
        listing(env, "s3://bucket")


def test_a_listing_survives_passing_errors(server: Server, env: dict[str, str]) -> None:
    for i in range(95):
        server.put("bucket", f"c{i % 7}/o{i:03}", b"x" * i)
    server.page_size = 10
    server.faults = [Fault("status", "list-type", every=4), Fault("reset", "list-type", every=9)]
    assert len(listing(env, "s3://bucket")) == 95


def page(keys: list[str], token: str) -> bytes:
    objects = "".join(f"<Contents><Key>{k}</Key><ETag>e</ETag><Size>1</Size></Contents>" for k in keys)
    next_page = f"<NextContinuationToken>{token}</NextContinuationToken>"
    return f"<ListBucketResult><IsTruncated>true</IsTruncated>{objects}{next_page}</ListBucketResult>".encode()


@pytest.mark.parametrize("keys", [["a", "b"], ["b", "a"], []])
def test_a_listing_that_goes_in_circles_ends(server: Server, env: dict[str, str], keys: list[str]) -> None:
    server.buckets["bucket"] = {}
    server.faults = [Fault("text", "list-type", text=page(keys, "again"))]
    with pytest.raises(RuntimeError, match="does not end|order"):
        listing(env, "s3://bucket", timeout=30)


def test_a_redirected_listing_carries_no_credentials(server: Server, env: dict[str, str]) -> None:
    other = Server()
    other.is_anonymous = True
    other.put("bucket", "k", b"x")
    server.put("bucket", "k", b"x")
    server.faults = [Fault("redirect", "list-type", headers={"Location": other.url + "/bucket?list-type=2&encoding-type=url"})]
    try:
        assert list(listing(env, "s3://bucket")) == ["k"]
        assert other.log
        assert not any({"authorization", "x-amz-security-token"} & set(r.headers) for r in other.log)
    finally:
        other.stop()


def test_an_object_that_is_gone_by_the_time_it_is_read_is_said_at_once(server: Server, env: dict[str, str]) -> None:
    asks = put_many(server, 20)
    del server.buckets["bucket"]["o7"]
    objects = get(env, "s3://bucket", asks).objects
    assert objects[7]["status"] == E_NOT_FOUND
    assert sum(o["status"] == 0 for o in objects) == 19
    assert sum(r.path.endswith("/o7") for r in server.log) == 1
