#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A GPT in bfloat16 with AdamW on a GPU. With --width 768 --layers 12 --batch 8 --length 1024 it is GPT-2 (124 million parameters)."""
import job


def options(p):
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--length", type=int, default=128, help="tokens of a sample (default 128)")
    p.add_argument("--device", default="cuda")
    p.add_argument("--compile", action="store_true")


def build(args):
    import torch
    from torch import nn

    vocab = 50304

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
            self.qkv, self.proj = nn.Linear(args.width, 3 * args.width), nn.Linear(args.width, args.width)
            self.up, self.down = nn.Linear(args.width, 4 * args.width), nn.Linear(4 * args.width, args.width)

        def forward(self, x):
            heads = [t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in self.qkv(self.ln_1(x)).chunk(3, -1)]
            x = x + self.proj(nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.ln_2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocab, args.width), nn.Embedding(args.length, args.width)
            self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
            self.ln = nn.LayerNorm(args.width)

        def forward(self, ids):
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
            for block in self.blocks:
                x = block(x)
            return nn.functional.linear(self.ln(x), self.tokens.weight)

    model = Gpt().to(args.device)
    run = torch.compile(model) if args.compile else model
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def step():
        ids = torch.randint(0, vocab, (args.batch, args.length), device=args.device)
        opt.zero_grad(set_to_none=True)
        with torch.autocast(torch.device(args.device).type, torch.bfloat16):
            loss = nn.functional.cross_entropy(run(ids).flatten(0, 1).float(), ids.roll(-1, 1).flatten())
        loss.backward()
        opt.step()
        loss.item()  # as a job that logs: a step is over when the GPU has done it
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__, options)
