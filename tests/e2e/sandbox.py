# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Runs a command under the rules of a systemd unit where systemd does not run: sandbox.py UNIT [-CAP_NAME…] -- COMMAND…

Capabilities, system calls (the filter that the unit means, built here), no_new_privs, W^X, umask, an own network, folders that
are hidden or read-only, /proc. Not: cgroups (devices, memory, addresses), families of addresses. A capability may be taken away.
"""
import configparser
import ctypes
import os
import pathlib
import re
import subprocess
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_MDWE = 38, 22, 24, 65
ARCH_X86_64 = 0xC000003E
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1  # EPERM
NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
libc = ctypes.CDLL(None, use_errno=True)


def service(unit):
    """{option: [values]} of [Service]."""
    class Many(dict):
        def __setitem__(self, key, value):
            if isinstance(value, list) and key in self:
                value = self[key] + value
            super().__setitem__(key, value)
    parser = configparser.RawConfigParser(dict_type=Many, strict=False)
    parser.optionxform = str
    parser.read(unit)
    return {k: [v for v in value.split("\n") if v] for k, value in parser["Service"].items()}


def prctl(option, *args):
    if libc.prctl(option, *(ctypes.c_ulong(a) for a in (*args, 0, 0, 0, 0)[:4])):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def group(name):
    """System calls of a group, with those of the groups in it."""
    out = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    words = [line.strip() for line in out.split("\n") if line.startswith("    ") and "#" not in line]
    return set().union(*(group(w) if w.startswith("@") else {w} for w in words))


def allowed(lines):
    calls = set()
    for line in lines:
        words = line.removeprefix("~").split()
        named = set().union(*(group(w) if w.startswith("@") else {w} for w in words))
        calls = calls - named if line.startswith("~") else calls | named
    return calls


def filter_of(calls):
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", pathlib.Path(NUMBERS).read_text()))
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, ARCH_X86_64), (0x06, 0, 0, REFUSE), (0x20, 0, 0, 0)]
    for call in sorted(calls & numbers.keys()):
        code += [(0x15, 0, 1, int(numbers[call])), (0x06, 0, 0, ALLOW)]
    return [*code, (0x06, 0, 0, REFUSE)]


class Insn(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Insn))]


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def folders(rules):
    for name in rules.get("RuntimeDirectory", []):
        os.makedirs(f"/run/{name}", 0o755, exist_ok=True)
        mount("--bind", f"/run/{name}", f"/run/{name}")
    mount("-t", "proc", "-o", "hidepid=" + rules["ProtectProc"][0], "proc", "/proc")
    mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().split("\n") if line]
    for at in mounts if rules["ProtectSystem"] == ["strict"] else []:
        if not re.match(r"/(proc|dev|run/memtrace)\b", at):
            mount("-o", "remount,bind,ro", at)
    mount("--bind", "-o", "ro", "/proc/sys", "/proc/sys")
    mount("-o", "remount,bind,ro", "/proc/sys")
    for at in (["/home", "/root", "/run/user"] if rules["ProtectHome"] == ["yes"] else []) + \
            (["/tmp", "/var/tmp"] if rules["PrivateTmp"] == ["yes"] else []):
        if os.path.isdir(at):
            mount("-t", "tmpfs", "-o", "mode=000" if "tmp" not in at else "mode=1777", "tmpfs", at)
    try:
        open("/etc/.memtrace", "w").close()
    except OSError:
        return
    sys.exit("sandbox: /etc can be written")


def main():
    at = sys.argv.index("--")
    unit, less, command = sys.argv[1], {a[1:] for a in sys.argv[2:at]}, sys.argv[at + 1:]
    rules = service(unit)
    program = os.open(command[0], os.O_RDONLY)  # its folder may be hidden
    calls = filter_of(allowed(rules["SystemCallFilter"]))
    header = pathlib.Path("/usr/include/linux/capability.h").read_text()
    numbers = {name: int(n) for name, n in re.findall(r"#define (CAP_\w+)\s+(\d+)\n", header)}
    keep = {numbers[name] for name in rules["CapabilityBoundingSet"][0].split() if name not in less}
    folders(rules)
    os.umask(int(rules["UMask"][0], 8))
    last = int(pathlib.Path("/proc/sys/kernel/cap_last_cap").read_text())
    for cap in range(last + 1):
        if cap not in keep:
            prctl(PR_CAPBSET_DROP, cap)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if rules["MemoryDenyWriteExecute"] == ["yes"]:
        libc.prctl(PR_SET_MDWE, 1, 0, 0, 0)  # from Linux 6.3 on
    code = Program(len(calls), (Insn * len(calls))(*calls))
    prctl(PR_SET_SECCOMP, 2, ctypes.addressof(code))
    os.set_inheritable(program, True)
    os.execve(program, command, os.environ)


if __name__ == "__main__":
    if not os.environ.get("MT_SANDBOX"):
        os.environ["MT_SANDBOX"] = "1"
        os.execvp("unshare", ["unshare", "-m", "-n", "--propagation", "slave", sys.executable, "-B", *sys.argv])
    main()
