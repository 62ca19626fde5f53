#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Two blocks of a decoder with a causal mask, AdamW, and four sequence lengths in turn: each step has the allocations of the one
before, most of them of other sizes."""
import job


def build(args, length_of=lambda number: (48, 96, 64, 80)[number % 4]):
    import torch
    from torch import nn

    vocab, longest = 256, 2048

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(vocab, args.width)
            self.place = nn.Embedding(longest, args.width)
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(args.width, 4, 4 * args.width, batch_first=True, norm_first=True)
                                        for _ in range(2))
            self.head = nn.Linear(args.width, vocab)

        def forward(self, tokens):
            length = tokens.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(length)
            x = self.embed(tokens) + self.place(torch.arange(length))
            for block in self.blocks:
                x = block(x, src_mask=mask, is_causal=True)
            return self.head(x)

    model = Model()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    number = 0

    def step():
        nonlocal number
        number += 1
        tokens = torch.randint(0, vocab, (args.batch // 4, length_of(number)))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        opt.step()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
