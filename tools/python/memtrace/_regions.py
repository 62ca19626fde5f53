# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Regions that a job opens itself. memtrace sees every record_function from outside (its source `regions`)."""
import inspect
import threading
import weakref

MODULE = "nn.Module#"
STEP = "memtrace.step"  # user/model/model.c takes it for a step mark

_annotated = weakref.WeakKeyDictionary()  # module -> _Hooks
_lock = threading.Lock()
_local = threading.local()


def _torch():
    try:
        import torch
    except ImportError:
        raise RuntimeError("torch is needed to open a region") from None
    return torch


def mark(name):
    """An empty region: a moment with a name."""
    with _torch().autograd.profiler.record_function(name):
        pass


def step():
    """Marks the beginning of a step. Jobs with an optimizer, or under torch.profiler, have steps without it."""
    mark(STEP)


def _open_regions():
    """This thread's: (module, region), outermost first."""
    if not hasattr(_local, "regions"):
        _local.regions = []
    return _local.regions


def _close(regions, keep):
    while len(regions) > keep:
        regions.pop()[1].__exit__(None, None, None)


def _compiling(torch):
    compiler = getattr(torch, "compiler", None)
    asked = getattr(compiler, "is_compiling", None) or getattr(getattr(torch, "_dynamo", None), "is_compiling", None)
    return bool(asked and asked())


class _Hooks:
    """The two hooks of one module, and how many handles want them."""

    def __init__(self, module, name):
        self.region = MODULE + name
        self.wanted = 0
        options = inspect.signature(module.register_forward_hook).parameters
        early = {"prepend": True} if "prepend" in inspect.signature(module.register_forward_pre_hook).parameters else {}
        # called after a forward that raised, too: torch 2.0 and newer
        self.always = "always_call" in options
        late = {"always_call": True} if self.always else {}
        self.handles = [module.register_forward_pre_hook(self.enter, **early)]
        try:
            self.handles.append(module.register_forward_hook(self.leave, **late))
        except Exception:
            self.remove()
            raise

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def enter(self, module, _inputs):
        torch = _torch()
        if _compiling(torch):
            return
        regions = _open_regions()
        if not self.always:  # what an exception left open: a module is not in itself
            for i, (other, _) in enumerate(regions):
                if other is module:
                    _close(regions, i)
                    break
        region = torch.autograd.profiler.record_function(self.region)
        region.__enter__()
        regions.append((module, region))

    def leave(self, module, _inputs, _output):
        """Closes what is open from this module on: regions in it that an exception left, first."""
        regions = _open_regions()
        for i in range(len(regions) - 1, -1, -1):
            if regions[i][0] is module:
                _close(regions, i)
                break


class Annotation:
    """What annotate() returns. remove() takes the regions away; also a context manager."""

    def __init__(self, modules):
        self._modules = modules

    def remove(self):
        with _lock:
            for module in self._modules:
                hooks = _annotated.get(module)
                if hooks is None:
                    continue
                hooks.wanted -= 1
                if not hooks.wanted:
                    hooks.remove()
                    del _annotated[module]
            self._modules = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def annotate(model, name=None):
    """Opens a region around the forward of each module of `model`: "nn.Module#layers.0.linear1".

    The model's own is "nn.Module#(ClassName)", or `name` in its brackets. Modules that have regions already keep
    them under their first name. Costs two hooks and some microseconds a call of a module; opens nothing in what
    torch.compile compiles.
    """
    taken = []
    try:
        with _lock:
            for path, module in model.named_modules():
                if module not in _annotated:
                    _annotated[module] = _Hooks(module, path or f"({name or type(module).__name__})")
                _annotated[module].wanted += 1
                taken.append(module)
    except Exception:
        Annotation(taken).remove()
        raise
    return Annotation(taken)
