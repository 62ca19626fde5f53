# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Distributed jobs, two ranks over gloo: DDP, FSDP2, tensor parallel and a pipeline, each as it is and compiled, attached while it
trains and from its start. Each rank says what its parameters, gradients, optimizer state and buffers are (jobs/distributed.py); the
extended classes are held to all of it, in both directions, once Python was looked at (docs/ranks.md).
"""
import contextlib
import functools
import json
import sys
import time

import mt
import tables
import test_categories
import test_compiled
import test_ranks

sys.path.insert(0, str(mt.ROOT / "tests" / "libraries"))
import said  # noqa: E402
import test_libraries  # noqa: E402

KINDS = {"ddp": "DistributedDataParallel", "fsdp2": "FSDP2", "tensor": "tensor parallel", "averaged": "tensor parallel, averaged", "pipeline": "pipeline"}
CASES = {f"{kind}{'_compiled' if compiled else ''}_{'launched' if launched else 'attached'}": (kind, compiled, launched)
         for kind in KINDS for compiled in (False, True) for launched in (False, True)
         if kind != "averaged" or not (compiled or launched)}
SLOW = CASES.keys()
# what check-landing runs
ON_REQUEST = {"tensor_attached", "fsdp2_compiled_attached", "tensor_compiled_attached", "ddp_compiled_launched", "fsdp2_launched", "pipeline_attached"}
TIMEOUT_S = {name: test_compiled.COMPILES_S if compiled else 180 for name, (_, compiled, _) in CASES.items()}
CLASSES = (*said.CLASSES, "BUFFER")
RANKS = 2
LOOKS = 3  # what is told was found by two of them

close_file = test_compiled.close_file


def looks(tracer, pid):
    return sum(f"process {pid}: " in text and " names of " in text for text in list(tracer.err))


def ready(proc):
    def both():
        mt.check(proc.alive(), "\n".join(proc.err[-20:]))
        return [int(t.split()[1]) for t in list(proc.out) if t.startswith("ready ")][:RANKS]
    mt.wait_until(lambda: len(both()) == RANKS, "both ranks", test_compiled.COMPILES_S)
    return both()


def follow(proc, tracer, pids):
    """(CLOCK_MONOTONIC when Python's word was there, epoch minus that clock); the job ends after some more steps."""
    offset = time.time_ns() - time.monotonic_ns()
    for pid in pids:
        mt.wait_attached(tracer, pid, mt.OP, 60)
    seen = {pid: looks(tracer, pid) for pid in pids}
    mt.wait_until(lambda: all(looks(tracer, pid) >= seen[pid] + LOOKS for pid in pids) or not proc.alive(), "looks at Python", 90)
    begin, first = time.monotonic_ns(), mt.steps_of(proc)
    mt.wait_until(lambda: mt.steps_of(proc) >= first + test_libraries.FULL_STEPS + 2 or not proc.alive(), "steps", 90)
    proc.tell("stop")
    return begin, offset


def record(tmp, kind, compiled, launched):
    """([(pid, its moments) of each rank], the recording)"""
    argv = test_ranks.torchrun(RANKS, "distributed", "--kind", kind, "--out", tmp, *(["--compiled"] if compiled else []))
    mtr = tmp / "a.mtr"
    with contextlib.ExitStack() as stack:
        if launched:
            job = tracer = stack.enter_context(mt.start("record", "-vv", "-o", str(mtr), "--", *argv, env=test_ranks.env()))
            pids = ready(job)
        else:
            job = stack.enter_context(mt.Proc(argv, env=test_ranks.env()))
            pids = ready(job)
            tracer = stack.enter_context(mt.start("record", "-vv", "-p", str(job.pid), "-o", str(mtr)))
        begin, offset = follow(job, tracer, pids)
        job.line("done", 60)
        mt.finish(tracer, mtr, signal_number=0, timeout=60)
    docs = [json.loads((tmp / f"{rank}.said").read_text()) for rank in range(RANKS)]
    return [(doc["pid"], test_libraries.full_steps(doc, begin, offset)) for doc in docs], mtr


def judge(ranks, mtr):
    """Of each rank what said.compare() says; final labels alone."""
    rows = mt.export(mtr, ("--classes", "extended"))
    return [said.compare(moments, [s for s in test_categories.seen_blocks(rows, pid, "cpu") if s.size], [], float("inf"), said.EXTENDED)
            for pid, moments in ranks]


def not_known(mtr, view):
    """Of the peak, what has no word or that of batches: these hold less than a thousandth of it."""
    cpu = json.loads(mt.ok(mt.memtrace("report", "--json", "--classes", view, mtr)).stdout)["devices"]["cpu"]
    return sum(cpu["categories"].get(word, {"at_peak": 0})["at_peak"] for word in ("unknown", "INPUT")) / cpu["peak"]


def share(results, what, way):
    return min(r.low[what, "final", way] for r in results)


def compare(name):
    kind, compiled, launched = CASES[name]
    with mt.scratch() as tmp, test_compiled.cache() if compiled else contextlib.nullcontext():
        ranks, mtr = record(tmp, kind, compiled, launched)
        results = judge(ranks, mtr)
        _, by_rank = test_ranks.ranks_of(mtr)
        shares = {view: not_known(mtr, view) for view in ("compat", "extended")}
    for text in (f"rank {rank}: {text}" for rank, r in enumerate(results) for text in r.differences(6)):
        mt.note(f"  {text}")
    # an average of DTensors is written by calls that no probe sees: FROZEN
    classes = [*said.CLASSES, "KEPT"] if kind == "averaged" else CLASSES
    pairs = {what: [test_libraries.percent(share(results, what, way)) for way in ("recall", "precision")] for what in classes}
    row = (f"{beginning(*CASES[name])} "
           + " | ".join(" / ".join(pair) for pair in pairs.values()) + f" | {sum(r.moments for r in results)} |")
    mt.note(row)
    found = {r["rank"]: r["pid"] for r in by_rank["list"]}, by_rank["jobs"]
    mt.check(found == ({rank: pid for rank, (pid, _) in enumerate(ranks)}, 1), f"ranks and jobs: {found}")
    mt.check(all(r.bytes[what] > (1e5 if what != "BUFFER" else 500) for r in results for what in CLASSES), f"{[r.bytes for r in results]}")
    mt.check(all(pair == ["100", "100"] for pair in pairs.values()), row)
    if kind == "tensor" and not compiled:
        mt.note(f"unknown or INPUT at the peak: {shares}")
        mt.check(max(shares.values()) < 0.02, f"activations have no word: {shares}")
    tables.keep("distributed", name, row)


for _name in CASES:
    globals()[f"test_{_name}"] = functools.partial(compare, _name)


def beginning(kind, compiled, launched):
    """Of its row."""
    return f"| {KINDS[kind]} | {'yes' if compiled else 'no'} | {'from the start' if launched else 'attached'} |"


if __name__ == "__main__":  # make docs-distributed
    labels = {name: beginning(*case) for name, case in CASES.items()}
    tables.write("distributed", "| job | compiled | memtrace | PARAMETER | GRADIENT | OPTIMIZER_STATE | BUFFER | moments |\n"
                 "|---|---|---|---|---|---|---|---|\n"
                 + "".join(row + "\n" for row in tables.with_rows("distributed", labels, sys.argv[1:])))
