#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Steps of four kinds: every third draws four batches, in regions as a DataLoader has them; every fourth has an evaluation in it, of a
larger batch, which takes many times as long and needs more memory than training: longer than another process has the CPU, so that no
busy machine makes one of the other. The least that one took is told."""
import time

import job


def build(args):
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, large = torch.randn(args.batch, 256), torch.randn(16 * args.batch, 256)
    number, least = 0, float("inf")

    def step():
        nonlocal number, least
        number += 1
        opt.zero_grad()
        if number % 3 == 0:
            for _ in range(4):
                with torch.autograd.profiler.record_function("batch"):
                    pass
        loss = model(x + large[:1]).square().mean()  # what no step uses is not known to live
        loss.backward()
        if number % 4 == 0:
            begin = time.monotonic_ns()
            with torch.no_grad():
                for _ in range(32):
                    model(large)
            if time.monotonic_ns() - begin < least:
                least = time.monotonic_ns() - begin
                job.say(f"evaluation {least}")
        opt.step()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
