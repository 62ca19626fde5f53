# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Files that change, shrink or lie while memtrace reads them: libraries of targets, and recordings.

The target maps its library as code and never runs it, so that what is done to the file does the target no harm.
"""
import contextlib
import os
import shutil
import struct
import threading
import time

import faults
import mt

SLOW = {"libraries_that_shrink", "libraries_replaced_in_place", "libraries_that_lie",
        "recording_cut_and_replaced_while_read"}

MAPPER = """
import mmap, sys
path = sys.argv[1]
print('ready', flush=True)
kept = None
for line in sys.stdin:
    try:
        with open(path, 'rb') as f:
            kept = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    except ValueError:
        pass  # it shrank already
    print('mapped', flush=True)
"""


@contextlib.contextmanager
def mapper(path):
    """A process that maps the file as code when told so: .map()."""
    with mt.Proc([mt.PYTHON, "-c", MAPPER, path]) as proc:
        proc.line("ready")
        count = 0

        def map_it():
            nonlocal count
            count += 1
            proc.tell("map")
            mt.wait_until(lambda: proc.out.count("mapped") >= count, "a mapping", 10, 0.001)
        proc.map = map_it
        yield proc


def shaken(change, *options):
    """A library with probes changes at random moments, 30 times, around its being mapped; memtrace lives, the job is untouched."""
    rng = faults.chance("files")
    good = (faults.BIN / "plugin.so").read_bytes()
    with mt.scratch() as tmp, faults.training() as job:
        path = tmp / "libcudart.so.13"  # a name that memtrace has to look into
        path.write_bytes(good)
        with mapper(path) as target:
            target.map()
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", target.pid, *options) as tracer:
                for i in range(30):
                    new = tmp / f"new{i}"
                    new.write_bytes(good + bytes(i))
                    os.replace(new, path)  # another inode: looked at anew
                    timer = threading.Timer(rng.uniform(0, 0.03), change, (path, good, rng))
                    timer.start()
                    target.map()
                    timer.join()
                    time.sleep(rng.uniform(0, 0.03))
                    mt.check(tracer.alive(), f"memtrace ended with {tracer.popen.returncode} after change {i}: {tracer.err[-5:]}")
                job.more_rounds()
                faults.ended(tracer)


def shrink(path, good, rng):
    os.truncate(path, rng.choice((0, 1, 64, 4096, len(good) // 2)))


def replace_in_place(path, good, rng):
    """What cp does: the same inode, emptied and filled with something else."""
    with open(path, "r+b") as f:
        f.truncate(0)
        f.write(rng.randbytes(rng.choice((100, len(good)))))


def test_libraries_that_shrink():
    """Truncated while they are read: an error about that file at most, never an end by SIGBUS."""
    shaken(shrink)


def test_libraries_replaced_in_place():
    """Overwritten while they are traced, with stacks, for which files are kept open."""
    shaken(replace_in_place, "--stacks", "--stack-size", "0")


def test_library_of_the_job_shrinks_with_stacks():
    """A library that a traced program runs no more is emptied; native stacks go on being taken of the job."""
    with mt.scratch() as tmp, faults.training() as job:
        path = tmp / "libplugin.so"
        shutil.copy(faults.BIN / "plugin.so", path)
        with mapper(path) as target:
            target.map()
            with faults.tracing(job.pid, tmp / "a.mtr", "-p", target.pid, "--stacks", "--stack-size", "0") as tracer:
                job.more_rounds()
                os.truncate(path, 0)
                job.more_rounds()
                mt.check(tracer.alive(), f"memtrace ended with {tracer.popen.returncode}: {tracer.err[-5:]}")
                faults.ended(tracer)


def lie(good, **fields):
    """A library whose header says something else: e_shoff (0x28, 8 bytes), e_shnum (0x3c, 2 bytes)."""
    data = bytearray(good)
    for name, value in fields.items():
        at, form = {"e_shoff": (0x28, "<Q"), "e_shnum": (0x3C, "<H"), "e_phnum": (0x38, "<H")}[name]
        struct.pack_into(form, data, at, value)
    return bytes(data)


def symbols_without_end(good, size):
    """Its .dynsym claims to fill all of a sparse file of this size."""
    data = bytearray(good)
    shoff, = struct.unpack_from("<Q", data, 0x28)
    shnum, = struct.unpack_from("<H", data, 0x3C)
    for i in range(shnum):
        at = shoff + i * 64
        if struct.unpack_from("<I", data, at + 4)[0] == 11:
            struct.pack_into("<QQ", data, at + 24, 0x1000, size - 0x1000)
    return bytes(data)


def test_libraries_that_lie():
    """Sparse giants, endless symbol tables, headers that point nowhere: told or skipped, while a steady process beside them loses
    not one event and the job is untouched."""
    good = (faults.BIN / "plugin.so").read_bytes()
    giant = 2 << 30
    forms = {"sparse": (good, giant), "symbols": (symbols_without_end(good, giant), giant),
             "far_headers": (lie(good, e_shoff=giant - 64 * 60000, e_shnum=60000), giant),
             "beyond": (lie(good, e_shoff=1 << 62), 0), "segments": (lie(good, e_phnum=0xFFFF), 0), "empty": (b"", 0), "elf": (good[:64], 0)}
    with mt.scratch() as tmp, faults.training() as job, faults.crowd("steady") as steady:
        path = tmp / "libcudart.so.13"
        path.write_bytes(good)
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(mapper(path))
            target.map()
            tracer = stack.enter_context(faults.tracing(job.pid, tmp / "a.mtr", "-p", target.pid, "-p", steady.pid))
            steady.tell("go")
            for data, size in forms.values():
                os.unlink(path)
                path.write_bytes(data)
                if size:
                    os.truncate(path, size)
                if data:
                    target.map()
                time.sleep(0.3)
                mt.check(tracer.alive(), f"memtrace ended with {tracer.popen.returncode}: {tracer.err[-5:]}")
            job.more_rounds()
            steady.tell("stop")
            told = int(steady.line("told ").split()[1])
            faults.ended(tracer)
        seen = mt.report(tmp / "a.mtr", (0, 3))["devices"]["cuda:1"]["allocs"]
        mt.check(seen == told, f"{seen} of the {told} allocations of one who has nothing to do with it")


def test_recording_cut_and_replaced_while_read():
    """A recording that shrinks, and one that changes, while report reads it: what stands there, or an error; never a signal."""
    rng = faults.chance("recordings")
    with mt.scratch() as tmp, faults.training() as job:
        with faults.tracing(job.pid, tmp / "a.mtr") as tracer:
            job.more_rounds(3)
            faults.ended(tracer)
        whole = (tmp / "a.mtr").read_bytes()
        for i in range(20):
            path = tmp / "b.mtr"
            path.write_bytes(whole)
            with mt.start("report", str(path), "--json") as reader:
                time.sleep(rng.uniform(0, 0.1))
                os.truncate(path, rng.randrange(len(whole))) if i % 2 else path.write_bytes(rng.randbytes(len(whole)))
                code = reader.wait()
            mt.check(code in (0, 1, 3), f"report ended with {code}: {reader.err[-3:]}")
            mt.check(code != 1 or any(t.startswith("memtrace: ") for t in reader.err), f"no word: {reader.err}")
