# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A hostile process beside a well-behaved job: all floods at once, and a Python heap that is made to be walked for ever."""
import contextlib
import pathlib
import re
import shutil
import time

import faults
import mt

SLOW = {"python_heap", "all_floods_at_once"}
ALONE = {"all_floods_at_once"}  # with -a it takes the jobs of other tests, too: whichever no memtrace has just now
ANSWER_S_MAX = 0.1
RSS_MAX = 512 << 20


def rss_peak(pids):
    """Bytes, of the one that had most."""
    peak = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            peak = max(peak, 1024 * int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]))
    return peak


def test_all_floods_at_once():
    """serve -a finds a hostile process by itself (it maps a file named libcudart.so) and a steady one that knows what it told. The
    steady one's events are all there, the hostile one is named for what of its events was left out, /metrics answers within 100 ms throughout, and the job beside them comes to its result."""
    import test_serve  # tests/e2e
    with mt.scratch() as tmp, faults.training() as job:
        library = shutil.copy(faults.BIN / "plugin.so", tmp / "libcudart.so.13")
        with faults.crowd("storm", "all", "0", library) as hostile, faults.crowd("steady", library) as steady:
            with faults.tracing(None, tmp / "a", "-a", "--max-overhead", "none", "--listen", "127.0.0.1:0", "-o", tmp / "a.mtr", command="serve",
                                attached=False) as tracer:
                served = test_serve.Served(tracer)
                hostile.tell("go")
                faults.wait_attached(tracer, [job.pid, steady.pid, hostile.pid])
                steady.tell("go")
                took, end = [], time.monotonic() + 10
                while time.monotonic() < end:
                    begin = time.monotonic()
                    status, _, _ = served.fetch("/metrics")
                    took.append(time.monotonic() - begin)
                    mt.check(status == 200, f"/metrics: {status}")
                    time.sleep(0.05)
                steady.tell("stop")
                told = int(steady.line("told ").split()[1])
                hostile.close()
                job.more_rounds()
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        seen = rep["devices"]["cuda:1"]["allocs"]
        mt.note(f"{told} told by the steady one, {seen} seen; hostile: {rep['devices']['cuda:7']['allocs']} seen, lost "
                f"{ {k: v for k, v in rep['lost'].items() if v} }; {len(took)} answers, median {1000 * sorted(took)[len(took) // 2]:.0f} ms, "
                f"slowest {1000 * max(took):.0f} ms")
        freed = rep["devices"]["cuda:1"]["frees"]
        mt.check(seen == freed == told, f"{seen} allocations and {freed} frees of {told} of a well-behaved process")
        notes = " ".join(rep["coverage"]["notes"])
        left_out = {int(pid): int(cnt) for cnt, pid in re.findall(r"(\d+) events of process (\d+) were left out", notes)}
        # The training job has as much as can be followed: on two cores that all of them want, that may not be all it tells.
        mt.check(f"process {hostile.pid} sent more than its share" in notes and steady.pid not in left_out and
                 sum(left_out.values()) == rep["lost"]["share"] and left_out[hostile.pid] >= rep["lost"]["share"] * 3 // 4,
                 f"hostile is {hostile.pid}; {notes}; lost: {rep['lost']}")
        mt.check(max(took) <= ANSWER_S_MAX, f"an answer took {1000 * max(took):.0f} ms")


def test_python_heap():
    """A heap full of what looks like modules, optimizers and tensors, which changes all the time (jobs/heap.py): names are read
    within bounded memory, the job beside it has its names, and events go on."""
    with mt.scratch() as tmp, faults.training() as job:
        program = [mt.PYTHON, faults.HERE / "jobs" / "heap.py"]
        with mt.Proc(program, env=faults.environment()) as heap:
            heap.line("ready ", 90)
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", heap.pid) as tracer:
                peak, end = 0, time.monotonic() + 10
                while time.monotonic() < end:
                    peak = max(peak, rss_peak(faults.memtraces()))
                    time.sleep(0.2)
                mt.check(tracer.alive(), f"memtrace ended: {tracer.err[-5:]}")
                job.more_rounds()
                faults.ended(tracer)
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.note(f"memtrace took {peak >> 20} MiB at most; lost { {k: v for k, v in rep['lost'].items() if v} }")
        mt.check(peak <= RSS_MAX, f"{peak >> 20} MiB of memtrace for a hostile heap")
        mt.check(rep["devices"]["cpu"]["allocs"] > 1000, f"{rep['devices']}")
