# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What seed_job.py and seed_oracle.py share: windows, facts, and the mode that notes operators."""
import contextlib
import gc
import time

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

APART_S = 0.002  # between a window's mark and what is in it: two clocks are compared


class Calls(TorchDispatchMode):
    """(time, operator, [(tensor, storage)] given, the same made); (time, name, None, None) is a region's mark."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def mark_region(self, name):
        self.rows.append((time.time_ns(), name, None, None))

    @staticmethod
    def ids(args):
        return [(t._cdata, t.untyped_storage().data_ptr()) for t in pytree.tree_leaves(args)
                if isinstance(t, torch.Tensor) and t.untyped_storage().nbytes()]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = self.ids(args) + self.ids(kwargs or {})
        out = func(*args, **(kwargs or {}))
        made = self.ids(out)
        if (given or made) and "_record_function_enter" not in func.name():
            self.rows.append((time.time_ns(), func.name(), given, made))
        return out


def warm_up():
    """What torch sets up at the first backward pass and under the first mode is no part of any window then."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with Calls():
        torch.ones(1, requires_grad=True).sum().backward()


class Window:
    def __init__(self, name):
        self.name = name
        self.begin = self.end = 0
        self.facts = []  # [name, storage's pointer, its bytes, when]
        self.calls = None

    def fact(self, name, tensor):
        storage = tensor.untyped_storage()
        self.facts.append([name, storage.data_ptr(), storage.nbytes(), time.time_ns()])


class Watch:
    """observed(): a context in which the observer looks; a profiler, or nothing that the process knows of."""

    def __init__(self, observed):
        self.windows = []
        self._observed = observed

    @contextlib.contextmanager
    def window(self, name):
        win = Window(name)
        time.sleep(APART_S)
        with self._observed(win):
            win.begin = time.time_ns()
            yield win
            win.end = time.time_ns()
        time.sleep(APART_S)
        self.windows.append(win)

    def flow(self, inputs, f):
        with self.window(f"{len(self.windows)}") as win:
            outputs = f(**inputs) or {}
            gc.collect()
        for name, t in [*inputs.items(), *outputs.items()]:
            win.fact(name, t)
            if t.is_leaf and t.grad is not None:
                win.fact(f"{name}.grad", t.grad)

    def table(self, fn):
        with Calls() as calls, self.window("table") as win:
            fn(calls.mark_region)
        win.calls = calls.rows
