# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What targets do while they are watched: load libraries, fork, exec, die; and targets with nothing to see."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import grown
import mt

LANDING = {"record_of_all_jobs", "torch_loaded_after_the_attach"}
ALONE = {"record_of_all_jobs", "record_of_all_jobs_has_a_name_of_its_own"}


def has_worked(rep):
    return grown.cpu(rep).get("allocs", 0) > 1000 and any(op["name"].startswith("aten::addmm") for op in rep["ops"])


def test_torch_loaded_after_the_attach():
    """A Python without torch is refused, unless something is asked for that is there: then torch is
    probed as it comes. --min-size keeps the host layer quiet, which the import would flood."""
    with mt.scratch() as tmp, mt.job("late", ready=False) as job:
        job.line("waiting ")
        mt.expect_failure(mt.memtrace("-p", job.pid, "-d", 1), 1, "hint: ")
        with mt.start("record", "-p", str(job.pid), "--probes", "framework,ops,regions,host",
                      "--min-size", "1G", "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_attached(tracer, job.pid, mt.MALLOC)
            job.tell("go")
            job.line("ready ", 120)
            mt.wait_attached(tracer, job.pid, mt.OP)
            grown.wait(tracer, tmp / "a.mtr", has_worked, "operators of its steps")
            mt.finish(tracer, tmp / "a.mtr")
        mt.check_goes_on(job)


def children(pid):
    kids = set()
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            kids.update(map(int, path.read_text().split()))
    return kids


def test_forked_workers_are_followed():
    """The DataLoader starts a new worker process each epoch, about once a second."""
    with mt.scratch() as tmp, mt.job("transformer", "--workers", 1, "--batch", 8) as job:
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            there, came = children(job.pid), set()

            def three_came():
                came.update(children(job.pid) - there)
                return len(came) >= 3
            mt.wait_until(three_came, "two workers from begin to end, and a third", 90)
            mt.finish(tracer, tmp / "a.mtr")
        rep = mt.report(tmp / "a.mtr")
        births = [e for e in mt.export(tmp / "a.mtr") if e["ev"] == "create" and e["pid"] != job.pid]
        mt.check_goes_on(job)
    pids = {p["pid"] for p in rep["processes"]}
    mt.check(job.pid in pids and len(pids) > 1, f"processes: {pids}")
    mt.check(births, "no allocation of a worker was seen")
    workers = [p for p in rep["processes"] if p["pid"] in {b["pid"] for b in births}]
    told = [(p["how"], p["ppid"]) for p in workers]
    mt.check(told.count(("forked", job.pid)) >= 2, f"whose children they are: {told}")
    # One may be there when memtrace comes.
    mt.check(set(told) <= {("forked", job.pid), ("attached", job.pid)} and told.count(("attached", job.pid)) <= 1, f"{told}")
    mt.check({b["pid"] for b in births} <= pids, "allocations of processes that the report does not list")


FORKS_UNSEEN = """
import os, signal, sys, threading, time, torch
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
sys.stdin.readline()
# more news than the kernel has room for while nobody listens: two records each
for _ in range(12000):
    t = threading.Thread(target=int)
    t.start()
    t.join()
pid = os.fork()
if not pid:
    signal.sigwait([signal.SIGUSR1])
    for _ in range(2000):
        torch.ones(100)
    print("worked", flush=True)
    time.sleep(600)
    os._exit(0)
sys.stdin.readline()
os.kill(pid, 9)
"""


def test_children_are_found_after_lost_news():
    """memtrace stands still while thousands of threads come and go, and a child: it is followed all the same."""
    with mt.scratch() as tmp, subprocess.Popen([mt.PYTHON, "-c", FORKS_UNSEEN], stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE, text=True) as job:
        try:
            job.stdout.readline()
            with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "--probes", "framework") as tracer:
                mt.wait_attached(tracer, job.pid)
                tracer.signal(signal.SIGSTOP)
                job.stdin.write("go\n")
                job.stdin.flush()
                children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
                seen = []
                mt.wait_until(lambda: (seen.append(children.read_text().split()) or len(seen) > 3) and seen[-1]
                              and seen[-1] == seen[-2] == seen[-3], "the last child", timeout=60, pause=0.2)
                child, = map(int, seen[-1])
                tracer.signal(signal.SIGCONT)
                mt.wait_until(lambda: any(t.startswith(f"attached to {child} ") for t in list(tracer.err)) or not tracer.alive(),
                              f"child {child} to be followed", 60)
                os.kill(child, signal.SIGUSR1)
                job.stdout.readline()
                tracer.signal(signal.SIGINT)
                mt.check(tracer.wait(60) == 3, f"lost news are a loss: {tracer.err}")
            rep = mt.report(tmp / "a.mtr", codes=(3,))
            mt.check(rep["lost"]["sideband"] > 0, f"nothing was lost, so nothing is tested: {rep['lost']}")
            mt.check(child in {p["pid"] for p in rep["processes"]}, f"{child} is not followed: {rep['processes']}")
            mt.ok(mt.memtrace("export", tmp / "a.mtr", "--to", "jsonl", "-o", tmp / "a.jsonl"), codes=(3,))
            evs = [json.loads(line) for line in open(tmp / "a.jsonl")]
            births = sum(e["ev"] == "create" and e["pid"] == child for e in evs)
            mt.check(births >= 1000, f"{births} births of the child")
        finally:
            if job.stdin and not job.stdin.closed:
                job.stdin.close()  # it takes the child along
            job.wait(60)


BECOMES_A_DAEMON = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
sys.stdin.readline()
pid = os.fork()
if not pid:
    if os.fork():
        os._exit(0)  # before anybody has heard of the one that it made
    print("daemon", os.getpid(), flush=True)
    signal.sigwait([signal.SIGUSR1])
    x = [bytes(9000) for _ in range(500)]
    print("worked", flush=True)
    time.sleep(600)
    os._exit(0)
os.waitpid(pid, 0)
sys.stdin.readline()
"""


def test_daemons_are_followed():
    """A grandchild whose parent has ended at once is the job's own still, though /proc says that it is another's child."""
    with mt.scratch() as tmp, subprocess.Popen(["/usr/bin/python3", "-c", BECOMES_A_DAEMON], stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE, text=True) as job:
        daemon = None
        try:
            job.stdout.readline()
            with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "--probes", "host") as tracer:
                mt.wait_attached(tracer, job.pid, mt.MALLOC)
                job.stdin.write("go\n")
                job.stdin.flush()
                daemon = int(job.stdout.readline().split()[1])
                mt.wait_attached(tracer, daemon, mt.MALLOC)
                os.kill(daemon, signal.SIGUSR1)
                job.stdout.readline()
                mt.finish(tracer, tmp / "a.mtr")
            births = sum(e["ev"] == "create" and e["pid"] == daemon for e in mt.export(tmp / "a.mtr"))
            mt.check(births >= 500, f"{births} births of the daemon")
        finally:
            if daemon:
                os.kill(daemon, signal.SIGKILL)
            job.stdin.close()
            job.wait(60)


def test_launch_and_exec():
    """record -- CMD: the shell it starts becomes Python, and the exit status is shown as it was."""
    with mt.scratch() as tmp:
        with grown.launched(tmp / "a.mtr", "sh", "-c", f"exec {mt.PYTHON} {mt.JOBS}/mlp.py") as (tracer, pid):
            grown.wait(tracer, tmp / "a.mtr", has_worked, "operators of its steps")
            os.kill(pid, signal.SIGTERM)
            mt.finish(tracer, tmp / "a.mtr", None, 60)
            mt.check(any(line.startswith("result steps=") for line in tracer.out), "the command's own output is missing")


def test_launch_of_a_missing_command():
    with mt.scratch() as tmp:
        done = mt.memtrace("record", "-o", tmp / "a.mtr", "--", "/no/such/program")
        mt.expect_failure(done, 1, "/no/such/program")


def test_target_killed_while_traced():
    with mt.scratch() as tmp, mt.job("mlp") as job:
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            grown.wait(tracer, tmp / "a.mtr", lambda rep: grown.cpu(rep).get("allocs", 0) > 100, "allocations")
            job.signal(signal.SIGKILL)
            mt.finish(tracer, tmp / "a.mtr", None, 60)
        rep = mt.report(tmp / "a.mtr")
    mt.check(rep["devices"]["cpu"]["allocs"] > 100, f"{rep['devices']}")
    mt.check(rep["devices"]["cpu"]["live"] == 0, "blocks of a dead process count as live")


def test_target_dies_while_attaching():
    """Whatever moment the end falls into: an answer, in time, and never a crash."""
    for pause in (0.02, 0.1, 0.25):
        with mt.scratch() as tmp, mt.Proc(["sleep", "60"]) as proc:
            with mt.start("record", "-p", str(proc.pid), "-o", str(tmp / "a.mtr")) as tracer:
                time.sleep(pause)
                proc.signal(signal.SIGKILL)
                proc.wait()
                code = tracer.wait(60)
            mt.check(code in (0, 1), f"exit {code}: {tracer.err}")
            mt.check(code == 0 or any(line.startswith("memtrace: ") for line in tracer.err),
                     f"no message: {tracer.err}")


def makes_steps(job):
    """Some after now: it tells of them once a second, so the first news may be old."""
    for _ in range(2):
        before = mt.steps_of(job)
        mt.wait_until(lambda n=before: mt.steps_of(job) > n, "steps", 60)


def check_before_its_probes(path, rep, pid, before):
    """A moment when another process was traced, which had ended when this one began: nothing is known of it, and 0 B is no answer."""
    peak_ns = next(p["peak_ns"] for p in rep["processes"] if p["pid"] == before) - rep["start_ns"]
    at = f"{peak_ns / 1e9:.6f}s"
    mt.expect_failure(mt.memtrace("report", path, "--pid", pid, "--at", at), 1, f"probes of process {pid} were still being set: "
                      f"the first allocation of process {pid} was seen", "--at peak")
    for args in ("--at", at), ("--pid", before, "--at", at), ("--pid", pid, "--at", "peak"):
        mt.ok(mt.memtrace("report", path, *args), (0, 3))


def check_one_of_them(path, rep, pid):
    """--pid alone is the whole report of that process; a step that several jobs have is nobody's."""
    mine = next(p for p in rep["processes"] if p["pid"] == pid)
    one = json.loads(mt.ok(mt.memtrace("report", path, "--pid", pid, "--json"), (0, 3)).stdout)
    mt.check([(p["pid"], p["peak"], p["allocs"]) for p in one["processes"]] == [(pid, mine["peak"], mine["allocs"])], f"{one['processes']}")
    mt.check(one["target"]["pid"] == pid and one["devices"]["cpu"]["peak"] == mine["peak"], f"{one['target']} {one['devices']['cpu']['peak']}")
    mt.check(any(re.match(r"Peak [\d.]+ [KMG]iB on cpu", v["text"]) for v in one["verdict"]), f"{one['verdict']}")
    mt.check(rep["overhead"] == one["overhead"], "what tracing cost is of all")
    mt.expect_failure(mt.memtrace("report", path, "--at", "step 2"), 1, "step 2 of which job?", "--pid chooses a process")


def test_record_of_all_jobs():
    """record -a: jobs that are there, one that comes later, no shell; it goes on when all are gone, and leaves nothing in them. Other
    jobs of the machine may be there, too."""
    with mt.scratch() as tmp, contextlib.ExitStack() as stack:
        slow = ("mlp", "--width", 512, "--batch", 128)
        jobs = [stack.enter_context(mt.job(*slow)) for _ in range(2)]
        other = stack.enter_context(mt.Proc(["sleep", "60"]))
        tracer = stack.enter_context(mt.start("record", "-a", "-o", str(tmp / "a.mtr")))
        for job in jobs:
            mt.wait_attached(tracer, job.pid, mt.OP)
        jobs.append(stack.enter_context(mt.job(*slow)))
        mt.wait_attached(tracer, jobs[-1].pid, mt.OP)
        for job in jobs:
            makes_steps(job)
        for job in jobs[1:]:
            job.signal(signal.SIGTERM)
            mt.check(job.wait() == 0, f"{job.err}")
        mt.check(tracer.alive(), f"it went with the jobs: {tracer.err}")
        jobs[0].signal(signal.SIGKILL)
        jobs[0].wait()
        late = stack.enter_context(mt.job(*slow))
        mt.wait_attached(tracer, late.pid, mt.OP)
        makes_steps(late)
        tracer.signal(signal.SIGINT)
        mt.check(tracer.wait() in (0, 3), f"{tracer.err}")
        mt.check_goes_on(late)
        live = mt.ok(mt.memtrace("-a", "-d", 2, "--max-overhead", "none"), (0, 3))  # it begins when all have their probes
        mt.check(re.search(rf"^attached to {late.pid} ", live.stderr, re.M), live.stderr)
        held = re.findall(r"^time_s=[\d.]+ cpu\.live=(\d+) .* steps=\d+ lost=", live.stdout, re.M)
        mt.check(held and int(held[-1]) > 0, live.stdout[:2000])
        mt.check(re.search(r"^All jobs of the machine: \d+ process(es)? \(--by process\)\n", live.stdout, re.M), live.stdout[-3000:])
        mt.check_goes_on(late)
        mt.check(other.alive(), "a process that is no job")
        rep = mt.report(tmp / "a.mtr", (0, 3))
        check_before_its_probes(tmp / "a.mtr", rep, late.pid, jobs[-1].pid)
        check_one_of_them(tmp / "a.mtr", rep, late.pid)
    says = next((v for v in rep["verdict"] if v["text"].startswith("Peaks of ")), None)
    most = max(rep["processes"], key=lambda p: p["peak"])
    mt.check(says and re.match(rf"Peaks of \d+ jobs: [\d.]+ [KMG]iB in process {most['pid']} \(.*; all together at most ", says["text"])
             and says["bytes"] == most["peak"], f"{rep['verdict']}")
    births = {p["pid"]: p["allocs"] for p in rep["processes"]}
    for job in (*jobs, late):
        mt.check(births.get(job.pid, 0) > 100, f"{job.pid}: {births}")
    mt.check(other.pid not in births, "sleep is no job")


def test_record_of_all_jobs_has_a_name_of_its_own():
    """Without -o: memtrace-all-…, and -a beside -p or a command is refused."""
    mt.expect_failure(mt.memtrace("record", "-a", "-p", 1), 2, "-a is all jobs")
    mt.expect_failure(mt.memtrace("record", "-a", "--", "true"), 2, "-a is all jobs")
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("record", "-a", "-d", 1, cwd=tmp), (0, 3))
        mt.check([p.name.startswith("memtrace-all-") for p in tmp.glob("*.mtr")] == [True], f"{list(tmp.iterdir())}")


def test_no_such_process():
    mt.expect_failure(mt.memtrace("-p", 4194304 - 7, "-d", 1), 1, "4194297", "hint: ")


def test_memtrace_itself():
    """In a container whose first process it is (-p 1), and as a child of the shell that is traced."""
    alone = ["unshare", "-p", "-f", "--mount-proc", mt.MEMTRACE, "-p", "1", "-d", "1", "--probes", "host"]
    mt.expect_failure(subprocess.run(alone, capture_output=True, text=True, timeout=60), 1, "memtrace itself", "hint: ")
    with mt.scratch() as tmp:
        shell = f"{mt.MEMTRACE} record -q -p $$ -d 1 --probes host -o {tmp}/a.mtr; exit $?"
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60)
        mt.check(done.returncode == 0, f"{done.returncode} {done.stderr}")
        comms = [p["comm"] for p in mt.report(tmp / "a.mtr", (0, 3))["processes"]]
        mt.check("sh" in comms and not {"memtrace", "memtrace-keeper"} & set(comms), f"{comms}")


def check_nothing_to_see(binary):
    with mt.Proc([binary]) as proc:
        proc.line("ready ")
        done = mt.memtrace("-p", proc.pid, "-d", 1, "--probes", "framework,ops,host")
        mt.expect_failure(done, 1, "hint: ")
        plan = mt.memtrace("plan", "-p", proc.pid, "--probes", "framework,ops,host")
        mt.check(plan.returncode == 1, f"plan: exit {plan.returncode}: {plan.stdout}")
        mt.check(proc.alive(), "the target died")


def test_static_program_has_nothing_to_probe():
    check_nothing_to_see(mt.compile_c("quiet", "-static", "-s"))


def test_stripped_program_of_a_shared_libc():
    """Its own symbols are gone, those of libc are not: malloc and free are seen to the byte."""
    binary = mt.compile_c("churn", "-s")
    with mt.scratch() as tmp, mt.Proc([binary]) as proc:
        proc.line("ready ")
        with mt.start("record", "-p", str(proc.pid), "--probes", "host", "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_attached(tracer, proc.pid, mt.MALLOC)
            proc.tell("go")
            proc.line("done")
            mt.finish(tracer, tmp / "a.mtr")
        rep = mt.report(tmp / "a.mtr")
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    host = rep["host"]
    mt.check(host["allocs"] == 1000 and host["frees"] == 400, f"{host}")
    mt.check(host["live"] == 600 * 12345, f"{host}")


def test_plan_shows_the_sites():
    job = mt.shared_job("mlp")
    text = mt.ok(mt.memtrace("plan", "-p", job.pid)).stdout
    mt.check(not mt.probed(job.pid, mt.NEW), "plan has set a probe")
    for word in ("libc10.so", "libtorch_cpu.so", "aten::addmm", "push", "ns"):
        mt.check(word in text, f"'{word}' is not in the plan: {text[:1500]}")
    mt.check(len(re.findall(r"aten::", text)) > 2000, "fewer than 2000 operators planned")


def test_doctor():
    text = mt.ok(mt.memtrace("doctor")).stdout
    for word in ("uprobe", "BTF", "kernel"):
        mt.check(word.lower() in text.lower(), f"'{word}' is not in: {text}")
