# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""
A transformer of equal blocks: blocks.py [--shard] [--no-reshard] [--ddp] [--checkpoint 0,2] [--dim N] [--batch N]. Says "ready",
waits for a line and makes a step, says "reads", waits for another line (names are read meanwhile) and makes five.

--shard: fully_shard on each block and on the whole, over gloo, as a rank of RANK and WORLD_SIZE (torchrun's words). The model
begins on "meta" and each module gets its memory when it is sharded, so that building it is not the peak.
--ddp: the whole model on each rank, in DistributedDataParallel.
"""
import argparse
import concurrent.futures
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WORDS, SEQUENCE, STEPS = 512, 64, 6


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (t.view(b, s, 4, d // 4).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, s, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, dim, blocks, checkpointed):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.layers = nn.ModuleList(Block(dim) for _ in range(blocks))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, WORDS)
        self.checkpointed = checkpointed

    def forward(self, tokens):
        x = self.embed(tokens)
        for i, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False) if i in self.checkpointed else layer(x)
        return self.head(self.norm(x))


def materialize(module):
    module.to_empty(device="cpu")
    for p in module.parameters():
        nn.init.normal_(p, std=0.02)


def shard(model, reshard):
    from torch.distributed.fsdp import fully_shard
    for layer in model.layers:
        materialize(layer)
        fully_shard(layer, reshard_after_forward=reshard)
    for module in (model.embed, model.norm, model.head):
        materialize(module)
    fully_shard(model, reshard_after_forward=reshard)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--shard", action="store_true")
    p.add_argument("--no-reshard", action="store_true")
    p.add_argument("--ddp", action="store_true")
    p.add_argument("--checkpoint", default="")
    p.add_argument("--thread", action="store_true")
    p.add_argument("--dim", type=int, default=256)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--blocks", type=int, default=4)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if args.shard or args.ddp:
        torch.distributed.init_process_group("gloo")
    with torch.device("meta" if args.shard else "cpu"):
        model = Model(args.dim, args.blocks, [int(i) for i in args.checkpoint.split(",") if i])
    if args.shard:
        shard(model, not args.no_reshard)
    if args.ddp:
        model = nn.parallel.DistributedDataParallel(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        train(args, model, opt, (lambda loss: pool.submit(loss.backward).result()) if args.thread else torch.Tensor.backward)
    if args.shard or args.ddp:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def train(args, model, opt, backward):
    print("ready", flush=True)
    sys.stdin.readline()
    for step in range(STEPS):
        if step == 1:
            print("reads", flush=True)
            sys.stdin.readline()
        began = time.perf_counter_ns()
        opt.zero_grad()
        tokens = torch.randint(0, WORDS, (args.batch, SEQUENCE))
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.view(-1, WORDS), tokens.view(-1))
        del logits
        backward(loss)
        opt.step()
        print("step", (time.perf_counter_ns() - began) // 1000, flush=True)


if __name__ == "__main__":
    main()
