# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What code that torch.compile's inductor generated allocates has an operator: its kernel (docs/compiled.md)."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import browser
import mt
import test_categories
import test_page
import test_tui

SHARE_MIN = 0.97  # of the bytes that are allocated in the steps
STEPS = 50
LOOKS_MAX = 40  # a step of the eager block; 35 with modules alone
SLOW = {"launched", "without_modules", "replayed", "files_and_frames_that_lie"}
LANDING = {"attached", "eager"}
PREFIX = "inductor: "
COMPILES_S = 400  # a kernel of C++ takes 3 to 10 s, on a busy machine
TIMEOUT_S = dict.fromkeys(("attached", "without_modules", "replayed", "launched"), COMPILES_S)


_cache = []


@contextlib.contextmanager
def cache():
    """Inductor writes there, by itself and not by processes that it forks; the tests of this file compile once. MT_INDUCTOR_CACHE: a
    folder that stays, for whom the compiler has no time."""
    if not _cache:
        _cache.append(os.environ.get("MT_INDUCTOR_CACHE") or tempfile.mkdtemp(prefix="mt-inductor-"))
    told = {"TORCHINDUCTOR_CACHE_DIR": _cache[0], "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    was = {k: os.environ.get(k) for k in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for k, v in was.items():
            os.environ.pop(k, None) if v is None else os.environ.update({k: v})


def close_file():
    while _cache:
        path = _cache.pop()
        if path != os.environ.get("MT_INDUCTOR_CACHE"):
            shutil.rmtree(path, ignore_errors=True)


def go(proc, out, steps=STEPS):
    proc.popen.stdin.write(f"go {steps}\n")
    proc.popen.stdin.flush()
    proc.line(f"went {steps}", 60)
    return json.loads(out.read_text())


def wait_for_modules(tracer):
    """Two looks: from then on the kernel side knows how Python's frames are found."""
    mt.wait_until(lambda: sum("names of" in t for t in tracer.err) >= 2 or not tracer.alive(), "two looks at Python", 90)
    mt.check(tracer.alive(), "; ".join(tracer.err[-5:]))


def record(tmp, *options, job_options=()):
    """(recording, what the job said) of a job that was attached to when it had compiled."""
    out, mtr = tmp / "said.json", tmp / "job.mtr"
    with mt.job("generated", "--out", out, *job_options, ready=False) as job:
        job.line("ready ", COMPILES_S)
        with mt.start("record", "-p", str(job.pid), "-o", str(mtr), "-vv", *options) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP, 60)
            if "--no-modules" not in options:
                wait_for_modules(tracer)
            said = go(job, out)
            mt.finish(tracer, mtr)
        job.tell("stop")
    return mtr, said


def born(mtr, said):
    """Rows of what was allocated while the steps ran."""
    return [r for r in mt.export(mtr) if r["ev"] == "create" and said["begin"] <= r["t"] <= said["end"]]


def check_words(op, words):
    """The kernel and the operators are those that the job's own files have."""
    kernel, ops = re.fullmatch(r"inductor: ([\w.]+)(?: \((.*)\))?", op).groups()
    mt.check(kernel in words, f"{op}: no call in the generated files")
    for word in (ops or "").removesuffix("...").split(", ")[:-1]:
        mt.check(word in words, f"{op}: {word} is no operator of the generated files")


def check_born(rows, said):
    """Of all bytes that the steps allocated nearly all have an operator; what generated code did is told to the byte."""
    total = sum(r["size"] for r in rows)
    named = sum(r["size"] for r in rows if r.get("op"))
    generated = [r for r in rows if (r.get("op") or "").startswith(PREFIX)]
    got, want = sum(r["size"] for r in generated), said["steps"] * said["step_bytes"]
    mt.note(f"{100 * named / total:.2f} % of {total} bytes have an operator, {100 * got / want:.2f} % of the {want} of generated "
            f"code its kernel's, {len({r['op'] for r in generated})} of them in {said['lines']} lines")
    mt.check(named >= SHARE_MIN * total, f"{named} of {total} bytes have an operator")
    mt.check(SHARE_MIN * want <= got <= want, f"{got} of {want} bytes of generated code")
    for op in {r["op"] for r in generated}:
        check_words(op, said["words"])
    return got


def check_lines(rep, got):
    """Each line that allocated: its words are those of the job's own file."""
    lines, heirs = rep["generated"]["list"], 0
    mt.check(len(lines) == rep["generated"]["total"] > 10 and sum(r["bytes"] for r in lines) >= got, f"{len(lines)} lines, {got} bytes")
    mt.check({r["graph"] for r in lines} == {"forward", "backward"} and any(r["returned"] for r in lines), f"{lines}")
    for row in lines:
        name, number = row["where"].split(":")
        text = next(pathlib.Path(_cache[0]).rglob(name)).read_text().split("\n")
        buffer, kind, shape, later = re.fullmatch(r"(\w+) (\w+)\[([\d,]*)\](?:, then (.*))?", row["buffer"]).groups()
        asked = re.fullmatch(r" *(\w+) = empty_strided_\w+\(\(([\d, ]*)\), \([\d, ]*\), torch\.(\w+)\)", text[int(number) - 1])
        mt.check(asked and asked[1] == buffer and asked[3] == kind, f"{row}: {text[int(number) - 1]}")
        mt.check(asked[2].replace(" ", "").strip(",") == shape, f"{row}: {text[int(number) - 1]}")
        for heir in (later or "").removesuffix(", …").split(", ") if later else ():
            mt.check(any(re.search(rf"\b{heir} = .*# reuse", t) for t in text[int(number):]), f"{row}: {heir} takes nothing over")
        heirs += bool(later)
        mt.check(not row["nodes"] or any(f"Source Nodes: [{row['nodes']}]" in t for t in text[:int(number) + 40]), f"{row}: no such nodes")
    mt.check(sum(bool(r["nodes"]) for r in lines) > len(lines) / 3 and heirs, f"{lines}")


# Of the page's table of generated code: each row's texts, cut or not.
CELLS = "[...document.querySelectorAll('#generated tbody tr')].map((r) => [...r.children].map((c) => c.title || c.textContent))"


def check_page(mtr, lines):
    with browser.open(test_page.page_of(mtr)) as page:
        rows = page.js(CELLS)
        mt.check(len(rows) == min(10, len(lines)), f"{len(rows)} rows of {len(lines)}")
        for row, g in zip(rows, lines):
            graph = ", ".join([g["graph"], *(["returned"] if g["returned"] else [])])
            wanted = [f"{g['bytes']} bytes", str(g["count"]), g["buffer"], g["op"], g["nodes"] or "", graph, g["where"]]
            mt.check(row == wanted, f"{row}, wanted {wanted}")
        page.press("#generated input")
        page.call("Input.insertText", text=lines[0]["buffer"])
        page.settle()
        mt.check(page.js(CELLS)[0][2] == lines[0]["buffer"], "the filter does not find a buffer")
        test_page.clean(page)


def check_tui(mtr, lines):
    """The tab has the heaviest line, and Enter all of its words."""
    with test_tui.Tmux(f"{mt.MEMTRACE} report {mtr} --tui", 160, 50) as tui:
        tui.wait(r"1 Peak")
        tui.keys("1", "Left")
        tui.wait(r"allocated.*buffer.*operator.*made of.*graph.*line")
        tui.keys("Enter")
        first = lines[0]
        name, number = first["where"].split(":")
        tui.wait(rf"buffer +{re.escape(first['buffer'][:60])}")
        tui.wait(rf"line +{name[:4]}\S*:{number}\b")
        mt.check(first["op"].split()[1] in tui.screen() and first["graph"] in tui.screen(), tui.screen())


def check_operators(mtr, pid):
    """Where operators are slices or lines each allocation of generated code is one, without a length."""
    creates = [r["op"] for r in mt.export(mtr) if r["ev"] == "create" and r["pid"] == pid and (r.get("op") or "").startswith(PREFIX)]
    chrome = json.loads(mt.ok(mt.memtrace("export", mtr, "--to", "chrome", "--ops")).stdout)["traceEvents"]
    slices = [e for e in chrome if e.get("cat") == "operator" and e["name"].startswith(PREFIX) and e["pid"] == pid]
    lines = [json.loads(line) for line in mt.ok(mt.memtrace("export", mtr, "--to", "op-trace")).stdout.splitlines()]
    lines = [r for r in lines if r["ev"] == "op" and r["name"].startswith(PREFIX)]
    mt.check(len(creates) > 100, f"{len(creates)} allocations of generated code")
    mt.check([e["name"] for e in slices] == creates and not any(e["dur"] for e in slices), f"chrome: {len(slices)} of {len(creates)}")
    mt.check([r["name"] for r in lines] == creates and all(r["created"] for r in lines), f"op-trace: {len(lines)} of {len(creates)}")


def check_views(mtr, said, got):
    rep = mt.report(mtr)
    check_operators(mtr, rep["target"]["pid"])
    check_lines(rep, got)
    mt.check(not mt.lost(rep), f"lost: {rep['lost']}")
    ops = {o["name"]: o for o in rep["ops"]}
    mt.check(len(ops) == len(rep["ops"]), "two rows of one operator")
    generated = [o for name, o in ops.items() if name.startswith(PREFIX)]
    mt.check(sum(o["alloc_bytes"] for o in generated) >= got, f"{generated}")
    mt.check(any((b["op"] or "").startswith(PREFIX) for b in rep["peak_blocks"]), "no block of generated code at the peak")
    for options, is_said in (((), True), (("--classes", "extended"), False)):
        words = " ".join(mt.ok(mt.memtrace("report", mtr, *options)).stdout.split())
        mt.check(("of peak by use mean" in words and "By use: what it is there for" in words) == is_said, f"{options}: {words}")
        doc = json.loads(mt.ok(mt.memtrace("report", mtr, "--json", *options)).stdout)
        mt.check(doc["flow"]["classes"] == ("compat" if is_said else "extended"), f"{options}: {doc['flow']}")
    text = mt.ok(mt.memtrace("report", mtr, "--top", "100", "-v")).stdout
    mt.check(PREFIX in text.split("Operators, by their part of the peak")[1].split("Regions")[0], "not in the table of operators")
    mt.check("Lines of generated code" in text and all(f" {r['buffer'].split()[0]} " in text for r in rep["generated"]["list"][:5]), text)
    mods = [o for o in rep["modules"]["ops"] if (o["op"] or "").startswith(PREFIX)]
    mt.check(sum(o["alloc_bytes"] for o in mods) >= SHARE_MIN * said["steps"] * said["step_bytes"], "not by module")
    mt.expect_failure(mt.memtrace("estimate", mtr, "--checkpoint", "qkv"), 1, "no module like 'qkv'", "TORCHDYNAMO_DISABLE=1")
    for drawn in (check_page, check_tui):
        try:
            drawn(mtr, rep["generated"]["list"])
        except mt.Skip as e:
            mt.note(f"not drawn: {e}")


def test_attached():
    with mt.scratch() as tmp, cache():
        mtr, said = record(tmp)
        check_views(mtr, said, check_born(born(mtr, said), said))


def test_without_modules():
    """--no-modules: Python is not looked at, and then there is no such name."""
    with mt.scratch() as tmp, cache():
        mtr, said = record(tmp, "--no-modules")
        rows = born(mtr, said)
    bare = sum(r["size"] for r in rows if not r.get("op"))
    mt.check(not any((r.get("op") or "").startswith(PREFIX) for r in rows), "places without --no-modules")
    mt.check(bare >= SHARE_MIN * said["steps"] * said["step_bytes"], f"{bare} bytes without an operator")


def test_files_and_frames_that_lie():
    """Of generated files that are gone, edited, huge, links, of a form that nobody knows or not to be read nothing is believed, nor of
    lines that they do not have; a cache on another file system is one like any other. Each block is seen, and the job goes on."""
    with mt.scratch() as tmp, mt.job("lying", "--out", tmp / "said.json", ready=False) as job:
        job.line("ready ", 90)
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "-vv") as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP, 60)
            wait_for_modules(tracer)
            for cnt in (1, 2):  # what is met in the first is known in the second
                job.tell("go")
                mt.wait_until(lambda c=cnt: job.out.count("went") == c, "all cases")
                test_categories.python_is_known(tracer, job.pid)
            mt.finish(tracer, tmp / "a.mtr")
        job.tell("stop")
        mt.check(job.wait() == 0, "the job ended otherwise")
        sizes = json.loads((tmp / "said.json").read_text())
        rows = [r for r in mt.export(tmp / "a.mtr") if r["ev"] == "create"]
        found = {case: [r["op"] for r in rows if r["size"] == size] for case, size in sizes.items()}
        mt.note(f"{ {case: ops[-1:] for case, ops in found.items()} }")
        known = {"true": "inductor: cpp_fused_true", "elsewhere": "inductor: cpp_fused_elsewhere", "plain": None, "long": None}
        for case, ops in found.items():
            mt.check(len(ops) == 8 and ops[-1] == known.get(case, "inductor: (not known)"), f"{case}: {ops}")
        mt.check(not mt.lost(mt.report(tmp / "a.mtr")), "something was lost")


def test_replayed():
    """A report of the trace while it ended and one of its recording are the same bytes, names of generated code too."""
    with mt.scratch() as tmp, cache():
        out, mtr = tmp / "said.json", tmp / "job.mtr"
        with mt.job("generated", "--out", out, ready=False) as job:
            job.line("ready ", COMPILES_S)
            with mt.start("-p", str(job.pid), "--max-overhead", "none", "--json", "-o", str(mtr), "-vv") as tracer:
                mt.wait_attached(tracer, job.pid, mt.OP, 60)
                wait_for_modules(tracer)
                go(job, out)
                mt.finish(tracer, mtr)
            job.tell("stop")
        live, replay = json.loads("\n".join(tracer.out)), mt.report(mtr)
    ops = [o for o in live["ops"] if o["name"].startswith(PREFIX)]
    mt.check(len(ops) > 5 and ops == [o for o in replay["ops"] if o["name"].startswith(PREFIX)], f"{ops[:3]}")
    mt.check(live["ops"] == replay["ops"] and live["no_op"] == replay["no_op"], "operators differ")
    mt.check(live["peak_blocks"] == replay["peak_blocks"], "blocks at the peak differ")


def test_eager():
    """Where operators are open Python is looked at for modules alone: as often as before there were places (docs/compiled.md)."""
    with mt.scratch() as tmp, cache():
        mtr, said = record(tmp, job_options=("--eager",))
        looks = mt.report(mtr)["overhead"]["by_probe"]["module"]["hits"] / said["steps"]
        rows = born(mtr, said)
    mt.note(f"{looks:g} looks a step")
    mt.check(looks <= LOOKS_MAX, f"{looks} looks a step")
    mt.check(not any((r.get("op") or "").startswith(PREFIX) for r in rows), "an eager job has generated code")


def test_launched():
    """From the job's begin on, with all that compiling allocates."""
    with mt.scratch() as tmp, cache():
        out, mtr = tmp / "said.json", tmp / "job.mtr"
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        with mt.start("record", "-o", str(mtr), "-vv", "--", mt.PYTHON, mt.JOBS / "generated.py", "--out", out,
                      env=env) as tracer:
            tracer.line("ready ", COMPILES_S)
            said = go(tracer, out)
            tracer.tell("stop")
            mt.finish(tracer, mtr, signal_number=0, timeout=60)
        check_born(born(mtr, said), said)


if __name__ == "__main__":
    sys.exit("run by tests/e2e/run")
