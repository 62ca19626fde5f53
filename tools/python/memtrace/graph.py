# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""FX and AOTAutograd graphs as the JSON that `memtrace estimate` reads (docs/estimate.md).

    python -m memtrace.graph train:make -o graph.json                 as it is on the CPU
    python -m memtrace.graph train:make --device cuda:0 -o graph.json as if everything were on a GPU

`train:make` is a function of the module train (found in the current directory, too) that returns (model, arguments): the
arguments are a tuple of tensors, or of whatever the model takes. The model is traced by AOTAutograd with fake tensors: nothing is
computed, no memory is taken, and no GPU is needed. In a program:

    import memtrace.graph
    memtrace.graph.write("graph.json", memtrace.graph.trace(model, args))
    memtrace.graph.write("graph.json", {"joint": any_fx_graph})       graphs of your own, with meta["val"]

A storage is written once, whatever views of it there are, and has one number in all graphs of a document: so what the backward
graph was given by the forward graph is known to be the same memory.
"""
import argparse
import importlib
import json
import os
import sys

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map_only

FORMAT, VERSION = "memtrace-graph", 1


# --- graphs of a model ------------------------------------------------------------------------------


def trace(model, args, train=True, partition=None):
    """{"forward": graph, "backward": graph}, or {"forward": graph} with train=False or where nothing needs a gradient.

    `partition` is a partition function of functorch: what the forward graph keeps for the backward graph (default
    default_partition, which keeps what eager autograd would; min_cut_rematerialization_partition is torch.compile's).
    """
    from functorch.compile import aot_function, default_partition, make_boxed_func

    found = {}

    def keep(name):
        def compiler(module, _inputs):
            found[name] = module.graph
            return make_boxed_func(module.forward)
        return compiler

    how = {"fw_compiler": keep("forward"), "bw_compiler": keep("backward"), "partition_fn": partition or default_partition}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    memo = {}

    def fake(tensor):
        """The same one for the same tensor: tied weights stay tied."""
        if id(tensor) not in memo:
            memo[id(tensor)] = tensor, tensor if isinstance(tensor, FakeTensor) else mode.from_tensor(tensor)
        return memo[id(tensor)][1]

    tensors = {}
    if isinstance(model, torch.nn.Module):
        tensors = dict(model.named_parameters()) | dict(model.named_buffers())

    def call(own, *inputs):
        return torch.func.functional_call(model, own, inputs) if own else model(*inputs)

    with torch.set_grad_enabled(train):
        own, args = tree_map_only(torch.Tensor, fake, (tensors, tuple(args)))
        with mode:
            outs = []
            tree_map_only(torch.Tensor, outs.append, aot_function(call, **how)(own, *args))
            outs = [o for o in outs if o.requires_grad]
            if train and outs:
                torch.autograd.backward(outs, [torch.ones_like(o) for o in outs])
    return found


def move(graphs, device):
    """Says of every fake tensor of the graphs that it is on this device: sizes stay what they are."""
    device = torch.device(device)
    if device.type != "cpu" and device.index is None:
        device = torch.device(device.type, 0)

    def put(tensor):
        tensor.fake_device = device

    for graph in _graphs(graphs).values():
        for node in graph.nodes:
            tree_map_only(FakeTensor, put, node.meta.get("val"))


# --- a document --------------------------------------------------------------------------------------


def _graphs(graphs):
    if isinstance(graphs, (torch.fx.Graph, torch.fx.GraphModule)):
        graphs = {"graph": graphs}
    return {name: getattr(g, "graph", g) if isinstance(g, torch.fx.GraphModule) else g for name, g in graphs.items()}


def _bytes(storage):
    """As torch's estimator counts: a symbolic size is what the trace was made with."""
    from torch.fx.experimental.symbolic_shapes import optimization_hint

    return int(optimization_hint(storage.nbytes()))


def _target(node):
    if isinstance(node.target, str) or hasattr(node.target, "_schema"):
        return str(node.target)  # an OpOverload's is aten.mm.default, its __name__ mm.default
    return getattr(node.target, "__name__", str(node.target))


class _Storages:
    """(storage, device) → number, as torch's StorageKey tells them apart."""

    def __init__(self):
        self.numbers = {}
        self.devices = []
        self.rows = []  # [number of the device, bytes]

    def of(self, node):
        numbers = []

        def add(tensor):
            storage = tensor.untyped_storage()
            key = (storage._cdata, tensor.device)
            if key not in self.numbers:
                self.numbers[key] = len(self.rows)
                device = str(tensor.device)
                if device not in self.devices:
                    self.devices.append(device)
                self.rows.append([self.devices.index(device), _bytes(storage)])
            if self.numbers[key] not in numbers:
                numbers.append(self.numbers[key])

        tree_map_only(FakeTensor, add, node.meta.get("val"))
        return numbers


def document(graphs, schedules=None):
    """The document as a dict. graphs: a graph, or {name: graph}; schedules: {name: nodes in another order}."""
    storages = _Storages()
    out = []
    for name, graph in _graphs(graphs).items():
        index = {node: i for i, node in enumerate(graph.nodes)}
        row = {"name": name, "nodes": [{
            "name": node.name, "op": node.op, "target": _target(node),
            "inputs": [index[n] for n in node.all_input_nodes], "outputs": storages.of(node)} for node in graph.nodes]}
        if schedules and name in schedules:
            row["schedule"] = [index[n] for n in schedules[name]]
        out.append(row)
    return {"format": FORMAT, "version": VERSION, "torch": torch.__version__, "devices": storages.devices, "graphs": out,
            "storages": storages.rows}


def write(path, graphs, schedules=None):
    """The document to a file, a node a line; "-" is stdout."""
    doc = document(graphs, schedules)

    def dumps(value):
        return json.dumps(value, separators=(",", ":"))

    def rows(values):
        return ",\n".join(map(dumps, values))

    with sys.stdout if path == "-" else open(path, "w", encoding="utf-8") as f:
        head = {k: doc[k] for k in ("format", "version", "torch", "devices")}
        f.write(dumps(head)[:-1] + ',\n"graphs":[\n')
        for i, g in enumerate(doc["graphs"]):
            f.write((",\n" if i else "") + f'{{"name":{dumps(g["name"])},"nodes":[\n{rows(g["nodes"])}\n]')
            if "schedule" in g:
                f.write(f',\n"schedule":{dumps(g["schedule"])}')
            f.write("}")
        f.write(f'\n],\n"storages":[\n{rows(doc["storages"])}\n]}}\n')


# --- command line --------------------------------------------------------------------------------------


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m memtrace.graph", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("make", metavar="MODULE:FUNCTION", help="returns (model, arguments)")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="default -, stdout")
    parser.add_argument("--device", help="write every tensor as if on this device, for example cuda:0")
    parser.add_argument("--inference", action="store_true", help="the forward graph alone, without gradients")
    parser.add_argument("--min-cut", action="store_true", help="partition as torch.compile does, with recomputation")
    opts = parser.parse_args(argv)
    module, _, function = opts.make.partition(":")
    if not function:
        parser.error(f"'{opts.make}' is not MODULE:FUNCTION")
    sys.path.insert(0, os.getcwd())
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as e:
        parser.error(f"{opts.make}: {e}")
    model, args = make()
    partition = None
    if opts.min_cut:
        from functorch.compile import min_cut_rematerialization_partition as partition
    graphs = trace(model, args if isinstance(args, tuple) else (args,), not opts.inference, partition)
    if opts.device:
        move(graphs, opts.device)
    write(opts.output, graphs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
