#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The MLP job under torch.profiler with shapes, memory and stacks: the peer that needs the code changed.

Collecting alone is measured. The profiler's processing when it stops, which takes about three times as
long again, is left out: the process ends without it.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "jobs"))
import job  # noqa: E402
import mlp  # noqa: E402


def build(args):
    from torch.profiler import ProfilerActivity, profile

    step = mlp.build(args)
    for _ in range(20):
        step()
    prof = profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True)
    prof.start()
    args.profile = prof  # lives as long as the job
    return step


if __name__ == "__main__":
    job.main(build, "The MLP job under torch.profiler.")
    os._exit(0)
