# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What a report says of a GPU, against the real allocator's own numbers (at every mark) and the stub's log.

The recordings are those of test_gpu_torch.py and test_gpu_stub.py; the report is taken at the time of each mark.
"""
import collections

import mt
import test_gpu_stub as stub
import test_gpu_torch as torch

DEVICES = torch.DEVICES
NOTHING = {"live": 0, "peak": 0, "segments": {}}


def at_marks(name):
    """(mark, [device of the report, …]) at each mark; checks that the layers add up."""
    m = torch.Mode(name)
    mt.check(len(m.run.reports) == len(m.marks) + 1, f"{len(m.run.reports)} reports of {len(m.marks)} marks")
    rows = []
    for mark, rep in zip(m.marks, m.run.reports):
        devs = [rep["devices"].get(d, NOTHING) for d in DEVICES]
        for d in devs:
            layers = d["segments"].get("layers")
            if layers:
                mt.check(layers["driver"] == layers["allocator"] + layers["others"], f"{mark['mark']}: {layers}")
                mt.check(layers["allocator"] == layers["tensors"] + layers["rounding"] + layers["free"], f"{layers}")
        rows.append((mark, devs))
    return m, rows


def equal(rows, what, of, key, skip=()):
    seen = 0
    for mark, devs in rows:
        have = [of(d) for d in devs]
        if mark["mark"] not in skip:
            mt.check(have == mark[key], f"{what} at '{mark['mark']}': {have}, the allocator says {mark[key]}")
            seen += any(have)
    mt.check(seen, f"{what}: nothing but zeros")
    mt.note(f"{what} equal at {len(rows) - sum(m['mark'] in skip for m, _ in rows)} marks")


def check_caching(name, backend):
    m, rows = at_marks(name)
    equal(rows, "live blocks", lambda d: d["live"], "allocated")
    equal(rows, "allocated", lambda d: d["segments"].get("allocated", 0), "allocated")
    equal(rows, "reserved", lambda d: d["segments"].get("reserved", 0), "reserved")
    equal(rows, "requested", lambda d: d["segments"].get("requested", 0), "requested", (*torch.RAW, *torch.DEFERRED))
    last = rows[-2][1][0]["segments"]
    mt.check(any(d["segments"].get("backend") == backend for _, devs in rows for d in devs), f"backend: {last}")
    for mark, devs in rows:
        for d in devs:
            s = d["segments"]
            mt.check(s.get("allocated_before", 0) == 0, f"{mark['mark']}: attached from the start: {s}")
    ooms = m.run.reports[-1]["ooms"]
    mt.check(len(ooms) == 1 and ooms[0]["kind"] == "device" and ooms[0]["code"] == 2, f"{ooms}")
    return m, rows


def test_caching():
    _, rows = check_caching("plain", "caching")
    equal(rows, "segments", lambda d: d["segments"].get("live", 0), "reserved")


def test_expandable_segments():
    check_caching("expandable", "expandable segments")


def test_cuda_malloc_async():
    m, rows = at_marks("async")
    equal(rows, "live blocks", lambda d: d["live"], "allocated", ("stream",))
    mt.check(m.run.reports[-1]["devices"]["cuda:0"]["segments"]["backend"] == "cudaMallocAsync", "backend")
    mt.check(len(m.run.reports[-1]["ooms"]) == 1, f"{m.run.reports[-1]['ooms']}")


def test_no_caching():
    m, _ = at_marks("no_caching")
    live, peak = collections.Counter(), 0
    at = {}
    for e in m.run.all_events:
        if e["ev"] == "request" and e["addr"]:
            at[e["addr"]] = e["size"]
            live["b"] += e["size"]
        elif e["ev"] == "request_free":
            live["b"] -= at.pop(e["addr"], 0)
    dev = m.run.reports[-1]["devices"]["cuda:0"]
    both = sum(m.run.reports[-1]["devices"].get(d, NOTHING)["live"] for d in DEVICES)
    mt.check(both == live["b"], f"live {both}, requests say {live['b']} {peak}")
    mt.check(dev["segments"]["backend"] == "no caching" and dev["peak"] > 0, f"{dev}")


def test_every_call_of_the_api():
    """Bytes by kind when the stub's target is done, from its log alone."""
    run = stub.Run("api")
    seen = collections.Counter()
    for d in (*run.report["devices"].values(), run.report.get("no_device", {"kinds": {}})):
        for kind, row in d.get("segments", d).get("kinds", {}).items():
            seen[kind] += row["live"]
            mt.check(row["live"] <= row["peak"], f"{kind}: {row}")
    mt.note(f"live at the end: { {k: v for k, v in seen.items() if v} }")


def test_exit_with_memory():
    run = stub.Run("exit", dies=True)
    for name, d in run.report["devices"].items():
        mt.check(d["segments"]["live"] == 0, f"{name}: {d['segments']} of a process that is gone")
    given = sum(c["size"] for c in run.log if c["depth"] == 0 and c["fn"].startswith("cudaMalloc") and c["ret"] == 0)
    peak = sum(d["segments"]["peak"] for d in run.report["devices"].values())
    mt.note(f"{given} bytes given by the stub, peak {peak}")
