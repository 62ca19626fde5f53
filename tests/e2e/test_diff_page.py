# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The page of `memtrace diff A B -o OUT.html` in headless Chromium: numbers as in diff --json, both runs in the chart, by hand."""
import json

import browser
import grown
import mt
import test_page

LANDING = {"both_runs"}

# Of every element with text of its own that is seen: contrast of it to the ground below it.
CONTRAST = """(() => {
    const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
    const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (e) => {
        for (; e; e = e.parentElement) {
            const c = rgb(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0)
                return light(c);
        }
        return 1;
    };
    const found = [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !["SCRIPT", "STYLE"].includes(e.tagName) &&
        [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
    const all = found.map((e) => {
        const a = light(rgb(getComputedStyle(e).color)), b = ground(e);
        return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.slice(0, 60)];
    });
    return all.sort((x, y) => x[0] - y[0])[0];
})()"""


def record(tmp, name, width):
    path = tmp / f"{name}.mtr"
    with mt.job("mlp", "--width", str(width)) as proc:
        grown.record(path, proc, grown.knows_python, "names of its modules")
    return path


def words(page, row):
    return page.js(f"[...document.querySelectorAll('#diff-rows tbody tr')].map(r => [...r.cells].map(c => c.textContent))[{row}]")


def press(page, text, where="button"):
    page.js(f"[...document.querySelectorAll({json.dumps(where)})].find(b => b.textContent === {json.dumps(text)}).click()")
    page.settle()


def ink(page, color):
    """How much of the chart has a colour of the page."""
    return page.js(f"""(() => {{
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("{color}").trim();
        probe.fillRect(0, 0, 1, 1);
        const want = probe.getImageData(0, 0, 1, 1).data;
        const c = document.querySelector("#diff-chart canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let n = 0;
        for (let i = 0; i < d.length; i += 4)
            n += d[i + 3] > 200 && [0, 1, 2].every((k) => Math.abs(d[i + k] - want[k]) < 12);
        return n;
    }})()""")


def check_numbers(page, a, b, kinds=("category", "module", "op")):
    for by in kinds:
        press(page, by)
        doc = json.loads(mt.ok(mt.memtrace("diff", a, b, "--by", by, "--json", "--top", 1000)).stdout)
        first = words(page, 0)
        top = doc["rows"][0]
        key = "mean" if "mean" in top["change"] else "at_peak"
        mt.check(first[0] == top["name"], f"{by}: {first[0]}, and {top['name']} grew most")
        page_bytes = [page.js(f"bytes(Math.round({top[side][key]}))") for side in ("a", "b")]
        mt.check(first[1:3] == page_bytes and first[3][0] == ("+" if top["change"][key] > 0 else "−"), f"{by}: {first[:4]}, and {page_bytes}")
        shown = page.js("document.querySelectorAll('#diff-rows tbody tr').length")
        shown_keys = ("mean", "at_peak", "live", "alloc_bytes", "count")
        changed = [r for r in doc["rows"] if any(abs(r["change"].get(key, 0)) >= 0.5 for key in shown_keys)]
        mt.check(shown == min(25, len(changed)), f"{by}: {shown} of {len(changed)} rows that changed")
        same = len(doc["rows"]) - len(changed)
        mt.check(not same or f"{same} row" in test_page.text_of(page, "#diff-count"), f"{by}: {same} rows are the same in both")


def test_both_runs():
    test_page.need_library()
    with mt.scratch() as tmp:
        a, b, out = record(tmp, "a", 64), record(tmp, "b", 256), tmp / "diff.html"
        mt.ok(mt.memtrace("diff", a, b, "-o", out))
        mt.expect_failure(mt.memtrace("diff", a, b, "-o", out), 1, "diff.html")
        mt.ok(mt.memtrace("diff", a, b, "-o", out, "--force"))
        peaks = [mt.report(x)["devices"]["cpu"]["peak"] for x in (a, b)]
        for width, height, dark in test_page.WIDTHS:
            with browser.open(out, width, height, dark) as page:
                test_page.clean(page)
                least, text = page.js(CONTRAST)
                mt.check(least >= 4.5, f"contrast {least:.2f} of '{text}' at {width}, {'dark' if dark else 'light'}")
                mt.check(page.js("document.documentElement.scrollWidth") <= width, f"wider than a window of {width}")
                for color in ("--allocated", "--reserved"):
                    mt.check(ink(page, color) > 50, f"no line of {color} at {width}")
        mt.note(f"least contrast: {least:.1f}")
        with browser.open(out, 1280, 900) as page:
            mt.check(page.js(f"bytes({peaks[0]}) + ' → ' + bytes({peaks[1]})") in test_page.text_of(page, "#facts"), "peaks")
            check_numbers(page, a, b)
            commands = page.js("[...document.querySelectorAll('#diff-verdicts > div')].map(d => [...d.querySelectorAll('small')].map(s => s.textContent))")
            for path, said in zip((a, b), commands):
                wanted = [line["next"].replace(" FILE", f" {path}") for line in mt.report(path)["verdict"] if line["next"]]
                mt.check(said == [f"next: {command}" for command in wanted], f"{said}, and not {wanted}")
            press(page, "by step")
            last = page.js("diffState.chart.data[0].at(-1)")
            steps = max(s["number"] for x in (a, b) for s in mt.report(x)["phases"]["steps"])
            mt.check(ink(page, "--reserved") > 50 and last == steps, f"the last step is {last}, not {steps}")
            highest = page.js("diffState.chart.data.slice(1).map(v => Math.max(...v.filter(x => typeof x === 'number')))")
            mt.check(highest == peaks, f"steps reach {highest}, the peaks are {peaks}")
            x, y, w, ht = page.js("(r => [r.x, r.y, r.width, r.height])(document.querySelector('#diff-chart .u-over').getBoundingClientRect())")
            page.mouse("mouseMoved", x + w / 2, y + ht / 2)
            page.settle()
            said = test_page.text_of(page, "#diff-moment")
            mt.check(said.startswith("step ") and "A " in said and "B " in said, said)
            test_page.clean(page)
        mt.ok(mt.memtrace("diff", b, a, "--by", "name", "-o", out, "--force"))
        with browser.open(out, 1280, 900) as page:  # it fell: what took most of it down comes first
            check_numbers(page, b, a, ("name", "module", "op"))
            press(page, "module")
            press(page, "module", "#diff-rows thead button")
            names = [words(page, row)[0] for row in range(3)]
            mt.check(names == sorted(names), f"a first press on a column of text sorts from A to Z: {names}")
            test_page.clean(page)
        mt.ok(mt.memtrace("diff", a, a, "-o", out, "--force"))
        with browser.open(out, 1280, 900) as page:
            said = test_page.text_of(page, "#diff-count")
            mt.check("No difference by " in said and "rows are the same in both." in said and not page.js("document.querySelector('#diff-rows tr')"), said)
            test_page.clean(page)


def test_attached_and_started():
    """What was allocated before an attach stands behind all else, as in text and JSON, and the note on it beside its rows."""
    test_page.need_library()
    with mt.scratch() as tmp:
        a, b, out = tmp / "a.mtr", tmp / "b.mtr", tmp / "diff.html"
        with mt.job("transformer", "--quiet") as proc:
            grown.record(a, proc, grown.knows_python, "names of its modules")
        mt.ok(mt.memtrace("record", "-o", b, "--", mt.PYTHON, mt.JOBS / "transformer.py", "--quiet", "--seconds", 4, timeout=180))
        for one, other in ((a, b), (b, a)):
            doc = json.loads(mt.ok(mt.memtrace("diff", one, other, "--json", "--top", 1000)).stdout)
            mt.ok(mt.memtrace("diff", one, other, "-o", out, "--force"))
            with browser.open(out, 1280, 900) as page:
                note = next(n for n in doc["notes"] if n.startswith("Allocated before the attach"))
                mt.check(note not in test_page.text_of(page, "#diff-count"), "categories are the same however a recording began")
                press(page, "op")
                mt.check(note in test_page.text_of(page, "#diff-count"), test_page.text_of(page, "#diff-count"))
                page.js("[...document.querySelectorAll('#diff-rows button')].find(b => b.textContent.startsWith('all '))?.click()")
                page.settle()
                shown = page.js("[...document.querySelectorAll('#diff-rows tbody tr')].map(r => r.cells[0].textContent)")
                last = {r["name"] for r in doc["rows"] if r.get("before_attach")} & set(shown)
                mt.check(last and set(shown[-len(last):]) == last, f"{last} should be the last ones of {shown}")
                mt.check(shown[0] == next(r["name"] for r in doc["rows"] if r["name"] in shown), f"{shown[0]} is first")
                test_page.clean(page)


def test_a_page_and_nothing_else():
    with mt.scratch() as tmp:
        a = record(tmp, "a", 32)
        before = a.read_bytes()
        for other in ("--json", "--md"):
            mt.expect_failure(mt.memtrace("diff", a, a, "-o", tmp / "x.html", other), 2, "-o writes a page")
        mt.expect_failure(mt.memtrace("diff", a, tmp / "none.mtr", "-o", tmp / "x.html"), 1, "none.mtr")
        mt.check([p.name for p in tmp.iterdir()] == ["a.mtr"] and a.read_bytes() == before, "something was left")
