#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Trains with torch alone, from 1.13 on, and says at moments what its memory is (word.py of tests/e2e/jobs: "ready PID", "step N",
until a line comes on stdin).

    plain.py --job transformer --out said.json

They differ in what versions differ in: operators with lists and optionals, buffers that are written, an optimizer's state that is
made in its first step, fused and in a loop.
"""
import argparse
import pathlib
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e" / "jobs"))
warnings.simplefilter("ignore")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from categories_models import BATCH, LENGTH, VOCAB, Transformer  # noqa: E402
from word import Word  # noqa: E402

BETWEEN_S = 0.03  # the last moments are kept, and there are three a step


def tokens():
    return torch.randint(0, VOCAB, (BATCH, LENGTH))


def mlp():
    model = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(128, 128), nn.GELU())))
    return model, torch.optim.Adam(model.parameters(), lr=1e-3), lambda: (torch.randn(64, 128), torch.randn(64, 128)), F.mse_loss


def transformer():
    model = Transformer()
    return (model, torch.optim.AdamW(model.parameters(), lr=1e-3), lambda: (tokens(), tokens()),
            lambda out, wanted: F.cross_entropy(out.flatten(0, 1), wanted.flatten()))


def conv():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
        nn.Conv2d(32, 128, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(128), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return (model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4),
            lambda: (torch.randn(BATCH, 3, 24, 24), torch.randint(0, 10, (BATCH,))), F.cross_entropy)


def lstm():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, 64)
            self.lstm = nn.LSTM(64, 96, num_layers=2, batch_first=True)
            self.head = nn.Linear(96, VOCAB)

        def forward(self, x):
            return self.head(self.lstm(self.embed(x))[0])

    model = Model()
    return (model, torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9), lambda: (tokens(), tokens()),
            lambda out, wanted: F.cross_entropy(out.flatten(0, 1), wanted.flatten()))


JOBS = {f.__name__: f for f in (mlp, transformer, conv, lstm)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--job", required=True, choices=list(JOBS))
    p.add_argument("--out", required=True)
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, optimizer, batch, loss_of = JOBS[args.job]()
    word = Word()
    word.of(model, optimizer)
    while word.goes_on():
        x, wanted = batch()
        optimizer.zero_grad()
        loss_of(model(x), wanted).backward()
        optimizer.step()
        time.sleep(BETWEEN_S)
    word.write(args.out)
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
