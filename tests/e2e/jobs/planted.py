#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""An MLP with Adam whose loop keeps what it should not, as real ones do (--leak):

    graph   losses.append(loss): the loss, and with it all activations of its step
    cache   a cache by a key that never comes again
    list    a list of numbers that a step makes, of the size of many others
    malloc  C code that forgets to free, 20000 bytes a step
    none    a clean job. Its first five steps grow: buffers for the statistics of warming up.
"""
import sys

import job

KINDS = ("graph", "cache", "list", "malloc", "none")


def build(args):
    import ctypes

    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(args.width, args.width), nn.Tanh(), nn.Linear(args.width, 10))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1000)
    x, y = torch.randn(args.batch, args.width), torch.randint(0, 10, (args.batch,))
    losses, history, cache, stats, count = [], [], {}, [], [0]
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p

    def collect(loss):
        losses.append(loss.detach() + 1)

    def step():
        count[0] += 1
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward(retain_graph=args.leak == "graph")
        opt.step()
        schedule.step()
        history.append(loss.item())
        if args.leak == "graph":
            losses.append(loss)
        elif args.leak == "cache":
            cache[count[0]] = torch.sort(x)[1]
        elif args.leak == "list":
            collect(loss)
        elif args.leak == "malloc":
            malloc(20000)
        elif count[0] <= 5:
            stats.append(torch.cat([x, x]))
        return loss

    return step


if __name__ == "__main__":
    sys.argv, kind = [a for a in sys.argv if a not in KINDS], next((a for a in sys.argv if a in KINDS), "none")

    def build_kind(args):
        args.leak = kind
        return build(args)

    job.main(build_kind, __doc__)
