# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What the fault tests share: a job that trains beside the fault, and what must be true after it.

    with faults.training() as job:      a real job (jobs/train.py), in rounds of 200 steps from the same seed
        …                               the fault
                                        at the end: every round was bit-equal to an untraced run's, and nothing is left behind

Truth comes from outside: the job's text in memory against its files, the kernel's own list of links and programs, /proc.
"""
import atexit
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

import mt

HERE = mt.ROOT / "tests" / "faults"
BIN = mt.BUILD / "faults"
SEED = int(os.environ.get("MT_SEED", time.time_ns() % 1_000_000))


def own_program():
    """A copy of the program for the tests of this file alone: by it they tell their memtraces from those of the other lane."""
    BIN.mkdir(parents=True, exist_ok=True)
    path = shutil.copy2(mt.MEMTRACE, BIN / f"memtrace.{os.getpid()}")
    atexit.register(path.unlink)
    return str(path)


mt.MEMTRACE = own_program()


def chance(what):
    """A source of chance of its own for each test; MT_SEED repeats it."""
    mt.note(f"MT_SEED={SEED}")
    return random.Random(f"{SEED} {what}")


# --- what is left behind -----------------------------------------------------------------------------------

def descendants(pid):
    """The process and all below it."""
    found = [pid]
    for p in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{p}/task"):
                found += map(int, pathlib.Path(f"/proc/{p}/task/{task}/children").read_text().split())
    return found


def changed_text(pid):
    """["library+0x…", …]: each byte of code in memory that is not what its file has. The kernel makes a page of code the process's own
    when it sets a probe, so that only mappings with pages of their own are read."""
    found, row = [], None
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            words = line.split(maxsplit=5)
            if "-" in words[0] and not words[0].endswith(":"):
                row = words
            elif words[0] == "Anonymous:" and words[1] != "0" and "x" in row[1] and len(row) == 6 and row[5].startswith("/"):
                found += differences(pid, row)
    return found


def differences(pid, row):
    begin, end = (int(x, 16) for x in row[0].split("-"))
    path, offset = row[5].strip(), int(row[2], 16)
    found = []
    with open(path, "rb") as file, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for at in range(begin, end, 1 << 20):
            n = min(1 << 20, end - at)
            file.seek(offset + at - begin)
            mem.seek(at)
            there, wanted = mem.read(n), file.read(n)
            if there[:len(wanted)] != wanted:
                found += (f"{os.path.basename(path)}+{offset + at - begin + i:#x}"
                          for i, (a, b) in enumerate(zip(there, wanted)) if a != b)
    return found


def bpf_ids(kind):
    done = subprocess.run(["bpftool", "-j", kind, "show"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise mt.Skip("needs bpftool")
    return {row["id"] for row in json.loads(done.stdout or "[]")}


def bpf_held(kind):
    """Ids that some process holds by a descriptor."""
    held = set()
    for info in pathlib.Path("/proc").glob("[0-9]*/fdinfo/*"):
        with contextlib.suppress(OSError):
            held |= {int(line.split()[1]) for line in info.read_text().splitlines() if line.startswith(f"{kind}_id:")}
    return held


def memtraces():
    """Processes that run our binary."""
    ours, found = os.path.realpath(mt.MEMTRACE), set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe") == ours:
                found.add(int(pid))
    return found


def uprobe_events():
    for path in ("/sys/kernel/tracing/uprobe_events", "/sys/kernel/debug/tracing/uprobe_events"):
        with contextlib.suppress(OSError):
            return pathlib.Path(path).read_text()
    return ""


def refused_by_kernel(since):
    """How often the kernel's log says, since then (CLOCK_MONOTONIC), that a probe could not be taken away."""
    lines = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout.splitlines()
    return sum("leaking uprobe" in line and float(line[1:line.index("]")]) > since for line in lines)


class Machine:
    """What of memtrace is on the machine, to compare with later."""

    def __init__(self):
        self.ids = {kind: bpf_ids(kind) for kind in ("link", "prog")}
        self.memtraces = memtraces()
        self.pins = set(os.listdir("/sys/fs/bpf")) if os.path.isdir("/sys/fs/bpf") else set()
        self.uprobe_events = uprobe_events()

    def left(self):
        """What is there now and was not: {what: which}, empty when all is gone. Others may trace meanwhile: what a process
        that lives holds is not left behind, and our own processes are in the list themselves."""
        now = Machine()
        what = {"processes": now.memtraces - self.memtraces, "pins": now.pins - self.pins}
        for kind, ids in now.ids.items():
            what[kind] = ids - self.ids[kind] and ids - self.ids[kind] - bpf_held(kind)
        if now.uprobe_events != self.uprobe_events:
            what["uprobe_events"] = now.uprobe_events
        return {k: v for k, v in what.items() if v}


def check_nothing_left(before, pids):
    """Closing takes the kernel a grace period a link, hence the wait: 1 to 2 s as a rule, 13 were seen under a load of eleven."""
    seen = {}

    def gone():
        seen.clear()
        seen.update(before.left())
        for pid in pids:
            if os.path.exists(f"/proc/{pid}") and (text := changed_text(pid)):
                seen[f"probes in {pid}"] = text
        return not seen
    try:
        mt.wait_until(gone, "everything to go", 30, 0.1)
    except AssertionError:
        raise AssertionError(f"left behind: {seen}") from None


# --- the job beside it -------------------------------------------------------------------------------------

def environment():
    return dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1",
                TORCHINDUCTOR_CACHE_DIR=str(BIN / "inductor"), MT_CUSTOM_OP=str(BIN / "custom_op.so"))


class Job(mt.Proc):
    """A job in rounds; its words are the losses and the weights of each."""

    def __init__(self, model, **kw):
        program = [BIN / model] if model == "usdt_train" else [mt.PYTHON, HERE / "jobs" / "train.py", model]
        super().__init__(program, env=environment(), **kw)
        try:
            self.line("ready ", 120)
        except BaseException:
            self.close()
            raise

    def rounds(self):
        return [tuple(text.split()[2:]) for text in list(self.out) if text.startswith("round ")]

    def more_rounds(self, count=1, timeout=60):
        """Waits until so many more have ended: they were not all begun now."""
        wanted = len(self.rounds()) + count
        mt.wait_until(lambda: len(self.rounds()) >= wanted or not self.alive(), f"{count} rounds of {self.argv}", timeout)
        mt.check(self.alive(), f"the job ended with {self.popen.returncode}: " + "\n".join(self.err[-20:]))

    def end(self):
        """Its rounds; it must end well."""
        self.tell("stop")
        code = self.wait(60)
        mt.check(code == 0, f"the job ended with {code}: " + "\n".join(self.err[-20:]))
        return self.rounds()


_untraced = {}


def untraced(model):
    """The losses and weights that nobody's looking gives: two runs must agree, else nothing could be said of a third. What they said
    is for all lanes."""
    if model not in _untraced:
        with mt.of_this_run(f"untraced.{model}") as f:
            kept = f.read()
            if not kept:
                kept = json.dumps(untraced_twice(model))
                f.write(kept)
            _untraced[model] = tuple(json.loads(kept))
    return _untraced[model]


def untraced_twice(model):
    said = set()
    for _ in range(2):
        with Job(model) as job:
            job.more_rounds()
            said |= set(job.end())
    mt.check(len(said) == 1, f"{model} is not the same twice, untraced: {said}")
    return said.pop()


def check_rounds(model, rounds):
    wanted = untraced(model)
    wrong = [i + 1 for i, said in enumerate(rounds) if said != wanted]
    mt.check(not wrong, f"{model}: {len(wrong)} of {len(rounds)} rounds came out otherwise than untraced, first round {wrong[:1]}: "
             f"{rounds[wrong[0] - 1] if wrong else ''}, wanted {wanted}")


@contextlib.contextmanager
def training(model="mlp"):
    """The module's text says what holds at the end."""
    mt.need_root()
    untraced(model)
    before = Machine()
    with Job(model) as job:
        yield job
        job.more_rounds()
        check_nothing_left(before, descendants(job.pid))
        rounds = job.end()
    check_rounds(model, rounds)


# --- memtrace ----------------------------------------------------------------------------------------------

@contextlib.contextmanager
def tracing(pid, path, *args, command="record", attached=True, **kw):
    """A memtrace on this process, attached; its temporary files would be in PATH.tmp, and that is looked at in the end."""
    temporary = pathlib.Path(f"{path}.tmp")
    temporary.mkdir(exist_ok=True)
    argv = [command, *(["-p", str(pid)] if pid else []), *(["-o", str(path)] if command == "record" else []), *map(str, args)]
    with mt.start(*argv, env=dict(os.environ, TMPDIR=str(temporary)), **kw) as tracer:
        if attached:
            wait_attached(tracer, [str(pid), *(b for a, b in zip(argv, argv[1:]) if a == "-p")])
        yield tracer
    mt.check(not list(temporary.iterdir()), f"temporary files are left: {list(temporary.iterdir())}")


def what_memtraces_do():
    """Those that are there, ending ones, too: "6408 S parent 6400 wchan do_epoll_wait has process-77: memtrace serve -a"; who keeps another
    out is seen."""
    seen = []
    for proc in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            comm, state = (proc / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            if not comm.startswith("memtrace"):
                continue
            state, parent = state.split()[:2]
            links = [os.readlink(fd) for fd in (proc / "fd").iterdir()] if state != "Z" else []
            held = [pathlib.Path(link).name for link in links if "/process-" in link]
            argv = " ".join((proc / "cmdline").read_text().split("\0"))
            seen.append(f"{proc.name} {state} parent {parent} wchan {(proc / 'wchan').read_text()} has {' '.join(held) or 'no lock'}: {argv}")
    return "\n".join(seen)


def wait_attached(tracer, pids, timeout=30):
    """Its word is enough here: what it must not do is looked for in the job's text."""
    def look():
        if not tracer.alive():
            tracer.wait()
            raise AssertionError(f"{tracer.argv} ended with {tracer.popen.returncode}: " + "\n".join(tracer.err) + "\n" + what_memtraces_do())
        said = list(tracer.err)
        return all(any(text.startswith(f"attached to {pid} ") for text in said) for pid in pids)
    mt.wait_until(look, f"memtrace to attach to {', '.join(map(str, pids))}", timeout)


def explained(tracer, codes=(0, 3), timeout=30):
    """How memtrace ended: by itself, with one of these codes, and with a message if it is not 0 or 3."""
    code = tracer.wait(timeout)
    mt.check(code in codes, f"{tracer.argv} ended with {code}: " + "\n".join(tracer.err[-20:]))
    mt.check(code in (0, 3) or any(text.startswith("memtrace: ") for text in tracer.err), f"ended with {code} and no word: {tracer.err}")
    return code


def ended(tracer, codes=(0, 3)):
    tracer.signal(2)
    return explained(tracer, codes)


@contextlib.contextmanager
def crowd(*args, **kw):
    """A target of targets/, after it said "ready"; its lines are in .out."""
    with mt.Proc([BIN / args[0], *args[1:]], **kw) as proc:
        proc.line("ready ")
        yield proc


def children_tell(target, tracer):
    """tests/e2e/targets/truth_fork.c after its "go": its children tell what they allocate, once they are followed. The truth."""
    children = list(map(int, target.line("forked ").split()[1:]))
    wait_attached(tracer, children, 20)
    target.tell("go")
    return json.loads(target.line("{", 20))


def check_children(rep, truth):
    wanted = {name: op["alloc_count"] for name, op in truth["ops"].items()}
    seen = {op["name"]: op["alloc_count"] for op in rep["ops"]}
    missing = sum(n - seen.get(name, 0) for name, n in wanted.items())
    mt.check(0 <= missing <= rep["lost"]["ring"], f"told {wanted}, seen { {k: seen.get(k) for k in wanted} }, lost {rep['lost']}")
