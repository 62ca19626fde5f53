# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Modules and phases, against what hooks in the job saw (jobs/modules.py)."""
import bisect
import collections
import json
import re
import time

import mt
import test_categories

SHARE_MIN = 0.98
SLOW = {"mem_tracker", "compiled_inductor", "other_versions"}
LANDING = {"compiled", "layers_of_one_code"}
BATCH = 8 * 32 * 8
RNG_STATE = 5056  # of checkpoint(): made by no operator that MemTracker sees


def record(tmp, options=()):
    """(rows of jsonl, report, what the job saw) of a job that was attached to in mid-run."""
    out, mtr = tmp / "truth.json", tmp / "modules.mtr"
    with mt.job("modules", "--out", out, "--pause", "0.02", *options) as job:
        with mt.start("record", "-p", str(job.pid), "-o", str(mtr), "-vv") as tracer:
            mt.wait_until(lambda: any("names of" in t for t in tracer.err) or not tracer.alive(), "a look at the modules", 60)
            mt.check(tracer.alive(), "; ".join(tracer.err))
            mt.wait_attached(tracer, job.pid, mt.OP, 60)  # a look may be faster than that: then no operator was seen
            if options:  # what hooks keep alive would be in all peaks
                mt.wait_until(lambda: sum("names of" in t for t in tracer.err) >= 3, "two more looks", 60)
            else:
                job.tell("watch")
                job.line("watched 1", 60)
            mt.finish(tracer, mtr)
        job.tell("stop")
        job.line("stopped", 60)
    rep = mt.report(mtr)
    mt.check(not mt.lost(rep), f"lost: {rep['lost']}")
    return mt.export(mtr, ("--ops",)), rep, json.loads(out.read_text())


class Blocks:
    """Lives of blocks, by address."""

    def __init__(self, rows):
        self.lives = collections.defaultdict(list)
        for r in rows:
            if r["ev"] == "create":
                self.lives[int(r["ptr"], 16)].append([r["t"], None, r])
            elif r["ev"] == "destroy" and self.lives.get(int(r["ptr"], 16)):
                self.lives[int(r["ptr"], 16)][-1][1] = r["t"]

    def at(self, ptr, t):
        lives = self.lives.get(ptr, [])
        i = bisect.bisect(lives, t, key=lambda life: life[0]) - 1
        if i < 0 or (lives[i][1] is not None and lives[i][1] < t):
            return None
        return lives[i][2]


def compare(rows, told):
    """By phase: [bytes that agree, bytes]; and what does not."""
    blocks = Blocks(rows)
    sums, wrong = collections.defaultdict(lambda: [0, 0]), collections.Counter()
    for t, ptr, size, path, phase in told:
        row = blocks.at(ptr, t)
        got = (row.get("module", None if "module_root" not in row else "") or ("" if "module_root" in row else None),
               row.get("phase", "other")) if row and row["size"] == size else None
        sums[phase][1] += size
        if got == (path, phase):
            sums[phase][0] += size
        else:
            wrong[path, phase, got, row and row["op"], row and row["region"]] += size
    return sums, wrong


def check_phases(rows, marks, unknown=()):
    """Marks and phases of births, by the job's own clock."""
    told = [(r["t"], r["mark"]) for r in rows if r["ev"] == "mark"]
    births = [(r["t"], r["size"], r.get("phase", "other")) for r in rows if r["ev"] == "create"]
    right = total = 0
    want = {"forward": ("forward", ["fw_start"]), "backward": ("backward", ["fw_bw_boundary"]), "optimizer": ("optimizer", ["step"]),
            "evaluation": ("evaluation", [])}
    for (begin, name), (end, _) in zip(marks, marks[1:]):
        if name == "end" or name in unknown:
            continue
        phase, inside = want[name]
        got = [m for t, m in told if begin <= t < end]
        mt.check(got == inside, f"marks of {name}: {got}")
        for t, size, p in births:
            if begin <= t < end:
                total += size
                right += size if p == phase or (phase == "backward" and p == "recompute") else 0
    return right / total


def check_ops(path, rep):
    """Operators with their module: by module and by operator they add up to what is told of these."""
    told = rep["modules"]
    mt.check(told["total"] == len(told["list"]) and told["ops_total"] == len(told["ops"]) and not told["ops_rest_bytes"], "cut")
    by_module, by_op = collections.Counter(), collections.Counter()
    for o in told["ops"]:
        mt.check(o["alloc_bytes"] == sum(o["phases"].values()), str(o))
        by_module[o["module_root"], o["module"]] += o["alloc_bytes"]
        by_op[o["op"]] += o["alloc_bytes"]
    mt.check([o["alloc_bytes"] for o in told["ops"]] == sorted((o["alloc_bytes"] for o in told["ops"]), reverse=True), "order")
    for m in told["list"]:
        mt.check(by_module[m["root"] or None, m["name"]] == m["own"]["alloc_bytes"], f"{m['name']}: {by_module[m['root'], m['name']]} {m['own']}")
    mt.check(by_module[None, None] == told["none"]["alloc_bytes"], str(told["none"]))
    for o in rep["ops"]:
        mt.check(by_op[o["name"]] == o["alloc_bytes"], f"{o}: {by_op[o['name']]}")
    # what was born before the last probe of an operator was set may have none
    top = next(o for o in told["ops"] if o["module"] and o["op"])
    in_recompute = max((o for o in told["ops"] if o["module"] and o["op"] and o["phases"].get("recompute")), key=lambda o: o["phases"]["recompute"])
    for o, few in (top, ["400"]), (top, ["400", "--phase", "forward"]), (in_recompute, ["1", "--phase", "recompute"]):
        text = mt.ok(mt.memtrace("report", path, "--by", "module", "--top", *few)).stdout.split("with their module")[1]
        mt.check(re.search(rf"{re.escape(o['op'])} +{re.escape(o['module_root'] + '.' + o['module'])[:20]}", text), text[:2000])
    few = json.loads(mt.ok(mt.memtrace("report", path, "--json", "--top", "5")).stdout)["modules"]
    mt.check(len(few["list"]) == 5 and len(few["ops"]) == 5 and few["total"] == told["total"], "--top 5")
    mt.check(few["ops"] == told["ops"][:5] and all(m["parent"] is None or m["parent"] < i for i, m in enumerate(few["list"])), str(few["list"]))


def rows_of_modules(path, *options):
    """[(level, name)] of the text's table."""
    text = mt.ok(mt.memtrace("report", path, "--by", "module", "--top", 1000, *options)).stdout
    table = text.split("module (class)", 1)[1].split("\n\n", 1)[0].split("\n")[1:]
    found = (re.match(r"  ( *)([^ ]+)", line) for line in table)
    return [(len(m[1]) // 2, m[2]) for m in found if m and m[2] != "…"]


def check_depth(path, rep):
    """--depth N: the tree's first N levels, and nothing else of it changes."""
    listed = {m["depth"] for m in rep["modules"]["list"]}
    whole = rows_of_modules(path)
    mt.check(max(listed) >= 2 and {level for level, _ in whole} == listed, f"{listed}, {whole}")
    for depth in range(1, max(listed) + 2):
        rows = rows_of_modules(path, "--depth", depth)
        mt.check(rows == [row for row in whole if row[0] < depth], f"--depth {depth}: {rows}, all {whole}")
    mt.check(rows_of_modules(path, "--depth", 1, "--phase", "forward") == [r for r in rows_of_modules(path, "--phase", "forward")
                                                                           if r[0] == 0], "--depth with --phase")
    mt.expect_failure(mt.memtrace("report", path, "--depth", 1), 2, "--depth is about the table of modules")
    for wrong in ("0", "-1", "x"):
        mt.expect_failure(mt.memtrace("report", path, "--by", "module", "--depth", wrong), 2)


def oracle(unknown=()):
    """Who made what, for 98 % of the bytes that the hooks saw, in each phase; and phases of all births, but for those that cannot be known.
    The lowest of the shares."""
    with mt.scratch() as tmp:
        rows, rep, (truth,) = record(tmp)
        check_ops(tmp / "modules.mtr", rep)
        check_depth(tmp / "modules.mtr", rep)
    sums, wrong = compare(rows, truth["told"])
    for phase, (right, total) in sorted(sums.items()):
        mt.note(f"{phase}: {100 * right / total:.2f} % of {total} bytes")
    if wrong:
        mt.note(f"not as the hooks say: {wrong.most_common(5)}")
    for phase in ("forward", "backward", "recompute", "evaluation"):
        right, total = sums[phase]
        mt.check(total and right >= SHARE_MIN * total, f"{phase}: {wrong.most_common(5)}")
    share = check_phases(rows, truth["marks"], unknown)
    mt.note(f"phases: {100 * share:.2f} % of the bytes born")
    mt.check(share >= SHARE_MIN, f"phases: {share}")
    listed = {m["name"]: m for m in rep["modules"]["list"] if m["root"] == "Net"}
    mt.check(listed["blocks.0.attn.qkv"]["class"] == "Linear", str(listed.keys()))
    parent = rep["modules"]["list"][listed["blocks.0.attn.qkv"]["parent"]]
    mt.check((parent["name"], parent["class"]) == ("blocks.0.attn", "Attention"), str(parent))
    mt.check(listed["shared"]["parameter"] == 4 * (64 * 64 + 64), str(listed["shared"]))
    mt.check(listed["shared"]["optimizer_state"] >= 8 * (64 * 64 + 64), str(listed["shared"]))
    return min(share, *(right / total for right, total in sums.values()))


def test_oracle():
    oracle()


def test_other_versions():
    """The same on the other Pythons that have torch."""
    for path in mt.other_torches():
        mt.note(path)
        with mt.python(path):
            test_oracle()


def compiled(backend):
    """Blocks born while a part ran, compiled or not, and its backward, against the job's clock."""
    with mt.scratch() as tmp:
        out, mtr = tmp / "truth.json", tmp / "compiled.mtr"
        with mt.job("compiled", "--out", out, "--backend", backend) as job:
            with mt.start("record", "-p", str(job.pid), "-o", str(mtr), "-vv") as tracer:
                mt.wait_attached(tracer, job.pid, mt.OP)
                seen = sum("names of" in t for t in tracer.err)
                mt.wait_until(lambda: sum("names of" in t for t in tracer.err) >= seen + 2 or not tracer.alive(), "two more looks at the modules", 60)
                mt.check(tracer.alive(), "; ".join(tracer.err))
                job.tell("watch")
                job.line("watched", 60)
                job.tell("stop")
                job.line("stopped", 60)
                mt.finish(tracer, mtr)
        rows, told = mt.export(mtr), json.loads(out.read_text())
    births = sorted((r["t"], r["size"], r.get("module"), r.get("phase"), r["op"]) for r in rows if r["ev"] == "create")
    sums, wrong = collections.defaultdict(lambda: [0, 0]), collections.Counter()
    for begin, end, path, phase in told:
        for i in range(bisect.bisect(births, (begin,)), bisect.bisect(births, (end,))):
            _, size, module, got, op = births[i]
            right = got == phase and (module or "").split(".")[0] == path
            sums[path, phase][0] += size if right else 0
            sums[path, phase][1] += size
            if not right:
                wrong[path, phase, module, got, op] += size
    for (path, phase), (right, total) in sums.items():
        mt.note(f"{backend}: {path} {phase}: {100 * right / total:.2f} % of {total} bytes")
    if wrong:
        mt.note(f"not as the clock says: {wrong.most_common(5)}")
    for path in ("first", "placed", "wrapped", "last"):
        for phase in ("forward", "backward"):
            right, total = sums[path, phase]
            mt.check(total and right >= SHARE_MIN * total, f"{path} {phase}: {right} of {total}: {wrong.most_common(5)}")


def test_compiled():
    compiled("aot_eager")


def test_compiled_inductor():
    compiled("inductor")


def test_layers_of_one_code():
    """Layers that run one object of code one after the other (regional torch.compile): what each allocates is its own, though the two
    innermost frames are the same."""
    wanted = {4 * (100_003 + 100 * i): str(i) for i in range(4)}
    with mt.scratch() as tmp, mt.job("layers", *(str(size // 4) for size in wanted)) as job:
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "-vv") as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP, 60)
            test_categories.python_is_known(tracer, job.pid)
            known = time.time_ns()
            mt.wait_until(lambda: time.time_ns() > known + 1e9 or not tracer.alive(), "some steps", 10)
            mt.finish(tracer, tmp / "a.mtr")
        job.tell("stop")
        rows = mt.export(tmp / "a.mtr")
    born = collections.Counter((wanted[r["size"]], r.get("module")) for r in rows
                               if r["ev"] == "create" and r["size"] in wanted and r["t"] > known)
    mt.note(f"{born}")
    mt.check(born and all(layer == module for layer, module in born) and len(born) == len(wanted), f"{born}")


def test_mem_tracker():
    """torch.distributed._tools.MemTracker in the same job, by module. Each difference has its reason (docs/modules.md)."""
    with mt.scratch() as tmp:
        _, rep, (theirs,) = record(tmp, ("--mem-tracker",))
    ours = {m["name"]: m for m in rep["modules"]["list"] if m["root"] == "Net"}
    mt.note(f"{'module':24} {'parameter':>15} {'input':>15} {'output':>15} {'peak in forward':>18} {'peak in backward':>18}")
    for name, said in theirs.items():
        own = ours[name]
        mt.note(f"{name:24} " + " ".join(f"{said[k]}/{own[k]}".rjust(w) for k, w in
                                         (("parameter", 15), ("input", 15), ("output", 15), ("peak_forward", 18),
                                          ("peak_backward", 18))))
        mt.check(own["parameter"] == said["parameter"] and own["output"] == said["output"], f"{name}: {own}, {said}")
        # the batch is a view's input behind the last module, in the loss, before anything is born there
        mt.check(own["input"] - said["input"] in (0, BATCH), f"{name}: {own}, {said}")
        for k in ("peak_forward", "peak_backward"):
            # of modules inside a reentrant checkpoint MemTracker has no backward
            mt.check(said[k] is None or -RNG_STATE <= own[k] - said[k] <= 3 * RNG_STATE, f"{name}: {k}: {own[k]}, {said[k]}")
