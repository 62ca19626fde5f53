# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Rows of the documents' tables (tools/tables), kept as the tests that measure them pass: build/tables/TABLE/ROW.json.

A table is made of the rows of one memtrace, all of them; they may come from several runs. What was measured with another memtrace or
Python than the tree's own (MEMTRACE, MT_PYTHON, mt.python) is not kept; with MT_TABLES=WORD another Python's rows are kept, as those of the
table TABLE-WORD.

Where all of them take an hour, single rows may be made anew (`make docs-compiled ROW=conv_attached`): the others stay as the
document has them.
"""
import functools
import hashlib
import json
import os
import re
import sys

import mt

HOME = mt.BUILD / "tables"


@functools.cache
def built():
    """Which memtrace."""
    return hashlib.sha256((mt.BUILD / "memtrace").read_bytes()).hexdigest()


def full_name(table):
    return f"{table}-{os.environ['MT_TABLES']}" if os.environ.get("MT_TABLES") else table


def keep(table, name, row):
    own = mt.PYTHON == str(mt.BUILD / "venv" / "bin" / "python")
    if mt.MEMTRACE != str(mt.BUILD / "memtrace") or own == bool(os.environ.get("MT_TABLES")):
        return
    path = HOME / full_name(table) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = mt.BUILD.stat()
    os.chown(HOME, owner.st_uid, owner.st_gid)  # who runs make writes beside it, and is not root
    path.with_suffix(".tmp").write_text(json.dumps({"built": built(), "row": row}) + "\n")
    path.with_suffix(".tmp").rename(path)


def kept(table, names):
    """[the row of each name]; ends the program if one is missing."""
    docs = {name: json.loads(p.read_text()) for name in names if (p := HOME / full_name(table) / f"{name}.json").exists()}
    missing = [name for name in names if name not in docs or docs[name]["built"] != built()]
    if missing:
        sys.exit(f"{table}: no rows of {', '.join(missing)} by this memtrace")
    return [docs[name]["row"] for name in names]


def standing(table):
    """The rows of it that the documents have."""
    marks = re.compile(rf"(?ms)^<!-- table: make docs-{full_name(table)} -->\n(.*?)^<!-- end of the table -->")
    found = [m[1] for p in sorted((mt.ROOT / "docs").glob("*.md")) if (m := marks.search(p.read_text()))]
    return [line for line in "".join(found).split("\n") if line.startswith("|")][2:]


def with_rows(table, labels, anew):
    """All rows there are, in the order of `labels` ({name: the cells that a row begins with}): those of `anew` as kept by this memtrace,
    the others as the document has them. None of `anew`: all, and all of this memtrace."""
    if not anew:
        return kept(table, labels)
    if odd := set(anew) - labels.keys():
        sys.exit(f"{table}: no rows {', '.join(sorted(odd))}; there are {', '.join(labels)}")
    new, old = dict(zip(anew, kept(table, anew))), standing(table)
    rows = [new.get(name) or next((row for row in old if row.startswith(label)), None) for name, label in labels.items()]
    return [row for row in rows if row]


def write(table, text):
    HOME.mkdir(exist_ok=True)
    (HOME / f"{full_name(table)}.md").write_text(text)
