/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * sqlite: a database for queries. One transaction without a journal: an unfinished file is of no use
 * anyway, and is reported. SQLite's cache is bounded, so memory grows only with the blocks live at one
 * time.
 *
 * A block's row is written at its allocation and completed at its free. at_peak in the views goes by the
 * numbers of events, not by times, which two events may share. `usage` has USAGE_POINTS points in time at most.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "event/event.h"
#include "timeline/labels.h"
#include "timeline/sieve.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/export/sqlite_schema.h"
#include "view/fold/peak_moment.h"
#include "view/fold/feed.h"
#include "view/fold/highest.h"
#include "view/report_words.h"

#define USAGE_POINTS 2000
#define BATCH_ROWS 1000000 /* of one transaction */

enum stmt { Q_NAME, Q_BLOCK, Q_DEATH, Q_RELABEL, Q_EVENT, Q_OP, Q_REGION, Q_STEP, Q_USAGE, Q_META, Q_DEVICE, Q_PROC, Q_LOSS,
	    Q_NOTE, Q_CATEGORY, Q_TENSOR, Q_MARK, Q_GAP, Q_COMPILED, Q_LEARNED, Q_HELD, Q_USE,
	    Q_MAX };

static const char *const stmts[Q_MAX] = {
	[Q_NAME] = "INSERT INTO names VALUES(?,?)",
	[Q_BLOCK] = "INSERT OR IGNORE INTO blocks VALUES(?,?,?,?,?,?,?,?,?,?,?,?,NULL,?,NULL,?,?,?)",
	[Q_DEATH] = ("UPDATE blocks SET freed_ns=?2, freed_event=?3, version=?4, category=?5, module=coalesce(module,?6),"
		    " module_root=coalesce(module_root,?7) WHERE id=?1"),
	[Q_RELABEL] = "UPDATE blocks SET version=?2, category=?3 WHERE id=?1",
	[Q_EVENT] = "INSERT INTO events VALUES(?,?,?,?,?,?,?,?,?,?,?)",
	[Q_OP] = "INSERT INTO ops VALUES(?,?)",
	[Q_REGION] = "INSERT INTO regions VALUES(?,?,?,?,?,?)",
	[Q_STEP] = "INSERT INTO steps VALUES(?,?,?,?)",
	[Q_USAGE] = "INSERT INTO usage VALUES(?,?,?,?,?)",
	[Q_META] = "INSERT OR REPLACE INTO meta VALUES(?,?)",
	[Q_DEVICE] = "INSERT INTO devices VALUES(?,?,?,?,?,?,?,?,?)",
	[Q_PROC] = "INSERT INTO processes VALUES(?,?,?,?,?,?,?,?,?,?,?)",
	[Q_LOSS] = "INSERT INTO losses VALUES(?,?)",
	[Q_NOTE] = "INSERT INTO notes VALUES(?)",
	[Q_TENSOR] = "INSERT OR IGNORE INTO tensors VALUES(?,?,?,?,?,?)",
	[Q_MARK] = "INSERT INTO marks VALUES(?,?,?,?,?)",
	[Q_COMPILED] = "INSERT INTO compiles VALUES(?,?,?,?,?,?,?,?,?,?,?)",
	[Q_GAP] = "INSERT INTO gaps VALUES(?,?)",
	[Q_LEARNED] = "INSERT OR REPLACE INTO learned VALUES(?,?,?,?,?,?,?)",
	[Q_HELD] = ("INSERT INTO held SELECT b.id, e.version, e.category, owner(b.id, b.pid, b.module, b.module_root)"
		    " FROM blocks b JOIN events e ON e.id = (SELECT max(id) FROM events WHERE block = b.id AND id <= ?1"
		    " AND kind IN ('create', 'preexisting', 'version')) WHERE b.device = ?2 AND b.size IS NOT NULL"
		    " AND b.born_event <= ?1 AND (b.freed_event IS NULL OR b.freed_event > ?1)"),
	[Q_USE] = "INSERT INTO process_use VALUES(?,?,?,?)",
	[Q_CATEGORY] = "INSERT INTO categories VALUES(?,?)",
};

struct op_count {
	uint64_t name, cnt;
};

struct export_ctx {
	const struct export_to *to;
	sqlite3 *db;
	sqlite3_stmt *q[Q_MAX];
	struct feed *feed;
	uint64_t *reported;		   /* bytes by lane and category, and whether it is in dirty */
	const struct lane **dirty; /* lanes that changed since the last point of usage */
	uint32_t dirty_cnt;
	struct map op_counts; /* struct op_count */
	int64_t epoch_off_ns;
	uint64_t next_point_ns, point_ns;
	uint64_t event_id, rows;
	struct {
		struct highest highest;
		uint64_t event;
	} devs[256];
	struct peak_moment chosen; /* of to->at */
	uint64_t at_event;    /* the last one up to that moment */
	uint64_t gap_ns; /* of its begin, epoch; 0: none is open */
	int err;
};

/* --- statements -------------------------------------------------------------------------------------- */

static int errno_of(int code)
{
	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
	case SQLITE_READONLY:
		return -EACCES;
	default:
		return -EIO;
	}
}

static void check(struct export_ctx *c, int code)
{
	if (!c->err)
		c->err = errno_of(code);
}

static void exec(struct export_ctx *c, const char *sql)
{
	if (!c->err)
		check(c, sqlite3_exec(c->db, sql, NULL, NULL, NULL));
}

/* Binds numbers from the first parameter on. */
static void bind(struct export_ctx *c, enum stmt q, int first, int cnt, const uint64_t *v)
{
	for (int i = 0; i < cnt; i++)
		sqlite3_bind_int64(c->q[q], first + i, (sqlite3_int64)v[i]);
}

static void bind_text(struct export_ctx *c, enum stmt q, int at, const char *text)
{
	char clean[CLEAN_BYTES_MAX];
	size_t len;

	if (!text) {
		sqlite3_bind_null(c->q[q], at);
		return;
	}
	len = clean_text(clean, sizeof(clean), text, strlen(text));
	sqlite3_bind_text(c->q[q], at, clean, (int)len, SQLITE_TRANSIENT);
}

static void step(struct export_ctx *c, enum stmt q)
{
	if (c->err)
		return;
	check(c, sqlite3_step(c->q[q]));
	sqlite3_reset(c->q[q]);
	if (++c->rows % BATCH_ROWS == 0)
		exec(c, "COMMIT;BEGIN");
}

#define NUMS(...) (const uint64_t[]){ __VA_ARGS__ }
#define INSERT(c, q, ...)                                                                                  \
	do {                                                                                               \
		bind(c, q, 1, (int)(sizeof(NUMS(__VA_ARGS__)) / sizeof(uint64_t)), NUMS(__VA_ARGS__));    \
		step(c, q);                                                                                \
	} while (0)

static uint64_t epoch(const struct export_ctx *c, uint64_t ts_ns)
{
	return ts_ns + (uint64_t)c->epoch_off_ns;
}

/* --- from the feed -------------------------------------------------------------------------------------- */

static void on_end(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number, const struct stack_node *n,
		   const struct open_frame *e, uint64_t ts_ns)
{
	(void)number;
	sqlite3_bind_text(c->q[Q_REGION], 3, n->kind == STACK_OP ? "operator" : n->kind == STACK_NODE ? "backward" : "region",
			  -1, SQLITE_STATIC);
	bind(c, Q_REGION, 1, 2, NUMS(pid, tid));
	bind(c, Q_REGION, 4, 3, NUMS(n->value, epoch(c, e->ts_ns), epoch(c, ts_ns)));
	step(c, Q_REGION);
}

static void on_step(struct export_ctx *c, uint32_t pid, uint64_t number, uint64_t begin_ts_ns, uint64_t ts_ns)
{
	INSERT(c, Q_STEP, pid, number, epoch(c, begin_ts_ns), epoch(c, ts_ns));
}

static void on_mark(struct export_ctx *c, const struct tl_event *ev)
{
	bind(c, Q_MARK, 1, 3, NUMS(epoch(c, ev->ts_ns), ev->pid, ev->tid));
	sqlite3_bind_text(c->q[Q_MARK], 4, mark_name((enum tl_mark)ev->version), -1, SQLITE_STATIC);
	bind(c, Q_MARK, 5, 1, NUMS(ev->ptr));
	if (ev->version != MARK_STEP)
		sqlite3_bind_null(c->q[Q_MARK], 5);
	step(c, Q_MARK);
}

/* A size or a category that is not known is NULL. */
static void put_event(struct export_ctx *c, const struct tl_event *ev, uint8_t cat)
{
	bind(c, Q_EVENT, 1, 2, NUMS(++c->event_id, epoch(c, ev->ts_ns)));
	sqlite3_bind_text(c->q[Q_EVENT], 3, tl_kind_name(ev->kind), -1, SQLITE_STATIC);
	bind(c, Q_EVENT, 4, 8, NUMS(ev->id, ev->size, ev->version, cat, ev->dev, ev->pid, ev->tid,
				    ev->kind == TL_TAG ? ev->region.v : ev->op.v));
	if (!ev->id)
		sqlite3_bind_null(c->q[Q_EVENT], 4);
	if (ev->size == TL_SIZE_UNKNOWN)
		sqlite3_bind_null(c->q[Q_EVENT], 5);
	step(c, Q_EVENT);
}

static void on_oom(struct export_ctx *c, const struct tl_event *ev)
{
	put_event(c, ev, CAT_UNKNOWN);
}

/* Of a block whose operator was not seen: a similar block's, beside its measured values. */
static void put_learned(struct export_ctx *c, const struct tl_event *ev)
{
	const struct tl_learned *l = ev->learned;

	bind(c, Q_LEARNED, 1, 6, NUMS(ev->id, l->cat, l->op.v, l->region.v, l->module.v, l->root.v));
	if (!l->root.v) {
		sqlite3_bind_null(c->q[Q_LEARNED], 5);
		sqlite3_bind_null(c->q[Q_LEARNED], 6);
	}
	bind_text(c, Q_LEARNED, 7, phase_name((enum phase)l->phase));
	step(c, Q_LEARNED);
}

static void put_usage(struct export_ctx *c, uint64_t ts_ns)
{
	for (uint32_t i = 0; i < c->dirty_cnt; i++) {
		const struct lane *l = c->dirty[i];
		uint64_t *reported = &c->reported[(size_t)l->idx * (CAT_MAX + 1)];

		reported[CAT_MAX] = 0;
		for (unsigned cat = 0; cat < CAT_MAX; cat++) {
			if (reported[cat] == l->cats[cat])
				continue;
			reported[cat] = l->cats[cat];
			INSERT(c, Q_USAGE, epoch(c, ts_ns), l->pid, l->dev, cat, l->cats[cat]);
		}
	}
	c->dirty_cnt = 0;
}

static void on_counter(struct export_ctx *c, const struct lane *l, const struct live_change *ch, uint64_t ts_ns)
{
	uint64_t *reported = &c->reported[(size_t)l->idx * (CAT_MAX + 1)];
	uint64_t allocated = ch->from == CAT_MAX ? ch->b->size : 0, died = ch->to == CAT_MAX ? ch->b->size : 0;

	if (!reported[CAT_MAX]) {
		reported[CAT_MAX] = 1;
		c->dirty[c->dirty_cnt++] = l;
	}
	if (highest__move(&c->devs[l->dev].highest, allocated, died, ts_ns, report_peak_ts_ns(c->to->report, l->dev)))
		c->devs[l->dev].event = c->event_id;
	if (c->to->at && l->dev == c->to->at->dev && peak_moment__move(&c->chosen, allocated, died, ts_ns))
		c->at_event = c->event_id;
}

/* Unknown values are NULL. */
static void on_compiled(struct export_ctx *c, const struct tl_event *ev)
{
	const name_id texts[] = { ev->compile_id, ev->function, ev->reason, ev->failed };

	bind(c, Q_COMPILED, 1, 7,
	     NUMS(epoch(c, ev->begin_ns), ev->took_ns, ev->pid, ev->step, !!(ev->compiled & EV_COMPILED_AGAIN),
		  !!(ev->compiled & EV_COMPILED_BACKWARD), ev->added));
	if (!ev->step)
		sqlite3_bind_null(c->q[Q_COMPILED], 4);
	if (ev->added == TL_SIZE_UNKNOWN)
		sqlite3_bind_null(c->q[Q_COMPILED], 7);
	for (int i = 0; i < 4; i++)
		bind_text(c, Q_COMPILED, 8 + i, texts[i].v ? names__get(c->to->names, texts[i]) : NULL);
	step(c, Q_COMPILED);
}

static void on_gap(struct export_ctx *c, const struct tl_event *ev)
{
	if (ev->version)
		put_usage(c, ev->ts_ns);
	else
		INSERT(c, Q_GAP, c->gap_ns, epoch(c, ev->ts_ns));
	c->gap_ns = ev->version ? epoch(c, ev->ts_ns) : 0;
	for (unsigned i = 0; i < sizeof(c->devs) / sizeof(c->devs[0]); i++)
		if (highest__gap(&c->devs[i].highest, ev->version, ev->ts_ns))
			c->devs[i].event = c->event_id;
	if (c->to->at && peak_moment__gap(&c->chosen, ev->version, ev->ts_ns, report_gap_seen_ns(c->to->report, ev->ts_ns)))
		c->at_event = c->event_id;
}

static const struct feed_ops ops = {
	.counter = on_counter, .end = on_end, .step = on_step, .oom = on_oom, .mark = on_mark,
	.compiled = on_compiled,
};

/* --- decisions --------------------------------------------------------------------------------------- */

static void count_op(struct export_ctx *c, uint32_t name)
{
	struct op_count *n = map__put(&c->op_counts, name);

	if (n)
		n->cnt++;
	else
		c->err = -ENOMEM;
}

static uint8_t cat_of(const struct export_ctx *c, const struct tl_event *ev)
{
	return c->to->labels ? (uint8_t)labels__get(c->to->labels, ev->id, ev->version) : ev->cat;
}

/* The module whose forward or backward made it, from parameter `at` on: NULL if unknown; a root has no path. */
static void bind_module(struct export_ctx *c, enum stmt q, int at, const struct tl_event *ev)
{
	bind(c, q, at, 2, NUMS(ev->module.v, ev->root.v));
	if (!ev->root.v || !ev->module.v || !names__len(c->to->names, ev->module))
		sqlite3_bind_null(c->q[q], at);
	if (!ev->root.v)
		sqlite3_bind_null(c->q[q], at + 1);
}

static void put_alloc(struct export_ctx *c, const struct tl_event *ev, uint8_t cat)
{
	bind(c, Q_BLOCK, 1, 13, NUMS(ev->id, ev->pid, ev->tid, ev->dev, ev->ptr, ev->size, cat, ev->version, ev->op.v,
				     ev->region.v, ev->kind == TL_PREEXISTING, epoch(c, ev->ts_ns), c->event_id));
	if (ev->size == TL_SIZE_UNKNOWN)
		sqlite3_bind_null(c->q[Q_BLOCK], 6);
	if (!ev->op.v)
		sqlite3_bind_null(c->q[Q_BLOCK], 9);
	if (!ev->region.v)
		sqlite3_bind_null(c->q[Q_BLOCK], 10);
	bind_module(c, Q_BLOCK, 14, ev);
	if (ev->phase != PHASE_OTHER)
		sqlite3_bind_text(c->q[Q_BLOCK], 16, phase_name((enum phase)ev->phase), -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(c->q[Q_BLOCK], 16);
	step(c, Q_BLOCK);
}

/* The block's name in Python, if it has one. */
static void put_tensor(struct export_ctx *c, uint64_t id)
{
	struct labels_name n;

	if (!c->to->labels || !labels__name(c->to->labels, id, &n))
		return;
	sqlite3_bind_text(c->q[Q_TENSOR], 2, tensor_kind_key(n.kind), -1, SQLITE_STATIC);
	bind(c, Q_TENSOR, 1, 1, NUMS(id));
	bind(c, Q_TENSOR, 3, 4, NUMS(n.path.v, n.root.v, n.key.v, n.type.v));
	if (!n.key.v)
		sqlite3_bind_null(c->q[Q_TENSOR], 5);
	step(c, Q_TENSOR);
}

static void put_decision(struct export_ctx *c, const struct tl_event *ev)
{
	uint8_t cat = cat_of(c, ev);

	switch (ev->kind) {
	case TL_CREATE:
	case TL_PREEXISTING:
		put_event(c, ev, cat);
		put_alloc(c, ev, cat);
		put_tensor(c, ev->id);
		break;
	case TL_VERSION:
		put_event(c, ev, cat);
		INSERT(c, Q_RELABEL, ev->id, ev->version, cat);
		break;
	case TL_DESTROY:
		put_event(c, ev, cat);
		bind_module(c, Q_DEATH, 6, ev);
		INSERT(c, Q_DEATH, ev->id, epoch(c, ev->ts_ns), c->event_id, ev->version, cat);
		break;
	case TL_TAG:
		put_event(c, ev, cat);
		break;
	case TL_OP:
		count_op(c, ev->op.v);
		break;
	default:
		break;
	}
}

static void start(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	const struct report *r = c->to->report;

	c->epoch_off_ns = epoch_off_ns;
	c->point_ns = r ? (r->run.end_ts_ns - r->run.start_ts_ns) / USAGE_POINTS + 1 : 1000000;
	c->next_point_ns = ev->ts_ns + c->point_ns;
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	int r;

	if (!c->point_ns)
		start(c, ev, epoch_off_ns);
	if (ev->kind == TL_NODE || ev->kind == TL_FINAL)
		return 0;
	if (c->to->at && peak_moment__opens(&c->chosen, ev->ts_ns))
		c->at_event = c->event_id;
	if (ev->kind == TL_GAP)
		on_gap(c, ev);
	if (ev->learned && (c->to->dev < 0 || ev->dev == c->to->dev))
		put_learned(c, ev);
	if (ev->ts_ns >= c->next_point_ns) {
		if (!c->gap_ns) /* live bytes in one are unknown */
			put_usage(c, c->next_point_ns);
		c->next_point_ns += (ev->ts_ns - c->next_point_ns) / c->point_ns * c->point_ns + c->point_ns;
	}
	if (c->to->dev < 0 || ev->dev == c->to->dev || ev->kind == TL_OP)
		put_decision(c, ev);
	r = feed__event(c->feed, ev);
	return r ? r : c->err;
}

/* --- the rest, at the end -------------------------------------------------------------------------------- */

static void put_meta(struct export_ctx *c, const char *key, const char *text, uint64_t v)
{
	bind_text(c, Q_META, 1, key);
	if (text)
		bind_text(c, Q_META, 2, text);
	else
		sqlite3_bind_int64(c->q[Q_META], 2, (sqlite3_int64)v);
	step(c, Q_META);
}

static void put_names(struct export_ctx *c)
{
	char text[CLEAN_BYTES_MAX];
	uint32_t last = names__last(c->to->names);

	for (uint32_t i = 1; i <= last && !c->err; i++) {
		size_t len = clean_name(text, c->to->names, (name_id){ i });

		sqlite3_bind_int64(c->q[Q_NAME], 1, i);
		sqlite3_bind_text(c->q[Q_NAME], 2, text, (int)len, SQLITE_TRANSIENT);
		step(c, Q_NAME);
	}
	for (uint32_t i = 0; i < c->op_counts.cnt; i++) {
		const struct op_count *n = map__at(&c->op_counts, i);

		INSERT(c, Q_OP, n->name, n->cnt);
	}
}

static void put_devices(struct export_ctx *c, const struct report *r)
{
	char name[16];

	for (unsigned i = 0; i < CAT_MAX; i++) {
		sqlite3_bind_int64(c->q[Q_CATEGORY], 1, i);
		bind_text(c, Q_CATEGORY, 2, category_name((enum category)i));
		step(c, Q_CATEGORY);
	}
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		sqlite3_bind_int64(c->q[Q_DEVICE], 1, d->dev);
		bind_text(c, Q_DEVICE, 2, dev_name(d->dev, name));
		bind(c, Q_DEVICE, 3, 7, NUMS(d->live, d->peak, epoch(c, d->peak_ts_ns), c->devs[d->dev].event, d->allocs,
					     d->frees, d->ooms));
		step(c, Q_DEVICE);
	}
}

static void put_processes(struct export_ctx *c, const struct report *r)
{
	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];
		char labels[1024] = "";

		for (size_t k = 0; k < p->labels_cnt; k++) {
			size_t at = strlen(labels);

			snprintf(labels + at, sizeof(labels) - at, "%s%s", at ? " " : "", p->labels[k]);
		}
		bind(c, Q_PROC, 1, 2, NUMS(p->pid, p->ppid));
		bind_text(c, Q_PROC, 3, p->comm);
		bind_text(c, Q_PROC, 4, p->cmdline);
		bind_text(c, Q_PROC, 5, labels);
		bind(c, Q_PROC, 6, 6, NUMS(p->live, p->peak, p->rss_total, p->rss_peak, p->gone, p->exit_status));
		step(c, Q_PROC);
		for (uint32_t k = 0; k < p->own.points_cnt; k++) {
			const struct own_point *at = &p->own.points[k];

			INSERT(c, Q_USE, epoch(c, at->ts_ns), p->pid, at->own, at->shared);
		}
	}
}

/* owner(block, pid, module, module_root): its module at a moment, as report --at shows it. NULL: no module's. */
static void sql_owner(sqlite3_context *sql, int cnt, sqlite3_value **v)
{
	const struct sieve *sieve = ((const struct export_ctx *)sqlite3_user_data(sql))->to->at->sieve;
	struct tl_event alloc = { .id = (uint64_t)sqlite3_value_int64(v[0]), .pid = (uint32_t)sqlite3_value_int64(v[1]) };
	char words[2 * NAME_BYTES_MAX + 2], clean[CLEAN_BYTES_MAX];
	struct owner of;

	(void)cnt;
	alloc.module.v = (uint32_t)sqlite3_value_int64(v[2]); /* of NULL it is 0 */
	alloc.root.v = (uint32_t)sqlite3_value_int64(v[3]);
	of = sieve__owner(sieve, &alloc);
	owner__words(&of, sieve->names, words, sizeof(words));
	if (words[0])
		sqlite3_result_text(sql, clean, (int)clean_text(clean, sizeof(clean), words, strlen(words)), SQLITE_TRANSIENT);
}

static void put_held(struct export_ctx *c)
{
	const struct export_at *at = c->to->at;
	char dev[16];

	if (peak_moment__opens(&c->chosen, UINT64_MAX))
		c->at_event = c->event_id;
	put_meta(c, "at", at->text, 0);
	put_meta(c, "at_ns", NULL, epoch(c, c->chosen.ts_ns));
	put_meta(c, "at_event", NULL, c->at_event);
	put_meta(c, "at_device", dev_name(at->dev, dev), 0);
	bind(c, Q_HELD, 1, 2, NUMS(c->at_event, at->dev));
	step(c, Q_HELD);
}

static void put_rest(struct export_ctx *c, const struct report *r)
{
	feed__end(c->feed);
	if (!c->gap_ns)
		put_usage(c, r->run.end_ts_ns);
	else
		INSERT(c, Q_GAP, c->gap_ns, epoch(c, r->run.end_ts_ns));
	put_names(c);
	put_devices(c, r);
	put_processes(c, r);
	for (unsigned i = 0; i < MT_LOSS_MAX; i++)
		if (loss_name(i)) {
			bind_text(c, Q_LOSS, 1, loss_name(i));
			sqlite3_bind_int64(c->q[Q_LOSS], 2, (sqlite3_int64)r->run.lost[i]);
			step(c, Q_LOSS);
		}
	for (size_t i = 0; i < r->run.notes_cnt; i++) {
		bind_text(c, Q_NOTE, 1, r->run.notes[i]);
		step(c, Q_NOTE);
	}
	put_meta(c, "schema", NULL, SQLITE_SCHEMA_VERSION);
	put_meta(c, "recorder", "memtrace " MT_VERSION, 0);
	put_meta(c, "host", r->run.host ? r->run.host : "", 0);
	put_meta(c, "pid", NULL, r->run.pid);
	put_meta(c, "start_ns", NULL, r->run.start_ts_ns + (uint64_t)r->run.epoch_off_ns);
	put_meta(c, "end_ns", NULL, r->run.end_ts_ns + (uint64_t)r->run.epoch_off_ns);
	put_meta(c, "steps", NULL, r->marks.steps_total);
	if (r->sampling.is_on) {
		put_meta(c, "steps_seen", NULL, r->sampling.steps_seen);
		put_meta(c, "steps_traced", NULL, r->sampling.steps_traced);
	}
	exec(c, sqlite_views);
	if (c->to->at)
		put_held(c);
	exec(c, "COMMIT");
}

static int close_db(struct export_ctx *c)
{
	int r;

	for (int i = 0; i < Q_MAX; i++) {
		sqlite3_finalize(c->q[i]);
		c->q[i] = NULL;
	}
	r = errno_of(sqlite3_close(c->db));
	c->db = NULL;
	return r;
}

static void done(struct export_ctx *c)
{
	(void)close_db(c);
	feed__free(c->feed);
	free(c->reported);
	free(c->dirty);
	map__done(&c->op_counts);
}

static int open_db(struct export_ctx *c)
{
	check(c, sqlite3_open_v2(c->to->path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL));
	exec(c, "PRAGMA page_size=16384;PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;PRAGMA locking_mode=EXCLUSIVE;"
		"PRAGMA cache_size=-65536;PRAGMA temp_store=FILE");
	exec(c, sqlite_tables);
	check(c, sqlite3_create_function(c->db, "owner", 4, SQLITE_UTF8, c, sql_owner, NULL, NULL));
	exec(c, "BEGIN");
	for (int i = 0; i < Q_MAX && !c->err; i++)
		check(c, sqlite3_prepare_v3(c->db, stmts[i], -1, SQLITE_PREPARE_PERSISTENT, &c->q[i], NULL));
	return c->err;
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	int r;

	if (!to->path)
		return -EINVAL;
	c->to = to;
	if (to->at)
		c->chosen = (struct peak_moment){ .span = &to->at->sieve->span, .around_ns = to->at->peak_ns };
	c->op_counts = MAP_OF(struct op_count);
	c->reported = calloc((LANES_MAX + 256) * (size_t)(CAT_MAX + 1), sizeof(*c->reported));
	c->dirty = calloc(LANES_MAX + 256, sizeof(*c->dirty));
	r = c->reported && c->dirty ? feed__new(&c->feed, to, &ops, c) : -ENOMEM;
	return r ? r : open_db(c);
}

static int end(struct export_ctx *c, const struct report *r)
{
	int err, closed;

	if (r && !c->err)
		put_rest(c, r);
	err = c->err;
	closed = close_db(c);
	return err ? err : closed;
}

const struct export_format export_sqlite = {
	.name = "sqlite",
	.help = "a database: blocks, events, regions, steps, usage over time, with views to ask (operators' slices: --ops)",
	.chooses = "a process is chosen in SQL (WHERE pid = …)",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_MARKS | EXPORT_COMPILES | EXPORT_GAPS | EXPORT_FILE | EXPORT_BINARY |
		 EXPORT_MOMENT,
	.size = sizeof(struct export_ctx),
	.writes_itself = 1,
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};
