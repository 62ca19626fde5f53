# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""No probe changes a byte of the job: canaries in the red zones of leaf functions around the sites that memtrace sets. And nothing that
is read makes the job larger."""
import json

import mt
import test_truth

PROBES_MAX = 16 << 20  # a page of a library's text for each that has a probe: a copy of its own


def test_no_site_writes_into_a_red_zone():
    target = mt.compile_c("redzone", "-O2", "-pthread")
    with mt.scratch() as tmp, mt.Proc([target]) as job:
        job.line("ready ")
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "usdt",
                      "--usdt", "redzone:middle:0=ptr", "--usdt", "redzone:ten:0=ptr") as tracer:
            test_truth.wait_attached(tracer)
            job.tell("go")
            truth = json.loads(job.line("{"))
            tracer.signal(2)
            mt.check(tracer.wait() in (0, 3), f"record: {tracer.err}")  # a flood of hits: records may be lost
        job.tell("end")
        mt.check(job.wait() == 0, f"the target failed: {job.err}")
        report = json.loads(mt.ok(mt.memtrace("report", path, "--json"), (0, 3)).stdout)
    mt.check(truth["watched"] and report["overhead"]["hits"] > 100000, f"hardly traced: {report['overhead']} {truth}")
    notes = report["coverage"]["notes"]
    refused = any("five-byte nop inside" in n for n in notes)  # this kernel's word
    mt.check(any("redzone:middle" in n and "left out" in n for n in notes) == refused, f"redzone:middle: {notes}")
    harmed = {k: v["harmed"] for k, v in truth["leaves"].items() if v["harmed"]}
    mt.check(not harmed and not truth["child"], f"calls that came back with other values: {harmed} of {truth['leaves']}; "
                                                f"the forked child ended with {truth['child']}")
    mt.note(f"{report['overhead']['hits']} hits, {sum(v['calls'] for v in truth['leaves'].values())} calls, none harmed")


def copies_of(pid):
    """Bytes of anonymous pages that are this process's alone. A library's clean page is "private" in smaps as soon as the last other job
    that maps it ends, so Private_Clean of files says nothing about this one."""
    bytes_ = private = 0
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
        for line in f:
            words = line.split()
            if words[0] == "Rss:":
                private = 0
            elif words[0] in ("Private_Clean:", "Private_Dirty:"):
                private += int(words[1]) * 1024
            elif words[0] == "Anonymous:":
                bytes_ += min(private, int(words[1]) * 1024)
    return bytes_


def test_what_is_read_is_not_copied():
    """What processes share since a fork they share still: Python's objects are read in all of them (user/target/memory.h)."""
    with mt.scratch() as tmp, mt.job("use") as job:
        job.tell("go")
        pids = [job.pid, *map(int, job.line("still ", 60).split()[1:])]
        before = {pid: copies_of(pid) for pid in pids}
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "-vv") as tracer:
            def looked_at(pid):
                return any(f"process {pid}: " in t and "names of" in t for t in list(tracer.err))
            mt.wait_until(lambda: all(map(looked_at, pids)) or not tracer.alive(), "looks at Python", 90)
            mt.check(tracer.alive(), "; ".join(tracer.err[-5:]))
            after = {pid: copies_of(pid) for pid in pids}
            mt.finish(tracer, tmp / "a.mtr")
    more = {pid: after[pid] - before[pid] for pid in pids}
    mt.check(len(pids) == 5 and all(bytes_ < PROBES_MAX for bytes_ in more.values()), f"bytes of their own more: {more}")
    mt.note("private MiB more: " + ", ".join(f"{bytes_ / 2**20:.1f}" for bytes_ in more.values()))
