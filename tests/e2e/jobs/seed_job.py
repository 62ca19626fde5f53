#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Runs cases of seed_cases.py in an ordinary process, no profiler near.

Says "ready PID". The n-th line "NAME" on stdin builds that case and says "built n"; the line "go" after it
runs its windows and says "ran n {…}": for each window begin, end (ns since the epoch), facts and calls.
"""
import contextlib
import gc
import json
import os
import sys

import seed_cases
import seed_watch


def main():
    seed_watch.warm_up()
    print(f"ready {os.getpid()}", flush=True)

    for n, line in enumerate(iter(sys.stdin.readline, "")):
        watch = seed_watch.Watch(lambda win: contextlib.nullcontext())

        def observed(n=n):
            print(f"built {n}", flush=True)
            if sys.stdin.readline().strip() != "go":
                sys.exit("expected go")

        seed_cases.run(line.strip(), watch, observed)
        gc.collect()
        print(f"ran {n} " + json.dumps([vars(w) for w in watch.windows]), flush=True)


if __name__ == "__main__":
    main()
