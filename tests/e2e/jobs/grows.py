#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The decoder of turns.py, whose sequences get longer by one every other step: no step has the sizes of another."""
import job
import turns


def build(args):
    return turns.build(args, lambda number: 16 + number // 2 % 2000)


if __name__ == "__main__":
    job.main(build, __doc__)
