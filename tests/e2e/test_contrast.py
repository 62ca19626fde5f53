# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Every text of the pages can be read: 4.5 to 1 at least with what is behind it, in light and dark, wide and narrow, in every view.

Measured in headless Chromium (contrast.py): of elements by their computed colours, of texts in pictures by the pixels under them.
"""
import json

import browser
import contrast
import mt
import test_page

SLOW = {"pages"}
LEAST = 4.5
CHOICES = "#ops, #icicle, #modules, #optrace, #diff-by"  # what has views to choose


def check(page, what, seen):
    page.js("scrollTo(0, 1e6)")
    page.settle()
    found = contrast.worst(page)
    bad = [f for f in found if f[0] < LEAST]
    mt.check(not bad, f"{what}: {len(bad)} of {len(found)} texts, such as {bad[:3]}")
    seen.append((found[0][0], len(found)))


def look_in(page, what, least_drawn, seen):
    """At all views of a page; and at the narrow one, as on a phone."""
    check(page, what, seen)
    drawn = page.js("window.drawnTexts.size")
    mt.check(drawn >= least_drawn, f"{what}: {drawn} texts in pictures")
    views = page.js(f'[...document.querySelectorAll("{CHOICES}")].flatMap((s) => [...s.querySelectorAll("button[aria-pressed=false]")]'
                    ".map((b) => [s.id, b.textContent]))")
    for section, view in views:
        page.js(f'[...document.querySelectorAll("#{section} button")].find((b) => b.textContent === {json.dumps(view)})?.click()')
        check(page, f"{what}, {view}", seen)
    page.size(420, 800)
    page.settle()
    check(page, f"{what}, narrow", seen)
    hints = [e for e in page.errors if "willReadFrequently" not in e]  # of the measuring itself
    mt.check(not hints, f"{what}: the console says {hints}")


def look(path, least_drawn):
    seen = []
    for dark in (False, True):
        with browser.open(None, dark=dark) as page:
            contrast.watch(page)
            page.load(path)
            look_in(page, f"{path.name}, {'dark' if dark else 'light'}", least_drawn, seen)
    mt.note(f"{path.name}: {sum(n for _, n in seen)} texts in {len(seen)} views, the least {min(c for c, _ in seen)}")


def test_measures():
    """What is not readable is found: dim words on a dim ground, an element's and a picture's."""
    with mt.scratch() as tmp:
        path = tmp / "bad.html"
        path.write_text('<body style="background:#fff;color:#000"><p>good</p><p style="background:#888;color:#777">bad</p><canvas id="c"></canvas>'
                        '<script>const x = c.getContext("2d"); x.fillStyle = "#eee"; x.fillRect(0, 0, 300, 150);'
                        'x.fillStyle = "#ddd"; x.fillText("drawn", 10, 20); x.fillStyle = "#000"; x.fillText("black", 10, 60)</script>')
        with browser.open(None) as page:
            contrast.watch(page)
            page.load(path)
            found = {f[1].split()[-1]: f[0] for f in contrast.worst(page)}
    mt.check(found["bad"] < 1.5 and found["drawn"] < 1.5 and found["good"] == 21 and found["black"] > 17, f"{found}")


def test_pages():
    plain, leak = test_page.folder() / "plain.mtr", test_page.folder() / "leak.mtr"
    for path, job in ((plain, ("transformer",)), (leak, ("planted", "cache"))):
        with mt.job(*job, "--quiet", "--warmup", 0.3) as proc:
            mt.ok(mt.memtrace("record", "-q", "-p", proc.pid, "-d", 5, "-o", path))
    diff = plain.with_name("diff.html")
    mt.ok(mt.memtrace("diff", plain, leak, "-o", diff))
    look(test_page.page_of(plain), 10)
    look(test_page.page_of(leak), 10)
    look(diff, 5)
