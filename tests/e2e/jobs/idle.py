#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A small training loop that calls further operators when it is told to, and counts.

    idle.py [--go]    --go: as if "go" had been said before the first step

Says "ready PID" after some steps. Lines on stdin: "go": in each step tanh (called once before "ready") and sigmoid (never
called before); "late": erfinv, too; "fork": a child makes a hundred tanh and ends; "stop": neither; "end". Each is
answered, "stop" with "called {operator: times so far}" as JSON.
"""
import json
import os
import sys
import threading
import time

import torch

EACH = 20  # calls of an operator in a step


def child(x):
    for _ in range(100):
        torch.tanh(x)
        time.sleep(0.02)
    os._exit(0)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.rand(16, 32) * 0.5
    calls = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "erfinv": torch.erfinv}
    called = dict.fromkeys(calls, 0)
    active = ["tanh", "sigmoid"] if "--go" in sys.argv else []
    if not active:
        torch.tanh(x)
    said = []
    threading.Thread(target=lambda: said.extend(iter(lambda: sys.stdin.readline().strip() or "end", "end")) or said.append("end"),
                     daemon=True).start()
    for step in range(1, 1_000_000):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        for name in active:
            for _ in range(EACH):
                calls[name](x)
            called[name] += EACH
        if step == 5:
            print("ready", os.getpid(), flush=True)
        word = said.pop(0) if said else ""
        if word == "end":
            break
        if word == "fork" and not os.fork():
            child(x)
        active = {"go": ["tanh", "sigmoid"], "late": ["erfinv"], "stop": []}.get(word, active)
        if word:
            print("called " + json.dumps(called) if word == "stop" else word, flush=True)
        time.sleep(0.005)
    print("called " + json.dumps(called), flush=True)


if __name__ == "__main__":
    main()
