"""Where keys come from, in which order, and that they go nowhere else."""

from __future__ import annotations

import io
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from s3_client import COMMAND, E_IO, TOOL, Ask, environment, get, listing
from server import ACCESS_KEY, SECRET_KEY, Server

CANARY_TOKEN = "canaryTokenThatNobodyMaySee"


def chosen(env: dict[str, str]) -> str:
    done = subprocess.run([TOOL, "keys"], env=env, capture_output=True, text=True, timeout=30)
    return done.stdout + done.stderr


class Metadata(BaseHTTPRequestHandler):
    """IMDSv2, a container's agent and STS in one."""

    lifetime_s = 3600.0
    keys = ("AKMETA", "metaSecret", "metaToken")
    asked: list[str] = []
    is_up = True
    delay_s = 0.0

    def log_message(self, *_: object) -> None:
        pass

    def say(self, text: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def expires(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + type(self).lifetime_s))

    def do_PUT(self) -> None:
        type(self).asked.append(f"PUT {self.path}")
        time.sleep(type(self).delay_s)
        self.say("imdsToken" if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else "", 200 if type(self).is_up else 500)

    def do_GET(self) -> None:
        type(self).asked.append(f"GET {self.path}")
        access, secret, token = type(self).keys
        keys = {"AccessKeyId": access, "SecretAccessKey": secret, "Token": token, "Expiration": self.expires()}
        answer = json.dumps(keys).replace("/", "\\/")
        if self.path.startswith("/latest") and self.headers.get("X-aws-ec2-metadata-token") != "imdsToken":
            self.say("no", 401)
        elif self.path.endswith("security-credentials/"):
            self.say("the-role\n")
        elif self.path == "/agent" and self.headers.get("Authorization") != "agentToken":
            self.say("no", 403)
        else:
            self.say(answer)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        type(self).asked.append(f"POST {body}")
        access, secret, token = type(self).keys
        self.say(f"<AssumeRoleWithWebIdentityResponse><R><Credentials><AccessKeyId>{access}</AccessKeyId>"
                 f"<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>"
                 f"<Expiration>{self.expires()}</Expiration></Credentials></R></AssumeRoleWithWebIdentityResponse>")


@pytest.fixture
def metadata() -> Iterator[str]:
    Metadata.asked, Metadata.keys, Metadata.lifetime_s, Metadata.is_up = [], ("AKMETA", "metaSecret", "metaToken"), 3600.0, True
    Metadata.delay_s = 0.0
    s = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{s.server_address[1]}"
    s.shutdown()
    s.server_close()


def all_sources(metadata: str, folder: Path) -> dict[str, dict[str, str]]:
    (folder / "credentials").write_text("[default]\naws_access_key_id = AKFILE\naws_secret_access_key = fileSecret\n"
                                        "[other]\naws_access_key_id = AKOTHER\naws_secret_access_key = otherSecret\n")
    (folder / "token").write_text("webToken\n")
    return {
        "environment": {"AWS_ACCESS_KEY_ID": "AKENV", "AWS_SECRET_ACCESS_KEY": "envSecret"},
        "profile": {"AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials")},
        "web identity": {"AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/x",
                         "AWS_ENDPOINT_URL_STS": metadata},
        "container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{metadata}/agent", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "agentToken"},
        "instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata, "AWS_EC2_METADATA_DISABLED": "false"},
    }


def test_sources_are_asked_in_order(metadata: str, tmp_path: Path) -> None:
    sources = all_sources(metadata, tmp_path)
    names = list(sources)
    for i, name in enumerate(names):
        env = environment(None, tmp_path)
        for later in reversed(names[i:]):
            env |= sources[later]
        assert f"from the {name}" in chosen(env), chosen(env)


def test_a_profile_is_chosen_by_name(metadata: str, tmp_path: Path) -> None:
    env = environment(None, tmp_path) | all_sources(metadata, tmp_path)["profile"]
    assert chosen(env).splitlines()[-1].startswith("AKFILE") or "AKFILE" in chosen(env)
    assert "AKOTHER" in chosen(env | {"AWS_PROFILE": "other"})
    (tmp_path / "config").write_text("[profile work]\naws_access_key_id = AKCONF\naws_secret_access_key = s\nregion = eu-x-9\n"
                                     "endpoint_url = http://h:1\n")
    said = chosen(env | {"AWS_PROFILE": "work", "AWS_CONFIG_FILE": str(tmp_path / "config")})
    assert "AKCONF" in said and "eu-x-9" in said and "host h:1" in said


def test_nobody_has_keys_is_said_with_a_remedy(tmp_path: Path) -> None:
    said = chosen(environment(None, tmp_path))
    assert "no credentials" in said and "FULLBORE_S3_ANONYMOUS" in said
    (tmp_path / "config").write_text("[default]\nsso_session = corp\n")
    assert "export-credentials" in chosen(environment(None, tmp_path, AWS_CONFIG_FILE=str(tmp_path / "config")))


def test_the_web_identitys_token_goes_in_the_body_only(metadata: str, tmp_path: Path) -> None:
    env = environment(None, tmp_path) | all_sources(metadata, tmp_path)["web identity"]
    assert "AKMETA from the web identity, a token" in chosen(env)
    assert Metadata.asked[0].startswith("POST Action=AssumeRoleWithWebIdentity") and "webToken" in Metadata.asked[0]


def test_a_container_elsewhere_is_not_asked(tmp_path: Path) -> None:
    for url in ("http://example.com/x", "http://127.0.0.1@evil.example/x", "http://127.0.0.1.evil.example/", "file:///etc/passwd"):
        said = chosen(environment(None, tmp_path, AWS_CONTAINER_CREDENTIALS_FULL_URI=url))
        assert "neither https nor an address of this machine" in said, url


def from_instance(server: Server, metadata: str, folder: Path) -> dict[str, str]:
    server.keys = {"AKMETA": "metaSecret"}
    env = environment(server, folder) | all_sources(metadata, folder)["instance"]
    return {k: v for k, v in env.items() if k not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}


def fetched() -> int:
    return sum(a.endswith("the-role") for a in Metadata.asked)


def test_keys_are_renewed_before_they_expire(server: Server, metadata: str, tmp_path: Path) -> None:
    """Keys that live four seconds, over a run of more: no request is ever refused."""
    env = from_instance(server, metadata, tmp_path)
    Metadata.lifetime_s = 4.0
    for i in range(600):
        server.put("bucket", f"o{i}", b"x" * 10)
    server.after_get = lambda s, bucket, key: time.sleep(0.01)
    answer = get(env, "s3://bucket", [Ask(f"o{i}", size=10) for i in range(600)], options="hedge=0", depth=4)
    assert {o["status"] for o in answer.objects} == {0} and answer.sum["retries"] == 0
    assert fetched() >= 2


def test_keys_that_came_expired_are_the_servers_to_judge(server: Server, metadata: str, tmp_path: Path) -> None:
    """A clock that is ahead makes good keys look old."""
    env = from_instance(server, metadata, tmp_path)
    Metadata.lifetime_s = -600.0
    server.put("bucket", "o", b"x" * 10)
    assert list(listing(env, "s3://bucket")) == ["o"]
    answer = get(env, "s3://bucket", [Ask("o", size=10)] * 50)
    assert {o["status"] for o in answer.objects} == {0} and "expired by this machine's clock" in answer.log
    assert fetched() == 2  # once by each


def test_keys_that_came_expired_and_are_refused_are_said(server: Server, metadata: str, tmp_path: Path) -> None:
    env = from_instance(server, metadata, tmp_path)
    Metadata.lifetime_s = -600.0
    server.tokens = {"another"}
    server.put("bucket", "o", b"x" * 10)
    with pytest.raises(RuntimeError, match="expired: the instance hands out keys that expired 6.. s ago"):
        listing(env, "s3://bucket")
    answer = get(env, "s3://bucket", [Ask("o", size=10)] * 50)
    assert {o["status"] for o in answer.objects} == {E_IO}
    assert all("expired" in o["cause"] and "clock" in o["remedy"] for o in answer.objects), answer.objects[0]
    assert fetched() == 2


def test_keys_expire_by_the_servers_clock(server: Server, metadata: str, tmp_path: Path) -> None:
    """Two hours ahead of the server, with keys that live for one."""
    env = from_instance(server, metadata, tmp_path)
    server.clock_offset, Metadata.lifetime_s = -7200.0, -3600.0
    server.put("bucket", "o", b"x" * 10)
    answer = get(env, "s3://bucket", [Ask("o", size=10)] * 50)
    assert {o["status"] for o in answer.objects} == {0}
    assert fetched() == 1


def test_a_source_whose_keys_are_all_refused_is_not_asked_over_and_over(server: Server, metadata: str, tmp_path: Path) -> None:
    """New keys each time, none of which the server takes."""
    env = from_instance(server, metadata, tmp_path)
    server.tokens = {"another"}
    server.put("bucket", "o", b"x" * 10)

    def others(*_: object) -> str:
        Metadata.keys = ("AKMETA", "metaSecret", f"metaToken{len(Metadata.asked)}")
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Metadata, "expires", others)
        answer = get(env, "s3://bucket", [Ask("o", size=10)] * 50, depth=4)
    assert all(o["status"] == E_IO and "old keys and of the new ones" in o["cause"] for o in answer.objects), answer.objects[0]
    assert fetched() == 2


def test_new_keys_are_waited_for_in_peace(server: Server, metadata: str, tmp_path: Path) -> None:
    """Retries that are due but cannot be signed do not keep the loop's thread busy."""
    env = from_instance(server, metadata, tmp_path)
    server.tokens = {"metaToken"}

    def after(s: Server, bucket: str, key: str) -> None:
        if key == "o5":
            s.tokens, Metadata.keys, Metadata.delay_s = {"next"}, ("AKMETA", "metaSecret", "next"), 1.0

    server.after_get = after
    for i in range(40):
        server.put("bucket", f"o{i}", b"x" * 10)
    answer = get(env, "s3://bucket", [Ask(f"o{i}", size=10) for i in range(40)], options="hedge=0", depth=4)
    assert {o["status"] for o in answer.objects} == {0} and answer.sum["retries"] > 0
    assert answer.sum["turns"] < 100 * answer.sum["requests"], answer.sum


class Ages:
    """`s3_tool ages`: the same keys as time goes by."""

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen([TOOL, "ages"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def say(self, line: str) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def log(self) -> str:
        said = self.process.communicate(timeout=30)[1]
        assert self.process.returncode == 0
        return said


def test_keys_are_used_until_they_die_when_they_cannot_be_renewed(server: Server, metadata: str, tmp_path: Path) -> None:
    ages = Ages(from_instance(server, metadata, tmp_path))
    assert ages.say("at 0") == "AKMETA"
    Metadata.is_up = False
    assert ages.say("at 3400") == "AKMETA" and ages.say("wait") == "waited"
    assert [ages.say("at 3400") for _ in range(20)] == ["AKMETA"] * 20
    assert [ages.say("at 3700") for _ in range(20)] == ["the instance has no keys any more"] * 20
    assert "could not be renewed yet" in ages.log()
    assert sum(a.startswith("PUT") for a in Metadata.asked) == 2


def test_keys_that_have_died_are_waited_for_while_others_are_under_way(server: Server, metadata: str, tmp_path: Path) -> None:
    ages = Ages(from_instance(server, metadata, tmp_path))
    assert ages.say("at 0") == "AKMETA"
    Metadata.keys, Metadata.lifetime_s = ("AKNEXT", "nextSecret", "nextToken"), 7200.0
    assert ages.say("at 3700") == "none yet"
    assert ages.say("wait") == "waited" and ages.say("at 3700") == "AKNEXT"
    ages.say("refuse")
    Metadata.is_up = False
    assert ages.say("at 3700") == "none yet"
    assert ages.say("wait") == "waited" and ages.say("at 3700") == "the instance has no keys any more"
    ages.log()


def test_secrets_are_nowhere_to_be_seen(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    """A canary secret and token: not in any output, log, catalog or other file, whether things go well or not."""
    from server import Fault

    env |= {"AWS_SESSION_TOKEN": CANARY_TOKEN}
    jpeg = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")
    for i in range(5):
        server.put("bucket", f"c/{i}.jpg", jpeg)
    seen = []
    for fault, fails in ((None, False), (Fault("status", "", status=403, code="AccessDenied"), True), (Fault("reset", "/c"), False),
                         (Fault("text", "list-type", text=b"<a>"), True)):
        server.faults = [fault] if fault else []
        commands = ([TOOL, "list", "s3://bucket"], [COMMAND, "info", "s3://bucket"], [COMMAND, "info", "s3://bucket", "--json"])
        running = [subprocess.Popen(command, env=env | {"FULLBORE_S3_LIST_MAX_AGE": "0"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                   for command in commands]  # side by side: each tries again for a while
        seen += [process.communicate(timeout=60)[0] for process in running]
        assert [process.returncode != 0 for process in running] == [fails] * len(running), (fault, seen[-len(running):])
    seen += [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    for canary in (SECRET_KEY, CANARY_TOKEN):
        assert not any(canary.encode() in s for s in seen)
    assert all(ACCESS_KEY not in r.wire for r in server.log)


def command_lines(of: int) -> list[bytes]:
    """Those of a process's descendants, as everybody on the machine may read them."""
    parents, lines = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            lines[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:
            pass  # gone meanwhile

    def is_below(process: int) -> bool:
        while process in parents and process != of:
            process = parents[process]
        return process == of

    return [line for process, line in lines.items() if process != of and is_below(process)]


def test_secrets_are_in_no_report_copy_or_cache(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    """Everything that writes files: caches, copies and their logs, packs, recordings and pages; and the command lines that others can
    see."""
    Image = pytest.importorskip("PIL.Image")
    env |= {"AWS_SESSION_TOKEN": CANARY_TOKEN, "FULLBORE_LOG": "debug"}
    out = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 30, 60)).save(out, "JPEG")
    for i in range(12):
        server.put("bucket", f"p/{'ab'[i % 2]}/{i}.jpg", out.getvalue())
    at = tmp_path / "written"
    at.mkdir()
    bench = [COMMAND, "bench", "s3://bucket/p", "--transform", "resize size=16,16", "--batch-size", "4"]
    commands = [[*bench, "--cache-dir", at / "cache", "--epochs", "2"], [*bench, "--json"],
                [COMMAND, "stage", "s3://bucket/p", at / "copy", "--verify"], [COMMAND, "pack", "s3://bucket/p", "-o", at / "p.tar"],
                [COMMAND, "doctor", "s3://bucket/p", "--json"],
                [COMMAND, "watch", "--interval", "0.1", "-o", at / "run.fbr", "--", *bench, "--step-ms", "100", "--epochs", "5"],
                [COMMAND, "report", at / "run.fbr", "-o", at / "report.html"]]
    seen, lines = [], set[bytes]()
    server.after_get = lambda *_: lines.update(command_lines(os.getpid()))  # while whoever asks is there
    for command in commands:
        server.log.clear()
        done = subprocess.run(command, env=env, capture_output=True, timeout=120, cwd=at)
        assert done.returncode == 0, (command, done.stderr[-1000:])
        assert command[1] == "report" or any(CANARY_TOKEN in r.headers["x-amz-security-token"] for r in server.log), command
        seen.append(done.stdout + done.stderr)
    for written in ("cache", "copy", "p.tar", "run.fbr", "report.html"):
        assert (at / written).exists(), written
    for word in (b"bench", b"stage", b"pack", b"watch"):
        assert any(word in line.split(b"\0")[1:2] for line in lines), (word, lines)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(files) > 12
    seen += [*lines, *(p.read_bytes() for p in files)]
    for canary in (SECRET_KEY, CANARY_TOKEN):
        assert not any(canary.encode() in s for s in seen), canary
