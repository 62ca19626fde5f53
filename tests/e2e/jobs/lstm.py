#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A two-layer LSTM over short sequences, with AdamW and clipped gradients."""
import job


def build(args):
    import torch
    from torch import nn

    rnn = nn.LSTM(args.width, args.width, num_layers=2, batch_first=True)
    head = nn.Linear(args.width, 8)
    params = [*rnn.parameters(), *head.parameters()]
    opt = torch.optim.AdamW(params, lr=1e-3)
    x = torch.randn(args.batch, 12, args.width)
    y = torch.randint(0, 8, (args.batch,))

    def step():
        opt.zero_grad()
        out, _ = rnn(x)
        loss = nn.functional.cross_entropy(head(out[:, -1]), y)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
