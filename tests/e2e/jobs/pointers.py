#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Runs one of the jobs and writes what it knows of its own tensors, for torch 1.13 and later.

    pointers.py --model mlp --out FILE

Says "ready PID" after some steps, and goes on when a line comes. Then: one under a TorchDispatchMode, which
notes every operator with the pointer and size of the storage of each of its tensors; some under
torch.profiler, which notes allocations; and at the end the pointers of parameters, gradients and optimizer
state. Times are CLOCK_MONOTONIC in ns.
"""
import importlib
import json
import os
import sys
import time

import job
import word

PAUSE_S = 0.05


def storage(t):
    s = word.storage_of(t)
    return [s.data_ptr(), s.nbytes()]


def window(step):
    """[begin, end] of what step() does, with a pause on either side."""
    time.sleep(PAUSE_S)
    begin = time.monotonic_ns()
    time.sleep(PAUSE_S)
    step()
    time.sleep(PAUSE_S)
    end = time.monotonic_ns()
    time.sleep(PAUSE_S)
    return [begin, end]


def main():
    p = job.parser(__doc__.splitlines()[0])
    p.add_argument("--model", required=True, choices=["mlp", "transformer"])
    p.add_argument("--out", required=True)
    args = p.parse_args()

    import torch
    from torch.profiler import ProfilerActivity, profile
    from torch.utils._python_dispatch import TorchDispatchMode

    torch.set_num_threads(1)
    made = []
    adam = torch.optim.Adam
    torch.optim.Adam = lambda *a, **kw: made.append(adam(*a, **kw)) or made[-1]
    step = importlib.import_module(args.model).build(args)
    optimizer = made[0]
    calls = []

    def tensors(x):
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            for y in x:
                yield from tensors(y)

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            flat = [*args, *(kwargs[a.name] for a in func._schema.arguments[len(args):] if a.name in kwargs)]
            calls.append([func._schema.name, [storage(t) for t in tensors(flat)]])
            return func(*args, **kwargs)

    for _ in range(4):
        step()
    job.say(f"ready {os.getpid()}")
    sys.stdin.readline()

    def noted():
        with Noting():
            step()

    noted_at = window(noted)
    prof = profile(activities=[ProfilerActivity.CPU], profile_memory=True)

    def profiled():
        nonlocal profiled_at
        with prof:
            profiled_at = window(step)

    profiled_at = None
    profiled()
    for _ in range(4):
        step()
    params = [q for g in optimizer.param_groups for q in g["params"]]
    told = {
        "version": torch.__version__,
        "noted": {"window": noted_at, "calls": calls},
        "profiled": {"window": profiled_at,
                     "bytes": [e.nbytes() for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]},
        "parameters": [storage(q) for q in params],
        "gradients": [storage(q.grad) for q in params],
        "state": [storage(t) for q in params for t in optimizer.state[q].values() if isinstance(t, torch.Tensor)],
    }
    time.sleep(PAUSE_S)
    told["at"] = time.monotonic_ns()
    with open(args.out, "w") as f:
        json.dump(told, f)
    job.say("told")
    time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
