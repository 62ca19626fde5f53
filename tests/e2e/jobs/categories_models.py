# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Small training jobs of many kinds, by name: what the oracle test of categories runs.

Each is a function that builds the job and returns step(). They differ in what makes categories
hard: state of many optimizers, gradients that live on, buffers, frozen weights, leaves without
storage, backward nodes in Python, casts, recomputation. Sizes are such that a step takes some ms.
"""
import torch
from torch import nn
from torch.nn import functional as F

from word import grads, pointers

VOCAB, LENGTH, BATCH = 128, 32, 8


class Transformer(nn.Module):
    def __init__(self, width=64, layers=2, recompute=False):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.place = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
            for _ in range(layers))
        self.head = nn.Linear(width, VOCAB)
        self.recompute = recompute

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            if self.recompute:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x)


def language_step(model, opt, lengths=(LENGTH,)):
    count = 0

    def step():
        nonlocal count
        tokens = torch.randint(0, VOCAB, (BATCH, lengths[count % len(lengths)]))
        count += 1
        opt.zero_grad()
        out = model(tokens)
        loss = F.cross_entropy(out.flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss

    return step


def transformer():
    model = Transformer()
    return language_step(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


def fused():
    model = Transformer()
    return language_step(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True))


def foreach():
    """Lists of tensors, as optimizers take them on a GPU if nothing is said."""
    model = Transformer()
    return language_step(model, torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True))


def checkpoint():
    model = Transformer(recompute=True)
    return language_step(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


def lengths():
    model = Transformer()
    return language_step(model, torch.optim.AdamW(model.parameters(), lr=1e-3), (8, 24, 16, 32))


def conv():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    def step():
        x, y = torch.randn(BATCH, 3, 24, 24), torch.randint(0, 10, (BATCH,))
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def mlp():
    model = nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(128, 128), nn.ReLU())))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(64, 128), torch.randn(64, 128)

    def step():
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def lstm():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, 32)
            self.lstm = nn.LSTM(32, 48, num_layers=2, batch_first=True)
            self.head = nn.Linear(48, VOCAB)

        def forward(self, tokens):
            return self.head(self.lstm(self.embed(tokens))[0])

    model = Model()
    return language_step(model, torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9))


def by_hand():
    """No optimizer object at all: nothing but data flow tells the parameters."""
    weights = [torch.randn(128, 128).mul_(0.05).requires_grad_() for _ in range(4)]

    def step():
        x, y = torch.randn(64, 128), torch.randn(64, 128)
        h = x
        for w in weights:
            h = torch.tanh(h @ w)
        loss = (h - y).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 0.01 * w.grad
                w.grad = None
        return loss

    return step


def accumulate():
    """Gradients of two batches summed in place, then Adagrad, whose state is born in its constructor."""
    model = nn.Sequential(nn.Linear(96, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 96))
    opt = torch.optim.Adagrad(model.parameters(), lr=1e-2)

    def step():
        for _ in range(2):
            x = torch.randn(64, 96)
            loss = F.mse_loss(model(x), x) / 2
            loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return step


def lora():
    class Lora(nn.Module):
        def __init__(self, width, rank=4):
            super().__init__()
            self.base = nn.Linear(width, width)
            self.base.requires_grad_(False)
            self.down = nn.Linear(width, rank, bias=False)
            self.up = nn.Linear(rank, width, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    model = nn.Sequential(*(m for _ in range(3) for m in (Lora(128), nn.ReLU())))
    opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)

    def step():
        x = torch.randn(64, 128)
        opt.zero_grad()
        loss = F.mse_loss(model(x), x)
        loss.backward()
        opt.step()
        return loss

    return step


def amp():
    model = Transformer()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        tokens = torch.randint(0, VOCAB, (BATCH, LENGTH))
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(tokens)
            loss = F.cross_entropy(out.flatten(0, 1), tokens.flatten())
        loss.backward()
        opt.step()
        return loss

    return step


def gan():
    noise = 32
    maker = nn.Sequential(nn.Linear(noise, 96), nn.ReLU(), nn.Linear(96, 64))
    judge = nn.Sequential(nn.Linear(64, 96), nn.LeakyReLU(0.2), nn.Linear(96, 1))
    opt_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
    opt_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)

    def step():
        real = torch.randn(64, 64)
        fake = maker(torch.randn(64, noise))
        opt_judge.zero_grad()
        loss = (F.binary_cross_entropy_with_logits(judge(real), ones)
                + F.binary_cross_entropy_with_logits(judge(fake.detach()), zeros))
        loss.backward()
        opt_judge.step()
        opt_maker.zero_grad()
        loss = F.binary_cross_entropy_with_logits(judge(fake), ones)
        loss.backward()
        opt_maker.step()
        return loss

    return step


def sparse():
    table = nn.Embedding(1000, 32, sparse=True)
    head = nn.Linear(32, 1000)
    opt_table = torch.optim.SparseAdam(table.parameters(), lr=1e-3)
    opt_head = torch.optim.SGD(head.parameters(), lr=1e-2)

    def step():
        x, y = torch.randint(0, 1000, (32,)), torch.randint(0, 1000, (32,))
        opt_table.zero_grad()
        opt_head.zero_grad()
        loss = F.cross_entropy(head(table(x)), y)
        loss.backward()
        opt_table.step()
        opt_head.step()
        return loss

    return step


def vae():
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            s = torch.sigmoid(x)
            ctx.save_for_backward(x, s)
            return x * s

        @staticmethod
        def backward(ctx, grad):
            x, s = ctx.saved_tensors
            return grad * (s * (1 + x * (1 - s)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.mean, self.var = nn.Linear(128, 96), nn.Linear(96, 16), nn.Linear(96, 16)
            self.dec, self.out = nn.Linear(16, 96), nn.Linear(96, 128)

        def forward(self, x):
            h = Swish.apply(self.enc(x))
            mean, var = self.mean(h), self.var(h)
            z = mean + torch.randn_like(mean) * torch.exp(var / 2)
            return self.out(Swish.apply(self.dec(z))), mean, var

    model = Model()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        x = torch.rand(64, 128)
        opt.zero_grad()
        out, mean, var = model(x)
        loss = F.binary_cross_entropy_with_logits(out, x) - 0.5 * (1 + var - mean.pow(2) - var.exp()).mean()
        loss.backward()
        opt.step()
        return loss

    return step


def loader():
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(512, 96), torch.randint(0, 10, (512,)))
    batches = iter(())
    model = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 10))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def step():
        nonlocal batches
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(DataLoader(data, batch_size=32, shuffle=True))
            x, y = next(batches)
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def compiled():
    """torch.compile: kernels that inductor made are called past the operators."""
    model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 128))
    fast = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        x = torch.randn(64, 128)
        opt.zero_grad()
        loss = F.mse_loss(fast(x), x)
        loss.backward()
        opt.step()
        return loss

    return step


def custom_ops():
    """An operator of torch.library and some called through torch.ops: past at::_ops, in part."""
    name = "memtrace_test::gelu2"
    if not hasattr(torch.ops.memtrace_test, "gelu2"):
        @torch.library.custom_op(name, mutates_args=())
        def gelu2(x: torch.Tensor) -> torch.Tensor:
            return F.gelu(x) * 2

        gelu2.register_autograd(
            lambda ctx, grad: torch.ops.aten.gelu_backward(grad * 2, ctx.saved_tensors[0]),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    first, second = nn.Linear(128, 256), nn.Linear(256, 128)
    opt = torch.optim.AdamW([*first.parameters(), *second.parameters()], lr=1e-3)

    def step():
        x = torch.randn(64, 128)
        opt.zero_grad()
        h = torch.ops.aten.relu(torch.ops.memtrace_test.gelu2(first(x)))
        loss = F.mse_loss(second(torch.ops.aten.mul(h, h)), x)
        loss.backward()
        opt.step()
        return loss

    return step


def inference():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.GELU(),
        nn.Flatten(), nn.Linear(3872, 64), nn.LayerNorm(64), nn.Linear(64, 10)).eval()

    def step():
        with torch.no_grad():
            return model(torch.randn(BATCH, 3, 24, 24)).softmax(1)

    return step


def ddp():
    """One rank over gloo, gradients as views of the buckets."""
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        x = torch.randn(64, 128)
        opt.zero_grad()
        loss = F.mse_loss(model(x), x)
        loss.backward()
        opt.step()
        return loss

    return step


def ema():
    """Averaged weights, batch norm and a constant."""
    model = nn.Sequential(nn.Linear(96, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 96))
    copies = [p.detach().clone() for p in model.parameters()]
    scale = torch.rand(96)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step():
        x = torch.randn(64, 96)
        opt.zero_grad()
        loss = F.mse_loss(model(x) * scale, x)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for copy, p in zip(copies, model.parameters()):
                copy.lerp_(p, 0.01)
        return loss

    return step


def evaluate():
    """A pass in eval mode between the steps."""
    model = nn.Sequential(nn.Linear(96, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        x, y = torch.randn(64, 96), torch.randint(0, 10, (64,))
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        model.eval()
        with torch.no_grad():
            right = (model(torch.randn(64, 96)).argmax(1) == y).float().mean()
        model.train()
        return loss, right

    return step


def tied():
    """The embedding is the head, too."""
    model = Transformer()
    model.head.weight = model.embed.weight
    return language_step(model, torch.optim.AdamW(model.parameters(), lr=1e-3))


def double_backward():
    """A penalty on the gradient of the input."""
    model = nn.Sequential(nn.Linear(96, 128), nn.Tanh(), nn.Linear(128, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        x = torch.randn(64, 96, requires_grad=True)
        opt.zero_grad()
        out = model(x).sum()
        grad, = torch.autograd.grad(out, x, create_graph=True)
        loss = out / 64 + (grad.norm(dim=1) - 1).pow(2).mean()
        loss.backward()
        opt.step()
        return loss

    return step


def lbfgs():
    model = nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 16))
    opt = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=5)
    x, y = torch.randn(64, 64), torch.randn(64, 16)

    def step():
        def closure():
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        return opt.step(closure)

    return step


def channels_last():
    """Images in channels_last before convolutions that are not: AccumulateGrad makes a copy of the gradient in the weight's layout."""
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        opt.zero_grad()
        x = torch.randn(4, 3, 32, 32).to(memory_format=torch.channels_last)
        loss = F.cross_entropy(model(x), torch.randint(0, 10, (4,)))
        loss.backward()
        opt.step()
        return loss

    step.said = lambda: {"GRADIENT": pointers(grads(model.parameters())), "PARAMETER": pointers(model.parameters())}
    return step


def older_blocks():
    """A tensor from before the window goes in each step; what is gone is told of, until its place is taken by another."""
    model = nn.Linear(256, 256)
    kept = [torch.randn(100 + i, 300) for i in range(40)]
    gone = []

    def step():
        x = torch.randn(32, 256)
        model.zero_grad()
        loss = (model(x) * kept[-1].sum()).mean()
        loss.backward()
        gone.extend(pointers([kept.pop()]))
        return loss

    step.said = lambda: {"GONE": gone[-1:], "ALIVE": pointers(kept)}
    return step


ALONE = {f.__name__: f for f in (channels_last, older_blocks)}  # not in the tables of docs/categories.md
JOBS = ALONE | {f.__name__: f for f in (transformer, conv, mlp, lstm, by_hand, accumulate, checkpoint, lora, amp,
                                gan, sparse, vae, loader, fused, foreach, lengths, compiled, custom_ops, inference,
                                ddp, ema, evaluate, tied, double_backward, lbfgs)}
