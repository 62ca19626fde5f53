# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The terminal interface in tmux: keys in, captures of the screen out."""
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import time
import fcntl
import termios

import grown
import mt
import test_gpu_stub as gpu_stub

LANDING = {"recording_of_all_steps", "lines_where_there_is_no_screen", "recording_begun_by_a_key"}
ALONE = {"keys_answer_while_events_pour_in", "recording_begun_by_a_key", "recording_of_all_steps"}

ANSWER_S_MAX = 0.5  # 50 ms is aimed at and noted; the machine may be busy


class Tmux:
    """One window of a tmux server of our own. A shell in it runs the command and tells its exit code."""
    count = 0

    def __init__(self, command, cols=80, lines=24, env=()):
        if not shutil.which("tmux"):
            raise mt.Skip("no tmux")
        Tmux.count += 1
        self.socket = f"mt-e2e-{os.getpid()}-{Tmux.count}"
        script = f"trap : INT; stty -g >{{0}}.before; {command}; code=$?; stty -g >{{0}}.after; " \
                 f"echo \"exit code $code\"; exec sleep 1000"
        self.stty = f"/tmp/{self.socket}"
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TMUX")}
        clean.update(LC_ALL="C.UTF-8", TERM="xterm-256color", **dict(env))
        subprocess.run(["tmux", "-u", "-L", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", str(cols), "-y",
                        str(lines), "sh", "-c", script.format(self.stty)], check=True, env=clean)

    def _tmux(self, *args):
        return subprocess.run(["tmux", "-u", "-L", self.socket, *args], capture_output=True, text=True, check=True).stdout

    def keys(self, *keys):
        self._tmux("send-keys", *keys)

    def size(self, cols, lines):
        self._tmux("resize-window", "-x", str(cols), "-y", str(lines))

    def screen(self, *args):
        return self._tmux("capture-pane", "-p", *args)

    def wait(self, pattern, timeout=60):
        try:
            return mt.wait_until(lambda: re.search(pattern, self.screen(), re.M | re.S), f"{pattern!r}", timeout, 0.02)
        except AssertionError as e:
            raise AssertionError(f"{e}; the screen is:\n{self.screen()}") from None

    def still(self):
        """The screen once it is drawn to its end: tmux shows what has come of it by then."""
        seen = [self.screen()]

        def look():
            seen.append(self.screen())
            return seen[-1] == seen[-2]
        mt.wait_until(look, "a picture that stays", 10, 0.2)
        return seen[-1]

    def history(self):
        return self.screen("-S", "-500")

    def check_restored(self):
        """Back on the normal screen, with the terminal's settings as they were."""
        self.wait(r"exit code \d+")
        mt.check("0" == self._tmux("display", "-p", "#{alternate_on}").strip(), "still on the alternate screen")
        mt.check("1" == self._tmux("display", "-p", "#{cursor_flag}").strip(), "the cursor is hidden")
        before, after = (open(f"{self.stty}.{w}").read() for w in ("before", "after"))
        mt.check(before == after, f"stty before:\n{before}\nafter:\n{after}")
        return int(re.search(r"exit code (\d+)", self.screen())[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True, check=False)
        for w in ("before", "after"):
            if os.path.exists(f"{self.stty}.{w}"):
                os.unlink(f"{self.stty}.{w}")


def check_fits(tui, cols, lines):
    text = tui.screen()
    mt.check(len(text.splitlines()) <= lines and all(len(line) <= cols for line in text.splitlines()), f"does not fit:\n{text}")
    return text


def test_keys_tables_and_the_way_out():
    job = mt.shared_job("mlp")
    with Tmux(f"{mt.MEMTRACE} -p {job.pid} --max-overhead none") as tui:
        tui.wait(r"4 Operators.*aten::")
        text = tui.wait(r"lost nothing\s+costs the job \d+\.\d %\s+itself").string
        mt.check(re.search(r"memtrace  \d+  .*steps/s", text) and re.search(r"cpu +live .*peak", text), text)
        mt.check(re.search("[▁▂▃▄▅▆▇█]", text), f"no chart:\n{text}")
        for key, words in (("1", r"at the peak.*bytes"), ("2", r"2 Leaks.*\n operator.*grows by.*\n.*nothing grows"),
                           ("3", r"module.*activation.*at peak"), ("5", r"5 Stacks.*--stacks"), ("6", r"size.*age"),
                           ("7", r"7 Steps.*\n +step▾.*fw_start.*fw_bw_boundary.*\n +\d+ .*iB .*iB .*iB"),
                           ("8", r"kind.*used.*largest"), ("9", rf"{job.pid}.*running"), ("0", r"about.*what.*tensor alloc"),
                           ("Right", r"‹\+\d.*Names.*\+\d›.*\n name in Python.*kind.*size"),
                           ("Right", r"Kept\b.*\n +made in.*kept for.*\n.*Backward0.*iB"),
                           ("Right", r"region or backward node.*Optimizer.step"), ("Right", r"thread.*process.*made by"),
                           ("Right", r"Recompiles\b.*nothing was compiled again"),
                           ("Right", r"Generated\b.*no line of generated code"), ("Right", r"1 Peak.*at the peak")):
            tui.keys(key)
            tui.wait(words)
        tui.keys("Tab", "Tab", "Tab")
        tui.wait(r"operator .*live")
        tui.keys("s")
        tui.wait(r"of peak▾")
        tui.keys("r")
        tui.wait(r"of peak▴")
        tui.keys("/")
        tui.keys("-l", "addmm")
        tui.keys("Enter")
        text = tui.wait(r"aten::addmm.*/addmm  1 row ").string
        mt.check(text.count("aten::", text.find("calls")) == 1, f"not filtered:\n{text}")
        tui.keys("Escape")
        tui.wait(r"q quit")
        tui.keys("g")
        tui.wait(r"^ cpu[^\n]*\n(?:[^\n┤│]*\n)+ 1 Peak")
        tui.keys("?")
        tui.wait(r"Keys.*another table")
        tui.keys("q")  # leaves the help
        tui.wait(r"4 Operators")
        tui.keys("q")
        mt.check(tui.check_restored() == 0, tui.history()[-3000:])
        mt.check(re.search(r"Peak .*What this rests on.*tracing cost", tui.history(), re.S), f"no report:\n{tui.history()[-3000:]}")
    mt.check_goes_on(job)


def test_pause_holds_and_marks_are_kept():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with Tmux(f"{mt.MEMTRACE} -p {job.pid} -o {tmp}/a.mtr") as tui:
            tui.wait(r"● rec.*lost nothing")
            tui.keys("m")
            tui.wait(r"Mark 1, set by hand \d+\.\d+ s after the start")
            tui.wait("◆")
            tui.keys("w")
            tui.wait(r"already recording to")
            tui.keys("Space")
            tui.wait("PAUSED.*")
            held = tui.still()
            time.sleep(1.5)
            mt.check(held.splitlines()[:-1] == tui.screen().splitlines()[:-1], f"moves while paused:\n{held}\n{tui.screen()}")
            tui.keys("Space")
            mt.wait_until(lambda: tui.screen() != held, "the next picture", 60)
            tui.keys("C-c")
            mt.check(tui.check_restored() == 0, tui.history()[-3000:])
            mt.check("Mark 1, set by hand" in tui.history(), "the mark is not in the report")
        mt.check("Mark 1, set by hand" in mt.ok(mt.memtrace("report", tmp / "a.mtr", "-v")).stdout, "the mark is not in the recording")
    mt.check_goes_on(job)


def test_recording_begun_by_a_key():
    """It has what lived then, the costs from then on, and nothing lost."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with Tmux(f"cd {tmp}; {mt.MEMTRACE} -p {job.pid} --max-overhead none") as tui:
            tui.wait(r"4 Operators.*aten::")
            time.sleep(2)
            tui.keys("w")
            tui.wait(r"● rec.*recording all steps from now on, to memtrace-\d+-\d+-\d+\.mtr")
            time.sleep(3)
            tui.keys("q")
            mt.check(tui.check_restored() == 0, tui.history()[-3000:])
        path, = tmp.glob("memtrace-*.mtr")
        rep = mt.report(path)
        text = mt.ok(mt.memtrace("report", path, "-v")).stdout
    mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
    mt.check(rep["target"]["pid"] == job.pid and "mlp" in rep["target"]["cmdline"], f"{rep['target']}")
    mt.check(2e9 < rep["duration_ns"] < 20e9, f"{rep['duration_ns']}")
    mt.check(rep["devices"]["cpu"]["allocs"] > 1000 and rep["ops"], f"{rep['devices']}")
    mt.check(rep["devices"]["cpu"].get("carried_blocks", 0) > 0, f"{rep['devices']}")
    mt.check(0 < rep["overhead"]["fraction"] < 2, f"{rep['overhead']}")
    mt.check(re.search(r"Recorded from \d+\.\d s after the attach on", " ".join(text.split())), text[-1500:])
    mt.check(re.search(r"probes set +framework \d+ of \d+,[^;]*flow \d+ of", " ".join(text.split())), text[-1500:])
    mt.check_goes_on(job)


def test_recording_of_all_steps():
    """A view of some steps: the key has all traced while it records, a second time it ends that, and a third begins another one."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        with Tmux(f"cd {tmp}; {mt.MEMTRACE} -p {job.pid}", 120, 40) as tui:
            tui.wait(r"traced 3 of \d+ steps")
            for _ in range(2):
                tui.keys("w")
                tui.wait(r"all steps are traced from the next one on|recording all steps from now on")  # the former for a step
                tui.wait(r"● rec.*recording all steps from now on, to memtrace-\d+-\d+-\d+\.mtr")
                time.sleep(4)
                tui.keys("w")
                tui.wait(r"recorded, w records anew: memtrace report memtrace-\d+-\d+-\d+\.mtr")
                mt.check("● rec" not in tui.screen().splitlines()[0], tui.screen())
            tui.wait(r"░{3}")  # windows again: in the chart there is a gap
            tui.keys("q")
            mt.check(tui.check_restored() == 0, tui.history()[-3000:])
        paths = sorted(tmp.glob("memtrace-*.mtr"))
        mt.check(len(paths) == 2, f"{paths}")
        for path in paths:
            rep = mt.report(path)
            cpu = rep["devices"]["cpu"]
            mt.check("sampling" not in rep and rep["steps"] > 20, f"{path}: of some steps: {rep.get('sampling')}")
            mt.check(cpu["live"] <= cpu["peak"] and rep["coverage"]["end"].startswith("a window"), f"{cpu}")
            mt.check(mt.lost(rep) == 0, f"lost: {rep['lost']}")
            better = json.loads(mt.ok(mt.memtrace("estimate", path, "--optimizer", "8bit", "--json")).stdout)
            mt.check(better["estimated_peak"] < better["recorded_peak"], f"{better}")
    mt.check_goes_on(job)


def test_any_size():
    job = mt.shared_job("mlp")
    with Tmux(f"{mt.MEMTRACE} -p {job.pid}", 120, 40) as tui:
        tui.wait(r"4 Operators.*aten::")
        for cols, lines in ((80, 24), (200, 50), (40, 8), (20, 5), (12, 3), (2, 1), (61, 60), (80, 24)):
            tui.size(cols, lines)
            if cols >= 40:
                tui.wait(rf"\A memtrace [^\n]{{{cols // 2},{cols - 10}}}.*(lost nothing|lost noth…)")
            check_fits(tui, cols, lines)
        tui.wait(r"4 Operators.*aten::.*lost nothing")
        tui.keys("q")
        mt.check(tui.check_restored() == 0, tui.history()[-2000:])
    mt.check_goes_on(job)


def test_no_color():
    job = mt.shared_job("mlp")
    for env, is_colored in (((), True), ((("NO_COLOR", "1"),), False)):
        with Tmux(f"{mt.MEMTRACE} -p {job.pid}", env=env) as tui:
            tui.wait(r"4 Operators.*aten::")
            text = tui.screen("-e")
            mt.check(bool(re.search(r"\x1b\[[0-9;]*(3[0-8]|4[0-8])(;\d+)*m", text)) == is_colored,
                     f"NO_COLOR {env}: {text!r:.3000}")
            tui.keys("q")
            tui.check_restored()


def test_terminal_comes_back_after_signals():
    """SIGTERM: in order, with the report. A crash: as a crash, but with the screen and settings back."""
    job = mt.shared_job("mlp")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV):
        with mt.scratch() as tmp, Tmux(f"sh -c 'echo $$ >{tmp}/pid; exec {mt.MEMTRACE} -p {job.pid}'") as tui:
            tui.wait(r"4 Operators.*aten::")
            os.kill(int((tmp / "pid").read_text()), number)
            code = tui.check_restored()
            mt.check(code == (128 + 11 if number == signal.SIGSEGV else 0), f"{number!r}: exit code {code}")
    mt.check_goes_on(job)


def test_lines_where_there_is_no_screen():
    job = mt.shared_job("mlp")
    for cols, lines, env in ((80, 24, "TERM=dumb"), (80, 24, "TERM=no-such-terminal"), (30, 24, "TERM=xterm"), (80, 5, "TERM=xterm")):
        with Tmux(f"{env} {mt.MEMTRACE} -p {job.pid} -d 2", cols, lines) as tui:
            tui.check_restored()
            mt.check("time_s=" in tui.history().replace("\n", ""), f"{env} {cols}×{lines}: no lines:\n{tui.history()}")


def bytes_of(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def check_held_operators(tui):
    """Of the moment that is held: as much as the categories beside the chart, which are of the same moment."""
    text = tui.wait(r"as of [\d.]+ m?s.*\n operator +then▾ +of it").string
    kinds = sum(bytes_of(m) for m in re.findall(r"(?:■ \S+| \(others\)) +([\d.]+ [KMG]?i?B)", text))
    ops = sum(bytes_of(m) for m in re.findall(r"^ (?:aten|\().{20,}? +([\d.]+ [KMG]?i?B) +<?[\d.]+ %", text, re.M))
    mt.check(kinds > 0 and abs(ops - kinds) < 0.02 * kinds, f"operators {ops}, categories {kinds}:\n{text}")


def test_browse_a_recording():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        grown.record(tmp / "a.mtr", job, grown.after(lambda rep: rep["ops"], 20), "twenty steps")
        done = mt.memtrace("report", tmp / "a.mtr", "--tui")
        mt.expect_failure(done, 1, "terminal")
        with Tmux(f"{mt.MEMTRACE} report {tmp}/a.mtr --tui") as tui:
            tui.wait(r"detached.*at the peak.*(aten::|PARAMETER)")
            mt.check(re.search("[▁▂▃▄▅▆▇█]", tui.screen()), f"no chart:\n{tui.screen()}")
            tui.keys("m", "w", "Space")
            tui.keys("4")
            tui.wait(r"operator.*calls")
            mt.check("PAUSED" not in tui.screen(), "a recording cannot be paused")
            tui.keys("[")
            tui.wait(r"category +then +at peak.*[\d.]+ m?s(, step \d+)?: [\d.]+ [KM]?i?B")
            check_held_operators(tui)
            tui.keys("Escape")
            tui.wait(r"category +live")
            tui.keys("q")
            mt.check(tui.check_restored() == 0, tui.history())
        with Tmux(f"{mt.MEMTRACE} report {tmp}/a.mtr --tui") as tui:
            tui.wait(r"detached.*at the peak.*(aten::|PARAMETER)")
            tui.keys("C-c")
            mt.check(tui.check_restored() == 0, tui.history())


def test_segments_of_a_gpu():
    with mt.scratch() as tmp:
        gpu_stub.Run("late", keep=tmp / "a.mtr")
        with Tmux(f"{mt.MEMTRACE} report {tmp}/a.mtr --tui") as tui:
            tui.wait(r"detached")
            tui.keys("8")
            tui.wait(r"device.*kind.*size.*used.*free.*largest.*fragm\..*cuda:1 +cudaMalloc +556 B +- +- +- +-")
            tui.wait(r"‹\+\d .*8 Segments +\+8›")
            tui.keys(*["Tab"] * 9)
            tui.wait(r"^ 1 Peak  2 Leaks")
            tui.keys("q")
            mt.check(tui.check_restored() == 0, tui.history())


def read_for(fd, seconds, until=None):
    """What comes from a terminal, at most so long, until something has come and then silence for 5 ms."""
    data, end = b"", time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if not select.select([fd], [], [], 0.005 if data and until else left)[0]:
            break
        try:
            data += os.read(fd, 65536)
        except OSError:
            break
    return data


def test_keys_answer_while_events_pour_in():
    job = mt.shared_job("mlp")
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(mt.MEMTRACE, [mt.MEMTRACE, "-p", str(job.pid), "--max-overhead", "none"])
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        data, end = b"", time.monotonic() + 60 * mt.PATIENCE
        while b"aten::" not in data and time.monotonic() < end:
            data += read_for(fd, 1)
        mt.check(b"Operators" in data and b"aten::" in data, "no screen")
        took = []
        for i in range(20):
            key, word = ((b"0", b"about"), (b"6", b"size"))[i % 2]
            os.write(fd, key)
            begin, data = time.monotonic(), b""
            while word not in data and time.monotonic() < begin + 5:
                data += read_for(fd, 5, until=True)
            took.append(time.monotonic() - begin)
            time.sleep(0.11)
        os.write(fd, b"q")
        end, gone = time.monotonic() + 60 * mt.PATIENCE, 0
        while not gone and time.monotonic() < end:
            read_for(fd, 0.1)
            gone, _ = os.waitpid(pid, os.WNOHANG)
        pid = 0 if gone else pid
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(fd)
    took.sort()
    mt.note(f"a key answers after {1000 * took[len(took) // 2]:.0f} ms, at most {1000 * took[-1]:.0f} ms")
    mt.check(took[len(took) // 2] <= ANSWER_S_MAX, f"keys take {took}")
    mt.check_goes_on(job)
