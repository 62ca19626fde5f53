# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Device "cuda" for the CPU build of PyTorch: torch_backend.cpp, to be imported before torch.

The environment says where the library is (MT_STUB_BACKEND) and that the stub's memory may be touched (MT_STUB_TOUCH=1).
"""
import ctypes
import importlib.util
import os


def _load():
    # before torch's own initialization asks whether there is a CUDA
    lib = os.path.join(importlib.util.find_spec("torch").submodule_search_locations[0], "lib")
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(os.path.join(lib, name), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(os.environ["MT_STUB_BACKEND"], mode=ctypes.RTLD_GLOBAL)


backend = _load()

import torch  # noqa: E402

backend.backend_init()
torch.cuda._lazy_init = lambda: None  # which would say that this build has no CUDA


def log(path):
    """Every block from now on, into this file."""
    if backend.backend_log(str(path).encode()):
        raise OSError(path)


def stats():
    """The allocator's own words on device 0: {allocated, reserved, requested}."""
    got = (ctypes.c_int64 * 3)()
    backend.backend_stats(got)
    return dict(zip(("allocated", "reserved", "requested"), got))


def stream(side):
    """This thread goes on in the default stream (0) or in another (1)."""
    backend.backend_stream(int(side))
