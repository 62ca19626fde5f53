# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""An MLP under torchrun over gloo: wrapped.py ddp|fsdp1. Each rank says {"rank", "parameters"}: bytes of its own parameters."""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS, WIDTH = 10, 512


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4)], nn.Linear(WIDTH, 16))
    if sys.argv[1] == "ddp":
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
    else:
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}), device_id=torch.device("cpu"))
    opt = torch.optim.Adam(model.parameters())
    mine = sum(p.numel() * p.element_size() for p in model.parameters())
    os.write(1, (json.dumps({"rank": dist.get_rank(), "parameters": mine}) + "\n").encode())
    for _ in range(STEPS):
        model(torch.randn(64, WIDTH)).pow(2).mean().backward()
        opt.step()
        opt.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
