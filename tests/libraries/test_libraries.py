# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Libraries that people train with, attached while they train, held to what the job says of its own memory (README.md)."""
import collections
import json
import os
import pathlib
import re
import time

import mt
import said
import tables
import test_categories

PYTHON = pathlib.Path(os.environ.get("MT_PYTHON", mt.BUILD / "venv-libraries" / "bin" / "python"))
JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "train"

FULL_STEPS = 8  # compared; one more is made
FIRST_LIVE = 4  # the step after the third full one
MIN = {"final": 0.999, "live": 0.99}
SAVED_MIN = 0.99
LOOKS = 3  # at names: the first one may come amid a step, and what no operator was given is told once two have found it
UNKNOWN_MAX = 0.01  # of byte·time with the extended classes
READY_S = 300  # libraries of a thousand modules, from a cold disk


def looks_with_names(tracer):
    """A search through a job's objects that is cut short, on a busy machine, may find some modules of torch's own and no name."""
    return [line for line in list(tracer.err) if re.search(r": [1-9]\d* names of ", line)]


def watch(job, path):
    """(CLOCK_MONOTONIC when all was attached, and after looks at its names, which come once a second, epoch minus that clock) of a
    recording of some steps of a job that trains, before those looks and after them."""
    offset = time.time_ns() - time.monotonic_ns()
    with mt.start("record", "-vv", "-p", str(job.pid), "-o", str(path)) as tracer:
        mt.wait_attached(tracer, job.pid, mt.OP, 60)
        attached = time.monotonic_ns()
        mt.wait_until(lambda: len(looks_with_names(tracer)) >= LOOKS or not job.alive(), "looks at names", 60)
        looked, first = time.monotonic_ns(), mt.steps_of(job)
        mt.note(f"looks at names: {'; '.join(line.split(': ', 3)[-1] for line in list(tracer.err) if ' names of ' in line)}")
        mt.wait_until(lambda: mt.steps_of(job) >= first + FULL_STEPS + 2 or not job.alive(), "steps", 100)
        job.tell("stop")
        job.line("done", 60)
        mt.finish(tracer, path)
    return attached, looked, offset


def full_steps(doc, attached, offset):
    """The moments of FULL_STEPS whole steps after the attach, counted from 1; at least one more was made."""
    mt.check(doc["moments"][0][0] < attached, "the job has forgotten moments")
    begun = [number for begin, _, number, kind, _ in doc["moments"] if kind == "begin" and begin > attached]
    return [((begin + end) // 2 + offset, number - begun[0] + 1, kind, told) for begin, end, number, kind, told in doc["moments"]
            if begun[0] <= number < min(begun[0] + FULL_STEPS, begun[-1]) and kind != "begin"]


def record(name, tmp, script=JOB):
    """(pid, moments after the attach, moments after the look at names, the recording)"""
    out, mtr = tmp / f"{name}.said", tmp / f"{name}.mtr"
    with mt.job(str(script), "--job", name, "--out", out, ready_s=READY_S) as job:
        attached, looked, offset = watch(job, mtr)
    doc = json.loads(out.read_text())
    return doc["pid"], full_steps(doc, attached, offset), full_steps(doc, looked, offset), mtr


def percent(share):
    """Rounded down: 100 is all of it."""
    return "100" if share == 1 else f"{int(share * 1e5) / 1e3:.3f}"


def judge(pid, moments, mtr, named=None, live=True):
    """(with torch.profiler's words, with the extended ones), each with the rows of its final labels, and what share of byte·time
    is unknown, and where. named: moments for the extended ones, which rest on names. live: labels without hindsight are compared, too."""
    def exported(labels, view):
        # a stack is nobody's: of what grows some are caught unasked, on a busy machine of jobs that only warm up, too
        return [r for r in mt.export(mtr, ("--labels", labels, "--classes", view)) if r["ev"] != "stack" and r["pid"] == pid]

    def seen(rows):
        blocks = [s for s in test_categories.seen_blocks(rows, pid, mt.DEVICE) if s.size]
        for s in blocks:
            s.size = mt.whole(s.size)  # one from before the attach has its tensor's
        return blocks

    def compare(at, view, classes):
        rows = exported("final", view)
        finals = seen(rows)
        res = said.compare(at, finals, seen(exported("live", view)) if live else [], FIRST_LIVE if live else float("inf"), classes)
        res.rows = rows
        res.unknown = test_categories.unknown_share(finals, at[0][0], at[-1][0])
        return res
    return compare(moments, "compat", said.COMPAT), compare(named or moments, "extended", said.EXTENDED)


def line(name, res, extended, lost):
    def pair(r, what):
        return " / ".join(percent(r.low[what, "final", way]) for way in ("recall", "precision")) if r.bytes[what] else "–"
    saved = percent(res.low["SAVED", "final", "recall"]) if res.bytes["SAVED"] else "–"
    return (f"| {name} | " + " | ".join(pair(res, what) for what in said.CLASSES)
            + f" | {percent(res.worst('live'))} | {pair(extended, 'BUFFER')} | {saved} | {res.moments} | {lost or 0} |")


def watched(name, script=JOB):
    """(with torch.profiler's words, with the extended ones, moments, the report) of a job in mt.PYTHON."""
    with mt.scratch() as tmp:
        pid, moments, named, mtr = record(name, tmp, script)
        return (*judge(pid, moments, mtr, named), moments, mt.report(mtr))


def hold(res, extended, moments, rep, trains=True, known=None):
    """known: {(class, "recall" | "precision"): what is held in place of MIN}."""
    for text in res.differences() + [f"extended: {t}" for t in extended.differences(4)]:
        mt.note(f"  {text}")
    mt.check({number for _, number, _, _ in moments} >= set(range(1, FULL_STEPS + 1)), "too few steps")
    # one probe is set after the other: frees before the last is are not seen
    mt.check(mt.lost(rep) == rep["lost"]["reuse"], f"lost: {rep['lost']}")
    mt.check(res.bytes["PARAMETER"] > 1e5, f"{res.bytes}")
    mt.check(all(bool(res.bytes[what]) == trains for what in ("GRADIENT", "OPTIMIZER_STATE", "SAVED")), f"{res.bytes}")
    for (what, labels, way), share in res.low.items():
        held = SAVED_MIN if what == "SAVED" else (known or {}).get((what, way), MIN[labels])
        mt.check(share >= held, f"{labels} labels, {what}, {way}: {percent(share)} %, wanted {percent(held)}")
    for (what, labels, way), share in extended.low.items():
        if what == "KEPT" or (labels == "final" and what in (*said.CLASSES, "BUFFER")):
            held = (known or {}).get((what, way), MIN[labels]) if what == "KEPT" else MIN[labels]
            mt.check(share >= held, f"extended, {labels} labels, {what}, {way}: {percent(share)} %, wanted {percent(held)}")


def compare(name, trains=True, known=None):
    """What is known is told of in README.md."""
    mt.check(PYTHON.exists(), "no libraries: tools/make-venv libraries")
    with mt.python(str(PYTHON)):
        res, extended, moments, rep = watched(name)
    row = line(name, res, extended, mt.lost(rep) - rep["lost"]["reuse"])
    unknown, where = extended.unknown
    mt.note(f"{row} unknown {unknown:.3%}")
    mt.check(res.bytes["PARAMETER"] > 1e6, f"{res.bytes}")
    hold(res, extended, moments, rep, trains, known)
    mt.check(unknown <= UNKNOWN_MAX, f"{unknown:.3%} of byte·time are unknown: {where}")
    tables.keep("libraries", name, row)


# --- the comparison itself, by hand ------------------------------------------------------------------------

def block(ptr, size, *words, end=test_categories.NEVER):
    """words: (since, category), the last one final"""
    row = {"id": ptr, "ptr": hex(ptr), "size": size, "op": "aten::empty", "region": None, "ev": "create", "t": 0, "version": 0,
           "cat": "unknown"}
    s = test_categories.Seen(row)
    for since, cat in words:
        s.add(dict(row, ev="label", t=since, cat=cat))
    s.end = end
    return s


def hand_made(blocks):
    word = {"PARAMETER": [[0x10, 600, "w"], [0x20, 400, "b"]], "GRADIENT": [[0x30, 100, "w"]], "BUFFER": [], "FROZEN": [],
            "OPTIMIZER_STATE": [[0x70, 96, "exp_avg of w"], [0x80, 4, "step of w"]], "SAVED": [[0x10, 600, "w"], [0x40, 50, "x"]]}
    return said.compare([(1000, 4, "step", word)], blocks, blocks, 4)


def test_compare_by_hand():
    right = [block(0x10, 600, (1, "PARAMETER")), block(0x20, 400, (1, "PARAMETER")), block(0x30, 100, (1, "GRADIENT")),
             block(0x40, 50, (1, "ACTIVATION")), block(0x70, 96, (1, "OPTIMIZER_STATE")), block(0x80, 4, (1, "OPTIMIZER_STATE"))]
    res = hand_made(right)
    mt.check(set(res.low.values()) == {1.0} and not res.odd, f"all right: {res.low} {res.odd}")

    def shares(changed):
        res = hand_made([s for s in right if s.ptr != changed.ptr] + [changed])
        return {" ".join(key): round(share, 6) for key, share in res.low.items() if share != 1}
    for what, changed, wanted in (
            ("told late", block(0x20, 400, (2000, "PARAMETER")), {"PARAMETER live recall": 0.6}),
            ("another label", block(0x20, 400, (1, "INPUT")), {"PARAMETER final recall": 0.6, "PARAMETER live recall": 0.6}),
            ("one too many", block(0x50, 250, (1, "PARAMETER")),
             {"PARAMETER final precision": 0.8, "PARAMETER live precision": 0.8}),
            ("freed too early", block(0x30, 100, (1, "GRADIENT"), end=900),
             {"GRADIENT final recall": 0, "GRADIENT live recall": 0}),
            ("another size", block(0x30, 200, (1, "GRADIENT")),
             {f"GRADIENT {way} {share}": 0 for way in ("final", "live") for share in ("recall", "precision")}),
            ("state that the job has not", block(0x60, 100, (1, "OPTIMIZER_STATE")),
             {"OPTIMIZER_STATE final precision": 0.5, "OPTIMIZER_STATE live precision": 0.5}),
            ("a key that is small", block(0x80, 4, (1, "unknown")),
             {f"{key} {way} recall": share for way in ("final", "live")
              for key, share in (("OPTIMIZER_STATE.step", 0), ("OPTIMIZER_STATE", 0.96))}),
            ("saved, of unknown use", block(0x40, 50, (1, "unknown")), {"SAVED final recall": 0})):
        got = shares(changed)
        mt.check(got == wanted, f"{what}: {got}, by hand {wanted}")


def test_kept_by_hand():
    """What is frozen and what is a buffer count together: which of both a tensor without a name is cannot be told."""
    word = {"PARAMETER": [[0x10, 600, "w"], [0x20, 400, "frozen"]], "GRADIENT": [], "OPTIMIZER_STATE": [],
            "FROZEN": [[0x20, 400, "frozen"]], "BUFFER": [[0x30, 100, "mean"], [0x40, 300, "average"]]}

    def shares(*labels):
        blocks = [block(ptr, size, (1, label)) for ptr, size, label in zip((0x10, 0x20, 0x30, 0x40), (600, 400, 100, 300), labels)]
        res = said.compare([(1000, 4, "step", word)], blocks, blocks, 4, said.EXTENDED)
        return {" ".join(key): round(share, 6) for key, share in res.low.items() if share != 1 and key[1] == "final"}
    for labels, wanted in (
            (("PARAMETER", "FROZEN", "BUFFER", "BUFFER"), {}),
            (("PARAMETER", "BUFFER", "BUFFER", "BUFFER"), {"BUFFER final precision": 0.5}),
            (("PARAMETER", "PARAMETER", "BUFFER", "BUFFER"), {"PARAMETER final precision": 0.6, "KEPT final recall": 0.5}),
            (("BUFFER", "FROZEN", "BUFFER", "INPUT"), {"PARAMETER final recall": 0, "BUFFER final recall": 0.25,
                                                       "BUFFER final precision": 0.142857, "KEPT final recall": 0.625,
                                                       "KEPT final precision": 0.454545})):
        got = shares(*labels)
        mt.check(got == wanted, f"{labels}: {got}, by hand {wanted}")


# --- the libraries -----------------------------------------------------------------------------------------

# Llama's rotary embedding has two buffers of one size, and no operator is given the second, a copy for later.
ONE_OF_TWO = {("KEPT", "recall"): 0.5}
NONE_IN_SERVICES = {("KEPT", "recall"): 0}


def test_causal_lm():
    compare("causal_lm", known=ONE_OF_TWO)


def test_encoder_decoder():
    compare("encoder_decoder")


def test_mixture_of_experts():
    compare("mixture_of_experts", known=ONE_OF_TWO)


def test_state_space():
    """-exp(A_log) is made of a parameter alone and used with activations: PARAMETER by torch.profiler's rule of data flow, which
    torch's words follow; ACTIVATION in the extended view."""
    compare("state_space", known={("PARAMETER", "precision"): 0.985})


def test_speech():
    compare("speech")


def test_trainer_accumulates():
    compare("trainer_accumulates", known=ONE_OF_TWO)


def test_trainer_with_workers():
    compare("trainer_with_workers", known=ONE_OF_TWO)


def test_accelerate_bf16():
    compare("accelerate_bf16", known=ONE_OF_TWO)


def test_peft_lora():
    compare("peft_lora")


def test_timm_vit():
    """With an average of its weights (EMA), which no operator is given but once a step."""
    compare("timm_vit")


def test_timm_resnet():
    compare("timm_resnet")


def test_lightning_module():
    compare("lightning_module")


def test_diffusers_unet():
    compare("diffusers_unet")


def test_graph_net():
    compare("graph_net")


def test_sentence_transformers_pairs():
    compare("sentence_transformers_pairs")


def test_generate():
    compare("generate", trains=False, known=NONE_IN_SERVICES)


def test_embedding():
    compare("embedding", trains=False, known=NONE_IN_SERVICES)


# --- torch.profiler on the same jobs -----------------------------------------------------------------------

def profilers_words(name, kind="GRADIENT"):
    """{the profiler's word: bytes} of what the job says is of this kind, after each of three steps."""
    with mt.scratch() as tmp, mt.python(str(PYTHON)):
        with mt.job(str(JOB), "--job", name, "--out", tmp / "said", "--profiled") as job:
            job.line("done", 90)
        doc = json.loads((tmp / "said").read_text())
    blocks = [test_categories.Truth(*b) for b in doc["blocks"]]
    words = collections.Counter()
    for begin, _, _, moment, told in doc["moments"]:
        t = begin + doc["offset"]
        for ptr, size, _ in told[kind] if moment == "step" else ():
            alive = [b for b in blocks if b.ptr == ptr and (b.born or 0) <= t < b.end]
            words[alive[-1].versions[-1][1] if alive else None] += size
    return words


def test_profiler_on_gradients():
    """Of a diffusion model it calls more than a quarter of the gradients something else (docs/categories.md)."""
    right = profilers_words("causal_lm")
    mt.check(right.keys() == {"GRADIENT"}, f"{right}")
    words = profilers_words("diffusers_unet")
    share = words["GRADIENT"] / sum(words.values())
    mt.note(f"diffusers_unet: the profiler's words for the job's gradients: {dict(words)}, {percent(share)} % right")
    mt.check(share < 0.8, f"the profiler is right for {percent(share)} %, docs/categories.md says that it is not")


def jobs():
    return [name[5:] for name, what in globals().items()
            if name.startswith("test_") and callable(what) and not name.endswith(("_by_hand", "_on_gradients"))]


def versions():
    pinned = (mt.ROOT / "tools" / "requirements-libraries.txt").read_text()
    names = ("transformers", "accelerate", "peft", "timm", "lightning", "diffusers", "torch-geometric", "sentence-transformers")
    return ", ".join(re.search(rf"^({name})==(\S+)", pinned, re.M).expand(r"\1 \2") for name in names)


TIMEOUT_S = dict.fromkeys(jobs(), 2 * READY_S)


if __name__ == "__main__":  # make docs-libraries
    tables.write("libraries", f"{versions()}.\n\n"
                 "| job | PARAMETER | GRADIENT | OPTIMIZER_STATE | live, lowest | BUFFER | saved | moments | lost |\n"
                 "|---|---|---|---|---|---|---|---|---|\n" + "".join(row + "\n" for row in tables.kept("libraries", jobs())))
