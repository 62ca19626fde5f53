# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Ranks of distributed jobs: torchrun over gloo, on the CPU (docs/ranks.md).

The FSDP tests are PyTorch's own test_fully_shard_memory.py from outside: jobs/fsdp_memory.py makes the stages and says what
that file's arithmetic expects; what each rank held at its marks is memtrace's word.
"""
import collections
import csv
import json
import os
import pathlib
import re
import subprocess

import browser
import mt
import test_fleet
import test_page as pages

SLOW = {"fsdp_no_reshard", "fsdp_freed_early", "fsdp_optimizer_in_backward", "fsdp_deleted", "fsdp_four_ranks", "fsdp_offload", "attached_launcher",
        "attached_restart", "two_jobs_at_once", "ddp", "fsdp1", "dead_rank", "restarted_ranks", "recorded_apart", "page", "compile_workers"}
LANDING = {"fsdp_reshard", "helpers", "launched_imbalance"}

TIMEOUT_S = {"launched_imbalance": 300, "helpers": 300, "compile_workers": 300, "fsdp_reshard": 300}
TORCHRUN = os.path.join(os.path.dirname(mt.PYTHON), "torchrun")


def torchrun(ranks, job, *args, launcher=()):
    return (TORCHRUN, "--nproc-per-node", str(ranks), *launcher, str(mt.JOBS / f"{job}.py"), *map(str, args))


def env():
    # The last one: torchrun's own store keeps the addresses of ranks that are gone, and those that it starts again fail on them.
    return dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")


def record(path, ranks, job, *args, codes=(0,), options=(), launcher=(), **environ):
    """Objects that the job said, one a line, after the word in front of them."""
    mt.need_root()
    done = mt.memtrace("record", "-q", *options, "-o", path, "--", *torchrun(ranks, job, *args, launcher=launcher), timeout=280,
                       env=dict(env(), **environ))
    mt.ok(done, codes)
    return [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]


def record_from_the_first_step(path, go, *args):
    """The same of two ranks, whose steps begin when both have their probes and their modules names: nothing holds a launched job up until
    then, and on a busy machine steps that take 10 ms each may be over."""
    return record_when_ready(path, go, 2, torchrun(2, "ranks", "--go", go, *args))


def record_when_ready(path, go, ranks, command):
    """What ranks of such a command say, which go on when there is the file `go`."""
    mt.need_root()
    with mt.start("record", "-vv", "-o", str(path), "--", *command, env=env()) as tracer:
        mt.wait_until(lambda: sum('"ready"' in text for text in tracer.out) == ranks or not tracer.alive(), f"{ranks} ranks", 120)
        for pid in [json.loads(text[text.index("{"):])["ready"] for text in tracer.out if '"ready"' in text]:
            mt.wait_attached(tracer, pid, mt.OP, 60)
            mt.wait_until(lambda pid=pid: any(re.search(f"process {pid}: [1-9][0-9]* names of", t) for t in list(tracer.err)), "names", 60)
        go.touch()
        mt.finish(tracer, path, signal_number=0)
    return [json.loads(text[text.index("{"):]) for text in tracer.out if "{" in text]


def ranks_of(path, codes=(0,), extra=()):
    rep = json.loads(mt.ok(mt.memtrace("report", path, "--json", "--by", "rank", *extra), codes).stdout)
    return rep, rep["ranks"]


def check_sums(rep, k):
    mt.check(k["live_sum"] == rep["devices"]["cpu"]["live"], f"the sum over ranks {k['live_sum']} is not the whole")
    if not k["others_peak"]:  # over all of the time, too
        whole = {name: c["byte_ns"] for name, c in rep["devices"]["cpu"]["categories"].items()}
        ranks = {name: sum(row["categories"].get(name, {"byte_ns": 0})["byte_ns"] for row in k["list"]) for name in whole}
        mt.check(sum(ranks.values()) == sum(whole.values()), f"byte·time of the ranks {ranks}, of the whole {whole}")
    for row in k["list"]:
        live = sum(c["live"] for c in row["categories"].values())
        mt.check(live == row["live"], f"rank {row['rank']}: its categories make {live} of {row['live']}")
        at_peak = sum(c["at_peak"] for c in row["categories"].values())
        mt.check(at_peak == row["peak"], f"rank {row['rank']}: its categories make {at_peak} of the peak {row['peak']}")


# --- a part of it ----------------------------------------------------------------------------------------------

def part_of(rows, pids, begin, end):
    """Of the lines of an export those of these processes after `begin` up to `end`; before them what lived at `begin`, as it was then."""
    own, live = [r for r in rows if int(r["pid"]) in pids], {}
    for r in own:
        if int(r["t"]) > begin:
            break
        if r["ev"] in ("create", "preexisting"):
            live[r["id"]] = r | {"t": type(r["t"])(begin), "ev": "preexisting"}
        elif r["ev"] == "version":
            live[r["id"]] |= {k: r[k] for k in ("version", "cat")}
        elif r["ev"] == "destroy":
            del live[r["id"]]
    return [*sorted(live.values(), key=lambda r: int(r["id"])), *(r for r in own if begin < int(r["t"]) <= end)]


def check_parts(path, rep):
    """What --pid, --rank, --from and --until leave of an export is exactly the part."""
    def lines(to, *args):
        text = mt.ok(mt.memtrace("export", path, "--to", to, "--ops", *args)).stdout.splitlines()
        return [json.loads(line) for line in text] if to == "jsonl" else [{k: v for k, v in r.items() if v} for r in csv.DictReader(text)]

    rank_of = {p["pid"]: p.get("rank", {}).get("rank") for p in rep["processes"]}
    pid = next(r["pid"] for r in rep["ranks"]["list"] if r["rank"] == 0)
    for to in ("jsonl", "csv"):
        whole = lines(to)
        ends = sorted(int(r["t"]) for r in whole if r.get("mark") == "step")
        begin, end = ends[len(ends) // 3], ends[-len(ends) // 3]
        times = {"from": f"{(begin - rep['start_ns']) / 1e9:.9f}s", "to": f"{(end - rep['start_ns']) / 1e9:.9f}s"}
        stretch = ("--from", times["from"], "--until", times["to"])
        for args, pids, span, said in ((("--pid", pid), {pid}, (0, 1 << 63), {"pids": [pid]}),
                                       (("--rank", 0), {p for p in rank_of if rank_of[p] == 0}, (0, 1 << 63), {"rank": 0}),
                                       (("--rank", 1, *stretch), {p for p in rank_of if rank_of[p] == 1}, (begin, end), {**times, "rank": 1}),
                                       (stretch, set(rank_of), (begin, end), times)):
            got, want = lines(to, *args), part_of(whole, pids, *span)
            if to == "jsonl":
                mt.check(got[0]["ev"] == "filter" and got.pop(0)["filter"] == said, f"{args}: {got[0]}")
            mt.check(50 < len(want) < len(whole), f"{args}: {len(want)} of {len(whole)} lines: nothing is tested")
            if span[0]:
                mt.check(any(r["ev"] == "preexisting" and r.get("module") for r in want), f"{args}: nothing is there from before, of a module")
            mt.check(got == want, f"{to} {args}: {len(got)} lines, not {len(want)}; "
                     f"{next(((a, b) for a, b in zip(got, want) if a != b), 'the others are the same')}")


# --- everybody is followed ------------------------------------------------------------------------------------

# What jobs/ranks.py has.
EXTRA = 4 << 20  # --heavy
LATE = 1 << 20  # the late child's tensor: rank 0's as long as that child lives
BATCH = 32 * 64 * 4
ON_THE_WAY = 4  # one used, two that the worker is ahead, one being made: of each rank its own number at each moment


def test_launched_imbalance():
    """Two ranks, one of them with 4 MiB more; a worker each, and a late child of rank 0."""
    with mt.scratch() as tmp:
        said = [o for o in record_from_the_first_step(tmp / "a.mtr", tmp / "go", "--heavy", 1, "--workers", 1, "--late", "--steps", 10)
                if "pid" in o]
        rep, k = ranks_of(tmp / "a.mtr")
        events = mt.export(tmp / "a.mtr")
        text = mt.ok(mt.memtrace("report", tmp / "a.mtr", "--by", "rank")).stdout
        check_parts(tmp / "a.mtr", rep)
    mt.check(len(said) == 2, f"{said}")
    procs = {p["pid"]: p for p in rep["processes"]}
    for job in said:
        own = procs[job["pid"]]["rank"]
        mt.check((own["rank"], own["local_rank"], own["world_size"]) == (job["rank"], job["rank"], 2), f"{own}")
        mt.check("job" in own and own["node_rank"] == 0, f"{own}")
        for child in job["workers"] + ([job["late"]] if job["late"] else []):
            mt.check(procs[child]["rank"]["rank"] == job["rank"], f"child {child} of rank {job['rank']}: {procs.get(child)}")
    late = next(o["late"] for o in said if o["late"])
    mt.check(any(e.get("pid") == late and e["ev"] == "create" and e["size"] == 1 << 20 for e in events),
             "the late child's tensor is not there")
    mt.check((k["count"], k["world_size"], k["missing"], k["died"]) == (2, 2, [], 0), f"{k['count']} {k['missing']}")
    mt.check({r["rank"]: r["pid"] for r in k["list"]} == {o["rank"]: o["pid"] for o in said}, "whose rank is whose")
    check_sums(rep, k)
    first = k["outliers"][0]
    least, most = EXTRA - LATE - ON_THE_WAY * BATCH, EXTRA + ON_THE_WAY * BATCH
    mt.check(first["rank"] == 1 and least <= first["more"] <= most, f"{k['outliers']}")
    mt.check("stands out: rank 1" in text, text)
    mt.check(len(k["steps"]) == 10 and all(s["max_rank"] == 1 for s in k["steps"]), f"{k['steps']}")
    apart = [s["max"] - s["min"] for s in k["steps"][1:]]
    mt.note(f"{(first['more'] - EXTRA) / 1024:.1f} KiB beside the {EXTRA >> 20} MiB, by step {[(a - EXTRA) // 1024 for a in apart]}")
    mt.check(all(least <= a <= most for a in apart), f"{k['steps']}")


HELPERS = 80


def test_helpers():
    """What a rank starts inherits RANK, and is neither a rank nor a job: also what was met between its fork and its exec."""
    with mt.scratch() as tmp:
        said = [o for o in record(tmp / "a.mtr", 2, "ranks", "--helpers", HELPERS, "--workers", 1, "--steps", 4) if "pid" in o]
        rep, k = ranks_of(tmp / "a.mtr")
    mt.check({r["rank"]: r["pid"] for r in k["list"]} == {o["rank"]: o["pid"] for o in said}, f"{k['list']}")
    mt.check((len(k["list"]), k["jobs"]) == (2, 1), f"{k}")
    # Most live for a millisecond, and are gone before anybody can look; of those that were met none is a rank, nor is the worker.
    met = [r["processes"] - 2 for r in k["list"]]
    mt.note(f"of {4 * HELPERS} helpers of each rank {met} were met")
    mt.check(all(cnt > 0 for cnt in met), "no helper was met, so nothing is tested")
    check_sums(rep, k)


def test_compile_workers():
    """Nor are torch.compile's: its compilers, the process that keeps its workers, and these, with nothing compiled before."""
    with mt.scratch() as tmp:
        said = [o for o in record(tmp / "a.mtr", 2, "ranks", "--compiled", "--steps", 8, TORCHINDUCTOR_COMPILE_THREADS="2",
                                  TORCHINDUCTOR_CACHE_DIR=str(tmp / "cold")) if "pid" in o]
        rep, k = ranks_of(tmp / "a.mtr")
        text = mt.ok(mt.memtrace("report", tmp / "a.mtr", "--by", "process")).stdout
    ranks = {o["rank"]: o["pid"] for o in said}
    helpers = collections.Counter("compile_worker" if "compile_worker" in p["cmdline"] else p["comm"] for p in rep["processes"]
                                  if p["pid"] not in ranks.values() and p["how"] != "launched")
    mt.note(f"beside {len(ranks)} ranks: {dict(helpers.most_common(6))}")
    mt.check(helpers["compile_worker"] >= 4 and helpers["g++"] + helpers["cc1plus"] >= 2, f"not what is tested: {helpers}")
    found = [(r["rank"], r["pid"], r["processes"]) for r in k["list"]]
    mt.check({rank: pid for rank, pid, _ in found} == ranks and len(found) == 2 and k["jobs"] == 1, f"{found}, said {ranks}")
    mt.check(sum(cnt for _, _, cnt in found) == len(ranks) + sum(helpers.values()), f"{found}: {helpers}")
    rows = [int(line.split()[0]) for line in text.split("Processes\n")[1].splitlines()[1:1 + len(ranks)]]
    mt.check(sorted(rows) == sorted(ranks.values()), f"ranks come first: {text}")
    check_sums(rep, k)


def test_attached_launcher():
    """-p of torchrun: the ranks that run already are found, and their steps are brought together."""
    with mt.scratch() as tmp, mt.Proc(torchrun(4, "ranks", "--steps", 60, "--pause", 0.05, "--hold", 12), env=env()) as job:
        mt.wait_until(lambda: sum("ready" in t for t in job.out) == 4, "four ranks", 90)
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_until(lambda: any("recording" in t for t in tracer.err), "memtrace to record", 60)
            mt.check(job.wait(120) == 0, "\n".join(job.err))
            mt.finish(tracer, tmp / "a.mtr", signal_number=0, timeout=60)
        rep, k = ranks_of(tmp / "a.mtr")
    mt.check([r["rank"] for r in k["list"]] == [0, 1, 2, 3] and k["world_size"] == 4, f"{k['list']}")
    mt.check(len(k["steps"]) >= 40, f"{len(k['steps'])} steps of all ranks")
    apart = sorted(s["begun_apart_ns"] for s in k["steps"])
    mt.check(apart[len(apart) // 2] < 50e6, f"steps begin {apart[len(apart) // 2] / 1e6} ms apart: not the same ones")
    check_sums(rep, k)


def test_attached_restart():
    """-p of torchrun, and then: a late child of rank 0, rank 1 is killed, and torchrun starts all four anew."""
    args = ("--steps", 20, "--pause", 0.05, "--hold", 8, "--late", "--die", 1, "--die-once")
    with mt.scratch() as tmp, mt.Proc(torchrun(4, "ranks", *args, launcher=("--standalone", "--max-restarts", "1")), env=env()) as job:
        mt.wait_until(lambda: sum("ready" in t for t in job.out) == 4, "four ranks", 90)
        with mt.start("record", "-p", str(job.pid), "-o", str(tmp / "a.mtr")) as tracer:
            mt.wait_until(lambda: any("recording" in t for t in tracer.err), "memtrace to record", 60)
            mt.check(job.wait(130) == 0, "\n".join(job.err))
            mt.finish(tracer, tmp / "a.mtr", signal_number=0, timeout=60)
        rep, k = ranks_of(tmp / "a.mtr")
        events = mt.export(tmp / "a.mtr")
    said = [json.loads(t[t.index("{"):]) for t in job.out if "{" in t]
    ready = {rank: [o["ready"] for o in said if "ready" in o and o["rank"] == rank] for rank in range(4)}
    ended = {o["rank"]: o["pid"] for o in said if "workers" in o}
    mt.check(all(len(pids) == 2 and ended[rank] == pids[1] for rank, pids in ready.items()), f"started {ready}, ended {ended}")
    mt.check({r["rank"]: r["pid"] for r in k["list"]} == ended and k["jobs"] == 1, f"{k['list']}")
    procs = {p["pid"]: p for p in rep["processes"]}
    mt.check(all(procs[pid]["rank"]["rank"] == rank for rank, pids in ready.items() for pid in pids), "whose is it")
    late = [p for p in procs.values() if p.get("rank", {}).get("rank") == 0 and p["pid"] not in ready[0]]
    made = {e["pid"] for e in events if e["ev"] == "create" and e["size"] == 1 << 20}
    mt.check(any(p["ppid"] == ended[0] and p["pid"] in made for p in late), f"of the late children {late} none made its tensor")
    mt.check(all(r["state"] == "exited 0" and r["steps_total"] >= 25 for r in k["list"]), f"{k['list']}")
    check_sums(rep, k)


def test_two_jobs_at_once():
    """A shell starts two jobs of two ranks each, none of which has a name, under a shell for each rank. They take their steps together."""
    with mt.scratch() as tmp:
        go = tmp / "go"
        jobs = [f"{TORCHRUN} --nproc-per-node 2 --master-port {test_fleet.test_serve.free_port()} --no-python /bin/sh -c '{mt.PYTHON} {mt.JOBS / 'ranks.py'} "
                f"--steps 8 --pause 0.1 --go {go} {more}; exit $?' &" for more in ("", "--heavy 1")]
        record_when_ready(tmp / "a.mtr", go, 4, ["/bin/sh", "-c", " ".join(jobs) + " wait"])
        rep, k = ranks_of(tmp / "a.mtr")
        text = mt.ok(mt.memtrace("report", tmp / "a.mtr", "--by", "rank")).stdout
        held = json.loads(mt.ok(mt.memtrace("report", tmp / "a.mtr", "--at", "peak", "--json")).stdout)
    mt.check(k["jobs"] == 2 and sorted(r["rank"] for r in k["list"]) == [0, 0, 1, 1], f"{k['list']}")
    mt.check(len({r["job"] for r in k["list"]}) == 2, f"{k['list']}")
    mt.check(all(r["steps_total"] == 8 and r["processes"] == 2 for r in k["list"]), f"{k['list']}")
    mt.check(len(k["outliers"]) == 1 and k["outliers"][0]["rank"] == 1, f"{k['outliers']}")
    ranks = {row["name"]: row["bytes"] for row in held["by"]["rank"]}
    mt.check(set(ranks) == {f"rank {r['rank']} {r['job']}" for r in k["list"]} and sum(ranks.values()) == held["moment"]["bytes"], f"{ranks} {held['moment']}")
    mt.check("2 jobs, told apart by where their ranks meet" in text, text)
    check_sums(rep, k)


def test_recorded_apart():
    """A recording a rank, merged: one clock, because it is one boot; the third rank is missed."""
    with mt.scratch() as tmp, mt.Proc(torchrun(3, "ranks", "--steps", 30, "--pause", 0.05, "--hold", 15), env=env()) as job:
        mt.wait_until(lambda: sum("ready" in t for t in job.out) == 3, "three ranks", 90)
        pids = {o["rank"]: o["ready"] for o in (json.loads(t[t.index("{"):]) for t in job.out if "ready" in t)}
        tracers = [mt.start("record", "-p", str(pids[r]), "-o", str(tmp / f"{r}.mtr")) for r in (0, 1)]
        for tracer in tracers:
            mt.wait_until(lambda t=tracer: any("recording" in line for line in t.err), "memtrace to record", 60)
        mt.check(job.wait(120) == 0, "\n".join(job.err))
        for rank, tracer in enumerate(tracers):
            mt.finish(tracer, tmp / f"{rank}.mtr", signal_number=0, timeout=60)
        done = mt.ok(mt.memtrace("merge", tmp / "0.mtr", tmp / "1.mtr", "-o", tmp / "all.mtr"))
        mt.check("same boot" in done.stderr and "1 of 3 ranks are in none of the files: 2" in done.stderr, done.stderr)
        rep, k = ranks_of(tmp / "all.mtr")
        alone = [mt.report(tmp / f"{r}.mtr") for r in (0, 1)]
    mt.check({r["rank"]: r["pid"] for r in k["list"]} == {r: pids[r] for r in (0, 1)} and k["missing"] == [2], f"{k['missing']}")
    for row, one in zip(k["list"], alone):
        mt.check(row["peak"] == one["devices"]["cpu"]["peak"], "a rank's peak is not that of its own recording")
    for kind in ("alloc", "free", "op"):
        mt.check(rep["events"][kind] == sum(a["events"][kind] for a in alone), f"{kind}: {rep['events'][kind]}")
    mt.check(len(k["steps"]) >= 20 and max(s["begun_apart_ns"] for s in k["steps"]) < 500e6, f"{k['steps'][:3]}")
    check_sums(rep, k)


def test_dead_rank():
    """One of four ranks is killed in mid-step: said so, and the numbers of the others stand."""
    with mt.scratch() as tmp:
        record(tmp / "a.mtr", 4, "ranks", "--die", 1, "--steps", 10, codes=(0, 1))
        rep, k = ranks_of(tmp / "a.mtr")
        text = mt.ok(mt.memtrace("report", tmp / "a.mtr", "--by", "rank")).stdout
    states = {r["rank"]: r["state"] for r in k["list"]}
    mt.check(states[1] == "signal 9" and k["died"] >= 1 and "signal 9" in text, f"{states}")
    mt.check([r["rank"] for r in k["list"]] == [0, 1, 2, 3] and all(r["peak"] > 0 for r in k["list"]), "a rank without a peak")
    mt.check(len(k["steps"]) >= 4, f"{len(k['steps'])} steps of all")
    check_sums(rep, k)


def test_restarted_ranks():
    """Elastic: rank 1 is killed, torchrun starts all anew. The new processes are the same ranks."""
    with mt.scratch() as tmp:
        said = [o for o in record(tmp / "a.mtr", 2, "ranks", "--die", 1, "--die-once", "--steps", 10,
                                  launcher=("--standalone", "--max-restarts", "1")) if "ready" in o or "pid" in o]
        rep, k = ranks_of(tmp / "a.mtr")
    ready = {rank: [o["ready"] for o in said if o.get("ready") and o["rank"] == rank] for rank in (0, 1)}
    ended = {o["rank"]: o["pid"] for o in said if "pid" in o}
    mt.check(all(len(pids) == 2 and ended[rank] == pids[1] for rank, pids in ready.items()), f"started {ready}, ended {ended}")
    mt.check({r["rank"]: r["pid"] for r in k["list"]} == ended, f"{k['list']}")
    mt.check(all(r["state"] == "exited 0" and r["steps_total"] >= 10 for r in k["list"]), f"{k['list']}")
    procs = {p["pid"]: p for p in rep["processes"]}
    mt.check(all(procs[pid]["rank"]["rank"] == rank for rank, pids in ready.items() for pid in pids), "whose is it")
    mt.check(k["count"] == 2 and not k["missing"], f"{k['count']} ranks")
    check_sums(rep, k)


def test_without_ranks():
    """A recording of no rank is told so, and not shown as an empty table."""
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("record", "-q", "-o", tmp / "a.mtr", "--probes", "kernel", "--", "/bin/true",
                          env={"PATH": os.environ["PATH"]}))
        mt.expect_failure(mt.memtrace("report", tmp / "a.mtr", "--by", "rank"), 1, "no process", "rank", "--by process")


# --- the page ---------------------------------------------------------------------------------------------------

def test_page():
    """Small multiples: a figure a rank on the HTML page, the heavy one marked and named; how far they are apart by step."""
    pages.need_library()
    with mt.scratch() as tmp:
        mt.ok(mt.memtrace("merge", *test_fleet.fleet(tmp, 6, 4), "-o", tmp / "all.mtr"))
        text = mt.ok(mt.memtrace("report", tmp / "all.mtr", "--by", "rank", "--top", 2)).stdout
        shown = re.findall(r"^  (\d+) .* exited 0", text, re.M)
        mt.check(shown == ["0", "4"], f"of six ranks two have room: the heavy one and the median one, not {shown}")
        mt.ok(mt.memtrace("export", tmp / "all.mtr", "--to", "html", "-o", tmp / "all.html"))
        with browser.open(tmp / "all.html") as page:
            figures = page.js("[...document.querySelectorAll('#ranks .ranks figure')].map(f => [f.className, f.textContent])")
            mt.check([i for i, (c, _) in enumerate(figures) if c == "out"] == [4] and len(figures) == 6, f"{figures}")
            mt.check("Rank 4 stands out" in pages.text_of(page, "#ranks"), "the outlier is not named")
            head, *rows = page.js("[...document.querySelectorAll('#ranks .peaks tr')].map(r => [...r.children].map(c => c.textContent))")
            mt.check(head[1] == "rank 4" and any(row[0] == "OPTIMIZER_STATE" for row in rows), f"{head} {rows}")
            steps = json.loads(mt.ok(mt.memtrace("report", tmp / "all.mtr", "--by", "rank", "--json")).stdout)["ranks"]["steps"]
            far = max(steps, key=lambda s: s["max"] - s["min"])
            box = page.js("(b => [b.left, b.top, b.width])((document.querySelector('.imbalance').scrollIntoView(), "
                          "document.querySelector('.imbalance svg').getBoundingClientRect()))")
            mt.check(f"The most: step {far['number']}:" in pages.text_of(page, ".imbalance"), f"{far}")
            page.click(box[0] + box[2] * 9.5 / len(steps), box[1] + 20)
            said = pages.text_of(page, ".imbalance .at")
            mt.check(said.startswith(f"step {steps[9]['number']}: lowest") and "(rank 4)" in said, said)
            alike = "[1, 2].map((number) => ({number, min: 9, median: 9, max: 9, max_rank: 0}))"
            page.js(f"document.body.append(...imbalanceFigure({{steps: {alike}, count: 2, jobs: 1}}))")
            paths = page.js("[...document.querySelectorAll('body > .imbalance path')].map(p => p.getAttribute('d'))")
            mt.check(len(paths) == 2 and not any("NaN" in d for d in paths), f"ranks that are alike to the byte: {paths}")
            pages.clean(page)


# --- DDP, and FSDP as it was before fully_shard ------------------------------------------------------------------

def record_wrapped(tmp, how):
    said = {o["rank"]: o["parameters"] for o in record(tmp / "a.mtr", 2, "wrapped", how)}
    rep, k = ranks_of(tmp / "a.mtr", extra=("--classes", "extended"))
    check_sums(rep, k)
    mt.check(all(row["steps_total"] == 10 for row in k["list"]), f"{k['list']}")
    for row in k["list"]:
        state = row["categories"]["OPTIMIZER_STATE"]["at_peak"]
        mt.check(0 <= state - 2 * said[row["rank"]] < 1024, f"state {state}, parameters of the rank {said[row['rank']]}")
    return k, said


def test_ddp():
    """Buckets are COMMUNICATION from the second step on: as many bytes as the parameters."""
    with mt.scratch() as tmp:
        k, said = record_wrapped(tmp, "ddp")
        made = [e for e in mt.export(tmp / "a.mtr", ("--classes", "extended")) if e["ev"] in ("create", "version")]
    mt.check(not k["outliers"], f"{k['outliers']}")
    for row in k["list"]:
        mt.check(row["categories"]["PARAMETER"]["at_peak"] == said[row["rank"]], f"{row}")
        buckets = {e["id"] for e in made if e["pid"] == row["pid"] and e["cat"] == "COMMUNICATION"}
        size = sum(e["size"] for e in made if e["ev"] == "create" and e["id"] in buckets)
        mt.check(size == said[row["rank"]], f"buckets {size}, parameters {said[row['rank']]}")


def test_fsdp1():
    """FullyShardedDataParallel: a rank's state is twice its flat shards; what is gathered is a parameter while it is there."""
    with mt.scratch() as tmp:
        k, said = record_wrapped(tmp, "fsdp1")
    for row in k["list"]:
        parameters = row["categories"]["PARAMETER"]["at_peak"]
        mt.check(said[row["rank"]] <= parameters <= 3 * said[row["rank"]], f"{parameters} of {said[row['rank']]}")


# --- FSDP: the seed's test ------------------------------------------------------------------------------------

class Measured:
    """One rank's CPU bytes at its marks: current, without what gloo holds for itself, as its thread lets go of that at any time;
    the highest since "base" or the last "reset", with and without that; and by class since "base"."""

    def __init__(self, events, pid):
        self.current, self.peak, self.classes = {}, {}, {}
        self.without = {}  # gloo's: the highest, and how much of it is outputs of all-gathers
        self.pid, self.base, self.gathers = pid, set(), False
        blocks, sums, peak, without = {}, {"all": 0, "gloo": 0, "output": 0}, 0, (0, 0)
        for e in events:
            if e.get("pid") != pid:
                continue
            if e["ev"] in ("create", "preexisting") and e["dev"] == "cpu" and e["size"] is not None:
                blocks[e["id"]] = [e["size"], e["cat"], self.whose(e)]
                for key in ("all", blocks[e["id"]][2]):
                    sums[key] = sums.get(key, 0) + e["size"]
                peak = max(peak, sums["all"])
                without = max(without, (sums["all"] - sums["gloo"], sums["output"]))
            elif e["ev"] == "version" and e["id"] in blocks:
                blocks[e["id"]][1] = e["cat"]
            elif e["ev"] == "destroy" and e["id"] in blocks:
                size, _, whose = blocks.pop(e["id"])
                for key in ("all", whose):
                    sums[key] -= size
            elif e["ev"] == "region":
                self.gathers = e["region"].split(" ")[0] == "FSDP::all_gather"
                if e["region"].startswith("mark "):
                    name = e["region"][5:]
                    self.current[name], self.peak[name], self.without[name] = sums["all"] - sums["gloo"], peak, without
                    self.at_mark(name, blocks)
                    if name in ("base", "reset"):
                        peak, without = sums["all"], (sums["all"] - sums["gloo"], sums["output"])

    def whose(self, e):
        """FSDP makes one block for an all-gather, the output, and two for a reduce-scatter. gloo makes one as large as the
        output, first to know its shape, then in its own thread to fill it, and clones the input that it reduces."""
        region, first = (e.get("region") or "").split(" ")[0], self.gathers
        if e.get("tid") != self.pid or (region == "FSDP::post_backward_reduce" and e.get("op") == "aten::clone"):
            return "gloo"
        self.gathers = False
        return "other" if region != "FSDP::all_gather" else "output" if first else "gloo"

    def at_mark(self, name, blocks):
        if name == "base":
            self.base = set(blocks)
        sums = self.classes[name] = {}
        for id_, (size, cat, _) in blocks.items():
            if id_ not in self.base:
                sums[cat] = sums.get(cat, 0) + size


def check_peak(job, m, stage, bound, where, held):
    """The bytes, and which of them are gloo's, were held against the counting allocator's before. gloo has at most one block's
    all-gather for itself (or its like, the clone of what is reduced), and the root's, which its thread may let go of late. Beside
    that the seed's bound holds; `held`: FSDP holds on to the output of the block before while it copies this one's, and is over
    by no more."""
    seen, outputs = m.without[stage]
    seen -= m.current["base"]
    gloos = m.peak[stage] - m.without[stage][0]
    mt.check(gloos <= job["gathered"] + job["gathered_root"], f"{where}: gloo's {gloos}, {job}")
    if stage not in held:
        mt.check(seen <= bound, f"{where}: {seen} above the base, the seed expects at most {bound}")
        return
    mt.check(bound < seen <= bound + job["gathered"], f"{where}: {seen} above the base, expected {bound} to one block more")
    mt.check(outputs == 2 * job["gathered"], f"{where}: {outputs} in outputs of all-gathers, not in two")


def counting_allocator(folder):
    """jobs/counted.cpp, built for the Python with torch."""
    torch = pathlib.Path(subprocess.run([mt.PYTHON, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True,
                                        check=True).stdout.strip())
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O1", "-g1", "-shared", "-fPIC", "-isystem", torch / "include",
                    mt.JOBS / "counted.cpp", f"-L{torch}/lib", "-lc10", "-o", folder / "counted.so"], check=True)
    return folder / "counted.so"


def fsdp(case, ranks, *args, held=()):
    with mt.scratch() as tmp:
        said = record(tmp / "a.mtr", ranks, "fsdp_memory", "--case", case, "--counted", counting_allocator(tmp), *args,
                      options=("--probes", "framework,flow,regions"))
        rep, k = ranks_of(tmp / "a.mtr", extra=("--classes", "extended"))
        events = mt.export(tmp / "a.mtr", ("--ops", "--classes", "extended"))
    mt.check(len(said) == ranks, f"{len(said)} ranks spoke")
    check_sums(rep, k)
    for job in said:
        m = Measured(events, job["pid"])
        seen = {name: [m.current[name], m.peak[name], m.without[name][0]] for name in job["counted"]}
        mt.check(seen == job["counted"], f"{case}, rank {job['rank']}: memtrace {seen}, the allocator {job['counted']}")
        for stage, bounds in job["expected"].items():
            where = f"{case}, rank {job['rank']} of {ranks}, {stage}"
            seen = m.current[stage] - m.current["base"]
            mt.check(seen <= bounds.get("current", seen), f"{where}: current {seen}, the seed expects at most {bounds}")
            if "peak" in bounds:
                check_peak(job, m, stage, bounds["peak"], where, held)
            if job["rank"] == 0:
                mt.note(f"{where}: current {seen}, peak {m.peak[stage] - m.current['base']}, without gloo's "
                        f"{m.without[stage][0] - m.current['base']}, at most {bounds}")
        for stage, bytes_ in job["reachable"].items():
            mt.check(m.current[stage] == bytes_, f"{case}, rank {job['rank']}, {stage}: memtrace {m.current[stage]}, the job {bytes_}")
        for stage, classes in job["classes"].items():
            seen = {name: m.classes[stage].get(name, 0) for name in classes}
            mt.check(seen == classes, f"{case}, rank {job['rank']}, {stage}: memtrace {seen}, by the model {classes}")
    return k, said


def test_fsdp_reshard():
    k, _ = fsdp("reshard", 2)
    for row in k["list"]:
        mt.check(row["categories"]["COMMUNICATION"]["byte_ns"] > 0, "nothing was gathered")
    mt.check(not k["outliers"], f"{k['outliers']}")


def test_fsdp_no_reshard():
    fsdp("no_reshard", 2, held=("forward",))


def test_fsdp_freed_early():
    """The same with the local name cleared that holds it: the seed's bounds hold as they are."""
    fsdp("no_reshard", 2, "--free-early")


def test_fsdp_optimizer_in_backward():
    fsdp("optim_in_backward", 2)


def test_fsdp_offload():
    """The offload policy without a GPU: what is offloaded lies in the same memory, so the bounds are those without it."""
    fsdp("offload", 2, "--dim", 384)


def test_fsdp_deleted():
    fsdp("delete", 2)


def test_fsdp_four_ranks():
    for case in ("reshard", "no_reshard"):
        fsdp(case, 4, "--dim", 384)
