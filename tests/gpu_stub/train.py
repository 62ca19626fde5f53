#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Trains on device "cuda" (cuda_on_host.py) and says at marks what is what: lists of [pointer, bytes], from Python's objects.

    train.py LOG [running]     every block goes into LOG (torch_backend.cpp)

Says "ready PID" after two steps, waits for a line, makes four steps and three marked ones, then says "done". With "running" it
makes steps while it waits, and who attaches comes in the middle of one. (In the middle of a kernel there are tensors of the CPU over
memory of the device: an artefact of the backend.) A marked step:

    forward     after the loss      backward    after loss.backward()      step    after optimizer.step()
    side        a validation without gradients, in another stream
"""
import json
import os
import select
import sys
import time

import cuda_on_host as cuda  # before torch
import torch
from torch import nn


def places(tensors):
    return [[t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()] for t in tensors]


class Job:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(200, 300), nn.ReLU(), nn.LayerNorm(300), nn.Linear(300, 100), nn.Tanh(),
                                   nn.Linear(100, 10)).to("cuda")
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def mark(self, name, **lists):
        params = list(self.model.parameters())
        state = [v for p in params for v in self.opt.state.get(p, {}).values() if v.is_cuda]
        print(json.dumps({"mark": name, "t": time.monotonic_ns(), "epoch_ns": time.time_ns(), "stats": cuda.stats(),
                          "PARAMETER": places(params), "OPTIMIZER_STATE": places(state),
                          "GRADIENT": places(p.grad for p in params if p.grad is not None),
                          **{k: places(v) for k, v in lists.items()}}), flush=True)

    def step(self, mark=lambda *_, **__: None):
        x, y = torch.randn(64, 200).to("cuda"), torch.randint(0, 10, (64,)).to("cuda")
        self.opt.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        mark("forward", INPUT=[x, y])
        loss.backward()
        mark("backward", INPUT=[x, y])
        self.opt.step()
        mark("step", INPUT=[x, y])

    def validate(self):
        x = torch.randn(128, 200).to("cuda")
        cuda.stream(1)
        with torch.no_grad():
            out = self.model(x)
        self.mark("side", INPUT=[x], OUT=[out])
        cuda.stream(0)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cuda.log(sys.argv[1])
    job = Job()
    job.step()
    job.step()
    print(f"ready {os.getpid()}", flush=True)
    while sys.argv[2:] == ["running"] and not select.select([sys.stdin], [], [], 0)[0]:
        job.step()
    sys.stdin.readline()
    for _ in range(4):
        job.step()
    for _ in range(3):
        job.step(job.mark)
        job.validate()
    job.step()
    del job
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
