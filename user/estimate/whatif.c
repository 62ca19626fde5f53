/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/whatif.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/regions.h"
#include "estimate/items.h"

#define LIKE_PART 4 /* of the first one's bytes have their like in the second: with less these are two jobs */
#define STEPS_COMPARED 4
#define BATCH_MAX (1ull << 32)

#define BYTES_MAX 9e18 /* a recording may hold any number */

static uint64_t whole(double bytes)
{
	return bytes > 0 ? (uint64_t)llround(fmin(bytes, BYTES_MAX)) : 0;
}

/* --- batch ------------------------------------------------------------------------------------------------------ */

static int fit(struct whatif *w, const struct whatif_opts *o, struct items *a)
{
	struct items b;
	int r;

	if (o->batch_a == o->batch_b)
		return -EDOM;
	r = items__init(&b, o->b, o->b_kept);
	if (!r) {
		w->second = whole(items__peak(&b, 0, NULL));
		r = mates__fit(&w->mates, a, &b);
	}
	if (!r) {
		r = w->mates.paired > (w->mates.paired + w->mates.alone) / LIKE_PART ? 0 : -EINVAL;
		w->second_fitted = whole(items__peak(a, (double)o->batch_b - (double)o->batch_a, NULL));
	}
	items__done(&b);
	return r;
}

/* How far the peaks of earlier steps are from that of the last one, with the same batch. 0 or -ENOMEM. */
static int variation(const struct recorded *rec, const struct recorded_kept *kept, double peak, double *ret)
{
	struct recorded_kept k = *kept;
	int r = 0;

	*ret = 0;
	for (int n = 0; n < STEPS_COMPARED && !r && !recorded_kept__step_before(&k, rec); n++) {
		struct items i;

		r = items__init(&i, rec, &k);
		if (!r)
			*ret = fmax(*ret, fabs(items__peak(&i, 0, NULL) - peak));
		items__done(&i);
	}
	return r;
}

/* The error at another batch of a line through two points with an error each. */
static double off_by(const struct whatif *w, const struct whatif_opts *o, double batch)
{
	double a = (double)o->batch_a, b = (double)o->batch_b, part = o->batch_b ? (batch - a) / (b - a) : 0;

	if (!o->batch_b)
		return w->variation_a * fmax(1, batch / a);
	return fabs(1 - part) * w->variation_a + fabs(part) * w->variation_b;
}

static int bounds(const struct whatif *w, const struct whatif_opts *o, const struct items *a, double batch, uint64_t *ret)
{
	double low, high, off = off_by(w, o, batch);
	int r = mates__bounds(&w->mates, a, batch, &low, &high);

	if (!r) {
		ret[0] = whole(low - off);
		ret[1] = whole(high + off);
	}
	return r;
}

/* The bounds of the result, after all changes. */
static int say_bounds(struct whatif *w, const struct whatif_opts *o, const struct items *a)
{
	int r = variation(o->a, o->a_kept, (double)w->recorded, &w->variation_a);

	if (!r && o->batch_b)
		r = variation(o->b, o->b_kept, (double)w->second, &w->variation_b);
	if (!r)
		r = bounds(w, o, a, (double)(o->batch ? o->batch : o->batch_a), w->between);
	if (!r && w->largest_batch)
		r = bounds(w, o, a, (double)w->largest_batch, w->largest_between);
	return r;
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
	w->at_largest = lo ? whole(items__peak(a, (double)lo - (double)o->batch_a, NULL)) : 0;
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
	return !t->is_given && region_is_step(names__get(o->a->names, t->k->region));
}

/*
 * State scales to the wanted bytes. Where none was recorded it is added, and never freed. Temporaries of the optimizer's step
 * are removed if the other optimizer has none.
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
		mates__guess(&w->mates, a);
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

	*w = (struct whatif){ .mates = { .batch_a = (double)o->batch_a, .batch_b = (double)o->batch_b } };
	r = items__init(&a, o->a, o->a_kept);
	if (!r) {
		shares(w, &a);
		w->recorded = whole(items__peak(&a, 0, NULL));
		r = change(w, o, &a);
	}
	if (!r) {
		w->peak = whole(items__peak(&a, more, NULL));
		if (o->batch_a && o->budget)
			largest(w, o, &a);
		if (o->batch_a)
			r = say_bounds(w, o, &a);
	}
	items__done(&a);
	return r;
}

void whatif__done(struct whatif *w)
{
	recompute_result__done(&w->recompute);
}
