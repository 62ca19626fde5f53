# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A report begins with what it concludes: real jobs with one thing to say each, and the step that is proposed does what it says.

Every rule with its threshold: tests/unit/test_verdict.c. docs/verdict.md is made of their first lines: python3 tests/e2e/test_verdict.py writes it.
"""
import json
import os
import re
import shlex
import signal
import subprocess

import grown
import mt
import planted_page

LANDING = {"growing_workers", "half_the_batch", "refused", "holes", "state_of_some_steps", "memory_of_no_tensor", "workers", "loading", "memory_in_no_tensor", "rank"}

KEYS = {"kind", "severity", "text", "bytes", "next", "command"}
# holes: two jobs from their first instruction on
TIMEOUT_S = {"holes": 400, "rank": 300, "activations": 300, "state_of_some_steps": 300, "workers": 300, "growing_workers": 300}
SEVERITIES = ["problem", "hint", "fact"]


def recorded(path, *args):
    """A job from its first instruction to its end."""
    return mt.memtrace("record", "-o", path, "--", mt.PYTHON, *args, timeout=250)


def launched(path, kind, is_there, what, codes=(0,), then=None):
    """A job of jobs/verdict.py from its first instruction on, until is_there(report); what memtrace said. then(pid): before that, when
    its steps are seen and its modules have names."""
    with grown.launched(path, mt.PYTHON, mt.JOBS / "verdict.py", kind, "--quiet", "--warmup", "0") as (tracer, pid):
        if then:
            grown.wait(tracer, path, lambda rep: rep["ops"] and rep["steps"] >= 30 and any(m["name"] for m in rep["modules"]["list"]),
                       "thirty steps, and modules with names")
            then(pid)
        grown.wait(tracer, path, is_there, what)
        os.kill(pid, signal.SIGTERM)
        mt.check(tracer.wait(60) in codes, f"record: {tracer.popen.returncode}: {tracer.err}")
        return "\n".join(tracer.err)


def first_kind(rep):
    return rep["verdict"][0]["kind"] if rep.get("verdict") else None


def verdict_of(path):
    rep = mt.report(path)
    lines = rep["verdict"]
    mt.check(lines and all(set(l) == KEYS for l in lines), f"{lines}")
    ranks = [SEVERITIES.index(l["severity"]) for l in lines]
    mt.check(ranks == sorted(ranks), f"not sorted: {lines}")
    text = mt.ok(mt.memtrace("report", path)).stdout
    mt.check(" ".join(text.split()).startswith(lines[0]["text"]), f"{lines[0]['text']}\n{text[:500]}")
    return rep, lines


def run_next(path, line):
    """The command of a proposal, on this recording."""
    command = shlex.split(line["command"])
    return mt.ok(mt.memtrace(*[path if word == "FILE" else word for word in command[1:]], "--json")).stdout


def check_gain(path, line, said):
    """What the verdict says that a change saves, in its first words, is what estimate says of it."""
    found = re.search(said + r" ([\d.]+) MiB less", line["next"])
    mt.check(found, line["next"])
    better = json.loads(run_next(path, line))
    saved = (better["recorded_peak"] - better["estimated_peak"]) / 2**20
    mt.check(0.5 * float(found[1]) <= saved <= 1.1 * float(found[1]), f"said {found[1]} MiB, estimate says {saved}")
    return saved


def test_leak():
    with mt.scratch() as d:
        with mt.job("planted", "graph", "--quiet", "--warmup", 0.3) as job:
            is_long = grown.after(lambda rep: first_kind(rep) == "leak", 200)
            grown.record(d / "a.mtr", job, lambda rep: is_long(rep) and "holder" in rep["leaks"][0], "what grows, for 200 steps, and who holds it")
        rep, lines = verdict_of(d / "a.mtr")
        first = lines[0]
        mt.check((first["kind"], first["severity"]) == ("leak", "problem"), f"{lines}")
        planted_page.first("leak", lines)
        mt.check(first["bytes"] == round(rep["leaks"][0]["bytes_slope"]), f"{first} {rep['leaks'][0]}")
        mt.check(rep["leaks"][0]["op"] in first["text"], first["text"])


def test_state():
    with mt.scratch() as d:
        launched(d / "a.mtr", "state", grown.after(lambda rep: grown.at_peak(rep, "OPTIMIZER_STATE"), 20), "twenty steps with their state")
        rep, lines = verdict_of(d / "a.mtr")
        cpu = rep["devices"]["cpu"]
        mt.check(lines[0]["kind"] == "state" and 0.6 * cpu["peak"] <= lines[0]["bytes"] <= cpu["peak"], f"{lines}")
        planted_page.first("state", lines)
        mt.check(not any(l["severity"] == "problem" for l in lines), f"{lines}")
        mt.note(f"{lines[0]['next']}: {check_gain(d / 'a.mtr', lines[0], '8-bit state: some'):.2f} MiB")
        settling = [s["number"] for s in rep["phases"]["steps"] if s["settling"]]
        mt.check(settling == [1], f"Adam's state is made in the first step: {settling} settle")
        mt.check("1 step is settling" in mt.ok(mt.memtrace("report", d / "a.mtr", "-v")).stdout, "-v does not say that a step settles")
        # weights, as many gradients, twice as much state, and twice as much that Adam makes as it steps
        for words in ("33 % temporary results of the optimizer", "33 % optimizer state", "17 % parameters"):
            mt.check(words in lines[0]["text"], lines[0]["text"])


def test_state_of_some_steps():
    """estimate refuses recordings of some steps: what the verdict says then is pasted into a shell, and answers."""
    with mt.scratch() as d, mt.job("verdict", "state", "--quiet", "--warmup", 0.3) as job:
        def is_of_some(rep):
            return first_kind(rep) == "state" and 0 < rep["sampling"]["steps_traced"] < rep["sampling"]["steps_seen"]
        grown.record(d / "a.mtr", job, is_of_some, "a verdict on some steps", "--max-overhead", 2)
        rep, lines = verdict_of(d / "a.mtr")
        lines = [line for line in lines if line["kind"] != "spike"]  # RSS between traced steps may have had one
        mt.check(lines[0]["kind"] == "state" and rep["sampling"]["steps_traced"] < rep["sampling"]["steps_seen"], f"{lines}")
        said = re.search(r"in (?:each|\d+) of (\d+) traced steps", lines[0]["text"])
        mt.check(not said or int(said[1]) == rep["sampling"]["steps_traced"], f"{lines[0]['text']}: {rep['sampling']['steps_traced']}")
        heads = [re.search(r"[\d.]+(?: k)? steps \([\d.]+/s\), \d+ traced", " ".join(mt.ok(mt.memtrace("report", d / "a.mtr", *form)).stdout.split()))
                 for form in ((), ("--md",))]
        mt.check(all(heads) and heads[0][0] == heads[1][0], f"steps in the head of the report and as Markdown: {heads}")
        command = lines[0]["command"]
        mt.check(f"-p {job.pid} " in command, command)
        done = subprocess.run(["sh", "-c", command], cwd=d, env={**os.environ, "PATH": f"{os.path.dirname(mt.MEMTRACE)}:{os.environ['PATH']}"},
                              capture_output=True, text=True, timeout=180, check=False)
        mt.check(done.returncode == 0 and re.search(r"estimated +[\d.]+ MiB \(-", done.stdout), f"{command}: {done.stdout}{done.stderr}")
        mt.note(command)


def test_half_the_batch():
    """Nothing to checkpoint: one module keeps nearly all. estimate with half the batch says what the verdict says, or less."""
    with mt.scratch() as d, mt.job("lstm", "--batch", 256, "--width", 128, "--quiet", "--warmup", 0.3) as job:
        grown.record(d / "a.mtr", job, grown.after(lambda rep: first_kind(rep) == "activations" and grown.modules_at_peak(rep), 5),
                     "what the verdict rests on")
        _, lines = verdict_of(d / "a.mtr")
        found = re.match(r"half the batch saves up to ([\d.]+) MiB", lines[0]["next"])
        mt.check(lines[0]["kind"] == "activations" and found, f"{lines}")
        half = json.loads(mt.ok(mt.memtrace("estimate", d / "a.mtr", "--batches", 256, "--batch", 128, "--json")).stdout)
        saved = (half["recorded_peak"] - half["estimated_peak"]) / 2**20
        mt.check(0.8 * float(found[1]) <= saved <= 1.01 * float(found[1]), f"said {found[1]} MiB, estimate says {saved}")
        mt.note(f"{lines[0]['next']}: {saved:.2f} MiB")


def test_refused():
    """Whose forward or backward was refused memory, though another module has allocated last."""
    for kind, phase in (("refused", "forward"), ("refused_in_backward", "backward")):
        with mt.scratch() as d:
            with grown.launched(d / "a.mtr", mt.PYTHON, mt.JOBS / "verdict.py", kind, "--quiet", "--warmup", "0") as (tracer, pid):
                grown.wait(tracer, d / "a.mtr", grown.knows_python, "modules with names")
                os.kill(pid, signal.SIGUSR2)
                mt.check(tracer.wait(60) == 1, f"{tracer.err}")
            rep, lines = verdict_of(d / "a.mtr")
            oom, = (o for o in rep["ooms"] if o["kind"] == "host")
            mt.check((oom["module"], oom["module_root"], oom["phase"], oom["op"]) == ("1", "Sequential", phase, "aten::empty"), f"{oom}")
            mt.check(lines[0]["kind"] == "out_of_memory" and f"cpu refused 1.00 PiB in aten::empty, in {phase} of Sequential.1;" in lines[0]["text"], f"{lines}")
            text = " ".join(mt.ok(mt.memtrace("report", d / "a.mtr", "-v")).stdout.split())
            mt.check(f"in aten::empty, in {phase} of Sequential.1" in text.split("Out of memory ")[-1], text[:2000])
            mt.note(lines[0]["text"])


def test_spike():
    with mt.scratch() as d:
        said = launched(d / "a.mtr", "spike", grown.after(lambda rep: first_kind(rep) == "spike", 20), "a spike, and twenty steps more",
                        then=lambda pid: os.kill(pid, signal.SIGUSR2))
        mt.check("nothing lost" in said, said)
        rep, lines = verdict_of(d / "a.mtr")
        mt.check(lines[0]["kind"] == "spike" and re.match(r"Step \d+ peaks at .*, alone of \d+ steps$", lines[0]["text"]), f"{lines}")
        planted_page.first("spike", lines)
        at = json.loads(run_next(d / "a.mtr", lines[0]))
        mt.check(at["by"]["module"][0]["bytes"] > lines[0]["bytes"] / 4, f"{at['by']}")
        mt.check(not any(l["severity"] == "problem" for l in lines), f"{lines}")
        mt.expect_failure(mt.memtrace("export", d / "a.mtr", "--to", "folded", "--device", "cuda:0", "-o", d / "out"), 1,
                          "no block on cuda:0", "it has blocks on cpu")
        mt.check(not (d / "out").exists(), "an empty export was left")
        md = mt.ok(mt.memtrace("report", d / "a.mtr", "--md")).stdout
        mt.check(md.startswith("- **Hint:** Step ") and "| category |" in md, md[:500])
        mt.expect_failure(mt.memtrace("report", d / "a.mtr", "--md", "--json"), 2, "--md")


def test_workers():
    """What the workers wrote to is theirs: read from the kernel's word on private pages."""
    with mt.scratch() as d, mt.job("verdict", "workers", "--quiet", "--warmup", 0.3) as job:
        with mt.start("record", "-q", "-p", str(job.pid), "-o", d / "a.mtr") as tracer:
            mt.wait_attached(tracer, job.pid)

            def told():  # … and that a block of theirs was seen: each step takes a machine that is slow some seconds
                done = mt.memtrace("report", d / "a.mtr", "--json", "-q")
                if done.returncode not in (0, 3):
                    return False
                rep = json.loads(done.stdout)
                private = [p.get("use", {}).get("private", 0) for p in rep["processes"] if p["comm"] == "pt_data_worker"]
                return sum(n > 100 << 20 for n in private) == 2 and "cpu" in rep["devices"]
            mt.wait_until(told, "the kernel's word on both workers", 120, 0.5)
            mt.finish(tracer, d / "a.mtr")
        rep, lines = verdict_of(d / "a.mtr")
        mt.check(lines[0]["kind"] == "workers" and lines[0]["text"].startswith("2 DataLoader workers"), f"{lines}")
        planted_page.first("workers", lines)
        # what was guessed of a worker's last batches is over with the recording, in the report and in what a moment held
        peak = json.loads(mt.ok(mt.memtrace("report", d / "a.mtr", "--at", "peak", "--by", "category", "--json", "-q")).stdout)
        held = {r["name"]: r["bytes"] for r in peak["by"]["category"] if r["bytes"]}
        counted = {name: c["at_peak"] for name, c in rep["devices"]["cpu"]["categories"].items() if c["at_peak"]}
        mt.check(held == counted, f"{held} {counted}")
        mt.check(200 << 20 < lines[0]["bytes"] < 2 << 30 and not any(l["severity"] == "problem" for l in lines), f"{lines}")


def test_growing_workers():
    """Counting references to objects of a list copies its pages, one after the other: by how much, and why, is said."""
    with mt.scratch() as d, mt.job("verdict", "growing", "--quiet", "--warmup", 0.3) as job:
        with mt.start("record", "-q", "-p", str(job.pid), "-o", d / "a.mtr") as tracer:
            mt.wait_attached(tracer, job.pid)

            looks = []  # as it grows: once all is copied it grows no more, and that may be soon

            def grows():
                looks.append(grown.so_far(d / "a.mtr").get("verdict") or [{"text": ""}])
                return len(looks) > 2 and all("it grows by" in lines[0]["text"] for lines in looks[-3:])
            mt.wait_until(grows, "the growth of both workers", 200, 1, lambda: [lines[0]["text"] for lines in looks[-3:]])
            mt.finish(tracer, d / "a.mtr")
        lines = looks[-1]
        mt.check(lines[0]["kind"] == "workers" and "by copy-on-write: " in lines[0]["text"], f"{lines}")
        planted_page.first("growing_workers", lines)
        mt.note(lines[0]["text"])


def test_holes():
    """What was freed stays with the C library, in pieces; the call that is proposed gives it back."""
    with mt.scratch() as d:
        for kind in ("holes", "trimmed"):
            is_seen = (lambda rep: any(l["kind"] == "fragmented" for l in rep.get("verdict", []))) if kind == "holes" else (lambda rep: rep["steps"])
            launched(d / f"{kind}.mtr", kind, grown.after(is_seen, 12), "twelve steps after it", (0, 3))
        rep, lines = verdict_of(d / "holes.mtr")
        mt.check(lines[0]["kind"] == "fragmented" and "malloc_trim" in lines[0]["next"], f"{lines}")
        planted_page.first("holes", lines)
        mt.check(400 << 20 < lines[0]["bytes"] < 600 << 20, f"{lines}")
        after, _ = verdict_of(d / "trimmed.mtr")
        mt.check(not any(l["kind"] == "fragmented" for l in after["verdict"]), f"{after['verdict']}")
        high = [r["processes"][0]["rss"]["peak"] for r in (rep, after)]
        mt.check(abs(high[0] - high[1]) < 100 << 20, f"both were as high once: {high}")


def test_memory_of_no_tensor():
    """RSS grows and tensors do not; what is proposed names the line that allocates."""
    with mt.scratch() as d, mt.job("verdict", "bytes", "--rest", 50, "--quiet", "--warmup", 0.3) as job:
        # just above what it needs to be told, it may fall below that again
        grown.record(d / "a.mtr", job, grown.after(lambda rep: first_kind(rep) == "rss", 20), "memory that grows")
        rep, lines = verdict_of(d / "a.mtr")
        took = sorted(s["marks"]["step"]["t"] - s["begin"] for s in rep["phases"]["steps"] if s["begin"] and "step" in s["marks"])
        a_second = 1e9 / took[len(took) // 2]
        mt.check(0.7 * a_second <= lines[0]["bytes"] / (1 << 20) <= 1.3 * a_second, f"{lines[0]}: {a_second:.1f} steps a second, a MiB each")
        planted_page.first("memory_of_no_tensor", lines)
        mt.check(not rep["leaks"] and not any(line["kind"] == "growth" for line in lines), f"{lines}")
        command = shlex.split(re.search(r"memtrace (record .*) -d 60$", lines[0]["command"])[1])
        with mt.start(*command, "-o", str(d / "b.mtr")) as tracer:
            grown.wait(tracer, d / "b.mtr", lambda rep: first_kind(rep) == "leak" and rep["leaks"][0].get("stack"), "the line")
            mt.finish(tracer, d / "b.mtr")
        _, lines = verdict_of(d / "b.mtr")
        line = 1 + next(i for i, text in enumerate((mt.JOBS / "verdict.py").read_text().splitlines()) if "kept.append(bytearray" in text)
        mt.check(f"verdict.py:{line} in " in lines[0]["text"], f"{lines}")


def test_memory_in_no_tensor():
    """Arrays of NumPy: how much the job holds beside its tensors; what is proposed names the line that made them."""
    with mt.scratch() as d:
        launched(d / "a.mtr", "arrays", grown.after(lambda rep: first_kind(rep) == "rss", 20), "arrays, and twenty steps more")
        rep, lines = verdict_of(d / "a.mtr")
        mt.check((lines[0]["kind"], lines[0]["severity"]) == ("rss", "hint") and "are in no tensor" in lines[0]["text"], f"{lines}")
        planted_page.first("memory_in_no_tensor", lines)
        mt.check(960 << 20 <= lines[0]["bytes"] < 1500 << 20, f"{lines[0]}")
        mt.check(sum(l["kind"] == "rss" for l in lines) == 1 and lines[1]["kind"] == "state", f"{lines}")
        command = shlex.split(lines[0]["command"])
        mt.check(command[0] == "memtrace" and command[-2:] == ["--", "COMMAND"], f"{command}")
        job = [mt.PYTHON, mt.JOBS / "verdict.py", "arrays", "--quiet", "--warmup", "0", "--steps", "20"]
        mt.ok(mt.memtrace(*command[1:-1], *job, timeout=250, cwd=d), (0, 3))
        rep, lines = verdict_of(d / "host.mtr")
        line = 1 + next(i for i, text in enumerate((mt.JOBS / "verdict.py").read_text().splitlines()) if "numpy.ones(" in text)
        mt.check(lines[0]["kind"] == "peak" and f"verdict.py:{line} in arrays" in lines[0]["text"], f"{lines}")
        mt.note(lines[0]["text"])


def says_no_growth(rep):
    return not rep["leaks"] and not any("rowing:" in l["text"] or "grows by" in l["text"] for l in rep["verdict"])


def test_loading():
    """A job that has made no step yet loads: it is not told as growing, in tensors or beside them."""
    with mt.scratch() as d, mt.start("record", "-o", d / "a.mtr", "--", mt.PYTHON, mt.JOBS / "verdict.py", "loading", "--quiet") as tracer:
        looks, nameless = [], []

        def steps():
            rep = grown.so_far(d / "a.mtr")
            if rep and not rep["steps"]:
                mt.check(says_no_growth(rep) and rep["leaks_watched"]["too_short"], f"{rep['verdict']}")
                looks.append(rep["verdict"])
                cpu = rep["devices"].get("cpu", {"categories": {}})["categories"]
                # Looks at Python find some of the modules, or none: how many is chance.
                if not rep["regions"] and cpu and not any(cpu[c].get("at_peak_plain") for c in ("PARAMETER", "FROZEN") if c in cpu):
                    nameless.append(rep["verdict"])
            return rep and rep["steps"] >= 20
        mt.wait_until(steps, "twenty steps", 120, 1)
        job, = {p["pid"] for p in mt.report(d / "a.mtr")["processes"]}
        tracer.signal(signal.SIGINT)
        code = tracer.wait(60)
        os.kill(job, signal.SIGTERM)
        mt.check(code in (0, 3) and len(looks) >= 6 and nameless, f"{looks} {tracer.err[-3:]}")
        planted_page.first("loading", nameless[-1])
        rep = mt.report(d / "a.mtr")
        mt.check(says_no_growth(rep), f"{rep['verdict']}")
        mt.note(f"{len(looks)} looks before the first step")


def test_rank():
    """One of four ranks has 4 MiB more than its like."""
    with mt.scratch() as d:
        mt.ok(mt.memtrace("record", "-q", "-o", d / "a.mtr", "--", mt.PYTHON, "-m", "torch.distributed.run", "--standalone",
                          "--nproc-per-node", 4, mt.JOBS / "ranks.py", "--heavy", 2, "--steps", 10, timeout=160), (0, 3))
        _, lines = verdict_of(d / "a.mtr")
        mt.check(lines[0]["kind"] == "rank" and lines[0]["text"].startswith("Rank 2 stands out") and "--rank 2" in lines[0]["next"], f"{lines}")
        planted_page.first("rank", lines)
        mt.check(3 << 20 < lines[0]["bytes"] < 5 << 20, f"{lines[0]}")
        rows = json.loads(run_next(d / "a.mtr", lines[0]))["by"]
        (by, rows), = rows.items()  # made in no module
        mt.check(by == "op" and rows[0]["name"] and rows[0]["bytes"] > lines[0]["bytes"], f"{lines[0]} {rows[:2]}")


def test_nothing():
    with mt.scratch() as d:
        done = mt.ok(recorded(d / "a.mtr", "-c", "pass"))
        mt.check("nothing to lose: no probe was set" in done.stderr and "nothing lost" not in done.stderr, done.stderr)
        _, lines = verdict_of(d / "a.mtr")
        mt.check(lines[0]["kind"] == "nothing" and "--probes host" in lines[0]["next"], f"{lines}")
        planted_page.first("nothing", lines)


def test_activations():
    """The demo: what is proposed is what estimate says, and the page and the report show one peak."""
    with mt.scratch() as d:
        with mt.job("transformer", "--quiet") as job:
            grown.record(d / "a.mtr", job, grown.after(lambda rep: first_kind(rep) == "activations" and grown.modules_at_peak(rep), 5),
                         "what the verdict rests on")
        rep, lines = verdict_of(d / "a.mtr")
        mt.check(lines[0]["kind"] == "activations" and not any(l["severity"] == "problem" for l in lines), f"{lines}")
        planted_page.first("activations", lines)
        modules = rep.get("modules", {}).get("list", [])
        mt.check(any(m["all"]["at_peak"] > rep["devices"]["cpu"]["peak"] / 4 for m in modules), "the peak is one of which no module is known")
        check_gain(d / "a.mtr", lines[0], r"checkpoint \S+: up to")
        kept = json.loads(mt.ok(mt.memtrace("estimate", d / "a.mtr", "--json")).stdout)
        cpu = rep["devices"]["cpu"]
        mt.check(kept["peak_after_ns"] == cpu["peak_ns"] - rep["start_ns"], f"{kept['peak_after_ns']}, {cpu['peak_ns'] - rep['start_ns']}")


if __name__ == "__main__":
    import test_gpu_report as gpu
    import test_leaks
    import test_recompiles

    planted_page.write([test_leaks.test_clean, test_leak, test_memory_of_no_tensor, test_memory_in_no_tensor, test_loading, test_activations, test_state,
                        test_spike, test_rank, test_workers, test_growing_workers, test_holes, test_recompiles.test_gives_up,
                        gpu.test_verdict_pieces, gpu.test_verdict_refused, gpu.test_verdict_reserved, test_nothing])


def test_next_of_a_live_view():
    """What a live view proposes can be pasted: it names the file that is being made, or begins with making one."""
    with mt.scratch() as d, mt.job("transformer", "--quiet", "--rest", 20) as job:
        for args, want in (((), f"memtrace record -p {job.pid} -d "), (("-o", d / "live.mtr"), f"memtrace estimate {d / 'live.mtr'} ")):
            text = " ".join(mt.ok(mt.memtrace("-p", job.pid, "-d", 3, "--max-overhead", "none", *args)).stdout.split())
            mt.check(want in text and " FILE" not in text.split("What this rests on")[0], text[:1500])
