#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Runs steps of one job of categories_models.py under torch.profiler and has it write its own memory
timelines, as a user would.

    timeline.py --model mlp --warm 4 --measured 3 --out DIR

Says "ready PID" after two steps and goes on at a line on stdin, as categories.py does; then writes DIR/torch.json,
DIR/torch.raw.json.gz (export_memory_timeline) and DIR/window.json: pid, begin_ns, end_ns of the measured
steps (epoch). Says "done", waits for stdin to close.
"""
import argparse
import gc
import json
import os
import pathlib
import sys
import warnings

import torch
from torch.profiler import ProfilerActivity, profile

import categories
import categories_models


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--model", required=True, choices=list(categories_models.JOBS))
    p.add_argument("--warm", type=int, default=4)
    p.add_argument("--measured", type=int, default=3)
    p.add_argument("--out", required=True, type=pathlib.Path)
    args = p.parse_args()

    warnings.simplefilter("ignore")  # export_memory_timeline is deprecated
    categories.note_births_always()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step = categories_models.JOBS[args.model]()
    for _ in range(2):
        step()
    print(f"ready {os.getpid()}", flush=True)
    sys.stdin.readline()
    for _ in range(args.warm):
        step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True,
                 with_stack=True) as prof:
        begin, end, _ = categories.measure(step, args.measured)
    prof.export_memory_timeline(str(args.out / "torch.json"), device="cpu")
    prof.export_memory_timeline(str(args.out / "torch.raw.json.gz"), device="cpu")
    for _ in range(2):
        step()
    del step
    gc.collect()
    (args.out / "window.json").write_text(json.dumps({"pid": os.getpid(), "begin_ns": begin, "end_ns": end}))
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
