#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Runs steps of one job of categories_models.py under torch.profiler's memory profiler and writes
what it decided: every block of the window with its versions and their categories.

    categories.py --model conv --warm 4 --measured 3 --out truth.json [--plain] [--running] [--as-it-is]

Says "ready PID" after two steps, goes on at a line on stdin (with --running it makes steps until that line
comes, so that who attaches does so somewhere in one): --warm steps, then --measured ones under
the profiler, then two more, and everything is deleted, so that blocks born in the window have ended and
an outside observer has told its last word on them. Says "done", waits for stdin to close.
--plain runs the same steps with no profiler: the window's marks alone are written.

The CPU allocator only tells the profiler of the free of a block whose birth it noted, and it notes births
while the profiler is on. A debugging flag of c10 makes it note them always; set here, the profiler
sees the frees of blocks older than its window, else it takes them to live on (and their successors
at the same address to be them). --as-it-is leaves it alone.

Output: pid, begin_ns, end_ns (epoch), blocks: [pointer, bytes, birth or null, end or null,
[[since, category or null], …]], one pair a version. Birth null: older than the profiler. scratch: [pointer,
birth] of those that no operator was given and that are born and freed inside one. said: [epoch ns, {class: [pointer, …]}] after each
measured step of a job that has a word of its own.
"""
import argparse
import ctypes
import gc
import json
import os
import sys
import threading
import time

if "--cuda" in sys.argv and "MT_STUB_BACKEND" in os.environ:
    import cuda_on_host  # noqa: F401  (before torch)
import torch
from torch.profiler import ProfilerActivity, profile

import categories_models


def note_births_always():
    c10 = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    ctypes.c_bool.in_dll(c10, "FLAGS_caffe2_report_cpu_memory_usage").value = True


def keyed_blocks(memory, device):
    """Blocks of this kind of device that the profiler knows to be tensors."""
    from torch.profiler._memory_profiler import Action, TensorKey

    def category(key, version):
        c = memory._categories.get(key, version)
        return c.name if c else None

    blocks = {}
    for t, action, (key, version), size in memory.timeline:
        if not isinstance(key, TensorKey) or key.device.type != device:
            continue
        if action in (Action.PREEXISTING, Action.CREATE):
            birth = t if action == Action.CREATE else None
            blocks[key] = [key.storage.ptr, size, birth, None, [[birth or 0, category(key, 0)]]]
        elif action == Action.INCREMENT_VERSION:
            blocks[key][4].append([t, category(key, version + 1)])
        else:
            blocks[key][3] = t
    return list(blocks.values())


def other_blocks(memory, device):
    """Blocks that it saw born but never in an operator: category unknown."""
    from torch._C._profiler import _EventType
    from torch.profiler._memory_profiler import TensorKey

    events = sorted((e.start_time_ns, e.typed[1].ptr, e.typed[1].alloc_size) for e in memory._op_tree.dfs()
                    if e.typed[0] == _EventType.Allocation and e.typed[1].device.type == device
                    and TensorKey.from_allocation(e.typed[1]) is None)
    live, blocks = {}, []
    for t, ptr, size in events:
        if size > 0:
            live[ptr] = [ptr, size, t, None, [[t, None]]]
            blocks.append(live[ptr])
        elif ptr in live:
            live.pop(ptr)[3] = t
    return blocks


def scratch_blocks(memory):
    """[pointer, birth] of blocks outside of all operators' arguments, gone before their operator was."""
    from torch._C._profiler import _EventType
    from torch.profiler._memory_profiler import TensorKey

    def top(event):
        """The outermost operator around it that is no backward node's frame."""
        found = None
        while event := event.parent:
            if event.typed[0] == _EventType.TorchOp and not event.name.startswith("autograd::engine"):
                found = event
        return found

    events = sorted((e for e in memory._op_tree.dfs() if e.typed[0] == _EventType.Allocation),
                    key=lambda e: e.start_time_ns)
    live, blocks = {}, []
    for e in events:
        ptr = e.typed[1].ptr
        if e.typed[1].alloc_size > 0:
            live[ptr] = e
            continue
        birth = live.pop(ptr, None)
        if birth and top(birth) and top(birth) is top(e) and TensorKey.from_allocation(birth.typed[1]) is None:
            blocks.append([ptr, birth.start_time_ns])
    return blocks


def go(step, running):
    """Waits for a line on stdin, making steps meanwhile if asked to."""
    if not running:
        sys.stdin.readline()
        return
    line = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), line.set())).start()
    while not line.is_set():
        step()


def measure(step, steps):
    """(begin, end, what the job said after each step)"""
    said = []
    begin = time.time_ns()
    for _ in range(steps):
        step()
        if hasattr(step, "said"):
            said.append([time.time_ns(), step.said()])
    return begin, time.time_ns(), said


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True, choices=list(categories_models.JOBS))
    p.add_argument("--warm", type=int, default=4, help="steps before the window (default 4)")
    p.add_argument("--measured", type=int, default=3, help="steps in the window (default 3)")
    p.add_argument("--plain", action="store_true", help="no profiler")
    p.add_argument("--running", action="store_true", help="make steps while waiting for the line")
    p.add_argument("--as-it-is", action="store_true", help="do not let the allocator note births before the window")
    p.add_argument("--cuda", action="store_true", help="on device cuda: a GPU, or tests/gpu_stub/cuda_on_host.py")
    p.add_argument("--out", required=True)
    args = p.parse_args()

    if not args.as_it_is:
        note_births_always()
    if args.cuda:
        torch.set_default_device("cuda")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = categories_models.JOBS[args.model]()
    for _ in range(2):
        step()
    print(f"ready {os.getpid()}", flush=True)
    go(step, args.running)
    for _ in range(args.warm):
        step()
    memory = None
    if args.plain:
        begin, end, said = measure(step, args.measured)
    else:
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True,
                     with_stack=True) as prof:
            begin, end, said = measure(step, args.measured)
        memory = prof._memory_profile()
    for _ in range(2):
        step()
    del step
    gc.collect()
    device = "cuda" if args.cuda else "cpu"
    with open(args.out, "w") as f:
        json.dump({"pid": os.getpid(), "begin_ns": begin, "end_ns": end, "said": said,
                   "blocks": keyed_blocks(memory, device) + other_blocks(memory, device) if memory else [],
                   "scratch": scratch_blocks(memory) if memory else []}, f)
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
