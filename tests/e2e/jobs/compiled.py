#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A job of compiled parts, which says when each of them ran (test_modules.py).

    ready PID          training, compiled
    watched            after `watch` on stdin, when twenty steps have gone by
    stop               --out has [begin, end, path, phase], ns since 1970, of the steps from `watch` on

A module that is not compiled calls one that is compiled in place (Module.compile), one behind torch.compile, and two that are
not. It runs them one after the other and looks at the clock between; so do hooks of the tensors between them in backward.
"""
import argparse
import json
import os
import sys
import threading
import time

import torch
from torch import nn

WIDTH = 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Outer(nn.Module):
    def __init__(self, backend):
        super().__init__()
        self.first = Block()
        self.placed = Block()
        self.placed.compile(backend=backend)
        self.wrapped = torch.compile(Block(), backend=backend)
        self.last = nn.Linear(WIDTH, WIDTH)
        self.told = []

    def forward(self, x):
        for name in ("first", "placed", "wrapped", "last"):
            begin = time.time_ns()
            x = getattr(self, name)(x)
            self.told.append([begin, time.time_ns(), name, "forward"])
            if x.requires_grad:
                x.register_hook(lambda _, name=name: self.told.append([time.time_ns(), None, name, "backward"]))
        return x


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--backend", default="aot_eager")
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Outer(a.backend)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(64, WIDTH, requires_grad=True)  # so that the end of backward has a hook
    x.register_hook(lambda _: model.told.append([time.time_ns(), None, None, "backward"]))
    asked = []
    threading.Thread(target=lambda: asked.extend(line.strip() for line in sys.stdin), daemon=True).start()

    def step():
        model.told.clear()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        x.grad = None
        told = [t for t in model.told if t[3] == "forward"]
        hooks = [t for t in model.told if t[3] == "backward"]
        told += [[t[0], n[0], t[2], "backward"] for t, n in zip(hooks, hooks[1:])]
        return told
    for _ in range(3):
        step()
    print(f"ready {os.getpid()}", flush=True)
    said = []
    while "stop" not in asked:
        said = said[-100:] + [step()] if "watch" in asked else said
        if len(said) == 20:
            print("watched", flush=True)
        time.sleep(0.02)
    with open(a.out, "w") as f:
        json.dump([t for s in said for t in s], f)
    print("stopped", flush=True)
    os._exit(0)  # a thread waits for stdin


if __name__ == "__main__":
    main()
