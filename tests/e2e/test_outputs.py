# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Files that memtrace writes: whose they are, what they replace, what is in them, what survives what."""
import json
import os
import signal
import stat
import urllib.request

import mt

ASKER = 54321
SUDO = {**os.environ, "SUDO_UID": str(ASKER), "SUDO_GID": str(ASKER), "SUDO_USER": "nobody-here"}


def askers(tmp):
    """A directory of the asker's."""
    home = tmp / "home"
    home.mkdir()
    os.chmod(tmp, 0o755)
    os.chown(home, ASKER, ASKER)
    return home


def is_askers(path):
    st = os.lstat(path)
    mt.check((st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (ASKER, ASKER, 0o600),
             f"{path}: {st.st_uid}:{st.st_gid} {st.st_mode:o}")


def test_files_belong_to_who_asked():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        home = askers(tmp)
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", home / "a.mtr", env=SUDO))
        is_askers(home / "a.mtr")
        tracer = mt.start("record", "-p", str(job.pid), "--window", "1s", "-o", str(home / "w.mtr"), env=SUDO)
        with tracer:
            mt.wait_until(lambda: any("attached" in line for line in tracer.err), "the attach")
            tracer.signal(signal.SIGUSR1)
            mt.wait_until((home / "w-1.mtr").exists, "the window's file")
            mt.finish(tracer)
        is_askers(home / "w.mtr")
        is_askers(home / "w-1.mtr")
        for form, name in (("jsonl", "a.jsonl"), ("jsonl", "a.jsonl.gz"), ("sqlite", "a.db"), ("html", "a.html")):
            mt.ok(mt.memtrace("export", home / "a.mtr", "--to", form, "-o", home / name, env=SUDO))
            is_askers(home / name)
        mt.check(not [p for p in home.iterdir() if p.suffix == ".part"], "something half made was left")


def test_what_the_asker_could_not_write_is_not_written():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        home = askers(tmp)
        secret, link, theirs = tmp / "secret", home / "link.mtr", home / "theirs.mtr"
        for path in (secret, theirs):
            path.write_text("years of work\n")
        os.symlink(secret, link)
        record = lambda *args: mt.memtrace("record", "-p", job.pid, "-d", 1, *args, env=SUDO)
        mt.expect_failure(record("-o", tmp / "x.mtr"), 1, "Permission denied", "hint: ")
        mt.expect_failure(record("-o", link, "--force"), 1, "symbolic link", "hint: ")
        mt.expect_failure(record("-o", theirs), 1, "theirs.mtr exists", "--force")
        mt.expect_failure(record("-o", theirs, "--force"), 1, "Permission denied")
        for path in (secret, theirs):
            mt.check(path.read_text() == "years of work\n", f"{path} was overwritten")


def test_nothing_is_replaced_unasked():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        a, out = tmp / "a.mtr", tmp / "out"
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", a))
        before = a.read_bytes()
        for args in (["record", "-p", job.pid, "-d", 1], ["-p", job.pid, "-d", 1, "--json"],
                     ["record", "-p", job.pid, "-d", 1, "--window", "1s"], ["merge", a, a]):
            mt.expect_failure(mt.memtrace(*args, "-o", a), 1, "a.mtr")
            mt.check(a.read_bytes() == before, f"{args}: the recording is another one")
        out.write_text("years of work\n")
        for form in ("jsonl", "sqlite", "html", "torch-snapshot"):
            done = mt.memtrace("export", a, "--to", form, "-o", out)
            mt.expect_failure(done, 1, "out exists", "hint: ", "--force")
            mt.check(out.read_text() == "years of work\n", f"{form} overwrote it")
        short = tmp / "short.mtr"
        short.write_bytes(before[:40])
        mt.expect_failure(mt.memtrace("export", short, "--to", "jsonl", "--force", "-o", out), 1, "short.mtr")
        mt.check(out.read_text() == "years of work\n", "an export that failed replaced it")
        mt.ok(mt.memtrace("export", a, "--to", "jsonl", "--force", "-o", out))
        mt.check(out.read_text().startswith("{"), "it was not replaced")
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "--force", "-o", a))
        mt.check(a.read_bytes() != before and stat.S_IMODE(a.stat().st_mode) == 0o600, "the recording was not replaced")
        mt.check(sorted(p.name for p in tmp.iterdir()) == ["a.mtr", "out", "short.mtr"], f"{list(tmp.iterdir())}")


SECRETS = ("--token", "hunter2", "jane")


def none_of(what, text):
    for secret in SECRETS:
        mt.check(secret not in text, f"{what} tells of {secret}")


def test_redact():
    """Launched and attached, recorded and served: no argument of the job's, and no word of its environment."""
    env = {**os.environ, "RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "of-jane"}
    with mt.scratch() as tmp:
        script = tmp / "job.py"
        script.write_text("import time, sys\nprint('ready', flush=True)\ntime.sleep(float(sys.argv[1]))\n")
        argv = [mt.PYTHON, str(script), "60", "--token", "hunter2"]
        mt.ok(mt.memtrace("record", "--redact", "--probes", "host", "-d", 2, "-o", tmp / "launched.mtr", "--", "sh", "-c",
                          f"{mt.PYTHON} {script} 1 --token hunter2; exit 0", env=env))
        with mt.Proc(argv, env=env) as job:
            job.line("ready")
            mt.ok(mt.memtrace("record", "--redact", "--probes", "host", "-d", 1, "-p", job.pid, "-o", tmp / "attached.mtr"))
            mt.ok(mt.memtrace("record", "--probes", "host", "-d", 1, "-p", job.pid, "-o", tmp / "plain.mtr"))
            live = mt.ok(mt.memtrace("--redact", "--json", "--probes", "host", "-d", 1, "-p", job.pid)).stdout
            with mt.start("serve", "--redact", "--probes", "host", "-p", str(job.pid), "--listen", "127.0.0.1:0") as serve:
                mt.wait_until(lambda: any("http://" in line for line in serve.out + serve.err), "the address")
                url = next(w for line in serve.out + serve.err for w in line.split() if w.startswith("http://"))
                for page, lines in (("", None), ("metrics", None), ("events", 3)):
                    with urllib.request.urlopen(url + page, timeout=10) as answer:
                        got = b"".join(answer.readline() for _ in range(lines)) if lines else answer.read()
                    mt.check(got, f"/{page} is empty")
                    none_of(f"serve /{page}", got.decode(errors="replace"))
        mt.check("hunter2" in json.dumps(mt.report(tmp / "plain.mtr")), "a command line is not in a report at all: nothing is tested")
        none_of("--json", live)
        for name in ("launched", "attached"):
            path = tmp / f"{name}.mtr"
            text = mt.ok(mt.memtrace("report", path, "--json"), (0, 3)).stdout
            none_of(name, text)
            python = os.path.basename(mt.PYTHON)
            mt.check(any(p["cmdline"] == python for p in json.loads(text)["processes"]), f"{name}: its program is not told: {text[:2000]}")
            none_of(name, mt.ok(mt.memtrace("export", path, "--to", "jsonl", "-o", "-"), (0, 3)).stdout)
            mt.check("RANK=3" in text, f"{name}: its rank is not told")
