# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""One moment of a whole recording. What was asked for (export --at): the page opens with it, the database holds what lived then, both as
report --at has it. What stands out: it is seen on the page, however short it was, and so is the end of a process."""
import json
import sqlite3

import browser
import mt
import test_page as pages

LANDING = {"database_holds_a_moment", "page_opens_with_a_moment"}

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
        for to, args, words in (("html", ("--at", "peak", "--category", "gradient"), ("whole recording", "--at WHEN alone", "chosen on the page")),
                                ("sqlite", ("--at", "peak", "--pid", "1"), ("whole recording", "--at WHEN alone", "WHERE pid = ")),
                                ("sqlite", ("--from", "1s"), ("whole recording", "--at WHEN alone")),
                                ("torch-timeline", ("--at", "step 3"), ("whole recording", "memtrace report FILE --at 'step 3'")),
                                ("openmetrics", ("--at", "peak"), ("memtrace report FILE --at 'peak'", "html and sqlite")),
                                ("trace-svg", ("--at", at), ("one moment", "memtrace report FILE --at")),
                                ("html", ("--at", "99h"), ("after the end",)), ("sqlite", ("--at", "step 100000"), ("no whole step 100000",))):
            mt.expect_failure(mt.memtrace("export", path, "--to", to, *args, "-o", tmp / "x"), 1, *words)
            mt.check(not (tmp / "x").exists(), f"{to} left a file")


# Lanes of a recording of `dur` ns: 2 MiB all the time; two high moments of a microsecond; a process that ended in the middle of it.
LANES = """(() => {
    const d = memtrace.model().doc, M = 2 ** 20, dur = d.report.duration_ns, first = d.first, at = (share) => Math.round(first + share * (dur - first));
    const deltas = (list) => list.map((v, i) => i ? v - list[i - 1] : v);
    const lane = (pid, points) => ({dev: "cpu", pid, live: points.at(-1)[1], peak: Math.max(...points.map((p) => p[1])),
        peak_t: points.reduce((a, b) => a[1] >= b[1] ? a : b)[0], exact: null, t: deltas(points.map((p) => p[0])),
        cats: {PARAMETER: deltas(points.map((p) => Math.min(p[1], 2 * M))), ACTIVATION: deltas(points.map((p) => Math.max(p[1] - 2 * M, 0)))}});
    const all = [[first, 2 * M], [at(0.3), 50 * M], [at(0.3) + 1000, 2 * M], [at(0.6), 90 * M], [at(0.6) + 1000, 2 * M], [dur, 2 * M]];
    const one = [[at(0.2), 8 * M], [at(0.5), 0]];
    const processes = [{...d.report.processes[0], pid: 77, comm: "worker", rank: undefined, state: "exited 0"}];
    memtrace.show({lanes: [lane(0, all), lane(77, one)], report: {...d.report, processes}});
    document.querySelector("#zoom-all").click();
    return [at(0.3), at(0.6), at(0.5)];
})()"""


# How many columns of the chart are of a category's colour at a height, near each time.
COLUMNS = """((times, share, category) => {
    const c = document.querySelector("#chart canvas"), u = chart, y = Math.round(u.valToPos(share * u.scales.y.max, "y", true));
    const d = c.getContext("2d").getImageData(0, y, c.width, 1).data, want = memtrace.colors[category].match(/[0-9a-f]{2}/g).map((v) => parseInt(v, 16));
    const is = (x) => want.every((v, k) => Math.abs(d[4 * x + k] - v) < 24) && d[4 * x + 3] > 200;
    return times.map((t) => Math.round(u.valToPos(t / 1e9, "x", true))).map((x) => [...Array(21).keys()].filter((i) => is(x - 10 + i)).length);
})"""


def test_what_stands_out_is_seen():
    for width in (1280, 390):
        with browser.open(pages.page_of(pages.recording()), width) as page:
            lower, higher, ended = page.js(LANES)
            page.settle()
            seen = page.js(f"{COLUMNS}({[lower, higher, (lower + higher) / 2]}, 0.3, 'ACTIVATION')")
            mt.check(all(2 <= n <= 4 for n in seen[:2]) and not seen[2], f"{width} wide: spikes, and where there is none: {seen} pixels wide")
            says = "[document.querySelector('#highest').textContent, document.querySelector('#highest').getBoundingClientRect().toJSON(), " \
                "document.querySelector('#plots').getBoundingClientRect().toJSON()]"
            text, box, plots = page.js(says)
            mt.check(text == "peak 90.0 MiB", text)
            mt.check(plots["left"] < box["left"] and box["right"] <= plots["right"] and box["top"] >= plots["top"], f"{width} wide: {box} in {plots}")
            # Of two as high, the one that the report has chosen.
            page.js("(() => { const l = lane(); l.total.fill(l.peak, 1, 2); l.cats.ACTIVATION.fill(l.peak - 2 * 2 ** 20, 1, 2); drawTimeline(); })()")
            page.settle()
            text, twice, _ = page.js(says)
            mt.check((text, twice["left"]) == ("peak 90.0 MiB", box["left"]), f"{text} at {twice['left']}, alone at {box['left']}")
            page.js(LANES)

            # Of what is in sight; of the categories in sight.
            page.js(f"memtrace.state.range = [{lower} - 1e6, {lower} + 1e6]; drawTimeline()")
            page.settle()
            mt.check(page.js(says)[0] == "50.0 MiB", page.js(says)[0])
            page.js("document.querySelector('#zoom-all').click(); memtrace.state.hidden = new Set(['ACTIVATION']); makeChart(); drawTimeline()")
            page.settle()
            mt.check(page.js(says)[0] == "2.00 MiB", page.js(says)[0])

            # A process that ended: a line there, and what is behind it is no memory that somebody freed.
            mt.check(not page.js("document.querySelector('#ended').offsetWidth"), "all processes have ended")
            page.js("memtrace.state.hidden = new Set(); location.hash = 'lane=cpu%2077'")
            mt.wait_until(lambda: page.js("document.querySelector('#ended').offsetWidth") > 0, "the end of the process", 60)
            at = page.js("[document.querySelector('#ended-line').offsetLeft, toX(%d)]" % ended)
            mt.check(abs(at[0] - at[1]) <= 1, f"the end is at {at[1]}, drawn at {at[0]}")
            page.js(f"location.hash = 'at={(ended + 1e8) / 1e9:.9f}&lane=cpu%2077'")
            mt.wait_until(lambda: "nothing any more, and the process has ended since" in pages.text_of(page, "#moment"), "words for it", 60)
            pages.clean(page)


def test_a_process_of_a_trace_that_goes_on():
    """Its line is made of samples, and none of them is called its peak; how high that was, and when, is said."""
    with browser.open(pages.page_of(pages.recording())) as page:
        page.js(LANES)
        page.js("""(() => {
            const d = memtrace.model().doc, p = {...d.report.processes[0], peak: 12 * 2 ** 20, peak_ns: d.report.start_ns + 1.5e9};
            feed.source = {};
            memtrace.state.lane = "cpu 77";
            memtrace.show({report: {...d.report, processes: [p]}});
        })()""")
        page.settle()
        note, said, mark = (pages.text_of(page, at) for at in ("#chart-note", "#moment", "#highest"))
        mt.check("One moment a second. Its highest moment, 12.0 MiB on all devices together, was at 1.5" in note, note)
        mt.check(said.startswith("The highest moment seen") and mark == "8.00 MiB", f"{said}; {mark}")
        page.js("feed.source = null; memtrace.show({})")
        page.settle()
        said, mark = pages.text_of(page, "#moment"), pages.text_of(page, "#highest")
        mt.check(said.startswith("At the peak") and mark == "peak 8.00 MiB", f"{said}; {mark}")
        pages.clean(page)


def test_axis_says_what_it_means():
    """Of every height and every stretch of time each label is the number of its line, not a rounded one (0.98 MiB of 1000 KiB)."""
    with browser.open(pages.page_of(pages.recording())) as page:
        wrong = page.js("""(async () => {
            const units = {B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40}, wrong = [];
            for (let height = 3; height < 2 ** 43; height = Math.ceil(height * 1.17)) {
                const l = lane(), [a, b] = [l.total, l.cats];
                l.cats = {PARAMETER: a.map(() => height)};
                makeChart();
                await null; // drawn
                [l.total, l.cats] = [a, b];
                chart.axes[1]._values.forEach((label, i) => {
                    const [number, unit] = label.split(" ");
                    if (number * units[unit] !== chart.axes[1]._splits[i])
                        wrong.push([label, chart.axes[1]._splits[i]]);
                });
                if (chart.axes[1]._values.length < 3)
                    wrong.push([height, chart.axes[1]._values]);
            }
            return wrong;
        })()""")
        times = page.js("""(() => {
            const wrong = [];
            for (let visible = 1e3; visible < 1e14; visible *= 1.37) {
                const step = tickSteps(0, visible / 1e9).find((s) => visible / 1e9 / s <= 9), labels = [];
                for (let k = 0; k * step <= visible / 1e9; k++) {
                    const label = ticks(k * step * 1e9, visible), [number, unit] = label.split(" ");
                    labels.push(label);
                    if (Math.abs(number * {s: 1, min: 60}[unit] - k * step) > step / 1e6)
                        wrong.push([label, k * step]);
                }
                if (labels.length < 3 || new Set(labels).size < labels.length)
                    wrong.push([visible, labels]);
            }
            return wrong;
        })()""")
        mt.check(not times, f"{len(times)} such as {times[:4]}")
        cut = page.js("[...document.querySelectorAll('input')].filter((i) => i.size <= i.placeholder.length).map((i) => i.placeholder)")
        mt.check(not cut, f"filters without room for their words: {cut}")
        mt.check(not wrong, f"{len(wrong)} such as {wrong[:4]}")
