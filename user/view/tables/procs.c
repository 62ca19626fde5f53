/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/tables.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "event/rank_label.h"
#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/tables/marks.h"
#include "view/tables/ranks.h"

static const char *comm_of(const struct report_proc *p)
{
	return p->comm ? p->comm : "";
}

static int has_use(const struct drawn *d)
{
	for (size_t i = 0; i < d->r->procs_cnt; i++)
		if (d->r->procs[i].use_ts_ns)
			return 1;
	return 0;
}

static void name(struct cell *c, const void *row)
{
	const struct report_proc *p = row;
	struct rank_label l = report_proc_label(p);
	char script[TEXT_BYTES_MAX];
	uint32_t rank;
	size_t n;

	if (c->d->as == AS_TUI) {
		c->text = words_of_command(script, p->cmdline && p->cmdline[0] ? p->cmdline : comm_of(p));
		if (rank_label__rank(&l, &rank) != RANK_NONE)
			cell__say(c, "rank %u: %s", rank, c->text);
		else
			cell__say(c, "%s", c->text);
		return;
	}
	cell__say(c, "%.64s", strncmp(comm_of(p), "python", 6) ? comm_of(p) : verdict_job_name(script, p));
	n = strlen(c->buf);
	if (rank_label__rank(&l, &rank) != RANK_NONE)
		snprintf(c->buf + n, TEXT_BYTES_MAX - n, ", rank %u", rank);
}

static void labels(struct cell *c, const void *row)
{
	const struct report_proc *p = row;
	size_t n = 0;

	c->text = c->buf;
	c->buf[0] = '\0';
	for (size_t i = 0; i < p->labels_cnt && n < sizeof(c->buf); i++)
		n += (size_t)snprintf(c->buf + n, sizeof(c->buf) - n, "%s%s", i ? " " : "", p->labels[i]);
}

static void put_labels(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_proc *p = row;

	(void)d;
	json__begin_flat(j, key, '[');
	for (size_t i = 0; i < p->labels_cnt; i++)
		json__str(j, NULL, p->labels[i]);
	json__end(j, ']');
}

static void put_rank(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)key;
	(void)d;
	proc_rank_json(j, row);
}

static void how(struct cell *c, const void *row)
{
	static const char *const words[] = { "attached", "launched", "forked", "execed" };
	const struct report_proc *p = row;

	c->text = p->how < 4 ? words[p->how] : "?";
}

static void state(struct cell *c, const void *row)
{
	c->text = proc_state(c->buf, row);
}

/* Of an ended process the highest. */
static void resident(struct cell *c, const void *row)
{
	const struct report_proc *p = row;

	c->num = p->gone == 1 ? p->rss_peak : p->rss_total;
}

static void put_rss(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_proc *p = row;

	(void)d;
	json__begin_flat(j, key, '{');
	json__u64(j, "total", p->rss_total);
	json__u64(j, "peak", p->rss_peak);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		json__u64(j, rss_word(i), p->rss[i]);
	json__end(j, '}');
}

/* This object exists if it was read. */
static void put_use(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_proc *p = row;

	if (!p->use_ts_ns)
		return;
	json__begin_flat(j, key, '{');
	for (unsigned i = 0; i < MT_USES; i++)
		if (p->use_unknown & 1u << i)
			json__null(j, use_word(i));
		else
			json__u64(j, use_word(i), p->use[i]);
	json__u64(j, "at_ns", p->use_ts_ns + (uint64_t)d->epoch_off_ns);
	json__end(j, '}');
}

/* Private and shared bytes, at up to OWN_POINTS readings. */
static void put_use_over_time(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_own *o = &((const struct report_proc *)row)->own;

	if (!o->points_cnt)
		return;
	json__begin(j, key, '[');
	for (uint32_t i = 0; i < o->points_cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__u64(j, "at_ns", o->points[i].ts_ns + (uint64_t)d->epoch_off_ns);
		json__u64(j, use_word(MT_USE_PRIVATE), o->points[i].own);
		json__u64(j, use_word(MT_USE_SHARED), o->points[i].shared);
		json__end(j, '}');
	}
	json__end(j, ']');
}

static void put_step(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	step_json(j, key, d->r, &((const struct report_proc *)row)->highest_step);
}

#define OF_USE(kind) OF(report_proc, use[kind]), IF(report_proc, use_ts_ns), .shown_if = has_use

static const struct column columns[] = {
	{ "pid", "pid", COL_NUMBER, OF(report_proc, pid), TEXT(1, 8), TUI(1, 8) },
	{ "ppid", NULL, COL_NUMBER, OF(report_proc, ppid) },
	{ "comm", NULL, COL_TEXT, OF(report_proc, comm) },
	{ "cmdline", NULL, COL_TEXT, OF(report_proc, cmdline) },
	{ NULL, "name", COL_TEXT, VIA(name), TEXT(2, 9, .wide = 1, .gap = 2), TUI(2, 16, .wide = 1, .head = "command") },
	{ "labels", "labels", COL_TEXT, VIA(labels), .json = put_labels, TUI(3, 20, 120, 1) },
	{ "rank", NULL, .json = put_rank },
	{ "how", NULL, COL_TEXT, VIA(how) },
	{ "state", "state", COL_TEXT, VIA(state), TEXT(9, 11, .gap = 2), TUI(4, 9) },
	{ "live", "live", COL_BYTES, OF(report_proc, live), .shown_if = shows_live, TEXT(3, 10), TUI(5, 9) },
	{ NULL, "then", COL_BYTES, OF(report_proc, live), .shown_if = drawn_then, TUI(5, 9) },
	{ "peak", "peak", COL_BYTES, OF(report_proc, peak), .shown_if = drawn_at_end, TEXT(4, 10), TUI(6, 9) },
	{ "peak_ns", NULL, COL_TIME, OF(report_proc, peak_ts_ns) },
	{ "allocs", "allocs", COL_COUNT, OF(report_proc, allocs), TEXT(5, 8, .head = "blocks"), TUI(10, 8, 130) },
	{ "frees", NULL, COL_COUNT, OF(report_proc, frees) },
	{ "host_live", NULL, COL_BYTES, OF(report_proc, host_live) },
	{ "host_peak", NULL, COL_BYTES, OF(report_proc, host_peak) },
	{ "rss", "RSS", COL_BYTES, VIA(resident), .json = put_rss, TEXT(6, 10), TUI(7, 9) },
	{ NULL, "RSS peak", COL_BYTES, OF(report_proc, rss_peak), TUI(8, 9, 90) },
	{ "use", NULL, .json = put_use },
	{ "use_over_time", NULL, .json = put_use_over_time },
	{ NULL, "private", COL_BYTES, OF_USE(MT_USE_PRIVATE), TEXT(7, 10) },
	{ NULL, "shared", COL_BYTES, OF_USE(MT_USE_SHARED), TEXT(8, 10) },
	{ "mapped", NULL, COL_BYTES, OF(report_proc, mapped) },
	{ "mapped_peak", NULL, COL_BYTES, OF(report_proc, mapped_peak) },
	{ "brk_growth", NULL, COL_BYTES, OF(report_proc, brk_growth) },
	{ "cpu_ns", "CPU", COL_NS, OF(report_proc, cpu_ns), TUI(9, 10, 100) },
	{ "live_at_exit", NULL, COL_BYTES, OF(report_proc, live_at_exit) },
	{ "highest_step", NULL, .json = put_step },
};

const struct table proc_table = TABLE(columns);

#define EMPTY_LISTED 2 /* processes that held nothing, where others did: more are one line */

/* It held tensors, or malloc's memory; compilers and launchers do not. */
static int has_held(const struct report_proc *p)
{
	return p->allocs || p->peak || p->host_peak;
}

const struct report_proc *proc_next(const struct report *r, size_t *at)
{
	while (*at < 2 * r->procs_cnt) {
		const struct report_proc *p = &r->procs[*at % r->procs_cnt];
		int is_wanted = has_held(p) == (*at < r->procs_cnt);

		++*at;
		if (is_wanted)
			return p;
	}
	return NULL;
}

/* Launchers and compilers are many and hold nothing: their number, by name. */
static void empty_text(struct page *p, const struct report *r)
{
	enum { NAMES = 4 };
	struct { const char *name; size_t cnt; } of[NAMES];
	size_t cnt = 0, names = 0, others = 0, n = 0;
	char text[256] = "", safe[64];

	for (size_t i = 0; i < r->procs_cnt; i++) {
		size_t at = 0;

		if (has_held(&r->procs[i]))
			continue;
		cnt++;
		while (at < names && strcmp(of[at].name, comm_of(&r->procs[i])) != 0)
			at++;
		if (at == NAMES)
			others++;
		else if (at == names)
			of[names++] = (__typeof__(of[0])){ comm_of(&r->procs[i]), 1 };
		else
			of[at].cnt++;
	}
	for (size_t i = 0; i < names; i++) {
		text_fit(safe, sizeof(safe), of[i].name, 16);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %zu", n ? ", " : "", safe, of[i].cnt);
	}
	page__line(p, "and %zu that held no memory of tensors or malloc: %s%s (-v)", cnt, text, others ? ", …" : "");
}

void procs_text(struct page *p, const struct report *r, size_t top, int is_brief)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	size_t at = 0, cnt = 0, held = 0, all;
	const struct report_proc *proc;
	struct table_lines l;

	for (size_t i = 0; i < r->procs_cnt; i++)
		held += (size_t)has_held(&r->procs[i]);
	all = is_brief && held && r->procs_cnt - held > EMPTY_LISTED ? held : r->procs_cnt;
	page__heading(p, "Processes");
	table_lines__begin(&l, p, &proc_table, &d);
	for (; cnt < top && cnt < all && (proc = proc_next(r, &at)); cnt++)
		table_lines__row(&l, proc);
	page__more(p, cnt, all, "processes (--top)");
	if (all < r->procs_cnt)
		empty_text(p, r);
}

/* The last to be left out if there is no room for all: live ones, those that held something, the rest. */
static unsigned worth_of(const struct report_proc *p)
{
	return p->gone != 1 ? 0 : has_held(p) ? 1 : 2;
}

void procs_json(struct json *j, const struct report *r, size_t max)
{
	struct drawn d = drawn_as(AS_JSON, r);
	size_t skip[3] = { 0 };

	for (size_t i = 0; i < r->procs_cnt; i++)
		skip[worth_of(&r->procs[i])]++;
	for (unsigned k = 0; k < 3; k++) {
		size_t kept = skip[k] < max ? skip[k] : max;

		skip[k] -= kept;
		max -= kept;
	}
	json__begin(j, "processes", '[');
	for (size_t i = 0; i < r->procs_cnt; i++) {
		size_t *left_out = &skip[worth_of(&r->procs[i])];

		if (*left_out) {
			--*left_out;
			continue;
		}
		json__begin(j, NULL, '{');
		table__fields(j, &proc_table, &d, &r->procs[i]);
		json__end(j, '}');
	}
	json__end(j, ']');
}
