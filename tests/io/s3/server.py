"""A small S3 server that checks what real ones check and fails as real ones fail, in the process of the test.

It serves buckets from memory: GET with ranges (206) and If-Match, ListObjectsV2 in pages, and checks every signature by an implementation
of its own (hashlib and hmac, nothing shared with the program under test). `Server.faults` holds rules; the first that matches a request
decides what goes wrong with it. Everything that was asked is kept in `Server.log`.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import socket
import struct
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

ACCESS_KEY = "AKTESTACCESS"
SECRET_KEY = "canarySecret/k3y+With=Signs"
REGION = "eu-test-1"


@dataclass
class Object:
    data: bytes
    modified: float = 1_700_000_000.0
    etag: str = ""

    def __post_init__(self) -> None:
        self.etag = self.etag or '"' + hashlib.md5(self.data).hexdigest() + '"'


@dataclass
class Fault:
    """What goes wrong: with requests whose path contains `path`, the `skip` first of them excepted, `times` times (None: for ever)."""

    kind: str
    path: str = ""
    times: int | None = None
    skip: int = 0
    every: int = 1
    status: int = 503
    code: str = "SlowDown"
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    text: bytes = b""
    body: bytes = b""
    piece: int = 1  # bytes of a drip, 20 times per second
    until: float = 0.0  # monotonic; 0: no limit
    seen: int = 0
    done: int = 0

    def takes(self, path: str) -> bool:
        if self.until and time.monotonic() > self.until:
            return False
        if self.path not in path or (self.times is not None and self.done >= self.times):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.seen - self.skip - 1) % self.every:
            return False
        self.done += 1
        return True


@dataclass
class Request:
    method: str
    path: str  # decoded
    wire: str  # as it came
    query: dict[str, str]
    headers: dict[str, str]
    peer: tuple[str, int]
    at: float


def sign(secret: str, date: str, region: str, service: str, text: str) -> str:
    key = ("AWS4" + secret).encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def canonical(method: str, path: bytes, query: str, headers: list[tuple[str, str]], payload_hash: str) -> str:
    pairs = sorted((urllib.parse.quote(k, safe="-_.~"), urllib.parse.quote(v, safe="-_.~"))
                   for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape"))
    return "\n".join([method, urllib.parse.quote(path, safe="/-_.~"), "&".join(f"{k}={v}" for k, v in pairs),
                      *(f"{k}:{' '.join(v.split())}" for k, v in headers), "", ";".join(k for k, _ in headers), payload_hash])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    # ---- refusing

    def refuse(self, status: int, code: str, message: str = "no", headers: dict[str, str] | None = None, extra: str = "") -> None:
        body = (f'<?xml version="1.0" encoding="UTF-8"?>\n'
                f"<Error><Code>{code}</Code><Message>{escape(message)}</Message>{extra}</Error>").encode()
        self.answer(status, body, {"Content-Type": "application/xml", **(headers or {})})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        self.send_header("Date", formatdate(self.server.now(), usegmt=True))
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    # ---- checking

    def is_signed(self, r: Request) -> bool:
        s = self.server
        if s.is_anonymous:
            if "authorization" in r.headers:
                self.refuse(400, "InvalidArgument", "signed, although anonymous")
                return False
            return True
        given = r.headers.get("authorization", "")
        try:
            parts = dict(p.strip().split("=", 1) for p in given.removeprefix("AWS4-HMAC-SHA256 ").split(","))
            access, date, region, service, _ = parts["Credential"].split("/")
        except (ValueError, KeyError):
            self.refuse(403, "AccessDenied", "not signed")
            return False
        if access not in s.keys:
            self.refuse(403, "InvalidAccessKeyId")
            return False
        if region != s.region:
            self.refuse(400, "AuthorizationHeaderMalformed", f"expecting '{s.region}'", extra=f"<Region>{s.region}</Region>")
            return False
        stamp = r.headers.get("x-amz-date", "")
        if abs(calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - s.now()) > 900:
            self.refuse(403, "RequestTimeTooSkewed")
            return False
        headers = [(name, r.headers.get(name, "")) for name in parts["SignedHeaders"].split(";")]
        target = urllib.parse.urlsplit(r.wire)
        text = canonical(r.method, urllib.parse.unquote_to_bytes(target.path), target.query, headers, r.headers["x-amz-content-sha256"])
        scope = f"{date}/{region}/{service}/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(text.encode()).hexdigest()}"
        if not hmac.compare_digest(sign(s.keys[access], date, region, service, to_sign), parts["Signature"]):
            self.refuse(403, "SignatureDoesNotMatch")
            return False
        token = r.headers.get("x-amz-security-token")
        if s.tokens is not None and token not in s.tokens:
            self.refuse(400, "ExpiredToken", "The provided token has expired.")
            return False
        return True

    # ---- going wrong

    def go_wrong(self, f: Fault, r: Request) -> bool:
        """True: the request is over."""
        if f.kind == "delay":
            time.sleep(f.seconds)
            return False
        if f.kind == "status":
            self.refuse(f.status, f.code, headers=f.headers)
            return True
        if f.kind == "redirect":
            self.answer(307, b"", f.headers)
            return True
        if f.kind == "text":
            self.answer(200, f.text, f.headers)
            return True
        self.wrong = f
        return False

    def send_wrong(self, f: Fault, status: int, body: bytes, headers: dict[str, str]) -> None:
        if f.kind == "etag":
            self.answer(status, body, {**headers, "ETag": '"ffffffffffffffffffffffffffffffff"'})
        elif f.kind == "lie":  # shorter than it is, and says that this is all
            self.answer(status, body[: len(body) // 2], {k: v for k, v in headers.items() if k != "Content-Range"})
        elif f.kind == "long":
            self.answer(status, body + b"x" * 1000, headers)
        elif f.kind == "flip":  # a range that is not the one asked for
            self.answer(status, body, {**headers, "Content-Range": f"bytes 1-{len(body)}/{len(body) + 7}"})
        elif f.kind == "endless":
            self.send_head(status, headers, None)
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                self.close_connection = True
        else:
            self.break_off(f, status, body, headers)

    def send_head(self, status: int, headers: dict[str, str], length: int | None) -> None:
        self.send_response_only(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def break_off(self, f: Fault, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_head(status, headers, len(body))
        self.close_connection = True
        if f.kind == "drip":
            try:
                for i in range(0, len(body), f.piece):
                    self.wfile.write(body[i : i + f.piece])
                    time.sleep(0.05)
            except OSError:
                pass
            return
        self.wfile.write(body[: len(body) // 2])
        if f.kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    # ---- answering

    def do_GET(self) -> None:
        s = self.server
        self.wrong: Fault | None = None
        target = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(target.path, errors="surrogateescape")
        query = dict(urllib.parse.parse_qsl(target.query, keep_blank_values=True, errors="surrogateescape"))
        r = Request("GET", path, self.path, query, {k.lower(): v for k, v in self.headers.items()}, self.client_address, time.monotonic())
        with s.lock:
            s.log.append(r)
            fault = next((f for f in s.faults if f.takes(self.path)), None)
        if fault and self.go_wrong(fault, r):
            return
        if not self.is_signed(r):
            return
        bucket, _, key = path.removeprefix("/").partition("/")
        if s.virtual_host:
            bucket, key = self.headers["Host"].split(".")[0], path.removeprefix("/")
        if bucket not in s.buckets:
            self.refuse(404, "NoSuchBucket")
        elif "list-type" in query:
            self.list(s.buckets[bucket], query)
        else:
            self.get(r, bucket, key)

    def get(self, r: Request, bucket: str, key: str) -> None:
        s = self.server
        with s.lock:
            o = s.buckets[bucket].get(key)
            if s.after_get:
                s.after_get(s, bucket, key)
        if o is None:
            self.refuse(404, "NoSuchKey", "The specified key does not exist.")
            return
        if not s.ignores_if_match and r.headers.get("if-match", o.etag) not in (o.etag, "*"):
            self.refuse(412, "PreconditionFailed")
            return
        headers = {"ETag": o.etag, "Last-Modified": formatdate(o.modified, usegmt=True)}
        if not s.sends_etag:
            del headers["ETag"]
        status, data = 200, o.data
        wanted = r.headers.get("range")
        if wanted and not s.ignores_ranges:
            first, last = (int(x) for x in wanted.removeprefix("bytes=").split("-"))
            if first >= len(data):
                self.refuse(416, "InvalidRange", headers={"Content-Range": f"bytes */{len(data)}"})
                return
            last = min(last, len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{'*' if s.hides_size else len(data)}"
            status, data = (200 if s.ranges_as_200 else 206), data[first : last + 1]
        if self.wrong:
            self.send_wrong(self.wrong, status, data, headers)
        else:
            self.answer(status, data, headers)

    def list(self, bucket: dict[str, Object], query: dict[str, str]) -> None:
        s = self.server
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("start-after", "") if not s.ignores_start_after else ""
        if "continuation-token" in query:
            after = bytes.fromhex(query["continuation-token"]).decode("utf-8", "surrogateescape")
        if s.begins_empty and "continuation-token" not in query:
            token = (after or "\0").encode("utf-8", "surrogateescape").hex()
            self.answer(200, ("<ListBucketResult><IsTruncated>true</IsTruncated>"
                              f"<NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>").encode(), {})
            return
        keys = sorted((k for k in bucket if k.startswith(prefix)), key=lambda k: k.encode("utf-8", "surrogateescape"))
        encode = (lambda t: urllib.parse.quote_plus(t.encode("utf-8", "surrogateescape"), safe="/")) if s.encodes_keys else escape
        out, seen, last, truncated = [], set(), "", False
        for key in keys:
            if key.encode("utf-8", "surrogateescape") <= after.encode("utf-8", "surrogateescape"):
                continue
            common = prefix + key[len(prefix):].split(delimiter)[0] + delimiter if delimiter and delimiter in key[len(prefix):] else ""
            if common and (common in seen or after.startswith(common)):
                continue
            if len(out) == s.page_size:
                truncated = True
                break
            last = common + "\U0010ffff" if common else key
            seen.add(common)
            o = bucket[key]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(o.modified))
            out.append(f"<CommonPrefixes><Prefix>{encode(common)}</Prefix></CommonPrefixes>" if common else
                       f"<Contents><Key>{encode(key)}</Key><LastModified>{stamp}</LastModified>"
                       f"<ETag>{escape(o.etag, {chr(34): '&quot;'})}</ETag>"
                       f"<Size>{len(o.data)}</Size><StorageClass>STANDARD</StorageClass></Contents>")
        token = f"<NextContinuationToken>{last.encode('utf-8', 'surrogateescape').hex()}</NextContinuationToken>" if truncated else ""
        body = ('<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<IsTruncated>{'true' if truncated else 'false'}</IsTruncated>{''.join(out)}"
                f"{'<EncodingType>url</EncodingType>' if s.encodes_keys else ''}{token}</ListBucketResult>")
        self.answer(200, body.encode(), {"Content-Type": "application/xml"})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
    allow_reuse_address = True

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, Object]] = {}
        self.faults: list[Fault] = []
        self.log: list[Request] = []
        self.lock = threading.RLock()
        self.keys = {ACCESS_KEY: SECRET_KEY}
        self.tokens: set[str] | None = None
        self.region = REGION
        self.clock_offset = 0.0
        self.is_anonymous = self.ignores_if_match = self.ignores_ranges = self.ranges_as_200 = self.ignores_start_after = False
        self.virtual_host = self.hides_size = False
        self.begins_empty = False  # the first page of a listing has no keys, only a token: servers that leave out deleted keys do so
        self.sends_etag = self.encodes_keys = True
        self.page_size = 1000
        self.after_get = None
        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def now(self) -> float:
        return time.time() + self.clock_offset

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, bucket: str, key: str, data: bytes, **more: object) -> None:
        with self.lock:
            self.buckets.setdefault(bucket, {})[key] = Object(data, **more)  # type: ignore[arg-type]

    def handle_error(self, *_: object) -> None:
        pass

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
