# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace ps, --name, and the list that memtrace alone shows on a terminal. Other jobs of the machine are left alone."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time

import mt

LANDING = {"by_name"}

TIMEOUT_S = {"what_there_is": 300, "without_root": 300, "by_name": 300}
NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups"]


def rows(*wrapper, program=mt.MEMTRACE):
    done = subprocess.run([*wrapper, program, "ps", "--json"], capture_output=True, text=True, timeout=60, check=False)
    return json.loads(mt.ok(done).stdout)


def row_of(pid, doc):
    return next((r for r in doc["processes"] if r["pid"] == pid), None)


def torch_version():
    return subprocess.run([mt.PYTHON, "-c", "import importlib.metadata as m; print(m.version('torch'))"], capture_output=True, text=True,
                          check=True).stdout.strip()


def test_what_there_is():
    mt.need_root()
    with mt.job("mlp", wrapper=["env", "RANK=3", "WORLD_SIZE=8"]) as job, mt.job("use") as parent:
        parent.tell("go")
        workers = [int(w) for w in parent.line("still ", 60).split()[1:]]
        doc = rows()
        row, above = row_of(job.pid, doc), row_of(parent.pid, doc)
        kids = [r for r in doc["processes"] if r["ppid"] == parent.pid]
        mt.check(doc["complete"] and row["torch"] == torch_version() and row["supported"] == "yes" and row["why"] is None, f"{row}")
        mt.check((row["rank"], row["world"], row["user"], row["traced"], row["is_fork"]) == (3, 8, "root", False, False), f"{row}")
        mt.check("mlp.py" in row["command"] and row["rss"] > 50 << 20, f"{row}")
        mt.check(above["rank"] is None and workers and {k["pid"] for k in kids} == set(workers), f"{above} {kids} {workers}")
        mt.check(all(k["is_fork"] for k in kids) and above["forks"] == len(kids), f"{above} {kids}")

        text = mt.ok(mt.memtrace("ps")).stdout
        line = next(x for x in text.splitlines() if re.match(rf" *{job.pid} ", x))
        mt.check("3 of 8" in line and row["torch"] in line and re.search(r" no +\d+  mlp\.py\b", line), line)
        program, script = row["command"].split()[0], row["command"].split()[1]
        mt.check(program.split("/")[-1].startswith("python") and script.endswith("/mlp.py"), f"it is Python that runs it: {row}")
        mt.check(not any(re.match(rf" *{k['pid']} ", x) for k in kids for x in text.splitlines()), f"children: {text}")
        mt.check(any(re.match(rf" *{kids[0]['pid']} ", x) for x in mt.ok(mt.memtrace("ps", "--all")).stdout.splitlines()), "--all")

        with mt.scratch() as tmp:
            tracer = mt.start("record", "-p", job.pid, "-o", tmp / "a.mtr")
            try:
                mt.wait_attached(tracer, job.pid)
                mt.check(row_of(job.pid, rows())["traced"], "it is traced, and ps does not say so")
                copy = shutil.copy(mt.MEMTRACE, tmp / "memtrace")
                seen = row_of(job.pid, rows(*NOBODY, program=copy))
                mt.check(seen["traced"] and seen["torch"] is None, f"without root: {seen}")
                mt.finish(tracer)
            finally:
                tracer.close()
        mt.check(not row_of(job.pid, rows())["traced"], "nothing traces it any more")
        pid = job.pid
    mt.check(row_of(pid, rows()) is None, "it has ended")


def test_without_root():
    """Its own processes as root sees them; of others that they run Python, and the count of the rest."""
    if not shutil.which("setpriv"):
        raise mt.Skip("needs setpriv")
    other = mt.shared_job("mlp")
    with mt.job("mlp", wrapper=NOBODY) as job, mt.scratch() as tmp:
        copy = shutil.copy(mt.MEMTRACE, tmp / "memtrace")
        doc = rows(*NOBODY, program=copy)
        row, stranger = row_of(job.pid, doc), row_of(other.pid, doc)
        mt.check(row["torch"] == torch_version() and row["supported"] == "yes" and row["user"] == "nobody", f"{row}")
        mt.check(stranger["supported"] == "unknown" and stranger["torch"] is None and "another user" in stranger["why"], f"{stranger}")
        mt.check(stranger["rss"] > 50 << 20 and "mlp.py" in stranger["command"], f"{stranger}")
        mt.check(not doc["complete"] and doc["unseen"] > 0, f"{doc['complete']} {doc['unseen']}")
        done = subprocess.run([*NOBODY, copy, "ps"], capture_output=True, text=True, timeout=60, check=False)
        mt.check("may not be looked at" in mt.ok(done).stdout and "sudo memtrace ps" in " ".join(done.stdout.split()), done.stdout)
        done = subprocess.run([*NOBODY, copy, "record", "--name", "mlp.py", "-o", tmp / "a.mtr"], capture_output=True, text=True,
                              timeout=60, check=False)
        mt.expect_failure(done, 1, "needs root")


def test_by_name():
    """A word of its own in each command line, so that no other job of the machine is meant."""
    mt.need_root()
    word = f"only-{os.getpid()}-{time.monotonic_ns()}"
    with mt.scratch() as tmp:
        script = tmp / f"{word}.py"
        script.write_text((mt.JOBS / "mlp.py").read_text())
        with mt.Proc([mt.PYTHON, script], env=dict(os.environ, PYTHONPATH=str(mt.JOBS), PYTHONDONTWRITEBYTECODE="1")) as job:
            job.line("ready ", 120)
            done = mt.ok(mt.memtrace("record", "--name", script.name, "-d", 1, "-o", tmp / "a.mtr"))
            mt.check(f"{script.name}: process {job.pid}\n" in done.stderr, done.stderr)
            mt.check(mt.report(tmp / "a.mtr")["processes"][0]["pid"] == job.pid, "another process")
            done = mt.ok(mt.memtrace("plan", "--name", script, "--json"))
            mt.check(json.loads(done.stdout)["processes"][0]["pid"] == job.pid, "plan")
            mt.expect_failure(mt.memtrace("record", "--name", word, "-o", tmp / "b.mtr"), 1, "no process with PyTorch", "memtrace ps")
            mt.expect_failure(mt.memtrace("record", "--name", f"x{script.name}", "-o", tmp / "b.mtr"), 1, "no process with PyTorch")
            mt.check(not (tmp / "b.mtr").exists(), "a recording of nothing")
            mt.check_goes_on(job)
    mt.expect_failure(mt.memtrace("record", "--name", "a b"), 2, "no word of a command line")
    mt.expect_failure(mt.memtrace("record", "--name", "x", "--", "true"), 2, "not both")
    mt.expect_failure(mt.memtrace("-p", 4194304), 1, "no process", "memtrace ps")


class Terminal:
    """memtrace alone, on a terminal."""

    def __init__(self, term="xterm"):
        self.fd, side = pty.openpty()
        termios.tcsetwinsize(side, (24, 80))
        self.before = termios.tcgetattr(self.fd)
        self.proc = subprocess.Popen([mt.MEMTRACE], stdin=side, stdout=side, stderr=side, start_new_session=True,
                                     preexec_fn=own_terminal,
                                     env=dict(os.environ, TERM=term))
        os.close(side)
        self.text = ""

    def wait_for(self, word, timeout=60):
        end = time.monotonic() + timeout
        while word not in self.text:
            mt.check(time.monotonic() < end, f"no '{word}' in {self.text[-2000:]!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended before '{word}': {self.text[-2000:]!r}") from None

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """All that it still wrote, its settings afterwards, its exit code."""
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.text += data.decode(errors="replace")
        code = self.proc.wait(60)
        after = termios.tcgetattr(self.fd)
        os.close(self.fd)
        return code, after

    def check_restored(self):
        code, after = self.end()
        mt.check(after == self.before, f"settings before {self.before}, after {after}")
        mt.check(self.text.rfind(LEAVES) > self.text.rfind(ENTERS) >= 0, f"still on the other screen: {self.text[-500:]!r}")
        mt.check(self.text.count("\x1b[?25l") <= self.text.count("\x1b[?12l\x1b[?25h") + self.text.count("\x1b[?25h\x1b[?0c")
                 + self.text.count("\x1b[?12;25h"), f"the cursor is hidden: {self.text[-500:]!r}")
        return code


def own_terminal():
    """Ctrl-C is a signal, and what ends it is ignored by nobody: behind a shell's & that is SIGINT, behind nohup SIGHUP."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"


def number_of(pid, text):
    """The row of a process in what was drawn: cells that stayed blank are jumped over."""
    found = re.search(rf"(\d+)(?: |\x1b\[\d+C|\x1b\[\d*[;\d]*m)+{pid}\b", text)
    mt.check(found, f"no row of {pid}: {text[-2000:]!r}")
    return int(found[1])


def check_watches(t, job):
    mt.wait_until(lambda: mt.probed(job.pid, mt.NEW), "its probes", 60)
    t.type("q")
    code = t.check_restored()
    mt.check(code == 0, f"exit {code}")
    mt.check_goes_on(job)


def test_choosing_on_a_screen():
    """By number or with arrow keys; and on every way out the terminal is as it was."""
    mt.need_root()
    job = mt.shared_job("mlp")
    for way, code in (("q", 0), ("\x1b", 0), (signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -signal.SIGTERM),
                      (signal.SIGHUP, -signal.SIGHUP), ("\x03", -signal.SIGINT), (signal.SIGSEGV, -signal.SIGSEGV)):
        t = Terminal()
        t.wait_for("leaves")
        mt.check(not termios.tcgetattr(t.fd)[3] & termios.ICANON, "keys come line by line")
        if isinstance(way, str):
            t.type(way)
        else:
            os.kill(t.proc.pid, way)
        got = t.check_restored()
        mt.check(got == code, f"{way!r}: exit {got}, not {code}")
    t = Terminal()
    t.wait_for("leaves")
    row = number_of(job.pid, t.text)
    t.type("99999\n")
    t.wait_for("none of these numbers")
    t.type(f"{row}\n")
    check_watches(t, job)
    t = Terminal()
    t.wait_for("leaves")
    row = number_of(job.pid, t.text)
    t.type("\x1bOF\x1bOH" + "j" * 20 + "k" * 20 + "\x1bOB" * (row - 1) + "\n")
    check_watches(t, job)


def test_choosing_line_by_line():
    mt.need_root()
    job = mt.shared_job("mlp")
    t = Terminal("dumb")
    t.wait_for("q leaves:")
    t.type("q\n")
    mt.check(t.end()[0] == 0, "q leaves")
    t = Terminal("dumb")
    t.wait_for("q leaves:")
    t.type("0\n")
    t.wait_for("none of these numbers")
    number = next(m[1] for m in (re.match(rf" *(\d+) +{job.pid} ", x) for x in t.text.splitlines()) if m)
    t.type(f"{number}\n")
    t.wait_for("time_s=")
    os.kill(t.proc.pid, signal.SIGINT)
    mt.check(t.end()[0] == 0, f"{t.text[-1000:]}")
    mt.check_goes_on(job)
    # Without a terminal it is the help, as for a script that has a mistake.
    done = mt.memtrace()
    mt.check(done.returncode == 2 and "Usage: memtrace" in done.stdout, f"{done.returncode} {done.stdout[:200]}")
