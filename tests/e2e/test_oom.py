# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Memory that was refused and processes that were killed: the recording has it, to the last event, and leads with it."""
import contextlib
import functools
import os
import pathlib
import re

import mt

ALONE = {"killed_by_the_kernels_oom_killer", "killed_when_its_first_thread_has_ended", "killed_while_another_is_taken_by_the_oom_killer"}

SMALL, MANY = 12345, 1000  # targets/oom.c


@contextlib.contextmanager
def memory_cgroup(limit):
    """A cgroup with a memory limit, of the old kind or the new; skipped where neither can be made."""
    name = f"mt-e2e-{os.getpid()}"
    for root, knob in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(root) / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / knob).write_text(str(limit))
        except OSError:
            group.rmdir()
            continue
        with contextlib.suppress(OSError):
            (group / "memory.swap.max").write_text("0")
        try:
            yield group
        finally:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break
                mt.time.sleep(0.1)
        return
    raise mt.Skip("no memory cgroup can be made here")


def wait_whole(tracer):
    """Until all probes are set: a call's entry and its return are probes of their own, and the first one is no sign of the last."""
    mt.wait_until(lambda: any(x.startswith("attached") for x in tracer.err) or not tracer.alive(), "all probes", 60)
    mt.check(tracer.alive(), f"memtrace ended: {tracer.err}")


def run(what, tmp, group=None, probes="host,kernel"):
    """Records a target to its end: (report, path)."""
    path = tmp / "a.mtr"
    with mt.Proc([mt.compile_c("oom"), what]) as job:
        job.line("ready")
        if group:
            (group / "cgroup.procs").write_text(str(job.pid))
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", probes) as tracer:
            wait_whole(tracer)
            job.tell("go")
            if what == "refuse":
                job.line("refused")
                job.tell("end")
            job.wait()
            mt.check(tracer.wait() == 0, f"record: {tracer.err}")
    return mt.report(path), path


def check_all_there(path):
    """Every block that the target made just before its end."""
    made = sum(e["ev"] == "create" and e["size"] == SMALL for e in mt.export(path))
    mt.check(made == MANY, f"{made} of {MANY} blocks are in the recording")


def check_leads(path, *words, heading="Out of memory"):
    text = mt.ok(mt.memtrace("report", path, "-v")).stdout
    at = text.index(f"\n{heading}\n")
    mt.check(at < text.index("malloc family"), "the post-mortem does not lead")
    for word in words:
        mt.check(word in text[at:], f"'{word}' is not in: {text}")


def test_refused_by_malloc():
    with mt.scratch() as tmp:
        rep, path = run("refuse", tmp)
        mt.check(len(rep["ooms"]) == 1, f"{rep['ooms']}")
        oom = rep["ooms"][0]
        mt.check(oom["kind"] == "host" and oom["dev"] == "host" and oom["asked"] == 2 << 30 and oom["times"] == 3, f"{oom}")
        mt.check(oom["live"] >= SMALL * MANY and oom["blocks"][0]["size"] >= SMALL, f"{oom}")
        check_all_there(path)
        check_leads(path, "was refused 2.00 GiB on host")


LIB = "/usr/lib/x86_64-linux-gnu/"
ALLOCATORS = {"glibc": "", "jemalloc": LIB + "libjemalloc.so.2", "tcmalloc": LIB + "libtcmalloc_minimal.so.4",
              "mimalloc": LIB + "libmimalloc.so.2"}


def exception_that_nobody_catches(name):
    """operator new throws, std::terminate aborts: with each allocator the refusal is told, and that the death came of it."""
    preload = ALLOCATORS[name]
    if preload and not pathlib.Path(preload).exists():
        raise mt.Skip(f"{name} is not installed: tools/install-deps alloc")
    with mt.scratch() as tmp:
        path = tmp / "a.mtr"
        with mt.Proc([mt.compile_c("oom_new")], env=dict(os.environ, LD_PRELOAD=preload)) as job:
            job.line("ready")
            with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "host,kernel") as tracer:
                wait_whole(tracer)
                job.tell("go")
                job.wait()
                mt.check(tracer.wait() == 0, f"record: {tracer.err}")
        ooms = mt.report(path)["ooms"]
        if name == "mimalloc":  # built as C it cannot throw: it aborts, and what it was asked for is not known to be refused
            mt.check([o["kind"] for o in ooms] == ["death"] and ooms[0]["signal"] == 6, f"{ooms}")
            return
        mt.check([o["kind"] for o in ooms] == ["host", "death"], f"{ooms}")
        mt.check(ooms[0]["asked"] == 1 << 50 and ooms[1]["refused_before"] == 1 << 50, f"{ooms}")
        mt.check(ooms[1]["signal"] == 6 and ooms[0]["live"] >= SMALL * MANY, f"{ooms}")
        check_all_there(path)
        check_leads(path, "signal 6 (ABRT)", "before it was refused", " on host")


for _name in ALLOCATORS:
    globals()[f"test_exception_that_nobody_catches_{_name}"] = functools.partial(exception_that_nobody_catches, _name)


def test_killed():
    with mt.scratch() as tmp:
        rep, path = run("kill", tmp)
        oom = rep["ooms"][-1]
        mt.check(oom["kind"] == "death" and oom["signal"] == 9 and not oom["oom_killer"], f"{oom}")
        mt.check(SMALL * MANY <= oom["live"] < SMALL * MANY + (1 << 20), f"{oom['live']}")
        mt.check(rep["processes"][0]["state"] == "signal 9", rep["processes"][0]["state"])
        mt.check(oom["rss"]["total"] > SMALL, f"{oom['rss']}")
        check_all_there(path)
        check_leads(path, "signal 9 (KILL)", heading="Ended by a signal")


def test_killed_by_the_kernels_oom_killer():
    with mt.scratch() as tmp, memory_cgroup(100 << 20) as group:
        rep, path = run("eat", tmp, group)
        oom = rep["ooms"][-1]
        mt.check(oom["kind"] == "death" and oom["signal"] == 9 and oom["oom_killer"] and oom["oom_marked"], f"{oom}")
        eaten = sum(1 for e in mt.export(path) if e["ev"] == "create" and e["size"] == 1 << 20)
        mt.note(f"{eaten} blocks of 1 MiB under a limit of 100 MiB; RSS told at death {oom['rss']['total'] >> 20} MiB")
        mt.check(80 <= eaten <= 101, f"{eaten} blocks")
        mt.check(oom["live"] >= (eaten << 20) + SMALL * MANY, f"{oom['live']}")
        mt.check((60 << 20) < oom["rss"]["anon"] <= (101 << 20), f"{oom['rss']}")
        check_leads(path, "OOM killer")


def test_killed_when_its_first_thread_has_ended():
    if tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) < (6, 9):
        raise mt.Skip("this kernel's mark may name a thread")
    with mt.scratch() as tmp, memory_cgroup(50 << 20) as group:
        oom = run("eat_beside", tmp, group)[0]["ooms"][-1]
        mt.check(oom["kind"] == "death" and oom["signal"] == 9 and oom["oom_killer"] and oom["oom_marked"], f"{oom}")
        mt.check(oom["live"] > 30 << 20, f"{oom['live']}")


def test_killed_while_another_is_taken_by_the_oom_killer():
    """The kernel's mark tells whom it took: not ours, which was killed in the same moment."""
    with mt.scratch() as tmp, memory_cgroup(20 << 20) as group, mt.Proc([mt.compile_c("oom"), "eat"]) as eater:
        path = tmp / "a.mtr"
        eater.line("ready")
        (group / "cgroup.procs").write_text(str(eater.pid))
        with mt.Proc([mt.compile_c("oom"), "kill"]) as job:
            job.line("ready")
            with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "host,kernel") as tracer:
                wait_whole(tracer)
                eater.tell("go")
                eater.wait()
                job.tell("go")
                job.wait()
                mt.check(tracer.wait() == 0, f"record: {tracer.err}")
        oom = mt.report(path)["ooms"][-1]
        mt.check(oom["signal"] == 9 and not oom["oom_killer"] and not oom["oom_marked"], f"{oom}")


TORCH = """
import sys, torch
keep = torch.ones(1000, 1000)
print("ready ", flush=True)
sys.stdin.readline()
more = torch.ones(500, 1000)
try:
    torch.empty(1 << 48, dtype=torch.uint8)
except RuntimeError as e:
    print("refused", "not enough memory" in str(e) or "alloc" in str(e), flush=True)
sys.stdin.readline()
"""


def test_refused_by_torch():
    with mt.scratch() as tmp:
        path = tmp / "a.mtr"
        with mt.Proc([mt.PYTHON, "-c", TORCH]) as job:
            job.line("ready", 120)
            with mt.start("record", "-p", str(job.pid), "-o", str(path)) as tracer:
                wait_whole(tracer)
                job.tell("go")
                job.line("refused")
                job.tell("end")
                job.wait()
                mt.check(tracer.wait() == 0, f"record: {tracer.err}")
        rep = mt.report(path)
        oom = rep["ooms"][0]
        mt.check(oom["kind"] == "host" and oom["dev"] == "cpu" and oom["asked"] == 1 << 48, f"{oom}")
        mt.check(oom["op"] and oom["op"].startswith("aten::empty"), f"{oom['op']}")
        mt.check(oom["live"] >= 2000000 and oom["blocks"][0]["size"] == 2000000, f"{oom}")
        check = mt.ok(mt.memtrace("report", path, "-v")).stdout
        mt.check("Out of memory" in check and "aten::empty" in check, check)


TORCH_LATER = """
import sys, time, torch
def grow():
    return torch.ones(500, 1000)
print("ready ", flush=True)
sys.stdin.readline()
kept = [grow()]
for _ in range(30):
    kept.append(torch.ones(10))
    time.sleep(0.1)
try:
    torch.empty(1 << 48, dtype=torch.uint8)
except RuntimeError:
    print("refused", flush=True)
sys.stdin.readline()
"""


def test_window_of_a_refusal():
    """The flight recorder writes when torch is refused, while the job goes on; what was made long before has its stack."""
    with mt.scratch() as tmp:
        with mt.Proc([mt.PYTHON, "-c", TORCH_LATER]) as job:
            job.line("ready", 120)
            with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "--window", "1s", "--stacks") as tracer:
                wait_whole(tracer)
                begin = mt.time.monotonic()
                job.tell("go")
                job.line("refused", 60)
                mt.wait_until((tmp / "a-1.mtr").exists, "the window of the refusal", 30)
                took = mt.time.monotonic() - begin
                job.tell("end")
                job.wait()
                mt.check(tracer.wait() == 0, f"record: {tracer.err}")
        mt.check(sorted(p.name for p in tmp.iterdir()) == ["a-1.mtr", "a.mtr"], f"{list(tmp.iterdir())}")
        mt.check(any("a-1.mtr" in x and "out of memory" in x for x in tracer.err), f"{tracer.err}")
        done = mt.ok(mt.memtrace("report", tmp / "a-1.mtr", "--by", "stack"))
        mt.check("numbers cover" not in done.stderr, done.stderr)
        rep = mt.report(tmp / "a-1.mtr")
        mt.check(rep["coverage"]["end"] == "a window of a trace that went on" and not any(rep["lost"].values()), f"{rep['coverage']}")
        # It ends when it is written, which may be a while after the refusal; what the job did first is older than it.
        mt.check(1e9 <= rep["duration_ns"] < took * 1e9 and rep["devices"]["cpu"]["carried_blocks"] > 0, f"{rep['duration_ns']} {took}")
        text = mt.ok(mt.memtrace("report", tmp / "a-1.mtr", "-v")).stdout
        mt.check("Out of memory" in "".join(text.splitlines()[:6]) and "aten::empty" in text, text)
        mt.check(rep["ooms"][0]["blocks"][0]["size"] == 2000000, f"{rep['ooms'][0]['blocks']}")
        stack = next(s for s in rep["stacks"] if s["live"] == 2000000)
        names = [f["function"] for f in stack["frames"]]
        mt.check("grow" in names and any(n.startswith("at::") for n in names), f"{names}")
        mt.check(stack["alloc_count"] == 0 and stack["live_count"] == 1, f"carried, not allocated: {stack}")


def test_an_ordinary_end_is_no_post_mortem():
    with mt.scratch() as tmp:
        rep, path = run("", tmp)
        mt.check(rep["ooms"] == [], f"{rep['ooms']}")
        mt.check("Out of memory" not in mt.ok(mt.memtrace("report", path, "-v")).stdout, "told")
        check_all_there(path)
