#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Runs the cases of seed_cases.py under torch.profiler and writes what its memory profiler made of each
window, in the words of PyTorch's test/profiler/test_memory_profiler.py.

    seed_oracle.py OUT

Output: {case: {window: {…}}} with, a window:

    flow        lines of the data-flow table
    between     {number of the node: ids of its intermediates}, nodes that have none left out
    schemas     [operator, [written, or null where no schema says], …]
    gradients   [storage's pointer] of what was taken for a gradient
    table       lines of the categories of what operators were given and made; null without such a mode
    facts       {name: [category of each version]}
    inputs      whether anything at all is an INPUT
    timeline    [[action, bytes]]
"""
import json
import sys

import torch
from torch._C._profiler import _EventType, _TensorMetadata
from torch.profiler import _memory_profiler, _utils
from torch.profiler._memory_profiler import SchemaMatcher, TensorKey
from torch.utils import _pytree as pytree

import seed_cases
import seed_watch


def name_of(category):
    return category.name if category else "???"


def flow_lines(memory, facts):
    graph = memory._data_flow_graph
    ids = {key.storage.ptr: key.id for key in graph._active_version}
    lines = [f"{name + ':':<{9 if name.endswith('.grad') else 8}} T{ids.get(ptr, '-')}"
             for name, ptr, _, _ in facts] + [""]
    between = {}
    for number, node in enumerate(graph.flow_nodes):
        gone = {k for k, v in node._edges.items() if v.is_deletion}
        given = [f"T{k.id}(v{v}{'*' if k in gone else ''})" for k, (_, v) in node.inputs.items()]
        made = [f"T{k.id}(v{v})" for k, v in node.outputs.items()]
        if node.intermediates:
            between[number] = [k.id for k in node.intermediates]
        if given or made:
            name = node._event.name.replace("torch::autograd::", "")
            lines.append(f"{name:<25} {', '.join(given):<15}  ->  {', '.join(made)}".rstrip())
    return lines, between


def schema_rows(prof):
    rows = []
    for node in _utils.traverse_dfs(prof.profiler.kineto_results.experimental_event_tree()):
        if node.tag == _EventType.TorchOp:
            fields = node.extra_fields
            schemas = SchemaMatcher.match_schemas(fields)
            name = node.name + ("." + schemas[0].overload_name if len(schemas) == 1 else "")
            rows.append([name, list(SchemaMatcher.inputs_are_mutable(fields))])
    return rows


def gradients(prof):
    return sorted({key.storage.ptr for node in
                   _utils.traverse_dfs(prof.profiler.kineto_results.experimental_event_tree())
                   for _, key in _memory_profiler.extract_gradients(node)})


def table_lines(memory, calls):
    snapshot = memory._category_snapshot()
    keys = {}
    for op in memory._op_tree.dfs():
        if op.typed[0] == _EventType.TorchOp:
            for t in pytree.tree_leaves(op.typed[1].inputs):
                key = TensorKey.from_tensor(t) if isinstance(t, _TensorMetadata) else None
                if key:
                    keys[t.impl_ptr, t.storage_data_ptr] = key

    def word(pair):
        key = keys.get(pair)
        if key is None:
            return "???"
        found = [name_of(c) for (k, _), c in snapshot.items() if k == key]
        different = [c for i, c in enumerate(found) if not i or c != found[i - 1]]
        return f"{key.storage.allocation_id} ({','.join(different)})"

    lines = []
    for _, name, given, made in calls:
        if given is None:
            lines.append(f"-- {name}")
        else:
            lines.append(f"{name:<40} {', '.join(map(word, given)):<45} -> {', '.join(map(word, made))}".rstrip())
    return lines


def fact_rows(memory, facts):
    snapshot = memory._category_snapshot()
    rows = {}
    for name, ptr, _, _ in facts:
        ids = {key.storage.allocation_id for key, _ in snapshot if key.storage.ptr == ptr}
        rows[name] = [name_of(c) for (key, _), c in snapshot.items() if key.storage.allocation_id == max(ids | {-1})]
    return rows


def answer(prof, win):
    memory = prof._memory_profile()
    lines, between = flow_lines(memory, win.facts)
    return {
        "flow": lines, "between": between, "schemas": schema_rows(prof), "gradients": gradients(prof),
        "table": table_lines(memory, win.calls) if win.calls is not None else None,
        "facts": fact_rows(memory, win.facts), "fact_ptrs": {name: ptr for name, ptr, _, _ in win.facts},
        "inputs": _memory_profiler.Category.INPUT in memory._category_snapshot().values(),
        "timeline": [[action.name, size] for _, action, _, size in memory.timeline],
    }


class Profiled:
    """The context of a window: a profiler, kept for the end of the case."""

    def __init__(self, win):
        self.prof = win.prof = torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True)

    def __enter__(self):
        self.prof.__enter__()

    def __exit__(self, *args):
        self.prof.__exit__(*args)


def main():
    seed_watch.warm_up()
    answers = {}
    for name in seed_cases.CASES:
        watch = seed_watch.Watch(Profiled)
        seed_cases.run(name, watch)
        answers[name] = {win.name: answer(win.prof, win) for win in watch.windows}
    with open(sys.argv[1], "w") as f:
        json.dump(answers, f, indent=1)


if __name__ == "__main__":
    main()
