# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Disks without room, and disks that do not answer."""
import contextlib
import signal
import subprocess
import time

import faults
import mt

STORM = "cuda:7"  # where targets/storm.c tells
SLOW = {"full_while_exporting", "stalled", "stalled_for_long", "stalled_while_a_window_is_written"}


def run(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)


@contextlib.contextmanager
def mounted(where, *argv):
    """mount ARGV… WHERE, and away with it at the end, however it ends."""
    where.mkdir()
    done = run("mount", *argv, where)
    if done.returncode:
        raise mt.Skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield where
    finally:
        for _ in range(50):
            if not run("umount", where).returncode:
                break
            time.sleep(0.2)


def check_full(room):
    with mt.scratch() as tmp, mounted(tmp / "disk", "-t", "tmpfs", "-o", f"size={room}", "tmpfs") as disk, faults.training() as job:
        with faults.tracing(job.pid, tmp / "a", "-o", disk / "a.mtr") as tracer:
            mt.wait_until(lambda: any("no space" in t.lower() for t in tracer.err), "a word about the disk", 30)
            job.more_rounds()
            mt.check(tracer.alive(), f"memtrace ended for it, with {tracer.popen.returncode}: {tracer.err}")
            mt.check(faults.ended(tracer) == 3, f"exit {tracer.popen.returncode}")
        rep = mt.report(disk / "a.mtr", (0, 3))
        mt.check(rep["lost"]["recording"] > 0, f"nothing is counted: {rep['lost']}")
        return rep


def test_full():
    """The recording's disk fills up: said on stderr, counted as lost, exit code 3; what was written can be read; job untouched."""
    mt.check(check_full("768k")["devices"]["cpu"]["allocs"] > 0, "nothing can be read")


def test_full_during_the_attach():
    """The same before the attach is over: only a disk that takes nothing at all is a reason not to begin."""
    check_full("160k")
    with mt.scratch() as tmp, mounted(tmp / "disk", "-t", "tmpfs", "-o", "size=4k", "tmpfs") as disk, faults.training() as job:
        (disk / "all").write_bytes(b"x" * 4096)
        begin = time.monotonic()
        mt.expect_failure(mt.memtrace("record", "-p", job.pid, "-o", disk / "a.mtr"), 1, "no space")
        mt.note(f"refused after {time.monotonic() - begin:.1f} s")


def test_full_while_exporting():
    """An export that does not fit fails with a message, and leaves no half of a file under the name."""
    with mt.scratch() as tmp, mounted(tmp / "disk", "-t", "tmpfs", "-o", "size=64k", "tmpfs") as disk, faults.training() as job:
        with faults.tracing(job.pid, tmp / "a.mtr") as tracer:
            job.more_rounds()
            faults.ended(tracer)
        done = mt.memtrace("export", tmp / "a.mtr", "--to", "jsonl", "-o", disk / "a.jsonl")
        mt.expect_failure(done, 1, "no space")


def test_stalled():
    """A disk that does not answer for four seconds (a frozen file system): the drain goes on, numbers are served and grow, no event
    is lost in the rings; what could not be written is counted as such, and the recording is whole before and after."""
    with mt.scratch() as tmp, disk_to_freeze(tmp) as disk, faults.training() as job:
        with serving(job, tmp, disk / "a.mtr") as (tracer, served), frozen(disk) as freeze:
            wait_seen(served, "cpu")
            freeze("-f")
            counts, slowest, end = [], 0.0, time.monotonic() + 4
            while time.monotonic() < end:
                begin = time.monotonic()
                counts.append(served.metrics()["memtrace_allocations_total", ("device", "cpu")])
                slowest = max(slowest, time.monotonic() - begin)
                time.sleep(0.1)
            freeze("-u")
            job.more_rounds()
            faults.ended(tracer)
        rep = mt.report(disk / "a.mtr", (0, 3))
        mt.note(f"allocations {counts[0]:.0f} … {counts[-1]:.0f} in {len(counts)} scrapes while the disk stood still; the slowest took "
                f"{1000 * slowest:.0f} ms; lost {mt.lost(rep)}")
        mt.check(rep["lost"]["ring"] == 0, f"the drain stood still: {rep['lost']}")
        mt.check(rep["lost"]["stalled"] == 0, f"there was room for four seconds: {rep['lost']}")
        mt.check(len(set(counts)) > 2, f"nothing was seen while the disk stood still: {counts}")


def test_stalled_for_long():
    """A disk that does not answer until what waits for it has no more room: events are left out of the recording, and every view
    says so under a reason of its own. The live numbers go on and have them all; the recording has what came before and behind."""
    with mt.scratch() as tmp, disk_to_freeze(tmp) as disk, faults.training() as job, \
            faults.crowd("storm", "random", str(10**9)) as storm:
        with serving(job, tmp, disk / "a.mtr", "-p", storm.pid) as (tracer, served), frozen(disk) as freeze:
            def now():
                """(allocations of the storm, events lost, those of them that the disk did not take)"""
                m = served.metrics()
                lost = {reason: m["memtrace_lost_total", ("reason", reason)] for reason in ("ring", "share", "stalled")}
                return m.get(("memtrace_allocations_total", ("device", STORM)), 0), lost["ring"] + lost["share"], lost["stalled"]
            wait_seen(served, "cpu")
            freeze("-f")
            begin = time.monotonic()
            storm.tell("go")
            mt.wait_until(lambda: now()[2] > 0, "the room to be full", 80, 0.2)
            took, before = time.monotonic() - begin, now()[0]
            mt.wait_until(lambda: now()[0] > before, "more to be seen", 10)
            freeze("-u")
            storm.tell("enough")
            told = int(storm.line("done ", 60).split()[1])
            job.more_rounds()
            mt.wait_until(lambda: sum(now()[:2]) >= told, "all to be seen or counted", 20)
            mt.wait_until(lambda: is_settled(lambda: now()[2]), "the disk to keep up again", 30)
            live, _, stalled = now()
            mt.check(faults.ended(tracer) == 3, f"exit {tracer.popen.returncode}")
        mt.check(any("takes nothing" in t for t in tracer.err), f"no word: {tracer.err}")
        rep = mt.report(disk / "a.mtr", (3,))
        seen = rep["devices"][STORM]["allocs"]
        mt.note(f"no room after {took:.1f} s; told {told}, seen live {live:.0f}, recorded {seen}, lost "
                f"{ {k: v for k, v in rep['lost'].items() if v} }")
        # /metrics is a second old, and a disk that is busy with others' work may stall once more: then there are more
        mt.check(rep["lost"]["stalled"] >= stalled and not rep["lost"]["recording"], f"{stalled} in /metrics, {rep['lost']} recorded")
        mt.check(0 < live - seen <= rep["lost"]["stalled"], f"{told} told, {live} seen live, {seen} recorded, lost {rep['lost']}")
        text = mt.ok(mt.memtrace("report", disk / "a.mtr", "-v"), (3,)).stdout
        mt.check("stalled: not in the recording" in text, text[-2000:])


def watched(tracer):
    """What `record --window` has said, a line each second: "watching: 2.00 s, 12.3 k events, …"."""
    return [t for t in list(tracer.err) if t.startswith("watching: ")]


def test_stalled_while_a_window_is_written():
    """The same while a file of the window is asked for amid a trace: the drain goes on, and the file is there when the disk is."""
    with mt.scratch() as tmp, disk_to_freeze(tmp) as disk, faults.training() as job:
        with faults.tracing(job.pid, tmp / "a", "--window", "5s", "-o", disk / "w.mtr", command="record") as tracer, frozen(disk) as freeze:
            mt.wait_until(lambda: len(watched(tracer)) > 1, "events", 10)
            freeze("-f")
            tracer.signal(signal.SIGUSR1)
            before = len(watched(tracer))
            time.sleep(4)
            meanwhile = watched(tracer)[before:]
            mt.check(not any(t.startswith("wrote ") for t in tracer.err), f"written to a frozen disk: {tracer.err}")
            freeze("-u")
            mt.wait_until((disk / "w-1.mtr").exists, "the file", 10)
            job.more_rounds()
            faults.ended(tracer)
        first, last = mt.report(disk / "w-1.mtr", (0, 3)), mt.report(disk / "w.mtr", (0, 3))
        mt.note(f"while the disk stood still: {meanwhile}; lost {mt.lost(last)}")
        mt.check(len(set(meanwhile)) >= 3, f"the trace stood still with the disk: {meanwhile}")
        mt.check(first["devices"]["cpu"]["allocs"] > 0 and not last["lost"]["ring"], f"{first['devices']}, {last['lost']}")


def wait_seen(served, device):
    """Until /metrics has something of it: what it tells may be a second old."""
    mt.wait_until(lambda: ("memtrace_allocations_total", ("device", device)) in served.metrics(), f"allocations of {device}", 10)


def is_settled(number):
    """It is the same in three seconds: losses are told each second, /metrics may be another one old."""
    first = number()
    time.sleep(3)
    return number() == first


@contextlib.contextmanager
def disk_to_freeze(tmp):
    """A file system of its own, of 256 MiB."""
    image = tmp / "image"
    with open(image, "wb") as f:
        f.truncate(256 << 20)
    if run("mkfs.ext4", "-q", image).returncode:
        raise mt.Skip("needs mkfs.ext4")
    with mounted(tmp / "disk", "-o", "loop", image) as disk:
        yield disk


@contextlib.contextmanager
def serving(job, tmp, path, *args):
    """serve, which records to this path: (the process, where it answers)."""
    import test_serve  # tests/e2e
    with faults.tracing(job.pid, tmp / "a", "--max-overhead", "none", "--listen", "127.0.0.1:0", "-o", path, *args, command="serve") as tracer:
        yield tracer, test_serve.Served(tracer)


@contextlib.contextmanager
def frozen(disk):
    """A function to freeze and thaw. Whatever waits for a frozen disk cannot even be killed: it is thawed however this ends, and
    by a process of its own if the test is killed."""
    def fsfreeze(how):
        done = run("fsfreeze", how, disk)
        if done.returncode:
            raise mt.Skip(f"cannot freeze a file system here: {done.stderr.strip()}")
    with mt.Proc(["sh", "-c", f"read end; fsfreeze -u {disk}"], start_new_session=True):  # its stdin ends with the test
        try:
            yield fsfreeze
        finally:
            run("fsfreeze", "-u", disk)
