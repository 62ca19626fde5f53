#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A torch of names alone, for interpreters that have no torch: modules, parameters and optimizers as torch keeps them.

The Python half is what torch does, dicts in an instance's __dict__. A tensor is a ctypes structure, whose
buffer's address is where THPVariable has its TensorImpl's; the words in it stand where torch 2.13 has them,
behind vtable pointers that bench_names knows (FAKE_*).

Says "ready PID", then trains (churns dicts) until it is killed. --out has the truth as jobs/names.py writes it.
"""
import argparse
import ctypes
import gc
import json
import os
import types

IMPL, STORAGE, META = 0x100001000, 0x100002000, 0x100003000


class Words12(ctypes.Structure):
    _fields_ = [("w", ctypes.c_uint64 * 12)]


class Words24(ctypes.Structure):
    _fields_ = [("w", ctypes.c_uint64 * 24)]


class TensorBase(ctypes.Structure):
    _fields_ = [("w", ctypes.c_uint64 * 24)]
    __hash__ = object.__hash__


class Tensor(TensorBase):
    pass


class Parameter(Tensor):
    pass


kept = []


def tensor(kind, *shape):
    t, storage, numel = kind(), Words12(), 1
    for n in shape:
        numel *= n
    data = ctypes.create_string_buffer(max(4 * numel, 1))
    kept.extend((storage, data))
    storage.w[0], storage.w[2], storage.w[6] = STORAGE, ctypes.addressof(data), 4 * numel
    t.w[0], t.w[2], t.w[7] = IMPL, ctypes.addressof(storage), len(shape)
    if len(shape) > 5:
        long = (ctypes.c_uint64 * (2 * len(shape)))(*shape)
        kept.append(long)
        t.w[8] = ctypes.addressof(long)
    else:
        for i, n in enumerate(shape):
            t.w[8 + i] = n
    t.w[19], t.w[20] = numel, 6
    return t


def grad(parameter, *shape):
    meta, g = Words24(), tensor(Tensor, *shape)
    kept.extend((meta, g))
    meta.w[0], meta.w[5] = META, ctypes.addressof(g)
    parameter.w[3] = ctypes.addressof(meta)


class Module:
    def __init__(self):
        self.training = True
        self._parameters, self._buffers, self._modules = {}, {}, {}


class Linear(Module):
    def __init__(self, a, b):
        super().__init__()
        self._parameters["weight"] = tensor(Parameter, a, b)
        self._parameters["bias"] = None if a == b else tensor(Parameter, b)
        self._buffers["count"] = tensor(Tensor, 1, 1, 1, 1, 2, 3)
        grad(self._parameters["weight"], a, b)


class Net(Module):
    def __init__(self, n):
        super().__init__()
        self._modules["layers"] = Module()
        for i in range(n):
            self._modules["layers"]._modules[str(i)] = Linear(i % 7 + 2, i % 5 + 2)
        for i in range(0, n, 3):  # deleted places in a dict
            del self._modules["layers"]._modules[str(i)]


class Optimizer:
    def __init__(self, params):
        self.param_groups = [{"params": list(params), "lr": 0.1}]
        self.state = {p: {"step": 3, "exp_avg": tensor(Tensor, *[p.w[8 + i] for i in range(p.w[7])])}
                      for p in self.param_groups[0]["params"]}


class Adam(Optimizer):
    pass


def provide(path, **names):
    module = types.ModuleType(path)
    module.__dict__.update(names)
    import sys
    sys.modules[path] = module


def walk(module, prefix=""):
    for which, kind in ((module._parameters, "parameter"), (module._buffers, "buffer")):
        for name, t in which.items():
            if t is not None:
                yield kind, prefix + name, t
    for name, child in module._modules.items():
        yield from walk(child, f"{prefix}{name}.")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True)
    p.add_argument("--layers", type=int, default=60)
    p.add_argument("--dicts", action="store_true", help="look at __dict__, which makes a dict of an instance's values")
    p.add_argument("--freeze", action="store_true", help="gc.freeze()")
    args = p.parse_args()
    provide("torch._C", TensorBase=TensorBase)
    provide("torch.nn.modules.module", Module=Module)
    provide("torch.optim.optimizer", Optimizer=Optimizer)
    net = Net(args.layers)
    named = list(walk(net))
    opt = Adam(t for kind, _, t in named if kind == "parameter")
    paths = {t: name for _, name, t in named}
    said = {}

    def add(kind, name, key, t):
        storage = Words12.from_address(t.w[2])
        dims = t.w[7]
        shape = [t.w[8 + i] for i in range(dims)] if dims <= 5 else [1, 1, 1, 1, 2, 3]
        said[storage.w[2]] = [kind, [name], key, storage.w[6], shape]
    for kind, name, t in named:
        add(kind, name, None, t)
    for t, state in opt.state.items():
        add("optimizer_state", paths[t], "exp_avg", state["exp_avg"])
    if args.dicts:
        vars(opt), vars(net), [vars(m) for m in net._modules.values()]
    if args.freeze:
        gc.freeze()
    with open(args.out, "w") as f:
        json.dump(said, f)
    print(f"ready {os.getpid()}", flush=True)
    while True:
        for m in net._modules["layers"]._modules.values():
            m.training = not m.training
            m.__dict__["scratch"] = [dict.fromkeys("abc")]
        gc.collect()


if __name__ == "__main__":
    main()
