#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A job of train.py with another batch: batches.py JOB BATCH. Says "ready PID" after three steps, then "step N" after each,
and goes on until it is ended."""
import os
import sys

import torch

import train


class Steps:
    """In place of the job's word: steps, and not a tensor in anybody's hands."""

    def __init__(self):
        self.begun = 0

    def of(self, *_, **__):
        pass

    def goes_on(self):
        self.begun += 1
        if self.begun > 3:
            print("ready" if self.begun == 4 else "step", os.getpid() if self.begun == 4 else self.begun - 1, flush=True)
        return True


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kept = train.torchvision_for_the_cpu()
    train.JOBS[sys.argv[1]](Steps(), batch=int(sys.argv[2]))
