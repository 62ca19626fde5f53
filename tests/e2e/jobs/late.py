#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A process that loads torch only when told to: says "waiting PID", and after a line on stdin it
imports torch and trains the MLP."""
import os
import sys

print(f"waiting {os.getpid()}", flush=True)
sys.stdin.readline()

import job  # noqa: E402
import mlp  # noqa: E402

job.main(mlp.build, __doc__)
