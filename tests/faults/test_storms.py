# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Processes that fork, exec, load, name and tell without end, followed by the memtrace that follows the job.

In each: the job comes to the same result, memtrace lives to the end, nothing is lost in silence: what the storm told is what
the report has, or the report says how much is missing. And what comes after it is followed as ever: a program forks children, and
their operators are in the report by name and to the allocation.
"""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import time

import faults
import mt

SLOW = {"forks", "mappings", "execs", "threads", "sideband_overflow", "names", "pointers", "usdt", "regions", "many_libraries"}
TRUTH_FORK = mt.BUILD / "tests" / "targets" / "truth_fork"
DEVICE = "cuda:7"  # where storms tell their allocations


@contextlib.contextmanager
def storm(mode, count, *args, options=(), timeout=50):
    """A traced job and a traced storm, from its begin to its end; yields what is in the report, once memtrace has ended."""
    result = {}
    with mt.scratch() as tmp, faults.training() as job, mt.Proc([TRUTH_FORK]) as after:
        after.line("ready ")
        with faults.crowd("storm", mode, str(count), *map(str, args)) as proc:
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", proc.pid, "-p", after.pid, *options) as tracer:
                begin = time.monotonic()
                proc.tell("go")
                result["told"] = int(proc.line("done ", timeout).split()[1])
                result["seconds"] = time.monotonic() - begin
                after.tell("go")
                truth = faults.children_tell(after, tracer)
                job.more_rounds()
                mt.check(tracer.alive(), f"memtrace ended amid it: {tracer.err[-5:]}")
                result["code"] = faults.ended(tracer)
        result["report"] = rep = mt.report(tmp / "a.mtr", (0, 3))
        result["lost"] = {k: v for k, v in rep["lost"].items() if v}
        result["allocs"] = rep["devices"].get(DEVICE, {"allocs": 0})["allocs"]
        mt.note(f"{mode}: {count} in {result['seconds']:.1f} s, told {result['told']}, seen {result['allocs']}, lost {result['lost']}")
        result["report_s"] = reading_takes(tmp / "a.mtr")
        faults.check_children(rep, truth)
        yield result


def reading_takes(path):
    """Seconds of CPU that a report of this recording takes, the best of three."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        mt.ok(mt.memtrace("report", path, "-v"), (0, 3))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


def check_conserved(r):
    """What was told is there, or counted as lost."""
    missing = r["told"] - r["allocs"]
    mt.check(missing >= 0, f"{r['allocs']} allocations of {r['told']} told")
    mt.check(missing <= mt.lost(r["report"]), f"{missing} allocations are missing, lost: {r['lost']}")


def test_forks():
    """500 forks a second, of children that end at once."""
    with storm("forks", 3000) as r:
        check_conserved(r)


def test_execs():
    """A process that becomes itself anew 1,000 times: the last one of them is followed like the first."""
    with storm("execs", 1000) as r:
        mt.check(r["told"] == 1, "nobody tells it anything")
        check_conserved(r)


def test_threads():
    """2,000 threads alive at once, each of which tells something."""
    with storm("threads", 2000) as r:
        check_conserved(r)
        mt.check(r["allocs"] > 0, "nothing of 2,000 threads was seen")


def test_dlopens():
    """1,000 times a library with a probe comes and goes. What it told, it told because a tracer had come (its counter said so)."""
    with storm("dlopens", 1000, faults.BIN / "plugin.so") as r:
        check_conserved(r)


def test_sideband_overflow():
    """So many mappings while memtrace cannot look (it is stopped) that the kernel drops records of them, and of children born
    meanwhile: counted; and the children are found all the same."""
    with mt.scratch() as tmp, faults.training() as job:
        with mt.Proc([TRUTH_FORK]) as target, faults.crowd("storm", "maps", "400000", faults.BIN / "plugin.so") as maps:
            target.line("ready ")
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", target.pid) as tracer:
                for pid in faults.memtraces():
                    os.kill(pid, signal.SIGSTOP)
                maps.tell("go")
                maps.line("done ", 60)
                target.tell("go")
                target.line("forked ")
                for pid in faults.memtraces():
                    os.kill(pid, signal.SIGCONT)
                told = faults.children_tell(target, tracer)
                job.more_rounds()
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.note(f"lost { {k: v for k, v in rep['lost'].items() if v} }")
        mt.check(rep["lost"]["sideband"] > 0, f"no record was dropped, or it was not counted: {rep['lost']}")
        faults.check_children(rep, told)


def test_names():
    """Names that are all different, of everything that has a name: tables fill up, are counted, and the job has its names."""
    with storm("names", 100_000) as r:
        check_conserved(r)
        check_job_is_named(r["report"])


def test_pointers():
    """Pointers that fall into one place of a table whose hash is known cost what scattered ones cost, live and in a report, and no
    event is lost for them. (Half as much again is granted: the job beside it does not tell the same twice.)"""
    with storm("scattered", 100_000) as other, storm("pointers", 100_000) as r:
        mt.note(f"a report takes {r['report_s']:.2f} s, of scattered pointers {other['report_s']:.2f} s")
        check_conserved(r)
        check_job_is_named(r["report"])
        mt.check(r["report"]["lost"]["ring"] <= other["report"]["lost"]["ring"], f"lost {r['lost']}, of scattered ones {other['lost']}")
        mt.check(r["report_s"] <= 1.5 * other["report_s"] + 0.1, f"{r['report_s']:.2f} s, of scattered ones {other['report_s']:.2f} s")


def test_usdt():
    """A million allocations told flat out."""
    with storm("usdt", 1_000_000) as r:
        check_conserved(r)


def check_job_is_named(rep):
    """The job's operators and processes, beside a flood of names."""
    named = sum(op["alloc_count"] for op in rep["ops"] if op["name"].startswith("aten::"))
    mt.check(named > 1000, f"the job's operators have no names: {rep['ops'][:5]}")


def test_regions():
    """record_function with another name each time, in Python: its names may be lost and counted; the job's are there."""
    program = ("import sys, torch\n"
               "print('ready', flush=True); sys.stdin.readline()\n"
               "for i in range(40000):\n"
               "    with torch.profiler.record_function(f'iter{i}'):\n"
               "        pass\n"
               "x = torch.ones(1 << 20)\n"
               "print('done', flush=True); sys.stdin.readline()\n")
    with mt.scratch() as tmp, faults.training() as job:
        with mt.Proc([mt.PYTHON, "-c", program], env=faults.environment()) as flood:
            flood.line("ready", 60)
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", flood.pid) as tracer:
                flood.tell("go")
                flood.line("done", 60)
                before = len(job.rounds())
                job.more_rounds()
                mt.check(tracer.alive(), f"memtrace ended amid it: {tracer.err[-5:]}")
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.note(f"{before} rounds beside 40,000 names; lost { {k: v for k, v in rep['lost'].items() if v} }")
        check_job_is_named(rep)


def bytes_read(pid, tid="*"):
    """By the threads of a process that match, since their beginning."""
    return sum(int(re.search(r"rchar: (\d+)", io.read_text())[1]) for io in pathlib.Path(f"/proc/{pid}/task").glob(f"{tid}/io"))


def length_and_time(path):
    """Bytes of a file, and seconds to read it, the shortest of three."""
    took = []
    for _ in range(3):
        begin = time.monotonic()
        size = len(path.read_bytes())
        took.append(time.monotonic() - begin)
    return size, min(took)


def test_mappings():
    """A process with 60,000 mappings that change all the time. What it has mapped is read beside memtrace's loop and not without
    a pause; a steady process loses nothing."""
    with mt.scratch() as tmp, faults.training() as job, faults.crowd("steady") as steady:
        with faults.crowd("storm", "mappings", "60000", faults.BIN / "plugin.so") as storm:
            storm.tell("go")
            storm.line("mapped", 30)
            size, read_s = length_and_time(pathlib.Path(f"/proc/{storm.pid}/maps"))
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", steady.pid, "-p", storm.pid) as tracer:
                steady.tell("go")
                pid = tracer.popen.pid
                begin, before = time.monotonic(), bytes_read(pid)  # by now plans are made: that takes reading, too
                storm.line("done ", 30)
                took = time.monotonic() - begin
                steady.tell("stop")
                told = int(steady.line("told ").split()[1])
                loop, all_of_it = bytes_read(pid, pid) / size, (bytes_read(pid) - before) / size
                job.more_rounds()
                faults.ended(tracer)
        seen = mt.report(tmp / "a.mtr", (0, 3))["devices"]["cuda:1"]
        mt.note(f"maps of {size >> 20} MiB: read {all_of_it:.0f} times at {1000 * read_s:.0f} ms in {took:.1f} s, the loop has read as much as {loop:.1f}; told {told}, seen {seen['allocs']}")
        mt.check(loop < 2, f"the loop itself has read {loop:.1f} times the size of the mappings")
        mt.check(1 <= all_of_it < 2 + 0.4 * took / read_s, f"{all_of_it:.0f} times as much was read as the mappings are")
        mt.check(seen["allocs"] == seen["frees"] == told, f"{seen['allocs']} allocations of {told} of a well-behaved process")


def test_many_libraries():
    """More libraries than memtrace follows in one process (4,096): said, not kept silent; the job beside it is followed on."""
    with mt.scratch() as tmp, faults.training() as job:
        folder = tmp / "libraries"
        folder.mkdir()
        for i in range(4200):
            shutil.copy(faults.BIN / "plugin.so", folder / f"lib{i}.so")
        program = (f"import ctypes, mmap, os, sys\nkept = []\n"
                   f"for i in range(4200):\n"
                   f"    with open('{folder}/lib%d.so' % i, 'rb') as f:\n"
                   f"        kept.append(mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))\n"
                   f"print('ready', flush=True); sys.stdin.readline()\n")
        with mt.Proc([mt.PYTHON, "-c", program]) as many:
            many.line("ready", 60)
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", many.pid, "--probes", "framework,kernel,usdt") as tracer:
                job.more_rounds()
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.check(mt.lost(rep) or any("librar" in t for t in tracer.err), f"104 libraries were dropped in silence: {tracer.err}, {rep['lost']}")
