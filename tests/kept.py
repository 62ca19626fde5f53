# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Results that add up over days: rows of a table in tests/, one for each run, with the commit, the time, and how busy the machine was.

A run that takes hours is a sum of runs, then. Rows of an older commit stay: what they say is of that commit.
"""
import datetime
import fcntl
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
OF_TESTS = ("bpf", "include", "user", "tests", "tools", "Makefile")
TABLES = ("tests/promises.tsv", "tests/e2e/steady.tsv")


def git(*args):
    return subprocess.run(["git", "-c", "safe.directory=*", *args], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def commit():
    """The last one that changed what is tested, or its test; + means uncommitted changes. Where git does not tell: MT_COMMIT, or ?"""
    if os.environ.get("MT_COMMIT"):
        return os.environ["MT_COMMIT"]
    what = ["--", *OF_TESTS, ":!*.md", *(f":!{t}" for t in TABLES)]
    try:
        return git("log", "-1", "--abbrev=10", "--format=%h", *what) + ("+" if git("status", "--porcelain", *what) else "")
    except (OSError, subprocess.CalledProcessError):
        return "?"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")


def load():
    return f"{os.getloadavg()[0]:.0f}"


def failures(text, code):
    """Names of the tests that failed, by what runs of tests print; "-": none did."""
    names = re.findall(r"^FAIL ([\w./-]+)", text, re.M) + re.findall(r"^\[  FAILED  \] (?!\d)(?:.*?: )?(\w+)$", text, re.M)
    names = list(dict.fromkeys(names)) or ([] if code == 0 else [f"(exit code {code})"])
    return ",".join(names) or "-"


def read(path):
    """[{column: value}]"""
    if not path.exists():
        return []
    head, *rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [dict(zip(head, row)) for row in rows]


def add(path, comment, row, instead=None):
    """One row more, in place of those of which instead(row) holds. Several may do so at a time."""
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build" / f"{path.stem}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = [r for r in read(path) if not (instead and instead(r))] + [row]
        lines = [f"# {line}" for line in comment] + ["\t".join(row)] + ["\t".join(r.get(column, "") for column in row) for r in rows]
        path.with_suffix(".new").write_text("\n".join(lines) + "\n", encoding="utf-8")
        path.with_suffix(".new").rename(path)
