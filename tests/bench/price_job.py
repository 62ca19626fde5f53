# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""A job of tests/libraries that trains until SIGTERM, and then writes when each of its steps began (CLOCK_MONOTONIC, ns, 8 bytes each).

    price_job.py causal_lm FILE
"""
import array
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "libraries" / "jobs"))
import train  # noqa: E402

WARM_STEPS = 5


class Stamps:
    """What train.py asks a Word for, of which nothing but the steps is wanted."""

    def __init__(self):
        self.times, self.is_over = array.array("Q"), False
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "is_over", True))

    def of(self, *_, **__):
        pass

    def at(self, *_, **__):
        pass

    def goes_on(self):
        self.times.append(time.monotonic_ns())
        if len(self.times) == WARM_STEPS:
            print(f"ready {os.getpid()}", flush=True)
        return not self.is_over


def main():
    train.torch.set_num_threads(1)
    train.torch.manual_seed(0)
    stamps, kept = Stamps(), train.torchvision_for_the_cpu()
    train.JOBS[sys.argv[1]](stamps)
    del kept
    pathlib.Path(sys.argv[2]).write_bytes(stamps.times.tobytes())


if __name__ == "__main__":
    main()
