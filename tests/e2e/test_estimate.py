# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace estimate against torch's own estimator, number for number (jobs/graphs.py runs the latter)."""
import collections
import contextlib
import json
import os
import re
import socket
import subprocess

import mt
import test_categories

RANDOM = 100
RNG_STATE = 5056  # that each checkpoint keeps
SLOW = {"what_ifs_of_batch_and_dtype_come_true", "what_ifs_of_the_optimizer_come_true", "what_ifs_of_sharding_come_true",
        "verdicts_on_sharding_come_true", "a_backward_in_another_thread"}
TIMEOUT_S = {"verdicts_on_sharding_come_true": 400}
LANDING = {"what_was_kept_is_told_with_its_module", "what_ifs_of_checkpoints_come_true"}


def graphs_of(where, *args):
    """Names of the graphs that jobs/graphs.py wrote."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    done = subprocess.run([mt.PYTHON, mt.JOBS / "graphs.py", where, *map(str, args)], capture_output=True, text=True, env=env,
                          check=False)
    mt.check(done.returncode == 0, done.stderr[-3000:])
    return done.stdout.split()


def estimate(path, *args):
    return json.loads(mt.ok(mt.memtrace("estimate", path, "--json", *args)).stdout)


def compare(where, name):
    """Profiles, schedules, interactions; the number of graphs and the largest peak."""
    want = json.loads((where / f"{name}.torch.json").read_text())
    got, everything = estimate(where / f"{name}.json"), estimate(where / f"{name}.bare.json", "--device", "all")
    mt.check([g["name"] for g in got["graphs"]] == list(want["graphs"]), f"{name}: {[g['name'] for g in got['graphs']]}")
    for graph, all_devices in zip(got["graphs"], everything["graphs"]):
        torch = want["graphs"][graph["name"]]
        what = f"{name}, {graph['name']}"
        mt.check(graph["profile"] == torch["profile"], f"{what}: {graph['profile']}, torch: {torch['profile']}")
        mt.check(graph["peak"] == max(torch["profile"]), f"{what}: peak {graph['peak']}")
        mt.check(graph["start"] == torch["profile"][0] and graph["end"] == torch["profile"][-1], what)
        mt.check(sum(r["bytes"] for r in graph["alive_at_peak"]) == graph["peak"], f"{what}: {graph['alive_at_peak']}")
        mt.check(all_devices["profile"] == torch["all_devices"], f"{what}: --device all")
        mt.check(("schedule" in graph) == bool(torch["schedule"]), f"{what}: a schedule on one side only")
        if torch["schedule"]:
            said = {k: graph["schedule"][k] for k in torch["schedule"]}
            mt.check(said == torch["schedule"], f"{what}: {said}, torch: {torch['schedule']}")
    pair = got["forward_backward"]
    mt.check((pair is None) == ("baseline" not in want), f"{name}: {pair}")
    for key in pair or ():
        mt.check(pair[key] == want[key], f"{name}: {key} is {pair[key]}, torch: {want[key]}")
    return len(got["graphs"]), max(g["peak"] for g in got["graphs"])


def test_real_graphs_have_torchs_numbers():
    with mt.scratch() as where:
        names = graphs_of(where)
        sizes = {name: compare(where, name) for name in names}
        mt.check(len(names) >= 12 and all(peak for _, peak in sizes.values()), f"{sizes}")
        mt.note(f"{len(names)} models, {sum(n for n, _ in sizes.values())} graphs, all equal")


def test_random_graphs_have_torchs_numbers():
    with mt.scratch() as where:
        refused = 0
        for name in graphs_of(where, RANDOM, 7):
            compare(where, name)
            if (where / f"{name}.refused.json").exists():
                mt.expect_failure(mt.memtrace("estimate", where / f"{name}.refused.json"), 1, "its schedule runs", "is not there")
                refused += 1
        mt.check(0 < refused < RANDOM, f"{refused} orders refused")
        mt.note(f"{RANDOM} pairs of random graphs, all equal; torch and memtrace refuse the same {refused} orders")


def test_what_is_no_graph_is_refused_with_its_place():
    good = ('{"format":"memtrace-graph","version":1,"devices":["cuda:0"],"graphs":[{"name":"g","nodes":[\n'
            '{"name":"a","op":"call_function","inputs":[],"outputs":[0]},\n'
            '{"name":"b","op":"call_function","inputs":[0],"outputs":[1]}]}],"storages":[[0,4096],[0,8192]]}')
    with mt.scratch() as where:
        def refuse(text, *words, args=()):
            path = where / "graph.json"
            path.write_text(text)
            mt.expect_failure(mt.memtrace("estimate", path, *args), 1, *words)

        (where / "graph.json").write_text(good)
        mt.check(estimate(where / "graph.json")["graphs"][0]["profile"] == [0, 4096, 4096, 12288, 8192], "the good one")
        refuse(good.replace("[0],", "[1],"), "node 1 'b'", "line 3", "is itself", "cycle")
        refuse(good[:-40], "graph.json:3:", "premature EOF", "hint: the file ends")
        refuse(good.replace("[0,8192]", "[0]"), "graph.json:3:", "a storage without a size", "hint:")
        refuse(good.replace('"outputs":[0]', '"outputs":[-7]'), "graph.json:2:", "-7 is not a whole number")
        refuse("[" * 100000, "graph.json:1:", "not an object")
        refuse("", "is empty")
        refuse(good, "nothing of the graph is on 'cpu'", "all, cuda:0", args=("--device", "cpu"))
        mt.expect_failure(mt.memtrace("estimate", where / "none.json"), 1, "none.json", "No such file")
        mt.expect_failure(mt.memtrace("estimate"), 2, "GRAPH.json or F.mtr is missing", "memtrace.graph")
        mt.expect_failure(mt.memtrace("estimate", where), 1, "directory")


def test_the_exporter_says_what_to_do():
    with mt.scratch() as where:
        (where / "train.py").write_text("import torch\n\n\ndef make():\n"
                                        "    return torch.nn.Linear(256, 128), (torch.zeros(64, 256),)\n")
        env = dict(os.environ, PYTHONPATH=str(mt.ROOT / "tools" / "python"), PYTHONDONTWRITEBYTECODE="1")

        def run(*args):
            return subprocess.run([mt.PYTHON, "-m", "memtrace.graph", *args], cwd=where, env=env, capture_output=True, text=True,
                                  check=False)

        done = run("train:make", "--device", "cuda:0", "-o", "graph.json")
        mt.check(done.returncode == 0, done.stderr)
        said = estimate(where / "graph.json")
        weight, bias, given, made = 128 * 256 * 4, 128 * 4, 64 * 256 * 4, 64 * 128 * 4
        mt.check(said["counted"] == ["cuda:0"] and said["graphs"][0]["peak"] == weight + bias + given + made, f"{said}")
        wrong = run("train:none")
        mt.check(wrong.returncode == 2 and "train:none" in wrong.stderr, wrong.stderr)


def record_kept(where, kind, *args):
    path = where / f"{kind}.mtr"
    mt.ok(mt.memtrace("record", "-q", "-o", path, *args, "--", mt.PYTHON, mt.JOBS / "kept.py", kind, timeout=120))
    return path


def record_ready(path, job, *args, ranks=()):
    """A job that waits for a line when its model is made, and for another when its modules' names are to be read; its other ranks with it."""
    jobs = (job, *ranks)
    with mt.start("record", "-vv", "-o", path, *(a for j in jobs for a in ("-p", str(j.pid))), *args) as tracer:
        for j in jobs:
            mt.wait_attached(tracer, j.pid)
        for j in jobs:
            j.tell("go")
        for j in jobs:
            j.line("reads", 60)
            test_categories.python_is_known(tracer, j.pid)
        for j in jobs:
            j.tell("go")
        for j in jobs:
            mt.check(j.wait(150) == 0, "\n".join(j.err[-20:]))
        mt.finish(tracer, path, None)
    return path


WASTE = next(f"kept.py:{n} waste" for n, line in enumerate((mt.JOBS / "kept.py").read_text().splitlines(), 1) if "a = torch.ones(" in line)


def close_to(value, mib):
    """Blocks of a few bytes lie about."""
    return abs(value - mib * (1 << 20)) < 4096


def test_planted_waste_is_found_with_its_line():
    with mt.scratch() as where:
        path = record_kept(where, "waste", "--stacks=python")
        said = estimate(path)
        mt.check(said["peak"] == mt.report(path)["devices"]["cpu"]["peak"], f"peak {said['peak']}")
        mt.check(close_to(said["peak"], 16) and close_to(said["lowest_peak"], 12), f"{said['peak']}, {said['lowest_peak']}")
        row = next((r for r in said["kept"]["rows"] if r["last_op"] == "aten::relu"), None)
        mt.check(row and row["blocks"] == 6 and row["bytes"] == 24 << 20 and row["at_peak"] == 4 << 20, f"{said['kept']}")
        mt.check(row["line"] == WASTE and row["module"] is None, f"{row}")
        step = said["step"]
        mt.check(step["measured_peak"] == said["peak"] and close_to(step["estimated_peak"], 12), f"{step}")
        mt.check(abs(step["estimate_error"] + 0.25) < 0.001, f"{step}")
        mt.check(step["best_order_peak"] == step["order_peak"], f"no better order than this: {step}")
        text = mt.ok(mt.memtrace("estimate", path)).stdout
        mt.check(WASTE in text and "none better found" in text, text)
        mt.expect_failure(mt.memtrace("estimate", path, "--device", "cuda:0"), 1, "no tensor was on 'cuda:0'", "there were on cpu")


def test_what_was_kept_is_told_with_its_module():
    with mt.scratch() as where:
        with mt.Proc([mt.PYTHON, mt.JOBS / "kept.py", "module"]) as job:
            job.line("ready", 120)
            path = record_ready(where / "module.mtr", job, "--stacks=python")
        rows = estimate(path, "--top", "50")["kept"]["rows"]
        row = next((r for r in rows if r["last_op"] == "aten::relu" and r["module"] == "inner"), None)
        mt.check(row and row["root"] == "ModuleDict" and row["blocks"] >= 2 and row["line"] == WASTE, f"{rows}")


def test_a_better_order_is_found_with_its_gain():
    with mt.scratch() as where:
        said = estimate(record_kept(where, "order"))
        step = said["step"]
        mt.check(close_to(said["peak"], 16) and close_to(said["lowest_peak"], 16), f"{said['peak']}, {said['lowest_peak']}")
        mt.check(close_to(step["order_peak"], 16) and close_to(step["best_order_peak"], 4), f"{step}")
        mt.check(step["best_order_moved"] > 0, f"{step}")


def test_a_recording_without_flow_is_refused():
    with mt.scratch() as where:
        path = record_kept(where, "waste", "--probes", "framework,ops")
        mt.expect_failure(mt.memtrace("estimate", path), 1, "no data flow", "record with the source flow")


def record_whatif(where, *config):
    path = where / ("-".join(map(str, config)) + ".mtr")
    mt.ok(mt.memtrace("record", "-q", "-o", path, "--", mt.PYTHON, mt.JOBS / "whatif.py", *config, timeout=120))
    return path


def check_what_if(what, said, ran, share=0.05):
    """The estimate against the peak of the changed configuration, really run."""
    peak = mt.report(ran)["devices"]["cpu"]["peak"]
    error = said["estimated_peak"] / peak - 1
    mt.check(said["is_whole_step"] and said["lost"] == 0 and abs(error) < share, f"{what}: {error:+.1%} of {peak}; {said}")
    mt.note(f"{what}: {said['estimated_peak']} estimated, {peak} measured ({error:+.2%})")


def modules_of(path):
    """How many allocations were in which module."""
    return collections.Counter(f"{e.get('module_root')} {e.get('module')} {'' if e.get('op') else 'no operator'}" for e in mt.export(path)
                               if e["ev"] == "create").most_common()


def test_what_ifs_of_the_optimizer_come_true():
    with mt.scratch() as where:
        adamw, sgd, momentum, bits = (record_whatif(where, 8, o, "float32") for o in ("adamw", "sgd", "momentum", "8bit"))
        check_what_if("adamw to sgd", estimate(adamw, "--optimizer", "sgd"), sgd)
        check_what_if("adamw to momentum", estimate(adamw, "--optimizer", "momentum"), momentum)
        check_what_if("adamw to 8 bit", estimate(adamw, "--optimizer", "8bit"), bits)
        check_what_if("sgd to adamw", estimate(sgd, "--optimizer", "adamw"), adamw)


def test_what_ifs_of_batch_and_dtype_come_true():
    with mt.scratch() as where:
        a, b, c = (record_whatif(where, n, "adamw", "float32") for n in (8, 16, 40))
        peak = mt.report(c)["devices"]["cpu"]["peak"]
        said = estimate(a, b, "--batches", "8,16", "--batch", "40", "--budget", peak + 1000)
        mt.check(said["paired_share"] > 0.95, f"{said['paired_share']}, modules: {[modules_of(path) for path in (a, b)]}")
        check_what_if("batch 8 to 40, of 8 and 16", said, c)
        mt.check(abs(said["largest_batch"] - 40) <= 2, f"{said}")
        said = estimate(a, "--batches", "8", "--batch", "40", "--budget", peak + 1000)
        check_what_if("batch 8 to 40, of 8 alone", said, c)
        mt.check(38 <= said["largest_batch"] <= 42, f"{said}")
        budget = 100 << 20
        said = estimate(a, b, "--batches", "8,16", "--budget", "100M")
        largest = mt.report(record_whatif(where, said["largest_batch"], "adamw", "float32"))["devices"]["cpu"]["peak"]
        per_one = said["at_largest_batch"] // said["largest_batch"]
        mt.check(abs(said["fit_error"]) < 0.01 and budget - 2 * per_one < largest < budget * 1.01, f"{largest} of {budget}: {said}")
        mt.note(f"largest batch in 100 MiB: {said['largest_batch']}, {said['at_largest_batch']} estimated, {largest} measured "
                f"({said['at_largest_batch'] / largest - 1:+.2%})")
        text = mt.ok(mt.memtrace("estimate", a, b, "--batches", "8,16", "--budget", "100M")).stdout
        mt.check(f"The largest batch that fits into 100 MiB is {said['largest_batch']}, with a peak of" in text
                 and "off the measured peak with 16;" in " ".join(text.split()), text)
        other = where / "other.mtr"
        mt.ok(mt.memtrace("record", "-p", mt.shared_job("transformer").pid, "-d", 3, "-o", other))
        mt.expect_failure(mt.memtrace("estimate", other, a, "--batches", "8,16", "--batch", 32), 1, "has its like in", "of the same job")
        check_what_if("float32 to bf16", estimate(a, "--dtype", "bf16"), record_whatif(where, 8, "adamw", "bfloat16"))


def record_blocks(where, name, *args, ranks=0, together=False):
    """jobs/blocks.py; of several ranks the last one is recorded, or all of them together."""
    path = where / f"{name}.mtr"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
               WORLD_SIZE=str(ranks))
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(mt.Proc([mt.PYTHON, mt.JOBS / "blocks.py", *args],
                                            env=dict(env, RANK=str(r), LOCAL_RANK=str(r)))) for r in range(max(ranks, 1))]
        for job in jobs:
            job.line("ready", 120)
        for job in jobs[:-1]:
            if not together:
                job.tell("go\ngo")
        record_ready(path, jobs[-1], ranks=jobs[:-1] if together else ())
        for job in jobs[:-1]:
            mt.check(job.wait(60) == 0, "\n".join(job.err[-20:]))
    return path


def test_what_ifs_of_sharding_come_true():
    with mt.scratch() as where:
        size = ("--blocks", "6", "--batch", "8")  # gloo's threads may keep a unit's buffer for longer: that must be little
        one = record_blocks(where, "one", *size)
        for ranks, args in ((2, ()), (2, ("--no-reshard",)), (4, ())):
            ran = record_blocks(where, f"of{ranks}{len(args)}", "--shard", *size, *args, ranks=ranks)
            said = estimate(one, "--shard", ranks, "--units", "layers.*", *args)
            mt.check(said["shard"]["units"] == 6 and said["shard"]["parameters"] == said["parameters"], f"{said}")
            check_what_if(f"sharded by {ranks} {' '.join(args)}", said, ran)
            mt.expect_failure(mt.memtrace("estimate", ran, "--shard", "8"), 1, f"is one of {ranks} ranks already")
        guessed, asked = estimate(one, "--shard", 2), estimate(one, "--shard", 2, "--units", "layers.*")
        mt.check(guessed["estimated_peak"] == asked["estimated_peak"], f"{guessed}")
        mt.expect_failure(mt.memtrace("estimate", one, "--shard", "2", "--units", "tail.*"), 1, "no parameter is in a module like")


def bytes_of(words):
    number, unit = words.split()
    return float(number) * 1024 ** ("B", "KiB", "MiB", "GiB").index(unit)


def test_verdicts_on_sharding_come_true():
    """Two ranks of DistributedDataParallel on one CPU, of 1.14 GiB each and copies of the gradients: what it proposes is done."""
    size = ("--dim", "512", "--blocks", "24", "--batch", "1")
    with mt.scratch() as where:
        whole = record_blocks(where, "ddp", "--ddp", *size, ranks=2, together=True)
        rep = json.loads(mt.ok(mt.memtrace("report", whole, "--json", "--by", "rank")).stdout)
        peaks = [r["peak"] for r in rep["ranks"]["list"]]
        mt.check(len(peaks) == 2 and min(peaks) > 0.99 * max(peaks), f"{peaks}")
        line = next(v for v in mt.report(whole)["verdict"] if v["kind"] == "state")
        said = re.match(r"shared among 2 ranks \(fully_shard\): up to ([0-9.]+ .iB) less each; of the job in one process: "
                        r"memtrace record -o one\.mtr -- COMMAND && memtrace estimate one\.mtr (--shard 2)$", line["next"])
        mt.check(said, f"{line}")
        mt.expect_failure(mt.memtrace("estimate", whole, "--shard", "2"), 1, "is one of 2 ranks already")
        ran = record_blocks(where, "fsdp", "--shard", *size, ranks=2)
        mt.expect_failure(mt.memtrace("estimate", whole, ran, "--batches", "1,2", "--batch", "1", "--shard", "2"), 1, "is one of 2 ranks already")
        less, most = min(peaks) - mt.report(ran)["devices"]["cpu"]["peak"], bytes_of(said[1])
        mt.note(f"up to {said[1]} less said of {min(peaks)}, {less / 2**20:.0f} MiB measured")
        mt.check(0.9 * most < less < 1.005 * most, f"{line['next']}: {less} less")
        of_one = estimate(record_blocks(where, "one", *size), *said[2].split())
        check_what_if("of one process", of_one, ran)
        less = min(peaks) - of_one["estimated_peak"]
        mt.check(0.9 * most < less < 1.005 * most, f"{line['next']}: {less} less, says the command in it")
        mt.check(not any("shared among" in v.get("next", "") for v in mt.report(ran)["verdict"]), "it is sharded already")


def kept(path):
    """Bytes that autograd keeps, and by module what of it recomputation would save."""
    report = json.loads(mt.ok(mt.memtrace("report", path, "--json", "--top", "100000")).stdout)
    (process,) = report["saved"]["processes"]
    return process["bytes"], {m["name"]: m["all"]["recomputable"] for m in report["modules"]["list"]}


def test_what_ifs_of_checkpoints_come_true():
    size = ("--batch", "16", "--dim", "128")
    with mt.scratch() as where:
        one = record_blocks(where, "one", *size)
        for blocks in ("0,1,2,3", "1,2"):
            said = estimate(one, "--checkpoint", ",".join(f"layers.{b}" for b in blocks.split(",")))
            curve = said["checkpoint"]["modules"]
            mt.check(len(curve) == len(blocks.split(",")) and all(m["time_ns"] > 0 and m["bytes"] > 1 << 20 for m in curve), said)
            ran = record_blocks(where, f"ran{blocks}", *size, "--checkpoint", blocks)
            check_what_if(f"blocks {blocks} checkpointed", said, ran)
            (before, saves), (after, _) = kept(one), kept(ran)
            told = sum(saves[f"layers.{b}"] for b in blocks.split(","))
            mt.note(f"kept for backward: {before}, with blocks {blocks} checkpointed {after}: {before - after} less, {told} told")
            mt.check(before - after == told - RNG_STATE * len(curve), f"{before} - {after}, {told} told")
            mt.check(all(m["bytes"] == saves[m["module"]] for m in curve), f"{curve} {saves}")
        all_of_them = estimate(one, "--checkpoint", "layers.*")
        mt.check(estimate(one, "--checkpoint", "Model.layers.*") == all_of_them, "paths as they are printed, with the root's name")
        budget = all_of_them["checkpoint"]["modules"][1]["peak_so_far"] + 1000
        said = estimate(one, "--checkpoint", "layers.*", "--budget", budget)
        mt.check(said["checkpoint"]["fits"] and said["checkpoint"]["is_exact"] and said["estimated_peak"] <= budget
                 and said["checkpoint"]["chosen"] <= 2, f"{said}")
        mt.expect_failure(mt.memtrace("estimate", one, "--checkpoint", "tail.*"), 1, "no module like")


def test_a_backward_in_another_thread():
    """As on a GPU: the thread has numbers of nodes of its own, from its Python and from what a checkpoint computes again there."""
    size = ("--batch", "8", "--dim", "128")
    with mt.scratch() as where:
        for more in ((), ("--checkpoint", "1,2")):
            one, other = (kept(record_blocks(where, f"{len(more)}{len(thread)}", *size, *more, *thread)) for thread in ((), ("--thread",)))
            mt.check(one == other and one[1]["layers.0"] > 1 << 20, f"{one} {other}")
            mt.check(bool(one[1]["layers.1"]) != bool(more), f"{one}")


def test_what_if_says_what_it_needs():
    with mt.scratch() as where:
        (where / "g.json").write_text("{}")
        for args, code, words in ((("x.mtr", "--batch", "4"), 2, ("--batch needs --batches",)),
                                  (("x.mtr", "y.mtr"), 2, ("two recordings need --batches A,B",)),
                                  (("x.mtr", "y.mtr", "--batch", "4"), 2, ("need --batches",)),
                                  (("x.mtr", "--batches", "4,8", "--batch", "4"), 2, ("needs two recordings",)),
                                  (("x.mtr", "--batches", "4"), 2, ("--batch or --budget is missing",)),
                                  (("x.mtr", "y.mtr", "--batches", "4,4", "--batch", "4"), 2, ("or two different ones",)),
                                  (("x.mtr", "--shard", "0"), 2, ("no rank at all",)),
                                  (("x.mtr", "--batches", "4", "--budget", "0"), 2, ("holds nothing",)),
                                  (("x.mtr", "--units", "layers.*"), 2, ("--units is about --shard",)),
                                  (("x.mtr", "--optimizer", "lion"), 2, ("unknown optimizer", "adamw")),
                                  (("x.mtr", "--dtype", "int3"), 2, ("unknown dtype", "bf16")),
                                  (("x.mtr", "--budget", "1G"), 2, ("--budget needs --batches",)),
                                  ((where / "g.json", "--dtype", "bf16"), 1, ("is no recording", "trace the changed model"))):
            mt.expect_failure(mt.memtrace("estimate", *args), code, *words)
