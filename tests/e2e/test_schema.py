# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""docs/schema: what every command writes as JSON is as the schemas say, and has no field that they do not name."""
import json
import re
import subprocess
import time
import urllib.request

import grown
import mt
import test_estimate
import test_ranks
from test_serve import Served

LANDING = {"what_is_seldom_there"}

TIMEOUT_S = {"every_command": 400, "what_is_seldom_there": 300}  # a checker written in Python, and some eighty documents

# One graph, of a torch that it does not name.
GRAPH = {"format": "memtrace-graph", "version": 1, "devices": ["cuda:0", "cpu"], "storages": [[0, 4096], [1, 4096]], "graphs": [
    {"name": "joint", "nodes": [{"name": "primals_1", "op": "placeholder", "target": "primals_1", "inputs": [], "outputs": [0]},
                                {"name": "relu", "op": "call_function", "target": "aten.relu.default", "inputs": [0], "outputs": [1]}]}]}

WITHIN = {"mlp": "0", "transformer": "block"}  # a module that allocates itself


def whole_pid(path):
    return json.loads(path.read_text())["target"]["pid"]


def against_schemas(documents):
    """Pairs of a schema's name and a path, all in one Python, as loading the checker takes longer than most documents."""
    return subprocess.run([mt.PYTHON, mt.ROOT / "tools/schema", *(x for name, path in documents for x in ("--check", name, path))],
                          capture_output=True, text=True, timeout=mt.guard(120), check=False)


def need_checker():
    if subprocess.run([mt.PYTHON, "-c", "import jsonschema"], capture_output=True, check=False).returncode:
        raise mt.Skip("needs jsonschema: tools/make-venv parquet")


def holes(node, path):
    """Where a schema knows only that nothing was there: no value but null, a list without an item."""
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    if types == ["null"] or ("array" in types and "items" not in node):
        yield path
    inner = [*node.get("properties", {}).items(), *((k, node[k]) for k in ("items", "additionalProperties") if k in node)]
    for name, part in inner:
        yield from holes(part, f"{path}.{name}")


def test_no_holes():
    for path in sorted((mt.ROOT / "docs/schema").glob("*.schema.json")):
        found = list(holes(json.loads(path.read_text()), path.name.split(".")[0]))
        mt.check(not found, f"{found}: widen it by an output that has one")


UNITS = ("ns", "bytes", "percent", "count", "pid", "tid")  # a name that ends so says what it is


def without_words(node, path, is_top=False):
    """Paths of fields at the top, and of numbers (lists and maps of numbers too) whose name has no unit, with no description."""
    for name, part in node.get("properties", {}).items():
        inner = part
        while not {"integer", "number"} & {*([inner["type"]] if isinstance(inner["type"], str) else inner["type"])}:
            inner = inner.get("items") or inner.get("additionalProperties")
            if not inner:
                break
        is_unclear = inner and name.split("_")[-1] not in UNITS
        if (is_top or is_unclear) and not part.get("description", "").strip():
            yield f"{path}.{name}"
        yield from without_words(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from without_words(node[key], path)


def test_words():
    """Every field at the top, and every number whose name does not say its unit, has a description."""
    for path in sorted((mt.ROOT / "docs/schema").glob("*.schema.json")):
        schema = json.loads(path.read_text())
        found = list(without_words(schema, path.name.split(".")[0], True))
        mt.check(not found, f"{found}: describe it in tools/schema-words.json, then tools/schema NAME")


def families_of(text):
    """(name, type, unit, labels) of each family of an OpenMetrics text that has a sample."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    units = dict(re.findall(r"^# UNIT (\S+) (\S+)$", text, re.MULTILINE))
    for name, labels in re.findall(r"^(memtrace_\w+)(\{.*\})? \S+(?: \S+)?$", text, re.MULTILINE):
        family = re.sub("_(total|info)$", "", name)
        yield name, types[family], units.get(family), set(re.findall(r'[{,](\w+)="', labels))


def test_metrics():
    """docs/schema/metrics.json names all that `export --to openmetrics` and /metrics have; test_metrics.c makes it."""
    known = {f["name"]: f for f in json.loads((mt.ROOT / "docs/schema/metrics.json").read_text())["families"]}
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with mt.start("serve", "--listen", "127.0.0.1:0", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as tracer:
            _, _, served = Served(tracer).ask(headers={"Accept": "application/openmetrics-text; version=1.0.0"})
            tracer.signal(2)
            tracer.wait()
        exported = mt.ok(mt.memtrace("export", tmp / "a.mtr", "--to", "openmetrics")).stdout
    for text in (served, exported):
        found = list(families_of(text))
        mt.check(len({name for name, *_ in found}) > 20, f"{text[:500]}")
        for name, kind, unit, labels in found:
            f = known.get(name)
            mt.check(f and (f["type"], f["unit"]) == (kind, unit) and labels <= set(f["labels"]), f"{name}: {kind}, {unit}, {labels}; listed: {f}")


# Steps of Adam, and now and then more memory than there is.
REFUSED = """
import time, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.Adam(model.parameters())
print("ready", flush=True)
step = 0
while True:
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
    step += 1
    if step % 10 == 0:
        try:
            torch.empty(1 << 45)
        except RuntimeError:
            pass
    time.sleep(0.02)
"""


def first_of_events(job):
    with mt.start("serve", "--listen", "127.0.0.1:0", "-p", str(job.pid)) as tracer:
        with urllib.request.urlopen(f"{Served(tracer).url}/events", timeout=60) as events:
            line = next(line for line in events if line.startswith(b"data: "))
        tracer.signal(2)
        tracer.wait()
    return json.loads(line[len("data: "):])


def test_what_is_seldom_there():
    """Memory that was refused, a limit of one category, the host's layer alone, ranks, and the page's own document."""
    need_checker()
    with mt.scratch() as tmp:
        asked = []

        def check(name, *args, codes=(0,)):
            asked.append((name, tmp / f"{len(asked)}.out"))
            asked[-1][1].write_text(mt.ok(mt.memtrace(*args), codes).stdout)
            return json.loads(asked[-1][1].read_text())

        refused, host, ranks = tmp / "refused.mtr", tmp / "host.mtr", tmp / "ranks.mtr"
        with mt.Proc([mt.PYTHON, "-c", REFUSED]) as job:
            job.line("ready", 120)
            grown.record(refused, job, grown.after(lambda rep: rep["ooms"] and rep.get("modules") and grown.at_peak(rep, "ACTIVATION"), 3),
                         "a refusal")
            grown.record(host, job, lambda rep: len(rep.get("host", {}).get("series", {}).get("points", [])) > 1, "the host's layer",
                         "--probes", "host")
            events = first_of_events(job)
        blocks = [b for oom in check("report", "report", refused, "--json")["ooms"] for b in oom["blocks"]]
        mt.check(any(b["region"] for b in blocks) and not all(b["region"] for b in blocks), f"{blocks}")
        limit = check("check", "check", refused, "--max-peak", 1, "--category", "activation", "--json", codes=(5,))
        mt.check(limit["category"] == "ACTIVATION", f"{limit}")
        check("report", "report", host, "--json")
        test_ranks.record(ranks, 2, "ranks")
        mt.check(check("report", "report", ranks, "--json", "--by", "rank")["ranks"]["list"], "no ranks")
        done = against_schemas(asked)
        mt.check(done.returncode == 0, f"{done.stdout[:1500]} {done.stderr[-500:]}\nhint: tools/schema widens a schema")

        brief = tmp / "events.out"
        brief.write_text(json.dumps(events["report"]))
        said = against_schemas([("report", brief)]).stdout
        left_out = {line.split(": ", 3)[2:][0] + " " + line.split("'")[-2] for line in said.splitlines()}
        mt.check(left_out == {"$.devices.cpu series", "$.kernel series", "$.kernel by_kind"}, f"docs/formats.md says what /events leaves out: {said}")
        mt.check({"schema", "version", "report", "lanes", "categories"} < set(events), f"{set(events)}")


def window_of_a_rank(tmp):
    """What a rank's flight recorder wrote; its window begins with what lived then."""
    with mt.job("mlp", wrapper=("env", "RANK=0", "WORLD_SIZE=2")) as job, \
            mt.start("record", "-p", str(job.pid), "--window", "2s", "-o", str(tmp / "rank.mtr")) as tracer:
        mt.wait_attached(tracer, job.pid)
        before = mt.steps_of(job)
        mt.wait_until(lambda: mt.steps_of(job) > before, "steps", 60)
        time.sleep(4)
        mt.finish(tracer, tmp / "rank.mtr")
    return tmp / "rank.mtr"


def test_every_command():
    need_checker()
    asked = {}  # path of a document: its schema's name, and the command that wrote it
    with mt.scratch() as tmp:
        def check(name, *args, codes=(0,)):
            path = tmp / f"{len(asked)}.{name}.out"
            path.write_text(mt.ok(mt.memtrace(*args), codes).stdout)
            asked[path] = name, args
            return path

        paths = {}
        for name in ("mlp", "transformer"):
            job = mt.shared_job(name)
            path = paths[name] = tmp / f"{name}.mtr"
            grown.record(path, job, grown.after(lambda rep, inner=WITHIN[name]: grown.modules_at_peak(rep) and grown.made_by(rep, inner)
                                                and any(n["kind"] == "parameter" for n in rep.get("names", {}).get("list", [])), 3),
                         "what all commands tell of", "--stacks", "--stack-size", 4096)
            mt.rest_shared()  # files are read now
            whole = check("report", "report", path, "--json")
            check("report", "report", path, "--json", "--by", "stack", "--classes", "extended")
            check("flow", "report", path, "--json", "--flow")
            check("moment", "report", path, "--json", "--at", "peak", "--category", "activation", "--device", "cpu", "--top", "5")
            check("moment", "report", path, "--json", "--from", "0s", "--pid", str(whole_pid(whole)), "--by", "module", "--op", "*")
            check("check", "check", path, "--max-peak", "1", "--json", codes=(5,))
            check("estimate", "estimate", path, "--json")
            check("estimate", "estimate", path, "--json", "--optimizer", "sgd", "--dtype", "bf16", "--shard", "8")
            check("estimate", "estimate", path, "--json", "--batches", "8", "--batch", "40", "--budget", "100M")
            check("estimate", "estimate", path, "--json", "--checkpoint", "*")
            check("estimate", "estimate", path, "--json", "--checkpoint", "*", "--budget", "1K")
            for by in ("category", "device", "module", "name", "op", "process", "region", "stack"):
                check("moment", "report", path, "--json", "--at", "peak", "--by", by)
            if name == "transformer":  # the other's lines are the same, and ten times as many
                check("op-trace", "export", path, "--to", "op-trace")
                check("op-trace", "export", path, "--to", "op-trace", "--from", "0s", "--category", "activation", "--module", "block", "--op", "*")
                check("jsonl", "export", path, "--to", "jsonl", "--ops")
                check("jsonl", "export", path, "--to", "jsonl", "--at", "peak", "--category", "activation", "--module", "block", "--op", "*")
                for by in ("category", "device", "module", "name", "op", "process", "region", "symbol"):
                    check("report", "report", path, "--json", "--by", by)
                check("report", "report", path, "--json", "--leaks", "--top", "1")
        some = tmp / "some.mtr"
        grown.record(some, mt.shared_job("mlp"), lambda rep: "mean_step" in rep.get("sampling", {}), "a step of a window", "--steps", 1,
                     "--every", "0.5s")
        mt.rest_shared()
        mt.check("mean_step" in json.loads(check("report", "report", some, "--json").read_text())["sampling"], "no step was traced")
        for by in ("op", "category", "device", "module", "name", "region", "symbol", "stack"):
            check("diff", "diff", paths["mlp"], paths["transformer"], "--json", "--by", by)
        both = tmp / "both.mtr"
        mt.ok(mt.memtrace("merge", *paths.values(), "-o", both))
        check("report", "report", both, "--json")
        check("estimate", "estimate", *paths.values(), "--json", "--batches", "8,16", "--batch", "40")
        at_work = mt.shared_job("mlp").pid, mt.shared_job("transformer").pid
        check("ps", "ps", "--json")
        check("ps", "ps", "--json", "--all")
        check("plan", "plan", "-p", at_work[0], "--json")
        check("plan", "plan", "-p", at_work[0], "-p", at_work[1], "--json", "--probes", "framework,flow,ops,views,host")
        check("report", "-p", at_work[0], "--json", "-d", "2")
        mt.rest_shared()
        rank = window_of_a_rank(tmp)
        mt.check(json.loads(check("report", "report", rank, "--json", "--by", "rank").read_text())["devices"]["cpu"]["carried_blocks"], "no window")
        check("moment", "report", rank, "--json", "--at", "peak", "--by", "rank")
        check("diff", "diff", rank, rank, "--json", "--by", "rank")
        graphs = tmp / "graphs"
        graphs.mkdir()
        (graphs / "one.json").write_text(json.dumps(GRAPH))
        for graph in ("one", *test_estimate.graphs_of(graphs, 4, 7)):
            check("estimate-graph", "estimate", graphs / f"{graph}.json", "--json")
        check("estimate-graph", "estimate", graphs / "one.json", "--json", "--device", "cpu")
        seen = {name for name, _ in asked.values()}
        mt.check(seen == {p.name.split(".")[0] for p in (mt.ROOT / "docs/schema").glob("*.schema.json")}, f"checked: {seen}")
        done = against_schemas([(name, path) for path, (name, _) in asked.items()])
        if done.returncode:
            of = [args for path, (_, args) in asked.items() if str(path) in done.stdout]
            raise AssertionError(f"{of}: {done.stdout[:1500]} {done.stderr[-500:]}\nhint: tools/schema widens a schema")

        # The check itself: a field that is new, one that is missing, one of another type.
        document = json.loads(whole.read_text())
        wrongs = {"extra": {**document, "extra": 1}, "steps": {**document, "steps": "many"}}
        wrongs["lost"] = {k: v for k, v in document.items() if k != "lost"}
        wrong_at = {word: tmp / f"wrong.{i}.out" for i, word in enumerate(wrongs)}
        for word, wrong in wrongs.items():
            wrong_at[word].write_text(json.dumps(wrong))
        done = against_schemas([("report", path) for path in wrong_at.values()])
        for word, path in wrong_at.items():
            said = [line for line in done.stdout.splitlines() if f": {path}: " in line]
            mt.check(done.returncode == 1 and len(said) == 1 and word in said[0], f"{word} was not noticed: {done.stdout} {done.stderr}")
