# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A transformer in a configuration: whatif.py BATCH sgd|momentum|adamw|8bit float32|bfloat16. Six steps."""
import sys

import torch
from torch import nn


class Adam8(torch.optim.Optimizer):
    """AdamW whose two moments are a byte each, with a scale for each 256 of them: what 8-bit optimizers keep."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @staticmethod
    def pack(full, state, name):
        rows = nn.functional.pad(full.flatten(), (0, -full.numel() % 256)).view(-1, 256)
        scale = rows.abs().amax(1).clamp_(min=1e-12)
        state[name] = (rows / scale[:, None] * 127).to(torch.int8)
        state[name + "_scale"] = scale

    @staticmethod
    def unpack(p, state, name):
        full = state[name].float().mul_(state[name + "_scale"][:, None] / 127)
        return full.flatten()[:p.numel()].view_as(p)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                m, v = (self.unpack(p, state, n) if state else torch.zeros_like(p) for n in ("m", "v"))
                self.pack(m.lerp_(p.grad, 0.1), state, "m")
                self.pack(v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001).clamp_(min=0), state, "v")
                p.addcdiv_(m, v.sqrt_().add_(1e-8), value=-group["lr"])


def main():
    batch, optimizer, dtype = int(sys.argv[1]), sys.argv[2], getattr(torch, sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(128, 64)).to(dtype)
    opt = {"sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
           "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
           "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
           "8bit": lambda p: Adam8(p, lr=1e-3)}[optimizer](model.parameters())
    x = torch.randn(batch, 32, 128, dtype=dtype)
    y = torch.randn(batch, 32, 64, dtype=dtype)
    for _ in range(6):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
