# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""make bundle: in a root with nothing but the bundle, /proc, /sys and /dev it attaches, records and reports."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import mt
from test_hardening import check_program
from test_truth import BIN, build, equal

SLOW = {"*"}


def mounted(root):
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir()
        subprocess.run(["mount", "--rbind", f"/{name}", root / name], check=True)
        subprocess.run(["mount", "--make-rslave", root / name], check=True)


def unmount(root):
    for name in ("dev", "sys", "proc"):
        subprocess.run(["umount", "-l", root / name], stderr=subprocess.DEVNULL, check=False)


def unpack(root):
    done = subprocess.run(["make", "-s", "-C", str(mt.ROOT), "bundle"], capture_output=True, text=True, check=False)
    if "cannot find -lc" in done.stderr:
        raise mt.Skip("no static C library here")
    mt.check(done.returncode == 0, f"make bundle: {done.stderr[-2000:]}")
    subprocess.run(["tar", "-xzf", mt.BUILD / "memtrace.tar.gz", "-C", root], check=True)
    return next(root.glob("memtrace-*"))


def test_bundle_in_an_empty_root():
    """The target runs outside, in its own root, as a container's would."""
    build()
    with mt.scratch() as root, mt.Proc([BIN / "truth_malloc", "1"]) as job:
        folder = unpack(root)
        program = f"/{folder.name}/memtrace"
        mounted(root)
        try:
            mt.check(not any((root / name).exists() for name in ("lib", "lib64", "usr", "bin", "etc")), "not an empty root")
            job.line("ready ")
            tracer = mt.Proc(["chroot", root, program, "record", "-p", str(job.pid), "-o", "/a.mtr", "--probes", "host,kernel"])
            with tracer:
                mt.wait_attached(tracer, job.pid, mt.MALLOC)
                mt.wait_until(lambda: any(line.startswith("attached") for line in tracer.err), "'attached'", 20)
                job.tell("go")
                truth = json.loads(job.line("{"))
                tracer.signal(signal.SIGINT)
                code = tracer.wait()
                mt.check(code == 0, f"exit {code}: {tracer.err}")
            job.tell("end")
            done = subprocess.run(["chroot", root, program, "report", "/a.mtr", "--json"], capture_output=True, text=True,
                                  check=False)
            mt.check(done.returncode == 0, done.stderr)
            report = json.loads(done.stdout)
            for key, value in truth["devices"]["host"].items():
                equal(f"host.{key}", report["host"][key], value)
            mt.check(report["overhead"]["probe_ns"] > 0, "probes were not calibrated")
        finally:
            unmount(root)
        tar = (mt.BUILD / "memtrace.tar.gz").stat().st_size
        mt.note(f"bundle of {tar / 1e6:.1f} MB, in a root with nothing else: equal to the byte")


def test_bundle_takes_nothing_from_the_machine():
    """Every library that is mapped comes from the bundle, wherever it was unpacked."""
    with mt.scratch() as root, mt.Proc(["sleep", "60"]) as job:
        folder = unpack(root)
        moved = root / "some where" / "else"
        moved.parent.mkdir()
        shutil.move(folder, moved)
        with mt.Proc([moved / "memtrace", "serve", "--listen", "127.0.0.1:0", "-p", str(job.pid), "-o", root / "a.mtr",
                      "--probes", "host"]) as tracer:
            mt.wait_attached(tracer, job.pid, mt.MALLOC)
            with open(f"/proc/{tracer.pid}/maps", encoding="utf-8") as f:
                paths = {line.split(maxsplit=5)[5].strip() for line in f if line.count("/") > 0}
            paths.discard("/dev/zero (deleted)")  # the kernel's name for memory shared with the disk's process
            foreign = [p for p in paths if p.startswith("/") and "anon_inode" not in p and
                       not pathlib.Path(p).is_relative_to(moved)]
            mt.check(not foreign and any(p.endswith("libc.so.6") for p in paths), f"mapped: {sorted(paths)}")
            tracer.signal(signal.SIGINT)
            mt.check(tracer.wait() == 0, f"{tracer.err}")
        needs = subprocess.run(["sh", "-c", f"file -L '{moved}/memtrace' 2>/dev/null; readelf -l '{moved}/memtrace'"],
                               capture_output=True, text=True, check=True).stdout
        mt.check("INTERP" not in needs, "the starter of the bundle needs a loader")
        mt.check(os.access(moved / "lib" / "memtrace.bin", os.X_OK), "no program in the bundle")
        check_program(moved / "memtrace", is_static=True)
        check_program(moved / "lib" / "memtrace.bin")
