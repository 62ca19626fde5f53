# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A C program that knows every allocation it made, against memtrace: to the byte, the count, the
operator and the thread (targets/exact.c)."""
from collections import Counter
import signal
import time

import mt


def truth_of(lines):
    births, frees = Counter(), Counter()
    for line in lines:
        word = line.split()
        if word and word[0] == "A":
            op = None if word[5] == "-" else word[5]
            births[word[1], int(word[2]), int(word[3], 16), int(word[4]), op] += 1
        elif word and word[0] == "F":
            frees[word[1], int(word[2]), int(word[3], 16)] += 1
    return births, frees


def seen_of(rows, pid):
    births, frees = Counter(), Counter()
    for r in rows:
        if r["pid"] != pid:
            continue
        ptr = int(r["ptr"], 16) if "ptr" in r else 0
        if r["ev"] == "create":
            births[r["dev"], r["tid"], ptr, r["size"], r.get("op")] += 1
        elif r["ev"] == "destroy":
            frees[r["dev"], r["tid"], ptr] += 1
    return births, frees


def difference(truth, seen):
    return (f"missed {sum((truth - seen).values())}: {list((truth - seen).items())[:5]}; "
            f"invented {sum((seen - truth).values())}: {list((seen - truth).items())[:5]}")


def test_every_allocation_of_a_program():
    binary = mt.compile_c("exact", "-pthread", "-Wall", "-Wextra")
    with mt.scratch() as tmp, mt.Proc([binary]) as proc:
        proc.line("ready ")
        with mt.start("record", "-p", str(proc.pid), "--probes", "host,usdt", "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_until(lambda: mt.probed(proc.pid, mt.MALLOC) or not tracer.alive(), "a probe at malloc", 15)
            time.sleep(0.5)
            proc.tell("go")
            proc.line("done", 60)
            tracer.signal(signal.SIGINT)
            mt.check(tracer.wait() == 0, f"record failed: {tracer.err}")
        rep = mt.report(tmp / "a.mtr")
        births, frees = truth_of(proc.out)
        seen_births, seen_frees = seen_of(mt.export(tmp / "a.mtr"), proc.pid)
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    mt.check(sum(births.values()) > 3000, "the target made too few allocations")
    mt.check(births == seen_births, "allocations: " + difference(births, seen_births))
    mt.check(frees == seen_frees, "frees: " + difference(frees, seen_frees))
    host = rep["host"]
    total = Counter()
    for (dev, *_), n in births.items():
        total[dev] += n
    mt.check(host["allocs"] == total["host"], f"report says {host}, truth {total}")
    mt.note(f"{sum(births.values())} allocations, {sum(k[3] * n for k, n in births.items())} bytes, "
            f"{sum(frees.values())} frees on 4 threads: equal, operators too")
