# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The memory API of a GPU over stub libraries (tests/gpu_stub): memtrace's events against the stub's own log.

The stub says of every call what it did; the table below says, independently of memtrace's catalog, which event
that has to become. Thread by thread, in order, each event must be there with its pointer, size and handle.
"""
import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess

import mt

SLOW = {"api_perf_uprobes"}

BIN = mt.BUILD / "tests" / "gpu_stub"
SEGMENTS = ("seg_alloc", "seg_free", "seg_map", "seg_unmap", "seg_fail", "seg_reset", "seg_trim", "seg_comm",
            "seg_graph", "seg_pool")
DEVICE, MANAGED, PINNED, REGISTERED, ASYNC, ARRAY, PHYSICAL, IMPORTED, NCCL, GRAPH, RESERVED = range(1, 12)

# function (without cuda / cu): event, kind of segment, what the log's aux is in the event
GIVES, TAKES = "seg_alloc", "seg_free"
API = {
    "cudaMalloc": (GIVES, DEVICE), "cudaMallocPitch": (GIVES, DEVICE), "cudaMalloc3D": (GIVES, DEVICE),
    "cudaMallocManaged": (GIVES, MANAGED), "cudaMallocHost": (GIVES, PINNED), "cudaHostAlloc": (GIVES, PINNED),
    "cudaHostRegister": (GIVES, REGISTERED), "cudaMallocAsync": (GIVES, ASYNC), "cudaMallocAsync_ptsz": (GIVES, ASYNC),
    "cudaMallocFromPoolAsync": (GIVES, ASYNC), "cudaMallocArray": (GIVES, ARRAY), "cudaMalloc3DArray": (GIVES, ARRAY),
    "cudaMallocMipmappedArray": (GIVES, ARRAY), "cudaIpcOpenMemHandle": (GIVES, IMPORTED),
    "cudaImportExternalMemory": (GIVES, IMPORTED), "cudaGraphAddMemAllocNode": (GIVES, GRAPH),
    "cudaFree": (TAKES, DEVICE), "cudaFreeHost": (TAKES, PINNED), "cudaHostUnregister": (TAKES, REGISTERED),
    "cudaFreeAsync": (TAKES, ASYNC), "cudaFreeAsync_ptsz": (TAKES, ASYNC), "cudaFreeArray": (TAKES, ARRAY),
    "cudaFreeMipmappedArray": (TAKES, ARRAY), "cudaIpcCloseMemHandle": (TAKES, IMPORTED),
    "cudaDestroyExternalMemory": (TAKES, IMPORTED), "cudaGraphAddMemFreeNode": (TAKES, GRAPH),
    "cudaExternalMemoryGetMappedBuffer": ("seg_map", IMPORTED), "cudaMemPoolTrimTo": ("seg_trim", ASYNC),
    "cudaMemPoolDestroy": ("seg_trim", ASYNC), "cudaDeviceGraphMemTrim": ("seg_trim", GRAPH),
    "cudaDeviceReset": ("seg_reset", 0), "ncclMemAlloc": (GIVES, NCCL), "ncclMemFree": (TAKES, NCCL),
    "cuMemAlloc_v2": (GIVES, DEVICE), "cuMemAllocPitch_v2": (GIVES, DEVICE), "cuMemAllocManaged": (GIVES, MANAGED),
    "cuMemAllocHost_v2": (GIVES, PINNED), "cuMemHostAlloc": (GIVES, PINNED), "cuMemHostRegister_v2": (GIVES, REGISTERED),
    "cuMemAllocAsync": (GIVES, ASYNC), "cuMemAllocAsync_ptsz": (GIVES, ASYNC), "cuMemAllocFromPoolAsync": (GIVES, ASYNC),
    "cuArrayCreate_v2": (GIVES, ARRAY), "cuArray3DCreate_v2": (GIVES, ARRAY), "cuMipmappedArrayCreate": (GIVES, ARRAY),
    "cuMemCreate": (GIVES, PHYSICAL), "cuMemRetainAllocationHandle": (GIVES, PHYSICAL),
    "cuMemImportFromShareableHandle": (GIVES, IMPORTED), "cuMemAddressReserve": (GIVES, RESERVED),
    "cuIpcOpenMemHandle_v2": (GIVES, IMPORTED), "cuImportExternalMemory": (GIVES, IMPORTED),
    "cuGraphAddMemAllocNode": (GIVES, GRAPH), "cuMemFree_v2": (TAKES, DEVICE), "cuMemFreeHost": (TAKES, PINNED),
    "cuMemHostUnregister": (TAKES, REGISTERED), "cuMemFreeAsync": (TAKES, ASYNC), "cuMemFreeAsync_ptsz": (TAKES, ASYNC),
    "cuArrayDestroy": (TAKES, ARRAY), "cuMipmappedArrayDestroy": (TAKES, ARRAY), "cuMemRelease": (TAKES, PHYSICAL),
    "cuMemAddressFree": (TAKES, RESERVED), "cuIpcCloseMemHandle": (TAKES, IMPORTED),
    "cuDestroyExternalMemory": (TAKES, IMPORTED), "cuGraphAddMemFreeNode": (TAKES, GRAPH),
    "cuMemMap": ("seg_map", PHYSICAL), "cuMemUnmap": ("seg_unmap", PHYSICAL),
    "cuExternalMemoryGetMappedBuffer": ("seg_map", IMPORTED), "cuMemPoolTrimTo": ("seg_trim", ASYNC),
    "cuMemPoolDestroy": ("seg_trim", ASYNC), "cuDeviceGraphMemTrim": ("seg_trim", GRAPH),
    "cuCtxDestroy_v2": ("seg_reset", 0), "cuDevicePrimaryCtxReset_v2": ("seg_reset", 0),
    "cuDevicePrimaryCtxRelease_v2": ("seg_reset", 1),
}
for fn in ("cudaMemPoolCreate", "cudaDeviceGetDefaultMemPool", "cuMemPoolCreate", "cuDeviceGetDefaultMemPool"):
    API[fn] = ("seg_pool", 0)
for kind, fns in enumerate((("cudaStreamBeginCapture", "cuStreamBeginCapture_v2"),
                            ("cudaStreamEndCapture", "cuStreamEndCapture"),
                            ("cudaGraphInstantiate", "cuGraphInstantiateWithFlags"), ("cudaGraphLaunch", "cuGraphLaunch")), 1):
    API.update({fn: ("seg_graph", kind) for fn in fns})
for fn, kind in (("InitRank", 1), ("InitRankConfig", 1), ("InitAll", 1), ("Split", 1), ("Finalize", 0), ("Destroy", 2),
                 ("Abort", 2)):
    API["ncclComm" + fn] = ("seg_comm", kind)
FOR_COMMUNICATION = 0x40  # beside the kind
NCCL_IN_PROGRESS = 7

SETS_DEVICE = {"cudaSetDevice"}
SETS_CONTEXT = {"cuCtxCreate_v2", "cuCtxCreate_v4", "cuCtxSetCurrent"}
SIZE_NOT_ASKED = {"cudaIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", "cuMemRetainAllocationHandle",
                  "cuMemImportFromShareableHandle"}
SAYS_DEVICE = {"cuMemCreate", "cudaGraphAddMemAllocNode", "cuGraphAddMemAllocNode", "cudaDeviceGraphMemTrim",
               "cuDeviceGraphMemTrim", "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2"}


def build():
    make = mt.make("gpu-stub")
    mt.check(make.returncode == 0, f"make gpu-stub: {make.stderr}")


def as_runtime(fn):
    """HIP's functions are named as the runtime's, and take the same arguments."""
    return "cuda" + fn[3:] if fn.startswith("hip") else fn


def fold(number):
    return (number ^ number >> 32) & 0xffffffff


def dev_name(number):
    return {-1: "none", -2: "host"}.get(number, f"cuda:{number}")


class Thread:
    """What memtrace may know of a thread: the device and context that it chose since the attach; a new thread has 0."""

    def __init__(self, is_new):
        self.dev, self.ctx = 0 if is_new else -1, 0

    def expected(self, c):
        """The event that an outermost call has to become; None for none."""
        fn, ok = as_runtime(c["fn"]), c["ret"] == 0 or (c["ret"] == NCCL_IN_PROGRESS and c["fn"].startswith("ncclComm"))
        if fn in SETS_DEVICE and ok:
            self.dev, self.ctx = c["dev"], 0
        if fn in SETS_CONTEXT and ok:
            self.dev, self.ctx = (-1 if fn == "cuCtxSetCurrent" else c["dev"]), c["addr"]
        if fn not in API:
            return None
        kind, seg = API[fn]
        dev, addr, size, aux = -1, c["addr"], c["size"], c["aux"]
        if kind == GIVES:
            says_own = fn in SAYS_DEVICE or c["dev"] < 0
            dev = c["dev"] if says_own else self.dev
            if seg not in (ASYNC, GRAPH):
                aux = self.ctx if not says_own else 0
            if c["comm"]:
                seg |= FOR_COMMUNICATION
        if kind == "seg_reset":
            dev = c["dev"] if fn in SAYS_DEVICE else self.dev
            if fn == "cuCtxDestroy_v2":
                dev = self.dev if self.ctx == addr else -1
                if self.ctx == addr:
                    self.dev, self.ctx = -1, 0
        if kind == "seg_pool" or (kind == "seg_trim" and fn in SAYS_DEVICE):
            dev = c["dev"]
        if kind == "seg_comm":
            dev = self.dev
        if not ok:
            if fn.endswith("StreamEndCapture"):
                return {"ev": kind, "flags": seg, "name": c["fn"], "dev": "none", "addr": 0, "size": 0, "aux": aux}
            if kind != GIVES or fn in SIZE_NOT_ASKED:
                return None
            kind, addr, aux = "seg_fail", 0, c["ret"]
        elif not addr and kind in (GIVES, TAKES):
            return None
        return {"ev": kind, "flags": seg, "name": c["fn"], "dev": dev_name(dev), "addr": addr, "size": size,
                "aux": fold(aux)}


def by_thread(rows):
    threads = {}
    for row in rows:
        threads.setdefault(row["tid"], []).append(row)
    return threads


def compare(log, events, pid):
    """Each thread's events against its calls; returns how many."""
    calls, seen = by_thread(log), by_thread(events)
    mt.check(set(seen) <= set(calls), f"events of threads that did nothing: {set(seen) - set(calls)}")
    total = 0
    for tid, rows in calls.items():
        state = Thread(is_new=tid != pid)  # the targets make their threads after the attach
        want = [e for c in rows if c["depth"] == 0 and (e := state.expected(c))]
        have = [{k: e[k] for k in ("ev", "flags", "name", "dev", "addr", "size", "aux")} for e in seen.get(tid, [])]
        for i, (w, h) in enumerate(zip(want, have)):
            mt.check(w == h, f"thread {tid}, event {i}: memtrace {h}, truth {w}")
        mt.check(len(want) == len(have), f"thread {tid}: {len(have)} events, {len(want)} calls that make one; "
                                         f"first more: {(want[len(have):] or have[len(want):])[:1]}")
        total += len(want)
    return total


def reports_at(path, times):
    """The report as it was at each of these times, and at the end."""
    done = subprocess.run([BIN / "report_at", path, *map(str, times)], capture_output=True, text=True, check=True)
    decoder, text, reports = json.JSONDecoder(), done.stdout.lstrip(), []
    while text:
        report, end = decoder.raw_decode(text)
        reports.append(report)
        text = text[end:].lstrip()
    return reports


class Run:
    """A recorded run of the target: .log (calls since the go), .events, .report, .code of memtrace."""

    def __init__(self, mode, target="gpu_target", dies=False, probes="segments", options=(), env=None, codes=(0,), keep=None):
        build()
        with mt.scratch() as tmp, contextlib.ExitStack() as stack:
            log = tmp / "log"
            job = stack.enter_context(mt.Proc([BIN / target, mode],
                                              env={**os.environ, "MT_STUB_LOG": str(log), **(env or {})}))
            job.line("ready ")
            self.pid = job.pid
            self.before = self._calls(log)
            path = tmp / "a.mtr"
            tracer = stack.enter_context(mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", probes,
                                                  *options))
            mt.wait_until(lambda: any(x.startswith("attached") for x in tracer.err) or not tracer.alive(), "attached", 20)
            mt.check(tracer.alive(), f"memtrace ended: {tracer.err}")
            job.tell("go")
            if dies:
                job.wait()
            else:
                job.line("done")
                tracer.signal(signal.SIGINT)
            self.code = tracer.wait(100)  # perf uprobes close one after another, each when the kernel lets go of it
            self.stderr = tracer.err
            mt.check(self.code in codes, f"record: exit {self.code}: {tracer.err}")
            self.log = self._calls(log)[len(self.before):]
            self.out = job.out
            done = subprocess.run([BIN / "events_json", path], capture_output=True, text=True, check=True)
            self.all_events = [json.loads(line) for line in done.stdout.splitlines()]
            self.events = [e for e in self.all_events if e["ev"] in SEGMENTS]
            self.report = mt.report(path, codes)
            if keep:
                shutil.copy(path, keep)
            marks = [json.loads(x) for x in self.out if x.startswith("{")] if hasattr(self, "out") else []
            self.reports = reports_at(path, [m["t"] for m in marks])
        self.lost = {k: v for k, v in self.report["lost"].items() if v}

    @staticmethod
    def _calls(log):
        return [json.loads(line) for line in open(log, encoding="utf-8")] if log.exists() else []


def test_api():
    run = Run("api")
    mt.check(not run.lost, f"lost: {run.lost}")
    n = compare(run.log, run.events, run.pid)
    used = {e["name"] for e in run.events}
    mt.check(used >= {fn for fn in API if not fn.startswith("ncclComm") and API[fn][0] not in ("seg_graph", "seg_pool")
                      and fn not in ("cuCtxDestroy_v2", "cuDevicePrimaryCtxReset_v2", "cudaDeviceReset",
                                                     "cuDevicePrimaryCtxRelease_v2")},
             f"functions without an event: {set(API) - used}")
    inner = sum(c["depth"] > 0 for c in run.log)
    mt.check(inner > 100, "the runtime's stub no longer calls the driver's")
    mt.note(f"{len(run.log)} calls ({inner} of them inside others), {n} events of {len(used)} functions, all equal")


def test_api_runtime_in_the_program():
    run = Run("api", target="gpu_target_static")
    mt.check(not run.lost, f"lost: {run.lost}")
    compare(run.log, run.events, run.pid)
    mt.check(any(e["name"] == "cudaMalloc" for e in run.events), "no event of the program's own cudaMalloc")


def test_hip():
    """libamdhip64's rows: the same calls under HIP's names, over a library that has no CUDA name of the runtime's."""
    run = Run("api", target="hip_target")
    mt.check(not run.lost, f"lost: {run.lost}")
    n = compare(run.log, run.events, run.pid)
    used = {e["name"] for e in run.events}
    mt.check(not any(fn.startswith("cuda") for fn in used), f"{used}")
    called = {c["fn"] for c in run.log if c["fn"].startswith("hip") and as_runtime(c["fn"]) in API}
    mt.check(len(called) >= 25 and called <= used, f"called without an event: {called - used}, {len(called)} called")
    mt.note(f"{n} events, {len(called)} functions of HIP")


def test_api_perf_uprobes():
    run = Run("api", options=("--force-perf-uprobes",))
    mt.check(not run.lost, f"lost: {run.lost}")
    compare(run.log, run.events, run.pid)


def test_contexts():
    run = Run("contexts")
    mt.check(not run.lost, f"lost: {run.lost}")
    compare(run.log, run.events, run.pid)
    resets = [(e["name"], e["dev"], e["flags"]) for e in run.events if e["ev"] == "seg_reset"]
    mt.check(resets == [("cuCtxDestroy_v2", "none", 0), ("cudaDeviceReset", "cuda:1", 0),
                        ("cuDevicePrimaryCtxReset_v2", "cuda:1", 0), ("cuDevicePrimaryCtxRelease_v2", "cuda:0", 1)],
             f"{resets}")


def test_communicators():
    """What they take inside, in the background too, is for communication; so is what NCCL's own threads take."""
    run = Run("comms")
    mt.check(not run.lost, f"lost: {run.lost}")
    n = compare(run.log, run.events, run.pid)
    marked = [e["size"] for e in run.events if e["ev"] == "seg_alloc" and e["flags"] & FOR_COMMUNICATION]
    mt.check(len(marked) == 5 * 5, f"five communicators: device, physical, reserved, pinned, the proxy's: {marked}")
    mt.check(sum(e["ev"] == "seg_comm" for e in run.events) == 11, f"{[e for e in run.events if e['ev'] == 'seg_comm']}")
    mt.note(f"{n} events, {len(marked)} for communication, all equal")


def pinned_of(events):
    """What torch's host_traces have to say of them, without its times, and what is pinned in the end."""
    traces, live = [], {}
    for e in events:
        if e["ev"] == "seg_alloc" and e["flags"] & 0x3f == PINNED:
            live[e["addr"]] = e["size"]
            traces.append(("segment_alloc", e["addr"], e["size"]))
        elif e["ev"] == "seg_free" and e["addr"] in live:
            traces.append(("segment_free", e["addr"], live.pop(e["addr"])))
    return traces, live


def snapshot_of_pinned(mode, tmp):
    """A run's export as a pickle, whose host memory is checked against the run's events (which compare() holds to the log)."""
    path, out = tmp / f"{mode}.mtr", tmp / f"{mode}.pickle"
    run = Run(mode, keep=path)
    mt.check(not run.lost, f"lost: {run.lost}")
    compare(run.log, run.events, run.pid)
    traces, live = pinned_of(run.events)
    for form in (out, out.with_suffix(".json")):
        mt.ok(mt.memtrace("export", path, "--to", "torch-snapshot", "-o", form))
    data, plain = pickle.loads(out.read_bytes()), json.loads(out.with_suffix(".json").read_text())
    rows = data["host_traces"]
    mt.check([(e["action"], e["addr"], e["size"]) for e in rows] == traces, f"{rows}, and not {traces}")
    mt.check({s["address"]: s["total_size"] for s in data["host_segments"]} == live, f"{data['host_segments']}, and not {live}")
    times = [e["time_us"] for e in rows]
    begin = run.report["start_ns"] // 1000
    mt.check(times == sorted(times) and begin <= times[0] <= times[-1] <= begin + run.report["duration_ns"] // 1000 + 1, f"{times}")
    mt.check(all(f["filename"] == "process" and str(run.pid) in f["name"] for e in rows for f in e["frames"][-1:]) and rows[0]["frames"],
             f"whose: {rows[0]}")
    mt.check((plain["host_traces"], plain["host_segments"]) == (rows, data["host_segments"]), "JSON's and the pickle's")
    return out, traces, live


def test_pinned_memory_in_torchs_snapshot():
    """host_traces are the driver's calls for pinned memory, one after the other; host_segments what none of them gave back."""
    with mt.scratch() as tmp:
        _, traces, live = snapshot_of_pinned("api", tmp)
        mt.check([t[0] for t in traces] == ["segment_alloc", "segment_free"] * (len(traces) // 2) and len(traces) >= 8 and not live, f"{traces}")
        _, traces, live = snapshot_of_pinned("pinned", tmp)
        mt.check(len(live) == 3 and len(traces) == 3 + 2 * 4, f"{traces} {live}")


def test_graphs():
    run = Run("graphs")
    mt.check(not run.lost, f"lost: {run.lost}")
    compare(run.log, run.events, run.pid)


def test_pools():
    run = Run("pools")
    mt.check(not run.lost, f"lost: {run.lost}")
    compare(run.log, run.events, run.pid)


def test_threads():
    run = Run("threads")
    mt.check(not run.lost, f"lost: {run.lost}")
    n = compare(run.log, run.events, run.pid)
    mt.check(len({e["tid"] for e in run.events}) == 8, "eight threads")
    times = [e["t"] for e in run.events]
    mt.check(times == sorted(times), "events are not in order")
    # an address is never given out twice without a free between, in the order of the recording
    live = set()
    for e in run.events:
        if e["ev"] == "seg_alloc":
            mt.check(e["addr"] not in live, f"{e} is live already")
            live.add(e["addr"])
        elif e["ev"] == "seg_free":
            live.discard(e["addr"])
    mt.note(f"{n} events of 8 threads, all equal")


def test_late_attach():
    run = Run("late")
    compare(run.log, run.events, run.pid)
    given = [e for e in run.events if e["ev"] == "seg_alloc"]
    mt.check([(e["size"], e["dev"]) for e in given] == [(555, "none"), (556, "cuda:1")],
             f"the device before the first cudaSetDevice is unknown, and known after it: {given}")
    before = {c["addr"] for c in run.before if c["fn"] == "cudaMalloc" and c["depth"] == 0}
    mt.check({e["addr"] for e in run.events if e["ev"] == "seg_free"} == before, "frees of what was there before")


LATE = """
import ctypes, os, sys
print("ready", os.getpid(), flush=True)
input()
runtime = ctypes.CDLL(sys.argv[1])
print("loaded", flush=True)
input()
p = ctypes.c_void_p()
runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(4321))
runtime.cudaFree(p)
print("done", flush=True)
input()
"""


def test_library_loaded_late():
    """As torch does with CUDA when it is first used: the libraries come long after the attach."""
    build()
    with mt.scratch() as tmp, mt.Proc([mt.PYTHON, "-c", LATE, BIN / "libcudart.so.13"]) as job:
        job.line("ready ")
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "segments,host",
                      "--min-size", "1G") as tracer:
            mt.wait_until(lambda: any(x.startswith("attached") for x in tracer.err), "attached", 20)
            job.tell("load")
            job.line("loaded")
            for where in (("libcudart.so.13", "cudaMalloc\0"), ("libcudart.so.13", "cudaFree\0")):
                mt.wait_attached(tracer, job.pid, where)
            job.tell("work")
            job.line("done")
            mt.finish(tracer, path)
        done = subprocess.run([BIN / "events_json", path, *SEGMENTS], capture_output=True, text=True, check=True)
        seen = [json.loads(line) for line in done.stdout.splitlines()]
        mt.check([(e["ev"], e["name"], e["size"]) for e in seen] == [("seg_alloc", "cudaMalloc", 4321), ("seg_free",
                 "cudaFree", 0)] and seen[0]["addr"] == seen[1]["addr"], f"{seen}")


def test_calls_that_never_return():
    run = Run("throw", codes=(0, 3))
    compare(run.log, run.events, run.pid)
    mt.check(run.lost == {"pending": 3}, f"three calls were left by longjmp: {run.lost}")


def test_odd_calls():
    """A fork inside a call, sizes of 0 and 2^64 - 1, ten thousand segments, a device reset with half of them."""
    run = Run("odd")
    mt.check(not run.lost, f"lost: {run.lost}")
    n = compare([c for c in run.log if c["tid"] == run.pid], [e for e in run.events if e["tid"] == run.pid], run.pid)
    mt.check({e["size"] for e in run.events if e["tid"] != run.pid} <= {6002}, "the call that was forked in is no event of the child's")
    fails = [e["size"] for e in run.events if e["ev"] == "seg_fail"]
    mt.check(fails == [2**64 - 1, 2**64 - 4096], f"{fails}")
    kind = run.report["devices"]["cuda:1"]["segments"]["kinds"]["device"]
    mt.check((kind["allocs"], kind["frees"], kind["dropped"], kind["live"]) == (10001, 5001, 5000, 0), f"{kind}")
    mt.check(kind["peak"] == sum(range(512, 10512)), f"{kind}")
    mt.note(f"{n} events, all equal")


AGAIN = """
import _ctypes, ctypes, os, sys
print("ready", os.getpid(), flush=True)
input()
p = ctypes.c_void_p()
for size in (1111, 2222, 3333):
    runtime = ctypes.CDLL(sys.argv[1])
    runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size))
    runtime.cudaFree(p)
    print("called", flush=True)
    input()
    _ctypes.dlclose(runtime._handle)
    with open("/proc/self/maps") as f:
        print("mapped", "libcudart" in f.read(), flush=True)
    input()
print("done", flush=True)
input()
"""


def test_library_unloaded_and_loaded_again():
    """From the second time on it is known; what was told of the first time stays as it was."""
    build()
    with mt.scratch() as tmp, mt.Proc([mt.PYTHON, "-c", AGAIN, BIN / "libcudart.so.13"]) as job:
        job.line("ready ")
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "segments,host", "--min-size", "1G") as tracer:
            mt.wait_until(lambda: any(x.startswith("attached") for x in tracer.err), "attached", 20)
            for k in range(3):
                job.tell("go")
                job.line("called")
                if k == 0:
                    for where in (("libcudart.so.13", "cudaMalloc\0"), ("libcudart.so.13", "cudaFree\0")):
                        mt.wait_attached(tracer, job.pid, where)
                job.tell("go")
                mt.check(job.line("mapped ") == "mapped False", "it was not unloaded")
            job.tell("go")
            job.line("done")
            mt.finish(tracer, path)
        done = subprocess.run([BIN / "events_json", path, *SEGMENTS], capture_output=True, text=True, check=True)
        sizes = [e["size"] for e in map(json.loads, done.stdout.splitlines()) if e["ev"] == "seg_alloc"]
        mt.check(sizes[-2:] == [2222, 3333], f"{sizes}")


def test_exit_with_memory():
    run = Run("exit", dies=True)
    mt.check(compare(run.log, run.events, run.pid) == 50, "50 allocations")


def test_killed_with_memory():
    run = Run("kill", dies=True)
    mt.check(compare(run.log, run.events, run.pid) == 50, "50 allocations")


def test_low_limit():
    """Failures because the device is full, and what can be had after a free."""
    run = Run("threads", env={"MT_STUB_LIMIT": "200000"})
    compare(run.log, run.events, run.pid)
    mt.check(sum(e["ev"] == "seg_fail" for e in run.events) > 0, "nothing failed")
