# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A recording in a notebook: its verdict, its peak and its timeline as HTML; %%memtrace, which records a cell.

Nothing here has a colour of text or ground: a notebook's own are light or dark. Names come from the job and may be anything, so
all text is escaped.
"""
import os
import re
import shlex
import shutil
import tempfile
import weakref
from html import escape

from . import _tool
from ._plot import _ticks

# The page's (user/view/page/page.js).
COLOURS = {"PARAMETER": "#0072b2", "FROZEN": "#2222aa", "BUFFER": "#aaee88", "OPTIMIZER_STATE": "#56b4e9", "GRADIENT": "#d55e00",
           "INPUT": "#009e73", "DATALOADER": "#552255", "ACTIVATION": "#e69f00", "TEMPORARY": "#f0e442", "AUTOGRAD_DETAIL": "#cc79a7",
           "COMMUNICATION": "#8822ee", "WORKSPACE": "#882222", "UNSHARDED": "#9988ff"}
WIDTH, HEIGHT, LEFT, BOTTOM, COLUMNS = 720, 160, 64, 20, 360
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count):
    for unit in UNITS[:-1]:
        if count < 1024:
            break
        count /= 1024
    else:
        unit = UNITS[-1]
    return f"{count:.0f} B" if unit == "B" else f"{count:.{2 if count < 10 else 1 if count < 100 else 0}f} {unit}"


def main_device(report):
    """The GPU with the highest peak, else the CPU."""
    devices = report["devices"]
    gpus = [d for d in devices if d != "cpu" and devices[d]["peak"]]
    return max(gpus, key=lambda d: devices[d]["peak"]) if gpus else "cpu" if "cpu" in devices else None


def _timeline(report, name):
    device = report["devices"][name]
    points, start = device["series"]["points"], report["start_ns"]
    if len(points) < 2 or not device["peak"]:
        return ""
    each = -(-len(points) // COLUMNS)
    at = [(points[i][0], max(p[1] for p in points[i:i + each])) for i in range(0, len(points), each)]
    end = max(points[-1][0] - start, 1)
    unit = 1024 ** max(i for i in range(len(UNITS)) if device["peak"] >= 1024 ** i or not i)
    top = device["peak"] * 1.08

    def x(t):
        return LEFT + (WIDTH - LEFT - 8) * max(0, t - start) / end

    def y(value):
        return 8 + (HEIGHT - BOTTOM - 8) * (1 - value / top)

    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" style="max-width:100%;height:auto" '
           f'aria-label="live bytes on {escape(name)} over time">',
           '<g fill="currentColor" font-size="11" font-family="sans-serif">']
    for value in _ticks(top / unit, 4):
        out.append(f'<path stroke="currentColor" stroke-opacity=".2" d="M{LEFT} {y(value * unit):.1f}H{WIDTH - 8}"/>'
                   f'<text text-anchor="end" x="{LEFT - 6}" y="{y(value * unit) + 4:.1f}">{value:g} {UNITS[_power(unit)]}</text>')
    for value in _ticks(end / 1e9, 8):
        out.append(f'<text text-anchor="middle" x="{x(start + value * 1e9):.1f}" y="{HEIGHT - 4}">{value:g} s</text>')
    line = "".join(f"{'L' if i else 'M'}{x(t):.1f} {y(value):.1f}" for i, (t, value) in enumerate(at))
    out.append(f'</g><path fill="#0072b2" fill-opacity=".35" stroke="#2b8cd9" d="{line}V{y(0):.1f}H{x(at[0][0]):.1f}Z"/>'
               f'<circle cx="{x(device["peak_ns"]):.1f}" cy="{y(device["peak"]):.1f}" r="4" fill="#d55e00">'
               f'<title>the peak: {size(device["peak"])}</title></circle></svg>')
    return "".join(out)


def _power(unit):
    return next(i for i in range(len(UNITS)) if 1024 ** i == unit)


def _categories(report, name):
    device = report["devices"][name]
    rows = sorted(((c["at_peak"], k) for k, c in device["categories"].items() if c["at_peak"]), reverse=True)
    if not rows:
        return ""
    out = [f"<table><caption>{escape(name)} at its peak of {size(device['peak'])}</caption>"
           "<thead><tr><th>category</th><th>bytes</th><th>of peak</th><th></th></tr></thead><tbody>"]
    for count, category in rows:
        share = 100 * count / device["peak"]
        out.append(f'<tr><td style="text-align:left">{escape(category)}</td><td style="text-align:right">{size(count)}</td>'
                   f'<td style="text-align:right">{share:.1f} %</td>'
                   f'<td style="min-width:120px"><div style="height:10px;width:{share:.1f}%;'
                   f'background:{COLOURS.get(category, "#8a9199")}"></div></td></tr>')
    return "".join(out) + "</tbody></table>"


def next_step(line, path):
    """What a line of the verdict proposes, with the recording's name in its commands."""
    return re.sub(r"(?<=\s)FILE(?=\s|$)", lambda _: shlex.quote(str(path)), line["next"])


def html(path, report):
    """Of `memtrace report --json`."""
    out = ["<div>"]
    for line in report["verdict"]:
        weight = "font-weight:600" if line["severity"] in ("problem", "hint") else ""
        out.append(f'<p style="margin:0 0 4px;{weight}">{escape(line["text"])}')
        if line["next"]:
            out.append(f'<br><small style="margin-left:18px;font-weight:400">next: {escape(next_step(line, path))}</small>')
        out.append("</p>")
    name = main_device(report)
    if name:
        out += [_timeline(report, name), _categories(report, name)]
    return "".join(out) + "</div>"


def text(path, report):
    lines = [line["text"] + (f"\n  next: {next_step(line, path)}" if line["next"] else "") for line in report["verdict"]]
    return f"<Recording {path}>\n" + "\n".join(lines)


def _options_of(line):
    """The file that -o names, or None, and the other words."""
    output, rest, words = None, [], iter(shlex.split(line))
    for word in words:
        if word in ("-o", "--output"):
            output = next(words, "")
        elif word.startswith("--output="):
            output = word[len("--output="):]
        elif word.startswith("-o"):
            output = word[2:]
        else:
            rest.append(word)
    if output == "":
        raise ValueError("-o FILE: which file?")
    return output and os.path.abspath(os.path.expanduser(output)), rest


def record_cell(shell, line, cell):
    """Runs the cell while memtrace records this process; the recording, or an error when the cell had one."""
    from IPython.core.error import UsageError
    from IPython.display import display

    from ._recording import Recording
    try:
        output, options = _options_of(line)
    except ValueError as e:
        raise UsageError(f"%%memtrace: {e}") from None
    folder = None if output else tempfile.mkdtemp(prefix="memtrace-")
    try:
        tracer = _tool.Tracer(output=output or os.path.join(folder, "cell.mtr"), options=options)
        try:
            done = shell.run_cell(cell, store_history=False)
        finally:
            path = tracer.stop()
        recording = Recording(path)
    except BaseException as e:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(e, _tool.Error):
            raise UsageError(str(e)) from None
        raise
    if folder:
        weakref.finalize(recording, shutil.rmtree, folder, ignore_errors=True)
    wrong = done.error_before_exec or done.error_in_exec
    if wrong is None:
        return recording
    display(recording)
    raise UsageError(f"the cell ended with {type(wrong).__name__}, which stands above")


def load(shell):
    shell.register_magic_function(lambda line, cell: record_cell(shell, line, cell), "cell", "memtrace")
