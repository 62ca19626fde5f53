# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A pytest plug-in: with --memtrace each test marked max_peak is recorded, and fails where its peak is above the limit.

    @pytest.mark.max_peak("1GiB")                              # of the GPU with the highest peak, else the CPU
    @pytest.mark.max_peak("200M", device="cpu", category="activation")
    def test_step(): ...

    pytest --memtrace [--memtrace-dir FOLDER]                  # FOLDER keeps the recordings, for memtrace report

Without --memtrace a mark does nothing. Needs pytest 8, and the rights that memtrace needs (docs/python.md). What a test did not
allocate and does not use is not counted: models of other tests are not its own.
"""
import json
import os
import re
import warnings

import pytest

from ._tool import Error, Tracer, run

OK, LOST, ABOVE = 0, 3, 5
PEAKS = pytest.StashKey[list]()


def pytest_addoption(parser):
    group = parser.getgroup("memtrace", "memory of PyTorch")
    group.addoption("--memtrace", action="store_true", help="record each test marked max_peak, and fail it where its peak is above")
    group.addoption("--memtrace-dir", metavar="FOLDER", help="keep the recordings there: TEST.mtr")


def pytest_configure(config):
    config.addinivalue_line("markers", "max_peak(size, device=None, category=None): the most memory that the test may hold at a time, "
                                       "with --memtrace: 1GiB, 512M, or bytes")
    config.stash[PEAKS] = []


def _output(item):
    folder = item.config.getoption("--memtrace-dir")
    if not folder:
        return None
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, re.sub(r"[^A-Za-z0-9_.-]+", "_", item.nodeid) + ".mtr")
    if os.path.exists(path):
        os.unlink(path)
    return path


def _limits(mark):
    """[options of memtrace check] of one mark."""
    if len(mark.args) != 1 or set(mark.kwargs) - {"device", "category"}:
        raise Error("max_peak takes a size, device=… and category=…: @pytest.mark.max_peak('1GiB')")
    more = [[f"--{key}", str(value)] for key, value in mark.kwargs.items() if value is not None]
    return ["--max-peak", str(mark.args[0]), *sum(more, [])]


def _check(item, path, mark):
    """What is wrong with the recording by one mark; "" nothing."""
    options = _limits(mark)
    told = json.loads(run("check", path, *options, "--json", codes=(OK, LOST, ABOVE)))
    item.config.stash[PEAKS].append((item.nodeid, told["bytes"], told["max_peak"], told["ok"]))
    if told["lost"]:
        warnings.warn(f"memtrace lost {told['lost']} events of {item.nodeid}: its peak may have been higher", stacklevel=2)
    return "" if told["ok"] else run("check", path, *options, codes=(OK, LOST, ABOVE)).decode(errors="replace").strip()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    marks = list(item.iter_markers("max_peak")) if item.config.getoption("--memtrace") else []
    if not marks:
        return (yield)
    tracer = Tracer(output=_output(item))
    try:
        result = yield
        try:
            path = tracer.stop()
            wrong = [text for text in (_check(item, path, m) for m in marks) if text]
        except Error as error:
            pytest.fail(str(error), pytrace=False)
    finally:
        tracer.close()
    if wrong:
        kept = f"\nmemtrace report {path}" if item.config.getoption("--memtrace-dir") else "\n--memtrace-dir FOLDER keeps the recording"
        pytest.fail("\n".join(wrong) + kept, pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter, config):
    if not config.stash[PEAKS]:
        return
    terminalreporter.section("memtrace: peaks")
    for name, peak, limit, is_ok in config.stash[PEAKS]:
        terminalreporter.write_line(f"{peak / 2**20:10.2f} MiB of {limit / 2**20:.2f} MiB  {'ok   ' if is_ok else 'ABOVE'} {name}")
