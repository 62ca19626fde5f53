/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/whatif.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_PREFIX "Optimizer.step#"
#define LOOK_AHEAD 16 /* blocks of one side alone, in a row */
#define BATCH_MAX (1ull << 32)

struct item {
	const struct recorded_block *k;
	uint64_t birth_ns, death_ns; /* death: UINT64_MAX, it outlives the step */
	double size, slope;	     /* as recorded; more for each one more of the batch */
	double factor;
	int is_given; /* there when the step begins */
};

struct items {
	struct item *at;
	uint32_t *by_death;
	size_t cnt, given;
};

/* --- the step's blocks ---------------------------------------------------------------------------------------- */

static int is_in(const struct recorded_block *k, const struct recorded_kept *kept, int given)
{
	if (!k->birth_ns || k->pid != kept->pid || k->dev != kept->dev)
		return 0;
	if (given)
		return k->birth_ns < kept->step_from && (!k->death_ns || k->death_ns >= kept->step_from);
	return k->birth_ns >= kept->step_from && k->birth_ns < kept->step_to;
}

static void collect(struct items *i, const struct recorded *r, const struct recorded_kept *kept, int given)
{
	for (uint64_t id = 1; id <= r->last_id && id < r->blocks_cap; id++) {
		const struct recorded_block *k = &r->blocks[id];

		if (!is_in(k, kept, given))
			continue;
		i->at[i->cnt++] = (struct item){
			.k = k, .birth_ns = given ? kept->step_from : k->birth_ns,
			.death_ns = k->death_ns ? k->death_ns : UINT64_MAX, .size = (double)k->size, .factor = 1,
			.is_given = given,
		};
	}
}

static int earlier(const void *a, const void *b, void *items)
{
	const struct item *x = &((const struct item *)items)[*(const uint32_t *)a];
	const struct item *y = &((const struct item *)items)[*(const uint32_t *)b];

	return x->death_ns < y->death_ns ? -1 : x->death_ns > y->death_ns;
}

static int items__init(struct items *i, const struct recorded *r, const struct recorded_kept *kept)
{
	*i = (struct items){ .at = malloc((r->last_id + 1) * sizeof(*i->at)),
			     .by_death = malloc((r->last_id + 1) * sizeof(uint32_t)) };
	if (!i->at || !i->by_death)
		return -ENOMEM;
	collect(i, r, kept, 1);
	i->given = i->cnt;
	collect(i, r, kept, 0);
	for (size_t k = 0; k < i->cnt; k++)
		i->by_death[k] = (uint32_t)k;
	if (i->cnt)
		qsort_r(i->by_death, i->cnt, sizeof(*i->by_death), earlier, i->at);
	return 0;
}

static void items__done(struct items *i)
{
	free(i->at);
	free(i->by_death);
}

static double size_of(const struct item *t, double more)
{
	double size = (t->size + t->slope * more) * t->factor;

	return size > 0 ? size : 0;
}

/* `more`: of the batch than recorded; `added`: there all along. */
static double peak_of(const struct items *i, double more, double added)
{
	double now = added, peak = added;
	size_t dead = 0;

	for (size_t k = 0; k < i->cnt; k++) {
		for (; dead < i->cnt && i->at[i->by_death[dead]].death_ns <= i->at[k].birth_ns; dead++)
			now -= size_of(&i->at[i->by_death[dead]], more);
		now += size_of(&i->at[k], more);
		peak = now > peak ? now : peak;
	}
	return peak;
}

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

static int fit(struct whatif *w, const struct whatif_opts *o, const struct items *a)
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
		pair_runs(&p, a->given, a->cnt, b.given, b.cnt);
		r = w->paired ? 0 : -EINVAL;
	}
	items__done(&b);
	return r;
}

static void largest(struct whatif *w, const struct whatif_opts *o, const struct items *a, double added)
{
	uint64_t lo = 0, hi = 1;

	while (hi < BATCH_MAX && peak_of(a, (double)hi - (double)o->batch_a, added) <= (double)o->budget) {
		lo = hi;
		hi *= 2;
	}
	while (lo + 1 < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (peak_of(a, (double)mid - (double)o->batch_a, added) <= (double)o->budget)
			lo = mid;
		else
			hi = mid;
	}
	w->largest_batch = lo;
	w->at_largest = lo ? (uint64_t)llround(peak_of(a, (double)lo - (double)o->batch_a, added)) : 0;
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
static double set_optimizer(struct whatif *w, const struct whatif_opts *o, struct items *a)
{
	double wanted = state_wanted(o->optimizer) * (double)w->parameters;
	int has_temps = o->optimizer == WHATIF_ADAMW || o->optimizer == WHATIF_8BIT;

	for (size_t k = 0; k < a->cnt; k++) {
		struct item *t = &a->at[k];

		if (t->k->cat == CAT_OPTIMIZER_STATE)
			t->factor = w->state ? wanted / (double)w->state : 1;
		else if (!has_temps && is_in_optimizer(o, t) && t->k->cat != CAT_PARAMETER && t->k->cat != CAT_GRADIENT)
			t->factor = 0;
	}
	return w->state ? 0 : wanted;
}

static void shares(struct whatif *w, const struct items *a)
{
	for (size_t k = 0; k < a->given; k++) {
		w->parameters += a->at[k].k->cat == CAT_PARAMETER ? a->at[k].k->size : 0;
		w->state += a->at[k].k->cat == CAT_OPTIMIZER_STATE ? a->at[k].k->size : 0;
	}
}

int whatif__run(struct whatif *w, const struct whatif_opts *o)
{
	double more = o->batch ? (double)o->batch - (double)o->batch_a : 0, added = 0;
	struct items a;
	int r;

	*w = (struct whatif){ 0 };
	r = items__init(&a, o->a, o->a_kept);
	if (!r) {
		shares(w, &a);
		w->recorded = (uint64_t)llround(peak_of(&a, 0, 0));
	}
	if (!r && o->batch)
		r = fit(w, o, &a);
	if (!r && o->optimizer)
		added = set_optimizer(w, o, &a);
	if (!r) {
		for (size_t k = 0; k < a.cnt && o->dtype > 0; k++)
			a.at[k].factor *= a.at[k].k->cat ? o->dtype : 1;
		added *= o->dtype > 0 ? o->dtype : 1;
		w->peak = (uint64_t)llround(peak_of(&a, more, added));
		if (o->batch && o->budget)
			largest(w, o, &a, added);
	}
	items__done(&a);
	return r;
}
