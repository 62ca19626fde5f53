# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Libraries that people train with, attached while they train, held to what the job says of its own memory (README.md)."""
import json
import pathlib
import time

import mt
import said
import test_categories

PYTHON = mt.BUILD / "venv-libraries" / "bin" / "python"
JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "train"
TABLE = mt.BUILD / "libraries.md"
DOCS = mt.ROOT / "docs" / "libraries.md"
MARK = "<!-- table: make check-libraries, then tests/libraries/test_libraries.py --write-docs -->\n"

FULL_STEPS = 8  # compared; one more is made
FIRST_LIVE = 4  # the step after the third full one
FINAL_MIN = 0.999
LIVE_MIN = 0.99

rows = {}  # job: its line of the table


def watch(job, path):
    """(CLOCK_MONOTONIC when all was attached, epoch minus that clock) of a recording of some steps of a job that trains."""
    offset = time.time_ns() - time.monotonic_ns()
    with mt.start("record", "-p", str(job.pid), "-o", str(path)) as tracer:
        mt.wait_attached(tracer, job.pid, mt.OP)
        attached, first = time.monotonic_ns(), mt.steps_of(job)
        mt.wait_until(lambda: mt.steps_of(job) >= first + FULL_STEPS + 2 or not job.alive(), "steps", 100)
        job.tell("stop")
        job.line("done", 60)
        mt.finish(tracer, path)
    return attached, offset


def full_steps(doc, attached, offset):
    """The moments of whole steps after the attach, but for the last step's; steps counted from 1."""
    begun = [number for begin, _, number, kind, _ in doc["moments"] if kind == "begin" and begin > attached]
    return [((begin + end) // 2 + offset, number - begun[0] + 1, kind, told) for begin, end, number, kind, told in doc["moments"]
            if begun[0] <= number < begun[-1] and kind != "begin"]


def record(name, tmp):
    """(pid, moments, the recording)"""
    out, mtr = tmp / f"{name}.said", tmp / f"{name}.mtr"
    with mt.python(str(PYTHON)), mt.job(str(JOB), "--job", name, "--out", out) as job:
        attached, offset = watch(job, mtr)
    doc = json.loads(out.read_text())
    return doc["pid"], full_steps(doc, attached, offset), mtr


def percent(share):
    """Rounded down: 100 is all of it."""
    return "100" if share == 1 else f"{int(share * 1e5) / 1e3:.3f}"


def judge(pid, moments, mtr):
    """(with torch.profiler's words, with the extended ones)"""
    def compare(view, classes):
        seen = test_categories.seen_blocks(mt.export(mtr, ("--labels", "live", "--classes", view)), pid, "cpu")
        return said.compare(moments, seen, FIRST_LIVE, classes)
    return compare("compat", said.CLASSES), compare("extended", ("BUFFER",))


def line(name, res, extended, lost):
    def pair(r, what):
        return " / ".join(percent(r.low[what, "final", way]) for way in ("recall", "precision")) if r.bytes[what] else "–"
    saved = percent(res.low["SAVED", "final", "recall"]) if res.bytes["SAVED"] else "–"
    return (f"| {name} | " + " | ".join(pair(res, what) for what in said.CLASSES)
            + f" | {percent(res.worst('live'))} | {pair(extended, 'BUFFER')} | {saved} | {res.moments} | {lost or 0} |")


def compare(name):
    mt.check(PYTHON.exists(), "no libraries: tools/make-venv libraries")
    with mt.scratch() as tmp:
        pid, moments, mtr = record(name, tmp)
        rep = mt.report(mtr)
        res, extended = judge(pid, moments, mtr)
    rows[name] = line(name, res, extended, mt.lost(rep) - rep["lost"]["reuse"])
    mt.note(rows[name])
    for text in res.differences() + extended.differences(4):
        mt.note(f"  {text}")
    mt.check({number for _, number, _, _ in moments} >= set(range(1, FULL_STEPS + 1)), "too few steps")
    # one probe is set after the other: frees before the last is are not seen
    mt.check(mt.lost(rep) == rep["lost"]["reuse"], f"lost: {rep['lost']}")
    mt.check(res.bytes["PARAMETER"] > 1e6, f"{res.bytes}")
    mt.check(res.worst("final") >= FINAL_MIN, f"final labels: {res.low}")
    mt.check(res.worst("live") >= LIVE_MIN, f"live labels: {res.low}")
    return res


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


def hand_made(seen):
    word = {"PARAMETER": [[0x10, 600, "w"], [0x20, 400, "b"]], "GRADIENT": [[0x30, 100, "w"]], "OPTIMIZER_STATE": [], "BUFFER": [],
            "SAVED": [[0x10, 600, "w"], [0x40, 50, "x"]]}
    return said.compare([(1000, 4, "step", word)], seen, 4)


def test_compare_by_hand():
    right = [block(0x10, 600, (1, "PARAMETER")), block(0x20, 400, (1, "PARAMETER")), block(0x30, 100, (1, "GRADIENT")),
             block(0x40, 50, (1, "ACTIVATION"))]
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
            ("state that the job has not", block(0x60, 8, (1, "OPTIMIZER_STATE")),
             {"OPTIMIZER_STATE final precision": 0, "OPTIMIZER_STATE live precision": 0}),
            ("saved, of unknown use", block(0x40, 50, (1, "unknown")), {"SAVED final recall": 0})):
        got = shares(changed)
        mt.check(got == wanted, f"{what}: {got}, by hand {wanted}")


# --- the libraries -----------------------------------------------------------------------------------------

def test_causal_lm():
    compare("causal_lm")


def test_encoder_decoder():
    compare("encoder_decoder")


def test_mixture_of_experts():
    compare("mixture_of_experts")


def test_trainer_accumulates():
    compare("trainer_accumulates")


def test_trainer_with_workers():
    compare("trainer_with_workers")


def test_accelerate_bf16():
    compare("accelerate_bf16")


def test_peft_lora():
    compare("peft_lora")


def test_timm_vit():
    compare("timm_vit")


def test_timm_resnet():
    compare("timm_resnet")


def test_lightning_module():
    compare("lightning_module")


def jobs():
    return [name[5:] for name in globals() if name.startswith("test_") and name != "test_compare_by_hand"]


def close_file():
    """The runner's last call: a table, if every job ran."""
    if rows.keys() == set(jobs()):
        TABLE.write_text("| job | PARAMETER | GRADIENT | OPTIMIZER_STATE | live, lowest | BUFFER | saved | moments | lost |\n"
                         "|---|---|---|---|---|---|---|---|---|\n" + "".join(rows[name] + "\n" for name in jobs()))


if __name__ == "__main__":
    DOCS.write_text(DOCS.read_text().split(MARK)[0] + MARK + "\n" + TABLE.read_text())
