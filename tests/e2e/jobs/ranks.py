#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A job of several ranks under torchrun: DDP over gloo, each rank the same model.

--heavy RANK keeps --extra bytes more than the others. --workers 1: a DataLoader with a worker. --helpers N: so many programs one
after the other, each of which starts programs, as a compiler does. --compiled: the model is, with torch's own compile workers. --late: rank 0 starts a child after half of its steps, another
program with the same environment. --die RANK: that one ends itself by SIGKILL after half, each time that torchrun starts it
(--die-once: the first time). --go FILE: its steps begin when there is such a file.
Each rank says one line: "rank R pid P workers […] late P".
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

CHILD = "import torch, time; x = torch.ones(1 << 18); print('late', flush=True); time.sleep(1.0)"


def say(**what):
    os.write(1, (json.dumps(what) + "\n").encode())


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, _):
        return torch.randn(64)


def start_compile_workers():
    """As torch does by itself where there is Triton: a process that forks a worker when one is asked for."""
    from torch._inductor.async_compile import AsyncCompile
    AsyncCompile.warm_pool()
    AsyncCompile.wakeup()
    AsyncCompile.wait_pool_ready()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--heavy", type=int, default=-1)
    p.add_argument("--extra", type=int, default=4 << 20)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--helpers", type=int, default=0)
    p.add_argument("--compiled", action="store_true")
    p.add_argument("--late", action="store_true")
    p.add_argument("--die", type=int, default=-1)
    p.add_argument("--die-once", action="store_true")
    p.add_argument("--hold", type=float, default=0, help="seconds to wait before the steps and after them")
    p.add_argument("--go", help="file to wait for before the steps")
    p.add_argument("--pause", type=float, default=0.0, help="seconds a step")
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, late = dist.get_rank(), None
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    if args.compiled:
        start_compile_workers()
        model = torch.compile(model)
    model = nn.parallel.DistributedDataParallel(model)
    opt = torch.optim.Adam(model.parameters())
    loader = iter(torch.utils.data.DataLoader(Numbers(), batch_size=32, num_workers=args.workers))
    workers = [w.pid for w in getattr(loader, "_workers", [])]
    say(ready=os.getpid(), rank=rank)
    for _ in range(args.helpers):
        subprocess.run(["sh", "-c", "sh -c 'ls / | tail -n 1'; true"], stdout=subprocess.DEVNULL, check=True)
    time.sleep(args.hold)
    while args.go and not os.path.exists(args.go):
        time.sleep(0.01)
    kept = [torch.ones(args.extra // 4)] if rank == args.heavy else []
    for i in range(args.steps):
        x = next(loader)
        loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if i == args.steps // 2:
            if args.late and rank == 0:
                late = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
                late.stdout.readline()
            if args.die == rank and not (args.die_once and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"):
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(args.pause)
    say(rank=rank, pid=os.getpid(), workers=workers, late=late.pid if late else None, kept=len(kept))
    time.sleep(args.hold)
    if late:
        late.wait()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
