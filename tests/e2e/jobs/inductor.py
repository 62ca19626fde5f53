#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs that torch.compile's inductor compiled, which say at moments what their memory is (word.py: "ready PID", "step N", until a line
comes on stdin).

    inductor.py --job gpt --out said.json

Each function is one job: (model, optimizer, step). A step says `forward` with its loss before backward, which is a moment of what
autograd has saved, and `stepped` when the optimizer has: a moment of parameters, gradients, state and buffers.
"""
import argparse
import itertools

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

from generated import Block
from saved import saved_of
from word import DEVICE, Word

WARM = 4

word = Word()


def saved_tensors(loss):
    """All that the nodes of its graph have saved."""
    todo, seen, found = [loss.grad_fn], set(), []
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo.extend(n for n, _ in node.next_functions)
        found += saved_of(node)
    return found


def forward(loss):
    word.at("forward", saved_tensors(loss))
    return loss


def stepped():
    word.at("step")


def trains(model, optimizer, loss_of, update=None):
    """An ordinary step; gradients live until the next one begins."""
    def step():
        optimizer.zero_grad()
        forward(loss_of()).backward()
        (update or optimizer.step)()
        stepped()
    return model, optimizer, step


class Embedded(nn.Module):
    """Two blocks of a GPT over an embedding."""

    def __init__(self, wrap=lambda block: block):
        super().__init__()
        self.embed, self.head = nn.Embedding(256, 64), nn.Linear(64, 256)
        self.blocks = nn.ModuleList(wrap(Block()) for _ in range(2))

    def forward(self, x):
        y = self.embed(x)
        for block in self.blocks:
            y = block(y)
        return nn.functional.cross_entropy(self.head(y).flatten(0, 1), x.flatten())


def tokens(rows=4, length=32):
    return torch.randint(0, 256, (rows, length))


def mlp(width=128):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.LayerNorm(4 * width), nn.Linear(4 * width, width))


def gpt():
    model = Embedded()
    compiled = torch.compile(model)
    return trains(model, torch.optim.AdamW(model.parameters()), lambda: compiled(tokens()))


def mlp_fused():
    model = mlp()
    compiled = torch.compile(model)
    return trains(model, torch.optim.AdamW(model.parameters(), fused=True), lambda: compiled(torch.randn(64, 128)).square().mean())


def conv():
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 64, 10))
    compiled = torch.compile(model)
    return trains(model, torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9),
                  lambda: nn.functional.cross_entropy(compiled(torch.randn(8, 3, 16, 16)), torch.randint(0, 10, (8,))))


def both():
    """The optimizer's step is compiled, too."""
    model = mlp()
    compiled, optimizer = torch.compile(model), torch.optim.AdamW(model.parameters(), capturable=True)
    return trains(model, optimizer, lambda: compiled(torch.randn(64, 128)).square().mean(), torch.compile(lambda: optimizer.step()))


def sparse():
    """An embedding whose gradient is sparse."""
    model = nn.Sequential(nn.Embedding(256, 128, sparse=True), mlp())
    compiled = torch.compile(model)
    return trains(model, torch.optim.Adagrad(model.parameters()), lambda: compiled(tokens(2)).square().mean())


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = mlp(), mlp()

    def forward(self, x):
        y = self.first(x)
        torch._dynamo.graph_break()
        return self.last(y) + x


def graph_break():
    model = Broken()
    compiled = torch.compile(model)
    return trains(model, torch.optim.AdamW(model.parameters()), lambda: compiled(torch.randn(64, 128)).square().mean())


def dynamic():
    """Batches of several lengths, one graph."""
    model, lengths = Embedded(), itertools.cycle((24, 32, 40))
    compiled = torch.compile(model, dynamic=True)
    return trains(model, torch.optim.AdamW(model.parameters()), lambda: compiled(tokens(length=next(lengths))))


class Checkpointed(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def checkpointed():
    model = Embedded(Checkpointed)
    compiled = torch.compile(model)
    return trains(model, torch.optim.AdamW(model.parameters()), lambda: compiled(tokens()))


class LowRank(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.Linear(base.in_features, 8, bias=False), nn.Linear(8, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def low_rank():
    """A frozen model with small trained parts."""
    model = mlp(256).requires_grad_(False)
    model[0], model[3] = LowRank(model[0]), LowRank(model[3])
    compiled = torch.compile(model)
    return trains(model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]),
                  lambda: compiled(torch.randn(64, 256)).square().mean())


@torch.library.custom_op("memtrace_jobs::swish", mutates_args=())
def swish(x: torch.Tensor) -> torch.Tensor:
    return x * x.sigmoid()


def swish_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    s = x.sigmoid()
    return grad * s * (1 + x * (1 - s))


swish.register_fake(torch.empty_like)
swish.register_autograd(swish_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


class Swish(nn.Module):
    def forward(self, x):
        return swish(x)


def teacher():
    """Distilled from an average of its own weights, which nothing trains, with an operator of the job's own."""
    model = nn.Sequential(nn.Linear(128, 512), Swish(), nn.LayerNorm(512), nn.Linear(512, 128))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    compiled, wiser, optimizer = torch.compile(model), torch.compile(average), torch.optim.AdamW(model.parameters())
    word.averages = [average]

    def loss():
        x = torch.randn(256, 128)
        with torch.no_grad():
            wanted = wiser(x)
        return nn.functional.mse_loss(compiled(x + torch.randn(256, 128)), wanted)

    def update():
        optimizer.step()
        average.update_parameters(model)
    return trains(model, optimizer, loss, update)


def compiled_autograd():
    """Backward, too, is one graph."""
    model = mlp()
    torch._dynamo.config.compiled_autograd = True
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(lambda x: model(x).square().mean())

    @torch.compile
    def train(x):
        forward_only = model(x).square().mean()
        forward_only.backward()

    def step():
        optimizer.zero_grad()
        train(torch.randn(64, 128))
        optimizer.step()
        stepped()
    del compiled
    return model, optimizer, step


JOBS = {f.__name__: f for f in (gpt, mlp_fused, conv, both, sparse, graph_break, dynamic, checkpointed, low_rank, compiled_autograd, teacher)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--job", choices=JOBS, required=True)
    p.add_argument("--out", required=True)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if DEVICE != "cpu":
        torch.set_default_device(DEVICE)
    model, optimizer, step = JOBS[a.job]()
    for _ in range(WARM):
        step()
    word.models, word.optimizers = [model], [optimizer]
    while word.goes_on():
        step()
    word.write(a.out)
    print("done", flush=True)


if __name__ == "__main__":
    main()
