#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A small net that knows what it holds: for questions with one right answer (test_tasks.py).

Says "ready PID" after some steps; each "count N" is answered by "counted M" after N more steps, M being all of them so far; "stop"
is answered by "truth JSON": bytes of parameters and optimizer state by module, outputs of modules, what is leaked a step.
"""
import argparse
import json
import os
import select
import sys
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.small = nn.Linear(256, 256)
        self.big = nn.Linear(256, wide)
        self.act = nn.ReLU()
        self.out = nn.Linear(wide, 8)

    def forward(self, x):
        return self.out(self.act(self.big(self.small(x))))


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--wide", type=int, default=1024)
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--leak", type=int, default=0, help="bytes a step")
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, kept, steps = Net(args.wide), [], 0
    opt = torch.optim.Adam(net.parameters())
    x, y = torch.randn(args.batch, 256), torch.randn(args.batch, 8)

    def step():
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        if args.leak:
            kept.append(torch.zeros(args.leak // 4))
        time.sleep(0.01)

    for _ in range(3):
        step()
        steps += 1
    print("ready", os.getpid(), flush=True)
    until = None
    while True:
        step()
        steps += 1
        if until == steps:
            print("counted", steps, flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            word, *rest = sys.stdin.readline().split() or ["stop"]
            if word == "stop":
                break
            until = steps + int(rest[0])
    by = {name: {"parameter": bytes_of(m.parameters(recurse=False)),
                 "optimizer_state": bytes_of(v for q in m.parameters(recurse=False) for v in opt.state[q].values())}
          for name, m in net.named_modules()}
    out = {"big": args.batch * args.wide * 4, "act": args.batch * args.wide * 4, "small": args.batch * 256 * 4, "out": args.batch * 8 * 4}
    print("truth", json.dumps({"pid": os.getpid(), "steps": steps, "modules": by, "outputs": out, "leak": args.leak, "largest": "big.weight",
                               "parameter": bytes_of(net.parameters()),
                               "optimizer_state": sum(m["optimizer_state"] for m in by.values())}), flush=True)


if __name__ == "__main__":
    main()
