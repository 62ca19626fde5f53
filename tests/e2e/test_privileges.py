# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What each of memtrace's processes may do while it traces and while it serves, and what happens when one of them dies."""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import urllib.request

import grown
import mt

LANDING = {"memtrace_is_killed_with_its_keeper"}

UID, GID = 12345, 23456
# SYS_ADMIN, SYS_PTRACE, DAC_READ_SEARCH, SYS_RESOURCE, IPC_LOCK, SYS_NICE, PERFMON, BPF, CHECKPOINT_RESTORE
KEPT = sum(1 << bit for bit in (21, 19, 2, 24, 14, 23, 38, 39, 40))
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def status(path):
    lines = (line.split(":", 1) for line in pathlib.Path(path, "status").read_text().splitlines())
    return {k: v.split() for k, v in lines}


def threads(pid):
    return [status(f"/proc/{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task")]


def keeper_of(pid):
    keeper = mt.child_of(pid, "memtrace-keeper")
    mt.check(keeper, f"{pid} has no keeper")
    return keeper


def check_rights(pid, uid, disk=False):
    """Every thread of both halves, and of what writes the recording, as the kernel tells it."""
    writer = mt.child_of(pid, "memtrace-disk")
    mt.check(bool(writer) == disk, f"memtrace-disk: {writer}")
    for s in threads(pid) + (threads(writer) if writer else []):
        caps = {k: int(s[k][0], 16) for k in SETS}
        mt.check(not any(caps.values()), f"capabilities are left: {caps}")
        mt.check(s["NoNewPrivs"] == ["1"] and s["Seccomp"] == ["2"], f"{s['NoNewPrivs']} {s['Seccomp']}")
        mt.check(s["Uid"] == [str(uid)] * 4, f"uids {s['Uid']}")
        mt.check(uid == 0 or "0" not in s["Groups"], f"groups {s['Groups']}")
    keeper = keeper_of(pid)
    for s in threads(keeper):
        caps = {k: int(s[k][0], 16) for k in SETS}
        mt.check(not any(v & ~KEPT for v in caps.values()), f"the keeper has more than it needs: {caps}")
        mt.check(s["NoNewPrivs"] == ["1"] and s["Seccomp"] == ["2"], f"{s['NoNewPrivs']} {s['Seccomp']}")
    held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    probes = [h for h in held if "bpf_link" in h or "bpf-link" in h or "bpf-prog" in h]
    mt.check(not probes, f"the unprivileged half has descriptors of probes: {probes}")
    return keeper


def as_asker():
    return {**os.environ, "SUDO_UID": str(UID), "SUDO_GID": str(GID)}


def test_rights_while_tracing():
    """No capability, no_new_privs and a filter in every thread of what reads the target; a short list in the keeper."""
    job = mt.shared_job("mlp")
    for env, uid in ((None, 0), (as_asker(), UID)):
        with mt.scratch() as tmp:
            os.chmod(tmp, 0o777)
            with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), **({"env": env} if env else {})) as tracer:
                mt.wait_attached(tracer, job.pid, mt.OP)
                mt.wait_until(lambda: len(threads(tracer.pid)) > 1, "a second thread: nothing would be said about its rights", 60)
                check_rights(tracer.pid, uid, disk=True)
                grown.wait(tracer, tmp / "a.mtr", lambda rep: grown.cpu(rep).get("allocs", 0) > 1000, "allocations")
                mt.finish(tracer, tmp / "a.mtr")
            owner = os.stat(tmp / "a.mtr")
            mt.check(owner.st_uid == uid, f"the recording belongs to {owner.st_uid}")
    mt.check_goes_on(job)


def test_rights_while_serving():
    job = mt.shared_job("mlp")
    with mt.start("serve", "-p", str(job.pid), "--listen", "127.0.0.1:0", env=as_asker()) as tracer:
        mt.wait_attached(tracer, job.pid, mt.OP)
        url = tracer_url(tracer)
        text = urllib.request.urlopen(url, timeout=60).read().decode()
        mt.check("memtrace_" in text, f"{text[:200]}")
        check_rights(tracer.pid, UID)
        mt.finish(tracer)
    mt.check_goes_on(job)


def test_rights_while_files_are_read():
    """report and export of a file from anybody: no capability, no_new_privs, a filter; root's uid is still root's files'."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        os.chmod(tmp, 0o755)
        path = tmp / "a.mtr"
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", path))
        os.chmod(path, 0o644)
        for env, uid in ((dict(os.environ), 0), (as_asker(), UID)):
            with subprocess.Popen([mt.MEMTRACE, "export", path, "--to", "jsonl", "-o", "-"], env=env,
                                  stdout=subprocess.PIPE) as reader:
                reader.stdout.read(100)  # and no more: it waits in the middle of its work
                s = threads(reader.pid)[0]
                reader.stdout.close()
            mt.check(not any(int(s[k][0], 16) for k in SETS), f"capabilities are left: {s}")
            mt.check(s["NoNewPrivs"] == ["1"] and s["Seccomp"] == ["2"], f"no filter: {s['NoNewPrivs']} {s['Seccomp']}")
            mt.check(s["Uid"] == [str(uid)] * 4, f"uids {s['Uid']}")


def tracer_url(tracer):
    found = []

    def look():
        found[:] = [w for line in tracer.err for w in line.split() if w.endswith("/metrics")]
        return found
    mt.wait_until(look, "the address of serve", 60)
    return found[0]


def test_the_keeper_is_killed():
    """memtrace says so and fails; the recording can be read, no probe is left, the job goes on."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            grown.wait(tracer, tmp / "a.mtr", lambda rep: grown.cpu(rep).get("allocs"), "allocations")
            os.kill(keeper_of(tracer.pid), signal.SIGKILL)
            code = tracer.wait(60)
            mt.check(code == 1, f"exit code {code}: {tracer.err}")
            mt.check(any("privileged half" in line for line in tracer.err), f"{tracer.err}")
        mt.check_goes_on(job)
        mt.ok(mt.memtrace("report", tmp / "a.mtr", "-v"), (0, 3))


def test_memtrace_is_killed_with_its_keeper():
    """SIGKILL of the half that was started, at moments from its first milliseconds on: nothing is left of the other."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        for wait_s in (0.01, 0.05, 0.15, 0.3, 0.5, 1.0):
            with mt.start("record", "-q", "-p", str(job.pid), "-o", str(tmp / f"{wait_s}.mtr")) as tracer:
                time.sleep(wait_s)
                children = pathlib.Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()
                tracer.signal(signal.SIGKILL)
                tracer.wait()
            mt.wait_until(lambda: not any(os.path.exists(f"/proc/{c}") for c in children), f"end of {children}", 30)
        mt.check_goes_on(job)


def test_signals_of_the_terminal():
    """Ctrl-C goes to both halves; the keeper stays until the other is done."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), start_new_session=True) as tracer:
            mt.wait_attached(tracer, job.pid, mt.OP)
            time.sleep(1)
            os.killpg(tracer.pid, signal.SIGINT)
            code = tracer.wait(60)
        mt.check(code == 0, f"exit code {code}: {tracer.err}")
        mt.check(mt.report(tmp / "a.mtr")["lost"]["ring"] == 0, "events are lost")
        mt.check_goes_on(job)


def test_few_descriptors():
    """ulimit -n is for what the caller runs: the keeper takes more where it may (CAP_SYS_RESOURCE), else it says what is missing."""
    job = mt.shared_job("mlp")
    may = int(status("/proc/self")["CapEff"][0], 16) >> 24 & 1
    with mt.scratch() as tmp:
        for args in ((), ("--force-perf-uprobes", "--probes", "framework")):
            for limit in (28, 56, 72):
                done = mt.memtrace("record", "-p", job.pid, "-d", 1, "--force", "-o", tmp / "a.mtr", *args,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
                if done.returncode and not may:
                    mt.expect_failure(done, 1, "open files", "ulimit -n")
                    continue
                mt.ok(done)
                mt.check(mt.report(tmp / "a.mtr")["devices"]["cpu"]["allocs"] > 100, f"{args}: nothing was seen")
    mt.check_goes_on(job)


def become(uid):
    def change():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    return change


def allocates(uid=None):
    """A process of this user that allocates all the time, and does so already."""
    script = "import time\nprint('ready', flush=True)\nwhile 1:\n x = [bytes(9000) for _ in range(50)]\n time.sleep(.02)"
    proc = mt.Proc(["/usr/bin/python3", "-c", script], preexec_fn=become(uid) if uid else None)
    proc.line("ready")
    return proc


def test_capabilities_of_the_file():
    """setcap gives memtrace rights, not its caller: only what the caller may trace itself is traced."""
    if not shutil.which("setcap"):
        raise mt.Skip("no setcap")
    with mt.scratch() as tmp:
        os.chmod(tmp, 0o777)
        binary = tmp / "memtrace"
        shutil.copy(mt.MEMTRACE, binary)
        caps = "cap_sys_admin,cap_sys_ptrace,cap_dac_read_search+ep"
        subprocess.run(["setcap", caps, binary], check=True)
        with allocates(UID) as own, allocates(UID + 1) as other, allocates() as root:
            def run(pid, name):
                return subprocess.run([binary, "record", "-p", str(pid), "-d", "1", "--probes", "host", "-o", tmp / name],
                                      preexec_fn=become(UID), capture_output=True, text=True, timeout=120, cwd=tmp)
            mine = run(own.pid, "own.mtr")
            mt.check(mine.returncode == 0, f"its own process: {mine.stderr}")
            for who, proc in (("another user's", other), ("root's", root)):
                done = run(proc.pid, "x.mtr")
                mt.check(done.returncode == 1, f"{who}: {done.returncode} {done.stderr}")
                mt.check("ermitted" in done.stderr or "denied" in done.stderr, f"{who}: {done.stderr}")
        mt.check(mt.report(tmp / "own.mtr", (0, 3))["events"]["alloc"] > 100, "nothing was seen of its own process")


def test_two_users_on_one_process():
    """root's locks and a user's lie in two places, but the kernel's list of probes is one: the later memtrace is told."""
    if not shutil.which("setcap"):
        raise mt.Skip("no setcap")
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 8):
        raise mt.Skip("the kernel does not tell whose a probe is")
    with mt.scratch() as tmp:
        os.chmod(tmp, 0o777)
        binary = tmp / "memtrace"
        shutil.copy(mt.MEMTRACE, binary)
        subprocess.run(["setcap", "cap_sys_admin,cap_sys_ptrace,cap_dac_read_search+ep", binary], check=True)
        def run_as_user(pid):
            return subprocess.run([binary, "record", "-p", str(pid), "-d", "1", "--probes", "host", "-o", tmp / "b.mtr"],
                                  preexec_fn=become(UID), capture_output=True, text=True, timeout=120, cwd=tmp)
        with allocates(UID) as job:
            with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "--probes", "host") as tracer:
                mt.wait_attached(tracer, job.pid, mt.MALLOC)
                done = run_as_user(job.pid)
                mt.check(done.returncode == 1 and "another memtrace" in done.stderr, f"{done.returncode} {done.stderr}")
                mt.finish(tracer, tmp / "a.mtr")
            done = run_as_user(job.pid)
            mt.check(done.returncode == 0, f"when root's has ended: {done.stderr}")


def test_hidden_processes():
    """/proc mounted with hidepid: the half without rights sees no process of others, and traces them all the same."""
    with allocates(UID + 1) as other, mt.scratch() as tmp:
        hide = f"mount -t proc -o hidepid=2 proc /proc && exec {mt.MEMTRACE} record -q -p {other.pid} -d 1 --probes host,kernel -o {tmp}/a.mtr"
        done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", hide], capture_output=True, text=True, timeout=120)
        mt.check(done.returncode == 0, f"{done.returncode} {done.stderr}")
        rep = mt.report(tmp / "a.mtr", (0, 3))
        mt.check(rep["events"]["alloc"] > 100 and rep["kernel"]["rss"], f"{rep['events']}")
