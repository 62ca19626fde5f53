# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Files that memtrace writes: whose they are, what they replace, what is in them, what survives what."""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import time
import urllib.request

import mt

LANDING = {"ctrl_c_while_the_disk_stalls", "disk_that_stalls_for_a_while"}
ALONE = {"killed_while_recording"}
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


def recorded(job, path, *args, seconds=1, env=None):
    """The job for a second, in a file."""
    mt.ok(mt.memtrace("record", "-p", job.pid, "-d", seconds, *args, "-o", path, env=env))
    return path


def test_files_belong_to_who_asked():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        home = askers(tmp)
        is_askers(recorded(job, home / "a.mtr", env=SUDO))
        tracer = mt.start("record", "-p", str(job.pid), "--window", "1s", "-o", str(home / "w.mtr"), env=SUDO)
        with tracer:
            mt.wait_until(lambda: any("attached" in line for line in tracer.err), "the attach", 60)
            tracer.signal(signal.SIGUSR1)
            mt.wait_until((home / "w-1.mtr").exists, "the window's file", 60)
            mt.finish(tracer)
        is_askers(home / "w.mtr")
        is_askers(home / "w-1.mtr")
        for form, name in (("jsonl", "a.jsonl"), ("jsonl", "a.jsonl.gz"), ("sqlite", "a.db"), ("html", "a.html")):
            mt.ok(mt.memtrace("export", home / "a.mtr", "--to", form, "-o", home / name, env=SUDO))
            is_askers(home / name)
        mt.check(not [p for p in home.iterdir() if p.suffix == ".part"], "something half made was left")


def test_means_are_of_what_was_traced():
    """
    Not of the time in which probes were planned, steps watched without them, and set: weights are there all the time. What
    the optimizer takes meanwhile counts in between, and at a moment within its step.
    """
    weights = 6 * 4 * (64 * 64 + 64)  # the job's own, of float32; Adam has two of each, and a count of steps a tensor
    with mt.scratch() as tmp, mt.job("mlp") as job:
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", "2", "-o", tmp / "a.mtr"))
        rep = mt.report(tmp / "a.mtr")
        text = mt.ok(mt.memtrace("report", tmp / "a.mtr")).stdout
    mt.note(f"{rep['traced_ns'] / 1e9:.2f} of {rep['duration_ns'] / 1e9:.2f} s traced")
    mt.check(1.9e9 < rep["traced_ns"] < rep["duration_ns"] - rep["attach"]["took_ns"], f"{rep['traced_ns']} of {rep['duration_ns']}")
    mt.check(re.search(r"UTC, [0-9.]+ s of [0-9.]+ s traced,", text), text)
    for name, there in (("PARAMETER", weights), ("OPTIMIZER_STATE", 2 * weights + 12 * 4)):
        mean = rep["devices"]["cpu"]["categories"][name]["byte_ns"] / rep["traced_ns"]
        mt.check(0.97 * there < mean < 1.15 * there, f"{name}: {mean} on average, {there} all the time")


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
        a, out = recorded(job, tmp / "a.mtr"), tmp / "out"
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
        recorded(job, a, "--force")
        mt.check(a.read_bytes() != before and stat.S_IMODE(a.stat().st_mode) == 0o600, "the recording was not replaced")
        mt.check(sorted(p.name for p in tmp.iterdir()) == ["a.mtr", "out", "short.mtr"], f"{list(tmp.iterdir())}")


def test_a_limit_of_file_sizes_is_told():
    """ulimit -f: an error and nothing left, not a death by SIGXFSZ."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", tmp / "a.mtr"))
        for form in ("jsonl", "sqlite"):
            done = mt.memtrace("export", tmp / "a.mtr", "--to", form, "-o", tmp / "out",
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10)))
            mt.expect_failure(done, 1, "writing ")
            mt.check([p.name for p in tmp.iterdir()] == ["a.mtr"], f"{form}: {list(tmp.iterdir())}")


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
        mt.ok(mt.memtrace("record", "--redact", "--probes", "host", "-o", tmp / "launched.mtr", "--", "sh", "-c",
                          f"{mt.PYTHON} {script} 1 --token hunter2; exit 0", env=env))
        with mt.Proc(argv, env=env) as job:
            job.line("ready")
            recorded(job, tmp / "attached.mtr", "--redact", "--probes", "host")
            recorded(job, tmp / "plain.mtr", "--probes", "host")
            live = mt.ok(mt.memtrace("--redact", "--json", "--probes", "host", "-d", 1, "-p", job.pid)).stdout
            with mt.start("serve", "--redact", "--max-overhead", "none", "--probes", "host", "-p", str(job.pid), "--listen", "127.0.0.1:0") as serve:
                mt.wait_until(lambda: any("http://" in line for line in serve.out + serve.err), "the address", 60)
                url = next(w for line in serve.out + serve.err for w in line.split() if w.startswith("http://"))
                for page, lines in (("", None), ("metrics", None), ("events", 3)):
                    with urllib.request.urlopen(url + page, timeout=60) as answer:
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


# --- commands that need no rights ------------------------------------------------------------------------------

NOBODY = ["setpriv", "--reuid=54399", "--regid=54399", "--clear-groups"]


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def has_nothing(pid, uid):
    st = status_of(pid)
    for field in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        mt.check(int(st[field], 16) == 0, f"{field} is {st[field]}")
    mt.check(st["NoNewPrivs"] == "1", "a program that it started could gain rights")
    mt.check(st["Uid"].split() == [str(uid)] * 4, f"it runs as {st['Uid']}")


def test_offline_commands_have_no_rights():
    """While each reads: no capability, nothing to be gained by exec, and behind sudo the asker's uid alone."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        home = askers(tmp)
        recorded(job, home / "a.mtr", seconds=2, env=SUDO)
        for env, uid in ((os.environ, 0), (SUDO, ASKER)):
            # an output that nobody reads stops them in the middle
            for args in (["export", home / "a.mtr", "--to", "jsonl", "--ops", "-o", "-"], ["report", home / "a.mtr", "--flow", "--json",
                                                                                   "--steps", "all"]):
                argv = [str(a) for a in (mt.MEMTRACE, *args)]
                with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env) as proc:
                    proc.stdout.read(1)
                    has_nothing(proc.pid, uid)
                    proc.kill()
        out = home / "b.json"
        mt.ok(mt.memtrace("export", home / "a.mtr", "--to", "jsonl", "-o", out))  # root in somebody else's directory
        mt.ok(mt.memtrace("export", home / "a.mtr", "--to", "sqlite", "-o", home / "b.db"))
        mt.check(json.loads(out.read_text().splitlines()[0]), "nothing was exported")
        before = out.read_bytes()
        mt.ok(mt.memtrace("export", home / "a.mtr", "--to", "jsonl", "--force", "-o", out))
        mt.check(out.read_bytes() == before, "the same export is another one")
        mt.ok(mt.memtrace("merge", home / "a.mtr", home / "a.mtr", "-o", home / "c.mtr"), (1,))
        mt.check(sorted(p.name for p in home.iterdir()) == ["a.mtr", "b.db", "b.json"], f"{list(home.iterdir())}")


def test_capabilities_of_the_file_open_no_files():
    """A program with capabilities, run by nobody: what is root's alone stays so."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        os.chmod(tmp, 0o755)
        secret, public, mine = tmp / "secret.mtr", tmp / "public.mtr", tmp / "mine"
        recorded(job, secret)
        shutil.copy(secret, public)
        os.chmod(public, 0o644)
        mine.mkdir()
        os.chown(mine, 54399, 54399)
        program = tmp / "memtrace"
        shutil.copy(mt.MEMTRACE, program)
        os.chmod(program, 0o755)
        subprocess.run(["setcap", "cap_sys_admin,cap_sys_ptrace,cap_dac_read_search,cap_dac_override+ep", program], check=True)
        run = lambda *args: subprocess.run([*NOBODY, program, *args], capture_output=True, text=True, check=False, cwd="/")
        for args in (["report", secret], ["report", secret, "--json"], ["export", secret, "--to", "jsonl", "-o", "-"],
                     ["diff", secret, public], ["merge", secret, public, "-o", mine / "m.mtr"], ["estimate", secret]):
            done = run(*args)
            mt.check(done.returncode == 1 and "Permission denied" in done.stderr and not done.stdout,
                     f"{args}: {done.returncode} {done.stderr} {done.stdout[:200]}")
        mt.ok(run("report", public))
        mt.expect_failure(run("export", public, "--to", "jsonl", "-o", tmp / "x"), 1, "Permission denied")
        mt.ok(run("export", public, "--to", "jsonl", "-o", mine / "x"))
        mt.check(os.stat(mine / "x").st_uid == 54399, "whose is it?")


# --- what recordings survive --------------------------------------------------------------------------------------

@contextlib.contextmanager
def own_disk(tmp):
    """A file system of its own, that can be frozen: every write to it waits, uninterruptibly, as on a disk that is gone."""
    image, disk = tmp / "image", tmp / "disk"
    disk.mkdir()
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, disk], check=False, capture_output=True).returncode:
        raise mt.Skip("cannot mount a loop device here")
    try:
        yield disk
    finally:
        subprocess.run(["fsfreeze", "-u", disk], check=False, capture_output=True)
        mt.wait_until(lambda: not subprocess.run(["umount", disk], check=False, capture_output=True).returncode, "the umount", 60)


def freeze(disk, on=True):
    subprocess.run(["fsfreeze", "-f" if on else "-u", disk], check=True)


def test_disk_that_stalls_for_a_while():
    """Nothing is lost, neither of the rings nor of the recording: frames wait in memory meanwhile."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp, own_disk(tmp) as disk:
        path = disk / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path)) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            time.sleep(1.5)
            freeze(disk)
            before = path.stat().st_size
            time.sleep(4)
            mt.check(path.stat().st_size == before, "the disk is not frozen: nothing is tested")
            freeze(disk, False)
            time.sleep(1.5)
            mt.finish(tracer, path)
        rep = mt.report(path)
        mt.check(mt.lost(rep) == 0 and rep["duration_ns"] > 6e9, f"{rep['lost']} {rep['duration_ns']}")
    mt.check_goes_on(job)


def test_ctrl_c_while_the_disk_stalls():
    """memtrace ends in bounded time and says why; when the disk comes back the recording is completed without it."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp, own_disk(tmp) as disk:
        path = disk / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path)) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            time.sleep(1.5)
            freeze(disk)
            time.sleep(1)
            begin = time.monotonic()
            tracer.signal(signal.SIGINT)
            code = tracer.wait(60)
            took = time.monotonic() - begin
        mt.note(f"ended {took:.1f} s after Ctrl-C, on a disk that takes nothing")
        mt.check(code == 1 and took < 20, f"exit {code} after {took:.1f} s")
        said = "\n".join(tracer.err)
        mt.check("waiting for it" in said and "takes nothing" in said and "hint: " in said, said)
        mt.check(not mt.probed(job.pid, mt.OP), "probes were left behind")
        freeze(disk, False)
        mt.wait_until(lambda: "numbers cover" not in mt.memtrace("report", path, "-v").stderr, "the end of the recording", 60)
        mt.check(mt.lost(mt.report(path)) == 0, "something was lost after all")
    mt.check_goes_on(job)


def test_killed_while_recording():
    """SIGKILL: all but the last second and a bit is there."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path)) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            begin = time.monotonic()
            time.sleep(4)
            writer = mt.child_of(tracer.pid, "memtrace-disk")
            tracer.signal(signal.SIGKILL)
            lasted = time.monotonic() - begin
            tracer.wait()
        rep = mt.report(path, (0, 3))
        mt.note(f"killed after {lasted:.1f} s: {rep['duration_ns'] / 1e9:.1f} s are there")
        mt.check(rep["duration_ns"] / 1e9 > lasted - 1.5, f"{rep['duration_ns']} of {lasted}")
        mt.check(writer, "no process writes: nothing is tested")
        mt.wait_until(lambda: not lives(writer), "the end of the process that writes", 60)
    mt.check_goes_on(job)


def lives(pid):
    """Not so a corpse that nobody has buried (a container's init may not)."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    return False
