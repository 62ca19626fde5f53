# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Tensor arguments and categories against what the job itself says, for each version of torch that is here.

The job (jobs/pointers.py) runs under memtrace from its start on. Compared are, for one step, every operator
with the storages of its tensors; for another, every allocation that torch.profiler sees; at the
end, the categories of parameters, gradients and optimizer state. And in the whole recording each argument's
storage must be a block that is alive, of that very size.

torch 1.13 is Debian's python3-torch: make check-torch-1.13 installs it. Its regions are not seen (no exported function
is given their names): its optimizer state is told by what gradients are written into, which leaves out the
step counters of 4 bytes. MT_TORCH_PYTHON names a Python with any other version, for one run.
"""
import collections
import json
import os
import subprocess

import mt

SLOW = {"torch_of_the_tests_transformer"}
TIMEOUT_S = {"torch_of_the_tests_mlp": 300}
ON_REQUEST = {"torch_113_mlp", "torch_113_transformer", "torch_other_mlp", "torch_other_transformer"}

DEBIAN = "/usr/bin/python3"
# Not entered through at::_ops::X::call in a step: these can neither allocate, nor write, nor make a view, and get
# no probe; autograd makes some views by redispatch (what it saves is detached; t in 2.4 and 2.8).
UNPROBED = {"aten::is_same_size", "aten::_local_scalar_dense", "aten::equal", "aten::detach", "aten::t"}
NUMBER_BYTES = 8  # a Python number as a tensor: the job is given the number back


def version_of(python):
    done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def frames_of(path):
    """[(time, name, [(pointer, size)…])], {pointer: [(birth, death, size)…]}"""
    say = mt.compile_c("say_args", "-D_GNU_SOURCE", "-I", mt.ROOT / "user", str(mt.BUILD / "libmemtrace.a"),
                       "-lbpf", "-lelf", "-lZydis", "-lzstd", "-ljansson", "-lxxhash", "-lz")
    text = subprocess.run([say, path], capture_output=True, text=True, check=True).stdout
    frames, blocks, changes, strangers, now = [], {}, [], [], 0
    for line in text.splitlines():
        kind, *rest = line.split(" ")
        if kind == "alloc":
            blocks[int(rest[1])] = int(rest[2])
            changes.append((int(rest[0]), int(rest[2])))
        elif kind == "free":
            changes.append((int(rest[0]), -blocks.pop(int(rest[1]), 0)))
        elif kind == "frame":
            now = int(rest[0])
            frames.append((now, rest[1], []))
        elif int(rest[2]):
            ptr, size = int(rest[2]), int(rest[3])
            frames[-1][2].append([ptr, size])
            if blocks.get(ptr) != size:
                strangers.append((frames[-1][1], ptr, size, blocks.get(ptr)))
    return frames, changes, strangers


def check_calls(told, frames):
    begin, end = told["window"]
    frames = [f for f in frames if begin < f[0] < end]
    at = args = skipped = 0
    for name, storages in told["calls"]:
        wanted = [s for s in storages if s[0]]
        if not wanted:
            continue
        if name in UNPROBED:
            skipped += 1
            continue
        found = next((i for i in range(at, len(frames)) if frames[i][1] == name
                      and [a for a in frames[i][2] if a in wanted or a[1] != NUMBER_BYTES] == wanted), None)
        mt.check(found is not None, f"{name} {wanted}: not in the recording; of that name: "
                 + str([f[2] for f in frames[at:] if f[1] == name][:3]))
        at = found + 1
        args += len(wanted)
    mt.check(args > 200, f"{args} arguments compared")
    return len(told["calls"]), args, skipped


def category_at(rows, at):
    """{pointer: (size, category)} of what is alive at an instant, epoch ns."""
    alive = {}
    for r in rows:
        if r["t"] > at:
            break
        if r["ev"] == "destroy":
            alive.pop(int(r["ptr"], 16), None)
        else:
            alive[int(r["ptr"], 16)] = (r["size"], r["cat"])
    return alive


def last_words(rows, at):
    """The last word on each block alive at an instant, with hindsight."""
    words, ids, born = {}, {}, {}
    for r in rows:
        words[r["id"]] = r["cat"]
        if r["t"] <= at:
            if r["ev"] == "destroy":
                ids.pop(int(r["ptr"], 16), None)
            else:
                ids[int(r["ptr"], 16)] = r["id"]
                born[r["id"]] = r["size"]
    return {ptr: (born[i], words[i]) for ptr, i in ids.items()}


def compare(python, model):
    with mt.scratch() as d:
        out, mtr = d / "told.json", d / "job.mtr"
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        job = [python, mt.JOBS / "pointers.py", "--model", model, "--width", 64, "--batch", 8, "--out", out]
        with mt.start("record", "--probes", "framework,flow,views", "-o", mtr, "--", *job, env=env) as tracer:
            pid = int(tracer.line("ready ", 120).split()[1])
            mt.wait_attached(tracer, pid, mt.OP, 120)
            tracer.tell("go")
            mt.finish(tracer, mtr, None, 120)
        told = json.loads(out.read_text())
        frames, changes, strangers = frames_of(mtr)
        rows = mt.export(mtr)
        rep = mt.report(mtr)
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    mt.check(not strangers, f"{len(strangers)} arguments that are no live block of that size: {strangers[:5]}")
    calls, args, skipped = check_calls(told["noted"], frames)
    begin, end = told["profiled"]["window"]
    seen = collections.Counter(n for t, n in changes if begin < t < end)
    said = collections.Counter(told["profiled"]["bytes"])
    # the profiler does not tell of frees of what is older than itself
    only = {n: c for n, c in (seen - said).items() if n > 0}
    mt.check(said and not only and not said - seen, f"allocations: only here {only}, only there {said - seen}")
    # an export's times are epoch ns: the same instant by the clocks' difference, which the first row has
    offset = rows[0]["t"] - changes[0][0]
    blocks = last_words(rows, told["at"] + offset)
    if not any("Optimizer.step" in (r["region"] or "") for r in rows):
        told["state"] = [s for s in told["state"] if s[1] > NUMBER_BYTES]
    expected = {"parameters": "PARAMETER", "gradients": "GRADIENT", "state": "OPTIMIZER_STATE"}
    for what, wanted in expected.items():
        wrong = [(ptr, size, blocks.get(ptr)) for ptr, size in told[what] if blocks.get(ptr) != (size, wanted)]
        mt.check(told[what] and not wrong, f"{len(wrong)} of {len(told[what])} {what} wrong: {wrong[:5]}")
    known = {ptr for what in expected for ptr, _ in told[what]}
    more = [(ptr, b) for ptr, b in blocks.items() if b[1] in expected.values() and ptr not in known]
    mt.check(not more, f"said to be a parameter, gradient or state, but is none: {more[:5]}")
    mt.note(f"torch {told['version']}, {model}: {calls} operators of a step, {args} arguments equal ({skipped} without "
            f"a probe), {sum(said.values())} allocations and frees, {len(told['parameters'])} parameters, "
            f"{len(told['gradients'])} gradients, {len(told['state'])} states")
    return args


def debian():
    if not version_of(DEBIAN).startswith("1.13"):
        raise mt.Skip("no torch 1.13 (Debian's python3-torch): make check-torch-1.13")
    return DEBIAN


def other():
    if not os.environ.get("MT_TORCH_PYTHON"):
        raise mt.Skip("MT_TORCH_PYTHON names no Python")
    return os.environ["MT_TORCH_PYTHON"]


def test_torch_of_the_tests_mlp():
    compare(mt.PYTHON, "mlp")


def test_torch_of_the_tests_transformer():
    compare(mt.PYTHON, "transformer")


def test_torch_113_mlp():
    compare(debian(), "mlp")


def test_torch_113_transformer():
    compare(debian(), "transformer")


def test_torch_other_mlp():
    compare(other(), "mlp")


def test_torch_other_transformer():
    compare(other(), "transformer")
