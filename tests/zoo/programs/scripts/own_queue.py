"""A home-made prefetcher: threads (or processes) that parse text records and put batches into a queue, a small model that takes them."""

import argparse
import itertools
import json
import multiprocessing
import os
import queue
import random
import threading

import torch
from script_common import parse
from torch import nn


class Prefetcher:
    def __init__(self, lines, batch_size, threads, processes, clock):
        self.lines, self.batch_size, self.clock = lines, batch_size, clock
        self.queue = multiprocessing.Queue(2 * processes) if processes else queue.Queue(2 * threads)
        begin = multiprocessing.Process if processes else threading.Thread
        self.loaders = [begin(target=self.work, args=(k,), daemon=True) for k in range(processes or threads)]

    def start(self):
        for loader in self.loaders:
            loader.start()

    def load(self):
        with self.clock.work("decode"):
            records = [json.loads(random.choice(self.lines)) for _ in range(self.batch_size)]
            return [r["values"] for r in records], [r["label"] for r in records]

    def work(self, k):
        self.clock.is_loader(k)
        while True:
            self.queue.put(self.load())

    def __iter__(self):
        while True:
            yield self.queue.get()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    args, clock = parse(parser)
    lines = [json.dumps({"values": [random.random() for _ in range(256)], "label": i % 10}) for i in range(2000)]
    model = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = Prefetcher(lines, args.batch_size, args.threads, args.processes, clock)
    if args.step_only:
        batches = itertools.repeat(batches.load())
    else:
        batches.start()
    for step, (values, labels) in enumerate(clock.timed(batches)):
        with clock.part("step"):
            loss = nn.functional.cross_entropy(model(torch.tensor(values)), torch.tensor(labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 100 == 0:
            print(step, loss.item())
        if clock.is_over():
            break
    clock.write(args.truth)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)  # the threads never end


if __name__ == "__main__":
    main()
