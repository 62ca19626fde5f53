# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The machine itself: memory that is refused, CPUs that go and come back, clocks that jump."""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

import faults
import mt

SLOW = {"target_out_of_memory", "memtrace_out_of_memory", "cpu_away_and_back", "cpu_away_for_an_instant", "own_time_namespace"}
ALONE = {"cpu_away_and_back", "cpu_away_for_an_instant"}
MIB = 1 << 20


@contextlib.contextmanager
def memory_group(limit):
    """A memory cgroup of this size: .add() for preexec_fn, .refused() whether it was full."""
    v1, v2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
    is_v1 = (v1 / "memory.limit_in_bytes").exists()
    group = (v1 if is_v1 else v2) / f"memtrace-faults-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if is_v1 else "memory.max")).write_text(str(limit))
    except OSError as e:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise mt.Skip(f"no memory cgroups here: {e}") from None

    class Group:
        @staticmethod
        def add():
            (group / "cgroup.procs").write_text(str(os.getpid()))

        @staticmethod
        def kills():
            text = (group / ("memory.oom_control" if is_v1 else "memory.events")).read_text()
            return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), None)
    try:
        yield Group
    finally:
        mt.wait_until(lambda: not (group / "cgroup.procs").read_text().strip(), "the group to be empty", 10)
        group.rmdir()


def test_target_out_of_memory():
    """The kernel's OOM killer takes a traced process: memtrace says what it told to the last, goes on with the job, and ends well."""
    with mt.scratch() as tmp, memory_group(64 * MIB) as group, faults.training() as job:
        with faults.crowd("storm", "eat", "1000", preexec_fn=group.add) as victim:
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", victim.pid) as tracer:
                victim.tell("go")
                mt.check(victim.wait(30) == -signal.SIGKILL and group.kills(), f"not killed: {victim.popen.returncode}")
                job.more_rounds()
                mt.check(tracer.alive(), f"memtrace went with it: {tracer.err[-5:]}")
                faults.ended(tracer)
        said = sum(t.startswith("ate ") for t in victim.out)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        told = rep["devices"]["cuda:7"]["allocs"]
        mt.check(said <= told + mt.lost(rep) and told <= said + 1, f"{said} allocations said, {told} told, lost {rep['lost']}")


def test_memtrace_out_of_memory():
    """memtrace in a group with too little memory, from far too little to nearly enough: whether it ends by a message or by the
    kernel's killer (which takes either half of it, before the attach or behind), nothing is left and the job is as it was."""
    with mt.scratch() as tmp, faults.training() as job:
        before, ends = faults.Machine(), []
        for ring, mib in (("64M", 4), ("64M", 48), ("4M", 32), ("4M", 48), ("4M", 64), ("64M", 128), ("64M", 160)):
            with memory_group(mib * MIB) as group:
                with faults.tracing(job.pid, tmp / f"{ring}-{mib}.mtr", "--ring-size", ring, attached=False,
                                    preexec_fn=group.add) as tracer:
                    end = time.monotonic() + 3  # it may live
                    while tracer.alive() and time.monotonic() < end:
                        time.sleep(0.01)
                    if tracer.alive():
                        tracer.signal(signal.SIGINT)
                    code = tracer.wait(30)
                ends.append((f"{mib} MiB, rings of {ring}", code, any(t.startswith("attached to ") for t in tracer.err)))
                if code == -signal.SIGKILL:
                    mt.check(group.kills(), f"killed with {mib} MiB, and not for its memory")
                else:
                    mt.check(code in (0, 1, 3), f"ended with {code} in {mib} MiB: {tracer.err[-5:]}")
                    mt.check(code != 1 or any(t.startswith("memtrace: ") for t in tracer.err), f"no word in {mib} MiB: {tracer.err}")
            faults.check_nothing_left(before, [job.pid])
    mt.note("; ".join(f"{what}: {code}{', attached' if was_attached else ''}" for what, code, was_attached in ends))
    mt.check(any(code == -signal.SIGKILL for _, code, _ in ends), f"never killed for its memory: {ends}")
    mt.check(any(code == 1 for _, code, _ in ends), f"never ended by itself: {ends}")


def test_cpu_away_and_back():
    """A CPU goes and comes back while a job is traced. Children that are born on it after that are followed like others."""
    cpu_away(lambda job: job.more_rounds())


def test_cpu_away_for_an_instant():
    """The same of one that is back before anybody looked: its events are gone all the same."""
    cpu_away(lambda job: None)


def cpu_away(meanwhile):
    online = pathlib.Path(f"/sys/devices/system/cpu/cpu{os.cpu_count() - 1}/online")
    if not online.exists() or online.read_text().strip() != "1":
        raise mt.Skip("there is no second CPU that could go")
    with mt.scratch() as tmp, faults.training() as job:
        with mt.Proc([mt.BUILD / "tests" / "targets" / "truth_fork"]) as target:
            target.line("ready ")
            with cpu_to_take(online) as take, faults.tracing(job.pid, tmp / "a.mtr", "-p", target.pid) as tracer:
                take("0")
                meanwhile(job)
                take("1")
                job.more_rounds()
                os.sched_setaffinity(target.pid, {os.cpu_count() - 1})
                target.tell("go")
                truth = faults.children_tell(target, tracer)
                job.more_rounds()
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        faults.check_children(rep, truth)


@contextlib.contextmanager
def cpu_to_take(online):
    def take(value):
        try:
            online.write_text(value)
        except OSError as e:
            raise mt.Skip(f"this machine keeps its CPUs: {e}") from None
    try:
        yield take
    finally:
        if online.read_text().strip() != "1":
            online.write_text("1")


def test_wall_clock_jumps():
    """memtrace's wall clock jumps by two hours three times a second (it is preloaded: nobody else's does). Times of a report do
    not: it lasts as long as it did, events are in order, none is lost; the epoch is off by the jump at most."""
    with mt.scratch() as tmp, faults.training() as job:
        begin = time.time()
        env = dict(os.environ, LD_PRELOAD=str(faults.BIN / "clock.so"))
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), env=env) as tracer:
            faults.wait_attached(tracer, [job.pid])
            job.more_rounds(4)
            faults.ended(tracer, (0,))
        took = time.time() - begin
        rep = mt.report(tmp / "a.mtr")
        mt.check(0 < rep["duration_ns"] / 1e9 <= took + 0.5, f"{rep['duration_ns'] / 1e9} s of {took} s")
        mt.check(abs(rep["start_ns"] / 1e9 - begin) < 3700, f"begins at {rep['start_ns'] / 1e9}, it was {begin}")
        times = [e["t"] for e in mt.export(tmp / "a.mtr")]
        mt.check(times == sorted(times) and len(times) > 1000, "not in order")


def test_own_time_namespace():
    """memtrace in a time namespace, a day ahead of the kernel's clock, as in a container that was moved: the same numbers."""
    wrapper = ["unshare", "-T", "--monotonic", "86400", "--boottime", "86400"]
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        raise mt.Skip("no time namespaces here")
    with mt.scratch() as tmp, faults.training() as job:
        begin = time.time()
        with mt.Proc([*wrapper, mt.MEMTRACE, "record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")]) as tracer:
            faults.wait_attached(tracer, [job.pid])
            job.more_rounds(2)
            faults.ended(tracer, (0,))
        took = time.time() - begin
        rep = mt.report(tmp / "a.mtr")
        mt.check(0 < rep["duration_ns"] / 1e9 <= took + 0.5, f"{rep['duration_ns'] / 1e9} s of {took} s")
        mt.check(abs(rep["start_ns"] / 1e9 - begin) < 60, f"begins at {rep['start_ns'] / 1e9}, it was {begin}")
        mt.check(rep["devices"]["cpu"]["allocs"] > 1000 and not mt.lost(rep), f"{rep['devices']}, {rep['lost']}")
