# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Recompiles of torch.compile, against the job's own list of them (docs/compiled.md)."""
import csv
import json
import pickle
import re
import sqlite3

import browser
import grown
import mt
import planted_page
import test_page
import test_serve
import test_tui

JOB = "recompiled"
EXTRA = 64 << 20
RNG_STATE = 5056  # bytes: torch.get_rng_state()
READY_S = 120
TIMEOUT_S = {"attached": 240, "launched": 240, "without_dynamo": 120}
SLOW = {"launched"}
LANDING = {"gives_up"}


def wait_for(tracer, ids):
    """Each was told: its word is in the log."""
    mt.wait_until(lambda: not tracer.alive() or all(any(f"compiled forward {i} " in t for t in list(tracer.err)) for i in ids),
                  f"the compilations {ids}", 30)
    mt.check(tracer.alive(), "; ".join(tracer.err[-5:]))


def wait_for_looks(tracer):
    mt.wait_until(lambda: sum("names of" in t for t in list(tracer.err)) >= 2 or not tracer.alive(), "two looks at Python", 90)
    mt.check(tracer.alive(), "; ".join(tracer.err[-5:]))


def go(job, out):
    job.tell("go")
    job.line("went", 120)
    return json.loads(out.read_text())


def forwards(said):
    return [r for r in said["rows"] if not r["backward"]]


def again(said):
    """Those after the first of a frame, with the time of its backward."""
    backward = {r["id"]: r["end_us"] - r["begin_us"] for r in said["rows"] if r["backward"]}
    return [dict(r, us=r["end_us"] - r["begin_us"] + backward.get(r["id"], 0)) for r in forwards(said) if r["reason"]]


def check_row(row, want):
    reason = want["reason"].splitlines()[0].split(": ", 1)[1]
    mt.check(row["compile_id"] == want["id"] and row["reason"] == reason, f"{row}: {want}")
    mt.check(abs(row["t"] / 1e3 - want["begin_us"]) < 50_000, f"begun {row['t']}: {want['begin_us']} us")
    mt.check(abs(row["ns"] / 1e3 - want["us"]) <= 2, f"took {row['ns']} ns: {want['us']} us")
    mt.check(row["function"].startswith("forward (recompiled.py:"), f"{row}")
    mt.check(bool(row["failed"]) == bool(want["failed"]), f"{row}: {want}")
    if not row["before"]:
        # Dynamo keeps the random generators' state meanwhile; its 5,056 bytes come soon after the beginning, or within the same 8 ms.
        least = 0 if want["failed"] else EXTRA
        mt.check(least <= row["added"] <= least + RNG_STATE, f"{row['added']} bytes more: {want}")


def check_report(rep, said):
    c, want = rep["compiles"], again(said)
    mt.note(f"{c['recompiles']} recompiles of {c['count']} compilations in {c['ns'] / 1e9:.2f} s, "
            f"{c['recompiles_before']} before; +{c['added_most'] / 2**20:.1f} MiB")
    mt.check(c["count"] == len(forwards(said)) and not c["missed"], f"{c}")
    mt.check(c["recompiles"] + c["recompiles_before"] == len(want) == len(c["rows"]), f"{c}: {want}")
    for row, w in zip(c["rows"], want):
        check_row(row, w)
    mt.check(sum(r["count"] for r in c["reasons"]) == len(want) and len(c["reasons"]) == 1, f"{c['reasons']}")
    return c


def check_views(mtr, rep, c):
    text = mt.ok(mt.memtrace("report", mtr, "-v")).stdout
    words = " ".join(text.split())
    mt.check("Recompiles (torch.compile)" in text and "frame 0 the 3rd time, +64.0 MiB for" in words, text)
    mt.check("size mismatch at index 0" in words and "Dynamo recompile limit exceeded" in words, text)
    mt.check(any(v["kind"] == "recompiles" for v in rep["verdict"]), f"{rep['verdict']}")
    rows = [r for r in mt.export(mtr) if r["ev"] == "recompile" and not r["backward"]]
    mt.check([r["compile_id"] for r in rows] == [r["compile_id"] for r in c["rows"]], f"{rows}")
    mt.check([r["added"] for r in rows] == [r["added"] for r in c["rows"]], f"{rows}")
    metrics = mt.ok(mt.memtrace("export", mtr, "--to", "openmetrics")).stdout
    seconds = re.search(r"^memtrace_recompile_seconds_total ([0-9.]+)", metrics, re.M)
    mt.check(f"memtrace_recompiles_total {c['recompiles']}" in metrics and seconds, metrics[-500:])
    mt.check(abs(float(seconds[1]) - sum(r["ns"] for r in c["rows"] if not r["before"]) / 1e9) < 1e-3, f"{seconds[0]}: {c}")
    asked = {n for p in test_serve.dashboard()["panels"] for t in p["targets"] for n in re.findall(r"memtrace_recompile\w+", t["expr"])}
    mt.check(len(asked) == 2 and all(f"\n{n} " in metrics for n in asked), f"the dashboard asks for {asked}")
    chrome = json.loads(mt.ok(mt.memtrace("export", mtr, "--to", "chrome")).stdout)["traceEvents"]
    mt.check(sum(e.get("name") == "recompile" and not e["args"]["backward"] for e in chrome) == c["recompiles"], "not in chrome's")
    check_tables(mtr, rep, c)


def check_annotations_of_a_part(mtr, whole, path, start_us):
    """Marks and recompiles of torch-snapshot after --from, up to --until; the first recompile's end is in it, its begin is not."""
    begin, end = (next(a["time_us"] for a in whole if a["stage"] == stage) for stage in ("START", "END"))
    first, last = (begin + end) // 2, max(a["time_us"] for a in whole)
    bounds = ("--from", f"{(first - start_us) / 1000:.3f}ms", "--until", f"{(last - 1 - start_us) / 1000:.3f}ms")
    mt.ok(mt.memtrace("export", mtr, "--to", "torch-snapshot", "-o", path, *bounds))
    got = json.loads(path.read_text())["external_annotations"]
    want = [a for a in whole if first < a["time_us"] < last]
    mt.check(got == want and 2 < len(got) < len(whole) and {a["stage"] for a in got} >= {"MARK", "END"}, f"{bounds}: {got}: {want}")


def check_tables(mtr, rep, c):
    """csv, sqlite and perfetto; what came before the trace is on no track."""
    rows = [r for r in csv.DictReader(mt.ok(mt.memtrace("export", mtr, "--to", "csv")).stdout.splitlines()) if r["ev"] == "recompile"]
    told = [(r["name"], int(r["ns"]), int(r["size"] or 0), r["op"], r["region"], int(r["step"] or 0)) for r in rows if r["phase"] == "forward"]
    forward = {r["compile_id"]: r["ns"] for r in mt.export(mtr) if r["ev"] == "recompile" and not r["backward"]}
    want = [(r["compile_id"], forward[r["compile_id"]], r["added"] or 0, r["function"], r["reason"], r["step"]) for r in c["rows"]]
    mt.check(told == want and all(r["type"] == "" and None not in r for r in rows), f"csv: {told}: {want}")
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("export", mtr, "--to", "sqlite", "-o", tmp / "a.db"))
        mt.ok(mt.memtrace("export", mtr, "--to", "torch-snapshot", "-o", tmp / "a.pickle"))
        annotations = pickle.loads((tmp / "a.pickle").read_bytes())["external_annotations"]
        told = [a["stage"] for a in annotations if a["name"].startswith("torch.compile, again: forward (recompiled.py:")]
        mt.check(told == ["START", "END"] * c["recompiles"], f"torch's snapshot: {told}")
        check_annotations_of_a_part(mtr, annotations, tmp / "part.json", rep["start_ns"] // 1000)
        db = sqlite3.connect(tmp / "a.db")
        told = db.execute("SELECT compile_id, ns, ifnull(added, 0), function, reason, ifnull(step, 0) FROM compiles"
                          " WHERE again AND NOT backward ORDER BY begin_ns").fetchall()
        db.close()
        mt.check(told == want, f"sqlite: {told}: {want}")
        mt.ok(mt.memtrace("export", mtr, "--to", "perfetto", "-o", tmp / "a.pftrace"))
        seen = len(re.findall(rb"recompile(?!d)", (tmp / "a.pftrace").read_bytes()))  # not the job's name
    backwards = sum(r["ev"] == "recompile" and r["backward"] and r["t"] >= rep["start_ns"] for r in mt.export(mtr))
    mt.check(seen == c["recompiles"] + backwards, f"perfetto has {seen} of {c['recompiles']} and {backwards}")


# Where the row under the first process's bands is red, and where a line of it would begin and end.
RED = """(() => {
    const c = document.querySelector("#bands"), k = devicePixelRatio, y = Math.round(35.5 * k);
    const d = c.getContext("2d").getImageData(0, y, c.width, 1).data, probe = document.createElement("i");
    probe.style.color = getComputedStyle(document.documentElement).getPropertyValue("--bad");
    document.body.append(probe);
    const [r, g, b] = getComputedStyle(probe).color.match(/[0-9]+/g).map(Number), red = [];
    probe.remove();
    for (let x = 0; x < c.width; x++)
        if (d[4 * x] === r && d[4 * x + 1] === g && d[4 * x + 2] === b)
            red.push(x / k);
    const rows = memtrace.model().report.compiles.rows.filter((c) => !c.before);
    return {red, lines: rows.map((c) => [c.t, c.t + c.ns].map((t) => toX(t - memtrace.model().report.start_ns)))};
})()"""


def check_page(mtr, c):
    """A red line for each that was seen, where it was, and none beside."""
    with browser.open(test_page.page_of(mtr)) as page:
        test_page.clean(page)
        seen = page.js(RED)
        mt.check(len(seen["lines"]) == c["recompiles"] and seen["red"], f"{seen}")
        for begin, end in seen["lines"]:
            mt.check(all(x in seen["red"] for x in range(int(begin) + 1, int(end))), f"no line from {begin} to {end}: {seen['red']}")
        beside = [x for x in seen["red"] if not any(begin - 1 <= x <= max(end, begin + 2) + 1 for begin, end in seen["lines"])]
        mt.check(not beside, f"red at {beside}: {seen['lines']}")
        mt.check(f"compiles again ({c['recompiles']} times)" in test_page.text_of(page, "#chart-note"), "the note has no word of it")
        cells = page.js("[...document.querySelectorAll('#recompiles tbody tr')].map((r) => [...r.children].map((c) => c.title || c.textContent))")
        told = [[f"{r['added'] or 0} bytes", r["function"], r["failed"] or r["reason"]] for r in sorted(c["rows"], key=lambda r: -r["t"])]
        mt.check([[row[2], *row[4:]] for row in cells] == told, f"{cells}, wanted {told}")


def check_tui(mtr, c):
    with test_tui.Tmux(f"{mt.MEMTRACE} report {mtr} --tui", 120, 40) as tui:
        tui.wait(rf"{c['recompiles']} recompiles +\d+ steps")
        tui.keys("1", "Left", "Left")
        tui.wait(r"because.*\n before .*forward \(recompiled.py:\d+\) +tensor 'x' size mismat")
        tui.wait(r"\n step \d+ .* 64\.0 MiB .*tensor 'x' size mismat.*\n step \d+ .*Dynamo recompile limit exceeded")
        mt.check("\u21bb" in tui.screen(), f"no sign of it under the chart: {tui.screen()}")
        tui.keys("q")
        tui.check_restored()


def test_attached():
    """In mid-run: what was compiled again before is told as such, what comes has its bytes."""
    with mt.scratch() as tmp, mt.job(JOB, "--out", tmp / "said.json", "--warm", ready=False) as job:
        job.line("ready ", READY_S)
        mtr = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(mtr), "-vv") as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP, 60)
            wait_for_looks(tracer)
            said = go(job, tmp / "said.json")
            mt.finish(tracer, mtr)  # at once: what came since the last look is found by one at the end
        job.tell("stop")
        rep = mt.report(mtr)
        c = check_report(rep, said)
        mt.check(c["recompiles_before"] == 1 and [r["before"] for r in c["rows"]] == [True, False, False, False], f"{c['rows']}")
        mt.check([r["step"] > 0 for r in c["rows"][2:]] == [True, True], f"{c['rows']}")
        check_views(mtr, rep, c)
        check_tui(mtr, c)
        check_page(mtr, c)


def test_launched():
    """From its start: all of them have their bytes."""
    with mt.scratch() as tmp:
        mtr = tmp / "a.mtr"
        job = [mt.PYTHON, mt.JOBS / f"{JOB}.py", "--out", tmp / "said.json"]
        with mt.start("record", "-o", str(mtr), "-vv", "--", *job) as tracer:
            tracer.line("ready ", READY_S)
            wait_for_looks(tracer)
            said = go(tracer, tmp / "said.json")
            wait_for(tracer, [r["id"] for r in forwards(said)])
            tracer.tell("stop")
            mt.finish(tracer, mtr, 0)
        rep = mt.report(mtr)
        c = check_report(rep, said)
        mt.check(not c["recompiles_before"], f"{c}")
        limit, sums = rep["verdict"][:2]
        mt.check(limit["kind"] == sums["kind"] == "recompiles" and "gave up" in limit["text"] and "compiled again" in sums["text"]
                 and "mark_dynamic" in limit["next"] and not sums["next"], f"{rep['verdict']}")
        check_views(mtr, rep, c)


def test_gives_up():
    """The limit of recompiles: what the verdict says, and what to do; the guard without its source line's blanks."""
    with mt.scratch() as tmp:
        mtr = tmp / "a.mtr"
        with mt.start("record", "-o", mtr, "--", mt.PYTHON, mt.JOBS / "gives_up.py") as tracer:
            limit = int(tracer.line("limit ", READY_S).split()[1])
            grown.wait(tracer, mtr, lambda rep: any("gave up" in line["text"] for line in rep.get("verdict", [])), "that it gave up")
            tracer.tell("stop")
            mt.finish(tracer, mtr, 0)
        first = mt.report(mtr)["verdict"][0]
        mt.check(first["kind"] == "recompiles" and first["text"].startswith("torch.compile gave up on forward (gives_up.py:12)")
                 and re.search(rf"because \S*epoch == {limit - 1} \(gives_up\.py:13 in forward\)$", first["text"])
                 and "allow_unspec_int_on_nn_module" in first["next"], f"{first}")
        planted_page.first("gives_up", [first])


def test_without_dynamo():
    """A job that does not import it is not asked, and no view has a word of it."""
    with mt.scratch() as tmp, mt.job("mlp") as job:
        mtr = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(mtr), "-vv") as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP, 60)
            wait_for_looks(tracer)
            mt.finish(tracer, mtr)
        rep = mt.report(mtr)
        mt.check("compiles" not in rep, f"{rep.get('compiles')}")
        mt.check("Recompiles" not in mt.ok(mt.memtrace("report", mtr, "-v")).stdout, "a heading without a row")
