# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""torch.distributed._tools.memory_tracker.MemoryTracker with the tracer outside.

The seed (torch 2.13) runs in a dispatch mode, in which each operator passes through Python, and samples
torch.cuda's counters after each. Here `memtrace record` sees the operators and the allocator from outside; the seed's list is
made of its recording at stop(). CPU memory is tracked as well, which has no counters to sample.

What the seed's mode sees is what gets below autograd: an operator that is nothing but others (CompositeImplicit: linear,
matmul) is not there, what it calls is; what a kernel calls is not. torch's registry says which is which.
"""
import json
import operator
import os
import pickle
from collections import defaultdict

from . import _plot, _regions, _tool

BYTES_PER_MB = 1024 * 1024.0
START, STOP = "memtrace.MemoryTracker.start", "memtrace.MemoryTracker.stop"
# Operators of which only some overloads are wrappers: these are when they call this first.
WRAPS = {"max": "maximum", "min": "minimum", "split": "split_with_sizes", "_convolution": "_convolution"}


class _Unpickler(pickle.Unpickler):
    """Numbers, texts and dicts: what the seed's pickles and ours are made of."""

    def find_class(self, module, name):
        if (module, name) in (("collections", "defaultdict"), ("builtins", "int")):
            return {"defaultdict": defaultdict, "int": int}[name]
        raise pickle.UnpicklingError(f"not a pickle of memory stats: it names {module}.{name}")


class _Overloads:
    """Of an operator's name ("aten::sum"): are all, none or some of its overloads nothing but other operators?"""

    def __init__(self):
        self._known = {}

    def composite(self, name):
        """True, False, or None: some."""
        if name not in self._known:
            self._known[name] = self._ask(name)
        return self._known[name]

    @staticmethod
    def _ask(name):
        import torch
        said = set()
        for schema in torch._C._jit_get_schemas_for_operator(name):
            if any(a.is_out or "Dimname" in str(a.type) for a in schema.arguments):
                continue
            full = f"{name}.{schema.overload_name}" if schema.overload_name else name
            try:
                said.add(torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd"))
            except RuntimeError:
                pass  # TorchScript's alone
        return said.pop() if len(said) == 1 else None if said else False


def below_autograd(lines):
    """Of the operators among an op-trace's lines those that the seed's mode would see, in their order; and all other lines."""
    overloads = _Overloads()
    inside = {}  # thread -> depth of the operator in whose kernel it is
    for at, line in enumerate(lines):
        if line["ev"] != "op":
            if line["ev"] == "node":
                inside.pop(line["tid"], None)
            yield line
            continue
        depth, tid, name = line["depth"], line["tid"], line["name"] or ""
        if depth > inside.get(tid, depth):
            continue
        composite = overloads.composite(name)
        if composite is None:
            first = next((other for other in lines[at + 1:at + 20] if other["ev"] == "op" and other["tid"] == tid), None)
            short = name.split("::")[-1]
            composite = bool(first and first["depth"] == depth + 1 and
                             first["name"] in (name, name.replace(short, WRAPS.get(short, short))))
        if composite:
            inside.pop(tid, None)
            continue
        inside[tid] = depth
        if name != "aten::detach":  # the seed leaves it out
            yield line


class MemoryTracker:
    """Memory after each operator: allocated, active, reserved, in MB.

        from memtrace import MemoryTracker      # was: from torch.distributed._tools.memory_tracker import MemoryTracker

        tracker = MemoryTracker()
        tracker.start_monitor(net)
        net(input).sum().backward()
        tracker.stop()
        tracker.summary()
        tracker.show_traces()

    Needs the rights to trace: see docs/python.md. `options` go to `memtrace record`. `recording`, if given, is where the
    recording is kept for other views.
    """

    def __init__(self, options=(), recording=None):
        self.memories_allocated = {}
        self.memories_active = {}
        self.memories_reserved = {}
        self.operators = []  # of each: op, module, phase, created (bytes), t (ns), step
        self.steps = []      # index of the operator that each step begins with
        self.marks = []      # (fw_start or fw_bw_boundary, index of an operator): all of them; the seed keeps the last
        self._options = ["--probes", "framework,flow,views,regions,segments", "--no-names", "--no-follow", *options]
        self._recording = recording
        self._clear_state()
        self._tracer = None
        self._annotation = None
        self._device_module = None

    def _clear_state(self):
        self.memories_allocated.clear()
        self.memories_active.clear()
        self.memories_reserved.clear()
        self.operators.clear()
        self.steps.clear()
        self.marks.clear()
        self._markers = defaultdict(int)
        self._op_index = 0
        self._num_alloc_retries = 0

    # --- tracing ---------------------------------------------------------------------------------

    def start_monitor(self, root_module):
        """Attaches memtrace to this process and puts regions around the modules' forwards."""
        if self._tracer is not None:
            raise AssertionError("this tracker is monitoring already")
        import torch
        self._clear_state()
        get = getattr(torch, "get_device_module", None)
        self._device_module = get() if get else torch.cuda
        if hasattr(self._device_module, "empty_cache"):
            self._device_module.empty_cache()
        tracer = _tool.Tracer(output=self._recording, options=self._options)
        try:
            self._annotation = _regions.annotate(root_module)
            self._root_region = _regions._annotated[root_module].region
            _regions.mark(START)
        except BaseException:
            tracer.close()
            raise
        self._tracer = tracer

    def stop(self):
        """Detaches, and makes the lists of what was seen."""
        if self._tracer is None:
            raise AssertionError("this tracker is not monitoring")
        tracer, self._tracer = self._tracer, None
        try:
            stats = getattr(self._device_module, "memory_stats", None)
            self._num_alloc_retries = stats().get("num_alloc_retries", 0) if stats else 0
            _regions.mark(STOP)
            self._annotation.remove()
            path = tracer.stop()
            self._take(json.loads(line) for line in _tool.run("export", path, "--to", "op-trace", "--quiet", "-o", "-").splitlines())
        finally:
            tracer.close()

    def _take(self, lines):
        lines = list(lines)
        at = [i for i, line in enumerate(lines) if line["ev"] == "region" and line["name"] == START]
        end = [i for i, line in enumerate(lines) if line["ev"] == "region" and line["name"] == STOP]
        entered, forward, step, seen = "", defaultdict(list), 0, defaultdict(int)
        for line in below_autograd(lines[at[-1] + 1 if at else 0:end[-1] if end else len(lines)]):
            ev, name = line["ev"], line["name"] if line["ev"] != "end" else None
            is_module = ev in ("region", "region_end") and name and name.startswith(_regions.MODULE)
            if is_module:
                path = "" if name == self._root_region else name[len(_regions.MODULE):]
                open_modules = forward[line["tid"]]
                if ev == "region":
                    entered = f"{path}.forward"
                    open_modules.append(path)
                elif path in open_modules:
                    del open_modules[len(open_modules) - 1 - open_modules[::-1].index(path):]
                if name == self._root_region:
                    self.marks.append(("fw_start" if ev == "region" else "fw_bw_boundary", self._op_index))
                    self._markers.update([self.marks[-1]])
            elif ev == "mark" and name == "step":
                step += 1
                self.steps.append(self._op_index)
            elif ev == "op":
                short = name.split("::")[-1]
                full = f"{entered}.{short}_{seen[short]}"
                seen[short] += 1
                self._add(full, line)
                self.operators.append({"op": name, "module": forward[line["tid"]][-1] if forward[line["tid"]] else None,
                                       "phase": line["phase"], "created": line["created"], "t": line["t"], "step": step})

    def _add(self, name, line):
        allocated, reserved = line["allocated"] / BYTES_PER_MB, line["reserved"] / BYTES_PER_MB
        self.memories_allocated[self._op_index] = (name, allocated)
        self.memories_active[self._op_index] = (name, allocated)  # a free counts when it is asked for
        self.memories_reserved[self._op_index] = (name, reserved)
        self._op_index += 1

    # --- what was seen ---------------------------------------------------------------------------

    def summary(self, top=20):
        """Prints the operators after which most more memory was allocated than before them."""
        op_diff = {}
        rows = [self.memories_allocated[i] for i in sorted(self.memories_allocated)]
        for (_, before), (name, now) in zip(rows, rows[1:]):
            op_diff[name] = now - before
        print("------------------------------------------------")
        print(f"The number of alloc retries are: {self._num_alloc_retries}")
        print(f"Top {top} ops that generates memory are:")
        for name, value in sorted(op_diff.items(), key=operator.itemgetter(1), reverse=True)[:top]:
            print(f"{name}: {value}MB")
        print("------------------------------------------------")

    def show_traces(self, path="", out=None):
        """Draws memory after each operator, with fw_start, fw_bw_boundary and steps.

        `path`: stats that save_stats wrote; or, if it ends in .svg, .png or .pdf, the picture's file, as `out`. Without `out`
        figures of matplotlib, as the seed draws them; where there is none, an SVG. Returns the file's path, or None.
        """
        if path and out is None and os.path.splitext(path)[1] in (".svg", ".png", ".pdf"):
            path, out = "", path
        if path:
            self.load(path)
        series = {name: [value for _, value in memory.values()] for name, memory in (
            ("allocated_memory", self.memories_allocated), ("active_memory", self.memories_active),
            ("reserved_memory", self.memories_reserved))}
        if out is None or not out.endswith(".svg"):
            try:
                return _plot.matplotlib_figures(series, self.marks, self.steps, out) or out
            except ImportError:
                if out is not None:
                    raise _tool.Error(f"{out}: this needs matplotlib; an .svg does not") from None
                out = f"memory-trace-{os.getpid()}.svg"
                print(f"no matplotlib: {out}")
        with open(out, "w", encoding="utf-8") as f:
            f.write(_plot.svg(series, self.marks, self.steps, "memory after each operator"))
        return out

    def save_stats(self, path):
        """The seed's pickle, which its load() reads, and what else is known."""
        stats = {"memories_allocated": self.memories_allocated, "memories_active": self.memories_active,
                 "memories_reserved": self.memories_reserved, "markers": self._markers,
                 "num_alloc_retries": self._num_alloc_retries, "operators": self.operators, "steps": self.steps,
                 "marks": self.marks}
        with open(path, "wb") as f:
            pickle.dump(stats, f, pickle.HIGHEST_PROTOCOL)

    def load(self, path):
        """Stats that save_stats, or the seed's, wrote."""
        with open(path, "rb") as f:
            stats = _Unpickler(f).load()
        self.memories_allocated = stats["memories_allocated"]
        self.memories_active = stats["memories_active"]
        self.memories_reserved = stats["memories_reserved"]
        self._markers = stats["markers"]
        self._num_alloc_retries = stats["num_alloc_retries"]
        self.operators = stats.get("operators", [])
        self.steps = stats.get("steps", [])
        self.marks = stats.get("marks", list(self._markers.items()))
        self._op_index = len(self.memories_allocated)
