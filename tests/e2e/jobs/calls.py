# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Python functions that call each other and make blocks, under an interpreter without torch: calls.py [profiled]

Says "ready PID", works after a line on stdin, says what it called and what each function made itself (JSON), and ends after
another line. profiled: under cProfile, without which CPython 3.11 passes its own probes by (docs/usdt.md).
"""
import collections
import json
import os
import sys

MIB = 1 << 20
entered, made = collections.Counter(), collections.Counter()


def leaf(size):
    entered["leaf"] += 1
    made["leaf"] += 1
    return bytearray(size)


def caller(n):
    entered["caller"] += 1
    return [leaf(2 * MIB) for _ in range(n)]


def recursive(n):
    entered["recursive"] += 1
    return n if n < 2 else recursive(n - 1) + recursive(n - 2)


def raises():
    entered["raises"] += 1
    leaf(3 * MIB)
    raise ValueError


def generator(n):
    entered["generator"] += 1
    for _ in range(n):
        made["generator"] += 1
        yield bytearray(5 * MIB)
        entered["generator"] += 1  # again, at each next()


def outer():
    entered["outer"] += 1
    before = bytearray(4 * MIB)
    caller(3)
    try:
        raises()
    except ValueError:
        pass
    after = bytearray(4 * MIB)  # outer goes on, after all that it called has ended
    made["outer"] += 2
    recursive(6)
    for block in generator(2):
        del block
    del before, after


def main():
    if "profiled" in sys.argv:
        import cProfile

        profile = cProfile.Profile()
        profile.enable()
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    for _ in range(20):
        outer()
    print(json.dumps({"entered": entered, "made": made}), flush=True)
    sys.stdin.readline()


main()
