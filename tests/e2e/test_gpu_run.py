# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""tests/gpu/run, as far as it goes without a GPU: arguments, comparing, and a dry run on the CPU."""
import importlib.machinery
import importlib.util
import json
import subprocess

import mt
from test_truth import equal

SLOW = {"dry_run"}

RUN = mt.ROOT / "tests" / "gpu" / "run"


def module():
    loader = importlib.machinery.SourceFileLoader("gpu_run", str(RUN))
    spec = importlib.util.spec_from_loader("gpu_run", loader)
    found = importlib.util.module_from_spec(spec)
    loader.exec_module(found)
    return found


TRUTH = {"device": "cuda:0", "stats": {"allocated_bytes.all.current": 700, "reserved_bytes.all.current": 2000,
                                       "active_bytes.all.current": 750, "inactive_split_bytes.all.current": 300, "num_ooms": 2},
         "snapshot": {"total": 2000, "allocated": 700, "inactive": 300, "private": 0}, "mem_get_info": {"used": 5000 << 20, "total": 8000 << 20}}


def report_of(**segments):
    return {"devices": {"cuda:0": {"ooms": 2, "live": 700, "segments": {"allocated": 700, "reserved": 2000, "active": 750, "inactive": 300, "private_pools": [], **segments},
                                   "nvml": {"used": 5000 << 20}}}}


def test_comparing():
    gpu = module()

    def verdict(report, lost=(), attached_at=None):
        return gpu.verdict([{"mark": "m", "rows": gpu.compare(report, TRUTH, attached_at), "lost": lost}])

    equal("all equal", verdict(report_of()), (11, 0))
    equal("a pool", verdict(report_of(private_pools=[{"reserved": 3}])), (11, 1))
    equal("a byte too many", verdict(report_of(allocated=701)), (11, 2))
    equal("a loss", verdict(report_of(), {"ring": 1}), (11, 1))
    equal("inactive bytes", verdict(report_of(inactive=299)), (11, 2))
    equal("inactive bytes, segments from before", verdict(report_of(inactive=299, reserved_before=4)), (11, 0))
    equal("inactive bytes of expandable segments", verdict(report_of(inactive=299, backend="expandable segments")), (10, 1))
    equal("active bytes", verdict(report_of(active=749)), (11, 1))
    equal("active bytes, none late at the attach", verdict(report_of(active=749), attached_at={"stats": {"num_ooms": 0}}), (11, 1))
    equal("active bytes, some late at the attach", verdict(report_of(active=749), attached_at={**TRUTH, "stats": {**TRUTH["stats"], "num_ooms": 0}}), (11, 0))
    equal("refused before the attach", verdict(report_of(), attached_at=TRUTH), (11, 1))
    equal("no such device", verdict({"devices": {}}), (0, 0))
    far = report_of()
    far["devices"]["cuda:0"]["nvml"]["used"] = 1
    equal("NVML is advice", verdict(far), (11, 0))
    text = gpu.table("eager", [{"mark": "m", "rows": gpu.compare(report_of(reserved=1), TRUTH), "lost": {}}])
    mt.check(text.count("WRONG") == 2 and "eager" in text, text)


def test_places():
    gpu = module()
    truth = {"snapshot": {"blocks": [[0x10, 5], [0x20, 5]], "places": [[0x10, 100]]}}

    def verdict(blocks, places=((0x10, 100),), attached_at=None):
        return gpu.verdict([{"mark": "m", "rows": gpu.compare_places({"blocks": blocks, "places": places}, truth, attached_at), "lost": {}}])

    both = [[0x10, 5], [0x20, 5]]
    equal("all there", verdict(both), (3, 0))
    equal("one is missing", verdict(both[:1]), (3, 1))
    equal("one is from before the attach", verdict(both[:1], attached_at={}), (3, 0))
    equal("another size", verdict([[0x10, 5], [0x20, 6]]), (3, 2))
    equal("one that is none, after an attach", verdict([*both, [0x30, 1]], attached_at={}), (3, 1))
    equal("segments are about", verdict(both, places=()), (3, 0))
    equal("no snapshot", gpu.compare_places({"blocks": [[1, 1]]}, {}), [])


def test_arguments():
    for args, code in ((["--help"], 0), (["nonsense"], 2), (["--no-such"], 2)):
        done = subprocess.run([RUN, *args], capture_output=True, text=True, check=False)
        equal(f"{args}: exit", done.returncode, code)


def test_says_what_it_skips():
    done = subprocess.run([RUN, "--python", mt.PYTHON, "--memtrace", mt.MEMTRACE], capture_output=True, text=True, check=False)
    if "0 skipped" in done.stdout:
        raise mt.Skip("there is a GPU here: tests/gpu/run")
    equal("exit", done.returncode, 77)
    mt.check(done.stdout.count("skipped ") == len(module().SCENARIOS) and "CUDA" in done.stdout, done.stdout)


def test_dry_run():
    with mt.scratch() as tmp:
        out = tmp / "out.json"
        done = subprocess.run([RUN, "--dry-run", "--python", mt.PYTHON, "--memtrace", mt.MEMTRACE, "--json", out],
                              capture_output=True, text=True, check=False)
        mt.check(done.returncode == 0, done.stdout + done.stderr)
        said = json.loads(out.read_text())
        equal("wrong", said["wrong"], 0)
        row = said["scenarios"]["eager"][0]["rows"][0]
        mt.check(row["truth"] > 20 << 20 and row["memtrace"] == row["truth"], f"{row}")
        mt.note(f"dry run: {row['truth'] / (1 << 20):.2f} MiB live in the job, equal to the byte")
