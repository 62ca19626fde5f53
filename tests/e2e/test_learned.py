# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Labels of what is allocated between windows (--between blocks), learned from traced steps: of recordings of all steps, whose gaps are
cut out (gaps_of.c), each label against what the whole recording says of the same block at the same moment (learned_of.c)."""
import csv
import itertools
import json
import sqlite3
import subprocess

import grown
import mt
import peaks
import test_levels

SLOW = {"labels_of_a_transformer", "labels_of_a_convolutional_network", "labels_of_an_lstm", "labels_of_four_lengths_in_turn",
        "labels_of_growing_lengths", "labels_with_accumulation", "labels_of_kinds_of_steps", "labels_of_a_session_between_windows"}
LANDING = {"labels_of_an_mlp", "allocations_are_seen_where_the_budget_pays"}
TIMEOUT_S = {"allocations_are_seen_where_the_budget_pays": 400}  # windows are paid for first
ALONE = {"allocations_are_seen_where_the_budget_pays"}  # by the job's own steps
RIGHT = 0.99  # of byte·time, in category and operator
FORMATS = ("jsonl", "csv", "torch-timeline", "torch-raw", "torch-snapshot", "perfetto", "chrome", "pprof", "folded", "openmetrics", "sqlite", "html")


def check_views(path, folder):
    """All views read it; what is learned is marked, and is in no number that was measured."""
    rep = mt.report(path)
    learned = rep["sampling"]["learned"]
    events = mt.export(path)
    marked = [e for e in events if e.get("learned")]
    mt.check(marked and all(e["ev"] in ("create", "destroy") for e in marked), "records that are marked")
    by_op = {}
    for e in marked:
        by_op[e["op"]] = by_op.get(e["op"], 0) + (e["ev"] == "create")
    mt.check({op["name"]: op["count"] for op in learned["ops"]}.items() <= by_op.items(), f"by operator: {learned['ops']}, in jsonl {by_op}")
    for name in FORMATS:
        mt.ok(mt.memtrace("export", path, "--to", name, "-o", folder / f"out.{name}"))
    with open(folder / "out.csv", encoding="utf-8", newline="") as f:  # the same as a table
        rows = [row for row in csv.DictReader(f) if row["learned"]]
    keys = ("ev", "id", "cat", "op", "region", "module", "phase")
    mt.check([[row[k] for k in keys] for row in rows] == [[str(e.get(k) or "") for k in keys] for e in marked], f"csv: {rows[:2]}, jsonl: {marked[:2]}")
    with sqlite3.connect(folder / "out.sqlite") as db:
        rows = db.execute("SELECT count(*) FROM learned JOIN blocks ON blocks.id = learned.block").fetchone()[0]
        mt.check(rows == sum(e["ev"] == "create" for e in marked), f"{rows} in sqlite")
    text = mt.ok(mt.memtrace("report", path, "-v")).stdout
    mt.check("its like in a traced step" in " ".join(text.split()), text[-1500:])
    mt.check("memtrace_learned_ratio" in (folder / "out.openmetrics").read_text(), "no metric")
    return learned


def compositions(full, times):
    """Bytes of each category on the CPU at these times, by a recording of all steps."""
    events, cats, blocks, at = mt.export(full), {}, {}, 0

    def move(block, size, cat):
        was, sized = blocks.pop(block, (None, 0))
        cats[was] = cats.get(was, 0) - sized
        if cat is not None:
            blocks[block] = cat, size
            cats[cat] = cats.get(cat, 0) + size

    for t in times:
        while at < len(events) and events[at]["t"] <= t:
            e, at = events[at], at + 1
            if e.get("dev") == "cpu" and e["ev"] in ("create", "preexisting", "version", "destroy") and e["size"]:
                move(e["id"], e["size"], None if e["ev"] == "destroy" else e["cat"])
        yield cats


def last_step(full):
    return max(e["t"] for e in mt.export(full, ("--ops",)) if e["ev"] == "mark" and e["mark"] == "step")


def seen_steps(rep, last):
    """[(begin, end)] between windows, without the step in which the recording ends: its blocks have no label."""
    return [(begin, min(until, last)) for begin, until in rep["sampling"]["seen"]]


def check_page(full, last, folder):
    """The chart between windows: true bytes, and categories as the whole recording has them."""
    doc, lane, _ = peaks.page(folder / "out.html")
    seen = seen_steps(doc["report"], last)
    times = [doc["report"]["start_ns"] + t for t in itertools.accumulate(lane["t"])]
    drawn = {cat: list(itertools.accumulate(deltas)) for cat, deltas in lane["cats"].items()}
    wrong = live = cnt = 0
    for i, truth in enumerate(compositions(full, times)):
        if any(begin < times[i] < until for begin, until in seen):
            then = {cat: of[i] for cat, of in drawn.items()}
            wrong += sum(abs(then.get(cat, 0) - truth.get(cat, 0)) for cat in then.keys() | truth.keys() if cat) / 2
            live += sum(then.values())
            cnt += 1
    mt.note(f"page: {cnt} moments in {len(seen)} gaps, {wrong / max(live, 1):.2%} of their bytes have another category")
    mt.check(cnt > 20 * len(seen) and wrong <= (1 - RIGHT) * live, f"{wrong} of {live} bytes in {cnt} moments")


def check_counters(full, last, path, folder):
    """Counters of chrome and perfetto go on between windows, with learned categories; the report has a series of true bytes there."""
    rep = mt.report(path)
    seen = seen_steps(rep, last)
    trace = json.loads((folder / "out.chrome").read_text())
    events = trace["traceEvents"]
    counters = [(trace["baseTimeNanoseconds"] + round(e["ts"] * 1000), e["args"]) for e in events if e["ph"] == "C" and e["name"] == "cpu memory"]
    counters = [c for c in counters if any(begin < c[0] < until for begin, until in seen)]
    wrong = live = 0
    for (_, got), truth in zip(counters, compositions(full, [t for t, _ in counters]), strict=True):
        wrong += sum(abs(got.get(c, 0) - truth.get(c, 0)) for c in got.keys() | truth.keys() if c) / 2
        live += sum(got.values())
    slices = [e for e in events if e.get("cat") == "gap" and e["name"] == "only allocations traced"]
    mt.note(f"chrome: {len(counters)} counters between windows, {wrong / max(live, 1):.2%} of their bytes have another category")
    mt.check(len(counters) > 20 * len(seen) and wrong <= (1 - RIGHT) * live, f"{wrong} of {live} bytes in {len(counters)} counters")
    mt.check(len(slices) == len(seen), f"{len(slices)} slices of gaps, {len(seen)} gaps")
    cpu = test_levels.cpu_of(rep)["between"]
    points = [p for p in cpu["points"] if any(begin < p[0] and p[0] + cpu["bucket_ns"] < until for begin, until in seen)]
    highest = {t: max((sum(args.values()) for at, args in counters if t + 1000 < at < t - 1000 + cpu["bucket_ns"]), default=0) for t, _, _ in points}
    mt.check(points and all(most >= highest[t] for t, most, _ in points), f"series {points[:3]}, counters {list(highest.items())[:3]}")


def held(path, time_ns, start_ns, *options):
    rep = json.loads(mt.ok(mt.memtrace("report", path, "--at", f"{(time_ns - start_ns) / 1e9:.9f}s", "--by", "category", "--json", *options)).stdout)
    return {row["name"]: row["bytes"] for row in rep["by"]["category"]}, rep["moment"]


def check_moments(full, path):
    """Moments between windows: by `report --at` they hold what the whole recording says, marked as learned."""
    rep, whole = mt.report(path), mt.report(full)
    begin, until = rep["sampling"]["seen"][len(rep["sampling"]["seen"]) // 2]
    for i in range(1, 4):
        time_ns = begin + (until - begin) * i // 4
        (got, moment), (truth, _) = held(path, time_ns, rep["start_ns"]), held(full, time_ns, whole["start_ns"])
        wrong = sum(abs(got.get(c, 0) - truth.get(c, 0)) for c in got.keys() | truth.keys()) / 2
        mt.check(moment["learned"] and wrong <= (1 - RIGHT) * moment["bytes"], f"{got}, by all steps {truth}")
        name = max(got, key=got.get)
        of, _ = held(path, time_ns, rep["start_ns"], "--category", name)
        mt.check(of == {name: got[name]}, f"--category {name}: {of}, without it {got}")
    done = mt.memtrace("report", path, "--at", f"{(rep['sampling']['gaps'][0][0] - rep['start_ns']) / 1e9 + 0.001}s")
    mt.check(done.returncode == 1, f"before the first window nothing was seen: {done}")
    # What was allocated between windows is filtered, and named as living before, by what its lines say.
    late = mt.export(path, ("--from", f"{(begin + (until - begin) // 2 - rep['start_ns']) / 1e9:.9f}s"))
    born = {e["id"]: e for e in mt.export(path) if e["ev"] == "create"}
    marked = [e for e in late if e["ev"] == "preexisting" and e.get("learned")]
    mt.check(marked and all((e["cat"], e["op"]) == (born[e["id"]]["cat"], born[e["id"]]["op"]) for e in marked), f"{marked[:3]}")
    for name in {e["cat"] for e in marked}:
        lines = [e for e in mt.export(path, ("--category", name)) if e["ev"] == "create"]
        mt.check(lines and all(e["cat"] == name for e in lines), f"--category {name}: {[e for e in lines if e['cat'] != name][:3]}")


def check_labels(job, *args, steps=80, every=12):
    mt.ok(mt.make("build/tests/gaps_of", "build/tests/learned_of"))
    with mt.scratch() as d:
        full, path, watched = d / "full.mtr", d / "gaps.mtr", d / "watched.mtr"
        with mt.job(job, *args) as running:
            grown.record(full, running, grown.after_attach(steps), f"{steps} steps")
        subprocess.run([mt.BUILD / "tests" / "gaps_of", full, "3", str(every), path, "blocks"], check=True)
        subprocess.run([mt.BUILD / "tests" / "gaps_of", full, "3", str(every), watched], check=True)
        out = subprocess.run([mt.BUILD / "tests" / "learned_of", full, path], check=True, stdout=subprocess.PIPE).stdout
        got = json.loads(out)
        learned = check_views(path, d)
        last = last_step(full)
        check_page(full, last, d)
        check_counters(full, last, path, d)
        check_moments(full, path)
        mt.check("learned" not in mt.report(watched)["sampling"], "where allocations are not seen nothing is learned")
    mt.note(f"{got['blocks']} blocks: {got['label']:.2%} have a label, category right {got['category']:.2%}, operator {got['op']:.2%}, module {got['module']:.2%}; wrong: "
            f"{got['wrong'][:4]}; {learned['steps']} steps of {learned['kinds']} kinds, {learned['steps_unlike']} like none; "
            f"{learned['checks']} checks, {learned['mismatch']:.2%} wrong, learned again {learned['relearnt']} times")
    mt.check(got["blocks"] > 500 and got["category"] >= RIGHT and got["op"] >= RIGHT, f"{got}")
    return learned


def test_labels_of_an_mlp():
    learned = check_labels("mlp")
    mt.check(learned["checks"] and learned["mismatch"] < 0.01, f"{learned}")


def test_labels_of_a_transformer():
    check_labels("transformer", "--batch", "4")


def test_labels_of_a_convolutional_network():
    check_labels("conv", "--batch", "4")


def test_labels_of_an_lstm():
    check_labels("lstm")


def test_labels_of_four_lengths_in_turn():
    """No step has the sizes of the one before."""
    check_labels("turns")


def test_labels_of_growing_lengths():
    """Nor those of any other one."""
    check_labels("grows")


def test_labels_with_accumulation():
    """Eight small batches a step, or seven, and an evaluation in every fifth."""
    # One of its kinds comes every 35 steps. Before it is in a window it is not known, and its steps are labelled as those of another kind: with 3
    # of 12 traced, up to the tenth time, by chance; with 3 of 8, up to the third.
    check_labels("accumulates", steps=360, every=8)


def test_labels_of_kinds_of_steps():
    check_labels("alternating", steps=120)


def test_labels_of_a_session_between_windows():
    """Not cut out of a recording: a session that takes its probes away and sets them again."""
    with mt.scratch() as d, mt.job("mlp") as job:
        path = d / "blocks.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "3", "--every", "1s", "--between", "blocks") as tracer:
            test_levels.wait_for_gap(job, 4)
            mt.finish(tracer, path)
        learned = check_views(path, d)
    mt.note(f"{ {k: v for k, v in learned.items() if k not in ('ops', 'devices')} }")
    mt.check(learned["steps"] > 10 and learned["share"] > 0.9 and learned["checks"] >= 2 and learned["mismatch"] < 0.02, f"{learned}")


def test_allocations_are_seen_where_the_budget_pays():
    """Nobody asked for them: steps are only watched until a window has shown what they would take, and then they are seen, and learned."""
    with mt.scratch() as d, mt.job("transformer", "--batch", "16") as job:
        path = d / "auto.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--max-overhead", "50", "--steps", "2", "--every", "4s") as tracer:
            test_levels.wait_for_gap(job, 1)
            mt.wait_until(lambda: not test_levels.has_probe(job, mt.NEW), "a first gap without them", 30)
            test_levels.wait_for_gap(job, 1)
            mt.check(test_levels.has_probe(job, mt.NEW), "what allocates keeps its probes from the second window on")
            test_levels.wait_for_gap(job, 2)
            mt.finish(tracer, path)
        sampling = mt.report(path)["sampling"]
    mt.note(f"{test_levels.brief(sampling)}; learned: {sampling['learned']['share']:.1%}, {len(sampling['seen'])} of {len(sampling['gaps'])} gaps seen")
    mt.check(0 < sampling["price_ratio"] <= 0.55, f"{sampling}")
    mt.check(0 < len(sampling["seen"]) < len(sampling["gaps"]) and sampling["learned"]["share"] > 0.9 and sampling["learned"]["checks"], f"{sampling}")
