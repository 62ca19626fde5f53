# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Bad input on the command line and in files, and a disk without room."""
import contextlib
import csv
import io
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import termios
import time

import grown
import mt


def test_unknown_option():
    mt.expect_failure(mt.memtrace("--frobnicate"), 2, "--frobnicate")
    mt.expect_failure(mt.memtrace("record", "--frobnicate"), 2, "--frobnicate")


def test_unknown_words():
    for args in (["frobnicate"], ["-p", "12x"], ["-p"], ["-p", "1", "--probes", "framework,frob"],
                 ["report"], ["record"], ["export", "x.mtr", "--to", "frob", "-o", "/dev/null"],
                 ["-p", "1", "-d", "-5"], ["-p", "1", "--ring-size", "many"]):
        mt.expect_failure(mt.memtrace(*args), 2)


def test_help_and_version():
    mt.check("--probes" in mt.ok(mt.memtrace("--help")).stdout, "no --probes in --help")
    version = (mt.ROOT / "VERSION").read_text().strip()
    mt.check(version in mt.ok(mt.memtrace("--version")).stdout, f"no {version} in --version")


def test_words_for_help():
    whole = mt.ok(mt.memtrace("--help")).stdout
    mt.check(mt.ok(mt.memtrace("help")).stdout == whole, "help is --help")
    mt.check(mt.ok(mt.memtrace("help", "diff")).stdout == mt.ok(mt.memtrace("diff", "--help")).stdout, "help diff")
    mt.expect_failure(mt.memtrace("help", "dfif"), 2, "did you mean memtrace diff")
    for word in ("version", "-V"):
        mt.check(mt.ok(mt.memtrace(word)).stdout == mt.ok(mt.memtrace("--version")).stdout, word)
    mt.expect_failure(mt.memtrace("report", "--tpo", "3", "x.mtr"), 2, "did you mean --top?")
    mt.check("did you mean" not in mt.memtrace("--foo").stderr, "--foo is like no option")


def on_terminal(*args, columns=0):
    """Its standard streams are a terminal: (exit code, what it said)."""
    main, side = pty.openpty()
    termios.tcsetwinsize(main, (24, columns))
    proc = subprocess.Popen([mt.MEMTRACE, *map(str, args)], stdin=side, stdout=side, stderr=side, start_new_session=True)
    os.close(side)
    text = b""
    with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
        while part := os.read(main, 65536):
            text += part
    os.close(main)
    return proc.wait(mt.guard()), text.decode(errors="replace")


def test_reports_fit_the_terminal():
    """No line of a report is wider than 80 columns; commands that are proposed stay in one piece."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        path = grown.record(tmp / "a.mtr", job, grown.after(lambda rep: "modules" in rep, 8), "eight steps with modules")
        for words in (["report"], ["report", "-v"], ["report", "--leaks"], ["report", "--by", "module"], ["report", "--at", "peak"],
                      ["diff", path], ["estimate"], ["estimate", "--checkpoint", "*"]):
            code, text = on_terminal(*words, path, columns=80)
            lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
            if "--at" in words:
                mt.check(not re.search(r"(?m)^  .* 0 B +(-|0.0 %) ", text), f"rows that hold nothing: {text}")
            wide = [line for line in lines if len(line) > 80 and "memtrace " not in line]
            mt.check(code == 0 and len(lines) > 3 and not wide, f"{words}: {code} {wide or text}")
        held = mt.ok(mt.memtrace("report", "--md", "--at", "peak", path)).stdout
        mt.check("| PARAMETER | " in held and not re.search(r"(?m)^\|.* \| 0 B \| 0\.0 % \|", held), f"rows that hold nothing: {held}")


def test_standard_streams():
    """A recording from a pipe, exports to one, and neither from nor to a terminal."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        path = tmp / "a.mtr"
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", path))
        data = path.read_bytes()

        def piped(*args):
            return subprocess.run([mt.MEMTRACE, *map(str, args)], input=data, capture_output=True, timeout=mt.guard(), check=False)

        def file(*args):
            return subprocess.run([mt.MEMTRACE, *map(str, args)], capture_output=True, timeout=mt.guard(), check=False)
        for args in (["report", "--json"], ["report", "--leaks"], ["export", "--to", "csv"], ["estimate", "--json"]):
            a, b = piped(args[0], "-", *args[1:]), file(args[0], path, *args[1:])
            mt.check(a.returncode == b.returncode == 0 and a.stdout and a.stdout.replace(b'"-"', b'"F"') ==
                     b.stdout.replace(str(path).encode(), b"F"), f"{args}: {a.returncode} {b.returncode} {a.stderr}")
        mt.check(piped("diff", path, "-").returncode == 0, "diff with a pipe")
        data = b""
        mt.check(b"nothing came through standard input" in piped("report", "-").stderr, "a pipe whose first command has failed")
        data = path.read_bytes()
        for args, words in ((["diff", "-", "-"], b"one recording, not two"), (["report", "-", "--tui"], b"--tui")):
            done = piped(*args)
            mt.check(done.returncode == 1 and words in done.stderr, f"{args}: {done}")
        with open(path, "rb") as f:
            done = subprocess.run([mt.MEMTRACE, "report", "-", "--json"], stdin=f, capture_output=True, timeout=mt.guard(), check=False)
        mt.check(json.loads(done.stdout)["devices"] == mt.report(path)["devices"], "a file as standard input")

        (tmp / "memtrace").mkdir()
        (tmp / "memtrace/config").write_text("by = rank\n")  # which this recording does not have
        env = {k: v for k, v in os.environ.items() if k != "SUDO_UID"} | {"XDG_CONFIG_HOME": str(tmp)}
        done = subprocess.run([mt.MEMTRACE, "report", str(path)], env=env, capture_output=True, timeout=mt.guard(), check=False)
        mt.check(done.returncode == 0 and b"by operator instead" in done.stderr and b"By category" in done.stdout, f"{done}")
        for args, words in ((["-"], b"nothing came through standard input"), ([str(path), "--rank", "9"], b"has no rank 9")):  # of what else fails
            done = subprocess.run([mt.MEMTRACE, "report", *args], env=env, input=b"", capture_output=True, timeout=mt.guard(), check=False)
            mt.check(done.returncode == 1 and words in done.stderr and b"instead" not in done.stderr, f"{args}: {done}")

        mt.check(file("export", path, "--to", "csv").stdout == file("export", path, "--to", "csv", "-o", "-").stdout, "to stdout")
        mt.expect_failure(mt.memtrace("export", path, "--to", "pprof"), 2, "-o OUT is missing", "no text")
        for args, words in ((["--to", "pprof"], "-o OUT is missing"), (["--to", "pprof", "-o", "-"], "a terminal"),
                            (["--to", "csv"], "-o OUT is missing")):
            code, text = on_terminal("export", path, *args)
            mt.check(code == 2 and words in text and "hint: " in text, f"{args}: {code} {text}")
        code, text = on_terminal("report", "-")
        mt.check(code == 1 and "standard input is a terminal" in text, f"{code} {text}")

        out = tmp / "a.csv"
        out.write_text("mine\n")
        mt.expect_failure(mt.memtrace("export", path, "--to", "csv", "-o", out), 1, "exists", "--force")
        mt.check(out.read_text() == "mine\n", "an export replaced a file")
        mt.ok(mt.memtrace("export", path, "--to", "csv", "-o", out, "--force"))
        mt.check(out.read_bytes() == file("export", path, "--to", "csv").stdout, "--force did not")


def test_not_root():
    job = mt.shared_job("mlp")
    if not shutil.which("setpriv"):
        raise mt.Skip("needs setpriv")
    with mt.scratch() as tmp:
        copy = shutil.copy(mt.MEMTRACE, tmp / "memtrace")
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", copy, "-p", str(job.pid)],
                              capture_output=True, text=True, timeout=mt.guard(), stdin=subprocess.DEVNULL, check=False)
    mt.expect_failure(done, 1, "root", "hint: ")
    mt.check(not mt.probed(job.pid, mt.NEW), "a probe without root")


def test_no_btf():
    """A kernel that does not describe itself, as memtrace sees it: its file is covered, in a mount namespace of its own."""
    job = mt.shared_job("mlp")
    covered = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]
    if subprocess.run([*covered, "true"], capture_output=True, check=False).returncode:
        raise mt.Skip("cannot cover /sys/kernel/btf here")
    if pathlib.Path(f"/boot/vmlinux-{os.uname().release}").exists():
        raise mt.Skip("libbpf finds the description elsewhere")

    def run(*args):
        return subprocess.run([*covered, mt.MEMTRACE, *map(str, args)], capture_output=True, text=True, timeout=mt.guard(),
                              stdin=subprocess.DEVNULL, check=False)
    with mt.scratch() as tmp:
        for args in (("record", "-p", job.pid, "-o", tmp / "a.mtr"), ("-p", job.pid, "-d", 1),
                     ("serve", "-p", job.pid, "--listen", "127.0.0.1:0"), ("record", "-o", tmp / "a.mtr", "--", "true")):
            mt.expect_failure(run(*args), 1, "no BTF", "hint: ", "CONFIG_DEBUG_INFO_BTF")
        mt.check(not (tmp / "a.mtr").exists(), "a recording of nothing")
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "--probes", "framework", "-o", tmp / "b.mtr"))
        mt.check("What this rests on" in mt.ok(run("report", tmp / "b.mtr")).stdout, "looking at a recording needs no kernel")
    doctor = run("doctor")
    mt.check(doctor.returncode == 1 and "/sys/kernel/btf/vmlinux is missing" in doctor.stdout, f"{doctor.returncode} {doctor.stdout}")
    mt.check(not mt.probed(job.pid, mt.NEW), "a probe is there all the same")


def test_recording_needs_no_root():
    if not shutil.which("setpriv"):
        raise mt.Skip("needs setpriv")
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        copy = shutil.copy(mt.MEMTRACE, tmp / "memtrace")
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", tmp / "a.mtr"))
        (tmp / "a.mtr").chmod(0o644)
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", copy, "report", tmp / "a.mtr"],
                              capture_output=True, text=True, timeout=mt.guard(), check=False)
    mt.ok(done)
    mt.check("aten::" in done.stdout, f"no report: {done.stdout[:500]}")


def test_no_such_recording():
    mt.expect_failure(mt.memtrace("report", "/no/such.mtr"), 1, "/no/such.mtr")
    mt.expect_failure(mt.memtrace("report", "/tmp"), 1, "a directory, not a recording", "hint: ")


def test_what_would_do_nothing_is_refused():
    mt.expect_failure(mt.memtrace("record", "-p", 1, "-o", "-"), 2, "is not written to a stream", "hint: ")
    mt.expect_failure(mt.memtrace("report", "x.mtr", "--leaks", "--by", "op"), 2, "--by is about another view")
    mt.expect_failure(mt.memtrace("report", "x.mtr", "--flow", "--by", "op"), 2, "--by is about another view")
    mt.expect_failure(mt.memtrace("record", "-p", 1, "--stacks", "--probes", "kernel"), 2, "no stack would come", "hint: ")


def test_foreign_files():
    with mt.scratch() as tmp:
        for name, data in (("empty", b""), ("text", b"hello, world\n" * 50), ("elf", b"\x7fELF" + bytes(500)),
                           ("zeros", bytes(4096)), ("short", b"\x01")):
            path = tmp / f"{name}.mtr"
            path.write_bytes(data)
            for args in (["report", path], ["export", path, "--to", "jsonl", "-o", tmp / "out"]):
                mt.expect_failure(mt.memtrace(*args), 1, f"{name}.mtr")


def test_foreign_file_is_not_overwritten():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        path = tmp / "thesis.txt"
        path.write_text("years of work\n")
        mt.expect_failure(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", path), 1, "thesis.txt")
        mt.check(path.read_text() == "years of work\n", "a foreign file was overwritten")


CUT_BYTES = 512 << 10  # several frames, of which a damaged one is a part


def test_truncated_and_damaged_recordings():
    """Cut anywhere: what stands before the cut is read and the report says that there was a cut."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        grown.record(tmp / "a.mtr", job, lambda _: (tmp / "a.mtr").stat().st_size > CUT_BYTES, "a recording long enough to be cut")
        data = (tmp / "a.mtr").read_bytes()
        whole = mt.report(tmp / "a.mtr")["devices"]["cpu"]["allocs"]
        cut = tmp / "cut.mtr"
        for n in (1, 7, 16, 40):
            cut.write_bytes(data[:n])
            mt.expect_failure(mt.memtrace("report", cut), 1, "cut.mtr")
        seen = []
        for share in (0.5, 0.75, 0.9, 0.999):
            cut.write_bytes(data[:int(len(data) * share)])
            rep = mt.report(cut, (0, 3))
            seen.append(rep["devices"].get("cpu", {}).get("allocs", 0))
        mt.check(seen == sorted(seen) and 0 < seen[-1] <= whole, f"{seen} of {whole}")

        middle = len(data) // 2
        cut.write_bytes(data[:middle] + bytes(b ^ 0x55 for b in data[middle:middle + 64]) + data[middle + 64:])
        rep = mt.report(cut, (3,))
        done = mt.memtrace("report", cut, "-v")
        mt.check(0 < rep["lost"]["damaged"] and rep["devices"]["cpu"]["allocs"] < whole, f"damage was not noticed: {rep['lost']}")
        mt.check(rep["coverage"]["complete"] and rep["devices"]["cpu"]["allocs"] > 0.2 * whole, "what stands behind it was not read")
        mt.check("is damaged" in done.stderr and "damaged part" in done.stdout, f"{done.stderr} {done.stdout[-1500:]}")
        sums = sum(rep["events"].values()) + rep["lost"]["damaged"]
        every = sum(mt.report(tmp / "a.mtr")["events"].values()) + 1  # the loss is an event, too
        mt.check(sums == every, f"what is missing was not counted right: {sums} of {every}")


def test_full_disk_while_recording():
    mt.need_root()
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        disk = pathlib.Path(tmp / "disk")
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], check=False,
                          capture_output=True).returncode:
            raise mt.Skip("cannot mount a tmpfs here")
        try:
            with mt.start("-p", str(job.pid), "--max-overhead", "none", "-o", str(disk / "a.mtr")) as tracer:
                mt.wait_until(lambda: any("no space" in line.lower() for line in list(tracer.err)) or not tracer.alive(), "a word about the disk", 90)
                mt.check(tracer.alive(), f"it ended for it: {tracer.err[-5:]}")
                tracer.signal(signal.SIGINT)
                mt.check(tracer.wait() == 3, f"exit {tracer.popen.returncode}: {tracer.err[-5:]}")
            rep = mt.report(disk / "a.mtr", (0, 3))
            mt.check(rep["devices"]["cpu"]["allocs"] > 0, "nothing can be read")
        finally:
            for _ in range(20):
                if not subprocess.run(["umount", disk], check=False, capture_output=True).returncode:
                    break
                time.sleep(0.2)
    mt.check_goes_on(job)


def test_export_csv():
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("record", "-p", job.pid, "-d", 1, "-o", tmp / "a.mtr"))
        mt.ok(mt.memtrace("export", tmp / "a.mtr", "--to", "csv", "-o", tmp / "a.csv"))
        rows = (tmp / "a.csv").read_text().splitlines()
        objects = mt.export(tmp / "a.mtr")
    mt.check(len(rows) == len(objects) + 1, f"{len(rows)} rows and a header for {len(objects)} objects")
    mt.check("ptr" in rows[0] and "size" in rows[0], f"no header: {rows[0]}")


def test_report_csv():
    """The tables as CSV, by Python's own reader, say what JSON says."""
    job = mt.shared_job("mlp")
    with mt.scratch() as tmp:
        grown.record(tmp / "a.mtr", job, grown.knows_python, "names of its modules")
        rep = mt.report(tmp / "a.mtr")

        def rows(*args):
            text = mt.ok(mt.memtrace("report", tmp / "a.mtr", "--csv", *args)).stdout
            return list(csv.DictReader(io.StringIO(text)))

        wanted = {"op": rep["ops"], "region": rep["regions"], "name": rep["names"]["list"], "process": rep["processes"],
                  "module": rep["modules"]["list"]}
        for by, objects in wanted.items():
            table = rows("--by", by)
            mt.check(len(table) == len(objects) > 0, f"{by}: {len(table)} lines of CSV, {len(objects)} objects")
            for row, o in zip(table, objects):
                for key in row.keys() & o.keys():
                    if isinstance(o[key], (int, str)) and not isinstance(o[key], bool):
                        mt.check(row[key].removeprefix("'") == str(o[key]), f"{by} {key}: {row[key]} in CSV, {o[key]} in JSON")
        cats = {r["category"]: int(r["at_peak"]) for r in rows("--by", "category") if r["device"] == "cpu"}
        mt.check(sum(cats.values()) == rep["devices"]["cpu"]["peak"], f"{cats}")
        mt.check(len(rows("--by", "op", "--top", 3)) == 3, "--top")
        for args in (["--json"], ["--by", "stack"], ["--leaks"]):
            done = mt.memtrace("report", tmp / "a.mtr", "--csv", *args)
            mt.check(done.returncode == 2 and "hint" in done.stderr, f"{args}: {done.returncode} {done.stderr}")
