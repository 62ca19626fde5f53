# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Allocates large blocks, each of a size of its own, at places that it knows: stacks.py host|torch ROUNDS

`take(n)` allocates and `note(n)` walks the frames of its caller, both on one line: what note sees is the
truth about n's stack. Prints "ready PID", waits for a line, works, prints the truth: {"pid", "blocks":
{size: [[function, file, line], … innermost first]}, "grads": {size: [stack of forward, stack of backward()]}}.
"""
import functools
import json
import os
import sys
import threading

BLOCKS, GRADS = {}, {}
KEPT = threading.local()
MODE, ROUNDS = sys.argv[1], int(sys.argv[2])
NEXT = iter(range(1 << 20, 1 << 28, 64))
LOCK = threading.Lock()

if MODE == "torch":
    import torch

    def reserve(n):
        return functools.partial(torch.empty, n // 4)
    EXTRA = 0
else:
    def reserve(n):
        return functools.partial(bytearray, n)
    EXTRA = 1  # a bytearray has a NUL


def stack_of(frame):
    frames = []
    while frame:
        code = frame.f_code
        frames.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return frames


def note(n):
    BLOCKS[n + EXTRA] = stack_of(sys._getframe(1))


def size():
    with LOCK:
        return next(NEXT)


def leaf(n):
    take = reserve(n)
    KEPT.x, _ = take(), note(n)


def decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)
    return wrapper


class Thing:
    def method(self, n):
        leaf(
            n
        )

    @decorated
    def wrapped(self, n):
        leaf(n)

    def __len__(self):  # called from C
        leaf(size())
        return 1

    @property
    def attribute(self):
        n = size(); take = reserve(n)
        self.x, _ = take(), note(n)
        return n


def generator():
    for _ in range(2):
        n = size()
        yield leaf(n)


def deep(n, depth):
    if depth:
        return deep(n, depth - 1)
    return leaf(n)


def work():
    thing = Thing()
    thing.method(size())
    thing.wrapped(size())
    len(thing)
    _ = thing.attribute
    list(generator())
    sorted([2, 1], key=lambda v: leaf(size()) or v)
    [leaf(size()) for _ in range(2)]
    deep(size(), 20)
    try:
        raise ValueError
    except ValueError:
        leaf(size())
    if MODE == "host":
        exec(compile("leaf(size())", "made up.py", "exec"))  # this code object is gone before it can be read


def on_torch():
    class Grow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            leaf(size())
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            leaf(size())
            return grad

    class Net(torch.nn.Module):
        def forward(self, x):
            leaf(size())
            n = x.numel() * 4
            y, GRADS[n] = torch.sigmoid(x), [stack_of(sys._getframe())]
            return Grow.apply(y)

    def step():
        n = size()
        x = torch.zeros(1, requires_grad=True).expand(n // 4)
        y = Net()(x)
        z = y.narrow(0, 0, 1).sum()
        z.backward(), GRADS[n].append(stack_of(sys._getframe()))

    step()


def rounds():
    for _ in range(ROUNDS):
        work()
        if MODE == "torch":
            on_torch()


def main():
    if MODE == "torch":
        torch.set_num_threads(1)
    rounds()  # all that is made once
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    BLOCKS.clear()
    GRADS.clear()
    thread = threading.Thread(target=rounds)
    thread.start()
    thread.join()
    rounds()
    print(json.dumps({"pid": os.getpid(), "blocks": BLOCKS, "grads": GRADS}), flush=True)
    sys.stdin.readline()


main()
