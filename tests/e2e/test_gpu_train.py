# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Training on CUDA tensors without a GPU: op, stream and category of each block.

PyTorch's real CUDA allocator over the stub runtime, with the CPU's kernels (tests/gpu_stub/torch_backend.cpp), under real
jobs on device "cuda"; memtrace comes in mid-run. Two truths:

    agreement   torch.profiler's own memory profiler on the same steps of the same process (test_categories.py)
    sets        the job's own lists of what is parameter, gradient, state, input (tests/gpu_stub/train.py), the
                backend's log of every block (operator, stream, size) and getDeviceStats(), at the marks of three steps
"""
import collections
import json
import os
import subprocess

import mt
import test_categories as categories
import test_gpu_stub as stub
import test_gpu_torch as torch

# check-landing and check-gpu-stub name them; none without the wheels
SLOW = ON_REQUEST = {"agreement_mlp", "agreement_conv", "agreement_transformer", "sets_caching", "sets_expandable_segments",
        "sets_cuda_malloc_async", "sets_no_caching", "amid_a_step_caching", "amid_a_step_expandable_segments",
        "amid_a_step_cuda_malloc_async", "amid_a_step_no_caching"}

BACKEND = stub.BIN / "torch" / "libtorch_backend.so"


def environment(mode):
    """What makes a job's device "cuda"; on a GPU (MT_DEVICE=cuda) it is one."""
    if mt.DEVICE != "cpu":
        return dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", **torch.MODES[mode])
    torch.need_wheels()
    wanted = (torch.WHEELS / "ready").read_text().strip()
    have = subprocess.run([mt.PYTHON, "-c", "import torch; print(torch.__version__.split('+')[0])"], capture_output=True, text=True,
                          check=True).stdout.strip()
    if wanted != have:
        raise mt.Skip(f"the wheels are of torch {wanted or '2.11.0'}, the virtual environment has {have}")
    make = subprocess.run(["make", "-s", "-C", str(mt.ROOT), str(BACKEND.relative_to(mt.ROOT))], capture_output=True, text=True,
                          check=False)
    mt.check(make.returncode == 0, f"make {BACKEND.name}: {make.stderr[-2000:]}")
    return dict(os.environ, MT_STUB_TOUCH="1", MT_STUB_BACKEND=str(BACKEND), PYTHONPATH=str(mt.ROOT / "tests" / "gpu_stub"),
                PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", **torch.MODES[mode])


def recording(tracer):
    mt.wait_until(lambda: any("recording: " in t for t in tracer.err) or not tracer.alive(), "memtrace to record", 30)
    mt.check(tracer.alive(), "; ".join(tracer.err))


# --- against torch.profiler ------------------------------------------------------------------------------------

def agreement(model, mode):
    env = environment(mode)
    with mt.scratch() as tmp:
        out, mtr = tmp / "a.json", tmp / "a.mtr"
        with mt.Proc([mt.PYTHON, mt.JOBS / "categories.py", "--model", model, "--cuda", "--out", out], env=env) as job:
            job.line("ready ", 120)
            with mt.start("record", "-p", str(job.pid), "--probes", "framework,flow,regions,segments,usdt", "-o",
                          str(mtr)) as tracer:
                recording(tracer)
                job.tell("go")
                job.line("done", 90)
                mt.finish(tracer, mtr)
        res = categories.agreement(json.loads(out.read_text()), mt.export(mtr, ("--labels", "live")), "cuda:0")
        rep = mt.report(mtr)
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    mt.note(f"{model}: known {categories.percent(res.known)}, all {categories.percent(res.all)}, live "
            f"{categories.percent(res.known_live)}; born {res.born[0]}")
    for text in res.worst(4) + categories.table(res).splitlines():
        mt.note(f"  {text}")
    mt.check(res.born[0] > 50, f"the profiler saw {res.born[0]} births only")
    mt.check(res.unmatched == [0, 0], f"born in the window, in one only: {res.unmatched} of {res.born}")
    mt.check(res.freed[0] == res.freed[1], f"freed in the window: {res.freed}")
    mt.check(res.known >= categories.KNOWN_MIN, f"agreement {categories.percent(res.known)}: " + "; ".join(res.worst()))


def test_agreement_mlp():
    agreement("mlp", "plain")


def test_agreement_conv():
    agreement("conv", "expandable")


def test_agreement_transformer():
    agreement("transformer", "plain")


# --- against the job's own lists ---------------------------------------------------------------------------------

LISTS = ("PARAMETER", "OPTIMIZER_STATE", "GRADIENT", "INPUT")
PROBES = "framework,flow,views,regions,segments,usdt"  # views: each operator by itself, as the backend tells them


class Trained:
    """A recorded run of train.py: .marks, .given (the backend's log), .seen (memtrace's blocks), .report."""

    def __init__(self, mode, *words):
        env = environment(mode)
        with mt.scratch() as tmp:
            mtr, log = tmp / "a.mtr", tmp / "log"
            with mt.Proc([mt.PYTHON, mt.ROOT / "tests" / "gpu_stub" / "train.py", log, *words], env=env) as job:
                job.line("ready ", 120)
                with mt.start("record", "-p", str(job.pid), "--probes", PROBES, "-o", str(mtr)) as tracer:
                    recording(tracer)
                    job.tell("go")
                    job.line("done", 90)
                    mt.finish(tracer, mtr)
            self.marks = [json.loads(x) for x in job.out if x.startswith("{")]
            self.log = [json.loads(x) for x in log.read_text().splitlines()]
            rows = mt.export(mtr)
            self.report = mt.report(mtr)
            self.reports = stub.reports_at(mtr, [m["t"] for m in self.marks])
        mt.check(mt.lost(self.report) == 0, f"lost: {self.report['lost']}")
        self.seen = categories.seen_blocks(rows, job.pid, "cuda:0")
        given = {e["ptr"] for e in self.log if e["ev"] == "give"}
        self.in_a_kernel = any(r.get("dev") == "cpu" and int(r.get("ptr", "0"), 16) in given for r in rows)
        self.streams = {r["id"]: r["stream"] for r in rows if "stream" in r}

    def live_log(self, t):
        live = {}
        for e in self.log:
            if e["t"] > t:
                break
            if e["ev"] == "give":
                live[e["ptr"]] = e
            else:
                live.pop(e["ptr"], None)
        return live

    def live_seen(self, epoch_ns):
        live = {s.ptr: s for s in self.seen if s.birth <= epoch_ns < s.end}
        mt.check(len(live) == sum(s.birth <= epoch_ns < s.end for s in self.seen), "two blocks at one place")
        return live


def rounded(size):
    return (size + 511) // 512 * 512


def check_mark(run, m, whole):
    """Every block that lives, its size, and which are what; returns how many there are."""
    truth, seen = run.live_log(m["t"]), run.live_seen(m["epoch_ns"])
    what = collections.defaultdict(dict)
    for ptr, s in seen.items():
        what[categories.word_at(s, m["epoch_ns"])][ptr] = s
        given = truth.get(ptr)
        mt.check(given, f"{m['mark']}: {ptr:x} of {s.size} bytes ({s.op}) is no block of the allocator's")
        met = s.birth == -categories.NEVER  # its size is that of its tensor
        mt.check(s.size == (given["size"] if met else whole(given["size"])), f"{m['mark']}: {s.size} bytes, asked: {given}")
    mt.check(set(seen) == set(truth), f"{m['mark']}: blocks that memtrace has not: "
             f"{[truth[p] for p in set(truth) - set(seen)]}")
    for name in LISTS:
        wanted = dict(m[name])
        have = {ptr: truth[ptr]["size"] for ptr in what[name]}
        mt.check(have == wanted, f"{m['mark']}: {name} should be {wanted}, is {have}; the former are "
                 f"{[(categories.word_at(seen[p], m['epoch_ns']), seen[p].op) for p in wanted if p not in have]}, the latter "
                 f"{[(seen[p].op, seen[p].size) for p in have if p not in wanted]}")
    rest = set(truth) - {ptr for name in LISTS for ptr, _ in m[name]}
    if m["mark"] == "forward":
        mt.check(set(what["ACTIVATION"]) == rest and len(rest) >= 6, f"activations: {[truth[p] for p in rest]}, memtrace: "
                 f"{[(s.op, s.size) for s in what['ACTIVATION'].values()]}")
    return len(truth)


def check_births(run, stream_key):
    """Each birth from the first mark to the last, in order: place, operator; and stream, where it was freed since."""
    first, last = run.marks[0], run.marks[-1]
    given = [e for e in run.log if e["ev"] == "give" and first["t"] <= e["t"] < last["t"]]
    born = sorted((s for s in run.seen if first["epoch_ns"] <= s.birth < last["epoch_ns"]), key=lambda s: s.birth)
    mt.check([(e["ptr"], e["op"]) for e in given] == [(s.ptr, s.op) for s in born], "first difference: "
             f"{next(((e, s.ptr, s.size, s.op) for e, s in zip(given, born) if (e['ptr'], e['op']) != (s.ptr, s.op)), None)}; "
             f"{len(given)} births, memtrace has {len(born)}")
    streams = collections.Counter()
    for e, s in zip(given, born):
        if s.end < categories.NEVER:
            mt.check(run.streams.get(s.id) == stub.fold(e[stream_key]), f"stream of {e}: {run.streams.get(s.id)}")
            streams[e[stream_key]] += 1
    mt.check(len(streams) == 2, f"streams: {streams}")
    return f"{len(born)} births in {len({s.op for s in born})} operators and {len(streams)} streams"


def train(mode, whole=lambda size: size, stream_key="stream_id", words=()):
    run = Trained(mode, *words)
    for _ in range(5):
        if not run.in_a_kernel:
            break
        mt.note("attached in a kernel of the CPU's, which no GPU has (train.py): once more")
        run = Trained(mode, *words)
    mt.check([m["mark"] for m in run.marks] == 3 * ["forward", "backward", "step", "side"], f"{run.marks}")
    blocks = [check_mark(run, m, whole) for m in run.marks]
    births = check_births(run, stream_key)
    mt.note(f"{len(blocks)} marks of {min(blocks)} to {max(blocks)} blocks, {births}: all equal")
    return run


def check_totals(run):
    """The allocator's own words at each mark."""
    for m, rep in zip(run.marks, run.reports):
        segs = rep["devices"]["cuda:0"]["segments"]
        for key in ("allocated", "reserved"):
            mt.check(segs[key] == m["stats"][key], f"{m['mark']}: {key} {segs[key]}, the allocator says {m['stats'][key]}")
        mt.check(segs["allocated_before"] >= 0 and segs["layers"]["driver"] >= segs["layers"]["allocator"], f"{segs}")


def test_sets_caching():
    check_totals(train("plain", rounded))


def test_sets_expandable_segments():
    check_totals(train("expandable", rounded))


def test_sets_cuda_malloc_async():
    train("async", stream_key="stream")


def test_sets_no_caching():
    train("no_caching")


# --- attached in the middle of a step: after one more all is known -------------------------------------------------

def test_amid_a_step_caching():
    check_totals(train("plain", rounded, words=["running"]))


def test_amid_a_step_expandable_segments():
    check_totals(train("expandable", rounded, words=["running"]))


def test_amid_a_step_cuda_malloc_async():
    train("async", stream_key="stream", words=["running"])


def test_amid_a_step_no_caching():
    train("no_caching", words=["running"])
