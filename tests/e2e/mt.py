# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""What the end-to-end tests and the benchmark share: jobs, memtrace runs, and a look at the probes.

Whether probes are set is never taken from memtrace's own word: a uprobe replaces an instruction in
the target's text, so the text in /proc/PID/mem is compared with the file it was mapped from.
"""
import contextlib
import fcntl
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
JOBS = ROOT / "tests" / "e2e" / "jobs"
TARGETS = ROOT / "tests" / "e2e" / "targets"
MEMTRACE = os.environ.get("MEMTRACE", str(BUILD / "memtrace"))
# How many times as long as usual everything may take before it counts as hanging: for machines with other work. Nothing that is promised.
PATIENCE = float(os.environ.get("MT_PATIENCE", 1))
# The least that anything has before it counts as hanging: a guard, which a slow machine does not meet. Who waits for less waits no shorter.
GUARD_S = 60
PYTHON = os.environ.get("MT_PYTHON", str(BUILD / "venv" / "bin" / "python"))

# The tests are root for nobody: what sudo's asker gets is what the tests of that say (test_launch.py).
for _name in [n for n in os.environ if n.startswith("SUDO_")]:
    del os.environ[_name]

# Where the jobs of libraries and of inductor have their memory (MT_DEVICE=cuda: tests/gpu/train).
DEVICE = "cuda:0" if os.environ.get("MT_DEVICE") == "cuda" else "cpu"

KEEP = os.environ.get("MT_KEEP")  # a folder: what tests made in theirs is kept there, to look into

NEW = ("libc10.so", "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm")
OP = ("libtorch_cpu.so", "_ZN2at4_ops5addmm4callE")  # the beginning of a name is enough
MALLOC = ("libc.so.6", "malloc\0")


def whole(size):
    """As jobs/word.py has it."""
    return size if DEVICE == "cpu" else (size + 511) // 512 * 512


class Skip(Exception):
    """Raised by a test that cannot run on this machine; says why."""


def note(text):
    """A figure that belongs into the test's output."""
    print(f"     {text}", flush=True)


def check(condition, text):
    if not condition:
        raise AssertionError(text)


PACE_S = 0.065  # what pace() times, on the machine where the promises in seconds were measured


def pace():
    """How many times longer than on that machine a fixed computation takes here, now; 1 where it takes less. CPU time alone."""
    took = []
    for _ in range(3):
        begin = time.process_time()
        x = 0
        for _ in range(1_000_000):
            x += 1
        took.append(time.process_time() - begin)
    return max(1.0, min(took) / PACE_S)


def crowd():
    """How many times longer than its CPU time a computation takes here, now: 1 where it has a CPU for itself."""
    begin, cpu, x = time.monotonic(), time.process_time(), 0
    for _ in range(3_000_000):
        x += 1
    return max(1.0, (time.monotonic() - begin) / (time.process_time() - cpu))


def guard(seconds=0):
    """How long is too long for what usually takes far less than this."""
    return max(seconds, GUARD_S) * PATIENCE


def wait_until(condition, what, timeout=GUARD_S, pause=0.01, seen=lambda: ""):
    """Its value, once it is true; what was `seen` instead is in the error."""
    end = time.monotonic() + guard(timeout)
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {guard(timeout):g} s for {what} {seen()}")
        time.sleep(pause)
    return value


# --- the target's text against its file --------------------------------------------------------

def _find_symbol(path, name):
    """(file offset, bytes there) of the first .dynsym function whose name begins with `name`.

    A name that ends with NUL is whole; linkers store it inside longer ones (malloc in __libc_malloc).
    """
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as elf:
        shoff, = struct.unpack_from("<Q", elf, 0x28)
        shentsize, shnum = struct.unpack_from("<HH", elf, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", elf, shoff + i * shentsize) for i in range(shnum)]
        dynsym = next(s for s in sections if s[1] == 11)
        dynstr = sections[dynsym[6]]
        strings = elf[dynstr[4]:dynstr[4] + dynstr[5]]
        lead = b"" if name.endswith("\0") else b"\0"
        found = {m.start() + len(lead) for m in re.finditer(re.escape(lead + name.encode()), strings)}
        for st_name, _, _, shndx, value, _ in struct.iter_unpack(
                "<IBBHQQ", elf[dynsym[4]:dynsym[4] + dynsym[5]]):
            if st_name in found and shndx:
                s = sections[shndx]
                offset = value - s[3] + s[4]
                return offset, elf[offset:offset + 16]
    raise AssertionError(f"{path} does not define {name}")


_symbols = {}


def probed(pid, where):
    """Whether the first bytes of a function differ from its file. False while the library is not mapped."""
    library, name = where
    with open(f"/proc/{pid}/maps") as f:
        rows = [line.split(maxsplit=5) for line in f]
    for row in rows:
        # Debian's libtorch_cpu.so is libtorch_cpu.so.1.13
        if len(row) == 6 and "x" in row[1] and f"{os.path.basename(row[5].strip())}.".startswith(f"{library}."):
            path = f"/proc/{pid}/root{row[5].strip()}"  # in a container it is another file
            at = os.stat(path)
            key = at.st_dev, at.st_ino, name
            if key not in _symbols:
                _symbols[key] = _find_symbol(path, name)
            offset, expected = _symbols[key]
            begin, end = (int(x, 16) for x in row[0].split("-"))
            addr = begin + offset - int(row[2], 16)
            if not begin <= addr < end:
                continue
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
                mem.seek(addr)
                return mem.read(len(expected)) != expected
    return False


# --- jobs ----------------------------------------------------------------------------------------

class Proc:
    """A process in the background, its lines collected, killed at the latest by close()."""

    def __init__(self, argv, **kw):
        kw.setdefault("stdin", subprocess.PIPE)
        self.argv = [str(a) for a in argv]
        self.popen = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, errors="replace", **kw)
        self.pid = self.popen.pid
        self.out, self.err = [], []
        self._threads = [threading.Thread(target=self._collect, args=(stream, lines), daemon=True)
                         for stream, lines in ((self.popen.stdout, self.out), (self.popen.stderr, self.err))]
        for t in self._threads:
            t.start()

    @staticmethod
    def _collect(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def line(self, prefix, timeout=60.0):
        """The first line of stdout with this beginning, waited for."""
        def look():
            for text in list(self.out):
                if text.startswith(prefix):
                    return text
            if self.popen.poll() is not None:
                for t in self._threads:
                    t.join(2)
                if not any(text.startswith(prefix) for text in self.out):
                    raise AssertionError(f"{self.argv} ended ({self.popen.returncode}) before it said "
                                         f"'{prefix}': " + "\n".join(self.err[-20:]))
            return None
        return wait_until(look, f"'{prefix}' of {self.argv}", timeout)

    def tell(self, text):
        self.popen.stdin.write(text + "\n")
        self.popen.stdin.flush()

    def alive(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, timeout=GUARD_S):
        """The exit status; all output is in .out and .err then."""
        try:
            code = self.popen.wait(guard(timeout))
        except subprocess.TimeoutExpired:
            self.close()
            raise AssertionError(f"{self.argv} still runs after {guard(timeout):g} s; stderr: "
                                 + "\n".join(self.err[-20:])) from None
        for t in self._threads:
            t.join(5)
        return code

    def close(self):
        if self.alive():
            self.popen.kill()
            self.popen.wait()
        if self.popen.stdin:
            with contextlib.suppress(OSError):
                self.popen.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def comes_first(nice):
    """For Proc and Popen: in a session of its own it comes before others, where the kernel groups by session (CONFIG_SCHED_AUTOGROUP)."""
    def begin():
        with contextlib.suppress(OSError):
            os.nice(nice)
            pathlib.Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")
    return {"start_new_session": True, "preexec_fn": begin}


def job(name, *args, wrapper=(), ready=True, ready_s=120, **kw):
    """Starts one of jobs/NAME.py; with ready=True returns after its warm-up."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    proc = Proc([*wrapper, PYTHON, JOBS / f"{name}.py", *args], env=env, **kw)
    if ready:
        try:
            proc.line("ready ", ready_s)
        except BaseException:
            proc.close()
            raise
    return proc


def other_torches():
    """Pythons of other versions that have torch (tools/make-venv versions)."""
    found = sorted(str(p) for p in BUILD.glob("venv-3.*/bin/python"))
    if not found:
        raise Skip("no Python of another version with torch: tools/make-venv versions")
    return found


@contextlib.contextmanager
def python(path):
    """Jobs run in that one."""
    global PYTHON
    was, PYTHON = PYTHON, path
    try:
        yield
    finally:
        PYTHON = was


_shared = {}
shared_tracers = {}  # what a file keeps at work on a shared job; the runner closes them


def shared_job(name, *args):
    """A job that many tests may look at; none of them may end it. The runner stops it between tests, so that it takes no CPU from those
    that do not ask for it, and closes it."""
    key = (name, *args)
    if key not in _shared or not _shared[key].alive():
        _shared[key] = job(name, *args)
    _shared[key].signal(signal.SIGCONT)
    return _shared[key]


def rest_shared():
    for proc in _shared.values():
        if proc.alive():
            proc.signal(signal.SIGSTOP)


def close_shared():
    for proc in (*shared_tracers.values(), *_shared.values()):
        proc.close()
    shared_tracers.clear()
    _shared.clear()


def steps_of(proc):
    """Steps that a job has told of so far: once a second, so hundreds at a time, and not those of a recording (grown.py)."""
    for text in reversed(list(proc.out)):
        if text.startswith("step "):
            return int(text.split()[1])
    return 0


def check_goes_on(proc):
    """The job lives, has no probe left and makes steps."""
    for where in (NEW, OP):
        wait_until(lambda: not probed(proc.pid, where), f"the probe at {where[1]} to go")
    before = steps_of(proc)
    wait_until(lambda: steps_of(proc) > before, "the job's next steps")
    check(proc.alive(), "the job has died")


# --- memtrace -------------------------------------------------------------------------------------

def start(*args, **kw):
    return Proc([MEMTRACE, *args], **kw)


def child_of(pid, name):
    """The child of a memtrace with this name: memtrace-keeper, memtrace-disk. None: it has none (yet)."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for kid in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                if pathlib.Path(f"/proc/{kid}/comm").read_text() == f"{name}\n":
                    return int(kid)
    return None


def memtrace(*args, timeout=120, **kw):
    """Runs to the end: CompletedProcess with returncode, stdout, stderr."""
    return subprocess.run([MEMTRACE, *map(str, args)], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=guard(timeout), check=False, **kw)


def ok(done, codes=(0,)):
    check(done.returncode in codes,
          f"{done.args}: exit {done.returncode}, wanted {codes}; stderr: {done.stderr[-2000:]}")
    return done


def report(path, codes=(0,)):
    return json.loads(ok(memtrace("report", path, "--json"), codes).stdout)


def export(path, extra=()):
    """Every object of export --to jsonl."""
    with tempfile.NamedTemporaryFile("w+", suffix=".jsonl") as f:
        ok(memtrace("export", path, "--to", "jsonl", "--force", "-o", f.name, *extra))
        return [json.loads(line) for line in open(f.name)]


def lost(rep):
    return sum(rep["lost"].values())


def wait_attached(proc, pid, where=NEW, timeout=60):
    """Waits until memtrace `proc` has its probe in the process, and says that what comes with it is set, too (operators come
    last, slice by slice); fails early when memtrace ends."""
    source = {NEW: "framework ", OP: "flow |ops ", MALLOC: "host "}.get(where, "")
    said = re.compile(rf"attached to {pid} .*(?:{source})")
    is_quiet = "-q" in proc.argv or "--quiet" in proc.argv

    def look():
        if not proc.alive():
            proc.wait()
            raise AssertionError(f"{proc.argv} ended with {proc.popen.returncode}: " + "\n".join(proc.err))
        # its word first: to look into the job's text a hundred times a second takes as much of a CPU as the attach
        return (is_quiet or any(said.search(line) for line in list(proc.err))) and probed(pid, where)
    wait_until(look, f"a probe at {where[1]}", timeout, 0.002)


def finish(tracer, path=None, signal_number=2, timeout=GUARD_S):
    """Ends a recording in order; any other end than exit 0 fails, and a loss is named."""
    if signal_number:
        tracer.signal(signal_number)
    code = tracer.wait(timeout)
    if code == 3 and path:
        lost_by = {k: v for k, v in report(path, (3,))["lost"].items() if v}
        raise AssertionError(f"lost data: {lost_by}; stderr: {tracer.err}")
    check(code == 0, f"{tracer.argv}: exit {code}, stderr: {tracer.err}")


def expect_failure(done, code, *words):
    """A clear message on stderr that begins with our name, this exit code, nothing on stdout."""
    check(done.returncode == code, f"exit {done.returncode}, wanted {code}; stderr: {done.stderr}")
    check(re.search(r"^memtrace: .", done.stderr, re.M), f"no message of memtrace in: {done.stderr!r}")
    for word in words:
        check(word.lower() in done.stderr.lower(), f"'{word}' is not in: {done.stderr!r}")
    check(not done.stdout, f"a failure must leave stdout empty, got {done.stdout[:200]!r}")


@contextlib.contextmanager
def scratch():
    path = pathlib.Path(tempfile.mkdtemp(prefix="mt-e2e-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        if KEEP:
            shutil.copytree(path, pathlib.Path(KEEP) / path.name, ignore_dangling_symlinks=True)
        with open("/proc/self/mounts") as f:
            mounts = [line.split()[1] for line in f if line.split()[1].startswith(f"{path}/")]
        check(not mounts, f"still mounted, so nothing is removed: {mounts}")  # it may be the machine's /dev
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def one_at_a_time():
    """Two lanes do not build in one folder at once."""
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / ".tests.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def of_this_run(name):
    """A file that all lanes of a run see (tests/e2e/run makes their folder), one at a time; empty at first."""
    folder = os.environ.get("MT_RUN")
    with open(pathlib.Path(folder) / name, "a+") if folder else tempfile.TemporaryFile("w+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        yield f


def make(*targets):
    """CompletedProcess of make for these, which may be there already."""
    with one_at_a_time():
        return subprocess.run(["make", "-s", "-C", str(ROOT), *map(str, targets)], capture_output=True, text=True, check=False)


def compile_c(name, *flags):
    """build/e2e/NAME from targets/NAME.c, or from NAME.cpp."""
    out = BUILD / "e2e" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    cxx = TARGETS / f"{name}.cpp"
    compiler = os.environ.get("CXX", "g++") if cxx.exists() else os.environ.get("CC", "gcc")
    made = out.with_name(f"{name}.{os.getpid()}")  # the other lane may be running it
    subprocess.run([compiler, "-O1", "-o", made, cxx if cxx.exists() else TARGETS / f"{name}.c",
                    "-I", ROOT / "include", *flags], check=True)
    made.rename(out)
    return out


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")
