# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Operators that a job never calls lose their probes, and get them back with their first call.

The job counts the calls of some operators itself. Those that are used must be told to the call, through the moment when the
others' probes go; one that comes late must be told from soon after its first call on, and the report must say so.
"""
import json
import pathlib
import re
import subprocess

import mt

SLOW = {"keep_idle_keeps_all", "launched_jobs_lose_nothing", "guards_of_another_torch"}

UNUSED = ("libtorch_cpu.so", "_ZN2at4_ops3svd4callE")
TAKEN = "probes of idle operators taken away"


def recorder(pid, path, *args):
    return mt.start("record", "-vv", "-p", str(pid), "-o", str(path), *args)


def taken(tracer):
    return any(TAKEN in line for line in list(tracer.err))


def told(rep, name):
    return sum(op["count"] for op in rep["ops"] if op["name"] == f"aten::{name}")


def called(proc, word):
    """What the job says to a word that ends its counting."""
    before = len(proc.out)
    proc.tell(word)
    mt.wait_until(lambda: any(t.startswith("called ") for t in proc.out[before:]), "the job's counts", 30)
    return json.loads(next(t for t in proc.out[before:] if t.startswith("called "))[7:])


def say(proc, word):
    proc.tell(word)
    proc.line(word)


def test_used_operators_are_told_to_the_call():
    """Attached in mid-run: one operator used before, one first called while all probes are set, one after they went."""
    with mt.scratch() as tmp, mt.job("idle") as job:
        with recorder(job.pid, tmp / "a.mtr") as tracer:
            mt.wait_until(lambda: any("attached to" in t for t in tracer.err), "the attach", 30)
            mt.check(mt.probed(job.pid, UNUSED), "an operator that is never called has no probe at first")
            say(job, "go")
            mt.wait_until(lambda: taken(tracer), "idle probes to go", 60)
            mt.wait_until(lambda: not mt.probed(job.pid, UNUSED), "the last idle probe to go", 30)
            mt.check(mt.probed(job.pid, mt.OP), "an operator that is used has lost its probe")
            counts = called(job, "stop")
            say(job, "late")
            mt.wait_until(lambda: mt.probed(job.pid, ("libtorch_cpu.so", "_ZN2at4_ops6erfinv4callE")), "a late probe", 20)
            later = called(job, "stop")
            say(job, "late")
            counts = called(job, "stop")
            mt.finish(tracer, tmp / "a.mtr")
        mt.wait_until(lambda: not mt.probed(job.pid, mt.OP), "the probes to go", 20)
        rep = mt.report(tmp / "a.mtr")
        text = mt.ok(mt.memtrace("report", tmp / "a.mtr", "-v")).stdout
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    for name in ("tanh", "sigmoid"):
        mt.check(counts[name] > 0 and told(rep, name) == counts[name],
                 f"{name}: called {counts[name]} times, told {told(rep, name)}")
    idle = rep["coverage"]["idle"]
    since = counts["erfinv"] - later["erfinv"]
    mt.check(idle["operators"] > 2000 and idle["probes_taken"] > 2000, f"idle: {idle}")
    mt.check([x["operator"] for x in idle["late"]] == ["aten::erfinv"] and idle["late_total"] == 1, f"late: {idle['late']}")
    mt.check(idle["late"][0]["pid"] == job.pid, f"late: {idle['late']}, not of {job.pid}")
    mt.check(since <= told(rep, "erfinv") <= counts["erfinv"],
             f"erfinv: {counts['erfinv']} calls, {since} after its probe was set, told {told(rep, 'erfinv')}")
    mt.check(re.search(r"idle +\d+ operators", text) and "aten::erfinv" in text, "the text says nothing of idle operators")
    mt.note(f"{idle['probes_taken']} probes taken; {told(rep, 'tanh')} tanh; erfinv set within "
            f"{idle['late'][0]['missed_ns'] / 1e6:.1f} ms, {counts['erfinv'] - told(rep, 'erfinv')} calls untold")


def test_keep_idle_keeps_all():
    with mt.scratch() as tmp, mt.job("idle") as job, mt.job("idle") as other:
        with recorder(job.pid, tmp / "a.mtr", "--keep-idle") as keeps, recorder(other.pid, tmp / "b.mtr") as takes:
            mt.wait_until(lambda: any("attached to" in t for t in keeps.err), "the attach", 30)
            mt.wait_until(lambda: taken(takes), "idle probes of the other job to go", 60)
            mt.check(mt.probed(job.pid, UNUSED), "an idle operator has no probe")
            mt.finish(takes, tmp / "b.mtr")
            mt.finish(keeps, tmp / "a.mtr")
            mt.check(not taken(keeps), "probes were taken away")
        rep = mt.report(tmp / "a.mtr")
    mt.check(rep["coverage"]["idle"] == {"operators": 0, "probes_taken": 0, "late_total": 0, "late": []},
             f"idle: {rep['coverage']['idle']}")


def test_launched_jobs_lose_nothing():
    """From a command's first call on, through the moment when idle probes go; and a child that is forked then."""
    with mt.scratch() as tmp:
        with mt.start("record", "-vv", "-o", str(tmp / "a.mtr"), "--", mt.PYTHON, str(mt.JOBS / "idle.py"), "--go") as tracer:
            tracer.line("ready ", 120)
            mt.wait_until(lambda: taken(tracer), "idle probes to go", 60)
            before = tracer.err[:]
            say(tracer, "fork")
            child = lambda: [re.search(r"attached to (\d+) .*: (\d+) of (\d+) probes", t) for t in tracer.err[len(before):]]
            mt.wait_until(lambda: any(child()), "the child's probes", 20)
            set_in_child = int(next(m for m in child() if m)[3])
            counts = called(tracer, "stop")
            called(tracer, "end")
            mt.finish(tracer, tmp / "a.mtr", 0)
        rep = mt.report(tmp / "a.mtr")
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    mt.check(told(rep, "sigmoid") == counts["sigmoid"], f"sigmoid: {counts['sigmoid']} calls, told {told(rep, 'sigmoid')}")
    in_child = told(rep, "tanh") - counts["tanh"]
    mt.check(0 < in_child <= 100, f"tanh: {counts['tanh']} calls and 100 of the child's, told {told(rep, 'tanh')}")
    mt.check(set_in_child < 1500, f"{set_in_child} probes in a child that was forked when idle ones had gone")
    mt.note(f"{counts['sigmoid']} calls from the first on; a child with {set_in_child} probes, {in_child} of 100 calls told")


def guards_of(python, *sources):
    """(sites of operators with their guards, {X of at::_ops::X: address}, the process's mapping) of a bare job."""
    code = "import torch,sys; torch.ones(2).sqrt(); print('ready', flush=True); sys.stdin.readline()"
    with mt.Proc([python, "-c", code]) as job:
        job.line("ready", 120)
        plan = json.loads(mt.ok(mt.memtrace("plan", "-p", job.pid, "--json", "--probes", ",".join(sources))).stdout)
        sites = [s for s in plan["processes"][0]["sites"] if s["program"] == "flow_op"]
        with open(f"/proc/{job.pid}/mem", "rb", buffering=0) as mem:
            used = set()
            for s in sites:
                if "guard" in s:
                    mem.seek(s["guard"])
                    used |= {s["symbol"]} if mem.read(1) != b"\0" else set()
        with open(f"/proc/{job.pid}/maps", encoding="utf-8") as f:
            maps = [line.split() for line in f if "libtorch_cpu" in line]
    return sites, used, int(maps[0][0].split("-")[0], 16), maps[0][5]


def test_guards_are_the_symbols_guards():
    """Every operator's guard is found from its code, and is the one that the library's own symbols name, where it has them."""
    sites, used, base, path = guards_of(mt.PYTHON, "flow", "views")
    mt.check(len(sites) > 2900 and all("guard" in s for s in sites),
             f"without a guard: {[s['symbol'] for s in sites if 'guard' not in s][:20]} of {len(sites)}")
    mt.check(used == {"aten::ones", "aten::empty", "aten::fill_", "aten::sqrt"}, f"called, say the guards: {sorted(used)}")
    mt.check(len({s["guard"] for s in sites}) == len(sites), "two operators have one guard")
    names = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    symbols = {int(a, 16) for a in re.findall(r"^([0-9a-f]+) . _ZGVZN2at4_ops\w+4callE\w*E2op$", names, re.M)}
    if not symbols:
        raise mt.Skip("this torch has no local symbols")
    wrong = [s["symbol"] for s in sites if s["guard"] - base not in symbols]
    mt.check(not wrong, f"another guard than the symbol's: {wrong[:20]}")
    mt.note(f"{len(sites)} of {len(symbols)} operators have probes, each with its own guard")


def test_guards_of_another_torch():
    python = "/usr/bin/python3"
    if not pathlib.Path("/usr/lib/python3/dist-packages/torch").is_dir():
        raise mt.Skip("no torch of the distribution's")
    sites, used, _, _ = guards_of(python, "flow", "views")
    without = [s["symbol"] for s in sites if "guard" not in s]
    mt.check(len(sites) > 2500 and not without, f"without a guard: {without[:20]} of {len(sites)}")
    mt.check("aten::sqrt" in used and len(used) < 20, f"called, say the guards: {sorted(used)}")
