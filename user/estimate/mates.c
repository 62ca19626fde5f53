/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Of transformers' Llama, attached in mid-run with batches of 4 and 8, parameters and state were seen in different orders.
 * Paired by order a large one got a small one's size and the other way round: right in sum at both batches, and beyond them
 * the slopes below zero were cut, those above were not. 16 was 14 % too high, 32 was 25 %, with a fit that was exact.
 */
#include "estimate/mates.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "timeline/timeline.h"

#define LOOK_AHEAD 32 /* blocks of one side alone, in a row */
#define LIKE_AFTER 3 /* … after which so many must be mates, too */
#define SQUARE_NEAR 0.02
#define STEEP_FROM 1.02 /* faster than the batch; allocators and libraries round */

struct mates_side {
	const struct items *i;
	uint32_t *free; /* given ones without a mate */
	size_t cnt;
};

struct matching {
	struct mates *m;
	struct items *a, *b;
	struct mates_side sides[2];
};

/* Parameters and what belongs to each of them do not go with the batch. */
static int is_of_parameters(const struct item *t)
{
	return !t->k || t->k->phase == PHASE_OPTIMIZER || t->k->cat == CAT_PARAMETER || t->k->cat == CAT_GRADIENT ||
	       t->k->cat == CAT_OPTIMIZER_STATE;
}

static const char *name(const struct items *i, name_id id)
{
	return names__get(i->names, id);
}

/* --- a size for each batch --------------------------------------------------------------------------------------- */

static void pair(struct matching *p, size_t a, size_t b)
{
	struct item *t = &p->a->at[a], *u = &p->b->at[b];
	double by = p->m->batch_b / p->m->batch_a, grown = t->size > 0 ? u->size / t->size : 0;

	t->other = u->size;
	t->span = p->m->batch_b - p->m->batch_a;
	t->slope = (u->size - t->size) / t->span;
	t->is_paired = 1;
	u->factor = 0; /* what stays is b's alone */
	p->m->paired += t->k->size;
	if (by < 1) {
		by = 1 / by;
		grown = grown > 0 ? 1 / grown : 0;
	}
	if (grown < 1) {
		t->doubt = ITEM_SHRINKS;
	} else if (!t->is_given && fabs(grown / (by * by) - 1) < SQUARE_NEAR) {
		t->curve = t->size / (p->m->batch_a * p->m->batch_a);
		t->slope = 2 * t->curve * p->m->batch_a;
	} else if (grown > by * STEEP_FROM) {
		t->doubt = ITEM_STEEP;
	}
	if (t->doubt)
		p->m->unsure += t->k->size;
}

/* --- those that are given ------------------------------------------------------------------------------------------ */

static int by_name(const struct items *i, const struct item *t, const struct items *j, const struct item *u)
{
	int d = strcmp(name(i, t->k->path), name(j, u->k->path));

	return d ? d : t->k->kind - u->k->kind;
}

static int larger(const struct item *t, const struct item *u)
{
	return (t->k->size < u->k->size) - (t->k->size > u->k->size);
}

/* The states of a parameter have one name together. */
static int by_name_and_size(const struct items *i, const struct item *t, const struct items *j, const struct item *u)
{
	int d = by_name(i, t, j, u);

	return d ? d : larger(t, u);
}

static int by_kind(const struct items *i, const struct item *t, const struct items *j, const struct item *u)
{
	int d = t->k->cat - u->k->cat;

	return d ? d : strcmp(name(i, t->k->op), name(j, u->k->op));
}

static int by_size(const struct items *i, const struct item *t, const struct items *j, const struct item *u)
{
	int d = by_kind(i, t, j, u);

	return d ? d : larger(t, u);
}

typedef int (*order_fn)(const struct items *i, const struct item *t, const struct items *j, const struct item *u);

struct sorting {
	const struct items *i;
	order_fn order;
};

static int in_order(const void *pa, const void *pb, void *ctx)
{
	const struct sorting *s = ctx;
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;

	return s->order(s->i, &s->i->at[a], s->i, &s->i->at[b]) ?: cmp_up(a, b);
}

static void mates_side__sort(struct mates_side *s, order_fn order)
{
	struct sorting how = { .i = s->i, .order = order };

	if (s->cnt)
		qsort_r(s->free, s->cnt, sizeof(*s->free), in_order, &how);
}

static int has_name(const struct item *t)
{
	return t->k->path.v != 0;
}

static int is_any(const struct item *t)
{
	return t->k != NULL;
}

/* Those that are the same by `like`, in the order of `sorted`, which begins with it. */
static void join(struct matching *p, order_fn sorted, order_fn like, int (*may)(const struct item *t))
{
	struct mates_side *x = &p->sides[0], *y = &p->sides[1];
	size_t i = 0, j = 0, x_left = 0, y_left = 0;

	mates_side__sort(x, sorted);
	mates_side__sort(y, sorted);
	while (i < x->cnt && j < y->cnt) {
		const struct item *t = &x->i->at[x->free[i]], *u = &y->i->at[y->free[j]];
		int d = like(x->i, t, y->i, u);

		if (!d && may(t))
			pair(p, x->free[i++], y->free[j++]);
		else if (d <= 0)
			x->free[x_left++] = x->free[i++];
		else
			y->free[y_left++] = y->free[j++];
	}
	while (i < x->cnt)
		x->free[x_left++] = x->free[i++];
	while (j < y->cnt)
		y->free[y_left++] = y->free[j++];
	x->cnt = x_left;
	y->cnt = y_left;
}

static int mates_side__init(struct mates_side *s, const struct items *i)
{
	s->i = i;
	s->cnt = i->given;
	s->free = calloc(i->given + 1, sizeof(*s->free));
	for (size_t k = 0; s->free && k < i->given; k++)
		s->free[k] = (uint32_t)k;
	return s->free ? 0 : -ENOMEM;
}

static int pair_given(struct matching *p)
{
	int r = mates_side__init(&p->sides[0], p->a);

	if (!r)
		r = mates_side__init(&p->sides[1], p->b);
	if (!r) {
		join(p, by_name_and_size, by_name_and_size, has_name);
		join(p, by_size, by_size, is_of_parameters); /* of others one's size may be twice another's, as the batch is */
		join(p, by_name_and_size, by_name, has_name);
		join(p, by_size, by_kind, is_any);
	}
	free(p->sides[0].free);
	free(p->sides[1].free);
	return r;
}

/* --- those that the step makes ------------------------------------------------------------------------------------- */

static int is_alike(const struct matching *p, size_t a, size_t b)
{
	const struct recorded_block *x = p->a->at[a].k, *y = p->b->at[b].k;

	/* not every block's module is known */
	return !strcmp(name(p->a, x->op), name(p->b, y->op)) && x->phase == y->phase &&
	       (!x->root.v || !y->root.v || !strcmp(name(p->a, x->module), name(p->b, y->module)));
}

/* … and of sizes that the two batches explain. */
static int is_mate(const struct matching *p, size_t a, size_t b)
{
	double by = p->m->batch_b / p->m->batch_a, x = p->a->at[a].size, y = p->b->at[b].size;

	if (by < 1) {
		by = 1 / by;
		x = p->b->at[b].size;
		y = p->a->at[a].size;
	}
	return y >= x && y <= x * by * by * STEEP_FROM && is_alike(p, a, b);
}

/* The blocks after these two are mates, as far as there are any. */
static int is_way_on(const struct matching *p, size_t a, size_t b)
{
	for (size_t k = 1; k <= LIKE_AFTER && a + k < p->a->recorded && b + k < p->b->recorded; k++)
		if (!is_mate(p, a + k, b + k))
			return 0;
	return 1;
}

/* The nearest two from here on that are mates, with those after them: *a and *b, or 0. */
static int find_way_on(const struct matching *p, size_t *a, size_t *b)
{
	for (size_t d = 1; d <= LOOK_AHEAD; d++)
		for (size_t skip = 0; skip <= d; skip++) {
			size_t x = *a + skip, y = *b + d - skip;

			if (x >= p->a->recorded || y >= p->b->recorded || !is_mate(p, x, y) || !is_way_on(p, x, y))
				continue;
			*a = x;
			*b = y;
			return 1;
		}
	return 0;
}

/* Two runs of blocks, one after the other; where they differ, the nearest two that are mates go on. */
static void pair_allocated(struct matching *p)
{
	size_t a = p->a->given, b = p->b->given;

	for (; a < p->a->recorded && b < p->b->recorded; a++, b++) {
		int alike = is_alike(p, a, b);

		if (is_mate(p, a, b) || (alike && is_way_on(p, a, b)) || find_way_on(p, &a, &b) || alike)
			pair(p, a, b);
	}
}

int mates__fit(struct mates *m, struct items *a, struct items *b)
{
	struct matching p = { .m = m, .a = a, .b = b };
	int r = pair_given(&p);

	if (r)
		return r;
	pair_allocated(&p);
	for (size_t k = 0; k < a->recorded; k++)
		if (!a->at[k].is_paired) {
			a->at[k].doubt = ITEM_ALONE;
			m->alone += a->at[k].k->size;
		}
	m->only_b = items__peak(b, 0, NULL);
	return 0;
}

/* --- one recording ---------------------------------------------------------------------------------------------------- */

static int goes_with_batch(const struct items *i, const struct item *t)
{
	if (t->is_given)
		return t->k->cat == CAT_INPUT && !t->k->kind && item__is_used(i, t);
	return t->k->cat && !is_of_parameters(t);
}

void mates__guess(struct mates *m, struct items *a)
{
	for (size_t k = 0; k < a->recorded; k++) {
		struct item *t = &a->at[k];

		if (goes_with_batch(a, t)) {
			t->slope = t->size / m->batch_a;
			m->paired += t->k->size;
		} else {
			m->alone += t->k->size;
		}
		t->doubt = is_of_parameters(t) ? ITEM_SURE : ITEM_BY_KIND;
	}
}

/* --- how sure ---------------------------------------------------------------------------------------------------------- */

struct size_range {
	double low, high;
};

static struct size_range widen(struct size_range r, double size)
{
	return (struct size_range){ fmin(r.low, size), fmax(r.high, size) };
}

/* The sizes that a block may have at a batch, by its doubt. Without the item's factor. */
static struct size_range item__range(const struct item *t, const struct mates *m, double batch)
{
	double more = batch - m->batch_a, by_a = batch / m->batch_a, by_b = m->batch_b > 0 ? batch / m->batch_b : 1;
	double size = t->factor > 0 ? item__size(t, more) / t->factor : 0;
	struct size_range r = { size, size };

	switch (t->doubt) {
	case ITEM_ALONE: /* it may be gone, or go with the batch */
		return is_of_parameters(t) ? r : widen(widen(widen(r, 0), t->size), t->size * by_a);
	case ITEM_SHRINKS: /* either of the two sizes may go with the batch */
		return widen(widen(widen(r, t->size), t->other), fmax(t->size * by_a, t->other * by_b));
	case ITEM_STEEP: /* with the batch from the second one on, or with its square */
		return widen(widen(r, t->other * by_b), t->other * by_b * by_b);
	case ITEM_BY_KIND: /* a guess by its kind; sure for what the forward pass made for backward */
		return widen(t->k->cat == CAT_ACTIVATION && !t->is_given ? r : widen(r, t->size), t->size * by_a);
	default:
		return r;
	}
}

static int bound(const struct mates *m, const struct items *a, double batch, int is_high, double *ret)
{
	struct items copy;
	int r = items__copy(&copy, a);

	for (size_t k = 0; !r && k < copy.cnt; k++) {
		struct item *t = &copy.at[k];
		struct size_range range = item__range(t, m, batch);

		t->size = is_high ? range.high : range.low;
		t->slope = t->curve = 0;
		t->doubt = ITEM_SURE;
	}
	if (!r)
		r = items__sort(&copy);
	if (!r)
		*ret = items__peak(&copy, 0, NULL);
	items__done(&copy);
	return r;
}

int mates__bounds(const struct mates *m, const struct items *a, double batch, double *ret_low, double *ret_high)
{
	int r = bound(m, a, batch, 0, ret_low);

	if (!r)
		r = bound(m, a, batch, 1, ret_high);
	if (!r && m->batch_b > 0)
		*ret_high += m->only_b * fmax(1, batch / m->batch_b);
	return r;
}
