# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The picture of MemoryTracker.show_traces: with matplotlib where it is, else as SVG by itself."""
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1200, 520, 96, 24, 56, 52
COLUMNS = 2000
COLOURS = {"allocated_memory": "#1f77b4", "active_memory": "#ff7f0e", "reserved_memory": "#2ca02c",
           "fw_start": "#222", "fw_bw_boundary": "#d62728", "step": "#999"}


def _thin(values):
    """(x, lowest, highest) of at most COLUMNS stretches."""
    each = max(1, -(-len(values) // COLUMNS))
    return [(i, min(values[i:i + each]), max(values[i:i + each])) for i in range(0, len(values), each)]


def _ticks(top, about):
    step = 10.0 ** -6
    while True:
        for factor in (1, 2, 5):
            if top / (step * factor) <= about:
                return [k * step * factor for k in range(int(top / (step * factor)) + 1)]
        step *= 10


def _merged(series):
    """Lines that are the same, as without a caching allocator, once."""
    names = {}
    for name, values in series.items():
        names.setdefault(tuple(values), []).append(name)
    return {" = ".join(same): (COLOURS.get(same[0], "#555"), values) for values, same in names.items()}


def svg(series, marks, steps=(), title=""):
    """One SVG: `series` {name: values in MB, one an operator}, `marks` [(name, operator)]."""
    count = max([len(v) for v in series.values()] + [1])
    top = max([max(v) for v in series.values() if v] + [1e-6]) * 1.05

    def x(at):
        return LEFT + (WIDTH - LEFT - RIGHT) * at / count

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    out = ['<?xml version="1.0" encoding="UTF-8"?>',
           f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
           f'<title>{escape(title)}</title>',
           '<style>text{font:12px system-ui,sans-serif;fill:#333}path{fill:none;stroke-width:1.5}.step{stroke-dasharray:4 3}</style>',
           '<rect width="100%" height="100%" fill="#fff"/>']
    for value in _ticks(top, 8):
        out.append(f'<path stroke="#ddd" d="M{LEFT} {y(value):.2f}H{WIDTH - RIGHT}"/>'
                   f'<text text-anchor="end" x="{LEFT - 8}" y="{y(value) + 4:.2f}">{value:g}</text>')
    for at in _ticks(count, 10):
        out.append(f'<text text-anchor="middle" x="{x(at):.2f}" y="{HEIGHT - BOTTOM + 18}">{at:g}</text>')
    out.append(f'<text text-anchor="middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}"># Operator Calls</text>'
               f'<text x="{LEFT}" y="40">Memory (MB)</text>')
    lines = [("step", at) for at in steps] + list(marks)
    for name, at in lines:
        out.append(f'<path class="{escape(name)}" stroke="{COLOURS.get(name, "#555")}" d="M{x(at):.2f} {TOP}V{HEIGHT - BOTTOM}">'
                   f'<title>{escape(name)}</title></path>')
    at = LEFT + 110
    legend = []
    for name, (colour, values) in _merged(series).items():
        points = "".join(f"L{x(i):.2f} {y(high):.2f}V{y(low):.2f}" if i else f"M{x(i):.2f} {y(high):.2f}V{y(low):.2f}"
                         for i, low, high in _thin(values))
        out.append(f'<path stroke="{colour}" d="{points}"/>')
        legend.append((name, colour))
    for name, colour in legend + [(n, COLOURS.get(n, "#555")) for n in sorted({n for n, _ in lines})]:
        out.append(f'<path stroke="{colour}" d="M{at} 36h18"/><text x="{at + 24}" y="40">{escape(name)}</text>')
        at += 60 + 7 * len(name)
    out.append("</svg>\n")
    return "\n".join(out)


def matplotlib_figures(series, marks, steps=(), path=None):
    """The seed's figures: all lines in one, then each alone; with a path the first one alone, written there."""
    import matplotlib
    if path:
        matplotlib.use("Agg", force=False)
    import matplotlib.pyplot as plt

    def figure(names):
        values = [v for name in names for v in series[name]] or [0.0]
        low, high = min(values) * 0.999, max(values) * 1.001
        fig = plt.figure()
        for name in names:
            plt.plot(range(len(series[name])), series[name], label=name)
        for i, at in enumerate(steps):
            plt.plot([at, at], [low, high], color="0.6", lw=1, label=None if i else "step")
        for i, (name, at) in enumerate(marks):
            first = name not in [n for n, _ in marks[:i]]
            plt.plot([at, at], [low, high], "r" if name == "fw_bw_boundary" else "k-", lw=2 if len(marks) < 9 else 1,
                     label=name if first else None)
        plt.xlabel("# Operator Calls")
        plt.ylabel("Memory (MB)")
        plt.legend()
        return fig

    fig = figure(list(series))
    if path:
        fig.savefig(path)
        plt.close(fig)
        return
    for name in series:
        figure([name])
