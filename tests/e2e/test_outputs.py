# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Files that memtrace writes: whose they are, what they replace, what is in them, what survives what."""
import os
import signal
import stat

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
