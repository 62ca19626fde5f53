# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Gates for CI: check, and diff with --by, --md and --fail-if, against what the report of the same recordings says."""
import json
import os
import re
import shlex
import signal

import grown
import mt
import test_mcp
import test_tui

LANDING = {"names_of_jobs_that_ended", "gates"}

END_FRAME_BYTES = 168  # of an ended recording, the last ones


def record(job, path):
    grown.record(path, job, grown.knows_python, "names of its modules")


def test_gates():
    with mt.scratch() as tmp:
        a, b = tmp / "a.mtr", tmp / "b.mtr"
        record(mt.shared_job("mlp"), a)
        rep = mt.report(a)
        cpu = rep["devices"]["cpu"]
        peak = cpu["peak"]

        def check(*args):
            return mt.memtrace("check", a, *args)
        within, above = check("--max-peak", peak, "--json"), check("--max-peak", peak - 1, "--json")
        one, two = json.loads(within.stdout), json.loads(above.stdout)
        mt.check((within.returncode, above.returncode) == (0, 5) and one["ok"] and not two["ok"], f"{within} {above}")
        mt.check(one["peak"] == one["bytes"] == peak and sum(one["at_peak"].values()) == peak and one["device"] == "cpu", f"{one}")
        cat = max(one["at_peak"], key=one["at_peak"].get)
        bytes_ = one["at_peak"][cat]
        mt.check(check("--max-peak", bytes_, "--category", cat.lower()).returncode == 0, "a category within")
        mt.check(check("--max-peak", bytes_ - 1, "--category", cat).returncode == 5, "a category above")
        text = check("--max-peak", 1)
        mt.check(text.returncode == 5 and text.stdout.startswith("above the limit: cpu"), text.stdout)
        md = check("--max-peak", "1T", "--md")
        mt.check(md.returncode == 0 and "| cpu |" in md.stdout and "within the limit" in md.stdout, md.stdout)
        mt.check("end is missing" not in md.stdout + check("--max-peak", "1T").stdout, "a whole recording")
        cut = tmp / "cut.mtr"
        cut.write_bytes(a.read_bytes()[:a.stat().st_size // 2])
        for args in ((), ("--md",)):
            done = mt.memtrace("check", cut, "--max-peak", "1T", *args)
            mt.check(done.returncode == 0 and "the recording's end is missing" in done.stdout.lower(), f"a cut one: {done}")
            mt.check(f"{cut} was cut or damaged: its last " in done.stderr, f"a cut one: {done}")
        cut.write_bytes(a.read_bytes()[:-END_FRAME_BYTES])  # as one that is still being written
        done = mt.memtrace("check", cut, "--max-peak", "1T")
        words = "is still being written, or its end is missing; the numbers cover what is there"
        mt.check(done.returncode == 0 and done.stderr == f"memtrace: {cut} {words}\n", f"one without an end: {done}")
        notes = mt.report(cut)["coverage"]["notes"]
        mt.check("The recording is still being written, or its end is missing: the numbers cover what is there." in notes, f"{notes}")
        mt.expect_failure(check("--max-peak", "1T", "--device", "cuda:0"), 1, "no memory of cuda:0")

        record(mt.shared_job("transformer"), b)
        other = mt.report(b)["devices"]["cpu"]["peak"]
        small, large = (a, b) if peak < other else (b, a)
        grown = abs(other - peak)

        def diff(*args, files=(small, large)):
            return mt.memtrace("diff", *files, *args)
        mt.check(grown > 0, "both have the same peak")
        mt.check(diff("--fail-if", f"peak+{grown}").returncode == 0 and diff("--fail-if", f"peak+{grown - 1}").returncode == 5, "bytes")
        done = diff("--fail-if", "peak+0%", "--json")
        mt.check(done.returncode == 5 and "cpu: the peak grew" in done.stderr and json.loads(done.stdout)["rows"], done.stderr)
        mt.check(diff("--fail-if", "peak+0%", files=(large, small)).returncode == 0, "what shrank is within")

        for by, key, path in (("module", "modules", b), ("name", "names", b)):
            doc = json.loads(mt.ok(diff("--by", by, "--json", "--top", 100000)).stdout)
            side = "a" if path == small else "b"
            rows = {r["name"]: r[side] for r in doc["rows"]}
            mt.check(doc["by"] == by and len(rows) == len(doc["rows"]) > 1, f"{by}: {len(rows)} of {len(doc['rows'])}")
            whole = mt.report(path)
            if by == "module":
                for m in (m for m in whole["modules"]["list"] if m["name"] is not None):
                    name = ".".join(x for x in (m["root"], m["name"]) if x)
                    mt.check(rows[name]["at_peak"] == m["all"]["at_peak"], f"{name}: {rows[name]} {m}")
                # what is live after the last whole step, of all modules and of none, is what the device has then, and its categories
                device, cats = ({r["name"]: r[side] for r in json.loads(mt.ok(diff("--by", k, "--json", "--top", 1000)).stdout)["rows"]}
                                for k in ("device", "category"))
                live = [sum(r["live"] for n, r in rows.items() if "." not in n), device["cpu"]["live"], sum(r["live"] for r in cats.values())]
                mt.check(live[0] == live[1] == live[2] > 0, f"{live}")
            else:
                lasting = sum(t["bytes"] for t in whole["names"]["list"] if t["kind"] != "gradient")
                mt.check(sum(r["live"] for r in rows.values()) == lasting, "bytes of names")
        mt.expect_failure(diff("--by", "rank"), 1, "has no ranks")
        empty = tmp / "empty.mtr"
        mt.ok(mt.memtrace("record", "-q", "-o", empty, "--", mt.PYTHON, "-c", "pass"))
        for files, side in (((a, empty), "B"), ((empty, a), "A"), ((empty, empty), "A and B")):
            mt.expect_failure(diff("--fail-if", "peak+5%", files=files), 1, "empty.mtr has no memory of any device")
            said = mt.ok(diff(files=files)).stdout
            mt.check(said.startswith(f"No memory was seen in {side}: there is nothing to compare\n"), said[:200])
        md = mt.ok(diff("--by", "module", "--md", "--top", 3)).stdout
        lines = [x for x in md.splitlines() if x.startswith("| ")]
        mt.check(md.startswith("**The peak rose from "), md[:200])
        doc = json.loads(mt.ok(diff("--json")).stdout)
        share = f"({100 * grown / min(peak, other):+.1f} %)"
        mt.check(doc["summary"].startswith("The peak rose from") and share in doc["summary"], f"{doc['summary']}, {share}")
        mt.check("fell from" in mt.ok(diff(files=(large, small))).stdout.split("\n")[0], "the other way round")
        text = mt.ok(diff(files=(a, a))).stdout
        mt.check("the same within 1 %" in text and re.search(r"\n\nNo difference by operator: \d+ rows are the same in both \(--json\)\n", text)
                 and "change" not in text, f"of one recording: {text}")
        md = mt.ok(diff("--md", files=(a, a))).stdout
        mt.check("No difference by operator: " in md and "\n|" not in md, f"of one recording: {md}")
        text = mt.ok(diff("--top", 1000)).stdout
        mt.check(not [x for x in text.splitlines() if x.startswith("  aten::") and x.split()[1:] == ["0", "B"] * 9], "rows of nothing")
        mt.check(len(lines) == 1 + 3 and lines[0].count("|") == lines[1].count("|"), md)
        mt.expect_failure(diff("--by", "process"), 2, "--by rank")


def check_report_of_one(path, rep, pid, peak):
    """Its report, its leaks, its estimate, and the commands that are proposed are about it alone."""
    one = json.loads(mt.ok(mt.memtrace("report", path, "--pid", pid, "--json")).stdout)
    mt.check(one["target"]["choice"] == f"--pid {pid}" and "jobs" not in one["target"] and rep["target"]["jobs"] == 2, f"{rep['target']}")
    commands = [v["command"] for v in one["verdict"] if v["command"].startswith(("memtrace report", "memtrace estimate"))]
    mt.check(commands and all(f" FILE --pid {pid}" in c for c in commands), f"{one['verdict']}")
    for command in commands:  # as they are pasted
        mt.ok(mt.memtrace(*shlex.split(command.replace(" FILE ", f" {path} "))[1:]))
    for args in ((), ("--at", "peak")):  # its own peak, not its step at that of all
        held = json.loads(mt.ok(mt.memtrace("report", path, "--pid", pid, "--by", "op", "--json", *args)).stdout)
        mt.check((held["bytes"], held["moment"]["time_ns"]) == (peak, one["devices"]["cpu"]["peak_ns"]), f"{args}: {held['moment']}, {one['devices']['cpu']}")
    mt.check(" grow" in mt.ok(mt.memtrace("report", path, "--pid", pid, "--leaks")).stdout, "its leaks")
    nodes = [json.loads(x) for x in mt.ok(mt.memtrace("report", path, "--pid", pid, "--flow", "--json")).stdout.splitlines()]
    mt.check({n["pid"] for n in nodes if "pid" in n} == {pid}, f"{nodes[:3]}")
    estimate = json.loads(mt.ok(mt.memtrace("estimate", path, "--pid", pid, "--json")).stdout)
    mt.check((estimate["peak"], estimate["choice"]) == (peak, f"--pid {pid}") and "jobs" not in estimate, f"{estimate}, {peak}")
    mt.check(f"cpu (--pid {pid}), " in mt.ok(mt.memtrace("estimate", path, "--pid", pid)).stdout, "whose it is")
    together = " ".join(mt.ok(mt.memtrace("estimate", path)).stdout.split())
    mt.check(f"2 jobs had that together: --pid or --rank chooses one (memtrace report {path} --by process" in together, together[:400])


def check_screen_of_one(path, pid):
    with test_tui.Tmux(f"{mt.MEMTRACE} report {path} --tui --pid {pid}") as tui:
        tui.wait(rf"memtrace  {pid}  .*detached.*at the peak")
        tui.keys("[")  # a moment that is read again, of it alone
        tui.wait(r"category +then +at peak.*[\d.]+ m?s(, step \d+)?: [\d.]+ [KM]?i?B")
        tui.keys("9")
        mt.check(len(re.findall(r"^ +\d+ .* (running|detached) ", tui.still().split("9 Processes")[1], re.M)) == 1, tui.screen())
        tui.keys("q")
        mt.check(tui.check_restored() == 0, tui.history())


def check_limit_of_one(path, pid, peak):
    def check(*args):
        return mt.memtrace("check", path, "--max-peak", *args)
    within, above = check(peak, "--pid", pid), check(peak - 1, "--pid", pid)
    mt.check((within.returncode, above.returncode) == (0, 5), f"{within} {above}")
    mt.check(f"cpu (--pid {pid}) had" in " ".join(within.stdout.split()) and "together" not in within.stdout, within.stdout)
    for args in ((), ("--md",)):
        text = " ".join(mt.ok(check("1T", *args)).stdout.split())
        mt.check(f"2 jobs had that together: --pid or --rank chooses one (memtrace report {path} --by process" in text, text)
    mt.check(json.loads(mt.ok(check("1T", "--json")).stdout)["jobs"] == 2, "jobs in JSON")


def check_diff_of_one(path, a, b, peaks):
    def diff(*args):
        return json.loads(mt.ok(mt.memtrace("diff", path, path, "--json", *args)).stdout)
    for chosen, pids in ((f"{a},{b}", (a, b)), (a, (a, a))):
        doc = diff("--pid", chosen, "--by", "device")
        cpu = next(r for r in doc["rows"] if r["name"] == "cpu")
        mt.check((cpu["a"]["at_peak"], cpu["b"]["at_peak"]) == tuple(peaks[p] for p in pids), f"{cpu}, {peaks}")
        mt.check([doc[s]["choice"] for s in "ab"] == [f"--pid {p}" for p in pids] and not any("jobs" in n for n in doc["notes"]), f"{doc}")
    named = diff("--pid", a, "--by", "name", "--top", 1000)["rows"]
    mt.check(0 < sum(r["a"]["at_peak"] for r in named) <= peaks[a], f"{named}, {peaks[a]}")
    mt.check(len([n for n in diff()["notes"] if re.match(r"[AB] is 2 jobs together: --pid or --rank", n)]) == 2, "what is of several jobs")
    mt.expect_failure(mt.memtrace("diff", path, path, "--pid", f"{a},1"), 1, "has no process 1", "--pid A,B is process A of the first")
    for args, pids in (({"pid_before": a, "pid_after": b}, (a, b)), ({"pid_after": b}, (b, b))):
        said, = test_mcp.talk([path], [test_mcp.call("diff", before=path.name, after=path.name, by="device", **args)])
        doc = said["result"]["structuredContent"]
        mt.check(tuple(doc[s]["choice"] for s in "ab") == tuple(f"--pid {p}" for p in pids), f"{doc}")
    small, large = sorted((a, b), key=peaks.get)
    mt.check(mt.memtrace("diff", path, path, "--pid", f"{small},{large}", "--fail-if", "peak+0%").returncode == 5, "it grew")
    mt.check(mt.memtrace("diff", path, path, "--pid", f"{large},{small}", "--fail-if", "peak+0%").returncode == 0, "it shrank")


def test_one_of_several_jobs():
    """Two jobs in one recording: report, check, diff and estimate of one of them, by --pid; and what they say without."""
    with mt.scratch() as tmp, mt.job("mlp", "--width", 64) as a, mt.job("mlp", "--width", 256) as b:
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(a.pid), "-p", str(b.pid), "-o", str(path)) as tracer:
            def is_there(rep):
                steps = {s["pid"] for s in rep.get("phases", {}).get("steps", [])}
                return {a.pid, b.pid} <= steps and grown.knows_python(rep) and {t["pid"] for t in rep["names"]["list"]} >= {a.pid, b.pid}
            grown.wait(tracer, path, is_there, "steps and names of both")
            mt.finish(tracer, path)
        rep = mt.report(path)
        peaks = {p["pid"]: p["peak"] for p in rep["processes"] if p["pid"] in (a.pid, b.pid)}
        mt.check(len(set(peaks.values())) == 2 and sum(peaks.values()) >= rep["devices"]["cpu"]["peak"] > max(peaks.values()), f"{peaks}")
        check_report_of_one(path, rep, b.pid, peaks[b.pid])
        check_screen_of_one(path, b.pid)
        check_limit_of_one(path, a.pid, peaks[a.pid])
        check_diff_of_one(path, a.pid, b.pid, peaks)


def test_names_of_jobs_that_ended():
    """Nothing lives at the end of either: what their peaks had is compared, as a report of each peak has it."""
    with mt.scratch() as tmp:
        a, b = tmp / "a.mtr", tmp / "b.mtr"
        for path, width in ((a, 64), (b, 128)):
            with grown.launched(path, mt.PYTHON, mt.JOBS / "planted.py", "none", "--width", width, "--quiet") as (tracer, pid):
                grown.wait(tracer, path, lambda rep: grown.named(rep, "optimizer_state") >= 12, "names of the optimizer's state")
                os.kill(pid, signal.SIGTERM)
                mt.check(tracer.wait(60) == 0, f"record: {tracer.popen.returncode}: {tracer.err}")
        doc = json.loads(mt.ok(mt.memtrace("diff", a, b, "--by", "name", "--json", "--top", 1000)).stdout)
        for side, path in (("a", a), ("b", b)):
            peak = json.loads(mt.ok(mt.memtrace("report", path, "--at", "peak", "--by", "name", "--json", "--top", 1000)).stdout)
            wanted = {r["name"]: r["bytes"] for r in peak["by"]["name"] if r["name"] and not r["name"].startswith("gradient of ")}
            rows = {r["name"]: r[side]["at_peak"] for r in doc["rows"] if r[side]["at_peak"]}
            mt.check(rows == {k: v for k, v in wanted.items() if v} and len(rows) > 4, f"{rows} {wanted}")
            mt.check(not any("live" in r[side] for r in doc["rows"]), "nothing is said of the end of a job that has ended")
        weight = next(r for r in doc["rows"] if r["name"].endswith(": 0.weight") and r["name"].startswith("Adam exp_avg:"))
        mt.check(weight["change"]["at_peak"] == 4 * (128 * 128 - 64 * 64), f"{weight}")
        first, second = (r["change"]["at_peak"] for r in sorted(doc["rows"], key=lambda r: -r["change"]["at_peak"])[:2])
        mt.check(first == second > 0 and "more (+" in doc["summary"] and "most in" not in doc["summary"], f"{first} {second}: {doc['summary']}")
        text = mt.ok(mt.memtrace("diff", a, b, "--by", "name")).stdout
        mt.check("Sequential: 0.weight" in text and "gradient of" not in text, text)
        mt.check(not re.search(r" 0 B +\S+ \S+ +\S+ \S+ +0 B$", text, re.M), f"rows of no change: {text}")
        # What a step allocates in modules, whose names came when steps had gone by, and in none is what it allocates.
        modules, whole = ({r["name"]: r for r in json.loads(mt.ok(mt.memtrace("diff", a, b, "--by", by, "--json", "--top", 1000)).stdout)["rows"]}
                          for by in ("module", "device"))
        for side in "ab":
            roots = sum(modules[name][side]["alloc_bytes"] for name in ("Sequential", "(no module)"))
            mt.check(abs(roots - whole["cpu"][side]["alloc_bytes"]) <= 2, f"{side}: {roots} {whole}")
