# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The tables that PyTorch's test/profiler/test_memory_profiler.py expects, quoted: its indentation and the
comments in them left out. NOW has what torch 2.13's own memory profiler says where that is another table.
"""

# --- TestDataFlow: formatSchemas ---------------------------------------------------------------------------

SCHEMAS = {
    "test_match_schemas": (
        ("aten::ones.", (False,) * 5),
        ("aten::empty.memory_format", (False,) * 6),
        ("aten::fill_.Scalar", (True, False)),
        ("aten::mul.Tensor", (False, False)),
        ("aten::to.dtype", (False,) * 5),
        ("aten::_to_copy.", (False,) * 7),
        ("aten::empty_strided.", (False,) * 6),
        ("aten::copy_.", (True, False, False)),
        ("aten::add_.Tensor", (True, False, False)),
        ("aten::to.dtype", (False,) * 5),
        ("aten::_to_copy.", (False,) * 7),
        ("aten::empty_strided.", (False,) * 6),
        ("aten::copy_.", (True, False, False)),
        ("aten::empty_like.", (False,) * 6),
        ("aten::empty_strided.", (False,) * 6),
        ("aten::sin.out", (False, True)),
    ),
    "test_match_schemas_backward": (
        ("aten::mul.Tensor", (False, False)),
        ("aten::ones_like.", (False,) * 6),
        ("aten::empty_like.", (False,) * 6),
        ("aten::empty_strided.", (False,) * 6),
        ("aten::fill_.Scalar", (True, False)),
        ("autograd::engine::evaluate_function: MulBackward0", ()),
        ("MulBackward0", (None,)),
        ("aten::mul.Tensor", (False, False)),
        ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", ()),
        ("torch::autograd::AccumulateGrad", (None,)),
        ("aten::detach.", (False,)),
        ("detach", (None,)),
    ),
    "test_match_schemas_tensorlist": (
        ("aten::cat.", (False, False)),
    ),
}

# --- TestDataFlow: _run_and_format_data_flow, a table a window ---------------------------------------------

FLOW = {
    "test_data_flow_graph_with_annotations": ["""\
x:       T0
y:       T1
x0:      T2
y0:      T3

aten::zero_               T0(v0)           ->  T0(v1)
aten::zero_               T1(v0)           ->  T1(v1)
aten::ones_like           T0(v1)           ->  T2(v0)
aten::zeros_like          T1(v1)           ->  T3(v0)"""],
    "test_data_flow_graph_non_op_allocations": ["""\
x:       T1

[memory]                                   ->  T0(v0)
aten::mul                 T0(v0), T1(v0)   ->
[memory]                  T0(v0*)          ->"""],
    "test_data_flow_graph_simple": ["""\
x:       T0
y:       T1
z:       T2

aten::mul                 T0(v0), T1(v0)   ->  T2(v0)
aten::view_as             T2(v0)           ->"""] * 2,
    "test_data_flow_graph_simple_inplace": ["""\
x:       T0
y:       T1

aten::mul_                T0(v0), T1(v0)   ->  T0(v1), T2(v0)""", """\
x:       T0
y:       T1

aten::mul_                T0(v0), T1(v0)   ->  T0(v1)"""],
    "test_data_flow_graph_simple_backward": ["""\
x:       T0
w:       T1
w.grad:   T7

aten::mul                 T0(v0), T1(v0)   ->  T2(v0)
aten::sin                 T2(v0)           ->  T3(v0)
aten::ones_like           T3(v0)           ->  T4(v0)
SinBackward0              T2(v0), T4(v0)   ->  T6(v0)
[memory]                  T2(v0*)          ->
MulBackward0              T0(v0), T6(v0)   ->  T7(v0)
[memory]                  T6(v0*)          ->
AccumulateGrad            T7(v0)           ->
[memory]                  T4(v0*)          ->
[memory]                  T3(v0*)          ->"""],
    "test_data_flow_graph_complicated": ["""\
x:       T0
y:       T3
z:       T6

aten::ones                                 ->  T0(v0)
[memory]                                   ->  T1(v0)
aten::mul                 T0(v0), T1(v0)   ->  T3(v0)
[memory]                  T1(v0*)          ->
[memory]                                   ->  T4(v0)
aten::add_                T3(v0), T4(v0)   ->  T3(v1)
[memory]                  T4(v0*)          ->
aten::empty_like          T3(v1)           ->  T6(v0)
aten::sin                 T3(v1), T6(v0)   ->  T6(v1)"""],
}

# (case, number of the node): name and tensors born and freed in it
BETWEEN = {("test_data_flow_graph_complicated", 2): ("aten::mul", [2])}

# --- TestMemoryProfilerE2E: _run_and_format_categories -----------------------------------------------------

CATEGORIES = {
    "test_categories_e2e_simple_fwd": """\
aten::ones                                                                             -> 1 (???)
aten::mul.Tensor                         1 (???), 2 (???)                              -> 3 (???)
aten::mul.Tensor                         1 (???), 4 (???)                              -> 5 (???)
aten::cat                                3 (???), 5 (???)                              -> ???""",
    "test_categories_e2e_simple_module_fwd": """\
aten::ones                                                                             -> 1 (INPUT)
aten::t                                  2 (PARAMETER)                                 -> 2 (PARAMETER)
aten::addmm                              3 (PARAMETER), 1 (INPUT), 2 (PARAMETER)       -> 4 (ACTIVATION)""",
    "test_categories_e2e_simple_module_fwd_bwd": """\
-- Forward & loss
aten::ones                                                                             -> 1 (INPUT)
aten::t                                  2 (PARAMETER)                                 -> 2 (PARAMETER)
aten::addmm                              3 (PARAMETER), 1 (INPUT), 2 (PARAMETER)       -> 4 (ACTIVATION)
aten::sum                                4 (ACTIVATION)                                -> 5 (ACTIVATION)
-- Backward
aten::ones_like                          5 (ACTIVATION)                                -> 6 (ACTIVATION)
aten::expand                             6 (ACTIVATION)                                -> 6 (ACTIVATION)
aten::t                                  6 (ACTIVATION)                                -> 6 (ACTIVATION)
aten::mm                                 6 (ACTIVATION), 1 (INPUT)                     -> 7 (GRADIENT)
aten::t                                  7 (GRADIENT)                                  -> 7 (GRADIENT)
aten::sum.dim_IntList                    6 (ACTIVATION)                                -> 9 (GRADIENT)
aten::view                               9 (GRADIENT)                                  -> 9 (GRADIENT)
aten::detach                             9 (GRADIENT)                                  -> 9 (GRADIENT)
aten::detach                             9 (GRADIENT)                                  -> ???
aten::t                                  7 (GRADIENT)                                  -> 7 (GRADIENT)
aten::detach                             7 (GRADIENT)                                  -> 7 (GRADIENT)
aten::detach                             7 (GRADIENT)                                  -> ???""",
    "test_categories_e2e_sequential_fwd": """\
aten::ones                                                                             -> 1 (INPUT)
aten::t                                  2 (PARAMETER)                                 -> 2 (PARAMETER)
aten::addmm                              3 (PARAMETER), 1 (INPUT), 2 (PARAMETER)       -> 4 (ACTIVATION)
aten::relu                               4 (ACTIVATION)                                -> 5 (ACTIVATION)
aten::detach                             5 (ACTIVATION)                                -> ???
aten::t                                  6 (PARAMETER)                                 -> 6 (PARAMETER)
aten::mm                                 5 (ACTIVATION), 6 (PARAMETER)                 -> 7 (ACTIVATION)
aten::_softmax                           7 (ACTIVATION)                                -> 8 (ACTIVATION)
aten::detach                             8 (ACTIVATION)                                -> ???""",
}

_FWD_BWD = CATEGORIES["test_categories_e2e_simple_module_fwd_bwd"].split("\n")
NOW = {
    # AccumulateGrad detaches once in 2.13, where it did twice
    "test_categories_e2e_simple_module_fwd_bwd": "\n".join(
        line for line in _FWD_BWD if not (line.startswith("aten::detach") and line.endswith("(GRADIENT)"))),
}

# --- TestMemoryProfilerE2E: test_memory_timeline_no_id ------------------------------------------------------

TIMELINE = [("CREATE", 256), ("DESTROY", 256), ("CREATE", 1024), ("DESTROY", 1024)]
TIMELINE_CUDA = [("PREEXISTING", 4096), ("DESTROY", 4096), *TIMELINE]
