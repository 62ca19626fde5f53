# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What a job says of its memory (tests/e2e/jobs/word.py) against what memtrace said of it at the same moments, in both directions.

    recall      of the bytes that the job lists for a class, those that memtrace calls so
    precision   of the bytes that memtrace calls so, those that the job lists

A storage is the same when pointer and size are. Final labels are the last word on a block (export --labels final: also what was
found when it was gone); live ones what had been told at that moment, without hindsight. Of several moments the worst counts.
"""
import collections

import test_categories as cats

CLASSES = ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE")
# Class: the job's words for it, and memtrace's. The extended view tells frozen parameters apart where their argument has a name, and
# calls the others BUFFER (docs/categories.md): together they are what the job keeps and does not train.
COMPAT = {name: ((name,), {name}) for name in CLASSES}
EXTENDED = {**COMPAT, "PARAMETER": (("TRAINED",), {"PARAMETER"}), "BUFFER": (("BUFFER",), {"BUFFER"}),
            "KEPT": (("BUFFER", "FROZEN"), {"BUFFER", "FROZEN"})}
SAVED = {"ACTIVATION", "INPUT", "DATALOADER"}  # what autograd saves beside parameters and buffers


class Result:
    def __init__(self):
        self.low = {}  # (class, "final" | "live", "recall" | "precision"): the worst moment's share
        self.bytes = collections.Counter()  # class: the most that the job said
        self.odd = []  # (bytes, in words) of each block that is not in both
        self.moments = 0

    def add(self, key, right, of):
        self.low[key] = min(self.low.get(key, 1.0), right / of if of else 1.0)

    def worst(self, labels):
        return min(share for (name, way, _), share in self.low.items() if way == labels and name in CLASSES)

    def differences(self, count=8):
        return [text for _, text in sorted(self.odd, key=lambda o: -o[0])[:count]]


def told(block, word):
    return f"{block.size} B of {block.op}, {block.region}, {word}"


def by_key(res, listed, ours, way):
    """Optimizer state key by key: a whole key's state may be small."""
    keys = collections.defaultdict(list)
    for ptr, size, what in listed:
        keys[what.split(" of ")[0]].append((size, ptr in ours and ours[ptr].size == size))
    for key, states in keys.items():
        res.add((f"OPTIMIZER_STATE.{key}", way, "recall"), sum(size for size, right in states if right), sum(s for s, _ in states))


def both_ways(res, name, listed, labels, blocks, way, word, where):
    """One class at one moment; word: block → its label."""
    ours = {ptr: s for ptr, s in blocks.items() if word(s) in labels}
    size_of = {ptr: size for ptr, size, _ in listed}
    right = sum(s.size for ptr, s in ours.items() if size_of.get(ptr) == s.size)
    res.add((name, way, "recall"), right, sum(size_of.values()))
    res.add((name, way, "precision"), right, sum(s.size for s in ours.values()))
    res.bytes[name] = max(res.bytes[name], sum(size_of.values()))
    if name == "OPTIMIZER_STATE":
        by_key(res, listed, ours, way)
    for ptr, size, what in listed:
        if ptr not in ours or ours[ptr].size != size:
            s = blocks.get(ptr)
            res.odd.append((size, f"{where}, {way}: {name} {what}, {size} B, is " + (told(s, word(s)) if s else "not there")))
    res.odd += [(s.size, f"{where}, {way}: not so for the job: {told(s, name)}")
                for ptr, s in ours.items() if ptr not in size_of]


def kept_for_backward(res, said, blocks, word, where):
    """Of what autograd has saved, in one direction: a program keeps other results, too."""
    known = {ptr for name in ("PARAMETER", "BUFFER") for ptr, _, _ in said[name]}
    saved = [row for row in said["SAVED"] if row[0] not in known]
    right = [row for row in saved if row[0] in blocks and word(blocks[row[0]]) in SAVED]
    res.add(("SAVED", "final", "recall"), sum(row[1] for row in right), sum(row[1] for row in saved))
    res.bytes["SAVED"] = max(res.bytes["SAVED"], sum(row[1] for row in saved))
    for row in saved:
        if row not in right:
            s = blocks.get(row[0])
            res.odd.append((row[1], f"{where}: saved {row[2]}, {row[1]} B, is " + (told(s, word(s)) if s else "not there")))


def listed_as(said, names):
    frozen = {ptr for ptr, _, _ in said["FROZEN"]}
    said = {**said, "TRAINED": [row for row in said["PARAMETER"] if row[0] not in frozen]}
    return list({row[0]: row for name in names for row in said[name]}.values())


def compare(moments, finals, lives, first_live, view=COMPAT):
    """moments: [(epoch ns, number of the step, kind, {class: [[pointer, bytes, name], …]})]; blocks of an export with final
    labels, and of one with live ones: these count from step first_live on."""
    res = Result()
    for t, number, kind, said in moments:
        final, live = (lambda s, t=t: cats.word_at(s, t)), (lambda s, t=t: cats.live_word_at(s, t))
        blocks, where = cats.alive_at(finals, t), f"step {number}, {kind}"
        res.moments += 1
        for name, (words, labels) in view.items():
            listed = listed_as(said, words)
            if name == "GRADIENT" and kind != "step":
                continue  # between two backward passes the job may hold some: told of at the step
            both_ways(res, name, listed, labels, blocks, "final", final, where)
            if number >= first_live:
                both_ways(res, name, listed, labels, cats.alive_at(lives, t), "live", live, where)
        if "SAVED" in said:
            kept_for_backward(res, said, blocks, final, where)
    return res
