# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Windows of traced steps, and gaps between them (--steps N --every T): what is set when, by the job's own text; what is said of the
traced steps, against a recording of all of them; what the job feels of a change of level, by its own clock."""
import bisect
import contextlib
import json
import re
import signal
import statistics
import subprocess
import time

import grown
import mt
import peaks
import test_gaps
import test_ranks

SLOW = {"gaps_lose_nothing_of_a_transformer", "nobody_waits_longer_at_a_change_of_level", "ranks_trace_the_same_steps", "evaluation_every_50_steps",
        "growing_sequences", "the_mean_of_growing_sequences", "the_mean_with_accumulation_of_8", "accumulation_of_8", "a_checkpoint_every_200_steps",
        "a_spike_is_worth_a_window", "gaps_lose_nothing_of_the_traced_steps", "a_window_waits_for_its_step"}
LANDING = {"all_jobs_have_a_budget", "allocations_are_seen_within_a_budget", "dear_marks_go_between_windows", "kinds_of_steps_are_told_apart",
           "a_live_view_has_a_budget", "a_mark_is_all_that_a_step_hits_between_windows"}
# Hundreds of steps between windows, of which others take their part of the CPU
TIMEOUT_S = dict.fromkeys(("evaluation_every_50_steps", "growing_sequences", "a_checkpoint_every_200_steps", "allocations_are_seen_within_a_budget"), 400)
# all_jobs traces what others would; what a budget is held to are steps' times, compared with those beside them; a spike has its
# moment; one step in 50 is a kind by its duration alone: beside other tests usual steps took as long
ALONE = {"nobody_waits_longer_at_a_change_of_level", "all_jobs_have_a_budget", "a_budget_is_held", "allocations_are_seen_within_a_budget", "a_spike_is_worth_a_window",
         "evaluation_every_50_steps"}
OFF = 0.01  # of all bytes
MARK = ("libtorch_cpu.so", "_ZN5torch8autograd8profiler25record_function_enter_newE")


def brief(sampling):
    return (f"{sampling['steps_traced']} of {sampling['steps_seen']} steps in {sampling['windows']} windows, "
            f"{sampling['traced_ns'] / 1e9:.2f} s, price {100 * (sampling.get('price_ratio') or 0):.2f} %")


def gap_times(events, end):
    """[(begin, end)] of what was traced, epoch ns; until the recording's end."""
    traced, begin = [], events[0]["t"]
    for e in events:
        if e["ev"] != "gap":
            continue
        if e["begins"] and begin is not None:
            traced.append((begin, e["t"]))
        begin = None if e["begins"] else e["t"]
    if begin is not None:
        traced.append((begin, end))
    return [(a, b) for a, b in traced if b > a]


def means_in(events, traced):
    """Bytes by category that lived on average in these stretches of a recording of all."""
    starts, until = [a for a, _ in traced], [0]
    for a, b in traced:
        until.append(until[-1] + b - a)

    def clock(t):
        i = bisect.bisect_right(starts, t) - 1
        return 0 if i < 0 else until[i] + min(t, traced[i][1]) - traced[i][0]

    live, sums = {}, {}

    def settle(key, t):
        since, cat, size = live[key]
        sums[cat] = sums.get(cat, 0) + size * (clock(t) - clock(since))

    for e in events:
        if e["ev"] in ("create", "preexisting") and e["size"]:
            live[e["id"]] = (e["t"], e["cat"], e["size"])
        elif e["ev"] in ("version", "destroy") and e["id"] in live:
            settle(e["id"], e["t"])
            size = live.pop(e["id"])[2]
            if e["ev"] == "version":
                live[e["id"]] = (e["t"], e["cat"], size)
    for key in live:
        settle(key, traced[-1][1])
    return {cat: v / until[-1] for cat, v in sums.items()}


def cpu_of(report):
    return next(d for d in report["devices"] if d["device"] == "cpu") if isinstance(report["devices"], list) else \
        report["devices"]["cpu"]


def check_traced_steps(full, path, steps):
    """What a recording with gaps says of its traced steps is what one of all says of the very same."""
    rep = mt.report(path)
    sampling, cpu = rep["sampling"], cpu_of(rep)
    truth = means_in(mt.export(full), gap_times(mt.export(path), rep["start_ns"] + rep["duration_ns"]))
    everything, off = sum(truth.values()), {}
    for cat in truth.keys() | cpu["categories"].keys():
        mean = cpu["categories"].get(cat, {}).get("byte_ns", 0) / sampling["traced_ns"]
        off[cat] = (mean - truth.get(cat, 0)) / everything
    worst = max(off, key=lambda cat: abs(off[cat]))
    mt.note(f"{brief(sampling)}; furthest off: {worst} by {off[worst]:+.2%} of all")
    mt.check(abs(off[worst]) <= OFF, f"means are off by {off}")
    mt.check(sampling["steps_traced"] >= steps * (sampling["windows"] - 1) > 0, f"steps: {sampling}")
    mt.check(not mt.lost(rep), f"lost {rep['lost']}")
    whole = cpu_of(mt.report(full))
    mt.check(abs(cpu["peak"] - whole["peak"]) <= OFF * whole["peak"], f"peak {cpu['peak']}, of all {whole['peak']}")


class Made:
    """What each step of a recording of all was made of, by its boundaries: bytes by category on average, and at its peak."""

    def __init__(self, bounds):
        self.bounds, self.at, self.since = bounds, 0, bounds[0]
        self.live, self.blocks, self.steps = {}, {}, []
        self.begin()

    def begin(self):
        self.sums, self.peak, self.at_peak = {}, sum(self.live.values()), dict(self.live)

    def until(self, t):
        """Time passes, over boundaries too."""
        while self.at + 1 < len(self.bounds) and t > self.since:
            end = min(t, self.bounds[self.at + 1])
            for cat, size in self.live.items():
                self.sums[cat] = self.sums.get(cat, 0) + size * (end - self.since)
            self.since = end
            if end == self.bounds[self.at + 1]:
                took = end - self.bounds[self.at]
                self.steps.append(({cat: v / took for cat, v in self.sums.items()}, self.at_peak))
                self.at += 1
                self.begin()

    def add(self, cat, size):
        self.live[cat] = self.live.get(cat, 0) + size
        if sum(self.live.values()) > self.peak:
            self.peak, self.at_peak = sum(self.live.values()), dict(self.live)

    def event(self, e):
        if e["ev"] not in ("create", "preexisting", "version", "destroy") or not e["size"]:
            return
        self.until(e["t"])
        if e["id"] in self.blocks:
            cat, size = self.blocks.pop(e["id"])
            self.live[cat] -= size
        if e["ev"] != "destroy" and (e["ev"] != "version" or e["dev"] == "cpu"):
            self.blocks[e["id"]] = (e["cat"], e["size"])
            self.add(e["cat"], e["size"])


def check_mean_step(full, path):
    """The average of all steps of a full trace lies within what is said of the traced ones. The errors are for 95 in 100 cases, so
    one of a dozen numbers is often beyond its own: three times an error (of Student's t, of 6 windows) is one in a thousand."""
    sampling = mt.report(path)["sampling"]
    said, steps = sampling["mean_step"]["devices"]["cpu"], sampling["mean_step"]
    events = mt.export(full, ["--ops"])
    bounds = [e["t"] for e in events if e["ev"] == "region" and e["region"].startswith("Optimizer.step#") and e["t"] >= sampling["gaps"][0][1]]
    made = Made(bounds)
    for e in events:
        made.event(e)
    mt.check(2 <= steps["windows"] <= sampling["windows"] and steps["steps"] == sampling["steps_traced"] and steps["sure"] == 0.95, f"{sampling}")
    mt.check(len(made.steps) > 2 * steps["steps"], f"{len(made.steps)} steps of all")
    off, worst = [], 0
    for i, what in enumerate(("mean", "at_peak")):
        for cat in {cat for step in made.steps for cat in step[i]} | said["categories"].keys():
            truth = statistics.mean(step[i].get(cat, 0) for step in made.steps)
            row = said["categories"].get(cat, {what: 0, f"{what}_error": 0})
            error = abs(row[what] - truth)
            off.append((what, cat, round(row[what]), round(truth), round(row[f"{what}_error"])))
            worst = max(worst, error / said["peak"])
            mt.check(error <= 3 * row[f"{what}_error"] + OFF * said["peak"], f"{off[-1]}")
    mt.note(f"{steps['steps']} steps in {steps['windows']} windows, of {len(made.steps)}; furthest off by {worst:.2%} of the peak: "
            f"{[row for row in off if max(row[2:4]) > said['peak'] / 50]}")


def check_diff(full, path):
    """Means and peaks of the traced steps against those of all; what adds up is not compared."""
    diff = json.loads(mt.ok(mt.memtrace("diff", full, path, "--by", "device", "--json")).stdout)
    cpu = next(row for row in diff["rows"] if row["name"] == "cpu")
    mt.note(f"of all {cpu['a']}, of some {cpu['b']}")
    mt.check(abs(cpu["change"]["mean"]) <= 0.1 * cpu["a"]["mean"], f"means: {cpu}")
    mt.check("alloc_bytes" not in cpu["change"] and "live" not in cpu["change"], f"of all steps: {cpu}")
    mt.check(any("were traced" in note for note in diff["notes"]), f"it does not say so: {diff['notes']}")
    mt.expect_failure(mt.memtrace("diff", path, full, "--by", "symbol"), 1, "some steps only")


def check_peaks(path, folder):
    """Every view has the report's peak: what was seen in gaps is in none."""
    peak, said, rep, _ = peaks.of_all(path, folder)
    mt.note(f"{peak['report']}, {said['report']} gaps")
    mt.check(all(v == peak["report"] for v in peak.values()), f"peaks differ: {peak}")
    mt.check(peaks.op_trace(peaks.export(path, folder, "op-trace")) <= peak["report"], "op-trace is above the peak")
    mt.check(said["report"] > 2 and len(set(said.values())) == 1, f"gaps: {said}")
    traced = rep["duration_ns"] - sum(lost for _, _, lost in rep["sampling"]["gaps"])
    mt.check(traced == rep["sampling"]["traced_ns"], f"gaps leave {traced} ns, traced are {rep['sampling']['traced_ns']}")


def check_gaps_of(job, args, steps, every):
    """The same trace with all of its steps and with some: categories of these are the same. And such a recording is one like others."""
    mt.ok(mt.make("build/tests/gaps_of", "build/tests/window_of"))
    with mt.scratch() as d, mt.job(job, *args) as running:
        full, path = d / "full.mtr", d / "gaps.mtr"
        grown.record(full, running, grown.after_attach(120), "120 steps")
        subprocess.run([mt.BUILD / "tests" / "gaps_of", full, str(steps), str(every), path], check=True)
        check_traced_steps(full, path, steps)
        check_mean_step(full, path)
        subprocess.run([mt.BUILD / "tests" / "window_of", path, "1", d / "window.mtr"], check=True)
        window = mt.report(d / "window.mtr")
        mt.check(not mt.lost(window) and window["sampling"]["steps_seen"], f"of a window: {window['sampling']}, {window['lost']}")
        check_diff(full, path)
        check_peaks(path, d)


def test_gaps_lose_nothing_of_the_traced_steps():
    check_gaps_of("mlp", (), 3, 10)


def test_gaps_lose_nothing_of_a_transformer():
    check_gaps_of("transformer", ("--batch", "4"), 2, 6)


def check_mean_of(how):
    """All steps of a job that changes, and some of the very same: what is said of these holds for all, within what it says of its error."""
    mt.ok(mt.make("build/tests/gaps_of"))
    with mt.scratch() as d, mt.job("changing", how, "--quiet") as running:
        full, path = d / "full.mtr", d / "gaps.mtr"
        grown.record(full, running, grown.after_attach(120), "120 steps")
        subprocess.run([mt.BUILD / "tests" / "gaps_of", full, "3", "10", path], check=True)
        check_mean_step(full, path)


def test_the_mean_of_growing_sequences():
    check_mean_of("growing")


def test_the_mean_with_accumulation_of_8():
    check_mean_of("accumulate")


def has_probe(job, where):
    return mt.probed(job.pid, where)


def wait_for_gap(job, cnt):
    """So many windows come and go, of those that are seen: a short one may come between two looks."""
    for _ in range(cnt):
        mt.wait_until(lambda: has_probe(job, mt.OP), "a window", 90)
        mt.wait_until(lambda: not has_probe(job, mt.OP), "a gap", 90)


def in_gaps(path, rep):
    """What `report --at` answers in the middle of each gap but the first, before which probes were set, and the last, which is open."""
    return [mt.memtrace("report", path, "--at", f"{((begin + end) / 2 - rep['start_ns']) / 1e9:.4f}s") for begin, end, _ in rep["sampling"]["gaps"][1:-1]]


def test_probes_come_and_go():
    with mt.scratch() as d, mt.job("mlp") as job:
        path = d / "some.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "3", "--every", "1s") as tracer:
            wait_for_gap(job, 1)
            mt.wait_until(lambda: not has_probe(job, mt.NEW), "what allocates to go, too", 30)
            wait_for_gap(job, 3)
            mt.finish(tracer, path)
        mt.check_goes_on(job)
        rep = mt.report(path)
        for done in in_gaps(path, rep):  # what was live at its begin is no answer
            mt.check(done.returncode == 1 and "nothing was traced from " in done.stderr and "--from " in done.stderr, f"{done}")
        done = mt.memtrace("export", path, "--to", "csv", "-o", d / "none.csv", "--until", "1ms")
        mt.check(done.returncode == 1 and "after the start" in done.stderr, f"{done}")
        check_peaks(path, d)
        wrong = [e for e in mt.export(path) if e["ev"] == "create" and e["op"] in ("aten::mm", "aten::sum") and e["cat"] == "INPUT"]
        mt.check(not wrong, f"gradients of steps in which probes came: {wrong[:3]}")
        full = mt.report(grown.record(d / "all.mtr", job, grown.after_attach(30), "30 steps"))
    sampling = rep["sampling"]
    mt.note(f"{brief(sampling)}; of operators {rep['coverage']['idle']}")
    mt.check(sampling["windows"] >= 4 and 3 * (sampling["windows"] - 1) <= sampling["steps_traced"] <= 3 * sampling["windows"],
             f"{sampling}")
    mt.check(sampling["steps_seen"] > 3 * sampling["steps_traced"], f"most steps are watched: {sampling}")  # in a gap of a second
    mt.check("sampling" not in full, "a recording of all steps says nothing of sampling")
    for cat, v in cpu_of(full)["categories"].items():
        some = cpu_of(rep)["categories"].get(cat, {}).get("at_peak", 0)
        mt.check(abs(some - v["at_peak"]) <= OFF * cpu_of(full)["peak"], f"at the peak: {cat} {some}, of all {v['at_peak']}")


def test_a_mark_is_all_that_a_step_hits_between_windows():
    """zero_grad() and step() begin a region each; and the live view says of how many steps it tells."""
    with mt.job("mlp") as job:
        with mt.start("-p", str(job.pid), "--steps", "2", "--every", "3000s") as tracer:
            wait_for_gap(job, 1)
            mt.wait_until(lambda: not has_probe(job, mt.NEW), "what allocates to go, too", 30)
            mt.check(has_probe(job, MARK), "what begins a region has its probe in a gap")
            begin, lines = len(tracer.out), []

            def look():  # hits are counted and steps are read at two moments of a line's second: by then that is little
                lines[:] = [{k: int(v) for k, v in re.findall(r" (steps|hits|steps_traced)=(\d+)", line)} for line in list(tracer.out)[begin:]
                            if " steps=" in line]
                return len(lines) >= 6 and lines[-1]["steps"] > lines[1]["steps"] + 1000 and lines[-1]["steps"] > lines[-2]["steps"]
            mt.wait_until(look, "a thousand steps in six lines")
            mt.finish(tracer)
        mt.check_goes_on(job)
    first, last = lines[1], lines[-1]
    each = (last["hits"] - first["hits"]) / (last["steps"] - first["steps"])
    mt.note(f"{each:.2f} hits a step, {last}")
    mt.check(1.9 < each < 2.5, f"{each} hits a step: {lines}")
    mt.check(last["steps_traced"] == 2, f"{lines}")


def test_what_is_called_in_a_gap_is_set_in_the_next_window():
    late, unused = ("libtorch_cpu.so", "_ZN2at4_ops6erfinv4callE"), ("libtorch_cpu.so", "_ZN2at4_ops3svd4callE")
    with mt.scratch() as d, mt.job("idle", "--go") as job:
        path = d / "late.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "2", "--every", "1s") as tracer:
            wait_for_gap(job, 2)
            job.tell("late")
            job.line("late")
            mt.wait_until(lambda: mt.probed(job.pid, late), "a late probe", 30)
            mt.check(not mt.probed(job.pid, unused), "what is never called has no probe")
            wait_for_gap(job, 2)
            # probes go slice by slice: the last of them may still be there when the first ones have gone
            mt.wait_until(lambda: not mt.probed(job.pid, late) and not has_probe(job, mt.OP), "it goes with the others", 30)
            mt.finish(tracer, path)
        rep = mt.report(path)
    mt.check(sum(op["count"] for op in rep["ops"] if op["name"] == "aten::erfinv") >= 20, "its calls in a window are told")
    mt.check(not rep["coverage"]["idle"]["late_total"], f"nothing is said to be missing: {rep['coverage']['idle']}")


def test_allocations_are_seen_between_windows():
    with mt.scratch() as d, mt.job("mlp") as job:
        path = d / "blocks.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "2", "--every", "1s", "--between", "blocks") as tracer:
            wait_for_gap(job, 2)
            mt.check(has_probe(job, mt.NEW), "what allocates has its probes in a gap")
            wait_for_gap(job, 1)
            mt.finish(tracer, path)
        rep = mt.report(path)
        for done in in_gaps(path, rep):
            mt.check(done.returncode == 0 and "cpu held " in done.stdout, f"{done}")
    mt.note(brief(rep["sampling"]))
    mt.check(not rep["sampling"]["unseen_blocks"], f"nothing ends unseen: {rep['sampling']}")


def test_allocations_are_seen_within_a_budget():
    """With a budget they keep their probes as long as these take half of it at most; what they are is learned, and the budget is held.
    Where they take more they go, which is told, and the job is traced as if nobody had asked for them."""
    with mt.scratch() as d:
        path = d / "kept.mtr"
        with mt.job("transformer", "--batch", "16") as job:
            with mt.start("record", "-p", str(job.pid), "-o", str(path), "--max-overhead", "40", "--steps", "2", "--between", "blocks") as tracer:
                wait_for_gap(job, 4)
                mt.check(has_probe(job, mt.NEW), "what allocates has its probes in a gap")
                mt.finish(tracer, path)
        sampling = mt.report(path)["sampling"]
        mt.note(f"{brief(sampling)}; learned: {sampling['learned']['share']:.1%}")
        mt.check(sampling["budget"] == 0.4 and 0 < sampling["price_ratio"] <= 0.43, f"{sampling}")
        mt.check(sampling["learned"]["share"] > 0.9 and sampling["learned"]["checks"] and not sampling["unseen_blocks"], f"{sampling}")
        mt.check(sum(k["watched"] for k in sampling["step_kinds"]), f"steps between windows are no kinds: {sampling['step_kinds']}")
        path, job = d / "gone.mtr", mt.shared_job("mlp")
        def is_told(rep):
            notes = rep.get("coverage", {}).get("notes", [])
            return any(re.search(r"allocations between windows take .* more than half of 2 %.*--max-overhead \d+", note) for note in notes)
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--max-overhead", "2", "--between", "blocks") as tracer:
            wait_for_gap(job, 1)
            mt.wait_until(lambda: not has_probe(job, mt.NEW), "what allocates to lose its probes", 90)
            mt.wait_until(lambda: is_told(grown.so_far(path)), "a recording that says so", 30, 0.5)
            mt.check(tracer.alive(), f"it detached: {tracer.err[-5:]}")
            mt.finish(tracer, path)
        rep = mt.report(path)
    seen, gaps = rep["sampling"]["seen"], rep["sampling"]["gaps"]
    mt.check(is_told(rep) and seen and seen[-1][1] < gaps[-1][1] and not mt.lost(rep), f"{rep['coverage']}, {rep['sampling']}")


def test_without_steps_time_is_traced():
    with mt.scratch() as d, mt.job("forward") as job:
        path = d / "time.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "2", "--every", "60s") as tracer:
            mt.wait_until(lambda: has_probe(job, mt.NEW), "a window", 30)
            mt.wait_until(lambda: not has_probe(job, mt.NEW), "a gap", 60)
            mt.finish(tracer, path)
        rep = mt.report(path)
    sampling = rep["sampling"]
    mt.note(brief(sampling))
    mt.check(sampling["windows"] == 1 and not sampling["steps_traced"] and sampling["traced_ns"] > 0.5e9, f"{sampling}")


def test_a_budget_is_held():
    """What it takes of the job's time, by the job's steps: once the attach is paid for, no more than was asked for."""
    with mt.scratch() as d, mt.job("transformer", "--batch", "4") as job:
        path = d / "budget.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--max-overhead", "10", "--steps", "2") as tracer:
            wait_for_gap(job, 5)
            mt.finish(tracer, path)
        rep = mt.report(path)
        text = mt.ok(mt.memtrace("report", path, "-v")).stdout
    sampling = rep["sampling"]
    mt.note(brief(sampling))
    mt.check(sampling["budget"] == 0.1 and sampling["windows"] >= 5, f"{sampling}")
    mt.check(2 * (sampling["windows"] - 1) <= sampling["steps_traced"] <= 2 * sampling["windows"], f"{sampling}")
    mt.check(0 < sampling["price_ratio"] <= 0.115, f"more was lost than was to be: {sampling}")
    mt.check("of its time the job lost" in re.sub(r"\s+", " ", text), f"the report does not tell it:\n{text[-2000:]}")


def watched_of(path):
    """Steps that were watched, of a recording that grows."""
    return sum(k["watched"] for k in mt.report(path)["sampling"]["step_kinds"])


def test_kinds_of_steps_are_told_apart():
    """Of twelve steps four have regions of their own and three an evaluation, by the job's text; the one is counted, the other takes as long
    as the job says at least, and needs more. Four steps in a row have one with an evaluation. How long steps take is also the machine's
    doing: some of those with an evaluation may be told as held up, and the other way round."""
    with mt.scratch() as d, mt.job("alternating") as job:
        path = d / "kinds.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "4", "--every", "4s") as tracer:
            wait_for_gap(job, 3)
            mt.wait_until(lambda: watched_of(path) >= 150, "150 steps that are watched", 120, 2)
            mt.finish(tracer, path)
        least = min(int(line.split()[1]) for line in list(job.out) if line.startswith("evaluation "))
        sampling = mt.report(path)["sampling"]
        text = mt.ok(mt.memtrace("report", path)).stdout
    kinds = sampling["step_kinds"]
    mt.note(f"{[{k: v for k, v in kind.items() if k != 'mean_step'} for kind in kinds]}")
    watched, few, many = sum(k["watched"] for k in kinds), kinds[0]["regions"], {k["regions"] for k in kinds}
    mt.check(len(many) == 2 and few + 4 in many, f"regions: {many}")
    part = sum(k["watched"] for k in kinds if k["regions"] == few + 4) / watched
    mt.check(abs(part - 1 / 3) < 0.08, f"a third has regions of its own: {part}")
    peak = {i: k["mean_step"]["devices"]["cpu"]["peak"] for i, k in enumerate(kinds) if k["traced"]}
    large = [k for i, k in enumerate(kinds) if (peak[i] > 1.2 * min(peak.values()) if i in peak else k["took_ns"] > least / 2)]
    part = sum(k["watched"] for k in large) / watched
    mt.check(0.12 < part < 0.4, f"a quarter has an evaluation, which needs more: {part}, {peak}")
    took = [k["took_ns"] or 0 for k in large]
    mt.check(max(took) > 0.9 * least, f"evaluations took {took}, by the job's word {least} at least")  # to a bucket's width
    mt.check(sum(k["watched"] + k["traced"] for k in kinds) + sampling["steps_unsorted"] == sampling["steps_seen"], f"{sampling}")
    mt.check(sum(k["traced"] for k in kinds) == sampling["steps_traced"], f"{sampling}")
    mt.check("Kinds of steps" in text, text)


WANTED = "a window is wanted: odd step"
STATE = re.compile(r"window (\d+): state (\d+) at (\d+)")
GAP, REST, ARMED = range(3)  # event/event.h


def wait_for_window(tracer, number, state=REST):
    """As -vv tells it, to its end: a short one may come and go between two looks at the job's text."""
    def told():
        return any(m and int(m[1]) >= number and int(m[2]) == state for m in map(STATE.search, list(tracer.err)))
    mt.wait_until(lambda: told() or not tracer.alive(), f"window {number}", 120)
    mt.check(tracer.alive(), f"it ended: {tracer.err[-5:]}")


def test_a_signal_asks_for_a_window():
    with mt.scratch() as d, mt.job("mlp") as job:
        with mt.start("record", "-vv", "-p", str(job.pid), "-o", str(d / "a.mtr"), "--steps", "2", "--every", "3000s") as tracer:
            wait_for_gap(job, 1)
            tracer.signal(signal.SIGUSR2)
            wait_for_window(tracer, 2)
            mt.finish(tracer)
        mt.check(mt.report(d / "a.mtr")["sampling"]["windows"] == 2, "the one that was asked for")


def test_an_odd_step_is_worth_a_window():
    with mt.scratch() as d, mt.job("mlp") as job:
        with mt.start("record", "-vv", "-p", str(job.pid), "-o", str(d / "a.mtr"), "--max-overhead", "2") as tracer:
            wait_for_gap(job, 1)
            def wanted():
                return sum(WANTED in line for line in list(tracer.err))
            before = wanted()
            if before:  # a busy machine held a step up: no other one is wanted until that had its window
                mt.note("a step was held up before")
                wait_for_window(tracer, 2)
            job.signal(signal.SIGUSR1)
            job.line("rests")
            time.sleep(2)
            job.signal(signal.SIGUSR1)
            mt.wait_until(lambda: wanted() > before, "a window is wanted")
            mt.finish(tracer)


def test_a_live_view_has_a_budget():
    """Unless told otherwise: some steps with the attach, and what it is at says so; record traces all, and so does --max-overhead none."""
    job = mt.shared_job("mlp")
    with mt.start("-p", str(job.pid)) as tracer:
        mt.wait_until(lambda: any(" steps_traced=3 " in line for line in list(tracer.out)), "three traced steps", 30)
        wait_for_no_probes(job)
        line = next(line for line in list(tracer.out) if " steps_traced=3 " in line)
        mt.finish(tracer)
    text = " ".join(" ".join(tracer.out).split())
    mt.check("after half a minute at most 2 % of the job's time" in " ".join(tracer.err), f"{tracer.err}")
    mt.check(" cpu.PARAMETER=99840 " in line and " price=" in line, line)
    mt.check("of the job's time (2 % in the long run)" in text, f"the report does not say so: {text[-2000:]}")
    for args in (("-p", job.pid, "-d", 2, "--max-overhead", "none", "--json"), ("-p", job.pid, "-d", 2, "--keep-idle", "--json")):
        rep = json.loads(mt.ok(mt.memtrace(*args), (0, 3)).stdout)
        mt.check("sampling" not in rep, f"{args}: {rep.get('sampling')}")
    mt.check_goes_on(job)


def test_all_jobs_have_a_budget():
    """-a: those that are there, and one that comes while nothing is traced."""
    with mt.scratch() as d, mt.job("mlp") as first:
        path = d / "all.mtr"
        with mt.start("record", "-a", "--max-overhead", "5", "-o", str(path)) as tracer:
            wait_for_gap(first, 1)
            with mt.job("mlp", "--width", "32") as second:
                mt.wait_until(lambda: mt.probed(second.pid, mt.OP), "the second job's probes", 30)
                wait_for_no_probes(second)
                mt.wait_until(lambda: mt.probed(second.pid, mt.OP) and mt.probed(first.pid, mt.OP), "a window of both", 90)
                wait_for_no_probes(second)
                mt.finish(tracer, path)
        rep = mt.report(path, (0, 3))
    sampling, seen = rep["sampling"], {p["pid"] for p in rep["processes"]}
    mt.note(f"{sampling['windows']} windows, price {sampling['price_ratio']:.3f}")
    mt.check({first.pid, second.pid} <= seen and sampling["windows"] >= 2 and sampling["budget"] == 0.05, f"{sampling}, {seen}")


def wait_for_no_probes(job):
    mt.wait_until(lambda: not mt.probed(job.pid, mt.OP) and not mt.probed(job.pid, mt.NEW), "a gap", 60)


GIVES_UP = re.compile(r"(steps are only watched|there are no windows); --max-overhead [\d.]+ would pay for ")


def test_dear_marks_go_between_windows():
    """Where marks of steps alone take more than a quarter of the budget, they come with a window and go when it is priced; where all of
    it is not enough for a window, none comes, and memtrace stays and says so."""
    job = mt.shared_job("mlp")
    with mt.scratch() as d:
        for budget in ("0.2", "0.01", "0.0001"):
            path = d / f"{budget}.mtr"
            with mt.start("record", "-vv", "-p", str(job.pid), "-o", str(path), "--max-overhead", budget) as tracer:
                wait_for_gap(job, 1)
                mt.wait_until(lambda: not has_probe(job, MARK), "marks to go", 60)
                begin, since = mt.steps_of(job), time.monotonic()  # 100 steps may take less than what is looked for below
                mt.wait_until(lambda b=begin, s=since: mt.steps_of(job) > b + 100 and time.monotonic() > s + 1, "steps", 30)
                if budget == "0.0001":  # 3.6 ms an hour: no window ever, and it says what would pay for one
                    mt.wait_until(lambda t=tracer: any(GIVES_UP.search(line) for line in list(t.err)), "a word on what would be enough", 60)
                mt.check(tracer.alive() and not has_probe(job, MARK), f"it went on, untraced: {tracer.err[-3:]}")
                mt.finish(tracer, path)
            sampling = mt.report(path)["sampling"]
            text = " ".join(mt.ok(mt.memtrace("report", path, "-v")).stdout.split())
            mt.note(f"{budget} %: price {sampling['price_ratio']:.4f}, uncounted {sampling.get('uncounted_ns', 0) / 1e9:.1f} s")
            mt.check(sampling["windows"] == 1 and sampling["uncounted_ns"] > 0.5e9, f"{sampling}")
            mt.check("were not counted" in text, f"the report does not say so: {text[-2000:]}")
    mt.check_goes_on(job)


def test_a_window_waits_for_its_step():
    """--align: the first traced step of a window has a multiple of it as its number, by the optimizer's own count, which is the job's too."""
    with mt.scratch() as d, mt.job("mlp") as job:
        path = d / "aligned.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "2", "--every", "3s", "--align", "50") as tracer:
            # the first ones come before the optimizer's count was read
            mt.wait_until(lambda: sum(bool(w.get("step")) for w in grown.so_far(path).get("sampling", {}).get("traced", [])) >= 4, "four windows", 120, 1)
            mt.finish(tracer, path)
        traced = mt.report(path)["sampling"]["traced"]
    mt.note(f"{[(w.get('step'), w['steps']) for w in traced]}")
    known = [w["step"] for w in traced if w.get("step")]
    mt.check(len(known) >= 3 and not any(step % 50 for step in known[1:]), f"{traced}")
    mt.check(all(w["steps"] == 2 for w in traced[:-1]), f"{traced}")


def test_ranks_trace_the_same_steps():
    """Four processes that step together, each with a memtrace of its own that was attached at another moment: --align has them trace the
    same steps. Put together they are not: they are of one machine, and nobody could say what was traced of all."""
    with mt.scratch() as d, contextlib.ExitStack() as stack:
        launcher = stack.enter_context(mt.Proc([*test_ranks.torchrun(4, "together")], env=test_ranks.env()))
        mt.wait_until(lambda: sum(line.startswith("rank ") for line in list(launcher.out)) == 4, "four ranks", 120)
        pids = [int(line.split()[2]) for line in sorted(line for line in launcher.out if line.startswith("rank "))]
        tracers = []
        for i, pid in enumerate(pids):
            tracers.append(stack.enter_context(mt.start("record", "-p", str(pid), "-o", str(d / f"{i}.mtr"), "--no-follow", "--steps", "2",
                                                        "--every", "1s", "--align", "200")))
            mt.wait_attached(tracers[-1], pid, mt.OP, 60)
        for _ in range(6):
            for up in (True, False):
                mt.wait_until(lambda u=up: mt.probed(pids[-1], mt.OP) == u, "a window of the last one", 60)
        for tracer in tracers:
            tracer.signal(signal.SIGINT)
        for i, tracer in enumerate(tracers):
            mt.finish(tracer, d / f"{i}.mtr", signal_number=0)
        launcher.signal(signal.SIGTERM)
        merged = mt.ok(mt.memtrace("merge", *(d / f"{i}.mtr" for i in range(4)), "-o", d / "all.mtr"), (1,))
        mt.check("are of one machine, and both trace some steps only" in " ".join(merged.stderr.split()) and not (d / "all.mtr").exists(),
                 f"merge: {merged.stderr}")
        traced = [[w["step"] for w in mt.report(d / f"{i}.mtr", (0, 3))["sampling"]["traced"] if w.get("step")] for i in range(4)]
    mt.note(f"{traced}")
    common = set.intersection(*map(set, traced))
    mt.check(len(common) >= 2 and not any(step % 200 for step in common), f"{traced}")


def changed(how, steps, *options, windows=1):
    """(what a job that changes says that it did, what its report says) when so many steps were watched, and so many windows are over."""
    with mt.scratch() as d, mt.job("changing", how, "--quiet") as job:
        path = d / "changing.mtr"
        with mt.start("record", "-q", "-p", str(job.pid), "-o", str(path), *options) as tracer:
            wait_for_gap(job, windows)
            mt.wait_until(lambda: watched_of(path) >= steps, f"{steps} steps that are watched", 110 if steps < 400 else 330, 2)
            mt.finish(tracer)
        job.signal(signal.SIGTERM)
        did = json.loads(job.line("{", 60))
        return did, mt.report(path, (0, 3))


def test_a_spike_is_worth_a_window():
    """128 MiB for a moment: RSS was as high as never before, so a window is wanted. It comes when that is over, and the verdict says so:
    how high, and when."""
    with mt.scratch() as d, mt.job("changing", "evaluation", "--quiet") as job:
        path = d / "a.mtr"
        with mt.start("record", "-vv", "-p", str(job.pid), "-o", str(path), "--max-overhead", "2") as tracer:
            wait_for_gap(job, 1)
            time.sleep(2)  # of what is usual between windows
            at = time.time()
            job.signal(signal.SIGUSR2)
            mt.wait_until(lambda: any("a window is wanted: RSS" in line for line in list(tracer.err)), "a window is wanted", 30)
            mt.wait_until(lambda: sum("state 2 at" in line for line in list(tracer.err)) >= 2, "its window", 80)
            time.sleep(2)
            mt.finish(tracer)
        rep, text = mt.report(path, (0, 3)), " ".join(mt.memtrace("report", path).stdout.split())
        mt.check("rss" in [w["why"] for w in rep["sampling"]["traced"]], f"{rep['sampling']['traced']}")
        said = [line for line in rep["verdict"] if line["kind"] == "spike"]
        mt.check(said and "RSS was" in said[0]["text"] and abs(said[0]["bytes"] - (128 << 20)) < 16 << 20, f"{rep['verdict']}")
        mt.check(said[0]["text"] in text, text[:1000])
        after = re.search(r"for a moment after (?:(\d+) min )?([\d.]+) (ms|s)\b", said[0]["text"])
        mt.check(after, said[0]["text"])
        begin = rep["start_ns"] / 1e9 + 60 * int(after[1] or 0) + float(after[2]) / (1000 if after[3] == "ms" else 1)
        mt.check(-1.5 < begin - at < 3, f"{begin - at:.1f} s after the signal: {said[0]['text']}")


def check_changing(how, steps=400, options=("--steps", "3", "--every", "3s"), windows=1):
    """What sampling saw of it against the truth: (the kind of most steps, other kinds, all that is said of sampling, the job's word)."""
    did, rep = changed(how, steps, *options, windows=windows)
    sampling = rep["sampling"]
    kinds = sorted(sampling["step_kinds"], key=lambda k: -k["watched"])
    mt.note(f"{how}: {did}; of {sampling['steps_seen']} steps {sampling['steps_traced']} traced in {sampling['windows']} windows, kinds "
            f"{[(k['watched'], k['traced'], k['took_ns'], k['peaks']) for k in kinds]}")
    mt.check(steps < sampling["steps_seen"] <= did["steps"] and sampling["steps_traced"] >= 3, f"{sampling}")
    mt.check(not [leak for leak in rep["leaks"] if leak["sure"] != "low"], f"nothing leaks: {rep['leaks']}")
    return kinds[0], kinds[1:], sampling, did


def test_evaluation_every_50_steps():
    """Steps with an evaluation take many times as long: they are a kind, also where no window had one."""
    usual, others, _, did = check_changing("evaluation", 600, ("--steps", "3", "--every", "20s"))
    wanted = sum(k["watched"] + k["traced"] for k in [usual, *others]) / 50
    # Steps that waited for a CPU are longer, too, on a busy machine.
    longer = [k for k in others if k["took_ns"] > max(3 * usual["took_ns"], 0.7 * did["evaluation_ns"])]
    found = sum(k["watched"] + k["traced"] for k in longer)
    mt.check(longer and wanted / 2 <= found <= wanted * 1.5 + 2, f"{found} steps are said to be longer, {wanted:.0f} are: {others}")


def test_growing_sequences():
    """Batches that grow by and by are one kind, and what is said of its mean says that it may be off by much."""
    usual, others, *_ = check_changing("growing", 500, windows=3)  # of one alone nobody knows how far it is off
    act = usual["mean_step"]["devices"]["cpu"]["categories"]["ACTIVATION"]
    mt.check(usual["watched"] >= 0.8 * sum(k["watched"] for k in [usual, *others]), f"{usual}, {others}")
    mt.check(act["mean_error"] > act["mean"] / 20, f"steps differ, and no error is told: {act}")


def test_accumulation_of_8():
    """A step of eight batches is one step, and all are alike."""
    usual, others, *_ = check_changing("accumulate", 100)
    mt.check(usual["watched"] >= 0.8 * sum(k["watched"] for k in [usual, *others]) and usual["peaks"] == 1, f"{usual}, {others}")


def test_a_checkpoint_every_200_steps():
    """What is written for a moment neither grows nor changes what the other steps are made of."""
    usual, _, sampling, _ = check_changing("checkpoint", 400, ("--steps", "3", "--every", "2s"), 3)
    cpu = usual["mean_step"]["devices"]["cpu"]
    mt.check(sampling["windows"] >= 3 and 0 <= cpu["peak_error"] < cpu["peak"] / 10, f"{sampling['windows']} windows: {usual}")


def stretches(tracer):
    """[(begin, end)] in which probes came or went, but for the first attach; [(begin, end)] of as long in which nothing was under way."""
    at = [(int(m[3]), int(m[2])) for m in map(STATE.search, list(tracer.err)) if m]
    first = next(i for i, (_, state) in enumerate(at) if state == REST)  # all sites are set until then, and go
    pairs = list(zip(at[first:], at[first + 1:]))
    changes = [(a, b) for (a, state), (b, _) in pairs if state == GAP]
    length = int(statistics.median(b - a for a, b in changes))
    rests = [(t, t + length) for (a, state), (b, _) in pairs if state == REST for t in range(a, b - length, length)]
    return changes, rests


def test_nobody_waits_longer_at_a_change_of_level():
    """A step of a job that hits a probe every microsecond, while the probes of what it uses go and come back; beside what it waits
    between changes, when nothing is done: then it is the machine that keeps it waiting."""
    with mt.scratch() as tmp:
        with mt.job("gaps", tmp / "log") as job:
            with mt.start("record", "-vv", "-p", str(job.pid), "-o", str(tmp / "some.mtr"), "--steps", "3", "--every", "4s") as tracer:
                wait_for_gap(job, 6)
                mt.finish(tracer)
            job.signal(signal.SIGTERM)
            mt.check(job.wait() == 0, f"the job failed: {job.err}")
        waits = test_gaps.records(tmp / "log", 3)
    changes, rests = stretches(tracer)
    felt, alone = ([test_gaps.while_of(waits, *w) for w in whiles] for whiles in (changes, rests))
    mt.note(f"{len(changes)} changes of {statistics.median(b - a for a, b in changes) / 1e6:.0f} ms: longest wait of a step, ms: median "
            f"{statistics.median(felt):.1f}, most {max(felt):.1f}; in {len(rests)} stretches as long without one {statistics.median(alone):.1f}, "
            f"{max(alone):.1f}")
    quarter = statistics.quantiles(alone, n=4)[2]
    mt.check(len(changes) >= 8 and len(rests) >= 6, f"{len(changes)} changes, {len(rests)} rests")
    # As in test_gaps: whoever else has the CPU when memtrace holds the job's lock is none of its doing; in a quarter of the rests it was
    # as bad or worse.
    mt.check(statistics.median(felt) - quarter <= test_gaps.EXTRA_MS_MAX, f"steps waited {felt} ms, else {alone}")
