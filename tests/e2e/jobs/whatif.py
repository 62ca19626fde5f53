# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A transformer in a configuration: whatif.py BATCH sgd|momentum|adamw float32|bfloat16. Six steps."""
import sys

import torch
from torch import nn


def main():
    batch, optimizer, dtype = int(sys.argv[1]), sys.argv[2], getattr(torch, sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(128, 64)).to(dtype)
    opt = {"sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
           "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
           "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3)}[optimizer](model.parameters())
    x = torch.randn(batch, 32, 128, dtype=dtype)
    y = torch.randn(batch, 32, 64, dtype=dtype)
    for _ in range(6):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
