"""Batches from a server that answers after a while: one request at a time per worker."""
import socket
import struct
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset
from zoo_common import running, say_rate, vary

DELAY = vary(0.03)


def serve(port_out) -> None:
    import threading
    s = socket.create_server(("127.0.0.1", 0))
    port_out.send(s.getsockname()[1])

    def answer(c: socket.socket) -> None:
        while c.recv(4):
            time.sleep(DELAY)
            c.sendall(struct.pack("<I", 60000) + bytes(60000))

    while True:
        c, _ = s.accept()
        threading.Thread(target=answer, args=(c,), daemon=True).start()


class Remote(IterableDataset):
    def __init__(self, port: int) -> None:
        self.port = port

    def __iter__(self):
        c = socket.create_connection(("127.0.0.1", self.port))
        while True:
            c.sendall(b"next")
            n = struct.unpack("<I", c.recv(4, socket.MSG_WAITALL))[0]
            yield torch.frombuffer(bytearray(c.recv(n, socket.MSG_WAITALL)), dtype=torch.uint8)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        class Out:
            def send(self, port: int) -> None:
                print(port, flush=True)
        serve(Out())
    step, steps, started = vary(0.006), 0, None
    for batch in DataLoader(Remote(int(sys.argv[1])), batch_size=4, num_workers=int(sys.argv[2])):
        started = started or time.monotonic()
        time.sleep(step)
        steps += 1
        if not running(started):
            break
    say_rate(steps, started)
