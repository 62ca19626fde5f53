# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""--stacks against programs that know where they allocate: C without frame pointers, Python, torch."""
import collections
import json
import pathlib
import re
import signal

import mt
import test_truth

SLOW = ("python_versions",)
JOB = mt.JOBS / "stacks.py"
# Where developers keep other Pythons (pyenv); /usr/bin/python3 is always there.
PYTHONS = sorted(pathlib.Path.home().glob(".pyenv/versions/3.1[0-3].*/bin/python3"))


def stacks(events):
    """[(create, [frame, … innermost first])] of all creates with a stack."""
    frames, found = {}, []
    for e in events:
        if e["ev"] == "stack":
            frames[e["stack"]] = e
        elif e["ev"] == "create" and "stack" in e:
            chain, at = [], e["stack"]
            while at:
                chain.append(frames[at])
                at = frames[at]["parent"]
            found.append((e, chain))
    return found


def record(argv, *options, codes=(0,)):
    """(truth, report, events) of a job that says "ready", waits, works, tells the truth and waits."""
    with mt.scratch() as tmp, mt.Proc(argv) as job:
        job.line("ready ")
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), *options) as tracer:
            test_truth.wait_attached(tracer)
            job.tell("go")
            truth = json.loads(job.line("{"))
            tracer.signal(signal.SIGINT)
            code = tracer.wait()
            mt.check(code in codes, f"record: exit {code}: {tracer.err}")
        job.tell("end")
        report = json.loads(mt.ok(mt.memtrace("report", path, "--json"), codes).stdout)
        mt.ok(mt.memtrace("export", path, "--to", "jsonl", "-o", tmp / "a.jsonl"), codes)
        text = mt.ok(mt.memtrace("report", path, "--by", "stack"), codes).stdout
        folded = mt.ok(mt.memtrace("export", path, "--to", "folded", "-o", "-"), codes).stdout
        check_moment(path, report, codes, JOB in argv)
        events = [json.loads(line) for line in open(tmp / "a.jsonl", encoding="utf-8")]
    return truth, report, events, text, folded


def check_moment(path, report, codes, is_python):
    """At the peak each line of the job held what the stacks held whose innermost own line it is."""
    held = json.loads(mt.ok(mt.memtrace("report", path, "--at", "peak", "--by", "stack", "--json", "--top", 1000), codes).stdout)
    rows = {row["name"]: row["bytes"] for row in held["by"]["stack"] if row["bytes"] and row["name"].startswith(str(JOB))}
    mt.check(sum(row["bytes"] for row in held["by"]["stack"]) == held["moment"]["bytes"], f"{held}")
    wanted = collections.Counter()
    for stack in report["stacks"]:
        own = [f"{f['file']}:{f['line']} in {f['function']}" for f in stack["frames"] if f["file"] == str(JOB) and f["line"]]
        wanted.update({own[0]: stack["at_peak"]} if own and stack["at_peak"] else {})
    mt.check(rows == wanted and bool(wanted) == is_python, f"{rows}, by the report {dict(wanted)}")


def lost(report):
    return {k: v for k, v in report["lost"].items() if v}


# --- native -------------------------------------------------------------------------------------------

def fits(names, pattern):
    """Is `pattern`, where "*" is any number of frames, the beginning of names?"""
    if not pattern:
        return True
    if pattern[0] == "*":
        return any(fits(names[i:], pattern[1:]) for i in range(len(names) + 1))
    return bool(names) and names[0] == pattern[0] and fits(names[1:], pattern[1:])


def native_chains(target):
    test_truth.build()
    truth, report, events, _, _ = record([test_truth.BIN / target], "--probes", "host", "--min-size", "1M",
                                         "--stacks=native")
    mt.check(not lost(report), f"lost {lost(report)}")
    found = {str(e["size"]): chain for e, chain in stacks(events)}
    mt.check(set(truth["chains"]) <= set(found), f"no stack for {set(truth['chains']) - set(found)}")
    return truth["chains"], found


def test_native_without_frame_pointers():
    chains, found = native_chains("truth_stacks")
    for size, want in chains.items():
        names = [f["function"] for f in found[size]]
        mt.check(fits(names, want), f"{size}: {names}, not {want}")
        mt.check("cut" not in [f["kind"] for f in found[size]], f"{size}: cut: {names}")
        mt.check(names[-1] in ("_start", "__clone3", "clone3", "__clone") or names[-1].startswith("libc.so.6+"),
                 f"{size}: the outermost is {names[-1]}")


def test_native_stripped():
    """Without symbols a frame is file+0xaddress: the same number of them, down to the thread's start."""
    chains, found = native_chains("truth_stacks_stripped")
    for size, want in chains.items():
        own = [f["function"] for f in found[size] if f["file"] == "truth_stacks_stripped"]
        mt.check(all(re.fullmatch(r"truth_stacks_stripped\+0x[0-9a-f]+", f) for f in own), f"{size}: {own}")
        mt.check(len(own) in (len([w for w in want if w != "*"]) + k for k in (0, 1, 2)), f"{size}: {own}, {want}")
        mt.check("cut" not in [f["kind"] for f in found[size]], f"{size}: cut")


# --- Python -------------------------------------------------------------------------------------------

def python_part(chain):
    return [[f["function"], f["file"], f["line"]] for f in chain if f["kind"] == "python"]


def same(got, want):
    """Frame by frame; code that was made up and thrown away is no wrong one, but an unknown one."""
    return len(got) == len(want) and all(
        g == w or (w[1] == "made up.py" and g[0].startswith("<python 0x") and g[1:] == [None, None])
        for g, w in zip(got, want))


def compare_blocks(truth, found):
    """(bytes with the very stack, bytes, the first that differs)"""
    right = total = 0
    wrong = None
    for size, want in truth["blocks"].items():
        got = [python_part(chain) for e, chain in found if e["size"] == int(size)]
        total += int(size)
        if any(map(same, got, [want] * len(got))):
            right += int(size)
        else:
            wrong = wrong or f"{size}: {got}, not {want}"
    return right, total, wrong


def python_run(python, which):
    truth, report, events, text, folded = record(
        [python, JOB, "host", "10"], "--probes", "host", "--min-size", "1M", f"--stacks={which}")
    mt.check(not lost(report), f"lost {lost(report)}")
    right, total, wrong = compare_blocks(truth, stacks(events))
    mt.check(total > 200 << 20 and right == total, f"{which}: {right} of {total} bytes; {wrong}")
    return text, folded


def test_python_of_the_system():
    for which in ("python", "all"):
        text, folded = python_run("/usr/bin/python3", which)
        mt.check("stacks.py:" in text and "without a stack" in text, text)
        mt.check(re.search(r";main \(stacks\.py:\d+\);rounds \(stacks\.py:\d+\);work .* \d+$", folded, re.M), folded[:2000])


def test_python_versions():
    if not PYTHONS:
        raise mt.Skip("no other Python here (~/.pyenv)")
    for python in PYTHONS:
        for which in ("python", "all"):
            python_run(python, which)
        mt.note(f"{python.parts[-3]}: every stack is as the job says")


# --- torch --------------------------------------------------------------------------------------------

def test_torch():
    truth, report, events, _, _ = record([mt.PYTHON, JOB, "torch", "20"], "--stacks", "--ring-size", "256M")
    mt.check(not lost(report), f"lost {lost(report)}")
    found = stacks(events)
    right, total, wrong = compare_blocks(truth, found)
    mt.note(f"{len(found)} stacks; {right / total:.2%} of {total >> 20} MiB have the very stack that the job says")
    mt.check(right >= 0.99 * total, wrong)

    own = lambda frames: [f for f in frames if f[1] == str(JOB)]
    grads = 0
    for size, want in truth["grads"].items():
        got = [own(python_part(chain)) for e, chain in found if e["size"] == int(size)]
        mt.check(got and all(g in [own(w) for w in want] for g in got), f"{size}: {got}, not {want}")
        grads += own(want[1]) in got
    mt.check(grads >= 0.99 * len(truth["grads"]), f"backward(): {grads} of {len(truth['grads'])}")

    natives = [[f["function"] for f in chain if f["kind"] == "native"] for _, chain in found]
    whole = [n for n in natives if any("THPVariable_" in f or "THPEngine_run_backward" in f for f in n)]
    cut = sum(f["kind"] == "cut" for _, chain in found for f in chain)
    mt.note(f"{len(whole)} of {len(natives)} go through torch's C++ to Python, {cut} are cut")
    mt.check(len(whole) >= 0.99 * len(natives) and not cut, natives[:3])


def test_nothing_without_the_option():
    with mt.scratch() as tmp, mt.Proc(["/usr/bin/python3", JOB, "host", "1"]) as job:
        job.line("ready ")
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "host") as tracer:
            test_truth.wait_attached(tracer)
            job.tell("go")
            job.line("{")
            tracer.signal(signal.SIGINT)
            tracer.wait()
        report = json.loads(mt.ok(mt.memtrace("report", path, "--json")).stdout)
        mt.check("stacks" not in report and "stack" not in report["overhead"]["by_probe"], report["overhead"])
        mt.check("none were recorded" in mt.ok(mt.memtrace("report", path, "--by", "stack")).stdout, "")
