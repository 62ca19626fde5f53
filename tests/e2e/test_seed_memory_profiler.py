# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""PyTorch's test/profiler/test_memory_profiler.py from outside: its models run in an ordinary process
(jobs/seed_job.py) while memtrace watches, and what memtrace made of them is compared with what that
test expects (seed_tables.py). tests/SEEDS.md lists the tests one by one.

Each expectation is held against torch's own profiler, too (jobs/seed_oracle.py, a process of its own): an
expected table that the installed torch does not make would prove nothing.

Two processes never use the same addresses, so tensors are compared by number (first seen, first numbered,
as torch.profiler does), and named ones by what their process says of them: a block is the one that
lives at a pointer at a time.
"""
import collections
import functools
import json
import struct

import mt
import seed_tables

# Whoever is first waits for the answers of torch.profiler to all of them.
TIMEOUT_S = {"extract_gradients_low_level": 400}
NEVER = float("inf")
NAMED = {"???": "unknown"}
EDGES = ("inputs", "outputs", "intermediates")


@functools.cache
def oracle():
    """{case: {window: answer}} of torch.profiler."""
    with mt.scratch() as tmp:
        out = tmp / "oracle.json"
        with mt.job("seed_oracle", out, ready=False) as job:
            mt.check(job.wait(380) == 0, "\n".join(job.err))
        return json.loads(out.read_text())


# --- what memtrace saw -------------------------------------------------------------------------------------

class Block:
    def __init__(self, row):
        self.id, self.ptr, self.first = row["id"], int(row["ptr"], 16), row["t"]
        self.birth = row["t"] if row["ev"] == "create" else -NEVER
        self.end = NEVER
        self.categories = []  # the last word on each version
        self.is_tensor = False  # an operator was given it; torch.profiler leaves others out of its graph

    def add(self, row):
        if row["ev"] == "destroy":
            self.end = row["t"]
        elif row["version"] >= len(self.categories):
            self.categories.append(row["cat"])


class Window:
    """A window's own records, and the job's word on it."""

    def __init__(self, doc, rows, blocks):
        self.name, self.begin, self.end, self.calls = doc["name"], doc["begin"], doc["end"], doc["calls"]
        self.rows = [r for r in rows if self.begin <= r["t"] <= self.end]
        # versions are counted from the attach on; in a window from its begin, as a profiler of the window would
        self.older = collections.Counter(r["id"] for r in rows if r["ev"] == "version" and r["t"] < self.begin)
        self._blocks = blocks
        self.facts = {name: (ptr, when) for name, ptr, _, when in doc["facts"]}
        self.sizes = {name: size for name, _, size, _ in doc["facts"]}

    def at(self, ptr, when):
        """The block that lives there then; None: none that memtrace knows."""
        found = [b for b in self._blocks.values() if b.ptr == ptr and b.birth <= when < b.end]
        mt.check(len(found) <= 1, f"{len(found)} blocks live at 0x{ptr:x} at the same time")
        return found[0] if found else None

    def fact(self, name):
        return self.at(*self.facts[name])

    def alive(self):
        """Blocks whose life touches the window."""
        return [b for b in self._blocks.values() if b.birth <= self.end and b.end >= self.begin]


class Seen:
    """A case's recording. windows: {name: Window}."""

    def __init__(self, rows, docs, rep, pid):
        rows = [r for r in rows if r.get("pid") == pid]
        blocks = {}
        for r in rows:
            if r["ev"] in ("preexisting", "create", "version", "destroy"):
                blocks.setdefault(r["id"], Block(r)).add(r)
        for edge in (e for r in rows if r["ev"] == "node" for k in EDGES for e in r[k]):
            blocks[edge["id"]].is_tensor = True
        self.report = rep
        self.windows = {d["name"]: Window(d, rows, blocks) for d in docs}


_cases_run = 0
_job_pid = None


@functools.cache
def seen(case):
    """Builds the case in the job, attaches, lets it run, detaches."""
    global _cases_run, _job_pid
    job = mt.shared_job("seed_job")
    if job.pid != _job_pid:
        _job_pid, _cases_run = job.pid, 0
    n = _cases_run
    _cases_run += 1
    with mt.scratch() as tmp:
        mtr = tmp / "case.mtr"
        job.tell(case)
        job.line(f"built {n}")
        with mt.start("record", "-p", str(job.pid), "--probes", "framework,flow,views,regions", "-o", str(mtr)) as tracer:
            mt.wait_until(lambda: any("recording: " in t for t in tracer.err) or not tracer.alive(),
                          "memtrace to record", 60)
            mt.check(tracer.alive(), "; ".join(tracer.err))
            job.tell("go")
            docs = json.loads(job.line(f"ran {n} ").split(maxsplit=2)[2])
            mt.finish(tracer, mtr)
        rep = mt.report(mtr)
        mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
        return Seen(mt.export(mtr, ("--ops",)), docs, rep, job.pid)


def same(got, wanted, what):
    mt.check(got == wanted, f"{what}\nexpected\n{wanted}\ngot\n{got}")


# --- what categories need ---------------------------------------------------------------------------------

def test_config_check():
    """Without the sources that categories follow from, memtrace says which ones: before it attaches where that is
    known by then, else when the recording is asked for them."""
    job = mt.shared_job("mlp")
    needed = "--probes framework,flow,regions"
    for probes in ("flow", "flow,regions,kernel"):
        mt.expect_failure(mt.memtrace("record", "-p", job.pid, "-o", "no.mtr", "--probes", probes), 2, "framework", needed)
    mt.expect_failure(mt.memtrace("-p", job.pid, "--by", "category", "--probes", "framework,ops"), 2, "flow", needed)
    with mt.scratch() as tmp:
        mtr = tmp / "ops.mtr"
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", "0.3", "--probes", "framework,ops", "-o", mtr), (0, 3))
        for asked in (("--by", "category"), ("--flow",), ("--flow", "--json")):
            mt.expect_failure(mt.memtrace("report", mtr, *asked), 1, "no data flow", "framework,flow,regions")
        mt.ok(mt.memtrace("report", mtr, "-v"), (0, 3))
        mtr = tmp / "flow.mtr"
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", "1", "--probes", "framework,flow", "--force", "-o", mtr), (0, 3))
        for asked in (("--by", "category"), ("--flow",), ("--flow", "--json")):
            text = mt.ok(mt.memtrace("report", mtr, *asked), (0, 3)).stdout
            mt.check("PARAMETER" in text and "GRADIENT" in text, f"{asked}: {text[:2000]}")


# --- gradients ----------------------------------------------------------------------------------------------

def check_gradients(case):
    """The blocks of each window that are GRADIENT are those that were some tensor's .grad, no more, no fewer."""
    for window in seen(case).windows.values():
        told = {name: window.fact(name) for name in window.facts if ".grad" in name}
        for name, block in told.items():
            mt.check(block, f"{window.name}: memtrace knows no block at {name}")
        got = {b.id for b in window.alive() if "GRADIENT" in b.categories}
        wanted = {b.id for b in told.values()}
        mt.check(got == wanted, f"{case}, {window.name}: {len(got - wanted)} blocks wrongly GRADIENT, "
                 f"{len(wanted - got)} not: {[n for n, b in told.items() if b.id not in got]}")
        for name, block in told.items():
            same(set(block.categories), {"GRADIENT"}, f"{case}, {window.name}: versions of {name}")


def check_oracle_gradients(case):
    """torch.profiler finds these gradients, too, and no others (where it is not misled by what it remembers)."""
    for name, answer in oracle()[case].items():
        facts = {ptr for fact, ptr in answer["fact_ptrs"].items() if fact.endswith(".grad")}
        mt.check(facts and facts <= set(answer["gradients"]), f"{case}, {name}: torch.profiler misses gradients")


def gradients(case):
    check_oracle_gradients(case)
    check_gradients(case)


def test_extract_gradients_low_level():
    gradients("test_extract_gradients_low_level")


def test_extract_gradients_from_module():
    gradients("test_extract_gradients_from_module")


def test_extract_gradients_from_optimizer():
    gradients("test_extract_gradients_from_optimizer")


def test_extract_gradients_from_optimizer_set_to_none():
    gradients("test_extract_gradients_from_optimizer_set_to_none")


def test_extract_gradients_from_module_and_optimizer():
    gradients("test_extract_gradients_from_module_and_optimizer")


def test_gradients_from_before_the_attach():
    """torch.profiler reads a module's .grad; from outside, a gradient that nothing touches is not to be seen."""
    check_oracle_gradients("gradients_from_before")
    window = seen("gradients_from_before").windows["forward alone"]
    for name in window.facts:
        block = window.fact(name)
        mt.check(not block or block.first > window.end, f"{name} was met in the window: where?")
    same([b for b in window.alive() if "GRADIENT" in b.categories], [], "gradients out of nothing")


# --- schemas -------------------------------------------------------------------------------------------------

@functools.cache
def functions_of(path):
    """{file offset: symbol} of a library's own at::_ops functions."""
    with open(path, "rb") as f:
        def part(at, size):
            f.seek(at)
            return f.read(size)
        head = part(0, 64)
        shoff, = struct.unpack_from("<Q", head, 0x28)
        size, count = struct.unpack_from("<HH", head, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", part(shoff + i * size, size)) for i in range(count)]
        symbols = next(s for s in sections if s[1] == 11)
        strings = part(sections[symbols[6]][4], sections[symbols[6]][5])
        found = {}
        for name, _, _, at, value, _ in struct.iter_unpack("<IBBHQQ", part(symbols[4], symbols[5])):
            if 0 < at < count and strings.startswith(b"_ZN2at4_ops", name):
                text = strings[name:strings.index(b"\0", name)].decode()
                found.setdefault(value - sections[at][3] + sections[at][4], text)
        return found


def op_of(symbol):
    """fill__Scalar of _ZN2at4_ops12fill__Scalar4callERNS_6TensorERKN3c106ScalarE."""
    rest = symbol[len("_ZN2at4_ops"):]
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return rest[digits:digits + int(rest[:digits])]


@functools.cache
def planned():
    """{operator: its tensor arguments}, from memtrace plan; by the ELF's own name of the probed function."""
    job = mt.shared_job("seed_job")
    plan = json.loads(mt.ok(mt.memtrace("plan", "-p", job.pid, "--probes", "framework,flow,views", "--json")).stdout)
    found = {}
    for site in plan["processes"][0]["sites"]:
        if site["program"] == "flow_op":
            name = functions_of(site["path"]).get(site["offset"] - site["skipped"])
            mt.check(name, f"no function begins at the site of {site['symbol']}")
            found[op_of(name)] = site["tensors"]
    return found


def is_op(name):
    return name.startswith("aten::")


def schemas(case):
    """Operators that ran, in order, and which of their arguments each writes."""
    wanted = seed_tables.SCHEMAS[case]
    same([[n, list(flags)] for n, flags in wanted], oracle()[case]["calls"]["schemas"], f"torch.profiler's {case}")
    window = seen(case).windows["calls"]
    # that profiler tells a node twice, and of the detach in AccumulateGrad once as an operator and once as its
    # record; memtrace tells of each once
    names = [n.rpartition(".")[0] if is_op(n) else n for n, flags in wanted if flags and n != "detach"]
    same([r["op"] for r in window.rows if r["ev"] == "op"], names, f"{case}: what ran")
    for name, flags in wanted:
        if not is_op(name):
            continue
        key = name[len("aten::"):].rstrip(".").replace(".", "_")
        tensors = planned()[key]
        written = [i in {t["index"] for t in tensors if "written" in t["flags"]} for i in range(len(flags))]
        same(written, list(flags), f"{case}: what {name} writes")
        mt.check(all(t["index"] < len(flags) for t in tensors), f"{name} has no argument {tensors}")


def test_match_schemas():
    schemas("test_match_schemas")


def test_match_schemas_backward():
    schemas("test_match_schemas_backward")


def test_match_schemas_tensorlist():
    schemas("test_match_schemas_tensorlist")


# --- data flow -----------------------------------------------------------------------------------------------

class Numbers:
    """T0, T1 …: a window's tensors in the order in which they are first seen there, and their versions."""

    def __init__(self, window):
        order = []
        for r in window.rows:
            if r["ev"] == "create":
                order.append((r["t"], r["id"]))
            elif r["ev"] == "node":
                order += [(r["t"], e["id"]) for e in r["inputs"]]
        blocks = {b.id: b for b in window.alive()}
        # equal times: inputs of one node, in its own order
        ids = dict.fromkeys(i for _, i in sorted(order, key=lambda x: x[0]) if blocks[i].is_tensor)
        self.of = {block: n for n, block in enumerate(ids)}
        self._older = window.older

    def edges(self, row, what):
        return sorted((self.of[e["id"]], e["version"] - self._older[e["id"]]) for e in row[what])


def flow_text(window):
    """The table that torch's test makes of its profiler's graph, from memtrace's nodes."""
    numbers = Numbers(window)
    lines, between = [], {}
    for name in window.facts:
        label = f"{name + ':':<{9 if name.endswith('.grad') else 8}}"
        lines.append(f"{label} T{numbers.of[window.fact(name).id]}")
    lines.append("")
    nodes = sorted((r for r in window.rows if r["ev"] == "node"), key=lambda r: r["t"])
    nodes = [r for r in nodes if any(numbers.edges(r, k) for k in EDGES)]
    for n, r in enumerate(nodes):
        name = (r["op"] or "[memory]").replace("torch::autograd::", "")
        gone = {i for i, _ in numbers.edges(r, "deleted")}
        inputs = [f"T{i}(v{v}{'*' if i in gone else ''})" for i, v in numbers.edges(r, "inputs")]
        outputs = [f"T{i}(v{v})" for i, v in numbers.edges(r, "outputs")]
        if r["intermediates"]:
            between[n] = (name, [i for i, _ in numbers.edges(r, "intermediates")])
        if inputs or outputs:
            lines.append(f"{name:<25} {', '.join(inputs):<15}  ->  {', '.join(outputs)}".rstrip())
    return "\n".join(lines), between


def flow(case):
    for number, wanted in enumerate(seed_tables.FLOW[case]):
        answer = oracle()[case][str(number)]
        same("\n".join(answer["flow"]), wanted, f"torch.profiler's {case}")
        text, between = flow_text(seen(case).windows[str(number)])
        same(text, wanted, case)
        same({str(n): ids for n, (_, ids) in between.items() if ids}, answer["between"],
             f"{case}: tensors that were born and died in a node")
        for (name, node), inter in seed_tables.BETWEEN.items():
            if name == case:
                same(between.get(node), inter, f"{case}: node {node}")


def test_data_flow_graph_with_annotations():
    flow("test_data_flow_graph_with_annotations")


def test_data_flow_graph_non_op_allocations():
    flow("test_data_flow_graph_non_op_allocations")


def test_data_flow_graph_simple():
    flow("test_data_flow_graph_simple")


def test_data_flow_graph_simple_inplace():
    flow("test_data_flow_graph_simple_inplace")


def test_data_flow_graph_simple_backward():
    flow("test_data_flow_graph_simple_backward")


def test_data_flow_graph_complicated():
    flow("test_data_flow_graph_complicated")


# --- categories of named tensors -------------------------------------------------------------------------------

def facts(case, differs=()):
    """Every version of every named tensor is what torch.profiler says, but for {name: memtrace's word}."""
    differs = dict(differs)
    for name, window in seen(case).windows.items():
        answer = oracle()[case][name]
        mt.check(window.facts, f"{case} names no tensor")
        for fact in window.facts:
            theirs = {NAMED.get(c, c) for c in answer["facts"][fact]} or {"unknown"}
            block = window.fact(fact)
            ours = set(block.categories) if block else {"unknown"}
            if fact in differs:
                mt.check(theirs != differs[fact], f"{case}, {name}: {fact} is {theirs} for torch.profiler, too")
                theirs = differs[fact]
            same(ours, theirs, f"{case}, {name}: {fact}")


def parameters(case):
    """What the test expects: parameters are PARAMETER and their gradients GRADIENT, in each window."""
    for name, answer in oracle()[case].items():
        for fact, cats in answer["facts"].items():
            wanted = "GRADIENT" if fact.endswith(".grad") else "PARAMETER"
            same(set(cats), {wanted}, f"torch.profiler's {case}, {name}: {fact}")
    facts(case)


def test_parameters_and_gradients():
    parameters("test_parameters_and_gradients")


def test_parameters_before_any_backward():
    """A parameter that is no weight or bias of an operator is one from its first backward pass on, in hindsight:
    test_parameters_and_gradients. Without one it is something used together with parameters, an input."""
    facts("parameters_forward_alone", {"1.scale": {"INPUT"}, "3.scale": {"INPUT"}})


def test_parameters_and_gradients_set_to_none():
    parameters("test_parameters_and_gradients_set_to_none")


def test_lazily_initialized():
    parameters("test_lazily_initialized")


def test_manual_optimizer_step():
    parameters("test_manual_optimizer_step")


def snapshot(case, theirs, ours):
    """Whether any block at all is INPUT: the look at the whole snapshot that the text ends with."""
    for name, window in seen(case).windows.items():
        same(oracle()[case][name]["inputs"], theirs, f"torch.profiler's {case}, {name}: INPUT in its snapshot")
        same(any(r.get("cat") == "INPUT" for r in window.rows), ours, f"{case}, {name}: a block that is INPUT")


def test_inputs_fwd():
    facts("test_inputs_fwd")
    snapshot("test_inputs_fwd", True, True)  # the text expects False


def test_inputs_fwd_lazy():
    """torch.profiler looked at the modules before they had weights, and knows nothing then. An operator's `weight`
    that is used again and again is a parameter to memtrace, so what meets it is an input."""
    facts("test_inputs_fwd_lazy", {f"x{i}": {"INPUT"} for i in range(4)})
    snapshot("test_inputs_fwd_lazy", False, True)


def test_inputs_fwd_bwd():
    facts("test_inputs_fwd_bwd")
    snapshot("test_inputs_fwd_bwd", True, True)
    for cats in oracle()["test_inputs_fwd_bwd"]["steps"]["facts"].values():
        same(set(cats), {"INPUT"}, "torch.profiler's inputs")


# --- categories of what operators were given and made ------------------------------------------------------------

def call_numbers(window):
    """1, 2 …: blocks in the order in which they are first seen in the window, tensors or not."""
    first = {}
    for r in window.rows:
        if r["ev"] in ("create", "preexisting"):
            first.setdefault(r["id"], len(first) + 1)
    return first


def words_of(text):
    return [w.strip() for w in text.split(", ")] if text.strip() else []


def table(case, wanted):
    """Row by row. Where torch.profiler has no word for what an operator made, because that very tensor was given
    to no other operator, memtrace has its storage's: that of the tensor it is a view of, else unknown."""
    same("\n".join(oracle()[case]["table"]["table"]), wanted, f"torch.profiler's {case}")
    window = seen(case).windows["table"]
    numbers = call_numbers(window)
    marks = [line[3:] for line in wanted.split("\n") if line.startswith("-- ")]
    same([name for _, name, given, _ in window.calls if given is None], marks, f"{case}: regions")

    def word(pair, when):
        block = window.at(pair[1], when)
        if not block:
            return "???"
        cats = [c if c != "unknown" else "???" for c in block.categories]
        different = [c for i, c in enumerate(cats) if not i or c != cats[i - 1]]
        return f"{numbers[block.id]} ({','.join(different)})"

    rows = [line.rstrip() for line in wanted.split("\n") if not line.startswith("-- ")]
    calls = [c for c in window.calls if c[2] is not None]
    same(len(calls), len(rows), f"{case}: operators")
    lines = []
    for row, (when, name, given, made) in zip(rows, calls):
        ins, outs = [word(p, when) for p in given], [word(p, when) for p in made]
        views = {p[1] for p in given}
        for i, (theirs, pair) in enumerate(zip(words_of(row.rpartition(" -> ")[2]), made)):
            if theirs == "???" and (pair[1] in views or outs[i].endswith("(???)")):
                outs[i] = "???"
        lines.append(f"{name:<40} {', '.join(ins):<45} -> {', '.join(outs)}".rstrip())
    same("\n".join(lines), "\n".join(rows), case)


def expected(case):
    return seed_tables.NOW.get(case, seed_tables.CATEGORIES[case])


def test_categories_e2e_simple_fwd():
    table("test_categories_e2e_simple_fwd", expected("test_categories_e2e_simple_fwd"))


def test_categories_e2e_simple_module_fwd():
    table("test_categories_e2e_simple_module_fwd", expected("test_categories_e2e_simple_module_fwd"))


def test_categories_e2e_simple_module_fwd_bwd():
    table("test_categories_e2e_simple_module_fwd_bwd", expected("test_categories_e2e_simple_module_fwd_bwd"))


def test_categories_e2e_sequential_fwd():
    """What the model returns is given to one operator, a detach that the noting mode makes torch call, boxed.
    Without that mode nobody is given it, and torch.profiler does not know it either."""
    table("test_categories_e2e_sequential_fwd", expected("test_categories_e2e_sequential_fwd"))
    facts("sequential_without_mode")


def test_categories_sequential_fwd_bwd():
    case = "categories_sequential_fwd_bwd"
    table(case, "\n".join(oracle()[case]["table"]["table"]))


# --- timeline ------------------------------------------------------------------------------------------------

def timeline_of(case):
    return [(r["ev"].upper(), r["size"]) for r in seen(case).windows["allocations"].rows
            if r["ev"] in ("preexisting", "create", "version", "destroy")]


def test_memory_timeline_no_id():
    """The free of a block older than the observer is seen, of unknown size unless an operator was given it."""
    case = "test_memory_timeline_no_id"
    same([tuple(e) for e in oracle()[case]["allocations"]["timeline"]], seed_tables.TIMELINE, "torch.profiler's")
    same(timeline_of(case), [("PREEXISTING", None), ("DESTROY", None), *seed_tables.TIMELINE], case)
    same(timeline_of("memory_timeline_met"), seed_tables.TIMELINE_CUDA, "with the old block met before")
