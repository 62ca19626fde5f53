# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Exports that other programs read: torch.profiler's memory timelines, final labels, the data-flow graph.

The timelines are read as torch's own tools read them, and compared with what torch.profiler's
export_memory_timeline writes for the same steps of the same process: record by record they cannot be (two clocks), so births,
frees and versions are counted, and the bytes of each category compared as their mean over the births.
"""
import gzip
import json
import os
import signal
import stat
import subprocess

import mt

SLOW = {"as_torch_transformer", "as_torch_conv", "flow_of_two_steps"}
LANDING = {"timeline_is_the_report"}

# The order in torch's files; _CATEGORY_TO_INDEX of torch/profiler/_memory_profiler.py.
INDEX = ["PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "unknown"]
PREEXISTING, CREATE, INCREMENT, DESTROY = 1, 2, 3, 4
FLOW = ("--probes", "framework,flow,regions")
MEAN_MAX = 0.001  # of all bytes: how far the mean of one category may be from torch's, beside what torch has no category for


def export(mtr, form, out, *extra):
    mt.ok(mt.memtrace("export", mtr, "--to", form, "--force", "-o", out, *extra, timeout=120))
    data = out.read_bytes()
    return json.loads(gzip.decompress(data) if out.name.endswith(".gz") else data)


def check_timeline(doc):
    """[times, sizes] as torch's own viewers take it."""
    mt.check(isinstance(doc, list) and len(doc) == 2, "not [times, sizes]")
    times, sizes = doc
    mt.check(len(times) == len(sizes) and times, f"{len(times)} times, {len(sizes)} rows")
    mt.check(all(isinstance(t, int) and t > 0 for t in times), "a time that is no positive int")
    mt.check(times == sorted(times), "times go back")
    mt.check(all(len(row) == 9 and row[0] == 0 for row in sizes), "rows are not 0 and eight categories")
    mt.check(all(b >= 0 for row in sizes for b in row), "live bytes below zero")
    return times, sizes


def sums(raw):
    """[(t, action, live bytes by category after it)] of the raw list, which is checked on the way."""
    live, rows, pair = [0] * 8, [], None
    order = [(t, action) for t, action, _, _ in raw]
    mt.check(order == sorted(order), "records are not by (time, action)")
    for t, action, size, index in raw:
        mt.check(action in (PREEXISTING, CREATE, INCREMENT, DESTROY) and 0 <= index < 8, f"{action}, {index}")
        mt.check((t == -1) == (action == PREEXISTING), f"action {action} at {t}")
        if action == INCREMENT and pair is None:
            pair = (t, size)
            mt.check(size <= 0, "an increment begins with what it adds")
        elif action == INCREMENT:
            mt.check(pair == (t, -size), f"half an increment: {pair}, {size}")
            pair = None
        else:
            mt.check(pair is None, "half an increment")
            mt.check((size >= 0) == (action != DESTROY), f"action {action} with {size} bytes")
        live[index] += size
        mt.check(live[index] >= 0, f"{INDEX[index]} goes to {live[index]} at {t}")
        rows.append((t, action, list(live)))
    return rows


def test_timeline_is_the_report():
    """A job followed from its first instruction: every byte was seen born, so the sums are the report's."""
    with mt.scratch() as tmp:
        mtr = tmp / "a.mtr"
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
        with mt.start("record", "-o", mtr, *FLOW, "--", mt.PYTHON, mt.JOBS / "mlp.py", "--seconds", 60, "--warmup", 0.1,
                      "--width", 32, env=env) as tracer:
            pid = int(tracer.line("ready ").split()[1])
            tracer.line("step ")
            try:
                mt.finish(tracer, mtr)
            finally:
                os.kill(pid, signal.SIGKILL)
        rep = mt.report(mtr)
        raw = export(mtr, "torch-raw", tmp / "a.raw.json.gz")
        times, sizes = check_timeline(export(mtr, "torch-timeline", tmp / "a.json"))
        mt.check(export(mtr, "torch-timeline", tmp / "a.json.gz") == [times, sizes], ".gz has other contents")
        live = mt.export(mtr, ("--labels", "live"))
        final = mt.export(mtr)
    dev = rep["devices"]["cpu"]
    rows = sums(raw)
    mt.check(sum(a == CREATE for _, a, _, _ in raw) == dev["allocs"], "births are not those of the report")
    mt.check(sum(a == INCREMENT for _, a, _, _ in raw) > 100, "no in-place writes")

    end = [dev["categories"].get(name, {"live": 0})["live"] for name in INDEX]
    mt.check(sum(end) > 0 and rows[-1][2] == end, f"in the end {rows[-1][2]}, the report says {end}")
    mt.check(sizes[-1][1:] == rows[-1][2], "the two timelines end in different ways")
    peak = max(sum(live) for _, _, live in rows)
    mt.check(peak == dev["peak"], f"peak {peak}, the report says {dev['peak']}")
    at_peak = next(live for _, _, live in rows if sum(live) == peak)
    for name, bytes_ in zip(INDEX, at_peak):
        want = dev["categories"].get(name, {"at_peak": 0})["at_peak"]
        mt.check(bytes_ == want, f"{name} at the peak: {bytes_}, the report says {want}")

    # jsonl: one word on each version of a block, and it is the one that the timeline goes by
    mt.check(any(r["ev"] == "label" for r in live), "no label was told live")
    mt.check(not any(r["ev"] == "label" for r in final), "label rows beside final labels")
    words, said = {}, {}
    for r in final:
        if r.get("id"):
            mt.check(words.setdefault((r["id"], r["version"]), r["cat"]) == r["cat"], f"two words on {r}")
    for r in live:
        if r["ev"] == "create":
            said[r["id"]] = r["cat"]
    mt.check(any(words[i, 0] != cat for i, cat in said.items()), "hindsight changed nothing")
    gone = sum(r["size"] for r in final if r["ev"] == "destroy" and r["cat"] == "GRADIENT")
    mt.check(gone == -sum(b for _, a, b, c in raw if a == DESTROY and INDEX[c] == "GRADIENT"),
             "gradients freed in jsonl and in the timeline differ")


# --- torch's own export ---------------------------------------------------------------------------------

def mean(records, begin, end):
    """Mean bytes of each category at the births of this time: a thread that waits for a CPU between two of them changes nothing."""
    now, total, births = [0] * 8, [0] * 8, 0
    for t, action, size, category in records:
        now[category] += size
        if action == CREATE and begin <= t < end:
            births += 1
            total = [x + y for x, y in zip(total, now)]
    return [x / max(births, 1) for x in total]


def as_timeline(raw):
    """The other timeline, by the rule of torch's _coalesce_timeline."""
    times, sizes, first = [], [], -1
    for t, _, size, category in raw:
        t = t if t == -1 else int(t / 1000)  # as torch does it: through a double
        first = t if first == -1 else first
        if not times or t != times[-1]:
            times.append(t)
            sizes.append(list(sizes[-1]) if sizes else [0] * 9)
        sizes[-1][category + 1] += size
    return [[first if t < 0 else t for t in times], sizes]


def both(model):
    """(window, torch's raw timeline, ours); of both, the other timeline says the same."""
    with mt.scratch() as tmp:
        mtr = tmp / "a.mtr"
        with mt.job("timeline", "--model", model, "--out", tmp) as job:
            with mt.start("record", "-p", str(job.pid), *FLOW, "-o", str(mtr)) as tracer:
                mt.wait_until(lambda: any("recording: " in t for t in tracer.err) or not tracer.alive(),
                              "memtrace to record", 30)
                job.tell("go")
                job.line("done", 90)
                mt.finish(tracer, mtr)
        window = json.loads((tmp / "window.json").read_text())
        raw = json.loads(gzip.decompress((tmp / "torch.raw.json.gz").read_bytes()))
        mine = export(mtr, "torch-raw", tmp / "ours.raw.json")
        timeline = export(mtr, "torch-timeline", tmp / "ours.json")
        mt.check(as_timeline(raw) == json.loads((tmp / "torch.json").read_text()), "torch makes its timeline by another rule")
    check_timeline(timeline)
    sums(mine)
    mt.check(as_timeline(mine) == timeline, "torch-timeline is not what torch would make of torch-raw")
    return window, raw, mine


def compare(model):
    window, raw, mine = both(model)
    begin, end = window["begin_ns"], window["end_ns"]
    want, got = (mean(records, begin, end) for records in (raw, mine))
    slack = MEAN_MAX * sum(want)
    mt.note(f"{model}: " + ", ".join(f"{n} {g / 1024:.1f}/{w / 1024:.1f}" for n, g, w in zip(INDEX, got, want))
            + f" KiB (ours/torch's mean), {slack / 1024:.1f} are allowed")
    # what torch has no category for has one here: each may have more by that, all together not more than that
    for name, g, w in list(zip(INDEX, got, want))[:7]:
        mt.check(g >= w - slack, f"{name}: mean {g:.0f}, torch says {w:.0f}")
    more = sum(max(g - w, 0) for g, w in list(zip(got, want))[:7])
    mt.check(more <= want[7] + slack, f"{more:.0f} bytes more than torch's have a category, {want[7]:.0f} have none there")
    mt.check(abs(sum(got) - sum(want)) <= slack, f"mean of all {sum(got):.0f}, torch says {sum(want):.0f}")

    def in_window(records, action):
        return sum(begin <= t < end and a == action for t, a, _, _ in records)
    for action in (CREATE, DESTROY, INCREMENT):
        mt.check(in_window(mine, action) == in_window(raw, action),
                 f"action {action}: {in_window(mine, action)} times, torch says {in_window(raw, action)}")


def test_as_torch_mlp():
    compare("mlp")


def test_as_torch_transformer():
    compare("transformer")


def test_as_torch_conv():
    compare("conv")


# --- the data-flow graph --------------------------------------------------------------------------------

def test_flow_of_two_steps():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        mtr = tmp / "a.mtr"
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 2, "-o", mtr, *FLOW, timeout=90))
        text = mt.ok(mt.memtrace("report", mtr, "--flow")).stdout.splitlines()
        nodes = [json.loads(line) for line in mt.ok(mt.memtrace("report", mtr, "--flow", "--json")).stdout.splitlines()]
        every = [json.loads(line) for line in
                 mt.ok(mt.memtrace("report", mtr, "--flow", "--steps", "all", "--json"), (0, 3)).stdout.splitlines()]
        rows = [r for r in mt.export(mtr, ("--ops",)) if r["ev"] == "node"]
    headings = [line for line in text if line.startswith("Step ")]
    mt.check(len(headings) == 2 and "whole" not in "".join(headings), f"steps: {headings}")
    mt.check(len({n["step"] for n in nodes}) == 2, "JSON has other steps")
    mt.check(len(every) > len(nodes) and len(every) == len(rows), f"{len(every)} nodes, jsonl {len(rows)}")
    for word in ("aten::linear", "AddmmBackward0", "AccumulateGrad", "[memory]", "*) ", " PARAMETER", " GRADIENT", "T0(v"):
        mt.check(any(word in line for line in text), f"'{word}' is not in the graph")
    for n in nodes:
        for key in ("t", "op", "region", "tid", "pid", "inputs", "outputs", "intermediates", "deleted"):
            mt.check(key in n, f"no {key} in {n}")
        inputs = {b["id"]: b["version"] for b in n["inputs"]}
        mt.check({b["id"] for b in n["deleted"]} <= set(inputs), f"deleted, but no input: {n}")
        for b in n["outputs"]:
            want = inputs[b["id"]] + 1 if b["id"] in inputs else 0
            mt.check(b["version"] == want, f"output {b} of {n}")
    # versions are continuous: what a node is given is what the last one left
    last = {}
    for n in every:
        for b in n["inputs"]:
            mt.check(last.get(b["id"], b["version"]) == b["version"], f"{b}, but version {last.get(b['id'])} was left: {n}")
        for b in n["inputs"] + n["outputs"]:
            last[b["id"]] = b["version"]


def test_flow_needs_flow():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", tmp / "a.mtr", "--probes", "framework"))
        mt.expect_failure(mt.memtrace("report", tmp / "a.mtr", "--flow"), 1, "data flow", "--probes")


# --- what cannot be ---------------------------------------------------------------------------------------

def test_streams_and_full_disks():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        mtr = tmp / "a.mtr"
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", mtr))
        with subprocess.Popen(["cat", mtr], stdout=subprocess.PIPE) as cat:
            done = subprocess.run([mt.MEMTRACE, "export", "/dev/stdin", "--to", "csv", "-o", tmp / "x"], stdin=cat.stdout,
                                  capture_output=True, text=True, check=False)
        mt.expect_failure(done, 1, "stream", "file first")
        mt.check(not (tmp / "x").exists(), "an output that nothing was read for")
        with open(mtr) as f:
            done = subprocess.run([mt.MEMTRACE, "export", "/dev/stdin", "--to", "csv", "-o", tmp / "x"], stdin=f,
                                  capture_output=True, text=True, check=False)
        mt.ok(done)
        for form in ("jsonl", "csv", "torch-raw", "torch-timeline"):
            mt.expect_failure(mt.memtrace("export", mtr, "--to", form, "-o", "/dev/full"), 1, "no space")
        os.mknod(tmp / "full.gz", stat.S_IFCHR | 0o600, os.stat("/dev/full").st_rdev)
        mt.expect_failure(mt.memtrace("export", mtr, "--to", "jsonl", "-o", tmp / "full.gz"), 1, "no space")
