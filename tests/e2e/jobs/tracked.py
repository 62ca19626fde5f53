#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Two steps of a small model under a MemoryTracker: torch's own (--tracker seed) or tools/python's (--tracker memtrace).

Torch's samples counters of a device, and a CPU has none. Its class runs as it is; only the device that it asks is
another one: asked for its memory it allocates a block of a size that nobody else has, and torch.profiler's own list of
allocations tells afterwards what was there between two such blocks. So its arithmetic is made of exact numbers.

Prints one JSON object: names of operators, MB after each, markers.
"""
import argparse
import json
import os
import sys
import warnings

import torch
from torch import nn

MARK = 1 << 30  # bytes of the blocks that mark a sample; never touched
MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


@model
def mlp():
    net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 10))
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
    return net, torch.optim.Adam(net.parameters()), lambda: nn.functional.cross_entropy(net(x), y)


@model
def transformer():
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False)
    x = torch.randn(4, 12, 32)
    return net, torch.optim.AdamW(net.parameters(), foreach=False), lambda: net(x).square().mean()


@model
def conv():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 5))
    x = torch.randn(4, 3, 16, 16)
    return net, torch.optim.SGD(net.parameters(), 0.01, momentum=0.9), lambda: net(x).max(1)[0].var()


class Device:
    """What the seed asks: a block of MARK bytes in the list of allocations is a sample."""

    def empty_cache(self):
        pass

    def memory_allocated(self):
        torch.empty(MARK, dtype=torch.uint8)
        return 0

    def memory_reserved(self):
        return 0

    def memory_stats(self):
        return {}


def by_seed(steps, start):
    from torch.distributed._tools.memory_tracker import MemoryTracker
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        net, step = start()
        tracker = MemoryTracker()
        tracker._device_module = Device()
        tracker.start_monitor(net)
        for _ in range(steps):
            step()
        tracker.stop()
    events = sorted(((e.start_ns(), i, e.nbytes()) for i, e in enumerate(prof.profiler.kineto_results.events())
                     if e.name() == "[memory]"))
    live, samples = 0, []
    for _, _, nbytes in events:
        if nbytes == MARK:
            samples.append(live)
        elif nbytes != -MARK:
            live += nbytes
    names = [name for name, _ in tracker.memories_allocated.values()]
    if len(samples) != len(names):
        sys.exit(f"{len(samples)} samples of {len(names)} operators")
    return names, samples, dict(tracker._markers)


def by_memtrace(steps, start, folder):
    import memtrace
    net, step = start()
    tracker = memtrace.MemoryTracker(recording=os.path.join(folder, "tracked.mtr"))
    tracker.start_monitor(net)
    for _ in range(steps):
        step()
    tracker.stop()
    tracker.save_stats(os.path.join(folder, "tracked.pickle"))
    tracker.show_traces(os.path.join(folder, "tracked.svg"))
    tracker.summary(3)
    rows = list(tracker.memories_allocated.values())
    return [name for name, _ in rows], [round(mb * (1 << 20)) for _, mb in rows], dict(tracker._markers)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--tracker", choices=("seed", "memtrace"), required=True)
    p.add_argument("--model", choices=MODELS, default="mlp")
    p.add_argument("--folder", default=".")
    args = p.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)

    def start():
        torch.manual_seed(0)
        net, optimizer, loss = MODELS[args.model]()

        def step():
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()

        step()  # what later steps only find is made
        return net, step

    run = by_seed if args.tracker == "seed" else lambda n, s: by_memtrace(n, s, args.folder)
    names, allocated, markers = run(2, start)
    print("tracked " + json.dumps({"names": names, "allocated": allocated, "markers": markers}), flush=True)


if __name__ == "__main__":
    main()
