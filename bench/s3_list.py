"""Listing a large bucket: time and memory of the first start, and of the next one, which finds the listing kept.

    bench/s3_list.py [--keys N] [--classes N] [--delay-ms N] [--json]

A server of the tests answers ListObjectsV2 for a bucket that is not there: class_0000/photo_00000000.jpg and so on, made up as they are
asked for. It is a Python program on the same cores: the time of the first start is mostly its own, the CPU time is the loader's. Nothing
leaves the machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/io/s3"))

from made_listing import made_server
from server import ACCESS_KEY, REGION, SECRET_KEY


def serve(pipe: multiprocessing.connection.Connection, options: argparse.Namespace) -> None:
    server = made_server(options.keys, options.classes, options.delay_ms / 1e3)
    pipe.send(server.url)
    pipe.recv()
    pipe.send(len(server.log))
    server.stop()


OPEN = """
import json, resource, time
import fullbore as fb
before, since = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
loader = fb.Loader("s3://bench/data", framework="numpy", transforms=[fb.Resize((8, 8))])
seconds, after = time.monotonic() - since, resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": seconds, "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                  "rss_before_bytes": before.ru_maxrss * 1024, "rss_peak_bytes": after.ru_maxrss * 1024, "samples": len(loader)}))
loader.close()
"""


def start(env: dict[str, str]) -> dict:
    done = subprocess.run([sys.executable, "-c", OPEN], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_200_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--delay-ms", type=float, default=0, help="added to every answer")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs, options), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory(prefix="fullbore-list-") as folder:
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, "AWS_ENDPOINT_URL": ours.recv(),
               "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION,
               "AWS_EC2_METADATA_DISABLED": "true", "XDG_CACHE_HOME": folder}
        first, again = start(env), start(env)
        kept = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    ours.send("over")
    requests = ours.recv()
    server.join()
    for r in (first, again):
        if r["samples"] != options.keys:
            raise SystemExit(f"bench: {r['samples']} keys came, {options.keys} are there")
    figures = {"keys": options.keys, "requests": requests, "first": first, "again": again, "kept_bytes": kept}
    if options.json:
        print(json.dumps(figures))
        return 0
    for name, r in (("first start", first), ("from the kept listing", again)):
        print(f"  {name}: {r['seconds'] * 1e3:.0f} ms, CPU {r['cpu_seconds'] * 1e3:.0f} ms, "
              f"memory {r['rss_peak_bytes'] / 1e6:.0f} MB ({(r['rss_peak_bytes'] - r['rss_before_bytes']) / 1e6:.0f} MB of it for this)")
    print(f"  {options.keys} keys in {requests} requests; the kept catalog has {kept / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
