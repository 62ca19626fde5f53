# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""From a machine on which nothing but the distribution's smallest system is, and the package, to a verdict on a job that runs:
two commands. The machine is a root of its own (mmdebstrap), the job runs beside it, as in another container. test_packages.py holds it
to a minute; tools/update-transcripts puts it into README.md."""
import contextlib
import pathlib
import re
import subprocess
import time

import mt

SECONDS = 10  # of tracing


def here():
    """The name of this machine's release of its distribution."""
    return re.search(r"(?m)^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text())[1]


def bare_root(root, suite=None, *options):
    """The smallest system of a distribution (this machine's) that has apt, with the lists of packages that an installation leaves."""
    done = subprocess.run(["mmdebstrap", "--variant=apt", "--format=directory", "--skip=cleanup/apt/lists", *options, suite or here(), root],
                          capture_output=True, text=True, timeout=400, check=False)
    if done.returncode and suite and re.search(r"Could not (?:resolve|connect)|Temporary failure resolving|Connection timed out", done.stderr):
        raise mt.Skip(f"{suite} cannot be fetched from here")
    mt.check(done.returncode == 0, f"mmdebstrap: {done.stderr[-2000:]}")
    have = {p.name for p in (root / "usr/lib").rglob("lib*.so*")}
    mt.check("libc.so.6" in have and not any(n.startswith(("libbpf", "libmicrohttpd", "libyajl", "libpython")) for n in have), "not bare")


@contextlib.contextmanager
def entered(root):
    """The words before a command that run it in there, on this machine's kernel and network."""
    for name in ("proc", "sys", "dev"):
        subprocess.run(["mount", "--rbind", "--make-rslave", f"/{name}", root / name], check=True)
    (root / "etc/resolv.conf").write_text(pathlib.Path("/etc/resolv.conf").read_text())
    try:
        yield ["chroot", root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"]
    finally:
        for name in ("dev", "sys", "proc"):
            subprocess.run(["umount", "-l", root / name], check=False)


def first_minute(root, deb):
    """[(command, what it said on stdout and stderr, seconds)] of the two."""
    (root / "root" / deb.name).write_bytes(deb.read_bytes())
    told = []
    with entered(root) as words, mt.job("transformer", "--seconds", 300):
        for command in (f"apt-get install -y ./{deb.name}", f"memtrace --name transformer.py -d {SECONDS}"):
            begin = time.monotonic()
            done = subprocess.run([*words, "sh", "-c", f"cd; {command}"], capture_output=True, text=True, timeout=200, check=False)
            mt.check(done.returncode == 0, f"{command}: {done.returncode} {done.stderr[-2000:]}")
            told.append((command, done.stdout, done.stderr, time.monotonic() - begin))
    return told


def verdict(text):
    """Its first paragraph that is no line of the live view."""
    lines = [line for line in text.split("\n") if not line.startswith("time_s=")]
    return "\n".join(lines).strip("\n").split("\n\n")[0]


def transcript(told):
    (install, said, _, install_s), (look, report, errors, look_s) = told
    packages = re.search(r"\d+ newly installed", said)[0]
    attached = next(line for line in errors.split("\n") if line.startswith("attached to "))
    return "\n".join((f"# {install}", f"... {packages}: {install_s:.0f} s", "", f"# {look}", attached, "...", verdict(report),
                      f"... {look_s:.0f} s, {SECONDS} of them tracing"))
