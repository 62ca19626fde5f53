#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A job whose steps change, each in its own way (several at once, with commas between):

    evaluation   every 50 steps a batch sixteen times as large, without gradients
    growing      sequences become longer with every step, up to ten times
    accumulate   a step of the optimizer every eight batches
    checkpoint   every 200 steps all weights and state are written to a file
    leak         a block of 20,000 bytes a step that nobody frees
    graph        the same of losses, which keep what their backward pass would need
    queue        the last 200 blocks of 20,000 bytes are kept, one a step
    cache        the first 300 steps each leave a block of 20,000 bytes
    spike        once in 1,000 steps 64 MiB, until the step is over; after SIGUSR2 twice as much, once

It says what it did, beside what job.py says, at the end: {"steps": …, "evaluations": …,
"evaluation_ns": the shortest, "spikes": [numbers of steps], …}.
"""
import collections
import io
import json
import signal
import sys
import time

import job

HOW = ("evaluation", "growing", "accumulate", "checkpoint", "leak", "graph", "queue", "cache", "spike")
SPIKE = 64 << 20
did = collections.defaultdict(int)


def build(args):
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kept, losses, cached, wanted = [], [], [], []
    queue = collections.deque(maxlen=200)
    signal.signal(signal.SIGUSR2, lambda *_: wanted.append(1))

    def train(rows, retain=False):
        loss = model(torch.randn(rows, 256)).square().mean()
        loss.backward(retain_graph=retain)
        return loss

    def step():
        number = did["steps"] = did["steps"] + 1
        rows = args.batch * (1 + min(number / 500, 9) if "growing" in args.how else 1)
        optimizer.zero_grad()
        for _ in range(8 if "accumulate" in args.how else 1):
            loss = train(int(rows))
        if "spike" in args.how and not number % 1000:
            did["spikes"] += 1
            train(int(rows)) + torch.zeros(SPIKE // 4).sum()
        if wanted:
            wanted.clear()
            torch.zeros(2 * SPIKE // 4).sum()
        if "leak" in args.how:
            kept.append(torch.ones(5000))
        if "graph" in args.how:
            losses.append(train(args.batch, retain=True))
        if "queue" in args.how:
            queue.append(torch.randn(5000))
        if "cache" in args.how and number <= 300:
            cached.append(torch.randn(5000))
        if "evaluation" in args.how and not number % 50:
            did["evaluations"] += 1
            begin = time.monotonic_ns()
            with torch.no_grad():
                for _ in range(8):
                    model(torch.randn(16 * args.batch, 256))
            did["evaluation_ns"] = min(did["evaluation_ns"] or sys.maxsize, time.monotonic_ns() - begin)
        if "checkpoint" in args.how and not number % 200:
            did["checkpoints"] += 1
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())
        optimizer.step()
        return loss

    return step


if __name__ == "__main__":
    sys.argv, how = [a for a in sys.argv if a.split(",")[0] not in HOW], next((a for a in sys.argv if a.split(",")[0] in HOW), "")

    def build_how(args):
        args.how = how.split(",")
        return build(args)

    job.main(build_how, __doc__)
    print(json.dumps(did), flush=True)
