#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A small training job that says at marks what the framework itself knows of its memory.

    job.py SCENARIO DEVICE      SCENARIO: eager, expandable_segments, cudaMallocAsync, cuda_graphs, record_stream,
                                pinned_loader, out_of_memory

The protocol on stdin and stdout is tests/gpu/run's: "ready PID", a line, then marks: "mark {json}", each
waiting for a line, then "end". At a mark the device is idle and nothing is allocated. On the CPU, where
torch keeps no counts, the truth is a sum over the storages that were made after "ready".
"""
import gc
import json
import os
import sys

import torch


def mark(name, truth):
    print("mark", json.dumps({"mark": name, **truth}), flush=True)
    sys.stdin.readline()


class Cpu:
    """Storages made since "ready", as long as they live."""

    def __init__(self):
        self.before = dict(self.storages())

    @staticmethod
    def storages():
        gc.collect()
        for o in gc.get_objects():
            if isinstance(o, torch.Tensor) and o.device.type == "cpu":
                for t in (o, o.grad if o.is_leaf else None): # a gradient is an object only when asked for
                    if t is not None:
                        yield t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()

    def truth(self):
        live = dict(self.storages())
        return {"device": "cpu", "live": sum(n for p, n in live.items() if self.before.get(p) != n)}


class Cuda:
    def __init__(self, device):
        self.device = torch.device(device)
        if self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())

    def truth(self):
        torch.cuda.synchronize(self.device)
        gc.collect()
        stats = torch.cuda.memory_stats(self.device)
        keys = ("allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.current",
                "requested_bytes.all.current", "active_bytes.all.current", "inactive_split_bytes.all.current",
                "num_ooms", "num_alloc_retries")
        out = {"device": f"cuda:{self.device.index}", "stats": {k: stats[k] for k in keys if k in stats},
               "backend": torch.cuda.get_allocator_backend()}
        try:
            # whatever it is asked for, it tells of all devices
            segments = [s for s in torch.cuda.memory._snapshot()["segments"] if s["device"] == self.device.index]
            out["snapshot"] = {"segments": len(segments), "total": sum(s["total_size"] for s in segments),
                               "allocated": sum(s["allocated_size"] for s in segments),
                               "inactive": sum(s["total_size"] - s["active_size"] for s in segments if s["active_size"]),
                               "private": sum(s["total_size"] for s in segments if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0)),
                               "blocks": blocks_of(segments),
                               "places": [[s["address"], s["total_size"]] for s in segments]}
        except (RuntimeError, KeyError, AssertionError) as e: # cudaMallocAsync has none
            out["snapshot_missing"] = str(e)[:200]
        free, total = torch.cuda.mem_get_info(self.device)
        out["mem_get_info"] = {"used": total - free, "total": total}
        return out


def blocks_of(segments):
    """[[address, bytes], …] of what is given out; a block lies behind the ones before it where torch does not say."""
    found = []
    for s in segments:
        at = s["address"]
        for b in s["blocks"]:
            if b["state"] == "active_allocated":
                found.append([b.get("address", at), b["size"]])
            at += b["size"]
    return found


def model_of(device):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).to(device)
    return net, torch.optim.Adam(net.parameters())


def step(net, optimizer, x):
    loss = (net(x) - x).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def eager(device, say):
    net, optimizer = model_of(device)
    for n in range(3):
        for size in (64, 256, 1024):
            step(net, optimizer, torch.randn(size, 512, device=device))
        say(f"epoch {n}")
    kept = [torch.empty(n << 20, dtype=torch.uint8, device=device) for n in (1, 3, 30, 70)]
    say("kept")
    del kept[1::2]
    say("half freed")
    if device.type == "cuda":
        torch.cuda.empty_cache()
        say("cache emptied")


def cuda_graphs(device, say):
    net, optimizer = model_of(device)
    optimizer = torch.optim.Adam(net.parameters(), capturable=True)
    x = torch.randn(256, 512, device=device)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(net, optimizer, x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(net, optimizer, x)
    say("captured")
    for _ in range(10):
        graph.replay()
    say("replayed")
    del graph
    say("graph gone")


def record_stream(device, say):
    """Freed while another stream uses them: active, but no longer allocated, until that stream is done."""
    if device.type != "cuda":
        say("nothing")
        return
    side = torch.cuda.Stream(device)
    kept = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    for size in (3, 30):
        used = torch.ones(size << 20, dtype=torch.uint8, device=device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            used.add_(1)
            torch.cuda._sleep(10**8)
        used.record_stream(side)
        del used
        kept = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    say("freed")
    del kept
    kept = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    say("over")


def out_of_memory(device, say):
    """As much as there is, twice; what is given back in between goes back to the driver."""
    for n in range(2):
        kept = []
        try:
            while len(kept) < 1 << 10:
                kept.append(torch.empty(2 << 30, dtype=torch.uint8, device=device))
        except torch.OutOfMemoryError:
            pass
        say(f"refused {n}")
        kept.clear()
        torch.cuda.empty_cache()
        kept.append(torch.empty(3 << 20, dtype=torch.uint8, device=device)) # the allocator says its totals
        say(f"given back {n}")


def pinned_loader(device, say):
    data = torch.utils.data.TensorDataset(torch.randn(2048, 512))
    loader = torch.utils.data.DataLoader(data, batch_size=256, pin_memory=device.type == "cuda", num_workers=2)
    net, optimizer = model_of(device)
    for n in range(2):
        for (x,) in loader:
            step(net, optimizer, x.to(device, non_blocking=True))
        say(f"epoch {n}")


def main():
    scenario, device = sys.argv[1], torch.device(sys.argv[2])
    counts = Cuda(device) if device.type == "cuda" else None
    if counts:
        torch.zeros(1, device=device) # the context
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    counts = counts or Cpu()
    run = {f.__name__: f for f in (cuda_graphs, pinned_loader, record_stream, out_of_memory)}.get(scenario, eager)
    run(device, lambda name: mark(name, counts.truth()))
    print("end", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
