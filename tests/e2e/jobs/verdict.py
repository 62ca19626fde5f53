#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs that have one thing to say each:

    spike    every batch has 64 samples, the 50th 4096
    state    a wide embedding with Adam, and hardly any activations
    workers  two DataLoader workers, each of which writes to all of a dataset that it shares with its parent
"""
import sys

import job

KINDS = ("spike", "state", "workers")


def spike(torch, args):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    count = [0]

    def step():
        count[0] += 1
        opt.zero_grad()
        loss = model(torch.randn(4096 if count[0] == 50 else 64, 64)).square().mean()
        loss.backward()
        opt.step()
        return loss

    return step


def state(torch, args):
    model = torch.nn.Embedding(20000, 64)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        opt.zero_grad()
        loss = model(torch.randint(0, 20000, (16,))).square().mean()
        loss.backward()
        opt.step()
        return loss

    return step


def workers(torch, args):
    shared = bytearray(100 << 20)

    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                for at in range(0, len(shared), 4096):  # a page each: what was shared is the worker's own
                    shared[at] = 1
                yield torch.randn(64)

    model = torch.nn.Linear(64, 10)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2))

    def step():
        opt.zero_grad()
        loss = model(next(batches)).square().mean()
        loss.backward()
        opt.step()
        return loss

    return step


def build(args):
    import torch

    return {"spike": spike, "state": state, "workers": workers}[KIND](torch, args)


if __name__ == "__main__":
    KIND = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1] in KINDS else sys.exit(f"usage: verdict.py {'|'.join(KINDS)} [options]")
    job.main(build, __doc__)
