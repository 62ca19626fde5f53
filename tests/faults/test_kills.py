# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace and its targets end where nobody expected it."""
import contextlib
import os
import pathlib
import re
import signal
import time

import faults
import mt

SLOW = {"job_becomes_another_while_its_operators_are_set", "sigkill_of_the_keeper", "sigkill_of_the_keeper_with_perf_uprobes",
        "sigkill_of_stopped", "target_killed_amid_an_event", "pid_that_comes_back"}


def test_sigkill_at_ten_moments():
    """SIGKILL amid attach, trace and detach: no probe, link, process or file is left after any of them, the job goes on to the
    same result, what was written can be read, and the next memtrace can attach."""
    rng = faults.chance("kills")
    with mt.scratch() as tmp, faults.training() as job:
        before = faults.Machine()
        takes = {"trace": 1.5, **a_whole_visit(job, tmp / "first.mtr")}
        for i, phase in enumerate(("attach", "trace", "detach", "detach", "attach", "trace", "detach", "detach", "attach", "detach")):
            after = rng.uniform(0, takes[phase])
            path = tmp / f"{i}.mtr"
            with faults.tracing(job.pid, path, attached=phase != "attach") as tracer:
                if phase == "detach":
                    tracer.signal(signal.SIGINT)
                time.sleep(after)
                tracer.signal(signal.SIGKILL)
                tracer.wait()
            try:
                faults.check_nothing_left(before, [job.pid])
            except AssertionError as e:
                raise AssertionError(f"SIGKILL amid {phase}, after {after:.3f} s: {e}") from None
            if path.exists() and path.stat().st_size:
                done = mt.memtrace("report", path, "-v")
                mt.check(done.returncode in (0, 3) or "memtrace: " in done.stderr, f"{phase} +{after:.3f} s: {done.stderr}")
                mt.check(phase == "attach" or done.returncode in (0, 3), f"{phase} +{after:.3f} s: unreadable: {done.stderr}")
        with faults.tracing(job.pid, tmp / "last.mtr") as tracer:
            job.more_rounds()
            faults.ended(tracer)
        mt.check(mt.report(tmp / "last.mtr", (0, 3))["devices"]["cpu"]["allocs"] > 0, "the last one saw nothing")


def a_whole_visit(job, path):
    """Seconds that an attach and a detach take here."""
    begin = time.monotonic()
    with faults.tracing(job.pid, path) as tracer:
        attached = time.monotonic()
        job.more_rounds()
        end = time.monotonic()
        faults.ended(tracer)
        return {"attach": attached - begin, "detach": time.monotonic() - end}


def test_sigkill_of_the_keeper():
    """SIGKILL of the half that holds the probes, and of both at once, at the moments when it matters: while the kernel sets or
    takes away sites for it. It does neither for a thread that is killed ("leaking uprobe" in its log), and yet no probe is left."""
    if not os.path.exists("/proc/self/stack"):
        raise mt.Skip("this kernel does not tell what a thread is at")
    rng = faults.chance("keeper")
    refused = 0
    with mt.scratch() as tmp, faults.training() as job:
        before = faults.Machine()
        for i, phase in enumerate(("attach", "detach") * 5):
            both, begin = rng.random() < 0.5, time.monotonic()
            what = f"SIGKILL of {'both halves' if both else 'the keeper'} amid {phase}, number {i}"
            with faults.tracing(job.pid, tmp / f"{i}.mtr", attached=phase != "attach") as tracer:
                mt.wait_until(lambda t=tracer: mt.child_of(t.pid, "memtrace-keeper") or not t.alive(), "the keeper", 5, 0.001)
                keeper = mt.child_of(tracer.pid, "memtrace-keeper")
                if phase == "detach":
                    tracer.signal(signal.SIGINT)
                else:  # it tries probes on itself before
                    mt.wait_until(lambda t=tracer, k=keeper: holds(k, "libtorch_cpu.so") or not t.alive(), "the plan", 15, 0.001)
                amid(keeper, rng)
                for pid in (tracer.pid, keeper) if both else (keeper,):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                code = tracer.wait(20)
                mt.check(code in (0, 1, 3, -signal.SIGKILL), f"{what}: ended with {code}: {tracer.err}")
            try:
                faults.check_nothing_left(before, [job.pid])
            except AssertionError as e:
                raise AssertionError(f"{what}: {e}") from None
            refused += faults.refused_by_kernel(begin) > 0
        mt.note(f"the kernel refused to put instructions back after {refused} of {i + 1} kills")


def test_sigkill_of_the_keeper_with_perf_uprobes():
    """The way of kernels before 6.6: no place has a cover there. A kill amid the detach leaves one probe at most, the one that is
    being closed, and the next visit takes that away, too."""
    rng = faults.chance("perf")
    how = ("--force-perf-uprobes", "--probes", "framework,regions")
    left = []
    with mt.scratch() as tmp, faults.training() as job:
        before = faults.Machine()
        for i in range(3):
            with faults.tracing(job.pid, tmp / f"{i}.mtr", *how) as tracer:
                keeper = mt.child_of(tracer.pid, "memtrace-keeper")
                there = len(faults.changed_text(job.pid))
                mt.check(there >= 3, f"{there} places")
                tracer.signal(signal.SIGINT)
                time.sleep(rng.uniform(0, 0.5))
                os.kill(keeper, signal.SIGKILL)
                tracer.wait(30)
            mt.wait_until(lambda k=keeper: not os.path.exists(f"/proc/{k}"), "the keeper's end", 30)
            left.append(len(faults.changed_text(job.pid)))
            mt.check(left[-1] <= 1, f"{left[-1]} places of {there} were left")
            with faults.tracing(job.pid, tmp / f"{i}b.mtr", *how) as tracer:
                job.more_rounds()
                faults.ended(tracer)
            faults.check_nothing_left(before, [job.pid])
    mt.note(f"left by each kill: {left}")


def holds(pid, name):
    with contextlib.suppress(OSError):
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith(name) for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


def amid(keeper, rng):
    """Waits for a moment of chance among those at which the kernel sets or takes away sites for one of its threads."""
    wanted, end = rng.randint(1, 40), time.monotonic() + 4
    while wanted and time.monotonic() < end:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{keeper}/task"):
                wanted -= wanted and "register_for_each_vma" in pathlib.Path(f"/proc/{keeper}/task/{task}/stack").read_text()


class Herd(mt.Proc):
    """jobs/herd.py: jobs that are there at once, and may be ended."""

    def __init__(self):
        super().__init__([mt.PYTHON, faults.HERE / "jobs" / "herd.py"], env=faults.environment())
        self.line("ready ", 120)

    def more(self):
        """The pid of another one."""
        def told():
            return [t for t in list(self.out) if t.startswith("child ")]
        before = len(told())
        self.tell("more")
        return int(mt.wait_until(lambda: told()[before:] or not self.alive(), "a child", 20)[0].split()[1])


def seconds_of_sites(herd, path):
    """From the first probe of an attach to the last."""
    pid = herd.more()
    with faults.tracing(pid, path, attached=False) as tracer:
        mt.wait_until(lambda: mt.probed(pid, mt.NEW) or not tracer.alive(), "the first probe", 30, 0.0005)
        begin = time.monotonic()
        mt.wait_until(lambda: any(t.startswith("attached to") for t in tracer.err) or not tracer.alive(), "attached", 30, 0.0005)
        took = time.monotonic() - begin
        faults.ended(tracer)
    os.kill(pid, signal.SIGKILL)
    return took


def told_of(tracer, pid):
    """(set, wanted) of the line "attached to PID … N of M probes"; (0, 0) where there is none."""
    for line in tracer.err:
        if found := re.match(rf"attached to {pid} .*: (\d+) of (\d+) probes", line):
            return int(found[1]), int(found[2])
    return 0, 0


def killed_amid_sites(herd, path, after):
    """How many probes of how many had been set when a job was killed; (0, 0): memtrace gave up, and said why."""
    pid = herd.more()
    with faults.tracing(pid, path, attached=False) as tracer:
        mt.wait_until(lambda: mt.probed(pid, mt.NEW) or not tracer.alive(), "the first probe", 30, 0.0005)
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
        code = faults.explained(tracer, (0, 1), 15)
    if code:
        mt.check(any(t == f"memtrace: process {pid} ended while it was being attached" for t in tracer.err), f"{tracer.err}")
        return 0, 0
    rep = mt.report(path)
    process, = rep["processes"]
    mt.check(process["pid"] == pid and process["state"] == "signal 9" and process["live"] == 0, f"{process}")
    had, wanted = told_of(tracer, pid)
    said = sum(s["attached"] for s in rep["coverage"]["sources"]), sum(s["found"] for s in rep["coverage"]["sources"])
    mt.check(0 < had <= wanted and said[1] - said[0] == wanted - had, f"told {had} of {wanted}, reported {said}")
    return had, wanted


def test_job_killed_while_its_operators_are_set():
    """The sites of operators are set slice by slice, and the job is killed at moments of that, until three of them fell between
    two slices: memtrace ends by itself at once, says so or what it had set, and leaves nothing in others of the same files."""
    rng, amid = faults.chance("amid sites"), []
    with mt.scratch() as tmp, Herd() as herd:
        took = seconds_of_sites(herd, tmp / "first.mtr")
        before = faults.Machine()
        for i in range(20):
            had, wanted = killed_amid_sites(herd, tmp / f"{i}.mtr", rng.uniform(0, took / 2))
            amid += [f"{had} of {wanted} probes" if had else "given up"] if not had or had < wanted else []
            faults.check_nothing_left(before, [herd.pid])
            if len(amid) == 3:
                break
        mt.check(len(amid) == 3, f"too few of 20 kills fell between slices: {amid}; all take {took:.3f} s")
        mt.note(f"{i + 1} kills, of which these amid the sites: {', '.join(amid)}")


def test_job_becomes_another_while_its_operators_are_set():
    """The same with exec: the program that comes in its place is traced from then on (nothing to see), and ends untouched."""
    rng = faults.chance("exec amid sites")
    with mt.scratch() as tmp, Herd() as herd:
        took = seconds_of_sites(herd, tmp / "first.mtr")
        before = faults.Machine()
        for i in range(4):
            pid = herd.more()
            with faults.tracing(pid, tmp / f"{i}.mtr", attached=False) as tracer:
                mt.wait_until(lambda p=pid, t=tracer: mt.probed(p, mt.NEW) or not t.alive(), "the first probe", 30, 0.0005)
                time.sleep(rng.uniform(0, took / 2))
                os.kill(pid, signal.SIGUSR1)
                mt.wait_until(lambda p=pid: pathlib.Path(f"/proc/{p}/comm").read_text() == "sleep\n", "exec", 10)
                mt.wait_until(lambda t=tracer: any(x.startswith("recording:") for x in t.err) or not t.alive(), "it to go on", 30)
                mt.check(not faults.changed_text(pid), "a probe in the program that came in its place")
                code = faults.ended(tracer, (0, 1, 3))
            mt.check(code == 1 or mt.report(tmp / f"{i}.mtr", (0, 3))["processes"][0]["comm"] == "sleep", "another process")
            mt.check(os.path.exists(f"/proc/{pid}"), "the program has ended")
            os.kill(pid, signal.SIGKILL)
            faults.check_nothing_left(before, [herd.pid])


def test_sigkill_of_stopped():
    """A memtrace that is stopped (SIGSTOP) amid tracing does not stop the job; killed then, it leaves nothing."""
    with mt.scratch() as tmp, faults.training() as job:
        with faults.tracing(job.pid, tmp / "a.mtr") as tracer:
            tracer.signal(signal.SIGSTOP)
            job.more_rounds(2)
            tracer.signal(signal.SIGKILL)
            tracer.wait()


def test_target_killed_amid_an_event():
    """SIGKILL of a target that tells allocations without a pause: memtrace ends by itself, says what was told, and the job beside
    it is not touched."""
    with mt.scratch() as tmp, faults.training() as job:
        with faults.crowd("storm", "usdt", str(10**9)) as storm:
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", storm.pid) as tracer:
                storm.tell("go")
                time.sleep(1)
                storm.signal(signal.SIGKILL)
                storm.wait()
                job.more_rounds()
                mt.check(tracer.alive(), f"memtrace went with the target: {tracer.err[-5:]}")
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.check(rep["devices"]["cuda:7"]["allocs"] > 0 and rep["devices"]["cuda:7"]["live"] == 0, f"{rep['devices']['cuda:7']}")


def test_pid_that_comes_back():
    """The target dies and its number goes to another program at once: that one is not traced, and not touched."""
    last = pathlib.Path("/proc/sys/kernel/ns_last_pid")
    with mt.scratch() as tmp, faults.training() as job:
        with faults.crowd("steady") as old, faults.tracing(job.pid, tmp / "a.mtr", "-p", old.pid) as tracer:
            old.tell("go")
            job.more_rounds()
            old.signal(signal.SIGKILL)
            old.wait()
            with faults.crowd("steady") if born_as(last, old.pid) else mt.Proc(["true"]) as new:
                if new.pid != old.pid:
                    raise mt.Skip(f"this kernel gave {new.pid} in place of {old.pid}")
                new.tell("go")
                job.more_rounds(2)
                mt.check(not faults.changed_text(new.pid), "a probe in the one that came after")
                new.tell("stop")
                said = new.line("told ").split()
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.check(rep["devices"]["cuda:1"]["live"] == 0, f"{rep['devices']['cuda:1']}; the second one told {said}")
        mt.check(sum(p["pid"] == old.pid for p in rep["processes"]) == 1, f"{rep['processes']}")


def born_as(last, pid):
    """The next process of this machine gets this number, if nobody is quicker."""
    try:
        last.write_text(str(pid - 1))
    except OSError:
        return False
    return not os.path.exists(f"/proc/{pid}")
