#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Runs steps of one of the jobs under torch.profiler and writes what that profiler saw.

    truth.py --model mlp --measured 5 --out truth.json

Says "ready PID" after the warm-up, runs the steps when a line arrives on stdin, says "done" and
waits for stdin to close. The window of the comparison lies between two marks (epoch ns) with 50 ms
of sleep on either side of each, so that no event is near a border and starting or stopping the
profiler is outside.

Each event of the output: [epoch ns, tid, pointer, bytes (negative: freed), innermost operator or null].
Annotations (record_function) are not operators; the engine's evaluate_function is, by its node's name. Nor is
empty_strided where another operator calls it to get memory for its result: memtrace leaves it out beside flow.
"""
import importlib
import json
import os
import sys
import time

import job

PAUSE_S = 0.05
ENGINE = "autograd::engine::evaluate_function: "
GETS_MEMORY = "aten::empty_strided"


def operator_of(node, torch):
    kinds = torch._C._profiler._EventType
    user = torch._C._profiler.RecordScope.USER_SCOPE
    name = None
    node = node.parent
    while node is not None:
        if node.tag == kinds.TorchOp and node.typed[1].scope != user:
            name = node.name.removeprefix(ENGINE)
            if name != GETS_MEMORY:
                break
        node = node.parent
    return name


def memory_events(result, torch):
    """Every [memory] event of the profile, in time order."""
    events, pending = [], list(result.experimental_event_tree())
    while pending:
        node = pending.pop()
        pending.extend(node.children)
        if node.tag == torch._C._profiler._EventType.Allocation:
            fields = node.typed[1]
            events.append([node.start_time_ns, node.start_tid, fields.ptr, fields.alloc_size,
                           operator_of(node, torch)])
    return sorted(events, key=lambda e: e[0])


def main():
    p = job.parser(__doc__.splitlines()[0])
    p.add_argument("--model", required=True, choices=["mlp", "transformer", "conv", "lstm"])
    p.add_argument("--measured", type=int, default=5, help="steps under the profiler")
    p.add_argument("--out", required=True)
    args = p.parse_args()

    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    step = importlib.import_module(args.model).build(args)

    def profiler():
        return profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True)

    for _ in range(5):
        step()
    with profiler():  # the first start sets things up that the window must not see
        step()
    job.say(f"ready {os.getpid()}")
    sys.stdin.readline()

    for _ in range(2):
        step()
    with profiler() as prof:
        time.sleep(PAUSE_S)
        begin = time.time_ns()
        time.sleep(PAUSE_S)
        for _ in range(args.measured):
            step()
        time.sleep(PAUSE_S)
        end = time.time_ns()
        time.sleep(PAUSE_S)
    with open(args.out, "w") as f:
        json.dump({"pid": os.getpid(), "begin_ns": begin, "end_ns": end,
                   "events": memory_events(prof.profiler.kineto_results, torch)}, f)
    job.say("done")
    sys.stdin.read()


if __name__ == "__main__":
    main()
