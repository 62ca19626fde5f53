#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The cases of PyTorch's test_fully_shard_memory.py as an ordinary job of torchrun, on the CPU over gloo.

    torchrun --nproc-per-node 2 fsdp_memory.py --case reshard|no_reshard|optim_in_backward|offload|delete [--dim 768]

The transformer is torch's own (torch.testing). The test there builds the model on the CPU and counts the GPU's bytes: a module
comes to the device when it is sharded. Here all is one device, so the model begins on "meta" and each module is given its
memory right before fully_shard takes it: the same order of births and frees.

Marks are regions "mark NAME", with nothing in them. Each rank says one line of JSON: its pid, what its arithmetic expects
after each stage (bytes above the mark "base"; `peak`: the highest since "base" or the last "reset"), of some marks the bytes of
all storages that its own garbage collector can reach, and what the model's shapes say of each class then; the bytes of
one block's all-gather; and, with --counted LIBRARY (counted.cpp), what an allocator around torch's own counted: at each mark
the bytes that are not gloo's own, the highest of all, and that of what is not gloo's.
"""
import argparse
import ctypes
import functools
import gc
import inspect
import json
import os
import sys
import textwrap
import types

import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_param_group
from torch.distributed.tensor import DTensor

# torch.testing's helpers ask for a package of its developers, of which nothing is used here.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).TestCase = object
from torch.testing._internal.distributed._tensor.common_dtensor import ModelArgs, Transformer, TransformerBlock  # noqa: E402

MB = 1_000_000
WORD = 4  # float32
expected, reachable, classes, counted = {}, {}, {}, {}
facts = {"expected": expected, "reachable": reachable, "classes": classes, "counted": counted}
counter = None


def mark(name):
    with torch.profiler.record_function(f"mark {name}"):
        pass
    if counter:
        said = (ctypes.c_int64 * 3)()
        counter.counted_take(said, name in ("base", "reset"))
        counted[name] = list(said)


def count(library):
    """From here on; what a collective asks for is gloo's."""
    global counter
    counter = ctypes.CDLL(library)
    counter.counted_begin()

    def inside(collective):
        def call(*args, **kw):
            counter.counted_inside(1)
            try:
                return collective(*args, **kw)
            finally:
                counter.counted_inside(0)
        return call
    for name in ("all_gather_single", "reduce_scatter_single", "all_reduce"):
        setattr(dist, name, inside(getattr(dist, name)))


def storages():
    """Bytes of every storage that a tensor of Python's refers to, each once."""
    seen = {}

    def see(tensor):
        if tensor is not None and tensor.device.type == "cpu":
            tensor = getattr(tensor, "_local_tensor", tensor)
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()

    for thing in gc.get_objects():
        if type(thing) in (torch.Tensor, torch.nn.Parameter, DTensor):
            see(thing)
            see(thing.grad if thing.is_leaf else None)
    return sum(seen.values())


def after(stage, peak=None, current=None):
    if stage in ("init", "step", "zero_grad", "deleted"):
        gc.collect()
        reachable[stage] = storages()
    mark(stage)
    expected[stage] = {k: v for k, v in (("peak", peak), ("current", current)) if v is not None}


def of_classes(stage, **bytes_):
    classes[stage] = {name: WORD * n for name, n in bytes_.items()}
    if stage in ("forward", "backward"):
        del classes[stage]["COMMUNICATION"]  # gloo's thread may have the last one's buffers for an instant longer


def shards(module):
    """Elements of a rank's parts of all parameters: they are cut along their first dimension, all as long as the first."""
    return sum(-(-p.shape[0] // dist.get_world_size()) * p.shape[1:].numel() for p in module.parameters())


def build(dim, shard):
    """(model, numbers of elements: all, a rank's, one block's, outside the blocks; a rank's with padding; parameters)"""
    args = ModelArgs(vocab_size=32, n_layers=3, dim=dim, n_heads=12, weight_tying=False)
    with torch.device("meta"):
        model = Transformer(args)
    whole = sum(p.numel() for p in model.parameters())
    block = sum(p.numel() for p in model.layers[0].parameters())
    world = dist.get_world_size()
    padded, number = shards(model), len(list(model.parameters()))
    facts["gathered"] = WORD * world * shards(model.layers[0])
    facts["gathered_root"] = WORD * world * (padded - 3 * shards(model.layers[0]))

    def materialize(module):
        module.to_empty(device="cpu")
        for p in module.parameters():
            torch.nn.init.normal_(p, std=0.02)

    for module in model.layers:
        materialize(module)
        shard(module)
    for module in model.children():
        if not isinstance(module, torch.nn.ModuleList):
            materialize(module)
    shard(model)
    return model, (whole, (whole + world - 1) // world, block, whole - 3 * block), (padded, number)


def optimizer_in_backward(model):
    optimizers = {p: torch.optim.AdamW([p], lr=1e-2, foreach=False) for p in model.parameters()}

    def hook(param):
        optimizers[param].step()
        optimizers[param].zero_grad()

    for param in model.parameters():
        param.register_post_accumulate_grad_hook(hook)


def free_early():
    """wait_for_unshard forgets the block before's output before it copies this one's, but a local name of it still has it."""
    group = _fsdp_param_group.FSDPParamGroup
    source = textwrap.dedent(inspect.getsource(group.wait_for_unshard))
    forgets = "self.comm_ctx.all_gather_state = None"
    if source.count(forgets) != 1:
        raise SystemExit("wait_for_unshard is not what it was in torch 2.13")
    names = dict(vars(_fsdp_param_group))
    exec(source.replace(forgets, "self.comm_ctx.all_gather_state = prev_all_gather_state = None"), names)
    group.wait_for_unshard = names["wait_for_unshard"]


def train(dim, case):
    reshard, in_backward = case != "no_reshard", case == "optim_in_backward"
    policy = CPUOffloadPolicy(pin_memory=False) if case == "offload" else OffloadPolicy()  # pinning asks for an accelerator
    world = dist.get_world_size()
    lin = torch.nn.Linear(dim, dim)
    lin(torch.randn(2, dim)).sum().backward()
    gc.collect()
    reachable["base"] = storages()
    mark("base")

    shard = functools.partial(fully_shard, reshard_after_forward=reshard, offload_policy=policy)
    model, (whole, own, block, rest), (padded, number) = build(dim, shard)
    if in_backward:
        optimizer_in_backward(model)
    else:
        optim = torch.optim.Adam(model.parameters(), lr=1e-2, foreach=False)
    none = {"GRADIENT": 0, "OPTIMIZER_STATE": 0, "UNSHARDED": 0, "COMMUNICATION": 0}
    of_classes("init", PARAMETER=padded, **none)
    after("init", WORD * (own + block) + 4 * MB, WORD * (own + block))

    inp = torch.randint(0, 32, (1, 4))
    loss = model(inp)
    of_classes("forward", PARAMETER=padded, **dict(none, UNSHARDED=0 if reshard else padded * world))
    after("forward", WORD * (3 * block + rest + own if reshard else own + whole + block) + 16 * MB)

    loss.sum().backward()
    if not reshard:  # the reduce-scatter's input and its output, a world-th of that
        peak = own + whole + (1 + 1 / world) * block
    elif in_backward:  # sharded parameters and a block's sharded gradients
        peak = 4 * block + rest + own + block // world
    else:
        peak = 4 * block + rest + 2 * own
    none["GRADIENT"] = 0 if in_backward else padded
    if in_backward:
        none["OPTIMIZER_STATE"] = 2 * padded + number
    of_classes("backward", PARAMETER=padded, **none)
    after("backward", WORD * peak + 16 * MB)
    del loss
    mark("reset")

    if not in_backward:
        optim.step()
    none["OPTIMIZER_STATE"] = 2 * padded + number
    of_classes("step", PARAMETER=padded, **none)
    after("step", WORD * (3 + (not in_backward)) * own + 16 * MB)
    if not in_backward:
        optim.zero_grad()
    mark("reset")
    of_classes("zero_grad", PARAMETER=padded, **dict(none, GRADIENT=0))
    after("zero_grad", WORD * 3 * own + 32 * MB)


def delete(dim):
    gc.collect()
    reachable["base"] = storages()
    mark("base")
    model, (_, own, _, _), _ = build(dim, fully_shard)
    after("init", current=WORD * own + 4 * MB)
    del model
    gc.collect()
    after("deleted", current=MB // 2 - 1)  # equal when rounded to MB, as the seed compares


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--case", choices=("reshard", "no_reshard", "optim_in_backward", "offload", "delete"), required=True)
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--free-early", action="store_true")
    p.add_argument("--counted", metavar="LIBRARY")
    args = p.parse_args()

    if args.counted:
        count(args.counted)
    if args.free_early:
        free_early()
    torch.set_num_threads(1)
    torch.manual_seed(42)
    dist.init_process_group("gloo")
    if args.case == "delete":
        delete(args.dim)
    else:
        train(args.dim, args.case)
    said = json.dumps({"rank": dist.get_rank(), "pid": os.getpid(), **facts})
    os.write(1, f"facts {said}\n".encode())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
