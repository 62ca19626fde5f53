# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Recordings to Parquet, and the questions that a fleet is asked (docs/ranks.md).

    python -m memtrace.parquet -o DIR *.mtr            DIR/ranks.parquet, categories, steps, series, ops
    python -m memtrace.parquet --query worst_rank DIR  a ready query (queries/*.sql), by DuckDB; without a name: lists them

Each recording is replayed by `memtrace report --json --by rank` (--memtrace says which program), so the numbers are those of the report.
One that cannot be read, or has no rank, is named on stderr and left out; the exit code is 1 then. --events also writes each
file's births and frees (`export --to csv`) to DIR/events/FILE.parquet: many rows.

Needs pyarrow, and duckdb for --query: tools/make-venv parquet. Nothing else of memtrace's Python is imported.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

QUERIES = pathlib.Path(__file__).parent / "queries"
MEMTRACE = os.environ.get("MEMTRACE", "memtrace")

KEYS = (("recording", "string"), ("job", "string"), ("rank", "int32"))
TABLES = {
    "ranks": KEYS + (("local_rank", "int32"), ("world_size", "int32"), ("node_rank", "int32"), ("host", "string"),
                     ("machine", "int32"), ("pid", "int64"), ("processes", "int32"), ("state", "string"), ("live", "int64"),
                     ("peak", "int64"), ("peak_ns", "int64"), ("rss_peak", "int64"), ("steps_total", "int64"),
                     ("memory", "string"), ("start_ns", "int64"), ("duration_ns", "int64"), ("lost", "int64")),
    "categories": KEYS + (("category", "string"), ("live", "int64"), ("at_peak", "int64"), ("byte_ns", "float64")),
    "steps": KEYS + (("number", "int64"), ("ns", "int64"), ("peak", "int64")),
    "series": KEYS + (("ns", "int64"), ("bucket_ns", "int64"), ("live_max", "int64")),
    "ops": (("recording", "string"), ("op", "string"), ("count", "int64"), ("alloc_bytes", "int64"), ("alloc_count", "int64"),
            ("live", "int64"), ("at_peak", "int64")),
}
SIGNED_MAX = (1 << 63) - 1


class Failed(Exception):
    """What is wrong with one file, for people."""


def run(memtrace, *args):
    done = subprocess.run([memtrace, *args], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 3):  # 3: events were lost, the report says how many
        raise Failed(done.stderr.decode(errors="replace").strip().split("\n")[0] or f"exit {done.returncode}")
    return done.stdout


def rows_of(report, name):
    """{table: [row, …]} of one report; a row is in the order of TABLES."""
    k, rows = report["ranks"], {table: [] for table in TABLES}
    lost = sum(report["lost"].values())
    for r in k["list"]:
        key = (name, r.get("job", ""), r["rank"])
        rows["ranks"].append(key + (
            r.get("local_rank"), r.get("world_size"), r.get("node_rank"), r["host"], r["machine"], r["pid"], r["processes"],
            r["state"], r["live"], r["peak"], r["peak_ns"], r["rss_peak"], r["steps_total"], k["memory"], report["start_ns"],
            report["duration_ns"], lost))
        for category, c in r["categories"].items():
            rows["categories"].append(key + (category, c["live"], c["at_peak"], float(c["byte_ns"])))
        for s in r["steps"]:
            rows["steps"].append(key + (min(s["number"], SIGNED_MAX), s["ns"], s["peak"]))
        width, begin = k["over_time"]["bucket_ns"], k["over_time"]["from_ns"]
        for i, live in enumerate(r["series"]):
            rows["series"].append(key + (begin + i * width, width, live))
    for op in report["ops"]:
        rows["ops"].append((name, op["name"], op["count"], op["alloc_bytes"], op["alloc_count"], op["live"], op["at_peak"]))
    return rows


class Writer:
    """Tables that grow by row groups; each is whole when it is closed."""

    GROUP = 1 << 17  # rows

    def __init__(self, folder):
        import pyarrow
        import pyarrow.parquet

        self.arrow, self.parquet, self.folder = pyarrow, pyarrow.parquet, folder
        self.schemas = {t: pyarrow.schema([(n, getattr(pyarrow, k)()) for n, k in columns]) for t, columns in TABLES.items()}
        self.out = {t: pyarrow.parquet.ParquetWriter(folder / f"{t}.parquet", s, compression="zstd")
                    for t, s in self.schemas.items()}
        self.rows = {t: [] for t in TABLES}
        self.counts = dict.fromkeys(TABLES, 0)

    def add(self, rows):
        for table, new in rows.items():
            self.rows[table] += new
            if len(self.rows[table]) >= self.GROUP:
                self.flush(table)

    def flush(self, table):
        rows, schema = self.rows[table], self.schemas[table]
        if not rows:
            return
        columns = [self.arrow.array(c, f.type) for c, f in zip(zip(*rows), schema)]
        self.out[table].write_table(self.arrow.Table.from_arrays(columns, schema=schema))
        self.counts[table] += len(rows)
        self.rows[table] = []

    def close(self):
        for table in TABLES:
            self.flush(table)
            self.out[table].close()


def with_names(batch):
    """csv puts a ' before names that a spreadsheet would take for formulas (docs/export.md)."""
    import pyarrow
    import pyarrow.compute

    columns = [pyarrow.compute.replace_substring_regex(c, pattern="^'", replacement="") if pyarrow.types.is_string(c.type) else c
               for c in batch.columns]
    return pyarrow.RecordBatch.from_arrays(columns, schema=batch.schema)


# Of csv's columns (docs/export.md); the others are texts. Not left to a guess from the first rows: modules are often
# called 0, 2, 4, and are not known before Python was looked at.
NUMBERS = {"t", "size", "id", "version", "tid", "pid", "step", "depth"}


def write_events(memtrace, path, folder):
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    with tempfile.NamedTemporaryFile(suffix=".csv") as f:
        run(memtrace, "export", "-q", "--no-config", path, "--to", "csv", "--force", "-o", f.name)
        with open(f.name, encoding="utf-8") as head:
            types = {name: pyarrow.int64() if name in NUMBERS else pyarrow.string() for name in head.readline().strip().split(",")}
        with pyarrow.csv.open_csv(f.name, convert_options=pyarrow.csv.ConvertOptions(column_types=types)) as reader:
            with pyarrow.parquet.ParquetWriter(folder / f"{pathlib.Path(path).stem}.parquet", reader.schema,
                                               compression="zstd") as out:
                for batch in reader:
                    out.write_batch(with_names(batch))


def convert(paths, folder, memtrace=MEMTRACE, jobs=None, events=False):
    """Writes the tables; returns ({table: rows}, {path: what is wrong with it})."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if events:
        (folder / "events").mkdir(exist_ok=True)

    def read(path):
        try:
            rows = rows_of(json.loads(run(memtrace, "report", "-q", "--no-config", path, "--json", "--by", "rank")), os.path.basename(path))
            if events:
                write_events(memtrace, path, folder / "events")
            return rows
        except (Failed, OSError, ValueError, KeyError) as e:
            return Failed(str(e))

    writer, failed = Writer(folder), {}
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        for path, rows in zip(paths, pool.map(read, paths)):
            if isinstance(rows, Failed):
                failed[path] = str(rows)
            else:
                writer.add(rows)
    writer.close()
    return writer.counts, failed


def query(folder, name):
    """(column names, rows)"""
    import duckdb

    with duckdb.connect() as db:
        for table in TABLES:
            path = str(pathlib.Path(folder) / f"{table}.parquet").replace("'", "''")
            db.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{path}')")
        found = db.execute((QUERIES / f"{name}.sql").read_text())
        return [d[0] for d in found.description], found.fetchall()


def show(columns, rows):
    text = [columns] + [["" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    widths = [max(map(len, c)) for c in zip(*text)]
    for line in text:
        print("  ".join(v.rjust(w) for v, w in zip(line, widths)))


def main(argv=None):
    p = argparse.ArgumentParser(prog="python -m memtrace.parquet", description=__doc__.split("\n", 1)[0])
    p.add_argument("paths", nargs="*", metavar="FILE.mtr", help="recordings; with --query the folder of the tables")
    p.add_argument("-o", "--output", metavar="DIR", help="folder for the tables")
    p.add_argument("--query", nargs="?", const="", metavar="NAME", help="run a ready query; without a name lists them")
    p.add_argument("--events", action="store_true", help="births and frees, too: DIR/events/FILE.parquet")
    p.add_argument("--memtrace", default=MEMTRACE, metavar="PATH", help="the program (default: memtrace of PATH, or $MEMTRACE)")
    p.add_argument("-j", "--jobs", type=int, help="recordings that are read at once (default: one a core)")
    args = p.parse_args(argv)

    names = sorted(q.stem for q in QUERIES.glob("*.sql"))
    if args.query is not None:
        if args.query not in names or len(args.paths) != 1:
            print("\n".join(f"{n}: " + (QUERIES / f"{n}.sql").read_text().split("\n")[1].lstrip("- ") for n in names))
            return 0 if not args.query else p.error("--query NAME DIR, with a name of this list")
        begin = time.monotonic()
        show(*query(args.paths[0], args.query))
        print(f"{time.monotonic() - begin:.3f} s", file=sys.stderr)
        return 0
    if not args.output or not args.paths:
        p.error("which recordings, and where to? -o DIR FILE.mtr…")
    begin = time.monotonic()
    counts, failed = convert(args.paths, args.output, args.memtrace, args.jobs, args.events)
    for path, why in failed.items():
        print(f"memtrace.parquet: {path}: {why}", file=sys.stderr)
    print(f"{len(args.paths) - len(failed)} of {len(args.paths)} recordings in {time.monotonic() - begin:.1f} s: "
          + ", ".join(f"{n} {t}" for t, n in counts.items()), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # a reader such as head has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
