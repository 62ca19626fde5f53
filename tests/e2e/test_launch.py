# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Commands that memtrace starts: as whom, and with what they would have had without it."""
import json
import os
import resource
import signal
import subprocess

import mt

UID, GID = 12345, 23456  # nobody's: no passwd entry is needed

TELL = """
import json, os, resource, signal
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({
    "uids": status["Uid"].split(), "gids": status["Gid"].split(), "groups": os.getgroups(),
    "caps": {k: status[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "nnp": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "sig": [status[k] for k in ("SigBlk", "SigIgn")],
    "limits": [resource.getrlimit(n) for n in range(16)],
    "nice": os.nice(0), "oom": open("/proc/self/oom_score_adj").read(), "umask": os.umask(0),
    "env": {k: os.environ.get(k) for k in ("HOME", "USER", "LOGNAME", "SHELL", "SUDO_UID", "SUDO_USER", "KEPT")},
    "fds": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1]}), flush=True)
"""


def limit():
    """As a shell with `ulimit -n 300`: what memtrace raises for itself is not the command's."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 4096))
    os.nice(1)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def environment(sudo=True):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SUDO_")}
    env |= {"HOME": "/root", "USER": "root", "LOGNAME": "root", "KEPT": "yes"}
    return env | {"SUDO_UID": str(UID), "SUDO_GID": str(GID), "SUDO_USER": "somebody"} if sudo else env


def told(argv, env):
    done = subprocess.run([str(a) for a in argv], env=env, preexec_fn=limit, capture_output=True, text=True, timeout=mt.guard(), cwd="/")
    mt.check(done.returncode == 0, f"{argv[:6]}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[0])


def traced(tmp, *options, env):
    return told((mt.MEMTRACE, "record", "-q", "-o", tmp / f"{len(options)}{len(env)}.mtr", "--probes", "kernel,host", *options,
                 "--", "/usr/bin/python3", "-c", TELL), env)


def test_launch_user():
    """Whoever sudo was for runs it, with the limits, signals and rights that it would have had without memtrace."""
    with mt.scratch() as tmp:
        os.chmod(tmp, 0o777)
        plain = told(("/usr/bin/python3", "-c", TELL), environment(sudo=False))
        seen = traced(tmp, env=environment())
    mt.check(seen["uids"] == [str(UID)] * 4 and seen["gids"] == [str(GID)] * 4, f"{seen['uids']} {seen['gids']}")
    mt.check(seen["groups"] in ([GID], []), f"groups of root are left: {seen['groups']}")
    mt.check(seen["caps"]["CapEff"] == seen["caps"]["CapPrm"] == "0" * 16, f"{seen['caps']}")
    mt.check(seen["caps"]["CapBnd"] == plain["caps"]["CapBnd"], "its bounding set is as it was")
    env = seen["env"]
    mt.check(env["HOME"] == "/" and env["USER"] is None and env["SUDO_UID"] is None and env["KEPT"] == "yes", f"{env}")
    for what in ("limits", "nice", "oom", "umask", "sig", "nnp", "seccomp", "fds"):
        mt.check(seen[what] == plain[what], f"{what}: {seen[what]}, without memtrace {plain[what]}")


def test_launch_as_named():
    """--user: by name and number, root when asked for; without sudo root stays root."""
    with mt.scratch() as tmp:
        os.chmod(tmp, 0o777)
        named = traced(tmp, "--user", "daemon", env=environment())
        root = traced(tmp, "--user", "root", "-q", env=environment())
        plain = told(("/usr/bin/python3", "-c", TELL), environment(sudo=False))
        alone = traced(tmp, env=environment(sudo=False))
        done = mt.memtrace("record", "-o", tmp / "x.mtr", "--user", "no such", "--", "true")
        denied = mt.memtrace("record", "-o", tmp / "x.mtr", "--user", "daemon", "--", "/root/nothing")
        left = (tmp / "x.mtr").exists()
    mt.check(named["uids"] == ["1"] * 4 and named["env"]["USER"] == named["env"]["LOGNAME"] == "daemon", f"{named}")
    mt.check(named["env"]["HOME"] == "/usr/sbin" and named["caps"]["CapEff"] == "0" * 16, f"{named}")
    for what, seen in (("asked for", root), ("without sudo", alone)):
        mt.check(seen["uids"] == ["0"] * 4 and seen["env"]["HOME"] == "/root", f"root {what}: {seen}")
        mt.check(seen["caps"] == plain["caps"] and seen["limits"] == plain["limits"], f"root {what}: {seen}")
    mt.check(done.returncode == 1 and "there is no user" in done.stderr, f"{done}")
    mt.check(denied.returncode == 1 and "--user NAME" in denied.stderr and not left, f"{denied}")


def test_ends_as_its_command():
    """A failed job stays a failed job for the script around it."""
    with mt.scratch() as tmp:
        for script, code, said in (("true", 0, None), ("exit 7", 7, "ended with exit code 7"), ("kill -9 $$", 128 + 9, "killed by signal 9")):
            done = mt.memtrace("record", "--force", "--probes", "kernel", "-o", tmp / "a.mtr", "--", "/bin/sh", "-c", script)
            mt.check(done.returncode == code and (said or "recorded") in done.stderr, f"{script}: {done}")
            mt.report(tmp / "a.mtr")


def test_goes_on():
    """When record ends first, its last line says who is left, and that is true; of a command that ended it says nothing."""
    with mt.scratch() as tmp:
        script = "echo $$ >pid; exec sleep 60 >/dev/null 2>&1"
        done = mt.memtrace("record", "-d", "1", "--probes", "kernel", "-o", tmp / "a.mtr", "--", "/bin/sh", "-c", f"cd {tmp}; {script}")
        pid = int((tmp / "pid").read_text())
        try:
            last = done.stderr.splitlines()[-1]
            mt.check(done.returncode == 0 and last == f"/bin/sh (process {pid}) goes on, untraced", f"{done}")
            os.kill(pid, 0)
        finally:
            os.kill(pid, signal.SIGKILL)
        done = mt.memtrace("record", "--probes", "kernel", "-o", tmp / "b.mtr", "--", "/bin/sh", "-c", "sleep 1")
        mt.check(done.returncode == 0 and "goes on" not in done.stderr, f"{done}")
    text = " ".join(mt.memtrace("record", "--help").stdout.split())
    mt.check("If record ends first, as with -d, COMMAND goes on, untraced." in text, text)
