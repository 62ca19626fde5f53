#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A transformer block that learns to copy a sequence, with Adam and a DataLoader."""
import job


def build(args):
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    vocab, length = 256, 64

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(vocab, args.width)
            self.place = nn.Parameter(torch.zeros(length, args.width))
            self.block = nn.TransformerEncoderLayer(
                args.width, nhead=4, dim_feedforward=4 * args.width, batch_first=True)
            self.head = nn.Linear(args.width, vocab)

        def forward(self, tokens):
            return self.head(self.block(self.embed(tokens) + self.place))

    model = Model()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, vocab, (32 * args.batch, length))
    loader = DataLoader(TensorDataset(tokens), batch_size=args.batch, shuffle=True,
                        num_workers=args.workers)
    batches = iter(loader)

    def step():
        nonlocal batches
        try:
            (batch,) = next(batches)
        except StopIteration:
            batches = iter(loader)
            (batch,) = next(batches)
        opt.zero_grad()
        out = model(batch)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), batch.flatten())
        loss.backward()
        opt.step()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
