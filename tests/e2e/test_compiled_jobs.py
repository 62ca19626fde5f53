# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Jobs that torch.compile's inductor compiled, held to what they say of their own memory (jobs/inductor.py), attached in mid-run and
from their start.

Of eight whole steps: parameters, gradients, optimizer state and buffers at each moment, both ways; what autograd has saved; how much of
byte·time is unknown; how much of the bytes that are born has an operator or a generated kernel's name; and that each step has its marks.
"""
import collections
import json
import os
import sys
import time
import types

import mt
import tables
import test_categories
import test_compiled

sys.path.insert(0, str(mt.ROOT / "tests" / "libraries"))
import said  # noqa: E402
import test_libraries  # noqa: E402

# What docs/compiled.md says that the tests demand.
HELD_MIN = 1  # of what the job says, and of what is called so
SAVED_MIN = {"sparse": 0.998}  # the rest all
UNKNOWN_MAX = {"compat": 0.02, "extended": 0.001}  # of byte·time
NAMED_MIN = 0.99  # of the bytes that are born
BY_FILE_MAX = 0.02  # of the peak: how far the verdict's parts are from the extended classes
HAS_KEPT = {"conv", "low_rank", "teacher"}  # buffers, or frozen parameters
SAYS_NOTHING_SAVED = {"compiled_autograd"}
MARKS = ["fw_start", "fw_bw_boundary", "step"]
COMPILES_S = test_compiled.COMPILES_S
QUICK = {"mlp_fused_attached", "marks_by_hand", "shares_by_hand", "demands_by_hand"}

close_file = test_compiled.close_file


def steps_go_by(job, tracer):
    """Once Python is known, as it is now, some whole steps; then the job ends. CLOCK_MONOTONIC of when that was known."""
    def looks():
        return sum("names of" in text for text in list(tracer.err))
    before = looks()
    # one may be under way, and what it finds is told when the next one finds it, too
    mt.wait_until(lambda: looks() >= before + 3 or not tracer.alive(), "three looks at Python", 120)
    mt.check(tracer.alive(), "; ".join(tracer.err[-5:]))
    known, first = time.monotonic_ns(), mt.steps_of(job)
    mt.wait_until(lambda: mt.steps_of(job) >= first + test_libraries.FULL_STEPS + 2 or not job.alive(), "steps", 100)
    job.tell("stop")
    return known


def attached(name, tmp):
    """(what the job said, when all was known, the recording)"""
    out, mtr = tmp / "said.json", tmp / "job.mtr"
    with mt.job("inductor", "--job", name, "--out", out, ready=False) as job:
        job.line("ready ", COMPILES_S)
        with mt.start("record", "-p", str(job.pid), "-o", str(mtr), "-vv") as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP, 60)
            known = steps_go_by(job, tracer)
            job.line("done", 60)
            mt.finish(tracer, mtr)
    return json.loads(out.read_text()), known, mtr


def launched(name, tmp):
    out, mtr = tmp / "said.json", tmp / "job.mtr"
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    with mt.start("record", "-o", str(mtr), "-vv", "--", mt.PYTHON, mt.JOBS / "inductor.py", "--job", name, "--out", out,
                  env=env) as tracer:
        tracer.line("ready ", COMPILES_S)
        known = steps_go_by(tracer, tracer)
        mt.finish(tracer, mtr, signal_number=0, timeout=60)
    return json.loads(out.read_text()), known, mtr


def named_share(rows, begin, end):
    born = [r for r in rows if r["ev"] == "create" and begin <= r["t"] <= end]
    bare = collections.Counter()
    for r in born:
        if not r["op"]:
            bare[r["size"]] += r["size"]
    total = sum(r["size"] for r in born)
    return (1 - sum(bare.values()) / total if total else 1), bare.most_common(6), total


def steps_without_marks(rep, pid, begins, marks):
    """Of the steps between these moments, those that have not each mark once, in this order: it may begin in the middle, as a step whose
    optimizer is compiled is over when its gradients are cleared, in the next one."""
    markers = [m for m in rep["phases"]["markers"] if m["pid"] == pid]
    found = [[m["name"] for m in markers if begin <= m["t"] < end] for begin, end in zip(begins, begins[1:])]
    turns = [marks[i:] + marks[:i] for i in range(len(marks))]
    first = found[0] if found and found[0] in turns else marks
    return [names for names in found if names != first]


def middle_step(blocks, begins):
    """unknown_share() of the step in the middle of all by it. What the profiler has no word for lives for a part of a millisecond in each step,
    or for as long as the process has no CPU just then: the sum of some steps says how busy the machine was (docs/compiled.md)."""
    return sorted(test_categories.unknown_share(blocks, begin, end) for begin, end in zip(begins, begins[1:]))[(len(begins) - 1) // 2]


def plain(mtr):
    """Of the peak, what the verdict calls parameters and inputs beyond what the extended classes do. Where an optimizer steps then,
    torch.profiler calls its temporaries parameters, too, of which the verdict has rules of its own."""
    at = {}
    for view in ("compat", "extended"):
        rep = json.loads(mt.ok(mt.memtrace("report", "--json", "--classes", view, mtr)).stdout)
        dev = rep["devices"][mt.DEVICE]
        at[view] = {word: c.get("at_peak_plain", c["at_peak"]) for word, c in dev["categories"].items()}
    words = ["INPUT"] if "in optimizer" in rep["verdict"][0]["text"] else ["INPUT", "PARAMETER"]
    known = sum(at["extended"].get(word, 0) for word in (*words, *(["FROZEN", "BUFFER"] if len(words) > 1 else [])))
    return (sum(at["compat"].get(word, 0) for word in words) - known) / dev["peak"]


class Measured:
    def __init__(self, doc, known, mtr):
        offset = time.time_ns() - time.monotonic_ns()
        pid = doc["pid"]
        moments = test_libraries.full_steps(doc, known, offset)
        begins = [(b + e) // 2 + offset for b, e, _, kind, _ in doc["moments"] if kind == "begin" and b > known]
        begins = begins[:test_libraries.FULL_STEPS + 1]
        self.steps, self.begins = len(begins) - 1, begins
        self.rep = mt.report(mtr)
        self.plain = plain(mtr)
        self.compat, self.extended = test_libraries.judge(pid, moments, mtr, live=False)
        self.unknown, self.step_unknown = {}, {}
        for view in ("compat", "extended"):
            rows = getattr(self, view).rows
            blocks = test_categories.seen_blocks(rows, pid, mt.DEVICE)
            self.unknown[view] = test_categories.unknown_share(blocks, begins[0], begins[-1])
            self.step_unknown[view] = middle_step(blocks, begins)
        self.named, self.bare, self.born = named_share(rows, begins[0], begins[-1])
        self.wrong_marks = steps_without_marks(self.rep, pid, begins, MARKS)

    def line(self, name):
        percent = test_libraries.percent

        def pair(what):
            low = self.extended.low
            return " / ".join(percent(low[what, "final", way]) for way in ("recall", "precision")) if self.extended.bytes[what] else "–"
        saved = percent(self.extended.low["SAVED", "final", "recall"]) if self.extended.bytes["SAVED"] else "–"
        return (f"| {name} | " + " | ".join(pair(what) for what in (*said.CLASSES, "KEPT")) + f" | {saved} "
                f"| {100 * self.unknown['compat'][0]:.2f} / {100 * self.unknown['extended'][0]:.2f} | {percent(self.named)} "
                f"| {self.steps - len(self.wrong_marks)} of {self.steps} |")

    def hold(self, name):
        for text in self.extended.differences(6):
            mt.note(f"  {text}")
        for view, (share, where) in self.unknown.items():
            if share > UNKNOWN_MAX["compat"] / 10:
                mt.note(f"  unknown of byte·time, {view}: {100 * share:.2f} %: {where[:3]}")
        mt.check(self.steps == test_libraries.FULL_STEPS, f"{self.steps} steps")
        mt.check(mt.lost(self.rep) == self.rep["lost"]["reuse"], f"lost: {self.rep['lost']}")
        mt.check(all(self.extended.bytes[what] > 1e4 for what in said.CLASSES), f"{self.extended.bytes}")
        mt.check((self.extended.bytes["SAVED"] > 1e4) == (name not in SAYS_NOTHING_SAVED), f"the job has saved {self.extended.bytes['SAVED']} bytes")
        mt.check((self.extended.bytes["KEPT"] > 0) == (name in HAS_KEPT), f"buffers and frozen parameters: {self.extended.bytes['KEPT']} bytes")
        for (what, _, way), share in self.extended.low.items():
            if what in said.CLASSES or what == "KEPT" or what == "SAVED":
                held = SAVED_MIN.get(name, 1) if what == "SAVED" else HELD_MIN
                mt.check(share >= held, f"{what}, {way}: {test_libraries.percent(share)} %, wanted {100 * held:g} %")
        for what in ("GRADIENT", "OPTIMIZER_STATE"):
            for way in ("recall", "precision"):
                share = self.compat.low[what, "final", way]
                mt.check(share >= HELD_MIN, f"in torch.profiler's words: {what}, {way}: {test_libraries.percent(share)} %")
        share, where = self.unknown["extended"]
        mt.check(share <= UNKNOWN_MAX["extended"], f"{100 * share:.2f} % of byte·time are unknown: {where}")
        share, where = self.step_unknown["compat"]
        mt.check(mt.DEVICE != "cpu" or share <= UNKNOWN_MAX["compat"], f"in torch.profiler's words: {100 * share:.2f} % of a step's byte·time are unknown: {where}")
        mt.check(self.named >= NAMED_MIN, f"{100 * self.named:.2f} % of {self.born} bytes have an operator; without: {self.bare}")
        mt.check(not self.wrong_marks, f"marks: {self.wrong_marks}")
        mt.check(abs(self.plain) <= BY_FILE_MAX,
                 f"parameters and inputs of the verdict: {100 * self.plain:.1f} % of the peak more than of the extended classes")


def compare(name, record, also=lambda m, mtr: None):
    with mt.scratch() as tmp, test_compiled.cache():
        doc, known, mtr = record(name, tmp)
        m = Measured(doc, known, mtr)
        row = m.line(f"{name}, {record.__name__}")
        mt.note(row)
        mt.note(f"  bytes: saved {m.extended.bytes['SAVED']}, kept {m.extended.bytes['KEPT']}; by file {100 * m.plain:.3f} % of the peak")
        m.hold(name)
        also(m, mtr)
    tables.keep("compiled", f"{name}_{record.__name__}", row)


def test_gpt_attached():
    compare("gpt", attached)


def test_gpt_launched():
    compare("gpt", launched)


def test_mlp_fused_attached():
    compare("mlp_fused", attached)


def test_mlp_fused_launched():
    compare("mlp_fused", launched)


def test_conv_attached():
    compare("conv", attached)


def test_conv_launched():
    compare("conv", launched)


def test_both_attached():
    compare("both", attached)


def test_both_launched():
    compare("both", launched)


def test_sparse_attached():
    compare("sparse", attached)


def test_sparse_launched():
    compare("sparse", launched)


def test_graph_break_attached():
    compare("graph_break", attached)


def test_graph_break_launched():
    compare("graph_break", launched)


def test_dynamic_attached():
    compare("dynamic", attached)


def test_dynamic_launched():
    compare("dynamic", launched)


def test_checkpointed_attached():
    compare("checkpointed", attached)


def test_checkpointed_launched():
    compare("checkpointed", launched)


def test_low_rank_attached():
    compare("low_rank", attached)


def test_low_rank_launched():
    compare("low_rank", launched)


def test_compiled_autograd_attached():
    compare("compiled_autograd", attached)


def test_compiled_autograd_launched():
    compare("compiled_autograd", launched)


def calls_of(mtr, name, begins):
    """[[(phase, bytes that it allocated)] of each call of this operator] of each step between these moments."""
    rows = [json.loads(line) for line in mt.ok(mt.memtrace("export", mtr, "--to", "op-trace")).stdout.splitlines()]
    rows = [r for r in rows if r["ev"] == "op" and r["name"] == name]
    return [[(r["phase"], r["created"]) for r in rows if begin <= r["t"] < end] for begin, end in zip(begins, begins[1:])]


def own_operator(m, mtr):
    """The job's own operator, which generated code calls: the teacher's call and the student's, each with the sigmoid and the product
    that it makes. What was saved is named by the nodes that have it. The averages are BUFFER, and parameters by use: the peak is not in
    the optimizer, where only inputs are compared."""
    made = 256 * 512 * 4
    calls = calls_of(mtr, "memtrace_jobs::swish", m.begins)
    mt.check(calls == [[("evaluation", 2 * made), ("forward", 2 * made)]] * m.steps, f"calls of the job's operator: {calls}")
    nodes = collections.Counter()
    for row in m.rep["saved"]["list"]:
        nodes[row["node"]] += row["bytes"]
    mt.check(nodes.keys() == {"CompiledFunctionBackward", "MseLossBackward0"} and sum(nodes.values()) == m.extended.bytes["SAVED"],
             f"kept for backward: {nodes}, by the job {m.extended.bytes['SAVED']}")
    mt.check(all(m.extended.low["BUFFER", "final", way] == 1 for way in ("recall", "precision")), "averages: not all are BUFFER")
    mt.check("in optimizer" not in m.rep["verdict"][0]["text"], m.rep["verdict"][0]["text"])


def test_teacher_attached():
    compare("teacher", attached, own_operator)


def test_teacher_launched():
    compare("teacher", launched, own_operator)


# --- what it costs ---------------------------------------------------------------------------------------------


def price_of_a_step(name, disable):
    """({probe: hits of a step}, {probe: ns of a hit by calibration})"""
    was = os.environ.get("TORCHDYNAMO_DISABLE")
    os.environ["TORCHDYNAMO_DISABLE"] = disable
    try:
        with mt.scratch() as tmp:
            _, _, mtr = attached(name, tmp)
            rep = mt.report(mtr)
    finally:
        os.environ.pop("TORCHDYNAMO_DISABLE") if was is None else os.environ.update(TORCHDYNAMO_DISABLE=was)
    steps, hits = rep["phases"]["marks"]["step"], {k: p for k, p in rep["overhead"]["by_probe"].items() if p["hits"]}
    mt.check(steps >= 10 and sum(p["hits"] for p in hits.values()) == rep["overhead"]["hits"], f"{steps} steps, {rep['overhead']}")
    return {k: p["hits"] / steps for k, p in hits.items()}, {k: p["ns"] / p["hits"] for k, p in hits.items()}


def test_price():
    """No higher than of the same job as torch runs it without compiling: fewer hits, and they cost less. Both at the prices that were
    calibrated beside the compiled one, as a machine with other work calibrates otherwise each time."""
    with test_compiled.cache():
        (compiled, ns), (eager, eager_ns) = price_of_a_step("gpt", "0"), price_of_a_step("gpt", "1")
    hits = [sum(of.values()) for of in (compiled, eager)]
    cost = [sum(cnt * ns.get(k, eager_ns.get(k)) for k, cnt in of.items()) for of in (compiled, eager)]
    mt.note(f"{hits[0]:.0f} hits and {cost[0] / 1e3:.0f} us of probes a step, eager {hits[1]:.0f} and {cost[1] / 1e3:.0f}")
    mt.check(hits[0] <= hits[1] and cost[0] <= cost[1], f"{compiled}, eager {eager}, {ns}")


# --- the comparison itself, by hand ---------------------------------------------------------------------------


def marked(*names):
    return {"phases": {"markers": [{"name": name, "t": t, "pid": 7} for t, name in enumerate(names)]}}


def test_marks_by_hand():
    def wrong(names, *begins):
        return steps_without_marks(marked(*names), 7, begins, MARKS)
    mt.check(wrong(MARKS * 2, 0, 3, 6) == [], "all are there")
    mt.check(wrong((MARKS[2:] + MARKS[:2]) * 2, 0, 3, 6) == [], "a step is over in the next one")
    mt.check(wrong(MARKS + MARKS[:2], 0, 3, 5) == [MARKS[:2]], "one is missing")
    mt.check(wrong(MARKS[::-1] * 2, 0, 3, 6) == [MARKS[::-1]] * 2, "another order")
    mt.check(wrong(MARKS + MARKS[1:] + MARKS[:1], 0, 3, 6) == [MARKS[1:] + MARKS[:1]], "not in all steps alike")
    mt.check(wrong(MARKS * 2, 0, 6) == [MARKS * 2], "two in one")


def test_shares_by_hand():
    rows = [{"ev": "create", "t": t, "size": size, "op": op} for t, size, op in ((1, 60, "a"), (2, 30, None), (3, 10, "b"), (9, 99, None))]
    share, bare, total = named_share(rows, 1, 5)
    mt.check((share, bare, total) == (0.7, [(30, 30)], 100), f"{share}, {bare}, {total}")
    blocks = [test_libraries.block(0x10, 100, (0, "PARAMETER")), test_libraries.block(0x20, 50, (0, "unknown"), end=5)]
    share, where = test_categories.unknown_share(blocks, 0, 10)
    mt.check(share == 0.2 and where[0][0] == 100 * 0.2, f"{share}, {where}")
    odd = [test_libraries.block(0x10, 100, (0, "PARAMETER")), test_libraries.block(0x20, 100, (0, "unknown"), end=10)]
    mt.check([middle_step(odd, begins)[0] for begins in ((0, 10, 20, 30), (0, 5, 10, 30))] == [0, 0.5], "of one step, and of most")


def sound():
    """What a job that is seen as it should be has, with buffers."""
    m = object.__new__(Measured)
    words = (*said.CLASSES, "KEPT", "SAVED")
    low = {(what, "final", way): 1 for what in words for way in ("recall", "precision")}
    m.extended = types.SimpleNamespace(bytes=dict.fromkeys(words, 1e6), low=dict(low), differences=lambda cnt: [])
    m.compat = types.SimpleNamespace(low=dict(low))
    m.unknown = m.step_unknown = {"compat": (0, []), "extended": (0, [])}
    m.steps, m.rep, m.named, m.bare, m.born = test_libraries.FULL_STEPS, {"lost": {"reuse": 0}}, 1, [], 1e9
    m.wrong_marks, m.plain = [], 0
    return m


def test_demands_by_hand():
    """A job that says nothing of a class, or of which a byte is called otherwise, does not pass."""
    sound().hold("conv")
    wrong = {"nothing saved": lambda m: m.extended.bytes.update(SAVED=0), "no buffer": lambda m: m.extended.bytes.update(KEPT=0),
             "not all parameters": lambda m: m.extended.low.update({("PARAMETER", "final", "recall"): 0.9999}),
             "not all saved": lambda m: m.extended.low.update({("SAVED", "final", "recall"): 0.999}),
             "another's peak": lambda m: setattr(m, "plain", 0.05), "unknown": lambda m: m.unknown.update(extended=(0.01, []))}
    for what, spoil in wrong.items():
        m = sound()
        spoil(m)
        try:
            m.hold("conv")
        except AssertionError:
            continue
        raise AssertionError(f"{what}: passed")


SLOW = {name[5:] for name, what in globals().items() if name.startswith("test_") and callable(what)} - QUICK
ON_REQUEST = SLOW  # check-landing and check-compiled name them
TIMEOUT_S = dict(dict.fromkeys(SLOW | QUICK, COMPILES_S), price=2 * COMPILES_S)


def labels():
    """{row: what it begins with}"""
    names = [name[5:] for name, what in globals().items() if name.startswith("test_") and name.endswith(("_attached", "_launched"))]
    return {name: "| {}, {} |".format(*name.rsplit("_", 1)) for name in names}


if __name__ == "__main__":  # make docs-compiled
    tables.write("compiled", "| job | PARAMETER | GRADIENT | OPTIMIZER_STATE | BUFFER, FROZEN | saved | unknown | with an operator | marks |\n"
                 "|---|---|---|---|---|---|---|---|---|\n"
                 + "".join(row + "\n" for row in tables.with_rows("compiled", labels(), sys.argv[1:])))
