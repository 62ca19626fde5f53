# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A recording as tables, through what the program memtrace exports."""
import builtins
import json
import os
import shutil
import sqlite3
import tempfile
import weakref

from . import _notebook, _tool

try:
    import numpy
except ImportError:
    numpy = None


def _array(values):
    """A NumPy array where there is NumPy: numbers as int64 or float64 (missing: NaN), everything else as objects."""
    if numpy is None:
        return values
    if all(isinstance(v, int) for v in values):
        try:
            return numpy.array(values, dtype=numpy.int64)
        except OverflowError:
            return numpy.array(values, dtype=numpy.uint64)
    if all(v is None or isinstance(v, (int, float)) for v in values) and any(v is not None for v in values):
        return numpy.array([float("nan") if v is None else v for v in values], dtype=numpy.float64)
    out = numpy.empty(len(values), dtype=object)
    out[:] = values
    return out


class Table:
    """Columns by name: arrays of NumPy, or lists where there is none."""

    def __init__(self, names, rows):
        self.columns = list(names)
        columns = list(zip(*rows)) or [()] * len(self.columns)
        self._data = {name: _array(list(values)) for name, values in zip(self.columns, columns)}
        self._len = len(columns[0]) if columns else 0

    def __getitem__(self, column):
        return self._data[column]

    def __len__(self):
        return self._len

    def __iter__(self):
        """Rows as dicts."""
        for values in zip(*(self._data[c] for c in self.columns)):
            yield dict(zip(self.columns, values))

    def __repr__(self):
        return f"<Table of {self._len} rows: {', '.join(self.columns)}>"

    def to_dict(self):
        return dict(self._data)

    def to_pandas(self):
        import pandas
        return pandas.DataFrame(self._data)


class Recording:
    """What memtrace.open returns. Exports are made when they are first asked for, and kept until close()."""

    def __init__(self, path, classes="compat"):
        self.path = os.fspath(path)
        self._classes = ["--classes", classes]
        self._folder = tempfile.mkdtemp(prefix="memtrace-")
        self._cleanup = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._db = None
        try:
            self.report = json.loads(_tool.run("report", self.path, "--json", "--top", "100000", *self._classes))
        except BaseException:
            self.close()
            raise

    def close(self):
        if self._db is not None:
            self._db.close()
            self._db = None
        self._cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return _notebook.text(self.path, self.report)

    def _repr_html_(self):
        return _notebook.html(self.path, self.report)

    # --- tables of the sqlite export ---------------------------------------------------------------

    @property
    def db(self):
        """The sqlite export (docs/export.md) as a sqlite3.Connection."""
        if self._db is None:
            path = os.path.join(self._folder, "trace.db")
            _tool.run("export", self.path, "--to", "sqlite", "--quiet", "-o", path, *self._classes)
            self._db = sqlite3.connect(path)
        return self._db

    def sql(self, query, *values):
        """The rows of a query."""
        done = self.db.execute(query, values)
        return Table([d[0] for d in done.description], done.fetchall())

    def tables(self):
        """Names of its tables and views."""
        return [r[0] for r in self.db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")]

    def table(self, name):
        if name not in self.tables():
            raise KeyError(f"{name}: there are {', '.join(self.tables())}")
        return self.sql(f'SELECT * FROM "{name}"')

    def blocks(self, peak=False):
        """Every block, or those that were live at their device's peak: size, category, op, region, born_ns, freed_ns …"""
        return self.table("peak_blocks" if peak else "block")

    def names(self):
        """Blocks that Python has a name for, with name, kind, state, type."""
        return self.table("tensor")

    def series(self, device=None):
        """Live bytes by category, after every change: t_ns, a column each, total. Without `device` cuda:N or the CPU."""
        device = device or next((d for d in self.report["devices"] if d.startswith("cuda")), "cpu")
        cats = [name for name, in self.db.execute("SELECT name FROM categories ORDER BY id")]
        now, blocks, rows = [0] * len(cats), {}, []
        at = {name: i for i, name in enumerate(cats)}
        for t, block, size, cat, dead in self.db.execute(
                "SELECT e.t_ns, e.block, e.size, c.name, e.kind = 'destroy' FROM events e JOIN categories c ON c.id = e.category "
                "JOIN devices d ON d.id = e.device WHERE d.name = ? AND e.size > 0 "
                "AND e.kind IN ('create', 'preexisting', 'version', 'destroy') ORDER BY e.id", (device,)):
            was = blocks.pop(block, None)
            if was:
                now[was[0]] -= was[1]
            if not dead:
                blocks[block] = (at[cat], size)
                now[at[cat]] += size
            elif not was:
                continue
            rows.append((t, *now, sum(now)))
        return Table(["t_ns", *cats, "total"], rows)

    # --- lines ---------------------------------------------------------------------------------------

    def _lines(self, form, *options):
        path = os.path.join(self._folder, f"trace.{form}{''.join(options)}")
        if not os.path.exists(path):
            _tool.run("export", self.path, "--to", form, "--quiet", "-o", path, *options, *self._classes)
        with builtins.open(path, encoding="utf-8") as f:
            for line in f:
                yield json.loads(line)

    def events(self, ops=False):
        """What the model decided, one dict after the other, in order of time (docs/export.md, jsonl)."""
        return self._lines("jsonl", *(["--ops"] if ops else []))

    def op_trace(self):
        """Memory after each operator: the lines of docs/export.md, op-trace, as a table of its operators."""
        columns = ["t", "i", "name", "depth", "phase", "created", "allocated", "reserved", "tid"]
        return Table(columns, [[line[c] for c in columns] for line in self._lines("op-trace") if line["ev"] == "op"])

    def marks(self):
        """fw_start, fw_bw_boundary and step: t, i (operators before it), name, step (its number), allocated and reserved bytes."""
        columns = ["t", "i", "name", "step", "allocated", "reserved"]
        return Table(columns, [[line.get(c) for c in columns] for line in self._lines("op-trace") if line["ev"] == "mark"])


def open(path, classes="compat"):
    """Opens a recording (x.mtr)."""
    return Recording(path, classes)
