"""A server that lists a bucket which is not there: data/class_0000/photo_00000000.jpg and so on, made up as they are asked for.

Any number of keys, no memory: the n-th key is computed, and so is the number of the first key behind a given one.
"""

from __future__ import annotations

import bisect
import time

from server import Handler, Server

STAMP = "2023-11-14T22:13:20.000Z"


class Listing(Handler):
    """Keys are numbers: the n-th is computed, so is the number of the first key behind a given one."""

    def key(self, n: int) -> str:
        each = self.server.each
        return f"data/class_{n // each:04}/photo_{n % each:08}.jpg"

    def list(self, bucket: dict, query: dict[str, str]) -> None:
        s = self.server
        time.sleep(s.delay)
        after = bytes.fromhex(query["continuation-token"]).decode() if "continuation-token" in query else query.get("start-after", "")
        if query.get("delimiter"):
            self.folders(query["prefix"])
            return
        n = bisect.bisect_right(range(s.count), after, key=self.key) if after else 0
        end = min(n + 1000, s.count)
        out = [f"<Contents><Key>{self.key(i)}</Key><LastModified>{STAMP}</LastModified><ETag>&quot;{i:032x}&quot;</ETag>"
               f"<Size>{100_000 + i % 20_000}</Size></Contents>"
               for i in range(n, end)]
        token = f"<NextContinuationToken>{self.key(end - 1).encode().hex()}</NextContinuationToken>" if end < s.count else ""
        self.page(out, token)

    def folders(self, prefix: str) -> None:
        classes = range((self.server.count + self.server.each - 1) // self.server.each) if prefix == "data/" else range(0)
        self.page([f"<CommonPrefixes><Prefix>data/class_{c:04}/</Prefix></CommonPrefixes>" for c in classes], "")

    def page(self, out: list[str], token: str) -> None:
        body = (f'<?xml version="1.0"?><ListBucketResult><IsTruncated>{"true" if token else "false"}</IsTruncated>{"".join(out)}'
                f"<EncodingType>url</EncodingType>{token}</ListBucketResult>")
        self.answer(200, body.encode(), {"Content-Type": "application/xml"})


def made_server(keys: int, classes: int, delay: float = 0.0) -> Server:
    server = Server()
    server.RequestHandlerClass = Listing
    server.count, server.each, server.delay = keys, -(-keys // classes), delay  # type: ignore[attr-defined]
    server.buckets["bench"] = {}
    return server
