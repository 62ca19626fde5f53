#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Models of odd kinds, all training at once, which say what their tensors are called (as jobs/names.py does).

    ready PID          training
    stopped            nothing changes any more; --out has {address: [kind, names, key, bytes, shape]}

Wrappers (DataParallel), scripted and traced modules, __slots__, names in other scripts, ParameterList and ParameterDict,
a class with its own __call__, modules in modules 60 deep, an async and a generator's forward, one optimizer with a closure (LBFGS),
two threads that train two models, and gc.freeze().
"""
import argparse
import asyncio
import gc
import json
import os
import sys
import threading
import time

import torch
from torch import nn

import names


class Slotted(nn.Module):
    __slots__ = ("extra", "_spare")

    def __init__(self):
        super().__init__()
        self.extra = 3
        self.linear = nn.Linear(20, 20)

    def forward(self, x):
        return self.linear(x)


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.ParameterList(nn.Parameter(torch.randn(20)) for _ in range(3))
        self.gains = nn.ParameterDict({"a": nn.Parameter(torch.ones(20)), "b": nn.Parameter(torch.ones(20))})
        self.parts = nn.ModuleDict({"up": nn.Linear(20, 30), "down": nn.Linear(30, 20)})

    def forward(self, x):
        x = (x + self.rows[0] * self.rows[1] + self.rows[2]) * self.gains["a"] * self.gains["b"]
        return self.parts["down"](self.parts["up"](x))


class OwnCall(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 2


class Deep(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.w = nn.Parameter(torch.ones(20))
        if depth:
            self.d = Deep(depth - 1)

    def forward(self, x):
        x = x * self.w
        return self.d(x) if hasattr(self, "d") else x


class Async(nn.Linear):
    async def later(self, x):
        await asyncio.sleep(0)
        return super().forward(x)

    def forward(self, x):
        return asyncio.run(self.later(x))


class Generator(nn.Linear):
    def parts(self, x):
        for half in x.chunk(2):
            yield super().forward(half)

    def forward(self, x):
        return torch.cat(list(self.parts(x)))


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.slotted = Slotted()
        self.lists = Lists()
        self.own = OwnCall(20, 20)
        self.deep = Deep(60)
        self.later = Async(20, 20)
        self.generator = Generator(20, 20)
        self.wrapped = nn.DataParallel(nn.Linear(20, 20))
        # a scripted module has its parameters in C++: they are called as in the module that it was made from
        self.source = [nn.Sequential(nn.Linear(20, 24), nn.ReLU(), nn.Linear(24, 20))]
        self.scripted = torch.jit.script(self.source[0])
        self.tied = nn.Linear(20, 20)
        self.tied.weight = self.own.weight

    def forward(self, x):
        for part in self.children():
            x = torch.tanh(part(x))
        return x


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    a = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, other = Everything(), nn.Sequential(nn.Linear(20, 28), nn.Linear(28, 20))
    setattr(model, "größe", nn.Linear(20, 20))  # memtrace tells no names in other scripts
    lbfgs = torch.optim.LBFGS(other.parameters(), lr=1e-3, max_iter=2)
    adam = torch.optim.Adam(model.parameters())
    x = torch.randn(8, 20)
    gc.freeze()
    stop = threading.Event()

    def train_one():
        adam.zero_grad()
        model(x).square().mean().backward()
        adam.step()

    def closure():
        lbfgs.zero_grad()
        loss = other(x).square().mean()
        loss.backward()
        return loss

    def train_other():
        while not stop.is_set():
            lbfgs.step(closure)
            time.sleep(0.01)
    for _ in range(3):
        train_one()
        lbfgs.step(closure)
    thread = threading.Thread(target=train_other)
    thread.start()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    print(f"ready {os.getpid()}", flush=True)
    while not stop.is_set():
        train_one()
        time.sleep(0.01)
    thread.join()
    said = names.truth([model.source[0], model, other], [adam, lbfgs])
    with open(a.out, "w") as f:
        json.dump(said, f)
    print("stopped", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
