# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The loop that the training jobs in this folder share.

A job is a file with build(args) -> step, where step() does one training step and returns the loss
tensor. The jobs are ordinary PyTorch programs: nothing here knows that somebody may be watching.

What a job says on stdout, a line each:
    ready PID                                  after the warm-up, before the measured part
    step 1234  345.1 steps/s  loss 0.123       once a second
    rests                                      after SIGUSR1, between two steps: until the next signal
    result steps=N seconds=S rate=R            at the end: the measured part alone
--stamps FILE also writes CLOCK_MONOTONIC in ns at the end of each measured step, 8 bytes each.
"""
import argparse
import array
import os
import signal
import sys
import time


def parser(description):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--width", type=int, default=64, help="width of the layers (default 64)")
    p.add_argument("--batch", type=int, default=32, help="samples a step (default 32)")
    p.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    p.add_argument("--workers", type=int, default=0, help="DataLoader worker processes (default 0)")
    p.add_argument("--steps", type=int, default=0, help="stop after so many measured steps")
    p.add_argument("--seconds", type=float, default=0, help="stop after so many measured seconds")
    p.add_argument("--rest", type=float, default=0, help="milliseconds between two steps (default 0)")
    p.add_argument("--warmup", type=float, default=0.5, help="seconds before measuring (default 0.5)")
    p.add_argument("--stamps", metavar="FILE", help="write the time of every measured step here")
    p.add_argument("--quiet", action="store_true", help="no line each second")
    return p


def say(text):
    print(text, flush=True)


def run(step, args):
    """Steps until --steps, --seconds or SIGTERM, whichever comes first."""
    stopped, resting = [], []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    signal.signal(signal.SIGUSR1, lambda *_: resting.append(1))

    end = time.monotonic() + args.warmup
    while time.monotonic() < end:
        step()
    say(f"ready {os.getpid()}")

    stamps = array.array("Q")
    begin = last = now = time.monotonic()
    done = last_done = 0
    while not stopped:
        if resting:
            say("rests")
            signal.pause()
            resting.clear()
            continue
        loss = step()
        done += 1
        if args.rest:
            time.sleep(args.rest / 1000)
        now = time.monotonic()
        if args.stamps:
            stamps.append(time.monotonic_ns())
        if now - last >= 1.0:
            if not args.quiet:
                say(f"step {done}  {(done - last_done) / (now - last):.1f} steps/s  loss {float(loss.detach()):.3f}")
            last, last_done = now, done
        if args.steps and done >= args.steps:
            break
        if args.seconds and now - begin >= args.seconds:
            break
    seconds = max(now - begin, 1e-9)
    if args.stamps:
        with open(args.stamps, "wb") as f:
            stamps.tofile(f)
    say(f"result steps={done} seconds={seconds:.3f} rate={done / seconds:.2f}")


def main(build, description, more=None):
    """more: a function that adds the job's own options to its parser."""
    options = parser(description)
    if more:
        more(options)
    args = options.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    try:
        run(build(args), args)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os._exit(1)
