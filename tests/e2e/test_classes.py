# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The extended classes, held to what jobs say of their own memory (jobs/categories_classes.py).

Exact sets: at each moment of which the job told, the blocks that live then and whose last word is a class
are those storages that the job named for it, not one more or less.
"""

import mt
import test_categories

SLOW = {"ddp_gradients_are_views", "fsdp_gathers", "lbfgs_history", "gan_states", "two_threads", "adam_by_hand", "decay_by_hand",
        "optimizer_by_hand_in_backward", "optimizer_by_hand_after_nodes", "image"}
LANDING = {"compiled_optimizer", "inference_only", "numpy_batches", "sparse_gradients", "sparse_gradients_accumulated", "tensor_parallel",
           "sharded", "loader_workers", "two_tensors", "awaited"}

PROBES = "framework,flow,regions,kernel"
PYTHONS_WORD = {"inference", "held", "compiled_optimizer", "tensor_parallel", "sharded", "two_tensors", "awaited"}  # these are about what only that tells


def record(model, tmp, probes=PROBES):
    """(the job's document, its blocks as the extended export tells them)."""
    doc, mtr = test_categories.trace("categories_classes", model, tmp, probes, *(["--waits"] if model in PYTHONS_WORD else []))
    mt.check(mt.lost(mt.report(mtr)) == 0, "events were lost")
    return doc, test_categories.seen_blocks(mt.export(mtr, ("--classes", "extended")), doc["pid"], "cpu")


def exact(model, classes, moments_min=3, probes=PROBES):
    """Every class of `classes` must be told by the job at least once, with something in it."""
    with mt.scratch() as tmp:
        doc, seen = record(model, tmp, probes)
    mt.check(len(doc["moments"]) >= moments_min, f"{len(doc['moments'])} moments")
    told = {}
    wrong = []
    for number, (t, truth) in enumerate(doc["moments"]):
        alive = test_categories.alive_at(seen, t)
        for name, pointers in truth.items():
            ours = {ptr for ptr, s in alive.items() if test_categories.word_at(s, t) == name}
            told[name] = told.get(name, 0) + len(pointers)
            for ptr in ours ^ set(pointers):
                if name in ("INPUT", "ACTIVATION") and ptr in ours:
                    continue  # the job names some of them, not all
                s = alive.get(ptr)
                wrong.append(f"moment {number}: {ptr:#x} "
                             + (f"({s.size} B, {s.op}, {s.region}) is {test_categories.word_at(s, t)}" if s else
                                "is not there") + (f", not {name}" if ptr in pointers else ""))
    mt.note(f"{model}: " + ", ".join(f"{n} {c}" for n, c in sorted(told.items())))
    mt.check(not wrong, f"{len(wrong)} wrong: " + "; ".join(wrong[:12]))
    for name in classes:
        mt.check(told.get(name), f"{model} never told of {name}")
    return seen


def test_buffers_and_frozen():
    seen = exact("buffers", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "FROZEN", "BUFFER"))
    optimizer_arithmetic(seen)


def optimizer_arithmetic(seen):
    """What is born in a step and gone in the next is nothing but TEMPORARY there."""
    wrong = [f"{s.size} B of {s.op}: {s.final}" for s in seen
             if (s.region or "").startswith("Optimizer.step#") and s.birth > -test_categories.NEVER
             and s.end < test_categories.NEVER and s.final not in ("TEMPORARY", "OPTIMIZER_STATE")]
    born = sum((s.region or "").startswith("Optimizer.step#") for s in seen)
    mt.check(born > 50, f"{born} blocks born in the optimizer")
    mt.check(not wrong, f"{len(wrong)} of {born}: " + "; ".join(wrong[:8]))


def test_loader():
    exact("loader", ("DATALOADER", "BUFFER"))


def test_loader_workers():
    exact("workers", ("DATALOADER", "BUFFER"))


def test_numpy_batches():
    seen = exact("numpy_batches", ("INPUT", "ACTIVATION", "PARAMETER"))
    batches = [s for s in seen if s.birth == -test_categories.NEVER and s.final == "INPUT"]
    stale = sum(s.size for s in batches if s.end == test_categories.NEVER)
    mt.note(f"{len(batches)} batches met, {stale} B of them never ended")
    mt.check(len(batches) > 350, f"{len(batches)} of 400 batches were met")
    mt.check(stale < 30e6, f"{stale} B of {sum(s.size for s in batches)} never ended")


def test_ddp_buckets():
    exact("ddp", ("COMMUNICATION", "GRADIENT", "PARAMETER"))


def test_ddp_gradients_are_views():
    exact("ddp_view", ("COMMUNICATION", "PARAMETER"))


def test_fsdp_gathers():
    exact("fsdp", ("UNSHARDED", "PARAMETER", "GRADIENT"))


def test_lbfgs_history():
    exact("lbfgs", ("OPTIMIZER_STATE", "ACTIVATION"))


def test_adam_by_hand():
    exact("adam_by_hand", ("OPTIMIZER_STATE", "PARAMETER"))


def test_decay_by_hand():
    exact("decay_by_hand", ("OPTIMIZER_STATE", "PARAMETER", "GRADIENT", "BUFFER"))


def test_gan_states():
    exact("gan", ("OPTIMIZER_STATE", "BUFFER"))


def test_gradient_accumulation():
    exact("accumulate", ("OPTIMIZER_STATE", "GRADIENT"))


def test_inference_only():
    exact("inference", ("PARAMETER", "BUFFER"))


def test_image():
    exact("image", ("ACTIVATION", "PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "FROZEN"))


def test_graph_net():
    exact("graph_net", ("ACTIVATION", "PARAMETER", "GRADIENT", "OPTIMIZER_STATE"))


def test_optimizer_in_backward():
    exact("steps_in_backward", ("OPTIMIZER_STATE", "PARAMETER", "INPUT", "ACTIVATION"))


def test_optimizer_by_hand_in_backward():
    exact("steps_by_hand_in_backward", ("OPTIMIZER_STATE", "PARAMETER", "INPUT", "ACTIVATION"))


def test_optimizer_by_hand_after_nodes():
    exact("steps_by_hand_after_nodes", ("OPTIMIZER_STATE", "PARAMETER", "INPUT", "ACTIVATION"))


def test_decoder():
    # views: its last result is only reshaped before it is handed out
    exact("decode", ("PARAMETER", "INPUT", "ACTIVATION"), probes=PROBES + ",views")


def test_two_threads():
    exact("two_threads", ("OPTIMIZER_STATE", "GRADIENT", "PARAMETER"))


def test_held():
    """What no operator is given: Python's word alone says that it is there (docs/names.md)."""
    exact("held", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "FROZEN", "BUFFER"))


def test_compiled_optimizer():
    exact("compiled_optimizer", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "FROZEN", "BUFFER"))


def test_sparse_gradients():
    exact("sparse", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE"))


def test_sparse_gradients_accumulated():
    exact("sparse_accumulated", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE"))


def test_tensor_parallel():
    exact("tensor_parallel", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE"))


def test_sharded():
    exact("sharded", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE"))


def test_two_tensors():
    """Of a tensor without memory of its own it is those that it wraps: by their attributes, as its class has a __tensor_flatten__."""
    exact("two_tensors", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "FROZEN"))


def test_awaited():
    """AsyncCollectiveTensors have theirs in a slot."""
    exact("awaited", ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "FROZEN", "BUFFER"))
