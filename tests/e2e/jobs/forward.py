#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A service: one forward after the other, and nothing that marks a step."""
import job


def build(args):
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, args.width))
    x = torch.randn(args.batch, args.width)

    def step():
        with torch.no_grad():
            return model(x).sum()

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
