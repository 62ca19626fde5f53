#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A small GPT block that inductor compiled, trained with AdamW, and what its generated files allocate (test_compiled.py).

    ready PID          compiled, and some steps done; waits
    went N             after "go N" on stdin: N steps were done. --out has what is said below
    stop               ends

--out: {"begin": ns since 1970, "end": ns, "steps": N, "step_bytes": bytes that generated code allocates in a step,
"lines": how many lines of it do, "words": [names of kernels that the files call, and of ATen operators in their comments]}.

step_bytes is the job's own account: in a step before the trace each generated module has functions that add up in the place of
its empty_strided_*. They are taken out again, since they would be the innermost Python frame at each allocation.
"""
import argparse
import json
import math
import os
import re
import sys
import time

import torch
from torch import nn

WIDTH, HEADS, BATCH, LENGTH = 64, 4, 4, 32
WARM = 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def generated_modules():
    return [m for m in list(sys.modules.values()) + list(getattr(torch._inductor.codecache.PyCodeCache, "modules", []))
            if getattr(m, "__file__", None) and re.fullmatch(r".*/(..)/c\1[a-z0-9]+\.py", m.__file__) and hasattr(m, "call")]


def account(step):
    """(bytes, lines) of a step, by the modules' own calls."""
    told, kept = {}, []

    def counting(real):
        def fn(shape, stride, dtype, *rest):
            at = sys._getframe(1)
            where = at.f_code.co_filename, at.f_lineno
            size = (1 + sum((n - 1) * s for n, s in zip(shape, stride))) * dtype.itemsize if math.prod(shape) else 0
            told[where] = told.get(where, 0) + size
            return real(shape, stride, dtype, *rest)
        return fn
    for m in {id(m): m for m in generated_modules()}.values():
        for name in ("empty_strided_cpu", "empty_strided_cpu_pinned"):
            if hasattr(m, name):
                kept.append((m, name, getattr(m, name)))
                setattr(m, name, counting(getattr(m, name)))
    step()
    for m, name, real in kept:
        setattr(m, name, real)
    return sum(told.values()), len(told)


def words():
    texts = [open(m.__file__).read() for m in generated_modules()]
    kernels = {k for t in texts for k in re.findall(r"^\s+(?:\w+ = )?([\w.]+)\(", t, re.M)}
    atens = {w for t in texts for line in re.findall(r"Original ATen: \[(.*)\]", t) for w in line.split(", ")}
    return sorted(kernels | atens)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--eager", action="store_true", help="the same, not compiled")
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    block = Block()
    model = block if a.eager else torch.compile(block)
    optimizer = torch.optim.AdamW(block.parameters(), 1e-3)
    x = torch.randn(BATCH, LENGTH, WIDTH)

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for _ in range(WARM):
        step()
    step_bytes, lines = (0, 0) if a.eager else account(step)
    step()
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        if line.strip() == "stop":
            break
        count = int(line.split()[1])
        begin, cpu = time.time_ns(), time.process_time_ns()
        for _ in range(count):
            step()
        said = {"begin": begin, "end": time.time_ns(), "cpu_ns": time.process_time_ns() - cpu, "steps": count,
                "step_bytes": step_bytes, "lines": lines, "words": [] if a.eager else words()}
        with open(a.out, "w") as f:
            json.dump(said, f)
        print(f"went {count}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
