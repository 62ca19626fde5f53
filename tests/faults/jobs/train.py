#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Training jobs whose result can be compared bit by bit: rounds of 200 steps, each from the same seed.

    train.py MODEL            ready PID, then a line a round: round NUMBER LOSSES WEIGHTS
                              (SHA-256 of the bytes of all losses; of parameters, buffers and the optimizer's state)
    stop (on stdin)           ends after this round

A round forgets everything of the one before it, so that all lines of one job say the same, unless somebody changed its
data. These are ordinary PyTorch programs: nothing here knows that somebody may be watching.
"""
import argparse
import copy
import hashlib
import os
import select
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS, VOCAB, LENGTH, BATCH = 200, 64, 16, 4


class Result:
    """What stays of a training: given to the loop by each model, to be hashed."""

    def __init__(self, *modules, optimizers=()):
        self.modules, self.optimizers = modules, optimizers

    def tensors(self):
        for m in self.modules:
            yield from m.state_dict().values()
        for o in self.optimizers:
            for state in o.state.values():
                yield from (v for v in state.values() if torch.is_tensor(v))


def bytes_of(t):
    return t.detach().contiguous().view(torch.uint8).numpy().tobytes() if t.dim() else t.detach().reshape(1).numpy().tobytes()


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True) for _ in range(2))
        self.head = nn.Linear(32, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def loss(self, tokens):
        return F.cross_entropy(self(tokens).flatten(0, 1), tokens.flatten())


def layers(width=48, depth=4):
    return nn.Sequential(*(m for _ in range(depth) for m in (nn.Linear(width, width), nn.GELU())))


def stepper(loss_of, opt):
    def step():
        opt.zero_grad()
        loss = loss_of()
        loss.backward()
        opt.step()
        return loss
    return step


# --- the jobs: each builds what is built once and returns fresh() -> (step, Result) -----------------------

def eager():
    """A transformer with dropout."""
    def fresh():
        model = Language()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return stepper(lambda: model.loss(torch.randint(0, VOCAB, (BATCH, LENGTH))), opt), Result(model, optimizers=[opt])
    return fresh


def mlp():
    """The smallest: what trains beside the faults."""
    def fresh():
        model = layers()
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        x, y = torch.randn(16, 48), torch.randn(16, 48)
        return stepper(lambda: F.mse_loss(model(x), y), opt), Result(model, optimizers=[opt])
    return fresh


def compiled():
    """Forward and backward by inductor. Compiled once: a round sets the weights back."""
    model = layers()
    begin = copy.deepcopy(model.state_dict())
    fast = torch.compile(model)

    def fresh():
        model.load_state_dict(begin)
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
        x, y = torch.randn(16, 48), torch.randn(16, 48)
        return stepper(lambda: F.mse_loss(fast(x), y), opt), Result(model, optimizers=[opt])
    fresh()[0]()
    return fresh


def loader():
    """Batches of two worker processes, which are started anew four times a round, and batch norm."""
    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS

        def __getitem__(self, i):
            g = torch.Generator().manual_seed(i)
            return torch.randn(3, 8, 8, generator=g) + torch.randn(1), i % 10

    def fresh():
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
        opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        batches = torch.utils.data.DataLoader(Images(), batch_size=4, shuffle=True, num_workers=2)

        def endless():
            while True:
                yield from batches
        source = endless()

        def loss_of():
            x, y = next(source)
            return F.cross_entropy(model(x), y)
        return stepper(loss_of, opt), Result(model, optimizers=[opt])
    return fresh


def custom_op():
    """An operator of our own in C++ (custom_op.cpp), with its backward in Python."""
    torch.ops.load_library(os.environ["MT_CUSTOM_OP"])
    scan = torch.ops.mt_faults.scan

    class Scan(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return scan(x, 0.9)

        @staticmethod
        def backward(ctx, g):
            return scan(g.flip(-1), 0.9).flip(-1)

    def fresh():
        first, last = layers(depth=2), layers(depth=2)
        opt = torch.optim.RMSprop([*first.parameters(), *last.parameters()], lr=1e-3, momentum=0.9)
        x, y = torch.randn(16, 48), torch.randn(16, 48)
        return stepper(lambda: F.mse_loss(last(Scan.apply(first(x))), y), opt), Result(first, last, optimizers=[opt])
    return fresh


def mixed():
    """bfloat16 by autocast, a dropout, and halves that are computed twice."""
    def fresh():
        halves = nn.ModuleList(nn.Sequential(layers(depth=2), nn.Dropout(0.1)) for _ in range(2))
        opt = torch.optim.AdamW(halves.parameters(), lr=1e-3)
        x = torch.randn(16, 48)

        def loss_of():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                h = x
                for half in halves:
                    h = torch.utils.checkpoint.checkpoint(half, h, use_reentrant=False)
                return F.mse_loss(h.float(), x)
        return stepper(loss_of, opt), Result(halves, optimizers=[opt])
    return fresh


def ema():
    """Weights in bfloat16, master weights and moments in float32, a moving average of them, a schedule."""
    def fresh():
        model = layers().bfloat16()
        master = layers()
        master.load_state_dict({k: v.float() for k, v in model.state_dict().items()})
        mean = torch.optim.swa_utils.AveragedModel(master, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
        opt = torch.optim.NAdam(master.parameters(), lr=1e-3)
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
        x, y = torch.randn(16, 48).bfloat16(), torch.randn(16, 48)

        def step():
            loss = F.mse_loss(model(x).float(), y)
            loss.backward()
            for small, big in zip(model.parameters(), master.parameters()):
                big.grad, small.grad = small.grad.float(), None
            opt.step()
            plan.step()
            mean.update_parameters(master)
            with torch.no_grad():
                for small, big in zip(model.parameters(), master.parameters()):
                    small.copy_(big)
            return loss
        return step, Result(model, master, mean, optimizers=[opt])
    return fresh


def ddp(rank, port):
    """Two ranks over gloo; the second is a child of the first. Gradients in three buckets."""
    import torch.distributed as dist
    store = dist.TCPStore("127.0.0.1", port, 2, rank == 0, wait_for_workers=False)
    other = rank or subprocess.Popen([sys.executable, __file__, "ddp", "--rank", "1", "--port", str(store.port)],
                                     stdin=subprocess.DEVNULL)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)

    def fresh():
        model = layers()
        both = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
        opt = torch.optim.Adam(both.parameters(), lr=1e-3)
        noise = torch.Generator().manual_seed(rank)

        def loss_of():
            x = torch.randn(8, 48, generator=noise)
            return F.mse_loss(both(x), x.flip(-1))
        return stepper(loss_of, opt), Result(model, optimizers=[opt])
    return fresh, other


# --- the loop ------------------------------------------------------------------------------------------------

def one_round(fresh):
    torch.manual_seed(0)
    step, result = fresh()
    losses, weights = hashlib.sha256(), hashlib.sha256()
    for _ in range(STEPS):
        losses.update(bytes_of(step()))
    for t in result.tensors():
        weights.update(bytes_of(t))
    return losses.hexdigest(), weights.hexdigest()


def told_to_stop():
    return bool(select.select([0], [], [], 0)[0])


def ranks(args):
    """Both ranks' words make a round's line, and the first tells the second when to stop."""
    import torch.distributed as dist
    fresh, other = ddp(args.rank, args.port)
    both, number, go_on = [None, None], 0, [True]
    if args.rank == 0:
        print(f"ready {os.getpid()}", flush=True)
    while go_on[0]:
        dist.all_gather_object(both, one_round(fresh))
        number += 1
        if args.rank == 0:
            print(f"round {number} {'+'.join(l for l, _ in both)} {'+'.join(w for _, w in both)}", flush=True)
            go_on = [not told_to_stop()]
        dist.broadcast_object_list(go_on, 0)
    dist.destroy_process_group()
    return other.wait() if args.rank == 0 else 0


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model", choices=[f.__name__ for f in (*JOBS, ddp)])
    p.add_argument("--rank", type=int, default=0)
    p.add_argument("--port", type=int, default=0)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    if args.model == "ddp":
        return ranks(args)
    fresh = globals()[args.model]()
    print(f"ready {os.getpid()}", flush=True)
    number = 0
    while not told_to_stop():
        number += 1
        print("round", number, *one_round(fresh), flush=True)
    return 0


JOBS = (eager, mlp, compiled, loader, custom_op, mixed, ema)

if __name__ == "__main__":
    sys.exit(main())
