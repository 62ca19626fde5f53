# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The small models of PyTorch's test/profiler/test_memory_profiler.py, a function a test, names as there.

A case is a generator: what is before its `yield` is there already when an observer comes, what is after it
runs in one or more windows of a watch (seed_watch.py):

    watch.window(name)     context; what is in it is observed. Its fact(name, tensor) tells where a tensor
                           lies, as the process itself knows it.
    watch.flow(inputs, f)  a window in which f(**inputs) runs; facts are its inputs and outputs.
    watch.table(fn)        a window in which fn(mark_region) runs under a mode that notes what every
                           dispatched operator was given and gave.

Cases whose name does not begin with test_ are ours: the same models where the observer comes at another time.
"""
import gc

import torch

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class ScaleLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(()), requires_grad=True)

    def forward(self, x):
        return x * self.scale


class LazyLinear(torch.nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features

    def forward(self, x):
        if getattr(self, "weight", None) is None:
            self.weight = torch.nn.Parameter(torch.empty((self.out_features, self.in_features)))
            self.bias = torch.nn.Parameter(torch.empty(self.out_features))
        return torch.nn.functional.linear(x, self.weight, self.bias)


def grad_facts(window, named, suffix=""):
    for name, p in named:
        if p.grad is not None:
            window.fact(f"{name}.grad{suffix}", p.grad)


# --- TestIdentifyGradients -------------------------------------------------------------------------------

@case
def test_extract_gradients_low_level(watch):
    x = torch.ones((1,))
    named = {"w0": torch.ones((1,), requires_grad=True), "w1": torch.ones((1,), requires_grad=True)}
    w0, w1 = named.values()
    yield
    for start in ("cold", "warm"):
        assert (w0.grad is None) == (w1.grad is None) == (start == "cold")
        with watch.window(start) as win:
            z = x.expand(4) * w0
            (z * w1).sum().backward()
        grad_facts(win, named.items())


@case
def test_extract_gradients_from_module(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), ScaleLayer())
    named = dict(model.named_parameters())
    assert len(named) == 3
    yield
    for start in ("cold", "warm"):
        x = torch.ones((2, 2))
        with watch.window(start) as win:
            model(x).sum().backward()
        grad_facts(win, named.items())
        with watch.window(f"{start}, forward alone") as win:
            model(torch.ones((2, 2)))
        grad_facts(win, named.items())


@case
def gradients_from_before(watch):
    """As the forward pass of test_extract_gradients_from_module, the observer comes after the backward pass."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), ScaleLayer())
    model(torch.ones((2, 2))).sum().backward()
    yield
    with watch.window("forward alone") as win:
        model(torch.ones((2, 2)))
    grad_facts(win, model.named_parameters())


def gradients_from_optimizer(watch, set_to_none):
    x = torch.ones((1,))
    named = {"w0": torch.ones((1,), requires_grad=True), "w1": torch.ones((1,), requires_grad=True)}
    w0, w1 = named.values()
    optimizer = torch.optim.SGD((w0, w1), lr=0.1, momentum=0.9)
    yield
    for start in ("cold", "warm"):
        if start == "cold":
            assert w0.grad is None and w1.grad is None
        with watch.window(start) as win:
            grad_facts(win, named.items(), " before")
            optimizer.zero_grad(set_to_none=set_to_none)
            z = x.expand(4) * w0
            (z * w1).sum().backward()
            optimizer.step()
        grad_facts(win, named.items())
        with watch.window(f"{start}, two steps") as win:
            for i in range(2):
                grad_facts(win, named.items(), f" before {i}")
                optimizer.zero_grad(set_to_none=set_to_none)
                z = x.expand(4) * w0
                (z * w1).sum().backward()
                optimizer.step()
        grad_facts(win, named.items())


@case
def test_extract_gradients_from_optimizer(watch):
    return gradients_from_optimizer(watch, False)


@case
def test_extract_gradients_from_optimizer_set_to_none(watch):
    return gradients_from_optimizer(watch, True)


@case
def test_extract_gradients_from_module_and_optimizer(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), ScaleLayer())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    yield
    with watch.window("step") as win:
        model(torch.ones((2, 2))).sum().backward()
        optimizer.step()
    grad_facts(win, model.named_parameters())


# --- TestDataFlow ----------------------------------------------------------------------------------------

@case
def test_match_schemas(watch):
    yield
    with watch.window("calls"):
        x = torch.ones((1,)).mul(2).add_(2)
        _ = torch.sin(x, out=torch.empty_like(x))


@case
def test_match_schemas_backward(watch):
    x = torch.ones((1,))
    w = torch.ones((1,), requires_grad=True)
    yield
    with watch.window("calls"):
        torch.mul(x, w).backward()


@case
def test_match_schemas_tensorlist(watch):
    x = torch.ones((1,))
    y = torch.ones((1,))
    yield
    with watch.window("calls"):
        torch.cat([x, y], axis=0)


@case
def test_data_flow_graph_with_annotations(watch):
    def f(x, y):
        with torch.profiler.record_function("Namespaced::Annotation"):
            with torch.profiler.record_function("My Annotation"):
                x.zero_()
                y.zero_()
                return {"x0": torch.ones_like(x), "y0": torch.zeros_like(y)}

    inputs = {"x": torch.ones((1,)), "y": torch.ones((1,))}
    yield
    watch.flow(inputs, f)


@case
def test_data_flow_graph_non_op_allocations(watch):
    def f(x):
        x.mul(2)

    inputs = {"x": torch.ones((1,))}
    yield
    watch.flow(inputs, f)


@case
def test_data_flow_graph_simple(watch):
    inputs = {"x": torch.ones((25,)), "y": torch.ones((25,), requires_grad=True)}

    def f0(x, y):
        z = x.mul(y)
        return {"z": z.view_as(z)}

    def f1(x, y):
        with torch.no_grad():
            return f0(x, y)

    yield
    watch.flow(inputs, f0)
    watch.flow(inputs, f1)


@case
def test_data_flow_graph_simple_inplace(watch):
    inputs = {"x": torch.ones((25,)), "y": torch.ones((25,), requires_grad=True)}

    def f0(x, y):
        x.mul_(y)

    def f1(x, y):
        with torch.no_grad():
            return f0(x, y)

    yield
    watch.flow(inputs, f0)
    watch.flow(inputs, f1)


@case
def test_data_flow_graph_simple_backward(watch):
    inputs = {"x": torch.ones((1,)), "w": torch.ones((1,), requires_grad=True)}
    yield
    watch.flow(inputs, lambda x, w: (x * w).sin().backward())


@case
def test_data_flow_graph_complicated(watch):
    def f():
        x = torch.ones((25,))
        y = x.mul(2).add_(2)
        z = torch.sin(y, out=torch.empty_like(y))
        return {"x": x, "y": y, "z": z}

    yield
    watch.flow({}, f)


# --- TestMemoryProfilerE2E -------------------------------------------------------------------------------

def parameter_facts(window, model):
    for name, p in model.named_parameters():
        window.fact(name, p)
    grad_facts(window, model.named_parameters())


def mse_step(model, optimizer, **zero_grad):
    optimizer.zero_grad(**zero_grad)
    y = model(torch.ones((2, 2)))
    torch.nn.functional.mse_loss(y, torch.rand((2, 1))).backward()
    optimizer.step()


@case
def test_parameters_and_gradients(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), ScaleLayer(), torch.nn.Linear(2, 1), ScaleLayer())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    yield
    with watch.window("forward alone, never a gradient") as win:
        model(torch.ones((2, 2)))
    parameter_facts(win, model)
    assert all(p.grad is None for p in model.parameters())
    with watch.window("first step") as win:
        mse_step(model, optimizer)
    parameter_facts(win, model)
    assert not any(p.grad is None for p in model.parameters())
    with watch.window("second step") as win:
        mse_step(model, optimizer)
    parameter_facts(win, model)
    with watch.window("forward alone") as win:
        model(torch.ones((2, 2)))
    parameter_facts(win, model)


@case
def parameters_forward_alone(watch):
    """The first window of test_parameters_and_gradients, and nothing after it."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), ScaleLayer(), torch.nn.Linear(2, 1), ScaleLayer())
    yield
    with watch.window("forward alone, never a gradient") as win:
        model(torch.ones((2, 2)))
    parameter_facts(win, model)


@case
def test_parameters_and_gradients_set_to_none(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps():
        for _ in range(3):
            mse_step(model, optimizer, set_to_none=True)

    steps()
    assert not any(p.grad is None for p in model.parameters())
    yield
    with watch.window("gradients there") as win:
        steps()
    parameter_facts(win, model)
    optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None for p in model.parameters())
    with watch.window("no gradients there") as win:
        steps()
    parameter_facts(win, model)


def forward_alone(watch, model):
    inputs = [torch.ones((2, 2)) for _ in range(2)]
    yield
    with watch.window("forward") as win:
        for x in inputs:
            _ = model(x)
        for _ in range(2):
            x = torch.ones((2, 2))
            inputs.append(x)
            _ = model(x)
    for i, x in enumerate(inputs):
        win.fact(f"x{i}", x)


@case
def test_inputs_fwd(watch):
    return forward_alone(watch, torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)))


@case
def test_inputs_fwd_lazy(watch):
    return forward_alone(watch, torch.nn.Sequential(LazyLinear(2, 2), LazyLinear(2, 1)))


@case
def test_inputs_fwd_bwd(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pairs = [(torch.ones((2, 2)), torch.rand((2, 1))) for _ in range(2)]

    def step(x, targets):
        y = model(x)
        torch.nn.functional.mse_loss(y, targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    yield
    with watch.window("steps") as win:
        for x, targets in pairs:
            step(x, targets)
        for _ in range(2):
            x = torch.ones((2, 2))
            targets = torch.rand((2, 1))
            pairs.append((x, targets))
            step(x, targets)
    for i, (x, targets) in enumerate(pairs):
        win.fact(f"x{i}", x)
        win.fact(f"targets{i}", targets)


@case
def test_lazily_initialized(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), LazyLinear(2, 2), torch.nn.ReLU(),
                                torch.nn.Linear(2, 1))
    assert len(list(model.parameters())) == 4
    yield
    with watch.window("step") as win:
        y = model(torch.ones((2, 2)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(y, torch.rand((2, 1))).backward()
        optimizer.step()
    parameter_facts(win, model)
    assert len(list(model.parameters())) == 6


@case
def test_manual_optimizer_step(watch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    yield
    with watch.window("step") as win:
        y = model(torch.ones((2, 2)))
        torch.nn.functional.mse_loss(y, torch.rand((2, 1))).backward()
        with torch.no_grad():
            for p in model.parameters():
                grad = p.grad
                assert grad is not None
                p.add_(grad, alpha=-0.1)
    parameter_facts(win, model)


@case
def test_categories_e2e_simple_fwd(watch):
    w0 = torch.ones((1,), requires_grad=True)
    w1 = torch.ones((1,), requires_grad=True)

    def step(_):
        x = torch.ones((2, 2))
        y = torch.cat([x * w0, x * w1], dim=1)  # noqa: F841

    yield
    watch.table(step)


@case
def test_categories_e2e_simple_module_fwd(watch):
    model = torch.nn.Linear(2, 4, bias=True)
    yield
    watch.table(lambda _: model(torch.ones((2, 2))))


@case
def test_categories_e2e_simple_module_fwd_bwd(watch):
    model = torch.nn.Linear(2, 1, bias=True)

    def step(mark_region):
        mark_region("Forward & loss")
        loss = model(torch.ones((2, 2))).sum()
        mark_region("Backward")
        loss.backward()

    yield
    watch.table(step)


def sequential():
    return torch.nn.Sequential(torch.nn.Linear(2, 4, bias=True), torch.nn.ReLU(), torch.nn.Linear(4, 4, bias=False),
                               torch.nn.Softmax(dim=1))


@case
def test_categories_e2e_sequential_fwd(watch):
    model = sequential()
    yield
    watch.table(lambda _: model(torch.ones((2, 2))))


@case
def sequential_without_mode(watch):
    """As test_categories_e2e_sequential_fwd, but nothing notes the operators, which makes them call no others."""
    model = sequential()
    yield
    with watch.window("forward") as win:
        y = model(torch.ones((2, 2)))
    win.fact("y", y)


@case
def categories_sequential_fwd_bwd(watch):
    """PyTorch's test_categories_e2e_sequential_fwd_bwd, which the copy at hand lacks."""
    model = sequential()

    def step(mark_region):
        x = torch.ones((2, 2))
        targets = torch.ones((2, 4))
        mark_region("Forward")
        y = model(x)
        mark_region("Loss")
        loss = torch.nn.functional.binary_cross_entropy_with_logits(y, targets)
        mark_region("Backward")
        loss.backward()

    yield
    watch.table(step)


def timeline(watch, is_met):
    x = torch.ones((1024,))
    yield
    with watch.window("allocations") as win:
        win.fact("x", x)
        if is_met:
            x.view_as(x)
        del x
        y = torch.empty((64,))
        win.fact("y", y)
        del y
        z = torch.empty((256,))
        win.fact("z", z)
        z.view_as(z)
        del z


@case
def test_memory_timeline_no_id(watch):
    return timeline(watch, False)


@case
def memory_timeline_met(watch):
    """As test_memory_timeline_no_id, but an operator is given the old block before it is freed."""
    return timeline(watch, True)


def run(name, watch, before=lambda: None):
    """The case, with before() called where the observer comes."""
    steps = CASES[name](watch)
    next(steps)
    gc.collect()
    before()
    for _ in steps:
        raise AssertionError(f"{name} has two beginnings")
