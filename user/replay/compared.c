/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/compared.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/names.h"
#include "base/regions.h"
#include "timeline/labels.h"
#include "timeline/means.h"
#include "timeline/report.h"
#include "view/fold/holdings.h"

#define SKIPPED 2 /* the first steps: of a job that was launched they make its optimizer's state, and take longer than others */
#define SKIP_ABOVE 8
#define SKIP_ABOVE_TRACED 4 /* where only some are traced; the first ones seldom are */

/* --- where steps are ------------------------------------------------------------------------------------- */

struct boundaries {
	uint64_t ts_ns[SKIPPED + 1]; /* the first ones */
	uint64_t last_ns, cnt;
};

struct compared_scan {
	const struct names *names;
	struct labels *labels;
	struct boundaries marks, optimizer;
	uint64_t first_ns, last_ns; /* decisions */
	int has_ops;
};

static void boundaries__add(struct boundaries *b, uint64_t ts_ns)
{
	if (b->cnt <= SKIPPED)
		b->ts_ns[b->cnt] = ts_ns;
	b->cnt++;
	b->last_ns = ts_ns;
}

static int scan_begin(void *ctx, const struct names *names)
{
	((struct compared_scan *)ctx)->names = names;
	return 0;
}

static int scan_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct compared_scan *s = ctx;

	(void)epoch_off_ns;
	s->first_ns = s->first_ns ? s->first_ns : ev->ts_ns;
	s->last_ns = ev->ts_ns;
	if (ev->kind == TL_OP && !s->has_ops) { /* before, their probes were being set: such a step is not whole */
		s->has_ops = 1;
		s->marks = s->optimizer = (struct boundaries){ .cnt = 0 };
	}
	if (ev->kind == TL_STEP)
		boundaries__add(&s->marks, ev->ts_ns);
	else if (ev->kind == TL_REGION && region_is_step(names__get(s->names, ev->region)))
		boundaries__add(&s->optimizer, ev->ts_ns);
	return s->labels ? labels__event(s->labels, ev) : 0;
}

static void choose_stretch(struct diff_side *side, const struct compared_scan *s, const struct report_sampling *sampling)
{
	const struct boundaries *b = s->marks.cnt >= 2 ? &s->marks : &s->optimizer;
	bool has_others = !sampling->is_on || sampling->steps_traced > SKIP_ABOVE_TRACED;
	uint64_t skip = b->cnt > SKIP_ABOVE && has_others ? SKIPPED : 0;

	side->is_sampled = sampling->is_on;
	side->from_ns = b->cnt >= 2 ? b->ts_ns[skip] : s->first_ns;
	side->to_ns = b->cnt >= 2 ? b->last_ns : s->last_ns;
	side->steps = side->is_sampled ? sampling->steps_traced : b->cnt >= 2 ? b->cnt - 1 - skip : 0;
}

int compared__scan(struct compared *c, struct err *err)
{
	struct compared_scan s = { .names = NULL };
	struct replay_opts ro = { .top = 1, .begin = scan_begin, .event = scan_event, .with_ops = 1,
				  .with_nodes = 1, .ctx = &s };
	int r = c->with_categories ? labels__new(&c->labels, err) : 0;

	s.labels = c->labels;
	r = r ? r : chosen__find(&c->chosen, &c->asked, c->path, c->classes, err);
	if (!r)
		r = chosen__run(&c->chosen, c->path, &ro, &c->scanned, &c->end, err);
	if (!r)
		choose_stretch(&c->side, &s, &c->scanned->sampling);
	return r;
}

/* --- events between them --------------------------------------------------------------------------------- */

struct compared_reading {
	struct compared *c;
	const struct names *names;
	struct means *means;
};

static int read_begin(void *ctx, const struct names *names)
{
	((struct compared_reading *)ctx)->names = names;
	return 0;
}

static int read_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return means__event(((struct compared_reading *)ctx)->means, ev);
}

static int read_mark(void *ctx, struct report *then)
{
	struct compared *c = ((struct compared_reading *)ctx)->c;

	c->at[c->at_cnt++] = then;
	return 0;
}

static int read_end(void *ctx, const struct report *end, int r)
{
	const struct compared_reading *x = ctx;
	struct compared *c = x->c;

	if (r < 0)
		return r;
	c->op_means = calloc(end->ops.cnt + 1, sizeof(*c->op_means));
	c->region_means = calloc(end->regions.cnt + 1, sizeof(*c->region_means));
	c->stack_means = calloc(end->stacks.cnt + 1, sizeof(*c->stack_means));
	if (c->with_categories)
		c->category_means = calloc(end->devs_cnt + 1, CAT_MAX * sizeof(*c->category_means));
	if (!c->op_means || !c->region_means || !c->stack_means || (c->with_categories && !c->category_means))
		return -ENOMEM;
	for (size_t i = 0; i < end->ops.cnt; i++)
		c->op_means[i] = means__op(x->means, names__find(x->names, end->ops.rows[i].name));
	c->op_means[end->ops.cnt] = means__op(x->means, NAME_NONE);
	for (size_t i = 0; i < end->regions.cnt; i++)
		c->region_means[i] = means__region(x->means, names__find(x->names, end->regions.rows[i].name));
	for (size_t i = 0; i < end->stacks.cnt; i++)
		c->stack_means[i] = means__stack(x->means, end->stacks.rows[i].node);
	c->stack_means[end->stacks.cnt] = means__stack(x->means, 0);
	for (size_t i = 0; c->category_means && i < end->devs_cnt * CAT_MAX; i++)
		c->category_means[i] = means__category(x->means, end->devs[i / CAT_MAX].dev, (enum category)(i % CAT_MAX));
	return 0;
}

/* malloc is the only layer. */
static bool has_host_alone(const struct report *r)
{
	return r->devs_cnt == 1 && r->devs[0].dev == MT_DEV_HOST;
}

int compared__read(struct compared *c, enum diff_by by, struct err *err)
{
	struct diff_side *side = &c->side;
	struct compared_reading x = { .c = c, .means = means__new(side->from_ns, side->to_ns, has_host_alone(c->scanned),
								  c->labels) };
	struct replay_opts ro = { .top = SIZE_MAX, .ranks_top = by == DIFF_BY_RANK ? 1 : 0, .begin = read_begin,
				  .event = read_event, .end = read_end, .mark = read_mark,
				  .marks = { side->from_ns, side->to_ns }, .marks_cnt = 2, .classes = c->classes, .ctx = &x };
	struct replay_end end;
	int r = x.means ? chosen__run(&c->chosen, c->path, &ro, &c->report, &end, err) : -ENOMEM;

	means__free(x.means);
	if (r < 0)
		return r == -ENOMEM ? err_set(err, r, "out of memory") : r;
	side->from = c->at[0];
	side->to = c->at[1];
	side->end = c->report;
	side->op_means = c->op_means;
	side->region_means = c->region_means;
	side->stack_means = c->stack_means;
	side->category_means = c->category_means;
	return 0;
}

/* --- tensors live at the peak ----------------------------------------------------------------------------- */

/* A job that makes gradients anew in each step has names for some of them. */
static int side__name(struct compared *c, uint8_t dev, struct err *err)
{
	struct selection asked = c->asked;
	const struct holding *rows;
	size_t cnt;
	int r;

	if (!report_dev_find(c->report, dev))
		return 0;
	asked.dev = dev;
	r = held_moment__learn(&c->peak, &asked, c->path, c->classes, err);
	if (!r)
		r = held_moment__hold(&c->peak, 0, err);
	if (r < 0)
		return r;
	rows = holdings__rows(c->peak.held, HELD_BY_NAME, &cnt);
	c->named = calloc(cnt + 1, sizeof(*c->named));
	if (!c->named)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < cnt; i++)
		if (rows[i].name[0] && !rows[i].is_gradient)
			c->named[c->side.named_cnt++] = (struct diff_named){ rows[i].name, rows[i].bytes };
	c->side.named = c->named;
	return 0;
}

int compared__name(struct compared *a, struct compared *b, struct err *err)
{
	uint64_t to;
	const struct report_dev *d = diff_peak_changed(a->report, b->report, &to);
	int r = d ? side__name(a, d->dev, err) : 0;

	return r || !d ? r : side__name(b, d->dev, err);
}

void compared__done(struct compared *c)
{
	held_moment__done(&c->peak);
	chosen__done(&c->chosen);
	free(c->named);
	report__free(c->scanned);
	report__free(c->at[0]);
	report__free(c->at[1]);
	report__free(c->report);
	free(c->op_means);
	free(c->region_means);
	free(c->stack_means);
	free(c->category_means);
	labels__free(c->labels);
}
