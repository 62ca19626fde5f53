# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Recordings that are as long as a test needs them by their own word: seconds are many steps on one machine and few on another, and a
job tells of its steps once a second, of all that went by since.

    grown.record(path, job, grown.after(lambda rep: "modules" in rep, 8), "eight steps with modules")
"""
import contextlib
import json
import os
import signal

import mt


def so_far(path):
    """The report of a recording that may still grow; {}: there is nothing to report yet."""
    done = mt.memtrace("report", path, "--json", "-q")
    return json.loads(done.stdout) if done.returncode in (0, 3) and done.stdout else {}


def after(is_there, steps):
    """Once a report was such, so many steps more."""
    begun = []

    def look(rep):
        if not begun and is_there(rep):
            begun.append(rep["steps"])
        return bool(begun) and rep["steps"] >= begun[0] + steps
    return look


def after_attach(steps):
    """So many whole steps since the operators' probes were set."""
    return after(lambda rep: rep.get("attach"), steps)


def wait(tracer, path, is_there, what, timeout=120):
    """Until is_there(report) while `tracer` records."""
    def look():
        if not tracer.alive():
            tracer.wait()
            raise AssertionError(f"{tracer.argv} ended with {tracer.popen.returncode}: " + "\n".join(tracer.err))
        rep = so_far(path)
        return rep and is_there(rep)
    return mt.wait_until(look, f"{what} in the recording", timeout, 0.5)


def record(path, job, is_there, what, *options, codes=(0,)):
    """A recording of a job in which is_there(report); its path."""
    with mt.start("record", "-p", str(job.pid), "-o", str(path), *map(str, options)) as tracer:
        wait(tracer, path, is_there, what)
        if codes == (0,):
            mt.finish(tracer, path)
        else:
            tracer.signal(2)
            mt.check(tracer.wait() in codes, f"{tracer.argv}: {tracer.err[-5:]}")
    return path


@contextlib.contextmanager
def launched(path, *argv):
    """(tracer, pid) of a job from its first instruction on, once it is ready; it is not left behind."""
    with mt.start("record", "-o", str(path), "--", *map(str, argv)) as tracer:
        pid = int(tracer.line("ready ", 120).split()[1])
        try:
            yield tracer, pid
        finally:
            if tracer.alive():  # then its job may be there, too
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def has_marks(rep):
    """A step with all three. What a node is called is known a moment after its first call, on a busy machine many steps later."""
    return any(len(s["marks"]) == 3 for s in rep.get("phases", {}).get("steps", []))


def named(rep, kind="parameter"):
    """How many tensors of a kind are known by name."""
    return rep.get("names", {}).get("kinds", {}).get(kind, {}).get("count", 0)


def knows_python(rep):
    """What Python calls tensors and modules was read, and some of these allocated since."""
    modules = [m for m in rep.get("modules", {}).get("list", []) if m["name"] and m["all"]["alloc_count"]]
    return rep.get("names", {}).get("list") and len(modules) > 1


def cpu(rep):
    """Of the machine's own memory; {} before anything was seen of it."""
    return rep["devices"].get("cpu", {})


def at_peak(rep, category):
    return cpu(rep).get("categories", {}).get(category, {}).get("at_peak", 0)


def modules_at_peak(rep):
    return sum(m["all"]["at_peak"] > 0 for m in rep.get("modules", {}).get("list", []))


def made_by(rep, name):
    """What the module of this name has allocated itself, as far as is known."""
    return sum(m["own"]["alloc_bytes"] for m in rep.get("modules", {}).get("list", []) if m["name"] == name)
