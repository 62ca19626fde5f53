/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/table.h"

#define KIND_PART 10 /* of all steps */

/* A category of a device; CAT_MAX: all of them. */
struct step_row {
	uint8_t dev, category;
	struct report_step_cat cat;
};

static void put_bytes(struct cell *c, double bytes)
{
	c->text = fmt_bytes(c->buf, bytes > 0 ? (uint64_t)(bytes + 0.5) : 0);
}

static void put_error(struct cell *c, double bytes)
{
	if (bytes < 0)
		c->text = "?";
	else
		put_bytes(c, bytes);
}

static void at_peak(struct cell *c, const void *row)
{
	put_bytes(c, ((const struct step_row *)row)->cat.at_peak.mean);
}

static void at_peak_error(struct cell *c, const void *row)
{
	put_error(c, ((const struct step_row *)row)->cat.at_peak.error);
}

static void mean(struct cell *c, const void *row)
{
	put_bytes(c, ((const struct step_row *)row)->cat.mean.mean);
}

static void mean_error(struct cell *c, const void *row)
{
	put_error(c, ((const struct step_row *)row)->cat.mean.error);
}

static void category(struct cell *c, const void *row)
{
	const struct step_row *s = row;

	c->text = s->category == CAT_MAX ? "all" : category_name((enum category)s->category);
}

/* With one window no error is known, with several each number's. */
#define KNOWN 1

static const struct column columns[] = {
	{ NULL, "device", COL_DEV, OF(step_row, dev), TEXT(1, 10) },
	{ NULL, "category", COL_TEXT, VIA(category), TEXT(2, 20) },
	{ NULL, "at its peak", COL_BYTES, VIA(at_peak), TEXT(3, 13) },
	{ NULL, "give or take", COL_BYTES, VIA(at_peak_error), .only = KNOWN, TEXT(4, 14) },
	{ NULL, "mean", COL_BYTES, VIA(mean), TEXT(5, 13) },
	{ NULL, "give or take", COL_BYTES, VIA(mean_error), .only = KNOWN, TEXT(6, 14) },
};

static const struct table table = TABLE(columns), table_known = TABLE(columns, .variant = KNOWN);

static int step_cat_is_there(const struct report_step_cat *c)
{
	return c->mean.mean >= 0.5 || c->at_peak.mean >= 0.5;
}

static int by_part(const void *pa, const void *pb)
{
	const struct step_row *a = pa, *b = pb;

	return cmp_down(a->cat.at_peak.mean, b->cat.at_peak.mean) ?: cmp_up(a->category, b->category);
}

static void put_rows(struct table_lines *l, const struct report_steps *s)
{
	for (size_t i = 0; i < s->devs_cnt; i++) {
		const struct report_step_dev *d = &s->devs[i];

		struct step_row rows[CAT_MAX];
		size_t cnt = 0;

		for (uint8_t c = 0; d->dev != MT_DEV_HOST && c < CAT_MAX; c++)
			if (step_cat_is_there(&d->cats[c]))
				rows[cnt++] = (struct step_row){ d->dev, c, d->cats[c] };
		qsort(rows, cnt, sizeof(*rows), by_part);
		table_lines__row(l, &(struct step_row){ d->dev, CAT_MAX, d->all });
		for (size_t k = 0; k < cnt; k++)
			table_lines__row(l, &rows[k]);
	}
}

/* --- kinds ---------------------------------------------------------------------------------------------------------- */

static void regions(struct cell *c, const void *row)
{
	const struct report_step_kind *k = row;

	c->num = k->regions;
	if (!k->has_regions) {
		c->text = "?";
		c->none = NONE_NULL;
	}
}

static const struct report_step_dev *kind_dev(const struct report_step_kind *k)
{
	for (size_t i = 0; i < k->made.devs_cnt; i++)
		if (k->made.devs[i].dev != MT_DEV_HOST)
			return &k->made.devs[i];
	return NULL;
}

static void kind_peak(struct cell *c, const void *row)
{
	const struct report_step_dev *d = kind_dev(row);

	if (d)
		put_bytes(c, d->all.at_peak.mean);
	else
		c->text = "?";
}

static void kind_error(struct cell *c, const void *row)
{
	const struct report_step_dev *d = kind_dev(row);

	put_error(c, d ? d->all.at_peak.error : -1);
}

static const struct column kind_columns[] = {
	{ "regions", "regions", COL_NUMBER, VIA(regions), TEXT(1, 9) },
	{ "watched", "watched", COL_NUMBER, OF(report_step_kind, watched), TEXT(2, 9) },
	{ "traced", "traced", COL_NUMBER, OF(report_step_kind, traced), TEXT(3, 8) },
	{ "took_ns", "take", COL_NS, OF(report_step_kind, took_ns), OR_NULL_IF_NOT(report_step_kind, took_ns), TEXT(4, 10) },
	{ "traced_took_ns", "traced", COL_NS, OF(report_step_kind, traced_took_ns),
	  OR_NULL_IF_NOT(report_step_kind, traced_took_ns), TEXT(5, 10) },
	{ NULL, "peak", COL_BYTES, VIA(kind_peak), TEXT(6, 11) },
	{ NULL, "give or take", COL_BYTES, VIA(kind_error), TEXT(7, 14) },
	{ "peaks", "heights", COL_NUMBER, OF(report_step_kind, peaks), TEXT(8, 9) },
};

static const struct table kind_table = TABLE(kind_columns);

/* A kind with few steps that was never traced is mostly noise of the machine: shown on request. */
static int kinds_are_reported(const struct report_sampling *s, int is_all)
{
	uint64_t steps = 0, least;
	unsigned cnt = 0;

	for (size_t i = 0; i < s->kinds_cnt; i++)
		steps += s->kinds[i].watched + s->kinds[i].traced;
	least = is_all ? 0 : steps / KIND_PART;
	for (size_t i = 0; i < s->kinds_cnt; i++)
		cnt += s->kinds[i].traced || s->kinds[i].watched > least;
	return cnt > 1 || (cnt && s->kinds[0].peaks > 1);
}

static void put_kinds(struct page *p, const struct report *r, int is_all)
{
	const struct report_sampling *s = &r->sampling;
	struct drawn d = drawn_as(AS_TEXT, r);

	if (!kinds_are_reported(s, is_all))
		return;
	page__heading(p, "Kinds of steps");
	table__text(p, &kind_table, &d, s->kinds, s->kinds_cnt, sizeof(*s->kinds));
	page__itemf(p, 2, "told apart by how many regions begin in a step and how long it takes, seen of all; a kind whose "
		    "traced steps have peaks of several heights is several, which that does not show; %" PRIu64
		    " steps are of none: probes came and went, or they are too few", s->steps_unsorted);
}

static void put_average(struct page *p, const struct report *r)
{
	const struct report_steps *s = &r->sampling.steps;
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	char text[300];

	page__heading(p, "A traced step on average");
	table_lines__begin(&l, p, s->windows > 1 ? &table_known : &table, &d);
	put_rows(&l, s);
	if (s->windows > 1)
		snprintf(text, sizeof(text), "of %" PRIu64 " steps in %" PRIu64 " windows; the average of all steps is within "
			 "what is given, for %.0f of 100 such numbers, if windows were at random moments", s->steps, s->windows,
			 100 * REPORT_STEPS_SURE);
	else
		snprintf(text, sizeof(text), "of %" PRIu64 " steps in one window, which says nothing of how far other steps "
			 "differ", s->steps);
	page__item(p, 2, text);
}

void steps_text(struct page *p, const struct report *r, int is_all)
{
	const struct report_steps *s = &r->sampling.steps;

	if (!s->devs_cnt)
		return;
	if (is_all || s->windows > 1) /* with one window the categories' own table is the same */
		put_average(p, r);
	put_kinds(p, r, is_all);
}

/* --- JSON ----------------------------------------------------------------------------------------------------------- */

static void put_estimate(struct json *j, const char *key, const char *key_error, const struct report_estimate *e)
{
	json__average(j, key, e->mean);
	if (e->error >= 0)
		json__average(j, key_error, e->error);
}

static void put_cats(struct json *j, const struct report_step_dev *d)
{
	json__begin(j, "categories", '{');
	for (unsigned c = 0; c < CAT_MAX; c++) {
		if (!step_cat_is_there(&d->cats[c]))
			continue;
		json__begin_flat(j, category_name((enum category)c), '{');
		put_estimate(j, "at_peak", "at_peak_error", &d->cats[c].at_peak);
		put_estimate(j, "mean", "mean_error", &d->cats[c].mean);
		json__end(j, '}');
	}
	json__end(j, '}');
}

void steps_json(struct json *j, const struct report_steps *s)
{
	char name[16];

	json__u64(j, "steps", s->steps);
	json__u64(j, "windows", s->windows);
	if (s->windows > 1)
		json__f64(j, "sure", REPORT_STEPS_SURE);
	json__begin(j, "devices", '{');
	for (size_t i = 0; i < s->devs_cnt; i++) {
		json__begin(j, dev_name(s->devs[i].dev, name), '{');
		put_estimate(j, "peak", "peak_error", &s->devs[i].all.at_peak);
		put_estimate(j, "mean", "mean_error", &s->devs[i].all.mean);
		put_cats(j, &s->devs[i]);
		json__end(j, '}');
	}
	json__end(j, '}');
}

void kinds_json(struct json *j, const struct report *r)
{
	struct drawn d = drawn_as(AS_JSON, r);

	json__u64(j, "steps_unsorted", r->sampling.steps_unsorted);
	json__begin(j, "step_kinds", '[');
	for (size_t i = 0; i < r->sampling.kinds_cnt; i++) {
		const struct report_step_kind *k = &r->sampling.kinds[i];

		json__begin(j, NULL, '{');
		table__fields(j, &kind_table, &d, k);
		if (k->made.steps) {
			json__begin(j, "mean_step", '{');
			steps_json(j, &k->made);
			json__end(j, '}');
		}
		json__end(j, '}');
	}
	json__end(j, ']');
}

/* The reason for tracing it then. */
static const char *why_word(uint8_t why)
{
	static const char *const words[EV_WHY_MAX] = { "due", "asked", "rss", "gpu", "odd_step", "refused" };

	return why < EV_WHY_MAX ? words[why] : "due";
}

/* Times and steps: the number of the first one, if known from the optimizer. */
void windows_json(struct json *j, const struct report_window *v, size_t cnt, int64_t epoch_off_ns)
{
	json__begin(j, "traced", '[');
	for (size_t i = 0; i < cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__u64(j, "begin_ns", v[i].begin_ns + (uint64_t)epoch_off_ns);
		json__u64(j, "end_ns", v[i].end_ns + (uint64_t)epoch_off_ns);
		if (v[i].step)
			json__u64(j, "step", v[i].step);
		json__u64(j, "steps", v[i].steps);
		json__str(j, "why", why_word(v[i].why));
		json__end(j, '}');
	}
	json__end(j, ']');
}
