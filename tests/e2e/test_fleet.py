# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""More ranks than a machine has: Prometheus above Prometheus for now, Parquet and DuckDB for then (docs/ranks.md)."""
import contextlib
import functools
import http.server
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time

import grown
import mt
import test_serve

SLOW = {"thousand_ranks", "hundred_ranks_in_windows", "sites"}
LANDING = {"parquet"}
# Recordings made and replayed, of which others take their part of the CPU: 90 s of it for a thousand; for a hundred in windows some 20,
# each event goes through two models, for JSON and again for text
TIMEOUT_S = {"thousand_ranks": 600, "hundred_ranks_in_windows": 300}


def env():
    return dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")


# --- its present -------------------------------------------------------------------------------------------------

class Simulated(http.server.ThreadingHTTPServer):
    """A machine that is not there: what a real `memtrace serve` said, as that of another rank, with `times` the bytes."""

    def __init__(self, text, rank, times):
        text = re.sub(r'rank="\d+"', f'rank="{rank}"', text)
        if times != 1:
            text = re.sub(r"^(memtrace_\w*bytes\{.*\}) (\d+)$", lambda m: f"{m[1]} {int(m[2]) * times}", text, flags=re.M)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", test_serve.TEXT)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.text = text
        self.peak = max(int(float(v)) for v in re.findall(r'^memtrace_process_peak_bytes\{.*\} (\S+)$', text, re.M))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def test_sites():
    """Two sites with a Prometheus each, a third one above: it takes the first site's series by federation, the second site's by
    remote write. Ranks 0 and 1 are jobs, 2 to 7 what a job's memtrace said, rank 5 of twice its bytes."""
    test_serve.need_prometheus()
    with mt.scratch() as tmp, contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(mt.job("mlp", wrapper=("env", f"RANK={i}", "WORLD_SIZE=8"))) for i in (0, 1)]
        real = [stack.enter_context(test_serve.serving(j.pid)) for j in jobs]
        for s in real:
            mt.wait_until(lambda s=s: s.metrics()["memtrace_steps_total",] > 0, "steps", 20, 0.3)
        text = real[0].ask(headers={"Accept": "text/plain"})[2]
        fake = {rank: stack.enter_context(Simulated(text, rank, 2 if rank == 5 else 1)) for rank in range(2, 8)}
        above = stack.enter_context(test_serve.Prometheus(tmp / "above", [f"127.0.0.1:{(port := test_serve.free_port())}"], sites=True))
        first = [f"127.0.0.1:{s.port}" for s in real] + [f"127.0.0.1:{fake[r].server_port}" for r in (2, 3)]
        stack.enter_context(test_serve.Prometheus(tmp / "a", first, site="a", port=port))
        second = [f"127.0.0.1:{fake[r].server_port}" for r in (4, 5, 6, 7)]
        stack.enter_context(test_serve.Prometheus(tmp / "b", second, site="b", write_to=above.port))

        peaks = "job_rank:memtrace_process_peak_bytes:max"
        ranks = lambda: {(r["metric"]["site"], int(r["metric"]["rank"])) for r in above.query(peaks)}  # noqa: E731
        wanted = {("a", r) for r in range(4)} | {("b", r) for r in range(4, 8)}
        mt.wait_until(lambda: ranks() == wanted, "every rank of both sites", 60, 0.5)
        for rank, endpoint in fake.items():
            got = above.value(f'{peaks}{{rank="{rank}"}}')
            mt.check(got == endpoint.peak, f"rank {rank}: {got} above the sites, {endpoint.peak} at its endpoint")

        def agrees(rank):  # it may still be rising
            served = max(v for k, v in real[rank].metrics().items() if k[0] == "memtrace_process_peak_bytes")
            return above.value(f'{peaks}{{rank="{rank}"}}') == served

        for rank in (0, 1):
            mt.wait_until(lambda r=rank: agrees(r), f"rank {rank}'s peak to be what it serves", 30, 0.5)
        mt.wait_until(lambda: [r["value"][1] for r in above.query("fleet:memtrace_ranks:count")] == ["8"], "eight ranks", 30, 0.5)
        ratio = "fleet_rank:memtrace_rank_peak_to_median:ratio"
        worst = mt.wait_until(lambda: above.query(f"topk(1, {ratio}) > 1.2"), "a worst rank", 30, 0.5)
        mt.check(worst[0]["metric"]["rank"] == "5" and worst[0]["metric"]["site"] == "b", f"{worst}")
        raised = mt.wait_until(lambda: [a for a in above.api("alerts")["alerts"]
                                        if a["labels"]["alertname"] == "MemtraceFleetRankStandsOut"], "the alert", 30, 0.5)
        mt.check([a["labels"]["rank"] for a in raised] == ["5"], f"{raised}")
        raw = above.query('{__name__=~"memtrace_.*"}')
        mt.check(not raw, f"{len(raw)} series that were not asked for")
        told = above.query('{__name__=~"job.*:memtrace_.*"}')
        mt.note(f"{len(told)} series above the sites, of 8 ranks; the endpoints have {len(text.splitlines()) - text.count('# ')} each")

        real[0].proc.close()  # its site sees the endpoint go, and says so to the one above
        mt.wait_until(lambda: [r["value"][1] for r in above.query("fleet:memtrace_ranks:count")] == ["7"], "a rank to be missed", 60, 0.5)


# --- a fleet's history -------------------------------------------------------------------------------------------

def parquet_python():
    """A Python with pyarrow and duckdb: that of the tests, or MT_PARQUET_PYTHON."""
    for python in (os.environ.get("MT_PARQUET_PYTHON"), mt.PYTHON):
        if python and not subprocess.run([python, "-c", "import pyarrow, duckdb"], capture_output=True, check=False).returncode:
            return python
    raise mt.Skip("no pyarrow and duckdb: tools/make-venv parquet")


@functools.cache
def one_rank():
    """A recording of a job of one rank, for all tests of this file."""
    one_rank.keep = tempfile.TemporaryDirectory(prefix="mt-e2e-fleet-")  # removed when the runner ends
    path = pathlib.Path(one_rank.keep.name) / "one.mtr"
    job = ("env", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1", mt.PYTHON, str(mt.JOBS / "mlp.py"), "--steps", "30")
    mt.ok(mt.memtrace("record", "-q", "-o", path, "--", *job, env=env()))
    return path


def fleet(tmp, count, heavy, name="fleet"):
    """count recordings made of one, in tmp/NAME."""
    mt.need_root()
    make = mt.make("build/tests/gen_ranks")
    mt.check(make.returncode == 0, make.stderr)
    (tmp / name).mkdir()
    subprocess.run([mt.BUILD / "tests" / "gen_ranks", one_rank(), str(count), tmp / name, str(heavy)], check=True)
    return sorted((tmp / name).iterdir())


def test_align():
    """A rank and one of another machine, which made the same steps by a clock that is 7.919 s ahead: brought together by those steps,
    and left as the clocks say with --align clock."""
    with mt.scratch() as tmp:
        files = fleet(tmp, 9, 4)
        for how, apart_ns in (((), 0), (("--align", "steps"), 0), (("--align", "clock"), 7_919_000_000)):
            out = tmp / f"all{len(how)}{apart_ns}.mtr"
            text = mt.ok(mt.memtrace("merge", files[0], files[8], "-o", out, *how)).stderr
            ranks = json.loads(mt.ok(mt.memtrace("report", out, "--by", "rank", "--json")).stdout)["ranks"]
            first, second = ranks["list"]
            got = second["peak_ns"] - first["peak_ns"]
            mt.check(abs(got - apart_ns) < 1_000_000, f"{how}: the same peak {got} ns apart, wanted {apart_ns}: {text}")
            mt.check(apart_ns or len(ranks["steps"]) >= 20, f"{how}: {len(ranks['steps'])} steps of both")
            mt.check("wall clock" in text if apart_ns else "rank-0008.mtr" in text and "7.919" in text, text)
    mt.expect_failure(mt.memtrace("merge", "a.mtr", "b.mtr", "-o", "c.mtr", "--align", "stars"), 2, "stars", "hint: ")


def test_diff_by_rank():
    """Rank 1 has blocks a quarter larger in B, rank 0 the same in both: its row alone has grown, by what the reports of both say."""
    with mt.scratch() as tmp:
        a, b = tmp / "a.mtr", tmp / "b.mtr"
        for out, heavy in ((a, 2), (b, 1)):
            mt.ok(mt.memtrace("merge", *fleet(tmp, 3, heavy, f"{heavy}")[:2], "-o", out))
        peaks = [{r["rank"]: r["peak"] for r in json.loads(mt.ok(mt.memtrace("report", path, "--by", "rank", "--json")).stdout)["ranks"]["list"]}
                 for path in (a, b)]
        doc = json.loads(mt.ok(mt.memtrace("diff", a, b, "--by", "rank", "--json")).stdout)
        text = mt.ok(mt.memtrace("diff", a, b, "--by", "rank")).stdout
    rows = {r["name"]: (r["a"]["at_peak"], r["b"]["at_peak"], r["change"]["at_peak"]) for r in doc["rows"]}
    want = {f"rank {n}": (peaks[0][n], peaks[1][n], peaks[1][n] - peaks[0][n]) for n in (0, 1)}
    mt.check(doc["by"] == "rank" and rows == want and doc["rows"][0]["name"] == "rank 1", f"{doc['rows']}, and not {want}")
    mt.check(want["rank 0"][2] == 0 and want["rank 1"][2] > peaks[0][1] / 5, f"{want}")
    mt.check(doc["summary"].startswith("The peak rose from "), doc["summary"])
    shown = re.findall(r"^  (rank \d) ", text, re.M)
    mt.check(shown == ["rank 1"] and text.startswith(doc["summary"].split(":")[0]), f"{text}")


def parquet(python, *args):
    return subprocess.run([python, "-m", "memtrace.parquet", *map(str, args)], capture_output=True, text=True,
                          env=dict(env(), PYTHONPATH=str(mt.ROOT / "tools" / "python"), MEMTRACE=mt.MEMTRACE),
                          stdin=subprocess.DEVNULL, check=False)


def test_parquet():
    python = parquet_python()
    with mt.scratch() as tmp:
        files = fleet(tmp, 12, 5)
        files[3].unlink()  # a rank that is missing
        files[9].write_bytes(b"no recording")
        done = parquet(python, "-o", tmp / "pq", "--events", *(f for f in files if f != files[3]))
        mt.check(done.returncode == 1 and "rank-0009.mtr" in done.stderr and "10 of 11 recordings" in done.stderr, done.stderr)
        rep = json.loads(mt.ok(mt.memtrace("report", files[0], "--json", "--by", "rank")).stdout)

        def ask(name):
            asked = parquet(python, "--query", name, tmp / "pq")
            mt.check(asked.returncode == 0, asked.stderr)
            return [line.split() for line in asked.stdout.splitlines()]

        worst = ask("worst_rank")
        mt.check(worst[1][0] == "5" or worst[1][1] == "5", f"the planted rank is not the worst: {worst[:3]}")
        outliers = ask("outliers")
        mt.check(len(outliers) == 2 and "5" in outliers[1][:2], f"{outliers}")
        missing = [row[0] if row[0].isdigit() else row[1] for row in ask("missing_ranks")[1:]]
        mt.check(missing == ["3", "9"], f"{missing}")
        for name in ("growth_per_step", "category_by_rank", "imbalance"):
            mt.check(len(ask(name)) > 1, f"{name}: nothing")
        script = (f"import pyarrow.parquet as p; t = p.read_table('{tmp}/pq/ranks.parquet').to_pylist(); "
                  f"e = p.read_table('{tmp}/pq/events/rank-0000.parquet'); "
                  "print([r['peak'] for r in t if r['rank'] == 0][0], e.num_rows)")
        peak, rows = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    mt.check(int(peak) == rep["ranks"]["list"][0]["peak"], f"{peak}, the report says {rep['ranks']['list'][0]['peak']}")
    mt.check(int(rows) >= rep["events"]["alloc"] + rep["events"]["free"], f"{rows} events")


def test_hundred_ranks_in_windows():
    """A rank a machine, all traced in the same windows, one of them heavier: which steps those are, of each and of all, and what they
    are made of."""
    with mt.scratch() as tmp:
        make = mt.make("build/tests/gen_ranks")
        mt.check(make.returncode == 0, make.stderr)
        with mt.job("mlp", wrapper=("env", "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1")) as job:
            # the first windows come before names are read
            grown.record(tmp / "one.mtr", job, lambda rep: sum(bool(w.get("step")) for w in rep.get("sampling", {}).get("traced", [])) >= 3,
                         "three windows of steps with a number", "--steps", "2", "--every", "3s", codes=(0, 3))
        (tmp / "fleet").mkdir()
        subprocess.run([mt.BUILD / "tests" / "gen_ranks", tmp / "one.mtr", "100", tmp / "fleet", "37", "1"], check=True)
        out = tmp / "all.mtr"
        mt.ok(mt.memtrace("merge", *sorted((tmp / "fleet").iterdir()), "-o", out, timeout=120), (0, 3))
        ranks = json.loads(mt.ok(mt.memtrace("report", out, "--by", "rank", "--json", timeout=120), (0, 3)).stdout)["ranks"]
        text = mt.ok(mt.memtrace("report", out, "--by", "rank", timeout=120), (0, 3)).stdout
        own = mt.report(tmp / "one.mtr", (0, 3))["sampling"]
    rows, wanted = ranks["list"], [(w.get("step"), w["steps"]) for w in own["traced"]]
    mt.note(f"{len(rows)} ranks, windows {wanted}: {next(line for line in text.splitlines() if 'windows a rank' in line).strip()}")
    known = sum(step is not None for step, _ in wanted)  # the first ones came before names were read
    mt.check(len(rows) == 100 and known >= 1, f"{len(rows)} ranks, {wanted}")
    mt.check(all([(w.get("step"), w["steps"]) for w in row["sampling"]["traced"]] == wanted for row in rows), "ranks have other windows")
    peaks = {row["rank"]: row["sampling"]["mean_step"]["devices"]["cpu"]["peak"] for row in rows}
    usual = sorted(peaks.values())[50]
    mt.check(1.15 < peaks[37] / usual < 1.35 and all(v == usual for rank, v in peaks.items() if rank != 37), f"{peaks}")
    same = ", ".join(str(step) for step, _ in wanted if step)  # six at most are said
    mt.check(known > 6 or f"{own['windows']} windows a rank; {known} of them {'has' if known == 1 else 'have'} the same steps of all ranks, from step {same} "
             in " ".join(text.split()) + " ", text[:3000])


def test_thousand_ranks():
    """Times are told, not asserted."""
    python = parquet_python()
    with mt.scratch() as tmp:
        files = fleet(tmp, 1000, 137)
        begin = time.monotonic()
        done = parquet(python, "-o", tmp / "pq", *files)
        mt.check(done.returncode == 0, done.stderr)
        mt.note(f"{done.stderr.strip()} ({time.monotonic() - begin:.1f} s with the start of Python)")
        for name in ("worst_rank", "outliers", "growth_per_step", "category_by_rank", "imbalance", "missing_ranks"):
            asked = parquet(python, "--query", name, tmp / "pq")
            mt.check(asked.returncode == 0, asked.stderr)
            mt.note(f"{name}: {asked.stderr.strip()}")
            if name == "outliers":
                mt.check(len(asked.stdout.splitlines()) == 2 and "node17" in asked.stdout, asked.stdout)
