#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Gradients of eight small batches add up before a step; every fifth step has an evaluation in it, and every seventh one batch fewer,
as at the end of a data set."""
import job


def build(args):
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    held_out = torch.randn(8 * args.batch, 64)
    number = 0

    def step():
        nonlocal number
        number += 1
        for _ in range(7 if number % 7 == 0 else 8):
            x, y = torch.randn(args.batch, 64), torch.randint(0, 10, (args.batch,))
            loss = nn.functional.cross_entropy(model(x), y) / 8
            loss.backward()
        opt.step()
        opt.zero_grad()
        if number % 5 == 0:
            model.eval()
            with torch.no_grad():
                for part in held_out.split(args.batch):
                    model(part).argmax(1)
            model.train()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
