#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Six linear layers and Adam. At width 64 the worst case for a tracer of operators: the kernels do
next to nothing, so that a step is ~160 allocations and ~500 operator calls in half a millisecond."""
import job


def build(args):
    import torch
    from torch import nn

    layers = []
    for _ in range(6):
        layers += [nn.Linear(args.width, args.width), nn.ReLU()]
    model = nn.Sequential(*layers)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(args.batch, args.width)
    y = torch.randn(args.batch, args.width)

    def step():
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
