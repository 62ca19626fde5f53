/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/ranks.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "timeline/ranks.h"
#include "timeline/report.h"
#include "view/report_words.h"
#include "view/table.h"
#include "view/tables/steps.h"

#define STEPS_SHOWN 10
#define BUCKETS_SHOWN 10
#define OPS_SHOWN 5
#define CATS_WORDS 2 /* categories named in a row */

static const char *memory_word(const struct report_ranks *k)
{
	static const char *const words[RANK_MEMS] = { [RANK_MEM_CPU] = "cpu", [RANK_MEM_CUDA] = "cuda",
						      [RANK_MEM_HOST] = "host" };

	return words[k->memory < RANK_MEMS ? k->memory : RANK_MEM_CPU];
}

static const char *cat_word(unsigned cat)
{
	return category_name((enum category)(cat < CAT_MAX ? cat : CAT_UNKNOWN));
}

static const char *rank_state(char *buf, const struct report_rank *row)
{
	return proc_state(buf, &(struct report_proc){ .gone = row->gone, .exit_status = row->exit_status });
}

/* --- text: the table ---------------------------------------------------------------------------------- */

static int has_machines(const struct report_ranks *k)
{
	for (size_t i = 1; i < k->cnt; i++)
		if (k->rows[i].machine != k->rows[0].machine)
			return 1;
	return 0;
}

static const char *number_words(char *buf, size_t size, const struct report_ranks *k, const struct report_rank *row)
{
	const char *job = k->jobs_cnt > 1 ? row->label.job : "", *host = has_machines(k) && row->host ? row->host : "";

	snprintf(buf, size, "%u%s%.40s%s%.20s", row->rank, job[0] ? " " : "", job, host[0] ? " " : "", host);
	return buf;
}

/* "ACTIVATION 61 %, PARAMETER 20 %": of its peak; all but the first are left out rather than cut. */
static void cats_words(char *buf, size_t size, const struct report_rank *row, int cols)
{
	unsigned used = 0;
	size_t n = 0;

	buf[0] = '\0';
	for (int shown = 0; shown < CATS_WORDS && n < size; shown++) {
		unsigned best = CAT_MAX;
		char share[24], part[64];

		for (unsigned c = 0; c < CAT_MAX; c++)
			if (!(used & 1u << c) && row->cats[c].at_peak &&
			    (best == CAT_MAX || row->cats[c].at_peak > row->cats[best].at_peak))
				best = c;
		if (best == CAT_MAX)
			return;
		used |= 1u << best;
		snprintf(part, sizeof(part), "%s%s %s", n ? ", " : "", cat_word(best),
			 fmt_share(share, (double)row->cats[best].at_peak, (double)row->peak));
		if (n && n + strlen(part) > (size_t)cols)
			return;
		n += (size_t)snprintf(buf + n, size - n, "%s", part);
	}
}

static const struct report_ranks *ranks_of(const struct drawn *d)
{
	return d->r->ranks;
}

static unsigned number_cols(const struct drawn *d)
{
	return ranks_of(d)->jobs_cnt > 1 ? 24 : has_machines(ranks_of(d)) ? 16 : 6;
}

static void number(struct cell *c, const void *row)
{
	c->text = number_words(c->buf, sizeof(c->buf), ranks_of(c->d), row);
}

static void pid_there(struct cell *c, const void *row)
{
	c->num = ((const struct report_rank *)row)->pid & ((1u << EV_MACHINE_SHIFT) - 1);
}

/* "+1.2 %" */
static void part_more(char *buf, size_t size, uint64_t of, uint64_t than, uint64_t whole)
{
	snprintf(buf, size, "%+.1f %%", whole ? 100.0 * ((double)of - (double)than) / (double)whole : 0.0);
}

static void to_median(struct cell *c, const void *row)
{
	const struct report_rank *rank = row;

	part_more(c->buf, sizeof(c->buf), rank->peak, rank->median_peak, rank->median_peak);
	c->text = c->buf;
}

static void made_of(struct cell *c, const void *row)
{
	int cols = (int)(c->d->width - number_cols(c->d)) - 68;

	cats_words(c->buf, sizeof(c->buf), row, cols < 12 ? 12 : cols);
	c->text = c->buf;
}

static void state(struct cell *c, const void *row)
{
	c->text = rank_state(c->buf, row);
}

static uint64_t epoch(const struct report_ranks *k, uint64_t ts_ns)
{
	return ts_ns ? (uint64_t)((int64_t)ts_ns + k->epoch_off_ns) : 0;
}

static void put_num(struct json *j, const struct rank_label *label, const char *key, enum rank_num which)
{
	if (rank_label__num(label, which) >= 0)
		json__i64(j, key, rank_label__num(label, which));
}

static void put_label(struct json *j, const struct rank_label *label)
{
	put_num(j, label, "local_rank", RANK_OF_NODE);
	put_num(j, label, "world_size", RANK_WORLD);
	put_num(j, label, "local_world_size", RANK_WORLD_OF_NODE);
	put_num(j, label, "node_rank", RANK_NODE);
	put_num(j, label, "nodes", RANK_NODES);
	if (label->node[0])
		json__str(j, "node", label->node);
	if (label->job[0])
		json__str(j, "job", label->job);
}

static void put_its_label(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)key;
	(void)d;
	put_label(j, &((const struct report_rank *)row)->label);
}

static void put_cats(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_rank *rank = row;

	(void)d;
	json__begin(j, key, '{');
	for (unsigned c = 0; c < CAT_MAX; c++) {
		if (c >= CAT_COMPAT_MAX && !rank->cats[c].byte_ns)
			continue;
		json__begin_flat(j, cat_word(c), '{');
		json__u64(j, "live", rank->cats[c].live);
		json__u64(j, "at_peak", rank->cats[c].at_peak);
		json__u64(j, "byte_ns", rank->cats[c].byte_ns);
		json__end(j, '}');
	}
	json__end(j, '}');
}

static void put_its_steps(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_rank *rank = row;

	json__begin(j, key, '[');
	for (size_t i = 0; i < rank->steps_cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__u64(j, "number", rank->steps[i].number);
		json__u64(j, "ns", epoch(ranks_of(d), rank->steps[i].ts_ns));
		json__u64(j, "peak", rank->steps[i].peak);
		json__end(j, '}');
	}
	json__end(j, ']');
}

/* Its traced steps, and the composition of such a step. */
static void put_its_sampling(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_sampling *s = &((const struct report_rank *)row)->sampling;

	if (!s->is_on)
		return;
	json__begin(j, key, '{');
	json__u64(j, "steps_traced", s->steps_traced);
	json__u64(j, "windows", s->windows);
	windows_json(j, s->traced, s->traced_cnt, ranks_of(d)->epoch_off_ns);
	if (s->steps.steps) {
		json__begin(j, "mean_step", '{');
		steps_json(j, &s->steps);
		json__end(j, '}');
	}
	json__end(j, '}');
}

static void put_value(struct json *j, uint64_t v)
{
	if (v == POINT_UNKNOWN)
		json__null(j, NULL);
	else
		json__u64(j, NULL, v);
}

static void put_series(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct series *s = &((const struct report_rank *)row)->series;

	(void)d;
	json__begin_flat(j, key, '[');
	for (size_t i = 0; i < s->cnt; i++)
		put_value(j, s->points[i].live_max);
	json__end(j, ']');
}

static const struct column columns[] = {
	{ NULL, "rank", COL_TEXT, VIA(number), .cols = number_cols, TEXT(1) },
	{ "rank", NULL, COL_NUMBER, OF(report_rank, rank) },
	{ "label", NULL, .json = put_its_label },
	{ "machine", NULL, COL_NUMBER, OF(report_rank, machine) },
	{ "host", NULL, COL_OR_NULL, OF(report_rank, host) },
	{ NULL, "pid", COL_NUMBER, VIA(pid_there), TEXT(2, 8) },
	{ "pid", NULL, COL_NUMBER, OF(report_rank, pid) },
	{ "processes", "procs", COL_NUMBER, OF(report_rank, procs_cnt), TEXT(3, 6) },
	{ "state", "state", COL_TEXT, VIA(state), TEXT(9, 11, .gap = 2) },
	{ "live", "live", COL_BYTES, OF(report_rank, live), TEXT(4, 10) },
	{ "peak", "peak", COL_BYTES, OF(report_rank, peak), TEXT(5, 10) },
	{ NULL, "to median", COL_SHARE, VIA(to_median), TEXT(6, 10) },
	{ "peak_ns", NULL, COL_TIME, OF(report_rank, peak_ts_ns) },
	{ "rss_peak", NULL, COL_BYTES, OF(report_rank, rss_peak) },
	{ NULL, "its peak was", COL_TEXT, VIA(made_of), TEXT(8, 12, .wide = 1, .gap = 2) },
	{ "categories", NULL, .json = put_cats },
	{ "steps_total", "steps", COL_COUNT, OF(report_rank, steps_total), TEXT(7, 7) },
	{ "sampling", NULL, .json = put_its_sampling },
	{ "steps", NULL, .json = put_its_steps },
	{ "series", NULL, .json = put_series },
};

const struct table rank_table = TABLE(columns);

static void choose_row(uint8_t *chosen, size_t *cnt, size_t top, size_t row)
{
	if (*cnt == top || chosen[row])
		return;
	chosen[row] = 1;
	(*cnt)++;
}

/* If there is no room for all: the most relevant ones, then from the first one on. */
static size_t choose_rows(uint8_t chosen[RANKS_MAX], const struct report_ranks *k, size_t top)
{
	size_t cnt = 0;

	choose_row(chosen, &cnt, top, k->max_row);
	for (size_t i = 0; i < k->outliers_cnt; i++)
		choose_row(chosen, &cnt, top, k->outliers[i].row);
	for (size_t i = 0; i < k->cnt; i++)
		if (k->rows[i].gone == 1 && k->rows[i].exit_status)
			choose_row(chosen, &cnt, top, i);
	choose_row(chosen, &cnt, top, k->median_row);
	choose_row(chosen, &cnt, top, k->min_row);
	for (size_t i = 0; i < k->cnt; i++)
		choose_row(chosen, &cnt, top, i);
	return cnt;
}

static void put_table(struct page *p, const struct report *r, size_t top)
{
	const struct report_ranks *k = r->ranks;
	uint8_t chosen[RANKS_MAX] = { 0 };
	size_t cnt = choose_rows(chosen, k, top);
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	table_lines__begin(&l, p, &rank_table, &d);
	for (size_t i = 0; i < k->cnt; i++)
		if (chosen[i])
			table_lines__row(&l, &k->rows[i]);
	page__more(p, cnt, k->cnt, "ranks (--top, --json)");
}

/* --- text: ranks that differ ---------------------------------------------------------------------------- */

static const char *signed_bytes(char *buf, int64_t v)
{
	char a[24];

	snprintf(buf, 32, "%s %s", fmt_bytes(a, v < 0 ? 0 - (uint64_t)v : (uint64_t)v), v < 0 ? "below" : "above");
	return buf;
}

static void put_outlier(struct page *p, const struct report_ranks *k, const struct report_outlier *o)
{
	const struct report_rank *row = &k->rows[o->row];
	char name[80], a[24], b[32], c[24];
	struct sentence s = { 0 };

	sentence__add(&s, "rank %s: peak %s, %s the median rank", number_words(name, sizeof(name), k, row),
		      fmt_bytes(a, row->peak), signed_bytes(b, o->more));
	if (o->cat_more)
		sentence__add(&s, "; of that %s in %s",
			      fmt_bytes(c, o->cat_more < 0 ? 0 - (uint64_t)o->cat_more : (uint64_t)o->cat_more),
			      cat_word(o->cat));
	page__style(p, STYLE_RED);
	page__put(p, "  stands out: ");
	page__style(p, STYLE_PLAIN);
	page__flow(p, 4, s.text);
}

static void put_jobs(struct page *p, const struct report_ranks *k)
{
	struct sentence s = { 0 };

	if (k->jobs_cnt > 1)
		sentence__add(&s, "%zu jobs%s: the ranks of each are compared with each other", k->jobs_cnt, k->claimed ?
			      ", told apart by where their ranks meet or who launched them, for they have ranks of the same "
			      "number at the same time" : "");
	else if (k->claimed)
		sentence__add(&s, "processes that name the same rank at the same time, neither of them the other's child, have "
			      "a row each (%zu such pairs)", k->claimed);
	else
		return;
	page__item(p, 4, s.text);
}

static void put_missing(struct page *p, const struct report_ranks *k)
{
	char text[600];
	size_t n;

	if (!k->missing_total)
		return;
	n = (size_t)snprintf(text, sizeof(text), "not in this recording: %zu of %u ranks:", k->missing_total, k->world);
	for (size_t i = 0; i < k->missing_cnt && n < sizeof(text) - 24; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %u", k->missing[i]);
	if (k->missing_total > k->missing_cnt)
		snprintf(text + n, sizeof(text) - n, " …");
	page__item(p, 4, text);
}

/* The same steps: by their numbers, or where these are not known by the time. */
static bool is_same_window(const struct report_window *a, const struct report_window *b)
{
	return a->step && b->step ? a->step == b->step : a->begin_ns < b->end_ns && b->begin_ns < a->end_ns;
}

static bool has_window(const struct report_sampling *s, const struct report_window *w)
{
	for (size_t i = 0; i < s->traced_cnt; i++)
		if (is_same_window(&s->traced[i], w))
			return true;
	return false;
}

#define WINDOWS_KEPT 64 /* of a rank (report_tracing.h) */
#define WINDOWS_LISTED 6

static size_t common_windows(const struct report_ranks *k, const struct report_window *ret[WINDOWS_KEPT])
{
	const struct report_sampling *one = &k->rows[0].sampling; /* all ranks are to have them */
	size_t cnt = 0;

	for (size_t i = 0; i < one->traced_cnt && cnt < WINDOWS_KEPT; i++) {
		size_t row = 1;

		while (row < k->cnt && has_window(&k->rows[row].sampling, &one->traced[i]))
			row++;
		if (row == k->cnt)
			ret[cnt++] = &one->traced[i];
	}
	return cnt;
}

/* "in 5 (rank 17) to 8 windows a rank" */
static bool add_counts(struct sentence *s, const struct report_ranks *k)
{
	const struct report_rank *least = &k->rows[0], *most = least;
	char name[80];

	for (size_t i = 0; i < k->cnt; i++) {
		least = k->rows[i].sampling.windows < least->sampling.windows ? &k->rows[i] : least;
		most = k->rows[i].sampling.windows > most->sampling.windows ? &k->rows[i] : most;
	}
	sentence__add(s, "traced in %" PRIu64, least->sampling.windows);
	if (most->sampling.windows > least->sampling.windows)
		sentence__add(s, " (rank %s) to %" PRIu64, number_words(name, sizeof(name), k, least), most->sampling.windows);
	sentence__add(s, " windows a rank; ");
	return most->sampling.windows != 0;
}

/* When: by the number of their first step, else by the time. */
static void put_traced(struct page *p, const struct report_ranks *k)
{
	const struct report_window *same[WINDOWS_KEPT];
	size_t cnt = common_windows(k, same);
	struct sentence s = { 0 };
	char at[24];

	if (!add_counts(&s, k))
		return;
	if (!cnt)
		sentence__add(&s, "none has the same steps of all ranks: --align R is for that");
	else
		sentence__add(&s, "%zu of %s %s the same steps of all ranks, from", cnt,
			      k->rows[0].sampling.windows > WINDOWS_KEPT ? "the latest 64" : "them", cnt == 1 ? "has" : "have");
	for (size_t i = 0; i < cnt; i++) {
		bool leaves_out = i == WINDOWS_LISTED - 1 && cnt > WINDOWS_LISTED;
		const char *before = leaves_out ? " … to" : i ? "," : "";

		i = leaves_out ? cnt - 1 : i;
		if (same[i]->step)
			sentence__add(&s, "%s%s %" PRIu64, before, i && same[i - 1]->step ? "" : " step", same[i]->step);
		else
			sentence__add(&s, "%s %s after the start", before, fmt_ns(at, same[i]->begin_ns - k->start_ts_ns));
	}
	page__item(p, 4, s.text);
}

static void put_verdict(struct page *p, const struct report_ranks *k)
{
	const struct report_rank *max = &k->rows[k->max_row], *min = &k->rows[k->min_row], *mid = &k->rows[k->median_row];
	char name[80], a[24];
	struct sentence s = { 0 };

	sentence__add(&s, "peaks: highest %s of rank %s", fmt_bytes(a, max->peak), number_words(name, sizeof(name), k, max));
	sentence__add(&s, ", median %s", fmt_bytes(a, mid->peak));
	sentence__add(&s, ", lowest %s of rank %s", fmt_bytes(a, min->peak), number_words(name, sizeof(name), k, min));
	page__item(p, 4, s.text);
	put_jobs(p, k);
	for (size_t i = 0; i < k->outliers_cnt; i++)
		put_outlier(p, k, &k->outliers[i]);
	if (!k->outliers_cnt && k->cnt > 1)
		page__line(p, "  no rank stands out");
	put_missing(p, k);
	put_traced(p, k);
	if (k->died) {
		page__style(p, STYLE_RED);
		page__printf(p, "  %zu rank%s ended by a signal or failed", k->died, k->died == 1 ? "" : "s");
		page__style(p, STYLE_PLAIN);
		page__end_line(p);
	}
	if (k->not_listed)
		page__line(p, "  %zu processes found no room (at most %u ranks): they count as others", k->not_listed,
			   RANKS_MAX);
	if (k->others_peak) {
		page__printf(p, "  processes that are no rank: live %s", fmt_bytes(a, k->others_live));
		page__line(p, ", peak %s", fmt_bytes(a, k->others_peak));
	}
}

/* --- text: over time -------------------------------------------------------------------------------------- */

enum { BY_STEP = 1, BY_TIME = 2 };

static void after(struct cell *c, const void *row)
{
	c->num = ((const struct report_step_row *)row)->ts_ns - ranks_of(c->d)->start_ts_ns;
}

static void max_to_median(struct cell *c, const void *row)
{
	const struct report_step_row *s = row;

	part_more(c->buf, sizeof(c->buf), s->max, s->median, s->median);
	c->text = c->buf;
}

static void highest(struct cell *c, const void *row)
{
	const struct report_rank *rank = &ranks_of(c->d)->rows[((const struct report_step_row *)row)->max_row];
	char name[80];

	c->num = rank->rank;
	cell__say(c, "rank %s", number_words(name, sizeof(name), ranks_of(c->d), rank));
}

static const struct column spread_columns[] = {
	{ "number", "step", COL_NUMBER, OF(report_step_row, number), .only = BY_STEP, TEXT(1, 8) },
	{ NULL, "after", COL_NS, VIA(after), .only = BY_TIME, TEXT(1, 8) },
	{ "ns", NULL, COL_TIME, OF(report_step_row, ts_ns) },
	{ "begun_apart_ns", "begun apart", COL_NS, OF(report_step_row, late_ns), .only = BY_STEP, TEXT(6, 13) },
	{ "min", "lowest", COL_BYTES, OF(report_step_row, min), TEXT(2, 10) },
	{ "median", "median", COL_BYTES, OF(report_step_row, median), TEXT(3, 10) },
	{ "max", "highest", COL_BYTES, OF(report_step_row, max), TEXT(4, 10) },
	{ NULL, "to median", COL_SHARE, VIA(max_to_median), TEXT(5, 12) },
	{ "max_rank", NULL, COL_NUMBER, VIA(highest) },
	{ NULL, "highest is", COL_TEXT, VIA(highest), .only = BY_STEP, TEXT(7, 72, .gap = 2) },
};

static const struct table step_spread = TABLE(spread_columns, .variant = BY_STEP);
static const struct table time_spread = TABLE(spread_columns, .variant = BY_TIME);

/* Some of many, evenly. */
static size_t one_of(size_t cnt, size_t shown, size_t i)
{
	return shown == 1 ? 0 : i * (cnt - 1) / (shown - 1);
}

static void put_steps(struct page *p, const struct report *r)
{
	const struct report_ranks *k = r->ranks;
	size_t shown = k->steps_cnt < STEPS_SHOWN ? k->steps_cnt : STEPS_SHOWN;
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	page__heading(p, "Imbalance by step: the highest of each rank from its mark to the next");
	table_lines__begin(&l, p, &step_spread, &d);
	for (size_t i = 0; i < shown; i++)
		table_lines__row(&l, &k->steps[one_of(k->steps_cnt, shown, i)]);
}

static void put_buckets(struct page *p, const struct report *r)
{
	const struct report_ranks *k = r->ranks;
	const struct series *s = &k->rows[0].series;
	size_t shown = s->cnt < BUCKETS_SHOWN ? s->cnt : BUCKETS_SHOWN;
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	page__heading(p, "Imbalance over time (no steps that all ranks made were seen)");
	table_lines__begin(&l, p, &time_spread, &d);
	for (size_t i = 0; i < shown; i++) {
		size_t at = one_of(s->cnt, shown, i);
		struct report_step_row row = { .ts_ns = s->points[at].ts_ns };

		if (report_ranks__bucket(k, at, &row.max, &row.median, &row.min) && row.max != POINT_UNKNOWN)
			table_lines__row(&l, &row);
	}
}

/* --- text: the worst --------------------------------------------------------------------------------------- */

static void put_worst(struct page *p, const struct report_ranks *k)
{
	const struct report_rank *row = &k->rows[k->max_row];
	const struct report *w = k->worst;
	char title[120], name[80], a[24];

	snprintf(title, sizeof(title), "The highest peak: rank %s, %s", number_words(name, sizeof(name), k, row),
		 fmt_bytes(a, row->peak));
	page__heading(p, title);
	for (unsigned c = 0; c < CAT_MAX; c++) {
		if (!row->cats[c].at_peak)
			continue;
		page__put(p, "  ");
		page__cell(p, cat_word(c), 18);
		page__cell(p, fmt_bytes(a, row->cats[c].at_peak), -10);
		page__cell(p, fmt_share(a, (double)row->cats[c].at_peak, (double)row->peak), -9);
		part_more(title, sizeof(title), row->cats[c].at_peak, k->rows[k->median_row].cats[c].at_peak, row->peak);
		page__cell(p, title, -10);
		page__line(p, " against the median rank");
	}
	for (size_t i = 0; i < w->ops.cnt && i < OPS_SHOWN && w->ops.rows[i].at_peak; i++) {
		page__put(p, "  ");
		page__cell(p, w->ops.rows[i].name, 40);
		page__cell(p, fmt_bytes(a, w->ops.rows[i].at_peak), -10);
		page__cell(p, fmt_share(a, (double)w->ops.rows[i].at_peak, (double)row->peak), -9);
		page__end_line(p);
	}
}

void ranks_text(struct page *p, const struct report *r, size_t top)
{
	const struct report_ranks *k = r->ranks;
	const char *job = k->jobs_cnt == 1 ? k->rows[0].label.job : "";
	char title[120];

	snprintf(title, sizeof(title), "Ranks (%s)%s%.40s", memory_word(k), job[0] ? ", job " : "", job);
	page__heading(p, title);
	put_table(p, r, top);
	put_verdict(p, k);
	if (k->cnt == 1)
		return; /* there is nothing to compare */
	if (k->steps_cnt)
		put_steps(p, r);
	else
		put_buckets(p, r);
	put_worst(p, k);
}

/* --- JSON ------------------------------------------------------------------------------------------------- */

void proc_rank_json(struct json *j, const struct report_proc *p)
{
	struct rank_label label = report_proc_label(p);
	uint32_t rank;

	if (rank_label__rank(&label, &rank) == RANK_NONE)
		return;
	json__begin_flat(j, "rank", '{');
	json__u64(j, "rank", rank);
	put_label(j, &label);
	json__end(j, '}');
}

static void put_outliers_json(struct json *j, const struct report_ranks *k)
{
	json__begin(j, "outliers", '[');
	for (size_t i = 0; i < k->outliers_cnt; i++) {
		const struct report_outlier *o = &k->outliers[i];

		json__begin_flat(j, NULL, '{');
		json__u64(j, "rank", k->rows[o->row].rank);
		json__u64(j, "machine", k->rows[o->row].machine);
		json__u64(j, "index", o->row);
		json__str(j, "by", "peak");
		json__f64(j, "score", o->score);
		json__i64(j, "more", o->more);
		json__str(j, "category", cat_word(o->cat));
		json__i64(j, "category_more", o->cat_more);
		json__end(j, '}');
	}
	json__end(j, ']');
}

static void put_over_time_json(struct json *j, const struct report_ranks *k)
{
	uint64_t max, median, min;

	json__begin(j, "over_time", '{');
	json__u64(j, "from_ns", epoch(k, k->start_ts_ns));
	json__u64(j, "bucket_ns", k->cnt ? k->rows[0].series.bucket_ns : 0);
	json__begin(j, "max_median_min", '[');
	for (size_t i = 0; report_ranks__bucket(k, i, &max, &median, &min); i++) {
		json__begin_flat(j, NULL, '[');
		put_value(j, max);
		put_value(j, median);
		put_value(j, min);
		json__end(j, ']');
	}
	json__end(j, ']');
	json__end(j, '}');
}

void ranks_json(struct json *j, const struct report *r)
{
	const struct report_ranks *k = r->ranks;
	struct drawn d = drawn_as(AS_JSON, r);
	uint64_t sum;

	if (!k)
		return;
	d.epoch_off_ns = k->epoch_off_ns;
	sum = k->others_live;
	for (size_t i = 0; i < k->cnt; i++)
		sum += k->rows[i].live;
	json__begin(j, "ranks", '{');
	json__str(j, "memory", memory_word(k));
	json__u64(j, "count", k->cnt);
	json__u64(j, "world_size", k->world);
	json__u64(j, "missing_total", k->missing_total);
	json__begin_flat(j, "missing", '[');
	for (size_t i = 0; i < k->missing_cnt; i++)
		json__u64(j, NULL, k->missing[i]);
	json__end(j, ']');
	json__u64(j, "died", k->died);
	json__u64(j, "not_listed", k->not_listed);
	json__u64(j, "jobs", k->jobs_cnt);
	json__u64(j, "highest_index", k->max_row);
	json__u64(j, "median_index", k->median_row);
	json__u64(j, "highest", k->rows[k->max_row].rank);
	json__u64(j, "median", k->rows[k->median_row].rank);
	json__u64(j, "lowest", k->rows[k->min_row].rank);
	put_outliers_json(j, k);
	json__u64(j, "live_sum", sum);
	json__u64(j, "others_live", k->others_live);
	json__u64(j, "others_peak", k->others_peak);
	json__begin(j, "list", '[');
	for (size_t i = 0; i < k->cnt; i++) {
		json__begin(j, NULL, '{');
		table__fields(j, &rank_table, &d, &k->rows[i]);
		json__end(j, '}');
	}
	json__end(j, ']');
	table__list(j, "steps", &step_spread, &d, k->steps, k->steps_cnt, sizeof(*k->steps));
	put_over_time_json(j, k);
	json__end(j, '}');
}
