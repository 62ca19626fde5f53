# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What grows: planted leaks are named first, clean jobs have none; two recordings side by side; the flight recorder."""
import json
import os
import signal
import subprocess
import time

import grown
import mt
import planted_page

SLOW = {"line_of_malloc", "holder_of_a_graph", "window_of_five_seconds", "window_at_new_peaks", "window_of_a_recording", "diff_of_batches", "cache", "malloc", "diff_says_what_does_not_compare"}
LANDING = {"of_a_job_that_ended", "stacks", "line_is_not_looked_for", "line_of_a_graph", "holder_of_a_cache", "graph", "window_files"}
BATCH, WIDTH = 32, 64


def record(job, path, *args, seconds=2, attaches=0):
    """So long after the attach, or so many times as long as that took: its steps are in the recording, its allocations hardly."""
    begin = time.monotonic()
    with mt.start("record", "-p", str(job.pid), "-o", str(path), *args) as tracer:
        mt.wait_attached(tracer, job.pid)
        time.sleep(max(seconds, attaches * (time.monotonic() - begin)))
        mt.finish(tracer, path)
    return path


def leaks_of(kind, *args):
    with mt.scratch() as d, mt.job("planted", kind, "--batch", BATCH, "--width", WIDTH, "--quiet", "--warmup", 0.3) as job:
        rep = mt.report(record(job, d / "a.mtr", *args, attaches=4))
        text = mt.ok(mt.memtrace("report", d / "a.mtr", "--leaks")).stdout
    return rep, text


# --- leaks ---------------------------------------------------------------------------------------------------

def test_graph():
    """losses.append(loss): the largest activation of the step is named first, by its operator."""
    rep, text = leaks_of("graph")
    first = rep["leaks"][0]
    kept = BATCH * WIDTH * 4
    mt.check(first["op"] in ("aten::addmm", "aten::tanh") and first["dev"] == "cpu", f"the first growing place: {first}")
    mt.check(first["per"] == "step" and first["bytes_slope"] >= kept, f"{kept} bytes of activations a step: {first}")
    mt.check({"aten::tanh", "aten::_log_softmax"} <= {l["op"] for l in rep["leaks"]}, f"{[l['op'] for l in rep['leaks']]}")
    mt.check(all(l["sure"] in ("high", "medium") for l in rep["leaks"][:2]), f"{rep['leaks'][:2]}")
    mt.check(first["op"] in text.splitlines()[3], text)
    whole = sum(l["bytes_slope"] for l in rep["leaks"])
    grown = rep["devices"]["cpu"]["live"] / max(rep["steps"], 1)
    mt.check(0.8 < whole / grown < 1.25, f"growing places grow by {whole} a step, the job by {grown}")


def test_cache():
    rep, _ = leaks_of("cache")
    mt.check(rep["leaks"] and rep["leaks"][0]["op"] == "aten::sort", f"{rep['leaks'][:2]}")
    mt.check(rep["leaks"][0]["bytes_slope"] == BATCH * WIDTH * 8, f"int64 indices: {rep['leaks'][0]}")
    mt.check(len(rep["leaks"]) == 1, f"{rep['leaks']}")


def test_malloc():
    """C code that forgets, beside all that torch and Python do with malloc."""
    rep, _ = leaks_of("malloc", "--probes", "framework,regions,host", "--min-size", "4K")
    first = rep["leaks"][0]
    mt.check(first["dev"] == "host" and first["op"] is None, f"{rep['leaks'][:3]}")
    mt.check(abs(first["bytes_slope"] - 20000) < 400, f"20000 bytes a step: {first}")


def held(kind, path, *names):
    """The first growing place of an operator of these, and the verdict, of a recording that goes on until it is known who holds it."""
    with mt.scratch() as d, mt.job("planted", kind, "--batch", BATCH, "--width", WIDTH, "--quiet", "--warmup", 0.3) as job:
        with mt.start("record", "-p", str(job.pid), "-o", str(d / "a.mtr"), "-vv") as tracer:
            said = f" '{path}' "

            def look():
                mt.check(tracer.alive() and job.alive(), f"it goes on: {tracer.err[-5:]}")
                return any("holding:" in line and said in line for line in list(tracer.err))
            mt.wait_until(look, f"who holds what {names} makes", 120, 0.1)
            mt.finish(tracer, d / "a.mtr")
            mt.note("; ".join(line.split(": ", 3)[-1] for line in tracer.err if "blocks looked for" in line))
        mt.check(job.alive(), "the job goes on")
        rep = mt.report(d / "a.mtr")
    found = [l for l in rep["leaks"] if l["op"] in names]
    mt.check(found and "holder" in found[0], f"{rep['leaks']}")
    return found[0], rep["verdict"]


def test_of_a_job_that_ended():
    """It frees everything as it ends, and exits with 0: what it kept until then is told, once with who held it; a clean one has none."""
    def is_held(rep):
        return any(l["op"] == "aten::sort" and l.get("holder", {}).get("path") == "cache" for l in rep["leaks"])
    for kind, is_there in (("cache", is_held), ("none", lambda rep: rep["steps"] >= 300)):
        with mt.scratch() as d:
            with grown.launched(d / "a.mtr", mt.PYTHON, mt.JOBS / "planted.py", kind, "--batch", BATCH, "--width", WIDTH,
                                "--rest", 20, "--quiet", "--warmup", 0.3) as (tracer, pid):
                grown.wait(tracer, d / "a.mtr", is_there, "who holds the cache" if kind == "cache" else "three hundred steps")
                os.kill(pid, signal.SIGTERM)
                mt.check(tracer.wait(60) == 0, f"record: {tracer.err}")
            rep = mt.report(d / "a.mtr")
        first = rep["verdict"][0]
        mt.check(rep["devices"]["cpu"]["live"] == 0, f"it has not ended: {rep['devices']['cpu']['live']}")
        if kind == "none":
            mt.check(not rep["leaks"], f"{rep['leaks']}")
            continue
        leak = rep["leaks"][0]
        mt.check(first["kind"] == "leak" and first["text"].startswith("Grew until its process ended: aten::sort, by "), f"{first}")
        mt.check(leak["process_ended"] and leak["bytes_slope"] * rep["steps"] * 0.7 < leak["live"] < leak["bytes_slope"] * rep["steps"] * 1.1, f"{leak}")
        mt.check("held by cache, a dict" in first["text"], f"{first}")
        mt.note(first["text"])


def line_of(text):
    """The line of the job that says this."""
    return 1 + next(i for i, line in enumerate((mt.JOBS / "planted.py").read_text().splitlines()) if text in line)


def test_holder_of_a_cache():
    """A dict in a variable that step() closes over: found without being asked for."""
    leak, verdict = held("cache", "cache", "aten::sort")
    holder = leak["holder"]
    mt.check((holder["how"], holder["path"], holder["kind"]) == ("itself", "cache", "dict"), f"{holder}")
    mt.check(holder["where"] == f"build.<locals>.step (planted.py:{line_of('def step')})", f"{holder}")
    mt.check(holder["items"] >= 4, f"{holder}")
    said = [line for line in verdict if line["kind"] == "leak"]
    mt.check(said and "held by cache, a dict" in said[0]["text"], f"{verdict}")


def test_holder_of_a_graph():
    """losses.append(loss): what autograd keeps is told of the list that has the losses."""
    leak, _ = held("graph", "losses", "aten::tanh", "aten::addmm", "aten::_log_softmax")
    mt.check((leak["holder"]["how"], leak["holder"]["path"], leak["holder"]["kind"]) == ("graph", "losses", "list"), f"{leak}")


def caught(kind, *args, dev="cpu"):
    """The report of a recording without --stacks that goes on until births of the first growing place were caught that live."""
    with mt.scratch() as d, mt.job("planted", kind, "--batch", BATCH, "--width", WIDTH, "--quiet", "--warmup", 0.3) as job:
        with mt.start("record", "-p", str(job.pid), "-o", str(d / "a.mtr"), *args) as tracer:

            def look():
                mt.check(tracer.alive() and job.alive(), f"it goes on: {tracer.err[-5:]}")
                done = mt.memtrace("report", d / "a.mtr", "--json", "-q")
                leaks = json.loads(done.stdout)["leaks"] if done.returncode in (0, 3) else []
                return leaks and leaks[0]["dev"] == dev and leaks[0].get("caught", {}).get("live", 0) >= 8
            mt.wait_until(look, "blocks whose birth was caught", 90, 0.5)
            mt.finish(tracer, d / "a.mtr")
        mt.check(job.alive(), "the job goes on")
        rep, text = mt.report(d / "a.mtr"), mt.ok(mt.memtrace("report", d / "a.mtr", "--leaks")).stdout
        mt.check(any(e["ev"] == "stack" for e in mt.export(d / "a.mtr")), "what was caught is among the events")
    leak, stack = rep["leaks"][0], rep["overhead"]["by_probe"]["stack"]
    moments = rep["duration_ns"] / 8e9 + 1
    mt.check(0 < stack["hits"] <= moments * 512, f"{stack} in {moments} moments")
    mt.check("stacks" not in rep, "no block has a stack of its own")
    mt.note(f"{leak['caught']} of {stack['hits']} stacks, {stack['ns'] / stack['hits'] / 1000:.1f} us each")
    return leak, next(line for line in rep["verdict"] if line["kind"] == "leak"), text


def made_at(found, line, function):
    """It is that line of the job, says the JSON, the verdict and the text."""
    leak, verdict, text = found
    own = next(f for f in leak["stack"] if f["file"].endswith("planted.py"))
    mt.check((own["line"], own["function"]) == (line, function), f"{leak['stack']}")
    mt.check(leak["caught"]["here"] == leak["caught"]["live"], f"{leak['caught']}")
    mt.check(f"planted.py:{line} in {function}" in verdict["text"], verdict["text"])
    mt.check("that were caught" in verdict["text"] and "--stacks" not in verdict["next"], f"{verdict}")
    mt.check(f"planted.py:{line}" in text and "that were caught and live" in text, text)


def test_line_of_a_list():
    """Numbers of four bytes, of which a step makes many that die: the line that makes those which live is found unasked."""
    found = caught("list")
    mt.check(found[0]["op"] in ("aten::add", "aten::_to_copy") and found[0]["bytes_slope"] == 4, f"{found[0]}")
    made_at(found, line_of("losses.append(loss.detach()"), "build.<locals>.collect")


def test_line_of_a_graph():
    """What a module of torch's makes is told of the line that calls the model."""
    made_at(caught("graph"), line_of("cross_entropy(model(x), y)"), "build.<locals>.step")


def test_line_of_malloc():
    """C code that forgets, called from a line of Python."""
    made_at(caught("malloc", "--probes", "framework,regions,host", "--min-size", "4K", dev="host"), line_of("malloc(20000)"),
            "build.<locals>.step")


def test_line_is_not_looked_for():
    """Who does not want Python to be read does not get it: no stack is taken. Nor is one where nothing grows (test_clean)."""
    with mt.scratch() as d, mt.job("planted", "cache", "--batch", BATCH, "--width", WIDTH, "--quiet", "--warmup", 0.3) as job:
        rep = mt.report(record(job, d / "a.mtr", "--no-names", attaches=4))
    mt.check(rep["leaks"] and "caught" not in rep["leaks"][0] and "stack" not in rep["overhead"]["by_probe"], f"{rep['leaks'][:1]}")
    verdict = next(line for line in rep["verdict"] if line["kind"] == "leak")
    mt.check("--stacks=python --stack-size 0" in verdict["next"], verdict["next"])


def test_clean():
    """From its first instruction: imports, parameters, the optimizer's state, five steps that grow."""
    with mt.scratch() as d:
        path = d / "a.mtr"
        mt.ok(mt.memtrace("record", "-q", "-o", path, "--", mt.PYTHON, mt.JOBS / "planted.py", "none", "--batch", BATCH,
                          "--warmup", 0.1, "--steps", 150, "--quiet", env=dict(os.environ, OMP_NUM_THREADS="1")))
        rep = mt.report(path)
        mt.check(rep["leaks_watched"]["ticks"] >= 150 and not rep["leaks_watched"]["too_short"], f"{rep['leaks_watched']}")
        mt.check(rep["leaks"] == [], f"a clean job: {rep['leaks']}")
        mt.check(not any(line["severity"] == "problem" for line in rep["verdict"]), f"nothing is wrong: {rep['verdict']}")
        planted_page.first("clean", rep["verdict"])
        mt.check("stack" not in rep["overhead"]["by_probe"], "stacks were taken, and nothing grows")
        text = mt.ok(mt.memtrace("report", path, "--leaks")).stdout
        mt.check("Nothing grows" in text and "growing:" not in mt.ok(mt.memtrace("report", path, "-v")).stdout, text)


# --- diff ----------------------------------------------------------------------------------------------------

def activations_peak(path):
    """The most bytes that were ACTIVATION at once, from the events."""
    now, peak, sizes = 0, 0, {}
    for e in mt.export(path, ("--ops",)):
        if e["ev"] in ("create", "preexisting", "version", "destroy"):
            now -= sizes.pop(e["id"], 0)
            if e["ev"] != "destroy" and e.get("cat") == "ACTIVATION" and e["size"] is not None:
                now += sizes.setdefault(e["id"], e["size"])
                peak = max(peak, now)
    return peak


def test_diff_of_batches():
    """Twice the batch: activations double, parameters and the optimizer's state stay."""
    with mt.scratch() as d:
        for batch in (64, 128):
            with mt.job("mlp", "--batch", batch, "--quiet", "--warmup", 0.3) as job:
                record(job, d / f"{batch}.mtr")
        diff = lambda *args: mt.json.loads(mt.ok(mt.memtrace("diff", d / "64.mtr", d / "128.mtr", "--json", *args)).stdout)
        cats = {r["name"]: r for r in diff("--by", "category")["rows"]}
        ratio = lambda r, key: r["b"][key] / r["a"][key]
        # How much of a step the forward pass takes is another matter: so the mean only grows.
        mt.check(ratio(cats["cpu ACTIVATION"], "mean") > 1, f"{cats['cpu ACTIVATION']}")
        peaks = [activations_peak(d / f"{batch}.mtr") for batch in (64, 128)]
        mt.check(1.98 < peaks[1] / peaks[0] < 2.02, f"activations' own peaks: {peaks}")
        for cat in ("PARAMETER", "OPTIMIZER_STATE"):
            mt.check(0.9 < ratio(cats[f"cpu {cat}"], "mean") < 1.1, f"{cats[f'cpu {cat}']}")
        ops = diff()
        mt.check(ops["per"] == "step" and ops["notes"] == [], f"{ops['per']} {ops['notes']}")
        addmm = next(r for r in ops["rows"] if r["name"] == "aten::addmm")
        mt.check(abs(ratio(addmm, "alloc_bytes") - 2) < 0.02 and abs(ratio(addmm, "allocs") - 1) < 0.02, f"{addmm}")
        growth = [r["change"]["mean"] for r in ops["rows"]]
        mt.check(growth == sorted(growth, reverse=True), "rows are not by growth")
        dev = diff("--by", "device")["rows"][0]
        mt.check(dev["name"] == "cpu" and dev["change"]["alloc_bytes"] > 0, f"{dev}")
        text = mt.ok(mt.memtrace("diff", d / "64.mtr", d / "128.mtr", "--top", 3)).stdout
        mt.check("compared" in text and any("more (--top, --json)" in line for line in text.splitlines()[-2:]), text)


def test_diff_of_an_attach_and_a_start():
    """The same script, attached to in mid-run and from its start: nothing has grown, by operator neither."""
    with mt.scratch() as d:
        with mt.job("transformer", "--quiet") as job:
            record(job, d / "a.mtr")
        mt.ok(mt.memtrace("record", "-o", d / "b.mtr", "--", mt.PYTHON, mt.JOBS / "transformer.py", "--quiet", "--seconds", 4,
                          timeout=180))
        found = mt.json.loads(mt.ok(mt.memtrace("diff", d / "a.mtr", d / "b.mtr", "--json")).stdout)
        # operators need no file for the categories of blocks
        text = mt.ok(mt.memtrace("diff", d / "a.mtr", d / "b.mtr", env={"TMPDIR": "/proc"})).stdout
        grown = [r for r in found["rows"] if r["change"]["at_peak"] > 0.01 * 28 * 2**20 and not r.get("before_attach")]
        before = [r["name"] for r in found["rows"] if r.get("before_attach")]
        mt.check(not grown, f"operators that have grown: {grown}")
        mt.check("(no operator open)" in before and len(before) >= 2 and before == [r["name"] for r in found["rows"]][-len(before):], f"{before}")
        mt.check("Allocated before the attach, so of no known operator: 1.50 MiB of A's peak, 0 B of B's." in " ".join(text.split()), text)
        names = mt.json.loads(mt.ok(mt.memtrace("diff", d / "a.mtr", d / "b.mtr", "--by", "name", "--json")).stdout)["rows"]
        mt.check(names and all(r["change"].get("live") is None for r in names), f"the end of a job that is over: {names[:2]}")


def test_diff_of_some_steps_and_all():
    """Of a job seen from its start to its end: its averages are those of steps, without its loading and its exit."""
    with mt.scratch() as d:
        for name, some in (("a", ("--steps", 3, "--every", "2s")), ("b", ())):
            mt.ok(mt.memtrace("record", *some, "-o", d / f"{name}.mtr", "--", mt.PYTHON, mt.JOBS / "mlp.py", "--quiet",
                              "--seconds", 5, timeout=180))
        mt.check(mt.report(d / "a.mtr")["sampling"]["windows"] >= 2, "it was to be traced now and then")
        done = mt.ok(mt.memtrace("diff", d / "a.mtr", d / "b.mtr", "--by", "category", "--json"))
        rows = {r["name"]: r for r in mt.json.loads(done.stdout)["rows"]}
        for name in ("cpu PARAMETER", "cpu OPTIMIZER_STATE"):
            some, all_steps = (rows[name][side]["mean"] for side in "ab")
            mt.check(abs(some / all_steps - 1) < 0.05, f"{name}: {some} on average of some steps, {all_steps} of all")
        devices = mt.json.loads(mt.ok(mt.memtrace("diff", d / "a.mtr", d / "b.mtr", "--by", "device", "--json")).stdout)["rows"]
        for side in "ab":
            whole = sum(r[side]["mean"] for r in rows.values())
            mt.check(abs(whole - devices[0][side]["mean"]) < len(rows), f"categories of {side}: {whole} in all, of {devices}")


def test_diff_says_what_does_not_compare():
    job = mt.shared_job("mlp")
    with mt.scratch() as d:
        record(job, d / "a.mtr", "--probes", "framework,regions", seconds=1)
        record(job, d / "b.mtr", "--probes", "framework,ops", seconds=1)
        done = mt.ok(mt.memtrace("diff", d / "a.mtr", d / "b.mtr"))
        mt.check("A has regions, B has not" in done.stdout and "B has ops, A has not" in done.stdout, done.stdout)
        mt.check("B has no whole step" in done.stdout and "allocated a second" in done.stdout, done.stdout)
        mt.expect_failure(mt.memtrace("diff", d / "a.mtr", d / "b.mtr", "--by", "category"), 1, "data flow", "--by op")
        mt.expect_failure(mt.memtrace("diff", d / "a.mtr"), 2, "second one is missing")
        mt.expect_failure(mt.memtrace("diff", d / "a.mtr", d / "none.mtr"), 1, "none.mtr")
        mt.expect_failure(mt.memtrace("diff", d / "a.mtr", d / "b.mtr", "--by", "process"), 2, "--by rank, op")


def test_stacks():
    """A leak's line of Python, and the same stacks in two recordings, whose numbers of them differ."""
    with mt.scratch() as d, mt.job("planted", "cache", "--batch", BATCH, "--width", WIDTH, "--quiet", "--warmup", 0.3) as job:
        probes = ("--probes", "framework,ops,regions")
        stacks = (*probes, "--stacks=python", "--stack-size", 4096)
        a, b = record(job, d / "a.mtr", *stacks, attaches=4), record(job, d / "b.mtr", *stacks, attaches=2)
        without = record(job, d / "c.mtr", *probes, seconds=1)
        first = mt.report(a)["leaks"][0]
        mt.check(first["op"] == "aten::sort" and first["bytes_slope"] == BATCH * WIDTH * 8, f"{first}")
        line = next(n for n, x in enumerate(open(mt.JOBS / "planted.py", encoding="utf-8"), 1) if "torch.sort(x)" in x)
        frame = next(f for f in first["stack"] if f["file"].endswith("planted.py"))
        mt.check(frame["line"] == line and frame["function"].endswith("step"), f"{first['stack']}")
        text = mt.ok(mt.memtrace("report", a, "--leaks")).stdout
        mt.check(f"planted.py:{line}" in text, text)
        mt.check("stack" not in mt.report(without)["leaks"][0], "a stack of nowhere")
        rows = mt.json.loads(mt.ok(mt.memtrace("diff", a, b, "--by", "stack", "--json")).stdout)["rows"]
        row = next(r for r in rows if any(f["line"] == line and f["file"].endswith("planted.py") for f in r.get("stack", [])))
        kept = BATCH * WIDTH * 8
        mt.check(all(kept <= row[s]["alloc_bytes"] < 2 * kept for s in "ab"), f"not matched: {row}")
        for side, path in (("a", a), ("b", b)):
            op = next(o for o in mt.report(path)["ops"] if o["name"] == "aten::sort")
            left = row[side]["live"] - op["live"]  # of the first steps, whose operators had no probe yet
            mt.check(0 <= left < op["live"] and 0 < row[side]["mean"] < row[side]["live"], f"{row}, by operator {op}")
        mt.check(sum("stack" not in r for r in rows) == 1, "blocks without a stack are one row")
        text = mt.ok(mt.memtrace("diff", a, b, "--by", "stack")).stdout
        mt.check(f"planted.py:{line}" in text and "(no stack)" in text, text)
        mt.expect_failure(mt.memtrace("diff", a, without, "--by", "stack"), 1, "c.mtr has no stacks", "reach its --stack-size (default 1.00 MiB)", "--by op")


def test_diff_of_stacks_left_out():
    """A birth beyond the rate of native stacks is no lost event: the recording is whole, and no row is in doubt."""
    with mt.scratch() as d, mt.Proc([mt.compile_c("churn", "-s")]) as job:
        job.line("ready ")
        with mt.start("record", "-p", str(job.pid), "-o", str(d / "a.mtr"), "--probes", "host", "--stacks", "--stack-size", "0",
                      "--ring-size", "256M") as tracer:
            mt.wait_attached(tracer, job.pid, mt.MALLOC)
            for _ in range(5):  # thousand allocations each, in some milliseconds: above the rate
                job.tell("on")
            mt.wait_until(lambda: job.out.count("done") == 5, "5,000 allocations")
            mt.finish(tracer, d / "a.mtr")
        rep = mt.report(d / "a.mtr")
        mt.check(rep["lost"]["stack_rate"] > 0, f"every allocation has its stack: {rep['events']}")
        mt.check("LOST" not in "\n".join(tracer.err), tracer.err)
        found = json.loads(mt.ok(mt.memtrace("diff", d / "a.mtr", d / "a.mtr", "--json")).stdout)
        doubts = [note for note in found["notes"] if "has no whole step" not in note]
        mt.check(found["a"]["lost"] == 0 and not doubts, f"{found['a']} {doubts}")


# --- the flight recorder -------------------------------------------------------------------------------------

def same_at_the_end(a, b):
    """Two reports of one trace, full and window: what lives is the same."""
    mt.check(a["devices"].keys() == b["devices"].keys(), f"{a['devices'].keys()} {b['devices'].keys()}")
    for name, dev in a["devices"].items():
        other = b["devices"][name]
        mt.check(dev["live"] == other["live"], f"{name}: {dev['live']} live, in the window {other['live']}")
        for cat, c in dev["categories"].items():
            mt.check(c["live"] == other["categories"].get(cat, {"live": 0})["live"], f"{name} {cat}: {c} {other['categories'].get(cat)}")
    for key in ("ops", "regions"):
        live = lambda r: {x["name"]: (x["live"], x["live_count"]) for x in r[key] if x["live"]}
        mt.check(live(a) == live(b), f"{key}: {live(a)} {live(b)}")
    mt.check(a["kernel"]["rss"] == b["kernel"]["rss"], f"{a['kernel']['rss']} {b['kernel']['rss']}")


def test_window_of_a_recording():
    """A real job's events, all of them and through the window: the same memory at the end, and the same leak."""
    mt.ok(mt.make("build/tests/window_of"))
    with mt.scratch() as d, mt.job("planted", "graph", "--quiet", "--warmup", 0.3) as job:
        full = record(job, d / "full.mtr", seconds=3)
        subprocess.run([mt.BUILD / "tests" / "window_of", full, "1", d / "window.mtr"], check=True)
        a, b = mt.report(full), mt.report(d / "window.mtr")
        same_at_the_end(a, b)
        mt.check(b["duration_ns"] < 0.75 * a["duration_ns"], f"{b['duration_ns']} of {a['duration_ns']}")
        mt.check((d / "window.mtr").stat().st_size < 0.75 * full.stat().st_size, "the window is no smaller")
        mt.check(b["devices"]["cpu"]["carried_blocks"] > 0, "nothing lived before the window")
        mt.check(b["leaks"][0]["op"] == a["leaks"][0]["op"], f"{b['leaks'][:1]} {a['leaks'][:1]}")


def test_window_files():
    """On a signal, and at the end: named, whole, and nothing else."""
    job = mt.shared_job("mlp")
    with mt.scratch() as d:
        tracer = mt.start("record", "-p", job.pid, "--window", "1s", "-o", d / "w.mtr")
        mt.wait_attached(tracer, job.pid)
        time.sleep(2.5)
        mt.check(not list(d.iterdir()), f"written before its time: {list(d.iterdir())}")
        tracer.signal(signal.SIGUSR1)
        mt.wait_until((d / "w-1.mtr").exists, "the first file")
        tracer.signal(signal.SIGUSR1)
        mt.wait_until((d / "w-2.mtr").exists, "the second file")
        mt.finish(tracer, d / "w.mtr")
        mt.check(sorted(p.name for p in d.iterdir()) == ["w-1.mtr", "w-2.mtr", "w.mtr"], f"{list(d.iterdir())}")
        for name in ("w-1.mtr", "w-2.mtr", "w.mtr"):
            rep = mt.report(d / name)
            mt.check(1e9 <= rep["duration_ns"] < 3.5e9 and rep["steps"] > 0, f"{name}: {rep['duration_ns']} {rep['steps']}")
            mt.check(rep["devices"]["cpu"]["categories"]["PARAMETER"]["live"] > 0, name)
            mt.check(str(d / name) in "\n".join(tracer.err), f"{name} is not told: {tracer.err}")
        mt.check(mt.report(d / "w-1.mtr")["coverage"], "coverage")
        mt.expect_failure(mt.memtrace("record", "-p", job.pid, "--window", "1s", "-o", d / "none" / "w.mtr"), 1, "none/w.mtr")
        name = "n" * 246 + ".mtr"  # itself short enough; the file that it is written as is not
        mt.expect_failure(mt.memtrace("record", "-p", job.pid, "--window", "1s", "-d", 1, "-o", d / name), 1, "File name too long")
        mt.check(not list(d.glob("n*")), f"left over: {list(d.glob('n*'))}")
        mt.expect_failure(mt.memtrace("record", "-p", job.pid, "--window-size", "64M"), 2, "--window")


def test_window_at_new_peaks():
    """A job that grows leaves a file at each tenth that it is higher, and one that does not leaves none."""
    with mt.scratch() as d, mt.job("planted", "cache", "--quiet", "--warmup", 0.3) as grows, mt.job("planted", "--quiet", "--warmup", 0.3) as stays:
        args = ("--window", "2s", "--on-new-peak", "10%")
        with mt.start("record", "-p", str(grows.pid), *args, "-o", d / "g.mtr") as one, \
             mt.start("record", "-p", str(stays.pid), *args, "-o", d / "s.mtr") as other:
            mt.wait_attached(one, grows.pid)
            mt.wait_attached(other, stays.pid)
            mt.wait_until((d / "g-2.mtr").exists, "two files of a job that grows", 90)
            mt.finish(one, d / "g.mtr")
            mt.finish(other, d / "s.mtr")
        mt.check(not list(d.glob("s-*")), f"of a job that does not grow: {list(d.glob('s-*'))}")
        said = "\n".join(one.err)
        mt.check("g-1.mtr" in said and "a new peak" in said, said)
        first, second = (mt.report(d / f"g-{n}.mtr")["devices"]["cpu"]["peak"] for n in (1, 2))
        mt.check(second >= 1.1 * first > 0, f"peaks {first} and {second}")
        mt.expect_failure(mt.memtrace("record", "-p", stays.pid, "--on-new-peak", 10), 2, "--window 60s")
        for wrong in ("0", "x", "-3", "10%%"):
            mt.expect_failure(mt.memtrace("record", "-p", stays.pid, "--window", "1s", f"--on-new-peak={wrong}"), 2, "percent above")


def test_window_of_five_seconds():
    """A job of 15 seconds under a recorder of 5 and one of everything cannot run at once (one memtrace a process):
    the recorder ends with the job, and what it says of its end is what the job has."""
    with mt.scratch() as d:
        full = d / "full.mtr"
        with mt.job("planted", "none", "--quiet", "--seconds", 15) as job:
            mt.ok(mt.memtrace("record", "-q", "-p", job.pid, "-o", full))
        with mt.job("planted", "none", "--quiet", "--seconds", 15) as job:
            done = mt.ok(mt.memtrace("record", "-p", job.pid, "--window", "5s", "-o", d / "w.mtr"))
        mt.check("the target is gone" in done.stderr, done.stderr)
        a, b = mt.report(full), mt.report(d / "w.mtr")
        mt.check((d / "w.mtr").stat().st_size < 0.6 * full.stat().st_size, f"{(d / 'w.mtr').stat().st_size} {full.stat().st_size}")
        mt.check(5e9 <= b["duration_ns"] < 8e9, f"{b['duration_ns']}")
        mt.check(b["leaks"] == [], f"{b['leaks']}")
        # by time against each other, and not by the clock: how long the job takes to end, with nothing alive, is the machine's affair
        a, b = (r["devices"]["cpu"]["categories"] for r in (a, b))
        for cat in ("PARAMETER", "OPTIMIZER_STATE"):
            share = lambda r: r[cat]["byte_ns"] / (r["PARAMETER"]["byte_ns"] + r["OPTIMIZER_STATE"]["byte_ns"])
            mt.check(0.95 < share(a) / share(b) < 1.05, f"{cat}: {share(a)} {share(b)}")
