# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A module with an integer that changes from step to step: torch.compile compiles it again each time, up to its limit; then it waits."""
import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.epoch = 0

    def forward(self, x):
        if self.epoch == 0:
            return self.linear(x)
        return self.linear(x) * float(self.epoch)


def main():
    torch.manual_seed(0)
    model = Scaled()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(torch._dynamo.config.recompile_limit + 4):
        model.epoch = step
        compiled(torch.randn(256, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"limit {torch._dynamo.config.recompile_limit}", flush=True)
    input()


if __name__ == "__main__":
    main()
