# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A loop with planted waste, in units of a MiB (kept.py waste|order|module):

    waste  a (4, ones) is used last by relu and let go after cat has made c (8): the peak is a + b + c = 16, it could be 12
    module waste in the forward of "inner"; waits for a line first, and for another when names are to be read ("reads")
    order  four blocks of 4 made in a row and then summed: the peak is 16, one at a time 4 is enough
"""
import sys

import torch

MB = 1 << 18


def waste():
    a = torch.ones(4 * MB)
    b = torch.relu(a)
    c = torch.cat([b, b])
    return c.sum()


def order():
    made = [torch.ones(4 * MB) for _ in range(4)]
    return torch.stack([m.sum() for m in made]).sum()


class Waste(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self):
        return waste()


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    model = torch.nn.ModuleDict({"inner": Waste()})
    if sys.argv[1] == "module":
        print("ready", flush=True)
        sys.stdin.readline()
    for step in range(6):
        {"waste": waste, "order": order, "module": model["inner"]}[sys.argv[1]]()
        if sys.argv[1] == "module" and step == 2:
            print("reads", flush=True)
            sys.stdin.readline()


if __name__ == "__main__":
    main()
