# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Rows of the documents' tables (tools/tables), kept as the tests that measure them pass: build/tables/TABLE/ROW.json.

A table is made of the rows of one memtrace, all of them; they may come from several runs. What was measured with another memtrace or
Python than the tree's own (MEMTRACE, MT_PYTHON, mt.python) is not kept.
"""
import functools
import hashlib
import json
import os
import sys

import mt

HOME = mt.BUILD / "tables"


@functools.cache
def built():
    """Which memtrace."""
    return hashlib.sha256((mt.BUILD / "memtrace").read_bytes()).hexdigest()


def keep(table, name, row):
    if mt.MEMTRACE != str(mt.BUILD / "memtrace") or mt.PYTHON != str(mt.BUILD / "venv" / "bin" / "python"):
        return
    path = HOME / table / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = mt.BUILD.stat()
    os.chown(HOME, owner.st_uid, owner.st_gid)  # who runs make writes beside it, and is not root
    path.with_suffix(".tmp").write_text(json.dumps({"built": built(), "row": row}) + "\n")
    path.with_suffix(".tmp").rename(path)


def kept(table, names):
    """[the row of each name]; ends the program if one is missing."""
    docs = {name: json.loads(p.read_text()) for name in names if (p := HOME / table / f"{name}.json").exists()}
    missing = [name for name in names if name not in docs or docs[name]["built"] != built()]
    if missing:
        sys.exit(f"{table}: no rows of {', '.join(missing)} by this memtrace")
    return [docs[name]["row"] for name in names]


def write(table, text):
    HOME.mkdir(exist_ok=True)
    (HOME / f"{table}.md").write_text(text)
