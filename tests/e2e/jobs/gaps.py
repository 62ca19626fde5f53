#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""gaps.py FILE [JOB [MAPPER]]: another job of this folder, which writes for each step how long it waited: neither ran nor
waited for a CPU.

FILE gets {end (CLOCK_MONOTONIC), duration, waited} in ns a step, 24 bytes, at the end (SIGTERM). What other programs of the
machine take shows in the durations, and hardly in what was waited. MAPPER: targets/mapper.c as a library, whose notes go to
FILE.mapper.
"""
import array
import ctypes
import importlib
import os
import signal
import sys
import time
import types

import torch

torch.set_num_threads(1)
job = sys.argv[2] if len(sys.argv) > 2 else "mlp"
mapper = ctypes.CDLL(sys.argv[3]) if len(sys.argv) > 3 else None
step = importlib.import_module(job).build(types.SimpleNamespace(width=128 if job == "transformer" else 64, batch=32, workers=0))
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
stat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
log = array.array("Q")


def now():
    return time.monotonic_ns(), time.thread_time_ns() + int(os.pread(stat, 64, 0).split()[1])


warm = time.monotonic() + 1
while time.monotonic() < warm:
    step()
if mapper and mapper.mapper_begin():
    sys.exit("no thread for the mapper")
print("ready", os.getpid(), flush=True)
last, last_used = now()
while not stopped:
    step()
    end, used = now()
    log.extend((end, end - last, max(0, end - last - (used - last_used))))
    last, last_used = end, used
with open(sys.argv[1], "wb") as f:
    log.tofile(f)
if mapper and mapper.mapper_end(f"{sys.argv[1]}.mapper".encode()):
    sys.exit("the mapper's notes cannot be written")
