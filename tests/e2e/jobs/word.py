# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What a job says of its own memory: which storages are its parameters, its gradients, its optimizer's state, its buffers, and
what autograd has saved. The job has the tensors in its hands, so nobody knows better: who watches from outside is held to it.

    word = Word()
    word.of(model, optimizer)      # from here on: a moment at the end of each forward pass and after each step of the optimizer
    while word.goes_on():          # until a line comes on stdin; says "ready PID" after two steps, then "step N"
        …
    word.write(path)               # pid, moments: [[begin, end, steps begun, kind, {class: [[pointer, bytes, name], …]}], …]

MT_DEVICE=cuda: of its memory on the GPU, where what the allocator gives is whole 512 bytes.

FROZEN are those of the parameters that are not trained, where others are. A moment's begin and end are CLOCK_MONOTONIC in ns: nothing was born, freed or written between them. SAVED is what autograd
saved in that forward pass and has still. Optimizer state has its key before the name: "exp_avg of layers.0.weight".
"""
import collections
import json
import os
import sys
import threading
import time
import weakref

import torch

PAUSE_S = 0.001  # on both sides of a moment: two clocks look at its borders
DEVICE = os.environ.get("MT_DEVICE", "cpu")
MOMENTS = 4000  # the last ones are kept: of short steps many pass until memtrace has read names


def storage_of(t):
    """Of torch 1.13, too; a DTensor's is that of its part on this rank."""
    t = getattr(t, "_local_tensor", t)
    if hasattr(t, "untyped_storage"):
        return t.untyped_storage()
    typed = t.storage()
    return typed.untyped() if hasattr(typed, "untyped") else typed._untyped()


def after_each_step(optimizer, told):
    """Of torch 1.13, too."""
    if hasattr(optimizer, "register_step_post_hook"):
        optimizer.register_step_post_hook(lambda *_: told())
        return
    step = optimizer.step

    def and_told(*args, **kwargs):
        result = step(*args, **kwargs)
        told()
        return result
    optimizer.step = and_told


def tensors_of(state):
    """All tensors in nested containers."""
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, dict):
        state = state.values()
    elif not isinstance(state, (list, tuple)):
        return []
    return [t for value in state for t in tensors_of(value)]


def trained(*models):
    return [p for m in models for p in m.parameters() if p.requires_grad]


def grads(params):
    return [p.grad for p in params]


def states(*opts):
    return [t for o in opts for t in tensors_of(dict(o.state))]


def parts_of(t):
    """(suffix of its name, tensor) of what has the memory: a sparse one is two tensors; what is made for them here is freed at once."""
    return [(".indices", t._indices()), (".values", t._values())] if t is not None and t.layout == torch.sparse_coo else [("", t)]


def pointers(tensors):
    return sorted({storage_of(t).data_ptr() for t in tensors if t is not None and t.numel()})


def whole(size):
    """What the allocator of the device gives for it."""
    return size if DEVICE == "cpu" else (size + 511) // 512 * 512


def storages(named):
    """[[pointer, bytes, name]] of (name, tensor) pairs, each storage once."""
    found = {}
    for name, t in named:
        if t is not None and t.device.type == DEVICE and storage_of(t).nbytes():
            found.setdefault(storage_of(t).data_ptr(), [whole(storage_of(t).nbytes()), name])
    return [[ptr, *rest] for ptr, rest in sorted(found.items())]


def named_states(optimizers, names):
    return [(f"{key} of {names.get(id(p), '?')}", t) for o in optimizers for p, state in o.state.items()
            for key, value in state.items() for t in tensors_of(value)]


class Saved:
    """What autograd saves within, as long as its graph has it."""

    def __init__(self):
        self.kept = []
        self.hooks = None

    def __enter__(self):
        self.kept = []
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda box: box.tensor)
        self.hooks.__enter__()

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

    class Box:
        __slots__ = ("tensor", "__weakref__")

        def __init__(self, tensor):
            self.tensor = tensor

    def pack(self, tensor):
        box = self.Box(tensor)
        self.kept.append(weakref.ref(box))
        return box

    def tensors(self):
        return [box.tensor for ref in self.kept if (box := ref())]


class Word:
    def __init__(self):
        self.moments = collections.deque(maxlen=MOMENTS)
        self.models, self.optimizers, self.averages, self.keeps, self.named = [], [], [], list, None
        self.steps = 0
        self.stop = threading.Event()
        self.is_ready = False

    def of(self, models, optimizers=(), saves=True, averages=(), keeps=list, listens=True, named=None):
        """These are the job's. listens: else the job says "forward" itself; named: [(name, parameter)] where those of the models
        change. averages: modules whose weights are averages of others, BUFFER as a whole; keeps: () → [(name,
        tensor)] of what else it keeps and reads or adds to in each step, BUFFER, too."""
        self.models = models if isinstance(models, list) else [models]
        self.optimizers = list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]
        self.averages, self.keeps, self.named = list(averages), keeps, named
        for model in self.models if listens else ():
            self.listen(model, Saved() if saves else None)
        for o in self.optimizers:
            after_each_step(o, lambda: self.at("step"))

    def listen(self, model, saved):
        def enter(*_):
            if saved and torch.is_grad_enabled():
                saved.__enter__()

        def leave(*_):
            if saved and torch.is_grad_enabled():
                saved.__exit__(None, None, None)
            self.at("forward", saved.tensors() if saved and torch.is_grad_enabled() else None)
        model.register_forward_pre_hook(enter)
        model.register_forward_hook(leave)

    def classes(self):
        parameters = self.named or [(n, p) for m in self.models for n, p in m.named_parameters()]
        names = {id(p): n for n, p in parameters}
        trains = any(p.requires_grad for _, p in parameters)
        return {"PARAMETER": parameters, "GRADIENT": [(n + part, t) for n, p in parameters for part, t in parts_of(p.grad)],
                "OPTIMIZER_STATE": named_states(self.optimizers, names),
                "FROZEN": [(n, p) for n, p in parameters if trains and not p.requires_grad],
                "BUFFER": [(n, b) for m in self.models for n, b in m.named_buffers()]
                + [(f"average of {n}", t) for m in self.averages for n, t in m.state_dict().items()] + self.keeps()}

    def at(self, kind, saved=None):
        if not self.is_ready:
            return
        time.sleep(PAUSE_S)
        begin = time.monotonic_ns()
        told = {name: storages(named) for name, named in self.classes().items()}
        if saved is not None:
            told["SAVED"] = storages((str(tuple(t.shape)), t) for t in saved)
        self.moments.append([begin, time.monotonic_ns(), self.steps, kind, told])
        time.sleep(PAUSE_S)

    def goes_on(self):
        """Called as a step begins."""
        self.steps += 1
        if self.steps == 3:
            self.is_ready = True
            threading.Thread(target=lambda: (sys.stdin.readline(), self.stop.set()), daemon=True).start()
            self.say(f"ready {os.getpid()}")
        elif self.is_ready:
            self.say(f"step {self.steps}")
        if self.is_ready:
            self.moments.append([time.monotonic_ns(), time.monotonic_ns(), self.steps, "begin", {}])
        return not self.stop.is_set()

    def say(self, text):
        os.write(1, f"{text}\n".encode())  # at once: several ranks write to one pipe

    def document(self):
        return {"pid": os.getpid(), "moments": list(self.moments)}

    def write(self, path):
        with open(path, "w") as f:
            json.dump(self.document(), f)
