#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A job that knows which module made its tensors, and in which phase, by hooks of its own (test_modules.py).

    ready PID          training
    watch              on stdin: a few steps with hooks; "watched N" when they are over
    stop               --out has what the hooks saw

The model has a sequence, transformer blocks, a module that is called twice, one that checkpoints what it holds, one
with a forward of functions alone, and a loss outside of all modules. Truth comes from forward hooks: a storage that was
never seen before and is in a module's output, or is saved for backward (saved_tensors_hooks), was made by the module that
runs; what a module is given was made by whoever called it. In backward every node of the graph has hooks: what it gives on (the
gradients of activations, too) it made, and it is the module's that ran when autograd gave it its number; a sum that a node is given
was made right after the node before. What is made and dropped unseen between two hooks is not known. Everything seen is kept until
the step is over, so that an address means one storage.
"""
import argparse
import bisect
import functools
import inspect
import json
import os
import sys
import threading
import time

import torch
from torch.utils.checkpoint import checkpoint

from word import storage_of

WIDTH = 64
TOKENS = 32


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q @ k.transpose(-2, -1)) * WIDTH ** -0.5
        return self.out(torch.softmax(scores, dim=-1) @ v)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.norm2 = torch.nn.LayerNorm(WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.inner = Block()
        self.reentrant = reentrant

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


def helper(x):
    return torch.nn.functional.silu(x * 2)


class Functions(torch.nn.Module):
    """Operators of its own, through a function that is no method."""

    def forward(self, x):
        return helper(x) + 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(256, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.shared = torch.nn.Linear(WIDTH, WIDTH)
        self.functions = Functions()
        self.again = Checkpointed(True)
        self.hooked = Checkpointed(False)
        self.head = torch.nn.Linear(WIDTH, 256)

    def forward(self, tokens):
        x = self.embed(tokens)
        for b in self.blocks:
            x = b(x)
        x = self.shared(torch.tanh(self.shared(x)))
        x = self.hooked(self.again(self.functions(x)))
        return self.head(x)


class Watch:
    """What the hooks see."""

    def __init__(self, model):
        self.paths = {m: name for name, m in model.named_modules()}
        self.parameters = set(model.parameters())
        self.told, self.marks = [], []
        self.stack, self.kept, self.known = [], [], set()
        self.phase = "other"
        self.numbers, self.numbered, self.hooks, self.last = [], [], [], None

    def begin(self, tensors):
        self.kept = list(tensors)
        self.known = {storage_of(t).data_ptr() for t in self.kept}

    def mark(self, name):
        self.marks.append([time.time_ns(), name])

    def note(self, tensor, path, phase):
        storage = storage_of(tensor)
        ptr = storage.data_ptr()
        if not ptr or ptr in self.known:
            return
        self.known.add(ptr)
        self.kept.append(tensor.detach())
        self.told.append([time.time_ns(), ptr, storage.nbytes(), path, phase])

    def here(self):
        phase = "recompute" if self.phase == "backward" and self.stack else self.phase
        return (self.stack[-1] if self.stack else None), phase

    def pack(self, tensor):
        self.note(tensor, *self.here())
        return tensor

    def number(self):
        """Nodes from this number on are made in the module that is on top."""
        self.numbers.append(torch.autograd._get_sequence_nr())
        self.numbered.append(self.here()[0])

    def enter(self, module, args):
        if module in self.paths:
            for a in args:
                self.note(a, *self.here())
            self.stack.append(self.paths[module])
            self.number()

    def leave(self, module, _args, output):
        if module in self.paths:
            if isinstance(output, torch.Tensor):
                self.note(output, *self.here())
            self.stack.pop()
            self.number()

    def takes(self, node, gradients):
        for g in gradients:
            if g is not None and self.last is not node:
                self.note(g, self.path_of(self.last), "backward")

    def gives(self, node, gradients, _taken):
        self.last = node
        for g in gradients:
            if g is not None:
                self.note(g, self.path_of(node), "backward")

    def path_of(self, node):
        at = bisect.bisect(self.numbers, node._sequence_nr()) - 1 if node else -1
        return self.numbered[at] if at >= 0 else None

    def backward(self, plain, tensors, *args, **kw):
        """In the place of torch.autograd.backward, which checkpoints call, too."""
        todo, seen = [t.grad_fn for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors)], set()
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if "AccumulateGrad" in node.name():
                if node.variable not in self.parameters:  # a reentrant checkpoint's input: its gradients are summed up for this node
                    self.hooks.append(node.register_prehook(functools.partial(self.takes, node)))
                continue
            todo.extend(n for n, _ in node.next_functions)
            self.hooks.append(node.register_prehook(functools.partial(self.takes, node)))
            self.hooks.append(node.register_hook(functools.partial(self.gives, node)))
        plain(tensors, *args, **kw)


def train_step(model, optimizer, tokens, watch=None):
    optimizer.zero_grad(set_to_none=True)  # torch 1.13 would keep them
    if watch:
        watch.begin([tokens, *model.parameters()])
        watch.phase = "forward"
        watch.mark("forward")
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    if watch:
        watch.phase = "backward"
        watch.mark("backward")
    loss.backward()
    if watch:
        watch.phase = "optimizer"
        for name, p in model.named_parameters():
            watch.note(p.grad, name.rpartition(".")[0], "backward")
        watch.mark("optimizer")
    optimizer.step()
    if watch:
        watch.mark("end")
        watch.phase = "other"


def evaluate(model, tokens, watch=None):
    if watch:
        watch.begin([tokens, *model.parameters()])
        watch.phase = "evaluation"
        watch.mark("evaluation")
    with torch.no_grad():
        model(tokens)
    if watch:
        watch.mark("end")
        watch.phase = "other"


class WatchUnnumbered(Watch):
    """torch 1.13 says no numbers: a node is the module's that ran when it was first reached, from what modules are given and make."""

    def __init__(self, model):
        super().__init__(model)
        self.nodes = {}

    def begin(self, tensors):
        super().begin(tensors)
        self.nodes.clear()

    def claim(self, tensors):
        todo = [t.grad_fn for t in tensors if isinstance(t, torch.Tensor)]
        while todo:
            node = todo.pop()
            if node is not None and node not in self.nodes:
                self.nodes[node] = self.here()[0]
                todo.extend(n for n, _ in node.next_functions)

    def number(self):
        pass

    def enter(self, module, args):
        if module in self.paths:
            self.claim(args)
        super().enter(module, args)

    def leave(self, module, args, output):
        if module in self.paths:
            self.claim([output])
        super().leave(module, args, output)

    def path_of(self, node):
        return self.nodes.get(node)


def hooks_of(watch):
    """A checkpoint's recomputation is left by an exception; torch 1.13's runs to its end, and its hooks have no always_call."""
    module = torch.nn.modules.module
    always = {"always_call": True} if "always_call" in inspect.signature(module.register_module_forward_hook).parameters else {}
    return [module.register_module_forward_pre_hook(watch.enter), module.register_module_forward_hook(watch.leave, **always)]


def watched(model, optimizer, tokens, steps):
    watch = (Watch if hasattr(torch.autograd, "_get_sequence_nr") else WatchUnnumbered)(model)
    hooks = hooks_of(watch)
    plain, torch.autograd.backward = torch.autograd.backward, functools.partial(watch.backward, torch.autograd.backward)
    with torch.autograd.graph.saved_tensors_hooks(watch.pack, lambda t: t):
        for _ in range(steps):
            train_step(model, optimizer, tokens, watch)
            evaluate(model, tokens, watch)
    torch.autograd.backward = plain
    for h in hooks:
        h.remove()
    return {"told": watch.told, "marks": watch.marks}


def tracked(model, optimizer, tokens):
    """MemTracker's own word on the same steps, after a first one that makes it know everything."""
    from torch.distributed._tools.mem_tracker import MemTracker
    tracker = MemTracker()
    tracker.track_external(model, optimizer, tokens)
    with tracker:
        for i in range(2):
            train_step(model, optimizer, tokens)
            if not i:
                tracker.reset_mod_stats()
    said = {}
    for stats in tracker.memory_tracking.values():
        peaks = {str(state).rpartition(".")[2]: max(total["Total"] for snapshot in snapshots for total in snapshot.values())
                 for state, snapshots in stats.snapshots.items()}
        said[stats.mod_fqn.partition(".")[2]] = {"parameter": stats.parameter_mem, "input": stats.input_mem, "output": stats.output_mem,
                                                 "peak_forward": peaks.get("PEAK_FW"), "peak_backward": peaks.get("PEAK_BW")}
    return said


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--mem-tracker", action="store_true")
    p.add_argument("--pause", type=float, default=0.0)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, told = Net(), []
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 256, (8, TOKENS))
    asked = []
    threading.Thread(target=lambda: asked.extend(line.strip() for line in sys.stdin), daemon=True).start()
    for _ in range(2):
        train_step(model, optimizer, tokens)
    print(f"ready {os.getpid()}", flush=True)
    while "stop" not in asked:
        if asked and asked[0] == "watch":
            asked.pop(0)
            told.append(watched(model, optimizer, tokens, a.steps))
            print(f"watched {len(told)}", flush=True)
        train_step(model, optimizer, tokens)
        if not a.mem_tracker:  # it tracks training: in evaluation the gradients are still there
            evaluate(model, tokens)
        time.sleep(a.pause)
    if a.mem_tracker:
        told.append(tracked(model, optimizer, tokens))
    with open(a.out, "w") as f:
        json.dump(told, f)
    print("stopped", flush=True)
    os._exit(0)  # a thread waits for stdin


if __name__ == "__main__":
    main()
