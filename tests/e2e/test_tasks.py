# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What people want to know of a job, each with the one command that answers it, against what the job itself knows (jobs/tasks.py).

docs/tasks.md is made from the list and from what the commands print: python3 tests/e2e/test_tasks.py writes it.
"""
import collections
import functools
import json
import pathlib
import re
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mt  # noqa: E402

LANDING = {"twenty_tasks"}

TIMEOUT_S = {"twenty_tasks": 400}
DOC = mt.ROOT / "docs/tasks.md"
LINES = 8  # of a paragraph of an answer, in the document
BEGINS = 12  # lines of what is printed: the answer begins in them
HEAD = """# {} questions, each with one command

Answers are what the commands printed for real jobs: the paragraphs that answer, to {} lines. `job.mtr` and `new.mtr` are recordings of a job before and after a change,
the second with `--stacks`; `ranks.mtr` is one of several ranks. `tests/e2e/run tasks` asks the same questions of such jobs and compares each answer with what the jobs themselves
know; `python3 tests/e2e/test_tasks.py` writes this page. With `--json` all but the exports answer as data ([formats](formats.md)).
"""


class Asked:
    """What a command said: as text, and as JSON; and what the jobs knew."""

    def __init__(self, argv, folder, truth):
        self.argv, self.truth, self.folder = argv, truth, folder
        self.done = mt.memtrace(*argv, timeout=120)
        self.text = self.done.stdout

    @functools.cached_property
    def json(self):
        done = mt.memtrace(*self.argv, "--json", timeout=120)
        mt.check(done.returncode == self.done.returncode, f"{done}")
        return json.loads(done.stdout)

    @property
    def a(self):
        return self.truth["job"]

    @property
    def b(self):
        return self.truth["new"]

    def first(self, by):
        return self.json["by"][by][0]


def equal(got, want, what):
    mt.check(got == want, f"{what}: {got}, the job knows {want}")


def within(got, low, high, what):
    mt.check(low <= got <= high, f"{what}: {got}, not from {low} to {high}")


def peak_of(job, asked):
    return mt.report(asked.folder / f"{job}.mtr")["devices"]["cpu"]["peak"]


def how_high(t):
    peak = t.json["devices"]["cpu"]["peak"]
    kept = t.a["parameter"] + t.a["optimizer_state"] + t.a["outputs"]["act"]
    within(peak, kept, kept + 8 * t.a["outputs"]["act"], "the peak")
    mt.check(t.text.startswith("Peak "), t.text[:200])


def holds_most(t):
    equal(t.first("module")["name"], "Net.act", "the module")
    within(t.first("module")["bytes"], t.a["outputs"]["act"], 3 * t.a["outputs"]["act"], "its bytes")
    big = next(r for r in t.json["by"]["module"] if r["name"] == "Net.big")
    own = sum(t.a["modules"]["big"].values())
    within(big["bytes"], own, own + t.a["modules"]["big"]["parameter"] + t.a["outputs"]["big"], "parameters and state of big")
    equal(t.json["moment"]["step"], t.truth["N"], "the step")


def of_category(name):
    def check(t):
        equal(t.json["bytes"], t.a[name], name)
        equal(t.json["filter"]["category"], name.upper(), "the filter")
        sums = {f"Net.{k}": v[name] for k, v in t.a["modules"].items() if v[name]}
        equal({r["name"]: r["bytes"] for r in t.json["by"]["module"] if r["bytes"]}, sums, f"{name} by module")
    return check


def layers_activations(t):
    equal(t.first("module")["name"], "Net.act", "the module")
    within(t.first("module")["bytes"], t.a["outputs"]["act"], 2 * t.a["outputs"]["act"], "its activations")


def which_line(t):
    rows = [r for r in t.json["by"]["stack"] if r["bytes"] and r["name"]]
    lines = collections.Counter()
    for r in rows:
        lines[re.fullmatch(r".*/tasks\.py:\d+ in (.*)", r["name"])[1]] += r["bytes"]
    equal(set(lines), {"Net.forward", "main.<locals>.step"}, "who made what was held")
    within(lines["Net.forward"], t.b["outputs"]["act"], 2 * t.b["outputs"]["act"], "what forward made")


def largest_tensor(t):
    row = t.json["names"]["list"][0]
    equal((row["name"], row["bytes"]), (t.a["largest"], t.truth["big_weight"]), "the largest named tensor")
    mt.check("big.weight" in t.text, t.text)


def forward_of_operator(t):
    linears = ("small", "big", "out")
    equal((t.json["allocs"], t.json["alloc_bytes"]), (len(linears), sum(t.a["outputs"][k] for k in linears)), "outputs of Linear")


def most_allocated(t):
    rows = t.json["by"]["op"]
    mt.check(rows[0]["alloc_bytes"] == max(r["alloc_bytes"] for r in rows) >= t.a["outputs"]["act"], f"{rows[0]}")


def at_a_time(t):
    within(t.json["bytes"], t.a["parameter"] + t.a["optimizer_state"], peak_of("job", t), "what lived")
    equal(t.json["moment"]["after_ns"], t.truth["time_ns"], "the time")


def rose(t):
    row = next(r for r in t.json["rows"] if r["name"] == "cpu")
    more = t.b["parameter"] + t.b["optimizer_state"] - t.a["parameter"] - t.a["optimizer_state"]
    equal(row["change"]["at_peak"], peak_of("new", t) - peak_of("job", t), "the change of the peak")
    mt.check(row["change"]["at_peak"] >= more > 0, f"{row}: the model alone is {more} larger")


def which_layer(t):
    rows = [r["name"] for r in t.json["rows"] if r["name"] not in ("", "Net")]
    mt.check(rows[0] in ("Net.act", "Net.big") and "Net.small" not in rows[:2], f"{rows}")


def which_category(t):
    rows = {r["name"]: r["change"] for r in t.json["rows"]}
    equal(rows["cpu OPTIMIZER_STATE"]["live"], t.b["optimizer_state"] - t.a["optimizer_state"], "state")


def exits(code, *words):
    def check(t):
        equal(t.done.returncode, code, "the exit code")
        for word in words:
            mt.check(word in t.text + t.done.stderr, f"{word}: {t.text} {t.done.stderr}")
    return check


def leaks(t):
    row = t.json["leaks"][0]
    equal(row["op"], "aten::empty", "the operator that torch.zeros allocates in")
    within(row["bytes_slope"], 0.99 * t.b["leak"], 1.01 * t.b["leak"], "bytes a step")


def no_leak(t):
    mt.check("Nothing grows" in t.text and not t.json["leaks"], t.text)


def odd_rank(t):
    rows = {r["rank"]: r["peak"] for r in t.json["ranks"]["list"]}
    equal(max(rows, key=rows.get), 2, "the rank with the highest peak")
    first = next(v for v in t.json["verdict"] if v["kind"] == "rank")
    mt.check(first["command"].endswith(" --rank 2 --by module"), f"a wider layer: {first}")
    mt.check(min(rows[2] - rows[0], rows[2] - rows[1]) >= t.truth["ranks"][2]["parameter"] - t.truth["ranks"][0]["parameter"], f"{rows}")


def one_rank(t):
    equal(t.json["bytes"], t.truth["ranks"][2]["optimizer_state"], "optimizer state of rank 2")


def processes(t):
    equal(sorted(p["pid"] for p in t.json["processes"]), sorted(r["pid"] for r in t.truth["ranks"]), "the processes")


def half_the_batch(t):
    equal(t.json["recorded_peak"], peak_of("job", t), "the recorded peak")
    kept = t.a["parameter"] + t.a["optimizer_state"]
    within(t.json["estimated_peak"], kept, kept + 0.75 * (t.json["recorded_peak"] - kept), "with half the batch")


def without_adam(t):
    equal(t.json["optimizer_state"], t.a["optimizer_state"], "the state")
    within(t.json["recorded_peak"] - t.json["estimated_peak"], 0.9 * t.a["optimizer_state"], 1.5 * t.a["optimizer_state"], "what it saves")


def peaks_step(t):
    trace = json.loads((t.folder / "peak.json").read_text())["device_traces"][0]
    live = high = 0
    for e in trace:
        live += e["size"] if e["action"] == "alloc" else -e["size"] if e["action"] == "free_completed" else 0
        high = max(high, live)
    equal(high, peak_of("job", t), "the highest sum of the trace")
    mt.check(trace[-1]["time_us"] - trace[0]["time_us"] < mt.report(t.folder / "job.mtr")["duration_ns"] / 2000, "one step")


# (question, command, what its answer must be, paragraphs that the document shows). {N}: a step, {T}: a time.
TASKS = (
    ("How high was the peak, and what was it made of?", "report job.mtr", how_high),
    ("Which module holds most at one step?", "report job.mtr --at 'step {N}' --by module", holds_most, "By module"),
    ("How much do the parameters take, by module?", "report job.mtr --at peak --category parameter", of_category("parameter"), "By module"),
    ("How much is the optimizer's?", "report job.mtr --at peak --category optimizer_state", of_category("optimizer_state"), "By category"),
    ("Which layer's activations are alive at the peak?", "report job.mtr --at peak --category activation --by module", layers_activations, "By module"),
    ("Which line of Python holds most at the peak?", "report new.mtr --at peak --by stack", which_line, "By line"),
    ("Which is the largest tensor, by name?", "report job.mtr --by name --top 1", largest_tensor, None, "Named tensors"),
    ("What does one operator allocate in a step?", "report job.mtr --at 'step {N}' --op addmm", forward_of_operator, "By category"),
    ("Which operator allocates most in a step?", "report job.mtr --at 'step {N}' --by op --sort alloc_bytes", most_allocated, "By operator"),
    ("What was alive at one moment?", "report job.mtr --at {T}s", at_a_time, "By category"),
    ("Did the last commit raise the peak?", "diff job.mtr new.mtr --by device", rose, r" .*\n  device"),
    ("Which layer grew?", "diff job.mtr new.mtr --by module", which_layer, r" .*\n  module"),
    ("Which category grew?", "diff job.mtr new.mtr --by category", which_category, r" .*\n  category"),
    ("May this be merged? (exits with 5 if not)", "diff job.mtr new.mtr --fail-if peak+5%", exits(5, "the peak grew")),
    ("Does it stay within a limit? (exits with 5 if not)", "check job.mtr --max-peak 1M", exits(5, "above the limit")),
    ("What leaks?", "report new.mtr --leaks", leaks),
    ("Does this one leak?", "report job.mtr --leaks", no_leak),
    ("Which rank is the odd one?", "report ranks.mtr --by rank", odd_rank, None, "Ranks"),
    ("How much is rank 2's optimizer state?", "report ranks.mtr --rank 2 --category optimizer_state", one_rank, "By category"),
    ("Which processes are in it?", "report ranks.mtr --by process", processes, None, "Processes"),
    ("What would half the batch need?", "estimate job.mtr --batches 1024 --batch 512", half_the_batch),
    ("What would SGD save?", "estimate job.mtr --optimizer sgd", without_adam),
    ("The peak's step for torch's viewer, no more", "export job.mtr --to torch-snapshot --at peak -o peak.json", peaks_step),
)


def asked_in_document():
    """(question, command) as docs/tasks.md has them, each with an answer."""
    return re.findall(r"^## (.*)\n\n```\n\$ memtrace (.*)\n(?!```)[^`]+```$", DOC.read_text(), re.M)


def answer(asked, parts):
    """Of what was printed the first paragraph and those that begin as the parts say; without the first if parts begins with None."""
    paragraphs = asked.text.strip("\n").split("\n\n")
    shown = [] if parts[:1] == [None] else paragraphs[:1]
    for part in filter(None, parts):
        found = [p for p in paragraphs if re.match(part, p)]
        mt.check(found, f"{asked.argv}: no paragraph begins with {part!r}:\n{asked.text}")
        before = asked.text[:asked.text.index(found[0])].count("\n")
        mt.check(before < BEGINS, f"{asked.argv}: {before} lines stand before the answer:\n{asked.text[:2000]}")
        shown.append(found[0])
    cut = [[line.rstrip() for line in p.splitlines()] for p in shown if p]
    said = "\n\n".join("\n".join(lines[:LINES] + ["  …"] * (len(lines) > LINES)) for lines in cut)
    heard = asked.done.stderr.strip() if not said or asked.done.returncode else ""
    return "\n".join(filter(None, (said, heard))).replace(f"{asked.folder}/", "").replace(f"{mt.ROOT}/", "")


def document(answers):
    parts = [f"\n## {q}\n\n```\n$ memtrace {c}\n{a}\n```\n" for (q, _, _, *_), (c, a) in zip(TASKS, answers)]
    return HEAD.format(len(TASKS), LINES) + "".join(parts)


def record(path, jobs, *options):
    """What the jobs knew; recorded until names were read and some dozens of steps are in it."""
    pids = [a for job in jobs for a in ("-p", str(job.pid))]
    with mt.start("record", *pids, "-o", str(path), "-vv", *options) as tracer:
        for job in jobs:
            mt.wait_attached(tracer, job.pid, mt.OP, 90)
        mt.wait_until(lambda: all(any(f"process {job.pid}: " in t and "names of" in t for t in tracer.err) for job in jobs) or not tracer.alive(),
                      "a look at the names of each", 90)
        mt.check(tracer.alive(), "; ".join(tracer.err[-5:]))
        for job in jobs:
            job.tell("count 50")
        for job in jobs:
            job.line("counted", 120)
        mt.finish(tracer, path)
    told = []
    for job in jobs:
        job.tell("stop")
        told.append(json.loads(job.line("truth ", 60).split(" ", 1)[1]))
    return told


def test_twenty_tasks():
    equal([q for q, _ in asked_in_document()], [q for q, *_ in TASKS], "questions in docs/tasks.md (python3 tests/e2e/test_tasks.py writes it)")
    for (_, told), (_, command, *_) in zip(asked_in_document(), TASKS):
        mt.check(re.fullmatch(re.escape(command).replace(r"\{N\}", r"\d+").replace(r"\{T\}", r"[\d.]+"), told), f"docs/tasks.md: {told}, now {command}")
    answers = ask_all()
    mt.note(f"{len(answers)} questions answered")


def ask_all():
    """(command, what it said) of each task, once that is what the jobs know."""
    answers = []
    with mt.scratch() as tmp:
        truth = {}
        with mt.job("tasks") as a:
            truth["job"], = record(tmp / "job.mtr", [a])
        with mt.job("tasks", "--wide", "2048", "--leak", "65536") as b:
            truth["new"], = record(tmp / "new.mtr", [b], "--stacks=python")
        ranks = [mt.job("tasks", "--batch", "64", *(("--wide", "2048") if i == 2 else ()), wrapper=("env", f"RANK={i}", "WORLD_SIZE=3"))
                 for i in range(3)]
        try:
            truth["ranks"] = record(tmp / "ranks.mtr", ranks)
        finally:
            for job in ranks:
                job.close()
        steps = [int(x) for x in re.findall(r"\d+", mt.memtrace("report", tmp / "job.mtr", "--at", "step 999999999").stderr.split("steps")[-1])]
        truth["N"] = steps[1] - 5
        done = mt.ok(mt.memtrace("report", tmp / "job.mtr", "--at", f"step {truth['N']}", "--json"))
        truth["time_ns"] = json.loads(done.stdout)["moment"]["after_ns"]
        truth["big_weight"] = 256 * 1024 * 4
        for question, command, check, *parts in TASKS:
            words = shlex.split(command.format(N=truth["N"], T=f"{truth['time_ns'] / 1e9:.9f}"))
            argv = [str(tmp / w) if w.endswith((".mtr", ".json")) else w for w in words]
            asked = Asked(argv, tmp, truth)
            try:
                mt.check(asked.done.returncode in (0, 5), f"{asked.done}")
                check(asked)
            except (AssertionError, KeyError, IndexError, StopIteration) as e:
                raise AssertionError(f"{question} memtrace {command}: {e!r}\n{asked.text[:1500]}") from e
            answers.append((command.format(N=truth["N"], T=f"{truth['time_ns'] / 1e9:.9f}"), answer(asked, parts)))
    return answers


if __name__ == "__main__":
    DOC.write_text(document(ask_all()))
