# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Tracing changes no byte of a job: losses and weights after 200 steps are those of an untraced run, while memtrace comes and
goes ten times in ten ways."""
import os
import pathlib
import signal
import subprocess

import faults
import mt

SLOW = {"eager", "compiled", "ddp", "loader", "mixed", "custom_op", "launched"}

# (command, options, how it ends): every source, every way of stacks, both ways of attaching, and every kind of end.
VISITS = (
    ("record", (), "interrupt"),
    ("record", ("--stacks", "--stack-size", "0"), "interrupt"),
    ("record", ("--probes", "framework"), "kill"),
    ("record", ("--probes", "segments,framework,flow,views,regions,kernel,usdt,host", "--min-size", "64K"), "interrupt"),
    ("record", ("--probes", "framework,usdt", "--force-perf-uprobes"), "interrupt"),
    ("serve", ("--listen", "127.0.0.1:0", "--max-overhead", "none"), "interrupt"),
    ("serve", ("--listen", "127.0.0.1:0"), "interrupt"),
    ("record", ("--window", "1s", "--keep-idle"), "terminate"),
    ("record", ("--stacks=native", "--stack-size", "4K"), "kill"),
    ("record", ("--probes", "ops,regions,usdt", "--no-names"), "duration"),
    ("record", ("--ring-size", "4K"), "interrupt"),
)
SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "kill": signal.SIGKILL}


def visit(job, path, command, options, end):
    """One attach, at least one round's end under it, one detach."""
    if end == "duration":
        options = (*options, "-d", "1")
    with faults.tracing(job.pid, path, *options, command=command) as tracer:
        if end != "duration":
            job.more_rounds()
            mt.check(tracer.alive(), f"{tracer.argv} ended early: {tracer.err[-5:]}")
            tracer.signal(SIGNALS[end])
        if end == "kill":
            tracer.wait()
        else:
            faults.explained(tracer)


def equal(model, visits=VISITS):
    """training() compares every round with the untraced ones, and looks for what is left."""
    with mt.scratch() as tmp, faults.training(model) as job:
        for i, (command, options, end) in enumerate(visits):
            visit(job, tmp / f"{i}.mtr", command, options, end)
        before = len(job.rounds())
        job.more_rounds()
    mt.note(f"{model}: {before} rounds of 200 steps while memtrace came and went {len(visits)} times")


def test_eager():
    equal("eager")


def test_compiled():
    equal("compiled")


def test_ddp():
    equal("ddp")


def test_loader():
    equal("loader")


def test_custom_op():
    build_custom_op()
    equal("custom_op")


def test_usdt():
    """Numeric leaf functions with probes of usdt.h amid them. Without the segments' and the framework's sources."""
    equal("usdt_train", [v for v in VISITS if v[1][:2] != ("--probes", "framework")])


def test_mixed():
    equal("mixed")


def test_ema():
    equal("ema")


def test_launched():
    """From the first instruction on: what record -- CMD runs comes to the same result."""
    wanted = faults.untraced("ema")
    before = faults.Machine()
    with mt.scratch() as tmp, mt.start("record", "-q", "-o", str(tmp / "a.mtr"), "--", mt.PYTHON,
                                       str(faults.HERE / "jobs" / "train.py"), "ema", env=faults.environment()) as tracer:
        mt.wait_until(lambda: sum(t.startswith("round ") for t in tracer.out) >= 2, "two rounds", 60)
        tracer.tell("stop")
        faults.explained(tracer)
        faults.check_nothing_left(before, [])
    rounds = [tuple(t.split()[2:]) for t in tracer.out if t.startswith("round ")]
    mt.check(rounds and all(r == wanted for r in rounds), f"{rounds}, wanted {wanted}")


def build_custom_op():
    """The operator's library, by the compiler, when it is older than its source."""
    source, out = faults.HERE / "targets" / "custom_op.cpp", faults.BIN / "custom_op.so"
    if out.exists() and out.stat().st_mtime > source.stat().st_mtime:
        return
    torch = pathlib.Path(subprocess.run([mt.PYTHON, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True,
                                        check=True).stdout.strip())
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-g1", "-shared", "-fPIC", "-isystem", torch / "include",
                    source, f"-L{torch}/lib", "-ltorch_cpu", "-lc10", "-o", out], check=True)
