#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A small model on several ranks under torchrun (DDP over gloo): they step together until the launcher is told to end.

Each rank says "rank R PID" when it has made its first steps.
"""
import os

import torch
import torch.distributed as dist
from torch import nn


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    steps = 0
    while True:
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        steps += 1
        if steps == 10:
            os.write(1, f"rank {dist.get_rank()} {os.getpid()}\n".encode())


if __name__ == "__main__":
    main()
