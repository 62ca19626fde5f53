# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Where operators' tensors are, against two truths that share nothing with memtrace.

The compiler: targets/truth_callconv.cpp makes a function of each operator's type out of PyTorch's own
headers and notes in which register or stack word each tensor arrives. torch itself: the schema
objects of torch._C._jit_get_all_schemas() say what is written, viewed and optional.
"""
import json
import pathlib
import re
import struct
import subprocess

import mt

SLOW = {"the_plan_has_every_operator_with_its_tensors"}

FORMS = ["none", "tensor", "optional", "list", "ilist", "list of optional", "vector"]
REGISTERS = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"]
CLASSES = 12  # exported subclasses of TensorImpl, itself included
NODE_APPLIES = 700  # 718 in torch 2.13

SCHEMAS = """
import json, torch

rows = []
for s in torch._C._jit_get_all_schemas():
    if s.name.startswith("aten::"):
        key = s.name[6:] + ("_" + s.overload_name if s.overload_name else "")
        rows.append([key, [[a.name, str(a.type), a.alias_info is not None,
                            bool(a.alias_info and a.alias_info.is_write)] for a in s.arguments],
                     [[str(r.type), r.alias_info is not None] for r in s.returns]])
print(json.dumps(rows))
"""


def torch_dir():
    done = subprocess.run([mt.PYTHON, "-c", "import torch; print(torch.__path__[0])"],
                          capture_output=True, text=True, check=True)
    return pathlib.Path(done.stdout.strip())


def compiled_truth(torch):
    """X → {index: (form, where)}, by the compiler."""
    out = mt.BUILD / "e2e" / "callconv"
    out.mkdir(parents=True, exist_ok=True)
    names = set()
    for header in (torch / "include" / "ATen" / "ops").glob("*_ops.h"):
        names.update(re.findall(r"struct TORCH_API (\w+) \{", header.read_text()))
    if not names:
        raise mt.Skip("this torch has no headers")
    (out / "ops.inc").write_text("".join(f"OP({n})\n" for n in sorted(names)))
    subprocess.run(["g++", "-std=c++20", "-O1", "-w", "-I", out, "-I", torch / "include",
                    mt.TARGETS / "truth_callconv.cpp", "-o", out / "truth", "-L", torch / "lib", "-lc10",
                    "-ltorch_cpu", f"-Wl,-rpath,{torch / 'lib'}"], check=True)
    text = subprocess.run([out / "truth"], capture_output=True, text=True, check=True).stdout
    mt.check("!" not in text, "a list's two words are not neighbours: the truth cannot be told like this")
    return parse(text)


def parse(text):
    rows = {}
    for line in text.splitlines():
        name, *args = line.split(" ")
        rows[name] = {int(i): (int(f), int(w)) for i, f, w in (a.split(":") for a in args)}
    return rows


def op_at(path):
    """file offset of each at::_ops::X::call → X"""
    with open(path, "rb") as f:
        elf = f.read()
    shoff, = struct.unpack_from("<Q", elf, 0x28)
    shentsize, shnum = struct.unpack_from("<HH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, shoff + i * shentsize) for i in range(shnum)]
    dynsym = next(s for s in sections if s[1] == 11)
    strings = sections[dynsym[6]][4]
    found = {}
    for name, _, _, shndx, value, _ in struct.iter_unpack("<IBBHQQ", elf[dynsym[4]:dynsym[4] + dynsym[5]]):
        at = strings + name
        if shndx and elf.startswith(b"_ZN2at4_ops", at):
            m = re.match(r"_ZN2at4_ops(\d+)(\w+)", elf[at:elf.index(b"\0", at)].decode())
            n = int(m[1])
            if m[2][n:].startswith("4callE"):
                s = sections[shndx]
                found[value - s[3] + s[4]] = m[2][:n]
    return found


def plan(*args):
    job = mt.shared_job("mlp")
    return json.loads(mt.ok(mt.memtrace("plan", "-p", job.pid, "--json", *args)).stdout)


def sites_of(shown):
    p = shown["processes"][0] if "processes" in shown else shown[0] if isinstance(shown, list) else shown
    return p, [s for s in p["sites"] if s["source"] == "flow"]


# What native_functions.yaml calls the weights of a layer, fused layers and recurrent ones among them.
WEIGHTS = {"weight", "bias", "params", "w_ih", "w_hh", "b_ih", "b_hh", *(f"weight{i}" for i in range(5)), "qkv_weight", "qkv_bias",
           "proj_weight", "proj_bias", *(f"{part}_{kind}_{i}" for part in ("norm", "ffn") for kind in ("weight", "bias")
                                         for i in (1, 2))}


def wanted_flags(arg):
    name, kind, is_alias, is_written = arg
    flags = {"written"} if is_written else {"alias"} if is_alias else set()
    if "Optional" not in kind:
        flags.add("required")
    if name in WEIGHTS:
        flags.add("weight")
    if name in ("running_mean", "running_var"):
        flags.add("running")
    return flags


def test_every_operators_tensors_are_where_the_compiler_puts_them():
    torch = torch_dir()
    library = torch / "lib" / "libtorch_cpu.so"
    truth = compiled_truth(torch)
    say = mt.compile_c("say_callconv", "-D_GNU_SOURCE", "-I", mt.ROOT / "user", str(mt.BUILD / "libmemtrace.a"),
                       "-lbpf", "-lelf", "-lZydis", "-lzstd", "-ljansson", "-lxxhash", "-lz", "-l:libsupc++.a")
    text = subprocess.run([say, library, "std"], capture_output=True, text=True, check=True).stdout
    mt.check("!" not in text, "refused: " + ", ".join(x for x in text.splitlines() if "!" in x)[:500])
    said = parse(text)
    wrong = [x for x in truth if said.get(x) != truth[x]]
    mt.check(set(said) == set(truth), f"operators of one side only: {sorted(set(said) ^ set(truth))[:10]}")
    mt.check(not wrong, f"{len(wrong)} of {len(truth)} differ: "
             + "; ".join(f"{x}: {said[x]}, compiler {truth[x]}" for x in wrong[:5]))
    mt.check(len(truth) > 2500, f"{len(truth)} operators only")
    mt.note(f"{len(truth)} operators, {sum(map(len, truth.values()))} tensor-like parameters, all where they should be")


def test_the_plan_has_every_operator_with_its_tensors():
    torch = torch_dir()
    truth = compiled_truth(torch)
    rows = json.loads(subprocess.run([mt.PYTHON, "-c", SCHEMAS], capture_output=True, text=True,
                                     check=True).stdout)
    schemas = {}
    for key, args, rets in rows:
        schemas.setdefault(key, []).append((args, rets))
    names = op_at(torch / "lib" / "libtorch_cpu.so")
    shown, sites = sites_of(plan("--probes", "flow,views", "--all"))
    planned = {}
    for s in sites:
        if s["program"] == "flow_op":
            mt.check(s["library"] == "libtorch_cpu.so", f"an operator in {s['library']}")
            planned[names[s["offset"] - s["skipped"]]] = s["tensors"]
    for x, tensors in planned.items():
        got = {t["index"]: (FORMS.index(t["form"]), REGISTERS.index(t["register"]) if "register" in t
                            else 16 + t["stack_word"]) for t in tensors}
        mt.check(got == truth[x], f"{x}: {got}, compiler {truth[x]}")
        mt.check(any(all(set(t["flags"]) == wanted_flags(args[t["index"]]) for t in tensors)
                     for args, _ in schemas[x] if len(args) > max(got, default=-1)),
                 f"{x}: {tensors}, torch has {schemas[x]}")
    for x in set(truth) - set(planned):  # left out: neither returns a tensor nor writes one
        mt.check(any(not any(a[3] for a in args) and not any("Tensor" in r[0] for r in rets)
                     for args, rets in schemas[x]), f"{x} is not in the plan: {schemas[x]}")
    mt.check(len(planned) + shown["ops_left_out"] == len(truth),
             f"{len(planned)} planned, {shown['ops_left_out']} left out, {len(truth)} there are")
    mt.note(f"{len(planned)} operators planned, {shown['ops_left_out']} left out")


def test_the_plan_has_applies_classes_and_regions():
    shown, sites = sites_of(plan("--probes", "flow", "--all"))
    programs = [s["program"] for s in sites]
    mt.check(programs.count("flow_acc") == 1, f"{programs.count('flow_acc')} AccumulateGrad")
    mt.check(programs.count("flow_boxed") == 1, f"{programs.count('flow_boxed')} places where boxed calls go")
    mt.check(not {"region_begin", "region_end"} & set(programs), "regions are told by boxed calls, and by others")
    mt.check(programs.count("flow_apply") >= NODE_APPLIES, f"{programs.count('flow_apply')} node applies")
    mt.check("AddmmBackward0" in {s["symbol"] for s in sites if s["program"] == "flow_apply"}, "no AddmmBackward0")
    flow = shown["flow"]
    mt.check(flow["layout"] and flow["tensor_classes"] >= CLASSES and flow["unread"] == 0, f"{flow}")
    sources = {s["source"]: s for s in shown["sources"]}
    mt.check("regions" in sources and "ops" not in sources and "views" not in sources, f"{sources}")
    planned = len(sites) - programs.count("lookup")  # … of schemas is beside them
    mt.check(sources["flow"]["wanted"] == sources["flow"]["found"] == planned, f"{sources['flow']}, {planned} sites")
    mt.note(f"{programs.count('flow_apply')} node applies, {flow['specs']} distinct specs, "
            f"{flow['tensor_classes']} tensor classes, layout of {flow['layout']}")
