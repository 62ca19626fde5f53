#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Models that train until they are told "stop", and then say what their tensors are called.

    ready PID          training
    stopped            nothing changes any more; --out has {address of a storage: [kind, names, key, bytes, shape]}

Names come from named_parameters(), named_buffers() and the optimizer's state. `churn` has no such truth: its
permanent model is told at the start, and the shape of every transient tensor is its name once more.
"""
import argparse
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import types

import torch
from torch import nn


def transformer():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 3, enable_nested_tensor=False)
    x = torch.randn(4, 16, 64)
    return [model], [torch.optim.AdamW(model.parameters())], lambda: model(x).square().mean()


def conv():
    model = nn.Sequential()
    for i in range(3):
        model.append(nn.Sequential(nn.Conv2d(3 if not i else 8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()))
    model.register_buffer("scale", torch.full((8, 1, 1), 0.5))
    x = torch.randn(4, 3, 16, 16)
    return [model], [torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)], lambda: (model(x) * model.scale).square().mean()


class Tied(nn.Module):
    """One weight under two names, in a recurrent model."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(128, 32)
        self.lstm = nn.LSTM(32, 32, 2, batch_first=True)
        self.out = nn.Linear(32, 128)
        self.out.weight = self.embed.weight

    def forward(self, x):
        return self.out(self.lstm(self.embed(x))[0])


def tied():
    model = Tied()
    x = torch.randint(0, 128, (4, 12))
    return [model], [torch.optim.Adam(model.parameters(), amsgrad=True)], lambda: model(x).square().mean()


def hostile():
    """Names that mean harm to whoever shows them."""
    model = nn.Sequential()
    model.add_module("</script><img src=x onerror=document['title']='owned'>", nn.Linear(256, 256))
    model.add_module("};a b'\"\\&lt;%s{", nn.Linear(256, 256))
    x = torch.randn(8, 256)
    return [model], [torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)], lambda: model(x).square().mean()


class Generator(nn.Sequential):
    pass


class Critic(nn.Sequential):
    pass


def gan():
    """Two models, the second of them only in a closure, two optimizers of two kinds."""
    g = Generator(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32))
    c = Critic(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    opts = [torch.optim.RMSprop(g.parameters(), momentum=0.5, centered=True), torch.optim.Adagrad(c.parameters())]
    x = torch.randn(8, 16)
    return [g, c], opts, lambda: c(g(x)).square().mean()


class Grower(nn.Module):
    """A lazy part, and parts that come and are replaced while it trains."""

    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(48)
        self.parts = nn.ModuleList()
        self.named = nn.ParameterDict({"gain": nn.Parameter(torch.ones(48))})
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        x = self.first(x) * self.named["gain"]
        for p in self.parts:
            x = p(x)
        return x


def grower():
    model = Grower()
    x = torch.randn(8, 24)
    model(x)
    opts = [torch.optim.NAdam(model.parameters())]

    def step():
        if model.steps in (20, 40, 60):
            model.parts.append(nn.Linear(48, 48))
        if model.steps == 80:
            model.parts[0] = nn.Linear(48, 48, bias=False)
            opts[0] = torch.optim.NAdam(model.parameters())
        return model(x).square().mean()
    return [model], opts, step


def bare():
    """Parameters of no module, one that is frozen, and a model in a generator's frame."""
    w = [nn.Parameter(torch.randn(40, 30)), nn.Parameter(torch.randn(30))]
    opt = torch.optim.ASGD([{"params": w[:1]}, {"params": w[1:], "lr": 1e-4}])
    x = torch.randn(8, 40)

    def losses():
        hidden = nn.Bilinear(30, 30, 10)
        hidden.bias.requires_grad_(False)
        models.append(hidden)
        while True:
            y = x @ w[0] + w[1]
            yield hidden(y, y).square().mean()
    models = []
    source = losses()
    next(source)
    found = list(models)
    models.clear()
    return found, [opt], lambda: next(source)


def ddp():
    """Rank 0 of two; the other one is a process of its own, which ends with this one."""
    from torch import distributed
    rank, store = int(os.environ.get("RANK", "0")), os.environ.get("STORE") or os.path.join(tempfile.mkdtemp(), "store")
    if not rank:
        # no child of this one: it is not looked at
        subprocess.run(["sh", "-c", '"$@" &', "sh", sys.executable, __file__, "--model", "ddp", "--out", os.devnull],
                       env=dict(os.environ, RANK="1", STORE=store), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.Linear(128, 8)))
    x = torch.randn(16, 64)
    return [model], [torch.optim.AdamW(model.parameters())], lambda: model(x).square().mean()


def interpreters():
    """A newer interpreter beside the one that has torch, which then refuses to go backward: it only infers."""
    try:
        import _xxsubinterpreters as others
    except ImportError:
        import _interpreters as others
    newer = others.create()  # is there as long as this is
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    x = torch.randn(16, 64)

    def step():
        with torch.no_grad():
            model(x)
        return types.SimpleNamespace(backward=lambda: newer)
    return [model], [], step


MODELS = {f.__name__: f for f in (transformer, conv, tied, gan, grower, bare, hostile, ddp, interpreters)}


def truth(models, opts):
    said, by_object = {}, {}

    def add(kind, name, key, tensor):
        s = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()  # before 2.0
        if s.nbytes():
            said.setdefault(s.data_ptr(), [kind, [], key, s.nbytes(), list(tensor.shape)])[1].append(name)
    for model in models:
        for path, module in model.named_modules(remove_duplicate=False):
            for name, p in module.named_parameters(path, recurse=False):
                add("parameter", name, None, p)
                by_object.setdefault(p, name)
        for name, b in model.named_buffers():
            add("buffer", name, None, b)
    for opt in opts:
        for i, group in enumerate(opt.param_groups):
            for k, p in enumerate(group["params"]):
                if p not in by_object:
                    by_object[p] = f"param_groups.{i}.{k}"
                    add("parameter", by_object[p], None, p)
        for p, state in opt.state.items():
            for key, value in state.items():
                if torch.is_tensor(value):
                    add("optimizer_state", by_object[p], key, value)
                for k, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
                    if torch.is_tensor(item):
                        add("optimizer_state", by_object[p], f"{key}.{k}", item)
    for p, name in by_object.items():
        if p.grad is not None:
            add("gradient", name, None, p.grad)
    return said


class Permanent(nn.Module):
    def __init__(self, n):
        super().__init__()
        for i in range(n):
            self.register_parameter(f"p{i}", nn.Parameter(torch.randn(i + 1, 3)))


class Transient(nn.Module):
    """Parameter a.b.pN has N + 100 rows and as many columns as its path has parts."""

    def __init__(self, depth=1):
        super().__init__()
        for i in random.sample(range(20), 6):
            self.register_parameter(f"p{i}", nn.Parameter(torch.randn(i + 100, depth)))
        if depth < 4:
            for name in ("a", "b"):
                setattr(self, name, Transient(depth + 1))


def churn(out):
    """Modules made, replaced and dropped as fast as it goes, with the collector running."""
    keep = Permanent(30)
    with open(out, "w") as f:
        json.dump(truth([keep], []), f)
    print(f"ready {os.getpid()}", flush=True)
    held = []
    while True:
        held.append(Transient())
        if len(held) > 4:
            held.pop(random.randrange(len(held)))
        setattr(random.choice(held), random.choice("ab"), Transient(2))
        if random.random() < 0.2:
            gc.collect()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", choices=[*MODELS, "churn"], required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--gc", action="store_true", help="collect garbage in every step")
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if args.model == "churn":
        churn(args.out)
    models, opts, step = MODELS[args.model]()
    stop = threading.Event()
    if os.environ.get("RANK", "0") == "0":
        threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    steps = 0
    while not stop.is_set():
        for o in opts:
            o.zero_grad()
        step().backward()
        for o in opts:
            o.step()
        steps += 1
        if args.gc:
            gc.collect()
        if steps == 5:
            print(f"ready {os.getpid()}", flush=True)
    with open(args.out, "w") as f:
        json.dump(truth(models, opts), f)
    print("stopped", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
