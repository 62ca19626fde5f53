# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What a report says of a GPU, against the real allocator's own numbers (at every mark) and the stub's log.

The recordings are those of test_gpu_torch.py and test_gpu_stub.py; the report is taken at the time of each mark.
"""
import collections
import json
import os
import time

import mt
import planted_page
import test_gpu_stub as stub
import test_gpu_torch as torch

DEVICES = torch.DEVICES
MB = 1 << 20
NOTHING = {"live": 0, "peak": 0, "segments": {}}
# They need test_gpu_torch.py's wheels: check-landing and check-gpu-stub name the file.
ALLOCATORS = ("caching", "expandable_segments", "cuda_malloc_async", "no_caching")
SLOW = ON_REQUEST = {*ALLOCATORS, *(f"attached_amid_churn_{name}" for name in ALLOCATORS), "page_has_the_same_numbers",
                     "verdict_pieces", "verdict_refused", "verdict_reserved",
                     *(f"counters_{name}" for name in ("caching", "expandable_segments", "other_allocators"))}


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
                mt.check(layers["allocator"] == layers["tensors"] + layers["rounding"] + layers["late"] + layers["private_pools"]
                         + layers["free"], f"{layers}")
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


def check_private_pools(rows):
    """The allocator's own snapshot says of each segment which pool has it, and how many use the pool."""
    for mark, devs in rows:
        have = {f"{name} {p['id']}": [p["reserved"], p["used"], p["uses"]]
                for name, d in zip(DEVICES, devs) for p in d["segments"].get("private_pools", [])}
        mt.check(have == mark["pools"], f"private pools at '{mark['mark']}': {have}, the allocator says {mark['pools']}")
    at = {mark["mark"]: devs for mark, devs in rows}
    pool = at["captured_again"][0]["segments"]["private_pools"][0]
    mt.check((pool["graphs"], pool["launches"]) == (2, 6), f"{pool}")
    mt.check([(g["graph"], g["launches"]) for g in pool["captured"]] == [(1, 3), (2, 3)], f"each graph was launched three times: {pool}")
    mt.check(pool["begun_ns"] < pool["captured"][0]["captured_ns"] < pool["captured"][1]["captured_ns"], f"{pool}")
    users = at["users_pool"][1]["segments"]["private_pools"][0]
    mt.check(users["graphs"] == 0 and users["captured"] == [], f"torch.cuda.MemPool is of no graph: {users}")
    owners = {s.get("private_pool") for s in at["captured_again"][0]["segments"]["largest"]}
    mt.check(owners == {None, pool["id"]}, f"segments of the pool, and of none: {owners}")
    held = {name: [d["segments"].get("layers", {}).get("private_pools", 0) for d in at[name]]
            for name in ("captured", "users_pool", "used_once", "left", "pools_emptied")}
    mt.check(held["captured"][0] >= 30 * MB and held["users_pool"][1] >= 24 * MB, f"what no tensor has, and nobody else: {held}")
    mt.check(held["used_once"] == [held["users_pool"][0], 0], f"one graph uses it yet, the other pool nobody: {held}")
    mt.check(held["left"] == held["pools_emptied"] == [0, 0], f"{held}")


def check_caching(name, backend):
    m, rows = at_marks(name)
    equal(rows, "live blocks", lambda d: d["live"], "allocated")
    equal(rows, "allocated", lambda d: d["segments"].get("allocated", 0), "allocated")
    equal(rows, "reserved", lambda d: d["segments"].get("reserved", 0), "reserved")
    equal(rows, "active", lambda d: d["segments"].get("active", 0), "active")
    equal(rows, "requested", lambda d: d["segments"].get("requested", 0), "requested", (*torch.RAW, *torch.DEFERRED))
    last = rows[-2][1][0]["segments"]
    mt.check(any(d["segments"].get("backend") == backend for _, devs in rows for d in devs), f"backend: {last}")
    for mark, devs in rows:
        for d in devs:
            s = d["segments"]
            mt.check(s.get("allocated_before", 0) == 0, f"{mark['mark']}: attached from the start: {s}")
    ooms = m.run.reports[-1]["ooms"]
    # from torch 2.15 on expandable segments refuse what is larger than what they reserve, without asking the driver
    code = max(c["ret"] for c in m.run.log)
    mt.check(len(ooms) == 1 and ooms[0]["kind"] == "device" and ooms[0]["code"] == code, f"the driver said {code}: {ooms}")
    mt.check(code == 2 or (name == "expandable" and torch.OVER != "torch"), f"the driver said {code}")
    cached = [s for s in ooms[0]["segments"] if s["cached"]]
    mt.check(cached and all(s["pid"] == m.run.reports[-1]["processes"][0]["pid"] for s in cached), f"{ooms[0]['segments']}")
    mt.check(sum(s["size"] for s in cached) <= ooms[0]["reserved"] and sum(s["used"] for s in cached) <= ooms[0]["live"],
             f"{ooms[0]}")
    check_private_pools(rows)
    late = {mark["mark"]: devs[0]["segments"]["late"] for mark, devs in rows}
    mt.check(late["stream"] == 2 * MB and late["late"] == 8 * MB and late["late_one"] and not late["end"], f"record_stream: {late}")
    last = rows[-1][1][0]["segments"]
    mt.check(last["late_blocks"] == 4 and last["late_peak"] == 8 * MB, f"{last}")
    return m, rows


def test_caching():
    _, rows = check_caching("plain", "caching")
    equal(rows, "inactive", lambda d: d["segments"].get("inactive", 0), "inactive", torch.STALE)
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
    live = collections.Counter()
    at = {}
    for e in m.run.all_events:
        if e["ev"] == "request" and e["addr"]:
            at[e["addr"]] = e["size"]
            live["b"] += e["size"]
        elif e["ev"] == "request_free":
            live["b"] -= at.pop(e["addr"], 0)
    dev = m.run.reports[-1]["devices"]["cuda:0"]
    both = sum(m.run.reports[-1]["devices"].get(d, NOTHING)["live"] for d in DEVICES)
    mt.check(both == live["b"], f"live {both}, requests say {live['b']}")
    mt.check(dev["segments"]["backend"] == "no caching" and dev["peak"] > 0, f"{dev}")


def test_page_has_the_same_numbers():
    """What the HTML page's part on fragmentation is made of."""
    with mt.scratch() as tmp:
        m = torch.Mode("expandable", keep=tmp / "a.mtr")
        page = mt.ok(mt.memtrace("export", tmp / "a.mtr", "--to", "html", "-o", "-")).stdout
        doc = stub.json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    mt.check([s["dev"] for s in doc["segments"]] == [d for d, x in m.run.report["devices"].items() if "segments" in x],
             f"{doc['segments']}")
    for row in doc["segments"]:
        segs = m.run.report["devices"][row["dev"]]["segments"]
        for key in ("live", "peak", "cached", "other", "allocated", "reserved", "reserved_peak", "inactive", "free_cached",
                    "largest_free"):
            mt.check(row[key] == segs[key], f"{row['dev']} {key}: page {row[key]}, report {segs[key]}")
    mt.check(any(row["reserved_peak"] for row in doc["segments"]), f"nothing but zeros: {doc['segments']}")


def planted(kind, mode="plain", total_mb=4096):
    """(what the allocator says in the end, the first line of the verdict, all of it)."""
    torch.need_wheels()
    run = stub.Run(kind, target=torch.TARGET, probes="segments,framework,usdt", env={**torch.MODES[mode], "MT_STUB_TOTAL": str(total_mb * MB)})
    mark, = [json.loads(line) for line in run.out if line.startswith("{")]
    mt.check(not run.lost, f"lost: {run.lost}")
    return mark, run.report["verdict"][0], run.report["verdict"]


def test_verdict_pieces():
    """Free memory in pieces comes first, with the allocator's own numbers. These are too small for expandable segments, and that is so."""
    mark, first, lines = planted("pieces")
    idle = mark["reserved_peak"][0] - mark["allocated_peak"][0]
    mt.check((first["kind"], first["bytes"]) == ("fragmented", idle) and idle > 128 * MB, f"{mark}: {lines}")
    mt.check("in pieces of 16.0 MiB at most" in first["text"] and "allocate what lives long before" in first["next"], f"{first}")
    planted_page.first("pieces", lines)
    same, _, _ = planted("pieces", "expandable")
    mt.check(same["reserved_peak"] == mark["reserved_peak"], f"{mark}, with expandable segments {same}")


def test_verdict_refused():
    """Refused, though enough is free in pieces; with what is proposed it is not."""
    mark, first, lines = planted("wide", total_mb=400)
    mt.check(mark["ooms"][0] == 1 and first["kind"] == "out_of_memory" and first["severity"] == "problem", f"{mark}: {lines}")
    mt.check("324 MiB free in pieces of 108 MiB at most" in first["text"] and "expandable_segments:True" in first["next"], f"{first}")
    planted_page.first("refused", lines)
    better, other, lines = planted("wide", "expandable", total_mb=400)
    mt.check(better["ooms"][0] == 0 and other["kind"] != "out_of_memory", f"{better}: {lines}")


def test_verdict_reserved():
    """Reserved, whole, and in nobody's use."""
    mark, first, lines = planted("idle")
    idle = mark["reserved_peak"][0] - mark["allocated_peak"][0]
    mt.check((first["kind"], first["bytes"]) == ("reserved", idle) and idle == 200 * MB, f"{mark}: {lines}")
    mt.check("empty_cache()" in first["next"] and "240 MiB" in first["next"], f"{first}")
    planted_page.first("reserved", lines)


KIND = {stub.DEVICE: "device", stub.MANAGED: "managed", stub.PINNED: "pinned", stub.REGISTERED: "registered",
        stub.ASYNC: "async", stub.ARRAY: "array", stub.PHYSICAL: "physical", stub.IMPORTED: "imported", stub.NCCL: "nccl",
        stub.GRAPH: "graph", stub.RESERVED: "reserved"}


def by_kind(report, key):
    """Summed over the devices and what has none."""
    sums = collections.Counter()
    for d in (*(x.get("segments", {}) for x in report["devices"].values()), report.get("no_device", {})):
        for kind, row in d.get("kinds", {}).items():
            sums[kind] += row[key]
    return +sums


def from_log(log):
    """(given, failed, bytes given) by kind, from the outermost calls of the stub's log."""
    given, failed, size = collections.Counter(), collections.Counter(), collections.Counter()
    for c in log:
        event, seg = stub.API.get(c["fn"], (None, 0))
        if c["depth"] or event != stub.GIVES or not (c["addr"] or c["ret"]):
            continue
        if c["ret"]:
            failed[KIND[seg]] += c["fn"] not in stub.SIZE_NOT_ASKED
        elif c["fn"] != "cuMemRetainAllocationHandle":  # one more reference, no memory
            # where cuMemCreate is asked for host memory, that is what it gives
            kind = "pinned" if seg == stub.PHYSICAL and c["dev"] == -2 else KIND[seg]
            given[kind] += 1
            size[kind] += c["size"]
    return +given, +failed, +size


def test_every_call_of_the_api():
    run = stub.Run("api")
    given, failed, _ = from_log(run.log)
    mt.check(by_kind(run.report, "allocs") == given, f"given {by_kind(run.report, 'allocs')}, the stub says {given}")
    mt.check(by_kind(run.report, "fails") == failed, f"failed {by_kind(run.report, 'fails')}, the stub says {failed}")
    mt.check(not by_kind(run.report, "live"), f"live at the end: {by_kind(run.report, 'live')}; the target gave all back")
    mt.check(by_kind(run.report, "frees") + by_kind(run.report, "dropped") == given, "what was given ended")
    mt.note(f"given {sum(given.values())} of {len(given)} kinds, failed {sum(failed.values())}, all equal")


def test_contexts():
    """Destroyed with memory in them."""
    run = stub.Run("contexts")
    given, _, _ = from_log(run.log)
    mt.check(by_kind(run.report, "allocs") == given, f"{by_kind(run.report, 'allocs')}, the stub says {given}")
    freed = sum(stub.API.get(c["fn"], ("",))[0] == stub.TAKES and not c["depth"] and not c["ret"] for c in run.log)
    ended = by_kind(run.report, "dropped")
    mt.check(ended == {"device": given["device"] - freed}, f"{ended} ended with a context; given {given}, freed {freed}")
    mt.check(not by_kind(run.report, "live"), f"{by_kind(run.report, 'live')}")
    mt.note(f"{ended['device']} of {given['device']} ended with their context")



def marks_of(run):
    return dict(zip((m["mark"] for m in (stub.json.loads(x) for x in run.out if x.startswith("{"))), run.reports))


def test_communicators():
    """Each takes 7 MiB of its device: 4, 2 mapped, 1 by its proxy. Beside them: 8 MiB of the program's, 6 of ncclMemAlloc."""
    run = stub.Run("comms")
    at = marks_of(run)
    want = {"one": (0, 7 * MB, 0, 1), "five": (7 * MB, (7 * 4 + 6) * MB, 0, 5), "two": (7 * MB, (7 + 6) * MB, 3, 5)}
    for mark, (on0, on1, ended, made) in want.items():
        segs = {d: at[mark]["devices"].get(d, {}).get("segments", {}) for d in ("cuda:0", "cuda:1")}
        for d, live in (("cuda:0", on0), ("cuda:1", on1)):
            seen = segs[d].get("communication", {"live": 0})["live"]
            mt.check(seen == live, f"{mark}: {d} has {seen} for communication, the target says {live}")
            mt.check(segs[d].get("layers", {"communication": 0})["communication"] == live, f"{mark}: {d} {segs[d]}")
        both = segs["cuda:1"]["communication"]
        mt.check((both["communicators_made"], both["communicators_ended"]) == (made, ended), f"{mark}: {both}")
        mt.check(segs["cuda:1"]["layers"]["others"] == on1 + 8 * MB, f"{mark}: {segs['cuda:1']['layers']}")
    end = run.report["devices"]["cuda:1"]["segments"]
    mt.check(end["communication"]["live"] == 0 and end["communication"]["peak"] == 34 * MB, f"{end}")
    pinned = at["five"]["no_device"]["communication"]  # each pins 3 MiB; reserved addresses are no memory
    mt.check(pinned == {"live": 15 * MB, "peak": 15 * MB}, f"{pinned}")


def test_graphs():
    run = stub.Run("graphs")
    at = marks_of(run)
    seen = {}
    for mark, rep in at.items():
        if mark is not None:
            seen[mark] = {d: (x["segments"]["kinds"].get("graph", {}).get("live", 0), x["segments"]["live"])
                          for d, x in rep["devices"].items()}
    mt.check(seen["captured"] == {"cuda:0": (0, 4 * MB)}, f"nothing of a graph is memory before its launch: {seen}")
    mt.check(seen["launched"] == {"cuda:0": (4 * MB, 8 * MB)}, f"what the graph keeps: {seen}")
    mt.check(seen["nodes"] == {"cuda:0": (0, 1 * MB), "cuda:1": (6 * MB, 6 * MB)}, f"{seen}")
    end = {d: x["segments"]["graphs"] for d, x in run.report["devices"].items()}
    mt.check(end == {"cuda:0": {"with_memory": 2, "launches": 2, "largest": 6 * MB},
                     "cuda:1": {"with_memory": 1, "launches": 1, "largest": 6 * MB}}, f"{end}")
    mt.check(not by_kind(run.report, "live"), f"{by_kind(run.report, 'live')}")
    mt.check(all(d["live"] == 0 for d in run.report["devices"].values()), f"blocks: {run.report['devices']}")


def test_pools():
    run = stub.Run("pools")
    at = marks_of(run)
    live = {d: x["segments"]["live"] for d, x in at["given"]["devices"].items()}
    mt.check(live == {"cuda:0": 7 * MB, "cuda:1": 5 * MB}, f"{live}")
    mt.check(by_kind(at["unseen"], "live") == {"async": 13 * MB}, f"{by_kind(at['unseen'], 'live')}")
    mt.check(not by_kind(run.report, "live"), f"{by_kind(run.report, 'live')}")


def test_exit_with_memory():
    run = stub.Run("exit", dies=True)
    given, _, size = from_log(run.log)
    mt.check(not by_kind(run.report, "live"), f"live in a process that is gone: {by_kind(run.report, 'live')}")
    mt.check(by_kind(run.report, "peak") == size, f"peak {by_kind(run.report, 'peak')}, the stub gave {size}")
    mt.check(by_kind(run.report, "dropped") == given, f"{by_kind(run.report, 'dropped')}, the stub gave {given}")
    mt.check(run.report["ooms"] == [], f"{run.report['ooms']}")


def test_killed_with_memory():
    run = stub.Run("kill", dies=True, probes="segments,kernel")
    given, _, size = from_log(run.log)
    mt.check(by_kind(run.report, "peak") == size and by_kind(run.report, "dropped") == given, f"{size} {given}")
    mt.check([o["signal"] for o in run.report["ooms"]] == [9], f"{run.report['ooms']}")


# --- attached in the middle of it ---------------------------------------------------------------------------------

def churn(mode):
    """Attached while four threads give out and take back: (mark, [device of the report, …]) at the marks after that."""
    torch.need_wheels()
    run = stub.Run("churn", target=torch.TARGET, probes="segments,framework,usdt", env={"MT_STUB_LOG": "", **torch.MODES[mode]})
    marks = [stub.json.loads(x) for x in run.out if x.startswith("{")]
    mt.check([m["mark"] for m in marks] == ["joined", "one_late", "none_late", "half", "only_new", *EMPTY], f"{run.out}")
    mt.check(not run.lost, f"lost: {run.lost}")
    return run, [(m, [rep["devices"].get(d, NOTHING) for d in DEVICES]) for m, rep in zip(marks, run.reports)]


EMPTY = ("nothing", "refused")  # the last is for cuda:0
MADE = [[(3000 << i) for i in range(d, 6, 2)] for d in (0, 1)]  # by the target after the attach, on cuda:0 and cuda:1


def churn_caching(mode):
    run, rows = churn(mode)
    equal(rows, "allocated", lambda d: d["segments"].get("allocated", 0), "allocated")
    equal(rows, "reserved", lambda d: d["segments"].get("reserved", 0), "reserved")
    equal(rows, "active", lambda d: d["segments"].get("active", 0), "active")
    late = [devs[0]["segments"]["late"] for _, devs in rows]
    mt.check(late == [0, rows[0][0]["allocated"][0] - rows[1][0]["allocated"][0], 0, 0, 0, 0, 0] and late[1] >= 1000 << 9,
             f"a block from before the attach, late: {late}")
    for mark, devs in rows:
        for k, d in enumerate(devs):
            s, made = d["segments"], [] if mark["mark"] in EMPTY else MADE[k]
            new = sum((n + 511) // 512 * 512 for n in made) + (5120 if made and k == 0 and mark["mark"] not in ("joined", "one_late") else 0)
            mt.check(d["live"] == new, f"{mark['mark']}: {d['live']} live, made since the attach: {new}")
            mt.check(s["allocated_before"] == mark["allocated"][k] - new, f"{mark['mark']}: {s['allocated_before']}")
            layers = s["layers"]
            mt.check(layers["driver"] == layers["allocator"] + layers["others"], f"{layers}")
            mt.check(layers["allocator"] == layers["tensors"] + layers["rounding"] + layers["late"] + layers["free"], f"{layers}")
    mt.check(rows[-1][0]["reserved"][0] < rows[-2][0]["reserved"][0], "cached segments were given back")
    mt.check(rows[0][1][0]["segments"]["allocated_before"] and not rows[-3][1][0]["segments"]["allocated_before"], "before")
    mt.check(rows[-2][1][0]["segments"]["reserved_before"] > 0, "segments from before the attach")


def test_attached_amid_churn_caching():
    churn_caching("plain")


def test_attached_amid_churn_expandable_segments():
    churn_caching("expandable")


def churn_without_totals(mode):
    """Nobody tells totals: what was made since the attach is live, to the byte, and what was before is never less than nothing."""
    _, rows = churn(mode)
    for mark, devs in rows:
        for k, d in enumerate(devs):
            new = 0 if mark["mark"] in EMPTY else sum(MADE[k]) + (5000 if k == 0 and mark["mark"] not in ("joined", "one_late") else 0)
            mt.check(d["live"] == new, f"{mark['mark']}: {d['live']} live, made since the attach: {new}")
    mt.note(f"equal at {len(rows)} marks")


def test_attached_amid_churn_cuda_malloc_async():
    churn_without_totals("async")


def test_attached_amid_churn_no_caching():
    churn_without_totals("no_caching")


# --- the allocator's own counters -----------------------------------------------------------------------------------

def counters(mode, *options):
    """A job that had 300 MiB for a moment before the attach, rests with other sums each time, and resets its peaks once."""
    torch.need_wheels()
    env = dict(os.environ, MT_STUB_LOG="", **torch.MODES[mode])
    with mt.scratch() as tmp, mt.Proc([stub.BIN / torch.TARGET, "peaks"], env=env) as job:
        job.line("ready ", 60)
        mtr = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "--probes", "segments,framework,usdt", *options, "-o", str(mtr)) as tracer:
            mt.wait_until(lambda: any("recording: " in t for t in tracer.err) or not tracer.alive(), "memtrace to record", 30)
            job.tell("")
            high = json.loads(job.line('{"mark":"high"', 60))
            time.sleep(0.3) # more than two readings
            job.tell("")
            last = json.loads(job.line('{"mark":"reset"', 60))
            job.line("done", 60)
            time.sleep(0.3)
            mt.finish(tracer, mtr)
        rep = mt.report(mtr)
        text = mt.memtrace("report", mtr, "-v").stdout
        job.tell("")
    said = [max(m[key][0] for m in (high, last)) for key in ("allocated_peak", "reserved_peak")]
    return said, rep["devices"].get("cuda:0", {}), text


def check_counters(mode):
    said, dev, text = counters(mode)
    read = dev["segments"].get("allocator")
    mt.check(read is not None, "the counters were not found, or not believed")
    have = [read["allocated_peak"], read["reserved_peak"]]
    mt.check(have == said, f"peaks read: {have}, the allocator says {said}")
    mt.check(dev["peak"] < 100 * MB < have[0], f"the highest moment was before the attach: {dev['peak']} traced, {have[0]} read")
    mt.check(read["peak_resets"] == 1, f"the job has reset its peaks once: {read}")
    mt.check("read and not traced: at most 300 MiB given out" in " ".join(text.split()), text)
    mt.note(f"{have[0]} given out at most, {have[1]} reserved; traced: {dev['peak']}")


def test_counters_caching():
    check_counters("plain")


def test_counters_expandable_segments():
    check_counters("expandable")


def test_counters_other_allocators():
    for mode in ("async", "no_caching"):
        _, dev, _ = counters(mode)
        mt.check("allocator" not in dev.get("segments", {}), f"{mode}: an allocator that counts nothing has no counters: {dev}")
