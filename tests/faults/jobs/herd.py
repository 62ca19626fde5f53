# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs by the dozen, without the seconds that each takes to import torch: herd.py

Says "ready PID". A line "more" on stdin: a child is forked that trains until it is ended, and says "child PID" when it makes steps;
on SIGUSR1 it becomes another program. Children that end are reaped at once.
"""
import os
import signal
import sys

import torch


def train():
    signal.signal(signal.SIGUSR1, lambda *_: os.execv("/bin/sleep", ["sleep", "60"]))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(32, 64)
    for step in range(1 << 40):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if step == 3:
            print("child", os.getpid(), flush=True)


def main():
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        if line.strip() == "more" and not os.fork():
            train()


main()
