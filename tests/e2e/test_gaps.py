# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What a job feels of probes being set and taken away: by its own clock, memtrace is not asked."""
import array
import signal
import statistics
import time

import mt

ALONE = {"nobody_waits_longer_than_10_ms"}

EXTRA_MS_MAX = 10
ATTACHES = 5


def while_of(steps, begin, end):
    """Longest wait in ms of the steps that touch a while."""
    return max((waited for at, took, waited in steps if at > begin and at - took < end), default=0) / 1e6


def test_nobody_waits_longer_than_10_ms():
    """A step of a job that hits a probe every microsecond, while 3,650 are set beside it, and while they go."""
    whiles = []
    with mt.scratch() as tmp:
        with mt.job("gaps", tmp / "log") as job:
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
        log = array.array("Q", (tmp / "log").read_bytes())
    steps = list(zip(log[0::3], log[1::3], log[2::3]))
    before = [while_of(steps, w[0], w[1]) for w in whiles]
    at_attach = [while_of(steps, w[1], w[2]) for w in whiles]
    at_end = [while_of(steps, w[3], w[4]) for w in whiles]
    mt.note(f"longest wait of a step, ms: {', '.join(f'{x:.1f}' for x in at_attach)} while probes were set, "
            f"{', '.join(f'{x:.1f}' for x in at_end)} while they went, {', '.join(f'{x:.1f}' for x in before)} before")
    mt.note(f"attach {', '.join(f'{(w[2] - w[1]) / 1e9:.2f}' for w in whiles)} s, end "
            f"{', '.join(f'{(w[4] - w[3]) / 1e9:.2f}' for w in whiles)} s; memtrace says {attach}")
    # Of five: whoever else has the CPU when memtrace holds the job's lock is none of its doing.
    for what, found in (("an attach", at_attach), ("a detach", at_end)):
        mt.check(statistics.median(found) - max(before) <= EXTRA_MS_MAX, f"a step waited {found} ms during {what}")
    mt.check(attach.get("sites", 0) > 3000 and attach.get("slices", 0) >= 4, f"the report does not tell it: {attach}")
    mt.check(0 < attach.get("longest_step_ns", 0) and attach["steps_before"] >= 3, f"no step was compared: {attach}")
