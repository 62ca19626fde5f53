# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What autograd keeps from forward to backward, against saved_tensors_hooks in the job (jobs/saved.py)."""
import collections
import json

import mt
import tables
import test_compiled as inductor

SHARE_MIN = 0.99
JOBS = {"transformer": "transformer", "conv": "conv net: batch norm, pooling, dropout", "lstm": "LSTM",
        "accumulate": "MLP, four batches accumulated", "checkpoint": "four blocks, two of them checkpointed, of both kinds",
        "gan": "GAN: two models, three passes a step", "mixed": "MLP under autocast (bfloat16)",
        "penalty": "gradient penalty (a gradient of a gradient)", "compiled": "`torch.compile` (aot_eager), by the graph's saved tensors",
        "distil": "`torch.compile` (inductor), a loss whose targets and weights the job holds, by the graph's saved tensors"}
SLOW = {"mixed", "accumulate"}
LANDING = {"lstm", "checkpoint", "distil", "compiled", "penalty", "conv", "gan"}
TIMEOUT_S = {"distil": inductor.COMPILES_S}
close_file = inductor.close_file


def record(job, tmp, *options, probes=()):
    """(report, the job's passes) of a job that was attached to in mid-run; the last pass that is traced is the job's last."""
    out, mtr = tmp / "truth.json", tmp / "saved.mtr"
    with mt.job("saved", "--job", job, "--out", out, *options, ready_s=inductor.COMPILES_S) as proc:
        with mt.start("record", "-p", str(proc.pid), "-o", str(mtr), "-vv", *probes) as tracer:
            mt.wait_until(lambda: sum("names of" in t for t in tracer.err) >= 2 or not tracer.alive(), "names", 60)
            mt.check(tracer.alive(), "; ".join(tracer.err))
            mt.wait_until(lambda: any("attached to" in t for t in tracer.err) or not tracer.alive(), "all probes", 60)
            proc.tell("watch")
            proc.line("watched", 60)
            mt.finish(tracer, mtr)
        proc.tell("stop")
        proc.line("stopped", 60)
    rep = json.loads(mt.ok(mt.memtrace("report", mtr, "--json", "--top", "100000")).stdout)
    mt.check(not mt.lost(rep), f"lost: {rep['lost']}")
    return rep, json.loads(out.read_text()), mt.ok(mt.memtrace("report", mtr, "-v")).stdout


def percent(part, whole):
    """Rounded down: 100 is all of it."""
    return f"{100 * part // whole}" if part == whole else f"{10000 * part // whole / 100:.2f}"


def check_sums(saved):
    """What adds up in the report, adds up."""
    (process,) = saved["processes"]
    mt.check(sum(r["bytes"] for r in saved["list"]) == sum(b["size"] for b in saved["blocks"]) == process["bytes"], str(process))
    mt.check(sum(r["blocks"] for r in saved["list"]) == len(saved["blocks"]) == process["blocks"], str(process))
    mt.check(saved["total"] == len(saved["list"]) and process["bytes"] <= process["live"], str(process))
    mt.check([r["bytes"] for r in saved["list"]] == sorted((r["bytes"] for r in saved["list"]), reverse=True), "order")


def compare(job, rep, passes):
    """Storage by storage, at the largest of the job's passes; both ways, and whose."""
    saved = rep["saved"]
    check_sums(saved)
    mt.check(all(m["all"]["saved"] <= saved["processes"][0]["bytes"] for m in rep["modules"]["list"]), "modules")
    truth = max(passes, key=lambda p: (sum(size for size, _ in p.values()), passes.index(p)))
    want = {int(ptr): (size, nodes) for ptr, (size, nodes) in truth.items()}
    got = {int(b["addr"], 16): b for b in saved["blocks"]}
    both = {ptr for ptr in want if ptr in got and got[ptr]["size"] == want[ptr][0]}
    of_both, of_want, of_got = sum(want[p][0] for p in both), sum(s for s, _ in want.values()), sum(b["size"] for b in got.values())
    of_nodes = sum(want[p][0] for p in both if want[p][1])
    owner = sum(want[p][0] for p in both if got[p]["node"] in want[p][1]) / of_nodes if of_nodes else 1
    missing = collections.Counter()
    for p in want.keys() - both:
        missing[tuple(want[p][1])] += want[p][0]
    more = collections.Counter()
    for p in got.keys() - both:
        more[got[p]["module"], got[p]["op"], got[p]["region"], got[p]["node"]] += got[p]["size"]
    others = collections.Counter()
    for p in both:
        if want[p][1] and got[p]["node"] not in want[p][1]:
            others[got[p]["node"], tuple(want[p][1])] += want[p][0]
    mt.note(f"{job}: the job says {of_want} bytes in {len(want)} storages; {of_both / of_want:.2%} of them seen, {of_both / of_got:.2%} of "
            f"{of_got} are right, {owner:.2%} of {of_nodes} of a node that has it; passes of a step: "
            f"{[sum(s for s, _ in p.values()) for p in passes]}")
    text = f"missing {dict(missing)}, too much {dict(more)}, of other nodes {dict(others)}"
    mt.check(of_both >= SHARE_MIN * of_want and of_both >= SHARE_MIN * of_got, text)
    row = f"| {JOBS[job]} | {of_want:,} | {percent(of_both, of_want)} | {percent(of_both, of_got)} |"
    mt.note(row)
    return owner, text, row


def check_job(job, *options):
    with mt.scratch() as tmp:
        rep, passes, text = record(job, tmp, *options)
    owner, wrong, row = compare(job, rep, passes)
    mt.check(owner >= SHARE_MIN, wrong)
    mt.check("Kept for backward" in text, text)
    tables.keep("saved", job, row)
    return rep, text


def test_transformer():
    rep, text = check_job("transformer")
    mt.check(any(r["module"] and "layers.layers.*." in r["module"] and r["modules"] == 4 for r in rep["saved"]["list"]), text)


def test_conv():
    check_job("conv")


def test_lstm():
    check_job("lstm")


def test_accumulate():
    check_job("accumulate")


def test_checkpoint():
    check_job("checkpoint")


def test_gan():
    check_job("gan")


def test_mixed():
    check_job("mixed")


def test_penalty():
    check_job("penalty")


def test_compiled():
    check_job("compiled", "--graph")


def test_distil():
    with inductor.cache():
        check_job("distil", "--graph")


if __name__ == "__main__":  # make docs-saved
    tables.write("saved", "| job | the job says, bytes | of that seen, % | of what memtrace says is right, % |\n|---|---|---|---|\n"
                 + "".join(row + "\n" for row in tables.kept("saved", JOBS)))
