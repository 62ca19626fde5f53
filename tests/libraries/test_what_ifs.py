# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What if the batch were another one, where nothing was fitted: of two recordings of a library's job, attached in mid-run, a third
batch is asked for, and the job really runs with it, three times as large (README.md)."""
import contextlib
import json
import os
import pathlib

import mt

PYTHON = mt.BUILD / "venv-libraries" / "bin" / "python"
JOB = pathlib.Path(__file__).resolve().parent / "jobs" / "batches.py"
BATCHES = (4, 8, 24)
STEPS = 8  # after the attach
SHARE = 0.02  # of the truth


def record(job, batch, path):
    """The peak of a job of that batch while it was watched."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    with contextlib.ExitStack() as stack:
        proc = stack.enter_context(mt.Proc([PYTHON, JOB, job, batch], env=env))
        proc.line("ready ", 120)
        tracer = stack.enter_context(mt.start("record", "-p", str(proc.pid), "-o", str(path)))
        mt.wait_attached(tracer, proc.pid, mt.OP, 60)
        first = mt.steps_of(proc)
        mt.wait_until(lambda: mt.steps_of(proc) > first + STEPS or not proc.alive(), "steps", 60)
        tracer.signal(2)
        mt.check(tracer.wait(60) in (0, 3), f"{tracer.err}")
    return mt.report(path, (0, 3))["devices"]["cpu"]["peak"]


def estimate(*args):
    return json.loads(mt.ok(mt.memtrace("estimate", "--json", *args), (0, 3)).stdout)


def come_true(job, share=SHARE):
    mt.check(PYTHON.exists(), "no libraries: tools/make-venv libraries")
    small, large, asked = BATCHES
    with mt.scratch() as tmp:
        a, b, c = paths = [tmp / f"{job}-{batch}.mtr" for batch in BATCHES]
        _, middle, ran = (record(job, batch, path) for batch, path in zip(BATCHES, paths))
        both = estimate(a, b, "--batches", f"{small},{large}", "--batch", asked)
        one = estimate(b, "--batches", large, "--batch", asked)
        back = estimate(a, c, "--batches", f"{small},{asked}", "--batch", large)
    for what, said in (("of two", both), ("of one", one)):
        mt.note(f"{job}, {asked} {what}: {said['estimated_peak']} ({said['estimated_peak'] / ran - 1:+.2%}), between "
                f"{said['estimated_low']} and {said['estimated_high']} ({said['estimated_low'] / ran - 1:+.2%}, "
                f"{said['estimated_high'] / ran - 1:+.2%}), truth {ran}")
        mt.check(said["estimated_low"] <= said["estimated_peak"] <= said["estimated_high"], f"{said}")
        mt.check(said["estimated_low"] <= ran <= said["estimated_high"], f"{job} {what}: {ran} is not in what was said: {said}")
    mt.check(abs(both["estimated_peak"] / ran - 1) <= share, f"{job}: {both['estimated_peak']} said, {ran} ran: {both}")
    mt.check(both["estimated_high"] / both["estimated_low"] < 1.25, f"{job}: this says nothing: {both}")
    mt.check(abs(back["estimated_peak"] / middle - 1) <= share, f"{job}: between the two {middle} ran: {back}")


def test_causal_lm():
    come_true("causal_lm")


def test_encoder_decoder():
    come_true("encoder_decoder")


def test_vision_transformer():
    come_true("timm_vit")


def test_convolutions_channels_last():
    come_true("timm_resnet")


def test_speech():
    come_true("speech")


def test_diffusion():
    come_true("diffusers_unet")
