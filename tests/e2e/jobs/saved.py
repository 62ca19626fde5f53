#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs that know what autograd keeps of theirs when each backward pass begins (test_saved.py).

    ready PID          training
    watch              on stdin: a few steps that are looked at; "watched" when they are over, and nothing runs any more
    stop               --out has of each backward pass of these steps: {storage: [bytes, nodes]}

Truth are saved_tensors_hooks: a tensor that is packed is kept until autograd drops what the hook gave it. A storage counts once, and not
if it is a parameter's or a buffer's. The nodes are those of the graph whose saved tensors have that storage, by their own attributes. With
--graph (compiled code, whose saved tensors hooks would change) the graph alone says it.
"""
import argparse
import json
import os
import sys
import threading
import time
import weakref

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from word import storage_of


class Held:
    def __init__(self, t):
        self.t = t.detach()


def saved_of(node):
    """What a node of the graph has saved."""
    if hasattr(node, "saved_tensors") and not type(node).__module__.startswith("torch._C"):
        return [t for t in node.saved_tensors if t is not None]
    found = []
    for name in dir(node):
        if name.startswith("_saved_"):
            value = getattr(node, name)
            found.extend(t for t in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(t, torch.Tensor))
    return found


class Watch:
    """Between begin() and the end of each pass."""

    def __init__(self, job, graph):
        models, self.graph, self.walks = job.models, graph, getattr(job, "walks", True)
        self.own = {storage_of(t).data_ptr() for m in models for t in [*m.parameters(), *m.buffers()]}
        self.held = weakref.WeakSet()
        self.passes = []

    def pack(self, t):
        held = Held(t)
        self.held.add(held)
        return held

    def add(self, kept, t, node=None):
        s = storage_of(t)
        if s.nbytes() and s.data_ptr() not in self.own:
            nodes = kept.setdefault(s.data_ptr(), [s.nbytes(), []])[1]
            if node:
                nodes.append(node)

    def begins(self, roots):
        kept = {}
        for held in list(self.held):
            self.add(kept, held.t)
        todo, seen = [r.grad_fn for r in roots] if self.walks else [], set()
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            todo.extend(n for n, _ in node.next_functions)
            for t in saved_of(node):
                if self.graph or storage_of(t).data_ptr() in kept:
                    self.add(kept, t, node.name())
        self.passes.append(kept)


watch = None


def backward(loss, *others):
    """others: what other graphs, which wait for their own backward, come to."""
    if watch:
        watch.begins([loss, *others])
    loss.backward()


# --- jobs: models, and a step ---------------------------------------------------------------------------------


class Transformer:
    def __init__(self):
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
        self.models = [nn.ModuleDict({"embed": nn.Embedding(512, 128), "layers": nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
                                      "head": nn.Linear(128, 512)})]
        self.opt = torch.optim.AdamW(self.models[0].parameters())

    def step(self):
        m, x = self.models[0], torch.randint(0, 512, (8, 64))
        y = m["head"](m["layers"](m["embed"](x)))
        backward(nn.functional.cross_entropy(y.flatten(0, 1), x.flatten()))
        self.opt.step()
        self.opt.zero_grad()


class Conv:
    def __init__(self):
        parts, n = [], 3
        for k in (16, 32, 64):
            parts += [nn.Conv2d(n, k, 3, padding=1), nn.BatchNorm2d(k), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            n = k
        self.models = [nn.Sequential(*parts, nn.Dropout(0.2), nn.Flatten(), nn.Linear(64 * 16, 10))]
        self.opt = torch.optim.SGD(self.models[0].parameters(), lr=0.01, momentum=0.9)

    def step(self):
        y = self.models[0](torch.randn(16, 3, 32, 32))
        backward(nn.functional.cross_entropy(y, torch.randint(0, 10, (16,))))
        self.opt.step()
        self.opt.zero_grad()


class Lstm:
    def __init__(self):
        self.models = [nn.ModuleDict({"embed": nn.Embedding(300, 96), "lstm": nn.LSTM(96, 128, 2, batch_first=True),
                                      "head": nn.Linear(128, 300)})]
        self.opt = torch.optim.Adam(self.models[0].parameters())

    def step(self):
        m, x = self.models[0], torch.randint(0, 300, (16, 24))
        y = m["head"](m["lstm"](m["embed"](x))[0])
        backward(nn.functional.cross_entropy(y.flatten(0, 1), x.flatten()))
        self.opt.step()
        self.opt.zero_grad()


class Accumulate:
    """Four batches a step, of which the third is the largest; evaluation between."""

    def __init__(self):
        self.models = [nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 256), nn.Tanh())]
        self.opt = torch.optim.AdamW(self.models[0].parameters())

    def step(self):
        for rows in (192, 256, 384, 320):
            x = torch.randn(rows, 256)
            backward((self.models[0](x) - x).square().mean())
        self.opt.step()
        self.opt.zero_grad()
        with torch.no_grad():
            self.models[0](torch.randn(512, 256))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(192), nn.Linear(192, 768), nn.Linear(768, 192)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Checkpoint:
    """Two blocks that are computed again, of both kinds, between two that are not. Whoever asks a node in them what it saved has it
    computed again: so nobody asks."""

    walks = False

    def __init__(self):
        self.models = [nn.ModuleList([Block() for _ in range(4)])]
        self.opt = torch.optim.AdamW(self.models[0].parameters())

    def step(self):
        a, b, c, d = self.models[0]
        x = torch.randn(512, 192)
        y = checkpoint(b, a(x), use_reentrant=False)
        y = checkpoint(c, y, use_reentrant=True)
        backward((d(y) - x).square().mean())
        self.opt.step()
        self.opt.zero_grad()


class Gan:
    def __init__(self):
        self.g = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 784), nn.Tanh())
        self.d = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(512, 1))
        self.models = [self.g, self.d]
        self.opts = [torch.optim.Adam(m.parameters(), betas=(0.5, 0.999)) for m in self.models]

    def step(self):
        bce, real, one, zero = nn.functional.binary_cross_entropy_with_logits, torch.rand(256, 784), torch.ones(256, 1), torch.zeros(256, 1)
        fake = self.g(torch.randn(256, 64))
        self.opts[1].zero_grad()
        backward(bce(self.d(real), one), fake)
        backward(bce(self.d(fake.detach()), zero), fake)
        self.opts[1].step()
        self.opts[0].zero_grad()
        backward(bce(self.d(fake), one))
        self.opts[0].step()


class Mixed:
    """Under autocast weights are copied into another type for the forward and the backward."""

    def __init__(self):
        self.models = [nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.LayerNorm(1024), nn.Linear(1024, 256))]
        self.opt = torch.optim.AdamW(self.models[0].parameters())

    def step(self):
        x = torch.randn(320, 256)
        with torch.autocast("cpu", torch.bfloat16):
            loss = (self.models[0](x) - x).square().mean()
        backward(loss)
        self.opt.step()
        self.opt.zero_grad()


class Penalty:
    """A gradient of a gradient: two passes over one graph."""

    def __init__(self):
        self.models = [nn.Sequential(nn.Linear(300, 700), nn.Tanh(), nn.Linear(700, 1))]
        self.opt = torch.optim.Adam(self.models[0].parameters())

    def step(self):
        x = torch.randn(200, 300, requires_grad=True)
        y = self.models[0](x).sum()
        if watch:
            watch.begins([y])
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        backward(y + (g.norm(dim=1) - 1).square().mean())
        self.opt.step()
        self.opt.zero_grad()


class Compiled:
    def __init__(self):
        self.models = [nn.Sequential(*[Block() for _ in range(3)], nn.Linear(192, 40))]
        self.compiled = torch.compile(self.models[0], backend="aot_eager")
        self.opt = torch.optim.AdamW(self.models[0].parameters())

    def step(self):
        y = self.compiled(torch.randn(512, 192))
        backward(nn.functional.cross_entropy(y, torch.randint(0, 40, (512,))))
        self.opt.step()
        self.opt.zero_grad()


class Distil:
    """Targets and weights that only kernels which inductor generates are given, and that the job goes on holding."""

    def __init__(self):
        self.models = [nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 512))]
        self.loss = torch.compile(lambda x, t, w: ((self.models[0](x) - t).tanh() * w).square().mean())
        self.opt = torch.optim.AdamW(self.models[0].parameters())

    def step(self):
        x, t, w = torch.randn(512, 256), torch.randn(512, 512), torch.rand(512, 512)
        backward(self.loss(x, t, w))
        self.opt.step()
        self.opt.zero_grad()


JOBS = {k.__name__.lower(): k for k in (Transformer, Conv, Lstm, Accumulate, Checkpoint, Gan, Mixed, Penalty, Compiled, Distil)}


def watched(job, graph, steps):
    global watch
    w = Watch(job, graph)
    for i in range(steps):
        w.passes.clear()
        watch = w
        if graph:
            job.step()
        else:
            with torch.autograd.graph.saved_tensors_hooks(w.pack, lambda held: held.t):
                job.step()
        watch = None
        w.held.clear()
    return w.passes


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--job", choices=JOBS, required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--graph", action="store_true")
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    job, asked = JOBS[a.job](), []
    threading.Thread(target=lambda: asked.extend(line.strip() for line in sys.stdin), daemon=True).start()
    for _ in range(3):
        job.step()
    print(f"ready {os.getpid()}", flush=True)
    while "watch" not in asked:
        job.step()
        time.sleep(0.01)
    passes = watched(job, a.graph, a.steps)
    with open(a.out, "w") as f:
        json.dump(passes, f)
    print("watched", flush=True)
    while "stop" not in asked:
        time.sleep(0.01)
    print("stopped", flush=True)
    os._exit(0)  # a thread waits for stdin


if __name__ == "__main__":
    main()
