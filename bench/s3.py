"""S3 against what is possible: a real server on this machine (rclone), near and 30 ms away; a bare libcurl loop as the floor; other
clients.

    bench/s3.py [--build DIR] [--photos FOLDER] [--rounds N] [--peers] [--only near far stage large hedge feed accelerator] [--json]

Sides take turns within a round; figures are medians over the rounds; every side reports how many objects came, and a missing one stops the
bench. Server, proxy and client share this machine's cores, so ratios are what counts. Nothing leaves the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ACCESS, SECRET, REGION = "BENCHACCESSKEY", "benchsecretkey", "us-east-1"
FLOOR_NEAR, FLOOR_FAR, FLOOR_LARGE = (8, 16, 32), (128, 256), (4, 8)
PART = 8 << 20


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def presign(port: int, path: str, seconds: int = 3600) -> str:
    """A GET signed in its query, so that the bare loop has nothing to sign."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
    query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{ACCESS}/{scope}", "X-Amz-Date": stamp,
             "X-Amz-Expires": str(seconds), "X-Amz-SignedHeaders": "host"}
    encoded = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in sorted(query.items()))
    uri = urllib.parse.quote(path, safe="/-_.~")
    canonical = f"GET\n{uri}\n{encoded}\nhost:127.0.0.1:{port}\n\nhost\nUNSIGNED-PAYLOAD"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = ("AWS4" + SECRET).encode()
    for part in (stamp[:8], REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return f"http://127.0.0.1:{port}{uri}?{encoded}&X-Amz-Signature={hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()}"


def wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.05)
    raise SystemExit("bench: the server does not come up")


def serve(root: Path, port: int) -> subprocess.Popen:
    """rclone, with the folders of `root` as buckets."""
    rclone = shutil.which("rclone", path=f"{ROOT}/.venv/bin:{os.environ['PATH']}") or "rclone"
    server = subprocess.Popen([rclone, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{ACCESS},{SECRET}", "--vfs-cache-mode",
                               "off", str(root)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return server


def client_environment(port: int) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"}


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.build = options, options.build
        self.figures: dict[str, list[float]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="fullbore-s3-"))
        self.running: list[subprocess.Popen] = []
        bucket = self.folder / "root/bench"
        bucket.mkdir(parents=True)
        shutil.copytree(options.photos, bucket / "photos", ignore=shutil.ignore_patterns(".*"))
        for path in (bucket / "photos").rglob("*.jpg"):  # four times all, under other names: an epoch that takes some time
            for i in range(4):
                to = bucket / "more" / str(i) / path.relative_to(bucket / "photos")
                to.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, to)
        for i in range(2):
            (bucket / f"large{i}").write_bytes(os.urandom(1 << 20) * 256)
        self.port, self.far_port = free_port(), free_port()
        self.running.append(serve(self.folder / "root", self.port))
        self.start([str(self.build / "bench/delay_proxy"), str(self.far_port), str(self.port), "30"], stdin=subprocess.PIPE)
        wait_for(self.far_port)
        self.objects, self.more = ([(str(p.relative_to(bucket)), p.stat().st_size) for p in sorted((bucket / name).rglob("*.jpg"))]
                                   for name in ("photos", "more"))
        self.large = [(f"large{i}", 256 << 20) for i in range(2)] * 4  # a second or two

    def start(self, command: list[str], **more: object) -> None:
        self.running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                             **more))  # type: ignore[call-overload]

    def close(self) -> None:
        for p in self.running:
            p.terminate()
            p.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def env(self, port: int) -> dict[str, str]:
        return client_environment(port) | {"XDG_CACHE_HOME": str(self.folder / "cache")}

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.figures[name])

    # ---- sides

    def answer(self, command: list[str], text: str, env: dict[str, str], due: int) -> dict:
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=env)
        if done.returncode:
            raise SystemExit(f"bench: {command[0]} ended with {done.returncode}: {done.stderr[-1000:]}")
        r = json.loads(done.stdout.splitlines()[-1])
        if r["bytes"] != due:
            raise SystemExit(f"bench: {command[0]} delivered {r['bytes']} bytes, {due} were due")
        return r

    def floor(self, port: int, objects: list[tuple[str, int]], concurrency: int, in_parts: bool = False) -> dict:
        lines = []
        for key, size in objects:
            url = presign(port, f"/bench/{key}")
            lines += [f"{url}\t{at}\t{min(at + PART, size) - 1}" for at in range(0, size, PART)] if in_parts else [url]
        return self.answer([str(self.build / "bench/floor_s3"), str(concurrency)], "\n".join(lines) + "\n", self.env(port),
                           sum(size for _, size in objects))

    def ours(self, port: int, objects: list[tuple[str, int]], options: str = "-", depth: int = 256) -> dict:
        lines = "".join(f"{key}\t0\t-1\t{size}\n" for key, size in objects)
        return self.answer([str(self.build / "tests/io/s3/s3_tool"), "run", options, "s3://bench", str(depth)], lines, self.env(port),
                           sum(size for _, size in objects))

    # ---- sections

    def small(self, name: str, port: int, tries: tuple[int, ...]) -> None:
        for _ in range(self.options.rounds):
            best = None
            for concurrency in tries:
                r = self.floor(port, self.objects, concurrency)
                self.note(f"{name}_floor_{concurrency}", r["objects_per_second"])
                best = r if best is None or r["objects_per_second"] > best["objects_per_second"] else best
            ours = self.ours(port, self.objects)
            assert best
            for side, r in (("floor", best), ("ours", ours)):
                self.note(f"{name}_{side}_objects_per_second", r["objects_per_second"])
                self.note(f"{name}_{side}_cpu_ms_per_object", 1000 * r["cpu_seconds"] / r["objects"])
            self.note(f"{name}_window", ours["window"])
            self.note(f"{name}_requests_per_object", ours["requests"] / ours["objects"])
        self.row(f"{name}: objects/s", f"{name}_ours_objects_per_second", f"{name}_floor_objects_per_second", ">= 0.9")
        self.row(f"{name}: CPU ms per object", f"{name}_ours_cpu_ms_per_object", f"{name}_floor_cpu_ms_per_object", "<= 1.2")

    def large_objects(self, name: str, port: int, tries: tuple[int, ...]) -> None:
        for _ in range(self.options.rounds):
            best = max(self.floor(port, self.large, c, in_parts=True)["bytes_per_second"] for c in tries)
            self.note(f"{name}_floor_mb_per_second", best / 1e6)
            self.note(f"{name}_ours_mb_per_second", self.ours(port, self.large)["bytes_per_second"] / 1e6)
        self.row(f"{name}: MB/s", f"{name}_ours_mb_per_second", f"{name}_floor_mb_per_second", ">= 0.9")

    def stage(self, name: str, port: int, tries: tuple[int, ...]) -> None:
        """Staging into memory against the slower of its halves: the bare loop at its best concurrency, and the files written alone. On a
        disk the row would tell of ext4, which searches long for an inode while thousands of others were deleted a minute ago."""
        source, due = str(self.folder / "root/bench/more"), sum(size for _, size in self.more)
        for _ in range(self.options.rounds):
            memory = Path(tempfile.mkdtemp(prefix="fullbore-s3-", dir="/dev/shm"))
            alone, target = str(memory / "alone"), str(memory / "target")
            read = min(self.floor(port, self.more, c)["seconds"] for c in tries)
            write = self.answer([str(self.build / "bench/floor_stage"), "write", source, alone], "", self.env(port), due)["seconds"]
            both = self.answer([str(self.build / "src/cli/fullbore"), "stage", "s3://bench/more", target, "--json"], "", self.env(port),
                               due)
            shutil.rmtree(memory)
            self.note(f"{name}_source_alone_seconds", read)
            self.note(f"{name}_target_alone_seconds", write)
            self.note(f"{name}_slower_objects_per_second", len(self.more) / max(read, write))
            self.note(f"{name}_objects_per_second", both["copied_files"] / both["seconds"])
        self.row(f"{name}: objects/s against the slower of source and target alone", f"{name}_objects_per_second",
                 f"{name}_slower_objects_per_second", ">= 0.9")

    def row(self, what: str, ours: str, other: str, wanted: str) -> None:
        a, b = self.median(ours), self.median(other)
        print(f"  {what}: {a:.3g} | {b:.3g} | {a / b:.3f} (wanted {wanted})", flush=True)

    def hedge(self) -> None:
        """1 % of the requests are answered 5 s late: by the tests' own server, since no real one does it on demand."""
        sys.path.insert(0, str(ROOT / "tests/io/s3"))
        from server import ACCESS_KEY, SECRET_KEY, Fault, Server
        from server import REGION as THEIR_REGION

        server = Server()
        count = self.options.hedge_objects
        for i in range(500):
            server.put("bench", f"o{i}", b"x" * 2000)
        env = self.env(0) | {"AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                             "AWS_REGION": THEIR_REGION}
        lines = "".join(f"o{i % 500}\t0\t-1\t2000\n" for i in range(count))
        for name, options in (("with", "-"), ("without", "hedge=0")):
            server.faults = [Fault("delay", "/o", every=100, seconds=5)]
            r = self.answer([str(self.build / "tests/io/s3/s3_tool"), "run", options, "s3://bench", "64"], lines, env, 2000 * count)
            self.note(f"hedge_{name}_p999_ms", r["p999_ms"])
            self.note(f"hedge_{name}_requests_per_object", r["requests"] / r["objects"])
            server.log.clear()
        server.stop()
        a, b = self.median("hedge_with_p999_ms"), self.median("hedge_without_p999_ms")
        print(f"  p99.9 with and without second requests: {a:.0f} | {b:.0f} ms | {b / a:.1f} times lower (wanted >= 5); "
              f"{100 * self.median('hedge_with_requests_per_object') - 100:.1f} % more requests (wanted <= 5)", flush=True)

    def feed(self, name: str, port: int) -> None:
        for _ in range(self.options.rounds):
            done = subprocess.run([str(self.build / "src/cli/fullbore"), "bench", "s3://bench/photos", "--transform", "rrc224", "--dtype",
                                   "uint8", "--batch-size", "64", "--json"], capture_output=True, text=True, env=self.env(port))
            if done.returncode:
                raise SystemExit(f"bench: {done.stderr[-1000:]}")
            self.note(f"{name}_samples_per_second", json.loads(done.stdout)["samples_per_second"])
        print(f"  {name}: decoded and cropped, samples/s: {self.median(f'{name}_samples_per_second'):.0f}", flush=True)

    def accelerator(self, name: str, port: int) -> None:
        """An emulated accelerator that takes 0.8 of what comes without one. Both start with nothing: no listing, no checkpoints of the
        photographs, an empty disk cache. Epoch 1 is a new process on what epoch 0 left."""
        base = [str(self.build / "src/cli/fullbore"), "bench", "s3://bench/more", "--transform", "rrc224", "--dtype", "uint8",
                "--batch-size", "64", "--json"]
        for turn in range(self.options.rounds):
            folder = self.folder / f"{name}-{turn}"  # none is removed before the end: ext4 searches long after many files were

            def run(known: str, *more: str) -> dict:
                env = self.env(port) | {"XDG_CACHE_HOME": str(folder / known)}
                done = subprocess.run([*base, *more], capture_output=True, text=True, env=env)
                if done.returncode:
                    raise SystemExit(f"bench: {done.stderr[-1000:]}")
                return json.loads(done.stdout)

            rate = run("known-alone")["samples_per_second"]
            self.note(f"{name}_attainable_samples_per_second", rate)
            for epoch in (0, 1):
                r = run("known", "--step-ms", f"{1e3 * 64 / (0.8 * rate):.3f}", "--cache-dir", str(folder / "disk"))
                self.note(f"{name}_utilization_epoch_{epoch}", r["accelerator_utilization_ratio"])
        print(f"  {name}: at 0.8 of {self.median(f'{name}_attainable_samples_per_second'):.0f} samples/s the accelerator is busy "
              f"{self.median(f'{name}_utilization_epoch_0'):.3f} of epoch 0 (wanted >= 0.95), "
              f"{self.median(f'{name}_utilization_epoch_1'):.3f} of epoch 1 from the disk cache (wanted >= 0.99)", flush=True)

    def peers(self, name: str, port: int) -> None:
        for peer in ("boto3", "s3torchconnector"):
            done = subprocess.run([sys.executable, str(ROOT / "bench/s3_peers.py"), peer, "photos", "8"], capture_output=True, text=True,
                                  env=self.env(port))
            if done.returncode:
                print(f"  {peer}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", flush=True)
                continue
            r = json.loads(done.stdout)
            if r["objects"] != len(self.objects):
                raise SystemExit(f"bench: {peer} delivered {r['objects']} objects, {len(self.objects)} were due")
            self.note(f"{name}_{peer}_objects_per_second", r["objects_per_second"])
            self.row(f"{name}: objects/s against {peer} in a DataLoader, 8 workers", f"{name}_ours_objects_per_second",
                     f"{name}_{peer}_objects_per_second", ">= 10 at 30 ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where the command and the loops were built")
    parser.add_argument("--photos", type=Path, default=ROOT / ".cache" / "photos-4000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hedge-objects", type=int, default=20_000)
    parser.add_argument("--peers", action="store_true", help="also boto3 and s3torchconnector in a DataLoader, if they are installed")
    parser.add_argument("--only", nargs="+", default=["near", "far", "stage", "large", "hedge", "feed", "accelerator"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.photos.is_dir():
        print(f"{options.photos} is not there: 'make bench' makes it", file=sys.stderr)
        return 1
    b = Bench(options)
    try:
        for name, port, tries in (("near", b.port, FLOOR_NEAR), ("far", b.far_port, FLOOR_FAR)):
            if name in options.only:
                b.small(name, port, tries)
                if options.peers:
                    b.peers(name, port)
            if "stage" in options.only:
                b.stage(f"stage_{name}", port, tries)
            if "feed" in options.only:
                b.feed(f"feed_{name}", port)
            if "accelerator" in options.only:
                b.accelerator(f"accelerator_{name}", port)
        for peer in ("boto3", "s3torchconnector"):  # who only fetches, beside us who decode and crop as well
            if f"far_{peer}_objects_per_second" in b.figures and "feed" in options.only:
                b.row(f"far: decoded and cropped samples/s against the bytes alone by {peer}", "feed_far_samples_per_second",
                      f"far_{peer}_objects_per_second", "more than 1")
        if "large" in options.only:
            b.large_objects("large_near", b.port, FLOOR_LARGE)
            b.large_objects("large_far", b.far_port, (16, 32))
        if "hedge" in options.only:
            b.hedge()
    finally:
        b.close()
    if options.json:
        print(json.dumps(b.figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
