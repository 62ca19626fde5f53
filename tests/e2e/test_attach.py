# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Attaching to a job that runs, and leaving it, in every way in which that can go."""
import contextlib
import os
import pathlib
import pty
import re
import select
import signal
import statistics
import subprocess
import sys
import time

import grown
import mt

# The promise, at mt.pace() 1; without the time for which a thread of memtrace waited for a CPU that others had, or, where others always have one and
# its threads wait in turn, times mt.crowd().
ATTACH_S_MAX = 2.0

SLOW = {"what_is_lost_after_the_end_is_not_counted"}
LANDING = {"max_overhead_detaches", "max_overhead_detaches_without_steps", "two_memtraces_on_one_process", "a_memtrace_right_after_another",
           "max_loss_is_the_line"}
ALONE = {"attach_is_fast_and_steps_continue", "max_overhead_detaches", "max_overhead_detaches_without_steps", "ring_too_small_shows_losses",
         "max_loss_is_the_line"}


def waited_for_a_cpu(pid):
    """The most that one thread of this process or its children stood in a run queue, in seconds."""
    pids = [pid, *subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()]
    waits = [0.0]
    for task in (t for p in pids for t in pathlib.Path(f"/proc/{p}/task").glob("*/schedstat")):
        with contextlib.suppress(OSError):
            waits.append(int(task.read_text().split()[1]) / 1e9)
    return max(waits)


def test_attach_is_fast_and_steps_continue():
    """All operator probes are set soon after the command's start, each time, and the job goes on (how evenly: test_gaps.py)."""
    took, waits, crowds, pace = [], [], [], mt.pace()
    with mt.scratch() as tmp, mt.job("mlp") as job:
        for i in range(3):
            crowds.append(mt.crowd())
            begin = time.monotonic()
            with mt.start("record", "-p", str(job.pid), "-o", str(tmp / f"{i}.mtr")) as tracer:
                mt.wait_attached(tracer, job.pid, mt.OP)
                took.append(time.monotonic() - begin)
                waits.append(waited_for_a_cpu(tracer.pid))
                time.sleep(0.5)
                mt.finish(tracer, tmp / f"{i}.mtr")
        mt.check_goes_on(job)
        job.signal(signal.SIGTERM)
        mt.check(job.wait() == 0, f"the job failed: {job.err}")
    said = ", ".join(f"{t:.2f} s ({w:.2f} of it in a run queue)" for t, w in zip(took, waits))
    pace, crowd = max(pace, mt.pace()), statistics.median(crowds)
    mt.note(f"attached in {said}; the machine takes {pace:.2f} times as long as it may, and shares its CPUs {crowd:.2f} times")
    longest = ATTACH_S_MAX * pace
    mt.check(all(t <= max(longest + w, longest * crowd) for t, w in zip(took, waits)), f"attached only after {said}")


def test_live_report_equals_replay():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        live = mt.ok(mt.memtrace("-p", job.pid, "-d", 3, "--max-overhead", "none", "-o", tmp / "a.mtr", "--json")).stdout
        replay = mt.ok(mt.memtrace("report", tmp / "a.mtr", "--json")).stdout
        rep = mt.report(tmp / "a.mtr")
    mt.check(rep["devices"]["cpu"]["allocs"] > 1000, f"too few allocations: {rep['devices']}")
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    mt.check(live == replay, "the live report and the replayed one differ:\n"
             + next((f"live   {a}\nreplay {b}" for a, b in zip(live.splitlines(), replay.splitlines())
                     if a != b), f"lengths {len(live)} and {len(replay)}")[:2000])
    mt.check_goes_on(job)


def test_steps_are_watched_at_both_ends():
    """What tracing costs is taken from steps before and after it; nothing else of what comes after is in the recording."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 3, "-o", tmp / "a.mtr"))
        rep = mt.report(tmp / "a.mtr")
        text = mt.ok(mt.memtrace("report", "-v", tmp / "a.mtr")).stdout
        asked = []
        for first in (signal.SIGINT, signal.SIGTERM):
            with mt.start("record", "-p", str(job.pid), "--keep-idle", "-o", str(tmp / "b.mtr"), "--force") as tracer:
                mt.wait_attached(tracer, job.pid, mt.OP)
                time.sleep(0.5)
                tracer.signal(first)
                time.sleep(0.05)  # the removal of all operators' probes takes longer
                mt.finish(tracer, tmp / "b.mtr")
            asked.append(mt.report(tmp / "b.mtr"))
    of = rep["overhead"]["measured"]
    mt.check(of["steps_before"] >= 4 and of["steps_after"] >= 7 and rep["events"]["step_after"] == of["steps_after"], f"{of}, {rep['events']}")
    mt.check(of["median_step_after_ns"] < of["median_step_ns"] or of["lost"] < of["error"], f"{of}")
    mt.check(" traced and " in " ".join(text.split()) and " after: " in " ".join(text.split()), text)
    mt.check(not any(mt.lost(r) for r in (rep, *asked)), f"lost: {rep['lost']}, {[r['lost'] for r in asked]}")
    mt.check(all(r["overhead"]["measured"]["steps_after"] == 0 for r in asked), f"Ctrl-C again, or SIGTERM: {[r['overhead'] for r in asked]}")
    mt.check_goes_on(job)


def test_what_is_lost_after_the_end_is_not_counted():
    """Probes go one after the other, and here slowly: those that are left meet a process half forgotten."""
    job = mt.shared_job("mlp")
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        with mt.scratch() as tmp:
            for i in range(4):
                mt.ok(mt.memtrace("record", "-q", "-p", job.pid, "-d", "500ms", "-o", tmp / f"{i}.mtr",
                                  preexec_fn=lambda: os.nice(15)), (0, 3))
                rep = mt.report(tmp / f"{i}.mtr", (0, 3))
                mt.check(rep["devices"]["cpu"]["allocs"] > 100, f"too few allocations: {rep['devices']}")
                mt.check(not rep["lost"]["args"], f"lost: {rep['lost']}")
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    mt.check_goes_on(job)


def check_detaches(job, path, percent, *more):
    """With exit code 4, a reason and nothing left."""
    begin = time.monotonic()
    done = mt.memtrace("record", "-p", job.pid, "-d", 60, "--max-overhead", percent, *more, "-o", path, "--force")
    took = time.monotonic() - begin
    mt.check(done.returncode == 4 and took < 50, f"{done.returncode} after {took:.0f} s: {done.stderr}")
    mt.check(re.search(rf"probes took [0-9.]+ % of the job's CPU time, and --max-overhead allows {percent} %", done.stderr)
             and "hint: " in done.stderr, f"the reason is not told: {done.stderr}")
    mt.check(not mt.probed(job.pid, mt.NEW), "probes were left")
    text = mt.ok(mt.memtrace("report", path, "-v"), (0, 3)).stdout
    mt.check("--max-overhead allows" in re.sub(r"\s+", " ", text), f"the report does not tell it:\n{text[-2000:]}")


def test_max_overhead_detaches():
    """Where probes are set one by one, so that there are no windows, and where marks of steps stay, because they count them, and are too
    dear; a budget that nobody asked for ends nothing."""
    job = mt.shared_job("mlp")  # births and frees are a tenth of its time, marks some thousandths
    with mt.scratch() as tmp:
        done = mt.memtrace("-p", job.pid, "-d", 8, "--force-perf-uprobes", "--probes", "framework,regions")
        mt.check(done.returncode in (0, 3) and "is not held" in done.stderr, f"{done.returncode}: {done.stderr}")
        for percent, more in ((1, ("--force-perf-uprobes", "--probes", "framework,regions")), (0.01, ("--align", "1000"))):
            check_detaches(job, tmp / "a.mtr", percent, *more)
            mt.check_goes_on(job)
        mt.ok(mt.memtrace("record", "-q", "-p", job.pid, "-d", 5, "--max-overhead", "100%", "-o", tmp / "b.mtr"))
        for value in ("0", "-1", "101", "x", "5x", "nan", ""):
            mt.ok(mt.memtrace("record", "-p", job.pid, "--max-overhead", value), (2,))


REGIONS = """import torch
print("ready", flush=True)
x = torch.ones(8, 8)
while True:
    with torch.autograd.profiler.record_function("part"):
        x.relu()
"""


def test_max_overhead_detaches_without_steps():
    """A job of regions alone: nothing tells of steps, so marks stay between windows, and are all of it. A live view says so, and goes on."""
    with mt.scratch() as tmp, mt.Proc([mt.PYTHON, "-c", REGIONS]) as job:
        job.line("ready", 120)
        check_detaches(job, tmp / "a.mtr", 2)
        with mt.start("-p", str(job.pid), "--json", "-o", str(tmp / "b.mtr")) as tracer:
            mt.wait_until(lambda: "that are meant: it goes on" in "".join(list(tracer.err)), "a word on what is not held", 60)
            begin = time.monotonic()
            mt.wait_until(lambda: time.monotonic() > begin + 5, "it goes on", 10)
            mt.check(tracer.alive() and job.alive(), f"it ended: {tracer.err[-3:]}")
            tracer.signal(signal.SIGINT)
            code, text = tracer.wait(), "".join(tracer.err)
        mt.check(code in (0, 3), f"{code}: {text}")  # losses are not what this is about
        mt.check(text.count("it goes on") == 1 and text.count("there are no windows; --max-overhead ") == 1, text)


def test_sigkill_leaves_no_probe_and_a_readable_recording():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            mt.wait_until(lambda: grown.so_far(tmp / "a.mtr").get("devices", {}).get("cpu", {}).get("allocs", 0) > 1000, "a thousand allocations", 60, 0.3)
            mt.check(mt.probed(job.pid, mt.NEW), "no probe while tracing")
            tracer.signal(signal.SIGKILL)
            tracer.wait()
        mt.check_goes_on(job)
        done = mt.ok(mt.memtrace("report", tmp / "a.mtr", "-v"), (0, 3))
        mt.check("its end is missing" in done.stderr,
                 f"nothing says that the recording has no end: {done.stdout[-1500:]} {done.stderr}")
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.check(rep["devices"]["cpu"]["allocs"] > 1000, f"too few allocations: {rep['devices']}")


def test_ctrl_c_prints_the_report():
    job = mt.shared_job("mlp")
    with mt.start("-p", str(job.pid), "--max-overhead", "none") as tracer:
        mt.wait_attached(tracer, job.pid)
        mt.wait_until(lambda: len(tracer.out) >= 2, "two lines of the live table")
        mt.check(not any("\x1b" in line for line in tracer.out), "escape sequences in a pipe")
        lines = len(tracer.out)
        tracer.signal(signal.SIGINT)
        mt.check(tracer.wait() == 0, f"exit {tracer.popen.returncode}: {tracer.err}")
    text = "\n".join(tracer.out[lines:])
    for word in ("cpu", "aten::", "peak", "lost"):
        mt.check(word in text.lower(), f"'{word}' is not in the report: {text}")
    mt.check_goes_on(job)


def read_terminal(fd, is_enough):
    """What it says until it is enough, or until nobody has the other end any more."""
    data, end = b"", time.monotonic() + mt.guard()
    while not is_enough(data) and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                break
            if not piece:
                break
            data += piece
    return data.decode(errors="replace")


def test_terminal_is_redrawn_in_place():
    job = mt.shared_job("mlp")
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(mt.MEMTRACE, [mt.MEMTRACE, "-p", str(job.pid)])
    try:
        live = read_terminal(fd, lambda data: all(word in data for word in (b"\x1b[", b"cpu", b"aten::")))
        mt.check("\x1b[" in live, f"nothing was redrawn: {live[:500]!r}")
        mt.check("cpu" in live and "aten::" in live, f"no table: {live[:2000]!r}")
        os.write(fd, b"\x03")
        rest = read_terminal(fd, lambda _: False)
    finally:
        status = None
        end = time.monotonic() + mt.guard()
        while status is None and time.monotonic() < end:
            ended, code = os.waitpid(pid, os.WNOHANG)
            status = code if ended else None
            time.sleep(0.01)
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(fd)
    mt.check(status == 0, f"did not end well on Ctrl-C (status {status}): {rest[-1000:]!r}")
    mt.check("aten::" in rest, f"no report after Ctrl-C: {rest[:2000]!r}")
    mt.check_goes_on(job)


def test_ring_too_small_shows_losses():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        done = mt.memtrace("-p", job.pid, "-d", 2, "--max-overhead", "none", "--ring-size", "4K", "-o", tmp / "a.mtr")
        mt.ok(done, (3,))
        mt.check(re.search(r"\blost\b|losses", done.stdout, re.I), f"no losses in: {done.stdout[-2000:]}")
        rep = mt.report(tmp / "a.mtr", (3,))
        mt.check(rep["lost"]["ring"] > 0, f"lost: {rep['lost']}")
    mt.check_goes_on(job)


def counted_losses():
    """Reasons that make the exit code 3, as docs/losses.md marks them."""
    table = (mt.ROOT / "docs" / "losses.md").read_text()
    return set(re.findall(r"^\| `(\w+)` \| • \|", table, re.M))


def test_max_loss_is_the_line():
    """As many lost events as --max-loss says are well, one more is exit 3: of a trace, and of what reads its recording."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        small = ("-p", job.pid, "-d", 2, "--ring-size", "4K")
        path = tmp / "a.mtr"
        mt.ok(mt.memtrace("record", *small, "-o", path), (3,))
        told = mt.report(path, (3,))["lost"]
        lost = sum(n for reason, n in told.items() if reason in counted_losses())
        mt.check(lost > 100, f"nothing was lost, so nothing is tested: {told}")
        mt.ok(mt.memtrace("export", path, "--to", "csv", "-o", tmp / "b.csv"), (3,))
        for what in (("report", path), ("report", path, "--json"), ("diff", path, path), ("estimate", path), ("estimate", path, "--optimizer", "sgd"),
                     ("export", path, "--to", "csv", "--force", "-o", tmp / "b.csv")):
            mt.ok(mt.memtrace(*what, "--max-loss", lost - 1), (3,))
            done = mt.ok(mt.memtrace(*what, "--max-loss", lost))
            mt.check(what[0] != "report" or "lost" in done.stdout, "an allowed loss is not shown")
        mt.ok(mt.memtrace("record", *small, "-o", tmp / "c.mtr", "--max-loss", 10**12))
        mt.ok(mt.memtrace(*small, "--max-loss", 10**12))
        mt.check(mt.report(tmp / "c.mtr", (3,))["lost"]["ring"] > 0, "nothing was lost the second time")
    mt.expect_failure(mt.memtrace("report", "x.mtr", "--max-loss", "-1"), 2, "-1")
    mt.check_goes_on(job)


def test_perf_uprobe_fallback():
    """The way of kernels without uprobe_multi, forced: same blocks, nothing left behind."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 2, "--probes", "framework",
                          "--force-perf-uprobes", "-o", tmp / "a.mtr"))
        rep = mt.report(tmp / "a.mtr")
    cpu = rep["devices"]["cpu"]
    mt.check(cpu["allocs"] > 1000 and cpu["frees"] > 1000, f"{cpu}")
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    mt.check_goes_on(job)


def test_two_memtraces_on_one_process():
    """The second is refused with a message; the first is not disturbed; then the process is free again."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as first:
            mt.wait_attached(first, job.pid, mt.OP)
            second = mt.memtrace("record", "-p", job.pid, "-d", 2, "-o", tmp / "b.mtr")
            mt.expect_failure(second, 1, str(job.pid), "hint: ")
            mt.check(first.alive(), f"the first one ended early: {first.err}")
            mt.check(mt.probed(job.pid, mt.NEW), "the second one took the first one's probes away")
            before = grown.so_far(tmp / "a.mtr").get("steps", 0)
            mt.wait_until(lambda: grown.so_far(tmp / "a.mtr").get("steps", 0) > before + 5, "steps in the first one's recording", 60, 0.3)
            mt.finish(first, tmp / "a.mtr")
        grown.record(tmp / "b.mtr", job, lambda rep: rep.get("steps", 0) > 5, "steps in the next one's")
        for name in ("a.mtr", "b.mtr"):
            mt.check(mt.lost(mt.report(tmp / name)) == 0, f"{name}: {mt.report(tmp / name)['lost']}")
    mt.check_goes_on(job)


def test_a_memtrace_right_after_another():
    """Started while the one before still takes its probes away, or lies killed: it waits, and traces."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        for number, end in enumerate((signal.SIGINT, signal.SIGKILL)):
            with mt.start("record", "-p", str(job.pid), "-o", str(tmp / f"{number}.mtr")) as first:
                mt.wait_attached(first, job.pid, mt.OP)
                first.signal(end)
                done = mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", tmp / f"{number}-after.mtr"))
                first.wait()
            mt.check("attached to" in done.stderr, done.stderr)
            mt.check(mt.report(tmp / f"{number}-after.mtr")["devices"]["cpu"]["allocs"] > 100, "nothing was traced")
    mt.check_goes_on(job)


SQUAT = """
import glob, os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(chr(0) + "memtrace/" + sys.argv[1])
for path in glob.glob("/run/memtrace/*") + ["/run/memtrace/x"]:
    for flags in (os.O_RDONLY, os.O_RDWR) if path[-1] != "x" else (os.O_RDWR | os.O_CREAT,):
        try:
            os.open(path, flags)
            print("got", path)
        except PermissionError:
            pass
print("ready", flush=True)
time.sleep(60)
"""


def test_nobody_else_can_lock_a_process():
    """An unprivileged user binds the name that the lock once had, and tries to get at those that there are now."""
    job = mt.shared_job("mlp")
    argv = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "/usr/bin/python3", "-c", SQUAT, str(job.pid)]
    with mt.scratch() as tmp, mt.Proc(argv, cwd="/") as squatter:
        squatter.line("ready")
        mt.check(len(squatter.out) == 1, f"{squatter.out}")
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", tmp / "a.mtr"))
