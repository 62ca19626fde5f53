# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Probes that other programs ship: CPython's own, in a real interpreter that was built with them (Debian's and Ubuntu's are)."""
import collections
import contextlib
import glob
import json
import re
import subprocess

import mt

PROBES = ("python:function__entry", "python:function__return")


def python_with_probes():
    for path in sorted(glob.glob("/usr/bin/python3.*[0-9]")):
        notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=False).stdout
        if all(re.search(rf"Provider: python\s+Name: {p.split(':')[1]}\s", notes) for p in PROBES):
            return path
    raise mt.Skip("no CPython of the distribution has function__entry: 3.12 to 3.14 have none (docs/usdt.md)")


def record(tmp, *how):
    """(what the job says of itself, the report, its events)"""
    with mt.Proc([python_with_probes(), mt.JOBS / "calls.py", *how]) as job, contextlib.ExitStack() as stack:
        job.line("ready ")
        asked = [word for probe in PROBES for word in ("--usdt", probe)]
        tracer = stack.enter_context(mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "--probes", "usdt,host",
                                              "--min-size", "1M", *asked))
        mt.wait_until(lambda: any(t.startswith("attached to") for t in tracer.err) or not tracer.alive(), "attached", 60)
        job.tell("go")
        said = json.loads(job.line("{"))
        mt.finish(tracer, tmp / "a.mtr")
        job.tell("end")
        mt.check(job.wait() == 0, f"{job.err}")
    return said, mt.report(tmp / "a.mtr"), mt.export(tmp / "a.mtr")


def test_functions_of_cpython():
    """Each function's calls and blocks, exactly: recursion, generators, functions that are left by an exception."""
    with mt.scratch() as tmp:
        said, rep, events = record(tmp, "profiled")
    mt.check(not mt.lost(rep), f"lost: {rep['lost']}")
    entered = {o["name"]: o["count"] for o in rep["ops"]}
    mt.check({name: entered.get(name) for name in said["entered"]} == said["entered"], f"{entered}, truth {said['entered']}")
    made = collections.Counter(e.get("op") for e in events if e["ev"] == "create")
    mt.check(made == said["made"], f"{made}, truth {said['made']}")
    mt.note(f"{sum(said['entered'].values())} calls and {sum(made.values())} blocks: each by its function")


def test_probes_that_are_never_passed():
    """CPython 3.11 passes function__entry by unless something profiles: the report says so, instead of showing nothing."""
    with mt.scratch() as tmp:
        said, rep, events = record(tmp)
        text = mt.ok(mt.memtrace("report", tmp / "a.mtr", "-v")).stdout
    fired = {s["symbol"]: s["fired"] for s in rep["coverage"]["symbols"]["list"]}
    made = collections.Counter(e.get("op") for e in events if e["ev"] == "create")
    mt.check(sum(made.values()) == sum(said["made"].values()), f"{made}")
    if fired.get(PROBES[0]):
        mt.check(made == said["made"], f"an interpreter that passes it: {made}, truth {said['made']}")
        return
    mt.check(re.search(r"never hit +python:function__entry: set", text), text[-2500:])
