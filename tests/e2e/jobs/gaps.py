#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The job of mlp.py, which writes for each step how long it waited: neither ran nor waited for a CPU.

FILE gets {end (CLOCK_MONOTONIC), duration, waited} in ns a step, 24 bytes, at the end (SIGTERM). What other programs of the
machine take shows in the durations, and hardly in what was waited.
"""
import array
import os
import signal
import sys
import time
import types

import torch

import mlp

torch.set_num_threads(1)
step = mlp.build(types.SimpleNamespace(width=64, batch=32))
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
stat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
log = array.array("Q")


def now():
    return time.monotonic_ns(), time.thread_time_ns() + int(os.pread(stat, 64, 0).split()[1])


for _ in range(500):
    step()
print("ready", os.getpid(), flush=True)
last, last_used = now()
while not stopped:
    step()
    end, used = now()
    log.extend((end, end - last, max(0, end - last - (used - last_used))))
    last, last_used = end, used
with open(sys.argv[1], "wb") as f:
    log.tofile(f)
