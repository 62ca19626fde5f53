#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Layers that run one object of code, as those do that torch.compile compiled one by one: each allocates as many floats as it is told
here, twice.

    layers.py 100003 100103 …

    ready PID          until a line comes on stdin
"""
import os
import sys
import threading
import time

import torch

PAUSE_S = 0.02


class Code:
    def call(self, size):
        return self.inner(size)

    def inner(self, size):
        return [torch.empty(size[0]).fill_(0), torch.empty(size[0]).fill_(0)]


class Layer(torch.nn.Module):
    def __init__(self, code, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.code, self.size = code, size

    def forward(self, told):
        told[0] = self.size  # both frames of the code have the same first variables in each layer
        return self.code.call(told)


def main():
    code, told, stop = Code(), [0], threading.Event()
    model = torch.nn.ModuleList(Layer(code, size) for size in map(int, sys.argv[1:]))
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    print(f"ready {os.getpid()}", flush=True)
    with torch.no_grad():
        while not stop.wait(PAUSE_S):
            for layer in model:
                layer(told)


if __name__ == "__main__":
    main()
