# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What a job feels of probes being set and taken away: by its own clock, memtrace is not asked."""
import array
import signal
import statistics
import time

import mt

# Beside many runnable threads it asks what the scheduler may not give (docs/cost.md): in check-promises, at its limit.
SLOW = {"nobody_waits_longer_in_long_steps"}
ALONE = {"nobody_waits_longer_than_10_ms", "nobody_waits_longer_in_long_steps"}

EXTRA_MS_MAX = 10
# What a longer step may wait: probes are set for 2 of each 11.5 ms (user/live/setter.h), which makes those 10 ms of 57.
EXTRA_SHARE_MAX = EXTRA_MS_MAX / 57
ATTACHES = 5


def while_of(waits, begin, end):
    """Longest wait in ms of those {end, duration, waited} that touch a while."""
    return max((waited for at, took, waited in waits if at > begin and at - took < end), default=0) / 1e6


def visits(*job_args):
    """Comes to a job and goes, again and again: [(begin, command, attached, signalled, ended)], how it was told."""
    whiles = []
    with mt.scratch() as tmp:
        with mt.job("gaps", *job_args) as job:
            for i in range(ATTACHES):
                begin = time.monotonic_ns()
                time.sleep(1)
                command = time.monotonic_ns()
                with mt.start("record", "-p", str(job.pid), "--keep-idle", "-o", str(tmp / f"{i}.mtr")) as tracer:
                    mt.wait_until(lambda: any("attached to" in line for line in list(tracer.err)), "the attach", 20, 0.001)
                    attached = time.monotonic_ns()
                    time.sleep(0.5)
                    signalled = time.monotonic_ns()
                    mt.finish(tracer)
                    ended = time.monotonic_ns()
                whiles.append((begin, command, attached, signalled, ended))
            attach = mt.report(tmp / "0.mtr").get("attach", {})
            job.signal(signal.SIGTERM)
            mt.check(job.wait() == 0, f"the job failed: {job.err}")
    mt.note(f"attach {', '.join(f'{(w[2] - w[1]) / 1e9:.2f}' for w in whiles)} s, end "
            f"{', '.join(f'{(w[4] - w[3]) / 1e9:.2f}' for w in whiles)} s; memtrace says {attach}")
    return whiles, attach


def extra_max(steps, whiles):
    """In ms, for steps as long as they were before memtrace came."""
    return max(EXTRA_MS_MAX, EXTRA_SHARE_MAX * statistics.median(took / 1e6 for at, took, _ in steps if at < whiles[0][1]))


def check_waits(who, waits, whiles, limit=EXTRA_MS_MAX):
    before = [while_of(waits, w[0], w[1]) for w in whiles]
    at_attach = [while_of(waits, w[1], w[2]) for w in whiles]
    at_end = [while_of(waits, w[3], w[4]) for w in whiles]
    mt.note(f"longest wait of {who}, ms: {', '.join(f'{x:.1f}' for x in at_attach)} while probes were set, "
            f"{', '.join(f'{x:.1f}' for x in at_end)} while they went, {', '.join(f'{x:.1f}' for x in before)} before")
    # Of five: whoever else has the CPU when memtrace holds the job's lock is none of its doing.
    for what, found in (("an attach", at_attach), ("a detach", at_end)):
        mt.check(statistics.median(found) - max(before) <= limit, f"{who} waited {found} ms during {what}, {limit:.1f} are allowed")


def records(path, width):
    log = array.array("Q", path.read_bytes())
    return list(zip(*(log[i::width] for i in range(width))))


def test_nobody_waits_longer_than_10_ms():
    """A step of a job that hits a probe every microsecond, while 3,650 are set beside it, and while they go."""
    with mt.scratch() as tmp:
        whiles, attach = visits(tmp / "log")
        check_waits("a step", records(tmp / "log", 3), whiles)
    mt.check(attach.get("sites", 0) > 3000 and attach.get("slices", 0) >= 4, f"the report does not tell it: {attach}")
    mt.check(0 < attach.get("longest_step_ns", 0) and attach["steps_before"] >= 3, f"no step was compared: {attach}")


def test_nobody_waits_longer_in_long_steps():
    """A step of 57 ms, beside which several slices are set; and a thread of the same job that maps memory all the time, which takes
    the very lock: what one call of it waits, on a CPU or not."""
    mapper = mt.compile_c("mapper", "-shared", "-fPIC", "-pthread")
    with mt.scratch() as tmp:
        whiles, _ = visits(tmp / "log", "transformer", mapper)
        steps = records(tmp / "log", 3)
        check_waits("a step", steps, whiles, extra_max(steps, whiles))
        check_waits("a thread that maps memory", [(at, waited, waited) for at, waited in records(tmp / "log.mapper", 2)], whiles)
