# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""--at, --from, --to and the filters, against the lives of all blocks as export --to jsonl tells them, and against the report."""
import collections
import csv
import json
import re
import time

import grown
import mt

LANDING = {"moments_and_filters"}
TIMEOUT_S = {"moments_and_filters": 300}


def lives_of(rows):
    """{id: [born, died or None, size, [(since, category)], row of birth]}"""
    lives = {}
    for r in rows:
        if r["ev"] in ("create", "preexisting") and r["size"] is not None:
            lives[r["id"]] = [r["t"], None, r["size"], [(r["t"], r["cat"])], r]
        elif r["ev"] == "version" and r["id"] in lives:
            lives[r["id"]][3].append((r["t"], r["cat"]))
        elif r["ev"] == "destroy" and r["id"] in lives:
            lives[r["id"]][1] = r["t"]
    return lives


def held_at(lives, t):
    """{id: category} of what lived at t."""
    return {i: [cat for since, cat in cats if since <= t][-1] for i, (born, died, _, cats, _) in lives.items()
            if born <= t and (died is None or died > t)}


def bytes_by(lives, held, key):
    sums = collections.Counter()
    for i, cat in held.items():
        sums[key(lives[i][4], cat)] += lives[i][2]
    return {k: v for k, v in sums.items() if v}


def rows(doc, by):
    return {r["name"]: r["bytes"] for r in doc["by"][by] if r["bytes"]}


def test_moments_and_filters():
    with mt.scratch() as tmp:
        path = tmp / "a.mtr"
        grown.record(path, mt.shared_job("transformer"), grown.after(lambda rep: grown.named(rep) and grown.made_by(rep, "block"), 9),
                     "nine steps with modules")
        rep, events = mt.report(path), mt.export(path, ("--ops",))
        lives, start = lives_of(events), rep["start_ns"]
        ends = {r["step"]: r["t"] for r in events if r["ev"] == "mark" and r["mark"] == "step"}
        mt.check(len(ends) > 8, f"steps: {ends}")

        def ask(*args):
            return json.loads(mt.ok(mt.memtrace("report", path, "--json", "--top", 100000, *args)).stdout)

        peak = ask("--at", "peak")
        cpu = rep["devices"]["cpu"]
        mt.check(peak["moment"]["bytes"] == peak["bytes"] == cpu["peak"], f"{peak['moment']} {cpu['peak']}")
        mt.check(rows(peak, "category") == {k: c["at_peak"] for k, c in cpu["categories"].items() if c["at_peak"]}, "categories")
        mt.check({k: v for k, v in rows(peak, "op").items() if k} == {o["name"]: o["at_peak"] for o in rep["ops"] if o["at_peak"]}, "ops")

        # Modules of the peak are the report's, which knows them in hindsight: it may lie before the first look at Python.
        own = {f"{m['root']}.{m['name']}".strip("."): m["own"]["at_peak"] for m in rep["modules"]["list"] if m["own"]["at_peak"]}
        mt.check(own and all(rows(peak, "module").get(k, 0) >= v for k, v in own.items()), f"{rows(peak, 'module')} {own}")

        # The highest moment of a step, and a moment in its middle, as the events have them.
        n = sorted(ends)[-4]
        inside = (ends[n - 1], ends[n])
        times = [r["t"] for r in events if r["ev"] == "create" and inside[0] < r["t"] <= inside[1]]
        highest = max(sum(lives[i][2] for i in held_at(lives, t)) for t in times)
        step = ask("--at", f"step {n}")
        t = step["moment"]["time_ns"]
        mt.check(step["moment"]["step"] == n and inside[0] <= t <= inside[1] and step["bytes"] == highest, f"{step['moment']} {highest}")
        middle = times[len(times) // 2] - start
        for doc in step, ask("--at", f"{middle / 1e9:.9f}s"):
            held = held_at(lives, doc["moment"]["time_ns"])
            mt.check(doc["bytes"] == sum(lives[i][2] for i in held) and doc["blocks"] == len(held), f"{doc['moment']}: {len(held)} blocks")
            mt.check(rows(doc, "category") == bytes_by(lives, held, lambda r, cat: cat), "by category")
            mt.check(rows(doc, "op") == bytes_by(lives, held, lambda r, cat: r["op"] or ""), "by operator")

        # Marks are seen before blocks are: of a step that was over before the first one nothing can be said.
        seen = min(r["t"] for r in events if r["ev"] == "create")
        for early in [min(ends)] if ends[min(ends)] < seen else []:
            done = mt.memtrace("report", path, "--at", f"step {early}")
            mt.check(done.returncode == 1 and "before the first allocation was seen" in done.stderr, f"{done}")
            mt.note(f"step {early} was over before the first block was seen")
        done = mt.memtrace("report", path, "--at", "0.001s")
        mt.check(done.returncode == 1 and "1.00 ms after the start probes were still being set" in done.stderr, f"{done}")
        mt.ok(mt.memtrace("diff", path, path, "-o", tmp / "d.html"))
        points = re.findall(r'"points":\s*\[\[0,\s*(\w+)\]', (tmp / "d.html").read_text())
        mt.check(points and set(points) == {"null"}, f"the diff's chart begins with {points}")

        # What a module made is that module's, and what none made the module's whose it is by name. Of a late step: before Python
        # was first looked at no module is known.
        made = bytes_by(lives, held_at(lives, step["moment"]["time_ns"]), lambda r, cat: r.get("module"))
        made = {k: v for k, v in made.items() if k}
        by_module = rows(step, "module")
        mt.check("block" in made and all(by_module.get(f"Model.{k}", 0) >= v for k, v in made.items()), f"{by_module} {made}")

        # Filters count a part of the same moment; the parts are the whole.
        parts = 0
        for cat in rows(step, "category"):
            part = ask("--at", f"step {n}", "--category", cat.lower())
            mt.check(part["moment"] == step["moment"] and part["filter"] == {"at": f"step {n}", "category": cat}, f"{part['filter']}")
            parts += part["bytes"]
        mt.check(parts == step["bytes"], f"categories: {parts} of {step['bytes']}")
        # An export that begins at that time has the same blocks of a module, or operator, as the report.
        at = f"{(step['moment']['time_ns'] - start) / 1e9:.9f}s"
        for part in ("--module", "block"), ("--op", "aten::mul"):
            there, doc = [e for e in mt.export(path, ("--from", at, *part)) if e["ev"] == "preexisting"], ask("--at", at, *part)
            mt.check(doc["bytes"] and (len(there), sum(e["size"] for e in there)) == (doc["blocks"], doc["bytes"]), f"{part}: {len(there)}, {doc['blocks']}")
        block = ask("--at", f"step {n}", "--module", "block", "--by", "module")
        inner = {k: v for k, v in rows(step, "module").items() if f"{k}.".startswith("Model.block.")}
        mt.check(rows(block, "module") == inner and list(block["by"]) == ["module"], f"{block['by']} {inner}")
        mt.check(rows(ask("--at", f"step {n}", "--module", "Model", "--by", "module", "--depth", 2), "module").get("Model.block") == sum(inner.values()), "--depth")
        op = max(rows(step, "op"), key=rows(step, "op").get)
        mt.check(rows(ask("--at", f"step {n}", "--op", op), "op") == {op: rows(step, "op")[op]}, op)
        born = [r for r in events if r["ev"] == "create" and ends[n - 3] < r["t"] <= ends[n]]
        some = ask("--from", f"step {n - 2}", "--to", f"step {n}")
        mt.check((some["allocs"], some["alloc_bytes"]) == (len(born), sum(r["size"] for r in born)), f"{some['allocs']} {len(born)}")
        by_count = [r["allocs"] for r in ask("--from", f"step {n - 2}", "--until", f"step {n}", "--sort", "allocs")["by"]["op"]]
        mt.check(by_count == sorted(by_count, reverse=True) and len(set(by_count)) > 1, f"--sort allocs: {by_count}")

        # An export of the step: what lived when it began, then the events of the step.
        out = mt.export(path, ("--at", f"step {n}"))
        mt.check(out[0]["ev"] == "filter" and out[0]["filter"] == {"at": f"step {n}"}, f"{out[0]}")
        met = {r["id"] for r in out[1:] if r["ev"] == "preexisting" and r["t"] == inside[0]}
        mt.check(met == set(held_at(lives, inside[0])), "what lived when the step began")
        whole = [(r["ev"], r["id"]) for r in events if "id" in r and r["ev"] in ("create", "version", "destroy") and inside[0] < r["t"] <= inside[1]]
        mt.check([(r["ev"], r["id"]) for r in out[1:] if r["ev"] in ("create", "version", "destroy")] == whole, "events of the step")

        # Memory after each operator of that step: as it is in the whole recording's.
        def after_operators(*args):
            mt.ok(mt.memtrace("export", path, "--to", "op-trace", *args, "-o", tmp / "t.jsonl", "--force"))
            return [json.loads(line) for line in open(tmp / "t.jsonl")]

        whole = {(r["t"], r["ev"], r.get("name"), r["tid"]): r["allocated"] for r in after_operators() if "allocated" in r}
        first, *of_step, last = after_operators("--at", f"step {n}")
        mt.check(first["filter"] == {"at": f"step {n}"} and last["ev"] == "end" and len(of_step) > 50, f"{first} {last}")
        mt.check([r for r in of_step if r["allocated"] != whole.get((r["t"], r["ev"], r.get("name"), r["tid"]))] == [], "op-trace of the step")
        mt.ok(mt.memtrace("export", path, "--to", "trace-svg", "--at", f"step {n}", "-o", tmp / "t.svg"))
        head = (tmp / "t.svg").read_text()[:2000]
        mt.check(re.search(rf"after each of \d\d+ outermost operators, highest \S+ MiB, at step {n}<", head), head)
        only = mt.export(path, ("--category", "gradient"))
        live = lives_of(only[1:])
        final = held_at(live, 1 << 63)
        mt.check(sum(live[i][2] for i in final) == cpu["categories"]["GRADIENT"]["live"] and set(final.values()) <= {"GRADIENT"}, "gradients")

        # In another order: the same lines, the largest first; and stacks with the most first.
        def lines(to, *args):
            return mt.ok(mt.memtrace("export", path, "--to", to, *args)).stdout.splitlines()

        plain, by_size = (list(csv.DictReader(lines("csv", "--at", f"step {n}", *args))) for args in ((), ("--sort", "size")))
        sizes = [int(r["size"]) if r["size"] else -1 for r in by_size]
        key = lambda r: -int(r["size"]) if r["size"] else 1
        mt.check(by_size == sorted(plain, key=key) and by_size != plain, f"--sort size: {sizes[:20]}")
        folded = {sort: lines("folded", "--sort", sort) for sort in ("seen", "bytes", "stack")}
        amounts = [int(line.rsplit(" ", 1)[1]) for line in folded["bytes"]]
        mt.check(amounts == sorted(amounts, reverse=True) and len(set(amounts)) > 3, f"--sort bytes: {amounts}")
        mt.check(folded["stack"] == sorted(folded["seen"]) == sorted(folded["bytes"]) and folded["seen"] == lines("folded"), "the same stacks")
        mt.expect_failure(mt.memtrace("export", path, "--to", "perfetto", "-o", tmp / "x", "--sort", "size"), 2, "order of its own", "jsonl, csv and folded")

        after_s = json.loads(mt.ok(mt.memtrace("report", path, "--at", "peak", "--json")).stdout)["moment"]["after_ns"] / 1e9
        for form in ((), ("--md",)):
            at, over = (mt.ok(mt.memtrace("report", path, "--at", when, *form)).stdout for when in (f"{after_s}s", f"step {n}"))
            mt.check("held " in at and "allocated" not in at and "times" not in at and "allocated in that time: " in over, f"{at}{over}")
        text = mt.ok(mt.memtrace("report", path, "--at", f"step {n}", "--category", "activation")).stdout
        mt.check(f"in step {n}" in text and "category ACTIVATION" in text and "By module" in text, text)
        table = mt.ok(mt.memtrace("report", path, "--at", "peak", "--by", "category", "--csv")).stdout
        mt.check(table.startswith("name,bytes,blocks"), table[:200])
        for args, words in ((("--module", "nothing"), ("no module called nothing", "the largest are Model.")),
                            (("--op", "nothing"), ("no operator called nothing", "the largest are aten::")),
                            (("--at", "step 100000"), ("no whole step 100000", "it has steps")),
                            (("--at", "99h"), ("after the end", "lasts")), (("--rank", "3"), ("no rank 3",)),
                            (("--pid", "1"), ("no process 1",)), (("--device", "cuda:0"), ("cpu",))):
            mt.expect_failure(mt.memtrace("report", path, *args), 1, *words)


def test_time_between_recordings():
    """Two recordings of one job, merged: means are of what was traced, and each view says that the time between was not."""
    with mt.scratch() as d:
        with mt.job("transformer", "--quiet", "--rest", 20) as job:
            for name in ("a", "b"):
                mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 2, "-o", d / f"{name}.mtr"))
                time.sleep(3 if name == "a" else 0)
        mt.ok(mt.memtrace("merge", d / "a.mtr", d / "b.mtr", "-o", d / "both.mtr"))
        one, two, rep = mt.report(d / "a.mtr"), mt.report(d / "b.mtr"), mt.report(d / "both.mtr")
        alone = one["traced_ns"] + two["traced_ns"]
        mt.check(abs(rep["traced_ns"] - alone) < 0.01 * alone, f"{rep['traced_ns']} of {alone} ns traced")
        held = [sum(c["byte_ns"] for c in r["devices"]["cpu"]["categories"].values()) for r in (one, two, rep)]
        # What the second one has seen before its probes were set is not in it.
        mt.check(held[0] + held[1] / 2 < held[2] <= 1.001 * (held[0] + held[1]), f"byte·time {held}")
        (begin, end, lost), = rep["gaps"]
        mt.check("sampling" not in rep and lost == rep["paused_ns"] == end - begin > 3e9, f"{rep['gaps']} {rep['paused_ns']}")
        for points, width in ((rep["devices"]["cpu"]["series"]["points"], rep["devices"]["cpu"]["series"]["bucket_ns"]),
                              (rep["kernel"]["series"]["points"], rep["kernel"]["series"]["bucket_ns"])):
            mt.check(points and not any(begin < p[0] and p[0] + width < end for p in points), f"points in the gap of {width} ns")
        gaps = [r for r in mt.export(d / "both.mtr") if r["ev"] == "gap"]
        mt.check([(g["t"], g["begins"]) for g in gaps] == [(begin, True), (end, False)], f"{gaps}")
        text = mt.ok(mt.memtrace("report", d / "both.mtr")).stdout
        mt.check(re.search(r" s of [0-9.]+ s traced, ", text) and "between merged recordings, in 1 pause" in " ".join(text.split()), text)
        middle = ((begin + end) / 2 - rep["start_ns"]) / 1e9
        mt.expect_failure(mt.memtrace("report", d / "both.mtr", "--at", f"{middle:.3f}s"), 1, "nothing was traced from", "traced before that: --until")
