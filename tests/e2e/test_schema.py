# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""docs/schema: what every command writes as JSON is as the schemas say, and has no field that they do not name."""
import json
import subprocess

import grown
import mt

TIMEOUT_S = {"every_command": 400}  # a checker written in Python, and some forty documents

WITHIN = {"mlp": "0", "transformer": "block"}  # a module that allocates itself


def whole_pid(path):
    return json.loads(path.read_text())["target"]["pid"]


def against_schemas(documents):
    """Pairs of a schema's name and a path, all in one Python, as loading the checker takes longer than most documents."""
    return subprocess.run([mt.PYTHON, mt.ROOT / "tools/schema", *(x for name, path in documents for x in ("--check", name, path))],
                          capture_output=True, text=True, timeout=mt.guard(120), check=False)


def test_every_command():
    if subprocess.run([mt.PYTHON, "-c", "import jsonschema"], capture_output=True, check=False).returncode:
        raise mt.Skip("needs jsonschema: tools/make-venv parquet")
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
            grown.record(path, job, grown.after(lambda rep, inner=WITHIN[name]: grown.modules_at_peak(rep) and grown.made_by(rep, inner), 3),
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
            if name == "transformer":  # the other's lines are the same, and ten times as many
                check("op-trace", "export", path, "--to", "op-trace")
                check("op-trace", "export", path, "--to", "op-trace", "--from", "0s", "--category", "activation", "--module", "block", "--op", "*")
                check("jsonl", "export", path, "--to", "jsonl", "--ops")
                check("jsonl", "export", path, "--to", "jsonl", "--at", "peak", "--category", "activation", "--module", "block", "--op", "*")
        some = tmp / "some.mtr"
        grown.record(some, mt.shared_job("mlp"), lambda rep: "mean_step" in rep.get("sampling", {}), "a step of a window", "--steps", 1,
                     "--every", "0.5s")
        mt.rest_shared()
        mt.check("mean_step" in json.loads(check("report", "report", some, "--json").read_text())["sampling"], "no step was traced")
        for by in ("op", "category", "device", "module", "name", "region", "symbol", "stack"):
            check("diff", "diff", paths["mlp"], paths["transformer"], "--json", "--by", by)
        at_work = mt.shared_job("mlp").pid, mt.shared_job("transformer").pid
        check("ps", "ps", "--json")
        check("plan", "plan", "-p", at_work[0], "--json")
        mt.rest_shared()
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
