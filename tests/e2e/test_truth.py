# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace against programs that know what they did (targets/truth_*): counts and bytes must be equal.

A target says "ready", waits for the go while memtrace attaches, works, tells the truth as one line
of JSON and waits again. Nothing is compared with a tolerance: there are no lost events either.
"""
import collections
import json
import shutil
import signal
import subprocess

import mt

SLOW = {"usdt_threads", "usdt_through_perf_uprobes", "malloc_threads", "torch_through_perf_uprobes"}

BIN = mt.BUILD / "tests" / "targets"
LOSSLESS = {}


def build():
    make = mt.make("targets")
    mt.check(make.returncode == 0, f"make targets: {make.stderr}")


class Run:
    """One recorded run of a target: .truth, .report, .events (jsonl), .parts (the same of each of `devices`), .lost (what is not 0)."""

    def __init__(self, target, probes, before_go=None, second=None, codes=(0,), options=(), devices=()):
        build()
        with mt.scratch() as tmp, mt.Proc([BIN / target[0], *target[1:]]) as job:
            job.line("ready ")
            path = tmp / "a.mtr"
            with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", probes, *options) as tracer:
                wait_attached(tracer)
                if before_go:
                    before_go(job, tracer)
                job.tell("go")
                if second:
                    second(job, tracer)
                self.truth = json.loads(job.line("{"))
                mt.check("failed" not in self.truth, f"{self.truth}; memtrace said: {tracer.err}")
                tracer.signal(signal.SIGINT)
                code = tracer.wait()
                self.stderr = tracer.err
                mt.check(code in codes, f"record: exit {code}: {tracer.err}")
            job.tell("end")
            mt.check(job.wait() == 0, f"the target failed: {job.popen.returncode} {job.err}")
            done = mt.ok(mt.memtrace("report", path, "--json", "--top", 100000), codes)
            self.report = json.loads(done.stdout)
            mt.ok(mt.memtrace("export", path, "--to", "jsonl", "-o", tmp / "a.jsonl"), codes)
            self.events = [json.loads(line) for line in open(tmp / "a.jsonl", encoding="utf-8")]
            self.parts = {dev: mt.export(path, ("--device", dev)) for dev in devices}
        self.pid = self.truth["pid"]
        self.lost = {k: v for k, v in self.report["lost"].items() if v}


def wait_attached(tracer):
    def look():
        if not tracer.alive():
            tracer.wait()
            raise AssertionError(f"{tracer.argv} ended with {tracer.popen.returncode}: {tracer.err}")
        return any(line.startswith("attached") for line in list(tracer.err))
    mt.wait_until(look, "'attached' of memtrace", 60, 0.005)


def equal(what, seen, true):
    """Dictionaries are compared entry by entry, and only what differs is shown."""
    if isinstance(seen, dict) and isinstance(true, dict):
        keys = [k for k in {**true, **seen} if seen.get(k) != true.get(k)]
        rows = [f"{k!r}: memtrace {seen.get(k)}, truth {true.get(k)}" for k in keys]
        mt.check(not rows, f"{what}: " + "; ".join(rows[:12]))
    mt.check(seen == true, f"{what}: memtrace {seen}, truth {true}")


def check_devices(run, devices=None, pid=None):
    """Births, deaths, live bytes and the peak, from the report and, counted anew, from the timeline."""
    for dev, true in (devices or run.truth["devices"]).items():
        seen = run.report["host"] if dev == "host" else run.report["devices"][dev]
        for key in true:
            equal(f"report: {dev}.{key}", seen[key], true[key])
        here = [e for e in run.events if e.get("dev") == dev and (pid is None or e["pid"] == pid)]
        born = [e for e in here if e["ev"] == "create"]
        known = {e["id"] for e in born}
        died = [e for e in here if e["ev"] == "destroy" and e["id"] in known]
        equal(f"timeline: {dev}: births", len(born), true["allocs"])
        equal(f"timeline: {dev}: bytes born", sum(e["size"] for e in born), true["alloc_bytes"])
        equal(f"timeline: {dev}: deaths", len(died), true["frees"])
        equal(f"timeline: {dev}: bytes freed", sum(e["size"] for e in died), true["free_bytes"])
        equal(f"timeline: {dev}: deaths of blocks never seen born",
              sum(e["ev"] == "preexisting" for e in here), true["preexisting_frees"])
        check_peak(dev, here, known, true["peak"])


def check_peak(dev, events, known, peak):
    live = highest = 0
    for e in events:
        if e["ev"] == "create":
            live += e["size"]
            highest = max(highest, live)
        elif e["ev"] == "destroy" and e["id"] in known:
            live -= e["size"]
    equal(f"timeline: {dev}: peak", highest, peak)


def check_ops(run, key="ops"):
    """Entries, births and bytes by name, exactly; and the same blocks by the timeline's op."""
    true = {name: (op["count"], op["alloc_count"], op["alloc_bytes"])
            for name, op in run.truth[key].items()}
    seen = {op["name"]: (op["count"], op["alloc_count"], op["alloc_bytes"]) for op in run.report[key]
            if op["name"] in true or op["alloc_count"]}
    if key == "ops":
        seen = {k: v for k, v in seen.items() if k not in ("", None)}
    equal(f"report: {key} (entries, births, bytes)", seen, true)


def check_births(run, field, key, none=None):
    births = collections.defaultdict(lambda: [0, 0])
    for e in run.events:
        if e["ev"] == "create":
            births[e.get(field) or ""][0] += 1
            births[e.get(field) or ""][1] += e["size"]
    outside = births.pop("", [0, 0])
    equal(f"timeline: births and bytes by {field}", {k: tuple(v) for k, v in births.items()},
          {k: (v["alloc_count"], v["alloc_bytes"]) for k, v in run.truth[key].items() if v["alloc_count"]})
    if none:
        true = run.truth[none].get("none", {"alloc_count": 0, "alloc_bytes": 0})
        equal(f"timeline: births and bytes without {field}", tuple(outside),
              (true["alloc_count"], true["alloc_bytes"]))


def check_usdt(run, lost=LOSSLESS):
    equal("losses", run.lost, lost)
    check_devices(run)
    check_births(run, "op", "ops", "no_op")
    check_births(run, "region", "regions")
    check_ops(run)
    check_ops(run, "regions")
    equal("steps", run.report["events"].get("step", 0), run.truth["steps"])
    equal("tags", run.report["events"].get("tag", 0), run.truth["tags"])
    total = sum(d["allocs"] for d in run.truth["devices"].values())
    mt.note(f"{total} births, {len(run.truth['ops'])} operations, "
            f"{len(run.truth['regions'])} regions: equal to the byte")


# --- usdt.h --------------------------------------------------------------------------------------

HEADER_USE = """
#include <memtrace/usdt.h>
#ifdef __cplusplus
static void scopes(void) { memtrace::region r("r"); memtrace::op o("o"); (void)r; (void)o; }
#endif
int main(void)
{
	unsigned long n = 0;
	char block[8] = { 0 };

	MEMTRACE_OP_BEGIN("op");
	MEMTRACE_REGION_BEGIN(block);
	if (MEMTRACE_ALLOC_WATCHED())
		return 2;
	if (n)
		MEMTRACE_STEP(n++);
	else
		MEMTRACE_STEP(++n);
	MEMTRACE_ALLOC(block, n++, MEMTRACE_CPU);
	MEMTRACE_TAG(block, (n++, "tag"), 3);
	MEMTRACE_FREE(block, 0);
	MEMTRACE_REGION_END();
	MEMTRACE_OP_END();
#ifdef __cplusplus
	scopes();
#endif
	return n != 0; /* nobody looks, so nothing is evaluated */
}
"""


def test_usdt_header_compiles_everywhere():
    """Standards, compilers and ways: no warning, the notes are there, arguments are not evaluated."""
    flags = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-unused-value", "-pedantic", "-Werror",
             "-I", str(mt.ROOT / "include")]
    compilers = [(c, ext, std) for c, ext, stds in (("gcc", "c", ("c90", "c99", "c17", "c2x")),
                                                    ("clang-19", "c", ("c90", "c11")),
                                                    ("clang-18", "c", ("c90", "c11")),
                                                    ("g++", "cc", ("c++11", "c++17", "c++20")))
                 for std in stds if shutil.which(c)]
    ways = (["-O0"], ["-O2", "-fPIE", "-pie"], ["-O2", "-static"], ["-O2", "-DMEMTRACE_DISABLE"])
    with mt.scratch() as tmp:
        for compiler, ext, std in compilers:
            source = tmp / f"use.{ext}"
            source.write_text(HEADER_USE)
            for way in ways:
                what = f"{compiler} -std={std} {' '.join(way)}"
                done = subprocess.run([compiler, f"-std={std}", *flags, *way, source, "-o", tmp / "use"],
                                      capture_output=True, text=True, check=False)
                mt.check(done.returncode == 0, f"{what}: {done.stderr[:800]}")
                equal(f"{what}: exit", subprocess.run([tmp / "use"], check=False).returncode, 0)
                notes = subprocess.run(["readelf", "-n", tmp / "use"], capture_output=True, text=True,
                                       check=False).stdout.split("Provider: memtrace")[1:]
                names = {n.split()[1] for n in notes}
                full = set() if "-DMEMTRACE_DISABLE" in way else {
                    "op_begin", "op_end", "region_begin", "region_end", "step", "alloc", "free", "tag"}
                equal(f"{what}: probes", names, full)
                mt.check(all("Semaphore: 0x0000000000000000" not in n.split("Provider")[0] for n in notes),
                         f"{what}: a probe without a semaphore")
        mt.note(f"{len(compilers) * len(ways)} ways to compile it")


def test_usdt_one_thread():
    """And an export of one device is exactly the part of it."""
    run = Run(["truth_usdt", "single"], "usdt", devices=("cpu", "cuda:0"))
    check_usdt(run)
    for dev, events in run.parts.items():
        want = [e for e in run.events if e.get("dev", dev) == dev]
        mt.check(events == want and 0 < len(want) < len(run.events), f"{dev}: {len(events)} events, not {len(want)} of {len(run.events)}")


def test_usdt_threads():
    check_usdt(Run(["truth_usdt", "threads", "5"], "usdt"))


def test_usdt_beside_other_sources():
    check_usdt(Run(["truth_usdt", "single", "3"], "framework,ops,regions,usdt,kernel"))


def test_usdt_through_perf_uprobes():
    check_usdt(Run(["truth_usdt", "threads", "9"], "usdt", options=["--force-perf-uprobes"]))


def test_usdt_nested_too_deep():
    """Counts and bytes stay exact; blocks of what is not followed go to the deepest that is."""
    run = Run(["truth_usdt", "deep"], "usdt", codes=(0, 3))
    check_usdt(run, {"stack_deep": run.truth["stack_deep"]})


def test_usdt_of_a_library_loaded_later():
    run = Run(["truth_dlopen", BIN / "truth_plugin.so"], "usdt")
    equal("losses", run.lost, LOSSLESS)
    check_devices(run)
    check_ops(run)


def test_usdt_of_children():
    def forked(job, tracer):
        pids = [int(p) for p in job.line("forked ").split()[1:]]
        mt.check(len(pids) == 3, f"forked {pids}")
        for pid in pids:
            mt.wait_until(lambda: any(t.startswith(f"attached to {pid} ") for t in list(tracer.err)), f"child {pid} to be followed", 60)
        job.tell("go")

    run = Run(["truth_fork"], "usdt", second=forked)
    parent, children = run.truth["devices"]["parent"], run.truth["devices"]["children"]
    equal("losses", run.lost, LOSSLESS)
    equal("births", run.report["devices"]["cpu"]["allocs"], parent["allocs"] + children["allocs"])
    equal("deaths", run.report["devices"]["cpu"]["frees"], parent["frees"] + children["frees"])
    born = [e for e in run.events if e["ev"] == "create"]
    equal("births of the parent", sum(e["pid"] == run.pid for e in born), parent["allocs"])
    equal("bytes of the children", sum(e["size"] for e in born if e["pid"] != run.pid), children["alloc_bytes"])
    equal("children", len({e["pid"] for e in born} - {run.pid}), 3)
    inherited = [e for e in run.events if e["ev"] == "preexisting" and e["pid"] != run.pid]
    equal("blocks of the parent that children free", len(inherited), children["preexisting_frees"])
    check_ops(run)


def test_usdt_across_exec():
    """The same pid becomes another program: the old blocks are gone, the new probes are found."""
    run = Run(["truth_exec"], "usdt")
    true = run.truth["devices"]["cpu"]
    equal("losses", run.lost, LOSSLESS)
    equal("births", run.report["devices"]["cpu"]["allocs"], true["allocs"])
    equal("deaths", run.report["devices"]["cpu"]["frees"], true["frees"])
    equal("live bytes", run.report["devices"]["cpu"]["live"], true["live"])
    check_births(run, "op", "ops")


# --- malloc ---------------------------------------------------------------------------------------

def check_malloc(run):
    equal("losses", run.lost, LOSSLESS)
    check_devices(run)
    equal("requests that failed", run.report["events"].get("oom", 0), run.truth["ooms"])
    true = run.truth["devices"]["host"]
    mt.note(f"{true['allocs']} births ({run.truth['moved']} blocks moved, {run.truth['kept']} resized in "
            f"place), {run.truth['ooms']} refused: equal to the byte")


def test_malloc_one_thread():
    check_malloc(Run(["truth_malloc", "1"], "host"))


def test_malloc_threads():
    check_malloc(Run(["truth_malloc", "4"], "host"))


def test_malloc_of_a_static_program():
    check_malloc(Run(["truth_static", "1"], "host"))


def test_malloc_of_a_stripped_static_program():
    """Nothing to find its malloc by: a clear message, and the program goes on."""
    build()
    with mt.scratch() as tmp, mt.Proc([BIN / "truth_static_stripped"]) as job:
        job.line("ready ")
        done = mt.memtrace("record", "-p", job.pid, "-o", tmp / "a.mtr", "--probes", "host")
        mt.expect_failure(done, 1)
        job.tell("go")
        job.line("{")
        job.tell("end")
        mt.check(job.wait() == 0, "the target failed")


def test_min_size():
    """--min-size: what is smaller is not there, what is not is exact."""
    whole = Run(["truth_malloc", "1"], "host")
    large = Run(["truth_malloc", "1"], "host", options=["--min-size", "1000"])
    big = [e for e in whole.events if e["ev"] == "create" and e["size"] >= 1000]
    seen = [e for e in large.events if e["ev"] == "create"]
    equal("births of 1000 bytes and more", len(seen), len(big))
    equal("their bytes", sum(e["size"] for e in seen), sum(e["size"] for e in big))
    ids = {e["id"] for e in big}
    deaths = sum(e["ev"] == "destroy" and e["id"] in ids for e in whole.events)
    equal("their deaths", large.report["host"]["frees"], deaths)


# --- the framework's probes, on a fake torch -----------------------------------------------------

def check_torch(run):
    equal("losses", run.lost, LOSSLESS)
    check_devices(run)
    check_births(run, "op", "ops", "no_op")
    check_births(run, "region", "regions")
    check_ops(run)
    check_ops(run, "regions")
    equal("requests that failed", run.report["events"].get("oom", 0), run.truth["ooms"])
    mt.check(not any(op["name"] == "aten::size" for op in run.report["ops"]),
             "aten::size is probed, although it can neither allocate, write nor view")
    mt.note(f"{run.truth['devices']['cpu']['allocs']} births, {len(run.truth['ops'])} operators and nodes: "
            "equal to the byte")


def test_torch_names():
    check_torch(Run(["truth_torch", "plain"], "framework,ops,regions"))


def test_torch_threads():
    check_torch(Run(["truth_torch", "threads"], "framework,ops,regions"))


def test_torch_exceptions():
    check_torch(Run(["truth_torch", "throw"], "framework,ops,regions"))


def test_torch_longjmp():
    check_torch(Run(["truth_torch", "longjmp"], "framework,ops,regions"))


def test_torch_mixed_with_usdt():
    check_torch(Run(["truth_torch", "mixed"], "framework,ops,regions,usdt"))


def test_torch_through_perf_uprobes():
    check_torch(Run(["truth_torch", "plain"], "framework,ops,regions", options=["--force-perf-uprobes"]))
