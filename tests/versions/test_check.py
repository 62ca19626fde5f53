# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The command that fetches and removes (check), without a torch: its table, its lists of packages, its end by Ctrl-C."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import mt

CHECK = pathlib.Path(__file__).resolve().parent / "check"
CLASSES = ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE")


def the_command(home):
    loader = importlib.machinery.SourceFileLoader("check", str(CHECK))
    check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
    loader.exec_module(check)
    check.HOME = pathlib.Path(home)
    return check


def result_of(check, torch, python, commit):
    word = {f"{what} {way}": 1 for what in CLASSES for way in ("recall", "precision")}
    return {"torch": torch, "python": python, "built": check.built(), "commit": commit, "layout": "2.4 to 2.15", "operators": 3600,
            "unread": 0, "word": dict(word, live=0.9999), "names": 1, "modules": 1}


def test_the_table_keeps_what_was_not_run_now():
    with mt.scratch() as tmp:
        check = the_command(tmp)
        (tmp / "done").mkdir()
        old = check.row("2.8.0", result_of(check, "2.8.0+cu128", "3.10.13", "aaaa")) + check.row(
            "2.4.1", result_of(check, "2.4.1+cu121", "3.12.1", "bbbb")) + "| 2.4.1+cu121 | of other columns |\n"
        new = result_of(check, "2.8.0+cu128", "3.10.14", "cccc")
        (tmp / "done" / "2.8.0-3.10.json").write_text(json.dumps(new))
        (tmp / "done" / "2.4.1-3.12.json").write_text(json.dumps(dict(new, built="another program")))
        told = check.table(old)
        rows = [(m[1], m[2], m[3]) for m in re.finditer(r"^\| (2\S+) \| PyPI \| (\S+) \| (\w+) \|", told, re.M)]
        mt.check(rows == [("2.8.0+cu128", "3.10.14", "cccc"), ("2.4.1+cu121", "3.12.1", "bbbb")], told)
        mt.check("2.4.1 on CPython 3.10, 3.11;" in told and "| 100 / 100 | 99.990 |" in told, told)
        mt.check(check.table(told) == told, "not the same again")


def applies(line, minor):
    """Whether a line of a list is for this Python."""
    wanted = re.findall(r'python_version (==|>=) "3\.(\d+)"', line)
    return not wanted or any(minor == int(n) if how == "==" else minor >= int(n) for how, n in wanted)


def test_each_python_gets_one_of_each_package():
    check = the_command("/nonexistent")
    for version, minors in check.MATRIX.items():
        for minor in minors if version != check.DEBIAN else ():
            for name, lines in check.requirements(version):
                fit = [line for line in lines.splitlines() if "==" in line and "--hash" not in line and applies(line, minor)]
                mt.check(len(fit) == 1 or (not fit and check.is_left_out(name)), f"{version} on 3.{minor}: {name}: {fit}")


def test_kept_is_fetched_once():
    """Again only with other packages; --with takes it, and what it runs has that Python."""
    with mt.scratch() as tmp:
        check, made = the_command(tmp), []

        def make(version, minor, home="work"):
            at = check.HOME / home / version / f"venv-3.{minor}" / "bin"
            at.mkdir(parents=True)
            (at / "python").write_text("")
            made.append((version, minor, home))
            return str(at / "python")
        check.make, check.ROOT = make, tmp
        check.requirements = lambda version: [("torch", f"torch=={version}")]
        check.interpreter = lambda minor: "python" if minor == 12 else None
        mt.check(check.one_of("2.15.0-3.11") == ("2.15.0", 11) and check.one_of("2.15.0") == ("2.15.0", 12), "the Python that is here")
        first = check.keep("2.15.0", 12)
        mt.check(check.keep("2.15.0", 12) == first and made == [("2.15.0", 12, "kept")], f"{made}")
        told = tmp / "told"
        mt.check(check.run_with("2.15.0", ["sh", "-c", f"echo $MT_PYTHON >{told}"]) == 0 and told.read_text().strip() == first, "--with")
        mt.check(len(made) == 1 and pathlib.Path(first).exists(), f"{made}")
        check.requirements = lambda version: [("torch", "another")]
        mt.check(check.keep("2.15.0", 12) == first and len(made) == 2, "other packages")
        check.run_with("2.14.1-3.12", ["true"])
        mt.check(made[2:] == [("2.14.1", 12, "work")], f"what nobody keeps: {made}")
        check.make = lambda *_: None
        mt.check(check.keep("2.14.1", 12) is None and check.run_with("2.14.1-3.12", ["true"]) == 2, "no such Python")

        def halfway(version, _minor, home):
            (pathlib.Path(tmp) / home / version / "cuda").mkdir(parents=True)
            raise subprocess.CalledProcessError(1, "pip")
        check.make = halfway
        try:
            check.keep("2.14.1", 12)
            mt.check(False, "half of it is taken for all")
        except subprocess.CalledProcessError:
            mt.check(not (pathlib.Path(tmp) / "kept" / "2.14.1").exists(), "half of it stays")


STOPPED = """
import importlib.machinery, importlib.util, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal's shell starts it; in the background it is ignored
loader = importlib.machinery.SourceFileLoader("check", sys.argv[1])
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)
check.HOME = pathlib.Path(sys.argv[2])
def make(version, minor):
    (check.HOME / "work" / version / "torch").mkdir(parents=True)
    return sys.executable
check.make = make
check.TESTS = [sys.executable, "-c", '''
import sys, time
print("testing", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    print("jobs ended", flush=True)
''']
sys.argv[1:] = ["2.8.0"]
sys.exit(check.main())
"""


def test_ctrl_c_leaves_nothing_fetched():
    with mt.scratch() as tmp:
        with mt.Proc([sys.executable, "-B", "-c", STOPPED, CHECK, tmp], start_new_session=True) as proc:
            proc.line("testing", 30)
            mt.check((tmp / "work" / "2.8.0").exists(), "nothing was there")
            os.killpg(proc.pid, signal.SIGINT)
            proc.line("jobs ended", 10)
            proc.line("check-versions: stopped", 10)
            mt.check(proc.popen.wait(10) == 130, f"{proc.popen.returncode}: {proc.err}")
        mt.check(sorted(p.name for p in tmp.iterdir()) == ["lock"], f"{list(tmp.iterdir())}")


def test_root_leaves_the_clone_to_its_owner():
    with mt.scratch() as tmp:
        check = the_command(tmp / "versions")
        (tmp / "versions" / "done").mkdir(parents=True)
        (tmp / "versions" / "done" / "x.json").symlink_to("/etc/passwd")
        os.chown(tmp, 1234, 1234)
        check.ROOT = tmp
        check.give_back()
        mine = [p for p in (tmp / "versions").rglob("*") if p.lstat().st_uid != 1234]
        mt.check(not mine and os.stat("/etc/passwd").st_uid == 0, f"{mine}")


def test_it_says_which_commit():
    """As git has it, and with a mark when the program's sources were changed since."""
    with mt.scratch() as tmp:
        check = the_command(tmp)
        mt.check(re.fullmatch(r"[0-9a-f]{10}\+?", check.made_from()), check.made_from())
        check.ROOT = tmp
        mt.check(check.made_from() == "?", "a commit, and no clone")
        for command in (("init", "-q"), ("add", "."), ("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")):
            (tmp / "Makefile").write_text("all:\n")
            subprocess.run(["git", *command], cwd=tmp, check=True)
        mt.check(re.fullmatch(r"[0-9a-f]{10}", check.made_from()), check.made_from())
        (tmp / "Makefile").write_text("more:\n")
        mt.check(check.made_from().endswith("+"), check.made_from())
