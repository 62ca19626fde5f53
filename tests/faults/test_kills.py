# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace and its targets end where nobody expected it."""
import contextlib
import os
import pathlib
import signal
import time

import faults
import mt

SLOW = {"sigkill_of_the_keeper", "sigkill_of_stopped", "target_killed_amid_an_event", "pid_that_comes_back"}


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
                done = mt.memtrace("report", path)
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
