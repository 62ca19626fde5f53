# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What memtrace promises, with the torch of MT_PYTHON: whichever that is (README.md). tests/versions/check runs it for each.

What was measured goes into the file that MT_VERSIONS_OUT names, as JSON, beside what is there already: the table in docs/versions.md
is made of these.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import mt

sys.path.insert(0, str(mt.ROOT / "tests" / "libraries"))
import said  # noqa: E402
import test_gpu_report as gpu_report  # noqa: E402
import test_gpu_torch as gpu_torch  # noqa: E402
import test_libraries  # noqa: E402
import test_modules as modules  # noqa: E402
import test_names  # noqa: E402
import test_versions  # noqa: E402

JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "plain"
# Debian's linker has merged 6 schemas into others, and its library has no local symbols that could tell which.
UNREAD = {"1.13": 6}
# A schema of 2.4 has strings of the old ABI: which operator a boxed call is of is not read, and a note says so.
NOT_SET = {"2.4": 1}
# 1.13 has no exported function that is given the name of a region: the steps that Adam counts are not told, nor when it
# makes one (docs/versions.md).
KNOWN = {"1.13": {("OPTIMIZER_STATE.step", "recall"): 0}}
NO_PHASE = {"1.13": ("optimizer",)}

OUT = pathlib.Path(os.environ.get("MT_VERSIONS_OUT", "/dev/null"))
figures = json.loads(OUT.read_text()) if OUT.is_file() else {}


def torch_version():
    if "torch" not in figures:
        done = subprocess.run([mt.PYTHON, "-W", "ignore", "-c", "import sys, torch; print(torch.__version__, '%d.%d.%d' % sys.version_info[:3])"],
                              capture_output=True, text=True, check=False)
        mt.check(done.returncode == 0, f"no torch in {mt.PYTHON}: {done.stderr[-500:]}")
        figures["torch"], figures["python"] = done.stdout.split()
    return ".".join(figures["torch"].split(".")[:2])


def test_plan():
    """Every operator is found, and its arguments are understood."""
    version = torch_version()
    with mt.job("mlp") as job:  # a shared one would train beside all that follows
        plan = json.loads(mt.ok(mt.memtrace("plan", "-p", job.pid, "--json")).stdout)["processes"][0]
    sources = {s["source"]: s for s in plan["sources"]}
    figures.update(layout=plan["flow"]["layout"], operators=sources["flow"]["found"], unread=plan["flow"]["unread"], notes=plan["notes"])
    mt.note(f"torch {figures['torch']}: {figures['operators']} places, {figures['unread']} signatures not understood, layout of "
            f"{figures['layout']}; notes: {plan['notes']}")
    mt.check(figures["layout"], "no layout fits")
    mt.check(sources["flow"]["found"] == sources["flow"]["wanted"] - NOT_SET.get(version, 0) > 3000, f"{sources['flow']}")
    mt.check(figures["unread"] == UNREAD.get(version, 0), f"{figures['unread']} operators have a signature that is not understood")
    mt.check(bool(plan["notes"]) == (version in UNREAD or version in NOT_SET), f"{plan['notes']}")


# --- categories: the job's own word ---------------------------------------------------------------------------

def word(model):
    version = torch_version()
    res, extended, moments, rep = test_libraries.watched(model, JOB)
    mt.note(test_libraries.line(model, res, extended, mt.lost(rep) - rep["lost"]["reuse"]))
    low = figures.setdefault("word", {})
    for what in said.CLASSES:
        for way in ("recall", "precision"):
            low[f"{what} {way}"] = min(low.get(f"{what} {way}", 1), res.low[what, "final", way])
    low["live"] = min(low.get("live", 1), res.worst("live"))
    low.setdefault("models", []).append(model)
    test_libraries.hold(res, extended, moments, rep, known=KNOWN.get(version))


def test_word_mlp():
    word("mlp")


def test_word_transformer():
    word("transformer")


def test_word_conv():
    word("conv")


def test_word_lstm():
    word("lstm")


# --- arguments, allocations, labels of a run from its start on ----------------------------------------------------

def arguments(model):
    args = test_versions.compare(mt.PYTHON, model)
    figures["arguments"] = figures.get("arguments", 0) + args


def test_arguments_mlp():
    arguments("mlp")


def test_arguments_transformer():
    arguments("transformer")


# --- names and modules ----------------------------------------------------------------------------------------

def names(model):
    _, share = test_names.named(model)
    figures["names"] = min(figures.get("names", 1), share)


def test_names_transformer():
    names("transformer")


def test_names_conv():
    names("conv")


def test_names_tied():
    names("tied")


def test_names_gan():
    names("gan")


def test_modules():
    figures["modules"] = modules.oracle(NO_PHASE.get(torch_version(), ()))


# --- the CUDA allocator, over a stub of the runtime ---------------------------------------------------------------

def over_the_stub(tests):
    if "MT_GPU_WHEELS" not in os.environ:
        raise mt.Skip("MT_GPU_WHEELS names no folder with this torch's CUDA allocator")
    for test in tests:
        test()
        figures["gpu"] = figures.get("gpu", 0) + 1


def test_gpu_events():
    over_the_stub((gpu_torch.test_plain, gpu_torch.test_expandable_segments, gpu_torch.test_cuda_malloc_async,
                   gpu_torch.test_no_caching))


def test_gpu_report():
    over_the_stub((gpu_report.test_caching, gpu_report.test_expandable_segments, gpu_report.test_cuda_malloc_async,
                   gpu_report.test_no_caching))


def close_file():
    """The runner's last call."""
    if "MT_GPU_WHEELS" in os.environ:  # made of a torch that goes
        shutil.rmtree(mt.BUILD / "tests" / "gpu_stub" / gpu_torch.OVER, ignore_errors=True)
    if "torch" in figures and "MT_VERSIONS_OUT" in os.environ:
        OUT.write_text(json.dumps(figures))
