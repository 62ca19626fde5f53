#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A module that torch.compile compiles again for each size of batch, and torch's own list of that (test_recompiles.py).

    ready PID       imported; with --warm compiled once already; waits
    went            after "go" on stdin: one step for each of SIZES was done. --out has what is said below
    stop            ends

The backend makes a tensor of EXTRA bytes each time that it compiles a forward, and lets go of it when it has slept.
--out: {"step_ns": [begin, end] in ns since 1970 of all steps, "rows": [{id, begin_us, end_us, reason, function, backward}]}.
"""
import argparse
import json
import os
import sys
import time

import torch
from torch import nn

SIZES = (8, 9, 10, 11, 12)
LIMIT = 4
EXTRA = 64 << 20
SLEEPS_S = 0.25


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 256)

    def forward(self, x):
        return self.linear(x).relu()


def backend(graph, example):
    from torch._dynamo.backends.registry import lookup_backend
    extra = torch.ones(EXTRA // 4)
    time.sleep(SLEEPS_S)
    del extra
    return lookup_backend("aot_eager")(graph, example)


def rows():
    from torch._dynamo.utils import _compilation_metrics
    return [{"id": str(m.compile_id), "begin_us": m.start_time_us, "end_us": m.end_time_us, "reason": m.recompile_reason,
             "failed": m.fail_reason, "function": m.co_name, "line": m.co_firstlineno, "backward": m.is_forward is False}
            for m in _compilation_metrics]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--warm", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = LIMIT
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    compiled = torch.compile(net, backend=backend, dynamic=False)

    def step(size):
        compiled(torch.randn(size, 256)).sum().backward()
        opt.step()
        opt.zero_grad()

    for size in SIZES[:2] if args.warm else ():
        step(size)
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        if line.strip() == "stop":
            return
        begin = time.time_ns()
        for size in SIZES:
            step(size)
        with open(args.out, "w") as f:
            json.dump({"begin": begin, "end": time.time_ns(), "rows": rows()}, f)
        print("went", flush=True)


main()
