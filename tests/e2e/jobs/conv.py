#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A small convolution net with batch norm and pooling, trained by SGD with momentum."""
import job


def build(args):
    import torch
    from torch import nn

    wide = max(args.width // 4, 4)
    model = nn.Sequential(
        nn.Conv2d(3, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(wide, 2 * wide, 3, padding=1), nn.BatchNorm2d(2 * wide), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.1), nn.Linear(32 * wide, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    x = torch.randn(args.batch, 3, 32, 32)
    y = torch.randint(0, 10, (args.batch,))

    def step():
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


if __name__ == "__main__":
    job.main(build, __doc__)
