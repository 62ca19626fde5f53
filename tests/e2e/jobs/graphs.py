# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Graphs, and what torch's own estimator says of them: graphs.py DIR [RANDOM SEED].

DIR/NAME.json is the document for `memtrace estimate`, DIR/NAME.torch.json torch's numbers: build_memory_profile, MemoryTracker with a
random order of the nodes (one that it refuses is in DIR/NAME.refused.json, and without any the graphs are
in DIR/NAME.bare.json), get_fwd_bwd_interactions and get_peak_memory of torch/_inductor/fx_passes/memory_estimator.py, imported
and run as they are. With RANDOM, so many graphs of random nodes instead.
"""
import json
import pathlib
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor.fx_passes import memory_estimator as oracle
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "python"))
from memtrace import graph as export  # noqa: E402


class LastNodeIndexed:
    """A forward graph for get_fwd_bwd_interactions of torch 2.13, which takes [-1] of the last node instead of the last node."""

    class Nodes(list):
        def __reversed__(self):
            return ((node,) for node in list.__reversed__(self))

    def __init__(self, graph):
        self.graph = graph
        self.find_nodes = graph.find_nodes

    @property
    def nodes(self):
        return self.Nodes(self.graph.nodes)


def interactions(function, fwd, bwd):
    try:
        return function(fwd, bwd)
    except TypeError:  # 'Node' object is not subscriptable
        return function(LastNodeIndexed(fwd), bwd)


# --- models -------------------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) / 8, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.b = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)
        self.na, self.nb = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x)), inplace=True))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)

    def forward(self, ids, target):
        return F.cross_entropy(self.embed(ids) @ self.embed.weight.t(), target)


class Buffers(nn.Module):
    """Writes to its buffer, returns its parameter and views of what it was given."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen.add_(x.sum(0).detach())
        return x @ self.w, self.w, x.view(2, -1), self.seen


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 24)) for _ in range(3))

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def in_place(x, w):
    a = x.relu()
    b = a.view(-1)
    b.add_(1)
    c = a.t()[1:]
    c.mul_(w[1:2, :1])
    torch.sin_(a)
    d = torch.empty_like(x)
    torch.mul(a, 2, out=d)
    return d, a[0], b, x


def views_out(x):
    y = x * 2
    parts = y.chunk(3)
    return y, y.t(), parts[1], parts, y.view(-1), x, x.t()


def dropped(x):
    _ = x.exp()  # made and never used
    values, indices = x.sort()
    q, r = torch.linalg.qr(x @ x.t())
    return values.sum() + r.sum()


class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.scale = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Parameter(torch.ones(8))

    def forward(self, x):
        y = self.net(x).view(2, -1).contiguous()
        return torch.cat([y, y.neg()]).mul_(2).view(-1, 8) * self.scale


def symbolic(model, args):
    """torch.fx's own tracer: call_module, call_method, get_attr; sizes by running it on fake tensors."""
    traced = torch.fx.symbolic_trace(model)
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    class Sizes(torch.fx.Interpreter):
        def run_node(self, node):
            value = super().run_node(node)
            node.meta["val"] = value if node.op != "output" else None
            return value

        def fetch_attr(self, target):
            value = super().fetch_attr(target)
            return fakes.setdefault(id(value), mode.from_tensor(value.detach())) if isinstance(value, torch.Tensor) else value

    fakes = {}
    with mode, torch.no_grad():
        Sizes(traced).run(*[mode.from_tensor(a) for a in args])
    return {"symbolic": traced.graph}


def joint(model, args):
    """One graph of loss and gradients, written in place or not, as make_fx sees eager autograd."""
    names, params = zip(*model.named_parameters())
    buffers = {k: v.clone() for k, v in model.named_buffers()}

    def step(params, buffers, args):
        loss = torch.func.functional_call(model, dict(zip(names, params)) | buffers, args).square().sum()
        return loss, torch.autograd.grad(loss, params)

    return {"joint": make_fx(step, tracing_mode="fake")([p.detach().requires_grad_() for p in params], buffers, args).graph}


def joint_export(function, args):
    from torch._functorch.aot_autograd import aot_export_joint_simple
    mode = FakeTensorMode()
    with mode:
        fakes = [mode.from_tensor(a).requires_grad_(a.is_floating_point()) for a in args]
        return {"joint": aot_export_joint_simple(function, fakes, trace_joint=True).graph}


def dynamic(function, args):
    return {"dynamic": make_fx(function, tracing_mode="symbolic")(*args).graph}


def plain(function, args):
    return {"plain": make_fx(function, tracing_mode="fake")(*args).graph}


def on_two_gpus(graphs):
    """Every third storage on a second GPU, every fourth on the CPU."""
    homes = {}
    for graph in graphs.values():
        for node in graph.nodes:
            def put(tensor):
                key = tensor.untyped_storage()._cdata
                home = homes.setdefault(key, ("cpu", "cuda:0", "cuda:1", "cuda:0")[len(homes) % 4])
                tensor.fake_device = torch.device(home)
            torch.utils._pytree.tree_map_only(FakeTensor, put, node.meta.get("val"))
    return graphs


def cases():
    from functorch.compile import min_cut_rematerialization_partition as min_cut
    torch.manual_seed(0)
    trace, x = export.trace, torch.randn
    mlp = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 8))
    conv = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(5))
    conv(x(2, 3, 12, 12))
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    yield "mlp", trace(mlp, (x(4, 16),))
    yield "mlp_min_cut", trace(mlp, (x(4, 16),), partition=min_cut)
    yield "mlp_inference", trace(mlp.eval(), (x(4, 16),), train=False)
    yield "attention", trace(Attention(), (x(2, 6, 32),))
    yield "sdpa", trace(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                        tuple(x(2, 4, 8, 16, requires_grad=True) for _ in range(3)))
    yield "conv", trace(conv, (x(2, 3, 12, 12),))
    yield "residual", trace(nn.Sequential(Residual(4), Residual(4)), (x(2, 4, 8, 8),))
    yield "transformer", trace(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (x(3, 5, 32),))
    yield "lstm", trace(nn.LSTM(8, 16, 2), (x(5, 3, 8),))
    yield "tied", trace(Tied(), (torch.randint(50, (4, 6)).view(-1), torch.randint(50, (24,))))
    yield "primals", trace(Buffers(), (x(4, 8, requires_grad=True),))
    yield "checkpointed", trace(Checkpointed(), (x(4, 24),), partition=min_cut)
    yield "in_place", plain(in_place, (x(6, 6), x(6, 6)))
    yield "views_out", plain(views_out, (x(6, 6),))
    yield "dropped", plain(dropped, (x(8, 5),))
    yield "symbolic", symbolic(Methods(), (x(4, 8),))
    yield "joint_mlp", joint(mlp, (x(4, 16),))
    yield "joint_conv", joint(conv, (x(2, 3, 12, 12),))
    yield "joint_export", joint_export(lambda a, b: [(torch.tanh(a @ b) * a[:, :4]).sum(1)], (x(5, 8), x(8, 4)))
    yield "dynamic", dynamic(lambda a, b: (a @ b).relu().reshape(-1).cumsum(0), (x(7, 3), x(3, 9)))
    yield "two_gpus", on_two_gpus(trace(Attention(), (x(2, 6, 32),)))


# --- random graphs ---------------------------------------------------------------------------------------


def random_graph(rng, mode, shared, name):
    """Nodes of any kind over new storages, views, and several at once; some use nothing, some are used by nobody."""
    graph, nodes = torch.fx.Graph(), []

    def value():
        kind = rng.random()
        if kind < 0.1:
            return None
        if kind < 0.45 and shared:
            base, home = rng.choice(shared)
        else:
            home = torch.device(rng.choice(("cuda:0", "cuda:0", "cuda:1", "cpu")))
            base = torch.empty(rng.choice((1, 2, 5, 64, 1000)), dtype=rng.choice((torch.float32, torch.int8)))
            shared.append((base, home))
        view = base[: max(1, base.shape[0] // 2)] if rng.random() < 0.5 else base.view(-1)
        view.fake_device = home
        return view

    with mode:
        for i in range(rng.randrange(1, 30)):
            op = rng.choice(("placeholder", "get_attr", "call_function")) if i < 4 else \
                rng.choice(("call_function",) * 12 + ("get_attr",))
            used = tuple(rng.sample(nodes, min(len(nodes), rng.randrange(4)))) if op == "call_function" else ()
            node = graph.create_node(op, torch.add if op == "call_function" else f"{rng.choice(('primals', 'x'))}_{i}",
                                     used + used[:1], name=f"{rng.choice(('primals', 'a'))}_{name}_{i}")
            values = [value() for _ in range(rng.choice((1, 1, 1, 2, 3)))]
            node.meta["val"] = values[0] if len(values) == 1 else {"a": values[0], "b": [tuple(values[1:])]}
            nodes.append(node)
        graph.output(tuple(rng.sample(nodes, rng.randrange(len(nodes) + 1))))
    return graph


def random_cases(cnt, seed):
    rng = random.Random(seed)
    for i in range(cnt):
        mode, shared = FakeTensorMode(), []
        yield f"random_{seed}_{i}", {name: random_graph(rng, mode, shared, name[0]) for name in ("forward", "backward")}


# --- torch's own numbers -----------------------------------------------------------------------------------


def random_order(graph, rng):
    """Any order in which inputs come first, of what is not given; the last few nodes may be left out."""
    nodes = list(graph.nodes)
    left = {n: {i for i in n.all_input_nodes if i.op not in ("placeholder", "get_attr")} for n in nodes}
    order, ready = [], [n for n in nodes if not left[n]]
    while ready:
        node = ready.pop(rng.randrange(len(ready)))
        order.append(node)
        for user in node.users:
            if node in left[user]:
                left[user].discard(node)
                if not left[user]:
                    ready.append(user)
    return order[:len(order) - rng.choice((0, 0, 1, 2))]


def tracked(graph, order, is_releasable):
    """What MemoryTracker says, or None where it refuses the order (a view made before its storage)."""
    tracker = oracle.MemoryTracker(graph, is_releasable)
    said = {"start": tracker.get_current_memory_bytes(), "current": []}
    try:
        for node in order:
            tracker.schedule_node(node)
            said["current"].append(tracker.get_current_memory_bytes())
    except AssertionError:
        return None
    return said | {"peak": tracker.peak_memory}


def expected(graphs, orders):
    pair = "forward" in graphs and "backward" in graphs
    kept = set()
    said = {"graphs": {}}
    if pair:
        baseline, kept = interactions(oracle.get_fwd_bwd_interactions, graphs["forward"], graphs["backward"])
        said |= {"baseline": baseline, "do_not_delete": list(kept),
                 "peak": interactions(oracle.get_peak_memory, graphs["forward"], graphs["backward"])}
    for name, graph in graphs.items():
        def is_releasable(node, kept=kept if name == "backward" else ()):
            return oracle._is_releasable(node) and node.name not in kept
        all_devices, oracle.device_filter = oracle.device_filter, lambda device: True
        every = oracle.build_memory_profile(graph, is_releasable)
        oracle.device_filter = all_devices
        said["graphs"][name] = {"profile": oracle.build_memory_profile(graph, is_releasable), "all_devices": every,
                                "schedule": tracked(graph, orders[name], is_releasable)}
    return said


def main():
    where, rng = pathlib.Path(sys.argv[1]), random.Random(1)
    if len(sys.argv) > 2:
        todo = random_cases(int(sys.argv[2]), int(sys.argv[3]))
    else:
        todo = cases()
    for name, graphs in todo:
        if not name.startswith("random") and name != "two_gpus":
            export.move(graphs, "cuda:0")
        orders = {k: random_order(g, rng) for k, g in graphs.items()}
        said = expected(graphs, orders)
        (where / f"{name}.torch.json").write_text(json.dumps(said))
        export.write(where / f"{name}.bare.json", graphs)
        refused = {k: o for k, o in orders.items() if not said["graphs"][k]["schedule"]}
        if refused:
            export.write(where / f"{name}.refused.json", graphs, refused)
        export.write(where / f"{name}.json", graphs, {k: o for k, o in orders.items() if k not in refused})
        print(name, flush=True)


if __name__ == "__main__":
    main()
