# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Completions in the shells themselves: bash, zsh and fish, each asked as somebody who presses Tab does."""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import time

import mt

COMMANDS = {"record", "report", "export", "diff", "merge", "estimate", "plan", "doctor", "serve", "ps", "completion", "check", "mcp", "help",
            "version"}


def script(shell, folder):
    path = folder / f"memtrace.{shell}"
    path.write_text(mt.ok(mt.memtrace("completion", shell)).stdout)
    return path


def need(shell):
    found = shutil.which(shell)
    if not found:
        raise mt.Skip(f"needs {shell}")
    return found


def files(folder):
    for name in ("a.mtr", "b.mtr", "notes.txt"):
        (folder / name).touch()


def environment(folder):
    """memtrace as a person has it: in PATH, and no settings of a user's."""
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin/memtrace").exists():
        (folder / "bin/memtrace").symlink_to(pathlib.Path(mt.MEMTRACE).resolve())
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb", "LANG": "C.UTF-8"}


def bash(folder, *words):
    code = f"source {folder}/memtrace.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _memtrace memtrace; " \
           "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "--norc", "-c", code, "bash", "memtrace", *words], capture_output=True, text=True, cwd=folder,
                          env=environment(folder), timeout=mt.guard(), check=False)
    mt.check(done.returncode == 0 and not done.stderr, f"{words}: {done.returncode} {done.stderr}")
    return set(done.stdout.split())


def test_bash():
    need("bash")
    with mt.scratch() as tmp:
        script("bash", tmp)
        files(tmp)
        mt.check(COMMANDS <= bash(tmp, ""), f"{bash(tmp, '')}")
        mt.check(bash(tmp, "rep") == {"report"}, "a command")
        mt.check(bash(tmp, "help", "exp") == {"export"}, "help")
        mt.check(bash(tmp, "report", "--lea") == {"--leaks"} and not bash(tmp, "export", "--lea"), "options of a command")
        mt.check("--pid" in bash(tmp, "--") and "--json" in bash(tmp, "-p", "1", "--"), "the live view's")
        mt.check(bash(tmp, "report", "a.mtr", "--by", "mo") == {"module"} and not bash(tmp, "diff", "--by", "process"), "words")
        mt.check("torch-snapshot" in bash(tmp, "export", "a.mtr", "--to", ""), "formats")
        mt.check(bash(tmp, "-p", "1", "--stacks", "=", "py") == {"python"}, "behind =")
        mt.check(bash(tmp, "report", "") >= {"a.mtr", "b.mtr"} and "notes.txt" not in bash(tmp, "report", ""), "recordings")
        mt.check("notes.txt" in bash(tmp, "export", "a.mtr", "-o", "no"), "any file")
        mt.check(bash(tmp, "completion", "f") == {"fish"}, "shells")
        mt.check("bash" in bash(tmp, "record", "--", "bas") and "notes.txt" in bash(tmp, "record", "--", "cat", "n"), "a command")
        job = mt.shared_job("mlp")
        mt.check(str(job.pid) in bash(tmp, "record", "-p", ""), "pids")


def test_fish():
    fish = need("fish")
    with mt.scratch() as tmp:
        path = script("fish", tmp)
        files(tmp)

        def ask(line):
            done = subprocess.run([fish, "--no-config", "-c", f"source {path}; complete -C '{line}'"], capture_output=True, text=True,
                                  cwd=tmp, env=environment(tmp), timeout=mt.guard(), check=False)
            mt.check(done.returncode == 0 and not done.stderr, f"{line}: {done.returncode} {done.stderr}")
            return {x.split("\t")[0] for x in done.stdout.splitlines()}
        mt.check(COMMANDS <= ask("memtrace "), f"{ask('memtrace ')}")
        mt.check("--leaks" in ask("memtrace report --") and "--leaks" not in ask("memtrace export --"), "options of a command")
        mt.check("module" in ask("memtrace report a.mtr --by ") and "process" not in ask("memtrace diff --by "), "words")
        mt.check("torch-snapshot" in ask("memtrace export a.mtr --to "), "formats")
        mt.check(ask("memtrace completion f") == {"fish"}, "shells")
        mt.check({"a.mtr", "b.mtr"} <= ask("memtrace report "), "recordings")
        job = mt.shared_job("mlp")
        mt.check(str(job.pid) in ask("memtrace record -p "), "pids")


class Shell:
    """An interactive one on a terminal."""

    def __init__(self, argv, folder):
        self.fd, side = pty.openpty()
        self.proc = subprocess.Popen(argv, stdin=side, stdout=side, stderr=side, start_new_session=True, cwd=folder,
                                     env={**environment(folder), "PS1": "ready$ "})
        os.close(side)
        self.text = ""

    def wait_for(self, word):
        end = time.monotonic() + mt.guard()
        while word not in self.text:
            mt.check(time.monotonic() < end, f"no '{word}' in {self.text[-1000:]!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
        self.text = self.text.split(word, 1)[1]

    def type(self, text):
        os.write(self.fd, text.encode())

    def close(self):
        self.proc.kill()
        self.proc.wait()
        os.close(self.fd)


def press_tab(argv, begin, folder):
    shell = Shell(argv, folder)
    try:
        shell.wait_for("ready$ ")
        shell.type(begin + "; echo set-$((1 + 1))\n")
        shell.wait_for("set-2")
        shell.wait_for("ready$ ")
        for typed, rest in (("memtrace rep\t", "ort"), ("--js\t", "on"), ("--by mo\t", "dule"), ("a\t", ".mtr")):
            shell.type(typed)
            shell.wait_for(typed.rstrip("\t"))
            shell.wait_for(rest)
    finally:
        shell.close()


def test_tab_in_bash():
    with mt.scratch() as tmp:
        files(tmp)
        press_tab([need("bash"), "--norc", "--noprofile", "-i"], f"source {script('bash', tmp)}", tmp)


def test_tab_in_zsh():
    with mt.scratch() as tmp:
        files(tmp)
        press_tab([need("zsh"), "-f", "-i"], f"autoload -U compinit; compinit -u -D; source {script('zsh', tmp)}", tmp)
        (tmp / "fpath").mkdir()
        (tmp / "fpath/_memtrace").write_text(script("zsh", tmp).read_text())
        press_tab([need("zsh"), "-f", "-i"], f"fpath=({tmp}/fpath $fpath); autoload -U compinit; compinit -u -D", tmp)
