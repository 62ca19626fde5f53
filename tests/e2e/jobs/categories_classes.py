#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs that say themselves what their memory is: ground truth for the extended classes.

    categories_classes.py --model buffers --out truth.json [--warm 5] [--measured 3] [--waits]

Says "ready PID" after two steps, goes on at a line on stdin, says "done". --waits: the measured steps begin at another line. At moments of the measured steps
it writes down which storages are what. Output: pid, moments: [[epoch ns, {class: [pointer, …]}], …]; a class
that a moment does not name is not told of there.
"""
import argparse
import copy
import gc
import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

from word import grads, parts_of, pointers, states, tensors_of, trained

moments = None  # a list while the measured steps run


def moment(**classes):
    if moments is not None:
        told = {name: pointers(tensors) for name, tensors in classes.items()}
        moments.append([time.time_ns(), told])


class WithBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.back = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.back.requires_grad_(False)
        self.front = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                                   nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 64))
        self.head = nn.Linear(64, 10)
        self.register_buffer("scale", torch.rand(64))

    def forward(self, x):
        return self.head(self.front(self.back(x)) * self.scale)


def buffers():
    """Batch norm, a constant, frozen layers, an EMA copy, an eval pass between the steps."""
    model = WithBuffers()
    ema = [p.detach().clone() for p in trained(model)]
    opt = torch.optim.Adam(trained(model), lr=1e-3)

    def step():
        x, y = torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for copy, p in zip(ema, trained(model)):
                copy.mul_(0.99).add_(p, alpha=0.01)
            model.eval()
            model(torch.randn(4, 3, 16, 16)).argmax(1)
            model.train()
        moment(PARAMETER=trained(model), GRADIENT=grads(trained(model)), OPTIMIZER_STATE=states(opt),
               FROZEN=list(model.back.parameters()), BUFFER=list(model.buffers()) + ema,
               COMMUNICATION=[], DATALOADER=[], INPUT=[x, y], ACTIVATION=[loss])

    return step


def loader(workers=0):
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(512, 96), torch.randint(0, 10, (512,)))
    batches = iter(())
    model = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tried = [torch.rand(96)]
    while tried[-1].data_ptr() % 4096:  # begins a page, as shared memory does
        tried.append(torch.rand(96))
    weight = tried.pop()  # kept for all steps, as a buffer is

    def step():
        nonlocal batches
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(DataLoader(data, batch_size=32, shuffle=True, num_workers=workers))
            x, y = next(batches)
        opt.zero_grad()
        noise = torch.rand(32, 96)
        loss = F.cross_entropy(model(x * weight + noise), y)
        loss.backward()
        opt.step()
        moment(DATALOADER=[x, y], PARAMETER=trained(model), GRADIENT=grads(trained(model)), BUFFER=[weight],
               OPTIMIZER_STATE=states(opt), FROZEN=[], COMMUNICATION=[])

    return step


def workers():
    return loader(1)


def numpy_batches():
    """Every batch a new array of another size: memory that nobody tells the end of."""
    import numpy as np

    rng = np.random.default_rng(0)
    model = nn.Linear(64, 64)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        for _ in range(40):
            x = torch.from_numpy(rng.standard_normal((int(rng.integers(100, 12000)), 64), dtype=np.float32))
            opt.zero_grad()
            y = model(x)
            y.square().mean().backward()
            opt.step()
        moment(INPUT=[x], ACTIVATION=[y], PARAMETER=trained(model), GRADIENT=grads(trained(model)))

    return step


def one_rank():
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    return dist


def ddp(view=False):
    dist = one_rank()
    inner = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
    model = nn.parallel.DistributedDataParallel(inner, gradient_as_bucket_view=view)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    buckets = {}

    def reduce(_, bucket):
        buckets[bucket.index()] = bucket.buffer()
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0])

    model.register_comm_hook(None, reduce)

    def step():
        opt.zero_grad()
        x = torch.randn(64, 256)
        loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        moment(COMMUNICATION=list(buckets.values()), PARAMETER=trained(inner), OPTIMIZER_STATE=states(opt),
               GRADIENT=[] if view else grads(trained(inner)), BUFFER=[], FROZEN=[], DATALOADER=[])
        buckets.clear()

    return step


def ddp_view():
    return ddp(True)


def fsdp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    one_rank()
    mesh = init_device_mesh("cpu", (1,))
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
    layers = model[0], model[2]

    def unsharded(layer, *_):
        moment(UNSHARDED=list(layer.parameters()), PARAMETER=shards, GRADIENT=[], BUFFER=[], FROZEN=[])

    for layer in layers:
        fully_shard(layer, mesh=mesh)
        layer.register_forward_pre_hook(unsharded)
    fully_shard(model, mesh=mesh)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    shards = [p.to_local().detach() for p in model.parameters()]

    def step():
        opt.zero_grad()
        model(torch.randn(64, 256)).pow(2).mean().backward()
        opt.step()
        moment(PARAMETER=shards, GRADIENT=[p.grad.to_local() for p in model.parameters()], UNSHARDED=[],
               BUFFER=[], FROZEN=[])  # momenta are older than the attach: known once Python was looked at (sharded, below)

    return step


def lbfgs():
    model = nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 16))
    opt = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=5)
    x, y = torch.randn(64, 64), torch.randn(64, 16)

    def step():
        def closure():
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = opt.step(closure)
        moment(OPTIMIZER_STATE=states(opt), PARAMETER=trained(model), GRADIENT=grads(trained(model)),
               ACTIVATION=[loss], INPUT=[x, y], BUFFER=[], FROZEN=[])

    return step


def adam_by_hand():
    """No Optimizer: its state is what gradients are written into."""
    model = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96))
    state = [(torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]

    def step():
        x = torch.randn(64, 96)
        loss = F.mse_loss(model(x), x)
        loss.backward()
        moment(GRADIENT=grads(trained(model)))
        with torch.no_grad():
            for p, (m, v) in zip(model.parameters(), state):
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)
                p.grad = None
        moment(OPTIMIZER_STATE=tensors_of(state), PARAMETER=trained(model), BUFFER=[], FROZEN=[])

    return step


def decay_by_hand():
    """SGD as torch writes it: decay adds the weights to a copy of the gradient, which the momentum gets. A mean of norms is no state."""
    model = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96))
    momenta = [torch.zeros_like(p) for p in model.parameters()]
    mean = torch.zeros(())

    def step():
        x = torch.randn(64, 96)
        F.mse_loss(model(x), x).backward()
        moment(GRADIENT=grads(trained(model)))
        with torch.no_grad():
            for p, m in zip(model.parameters(), momenta):
                mean.lerp_(p.grad.norm(), 0.1)
                m.mul_(0.9).add_(p.grad.add(p, alpha=1e-4))
                p.sub_(m, alpha=1e-3)
                p.grad = None
        moment(OPTIMIZER_STATE=momenta, PARAMETER=trained(model), BUFFER=[mean], FROZEN=[])

    return step


def gan():
    maker = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 64))
    judge = nn.Sequential(nn.Linear(64, 96), nn.LeakyReLU(0.2), nn.Linear(96, 1))
    opt_maker, opt_judge = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (maker, judge))
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    loss_of = F.binary_cross_entropy_with_logits

    def step():
        real, fake = torch.randn(64, 64), maker(torch.randn(64, 32))
        opt_judge.zero_grad()
        (loss_of(judge(real), ones) + loss_of(judge(fake.detach()), zeros)).backward()
        opt_judge.step()
        opt_maker.zero_grad()
        loss_of(judge(fake), ones).backward()
        opt_maker.step()
        moment(OPTIMIZER_STATE=states(opt_maker, opt_judge), PARAMETER=trained(maker, judge),
               GRADIENT=grads(trained(maker, judge)), BUFFER=[ones, zeros], FROZEN=[])

    return step


def accumulate():
    """Four backward passes a step; gradients are zeroed in place."""
    model = nn.Sequential(nn.Linear(96, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 96))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        for _ in range(4):
            x = torch.randn(64, 96)
            (F.mse_loss(model(x), x) / 4).backward()
        opt.step()
        moment(OPTIMIZER_STATE=states(opt), PARAMETER=trained(model), GRADIENT=grads(trained(model)), BUFFER=[],
               FROZEN=[], INPUT=[x])
        opt.zero_grad(set_to_none=False)

    return step


def slowly(step, times=6):
    """Python is looked at once a second, and what it says counts for what is alive then: with --waits."""
    def slow():
        for _ in range(times):
            step()
        time.sleep(0.5)
    return slow


def inference():
    """Nothing is trained: weights are parameters, not frozen ones; buffers are those that Python calls so, read or not."""
    model = WithBuffers().eval()

    def step():
        with torch.inference_mode():
            out = model(torch.randn(8, 3, 16, 16))
            moment(PARAMETER=list(model.parameters()), BUFFER=list(model.buffers()), FROZEN=[], GRADIENT=[], OPTIMIZER_STATE=[])
        return out

    return slowly(step, 1)


def steps_in_backward():
    """An optimizer a parameter, called by a hook as soon as its gradient is there; no gradient outlives backward."""
    model = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    opts = {p: torch.optim.Adam([p], lr=1e-3) for p in model.parameters()}

    def hook(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in opts:
        p.register_post_accumulate_grad_hook(hook)

    def step():
        x, y = torch.randn(32, 96), torch.randint(0, 10, (32,))
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        moment(OPTIMIZER_STATE=states(*opts.values()), PARAMETER=trained(model), GRADIENT=[], INPUT=[x, y],
               ACTIVATION=[loss], BUFFER=[], FROZEN=[])

    return step


def image():
    """What is optimized is an image before a frozen net: there is no data, all is made from parameters."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)).requires_grad_(False)
    picture = torch.randn(1, 3, 32, 32, requires_grad=True)
    opt = torch.optim.Adam([picture])

    def step():
        opt.zero_grad()
        hidden = model[:2](picture)
        out = model[2:](hidden)
        out.square().mean().backward()
        moment(PARAMETER=[picture], GRADIENT=[picture.grad], OPTIMIZER_STATE=states(opt), ACTIVATION=[hidden, out],
               FROZEN=list(model.parameters()), BUFFER=[])
        opt.step()

    return step


def graph_net():
    """Messages of a graph: products with a sparse matrix, and sums that are filled from zeros."""
    matrix = (torch.rand(300, 300) < 0.02).float().to_sparse()
    source, target = torch.randint(0, 300, (2, 1000))
    features = torch.randn(300, 64)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
    opt = torch.optim.Adam(layers.parameters())

    def step():
        opt.zero_grad()
        product = torch.sparse.mm(matrix, layers[0](features))
        hidden = F.relu(product)
        messages = layers[1](hidden)[source]
        summed = torch.zeros(300, 64).index_add_(0, target, messages)
        last = torch.sparse.mm(matrix, layers[2](F.relu(summed)))
        last.square().mean().backward()
        moment(PARAMETER=trained(layers), GRADIENT=grads(trained(layers)), OPTIMIZER_STATE=states(opt),
               ACTIVATION=[product, hidden, messages, summed, last])
        opt.step()

    return step


def steps_by_hand_in_backward(after=False):
    """The same without an Optimizer: momentum in hooks inside of AccumulateGrad, or in such that are called after it."""
    model = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    momenta = {p: torch.zeros_like(p) for p in model.parameters()}

    @torch.no_grad()
    def hook(p):
        momenta[p].mul_(0.9).add_(p.grad)
        p.sub_(momenta[p], alpha=0.01)
        p.grad = None

    nodes = [p.expand_as(p).grad_fn.next_functions[0][0] for p in momenta]
    for p, node in zip(momenta, nodes):
        if after:
            node.register_hook(lambda *_, p=p: hook(p))
        else:
            p.register_post_accumulate_grad_hook(hook)

    def step():
        x, y = torch.randn(32, 96), torch.randint(0, 10, (32,))
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        moment(OPTIMIZER_STATE=list(momenta.values()), PARAMETER=[v.variable for v in nodes], GRADIENT=[], INPUT=[x, y],
               ACTIVATION=[loss], BUFFER=[], FROZEN=[])

    return step


def steps_by_hand_after_nodes():
    return steps_by_hand_in_backward(True)


def decode():
    """A service: a Transformer's fast path, a recurrent net, attention over a cache of keys and values."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    recurrent, cell = nn.LSTM(64, 64, batch_first=True).eval(), nn.GRUCell(64, 64).eval()
    qkv = nn.Linear(64, 192)

    def step():
        with torch.inference_mode():
            keys, values = torch.zeros(1, 4, 32, 16), torch.zeros(1, 4, 32, 16)
            prompt = torch.randn(1, 9, 64)
            x = cell(recurrent(encoder(prompt))[0][:, -1]).unsqueeze(1)
            for t in range(16):
                q, keys[:, :, t:t + 1], values[:, :, t:t + 1] = qkv(x).view(1, 1, 3, 4, 16).permute(2, 0, 3, 1, 4)
                x = F.scaled_dot_product_attention(q, keys[:, :, :t + 1], values[:, :, :t + 1]).reshape(1, 1, 64)
            moment(PARAMETER=[p for m in (encoder, recurrent, cell, qkv) for p in m.parameters()], FROZEN=[], GRADIENT=[],
                   OPTIMIZER_STATE=[], INPUT=[prompt], ACTIVATION=[keys, values, x])

    return step


def two_threads():
    """Two models trained at once, each by a thread of its own; the states must not mix."""
    import threading

    def one(width):
        model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 64))
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step():
            for _ in range(4):
                x = torch.randn(32, 64)
                opt.zero_grad()
                F.mse_loss(model(x), x).backward()
                opt.step()

        return model, opt, step

    jobs = [one(96), one(128)]

    def step():
        threads = [threading.Thread(target=job[2]) for job in jobs]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        params = trained(jobs[0][0], jobs[1][0])
        moment(PARAMETER=params, GRADIENT=grads(params), OPTIMIZER_STATE=states(jobs[0][1], jobs[1][1]), BUFFER=[],
               FROZEN=[])

    return step


def normed(width=64):
    return nn.Sequential(nn.Linear(width, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 10))


def held():
    """What a job has in its hands and gives to no operator: a teacher, averaged weights, Adam's state between two of its steps."""
    model = normed()
    teacher, average = (copy.deepcopy(model).requires_grad_(False) for _ in range(2))
    model.register_buffer("table", torch.rand(1000))
    opt = torch.optim.AdamW(model.parameters())
    steps = itertools.count()

    def step():
        model(torch.randn(32, 64)).square().mean().backward()
        if next(steps) < 6:
            opt.step()
            opt.zero_grad()
        kept = list(teacher.parameters()) + list(average.parameters())
        moment(PARAMETER=trained(model), GRADIENT=grads(trained(model)), OPTIMIZER_STATE=states(opt), FROZEN=kept,
               BUFFER=[b for m in (model, teacher, average) for b in m.buffers()])

    return slowly(step)


def compiled_optimizer():
    """Its state is given to generated code alone, which no probe sees; so are averaged weights. Others an operator averages."""
    model = normed()
    average, seen = (copy.deepcopy(model).requires_grad_(False) for _ in range(2))
    opt = torch.optim.AdamW(model.parameters(), capturable=True)

    @torch.compile
    def update():
        opt.step()
        torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)

    def step():
        opt.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        with torch.no_grad():
            update()
            torch._foreach_lerp_(list(seen.parameters()), list(model.parameters()), 0.01)
        moment(PARAMETER=trained(model), GRADIENT=grads(trained(model)), OPTIMIZER_STATE=states(opt), FROZEN=list(average.parameters()),
               BUFFER=[*seen.parameters(), *(b for m in (model, average, seen) for b in m.buffers())])

    return slowly(step)


def sparse(accumulates=1):
    """An embedding whose gradient is sparse, and kept until the next step."""
    table, head = nn.Embedding(1000, 32, sparse=True), nn.Linear(32, 64)
    opts = [torch.optim.SparseAdam(table.parameters()), torch.optim.SGD(head.parameters(), lr=1e-2, momentum=0.9)]
    params = trained(table, head)

    def step():
        for o in opts:
            o.zero_grad()
        for _ in range(accumulates):
            head(table(torch.randint(0, 1000, (4, 32)))).square().mean().backward()
        for o in opts:
            o.step()
        moment(PARAMETER=params, GRADIENT=[t for g in grads(params) for _, t in parts_of(g)], OPTIMIZER_STATE=states(*opts),
               FROZEN=[], BUFFER=[])

    return slowly(step)


def sparse_accumulated():
    return sparse(2)


def two_ranks():
    """Rank 0 of two; the other one is a process of its own, no child of this one, and ends with it."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    rank, store = int(os.environ.get("RANK", "0")), os.environ.get("STORE") or os.path.join(tempfile.mkdtemp(), "store")
    if not rank:
        subprocess.run(["sh", "-c", '"$@" &', "sh", sys.executable, *sys.argv], env=dict(os.environ, RANK="1", STORE=store),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    return init_device_mesh("cpu", (2,))


def locals_of(tensors):
    return [t.to_local().detach() if hasattr(t, "to_local") else t for t in tensors]


def tensor_parallel():
    """Each rank has one half of a linear layer's rows, and of the next one's columns: DTensors."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = two_ranks()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32), nn.LayerNorm(32))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    opt = torch.optim.AdamW(model.parameters())

    def step():
        opt.zero_grad()
        model(torch.ones(16, 64)).square().mean().backward()
        opt.step()
        moment(PARAMETER=locals_of(trained(model)), GRADIENT=locals_of(grads(trained(model))), OPTIMIZER_STATE=locals_of(states(opt)),
               FROZEN=[], BUFFER=[])

    return slowly(step)


def sharded():
    """FSDP2, whose optimizer's state is older than the attach."""
    from torch.distributed.fsdp import fully_shard

    mesh = two_ranks()
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    for layer in model[0], model[2], model:
        fully_shard(layer, mesh=mesh)
    opt = torch.optim.AdamW(model.parameters())

    def step():
        opt.zero_grad()
        model(torch.ones(16, 64)).square().mean().backward()
        opt.step()
        moment(PARAMETER=locals_of(trained(model)), GRADIENT=locals_of(grads(trained(model))), UNSHARDED=[],
               OPTIMIZER_STATE=locals_of(states(opt)), FROZEN=[], BUFFER=[])

    return slowly(step)


def inner_of(tensors):
    """What has the memory of those that wrap others."""
    return [part for t in tensors for part in (map(t.__getattribute__, t.__tensor_flatten__()[0]) if hasattr(t, "__tensor_flatten__") else (t,))]


def two_tensors():
    """Weights that wrap two tensors each, as quantised ones do: a trained layer and a frozen one before it. What any operator makes of
    them wraps two, too: gradients and Adam's state."""
    from torch.testing._internal.two_tensor import TwoTensor

    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 96), nn.LayerNorm(96))
    for layer in model[0], model[2]:
        layer.weight = nn.Parameter(TwoTensor(layer.weight.detach(), torch.randn_like(layer.weight)), requires_grad=layer is not model[0])
    model[0].requires_grad_(False)
    opt = torch.optim.AdamW(trained(model))

    def step():
        opt.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        opt.step()
        moment(PARAMETER=inner_of(trained(model)), GRADIENT=inner_of(grads(trained(model))), OPTIMIZER_STATE=inner_of(states(opt)),
               FROZEN=inner_of(model[0].parameters()), BUFFER=[])

    return slowly(step)


def awaited():
    """Results of collectives, which wrap a tensor: a buffer that each step reads, one that nobody has waited for yet, a frozen weight and
    a trained one."""
    from torch.distributed import _functional_collectives as collectives

    world = one_rank().group.WORLD
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32))
    for layer in model[0], model[2]:
        layer.weight = nn.Parameter(collectives.all_reduce(layer.weight.detach(), "sum", world), requires_grad=layer is not model[0])
    model[0].bias.requires_grad_(False)
    for name in ("mean", "later"):
        model.register_buffer(name, collectives.all_reduce(torch.rand(32), "sum", world))
    opt = torch.optim.AdamW(trained(model))

    def step():
        opt.zero_grad()
        (model(torch.randn(16, 64)) - model.mean).square().mean().backward()
        opt.step()
        moment(PARAMETER=inner_of(trained(model)), GRADIENT=inner_of(grads(trained(model))), OPTIMIZER_STATE=inner_of(states(opt)),
               FROZEN=inner_of(model[0].parameters()), BUFFER=inner_of(model.buffers()))

    return slowly(step)


JOBS = {f.__name__: f for f in (buffers, loader, workers, numpy_batches, ddp, ddp_view, fsdp, lbfgs, adam_by_hand, decay_by_hand,
                                gan, accumulate, inference, image, graph_net, steps_in_backward, steps_by_hand_in_backward,
                                steps_by_hand_after_nodes, decode, two_threads, held, compiled_optimizer, sparse, sparse_accumulated, tensor_parallel,
                                sharded, two_tensors, awaited)}


def main():
    global moments
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True, choices=list(JOBS))
    p.add_argument("--warm", type=int, default=5)
    p.add_argument("--measured", type=int, default=3)
    p.add_argument("--waits", action="store_true")
    p.add_argument("--out", required=True)
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = JOBS[args.model]()
    while os.environ.get("RANK") == "1":
        step()  # until the other rank has ended
    for _ in range(2):
        step()
    print(f"ready {os.getpid()}", flush=True)
    sys.stdin.readline()
    for _ in range(args.warm):
        step()
    while args.waits and not select.select([sys.stdin], [], [], 0)[0]:
        step()
    told = moments = []
    for _ in range(args.measured):
        step()
    moments = None
    for _ in range(2):
        step()
    del step
    gc.collect()
    with open(args.out, "w") as f:
        json.dump({"pid": os.getpid(), "moments": told}, f)
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
