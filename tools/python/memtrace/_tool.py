# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The program `memtrace`: where it is, running it, and tracing with it."""
import os
import shutil
import signal
import subprocess
import tempfile
import threading

ATTACH_TIMEOUT_S = 60
END_TIMEOUT_S = 60


class Error(RuntimeError):
    """memtrace could not be run, or failed; says what it said."""


def binary():
    path = os.environ.get("MEMTRACE") or shutil.which("memtrace")
    if not path or not os.access(path, os.X_OK):
        raise Error("the program memtrace was not found"
                    + (f" at {path} ($MEMTRACE)" if path else " in PATH; name it in $MEMTRACE"))
    return path


def run(command, *args, codes=(0, 3)):
    """stdout of memtrace COMMAND ARGS, whatever defaults a file has. 3: data were lost, which what it wrote says itself."""
    done = subprocess.run([binary(), command, "--no-config", *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode not in codes:
        raise Error(done.stderr.decode(errors="replace").strip() or f"memtrace ended with {done.returncode}")
    return done.stdout


def _has_capabilities(path):
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def _prefix(path):
    """What it takes to run memtrace with the rights that probes need."""
    if os.geteuid() == 0 or _has_capabilities(path):
        return []
    if shutil.which("sudo") and not subprocess.run(["sudo", "-n", path, "--version"], stdin=subprocess.DEVNULL,
                                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        return ["sudo", "-n"]
    raise Error("memtrace needs root: run the job as root, allow `sudo -n memtrace`, or give the program its capabilities "
                "(docs/python.md)")


class Tracer:
    """A recording of a process, by default this one, made by `memtrace record` beside it."""

    def __init__(self, pid=None, output=None, options=()):
        self._folder = None if output else tempfile.mkdtemp(prefix="memtrace-")
        self.path = os.fspath(output) if output else os.path.join(self._folder, "trace.mtr")
        self.said = []
        self._is_attached = False
        self._known = threading.Event()  # whether it is, or has ended
        path = binary()
        self._sudo = _prefix(path)
        argv = [*self._sudo, path, "record", "--no-config", "-p", str(pid or os.getpid()), "-o", self.path,
                *(o for o in options if o not in ("-q", "--quiet"))]  # it says when it is attached
        # a session of its own: Ctrl-C is for the job, which ends the recording in its own time
        self._proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                      start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._known.wait(ATTACH_TIMEOUT_S)
        if not self._is_attached:
            self.close()
            raise Error("memtrace could not attach: " + ("\n".join(self.said) or "it said nothing"))

    def _read(self):
        for line in self._proc.stderr:
            self.said = [*self.said[-50:], line.decode(errors="replace").rstrip()]
            if line.startswith(b"attached to "):
                self._is_attached = True
                self._known.set()
        self._known.set()

    def _signal(self, number):
        if self._sudo:  # sudo passes it on
            subprocess.run(["sudo", "-n", "kill", f"-{int(number)}", str(self._proc.pid)], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        else:
            self._proc.send_signal(number)

    def _kill(self):
        if self._proc.poll() is None:
            self._signal(signal.SIGKILL)
            try:
                self._proc.wait(5)
            except subprocess.TimeoutExpired:
                pass

    def stop(self):
        """Detaches and returns the recording's path."""
        if self._proc.poll() is None:
            self._signal(signal.SIGINT)
        try:
            code = self._proc.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.close()
            raise Error("memtrace does not end: " + "\n".join(self.said[-5:])) from None
        self._reader.join(5)
        if code not in (0, 3):
            raise Error("memtrace failed: " + "\n".join(self.said[-5:]))
        return self.path

    def close(self):
        """Ends it without a word, and removes a recording that nobody named."""
        self._kill()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
