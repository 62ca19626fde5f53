#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A small model whose loop keeps the activations of every step: a leak of one block a step, in a region of its own.

The region's name is what a hostile job would choose.
"""
import job

REGION = "keep </script><img src=x onerror=\"document.title='owned'\">&amp;"


def build(args):
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(args.batch, args.width), torch.randint(0, 10, (args.batch,))
    kept = []

    def step():
        opt.zero_grad()
        out = model(x)
        with torch.profiler.record_function(REGION):
            kept.append(torch.cumsum(x, 0))
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        opt.step()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
