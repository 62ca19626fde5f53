#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A DataLoader with four workers, each with bytes of its own and a tensor that all share; then nothing moves.

Says "ready PID", waits for a line, makes batches, says "still" with the pids of the workers, waits again.
"""
import ctypes
import mmap
import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset

PRIVATE = 24 << 20
SHARED = 48 << 20
LOCKED = 2 << 20


class Data(Dataset):
    def __init__(self):
        self.shared = torch.ones(SHARED, dtype=torch.uint8).share_memory_()
        self.own = None

    def __len__(self):
        return 64

    def __getitem__(self, i):
        if self.own is None:
            self.own = torch.ones(PRIVATE + (os.getpid() % 7 << 20), dtype=torch.uint8)
        return self.shared.sum().reshape(1) + i


def main():
    torch.set_num_threads(1)
    data = Data()
    locked = mmap.mmap(-1, LOCKED)
    address = ctypes.addressof(ctypes.c_char.from_buffer(locked))
    if ctypes.CDLL(None).mlock(ctypes.c_void_p(address), ctypes.c_size_t(LOCKED)):
        sys.exit("mlock failed")
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    loader = DataLoader(data, batch_size=8, num_workers=4, persistent_workers=True)
    for _ in loader:
        pass
    print("still", *(w.pid for w in loader._iterator._workers), flush=True)
    sys.stdin.readline()


main()
