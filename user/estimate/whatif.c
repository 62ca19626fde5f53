/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/whatif.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimate/items.h"

#define STEP_PREFIX "Optimizer.step#"
#define LOOK_AHEAD 16 /* blocks of one side alone, in a row */
#define BATCH_MAX (1ull << 32)

/* --- batch ------------------------------------------------------------------------------------------------------ */

struct pairing {
	const struct whatif_opts *o;
	const struct items *a, *b;
	struct whatif *w;
};

static int is_alike(const struct pairing *p, size_t a, size_t b)
{
	return !strcmp(names__get(p->o->a->names, p->a->at[a].k->op), names__get(p->o->b->names, p->b->at[b].k->op));
}

static void pair(struct pairing *p, size_t a, size_t b)
{
	struct item *t = &p->a->at[a];

	t->slope = (p->b->at[b].size - t->size) / ((double)p->o->batch_b - (double)p->o->batch_a);
	p->w->paired += t->k->size;
}

/* Two runs of blocks, one after the other; where they differ, the nearest two that are alike go on. */
static void pair_runs(struct pairing *p, size_t a, size_t a_end, size_t b, size_t b_end)
{
	while (a < a_end && b < b_end) {
		size_t d, skip = 0;

		for (d = 0; d <= LOOK_AHEAD; d++) {
			for (skip = 0; skip <= d; skip++)
				if (a + skip < a_end && b + d - skip < b_end && is_alike(p, a + skip, b + d - skip))
					break;
			if (skip <= d)
				break;
		}
		if (d > LOOK_AHEAD) {
			p->w->unpaired += p->a->at[a++].k->size;
			b++;
			continue;
		}
		for (; skip; skip--, d--)
			p->w->unpaired += p->a->at[a++].k->size;
		b += d;
		pair(p, a++, b++);
	}
	for (; a < a_end; a++)
		p->w->unpaired += p->a->at[a].k->size;
}

static int fit(struct whatif *w, const struct whatif_opts *o, struct items *a)
{
	struct pairing p = { .o = o, .a = a, .w = w };
	struct items b;
	int r;

	if (o->batch_a == o->batch_b)
		return -EDOM;
	r = items__init(&b, o->b, o->b_kept);
	p.b = &b;
	if (!r) {
		pair_runs(&p, 0, a->given, 0, b.given);
		pair_runs(&p, a->given, a->recorded, b.given, b.recorded);
		r = w->paired ? 0 : -EINVAL;
		w->second = (uint64_t)llround(items__peak(&b, 0, NULL));
		w->second_fitted = (uint64_t)llround(items__peak(a, (double)o->batch_b - (double)o->batch_a, NULL));
	}
	items__done(&b);
	return r;
}

/* Whether a block goes with the batch is not seen in one recording, only of what kind it is. */
static int goes_with_batch(const struct items *i, const struct item *t)
{
	if (t->is_given)
		return t->k->cat == CAT_INPUT && !t->k->kind && item__is_used(i, t);
	return t->k->phase != PHASE_OPTIMIZER && t->k->cat && t->k->cat != CAT_PARAMETER && t->k->cat != CAT_GRADIENT &&
	       t->k->cat != CAT_OPTIMIZER_STATE;
}

static void scale(struct whatif *w, const struct whatif_opts *o, struct items *a)
{
	for (size_t k = 0; k < a->recorded; k++) {
		struct item *t = &a->at[k];

		if (goes_with_batch(a, t)) {
			t->slope = t->size / (double)o->batch_a;
			w->paired += t->k->size;
		} else {
			w->unpaired += t->k->size;
		}
	}
}

static void largest(struct whatif *w, const struct whatif_opts *o, const struct items *a)
{
	uint64_t lo = 0, hi = 1;

	while (hi < BATCH_MAX && items__peak(a, (double)hi - (double)o->batch_a, NULL) <= (double)o->budget) {
		lo = hi;
		hi *= 2;
	}
	while (lo + 1 < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (items__peak(a, (double)mid - (double)o->batch_a, NULL) <= (double)o->budget)
			lo = mid;
		else
			hi = mid;
	}
	w->largest_batch = lo;
	w->at_largest = lo ? (uint64_t)llround(items__peak(a, (double)lo - (double)o->batch_a, NULL)) : 0;
}

/* --- optimizer --------------------------------------------------------------------------------------------------- */

/* Of each byte of a float parameter. 8 bit: two states of a byte, and a float for each 256 of them. */
static double state_wanted(enum whatif_optimizer o)
{
	static const double wanted[] = { [WHATIF_SGD] = 0, [WHATIF_MOMENTUM] = 1, [WHATIF_ADAMW] = 2,
					 [WHATIF_8BIT] = 2 * (1 + 4.0 / 256) / 4 };

	return wanted[o];
}

static int is_in_optimizer(const struct whatif_opts *o, const struct item *t)
{
	return !t->is_given && !strncmp(names__get(o->a->names, t->k->region), STEP_PREFIX, strlen(STEP_PREFIX));
}

/*
 * State scales to what is wanted. Where none was recorded it is added, for good. Temporaries of the optimizer's step go
 * where the other one has none.
 */
static int set_optimizer(struct whatif *w, const struct whatif_opts *o, struct items *a)
{
	double wanted = state_wanted(o->optimizer) * (double)w->parameters;
	int has_temps = o->optimizer == WHATIF_ADAMW || o->optimizer == WHATIF_8BIT;

	if (!w->parameters)
		return -ENODATA;
	for (size_t k = 0; k < a->recorded; k++) {
		struct item *t = &a->at[k];

		if (t->k->cat == CAT_OPTIMIZER_STATE)
			t->factor = w->state ? wanted / (double)w->state : 1;
		else if (!has_temps && is_in_optimizer(o, t) && t->k->cat != CAT_PARAMETER && t->k->cat != CAT_GRADIENT)
			t->factor = 0;
	}
	return w->state || wanted <= 0 ? 0 : items__add(a, a->from, ITEM_NEVER, wanted);
}

static void shares(struct whatif *w, const struct items *a)
{
	for (size_t k = 0; k < a->given; k++) {
		w->parameters += a->at[k].k->cat == CAT_PARAMETER ? a->at[k].k->size : 0;
		w->state += a->at[k].k->cat == CAT_OPTIMIZER_STATE ? a->at[k].k->size : 0;
	}
}

/* --- dtype --------------------------------------------------------------------------------------------------------- */

static int is_no_float(const struct whatif_opts *o, const struct item *t)
{
	static const char *const ops[] = {
		"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge", "aten::isnan", "aten::isinf",
		"aten::isneginf", "aten::isposinf", "aten::logical_not", "aten::logical_and", "aten::logical_or", "aten::all",
		"aten::any", "aten::argmax", "aten::argmin", "aten::arange", "aten::randint", "aten::randperm",
	};
	const char *op = names__get(o->a->names, t->k->op);

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(op, ops[i]))
			return 1;
	return 0;
}

static void set_dtype(const struct whatif_opts *o, struct items *a)
{
	for (size_t k = 0; k < a->cnt; k++) {
		struct item *t = &a->at[k];
		int stays = t->k && (!t->k->cat || (t->is_given && !item__is_used(a, t)) || t->k->is_wide || is_no_float(o, t));

		t->factor *= stays ? 1 : o->dtype;
	}
}

static int change(struct whatif *w, const struct whatif_opts *o, struct items *a)
{
	struct shard_opts so = { .r = o->a, .ranks = o->ranks, .units = o->units, .no_reshard = o->no_reshard,
				 .is_cpu = o->is_cpu };
	struct recompute_opts ro = { .r = o->a, .kept = o->a_kept, .modules = o->checkpoint,
				     .budget = o->batch_a ? 0 : o->budget,
				     .more = o->batch ? (double)o->batch - (double)o->batch_a : 0, .is_cpu = o->is_cpu };
	int r = 0;

	if (o->batch_a && o->batch_b)
		r = fit(w, o, a);
	else if (o->batch_a)
		scale(w, o, a);
	if (!r && o->optimizer)
		r = set_optimizer(w, o, a);
	if (!r && o->dtype > 0)
		set_dtype(o, a);
	if (!r && o->ranks)
		r = shard__apply(&w->shard, a, &so);
	if (!r && o->checkpoint) {
		r = recompute__apply(&w->recompute, a, &ro);
		r = r == -ENOENT ? -ESRCH : r;
	}
	return r ? r : items__sort(a);
}

int whatif__run(struct whatif *w, const struct whatif_opts *o)
{
	double more = o->batch ? (double)o->batch - (double)o->batch_a : 0;
	struct items a;
	int r;

	*w = (struct whatif){ 0 };
	r = items__init(&a, o->a, o->a_kept);
	if (!r) {
		shares(w, &a);
		w->recorded = (uint64_t)llround(items__peak(&a, 0, NULL));
		r = change(w, o, &a);
	}
	if (!r) {
		w->peak = (uint64_t)llround(items__peak(&a, more, NULL));
		if (o->batch_a && o->budget)
			largest(w, o, &a);
	}
	items__done(&a);
	return r;
}

void whatif__done(struct whatif *w)
{
	recompute_result__done(&w->recompute);
}
