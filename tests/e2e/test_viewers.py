# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Exports, each read by a program that was not written here, and its numbers held against report --json.

One recording of the small job with every category serves all tests. Consumers: torch's own
_memory_viz.py and pickle module, torch's MemoryViz.js under node, Perfetto's published schema, go tool pprof,
promtool, prometheus_client's strict parser, sqlite's own library in Python. What is not installed
is skipped with a word (tools/install-deps viewers); MemoryViz.js is not in torch's wheel: the folder with it and
process_alloc_data.js is MT_MEMORYVIZ or build/memoryviz. Mosaic's is MT_MOSAIC or build/mosaic (docs/peers.md).
"""
import collections
import csv
import functools
import gzip
import itertools
import json
import os
import pathlib
import pickle
import pickletools
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import grown
import mt
import test_gpu_stub as gpu_stub

# The last two: make check-snapshot-newest.
SLOW = {"torch_snapshot_in_memory_viz", "torch_snapshot_in_mosaic", "torch_snapshot_in_newest_torch", "torch_snapshot_of_pinned_in_newest_torch"}

VIEWERS = pathlib.Path(__file__).resolve().parent / "viewers"
# What MemoryViz.js reads of the pickle language.
OPCODES = set("PROTO FRAME MARK STOP EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT APPEND APPENDS "
              "SETITEM SETITEMS NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE "
              "MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET".split())


@functools.cache
def folder():
    path = tempfile.TemporaryDirectory(prefix="mt-e2e-viewers-")
    folder.keep = path  # removed when the runner ends
    return pathlib.Path(path.name)


@functools.cache
def recording():
    mt.need_root()
    path = folder() / "job.mtr"
    with mt.job("mlp", "--width", "512") as job:  # few steps a second: torch's own reader is slow
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes",
                      "framework,ops,flow,regions,kernel") as tracer:
            def is_whole(rep):
                return grown.named(rep) >= 12 and grown.named(rep, "optimizer_state") >= 24 and grown.has_marks(rep)
            grown.wait(tracer, path, grown.after(is_whole, 8), "eight steps with all names and marks")
            job.signal(signal.SIGUSR1)
            job.line("rests", 60)  # no operator is open at the end
            tracer.signal(signal.SIGINT)
            mt.check(tracer.wait(60) in (0, 3), f"record: {tracer.err}")
    return path


@functools.cache
def rep():
    return mt.report(recording(), (0, 3))


def cpu():
    return rep()["devices"]["cpu"]


@functools.cache
def final_categories():
    """Live bytes at the end by category, from export --to jsonl: the last word on every block."""
    live = {}
    with open(export("jsonl", "", "--ops")) as f:
        for row in map(json.loads, f):
            if row["ev"] in ("create", "preexisting", "version") and row["size"] is not None:
                live[row["id"]] = row["cat"], row["size"]
            elif row["ev"] == "destroy":
                live.pop(row["id"], None)
    sums = collections.Counter()
    for cat, size in live.values():
        sums[cat] += size
    told = {name: c["live"] for name, c in cpu()["categories"].items()}
    equal(non_zero(sums), non_zero(told), "live in jsonl")
    return non_zero(sums)


@functools.cache
def export(fmt, suffix, *options):
    path = folder() / f"out{len(options)}.{fmt}{suffix}"
    mt.ok(mt.memtrace("export", recording(), "--to", fmt, "--force", "-o", path, *options), (0, 3))
    return path


def equal(seen, wanted, what):
    mt.check(seen == wanted, f"{what}: {seen}, report --json {wanted}")


def python(code, *args):
    """Runs in the Python with torch; what it prints, as JSON."""
    done = subprocess.run([mt.PYTHON, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)
    mt.check(done.returncode == 0, f"{args}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def need(program, why):
    if not shutil.which(program):
        raise mt.Skip(f"{program} is missing ({why}): tools/install-deps viewers")


def non_zero(values):
    return {k: v for k, v in values.items() if v}


# --- torch-snapshot ------------------------------------------------------------------------------

SNAPSHOT = """
import json, pickle, sys
from torch.cuda import _memory_viz as viz
data = pickle.load(open(sys.argv[1], "rb"))
text = {"stats": viz.segsum(data), "trace": viz.trace(data), "plot": viz.trace_plot(data), "segment_plot": viz.segment_plot(data),
        "segments": viz.segments(data, format_flamegraph=lambda x: x), "memory": viz.memory(data, format_flamegraph=lambda x: x),
        "small": viz.trace_plot(viz.filter_alloc_free_pairs(pickle.load(open(sys.argv[1], "rb"))))}
json.dump({"data": data, "lengths": {k: len(v) for k, v in text.items()}, "stats": text["stats"]}, sys.stdout)
"""


def trace_ends(trace):
    """(bytes by category at the end, highest sum) of a trace, as MemoryViz.js adds up."""
    live, size, by, peak = {}, 0, collections.Counter(), 0
    for e in trace:
        if e["action"] == "alloc":
            mt.check(e["addr"] not in live, f"born twice: {e}")
            live[e["addr"]] = e
            size += e["size"]
            by[e["category"]] += e["size"]
        elif e["action"] == "free_completed":
            born = live.pop(e["addr"])
            mt.check(born["size"] == e["size"], f"freed with another size: {e}")
            size -= e["size"]
            by[born["category"]] -= e["size"]
        peak = max(peak, size)
    return non_zero(by), peak


def check_metadata(trace):
    """user_metadata says of each alloc what its frames say; an annotate is of a block that lives, and says its category."""
    live, annotated, named = set(), 0, 0
    for e in trace:
        said = dict(part.split(": ", 1) for part in e.get("user_metadata", "").split("; ") if part)
        frames = {"module": [f["name"] for f in e.get("frames", []) if f["filename"] == "module"],
                  "name": [f["name"] for f in e.get("frames", []) if f["filename"] in ("parameter", "buffer", "gradient", "optimizer_state", "state")]}
        if e["action"] == "alloc":
            live.add(e["addr"])
            named += "name" in said
        elif e["action"] == "free_completed":
            live.remove(e["addr"])
        elif e["action"] == "annotate":
            mt.check(e["addr"] in live and said.pop("category") == e["category"], f"{e}")
            annotated += 1
        if e["action"] in ("alloc", "annotate"):
            mt.check(said == {k: v[0] for k, v in frames.items() if v}, f"{said}: {frames}")
        else:
            mt.check(not said, f"{e}")
    mt.check(annotated >= named > 10, f"{annotated} annotated, {named} allocs of named blocks")


def test_torch_snapshot():
    pickled, plain = export("torch-snapshot", ".pickle"), export("torch-snapshot", ".json")
    seen = python(SNAPSHOT, pickled)
    data = seen["data"]
    equal(json.loads(plain.read_text())["segments"], data["segments"], "JSON's segments and the pickle's")
    mt.check(min(seen["lengths"].values()) > 100, f"torch wrote next to nothing: {seen['lengths']}")
    used = {op.name for op, _, _ in pickletools.genops(pickled.read_bytes())}
    mt.check(used <= OPCODES, f"opcodes that the viewer does not know: {used - OPCODES}")
    active = [b for s in data["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    equal(sum(b["requested_size"] for b in active), cpu()["live"], "live in segments")
    for s in data["segments"]:
        at = s["address"]
        for b in s["blocks"]:
            equal(b["address"], at, "a block's address")
            at += b["size"]
        equal(at, s["address"] + s["total_size"], "the end of a segment")
    by, _ = trace_ends(data["device_traces"][0])
    equal(by, {k.lower(): v for k, v in final_categories().items()}, "categories at the end of the trace")
    mt.check(any(e.get("category") == "unknown" for e in data["device_traces"][0]), "no 'unknown': the viewer would fail")
    times = [e["time_us"] for e in data["device_traces"][0]]
    begin = rep()["start_ns"] // 1000
    mt.check(times == sorted(times) and begin <= times[0] and times[-1] <= begin + rep()["duration_ns"] // 1000 + 1, "times")
    names = {f["name"] for e in data["device_traces"][0] for f in e.get("frames", [])}
    mt.check({"aten::addmm", "Optimizer.step#Adam.step", "AddmmBackward0"} <= names, f"frames: {sorted(names)[:30]}")
    entries = data["device_traces"][0] + [b for s in data["segments"] for b in s["blocks"]]
    frames = {(f["filename"], f["name"]) for e in entries for f in e.get("frames", [])}
    for t in rep()["names"]["list"]:
        mt.check((t["kind"], f"{t['state']} {t['name']}" if t["state"] else t["name"]) in frames, f"no frame of {t}")
    made = {f"{m['root']}.{m['name']}" if m["name"] else m["root"] for m in rep()["modules"]["list"] if m["own"]["alloc_count"]}
    mt.check(made and made <= {name for where, name in frames if where == "module"}, f"modules {made}: {sorted(frames)[:20]}")
    equal(data["external_annotations"], [{"name": m["name"], "stage": "MARK", **({"number": m["step"]} if "step" in m else {}),
                                          "device": 0, "time_us": m["t"] // 1000} for m in rep()["phases"]["markers"]], "marks")
    equal(json.loads(plain.read_text())["external_annotations"], data["external_annotations"], "JSON's marks")
    check_metadata(data["device_traces"][0])
    equal({k: json.loads(plain.read_text())[k] for k in ("host_segments", "host_traces")}, {k: data[k] for k in ("host_segments", "host_traces")}, "host")
    equal((data["host_segments"], data["host_traces"]), ([], []), "pinned memory of a job on the CPU")
    mt.note(f"{len(data['device_traces'][0])} entries, {pickled.stat().st_size} bytes as a pickle, "
            f"{plain.stat().st_size} as JSON")


def newest_viz():
    """_memory_viz.py of the newest torch that is known here, one file of its wheel (it needs nothing of torch)."""
    kept = os.environ.get("MT_KEPT", mt.BUILD / "versions/kept")
    found = sorted(pathlib.Path(kept).glob("*/venv-*/lib/python3.*/site-packages/torch/cuda/_memory_viz.py"),
                   key=lambda p: [int(n) for n in p.relative_to(kept).parts[0].split(".")])
    if not found:
        raise mt.Skip("no torch 2.15 is kept here: make check-snapshot-newest fetches it")
    return found[-1]


NEWEST = """
import importlib.util, json, pickle, sys
answer, sys.stdout = sys.stdout, sys.stderr  # compare() prints
spec = importlib.util.spec_from_file_location("viz", sys.argv[1])
viz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viz)
def data(): return pickle.load(open(sys.argv[2], "rb"))
out = {"trace": viz.trace(data()), "stats": viz.segsum(data())}
out["lengths"] = [len(viz.trace_plot(data())), len(viz.segment_plot(data())), len(viz.segments(data(), format_flamegraph=lambda x: x)),
                  len(viz.memory(data(), format_flamegraph=lambda x: x)),
                  len(viz.compare(data()["segments"], data()["segments"], format_flamegraph=lambda x: x))]
json.dump(out, answer)
"""


def test_torch_snapshot_in_newest_torch():
    """torch 2.15's own reader knows annotate events: each of ours is a line of its own there, with what it says."""
    viz, pickled = newest_viz(), export("torch-snapshot", ".pickle")
    mt.check('"annotate"' in viz.read_text(), f"{viz} knows no annotate")
    seen = python(NEWEST, viz, pickled)
    *pages, difference = seen["lengths"]
    mt.check(min(pages) > 1000 and difference == 0, f"torch wrote next to nothing, or finds it unlike itself: {seen['lengths']}")
    entries = json.loads(export("torch-snapshot", ".json").read_text())["device_traces"][0]
    wanted = [e["user_metadata"] for e in entries if e["action"] == "annotate"]
    lines = [line for line in seen["trace"].splitlines() if line.startswith("# annotate ")]
    mt.check(wanted and [line.split(": ", 1)[1] for line in lines] == wanted, f"{len(lines)} lines, {len(wanted)} annotate events: {lines[:3]}")
    mt.check(not any(re.match(r"# annotate \d+:", line) for line in lines), "an annotate of a block that torch does not know")
    for word in ("category: ", "name: "):
        mt.check(any(word in line for line in lines), f"no line has {word}")
    # A parameter belongs to a module, but none made it: the ones that have both are gradients, if Python was read while there were some.
    mt.check(any("module: " in e.get("user_metadata", "") for e in entries), "no entry has a module")
    mt.note(f"{viz.relative_to(viz.parents[8])}: {len(lines)} annotate events")


def test_torch_snapshot_of_pinned_in_newest_torch():
    """torch 2.15's own reader opens a snapshot that has host_traces; its entries have the keys that it asks of any trace's."""
    with mt.scratch() as tmp:
        pickled, traces, _ = gpu_stub.snapshot_of_pinned("pinned", tmp)
        seen = python(NEWEST, newest_viz(), pickled)
        mt.check(seen["lengths"][-1] == 0 and min(seen["lengths"][:2]) > 1000, f"{seen['lengths']}")
        as_device = tmp / "as_device.pickle"  # the reader has no view of host_traces yet: they are read as a device's
        data = pickle.loads(pickled.read_bytes())
        as_device.write_bytes(pickle.dumps({**data, "device_traces": [data["host_traces"]], "segments": []}))
        text = python(NEWEST, newest_viz(), as_device)["trace"]
        made, gone = text.count("cudaMalloc("), text.count("cudaFree(")
        mt.check((made, gone) == (7, 4) and len(traces) == 11, f"{made} and {gone} of {traces}: {text[:2000]}")


def test_torch_snapshot_in_memory_viz():
    where = pathlib.Path(os.environ.get("MT_MEMORYVIZ", mt.BUILD / "memoryviz"))
    need("node", "runs torch's viewer")
    if not (where / "MemoryViz.js").is_file():
        raise mt.Skip("torch's viewer is not here: put MemoryViz.js and process_alloc_data.js of pytorch's torch/utils/viz "
                      f"into {where}, or name their folder in MT_MEMORYVIZ")
    for suffix in (".pickle", ".json"):
        done = subprocess.run(["node", VIEWERS / "memory_viz.mjs", where, export("torch-snapshot", suffix)],
                              capture_output=True, text=True, timeout=120, check=False)
        mt.check(done.returncode == 0, done.stderr[-2000:])
        seen = json.loads(done.stdout)
        mt.check("unknown" in seen["categories"] and "parameter" in seen["categories"], f"{seen['categories']}")
        device = seen["devices"][0]
        data = json.loads(export("torch-snapshot", ".json").read_text())
        equal(device["max_size"], trace_ends(data["device_traces"][0])[1], "the plot's highest value")
        equal(device["drawn"][-1][2], cpu()["live"], "bytes of the state view's last picture")


def test_torch_snapshot_in_mosaic():
    """Mosaic finds the same peak in it, and by rules that go by the frames' files the bytes of what Python names."""
    where = pathlib.Path(os.environ.get("MT_MOSAIC", mt.BUILD / "mosaic")).resolve()
    if not (where / ".venv/bin/python").exists():
        raise mt.Skip("Mosaic is not here: docs/peers.md says how MT_MOSAIC is to be set")

    def mosaic(command, *more):
        done = subprocess.run([where / ".venv/bin/python", "-m", f"mosaic.cmd.{command}", "--snapshot", export("torch-snapshot", ".pickle"), *more],
                              cwd=where, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, timeout=120, check=False)
        mt.check(done.returncode == 0, done.stderr[-2000:])
        return done.stdout + done.stderr
    peak = trace_ends(json.loads(export("torch-snapshot", ".json").read_text())["device_traces"][0])[1]
    told = float(re.search(r"Total Peak Dynamic Memory Usage \(Relative to Start\): ([\d.]+) GiB", mosaic("get_memory_usage_peak"))[1])
    equal(round(told * (1 << 30)), peak, "Mosaic's peak, and the trace's")
    rules = {kind: f"^{kind.lower()}$" for kind in ("PARAMETER", "OPTIMIZER_STATE")}
    said = mosaic("get_memory_profile", "--out-path", folder() / "mosaic.html", "--profile", "custom", "--custom-profile", json.dumps(rules))
    for kind in rules:
        number, unit = re.search(rf"(?m)^{kind}: ([\d.]+)([KM])B$", said).groups()
        named = sum(t["bytes"] for t in rep()["names"]["list"] if t["kind"] == kind.lower())
        mt.check(abs(float(number) - named / (1024 if unit == "K" else 1 << 20)) <= 0.01, f"{kind}: {number} {unit}B, by name {named} bytes")


# --- viewers of time -----------------------------------------------------------------------------

PERFETTO = """
import collections, json, sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
trace = pb.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
out = {"names": {}, "parents": {}, "last": {}, "max": {}, "slices": collections.Counter(), "processes": [], "bad": [], "tracks": [],
       "marks": [], "modules": collections.Counter()}
names, stacks, last_ts, described = {}, collections.defaultdict(list), 0, set()
for p in trace.packet:
    if p.trusted_packet_sequence_id != 1:
        out["bad"].append("no sequence")
    for n in p.interned_data.event_names:
        names[n.iid] = n.name
    if p.HasField("track_descriptor"):
        d = p.track_descriptor
        described.add(d.uuid)
        out["tracks"].append(d.name)
        if d.HasField("counter"):
            out["names"][d.uuid] = d.name
            out["parents"][d.uuid] = d.parent_uuid
            if d.counter.unit != d.counter.UNIT_SIZE_BYTES:
                out["bad"].append("unit")
        if d.HasField("process"):
            out["processes"].append([d.process.pid, d.process.process_name])
        if d.parent_uuid and d.parent_uuid not in described:
            out["bad"].append("a parent comes later")
    if p.HasField("track_event"):
        e = p.track_event
        if e.track_uuid not in described:
            out["bad"].append("an event without its track")
        if e.type == e.TYPE_COUNTER:
            out["last"][e.track_uuid] = e.counter_value
            out["max"][e.track_uuid] = max(e.counter_value, out["max"].get(e.track_uuid, 0))
            if p.timestamp < last_ts:
                out["bad"].append("counters go back in time")
            last_ts = p.timestamp
        elif e.type == e.TYPE_SLICE_BEGIN:
            name = names[e.name_iid] if e.name_iid else e.name
            stacks[e.track_uuid].append(p.timestamp)
            out["slices"][(e.categories[0] if e.categories else "step") + " " + name.split(" ")[0]] += 1
        elif e.type == e.TYPE_INSTANT and list(e.categories) == ["mark"]:
            out["marks"].append([p.timestamp, e.name, *(a.uint_value for a in e.debug_annotations if a.name == "step")])
        elif e.type == e.TYPE_SLICE_END:
            notes = {a.name: a.string_value or a.uint_value for a in e.debug_annotations}
            if "module" in notes:
                out["modules"][notes["module"] + " " + notes.get("phase", "")] += 1
            if stacks[e.track_uuid].pop() > p.timestamp:
                out["bad"].append("a slice ends before it begins")
if any(stacks.values()):
    out["bad"].append("slices without an end")
clocks = {c.clock_id: c.timestamp for c in trace.packet[0].clock_snapshot.clocks}
out["epoch"] = clocks[1] - clocks[3]
out["first"] = trace.packet[0].clock_snapshot.primary_trace_clock
out["packets"] = len(trace.packet)
json.dump(out, sys.stdout)
"""


def check_slices(slices, counted):
    """Entries of operators, backward nodes and regions in the recording: each is a slice."""
    equal(slices["step step"], steps(), "steps")
    equal(sum(v for k, v in slices.items() if k.startswith("operator ")), counted["op"], "slices of operators")
    mt.check(slices["region Optimizer.step#Adam.step"] >= steps(), "regions")
    mt.check(slices["backward AddmmBackward0"] > steps(), "backward nodes")


def check_named(seen, slices):
    """A track for each tensor with a name; a slice for each block that was called so."""
    named = {(f"{t['state']} " if t["state"] else "gradient " if t["kind"] == "gradient" else "") + t["name"]
             for t in rep().get("names", {"list": []})["list"]}
    mt.check(named, "the recording has no names")
    mt.check(named <= set(seen["tracks"]), f"{sorted(named - set(seen['tracks']))[:5]} have no track")
    mt.check(sum(v for k, v in slices.items() if k.startswith("tensor float32[")) >= len(named), "slices of tensors")


def markers():
    """(time, name, number of a step) of the report's markers, in their order."""
    told = [(m["t"], m["name"], *([m["step"]] if "step" in m else [])) for m in rep()["phases"]["markers"]]
    mt.check({m[1] for m in told} == {"fw_start", "fw_bw_boundary", "step"}, str(told[:5]))
    return told


def modules_made(phase):
    """Paths with their root of the modules that made something in a phase, itself and not what is in it."""
    return {".".join(filter(None, (m["root"], m["name"]))) for m in rep()["modules"]["list"] if m["own"]["phases"].get(phase)}


def rows_of(*words):
    """How many lines of export --to jsonl --ops have all of these."""
    with open(export("jsonl", "", "--ops")) as f:
        return sum(1 for line in f if all(word in line for word in words))


def steps():
    """Ends of the optimizer's steps whose beginnings were seen; a handful at least."""
    cnt = rows_of('"ev":"region_end"', '"region":"Optimizer.step#Adam.step"')
    mt.check(cnt >= 5, f"{cnt} steps only")
    return cnt


def test_perfetto():
    seen = python(PERFETTO, export("perfetto", ".pftrace", "--ops"))
    mt.check(not seen["bad"], f"{collections.Counter(seen['bad'])}")
    last = {seen["names"][k]: v for k, v in seen["last"].items()}
    high = {seen["names"][k]: v for k, v in seen["max"].items()}
    equal(last.pop("live"), cpu()["live"], "live")
    equal(high["live"], cpu()["peak"], "the counter's maximum")
    equal(non_zero(last), final_categories(), "counters at the end")
    equal(len(set(seen["parents"].values())), 1, "groups of counters")
    equal(seen["processes"], [[rep()["target"]["pid"], rep()["target"]["comm"]]], "processes")
    slices = collections.Counter(seen["slices"])
    ops = sum(v for k, v in slices.items() if k.startswith(("operator ", "backward ")))
    equal(ops, rows_of('"ev":"op"'), "slices of operators and backward nodes")
    check_slices(slices, {"op": sum(v for k, v in slices.items() if k.startswith("operator "))})
    check_named(seen, slices)
    equal([(t + seen["epoch"], *more) for t, *more in seen["marks"]], markers(), "marks")
    for phase in ("forward", "backward"):
        want, got = modules_made(phase), {k.rsplit(" ", 1)[0] for k in seen["modules"] if k.endswith(" " + phase)}
        mt.check(want and want <= got, f"modules of {phase}: {want - got} are of no slice")
    without = collections.Counter(python(PERFETTO, export("perfetto", ".pftrace"))["slices"])
    mt.check(not any(k.startswith("operator ") for k in without) and without["step step"] == slices["step step"],
             "without --ops there are no operators")
    mt.note(f"{seen['packets']} packets")


def check_chrome_names(events, base):
    """Marks, modules of the slices, and names of tensors as asynchronous events that begin and end once."""
    told = [(base + round(e["ts"] * 1000), e["name"], *e.get("args", {}).values()) for e in events if e["ph"] == "i" and e["cat"] == "mark"]
    equal(told, markers(), "marks")
    mt.check(all(e["s"] == "p" for e in events if e["ph"] == "i"), "scopes of instants")
    slices = [e for e in events if e["ph"] == "X" and e["cat"] in ("operator", "backward")]
    for phase in ("forward", "backward"):
        got = {".".join(filter(None, (e["args"]["module_root"], e["args"]["module"]))) for e in slices
               if "module" in e.get("args", {}) and e["args"].get("phase") == phase}
        mt.check(modules_made(phase) <= got, f"modules of {phase}: {modules_made(phase) - got} are of no slice")
    made = collections.Counter()
    for e in slices:
        made[e["name"]] += e.get("args", {}).get("bytes", 0)
    for name, o in report_ops().items():  # and in what it called
        mt.check(made[name] >= o["alloc_bytes"], f"{name}: {made[name]} bytes in slices, {o['alloc_bytes']} in the report")
    open_ids, seen = {}, set()
    for e in events:
        if e["ph"] == "b":
            mt.check(e["cat"] == "tensor" and e["id"] not in open_ids, f"begins twice: {e}")
            open_ids[e["id"]] = e
            seen.add((e["args"]["kind"], e["args"].get("state"), e["name"], e["args"]["root"], e["args"]["bytes"]))
        elif e["ph"] == "e":
            begin = open_ids.pop(e["id"])
            mt.check((begin["cat"], begin["name"], begin["pid"]) == (e["cat"], e["name"], e["pid"]) and begin["ts"] <= e["ts"], f"{begin} {e}")
    mt.check(not open_ids, f"without an end: {list(open_ids.values())[:3]}")
    want = {(t["kind"], t["state"], t["name"], t["root"], t["bytes"]) for t in rep()["names"]["list"]}
    mt.check(want <= seen, f"{sorted(map(str, want - seen))[:3]} are no events")


def test_csv_is_jsonl():
    """The same rows, but for nodes, with what modules, names and marks there are."""
    with open(export("csv", "", "--ops"), newline="") as f:
        ours = list(csv.DictReader(f))
    with open(export("jsonl", "", "--ops")) as f:
        rows = [r for r in map(json.loads, f) if r["ev"] != "node"]
    equal(len(ours), len(rows), "rows")
    seen = collections.Counter()
    for got, row in zip(ours, rows):
        for key in ("t", "ev", "tid", "pid", "size", "step", "mark", "module", "module_root", "phase", "name", "root", "kind", "state", "type"):
            want = row.get(key)
            seen[key] += want is not None
            mt.check(got[key] == ("" if want is None else str(want)), f"{key}: {got} of {row}")
    mt.check(all(seen[k] for k in ("mark", "module", "phase", "name", "state")), str(seen))


def test_chrome():
    data = json.loads(export("chrome", ".json", "--ops").read_text())
    events = data["traceEvents"]
    counters = [e for e in events if e["ph"] == "C"]
    equal(non_zero(counters[-1]["args"]), final_categories(), "counters at the end")
    equal(max(sum(e["args"].values()) for e in counters), cpu()["peak"], "the counters' highest sum")
    mt.check(abs(data["baseTimeNanoseconds"] - rep()["start_ns"]) < rep()["duration_ns"], "baseTimeNanoseconds")
    mt.check(max(e["ts"] for e in events if "ts" in e) <= rep()["duration_ns"] / 1000 + 1, "times")
    slices = collections.Counter(f"{e['cat']} {e['name'].split(' ')[0]}" for e in events if e["ph"] == "X")
    check_slices(slices, {"op": sum(v for k, v in slices.items() if k.startswith("operator "))})
    threads = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            threads[e["tid"]].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)))
    for spans in threads.values():  # they nest: what begins inside ends inside
        open_ends = []
        for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            mt.check(not open_ends or end <= open_ends[-1], f"slices overlap: {begin} {end} {open_ends[-1:]}")
            open_ends.append(end)
    check_chrome_names(events, data["baseTimeNanoseconds"])
    packed = export("chrome", ".json.gz", "--ops")
    equal(gzip.decompress(packed.read_bytes()), export("chrome", ".json", "--ops").read_bytes(), "the .gz's content")


# --- profiles of the heap ------------------------------------------------------------------------

def report_ops():
    return {o["name"]: o for o in rep()["ops"]}


def test_pprof():
    need("go", "has the tool pprof")
    path = export("pprof", ".pb.gz")
    env = dict(os.environ, HOME=str(folder()), PPROF_TMPDIR=str(folder()))
    mt.check(path.read_bytes()[:2] == b"\x1f\x8b" and gzip.decompress(path.read_bytes())[:2] != b"\x1f\x8b", "gzip, once")
    plain = export("pprof", ".profile")
    equal(gzip.decompress(plain.read_bytes()), gzip.decompress(path.read_bytes()), "with another name, the content")

    def pprof(*args):
        done = subprocess.run(["go", "tool", "pprof", *args, path], capture_output=True, text=True, timeout=120, check=False,
                              env=env)
        mt.check(done.returncode == 0, done.stderr)
        return done.stdout

    def flat(index):
        text = pprof("-top", "-nodecount=0", "-nodefraction=0", "-unit=byte", f"-sample_index={index}")
        rows = [line.split(None, 5) for line in text.split("flat%", 1)[1].splitlines()[1:]]
        return {r[5]: int(r[0].rstrip("B")) for r in rows if int(r[0].rstrip("B"))}

    for index, field in (("at_peak", "at_peak"), ("alloc_bytes", "alloc_bytes"), ("live", "live")):
        seen = {k: v for k, v in flat(index).items() if k.startswith("aten::")}
        equal(seen, {k: o[field] for k, o in report_ops().items() if o[field]}, f"{index} by operator")
    equal(sum(flat("at_peak").values()), cpu()["peak"], "all at the peak")
    raw = pprof("-raw")
    mt.check("live/bytes at_peak/bytes" in raw and "Adam.step" in raw, raw[:500])
    tags = pprof("-tags", "-unit=byte", "-sample_index=live")
    for name, value in final_categories().items():
        mt.check(any(line.split()[0] == f"{value}.0B" and line.endswith(f": {name}") for line in tags.splitlines() if line),
                 f"label {name} {value}: {tags}")


def test_folded():
    lines = export("folded", "").read_text().splitlines()
    total, ops = 0, collections.Counter()
    for line in lines:
        stack, value = line.rsplit(" ", 1)
        total += int(value)
        ops[stack.split(";")[-1]] += int(value)
        mt.check(stack.startswith(f"process {rep()['target']['pid']} "), line)
    equal(total, cpu()["peak"], "all lines")
    equal({k: v for k, v in ops.items() if k.startswith("aten::")},
          {k: o["at_peak"] for k, o in report_ops().items() if o["at_peak"]}, "leaves")


# --- numbers -------------------------------------------------------------------------------------

OPENMETRICS = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print(json.dumps([[s.name, s.labels, s.value] for f in parse(open(sys.argv[1]).read()) for s in f.samples]))
"""


def test_openmetrics():
    path = export("openmetrics", ".txt")
    rows = python(OPENMETRICS, path)
    value = {(name, *sorted(labels.items())): v for name, labels, v in rows}
    equal(len(value), len(rows), "samples without doubles")
    pid = str(rep()["target"]["pid"])
    live = {dict(k[1:])["category"]: v for k, v in value.items() if k[0] == "memtrace_live_bytes" and ("pid", pid) in k}
    equal(live, final_categories(), "live bytes")
    peak = {dict(k[1:])["category"]: v for k, v in value.items() if k[0] == "memtrace_device_at_peak_bytes"}
    equal(peak, {name: c["at_peak"] for name, c in cpu()["categories"].items() if c["at_peak"]}, "bytes at the peak")
    for name, field in (("allocations_total", "allocs"), ("frees_total", "frees"), ("device_peak_bytes", "peak")):
        equal(value[f"memtrace_{name}", ("device", "cpu")], cpu()[field], name)
    for reason, count in rep()["lost"].items():
        equal(value["memtrace_lost_total", ("reason", reason)], count, f"lost by {reason}")
    for kind, count in rep()["events"].items():
        equal(value["memtrace_events_total", ("kind", kind)], count, f"events {kind}")
    last = {m["name"]: m for m in rep()["phases"]["markers"]}
    for name, mark in last.items():
        of = ("mark", name), ("pid", pid), ("rank", "")
        equal(value["memtrace_marks_total", *of], rep()["phases"]["marks"][name], f"marks {name}")
        equal(value["memtrace_mark_live_bytes", *of], mark["live"], f"live at {name}")
        equal(value["memtrace_mark_peak_bytes", *of], mark["peak"], f"peak until {name}")


def test_memory_at_marks():
    """By the births and deaths that jsonl has before each mark; steps, the last and the highest one are made of them."""
    sizes, live, high, told, steps_told, step = {}, 0, 0, [], [], {}
    with open(export("jsonl", "", "--ops")) as f:
        for row in map(json.loads, f):
            if row["ev"] in ("create", "preexisting") and row["size"] is not None:
                sizes[row["id"]] = row["size"]
                live += row["size"]
                high = max(high, live)
            elif row["ev"] == "destroy":
                live -= sizes.pop(row["id"], 0)
            elif row["ev"] == "mark":
                told.append((row["t"], row["mark"], live, high))
                step[row["mark"]] = {"t": row["t"], "live": live, "peak": high}
                high = live
                if row["mark"] == "step":
                    steps_told.append((row["step"], max(step.get(k, {}).get("peak", 0) for k in ("fw_bw_boundary", "step")), step))
                    step = {}
    equal(told, [(m["t"], m["name"], m["live"], m["peak"]) for m in rep()["phases"]["markers"]], "marks")
    # Steps are seen some tenths of a second before operators are, from which the other two marks follow.
    whole = list(itertools.dropwhile(lambda s: len(s[2]) < 3, steps_told[1:]))
    mt.check(len(whole) >= 5 and {len(s[2]) for s in whole} == {3}, f"steps: {steps_told}")
    rows = rep()["phases"]["steps"]
    equal(steps_told, [(s["number"], s["peak"], s["marks"]) for s in rows], "steps")
    equal([s["marks"]["step"]["t"] for s in rows[:-1]], [s["begin"] for s in rows[1:]], "begins of steps")
    highest = rep()["processes"][0]["highest_step"]  # of several as high one is chosen
    mt.check(highest in rows and highest["peak"] == max(s["peak"] for s in rows), f"the highest step: {highest}")
    text = mt.ok(mt.memtrace("report", recording(), "-v"), (0, 3)).stdout
    mt.check(re.search(rf"Steps: .*fw_start.*fw_bw_boundary.*\n +{highest['number']}, (highest|last) .*iB", text, re.S), text)


def test_openmetrics_in_prometheus():
    need("promtool", "Prometheus' own parser")
    done = subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", export("openmetrics", ".txt"),
                           folder() / "tsdb"], capture_output=True, text=True, timeout=60, check=False)
    mt.check(done.returncode == 0 and "BLOCK ULID" in done.stdout, done.stdout + done.stderr)


def test_sqlite():
    begin = time.monotonic()
    path = export("sqlite", ".db", "--ops")
    seconds = time.monotonic() - begin
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    def ask(sql):
        return db.execute(sql).fetchall()

    equal(ask("PRAGMA integrity_check"), [("ok",)], "the file")
    equal({k: v for k, v in ask("SELECT category, live FROM by_category WHERE device = 'cpu' AND live")},
          final_categories(), "by_category")
    equal(ask("SELECT sum(size), max(device) FROM peak_blocks"), [(cpu()["peak"], "cpu")], "peak_blocks")
    equal(ask("SELECT sum(size) FROM live_blocks")[0][0], cpu()["live"], "live_blocks")
    ops = {row[0]: row[1:] for row in ask("SELECT op, alloc_count, alloc_bytes, live, at_peak FROM by_op WHERE op NOT NULL")}
    equal(ops, {k: (o["alloc_count"], o["alloc_bytes"], o["live"], o["at_peak"]) for k, o in report_ops().items()
                if o["alloc_count"]}, "by_op")
    counts = dict(ask("SELECT text, count FROM ops JOIN names ON names.id = ops.name"))
    for name, o in report_ops().items():
        equal(counts.get(name, 0), o["count"], f"entries of {name}")
    equal(dict(ask("SELECT reason, count FROM losses")), rep()["lost"], "losses")
    equal(ask("SELECT count(*) FROM events WHERE kind = 'create'")[0][0], cpu()["allocs"], "births")
    last = dict(ask("SELECT category, bytes FROM category_series s WHERE t_ns = "
                    "(SELECT max(t_ns) FROM category_series WHERE category = s.category)"))
    equal(non_zero(last), final_categories(), "the last of usage")
    mt.check(ask("SELECT count(*) FROM regions WHERE kind = 'operator'")[0][0] > 1000, "operators' slices")
    equal(ask("SELECT count(*) FROM steps")[0][0], steps(), "steps")
    equal([tuple(v for v in row if v is not None) for row in ask("SELECT t_ns, name, step FROM marks")], markers(), "marks")
    rows = sum(ask(f"SELECT count(*) FROM {t}")[0][0] for t in ("blocks", "events", "regions"))
    mt.note(f"{rows} rows in {seconds:.2f} s with both passes, {path.stat().st_size} bytes")


# --- what goes wrong -----------------------------------------------------------------------------

STREAMS = ("torch-snapshot", "perfetto", "chrome", "pprof", "folded", "openmetrics")


def test_full_disk():
    for fmt in STREAMS:
        mt.expect_failure(mt.memtrace("export", recording(), "--to", fmt, "-o", "/dev/full"), 1, "No space left")
    with mt.scratch() as tmp:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", tmp], check=True)
        try:
            mt.expect_failure(mt.memtrace("export", recording(), "--to", "sqlite", "-o", tmp / "x.db"), 1, "No space left")
        finally:
            subprocess.run(["umount", tmp], check=True)


def test_streams():
    """To a pipe like to a file; a database is none."""
    for fmt in STREAMS[1:]:
        done = subprocess.run([mt.MEMTRACE, "export", recording(), "--to", fmt, "-o", "-"], capture_output=True, timeout=60,
                              check=False)
        mt.check(done.returncode in (0, 3), f"{fmt}: {done.stderr}")
        equal(done.stdout, export(fmt, "").read_bytes(), f"{fmt} on stdout")
    for out in ("-", str(folder() / "x.db.gz")):
        mt.expect_failure(mt.memtrace("export", recording(), "--to", "sqlite", "-o", out), 1, "stream", "-o")


def test_every_format_is_named():
    text = mt.ok(mt.memtrace("export", "--help")).stdout
    listed = mt.memtrace("export", recording(), "--to", "nothing", "-o", "/dev/null").stderr
    formats = re.findall(r"[a-z]+(?:-[a-z]+)*", listed.partition("there are:")[2])
    mt.check({*STREAMS, "sqlite", "html", "op-trace", "trace-svg"} <= set(formats), listed)
    for fmt in formats:
        mt.check(fmt in text, f"--help does not tell of {fmt}")
