# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""docs/verdict.md: what tests plant, and the first line of the verdict on it, as memtrace said it.

A test that plants something calls planted_page.first(). Then the page's row must have the same words; numbers differ from run to run.
`python3 tests/e2e/test_verdict.py` runs these tests, and writes the page.
"""
import re

import mt

DOC = mt.ROOT / "docs/verdict.md"
HEAD = """# What memtrace says first

One thing is planted in each of these jobs; the line is the first one of its verdict, with its kind ([reports](report.md#the-verdict)) and what it
proposes. They are real jobs that `tests/e2e/run verdict leaks.clean recompiles.gives_up` runs, and `tests/e2e/run --slow gpu_report.verdict` (PyTorch's
CUDA allocator over a stub of the driver), as memtrace printed it in the run that made this page: `python3 tests/e2e/test_verdict.py`. Each run of a test
holds its row to the words of now; numbers are those of one machine.

| planted | kind | memtrace says first | and proposes |
|---|---|---|---|
"""
PLANTED = {
    "clean": "nothing: five steps grow, then none does",
    "leak": "a list keeps the loss of each step, and with it the step's graph",
    "memory_of_no_tensor": "a list gets a bytearray of 1 MiB in each step",
    "memory_in_no_tensor": "ten arrays of NumPy of 96 MiB each, beside a small model",
    "loading": "a job that has made no step: modules and bytearrays are made for twelve seconds",
    "activations": "a transformer: most of the peak is what forward keeps for backward",
    "state": "a wide embedding with Adam, and hardly any activations",
    "spike": "one batch is 64 times as large as the others",
    "rank": "one of four ranks has 4 MiB more than the others",
    "workers": "two DataLoader workers write to all of a dataset that they share with their parent",
    "growing_workers": "two DataLoader workers read a list of Python objects that they share with their parent",
    "holes": "600 MiB of small tensors, of which all but every 16th are freed before the first step",
    "gives_up": "a compiled module has an integer that changes in each step",
    "pieces": "memory of a GPU is free in pieces between blocks that live",
    "refused": "a GPU refuses memory, though enough is free in pieces",
    "reserved": "200 MiB that a GPU's allocator reserved and nobody uses",
    "nothing": "a program without tensors",
}
said = None  # {name: its row}, while the page is made


def words(cell):
    """Where a sentence begins, without numbers, and without the operator, which is one of several."""
    text = re.sub(r"[\d.]+(?: (?:[KMGT]i)?B\b| [nmµ]?s\b)?", "N", re.split(r"[,;:] ", cell)[0])
    return re.sub(r"aten::\w+|\S+Backward\d*", "OP", text)


def row_of(name, line):
    cells = [PLANTED[name], f"`{line['kind']}`, {line['severity']}", line["text"], line["next"].removesuffix(line["command"])]
    cells = [re.sub(r"\S*/(tests/e2e|mt-e2e-[^/\s]*)/(?:jobs/)?", "", c).replace("|", "\\|") for c in cells]
    command = re.sub(r"\S*/mt-e2e-[^/\s]*/", "", line["command"])
    return "| " + " | ".join(cells) + (f"`{command}`" if command else "") + " |"


def cells_of(row):
    return [c.strip() for c in re.split(r"(?<!\\)\|", row)[1:-1]]


def first(name, lines):
    """`lines`: a verdict on what is planted under this name."""
    row = row_of(name, lines[0])
    if said is not None:
        said[name] = row
        return
    has = [cells for cells in map(cells_of, re.findall(r"(?m)^\|.*\|$", DOC.read_text())) if cells[0] == PLANTED[name]]
    mt.check(len(has) == 1, f"docs/verdict.md has {len(has)} rows of {name} (python3 tests/e2e/test_verdict.py writes it)")
    mt.check(list(map(words, has[0])) == list(map(words, cells_of(row))), f"docs/verdict.md says {has[0]}, memtrace {row}")


def write(tests):
    """Runs them, and writes the page."""
    global said
    said = {}
    for test in tests:
        print(test.__module__, test.__name__, flush=True)
        test()
    mt.check(said.keys() == PLANTED.keys(), f"not planted: {PLANTED.keys() - said.keys()}")
    DOC.write_text(HEAD + "".join(said[name] + "\n" for name in PLANTED))
