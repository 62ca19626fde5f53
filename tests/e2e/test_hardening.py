# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What the compiler and the linker were asked for (Makefile: HARDEN) is in the program, as readelf and nm see it."""
import os
import re
import shutil
import subprocess

import mt

# With FORTIFY none of these is called by its own name: each becomes __NAME_chk.
FORTIFIED = {"printf", "fprintf", "vfprintf", "asprintf", "vasprintf", "vsprintf", "sprintf"}


def read(*args):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, check=True).stdout


def check_program(path, is_static=False):
    """What the kernel and the loader do for a program: of the whole file."""
    if not shutil.which("readelf"):
        raise mt.Skip("no readelf")
    head, segments, dynamic, notes = (read("readelf", "-W", what, path) for what in ("-h", "-l", "-d", "-n"))
    name = os.path.basename(path)
    mt.check(re.search(r"Type:\s+DYN", head) and re.search(r"FLAGS_1.*\bPIE\b", dynamic), f"{name} is no PIE")
    mt.check("GNU_RELRO" in segments, f"{name}: no RELRO")
    mt.check(re.search(r"\(FLAGS\).*\bBIND_NOW\b", dynamic) and re.search(r"FLAGS_1.*\bNOW\b", dynamic), f"{name}: no BIND_NOW")
    stack = re.search(r"GNU_STACK\s+(?:0x\w+\s+){5}([RWE ]{3})", segments)
    mt.check(stack and stack[1] == "RW ", f"{name}: the stack is {stack and stack[1]}")
    both = [line for line in segments.split("\n") if re.search(r"LOAD.* RWE ", line)]
    mt.check(not both, f"{name}: written and run: {both}")
    mt.check("TEXTREL" not in dynamic and "RPATH" not in dynamic and "RUNPATH" not in dynamic, f"{name}: {dynamic}")
    marks = set(re.findall(r"\b(?:IBT|SHSTK)\b", notes))
    crt = read(*os.environ.get("CC", "gcc").split(), "-print-file-name=Scrt1.o").strip()
    wanted = {"SHSTK"} | ({"IBT"} if "IBT" in read("readelf", "-n", crt) and not is_static else set())
    mt.check(wanted <= marks, f"{name}: CET marks {marks}, wanted {wanted}")


def members(archive):
    """[(name, its undefined symbols)], [(name, its CET marks)] of an archive's objects; two may have one name."""
    symbols, marks = [], []
    for part in read("nm", "-u", archive).split("\n\n"):
        lines = part.strip().split("\n")
        if lines[0].endswith(":"):
            symbols.append((lines[0][:-1], {line.split()[-1] for line in lines[1:]}))
    for part in read("readelf", "-n", archive).split("File: ")[1:]:
        marks.append((re.search(r"\((.*)\)", part)[1], set(re.findall(r"\b(?:IBT|SHSTK)\b", part))))
    return symbols, marks


def test_program():
    check_program(mt.MEMTRACE)
    mt.check("__stack_chk_fail" in read("nm", "-D", mt.MEMTRACE), "no stack protector")


def test_each_object():
    """The linker takes the least that all inputs have, and a libsupc++ alone brings __stack_chk_fail: each file of ours counts."""
    if not shutil.which("readelf"):
        raise mt.Skip("no readelf")
    symbols, marks = members(mt.BUILD / "libmemtrace.a")
    mt.check(len(symbols) > 100 and len(symbols) == len(marks), f"{len(symbols)} objects, {len(marks)} with notes")
    bare = sorted(name for name, has in marks if has != {"IBT", "SHSTK"})
    mt.check(not bare, f"no CET marks in {bare}")
    plain = [(name, sorted(has & FORTIFIED)) for name, has in symbols if has & FORTIFIED]
    mt.check(not plain, f"not fortified: {plain}")
    fortified = [name for name, has in symbols if any(re.fullmatch(r"__\w+_chk", s) for s in has)]
    protected = [name for name, has in symbols if "__stack_chk_fail" in has]
    # Every object that formats a message into an array of its stack frame has both; half of them do.
    mt.check(len(fortified) > len(symbols) / 3, f"{len(fortified)} of {len(symbols)} objects are fortified")
    mt.check(len(protected) > len(symbols) / 3, f"{len(protected)} of {len(symbols)} objects have a stack protector")
    mt.note(f"{len(symbols)} objects: all with CET marks, {len(fortified)} with checked calls, {len(protected)} with a stack protector")


def test_an_overflow_ends_it():
    """The flags do what they are for: the same flags, a function that writes past its array."""
    source = ("#include <string.h>\n#include <stdlib.h>\n"
              "__attribute__((noinline)) static void fill(char *to, size_t n) { for (size_t i = 0; i < n; i++) to[i] = 'A'; }\n"
              "int main(int argc, char **argv) { char buf[16]; size_t n = (size_t)atoi(argv[2]);\n"
              "if (*argv[1] == 's') fill(buf, n); else memset(buf, argc, n); __asm__ volatile(\"\" :: \"r\"(buf) : \"memory\"); return 0; }\n")
    flags = read("make", "-s", "-C", mt.ROOT, "print-harden").split()
    with mt.scratch() as tmp:
        (tmp / "a.c").write_text(source)
        subprocess.run([*os.environ.get("CC", "gcc").split(), *flags, "-O2", tmp / "a.c", "-o", tmp / "a"], check=True)
        for how, word in (("s", "stack smashing"), ("f", "buffer overflow")):
            good = subprocess.run([tmp / "a", how, "16"], capture_output=True, text=True, check=False)
            bad = subprocess.run([tmp / "a", how, "64"], capture_output=True, text=True, check=False)
            mt.check(good.returncode == 0, f"{how}: {good}")
            mt.check(bad.returncode == -6 and word in bad.stderr, f"{how}: {bad}")
