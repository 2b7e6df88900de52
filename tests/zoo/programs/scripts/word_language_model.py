"""A recurrent language model whose whole corpus is a tensor in memory: no loader at all, get_batch() cuts slices."""

import argparse
import math
import time

import torch
from script_common import parse
from torch import nn


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, 2)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.encoder(x), hidden)
        return self.decoder(output).view(-1, self.decoder.out_features), hidden


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


def batches(source, bptt):
    for i in range(0, source.size(0) - 1, bptt):
        yield get_batch(source, i, bptt)


def repackage_hidden(h):
    return tuple(v.detach() for v in h)


def train(args, model, train_data, criterion, epoch, clock):
    hidden = None
    total_loss, start_time = 0.0, time.time()
    for batch, (data, targets) in enumerate(clock.timed(batches(train_data, args.bptt))):
        with clock.part("step"):
            model.zero_grad()
            hidden = repackage_hidden(hidden) if hidden and hidden[0].size(1) == data.size(1) else None
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-args.lr)
            total_loss += loss.item()
            if batch % args.log_interval == 0 and batch > 0:
                elapsed = time.time() - start_time
                print(f"| epoch {epoch:3d} | {batch:5d} batches | ms/batch {elapsed * 1000 / args.log_interval:5.2f} | "
                      f"ppl {math.exp(min(20, total_loss / args.log_interval)):8.2f}")
                total_loss, start_time = 0.0, time.time()
        if clock.is_over():
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description="PyTorch Wikitext-2 RNN Language Model")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--bptt", type=int, default=24)
    parser.add_argument("--lr", type=float, default=5)
    parser.add_argument("--log-interval", type=int, default=20)
    args, clock = parse(parser)
    torch.manual_seed(1)
    train_data = batchify(torch.randint(0, 2000, (200_000,)), args.batch_size)
    model = RNNModel(2000, 128, 128)
    epoch = 1
    while not train(args, model, train_data, nn.CrossEntropyLoss(), epoch, clock):
        epoch += 1
    clock.write(args.truth)


if __name__ == "__main__":
    main()
