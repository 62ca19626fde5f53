# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Host allocators, each on the same programs, preloaded, linked and in the program: calls and bytes exact.

truth_malloc calls the C functions, truth_new every form of operator new and delete (targets/truth_*). Who
provides malloc is memtrace's to find out: nothing is told to it. The allocators are Debian's.
"""
import functools
import pathlib

import mt
from test_truth import BIN, Run, build, check_devices, check_malloc, equal

SLOW = {"jemalloc_linked", "jemalloc_static", "tcmalloc_linked", "mimalloc_linked"}
LANDING = {"tcmalloc_static"}

LIBS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2"}
LINKED = {"jemalloc": "jemalloc", "tcmalloc": "tcmalloc_minimal", "mimalloc": "mimalloc"}


def library(allocator):
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"):
        path = pathlib.Path(folder, LIBS[allocator])
        if path.exists():
            return path
    raise mt.Skip(f"no {LIBS[allocator]} here: tools/install-deps alloc")


@functools.cache
def linked(program, allocator, static=False):
    """The program with the allocator linked to it (or into it), built when first asked for."""
    target = BIN / "alloc" / f"{program}-{'static-' if static else ''}{LINKED[allocator]}"
    done = mt.make(f"build/tests/targets/alloc/{target.name}")
    if done.returncode and f"cannot find -l{LINKED[allocator]}" in done.stderr:
        raise mt.Skip(f"no {'static ' if static else ''}{allocator} to link here")
    mt.check(done.returncode == 0, done.stderr[-2000:])
    return target


def preloaded(program, allocator):
    return ["/usr/bin/env", f"LD_PRELOAD={library(allocator)}", BIN / program]


def check_new(run):
    equal("losses", run.lost, {})
    check_devices(run)
    equal("requests that failed", run.report["events"].get("oom", 0), run.truth["ooms"])
    mt.note(f"{run.truth['devices']['host']['allocs']} births, {run.truth['ooms']} refused: equal to the byte")


def c_functions(argv):
    check_malloc(Run([*argv, "1"], "host"))
    check_malloc(Run([*argv, "4"], "host"))


def new_and_delete(argv, throws=True):
    check_new(Run([*argv, "4000"], "host"))
    check_new(Run([*argv, "2000", "4", *(["throw"] if throws else [])], "host"))


def test_glibc_new():
    new_and_delete([BIN / "truth_new"])


def test_jemalloc_preloaded():
    c_functions(preloaded("truth_malloc", "jemalloc"))
    new_and_delete(preloaded("truth_new", "jemalloc"))


def test_jemalloc_linked():
    c_functions([linked("truth_malloc", "jemalloc")])
    new_and_delete([linked("truth_new", "jemalloc")])


def test_jemalloc_static():
    c_functions([linked("truth_malloc", "jemalloc", True)])
    new_and_delete([linked("truth_new", "jemalloc", True)])


def test_tcmalloc_preloaded():
    c_functions(preloaded("truth_malloc", "tcmalloc"))
    new_and_delete(preloaded("truth_new", "tcmalloc"))


def test_tcmalloc_linked():
    c_functions([linked("truth_malloc", "tcmalloc")])
    new_and_delete([linked("truth_new", "tcmalloc")])


def test_tcmalloc_static():
    c_functions([linked("truth_malloc", "tcmalloc", True)])
    new_and_delete([linked("truth_new", "tcmalloc", True)])


def test_mimalloc_preloaded():
    """Debian builds it as C: its operator new ends the program instead of throwing."""
    c_functions(preloaded("truth_malloc", "mimalloc"))
    new_and_delete(preloaded("truth_new", "mimalloc"), throws=False)


def test_mimalloc_linked():
    c_functions([linked("truth_malloc", "mimalloc")])
    new_and_delete([linked("truth_new", "mimalloc")], throws=False)
