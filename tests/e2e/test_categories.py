# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace's categories against torch.profiler's memory profiler, in the same process on the same steps.

memtrace follows a job from outside, attached in mid-run some steps before the window; the job itself runs
the window under the profiler and writes what that decided (jobs/categories.py). A block is the same
in both when pointer and size are equal and the births nearest; a block older than the window when it is
the one that lives at that pointer as the window begins, and not smaller (of those the profiler knows the largest view alone).

Measured is byte·time: size × the time in the window that a block spends with a category. "Known" is the
agreement where the profiler names a category, the promise; "all" counts its blocks without one too (it
must be unknown then in memtrace as well). Two labels of memtrace are measured:

    final   the last word: of the block where that is PARAMETER, OPTIMIZER_STATE, GRADIENT or TEMPORARY, which
            are a block's whole life long (in the profiler, too), else the last word on each version
    live    what had been told at that moment, without hindsight. Lower bounds where nobody can know better:
            a gradient is AUTOGRAD_DETAIL until AccumulateGrad takes it, a TEMPORARY something else
            until it is freed

The time is the profiler's: it and memtrace look at the clock one after the other, and on a busy machine
the thread may lose its CPU for milliseconds in between. So versions of a block that was born in the window
are compared by their number, not by when they began. How far the lives differ is a figure of its own
("apart": bytes times births between which only one of both says that the block is alive), the median difference
of the births taken out. A block of the profiler's that memtrace has not is "no block", never left out.

What the profiler cannot know is not compared: blocks older than its window that no operator of the
window touches. Blocks born in the window must be the same in number, and so must the frees.
"""
import bisect
import collections
import json

import mt
import tables

# make check has time for eleven, check-landing for one more; make check-agreement runs all.
SLOW = {"transformer_checkpointing", "transformer_lengths", "lstm", "gan", "vae_custom_function", "compiled",
        "custom_ops", "ddp", "ema_batch_norm", "eval_between_steps", "tied_weights", "double_backward",
        "lbfgs_where_the_profiler_is_wrong", "attached_at_any_moment", "transformer_fused",
        "transformer_autocast", "sgd_by_hand", "lora", "dataloader", "workspace"}
LANDING = {"same_without_views"}
ALONE = {"*"}  # births and frees are compared with a profiler's in the job: whoever waits for a CPU in between shows

KNOWN_MIN = 0.999
LIVE_MIN = 0.98
APART_MAX = 0.001
NEAR_NS = 5_000_000  # two clocks of one birth, where the order of births does not tell
FAR_NS = 100_000_000  # … and where it does
NO_BLOCK, UNKNOWN = "no block", "unknown"
NEVER = float("inf")
WHOLE_LIFE = {"PARAMETER", "OPTIMIZER_STATE", "GRADIENT", "TEMPORARY",  # … and the extended ones
              "FROZEN", "BUFFER", "COMMUNICATION", "WORKSPACE", "UNSHARDED"}


class Seen:
    """A block as memtrace tells it. Times are epoch ns, birth -inf for a preexisting one."""

    __slots__ = ("id", "ptr", "size", "birth", "end", "told", "op", "region")

    def __init__(self, row):
        self.id = row["id"]
        self.ptr = int(row["ptr"], 16)
        self.size = row["size"]
        self.birth = row["t"] if row["ev"] == "create" else -NEVER
        self.end = NEVER
        self.told = []  # (since, version, category)
        self.op, self.region = row["op"], row["region"]
        self.add(row)

    def add(self, row):
        if row["size"]:
            self.size = row["size"]
        # the first word counts before it was told, too: a preexisting block is met in its life
        self.told.append((row["t"] if self.told else -NEVER, row["version"], row["cat"]))
        if row["ev"] == "destroy":
            self.end = row["t"]

    @property
    def final(self):
        return self.told[-1][2]

    def final_words(self):
        """[(since, category)] with hindsight."""
        if self.final in WHOLE_LIFE:
            return [(-NEVER, self.final)]
        versions = {}
        for t, version, cat in self.told:
            versions[version] = (versions.get(version, (t,))[0], cat)
        return sorted(versions.values())

    def live_words(self):
        return [(t, cat) for t, _, cat in self.told]


def word_at(seen, t):
    """With hindsight."""
    return [cat for since, cat in seen.final_words() if since <= t][-1]


def live_word_at(seen, t):
    return [cat for since, cat in seen.live_words() if since <= t][-1]


def alive_at(seen, t):
    """{pointer: block}. A storage from elsewhere has no birth: it may be met later at the place of one that was born."""
    return {s.ptr: s for s in sorted(seen, key=lambda s: s.birth) if s.birth <= t < s.end}


def split(words, begin, end):
    """[(nanoseconds, category)] of this time."""
    parts = []
    for (since, cat), (until, _) in zip(words, words[1:] + [(NEVER, "")]):
        length = min(end, until) - max(begin, since)
        if length > 0:
            parts.append((length, cat))
    return parts


def unknown_share(blocks, begin, end):
    """Of byte·time, and where: [(share, operator, region)]"""
    total, unknown = 0, collections.Counter()
    for s in blocks:
        for length, word in split(s.final_words(), max(s.birth, begin), min(s.end, end)):
            total += length * s.size
            if word == UNKNOWN:
                unknown[s.op, s.region, s.size] += length * s.size
    return sum(unknown.values()) / total, [(100 * w / total, *where) for where, w in unknown.most_common(8)]


def seen_blocks(rows, pid, dev):
    blocks = {}
    for row in rows:
        if row.get("pid") != pid or row.get("dev") != dev or "id" not in row or row["ev"] == "tag":
            continue
        if row["id"] in blocks:
            blocks[row["id"]].add(row)
        else:
            blocks[row["id"]] = Seen(row)
    return list(blocks.values())


class Truth:
    """A block as the profiler tells it; born None when it is older than the window."""

    __slots__ = ("ptr", "size", "born", "end", "versions")

    def __init__(self, ptr, size, born, end, versions):
        self.ptr, self.size, self.born, self.versions = ptr, size, born, versions
        self.end = NEVER if end is None else end


def pair_births(truth, seen):
    """[(Truth, Seen or None)] of one pointer, both in order of birth.

    If a run of consecutive births in memtrace has all sizes of the profiler's, they are these (the nearest
    such run, when there are several). Else each takes the nearest of its size.
    """
    runs = []
    for i in range(len(seen) - len(truth) + 1):
        run = seen[i:i + len(truth)]
        far = max(abs(s.birth - t.born) for s, t in zip(run, truth))
        if far <= FAR_NS and all(s.size == t.size for s, t in zip(run, truth)):
            runs.append((sum(abs(s.birth - t.born) for s, t in zip(run, truth)), i))
    if runs:
        i = min(runs)[1]
        return list(zip(truth, seen[i:i + len(truth)]))
    pairs, free = [], list(seen)
    for t in truth:
        near = [s for s in free if s.size == t.size and abs(s.birth - t.born) <= NEAR_NS]
        best = min(near, key=lambda s: abs(s.birth - t.born), default=None)
        if best:
            free.remove(best)
        pairs.append((t, best))
    return pairs


def match(truth, seen, begin):
    """[(Truth, Seen or None)], and the median difference of the births."""
    at = collections.defaultdict(list)
    for s in sorted(seen, key=lambda s: s.birth):
        at[s.ptr].append(s)
    born = collections.defaultdict(list)
    pairs = []
    for t in truth:
        if t.born is None:
            pairs.append((t, next((s for s in at[t.ptr] if s.birth <= begin < s.end and s.size >= t.size), None)))
        else:
            born[t.ptr].append(t)
    taken = {id(s) for _, s in pairs}
    for ptr, blocks in born.items():
        blocks.sort(key=lambda t: t.born)
        free = [s for s in at[ptr] if s.birth > -NEVER and id(s) not in taken]
        pairs += pair_births(blocks, free)
    skews = sorted(t.born - s.birth for t, s in pairs if s and t.born is not None)
    return pairs, skews[len(skews) // 2] if skews else 0


class Result:
    """Byte·time of one job: matrix[(profiler's, memtrace's)], and the same for live labels."""

    def __init__(self):
        self.matrix = collections.Counter()
        self.live = collections.Counter()
        self.where = collections.Counter()  # (profiler's, memtrace's, op, region) of disagreements
        self.born = [0, 0]  # in the window: the profiler's, memtrace's
        self.freed = [0, 0]
        self.unmatched = [0, 0]  # born in the window, in one of them only
        self.skew = 0
        self.apart = 0.0  # share of all bytes times births

    @staticmethod
    def share(matrix, known):
        total = sum(w for (p, _), w in matrix.items() if p != UNKNOWN or not known)
        equal = sum(w for (p, m), w in matrix.items() if p == m and (p != UNKNOWN or not known))
        return equal / total if total else 0.0

    @property
    def known(self):
        return self.share(self.matrix, True)

    @property
    def all(self):
        return self.share(self.matrix, False)

    @property
    def known_live(self):
        return self.share(self.live, True)

    def worst(self, count=6):
        total = sum(w for (p, _), w in self.matrix.items() if p != UNKNOWN)
        return [f"{p} → {m} {100 * w / total:.4f} % (at {op or '?'}{', ' + region if region else ''})"
                for (p, m, op, region), w in self.where.most_common() if p != UNKNOWN][:count]

    def worst_live(self, count):
        total = sum(w for (p, _), w in self.live.items() if p != UNKNOWN)
        return [f"live: {p} → {m} {100 * w / total:.4f} %" for (p, m), w in self.live.most_common()
                if p not in (UNKNOWN, m)][:count]


def add_block(res, t, s, begin, end):
    """The block's part in the window, version after version."""
    size = s.size if t.born is None and s and s.size else t.size
    final, live = (s.final_words(), s.live_words()) if s else ([(-NEVER, NO_BLOCK)],) * 2
    op, region = (s.op, s.region) if s else (None, None)
    if t.born is not None and len(final) == len(t.versions) > 1:
        # a version is the same event in both: where the two clocks' looks at it are apart (the thread lost its
        # CPU in between) that says nothing of its label
        final = [(since - res.skew, cat) for (since, _), (_, cat) in zip(t.versions, final)]
    for (since, cat), (until, _) in zip(t.versions, t.versions[1:] + [[t.end, None]]):
        lo, hi = max(since, begin), min(until, t.end, end)
        if lo >= hi:
            continue
        cat = cat or UNKNOWN
        for length, word in split(final, lo - res.skew, hi - res.skew):
            res.matrix[cat, word] += length * size
            if word != cat:
                res.where[cat, word, op, region] += length * size
        for length, word in split(live, lo - res.skew, hi - res.skew):
            res.live[cat, word] += length * size


def lives_apart(pairs):
    """How much of the blocks' lives only one of both tells, counted in births that both tell: a thread that loses its CPU
    between two clocks' looks at one birth or end changes nothing."""
    theirs = sorted(t.born for t, s in pairs if s and t.born is not None)
    ours = sorted(s.birth for t, s in pairs if s and t.born is not None)
    apart = whole = 0
    for t, s in pairs:
        if s:
            born, end = bisect.bisect_left(theirs, t.born or -NEVER), bisect.bisect_left(theirs, t.end)
            whole += (end - born) * t.size
            apart += (abs(born - bisect.bisect_left(ours, s.birth)) + abs(end - bisect.bisect_left(ours, s.end))) * t.size
    return apart / max(1, whole)


def agreement(truth_doc, rows, dev="cpu"):
    begin, end = truth_doc["begin_ns"], truth_doc["end_ns"]
    truth = [Truth(*b) for b in truth_doc["blocks"] if b[1]]
    seen = [s for s in seen_blocks(rows, truth_doc["pid"], dev) if s.size != 0]
    res = Result()
    pairs, res.skew = match(truth, seen, begin)
    taken = {id(s) for _, s in pairs}
    for t, s in pairs:
        add_block(res, t, s, begin, end)
    res.apart = lives_apart(pairs)

    # births and frees near the window's marks are the profiler's starting and stopping
    lo, hi = begin + res.skew, end + res.skew
    ours = [s for s in seen if begin <= s.birth + res.skew < end]
    theirs = [(t, s) for t, s in pairs if t.born is not None and begin <= t.born < end]
    res.born = [len(theirs), len(ours)]
    res.unmatched = [sum(s is None for _, s in theirs), sum(id(s) not in taken for s in ours)]
    res.freed = [sum(begin <= t.end < end for t, _ in theirs), sum(lo <= s.end + res.skew < hi for s in ours)]
    return res


# --- the comparison itself, on made-up recordings ----------------------------------------------------

def made_up_rows(truth, change=lambda i, cat: cat, skew=0, preexisting_at=None):
    """What memtrace would export if it agreed but for change(number of the block, category).

    A first version is named late, when it ends, the others as they begin.
    """
    rows = []
    for i, (ptr, size, born, end, versions) in enumerate(truth["blocks"]):
        base = {"dev": "cpu", "ptr": hex(ptr), "size": size, "id": i + 1, "op": None, "region": None,
                "pid": truth["pid"]}
        cats = [change(i, cat or UNKNOWN) for _, cat in versions]
        if cats[-1] is None:
            continue
        first = preexisting_at if born is None else born - skew
        rows.append(dict(base, t=first, ev="create" if born else "preexisting", cat=UNKNOWN, version=0))
        if len(versions) > 1:
            rows.append(dict(base, t=versions[1][0] - skew, ev="label", cat=cats[0], version=0))
        rows += [dict(base, t=t - skew, ev="version", cat=cats[v + 1], version=v + 1)
                 for v, (t, _) in enumerate(versions[1:])]
        last = truth["end_ns"] + 10**9 if end is None else end
        rows.append(dict(base, t=last - skew, ev="destroy", cat=cats[-1], version=len(versions) - 1))
    return sorted(rows, key=lambda r: r["t"])


def hand_made():
    """Five blocks in a window of 1 s: 1000 B for all of it, 500 B for half, 200 B at the same pointer after
    that in two versions of 0.25 s, 100 B that the profiler does not know, 300 B in versions of
    0.4 and 0.6 s."""
    ms = 1_000_000
    begin = 1_700_000_000_000 * ms
    at = lambda n: begin + n * ms  # noqa: E731
    return {"pid": 7, "begin_ns": begin, "end_ns": at(1000), "blocks": [
        [0x1000, 1000, None, None, [[0, "PARAMETER"]]],
        [0x2000, 500, at(0), at(500), [[at(0), "ACTIVATION"]]],
        [0x2000, 200, at(500), at(1000), [[at(500), "INPUT"], [at(750), "GRADIENT"]]],
        [0x3000, 100, at(200), at(700), [[at(200), None]]],
        [0x4000, 300, at(0), at(1000), [[at(0), "INPUT"], [at(400), "ACTIVATION"]]],
    ]}, at


def expect(got, wanted, what):
    mt.check(abs(got - wanted) < 1e-9, f"{what}: {got}, by hand {wanted}")


def test_compare_by_hand():
    truth, at = hand_made()
    # byte-seconds that are known: 1000 + 250 + (50 + 50) + (120 + 180)
    known, unknown = 1650, 50
    res = agreement(truth, made_up_rows(truth, preexisting_at=at(-5000)))
    # GRADIENT is a label of the whole block for us: its 50 as INPUT are lost
    expect(res.known, 1600 / known, "agreement of equal labels")
    expect(res.matrix["INPUT", "GRADIENT"] / 1e9, 50, "its place in the matrix")
    expect(res.all, 1650 / (known + unknown), "agreement over all")
    expect(res.known_live, (50 + 180) / known, "labels told at once: later versions only")
    mt.check(res.unmatched == [0, 0] and res.born == [4, 4], f"{res.born} born, {res.unmatched} unmatched")
    mt.check(res.skew == 0 and res.freed[0] == res.freed[1] == 2, f"skew {res.skew}, freed {res.freed}")

    rows = made_up_rows(truth, lambda i, c: "TEMPORARY" if i == 1 else c, preexisting_at=at(-5000))
    res = agreement(truth, rows)
    expect(res.known, 1350 / known, "one wrong label")
    expect(res.matrix["ACTIVATION", "TEMPORARY"] / 1e9, 250, "its place in the matrix")
    mt.check(res.worst()[0].startswith("ACTIVATION → TEMPORARY 15.1515 %"), f"{res.worst()}")

    res = agreement(truth, made_up_rows(truth, lambda i, c: None if i == 1 else c, preexisting_at=at(-5000)))
    expect(res.known, 1350 / known, "a block that is missing")
    expect(res.matrix["ACTIVATION", NO_BLOCK] / 1e9, 250, "its place in the matrix")
    mt.check(res.unmatched == [1, 0], f"unmatched {res.unmatched}")

    rows = made_up_rows(truth, preexisting_at=at(-5000))
    for row in rows:
        if row["ev"] == "destroy" and row["id"] == 2:
            row["t"] = at(400)
    res = agreement(truth, rows)
    expect(res.known, 1600 / known, "labels of a block freed 100 ms too early")
    expect(res.apart, 0, "no birth lies between")
    for row in rows:
        if row["ev"] == "destroy" and row["id"] == 2:
            row["t"] = at(100)
    # bytes times births: 4 x 1000 + 3 x 500 + 1 x 200 + 2 x 100 + 4 x 300
    expect(agreement(truth, rows).apart, 500 / 7100, "one birth lies between")

    rows.append(dict(rows[0], t=at(300), ev="create", ptr="0x9000", id=99))
    mt.check(agreement(truth, rows).unmatched == [0, 1], "a block too many is not seen")
    smaller = [dict(row, size=992) if row["id"] == 1 else row for row in made_up_rows(truth, preexisting_at=at(-5000))]
    expect(agreement(truth, smaller).known, 600 / known, "an older block that is smaller than the profiler's view of it")
    rows = made_up_rows(truth, preexisting_at=at(-5000))
    for row in rows:
        if row["ev"] in ("version", "label") and row["id"] == 5:
            row["t"] = at(300)
    res = agreement(truth, rows)
    expect(res.known, 1600 / known, "a version whose beginning was seen 100 ms early")
    expect(res.known_live, (50 + 180) / known, "live, it is another label for that time")
    rows = made_up_rows(truth, lambda i, c: UNKNOWN, preexisting_at=at(-5000))
    expect(agreement(truth, rows).known, 0, "no label at all")


def test_compare_takes_out_the_clock():
    truth, at = hand_made()
    res = agreement(truth, made_up_rows(truth, skew=70_000, preexisting_at=at(-5000)))
    mt.check(res.skew == 70_000, f"skew {res.skew}")
    expect(res.known, 1600 / 1650, "agreement with another clock")


# --- the real thing ------------------------------------------------------------------------------------

# Steps of a millisecond: what stalls one between a gradient's birth and its AccumulateGrad weighs. Twelve of them.
MEASURED = {"accumulate": ("--measured", "12")}


def python_is_known(tracer, pid):
    """Three looks more: one may be under way, and what it finds is told when the next one finds it, too."""
    def looks():
        return sum(f"process {pid}: " in text and " names of " in text for text in list(tracer.err))
    before = looks()
    mt.wait_until(lambda: looks() >= before + 3 or not tracer.alive(), "three looks at Python", 120)
    mt.check(tracer.alive(), "; ".join(tracer.err[-5:]))


def trace(script, model, tmp, probes, *args):
    """(what the job says of itself, the recording) of one that waits to be traced. --waits: it is measured once Python is known."""
    out, mtr = tmp / f"{model}.json", tmp / f"{model}.mtr"
    # while it waits for a CPU its blocks have the labels of that moment: then a label of microseconds lasts for milliseconds
    with mt.job(script, "--model", model, "--out", out, *args, **mt.comes_first(-15)) as job:
        with mt.start("record", "-vv", "-p", str(job.pid), "--probes", probes, "-o", str(mtr)) as tracer:
            # a line a second, the first when everything is attached
            mt.wait_until(lambda: any("recording: " in t for t in tracer.err) or not tracer.alive(),
                          "memtrace to record", 30)
            mt.check(tracer.alive(), "; ".join(tracer.err))
            job.tell("go")
            if "--waits" in args:
                python_is_known(tracer, job.pid)
                job.tell("measure")
            job.line("done", 180)
            mt.finish(tracer, mtr)
    return json.loads(out.read_text()), mtr


def record(model, tmp, *args, probes="framework,flow,regions"):
    """(the job's own document, rows of the export, report)."""
    doc, mtr = trace("categories", model, tmp, probes, *MEASURED.get(model, ()), *args)
    return doc, mt.export(mtr, ("--labels", "live")), mt.report(mtr)


profiled_counts = {}  # job → counts(), kept for test_same_without_profiler


def percent(x):
    return f"{100 * x:.3f} %"


def hold(res, known_min, live_min):
    mt.check(res.born[0] > 50, f"the profiler saw {res.born[0]} births only")
    mt.check(res.unmatched == [0, 0], f"born in the window, in one only: {res.unmatched} of {res.born}")
    mt.check(res.freed[0] == res.freed[1], f"freed in the window: {res.freed}")
    mt.check(res.apart <= APART_MAX, f"lives differ for {percent(res.apart)} of bytes times births")
    mt.check(res.known >= known_min, f"agreement {percent(res.known)}, wanted {percent(known_min)}: "
             + "; ".join(res.worst()))
    mt.check(res.known_live >= live_min, f"live labels {percent(res.known_live)}, wanted {percent(live_min)}: "
             + "; ".join(res.worst_live(4)))


def compare(model, known_min=KNOWN_MIN, live_min=LIVE_MIN, args=()):
    with mt.scratch() as tmp:
        truth, told, rep = record(model, tmp, *args)
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    profiled_counts[model] = counts(truth, told)
    res = agreement(truth, told)
    mt.note(f"{model}: known {percent(res.known)}, all {percent(res.all)}, live {percent(res.known_live)}; "
            f"born {res.born[0]}, apart {percent(res.apart)}, clock {res.skew} ns")
    for text in res.worst(4) + res.worst_live(4) + table(res).splitlines():
        mt.note(f"  {text}")
    hold(res, known_min, live_min)
    keep_row(model, res)
    return rep


def test_transformer():
    compare("transformer")


def test_transformer_fused():
    compare("fused")


def test_transformer_foreach():
    compare("foreach")


def test_transformer_checkpointing():
    compare("checkpoint")


def test_transformer_lengths():
    compare("lengths")


def test_transformer_autocast():
    compare("amp")


def test_conv():
    compare("conv")


def test_mlp():
    compare("mlp")


def test_lstm():
    compare("lstm")


def test_sgd_by_hand():
    compare("by_hand")


def test_gradient_accumulation():
    compare("accumulate")


def test_lora():
    compare("lora")


def test_gan():
    compare("gan")


def test_sparse_embedding_where_the_profiler_is_wrong():
    """A sparse .grad has no memory of its own, so the profiler cannot read it: what we call GRADIENT and it does not must be that
    gradient's indices and values, and all else the same. test_classes.sparse_gradients has the exact sets."""
    with mt.scratch() as tmp:
        truth, told, rep = record("sparse", tmp)
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    res = agreement(truth, told)
    gradient = {theirs: w for (theirs, ours), w in res.matrix.items() if ours == "GRADIENT" and theirs != "GRADIENT"}
    rest = {k: w for k, w in res.matrix.items() if k[1] != "GRADIENT" or k[0] == "GRADIENT"}
    mt.note(f"sparse: agreement {percent(res.known)}, without the sparse gradient {percent(res.share(rest, True))}")
    for text in table(res).splitlines():
        mt.note(f"  {text}")
    mt.check(res.born[0] == res.born[1] and res.freed[0] == res.freed[1], f"born {res.born}, freed {res.freed}")
    mt.check(set(gradient) == {"AUTOGRAD_DETAIL", "INPUT"}, f"the sparse gradient is for the profiler {gradient}")
    mt.check(res.share(rest, True) >= KNOWN_MIN, f"apart from that: {percent(res.share(rest, True))}")
    keep_row("sparse", res)


def test_vae_custom_function():
    compare("vae")


def test_dataloader():
    compare("loader", live_min=0.97)


def test_compiled():
    compare("compiled")


def test_custom_ops():
    """Calls past at::_ops are operators by their own names, once a step each; so are the nodes that Python defined."""
    rep = compare("custom_ops")
    ops = {o["name"]: o["count"] for o in rep["ops"]}
    nodes = {r["name"]: r["count"] for r in rep["regions"] if r["is_node"]}
    node = "GeneratedBackwardFor_memtrace_test_gelu2_defaultBackward"
    mt.check("autograd node" not in nodes, f"a node without a name: {nodes}")
    # whatever calls them comes once a step: what torch.ops calls goes on to no at::_ops of the same name
    for name, cnt in [(n, ops.get(n, 0)) for n in ("memtrace_test::gelu2", "aten::relu", "aten::gelu_backward")] + \
            [(node, nodes.get(node, 0))]:
        mt.check(abs(cnt - rep["steps"]) <= 1 and cnt > 2, f"{name}: {cnt} in {rep['steps']} steps")
    mt.check(not any(n.startswith("profiler::") for n in ops), f"regions are no operators: {sorted(ops)}")


def test_inference_only():
    compare("inference")


def test_ddp():
    compare("ddp")


def test_ema_batch_norm():
    compare("ema")


def test_eval_between_steps():
    compare("evaluate")


def test_tied_weights():
    compare("tied")


def test_double_backward():
    compare("double_backward")


def test_lbfgs_where_the_profiler_is_wrong():
    """The profiler has no eye for history in lists: what we call state and it does not must be just that,
    and all else the same. test_classes.lbfgs_history has the exact sets."""
    with mt.scratch() as tmp:
        truth, told, rep = record("lbfgs", tmp)
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    res = agreement(truth, told)
    total = sum(res.matrix.values())
    state = sum(w for (_, ours), w in res.matrix.items() if ours == "OPTIMIZER_STATE") / total
    rest = {k: w for k, w in res.matrix.items() if k[1] != "OPTIMIZER_STATE"}
    mt.note(f"lbfgs: agreement {percent(res.known)}, without what we call state {percent(res.share(rest, True))}; "
            f"state is {percent(state)} of byte·time")
    for text in table(res).splitlines():
        mt.note(f"  {text}")
    mt.check(res.born[0] == res.born[1] and res.freed[0] == res.freed[1], f"born {res.born}, freed {res.freed}")
    mt.check(state > 0.5, f"state is {percent(state)} only")
    mt.check(res.share(rest, True) >= KNOWN_MIN, f"apart from state: {percent(res.share(rest, True))}")
    keep_row("lbfgs", res)


def words_of_both(doc, rows):
    """[(class by the job's word, the profiler's words, memtrace's word)] of each storage at each moment that the job told of."""
    seen = seen_blocks(rows, doc["pid"], "cpu")
    truth = [Truth(*b) for b in doc["blocks"]]
    for t, said in doc["said"]:
        alive = alive_at(seen, t)
        for name, pointers in said.items():
            for ptr in pointers:
                theirs = {b.versions[-1][1] for b in truth if b.ptr == ptr and (b.born or 0) <= t < b.end}
                yield name, theirs, word_at(alive[ptr], t) if ptr in alive else None


def test_gradients_in_another_layout_where_the_profiler_is_wrong():
    """Images in channels_last: what AccumulateGrad keeps is a copy, PARAMETER or AUTOGRAD_DETAIL for the profiler."""
    with mt.scratch() as tmp:
        doc, rows, rep = record("channels_last", tmp)
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    words = list(words_of_both(doc, rows))
    ours = collections.Counter((name, own) for name, _, own in words)
    theirs = collections.Counter((name, word) for name, their, _ in words for word in their)
    mt.note(f"the job's word and memtrace's: {dict(ours)}; and the profiler's: {dict(theirs)}")
    mt.check(all(name == own for name, own in ours) and len(ours) == 2, f"memtrace is wrong, too: {ours}")
    wrong = theirs["GRADIENT", "PARAMETER"] + theirs["GRADIENT", "AUTOGRAD_DETAIL"]
    mt.check(wrong >= 4, f"the profiler is right here, docs/categories.md says that it is not: {theirs}")
    grads = [s for s in seen_blocks(rows, doc["pid"], "cpu") if s.final == "GRADIENT"]
    told = {ptr for _, said in doc["said"] for ptr in said["GRADIENT"]}
    extra = [s for t, said in doc["said"] for s in alive_at(grads, t).values() if s.ptr not in told]
    mt.check(not extra, f"{len(extra)} more are GRADIENT: " + "; ".join(f"{s.size} B of {s.op}" for s in extra[:6]))


def test_frees_of_older_blocks_where_the_profiler_is_wrong():
    """As it comes (no debugging flag), it takes what is freed in its window for alive if it is older than that."""
    with mt.scratch() as tmp:
        doc, rows, rep = record("older_blocks", tmp, "--as-it-is")
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    gone = [(their, own) for name, their, own in words_of_both(doc, rows) if name == "GONE"]
    mt.note(f"freed, by the job's word: {len(gone)}; alive, by the profiler's: {sum(bool(their) for their, _ in gone)}; "
            f"by memtrace's: {sum(own is not None for _, own in gone)}")
    mt.check(len(gone) == len(doc["said"]) == 3, f"{gone}")
    mt.check(all(own is None for _, own in gone), f"memtrace is wrong, too: {gone}")
    mt.check(any(their for their, _ in gone), "the profiler saw them go, docs/categories.md says that it does not")


def test_attached_at_any_moment():
    """The job makes steps while memtrace attaches; compared from the second step after that on."""
    for model in RUNNING:
        low = {}
        for number in range(2):
            with mt.scratch() as tmp:
                truth, told, rep = record(model, tmp, "--running", "--warm", "2")
            # one probe is set after the other: frees before the last is are not seen
            mt.check(mt.lost(rep) == rep["lost"]["reuse"], f"lost: {rep['lost']}")
            res = agreement(truth, told)
            mt.note(f"{model}, {number + 1}: known {percent(res.known)}, live {percent(res.known_live)}")
            hold(res, KNOWN_MIN, LIVE_MIN)
            low = {what: min(low.get(what, 1), getattr(res, what)) for what in ("known", "all", "known_live")}
        tables.keep("running", model, " | ".join(percent(x) for x in low.values()))


def test_workspace():
    """Extended: blocks that no operator was given, born and freed inside one: the profiler's are ours."""
    for model in ("conv", "lstm"):
        with mt.scratch() as tmp:
            truth, _, rep = record(model, tmp)
            rows = mt.export(tmp / f"{model}.mtr", ("--classes", "extended"))
        mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
        seen = [s for s in seen_blocks(rows, truth["pid"], "cpu") if s.birth > -NEVER]
        at = collections.defaultdict(list)
        for s in seen:
            at[s.ptr].append(s)
        theirs = {id(min(at[ptr], key=lambda s: abs(s.birth - t))) for ptr, t in truth["scratch"]}
        ours = {id(s) for s in seen if s.final == "WORKSPACE" and truth["begin_ns"] <= s.birth < truth["end_ns"]}
        odd = [f"{s.size} B at {s.op}, {s.region}: {s.final}" for s in seen if id(s) in theirs ^ ours]
        mt.note(f"{model}: {len(ours)} blocks of scratch")
        mt.check(len(theirs) > 5, f"the profiler saw {len(theirs)} blocks of scratch only")
        mt.check(not odd, f"{len(odd)} in one only: " + "; ".join(odd[:8]))


def counts(doc, rows):
    """How many blocks of each size and final category are born in the window."""
    return collections.Counter((s.final, s.size) for s in seen_blocks(rows, doc["pid"], "cpu")
                               if doc["begin_ns"] <= s.birth < doc["end_ns"])


def test_same_without_profiler():
    """The profiler's presence does not change what we see: the same blocks with the same categories."""
    for model in ("transformer", "conv"):
        with mt.scratch() as tmp:
            if model not in profiled_counts:
                doc, rows, _ = record(model, tmp)
                profiled_counts[model] = counts(doc, rows)
        with mt.scratch() as tmp:
            doc, rows, rep = record(model, tmp, "--plain")
        profiled = profiled_counts[model]
        mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
        plain = counts(doc, rows)
        mt.check(sum(plain.values()) > 50, f"{sum(plain.values())} births only")
        mt.check(any(cat != UNKNOWN for cat, _ in plain), "no block has a category")
        mt.check(profiled == plain, f"{model}, only with the profiler: {dict(profiled - plain)}, "
                 f"only without: {dict(plain - profiled)}")
        mt.note(f"{model}: {sum(plain.values())} births with and without the profiler, all the same")


def writes(doc, rows):
    """How many versions begin in the window, by region, size and number."""
    return collections.Counter((r["region"], r["size"], r["version"]) for r in rows if r["ev"] == "version"
                               and r["pid"] == doc["pid"] and doc["begin_ns"] <= r["t"] < doc["end_ns"])


def test_same_without_views():
    """Operators that only make views have no probe by default: the same blocks, categories and versions with them."""
    for model in ("mlp", "transformer", "conv"):
        both = []
        for probes in ("framework,flow,regions", "framework,flow,views,regions"):
            with mt.scratch() as tmp:
                doc, rows, rep = record(model, tmp, "--plain", probes=probes)
            mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
            both.append((counts(doc, rows), writes(doc, rows)))
        for without, within in zip(*both):
            mt.check(sum(without.values()) > 20, f"{without}")
            mt.check(without == within, f"{model}, only without views: {dict(without - within)}, "
                     f"only with them: {dict(within - without)}")
        mt.note(f"{model}: {sum(both[0][0].values())} births and {sum(both[0][1].values())} versions with and without "
                "views, all the same")


# --- the tables of docs/categories.md (make docs-categories) -------------------------------------------------

RUNNING = ("fused", "accumulate", "gan", "conv")


def table(res):
    """The confusion matrix as text: a row a category of the profiler's, in percent of all byte·time."""
    order = ["PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT",
             "AUTOGRAD_DETAIL", UNKNOWN, NO_BLOCK]
    columns = [c for c in order if any(m == c for _, m in res.matrix)]
    total = sum(res.matrix.values())
    lines = ["| profiler ↓ memtrace → | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row in order:
        cells = [res.matrix[row, c] for c in columns]
        if any(cells):
            texts = (f"{100 * x / total:.3f}" if x else "" for x in cells)
            lines.append(f"| {row} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def keep_row(model, res):
    shares = " | ".join(percent(x) for x in (res.known, res.all, res.known_live))
    tables.keep("categories", model, {"figures": f"{shares} | {res.born[0]} | {res.freed[0]} | {percent(res.apart)}", "matrix": table(res)})


def text():
    models = all_models()
    made = tables.kept("categories", models)
    running = tables.kept("running", RUNNING)
    return ("| job | known | all | live | births | frees | apart |\n|---|---|---|---|---|---|---|\n"
            + "".join(f"| {model} | {row['figures']} |\n" for model, row in zip(models, made))
            + "\nAttached while it makes steps, the lower of two runs:\n\n| job | known | all | live |\n|---|---|---|---|\n"
            + "".join(f"| {model} | {row} |\n" for model, row in zip(RUNNING, running))
            + "".join(f"\n### {model}\n\n{row['matrix']}\n" for model, row in zip(models, made)))


def all_models():
    """Names of JOBS in categories_models.py; that itself needs torch."""
    names = (mt.JOBS / "categories_models.py").read_text().rsplit("for f in (", 1)[1].split(")")[0]
    return names.replace(",", " ").split()


if __name__ == "__main__":
    tables.write("categories", text())
