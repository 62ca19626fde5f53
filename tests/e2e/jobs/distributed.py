#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A transformer on several ranks under torchrun, over gloo on the CPU; each rank says what its memory is (word.py).

    torchrun --nproc-per-node 2 distributed.py --kind ddp|fsdp2|tensor|pipeline [--compiled] --out FOLDER

Each rank writes FOLDER/RANK.said. Rank 0 reads stdin, and says through the store how far the others go, so that no tensor is sent
for it. --compiled: what the ranks call in each step is what torch.compile makes of it.
"""
import argparse
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from word import Word

PAUSE_S = 0.05  # a step: Python is looked at once a second
WIDTH, HEADS, BLOCKS, BATCH, LENGTH, VOCABULARY = 128, 4, 4, 4, 32, 512


class Ranks(Word):
    """All ranks make the same number of steps."""

    def __init__(self, store):
        super().__init__()
        self.store = store

    def goes_on(self):
        time.sleep(PAUSE_S)
        goes_on = super().goes_on()
        key = f"step {self.steps}"
        if not dist.get_rank():
            self.store.set(key, str(int(goes_on)))
            if self.steps > 10:
                self.store.delete_key(f"step {self.steps - 10}")
        return self.store.get(key) == b"1"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries = nn.Linear(WIDTH, WIDTH)
        self.keys = nn.Linear(WIDTH, WIDTH, bias=False)  # as in a Llama
        self.values = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        heads = [part(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for part in (self.queries, self.keys, self.values)]
        return self.out(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("scale", torch.rand(WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)))) * self.scale


def stack(blocks=BLOCKS):
    return nn.Sequential(*[Block() for _ in range(blocks)])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = stack()
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


def train(word, model, called, named=None, averages=(), update=lambda: None):
    """The loop that everybody writes. `called`: the model, or what stands for it in a step; named: its parameters; averages: of them, which
    are updated after each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    word.of(model, optimizer, listens=False, named=named, averages=averages)
    while word.goes_on():
        ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
        optimizer.zero_grad()
        loss = F.cross_entropy(called(ids).flatten(0, 1), ids.flatten())
        word.at("forward")
        loss.backward()
        optimizer.step()
        update()


def ddp(word, compiled):
    model = Model()
    wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
    train(word, model, compiled(wrapped))


def fsdp2(word, compiled):
    """Each block by itself, as torchtitan does. While a module's weights are gathered it has those as its parameters, so what the
    optimizer has is told."""
    from torch.distributed.fsdp import fully_shard

    mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), Model()
    for i, block in enumerate(model.blocks):
        model.blocks[i] = compiled(block)
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh)
    train(word, model, model, list(model.named_parameters()))


def tensor(word, compiled):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), Model()
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "attention.queries": ColwiseParallel(), "attention.keys": ColwiseParallel(), "attention.values": ColwiseParallel(),
            "attention.out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
    train(word, model, compiled(model))


def averaged(word, compiled):
    """Tensor parallel, with an average of the weights: a copy of the model, which is made of DTensors, too."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

    mesh, model = init_device_mesh("cpu", (dist.get_world_size(),)), Model()
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "attention.queries": ColwiseParallel(), "attention.keys": ColwiseParallel(), "attention.values": ColwiseParallel(),
            "attention.out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
    average = AveragedModel(model, avg_fn=get_ema_avg_fn(0.99))
    train(word, model, compiled(model), averages=[average], update=lambda: average.update_parameters(model))


def pipeline(word, compiled):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, ranks = dist.get_rank(), dist.get_world_size()
    part = stack(BLOCKS // ranks)
    stage = PipelineStage(compiled(part), rank, ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=BATCH, loss_fn=F.mse_loss)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3)
    word.of(part, optimizer, listens=False)
    while word.goes_on():
        optimizer.zero_grad()
        if not rank:
            schedule.step(torch.randn(BATCH, LENGTH, WIDTH))
        else:
            schedule.step(target=torch.randn(BATCH, LENGTH, WIDTH))
        optimizer.step()


KINDS = {f.__name__: f for f in (ddp, fsdp2, tensor, averaged, pipeline)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--kind", required=True, choices=list(KINDS))
    p.add_argument("--compiled", action="store_true")
    p.add_argument("--out", type=pathlib.Path, required=True)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank:
        sys.stdin = open(os.devnull)  # they share one
    word = Ranks(dist.PrefixStore("steps", dist.distributed_c10d._get_default_store()))
    KINDS[args.kind](word, torch.compile if args.compiled else lambda module: module)
    word.write(args.out / f"{rank}.said")
    dist.barrier()
    dist.destroy_process_group()
    if not rank:
        print("done", flush=True)


if __name__ == "__main__":
    main()
