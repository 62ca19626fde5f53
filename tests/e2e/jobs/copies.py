#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A DataLoader with two workers, which count references to all objects of a list of 704 MiB that they share with their parent.

Says "workers" with their pids when they have begun and copied nothing, waits for a line, has them copy the list in 24 s, says
"still", waits again.
"""
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset

ROWS = 704 << 8  # one a page: 4047 bytes, what Python and the C library have in front of them, and their first word is written
PARTS = 96


class Rows(IterableDataset):
    def __init__(self):
        self.rows = [bytes(4047) for _ in range(ROWS)]
        self.is_first = True

    def __iter__(self):
        if self.is_first:
            self.is_first = False
            yield torch.ones(1)
            return
        for part in range(PARTS):
            time.sleep(0.25)
            yield torch.tensor([float(sum(len(row) for row in self.rows[part::PARTS]))])


def main():
    torch.set_num_threads(1)
    rows = Rows()
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    loader = DataLoader(rows, batch_size=None, num_workers=2, persistent_workers=True)
    for said in ("workers", "still"):
        for _ in loader:
            pass
        print(said, *(w.pid for w in loader._iterator._workers), flush=True)
        sys.stdin.readline()


main()
