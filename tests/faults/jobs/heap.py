#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A Python heap made to be walked for ever by whoever reads names out of it. Says "ready PID", then changes all of it
without end.

Real modules of a real torch: a chain of 20,000 modules inside one another, a module that is its own child, one with 300,000
parameters that are all the same tensor, another one with 600,000 behind paths of 840 bytes, an optimizer with 300,000 groups, keys of a megabyte, keys that are no strings, dicts
that grow and shrink while they are read, instances whose __dict__ is another's. And a million objects that are none.
"""
import os

import torch
from torch import nn


class Empty(nn.Module):
    pass


def chain(n):
    first = last = Empty()
    for _ in range(n):
        last._modules["m"] = Empty()
        last = last._modules["m"]
    return first


def ring():
    a, b = Empty(), Empty()
    a._modules["b"], b._modules["a"], a._modules["self"] = b, a, a
    return a


def crowd(n):
    m, p = Empty(), nn.Parameter(torch.zeros(1))
    m._parameters.update((f"p{i}", p) for i in range(n))
    m._parameters["x" * (1 << 20)] = p
    m._parameters[("no", "string")] = p
    m._parameters[1 << 200] = p
    m._buffers["not a tensor"] = object()
    return m


def deep(n):
    """Paths of almost the length that is read, each of the same tensor: a gigabyte of names in a heap of a tenth of that."""
    top = last = Empty()
    for _ in range(60):
        last._modules["a_name_of_13_"] = Empty()
        last = last._modules["a_name_of_13_"]
    p = nn.Parameter(torch.zeros(1))
    last._parameters.update((str(i), p) for i in range(n))
    return top


def optimizer(n):
    p = nn.Parameter(torch.zeros(1))
    o = torch.optim.SGD([p], lr=0.1)
    o.param_groups.extend({"params": [p]} for _ in range(n))
    o.state[p] = {f"state{i}": torch.zeros(1) for i in range(1000)}
    o.state["no parameter"] = o.state
    return o


def main():
    kept = [chain(20000), ring(), crowd(300000), optimizer(300000), deep(600000)]
    twin = Empty()
    twin.__dict__ = kept[2].__dict__
    kept += [twin, [dict(_modules={}, _parameters={i: i}) for i in range(300000)], [object() for _ in range(1000000)]]
    print(f"ready {os.getpid()}", flush=True)
    n = 0
    while True:
        n += 1
        kept[2]._parameters[f"q{n % 5000}"] = nn.Parameter(torch.zeros(n % 7 + 1))
        if n % 3 == 0:
            kept[2]._parameters.pop(f"q{(n * 7) % 5000}", None)
        kept[1]._modules[f"c{n % 100}"] = chain(n % 10)
        kept[3].param_groups[n % 1000] = {"params": list(kept[2]._parameters.values())[:10] if n % 100 == 0 else []}


if __name__ == "__main__":
    main()
