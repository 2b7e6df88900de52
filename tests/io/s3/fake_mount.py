"""A folder that looks like a mount of mountpoint-s3: file system type fuse, called mountpoint-s3, by a process called mount-s3.

    fake_mount.py BUCKET FOLDER FILE...     serves the files' content, read-only, in the folder until it is ended; needs root

Prints "ready" once it is mounted, or "may not" if that is not allowed. Only what looking at and reading files takes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29, 34, 36, 42)
BUFFER = 1 << 20


def attributes(node: int, size: int) -> bytes:
    mode, links = (stat.S_IFDIR | 0o755, 2) if node == 1 else (stat.S_IFREG | 0o644, 1)
    return struct.pack("<6Q10I", node, size, (size + 511) // 512, 10**9, 10**9, 10**9, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)


def entry(node: int, kind: int, name: bytes, offset: int) -> bytes:
    head = struct.pack("<QQII", node, offset, len(name), kind) + name
    return head + bytes(-len(head) % 8)


def answer(files: list[tuple[str, bytes]], operation: int, node: int, body: bytes) -> bytes | int:
    """The reply's body, or an errno."""
    content = files[node - 2][1] if node > 1 else b""
    if operation == INIT:
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, BUFFER // 2, 0, 0, 0, BUFFER // 2, 1, 0, 0, 0, *[0] * 7)
    if operation == LOOKUP:
        name = body.rstrip(b"\0").decode()
        found = next((i for i, (n, _) in enumerate(files) if n == name), None)
        if found is None:
            return errno.ENOENT
        return struct.pack("<4QII", found + 2, 0, 0, 0, 0, 0) + attributes(found + 2, len(files[found][1]))
    if operation == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(node, len(content))
    if operation in (OPEN, OPENDIR):
        return struct.pack("<QII", 0, 0, 0)
    if operation == READ:
        offset, size = struct.unpack_from("<QI", body, 8)
        return content[offset : offset + size]
    if operation == STATFS:
        return struct.pack("<5Q10I", 0, 0, 0, len(files), 0, 4096, 255, 4096, *[0] * 7)
    if operation == READDIR:
        (offset,) = struct.unpack_from("<Q", body, 8)
        names = [(1, stat.S_IFDIR >> 12, "."), (1, stat.S_IFDIR >> 12, ".."),
                 *((i + 2, stat.S_IFREG >> 12, n) for i, (n, _) in enumerate(files))]
        return b"".join(entry(n, k, name.encode(), i + 1) for i, (n, k, name) in enumerate(names) if i >= offset)
    return b"" if operation in (RELEASE, RELEASEDIR, FLUSH, ACCESS) else errno.ENOSYS


def serve(device: int, files: list[tuple[str, bytes]]) -> None:
    while True:
        try:
            request = os.read(device, BUFFER + 4096)
        except OSError as e:
            if e.errno in (errno.EINTR, errno.ENOENT):
                continue
            return  # unmounted
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        if operation in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        said = answer(files, operation, node, request[40:])
        body, failure = (said, 0) if isinstance(said, bytes) else (b"", said)
        os.write(device, struct.pack("<IiQ", 16 + len(body), -failure, unique) + body)


def main() -> None:
    folder, names = sys.argv[2], sys.argv[3:]
    files = [(Path(n).name, Path(n).read_bytes()) for n in names]
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        print("may not", flush=True)
        return
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"mountpoint-s3", folder.encode(), b"fuse", 1, options.encode()):
        print("may not", flush=True)
        return
    print("ready", flush=True)
    serve(device, files)


if __name__ == "__main__":
    main()
