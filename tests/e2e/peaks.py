# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The highest live bytes of the CPU's tensors as each view of a recording has them, read without anything of memtrace."""
import gzip
import json
import re
import sqlite3

import mt


def export(path, folder, fmt, suffix=""):
    out = folder / f"peak.{fmt}{suffix}"
    mt.ok(mt.memtrace("export", path, "--to", fmt, "--force", "-o", out), (0, 3))
    return out


def report(rep):
    devices = rep["devices"]
    return devices["cpu"]


def page(out):
    """The page's document, and the highest sum of what its chart draws."""
    text = open(out, encoding="utf-8").read()
    doc = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    lane = next(lane for lane in doc["lanes"] if lane["dev"] == "cpu" and not lane["pid"])
    sums = [0] * len(lane["t"])
    for deltas in lane["cats"].values():
        v = 0
        for i, d in enumerate(deltas):
            v += d
            sums[i] += v
    return doc, lane, max(sums)


def jsonl(out):
    """Of decisions: of what was told between gaps, and what lived where they ended."""
    live, size, peak, in_gap = {}, 0, 0, False
    for line in open(out):
        e = json.loads(line)
        if e["ev"] == "gap":
            in_gap = e["begins"]
        elif e.get("dev") != "cpu":
            continue
        elif e["ev"] in ("create", "preexisting") and e["size"] and e["id"] not in live:
            live[e["id"]] = e["size"]
            size += e["size"]
        elif e["ev"] == "destroy":
            size -= live.pop(e["id"], 0)
        peak = peak if in_gap else max(peak, size)
    return peak


def rows(out):
    """The same of csv's rows."""
    import csv

    live, size, peak, in_gap = {}, 0, 0, False
    with open(out, newline="", encoding="utf-8") as f:
        for e in csv.DictReader(f):
            if e["ev"] in ("gap_begin", "gap_end"):
                in_gap = e["ev"] == "gap_begin"
            elif e["dev"] != "cpu":
                continue
            elif e["ev"] in ("create", "preexisting") and e["size"] and e["id"] not in live:
                live[e["id"]] = int(e["size"])
                size += int(e["size"])
            elif e["ev"] == "destroy":
                size -= live.pop(e["id"], 0)
            peak = peak if in_gap else max(peak, size)
    return peak


def snapshot(out):
    trace, size, peak = json.load(open(out))["device_traces"][0], 0, 0
    for e in trace:
        size += e["size"] if e["action"] == "alloc" else -e["size"] if e["action"] == "free_completed" else 0
        peak = max(peak, size)
    return peak


def varint(data, at):
    v = shift = 0
    while True:
        v |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return v, at


def message(data):
    """[(field, value)] of a protobuf message."""
    at, out = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            v, at = varint(data, at)
        elif key & 7 == 2:
            n, at = varint(data, at)
            v, at = data[at:at + n], at + n
        else:
            n = 8 if key & 7 == 1 else 4
            v, at = data[at:at + n], at + n
        out.append((key >> 3, v))
    return out


def pprof(out):
    """Sum of the second value of each sample: at_peak."""
    total = 0
    for field, v in message(gzip.decompress(open(out, "rb").read())):
        if field == 2:
            packed = next(v for f, v in message(v) if f == 2)
            _, at = varint(packed, 0)
            total += varint(packed, at)[0]
    return total


def perfetto(out):
    """(highest value of the counter of all categories, how many slices "not traced")."""
    live, peak, gaps = set(), 0, 0
    for _, packet in message(open(out, "rb").read()):
        for field, v in message(packet):
            parts = dict(message(v)) if field in (11, 60) else {}
            if field == 60 and 8 in parts and parts.get(2) == b"live":
                live.add(parts[1])
            elif field == 11 and parts.get(9) == 4 and parts[11] in live:
                peak = max(peak, parts[30])
            gaps += parts.get(23) == b"not traced"
    return peak, gaps


def chrome(out):
    events = json.load(open(out))["traceEvents"]
    peak = max(sum(e["args"].values()) for e in events if e["ph"] == "C" and e["name"] == "cpu memory")
    return peak, [e for e in events if e.get("name") == "not traced"]


def op_trace(out):
    return max(line["allocated"] for line in map(json.loads, open(out)) if "allocated" in line)


def of_all(path, folder):
    """{view: bytes}; what is not of one number is returned beside it: the page's document, the database, numbers of gaps."""
    rep = mt.report(path, (0, 3))
    doc, lane, drawn = page(export(path, folder, "html"))
    db = sqlite3.connect(export(path, folder, "sqlite", ".db"))
    traced, gaps = perfetto(export(path, folder, "perfetto"))
    counted, slices = chrome(export(path, folder, "chrome", ".json"))
    text = open(export(path, folder, "openmetrics")).read()
    peaks = {"report": report(rep)["peak"], "series": max(p[1] for p in report(rep)["series"]["points"]), "page": lane["peak"], "page's chart": drawn,
             "jsonl": jsonl(export(path, folder, "jsonl")), "csv": rows(export(path, folder, "csv")),
             "torch-snapshot": snapshot(export(path, folder, "torch-snapshot", ".json")), "pprof": pprof(export(path, folder, "pprof")),
             "folded": sum(int(line.rsplit(" ", 1)[1]) for line in open(export(path, folder, "folded"))),
             "sqlite": db.execute("SELECT sum(size) FROM peak_blocks WHERE device = 'cpu' AND size IS NOT NULL").fetchone()[0],
             "sqlite's usage": max(db.execute("SELECT peak FROM devices WHERE name = 'cpu'").fetchone()),
             "perfetto": traced, "chrome": counted,
             "openmetrics": int(float(re.search(r'^memtrace_device_peak_bytes\{[^}]*device="cpu"[^}]*\} (\S+)', text, re.MULTILINE)[1]))}
    said = {"perfetto": gaps, "chrome": len(slices), "sqlite": db.execute("SELECT count(*) FROM gaps").fetchone()[0],
            "report": len(rep["sampling"]["gaps"]) if "sampling" in rep else 0}
    return peaks, said, rep, doc
