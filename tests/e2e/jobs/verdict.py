#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs that have one thing to say each:

    spike    every batch has 64 samples, the one after SIGUSR2 4096
    state    a wide embedding with Adam, and hardly any activations
    workers  two DataLoader workers, each of which writes to all of a dataset that it shares with its parent
    growing  two DataLoader workers that read on and on in a list of Python objects which they share with their parent
    holes    600 MiB of small tensors, of which all but every 16th go; then small steps
    trimmed  the same, and malloc_trim(0) behind it
    bytes    a list that gets a bytearray of 1 MiB in each step
    arrays   ten arrays of NumPy of 96 MiB each beside a small model
    loading  modules and bytearrays are made for twelve seconds, and then there are steps
    refused, refused_in_backward   after SIGUSR2 the forward or backward of one module asks for 1 PiB, and the job dies of it
"""
import ctypes
import signal
import sys
import time

import job

KINDS = ("spike", "state", "workers", "growing", "holes", "trimmed", "bytes", "arrays", "loading", "refused",
         "refused_in_backward")


def spike(torch, args):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    asked = []
    signal.signal(signal.SIGUSR2, lambda *_: asked.append(4096))

    def step():
        opt.zero_grad()
        loss = model(torch.randn(asked.pop() if asked else 64, 64)).square().mean()
        loss.backward()
        opt.step()
        return loss

    return step


def keeps_bytes(torch, args):
    inner, kept = state(torch, args), []

    def step():
        kept.append(bytearray(1 << 20))
        return inner()

    return step


def arrays(torch, args):
    import numpy

    inner, kept = state(torch, args), [numpy.ones(12 << 20) for _ in range(10)]
    return lambda: inner() if kept else None


def loading(torch, args):
    inner, kept = state(torch, args), []
    for _ in range(60):
        kept.append((torch.nn.Linear(2048, 1024), bytearray(b"1") * (4 << 20)))
        time.sleep(0.2)
    return lambda: inner() if kept else None


def refused(torch, args):
    """Another module has allocated last, in forward and in backward."""
    asked = []

    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad + torch.empty(1 << 50, dtype=torch.uint8) if asked and KIND == "refused_in_backward" else grad.clone()

    class Middle(torch.nn.Module):
        def forward(self, x):
            if asked and KIND == "refused":
                torch.empty(1 << 50, dtype=torch.uint8)
            return Greedy.apply(x * 2)

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), Middle(), torch.nn.Linear(64, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    signal.signal(signal.SIGUSR2, lambda *_: asked.append(1))

    def step():
        opt.zero_grad()
        loss = model(torch.randn(64, 64)).square().mean()
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


def steps_of(torch, dataset, batch):
    model = torch.nn.Linear(64, 10)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = iter(torch.utils.data.DataLoader(dataset, batch_size=batch, num_workers=2))

    def step():
        opt.zero_grad()
        loss = model(next(batches)).square().mean()
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

    return steps_of(torch, Numbers(), 8)


def growing(torch, args):
    rows = [f"row {i:090}" for i in range(2_000_000)]  # some 280 MiB; whoever looks at one counts a reference, in its page

    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):  # 12,000 rows a second, however long a step takes: all is copied after 160 s
            first, seen, begun = torch.utils.data.get_worker_info().id * len(rows) // 2, 0, time.monotonic()
            while True:
                due = max(seen + 1, int(12_000 * (time.monotonic() - begun)))
                yield torch.full((64,), sum(len(rows[(first + i) % len(rows)]) for i in range(seen, due)) / (due - seen))
                seen = due

    return steps_of(torch, Rows(), 20)


def holes(torch, args):
    step = state(torch, args)
    kept = [torch.ones(16, 1024) for _ in range(9600)]  # 64 KiB each: below what malloc maps by itself
    del kept[::16]
    few = [t for i, t in enumerate(kept) if not i % 15]
    del kept
    if KIND == "trimmed":
        ctypes.CDLL(None).malloc_trim(0)
    return lambda: step() if few else None


def build(args):
    import torch

    return {"spike": spike, "state": state, "workers": workers, "growing": growing, "holes": holes, "trimmed": holes,
            "bytes": keeps_bytes, "arrays": arrays, "loading": loading,
            "refused": refused, "refused_in_backward": refused}[KIND](torch, args)


if __name__ == "__main__":
    KIND = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1] in KINDS else sys.exit(f"usage: verdict.py {'|'.join(KINDS)} [options]")
    job.main(build, __doc__)
