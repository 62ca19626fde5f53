# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Names of tensors, read from a running job's Python, against what the job says of itself (jobs/names.py).

Attached in mid-run. The job stops before the recording does, and then says its truth: so every name that the
report gives a block that is alive can be compared, by the block's address. None may be another one than the
job's, and what has no name may be 1 % of the bytes at most.
"""
import functools
import glob
import json
import os
import pathlib
import re
import subprocess
import time

import grown
import mt
import tables

SLOW = {"never_wrong", "never_wrong_long_steady", "never_wrong_long_gc", "never_wrong_long_churn",
        "never_wrong_long_churn_all", "versions_long", "lazy_and_replaced", "buffers", "tied_and_recurrent", "gan", "bare",
        "another_311", "newer_version", "odd", "ddp", "interpreters", "no_names_option", "views_have_names"}
LANDING = {"from_the_first_backward", "transformer", "from_the_first_step"}

SHARE_MIN = 0.99


def bench():
    """The program that reads names of a job, again and again."""
    mt.ok(mt.make("build/tests/bench_names"))
    return mt.BUILD / "tests" / "bench_names"


LOOKED = " names of "  # memtrace -vv says that of each look


def record(model, tmp, options=()):
    """(the report, what the job said)."""
    out, mtr = tmp / "truth.json", tmp / "names.mtr"
    with mt.job(*(["odd"] if model == "odd" else ["names", "--model", model]), "--out", out) as job:
        with mt.start("record", "-p", str(job.pid), "-o", str(mtr), "-vv", *options) as tracer:
            mt.wait_until(lambda: any("recording: " in t for t in tracer.err) or not tracer.alive(), "memtrace to record", 60)
            mt.check(tracer.alive(), "; ".join(tracer.err))
            if "--no-names" not in options:  # the job trains, and is looked at
                mt.wait_until(lambda: sum(LOOKED in t for t in tracer.err) >= 2, "two looks at names", 60)
            if model not in ("interpreters", "odd"):  # which have no optimizer, or each its own
                grown.wait(tracer, mtr, lambda rep: rep["steps"] >= 3, "three steps")
            job.tell("stop")
            job.line("stopped", 60)
            looks = 5 if model == "odd" else 2  # at what does not change any more; the first may have begun before
            wanted = looks + sum(LOOKED in t for t in tracer.err)
            if "--no-names" in options:
                wanted = 0
                time.sleep(2.2)
            mt.wait_until(lambda: sum(LOOKED in t for t in tracer.err) >= wanted, f"{looks} looks at names", 60)
            mt.finish(tracer, mtr)
    done = mt.memtrace("report", mtr, "--json", "--top", "100000")
    return json.loads(mt.ok(done).stdout), {int(k): v for k, v in json.loads(out.read_text()).items()}


def compare(rep, truth):
    """(share of the truth's bytes that have their name, names that are wrong)."""
    said = {int(t["ptr"], 16): t for t in rep.get("names", {"list": []})["list"]}
    wrong, right = [], 0
    for ptr, t in said.items():
        want = truth.get(ptr)
        if not want:
            wrong.append(f"{t['root']} {t['name']} {t['state']}: the job has no such storage")
        elif (t["kind"], t["state"], t["bytes"], t["shape"]) != (want[0], want[2], want[3], want[4]) or t["name"] not in want[1]:
            wrong.append(f"{t} is {want}")
        else:
            right += t["bytes"]
    total = sum(want[3] for want in truth.values())
    return right / total, wrong


def percent(share):
    """Rounded down: 100 is all of it."""
    return "100 %" if share == 1 else f"{int(share * 1e4) / 100:.2f} %"


def named(model, options=(), share_min=SHARE_MIN):
    """(the report, share of the bytes that have their name)"""
    with mt.scratch() as tmp:
        rep, truth = record(model, tmp, options=options)
    share, wrong = compare(rep, truth)
    kinds = {k: v["count"] for k, v in rep["names"]["kinds"].items()}
    other = sum(v["other_category_bytes"] for v in rep["names"]["kinds"].values())
    mt.note(f"{model}: {percent(share)} of {sum(t[3] for t in truth.values())} bytes named, {kinds}, "
            f"{other} bytes in another category")
    mt.check(not wrong, f"{len(wrong)} wrong names: {wrong[:5]}")
    mt.check(share >= share_min, f"{model}: {share}")
    mt.check(not mt.lost(rep), f"lost: {rep['lost']}")
    tables.keep("names", model, f"{len(truth)} | {sum(t[3] for t in truth.values())} | {percent(share)} | {len(wrong)} | {other}")
    return rep, share


def look_at(model, options=(), share_min=SHARE_MIN):
    return named(model, options, share_min)[0]


def test_transformer():
    rep = look_at("transformer")
    # Python's word and that of the data flow are two witnesses.
    for kind, said in rep["names"]["kinds"].items():
        mt.check(not said["other_category_count"], f"{kind}: {rep['names']['kinds']}")
    for kind, key in (("parameter", None), ("optimizer_state", "exp_avg")):
        mt.check(any((t["kind"], t["state"], t["name"], t["dtype"], t["shape"])
                     == (kind, key, "layers.2.linear1.weight", "float32", [128, 64]) for t in rep["names"]["list"]), kind)


def test_buffers():
    rep = look_at("conv")
    mt.check(rep["names"]["kinds"]["buffer"]["count"] >= 10, str(rep["names"]["kinds"]))


def test_tied_and_recurrent():
    look_at("tied")


def test_gan():
    rep = look_at("gan")
    mt.check({"Generator", "Critic", "RMSprop", "Adagrad"} <= {t["root"] for t in rep["names"]["list"]}, "roots")
    # Of each net its own optimizer's, though their parameters have the same paths.
    for root, optimizer in ("Generator", "RMSprop"), ("Critic", "Adagrad"):
        state = sum(t["bytes"] for t in rep["names"]["list"] if (t["kind"], t["root"]) == ("optimizer_state", optimizer))
        told = [m["optimizer_state"] for m in rep["modules"]["list"] if (m["root"], m["name"]) == (root, "")]
        mt.check(told == [state], f"{root}: {told}, {optimizer} has {state}")


def test_lazy_and_replaced():
    look_at("grower")


def test_bare():
    look_at("bare")


def test_ddp():
    """DistributedDataParallel: two ranks over gloo."""
    rep = look_at("ddp")
    mt.check("module.0.weight" in {t["name"] for t in rep["names"]["list"] if t["root"] == "DistributedDataParallel"}, rep["names"]["list"][:5])


def test_interpreters():
    """torch is not in the newest interpreter, which is the first in the list of them; modules are found, too."""
    rep = look_at("interpreters")
    listed = {m["name"] for m in rep["modules"]["list"]}
    mt.check(listed >= {"0", "2"}, f"{listed}")


def test_odd():
    """Wrappers, scripted modules, slots, 60 deep, other scripts, LBFGS, two threads, gc.freeze: all of it at once (jobs/odd.py)."""
    rep = look_at("odd")
    listed = {(t["kind"], t["name"]) for t in rep["names"]["list"]}
    for name in ("größe.weight", "slotted.linear.weight", "lists.rows.1", "lists.gains.b", "wrapped.module.weight", "deep.d.d.d.w"):
        mt.check(("parameter", name) in listed, f"{name}: {sorted(listed)[:20]}")


LONG_BEGIN = """
import sys, time, torch, torch._dynamo
torch.optim.SGD([torch.nn.Parameter(torch.zeros(4))])  # what optimizers import at their first use
time.sleep(max(0, 15 - time.clock_gettime(time.CLOCK_BOOTTIME) + float(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / 100))
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
for step in range(1, 41):
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, file=sys.stderr, flush=True)
    time.sleep(0.5)
"""


def test_from_the_first_step():
    """A job that memtrace starts imports and loads for 15 s. Searches that found nothing come 0, 2, 6, 14 and 30 s after its start; its
    first step asks for one."""
    with mt.scratch() as tmp, mt.start("record", "-vv", "-o", str(tmp / "a.mtr"), "--", mt.PYTHON, "-c", LONG_BEGIN) as tracer:
        def is_found():
            return any(re.search(r"names of [1-9]\d* modules", text) for text in list(tracer.err))

        def steps():
            return sum(text.startswith("step ") for text in list(tracer.err))
        mt.wait_until(lambda: is_found() or steps() > 16 or not tracer.alive(), "modules", 90)
        mt.check(is_found(), f"{steps()} steps of 0.5 s, and no modules were found: {tracer.err[-5:]}")
        mt.note(f"modules were found after {steps()} steps of 0.5 s")


# The optimizer's steps have no marks, as if torch.compile had made them.
LATE_OPTIMIZER = """
import sys, time, torch
import torch._dynamo  # what the first optimizer imports
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
if not sys.stdin.readline():
    sys.exit()
optimizer = torch.optim.Adam(model.parameters())
step = getattr(type(optimizer).step, "__wrapped__", type(optimizer).step)
for i in range(1, 41):
    model(torch.randn(8, 64)).sum().backward()
    step(optimizer)
    for p in model.parameters():
        p.grad = None
    print("step", i, file=sys.stderr, flush=True)
    time.sleep(0.5)
"""


def test_from_the_first_backward():
    """An optimizer that is made long after the model: of the five looks before, the last is a search, and the next would be 16 s later."""
    with mt.scratch() as tmp, mt.start("record", "-vv", "-o", str(tmp / "a.mtr"), "--", mt.PYTHON, "-c", LATE_OPTIMIZER) as tracer:
        def looks(of):
            return [text for text in list(tracer.err) if re.search(f"names of [1-9]\\d* modules and {of} optimizers", text)]

        def steps():
            return sum(text.startswith("step ") for text in list(tracer.err))
        mt.wait_until(lambda: len(looks("0")) >= 5 or not tracer.alive(), "modules", 90)
        mt.check(tracer.alive(), f"{tracer.err[-5:]}")
        tracer.tell("go")
        mt.wait_until(lambda: looks("1") or steps() > 12 or not tracer.alive(), "an optimizer", 60)
        mt.check(looks("1"), f"{steps()} steps of 0.5 s, and no optimizer was found: {tracer.err[-5:]}")


def test_views_have_names():
    """text, jsonl and sqlite of one recording say the same names as the report."""
    with mt.scratch() as tmp:
        rep, _ = record("conv", tmp)
        names = {(t["id"], t["name"]) for t in rep["names"]["list"]}
        rows = mt.export(tmp / "names.mtr")
        mt.check(names <= {(r["id"], r.get("name")) for r in rows}, "jsonl")
        db = tmp / "names.db"
        mt.ok(mt.memtrace("export", tmp / "names.mtr", "--to", "sqlite", "-o", db))
        import sqlite3
        mt.check(names <= set(sqlite3.connect(db).execute("SELECT id, name FROM tensor")), "sqlite")
        text = mt.ok(mt.memtrace("report", tmp / "names.mtr", "--by", "name", "--top", "1000")).stdout
        for _, name in names:
            mt.check(name in text, f"{name} is not in the text")


def test_no_names_option():
    with mt.scratch() as tmp:
        rep, _ = record("conv", tmp, options=("--no-names",))
    mt.check("names" not in rep and "tensor" not in rep["events"], "names with --no-names")


def test_another_311():
    """The same with another build of Python 3.11 (a shared libpython), if there is one."""
    found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.11.*/bin/python3.11")))
    if not found:
        raise mt.Skip("no other Python 3.11")
    sites = glob.glob(str(mt.BUILD / "venv" / "lib" / "python3.11" / "site-packages"))
    os.environ["PYTHONPATH"] = sites[0]
    try:
        with mt.python(found[-1]):
            look_at("tied")
    finally:
        del os.environ["PYTHONPATH"]


def other_torch(minor, model):
    """A real model in a real torch of another Python."""
    for path in [p for p in mt.other_torches() if f"venv-3.{minor}/" in p]:
        with mt.python(path):
            look_at(model)
        return
    raise mt.Skip(f"no Python 3.{minor} with torch: tools/make-venv versions")


for _minor in (10, 12, 13):
    for _model in ("conv", "tied", "gan", "grower", "bare", "transformer"):
        globals()[f"test_torch_on_3{_minor}_{_model}"] = functools.partial(other_torch, _minor, _model)
        SLOW.add(f"torch_on_3{_minor}_{_model}")


def newer_python(tmp):
    """A copy of libpython3.13 that says it is 3.14's, and its Python with torch."""
    libs = glob.glob(os.path.expanduser("~/.pyenv/versions/3.13.*/lib/libpython3.13.so.1.0"))
    pythons = [p for p in mt.other_torches() if "venv-3.13/" in p]
    if not libs or not pythons:
        raise mt.Skip("no shared libpython3.13 with torch")
    image = bytearray(pathlib.Path(libs[0]).read_bytes())
    said = subprocess.run(["objdump", "-T", libs[0]], capture_output=True, text=True, check=True).stdout
    symbol = int(next(line for line in said.splitlines() if line.endswith(" Py_Version")).split()[0], 16)
    said = subprocess.run(["objdump", "-p", libs[0]], capture_output=True, text=True, check=True).stdout
    for off, vaddr, size in re.findall(r"LOAD off +(\S+) vaddr (\S+) .*\n +filesz (\S+) ", said):
        at = symbol - int(vaddr, 16)
        if 0 <= at < int(size, 16):
            at += int(off, 16)
            mt.check(image[at + 2:at + 4] == b"\x0d\x03", "Py_Version is not where it should be")
            image[at + 2] = 14
    (tmp / os.path.basename(libs[0])).write_bytes(image)
    return pythons[0]


def test_newer_version():
    """What is not known has no names and a note, and the rest of the report is as ever."""
    with mt.scratch() as tmp:
        python = newer_python(tmp)
        os.environ["LD_LIBRARY_PATH"] = str(tmp)
        try:
            with mt.python(python):
                rep, _ = record("tied", tmp)
        finally:
            del os.environ["LD_LIBRARY_PATH"]
    notes = json.dumps(rep)
    mt.check("names of modules and parameters are not known" in notes and "Python 3.14" in notes, rep["coverage"])
    mt.check("names" not in rep and rep["devices"]["cpu"]["peak"] > 0, "names, or no memory")


def fake(python, looks, *options):
    """Looks at jobs/names_fake.py in another interpreter."""
    with mt.scratch() as tmp:
        proc = mt.Proc([python, mt.JOBS / "names_fake.py", "--out", tmp / "t.json", *options])
        with proc:
            proc.line("ready ", 30)
            done = subprocess.run([bench(), str(proc.pid), str(looks), "5", "fake"], capture_output=True, text=True, check=True)
        truth = {int(k): v for k, v in json.loads((tmp / "t.json").read_text()).items()}
    check_looks(done, truth, f"{os.path.basename(os.path.dirname(os.path.dirname(python)))} {' '.join(options)}")


def other_pythons():
    found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[0123].*/bin/python3.1?")))
    if not found:
        raise mt.Skip("no Pythons of other versions")
    return found


def test_versions():
    """3.10 to 3.13, those that are there, with a torch of names alone."""
    for python in other_pythons():
        fake(python, 5)


def test_versions_long():
    """Dicts and inline values, gc.freeze."""
    for python in other_pythons():
        for options in ((), ("--dicts",), ("--freeze",)):
            fake(python, 30, *options)


def wrong_in_look(look, truth):
    """Names of `churn` that cannot be right. Of a transient tensor the type says what its path must be."""
    for data, nbytes, kind, root, path, key, kind_of in look["names"]:
        rows, cols = (int(n) for n in re.fullmatch(r"float32\[(\d+),(\d+)\]", kind_of).groups())
        if root.startswith("Permanent"):
            if data not in truth or truth[data][1] != [path] or truth[data][3] != nbytes:
                yield f"{root}: {path} at {data:#x}"
        elif root.startswith("Transient"):
            parts = path.split(".")
            # a part that was cut off is a root of its own, and so are the parts below it
            if int(parts[-1][1:]) + 100 != rows or not len(parts) <= cols <= 4 or any(p not in "ab" for p in parts[:-1]):
                yield f"{root}: {path} is {kind_of}"
        else:
            yield f"a root of class {root}"
        if kind != "parameter" or key or nbytes != rows * cols * 4:
            yield f"{root}: {path}: {kind} {key} {nbytes}"


def churn(looks, how):
    with mt.scratch() as tmp, mt.job("names", "--model", "churn", "--out", tmp / "truth.json") as job:
        truth = {int(k): v for k, v in json.loads((tmp / "truth.json").read_text()).items()}
        done = subprocess.run([bench(), str(job.pid), str(looks), "5", *how], capture_output=True, text=True, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        good = [r for r in rows if "error" not in r]
        wrong = [w for r in good for w in wrong_in_look(r, truth)]
        permanent = [sum(n[3].startswith("Permanent") for n in r["names"]) for r in good]
        mt.note(f"{len(good)} of {len(rows)} looks, {sum(r['told'] for r in good)} names, "
                f"{sum(r['held_back'] for r in good)} held back, {sum(r['torn'] for r in good)} torn, {len(wrong)} wrong; "
                f"of the permanent model's 30 names {min(permanent)} to {max(permanent)}")
        mt.check(not wrong, f"{wrong[:5]}")
        mt.check(len(good) >= looks * 0.9, f"{len(rows) - len(good)} looks failed")
        mt.check(sum(permanent) >= 0.9 * 30 * len(good), "the permanent model has too few names")
    if looks >= LOOKS_IN_DOCS:
        tables.keep("looks", " ".join(("churn", *how)), f"{len(good)} of {len(rows)} | {len(wrong)} | –")


def steady(looks, *job_args):
    with mt.scratch() as tmp, mt.job("names", "--model", "transformer", "--out", tmp / "t.json", *job_args) as job:
        done = subprocess.run([bench(), str(job.pid), str(looks), "2"], capture_output=True, text=True, check=True)
        job.tell("stop")
        job.line("stopped", 30)
        truth = {int(k): v for k, v in json.loads((tmp / "t.json").read_text()).items()}
    missed = check_looks(done, truth, " ".join(job_args))
    if looks >= LOOKS_IN_DOCS:
        tables.keep("looks", " ".join(("steady", *job_args)), f"{looks} of {looks} | 0 | {missed}")


def check_looks(done, truth, what):
    wrong, missed = [], 0
    truth = {ptr: want for ptr, want in truth.items() if want[0] != "gradient"}  # of the last step, those are
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = {"state": "optimizer_state"}
    shapes = {n[4]: n[6] for r in rows for n in r.get("names", ()) if n[2] == "parameter"}  # a look may have missed one
    for r in rows:
        mt.check("error" not in r, str(r))
        names = {n[0]: n for n in r["names"] if n[2] != "gradient"}
        missed += len(set(truth) - set(names))
        for ptr, n in names.items():
            want = truth.get(ptr)
            if not want or (kinds.get(n[2], n[2]), n[5] or None, n[1]) != (want[0], want[2], want[3]) or n[4] not in want[1]:
                wrong.append(n)
        wrong += [n for n in r["names"] if n[2] == "gradient" and shapes[n[4]] != n[6]]
    mt.note(f"{what} {len(rows)} looks, {len(truth)} tensors: {len(wrong)} wrong, {missed} missed, "
            f"{sum(n[2] == 'gradient' for r in rows for n in r['names'])} gradients")
    mt.check(not wrong, f"{len(wrong)} wrong: {wrong[:3]}")
    mt.check(missed <= 0.01 * len(rows) * len(truth), f"{missed} missed")
    return missed


def test_never_wrong():
    steady(30)
    churn(15, ())
    churn(15, ("all",))


def test_never_wrong_long_steady():
    steady(300)


def test_never_wrong_long_gc():
    steady(300, "--gc")


def test_never_wrong_long_churn():
    churn(300, ())


def test_never_wrong_long_churn_all():
    churn(150, ("all",))  # each searches all objects, too


# --- the tables of docs/names.md (make docs-names) ---------------------------------------------------------

MODELS = {"transformer": "transformer, AdamW", "conv": "convolutions with batch norm, SGD", "tied": "LSTM with tied weights, AMSGrad",
          "gan": "GAN, RMSprop and Adagrad", "grower": "lazy and replaced parts, NAdam", "bare": "bare parameters in a generator, ASGD",
          "ddp": "DistributedDataParallel, two ranks over gloo",
          "interpreters": "beside a newer interpreter, inference",
          "odd": "odd ones, at once"}
LOOKS_IN_DOCS = 150
LOOKS = {"steady": "trains (transformer)", "steady --gc": "the same, gc.collect() in every step",
         "churn": "makes and drops modules all the time", "churn all": "the same, each look searches all objects"}


def text():
    found = zip(MODELS.values(), tables.kept("names", MODELS))
    looks = zip(LOOKS.values(), tables.kept("looks", LOOKS))
    return ("| job | tensors | bytes | named | wrong | bytes in another category |\n|---|---|---|---|---|---|\n"
            + "".join(f"| {what} | {row} |\n" for what, row in found)
            + "\n| looks at a job that | looks that could be made | names that were wrong | tensors missed, in all looks |\n|---|---|---|---|\n"
            + "".join(f"| {what} | {row} |\n" for what, row in looks))


if __name__ == "__main__":
    tables.write("names", text())
