# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The HTML page (export --to html) in headless Chromium: numbers as in report --json, clicks, zoom, nothing in the console.

Without Chromium (tools/install-deps page) or without the chart library in the build, those that need it are skipped.
"""
import contextlib
import functools
import gzip
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

import browser
import grown
import mt
import test_gpu_stub as gpu_stub
import test_names as names

TIMEOUT_S = {"modules": 300, "kept_for_backward": 300, "names_of_python": 300, "gaps_are_hatched": 300}
SLOW = {"streams_and_full_disks", "looks", "map_names_blocks", "bands_are_phases", "leak_and_hostile_names",
        "fragmentation_of_a_gpu", "without_categories", "nothing_allocated", "ten_million_events"}  # make check-page has all
LANDING = {"kept_for_backward", "names_of_python", "gaps_are_hatched", "modules"}

WIDTHS = ((1280, 800, False), (1280, 800, True), (1920, 1080, True), (420, 800, False))


@functools.cache
def folder():
    path = tempfile.TemporaryDirectory(prefix="mt-e2e-page-")
    folder.keep = path  # removed when the runner ends
    return pathlib.Path(path.name)


# What a recording is long enough for, by its probes, and how many steps it has then.
LONG_ENOUGH = {"framework,flow,regions,kernel": (grown.has_marks, 40), "framework,ops,regions": (lambda rep: any(row["op"] for row in rep["leaks"]), 0),
               "framework": (lambda rep: grown.cpu(rep).get("allocs", 0) > 1000, 0)}


@functools.cache
def recording(job="mlp", probes="framework,flow,regions,kernel"):
    mt.need_root()
    path = folder() / f"{job}-{probes}.mtr"
    with mt.job(job, "--width", "128") as proc:
        with mt.start("record", "-p", str(proc.pid), "-o", str(path), "--probes", probes) as tracer:
            grown.wait(tracer, path, grown.after(*LONG_ENOUGH[probes]), "all that the page shows")
            tracer.signal(2)
            mt.check(tracer.wait(60) in (0, 3), f"record: {tracer.err}")
    return path


@functools.cache
def page_of(path):
    need_library()
    out = path.with_suffix(".html")
    mt.ok(mt.memtrace("export", path, "--to", "html", "--force", "-o", out, timeout=120), (0, 3))
    return out


@functools.cache
def need_library():
    header = mt.BUILD / "page_html.h"
    if header.exists() and "PAGE_IS_WHOLE 0" in header.read_text():
        raise mt.Skip("this build has no chart library: make page-library")


@contextlib.contextmanager
def opened(path, *args, **kw):
    """With all of the time in sight."""
    with browser.open(path, *args, **kw) as page:
        page.js('document.querySelector("#zoom-all").click()')
        page.settle()
        yield page


def clean(page):
    """Nothing in the console, and nothing was asked for but the file itself."""
    mt.check(not page.errors, f"the console says: {page.errors}")
    asked = [u for u in page.requests if not u.startswith(("file://", "data:"))]
    mt.check(not asked, f"the page asked for {asked}")


def text_of(page, selector):
    return page.js(f"document.querySelector({json.dumps(selector)}).innerText")


# --- without a browser -------------------------------------------------------------------------------------

def test_build_without_library():
    with mt.scratch() as tmp:
        subprocess.run([mt.ROOT / "tools/embed-page", tmp / "nothing", tmp / "page_html.h"], check=True, capture_output=True)
        (tmp / "main.c").write_text('#include <stdio.h>\n#include "view/page/html_page.h"\n'
                                    "int main(void) { puts(html_page__missing()); return 0; }\n")
        subprocess.run(["cc", "-I", tmp, "-I", mt.ROOT / "user", tmp / "main.c", mt.ROOT / "user/view/page/html_page.c", "-o", tmp / "a"],
                       check=True)
        said = subprocess.run([tmp / "a"], capture_output=True, text=True, check=True).stdout
        mt.check("uPlot" in said and "make page-library" in said, said)


# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lab(rgb):
    """CIE L*a*b* of linear RGB."""
    r, g, b = (min(max(c, 0), 1) for c in rgb)
    xyz = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b, \
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    x, y, z = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_colours_differ_for_everybody():
    source = (mt.ROOT / "user/view/page/page.js").read_text()
    colors = dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', source))
    mt.check(len(colors) == 14, f"14 categories, {len(colors)} colours")
    torch = ("PARAMETER", "OPTIMIZER_STATE", "GRADIENT", "INPUT", "ACTIVATION", "TEMPORARY", "AUTOGRAD_DETAIL", "unknown")
    least = {}
    for vision, matrix in VISION.items():
        seen = {}
        for name, text in colors.items():
            rgb = [int(text[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            rgb = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
            seen[name] = lab([sum(m * c for m, c in zip(row, rgb)) for row in matrix])
        for some, limit in ((torch, 14), (tuple(colors), 14)):
            apart = min((sum((p - q) ** 2 for p, q in zip(seen[a], seen[b])) ** 0.5, a, b) for a, b in itertools.combinations(some, 2))
            least[vision, len(some)] = round(apart[0], 1)
            mt.check(apart[0] >= limit, f"{vision}: {apart[1]} and {apart[2]} are {apart[0]:.1f} apart, wanted {limit}")
    mt.note(f"least distance of two categories (CIE76): {least}")


def test_streams_and_full_disks():
    path = recording("mlp", "framework")
    plain = page_of(path).read_bytes()
    done = subprocess.run([mt.MEMTRACE, "export", path, "--to", "html", "-o", "-"], capture_output=True, check=False)
    mt.check(done.returncode == 0 and done.stdout == plain, "stdout is another page than the file")
    packed = path.with_suffix(".html.gz")
    mt.ok(mt.memtrace("export", path, "--to", "html", "-o", packed))
    mt.check(gzip.decompress(packed.read_bytes()) == plain, ".gz is another page")
    mt.expect_failure(mt.memtrace("export", path, "--to", "html", "-o", "/dev/full"), 1, "no space")
    mt.check("html" in mt.ok(mt.memtrace("export", "--help")).stdout, "--help does not tell of html")


# --- numbers -----------------------------------------------------------------------------------------------

def test_numbers_of_report():
    path = recording()
    rep = mt.report(path, (0, 3))
    with opened(page_of(path)) as page:
        seen = page.js("""(() => {
            const m = memtrace.model(), lanes = {};
            for (const l of m.lanes) {
                const at = (i) => Object.fromEntries(Object.entries(l.cats).map(([k, v]) => [k, v[i]]));
                const peak_t = m.report.devices[l.dev].peak_ns - m.report.start_ns; // of several as high the report has chosen one
                let high = 0;
                for (let i = 0; i < l.t.length; i++)
                    high = Math.abs(l.t[i] - peak_t) <= Math.abs(l.t[high] - peak_t) ? i : high;
                lanes[l.dev] = {live: l.live, peak: l.peak, high: l.total[high], high_t: l.t[high], highest: Math.max(...l.total), at_peak: at(high),
                                end: l.total.at(-1), cats: at(l.t.length - 1)};
            }
            const verdict = [...document.querySelectorAll("#verdict > li")].map((e) => [e.className, e.firstChild.textContent]);
            return {lanes, report: m.report, root: m.nodes[0], ops: m.nodes.length, verdict};
        })()""")
        clean(page)
    mt.check(seen["verdict"] == [[line["severity"], line["text"]] for line in rep["verdict"][:6]], f"{seen['verdict']}, report {rep['verdict']}")
    for key in ("schema", "target", "events", "lost", "ops_total", "steps", "overhead"):
        mt.check(seen["report"][key] == rep[key], f"{key}: {seen['report'][key]} {rep[key]}")
    for key in ("rss", "rss_peak", "mapped", "brk_growth"):
        mt.check(seen["report"]["kernel"][key] == rep["kernel"][key], f"kernel's {key}")
    mt.check(set(seen["lanes"]) == set(rep["devices"]), f"lanes {set(seen['lanes'])}")
    for dev, d in rep["devices"].items():
        lane = seen["lanes"][dev]
        mt.check(lane["peak"] == lane["high"] == lane["highest"] == d["peak"], f"peak: {lane}, report {d['peak']}")
        mt.check(abs(lane["high_t"] - (d["peak_ns"] - rep["start_ns"])) <= 512, f"time of the peak: {lane['high_t']}")
        mt.check(lane["live"] == lane["end"] == d["live"], f"live at the end: {lane}, report {d['live']}")
        told = {k: c["at_peak"] for k, c in d["categories"].items() if c["at_peak"]}
        mt.check({k: v for k, v in lane["at_peak"].items() if v} == told, f"at the peak: {lane['at_peak']}, report {told}")
    peaks = sum(d["peak"] for d in rep["devices"].values())
    mt.check(seen["root"]["at_peak"] == peaks, f"the icicle's whole at the peak {seen['root']['at_peak']}, report {peaks}")
    allocated = sum(d["alloc_bytes"] for d in rep["devices"].values())
    mt.check(seen["root"]["alloc_bytes"] == allocated, f"allocated {seen['root']['alloc_bytes']}, report {allocated}")


# --- what a reader does ------------------------------------------------------------------------------------

def test_looks():
    path = page_of(recording())
    for width, height, dark in WIDTHS:
        with browser.open(path, width, height, dark) as page:
            clean(page)
            mt.check(page.js("document.documentElement.scrollWidth") <= width, f"wider than a window of {width}")
            # Something is drawn in each picture, in more than a few colours.
            for canvas in ("#chart canvas", "#bands", "#map"):
                colors = page.js(f"""(() => {{
                    const c = document.querySelector("{canvas}"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
                    return new Set(new Uint32Array(d.buffer)).size;
                }})()""")
                mt.check(colors > 4, f"{canvas} at {width}: {colors} colours")
            for word in ("time covered", "lost", "probes set"):
                mt.check(word in text_of(page, "#coverage"), f"no '{word}' in the coverage block")


def says_the_peaks_step(page, path):
    """In its head and at the peak, as report --at peak says it, also where steps are joined in the picture."""
    n = json.loads(mt.ok(mt.memtrace("report", path, "--json", "--at", "peak"), (0, 3)).stdout)["moment"]["step"]
    want = f", in step {n}" if n else ""
    head, said = (" ".join(text_of(page, box).split()) for box in ("#facts", "#moment .where"))
    mt.check(re.search(r"cpu peak .*? at [\d.]+ s(?:, in step \d+)? cpu live", head) and f" s{want} cpu live" in head, f"{n}: {head}")
    mt.check(("in step" in said) == bool(n) and want in said, f"{n}: {said}")
    if n:
        # Another rank, told first, is a thousand steps further and ends its own a little later: the one that ends first is meant.
        found = page.js("""(() => {
            const doc = memtrace.model().doc, one = doc.bands[0];
            doc.bands.unshift({...one, pid: one.pid + 1, steps: {...one.steps, rows: one.steps.rows.map(([at, life, number]) => [at, life + 1, number + 1000])}});
            drawHead();
            return stepOf(doc.bands, memtrace.model().lanes[0].peakT)[1][2];
        })()""")
        page.press("#zoom-all")
        for text in (text_of(page, box) for box in ("#facts", "#moment .where")):
            mt.check(f", in step {n}" in text and f"in step {n + 1000}" not in text and found == n, f"{n}, of two ranks: {found}, {text}")
        page.js("memtrace.model().doc.bands.shift()")
        page.js("memtrace.model().doc.bands[0].steps.rows.forEach((row) => row.push(row[2] + 1))")
        page.press("#zoom-all")
        mt.check(want in text_of(page, "#moment .where"), f"{n}: {text_of(page, '#moment .where')}")


def test_begins_with_a_step():
    """One step, the peak's; the button shows all. Not where something leaks: there all of the time counts."""
    with browser.open(page_of(recording())) as page:
        a, b = page.js("memtrace.state.range")
        peak, rows = page.js("[memtrace.model().lanes[0].peakT, memtrace.model().doc.bands[0].steps.rows]")
        begin, life = next(row[:2] for row in rows if row[0] <= peak <= row[0] + row[1])
        mt.check(begin - 0.03 * life <= a <= begin and begin + life <= b <= begin + 1.03 * life and len(rows) > 8,
                 f"{a} to {b}, the peak's step from {begin} on for {life}")
        mt.check(page.js("location.hash") == "", "an address that nobody asked for")
        legend = page.js("[...document.querySelectorAll('#phase-key > span')].map((e) => [e.textContent, e.firstChild.style.background])")
        mt.check([name for name, _ in legend] == ["forward", "backward", "optimizer"] and len({color for _, color in legend}) == 3, f"{legend}")
        page.press("#zoom-all")
        mt.check(page.js("memtrace.state.range") is None, "all is not all")
        says_the_peaks_step(page, recording())
        clean(page)


def test_a_settling_step_is_called_so():
    """In its band and at its moments, and no other step is."""
    with browser.open(page_of(recording())) as page:
        number, (plain, settling) = page.js("""(async () => {
            const {doc, report, lanes} = memtrace.model(), pid = doc.bands[0].pid, number = stepOf(doc.bands, lanes[0].peakT)[1][2];
            const proto = CanvasRenderingContext2D.prototype, fill = proto.fillText, said = [];
            const others = report.phases.steps.filter((s) => s.number !== number).map((s) => ({...s, settling: false}));
            for (const settling of [false, true]) {
                const texts = [];
                proto.fillText = function (text, ...at) { texts.push(text); fill.call(this, text, ...at); };
                memtrace.show({report: {...report, phases: {...report.phases, steps: [...others, {...report.phases.steps[0], pid, number, settling}]}}});
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                said.push([texts.filter((text) => text.startsWith("step ")), document.querySelector("#moment .where").innerText]);
            }
            proto.fillText = fill;
            return [number, said];
        })()""")
        mt.check(f"step {number}" in plain[0] and f"in step {number}" in plain[1] and "settling" not in str(plain), f"{number}: {plain}")
        mt.check(set(settling[0]) == {f"step {number}, settling"} and f"in step {number} (settling)" in settling[1], f"{number}: {settling}")
        clean(page)


def test_title_of_several_jobs():
    """The first one, and how many others; the command line would be that of the first alone."""
    with opened(page_of(recording())) as page:
        titles = page.js("""[2, 3, undefined].map((jobs) => {
            const report = memtrace.model().doc.report, cmdline = "python /srv/train.py --lr 1";
            memtrace.show({report: {...report, target: {...report.target, pid: 12, cmdline, jobs}}});
            return [document.title, document.querySelector("#subtitle").textContent.includes(cmdline)];
        })""")
        mt.check(titles == [["memtrace: train.py (pid 12) and 1 other", False], ["memtrace: train.py (pid 12) and 2 others", False],
                            ["memtrace: train.py 12", True]], f"{titles}")
        clean(page)


def test_private_bytes_over_time():
    """A line for each process that was read often enough, beside its last value."""
    with opened(page_of(recording())) as page:
        heads, lines, cells, title = page.js("""(() => {
            const report = memtrace.model().doc.report, read = (own) => ({private: own * 2 ** 20, shared: 0, at_ns: 0});
            const p = (pid, owns) => ({...report.processes[0], pid, peak: pid, use: read(owns.at(-1)), use_over_time: owns.map(read)});
            memtrace.show({report: {...report, processes: [p(2, [1, 8, 4]), {...report.processes[0], pid: 1, peak: 1, use: undefined, use_over_time: undefined}]}});
            const all = (what) => [...document.querySelectorAll(`#processes ${what}`)];
            return [all("th").map((e) => e.textContent), all("td path").map((e) => e.getAttribute("d")), all("tbody tr").map((e) => [...e.cells].slice(-2).map((c) => c.textContent)),
                all("td").find((e) => e.querySelector("path")).title];
        })()""")
        mt.check(heads[-2:] == ["private", "private over time"], str(heads))
        mt.check(lines == ["M1,14.25L36,2L71,9"], str(lines))  # 1, 8 and 4 of 8 MiB
        mt.check(cells == [["4.00 MiB", ""], ["–", "–"]], str(cells))
        mt.check("1.00 MiB at first, 4.00 MiB at the last of 3 readings; the most 8.00 MiB" == title, title)
        clean(page)


def test_timeline_by_hand():
    with opened(page_of(recording())) as page:
        first = text_of(page, "#moment")
        mt.check(first.startswith("At the peak"), first)
        sizes = page.js("[...document.querySelector('#moment table').rows].map((r) => parseInt(r.cells[1].title))")
        mt.check(sizes and 0 not in sizes and sizes == sorted(sizes, reverse=True), f"{sizes}")
        x, y, width, height = page.box("#chart canvas")
        page.mouse("mouseMoved", x + width * 0.7, y + height / 2)
        page.settle()
        mt.check(text_of(page, "#moment").startswith("Under the pointer"), text_of(page, "#moment"))
        page.click(x + width * 0.7, y + height / 2)
        held = page.js("memtrace.state.held")
        page.mouse("mouseMoved", 5, 5)
        page.settle()
        mt.check(text_of(page, "#moment").startswith("Held"), text_of(page, "#moment"))
        total = page.js(f"memtrace.composition({held}).total")
        mt.check(page.js("document.querySelector('#moment .total').title") == f"{total} bytes", "the held moment's sum")
        page.key("Escape")
        mt.check(text_of(page, "#moment") == first, "Esc does not let go")

        start, whole = page.js("[memtrace.model().first, memtrace.model().duration - memtrace.model().first]")
        page.drag(x + width * 0.4, y + height / 2, x + width * 0.5, y + height / 2)
        a, b = page.js("memtrace.state.range")
        mt.check(0.05 * whole < b - a < 0.2 * whole and 0.2 * whole < a - start < b - start < 0.7 * whole, f"dragged to {a} {b} of {whole}")
        page.press("#zoom-in")
        c, d = page.js("memtrace.state.range")
        mt.check(abs((d - c) * 2 - (b - a)) < 2, "the + button does not halve")
        page.key("ArrowRight")
        mt.check(page.js("memtrace.state.range")[0] > c, "the arrow does not move")
        page.press("#zoom-all")
        mt.check(page.js("memtrace.state.range") is None, "all is not all")
        page.press("#to-peak")
        a, b = page.js("memtrace.state.range")
        peak = page.js("memtrace.model().lanes[0].peakT")
        mt.check(a <= peak <= b, "the peak is not in sight")
        mt.check("Held: the peak" in text_of(page, "#moment"), text_of(page, "#moment"))

        x, y, width, height = page.box("#map")
        page.drag(x + width * 0.4, y + 20, x + width * 0.6, y + 20)
        c, d = page.js("memtrace.state.range")
        mt.check(d - c < b - a, "dragging on the map does not zoom")
        page.js("document.querySelector('#plots').dispatchEvent(new WheelEvent('wheel', {deltaY: 100, ctrlKey: true, "
                "clientX: 600, clientY: 300, cancelable: true}))")
        page.settle()
        e, f = page.js("memtrace.state.range") or (start, start + whole)
        mt.check(f - e > d - c, "the wheel does not zoom")

        # as if there were more forwards than the page has
        mt.check("All phases" not in text_of(page, "#chart-note"), text_of(page, "#chart-note"))
        page.js("memtrace.model().doc.bands[0].forward.count += 1")
        page.press("#zoom-all")
        mt.check(re.search(r"All phases are here from [0-9.]+ \S+ to [0-9.]+ \S+, around the peak", text_of(page, "#chart-note")),
                 text_of(page, "#chart-note"))
        clean(page)


def test_a_moment_has_an_address():
    """A held moment, the zoom: a page opened with the address shows the same, and going back goes back."""
    path = page_of(recording())
    with browser.open(path) as page:
        x, y, width, height = page.box("#chart canvas")
        page.click(x + width * 0.6, y + height / 2)
        page.mouse("mouseMoved", 5, 5)
        page.settle()
        held, said, address = page.js("memtrace.state.held"), text_of(page, "#moment"), page.js("location.hash")
        mt.check(address.startswith("#at="), address)
        page.press("#to-peak")
        mt.wait_until(lambda: "zoom=" in page.js("location.hash"), "the zoom in the address", 60)
        zoomed, zoom = page.js("location.hash"), page.js("memtrace.state.range")
        page.js("history.back()")
        mt.wait_until(lambda: page.js("memtrace.state.held") is not None and abs(page.js("memtrace.state.held") - held) < 2, "the moment before", 60)
        page.press("#plots")
        page.key("Escape")
        mt.check("at=" not in page.js("location.hash"), "it was let go")
        page.press("#to-step")
        mt.check(0.01 < (page.js("memtrace.state.range[1] - memtrace.state.range[0]")) < zoom[1], "one step")
        clean(page)
    for hash_, check in ((address, lambda p: text_of(p, "#moment") == said), (zoomed, lambda p: p.js("memtrace.state.range")[0] - zoom[0] < 1000),
                         ("#at=1e999&zoom=9-1&lane=%ff%00<b>", lambda p: p.js("memtrace.state.held") is None), ("#at=99999999", lambda p: True)):
        with browser.open(None) as page:
            page.load_url(path.resolve().as_uri() + hash_)
            mt.check(check(page), f"{hash_} shows {text_of(page, '#moment')}, {page.js('memtrace.state.range')}")
            clean(page)


def test_gaps_are_hatched():
    """What was not traced is no zero and no line: the page says so, and its peak is the report's."""
    mt.need_root()
    need_library()
    path = folder() / "some.mtr"
    if not path.exists():
        with mt.job("transformer", "--batch", "4") as job:
            with mt.start("record", "-p", str(job.pid), "-o", str(path), "--steps", "3", "--every", "1s") as tracer:
                grown.wait(tracer, path, lambda rep: rep.get("sampling", {}).get("windows", 0) >= 3, "three windows")
                mt.finish(tracer, path)
    rep = mt.report(path)
    for width, height, dark in WIDTHS:
        with opened(page_of(path), width, height, dark) as page:
            x, y, wide, high = page.box("#chart canvas")
            gap = page.js("(() => { const g = memtrace.model().gaps.filter((g) => g.from > memtrace.model().lanes[0].t[0]).reduce((a, b) => a.to - a.from > b.to - b.from ? a : b); return [g.from, g.to]; })()")
            mt.check(page.js("memtrace.model().lanes[0].peak") == rep["devices"]["cpu"]["peak"], "the peak is that of the report")
            # 68 pixels of labels, 10 behind; the middle of the longest gap
            at = 68 + (wide - 78) * (gap[0] + gap[1]) / 2 / page.js("memtrace.model().duration")
            page.mouse("mouseMoved", x + at, y + high / 2)
            page.settle()
            mt.check("not traced" in text_of(page, "#moment"), text_of(page, "#moment"))
            # Beside it, and pale in the chart, what was highest before: every step of this job reaches the peak.
            mt.check(f"Traced before it: at most {page.js('bytes(memtrace.model().lanes[0].peak)')}" in text_of(page, "#moment"),
                     text_of(page, "#moment"))
            mt.check(page.js("""(() => {
                const c = document.querySelector("#chart canvas"), k = devicePixelRatio, ctx = c.getContext("2d");
                const [x, y] = [%f, %f], seen = new Set(ctx.getImageData(x * k, y * k, 20, 20).data);
                return seen.size > 4;
            })()""" % (at, high / 2)), "a gap is drawn as high as what was traced before it")
            for word in (f"of {rep['sampling']['steps_seen']} steps {rep['sampling']['steps_traced']} traced",):
                mt.check(word in text_of(page, "#subtitle").replace("\u202f", " "), text_of(page, "#subtitle"))
            mt.check("not traced" in text_of(page, "#phase-key"), text_of(page, "#phase-key"))
            clean(page)


def test_gaps_between_moments():
    """Of a long live trace there is a moment a second or less: no gap between two of them is drawn as if it had been traced."""
    with opened(page_of(recording())) as page:
        line = page.js("""(() => {
            model.gaps = [{from: 1e9, to: 1.4e9, whole: true}, {from: 1.5e9, to: 1.9e9, whole: true}];
            feed.source = {};
            const lane = {t: [0.9e9, 2e9]}, {times, from} = cutAtGaps(lane, [0, 1], 2.5e9);
            feed.source = null;
            return times.map((t, i) => [t, from[i]]);
        })()""")

        def at(t):
            return next((i for time, i in reversed(line) if time <= t), None)
        mt.check([at(t) for t in (0.95, 1.2, 1.45, 1.7, 1.95, 2.2)] == [0, None, 1, None, 1, 1], f"{line}")
        mt.check([t for t, _ in line] == sorted({t for t, _ in line}), f"times go back or stand still: {line}")
        # In the middle of a gap the scale is of what is drawn pale there.
        scale = page.js("""(() => {
            const l = lane(), from = l.peakT + 1e6, rest = model.duration - from;
            model.gaps = [{from, to: model.duration, whole: true}];
            l.before = undefined;
            state.range = [from + rest / 4, from + rest / 2];
            drawNow();
            return [chart.scales.y.max, l.peak];
        })()""")
        mt.check(scale[0] >= scale[1], f"{scale}")
        clean(page)


def test_map_names_blocks():
    with opened(page_of(recording())) as page:
        x, y, width, height = page.box("#map")
        for part in (0.97, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.03):
            for row in range(2, int(height), 4):
                page.mouse("mouseMoved", x + 68 + (width - 78) * part, y + row)
                if not page.js("document.getElementById('tip').hidden"):
                    tip = text_of(page, "#tip")
                    mt.check(re.match(r"[\d.]+ [KMG]?i?B [A-Za-z_]+\n", tip) and "0x" in tip, tip)
                    clean(page)
                    return
        raise AssertionError("no block anywhere on the map")


def test_bands_are_phases():
    with opened(page_of(recording())) as page:
        bands = page.js("memtrace.model().doc.bands")
        mt.check(len(bands) == 1, f"{len(bands)} processes with bands")
        steps = bands[0]["steps"]
        rep = mt.report(recording(), (0, 3))
        mt.check(abs(steps["count"] - rep["steps"]) <= 1, f"{steps['count']} steps, report {rep['steps']}")
        # A backward pass is known by its nodes, which are told from a moment on: by then some steps have gone.
        begin = bands[0]["backward"]["rows"][0][0]
        whole = sum(row[0] >= begin for row in steps["rows"])
        mt.check(len(steps["rows"]) == steps["count"] and whole >= 20, f"{whole} of {steps['count']} steps")
        ends = {row[0] + row[1] for row in bands[0]["optimizer"]["rows"]}
        for kind in ("forward", "backward", "optimizer"):
            got = bands[0][kind]
            cnt = sum(row[0] >= begin for row in got["rows"])
            if kind == "optimizer":  # a step ends with one; zero_grad() of the next step is one of its own
                cnt = sum(row[0] >= begin and row[0] + row[1] in ends for row in steps["rows"])
            mt.check(len(got["rows"]) == got["count"] and abs(cnt - whole) <= 2, f"{kind}: {cnt} of {whole} steps")
            mt.check(0.02 < got["ns"] / steps["ns"] < 0.95, f"{kind}: {got['ns']} ns in steps of {steps['ns']}")
        # A moment in the middle of a backward band is said to be one.
        t, life = bands[0]["backward"]["rows"][len(bands[0]["backward"]["rows"]) // 2]
        page.js(f"memtrace.state.held = {t + life / 2}; memtrace.show({{}})")
        where = text_of(page, "#moment .where")
        mt.check("backward" in where and "step" in where, where)


def test_memory_after_each_operator():
    """The plot of show_traces: the step of the peak and all of them, with marks; the numbers are op-trace's."""
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("export", recording(), "--to", "op-trace", "-o", tmp / "t"), (0, 3))
        lines = [json.loads(text) for text in open(tmp / "t")]
    ops = [line for line in lines if line["ev"] == "op" and not line["depth"]]
    ends = [(line["t"], line["step"]) for line in lines if line["ev"] == "mark" and line["name"] == "step"]
    peak = mt.report(recording(), (0, 3))["devices"]["cpu"]
    # Of steps as high as the first one it is the one that the report means: the others may end an operator a few bytes higher.
    of_peak = next(number for t, number in ends if t > peak["peak_ns"])
    for width, height, dark in WIDTHS:
        with opened(page_of(recording()), width, height, dark) as page:
            o = page.js("memtrace.model().doc.optrace")
            names = page.js("memtrace.model().doc.names")
            step, cut = o["step"], slice(o["step"]["first"], o["step"]["first"] + len(o["step"]["allocated"]))
            mt.check(o["ops"] == len(ops) and max(o["high"]) == max(line["allocated"] for line in ops), "highest")
            mt.check(step["number"] == of_peak and max(step["allocated"]) <= peak["peak"], f"{step['number']} instead of {of_peak}")
            mt.check(step["allocated"] == [line["allocated"] for line in ops[cut]], "allocated in the step")
            mt.check([names[n - 1] for n in step["op"]] == [line["name"] for line in ops[cut]], "operators of the step")
            mt.check([o["phases"][p] for p in step["phase"]] == [line["phase"] for line in ops[cut]], "phases of the step")
            mt.check({m[1] for m in step["marks"]} == {"fw_start", "fw_bw_boundary"}, str(step["marks"]))
            marks = [(line["name"], line.get("step")) for line in lines if line["ev"] == "mark"]
            # Of many steps each other one's are kept, or each fourth's, …
            rounds = itertools.accumulate(step is not None for _, step in marks)
            want = [mark for mark, before in zip(marks, rounds) if before % o["marks_each"] == 0]
            mt.check([(m[1], m[2] if len(m) > 2 else None) for m in o["marks"]] == want, "marks")
            page.js("document.querySelector('#optrace').scrollIntoView()")
            x, y, wide, high = page.box("#optrace-plot")
            mt.check(wide > 0.6 * width and high > 200, f"{wide} x {high}")
            at = (len(step["op"]) - 1) // 2
            page.mouse("mouseMoved", x + 68 + (wide - 78) * (at + 0.5) / len(step["op"]), y + high / 2)
            text = text_of(page, "#optrace-at")
            mt.check(text.startswith(f"operator {step['first'] + at}: {names[step['op'][at] - 1]}, "), text)
            page.js("document.getElementById('optrace-plot').focus()")
            page.key("ArrowRight")
            mt.check(text_of(page, "#optrace-at").startswith(f"operator {step['first'] + at + 1}: "), text_of(page, "#optrace-at"))
            page.press("#optrace .bar button:nth-of-type(2)")
            mt.check(page.js("memtrace.state.optrace") == "all", "All")
            page.key("Escape")
            mt.check(page.js("document.documentElement.scrollWidth") <= width, "wider than the window")
            painted = page.js("(() => { const c = document.getElementById('optrace-plot'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                              "return new Set(new Uint32Array(d.buffer)).size; })()")
            mt.check(painted > 4, f"{painted} colours")
            clean(page)


def test_tables_by_hand():
    with opened(page_of(recording())) as page:
        names = "[...document.querySelectorAll('#ops tbody td.name')].map(e => e.textContent)"
        before = page.js(names)
        page.js("[...document.querySelectorAll('#ops th button')].find(b => b.textContent === 'calls').click()")
        calls = page.js("[...document.querySelectorAll('#ops tbody tr')].map(r => r.lastChild.title || r.lastChild.textContent)")
        mt.check(before != page.js(names), "sorting by calls changes nothing")
        mt.check(len(calls) == len(before), f"{len(calls)} rows, were {len(before)}")
        page.press("#ops input")
        for letter in "addmm":
            page.call("Input.insertText", text=letter)
        page.settle()
        mt.check(page.js(names) and all("addmm" in n for n in page.js(names)), f"filtered: {page.js(names)}")
        page.js("[...document.querySelectorAll('#ops button')].find(b => b.textContent.startsWith('Regions')).click()")
        mt.check(any("Backward" in n for n in page.js(names)), f"regions: {page.js(names)}")

        page.press("#frames button:nth-child(3)")
        mt.check(page.js("memtrace.state.root") > 0, "a click on the icicle does not zoom")
        page.press(".path button")
        mt.check(page.js("memtrace.state.root") == 0, "the path does not lead back")
        page.js("[...document.querySelectorAll('#icicle button')].find(b => b.textContent === 'Allocated').click()")
        mt.check(page.js("memtrace.state.measure") == "alloc_bytes", "the measure stays")

        page.js("[...document.querySelectorAll('#legend button')].find(b => b.textContent === 'ACTIVATION').click()")
        page.settle()
        mt.check(page.js("[...memtrace.state.hidden]") == ["ACTIVATION"], "the legend hides nothing")
        clean(page)


def test_takes_news():
    """What serve will send: parts of the document, again and again; what the reader chose stays."""
    with opened(page_of(recording())) as page:
        page.press("#to-peak")
        chosen = page.js("memtrace.state.range")
        steps = page.js("memtrace.model().report.steps") + 1000
        page.js("(() => { const r = structuredClone(memtrace.model().report); r.steps += 1000; memtrace.show({report: r}); })()")
        page.settle()
        mt.check(page.js("memtrace.state.range") == chosen, "news move the view")
        wanted = f" {steps} steps" if steps < 10000 else " k steps"
        mt.check(wanted in text_of(page, "#subtitle"), f"{steps}: {text_of(page, '#subtitle')}")
        mt.check("schema" in page.js("(() => { try { memtrace.show({schema: 2}); } catch (e) { return e.message; } })()"), "schema 2 is shown")
        clean(page)


# --- what jobs do ------------------------------------------------------------------------------------------

def test_leak_and_hostile_names():
    path = recording("leaking", "framework,ops,regions")
    with opened(page_of(path)) as page:
        rows = page.js("memtrace.model().report.leaks")
        mt.check(rows and rows[0]["op"] == "aten::cumsum", f"the first growing place: {rows[:2]}")
        mt.check(rows[0]["region"].startswith("keep </script><img src=x onerror="), rows[0]["region"])
        mt.check(len(rows) == 1, f"growing places: {rows}")
        mt.check("aten::cumsum" in text_of(page, "#growth"), text_of(page, "#growth"))
        says_the_peaks_step(page, path)
        mt.check(rows[0]["per"] == "step" and rows[0]["bytes_slope"] == 32 * 128 * 4, f"the job keeps {32 * 128 * 4} a step: {rows[0]}")
        mt.check("onerror" in text_of(page, "body"), "the region's name is nowhere")
        mt.check(page.js("document.title").startswith("memtrace: ") and "owned" not in page.js("document.title"), "the job runs code")
        mt.check(page.js("document.images.length") == 0, "the job makes elements")
        clean(page)


@functools.cache
def named():
    """A job whose modules have names that mean harm."""
    mt.need_root()
    rep, _ = names.record("hostile", folder())
    return rep, (folder() / "names.mtr").rename(folder() / "named.mtr")


def test_names_of_python():
    """In the table, at a moment, on the map, among the blocks of the peak; as text and never as markup."""
    rep, path = named()
    list_of = {t["name"] for t in rep["names"]["list"]}
    mt.check(any("</script><img" in name for name in list_of), str(list_of))
    with opened(page_of(path)) as page:
        shown = page.js("[...document.querySelectorAll('#names td.name')].map(e => e.textContent)")
        mt.check(any(n.startswith("</script><img src=x onerror=") and n.endswith("weight") for n in shown), f"the table: {shown}")
        mt.check(any(n.startswith("momentum_buffer ") for n in shown), f"no state: {shown}")
        blocks = page.js("memtrace.model().blocks.filter((b) => b.name).map((b) => [b.name, b.what])")
        want = {(f"{t['state']} {t['name']}" if t["state"] else t["name"]) for t in rep["names"]["list"] if t["kind"] != "gradient"}
        got = {name for name, _ in blocks}
        mt.check(want <= got, f"{want} {got}")
        mt.check(all("float32[" in what and " of Sequential" in what or "SGD" in what for _, what in blocks), str(blocks[:4]))
        mt.check("onerror" in text_of(page, "#moment") and "onerror" in text_of(page, "#peak-blocks"), text_of(page, "#moment"))
        page.press("#names input")
        for letter in "momentum":
            page.call("Input.insertText", text=letter)
        page.settle()
        shown = page.js("[...document.querySelectorAll('#names td.name')].map(e => e.textContent)")
        mt.check(shown and all(n.startswith("momentum_buffer ") for n in shown), f"filtered: {shown}")
        mt.check(page.js("document.images.length") == 0 and "owned" not in page.js("document.title"), "the job makes elements")
        clean(page)


def check_operators(page, rep):
    """The table of operators with their module: rows, order and text are the report's."""
    page.js("[...document.querySelectorAll('#ops button')].find(b => b.textContent === 'With module').click()")
    rows = page.js("[...document.querySelectorAll('#ops tbody tr')].map(r => [...r.children].map(c => c.textContent))")
    want = rep["modules"]["ops"]
    mt.check(rows and len(want) >= len(rows) and any(o["module"] for o in want[:len(rows)]), f"{len(rows)} rows")
    for row, o in zip(rows, want):
        where = ".".join(filter(None, (o["module_root"], o["module"]))) if "pid" in o else "–"
        mt.check(row[0] == (o["op"] or "(no operator open)") and row[1] in (where, "(no name yet)"), f"{row} {o}")


def test_modules():
    """The treemap's boxes are as large as their modules' bytes; a click goes into one, the path leads back."""
    path = folder() / "modules.mtr"
    rep, _ = names.record("transformer", folder())
    (folder() / "names.mtr").rename(path)
    listed = rep["modules"]["list"]
    with opened(page_of(path)) as page:
        boxes = ("[...document.querySelectorAll('#tree button')].map((b) => [Number(b.dataset.depth), Number(b.dataset.bytes), "
                 "b.offsetLeft, b.offsetTop, b.offsetWidth, b.offsetHeight, b.textContent])")
        check_operators(page, rep)
        page.js("[...document.querySelectorAll('#modules button')].find((b) => b.textContent === 'Allocated').click()")
        page.settle()
        got = page.js(boxes)
        whole = page.js("document.querySelector('#tree').clientWidth * document.querySelector('#tree').clientHeight")
        top = [b for b in got if b[0] == 0]
        want = sum(m["all"]["alloc_bytes"] for m in listed if m["parent"] is None) + rep["modules"]["none"]["alloc_bytes"]
        mt.check(0.97 * want <= sum(b[1] for b in top) <= want, f"{[b[1] for b in top]} of {want}")
        for _, size, _, _, width, height, text in top:
            mt.check(abs(width * height / whole - size / want) < 0.02, f"{text}: {width} x {height} of {whole} for {size} of {want}")
        for i, a in enumerate(top):  # none over another
            for b in top[i + 1:]:
                mt.check(a[2] + a[4] <= b[2] + 1 or b[2] + b[4] <= a[2] + 1 or a[3] + a[5] <= b[3] + 1 or b[3] + b[5] <= a[3] + 1, f"{a} {b}")
        mt.check(any(b[0] == 1 for b in got), "no module in a module")
        root = next(m for m in listed if m["parent"] is None and m["all"]["alloc_bytes"])
        page.js("document.querySelector('#tree .d0').click()")
        page.settle()
        mt.check(page.js("memtrace.state.module") >= 0 and root["root"] in text_of(page, "#modules .path"), text_of(page, "#modules .path"))
        page.js("document.querySelector('#modules .path button').click()")
        mt.check(page.js("memtrace.state.module") == -1, "the path does not lead back")
        mt.check(f"{root['root']}.layers.0" in text_of(page, "#modules"), text_of(page, "#modules")[:500])
        first = page.js("document.querySelector('#modules tbody tr td').textContent")
        most = max(listed, key=lambda m: m["all"]["at_peak"])
        mt.check(first == ".".join(filter(None, (most["root"], most["name"]))), f"the table begins with {first}, {most['name']} has most at the peak")
        clean(page)


def test_kept_for_backward():
    """The table of what autograd keeps is the report's, and the treemap has it by module."""
    rep, path = names.record("transformer", folder())
    (folder() / "names.mtr").rename(folder() / "kept.mtr")
    saved = rep["saved"]
    with opened(page_of(folder() / "kept.mtr")) as page:
        rows = page.js("[...document.querySelectorAll('#saved tbody tr')].map(r => [...r.children].map(c => c.title || c.textContent))")
        mt.check(len(rows) == min(10, len(saved["list"])) > 3, f"{len(rows)} rows of {len(saved['list'])}")
        for row, k in zip(rows, sorted(saved["list"], key=lambda k: -k["bytes"])):
            mt.check(row[3] == (k["recompute"] or "–"), f"{row} {k}")
            mt.check(row[4] == f"{k['bytes']} bytes" and row[6] == str(k["blocks"]), f"{row} {k}")
            mt.check(k["module"] is None or row[0].startswith(f"{k['module_root']}.{k['module']}".rstrip(".")), f"{row} {k}")
        mt.check("memtrace estimate kept.mtr --checkpoint MODULE" in text_of(page, "#saved"), text_of(page, "#saved")[-200:])
        page.js("""(() => { const r = structuredClone(memtrace.model().report);
            r.verdict = [{severity: "hint", text: "FILE", next: "halve it; memtrace estimate FILE --checkpoint 'layers.*'", command: "memtrace estimate FILE --checkpoint 'layers.*'"}]; memtrace.show({report: r}); })()""")
        mt.check(text_of(page, "#verdict").split() == "FILE next: halve it; memtrace estimate kept.mtr --checkpoint 'layers.*'".split(), text_of(page, "#verdict"))
        page.js("""(() => { const r = memtrace.model().report;
            r.verdict = [...Array(8)].map((_, i) => ({severity: "fact", text: `line ${i}`, next: ""})); memtrace.show({report: r}); })()""")
        mt.check("line 5" in text_of(page, "#verdict") and "line 6" not in text_of(page, "#verdict") and "2 more" in text_of(page, "#verdict"),
                 text_of(page, "#verdict"))
        page.press("#verdict button")
        mt.check("line 7" in text_of(page, "#verdict") and "more" not in text_of(page, "#verdict"), text_of(page, "#verdict"))
        mt.check(any(k["modules"] > 1 for k in saved["list"][:10]) and any("*" in r[0] for r in rows), f"no pattern: {rows}")
        page.js("[...document.querySelectorAll('#modules button')].find((b) => b.textContent === 'Kept for backward').click()")
        page.settle()
        got = page.js("[...document.querySelectorAll('#tree button.d0, #tree button.none')].map((b) => Number(b.dataset.bytes))")
        want = sum(m["all"]["saved"] for m in rep["modules"]["list"] if m["parent"] is None) + rep["modules"]["none"]["saved"]
        mt.check(want > 0 and 0.97 * want <= sum(got) <= want, f"{got} of {want}")
        page.press("#saved input")
        page.call("Input.insertText", text="no such module")
        page.settle()
        mt.check("nothing" in text_of(page, "#saved"), text_of(page, "#saved")[:200])
        clean(page)


def test_fragmentation_of_a_gpu():
    """Drawn from the driver's layer of a stub GPU: 555 bytes of no known device, 556 on the second one, both a library's."""
    path = folder() / "gpu.mtr"
    run = gpu_stub.Run("late", keep=path)
    segs = run.report["devices"]["cuda:1"]["segments"]
    with opened(page_of(path)) as page:
        rows = page.js("memtrace.model().doc.segments")
        mt.check([r["dev"] for r in rows] == ["cuda:1"] and rows[0]["live"] == segs["live"] == 556, f"{rows} {segs}")
        mt.check(not page.js("document.querySelector('#segments').hidden"), "the part is hidden")
        text = text_of(page, "#segments")
        mt.check("Fragmentation" in text and "cuda:1" in text and "556 B" in text and "Private pools" not in text, text)
        page.js("""(() => {
            const report = memtrace.model().doc.report;
            report.devices["cuda:1"].segments.private_pools = [{id: "0:7", pid: 1, reserved: 4 << 20, used: 1 << 20, segments: 2, graphs: 3,
                                                                launches: 6, uses: 1, begun_ns: report.start_ns + 2e9,
                                                                captured: [1, 2, 5].map((graph) => ({graph, launches: 2}))}];
            memtrace.show({report});
        })()""")
        text = " ".join(text_of(page, "#segments").split())
        mt.check(re.search(r"0:7 cuda:1 4\.00 MiB 1\.00 MiB 3\.00 MiB 1 to 2, 5 6 2\.0+ s in use", text), text)
        clean(page)
    with opened(page_of(recording())) as page:
        mt.check(page.js("document.querySelector('#segments').hidden"), "shown without a GPU")


def test_policy_holds():
    """A script that got into the page all the same does not run, and nothing can be fetched."""
    with opened(page_of(recording())) as page:
        page.js("""(() => {
            const s = document.createElement("script");
            s.textContent = "window.ran = 1";
            document.body.append(s);
            const d = document.createElement("div");
            d.innerHTML = "<img src=x onerror='window.ran = 2'>";
            document.body.append(d);
        })()""")
        page.settle()
        mt.check(page.js("window.ran") is None, "the policy lets scripts in")
        mt.check(any("Content Security Policy" in e for e in page.errors), f"the policy says nothing: {page.errors}")
        mt.check(page.js("fetch('https://example.com/').then(() => 'sent', () => 'refused')") == "refused", "the policy lets data out")


def test_without_categories():
    path = recording("mlp", "framework")
    with opened(page_of(path)) as page:
        mt.check(page.js("Object.keys(memtrace.model().lanes[0].cats)") == ["unknown"], "categories out of nothing")
        mt.check(re.search("None|Too short", text_of(page, "#growth")), text_of(page, "#growth"))
        clean(page)


def test_nothing_allocated():
    """A recording that ends before anything happened."""
    mt.need_root()
    path = folder() / "idle.mtr"
    with mt.Proc([mt.PYTHON, "-c", "import torch, sys; print('ready', flush=True); sys.stdin.read()"]) as idle:
        idle.line("ready")
        mt.ok(mt.memtrace("record", "-p", idle.pid, "-d", 1, "-o", path))
    with opened(page_of(path)) as page:
        mt.check("time covered" in text_of(page, "#coverage"), "no coverage block")
        page.press("#to-peak")
        page.key("+")
        page.key("Escape")
        clean(page)


def test_ten_million_events():
    mt.ok(mt.make("build/tests/gen_recording"))
    path = folder() / "big.mtr"
    for procs in (1, 8):
        subprocess.run([mt.BUILD / "tests" / "gen_recording", "10000000", str(procs), path], check=True)
        out = path.with_suffix(f".{procs}.html")
        need_library()
        mt.ok(mt.memtrace("export", path, "--to", "html", "-o", out, timeout=120))
        size = out.stat().st_size
        mt.check(size < 10e6, f"a page of {size} bytes")
        rep = mt.report(path)
        with browser.open(out) as page:
            lane = page.js("(() => { const l = memtrace.model().lanes.find(x => !x.pid); return [l.peak, Math.max(...l.total), l.live]; })()")
            cpu = rep["devices"]["cpu"]
            mt.check(lane == [cpu["peak"], cpu["peak"], cpu["live"]], f"{lane}, report {cpu['peak']} {cpu['live']}")
            times = [page.js(f"""new Promise(done => {{
                const t = performance.now(), whole = memtrace.model().duration;
                document.getElementById("zoom-{'in' if i < 20 else 'out'}").click();
                requestAnimationFrame(() => setTimeout(() => done(performance.now() - t)));
            }})""") for i in range(40)]
            clean(page)
        mt.note(f"{procs} processes: {size / 1e6:.1f} MB, a zoom {statistics.median(times):.0f} ms (median), {max(times):.0f} ms (worst)")
        mt.check(statistics.median(times) < 150, f"a zoom takes {statistics.median(times)} ms")
