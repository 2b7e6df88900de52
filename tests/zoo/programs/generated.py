"""One program of the generator (../generate.py): a training loop as people write them, that times itself.

    generated.py --seed N [--without CAUSE]... [--set KEY=VALUE]... [--truth FILE] [--data DIR] [--port N] [--seconds S]
    generated.py --seed N --serve              the server that programs with source "network" ask; prints its port

Its limits are set by whoever starts it (../generated_runs.py). With --truth it writes at its end what its own clock counted.
"""

import argparse
import collections
import contextlib
import gc
import itertools
import json
import os
import queue
import random
import socket
import struct
import sys
import tempfile
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from generate import Plan, variant
from stopwatch import Stopwatch
from truth import causes, shares

SIDE = 224
numbers = np.linspace(0, 1, 4096)


def crunch(cpu_ms: float, is_python: bool = False) -> None:
    """Uses the CPU, with the interpreter's lock held or not."""
    end = time.thread_time() + cpu_ms / 1e3
    scratch, x = np.empty_like(numbers), 0
    while time.thread_time() < end:
        if is_python:
            for k in range(200):
                x += k * k
        else:
            np.tanh(numbers, out=scratch)


# ---- samples


class Samples:
    """Sample number i, read and decoded by whoever asks for it."""

    def __init__(self, plan: Plan, data: Path, port: int, clock: Stopwatch) -> None:
        self.plan, self.data, self.port, self.clock = plan, data, port, clock
        folder = data / plan.source
        self.paths = sorted(p for p in folder.rglob("*") if p.is_file()) if plan.source in ("small", "large", "photos", "zlib") else []
        random.Random(plan.seed).shuffle(self.paths)
        self.ready = np.full((3, 64, 64), 0.5, dtype=np.float32)
        self.own = threading.local()  # a connection, a file: of each thread
        self.mapped = np.memmap(data / "big.bin", dtype=np.uint8, mode="r").reshape(-1, 4096) if plan.source == "mapped" else None
        self.load = getattr(self, f"load_{plan.source}")

    def __call__(self, i: int) -> np.ndarray:
        sample = self.load(i)
        if self.plan.cost_ms and self.plan.scale:
            with self.clock.work("decode"):
                crunch(self.plan.cost_ms * self.plan.scale, self.plan.is_python)
        return sample

    def read(self, i: int) -> bytes:
        with self.clock.work("read"):
            if self.plan.packed:
                return self.read_packed(i)
            with open(self.paths[i % len(self.paths)], "rb") as f:
                data = f.read()
        return data[:max(1, round(len(data) * self.plan.bytes_scale))] if self.plan.source == "large" else data

    def read_packed(self, i: int) -> bytes:
        """Neighbours of one file instead of files of their own: a megabyte is read for some eighty of them."""
        if not getattr(self.own, "block", b""):
            self.own.at = (getattr(self.own, "at", 0) + random.randrange(100)) % 380
            with open(self.data / "big.bin", "rb", buffering=0) as f:
                f.seek(self.own.at << 20)
                self.own.block = f.read(1 << 20)
        sample, self.own.block = self.own.block[:12000], self.own.block[12000:]
        return sample.ljust(12000, b"\0")

    def load_memory(self, i: int) -> np.ndarray:
        return self.ready

    def load_small(self, i: int) -> np.ndarray:
        return np.frombuffer(bytearray(self.read(i)), dtype=np.uint8)

    def load_large(self, i: int) -> np.ndarray:
        if self.plan.bytes_scale < 1:
            with self.clock.work("read"), open(self.paths[i % len(self.paths)], "rb", buffering=0) as f:
                return np.frombuffer(bytearray(f.read(round(4_000_000 * self.plan.bytes_scale))), dtype=np.uint8)
        return np.frombuffer(bytearray(self.read(i)), dtype=np.uint8)

    def load_photos(self, i: int) -> np.ndarray:
        data = self.read(i)
        if not self.plan.scale:
            return self.ready
        from io import BytesIO

        from PIL import Image
        with self.clock.work("decode"):
            image = Image.open(BytesIO(data)).convert("RGB")
            if self.plan.scale < 1:  # a smaller picture: half the CPU
                image = image.crop((0, 0, image.width, round(image.height * self.plan.scale)))
            image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            return np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 255

    def load_zlib(self, i: int) -> np.ndarray:
        data = self.read(i)
        if not self.plan.scale:
            return self.ready
        with self.clock.work("decode"):
            unpacked = zlib.decompressobj().decompress(data, round(3 * SIDE * SIDE * self.plan.scale))
            return np.frombuffer(unpacked, dtype=np.uint8).astype(np.float32)

    def load_rows(self, i: int) -> np.ndarray:
        if not self.plan.scale:
            return self.ready
        if not hasattr(self.own, "rows"):
            import h5py
            self.own.rows = h5py.File(self.data / "rows.h5", "r")["x"]
        rows = self.own.rows
        at = i * 7919 % (rows.shape[0] // 256) * 256
        with self.clock.work("decode"):
            return rows[at:at + round(64 * self.plan.scale)]

    def load_network(self, i: int) -> np.ndarray:
        if not hasattr(self.own, "socket"):
            self.own.socket = socket.create_connection(("127.0.0.1", self.port))
        with self.clock.work("network"):
            self.own.socket.sendall(b"next")
            length = struct.unpack("<I", self.own.socket.recv(4, socket.MSG_WAITALL))[0]
            return np.frombuffer(bytearray(self.own.socket.recv(length, socket.MSG_WAITALL)), dtype=np.uint8)

    def load_mapped(self, i: int) -> np.ndarray:
        with self.clock.work("fault"):
            return self.mapped[np.random.randint(0, len(self.mapped), 4)]


def serve(plan: Plan) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)

    def answer(client: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):  # the loader was ended
            while client.recv(4):
                time.sleep(plan.answer_ms / 1e3)
                client.sendall(struct.pack("<I", 60000) + bytes(60000))

    while True:
        client, _ = server.accept()
        threading.Thread(target=answer, args=(client,), daemon=True).start()


# ---- loaders


class Loaders:
    """What the loop iterates over, of the plan's kind: one epoch for each iter()."""

    def __init__(self, plan: Plan, samples: Samples, clock: Stopwatch) -> None:
        self.plan, self.samples, self.clock = plan, samples, clock
        self.children: list = []

    def make(self):
        return getattr(self, f"make_{self.plan.loader}")()

    def batch(self, number: int) -> list[np.ndarray]:
        first = number * self.plan.batch
        return [self.samples(i) for i in range(first, first + self.plan.batch)]

    def collate(self, samples: list[np.ndarray]) -> np.ndarray:
        """In the main thread."""
        with self.clock.work("collate"):
            if self.plan.collate_ms:
                crunch(self.plan.collate_ms * self.plan.scale)
            return np.stack(samples)

    def make_none(self):
        return Epochs(self.plan, (self.collate(self.batch(number)) for number in itertools.count()))

    def make_pool(self):
        """The next batches are loaded by a ThreadPoolExecutor."""
        numbers = itertools.count()
        pool = ThreadPoolExecutor(self.plan.workers, initializer=lambda: self.clock.is_loader(next(numbers)))
        ahead = collections.deque(pool.submit(self.batch, number) for number in range(2 * self.plan.workers))

        def batches():
            for number in itertools.count(len(ahead)):
                samples = ahead.popleft().result()
                ahead.append(pool.submit(self.batch, number))
                yield self.collate(samples)

        return Epochs(self.plan, batches())

    def make_queue_threads(self):
        ready: queue.Queue = queue.Queue(maxsize=2 * self.plan.workers)

        def load(first: int) -> None:
            self.clock.is_loader(first)
            for number in itertools.count(first, self.plan.workers):
                ready.put(self.batch(number))

        for k in range(self.plan.workers):
            threading.Thread(target=load, args=(k,), daemon=True).start()
        return Epochs(self.plan, (self.collate(ready.get(timeout=60)) for _ in itertools.count()))

    def make_queue_processes(self):
        import multiprocessing
        ready: multiprocessing.Queue = multiprocessing.Queue(2 * self.plan.workers)

        def load(first: int) -> None:
            self.clock.is_loader(first)
            for number in itertools.count(first, self.plan.workers):
                samples = self.batch(number)
                with self.clock.work("collate"):
                    batch = np.stack(samples)
                ready.put(batch)

        for k in range(self.plan.workers):
            child = multiprocessing.get_context("fork").Process(target=load, args=(k,), daemon=True)
            child.start()
            self.children.append(child)

        def take() -> np.ndarray:
            batch = ready.get(timeout=60)
            if self.plan.collate_ms:
                with self.clock.work("collate"):
                    crunch(self.plan.collate_ms * self.plan.scale)
            return batch

        return Epochs(self.plan, (take() for _ in itertools.count()))

    def make_inline(self):
        return self.data_loader(MapStyle(self.plan, self.samples), 0)

    def make_processes(self):
        return self.data_loader(MapStyle(self.plan, self.samples), self.plan.workers)

    def make_iterable(self):
        return self.data_loader(iterable_style(self.plan, self.samples), self.plan.workers)

    def data_loader(self, dataset, workers: int):
        import torch.utils.data as data

        def begin(number: int) -> None:
            self.clock.is_loader(number)
            if self.plan.start_ms:
                time.sleep(self.plan.start_ms / 1e3)  # opens its files, builds its tables

        def collate(samples: list):
            batch = data.default_collate(samples)
            if self.plan.collate_ms:
                with self.clock.work("collate"):
                    crunch(self.plan.collate_ms * self.plan.scale)
            return batch

        return data.DataLoader(dataset, batch_size=self.plan.batch, num_workers=workers, pin_memory=self.plan.pin, collate_fn=collate,
                               worker_init_fn=begin if workers else None, persistent_workers=workers > 0 and self.plan.persistent)

    def make_fullbore(self):
        import fullbore as fb
        transforms = [fb.RandomResizedCrop(SIDE), fb.RandomHorizontalFlip()]
        return fb.Loader(self.samples.data / "photos", batch_size=self.plan.batch, shuffle=True, seed=self.plan.seed, transforms=transforms,
                         threads=self.plan.workers)


class Epochs:
    """A stream of batches, cut into epochs."""

    def __init__(self, plan: Plan, batches) -> None:
        self.plan, self.batches = plan, batches

    def __iter__(self):
        return itertools.islice(self.batches, self.plan.epoch_steps)


class MapStyle:
    def __init__(self, plan: Plan, samples: Samples) -> None:
        self.plan, self.samples = plan, samples

    def __len__(self) -> int:
        return self.plan.epoch_steps * self.plan.batch

    def __getitem__(self, i: int):
        import torch
        return torch.from_numpy(self.samples(i))


def iterable_style(plan: Plan, samples: Samples):
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

    class Stream(IterableDataset):
        def __iter__(self):
            worker = get_worker_info()
            for i in range(worker.id, plan.epoch_steps * plan.batch, worker.num_workers):
                yield torch.from_numpy(samples(i))

    return Stream()


# ---- the loop


class Step:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        if plan.step == "all":
            import torch
            self.weights, self.multiply = torch.rand(512, 512), torch.mm
        self.run = getattr(self, f"run_{plan.step}")

    def run_sleep(self, ms: float) -> None:
        time.sleep(ms / 1e3)

    def run_one(self, ms: float) -> None:
        crunch(ms)

    def run_all(self, ms: float) -> None:
        """A fixed amount of work: about 7 ms of each core for a product, on two cores."""
        for _ in range(max(1, round(ms / 7))):
            self.multiply(self.weights, self.weights)

    def run_syncs(self, ms: float) -> None:
        """Launch something, wait for it, look at it: as .item() in a loop."""
        for _ in range(5):
            crunch(0.05 * ms)
            time.sleep(0.15 * ms / 1e3)


class Pauses:
    """What the loop does besides training."""

    def __init__(self, plan: Plan, samples: Samples, step: Step, clock: Stopwatch, folder: Path) -> None:
        self.plan, self.samples, self.step, self.clock, self.folder = plan, samples, step, clock, folder
        self.weights = np.random.default_rng(0).random(round(plan.checkpoint_mb * 1e6 / 8)) if plan.checkpoint_every else None
        self.objects = [{"step": i} for i in range(800_000)] if plan.garbage_every else []
        if plan.log_every:
            self.log = open(folder / "log.jsonl", "w")

    def after_step(self, number: int) -> None:
        if self.plan.checkpoint_every and number % self.plan.checkpoint_every == 0:
            with self.clock.part("checkpoint"):
                self.save()
        if self.plan.log_every and number % self.plan.log_every == 0:
            with self.clock.part("logging"):
                self.write_log(number)
        if self.plan.garbage_every and number % self.plan.garbage_every == 0:
            with self.clock.part("gc"):
                gc.collect()

    def save(self) -> None:
        with open(self.folder / "checkpoint.part", "wb") as f:
            np.save(f, self.weights)
            f.flush()
            os.fsync(f.fileno())
        os.replace(self.folder / "checkpoint.part", self.folder / "checkpoint.npy")

    def write_log(self, number: int) -> None:
        end = time.thread_time() + self.plan.log_ms / 1e3
        while time.thread_time() < end:
            self.log.write(json.dumps({"step": number, "histogram": numbers[:200].tolist()}) + "\n")
            self.log.flush()

    def validation_batches(self):
        for number in range(self.plan.validation_steps):
            samples = []
            for i in range(8):
                samples.append(self.samples(8 * number + i))
                with self.clock.work("decode"):
                    crunch(self.plan.validation_ms)
            yield np.stack(samples)

    def after_epoch(self) -> None:
        if not self.plan.validation_ms:
            return
        for _ in self.clock.timed(self.validation_batches(), "validation", "validation"):
            with self.clock.part("validation step"):
                self.step.run(0.3 * self.plan.step_ms)


def train(plan: Plan, loader, step: Step, pauses: Pauses, clock: Stopwatch) -> None:
    number = 0
    starts_anew = "restart" if plan.loader in ("processes", "iterable") and not plan.persistent else "next"
    for epoch in itertools.count():
        for batch in clock.timed(loader, "next", starts_anew):
            if plan.transform_ms:
                with clock.part("transform"):
                    crunch(plan.transform_ms)
            with clock.part("step"):
                step.run(plan.step_ms)
            number += 1
            pauses.after_step(number)
            if clock.is_over():
                return
        pauses.after_epoch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--without", action="append", default=[], metavar="CAUSE")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--truth", default="", metavar="FILE")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "fullbore-zoo")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()), help="checkpoints and logs go there")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=7)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()
    plan = variant(args.seed, args.without, args.set)
    if args.serve:
        serve(plan)
    if plan.needs_torch:
        import torch
        if plan.step != "all":
            torch.set_num_threads(1)
    clock = Stopwatch(args.seconds)
    samples = Samples(plan, args.data, args.port, clock)
    loaders = Loaders(plan, samples, clock)
    loader = loaders.make()
    if plan.monitor:
        import fullbore as fb
        loader = fb.monitor(loader, quiet=True)
    step = Step(plan)
    train(plan, loader, step, Pauses(plan, samples, step, clock, args.out), clock)
    told = clock.truth()
    clock.write(args.truth, seed=args.seed, **({"shares": shares(told), "causes": causes(told, plan)} if told["steps"] else {}))
    for child in loaders.children:
        child.kill()
    sys.stdout.flush()
    if plan.has_threads:
        os._exit(0)  # daemon threads inside a library may block the normal end


if __name__ == "__main__":
    main()
