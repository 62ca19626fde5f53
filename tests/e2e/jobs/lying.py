#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Code that looks as if inductor had generated it, whose files are gone, edited, huge, somebody else's, of another form, on another file system, or not
what the frame says (test_compiled.py). It gives its rights away, so that there are files that it may not read.

    ready PID      waits
    went           after each "go" on stdin: each case allocated its block, ROUNDS times. --out has {case: bytes of its block}
    stop           ends
"""
import argparse
import base64
import functools
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

import torch
from torch._C._dynamo.guards import _empty_strided_cpu

TEXT = """from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
def call():
    buf0 = empty_strided_cpu(({size}, ), (1, ), torch.float32)
    cpp_fused_{case}(buf0)
    return (buf0, )
"""
# As a version might write it that nobody has seen yet.
ANOTHER = """# AOT ID: 0_forward
from torch._inductor.runtime import *
def call():
    buf0: Tensor = alloc.cpu[{size}](torch.float32)
    launch(cpp_fused_{case}).on(buf0)
    return buf0
"""
CASES = ("true", "elsewhere", "gone", "edited", "huge", "forbidden", "link", "beyond", "plain", "long", "another")
ROUNDS = 4
HUGE = 9 << 20
NOBODY = 65534


def folder(under):
    path = pathlib.Path(tempfile.mkdtemp(prefix="mt-lying-", dir=under))
    path.chmod(0o755)
    return path


def place(cache, text):
    """Where inductor would have written that (torch/_inductor/codecache.py: code_hash)."""
    key = "c" + base64.b32encode(hashlib.sha256(text.strip().encode()).digest())[:51].decode().lower()
    return cache / key[1:3] / f"{key}.py"


def write(case, text, caches):
    """(the file that the code says to be of, how many lines later it says to be)"""
    path = place(caches[case == "elsewhere"], text)
    path.parent.mkdir(exist_ok=True)
    if case == "plain":
        return "/etc/shadow", 0
    if case == "long":
        return "/" + "x" * 100_000 + str(path), 0
    path.write_text({"edited": "import os\n", "huge": "#" * HUGE + "\n"}.get(case, "") + text)
    if case == "forbidden":
        path.chmod(0o600)
    if case == "gone":
        path.unlink()
    if case == "link":
        path.unlink()
        path.symlink_to("/dev/zero")
    return str(path), 1_000_000 if case == "beyond" else 0


class Alloc:
    """What ANOTHER calls; the allocation itself is the innermost frame's, as no Python function makes it."""
    cpu = property(lambda self: self)
    __getitem__ = staticmethod(lambda size: functools.partial(_empty_strided_cpu, (size,), (1,)))
    on = staticmethod(lambda _: None)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    a = p.parse_args()
    caches, calls, sizes = (folder("/tmp"), folder("/dev/shm")), [], {}
    for i, case in enumerate(CASES):
        count = 50_000 + 1024 * i
        text = (ANOTHER if case == "another" else TEXT).format(size=count, case=case)
        name, later = write(case, text, caches)
        scope = {"empty_strided_cpu": _empty_strided_cpu, "torch": torch, f"cpp_fused_{case}": lambda _: None,
                 "Tensor": torch.Tensor, "alloc": Alloc(), "launch": lambda _: Alloc()}
        exec(compile("\n" * later + text[text.index("def"):].replace("def", "\n\ndef", 1), name, "exec"), scope)
        calls.append(scope["call"])
        sizes[case] = 4 * count
    with open(a.out, "w") as f:
        json.dump(sizes, f)
    os.setresuid(NOBODY, NOBODY, 0)
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        if line.strip() == "stop":
            break
        for _ in range(ROUNDS):
            for call in calls:
                call()
        print("went", flush=True)
    os.seteuid(0)
    for cache in caches:
        shutil.rmtree(cache)
    os._exit(0)


if __name__ == "__main__":
    main()
