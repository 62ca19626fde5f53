# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Results that add up: tests/part (make check-promises) and tests/e2e/steady (make check-steady), with commands that are made up."""
import os
import subprocess
import sys

import mt

sys.path.insert(0, str(mt.ROOT / "tests"))
import kept  # noqa: E402

PART, STEADY = mt.ROOT / "tests" / "part", mt.ROOT / "tests" / "e2e" / "steady"


def said(argv, code, **env):
    done = subprocess.run([str(a) for a in argv], env={**os.environ, **env}, capture_output=True, text=True, check=False)
    mt.check(done.returncode == code, f"{argv}: {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done.stdout


def test_parts_that_passed_and_that_failed():
    with mt.scratch() as d:
        table = d / "promises.tsv"
        env = {"MT_PROMISES": str(table), "MT_COMMIT": "abc", "PARTS": ""}
        bad = ["sh", "-c", "echo 'FAIL x.y (1.0 s)'; echo '[  FAILED  ] z'; exit 3"]
        mt.check("hello" in said([PART, "one", "echo", "hello"], 0, **env), "its output is passed on")
        said([PART, "two", *bad], 3, **env)
        said([PART, "three", "sh", "-c", "exit 4"], 4, **env)
        rows = {(r["part"], r["result"]): r for r in kept.read(table)}
        mt.check(set(rows) == {("one", "passed"), ("two", "failed: x.y,z"), ("three", "failed: (exit code 4)")}, f"{rows}")
        # One that fails later has both rows; one that passes again has the later time alone.
        said([PART, "one", *bad], 3, **{**env, "MT_COMMIT": "def"})
        said([PART, "two", "true"], 0, **{**env, "MT_COMMIT": "def"})
        said([PART, "two", "true"], 0, **{**env, "MT_COMMIT": "ghi"})
        rows = [(r["part"], r["result"][:6], r["commit"]) for r in kept.read(table)]
        mt.check(sorted(rows) == [("one", "failed", "def"), ("one", "passed", "abc"), ("three", "failed", "abc"), ("two", "failed", "abc"),
                                  ("two", "passed", "ghi")], f"{rows}")
        lines = said([PART], 1, **env).splitlines()
        mt.check(sum(" old " in line for line in lines) == 2 and len(lines) == 6 and lines[-1] == "failed: two, three", f"what there is: {lines}")
        mt.check(len(said([PART], 0, **{**env, "MT_COMMIT": "ghi"}).splitlines()) == 5, "what failed is of another commit")
        said([PART, "none", d / "none"], 127, **{**env, "MT_COMMIT": "jkl"})
        mt.check([r["result"] for r in kept.read(table) if r["part"] == "none"] == ["failed: (exit code 127)"], "no command, no row")
        said([PART], 1, **{**env, "MT_COMMIT": "jkl"})
        said([PART, "four", "echo", "skip p.q (0.1 s): no GPU"], 0, **env)
        mt.check([r["result"] for r in kept.read(table) if r["part"] == "four"] == ["passed, skipped: p.q"], "what was skipped did not pass")


def test_parts_that_are_asked_for():
    with mt.scratch() as d:
        env = {"MT_PROMISES": str(d / "promises.tsv"), "MT_COMMIT": "abc"}

        def runs(name, parts, commit="abc"):
            return "hello" in said([PART, name, "echo", "hello"], 0, **{**env, "PARTS": parts, "MT_COMMIT": commit})

        mt.check(not runs("one", "two three") and runs("two", "two three"), "those that are named")
        mt.check(runs("one", "missing") and not runs("one", "missing"), "what did not pass yet")
        mt.check(runs("one", "missing", "def"), "of another commit it did not")
        mt.check(runs("one", "missing", "def+") and runs("one", "missing", "def+"), "uncommitted changes may be others each time")
        said([PART, "bad", "false"], 1, **{**env, "PARTS": "missing"})
        said([PART, "bad", "false"], 1, **{**env, "PARTS": "missing"})


def test_several_parts_at_a_time_keep_each_row():
    with mt.scratch() as d:
        env = {**os.environ, "MT_PROMISES": str(d / "promises.tsv"), "MT_COMMIT": "abc", "PARTS": ""}
        running = [subprocess.Popen([PART, f"p{i}", "true"], env=env, stdout=subprocess.DEVNULL) for i in range(8)]
        mt.check(not any(p.wait() for p in running), "all pass")
        mt.check({r["part"] for r in kept.read(d / "promises.tsv")} == {f"p{i}" for i in range(8)}, "a row is gone")


def test_rounds_add_up():
    with mt.scratch() as d:
        fake = d / "run"
        fake.write_text("#!/bin/sh\necho '  ok a.a (0.1 s)'\n[ -e \"$0.bad\" ] || { echo '2 passed, 0 failed, 1 skipped'; exit 0; }\n"
                        "echo 'FAIL a.b (0.1 s)'; echo '1 passed, 1 failed'; exit 1\n")
        fake.chmod(0o755)
        env = {"MT_STEADY": str(d / "steady.tsv"), "MT_STEADY_RUN": str(fake), "MT_COMMIT": "abc"}
        said([STEADY, "2", "--busy", "0"], 0, **env)
        said([STEADY, "1", "--busy", "1"], 0, **{**env, "MT_COMMIT": "old"})
        (d / "run.bad").touch()
        said([STEADY, "1", "--busy", "1"], 1, **env)
        (d / "run.bad").unlink()
        rows = [(r["commit"], r["loops"], r["passed"], r["skipped"], r["failed"]) for r in kept.read(d / "steady.tsv")]
        mt.check(rows == [("abc", "0", "2", "1", "-")] * 2 + [("old", "2", "2", "1", "-"), ("abc", "2", "1", "0", "a.b")], f"{rows}")
        text = said([STEADY, "--sum"], 1, **env)
        mt.check("a.b: failed 0 times of 2 alone, 1 of 1 beside loops" in text and "3 rounds, 1 of them beside loops, 1 failures" in text, text)
        # Three alone are missing, and four beside the loops: those alone come first.
        text = said([STEADY, "4"], 1, **env)
        mt.check(text.count("beside two busy loops") == 1 and "round 4 of 4" in text, text)
        text = said([STEADY], 1, **env)
        mt.check("round 3 of 3" in text and text.count("beside two busy loops") == 3 and "10 rounds, 5 of them" in text, text)
        mt.check("round" not in said([STEADY], 1, **env).replace("10 rounds", ""), "ten are enough")
        said([STEADY, "1", "--busy", "0", "word"], 0, **env)
        mt.check(len(kept.read(d / "steady.tsv")) == 11, "rounds of some tests are not kept")
