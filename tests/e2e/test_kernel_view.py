# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""The kernel's view of a job with DataLoader workers, against what /proc itself says of each."""
import json
import re
import sqlite3
import subprocess
import time

import mt

LANDING = {"copies_of_a_large_dataset", "private_and_shared_bytes_of_workers"}
ALONE = {"resident_memory_is_followed"}

FIELDS = {"rss": ("Rss",), "pss": ("Pss",), "private": ("Private_Clean", "Private_Dirty"),
          "shared": ("Shared_Clean", "Shared_Dirty"), "anon": ("Anonymous",), "pss_anon": ("Pss_Anon",),
          "pss_file": ("Pss_File",), "pss_shmem": ("Pss_Shmem",), "huge": ("AnonHugePages",),
          "swap": ("SwapPss",)}
MIB = 1 << 20


def use_of(pid):
    rows = {}
    for name in ("smaps_rollup", "status"):
        with open(f"/proc/{pid}/{name}", encoding="utf-8") as f:
            for line in f:
                words = line.replace(":", " ").split()
                if len(words) == 3 and words[2] == "kB":
                    rows[words[0]] = int(words[1]) * 1024
    use = {key: sum(rows[f] for f in fields) for key, fields in FIELDS.items()}
    return {**use, "locked": rows["VmLck"], "pinned": rows["VmPin"]}


def test_private_and_shared_bytes_of_workers():
    with mt.scratch() as tmp, mt.job("use") as job:
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "framework,kernel") as tracer:
            mt.wait_attached(tracer, job.pid)
            job.tell("go")
            workers = [int(pid) for pid in job.line("still ", 60).split()[1:]]
            mt.check(len(workers) == 4, f"workers: {workers}")
            for pid in workers:
                mt.wait_until(lambda: mt.probed(pid, mt.NEW), f"probes in worker {pid}", 15)
            time.sleep(2.5)  # nothing moves from here on: a reading of memtrace's own rhythm, and one at its end
            true = {pid: [use_of(pid)] for pid in [job.pid, *workers]}
            mt.finish(tracer, path)
            for pid, uses in true.items():
                uses.append(use_of(pid))
        report = mt.report(path)
        seen = {p["pid"]: p for p in report["processes"]}
        for pid, uses in true.items():
            mt.check("use" in seen.get(pid, {}), f"no reading of {pid}")
            for key in uses[0]:
                # Python's own threads may touch a page between two readings; PSS follows what others map: a job of the other lane's
                # that comes or goes has its part of torch's libraries. So it lies between what was true before and after.
                value, of = seen[pid]["use"][key], [use[key] for use in uses]
                mt.check(min(of) - MIB <= value <= max(of) + MIB, f"{pid}: {key}: memtrace {value}, /proc {of}")
        for pid in workers:
            mt.check(seen[pid]["use"]["private"] >= (24 + pid % 7) * MIB, f"{pid}: private {seen[pid]['use']}")
            mt.check(seen[pid]["use"]["shared"] >= 48 * MIB, f"{pid}: shared {seen[pid]['use']}")
        mt.check(seen[job.pid]["use"]["locked"] == 2 * MIB, f"locked: {seen[job.pid]['use']}")
        kinds = report["kernel"]["by_kind"]
        mt.check({"anon", "file", "shmem", "swap", "pss", "huge"} <= set(kinds), f"series: {list(kinds)}")
        last = {k: s["points"][-1][2] for k, s in kinds.items()}
        mt.check(last["pss"] == sum(seen[pid]["use"]["pss"] for pid in true), f"PSS of all: {last}")
        # Read ten times a second, told when it moved by 1 MiB.
        mt.check(max(p[1] for p in kinds["shmem"]["points"]) >= 5 * 46 * MIB, f"shared memory: {last}")
        text = mt.ok(mt.memtrace("report", path, "--by", "process")).stdout
        mt.check("private" in text and "shared" in text, text)
        mt.note("worker private/shared MiB: " + ", ".join(
            f"{seen[pid]['use']['private'] / MIB:.0f}/{seen[pid]['use']['shared'] / MIB:.0f}" for pid in workers))
        job.tell("end")
        mt.check(job.wait() == 0, f"the job failed: {job.err[-5:]}")


def test_resident_memory_is_followed():
    """Read ten times a second: a rise that stays, and one of 20 ms between two readings, which only the kernel saw."""
    code = ("import mmap,os,sys,time\nprint('ready', os.getpid(), flush=True)\nsys.stdin.readline()\n"
            "def take(n):\n    m = mmap.mmap(-1, n, mmap.MAP_PRIVATE)\n    for at in range(0, n, 4096): m[at] = 1\n    return m\n"
            "kept = take(40 << 20)\ntime.sleep(0.5)\nspike = take(96 << 20); time.sleep(0.02); spike.close()\n"
            "time.sleep(0.5)\nprint('done', flush=True)\nsys.stdin.readline()\n")
    with mt.scratch() as tmp, mt.Proc([mt.PYTHON, "-c", code]) as job:
        path = tmp / "a.mtr"
        job.line("ready ")
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "kernel") as tracer:
            mt.wait_until(lambda: any("attached to" in line for line in tracer.err), "attach", 20)
            before = use_of(job.pid)["rss"]
            job.tell("go")
            job.line("done", 30)
            after = use_of(job.pid)["rss"]
            mt.finish(tracer, path)
        report = mt.report(path)
        rss = report["processes"][0]["rss"]
        mt.check(abs(rss["total"] - after) <= MIB, f"at the end {rss}, /proc {after}")
        high = before + (136 << 20)
        mt.check(abs(rss["peak"] - high) <= 2 * MIB, f"peak {rss['peak']}, true {high}")
        steady = [p for p in report["kernel"]["by_kind"]["anon"]["points"] if p[2] >= (40 << 20)]
        mt.check(steady, "the rise that stayed is in no point of the series")
        mt.note(f"{report['events']['rss']} readings told of {before >> 20} + 40 + 96 MiB")
        job.tell("end")


def test_many_short_children_do_not_stay():
    """Two hundred children that come and go: memtrace's memory and descriptors are bounded by those alive."""
    code = ("import os,sys,time\nprint('ready', os.getpid(), flush=True)\nsys.stdin.readline()\n"
            "for i in range(200):\n    pid = os.fork()\n    if not pid:\n        time.sleep(0.02)\n        os._exit(0)\n"
            "    os.waitpid(pid, 0)\n    if i == 60: print('warm', flush=True); sys.stdin.readline()\n"
            "print('done', flush=True)\nsys.stdin.readline()\n")
    with mt.scratch() as tmp, mt.Proc([mt.PYTHON, "-c", code]) as job:
        job.line("ready ")
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr"), "--probes", "host", "--min-size", "64M",
                      "-q") as tracer:
            mt.wait_attached(tracer, job.pid, mt.MALLOC)
            alone = fds_of(tracer.pid)
            job.tell("go")
            job.line("warm", 60)
            mt.wait_until(lambda: fds_of(tracer.pid) <= alone + 2, "what 61 children had open to be closed", 60, 0.1)
            before = use_of(tracer.pid)["anon"], fds_of(tracer.pid)
            job.tell("go")
            job.line("done", 90)
            mt.wait_until(lambda: fds_of(tracer.pid) <= alone + 2, "what 139 more had open to be closed", 60, 0.1)
            after = use_of(tracer.pid)["anon"], fds_of(tracer.pid)
            mt.finish(tracer)
        grown = after[0] - before[0]
        mt.note(f"139 more children: {grown / 139 / 1024:.1f} KiB each, {after[1] - before[1]} descriptors in all")
        mt.check(grown < 139 * 4096, f"grew by {grown} bytes for 139 children that are gone")
        mt.check(after[1] <= before[1] + 2, f"descriptors: {before[1]}, then {after[1]}")
        job.tell("end")


def fds_of(pid):
    return int(subprocess.run(["sh", "-c", f"ls /proc/{pid}/fd | wc -l"], capture_output=True, text=True,
                              check=True).stdout)


def said_by_exports(path, tmp, report):
    """Readings of private and shared bytes: the database has JSON's, metrics the last of a process that is there."""
    mt.ok(mt.memtrace("export", path, "--to", "sqlite", "-o", tmp / "a.db"), (0, 3))
    with sqlite3.connect(tmp / "a.db") as db:
        rows = db.execute("SELECT pid, t_ns, private, shared FROM process_use ORDER BY rowid").fetchall()
    want = [(p["pid"], u["at_ns"], u["private"], u["shared"]) for p in report["processes"] for u in p.get("use_over_time", [])]
    mt.check(rows == want and len(want) >= 4, f"{rows[:4]} and JSON {want[:4]}")
    text = mt.ok(mt.memtrace("export", path, "--to", "openmetrics"), (0, 3)).stdout
    told = {int(pid): int(value) for pid, value in re.findall(r'^memtrace_process_private_bytes\{pid="(\d+)"[^}]*\} (\d+)', text, re.M)}
    mt.check(told == {p["pid"]: 0 if p["state"].startswith("exited") else p["use"]["private"] for p in report["processes"] if "use" in p}, str(told))


def test_copies_of_a_large_dataset():
    """Two workers of more than 512 MiB copy what they share: by how much is told as it is in smaps, which this reads."""
    def read_of(path, pids):
        done = mt.memtrace("report", path, "--json", "-q")
        use = {p["pid"]: p.get("use") for p in json.loads(done.stdout)["processes"]} if done.returncode in (0, 3) else {}
        return {pid: use[pid] for pid in pids if use.get(pid)}

    def are_close(told, true, key):
        return set(told) == set(true) and all(abs(told[pid][key] - true[pid][key]) <= 0.05 * true[pid][key] for pid in true)

    with mt.scratch() as tmp, mt.job("copies") as job:
        path = tmp / "a.mtr"
        with mt.start("record", "-p", str(job.pid), "-o", str(path), "--probes", "framework,kernel") as tracer:
            mt.wait_attached(tracer, job.pid)
            job.tell("go")
            workers = [int(pid) for pid in job.line("workers ", 60).split()[1:]]
            mt.wait_until(lambda: are_close(read_of(path, workers), {pid: use_of(pid) for pid in workers}, "shared"),
                          "a first reading of both", 60, 0.5)
            before = {pid: use_of(pid) for pid in workers}
            job.tell("copy")
            job.line("still ", 120)
            true = {pid: use_of(pid) for pid in workers}
            mt.check(all(use["private"] > 704 * MIB for use in true.values()), f"the workers have not copied it: {true}")
            mt.wait_until(lambda: are_close(read_of(path, workers), true, "private"), "a last reading of both", 60, 0.5)
            mt.finish(tracer, path)
        report = mt.report(path)
        for p in report["processes"]:
            if p["pid"] in workers:
                use, is_true = p["use"], true[p["pid"]]
                for key in ("private", "shared", "rss", "anon"):
                    mt.check(abs(use[key] - is_true[key]) <= 0.05 * is_true["rss"], f"{key}: {use}, smaps {is_true}")
                mt.check(use["pss"] is None and use["huge"] is None, f"nobody has read these: {use}")
        said_by_exports(path, tmp, report)
        line = next(l for l in report["verdict"] if l["kind"] == "workers")
        told = re.search(r"by copy-on-write: ([0-9.]+) ([MG])iB that they shared with their parent is copied now", line["text"])
        mt.check(told, line["text"])
        copied = sum(before[pid]["shared"] - true[pid]["shared"] for pid in workers)
        value = float(told[1]) * MIB * (1024 if told[2] == "G" else 1)
        mt.check(abs(value - copied) <= 0.05 * copied, f"{line['text']}: {copied / MIB:.0f} MiB by smaps")
        text = mt.ok(mt.memtrace("report", "-v", path), (0, 3)).stdout
        mt.check("PSS and huge pages of 3 large processes are not known" in " ".join(text.split()), text)
        mt.note(f"{line['text']}; by smaps {copied / MIB:.0f} MiB")
        job.tell("end")
        mt.check(job.wait() == 0, f"the job failed: {job.err[-5:]}")
