# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""tools/python, and the per-operator trace that its MemoryTracker is made of."""
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import browser
import mt

SLOW = {"tracker_transformer", "tracker_conv", "without_numpy", "steps_with_pandas_and_matplotlib"}
LANDING = {"tracker", "pytest_plugin"}
TIMEOUT_S = {"pytest_plugin": 400, "tracker": 300}

PACKAGE = mt.ROOT / "tools" / "python"


def environment(**more):
    return dict(os.environ, PYTHONPATH=str(PACKAGE), MEMTRACE=mt.MEMTRACE, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", **more)


def python(script, *args, **kw):
    """Runs a script with torch and the package at hand: its stdout."""
    done = subprocess.run([mt.PYTHON, "-c", script, *map(str, args)], env=environment(), capture_output=True, text=True,
                          timeout=120, check=False, **kw)
    mt.check(done.returncode == 0, done.stderr[-3000:])
    return done.stdout


def tracked(tracker, model, folder):
    done = subprocess.run([mt.PYTHON, mt.JOBS / "tracked.py", "--tracker", tracker, "--model", model, "--folder", folder],
                          env=environment(), capture_output=True, text=True, timeout=120, check=False)
    mt.check(done.returncode == 0, done.stderr[-3000:])
    line = next(text for text in done.stdout.splitlines() if text.startswith("tracked "))
    return json.loads(line[len("tracked "):]), done.stdout


# Operators that neither allocate nor write nor make a view have no probe; a region is none to memtrace.
NOT_TRACED = {"_local_scalar_dense", "_record_function_enter_new", "_record_function_exit"}
# In a dispatch mode torch itself takes other ways: derivatives are added up out of place, and so on. What memtrace saw is
# what runs without one. (the seed's, ours, whether the seed's has one more block: its result)
OTHER_WAY = {("add", "add_"): True, ("scatter", "scatter_"): True, ("new_zeros", "zeros"): False, ("view", "_reshape_alias"): False}


def seed_names(names):
    """"0.forward.addmm.default_3" -> ("0.forward", "addmm")"""
    return [tuple(name.rsplit(".", 2)[:2]) for name in names]


def our_names(names):
    return [(name.rsplit(".", 1)[0], re.sub(r"_\d+$", "", name.rsplit(".", 1)[1])) for name in names]


def agree(model):
    """Torch's own class and ours, on the same steps of the same model: operators, their modules, their order, their bytes."""
    with mt.scratch() as tmp:
        seed, _ = tracked("seed", model, tmp)
        ours, said = tracked("memtrace", model, tmp)
        check_files(tmp, ours)
    a, b = seed_names(seed["names"]), our_names(ours["names"])
    kept = [i for i, (_, op) in enumerate(a) if op not in NOT_TRACED]
    mt.check(len(kept) == len(b) > 90, f"{len(kept)} operators, ours {len(b)}")
    equal = others = 0
    for i, k in enumerate(kept):
        mt.check(a[k][0] == b[i][0], f"{i}: in {a[k][0]}, ours in {b[i][0]}")
        want = seed["allocated"][k] - seed["allocated"][kept[0]]
        got = ours["allocated"][i] - ours["allocated"][0]
        if a[k][1] == b[i][1]:
            mt.check(want == got, f"{i} {a[k]}: {want} bytes, ours {got}")
            equal += 1
        else:
            is_more = OTHER_WAY.get((a[k][1], b[i][1]))
            mt.check(is_more is not None, f"{i}: {a[k][1]}, ours {b[i][1]}")
            mt.check(want > got if is_more else want == got, f"{i} {a[k]}, {b[i]}: {want} bytes, ours {got}")
            others += 1
    for name in ("fw_start", "fw_bw_boundary"):
        at = sum(k < seed["markers"][name] for k in kept)
        mt.check(at == ours["markers"][name] > 0, f"{name}: {at}, ours {ours['markers'][name]}")
    mt.note(f"{model}: {equal} of {len(b)} operators the same, in order, with the same bytes allocated after them; "
            f"{others} go another way in the seed's dispatch mode")
    mt.check(equal > 0.9 * len(b), f"only {equal}")
    mt.check("Top 3 ops that generates memory are:" in said, said)


def check_files(tmp, ours):
    """The picture is an SVG with all marks, the pickle is one that torch's class reads."""
    text = (tmp / "tracked.svg").read_text()
    xml.etree.ElementTree.fromstring(text.encode())
    mt.check("fw_start" in text and "fw_bw_boundary" in text, "markers")
    out = python("import sys\nfrom torch.distributed._tools.memory_tracker import MemoryTracker\nt = MemoryTracker()\n"
                 "t.load(sys.argv[1])\nprint(len(t.memories_allocated), t._markers['fw_start'])", tmp / "tracked.pickle")
    mt.check(out.split() == [str(len(ours["names"])), str(ours["markers"]["fw_start"])], out)


def test_tracker():
    agree("mlp")


def test_tracker_transformer():
    agree("transformer")


def test_tracker_conv():
    agree("conv")


# --- regions ------------------------------------------------------------------------------------------

REGIONS = """
import torch, memtrace
from torch import nn

class Odd(nn.Module):
    def forward(self, x):
        if x.sum() > 1e6:
            raise ValueError("too much")
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), Odd())

    def forward(self, x):
        return self.layers(x)

def seen(net, x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        try:
            net(x)
        except ValueError:
            pass
        with torch.autograd.profiler.record_function("after"):
            pass
    # [name, depth]: how many of the others it lies in
    rows = sorted((e for e in prof.events() if e.name.startswith("nn.Module#") or e.name == "after"),
                  key=lambda e: (e.time_range.start, -e.time_range.end))
    return [[e.name, sum(o.time_range.start <= e.time_range.start and o.time_range.end >= e.time_range.end for o in rows) - 1]
            for e in rows]

net = Net()
small, large = torch.ones(2, 4), torch.full((2, 4), 1e9)
with torch.no_grad():
    net.layers[0].weight.fill_(1)
want = [["nn.Module#(Net)", 0], ["nn.Module#layers", 1], ["nn.Module#layers.0", 2], ["nn.Module#layers.1", 2], ["after", 0]]
first = memtrace.annotate(net)
assert seen(net, small) == want, seen(net, small)
assert seen(net, large) == want, seen(net, large)     # an exception leaves nothing open
second = memtrace.annotate(net)
part = memtrace.annotate(net.layers)
assert seen(net, small) == want                       # no second region, no other name
first.remove()
first.remove()
assert seen(net, small) == want
second.remove()
assert seen(net, small) == [["nn.Module#layers", 0], ["nn.Module#layers.0", 1], ["nn.Module#layers.1", 1], ["after", 0]]
part.remove()
assert seen(net, small) == [["after", 0]]
assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
print("fine")
"""


def test_regions():
    mt.check(python(REGIONS) == "fine\n", "regions")


ANNOTATED = """
import sys, torch, memtrace
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
memtrace.annotate(net, "<net>&\\x1b[31m")
tracer = memtrace.Tracer(output=sys.argv[1])
for _ in range(5):
    memtrace.step()
    net(torch.randn(8, 32)).sum().backward()
tracer.stop()
"""


def test_memtrace_sees_regions_and_steps():
    with mt.scratch() as tmp:
        path = tmp / "a.mtr"
        python(ANNOTATED, path)
        rep = mt.report(path)
        rows = {r["name"]: r for r in rep["regions"]}
        mt.check(rows["nn.Module#0"]["count"] == 5 and rows["nn.Module#2"]["alloc_bytes"] >= 5 * 8 * 4 * 4, str(rows))
        steps = [r["step"] for r in mt.export(path) if r["ev"] == "step"]
        mt.check(steps == [1, 2, 3, 4, 5], str(steps))
        text = mt.ok(mt.memtrace("report", path, "-v")).stdout
        mt.check(", 5 steps (" in text, text[:300])
        check_trace(path, tmp)


def check_trace(path, tmp):
    """op-trace and trace-svg of it: live bytes after the last operator are those of the other exports at that moment."""
    mt.ok(mt.memtrace("export", path, "--to", "op-trace", "-o", tmp / "t.jsonl"))
    lines = [json.loads(line) for line in open(tmp / "t.jsonl")]
    ops = [line for line in lines if line["ev"] == "op"]
    mt.check([line["i"] for line in ops] == list(range(len(ops))) and lines[-1]["ev"] == "end", "order")
    mt.check(not lines[-1]["left_out"] and lines[-1]["totals"] is False, str(lines[-1]))
    marks = [line["name"] for line in lines if line["ev"] == "mark"]
    mt.check(marks == (["fw_start", "fw_bw_boundary", "step"] * 5)[:-1], str(marks))  # the fifth step did not end
    told = [(line["t"], line["name"], line.get("step")) for line in lines if line["ev"] == "mark"]
    rep = mt.report(path)["phases"]["markers"]
    mt.check(told == [(m["t"], m["name"], m.get("step")) for m in rep], f"not the report's: {told}, {rep}")
    for at, line in enumerate(lines):  # of the first operator of its forward, not behind it
        if line["ev"] == "mark" and line["name"] == "fw_start":
            first = next(other for other in lines[at:] if other["ev"] == "op")
            mt.check(first["phase"] == "forward" and first["depth"] == 0, str(first))
    phases = {line["phase"] for line in ops}
    mt.check(phases == {"other", "forward", "backward"}, str(phases))
    mt.check({line["phase"] for line in lines if line["ev"] == "node"} == {"backward"}, "nodes")
    blocks = mt.export(path)
    before = sum(r["size"] or 0 for r in blocks if r["ev"] == "preexisting")
    last = ops[-1]
    signs = {"create": 1, "destroy": -1}
    live = before + sum((r["size"] or 0) * signs[r["ev"]] for r in blocks if r["ev"] in signs and r["t"] < last["t"])
    mt.check(last["allocated"] == live, f"{last} of {live}")

    def drawn(*args):
        said = mt.ok(mt.memtrace("export", path, "--to", "trace-svg", "--force", "-o", tmp / "t.svg", *args)).stderr
        text = (tmp / "t.svg").read_text()
        root = xml.etree.ElementTree.fromstring(text.encode())
        kinds = [e.get("class") for e in root.iter("{http://www.w3.org/2000/svg}path")]
        return kinds.count("fw_bw_boundary") - 1, kinds.count("step") - 1, text, said  # without the legend's

    boundaries, steps, *_ = drawn("--from", "0s")
    mt.check((boundaries, steps) == (5, 4), f"{boundaries} {steps}")
    # Without a time: the step that has the peak, or the last whole one.
    at = json.loads(mt.ok(mt.memtrace("report", path, "--json", "--at", "peak")).stdout)["moment"]["step"]
    which = f"step {at or 4}"
    boundaries, steps, text, said = drawn()
    mt.check((boundaries, steps) == (1, 1) and f"MiB, at {which}<" in text.replace("KiB", "MiB"), f"{boundaries} {steps} {which} {text[:900]}")
    mt.check(f"a part of them: {which}, {'which has the peak' if at else 'the last whole one'}" in said and "--from 0s" in said, said)
    mt.check(drawn("--at", which)[2] == text, "not that step")


# --- recordings ---------------------------------------------------------------------------------------

TABLES = """
import json, sys
if "no" in sys.argv:
    sys.modules["numpy"] = None
import memtrace
r = memtrace.open(sys.argv[1])
blocks, series = r.blocks(), r.series()
if "no" in sys.argv:
    assert isinstance(blocks["size"], list)
else:
    import numpy
    assert blocks["size"].dtype in (numpy.int64, numpy.float64) and isinstance(series["total"], numpy.ndarray)
trace = r.op_trace()
print(json.dumps({"blocks": len(blocks), "peak": int(sum(r.blocks(peak=True)["size"])), "series_peak": int(max(series["total"])),
                  "ops": len(trace), "events": sum(1 for _ in r.events()), "marks": sorted(set(r.marks()["name"])),
                  "sql": int(r.sql("SELECT count(*) AS n FROM blocks WHERE id > ?", 0)["n"][0])}))
r.close()
try:
    memtrace.open("/nonexistent.mtr")
except memtrace.Error as e:
    assert "nonexistent" in str(e), e
else:
    raise SystemExit("no error")
"""


def tables(*words):
    with mt.scratch() as tmp:
        path = tmp / "a.mtr"
        python(ANNOTATED, path)
        got = json.loads(python(TABLES, path, *words))
        rep, rows = mt.report(path), mt.export(path)
        ops = sum(r["ev"] == "op" for r in mt.export(path, ("--ops",)))
    nodes = ops - got["ops"]
    mt.check(nodes > 0 and nodes % 5 == 0, f"{ops} frames, {got['ops']} operators")  # jsonl: backward nodes are operators, too
    cpu = rep["devices"]["cpu"]
    mt.check(got["peak"] == got["series_peak"] == cpu["peak"], f"{got} {cpu['peak']}")
    born = sum(r["ev"] in ("create", "preexisting") for r in rows)
    mt.check(got["blocks"] == got["sql"] == born and got["events"] == len(rows), f"{got} {born} {len(rows)}")
    mt.check(got["marks"] == ["fw_bw_boundary", "fw_start", "step"], str(got))


def test_tables():
    tables()


def test_without_numpy():
    tables("no")


EXTRAS = mt.ROOT / "tools" / "requirements-extras.txt"  # pandas, matplotlib


def extras():
    """A folder with what is only used where it is; from pip, once."""
    folder = mt.BUILD / "python-extras"
    if not (folder / "done").exists():
        done = subprocess.run([mt.PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target", folder,
                               "--no-deps", "--require-hashes", "--only-binary=:all:", "-r", EXTRAS], capture_output=True, text=True,
                              timeout=600, check=False)
        if done.returncode:
            raise mt.Skip(f"pip cannot install {EXTRAS.name} here: {done.stderr.strip().splitlines()[-1]}")
        (folder / "done").touch()
    return folder


# As docs/python.md has it, with steps, and zero_grad() where many loops have it.
STEPS = """
import os, sys, torch, memtrace
from memtrace import MemoryTracker
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
opt = torch.optim.Adam(net.parameters())
x = torch.randn(128, 64)
tracker = MemoryTracker(recording="x.mtr")
tracker.start_monitor(net)
for i in range(4):
    loss = net(x).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
tracker.stop()
assert [n for n, _ in tracker.marks] == ["fw_start", "fw_bw_boundary"] * 4, tracker.marks
assert len(tracker.steps) == 4 and tracker.steps[:3] == [at for n, at in tracker.marks[2::2]], tracker.steps
assert tracker.show_traces("t.svg") == "t.svg"
tracker.save_stats("stats.pickle")
again = MemoryTracker()
again.load("stats.pickle")
assert (again.marks, again.steps) == (tracker.marks, tracker.steps)
if "bare" in sys.argv:
    try:
        tracker.show_traces("t.png")
    except memtrace.Error as e:
        assert "needs matplotlib" in str(e) and not os.path.exists("t.png"), e
    else:
        raise SystemExit("a PNG without matplotlib?")
    assert os.path.exists(tracker.show_traces())
else:
    for name in "t.png", "t.pdf":
        assert again.show_traces(name) == name
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    assert again.show_traces() is None and len(plt.get_fignums()) == 4, plt.get_fignums()
    lines = plt.figure(1).axes[0].get_legend_handles_labels()[1]
    assert sorted(lines) == ["active_memory", "allocated_memory", "fw_bw_boundary", "fw_start", "reserved_memory", "step"], lines
with memtrace.open("x.mtr") as r:
    marks = list(r.marks())
    assert [m["name"] for m in marks] == ["fw_start", "fw_bw_boundary", "step"] * 4
    last = r.report["phases"]["steps"][-1]["marks"]
    for m in marks[-3:]:
        assert m["allocated"] == last[m["name"]]["live"], (m, last)
    assert marks[-1]["step"] == 4
    if "bare" not in sys.argv:
        for table in r.blocks(), r.blocks(peak=True), r.series(), r.names(), r.op_trace(), r.marks(), r.sql("SELECT 1 AS one"):
            frame = table.to_pandas()
            assert len(frame) == len(table) and list(frame.columns) == table.columns
        series = r.series().to_pandas()
        assert series["total"].max() == r.report["devices"]["cpu"]["peak"] == r.blocks(peak=True).to_pandas()["size"].sum()
"""


def steps_in(tmp, path, *words):
    env = environment()
    done = subprocess.run([mt.PYTHON, "-c", STEPS, *words], cwd=tmp, capture_output=True, text=True, timeout=180, check=False,
                          env=env | {"PYTHONPATH": os.pathsep.join(filter(None, (env.get("PYTHONPATH"), str(path))))})
    mt.check(done.returncode == 0, done.stderr[-3000:])
    text = (tmp / "t.svg").read_text()
    kinds = [e.get("class") for e in xml.etree.ElementTree.fromstring(text.encode()).iter("{http://www.w3.org/2000/svg}path")]
    mt.check([kinds.count(k) for k in ("fw_start", "fw_bw_boundary", "step")] == [4, 4, 4], str(kinds))


def test_steps_without_matplotlib():
    if not subprocess.run([mt.PYTHON, "-c", "import matplotlib"], capture_output=True, check=False).returncode:
        raise mt.Skip("this Python has matplotlib")
    with mt.scratch() as tmp:
        steps_in(tmp, "", "bare")


def test_steps_with_pandas_and_matplotlib():
    path = extras()
    with mt.scratch() as tmp:
        steps_in(tmp, path)
        mt.check((tmp / "t.png").read_bytes().startswith(b"\x89PNG\r\n") and (tmp / "t.pdf").read_bytes().startswith(b"%PDF"), "pictures")


# --- installing, rights, hostile files ------------------------------------------------------------------

def test_pip():
    """pip installs it from the checkout without a network."""
    with mt.scratch() as tmp:
        done = subprocess.run([mt.PYTHON, "-m", "pip", "install", "--no-index", "--quiet", "--disable-pip-version-check",
                               "--target", tmp / "site", PACKAGE], capture_output=True, text=True, timeout=120, check=False)
        mt.check(done.returncode == 0, done.stderr[-2000:])
        # The name "memtrace" is another project's.
        mt.check([p.name.split("-")[0] for p in (tmp / "site").glob("*.dist-info")] == ["memtrace_ebpf"], "the distribution's name")
        files = {p.name for p in (PACKAGE / "memtrace").glob("*.py")}
        mt.check(files == {p.name for p in (tmp / "site" / "memtrace").glob("*.py")}, "files")
        done = subprocess.run([sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import memtrace; "
                               "print(memtrace.__version__)", tmp / "site"], capture_output=True, text=True, check=True)
        version = subprocess.run([mt.MEMTRACE, "--version"], capture_output=True, text=True, check=True).stdout
        mt.check(done.stdout.strip() in version, f"{done.stdout} {version}")


def test_rights():
    """Without the rights to trace, the message says what is wanted."""
    script = "import memtrace\ntry:\n    memtrace.Tracer()\nexcept memtrace.Error as e:\n    print(e)\n"
    if not os.path.exists("/usr/bin/python3"):
        raise mt.Skip("no python that everybody may run")
    done = subprocess.run(["/usr/bin/python3", "-c", script], env=dict(environment(), PATH="/usr/bin:/bin"), capture_output=True, text=True,
                          user=65534, cwd="/", timeout=60, check=False)
    said = done.stdout + done.stderr
    mt.check("memtrace needs root" in said or "not found at" in said or "Permission denied" in said, said)
    done = subprocess.run([sys.executable, "-c", script], env=dict(environment(), MEMTRACE="/nonexistent"), capture_output=True,
                          text=True, check=True)
    mt.check("/nonexistent ($MEMTRACE)" in done.stdout, done.stdout)


def test_hostile_pickle():
    """load() makes nothing but numbers, texts and dicts."""
    with mt.scratch() as tmp:
        (tmp / "p").write_bytes(b"cos\nsystem\n(S'touch " + os.fsencode(tmp / "touched") + b"'\ntR.")
        script = "import memtrace, sys, pickle\ntry:\n    memtrace.MemoryTracker().load(sys.argv[1])\nexcept pickle.UnpicklingError as e:\n    print(e)\n"
        done = subprocess.run([sys.executable, "-c", script, tmp / "p"], env=environment(), capture_output=True, text=True, check=True)
        mt.check("os.system" in done.stdout and not pathlib.Path(tmp / "touched").exists(), done.stdout)


SUITE = """
import pytest
import torch

@pytest.mark.max_peak("64M")
def test_within():
    assert torch.ones(16 << 20 >> 2).sum() > 0

@pytest.mark.max_peak("64M")
def test_above():
    a = torch.ones(48 << 20 >> 2)
    b = a + 1
    assert b.sum() > a.sum()

@pytest.mark.max_peak("1M", category="parameter", device="cpu")
def test_other_category():
    assert torch.ones(16 << 20 >> 2).sum() > 0

@pytest.mark.max_peak("banana")
def test_no_size():
    assert torch.ones(4).sum() > 0

@pytest.mark.max_peak("1G")
def test_fails_itself():
    assert not torch.ones(4).sum()

def test_unmarked():
    torch.ones(48 << 20 >> 2) + torch.ones(48 << 20 >> 2)
"""


def test_pytest_plugin():
    """Marked tests alone are recorded; the one above its limit fails, and says by how much; without --memtrace none does."""
    if subprocess.run([mt.PYTHON, "-c", "import pytest"], capture_output=True, check=False).returncode:
        raise mt.Skip("needs pytest in build/venv: tools/make-venv parquet")
    with mt.scratch() as tmp:
        (tmp / "test_suite.py").write_text(SUITE)
        out = tmp / "out.xml"

        def run(*options):
            done = subprocess.run([mt.PYTHON, "-m", "pytest", "-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider", "--junitxml", out,
                                   "-q", *options, tmp / "test_suite.py"], env=environment(), capture_output=True, text=True, timeout=190,
                                  cwd=tmp, check=False)
            cases = out.exists() and list(xml.etree.ElementTree.parse(out).getroot().iter("testcase"))
            mt.check(cases, f"{done.stdout} {done.stderr}")
            return done, {c.get("name"): "".join(f.get("message", "") + (f.text or "") for f in c.findall("failure") + c.findall("error"))
                          for c in cases}

        _, plain = run()
        mt.check([name for name, wrong in plain.items() if wrong] == ["test_fails_itself"], f"without --memtrace: {plain}")
        done, said = run("--memtrace", "--memtrace-dir", tmp / "kept")
        mt.check([name for name, wrong in said.items() if wrong] == ["test_above", "test_no_size", "test_fails_itself"], f"{said}")
        mt.check("banana" in said["test_no_size"] and "pytest_plugin.py" not in said["test_no_size"], said["test_no_size"])
        mt.check("above the limit: cpu had 96.0 MiB" in said["test_above"] and "memtrace report" in said["test_above"], said["test_above"])
        mt.check("assert" in said["test_fails_itself"] and "limit" not in said["test_fails_itself"], said["test_fails_itself"])
        peaks = {line.rsplit("::", 1)[1]: line for line in done.stdout.splitlines() if " MiB of " in line}
        mt.check("96.00 MiB of 64.00 MiB  ABOVE" in peaks["test_above"] and "16.00 MiB of 64.00 MiB  ok" in peaks["test_within"], f"{peaks}")
        mt.check(set(peaks) == {"test_within", "test_above", "test_other_category"}, f"{peaks}")
        kept = sorted(p.name.split("_test_")[-1] for p in (tmp / "kept").iterdir())
        mt.check(kept == ["above.mtr", "fails_itself.mtr", "no_size.mtr", "other_category.mtr", "within.mtr"], f"kept: {kept}")


NOTEBOOK = """
import json, os, pathlib, sys
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
shell.display_formatter.active_types = shell.display_formatter.format_types  # as a notebook's kernel has it
out = []
def cell(text):
    with capture_output() as said:
        done = shell.run_cell(text, store_history=True)
    rich = [o.data for o in said.outputs]
    out.append({"ok": done.success, "said": said.stdout + said.stderr, "html": [d.get("text/html", "") for d in rich]})
    return done.result
folder = sys.argv[1]
defaults = pathlib.Path(folder, "memtrace", "config")  # which are for people: nothing here goes by them
defaults.parent.mkdir()
defaults.write_text("quiet = yes\\ncsv = yes\\nmax-overhead = 1\\n")
os.environ["XDG_CONFIG_HOME"] = folder
cell("%load_ext memtrace")
cell("import torch; torch.ones(4).sum()")
cell("%%memtrace\\nheld = torch.ones(32 << 20 >> 2) + 1\\nx = 7")
first = shell.user_ns["_"]
cell(f"%%memtrace -o {folder}/kept.mtr --stacks=python\\nmore = torch.ones(8 << 20 >> 2) * 3\\nraise KeyError('on purpose')")
cell("%%memtrace --no-such-option\\n1")
cell(f"%%memtrace --output={folder}/{folder}\\nran = True")
kept = cell(f"import memtrace; memtrace.open({folder + '/kept.mtr'!r})")
formatted = shell.display_formatter.format(first)[0]
json.dump({"cells": out, "x": shell.user_ns.get("x"), "ran": shell.user_ns.get("ran"), "first": formatted["text/html"], "text": formatted["text/plain"],
           "peak": first.report["devices"]["cpu"]["peak"], "kept": kept.report["devices"]["cpu"]["peak"],
           "stacks": len(kept.report["stacks"])}, sys.stdout)
"""


def need_ipython():
    if subprocess.run([mt.PYTHON, "-c", "import IPython"], capture_output=True, check=False).returncode:
        raise mt.Skip("needs IPython in build/venv: tools/make-venv agents")


def test_notebook():
    """%%memtrace in IPython: the cell runs in the notebook, what it held is in the recording, its error stays one."""
    need_ipython()
    with mt.scratch() as tmp:
        got = json.loads(python(NOTEBOOK, tmp))
        load, plain, first, failed, wrong, nowhere, opened = got["cells"]
        mt.check(load["ok"] and plain["ok"] and first["ok"] and opened["ok"] and got["x"] == 7, f"{got['cells']}")
        mt.check(got["peak"] >= 32 << 20 and 8 << 20 <= got["kept"] < 32 << 20 and got["stacks"], f"{got['peak']} {got['kept']}")
        mt.check("at its peak of" in got["first"] and "<svg" in got["first"] and got["text"].startswith("<Recording "), got["text"])
        mt.check(not failed["ok"] and "on purpose" in failed["said"] and "KeyError" in failed["said"], failed["said"])
        mt.check(any("at its peak of 16.0 MiB" in h for h in failed["html"]), f"{failed['html']}")
        mt.check(not wrong["ok"] and "no-such-option" in wrong["said"], wrong["said"])
        mt.check(not nowhere["ok"] and "cannot write" in nowhere["said"] and not got["ran"], f"a cell without a recording: {nowhere['said']}")
        mt.check((tmp / "kept.mtr").stat().st_size > 0, "-o")


CONTRAST = """(() => {
    const rgb = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = c => rgb(c).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = light(getComputedStyle(document.body).backgroundColor);
    const all = [...document.querySelectorAll("body *")].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
    return all.filter(e => !e.closest("title")).map(e => {
        const s = getComputedStyle(e), text = light(e.namespaceURI.endsWith("svg") ? s.fill : s.color);
        return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    });
})()"""


def test_recording_as_html():
    """In a browser, on a light and a dark ground: nothing in the console, all text is read, names are text."""
    sys.path.insert(0, str(PACKAGE))
    try:
        from memtrace import _notebook
    finally:
        sys.path.remove(str(PACKAGE))
    nasty = "<img src=x onerror=alert(1)>&"
    dev = {"peak": 3 << 20, "peak_ns": 2 * 10**9, "categories": {"ACTIVATION": {"at_peak": 2 << 20}, nasty: {"at_peak": 1 << 20},
                                                                 "INPUT": {"at_peak": 0}},
           "series": {"points": [[10**9 + i * 10**7, (i % 100) << 15, 0] for i in range(1000)]}}
    rep = {"start_ns": 10**9, "devices": {"cpu": dict(dev, peak=9 << 30), "cuda:0": dev},
           "verdict": [{"severity": "problem", "text": nasty, "next": nasty},
                       {"severity": "fact", "text": "ok", "next": "memtrace report FILE --leaks"}]}
    page = _notebook.html("a b.mtr", rep)
    mt.check("cuda:0 at its peak of 3.00 MiB" in page and "66.7 %" in page and "INPUT" not in page, page)
    mt.check("<img" not in page and page.count("&lt;img") == 3, page)
    mt.check("memtrace report &#x27;a b.mtr&#x27; --leaks" in page, page)
    points = len(page.split('stroke="#2b8cd9" d="')[1].split('"')[0].split("L"))
    mt.check(300 < points <= _notebook.COLUMNS, f"{points} points")
    mt.check("<svg" not in _notebook.html("a b.mtr", dict(rep, devices={})), "no device, no picture")
    with mt.scratch() as tmp:
        for ground, text in (("#ffffff", "#000000"), ("#111111", "#e0e0e0")):
            path = tmp / f"{text[1:]}.html"
            path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,"><body style="background:{ground};color:{text}">{page}')
            with browser.open(path, 420, 800) as shown:
                least = min(shown.js(CONTRAST))
                mt.check(least >= 4.5, f"contrast {least:.1f} on {ground}")
                mt.check(not shown.errors and shown.js("document.images.length") == 0, f"{shown.errors}")
                mt.check(shown.js("document.documentElement.scrollWidth") <= 420, "wider than a phone")
                mt.note(f"least contrast on {ground}: {least:.1f}")
