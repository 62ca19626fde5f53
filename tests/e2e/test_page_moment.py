# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A whole recording with one moment that was asked for (export --at): the page opens with it, the database holds what lived then, both as
report --at has it."""
import json
import sqlite3

import browser
import mt
import test_page as pages

TIMEOUT_S = {"page_opens_with_a_moment": 300, "database_holds_a_moment": 300}


def asked(path):
    """{words of --at: report --at}"""
    rep = mt.report(path, (0, 3))
    ends = [s["number"] for s in rep["phases"]["steps"]]
    words = ("peak", f"step {ends[len(ends) // 2]}", f"{rep['duration_ns'] * 0.7 / 1e9:.9f}s")
    return {at: json.loads(mt.ok(mt.memtrace("report", path, "--json", "--top", 100000, "--at", at), (0, 3)).stdout) for at in words}


def test_page_opens_with_a_moment():
    pages.need_library()
    path = pages.recording()
    with mt.scratch() as tmp:
        for at, held in asked(path).items():
            out = tmp / "held.html"
            mt.ok(mt.memtrace("export", path, "--to", "html", "--force", "--at", at, "-o", out), (0, 3))
            with browser.open(out) as page:
                t, parts, zoom, peak = page.js(
                    "[memtrace.state.held, memtrace.composition(memtrace.state.held), memtrace.state.range, memtrace.model().lanes[0].peakT]")
                mt.check(abs(t - held["moment"]["after_ns"]) < 2, f"{at}: held at {t}, report {held['moment']}")
                told = {r["name"]: r["bytes"] for r in held["by"]["category"] if r["bytes"]}
                mt.check(parts["total"] == held["bytes"] and {k: v for k, v in parts["parts"].items() if v} == told, f"{at}: {parts}, report {told}")
                said = pages.text_of(page, "#moment")
                mt.check(said.startswith("Held: the peak" if t == peak else f"Held: {at}"), said)
                mt.check(zoom is None or zoom[0] <= t <= zoom[1], f"{at}: {zoom} is shown, and {t} is held")
                if held["moment"]["step"] is not None:
                    mt.check(zoom is not None and f"step {held['moment']['step']}" in said, f"{at}: {zoom}, {said}")
                mt.check(page.js("location.hash") == "" and not page.js("document.querySelector('#pin').hidden"), "an address, or no line")

                # Another moment is held, Back leads to that of --at, Esc lets go of it.
                x, y, width, height = page.box("#chart canvas")
                page.click(x + width * 0.4, y + height / 2)
                mt.check(page.js("memtrace.state.held") != t and "at=" in page.js("location.hash"), "a click holds nothing")
                page.js("history.back()")
                mt.wait_until(lambda: page.js("memtrace.state.held") == t, "the moment of --at", 60)
                page.mouse("mouseMoved", 5, 5)
                page.key("Escape")
                mt.check(page.js("memtrace.state.held") is None, "Esc does not let go")
                pages.clean(page)
        # What the address says goes before.
        with browser.open(None) as page:
            page.load_url(out.resolve().as_uri() + "#at=0.5")
            mt.check(abs(page.js("memtrace.state.held") - max(5e8, page.js("memtrace.model().first"))) < 2, "the address is not listened to")


def test_database_holds_a_moment():
    path = pages.recording()
    with mt.scratch() as tmp:
        for at, held in asked(path).items():
            mt.ok(mt.memtrace("export", path, "--to", "sqlite", "--force", "--at", at, "-o", tmp / "a.db"), (0, 3))
            db = sqlite3.connect(tmp / "a.db")
            meta = dict(db.execute("SELECT * FROM meta WHERE key LIKE 'at%'"))
            mt.check(meta["at"] == at and meta["at_device"] == "cpu" and meta["at_ns"] == held["moment"]["time_ns"], f"{meta} {held['moment']}")
            mt.check(db.execute("SELECT sum(size), count(*) FROM held_blocks").fetchone() == (held["bytes"], held["blocks"]), f"{at}: sums")
            for by in ("category", "op", "module", "region"):
                sums = {name or "": size for name, size in db.execute(f"SELECT {by}, sum(size) FROM held_blocks GROUP BY 1")}
                told = {r["name"]: r["bytes"] for r in held["by"][by] if r["bytes"]}
                mt.check(sums == told and sum(sums.values()) == held["bytes"], f"{at}, by {by}: {sums}, report {told}")
            db.close()
        mt.ok(mt.memtrace("export", path, "--to", "sqlite", "-o", tmp / "b.db"), (0, 3))
        with sqlite3.connect(tmp / "b.db") as db:
            mt.check(db.execute("SELECT (SELECT count(*) FROM held_blocks), (SELECT count(*) FROM meta WHERE key LIKE 'at%')").fetchone() == (0, 0),
                     "a moment that nobody asked for")

        # A part is more than a moment; what has no moments says who does.
        for to, args, words in (("html", ("--at", "peak", "--category", "gradient"), ("whole recording", "--at WHEN alone")),
                                ("sqlite", ("--from", "1s"), ("whole recording", "--at WHEN alone")),
                                ("torch-timeline", ("--at", "step 3"), ("whole recording", "memtrace report FILE --at 'step 3'")),
                                ("openmetrics", ("--at", "peak"), ("memtrace report FILE --at 'peak'", "html and sqlite")),
                                ("trace-svg", ("--at", "2s"), ("one moment", "memtrace report FILE --at")),
                                ("html", ("--at", "99h"), ("after the end",)), ("sqlite", ("--at", "step 100000"), ("no whole step 100000",))):
            mt.expect_failure(mt.memtrace("export", path, "--to", to, *args, "-o", tmp / "x"), 1, *words)
            mt.check(not (tmp / "x").exists(), f"{to} left a file")
