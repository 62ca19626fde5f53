/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/jobs.h"

#include <inttypes.h>
#include <string.h>

#include "plan/plan.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/table.h"
#include "view/view.h"

enum { PLAIN = 1, CHOOSE = 2 };

/* As the row stands in the table, from 1. */
static void number(struct cell *c, const void *row)
{
	(void)row;
	c->num = c->d->index;
}

static void rank(struct cell *c, const void *row)
{
	const struct survey_job *j = row;

	if (j->rank < 0)
		c->text = "-";
	else if (j->world > 0)
		cell__say(c, "%" PRId64 " of %" PRId64, j->rank, j->world);
	else
		cell__say(c, "%" PRId64, j->rank);
}

static void put_number_or_null(struct json *j, const char *key, int64_t v)
{
	if (v < 0)
		json__null(j, key);
	else
		json__i64(j, key, v);
}

static void put_rank(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)d;
	put_number_or_null(j, key, ((const struct survey_job *)row)->rank);
}

static void put_world(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)d;
	put_number_or_null(j, key, ((const struct survey_job *)row)->world);
}

static void torch(struct cell *c, const void *row)
{
	const struct survey_job *j = row;

	c->text = j->torch[0] ? j->torch : c->d->as == AS_JSON ? "" : j->has_torch ? "?" : "-";
}

static void supported(struct cell *c, const void *row)
{
	const struct survey_job *j = row;

	c->text = !j->is_seen || j->is_cut ? "unknown" : j->layout[0] ? "yes" : "partly";
}

/* "" for supported ones. */
static void why(struct cell *c, const void *row)
{
	const struct survey_job *j = row;
	char known[80];

	if (!j->is_seen)
		c->text = "it may not be looked at: another user's process";
	else if (j->is_cut)
		c->text = "it has more mappings than are read";
	else if (!j->has_torch)
		c->text = "no PyTorch, a GPU's libraries alone: the GPU's memory, without operators";
	else if (!j->torch[0])
		c->text = "its version of torch is not to be found; whether its tensors can be read shows when it is traced";
	else if (!j->layout[0])
		cell__say(c, "torch %s was not tried (%s were); whether its tensors can be read shows when it is traced",
			  j->torch, flow_layouts_words(known, sizeof(known)));
	else
		c->text = "";
}

static void traced(struct cell *c, const void *row)
{
	const struct survey_job *j = row;

	c->text = j->is_traced ? "yes" : j->is_seen ? "no" : "-";
}

static void command(struct cell *c, const void *row)
{
	const struct survey_job *j = row;

	c->text = j->cmdline[0] ? j->cmdline : j->comm;
	if (c->d->as != AS_JSON)
		c->text = words_of_command(c->buf, c->text);
}

static void put_traced(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct survey_job *s = row;

	(void)d;
	if (s->is_seen || s->is_traced)
		json__bool(j, key, s->is_traced);
	else
		json__null(j, key);
}

static void put_fork(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)d;
	json__bool(j, key, ((const struct survey_job *)row)->is_fork);
}

static int has_forks(const struct drawn *d)
{
	const struct survey *s = d->of;

	for (size_t i = 0; i < s->cnt; i++)
		if (s->jobs[i].forks)
			return 1;
	return 0;
}

/* The list to choose from is 80 columns wide where no command is longer. */
static const struct column columns[] = {
	{ NULL, "", COL_NUMBER, VIA(number), TEXT(1, 3), .only = CHOOSE },
	{ "pid", "pid", COL_NUMBER, OF(survey_job, pid), TEXT(2, 7) },
	{ "ppid", NULL, COL_NUMBER, OF(survey_job, ppid) },
	{ "uid", NULL, COL_NUMBER, OF(survey_job, uid) },
	{ "user", "user", COL_TEXT, IN_ROW(survey_job, user), TEXT(3, 8, .gap = 2, .from = 100) },
	{ "rank", "rank", COL_TEXT, VIA(rank), .json = put_rank, TEXT(4, 8, .gap = 1) },
	{ "world", NULL, .json = put_world },
	{ "rss", "RSS", COL_BYTES, OF(survey_job, rss), TEXT(5, 8, .gap = 1) },
	{ "torch", "torch", COL_OR_NULL, VIA(torch), TEXT(6, 12, .gap = 2) },
	{ "supported", "supported", COL_TEXT, VIA(supported), TEXT(7, 9, .gap = 1) },
	{ "why", NULL, COL_OR_NULL, VIA(why) },
	{ "traced", "traced", COL_TEXT, VIA(traced), .json = put_traced, TEXT(8, 6, .gap = 1) },
	{ "is_fork", NULL, .json = put_fork },
	{ "forks", "children", COL_NUMBER, OF(survey_job, forks), .shown_if = has_forks, TEXT(9, 8, .gap = 1, .from = 100) },
	{ "command", "command", COL_TEXT, VIA(command), .is_begin = 1, TEXT(10, 16, .wide = 1, .gap = 2) },
};

static const struct table plain_table = TABLE(columns, .variant = PLAIN), choose_table = TABLE(columns, .variant = CHOOSE);

/* --- for people ------------------------------------------------------------------------------------------- */

const struct survey_job *jobs_view_row(const struct survey *s, size_t number)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (!s->jobs[i].is_fork && !--number)
			return &s->jobs[i];
	return NULL;
}

static void notes(struct page *p, const struct survey *s)
{
	struct drawn d = drawn_as(AS_JSON, NULL);
	unsigned reported = 0;

	for (size_t i = 0; i < s->cnt && reported < 8; i++) {
		struct cell c = { .d = &d };

		if (s->jobs[i].is_fork || !s->jobs[i].is_seen)
			continue;
		why(&c, &s->jobs[i]);
		if (!c.text[0])
			continue;
		page__itemf(p, 4, "%u: %.900s", s->jobs[i].pid, c.text);
		reported++;
	}
}

static void unseen(struct page *p, const struct survey *s)
{
	size_t pythons = 0;

	for (size_t i = 0; i < s->cnt; i++)
		pythons += !s->jobs[i].is_seen;
	if (s->more)
		page__itemf(p, 4, "%" PRIu64 " more are not shown.", s->more);
	if (s->may_look || (!pythons && !s->unseen))
		return;
	page__itemf(p, 4, "%" PRIu64 " processes of other users may not be looked at%s: sudo memtrace ps shows which of them "
		    "use PyTorch.", s->unseen + pythons, pythons ? " (those that run Python are \"unknown\")" : "");
}

int jobs_view_text(FILE *out, const struct survey *s, const struct view_opts *opts, int all, int choose)
{
	struct drawn d = drawn_as(AS_TEXT, NULL);
	struct table_lines l;
	struct page p;
	int r;

	d.of = s;
	r = page__open(&p, out, opts, TEXT_BYTES_MAX); /* text that programs search is not cut */
	if (r < 0)
		return r;
	if (jobs_view_row(s, 1)) {
		table_lines__begin(&l, &p, choose ? &choose_table : &plain_table, &d);
		for (size_t i = 0; i < s->cnt; i++) {
			if (s->jobs[i].is_fork && !all)
				continue;
			d.index++;
			table_lines__row(&l, &s->jobs[i]);
		}
	} else {
		page__line(&p, "No process with PyTorch%s.", s->may_look ? "" : " is to be seen");
	}
	p.width = p.width < PAGE_WIDTH ? p.width : PAGE_WIDTH;
	notes(&p, s);
	unseen(&p, s);
	return page__done(&p);
}

/* --- for programs ----------------------------------------------------------------------------------------- */

int jobs_view_json(FILE *out, const struct survey *s)
{
	struct drawn d = drawn_as(AS_JSON, NULL);
	struct outbuf o;
	struct json j;
	int r = json__begin_doc(&j, &o, out);

	if (r < 0)
		return r;
	table__list(&j, "processes", &plain_table, &d, s->jobs, s->cnt, sizeof(*s->jobs));
	json__bool(&j, "complete", s->may_look && !s->more);
	json__u64(&j, "unseen", s->unseen);
	json__u64(&j, "more", s->more);
	return json__end_doc(&j);
}
