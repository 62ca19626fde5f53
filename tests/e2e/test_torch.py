# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace against torch.profiler, in the same process on the same steps.

memtrace records a job from outside while the job itself runs steps under torch.profiler
(jobs/truth.py). Between two marks both must have seen the same blocks: the same pointers and sizes
in the same order, so count and bytes are equal, and the same frees of blocks born there. Frees of
older blocks are left out on both sides: the profiler knows no size for them and drops them.
Blocks of no bytes are left out too: the profiler does not report them.

Operator names must agree for 99 % of the allocated bytes. The profiler says "aten::addmm" and
memtrace may add the overload ("aten::addmm.out"): the base name counts.
"""
import json

import mt

SLOW = {"conv_equals_profiler", "lstm_equals_profiler"}

NAMES_AGREE_MIN = 0.99


def base_name(op):
    if not op:
        return None
    return op.split(".")[0] if op.startswith("aten::") else op


def truth_events(truth):
    """(births, frees) between the marks: [(ptr, bytes, op)], [(ptr, bytes)]."""
    births, frees, live = [], [], {}
    for t, _, ptr, size, op in truth["events"]:
        if not truth["begin_ns"] <= t <= truth["end_ns"]:
            continue
        if size > 0:
            births.append((ptr, size, base_name(op)))
            live[ptr] = size
        elif live.pop(ptr, None) is not None:
            frees.append((ptr, -size))
    return births, frees


def seen_events(rows, truth):
    births, frees, live = [], [], {}
    for row in rows:
        if row["pid"] != truth["pid"] or row.get("dev") != "cpu" or not row["size"]:
            continue
        if not truth["begin_ns"] <= row["t"] <= truth["end_ns"]:
            continue
        ptr = int(row["ptr"], 16)
        if row["ev"] == "create":
            births.append((ptr, row["size"], base_name(row["op"])))
            live[ptr] = row["size"]
        elif row["ev"] == "destroy" and live.pop(ptr, None) is not None:
            frees.append((ptr, row["size"]))
    return births, frees


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return f"number {i}: profiler {x}, memtrace {y}"
    return f"profiler has {len(a)}, memtrace {len(b)}"


def compare(model, measured):
    with mt.scratch() as tmp:
        out, mtr = tmp / "truth.json", tmp / "t.mtr"
        with mt.job("truth", "--model", model, "--measured", measured, "--out", out) as job:
            with mt.start("record", "-p", str(job.pid), "-o", str(mtr)) as tracer:
                mt.wait_attached(tracer, job.pid, mt.OP)
                job.tell("go")
                job.line("done", 90)
                mt.finish(tracer, mtr)
        truth = json.loads(out.read_text())
        births, frees = truth_events(truth)
        seen_births, seen_frees = seen_events(mt.export(mtr), truth)
        rep = mt.report(mtr)

    mt.check(len(births) > 50 * measured / 5, f"the profiler saw {len(births)} allocations only")
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    blocks, seen_blocks = [b[:2] for b in births], [b[:2] for b in seen_births]
    mt.check(blocks == seen_blocks, "allocations: " + first_difference(blocks, seen_blocks))
    mt.check(frees == seen_frees, "frees: " + first_difference(frees, seen_frees))

    total = sum(b[1] for b in births)
    wrong = [(a[2], b[2], a[1]) for a, b in zip(births, seen_births) if a[2] != b[2]]
    agree = 1 - sum(w[2] for w in wrong) / total
    mt.note(f"{model}: {len(births)} allocations, {total} bytes, {len(frees)} frees: equal; "
            f"operator names agree for {100 * agree:.3f} % of bytes, "
            f"{len(births) - len(wrong)} of {len(births)} allocations")
    mt.check(agree >= NAMES_AGREE_MIN, f"names (profiler, memtrace, bytes): {wrong[:10]}")


def test_mlp_equals_profiler():
    compare("mlp", 10)


def test_transformer_equals_profiler():
    compare("transformer", 5)


def test_conv_equals_profiler():
    compare("conv", 5)


def test_lstm_equals_profiler():
    compare("lstm", 5)
