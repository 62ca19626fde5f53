# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""memtrace from Python: what a job may say of itself, and what recordings say, as tables.

    memtrace.annotate(model)     names modules by regions, for interpreters that memtrace cannot read
    memtrace.step()              marks a step
    memtrace.MemoryTracker()     torch.distributed._tools.memory_tracker's, with the tracer outside
    memtrace.open("x.mtr")       blocks, series and tables of a recording as NumPy and pandas; a picture of it in a notebook
    %load_ext memtrace           in IPython: %%memtrace records a cell

Nothing but the standard library is needed; torch, numpy, pandas and matplotlib are used where they are.
"""
from ._recording import Recording, Table, open
from ._regions import annotate, step
from ._tool import Error, Tracer
from ._tracker import MemoryTracker



def load_ipython_extension(shell):
    """What %load_ext memtrace calls."""
    from . import _notebook
    _notebook.load(shell)


__all__ = ["Error", "MemoryTracker", "Recording", "Table", "Tracer", "annotate", "open", "step"]
__version__ = "0.2.0"
