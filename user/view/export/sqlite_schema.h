/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* sqlite_schema: the tables and views of an exported database; docs/export.md explains them. */
#ifndef MT_VIEW_EXPORT_SQLITE_SCHEMA_H
#define MT_VIEW_EXPORT_SQLITE_SCHEMA_H

#define SQLITE_SCHEMA_VERSION 1

static const char sqlite_tables[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value);"
	"CREATE TABLE names(id INTEGER PRIMARY KEY, text TEXT NOT NULL);"
	"CREATE TABLE categories(id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
	"CREATE TABLE devices(id INTEGER PRIMARY KEY, name TEXT NOT NULL, live INTEGER, peak INTEGER, peak_ns INTEGER,"
	" peak_event INTEGER, allocs INTEGER, frees INTEGER, ooms INTEGER);"
	"CREATE TABLE processes(pid INTEGER, ppid INTEGER, comm TEXT, cmdline TEXT, labels TEXT, live INTEGER, peak INTEGER,"
	" rss INTEGER, rss_peak INTEGER, gone INTEGER, exit_status INTEGER);"
	"CREATE TABLE process_use(t_ns INTEGER, pid INTEGER, private INTEGER, shared INTEGER);"
	"CREATE TABLE losses(reason TEXT PRIMARY KEY, count INTEGER);"
	"CREATE TABLE notes(text TEXT);"
	"CREATE TABLE blocks(id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, device INTEGER, ptr INTEGER, size INTEGER,"
	" category INTEGER, version INTEGER, op INTEGER, region INTEGER, preexisting INTEGER, born_ns INTEGER,"
	" freed_ns INTEGER, born_event INTEGER, freed_event INTEGER, module INTEGER, module_root INTEGER, phase TEXT);"
	"CREATE TABLE tensors(block INTEGER PRIMARY KEY, kind TEXT, name INTEGER, root INTEGER, state INTEGER, type INTEGER);"
	"CREATE TABLE events(id INTEGER PRIMARY KEY, t_ns INTEGER, kind TEXT, block INTEGER, size INTEGER, version INTEGER,"
	" category INTEGER, device INTEGER, pid INTEGER, tid INTEGER, name INTEGER);"
	"CREATE TABLE ops(name INTEGER PRIMARY KEY, count INTEGER);"
	"CREATE TABLE regions(pid INTEGER, tid INTEGER, kind TEXT, name INTEGER, begin_ns INTEGER, end_ns INTEGER);"
	"CREATE TABLE steps(pid INTEGER, number INTEGER, begin_ns INTEGER, end_ns INTEGER);"
	"CREATE TABLE marks(t_ns INTEGER, pid INTEGER, tid INTEGER, name TEXT, step INTEGER);"
	"CREATE TABLE compiles(begin_ns INTEGER, ns INTEGER, pid INTEGER, step INTEGER, again INTEGER, backward INTEGER,"
	" added INTEGER, compile_id TEXT, function TEXT, reason TEXT, failed TEXT);"
	"CREATE TABLE gaps(begin_ns INTEGER, end_ns INTEGER);"
	"CREATE TABLE learned(block INTEGER PRIMARY KEY, category INTEGER, op INTEGER, region INTEGER, module INTEGER,"
	" module_root INTEGER, phase TEXT);"
	"CREATE TABLE held(block INTEGER PRIMARY KEY, version INTEGER, category INTEGER, module TEXT);"
	"CREATE TABLE usage(t_ns INTEGER, pid INTEGER, device INTEGER, category INTEGER, bytes INTEGER);";

/* After the rows: an index that grows with them costs twice. */
static const char sqlite_views[] =
	"CREATE INDEX blocks_op ON blocks(op);"
	"CREATE INDEX blocks_freed ON blocks(freed_event);"
	"CREATE INDEX events_block ON events(block);"
	"CREATE INDEX usage_t ON usage(t_ns);"
	"CREATE VIEW block AS SELECT b.id, b.pid, b.tid, d.name AS device, printf('0x%x', b.ptr) AS ptr, b.size,"
	" c.name AS category, b.version, o.text AS op, r.text AS region, b.preexisting, b.born_ns, b.freed_ns,"
	" b.born_event <= d.peak_event AND (b.freed_event IS NULL OR b.freed_event > d.peak_event) AS at_peak,"
	" w.text || coalesce('.' || m.text, '') AS module, b.phase"
	" FROM blocks b JOIN devices d ON d.id = b.device JOIN categories c ON c.id = b.category"
	" LEFT JOIN names o ON o.id = b.op LEFT JOIN names r ON r.id = b.region"
	" LEFT JOIN names m ON m.id = b.module LEFT JOIN names w ON w.id = b.module_root;"
	"CREATE VIEW tensor AS SELECT b.*, t.kind, n.text AS name, r.text AS root, s.text AS state, y.text AS type"
	" FROM tensors t JOIN block b ON b.id = t.block JOIN names n ON n.id = t.name LEFT JOIN names r ON r.id = t.root"
	" LEFT JOIN names s ON s.id = t.state LEFT JOIN names y ON y.id = t.type;"
	"CREATE VIEW live_blocks AS SELECT * FROM block WHERE freed_ns IS NULL;"
	"CREATE VIEW peak_blocks AS SELECT * FROM block WHERE at_peak;"
	"CREATE VIEW held_blocks AS SELECT b.id, b.pid, b.tid, b.device, b.ptr, b.size, c.name AS category, h.version, b.op,"
	" b.region, b.preexisting, b.born_ns, b.freed_ns, b.at_peak, h.module, b.phase"
	" FROM held h JOIN block b ON b.id = h.block JOIN categories c ON c.id = h.category;"
	"CREATE VIEW by_category AS SELECT device, category, sum(size * (freed_ns IS NULL)) AS live, count(*) AS blocks"
	" FROM block WHERE size IS NOT NULL GROUP BY device, category;"
	"CREATE VIEW by_op AS SELECT op, count(*) FILTER (WHERE NOT preexisting) AS alloc_count,"
	" coalesce(sum(size) FILTER (WHERE NOT preexisting), 0) AS alloc_bytes, sum(size * (freed_ns IS NULL)) AS live,"
	" sum(size * at_peak) AS at_peak FROM block WHERE size IS NOT NULL GROUP BY op;"
	"CREATE VIEW by_module AS SELECT module, phase, op, count(*) FILTER (WHERE NOT preexisting) AS alloc_count,"
	" coalesce(sum(size) FILTER (WHERE NOT preexisting), 0) AS alloc_bytes, sum(size * (freed_ns IS NULL)) AS live,"
	" sum(size * at_peak) AS at_peak FROM block WHERE size IS NOT NULL GROUP BY module, phase, op;"
	"CREATE VIEW lifetimes AS SELECT op, category, count(*) AS blocks, avg(freed_ns - born_ns) AS mean_ns,"
	" max(freed_ns - born_ns) AS max_ns FROM block WHERE freed_ns IS NOT NULL AND NOT preexisting GROUP BY op, category;"
	"CREATE VIEW category_series AS SELECT u.t_ns, u.pid, d.name AS device, c.name AS category, u.bytes"
	" FROM usage u JOIN devices d ON d.id = u.device JOIN categories c ON c.id = u.category;";

#endif
