# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""PyTorch's real CUDA allocator (libc10_cuda.so of the wheel) over the stub runtime, without a GPU.

The truth is the allocator's own: getDeviceStats() at each mark, and the stub's log of what it was asked for. In four
modes: caching, expandable segments, cudaMallocAsync, no caching. `make check-gpu-stub` fetches the wheels first. MT_GPU_WHEELS
names another folder with what tests/gpu_stub/fetch gets: another version's allocator (make check-versions).
"""
import collections
import json
import os
import pathlib
import subprocess

import mt
import test_gpu_stub as stub

WHEELS = pathlib.Path(os.environ.get("MT_GPU_WHEELS", mt.BUILD / "gpu_wheels"))
OVER = "torch" if "MT_GPU_WHEELS" not in os.environ else f"torch-{(WHEELS / 'ready').read_text().strip()}"  # where it is built
TARGET = f"{OVER}/torch_target"
SLOW = ON_REQUEST = {"*"}  # 740 MB of wheels; check-landing and check-gpu-stub name the file
MODES = {
    "plain": {},
    "expandable": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
    "no_caching": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
}
RAW = ("raw",)  # raw_alloc() passes the USDT probes by
DEFERRED = ("stream", "stream_over", "late", "late_still", "late_one", "late_again")  # freed, but a stream was using it: `requested` goes down when that is over
STALE = ("late_emptied", "emptied", "pools_emptied", "end")  # after emptyCache() until the next block the totals are old: it reports nothing
DEVICES = ("cuda:0", "cuda:1")


def need_wheels():
    if not (WHEELS / "ready").exists():
        raise mt.Skip("no CUDA wheels here: make check-gpu-stub fetches them")
    built = stub.BIN.relative_to(mt.ROOT)
    make = subprocess.run(["make", "-s", "-C", str(mt.ROOT), f"GS_WHEELS={WHEELS}", f"GST={built / OVER}", str(built / TARGET),
                           str(built / "gpu_rows")], capture_output=True, text=True, check=False)
    mt.check(make.returncode == 0, f"make {TARGET}: {make.stderr}")


class Mode:
    """One run in one mode: .marks, .run (events, log), .count of events."""

    def __init__(self, name, keep=None):
        need_wheels()
        self.run = stub.Run("", target=TARGET, probes="segments,framework,usdt", env=MODES[name], keep=keep)
        self.marks = [json.loads(line) for line in self.run.out if line.startswith("{")]
        mt.check(self.marks and self.marks[-1].get("mark") == "end", f"{self.run.out}")
        mt.check(not self.run.lost, f"lost: {self.run.lost}")
        self.count = collections.Counter(e["ev"] for e in self.run.all_events)
        calls = [e for e in self.run.events if not e["name"].startswith("_Z")]  # the allocator's own pools are no calls of the driver
        stub.compare(self.run.log, calls, self.run.pid)

    def at_marks(self, step):
        """step(state, event) over all events; the state (bytes by device) at each mark."""
        state, it = collections.Counter(), iter(self.run.all_events)
        event = next(it, None)
        for mark in self.marks:
            while event and event["t"] <= mark["t"]:
                step(state, event)
                event = next(it, None)
            yield mark, [state[d] for d in DEVICES]

    def equal(self, what, step, key, skip=()):
        seen = 0
        for mark, state in self.at_marks(step):
            if mark["mark"] not in skip:
                mt.check(state == mark[key], f"{what} at '{mark['mark']}': {state}, the allocator says {mark[key]}")
                seen += any(state)
        mt.check(seen, f"{what}: nothing but zeros")


def live(gives, takes):
    """Σ of what was given and not taken back, by device; what is taken is told by its pointer alone."""
    blocks = {}

    def step(state, e):
        if e["ev"] == gives and e["dev"] in DEVICES:
            mt.check(e["addr"] not in blocks, f"{e} is live")
            blocks[e["addr"]] = e["dev"], e["size"]
            state[e["dev"]] += e["size"]
        elif e["ev"] == takes and e["addr"] in blocks:
            dev, size = blocks.pop(e["addr"])
            state[dev] -= size
    return step


def mapped():
    """Mapped bytes by the device of their physical memory."""
    dev_of, maps = {}, {}

    def step(state, e):
        if e["ev"] == "seg_alloc" and e["flags"] == stub.PHYSICAL:
            dev_of[stub.fold(e["addr"])] = e["dev"]
        elif e["ev"] == "seg_map":
            maps[e["addr"]] = dev_of[e["aux"]], e["size"]
            state[dev_of[e["aux"]]] += e["size"]
        elif e["ev"] == "seg_unmap":
            at = e["addr"]
            while at < e["addr"] + e["size"]:
                dev, size = maps.pop(at)
                state[dev] -= size
                at += size
    return step


def totals(field):
    def step(state, e):
        if e["ev"] == "totals":
            state[e["dev"]] = e[field]
    return step


def check_blocks(m):
    """The blocks are the allocator's to the byte at every mark, and TOTALS say the same as their sum."""
    m.equal("Σ blocks", live("alloc", "free"), "allocated")
    m.equal("totals: allocated", totals("addr"), "allocated")
    m.equal("totals: reserved", totals("size"), "reserved", skip=STALE)
    m.equal("Σ requests", live("request", "request_free"), "requested", skip=(*RAW, *DEFERRED))
    mt.check(m.count["oom"] == 1 and sum(m.marks[-1]["ooms"]) == 1, f"one OOM: {m.count['oom']}")
    running = collections.Counter()
    step = live("alloc", "free")
    for e in m.run.all_events:
        step(running, e)
        if e["ev"] == "totals":
            mt.check(running[e["dev"]] == e["addr"], f"{e}: Σ blocks of {e['dev']} is {running[e['dev']]}")


def orders(m):
    """The usual sequences of one thread: what stands right before each kind of event."""
    before, last = collections.Counter(), {}
    for e in m.run.all_events:
        if e["ev"].startswith("seg_") or e["ev"] in ("alloc", "free", "totals", "request", "request_free", "oom"):
            word = e["name"] if e["ev"].startswith("seg_") else e["ev"]
            before[last.get(e["tid"]), word] += 1
            last[e["tid"]] = word
    return before


def check_addresses(m):
    """Where the allocator has allocateWithAddress, whose probe is the second one of its name, it was called."""
    header = WHEELS / "include" / "c10" / "cuda" / "CUDACachingAllocator.h"
    has = "allocateWithAddress" in header.read_text()
    mt.check(has == any(mark["mark"] == "at_addresses" for mark in m.marks), f"allocateWithAddress: {has}, {m.marks}")


def tell(m):
    words = ("alloc", "free", "totals", "oom", "request", "request_free", *stub.SEGMENTS)
    mt.note(", ".join(f"{w} {m.count[w]}" for w in words if m.count[w]) + f"; {len(m.marks)} marks equal")


def test_plain():
    m = Mode("plain")
    check_blocks(m)
    check_addresses(m)
    m.equal("Σ cudaMalloc", live("seg_alloc", "seg_free"), "reserved")
    before = orders(m)
    mt.check(before["alloc", "totals"] + before["free", "totals"] == m.count["alloc"] + m.count["free"],
             "each block event is followed by its totals")
    mt.check(before["totals", "oom"] == m.count["oom"] == m.count["totals"] - m.count["alloc"] - m.count["free"], "and refused memory follows them")
    mt.check(before["totals", "request"] == m.count["request"], "a request follows its block")
    mt.check(before["request_free", "free"] == m.count["request_free"], "a freed request comes before its block")
    mt.check(before["cudaMalloc", "alloc"] > 0, "a segment comes before its first block")
    tell(m)


def test_expandable_segments():
    m = Mode("expandable")
    check_blocks(m)
    m.equal("Σ mapped", mapped(), "reserved")
    mt.check(not any(e["name"] == "cudaMalloc" for e in m.run.events), "cudaMalloc in expandable segments")
    tell(m)


def test_cuda_malloc_async():
    m = Mode("async")
    mt.check(not any(m.count[k] for k in ("alloc", "free", "totals", "oom", "request", "request_free")),
             f"this backend reports nothing: {m.count}")
    m.equal("Σ cudaMallocAsync", live("seg_alloc", "seg_free"), "allocated", skip=("stream",))
    mt.check(any(e["ev"] == "seg_trim" for e in m.run.events), "emptyCache trims the pool")
    mt.check(any(e["ev"] == "seg_fail" for e in m.run.events), "out of memory is a failed call")
    tell(m)


def test_no_caching():
    m = Mode("no_caching")
    mt.check(not any(m.count[k] for k in ("alloc", "free", "totals", "oom")), f"no blocks here: {m.count}")
    given = collections.Counter((e["addr"], e["size"]) for e in m.run.all_events if e["ev"] == "seg_alloc")
    asked = collections.Counter((e["addr"], e["size"]) for e in m.run.all_events if e["ev"] == "request")
    raw = sum((given - asked).values())
    mt.check(not asked - given and raw == 2, f"each request is a segment, and two are raw: {asked - given}, {raw}")
    tell(m)


def exports(path, *symtab):
    nm = subprocess.run(["nm", *(symtab or ["-D"]), "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in nm.splitlines()}


def test_catalog_against_real_libraries():
    """Every row that says that a library has the symbol is right, and no row is left that could say so."""
    need_wheels()
    real = WHEELS / "real"
    libraries = {1: exports(real / "libcudart.so.12"), 2: exports(real / "libcudart.so.13"),
                 8: exports(real / "libnccl.so.2"), 32: exports(WHEELS / "lib" / "libc10_cuda.so", "-a")}
    rows = subprocess.run([stub.BIN / "gpu_rows"], capture_output=True, text=True, check=True).stdout.splitlines()
    checked = 0
    for library, symbol, seen in (line.split() for line in rows):
        for bit, names in libraries.items():
            mt.check((symbol in names) == bool(int(seen) & bit),
                     f"{symbol} ({library}): the table says {seen}, library {bit} has it: {symbol in names}")
            checked += symbol in names
    mt.note(f"{len(rows)} rows, {checked} confirmed in libcudart 12.9, 13.0, libnccl 2.28 and libc10_cuda")


def test_real_runtime_is_planned_cheaply():
    """On the real libcudart (12.9, 13.0) and libnccl every function is probed at an emulated instruction."""
    need_wheels()
    for lib in ("libcudart.so.12", "libcudart.so.13", "libnccl.so.2"):
        job = mt.Proc([mt.PYTHON, "-c", "import ctypes, sys\nctypes.CDLL(sys.argv[1])\nprint('ready', flush=True)\ninput()",
                       WHEELS / "real" / lib], env=dict(os.environ, LD_LIBRARY_PATH=str(WHEELS / "real")))
        with job:
            job.line("ready")
            plan = mt.ok(mt.memtrace("plan", "-p", job.pid, "--probes", "segments")).stdout
            rows = [line for line in plan.splitlines() if "cuda" in line or "nccl" in line]
            mt.check(rows, f"no plan for {lib}: {plan}")
            mt.check(len(rows) == {"libnccl.so.2": 126}.get(lib, 104), f"{lib}: {len(rows)} sites")
            for row in rows:
                mt.check(" push " in row, f"{lib}: a dear site: {row}")
