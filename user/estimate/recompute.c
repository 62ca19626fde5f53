/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Recomputation takes time, so everything after it is shifted later by that much.
 */
#include "estimate/recompute.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "estimate/paths.h"

#define NONE UINT32_MAX
#define RNG_BYTES 5056	   /* state of the CPU's random numbers, which each checkpoint keeps */
#define EXACT_WORK 20000000 /* items to be summed at most, to look at every set of modules */
#define EXACT_MODULES 16

/* A forward of a module, and the backward that follows it. */
struct module_pass {
	uint32_t module;
	uint64_t from, to; /* allocations; `to`: the next one outside of it */
	uint64_t again;	   /* the first allocation of its backward; 0: none yet */
	uint64_t later;	   /* of what ran again before it, when it is chosen */
};

struct recompute {
	struct items *i;
	const struct recompute_opts *o;
	struct recompute_result *res;
	uint32_t *of_name, names_cnt; /* module + 1, NONE: not one of them */
	uint32_t *last;		      /* by module: its last call + 1 */
	uint32_t *call_of;	      /* by item */
	struct module_pass *calls;
	size_t calls_cnt, calls_cap;
	int is_closed; /* no further modules */
};

/* --- modules and their calls --------------------------------------------------------------------------------------- */

static int module_of(struct recompute *c, const struct recorded_block *k, uint32_t *ret)
{
	const char *path = names__get(c->o->r->names, k->module);
	struct recompute_result *res = c->res;
	size_t len, m;

	*ret = NONE;
	if (!k->root.v || k->module.v >= c->names_cnt)
		return 0;
	if (c->of_name[k->module.v]) {
		*ret = c->of_name[k->module.v] - 1;
		return 0;
	}
	len = paths__unit(path, c->o->modules);
	for (m = 0; m < res->cnt && len; m++)
		if (strlen(res->modules[m].path) == len && !memcmp(res->modules[m].path, path, len))
			break;
	if (m == res->cnt && c->is_closed)
		len = 0;
	if (len && m == res->cnt) {
		if (m == RECOMPUTE_MODULES_MAX)
			return -E2BIG;
		res->modules[m].path = strndup(path, len);
		if (!res->modules[m].path)
			return -ENOMEM;
		res->cnt++;
	}
	*ret = len ? (uint32_t)m : NONE;
	c->of_name[k->module.v] = *ret + 1; /* of NONE: 0, to be looked at again */
	return 0;
}

static int add_call(struct recompute *c, uint32_t module, uint64_t from)
{
	if (!array_has_room(c->calls, c->calls_cnt, c->calls_cap, 64))
		return -ENOMEM;
	c->calls[c->calls_cnt++] = (struct module_pass){ .module = module, .from = from };
	c->last[module] = (uint32_t)c->calls_cnt;
	return 0;
}

static int see(struct recompute *c, size_t item, uint32_t *inside)
{
	const struct item *t = &c->i->at[item];
	struct module_pass *call;
	uint32_t m;
	int e = module_of(c, t->k, &m);

	if (e)
		return e;
	if (*inside != NONE && (m == NONE || c->last[m] != *inside + 1 || t->k->phase != PHASE_FORWARD)) {
		c->calls[*inside].to = t->alloc;
		*inside = NONE;
	}
	if (m == NONE)
		return 0;
	call = c->last[m] ? &c->calls[c->last[m] - 1] : NULL;
	if (t->k->phase == PHASE_BACKWARD && call && !call->again)
		call->again = t->alloc;
	if (t->k->phase != PHASE_FORWARD)
		return 0;
	if (!call || call->again)
		e = add_call(c, m, t->alloc);
	if (e)
		return e;
	*inside = c->last[m] - 1;
	c->call_of[item] = *inside;
	return 0;
}

static int is_saved(const struct module_pass *c, const struct item *t)
{
	return t->freed > c->again;
}

static int is_output(const struct module_pass *c, const struct item *t)
{
	return t->k->forward_used_ns > c->to / ITEM_TICKS;
}

static void weigh(struct recompute *c)
{
	for (size_t k = c->i->given; k < c->i->recorded; k++) {
		const struct item *t = &c->i->at[k];
		const struct module_pass *call = c->call_of[k] == NONE ? NULL : &c->calls[c->call_of[k]];

		if (call && call->again && is_saved(call, t) && !is_output(call, t))
			c->res->modules[call->module].bytes += item__size(t, c->o->more);
	}
}

/* --- how long a module's forward takes ----------------------------------------------------------------------------- */

/* What recompute__apply needs of one step; `of_name` and `res` are the caller's. */
static int begin_step(struct recompute *c)
{
	c->calls = NULL;
	c->calls_cnt = c->calls_cap = 0;
	c->last = calloc(RECOMPUTE_MODULES_MAX, sizeof(*c->last));
	c->call_of = malloc((c->i->cnt + 1) * sizeof(*c->call_of));
	if (!c->last || !c->call_of)
		return -ENOMEM;
	memset(c->call_of, 0xff, (c->i->cnt + 1) * sizeof(*c->call_of));
	return 0;
}

static void end_step(struct recompute *c)
{
	free_all(c->last, c->call_of, c->calls);
}

static int see_step(struct recompute *c)
{
	uint32_t inside = NONE;
	int e = 0;

	for (size_t k = c->i->given; k < c->i->recorded && !e; k++)
		e = see(c, k, &inside);
	for (size_t k = 0; k < c->calls_cnt; k++)
		if (!c->calls[k].to)
			c->calls[k].again = 0; /* it goes on */
	return e;
}

/* Of the modules that ran forward and backward in the step between two marks: one more time for each. */
static int time_step(const struct recompute *c, uint64_t from, uint64_t to, uint64_t (*times)[RECOMPUTE_STEPS_MAX])
{
	const struct recorded_kept kept = { .dev = c->o->kept->dev, .pid = c->o->kept->pid, .step_from = from, .step_to = to };
	uint64_t sums[RECOMPUTE_MODULES_MAX] = { 0 };
	struct items items;
	struct recompute s = *c;
	int e = items__init(&items, c->o->r, &kept);

	s.i = &items;
	s.is_closed = 1;
	e = begin_step(&s) ? -ENOMEM : e;
	if (!e)
		e = see_step(&s);
	for (size_t k = 0; k < s.calls_cnt && !e; k++)
		if (s.calls[k].again)
			sums[s.calls[k].module] += (s.calls[k].to - s.calls[k].from) / ITEM_TICKS;
	for (size_t m = 0; m < c->res->cnt && !e; m++)
		if (sums[m])
			times[m][c->res->modules[m].steps++] = sums[m];
	end_step(&s);
	items__done(&items);
	return e;
}

/* The steps before the last mark, from the last one on. Without marks: what the items are of. */
static int time_steps(const struct recompute *c)
{
	uint64_t (*times)[RECOMPUTE_STEPS_MAX] = calloc(c->res->cnt + 1, sizeof(*times));
	const struct recorded *r = c->o->r;
	uint64_t to = 0;
	size_t cnt = 0;
	int e = times ? 0 : -ENOMEM;

	if (!e && !c->o->kept->has_step)
		e = time_step(c, c->o->kept->step_from, c->o->kept->step_to, times);
	for (size_t i = r->steps_cnt; i-- > 0 && cnt < RECOMPUTE_STEPS_MAX && !e && c->o->kept->has_step;) {
		if (r->steps[2 * i] != c->o->kept->pid)
			continue;
		if (to && ++cnt)
			e = time_step(c, r->steps[2 * i + 1], to, times);
		to = r->steps[2 * i + 1];
	}
	for (size_t m = 0; m < c->res->cnt && !e; m++) {
		struct recompute_module *module = &c->res->modules[m];

		qsort(times[m], module->steps, sizeof(times[m][0]), u64_cmp);
		module->time_ns = module->steps ? times[m][(module->steps - 1) / 2] : 0;
	}
	free(times);
	return e;
}

/* --- a set of them ------------------------------------------------------------------------------------------------- */

/* Calls are in the order of their forwards. */
static uint64_t later(const struct recompute *c, const uint8_t *chosen, uint64_t at)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < c->calls_cnt && at != ITEM_NEVER; k++) {
		const struct module_pass *call = &c->calls[k];

		if (chosen[call->module] && call->again && call->again <= at)
			sum += call->to - call->from;
	}
	return at == ITEM_NEVER ? at : at + sum;
}

static int is_of_the_model(const struct item *t)
{
	return t->k->cat == CAT_PARAMETER || t->k->cat == CAT_OPTIMIZER_STATE || t->k->kind;
}

/* When the first of the chosen calls that used it in forward has run again: it is needed until then. 0: no such call. */
static uint64_t needed_until(const struct recompute *c, const uint8_t *chosen, const struct item *t)
{
	uint64_t used = t->k->forward_used_ns;

	for (size_t k = 0; k < c->calls_cnt && used; k++) {
		const struct module_pass *call = &c->calls[k];

		if (chosen[call->module] && call->again && t->alloc < call->from && used > call->from / ITEM_TICKS &&
		    used <= call->to / ITEM_TICKS && !is_of_the_model(t))
			return call->again;
	}
	return 0;
}

/* A block of a chosen call: it ends with the forward, and comes again. */
static int split(const struct recompute *c, struct items *to, size_t item, const uint8_t *chosen)
{
	const struct item *t = &c->i->at[item];
	const struct module_pass *call = &c->calls[c->call_of[item]];
	uint64_t start = call->again + call->later, length = call->to - call->from;
	uint64_t used = t->k->forward_used_ns * ITEM_TICKS, freed = start + (t->freed - call->from);
	int e;

	if (is_output(call, t))
		return 0;
	if (is_saved(call, t)) {
		to->at[item].freed = used > t->alloc ? used : t->alloc + 1;
		freed = later(c, chosen, t->freed);
	} else if (freed > start + length) {
		freed = start + length;
	}
	e = items__add(to, start + (t->alloc - call->from), freed, 0);
	if (!e) {
		struct item *copy = &to->at[to->cnt - 1];

		copy->size = t->size;
		copy->slope = t->slope;
		copy->curve = t->curve;
		copy->other = t->other;
		copy->span = t->span;
		copy->factor = t->factor;
		copy->doubt = t->doubt == ITEM_BY_KIND ? ITEM_SURE : t->doubt;
	}
	return e;
}

static void set_later(struct recompute *c, const uint8_t *chosen)
{
	for (size_t k = 0; k < c->calls_cnt; k++) {
		struct module_pass *call = &c->calls[k];

		call->later = later(c, chosen, call->again) - call->again - (call->to - call->from);
	}
}

static int choose(struct recompute *c, struct items *to, const uint8_t *chosen)
{
	int e = items__copy(to, c->i);

	set_later(c, chosen);
	for (size_t k = 0; k < c->i->cnt && !e; k++) {
		const struct item *t = &c->i->at[k];
		const struct module_pass *call = k < c->i->recorded && c->call_of[k] != NONE ? &c->calls[c->call_of[k]] : NULL;
		int stays = t->k && (!call || !chosen[call->module] || is_output(call, t));
		uint64_t until = stays ? needed_until(c, chosen, t) : 0;

		to->at[k].alloc = later(c, chosen, t->alloc);
		to->at[k].freed = later(c, chosen, until > t->freed ? until : t->freed);
		if (call && chosen[call->module] && call->again)
			e = split(c, to, k, chosen);
	}
	for (size_t k = 0; k < c->calls_cnt && !e && c->o->is_cpu; k++)
		if (chosen[c->calls[k].module] && c->calls[k].again)
			e = items__add(to, c->calls[k].from, later(c, chosen, c->calls[k].again), RNG_BYTES);
	return e ? e : items__sort(to);
}

static int peak_of(struct recompute *c, const uint8_t *chosen, uint64_t *ret)
{
	struct items to = { 0 };
	int e = choose(c, &to, chosen);

	if (!e)
		*ret = (uint64_t)llround(items__peak(&to, c->o->more, NULL));
	items__done(&to);
	return e;
}

/* --- which ones ---------------------------------------------------------------------------------------------------- */

static int worth(const void *a, const void *b)
{
	const struct recompute_module *x = a, *y = b;
	double left = x->bytes * (double)y->time_ns, right = y->bytes * (double)x->time_ns;

	return cmp_down(left, right) ?: strcmp(x->path, y->path);
}

/* Reorders modules, their calls and names. */
static int sort_modules(struct recompute *c)
{
	struct recompute_module *m = c->res->modules;
	char **paths = malloc((c->res->cnt + 1) * sizeof(*paths));
	uint32_t *now = malloc((c->res->cnt + 1) * sizeof(*now));

	for (size_t k = 0; paths && k < c->res->cnt; k++)
		paths[k] = m[k].path;
	if (paths && now) {
		qsort(m, c->res->cnt, sizeof(*m), worth);
		for (size_t k = 0; k < c->res->cnt; k++)
			for (uint32_t n = 0; n < c->res->cnt; n++)
				if (m[n].path == paths[k])
					now[k] = n;
		for (size_t k = 0; k < c->calls_cnt; k++)
			c->calls[k].module = now[c->calls[k].module];
	}
	free(paths);
	free(now);
	return paths && now ? 0 : -ENOMEM;
}

static int trade_off(struct recompute *c, uint8_t *chosen)
{
	uint64_t time = 0;
	int e = 0;

	for (size_t k = 0; k < c->res->cnt && !e; k++) {
		struct recompute_module *m = &c->res->modules[k];

		chosen[k] = 1;
		time += m->time_ns;
		m->time_all_ns = time;
		e = peak_of(c, chosen, &m->peak);
	}
	return e;
}

static uint64_t time_of(const struct recompute *c, const uint8_t *chosen)
{
	uint64_t time = 0;

	for (size_t k = 0; k < c->res->cnt; k++)
		time += chosen[k] ? c->res->modules[k].time_ns : 0;
	return time;
}

static int best_of_all(struct recompute *c, uint8_t *best)
{
	uint8_t chosen[EXACT_MODULES];
	uint64_t peak = 0, least = UINT64_MAX;
	int e = 0;

	for (unsigned set = 0; set < 1u << c->res->cnt && !e; set++) {
		for (size_t k = 0; k < c->res->cnt; k++)
			chosen[k] = set >> k & 1;
		if (time_of(c, chosen) >= least)
			continue;
		e = peak_of(c, chosen, &peak);
		if (e || peak > c->o->budget)
			continue;
		least = time_of(c, chosen);
		memcpy(best, chosen, c->res->cnt);
		c->res->fits = 1;
	}
	return e;
}

/* As many as it takes, in the order of the trade-off. */
static void best_on_the_way(struct recompute *c, uint8_t *best, uint64_t without)
{
	size_t take = 0;

	while (take < c->res->cnt && (take ? c->res->modules[take - 1].peak : without) > c->o->budget)
		take++;
	c->res->fits = (take ? c->res->modules[take - 1].peak : without) <= c->o->budget;
	for (size_t k = 0; k < c->res->cnt; k++)
		best[k] = k < take || !c->res->fits;
}

static int pick(struct recompute *c, uint8_t *chosen)
{
	uint64_t without = (uint64_t)llround(items__peak(c->i, c->o->more, NULL));
	int e = trade_off(c, chosen);

	if (e || !c->o->budget)
		return e;
	c->res->is_exact = c->res->cnt <= EXACT_MODULES && (c->i->cnt << c->res->cnt) <= EXACT_WORK;
	if (c->res->is_exact)
		return best_of_all(c, chosen);
	best_on_the_way(c, chosen, without);
	return 0;
}

/* Modules without a call that has a backward are left out. */
static void forget_idle(struct recompute *c)
{
	size_t cnt = 0;

	for (size_t k = 0; k < c->res->cnt; k++)
		cnt += c->res->modules[k].time_ns > 0;
	if (!cnt)
		c->res->cnt = 0;
}

static int apply(struct recompute *c)
{
	uint8_t *chosen = calloc(RECOMPUTE_MODULES_MAX, 1);
	struct items to = { 0 };
	int e = chosen ? items__sort(c->i) : -ENOMEM;

	if (!e)
		e = see_step(c);
	if (!e) {
		weigh(c);
		e = time_steps(c);
	}
	if (!e) {
		forget_idle(c);
		e = c->res->cnt ? sort_modules(c) : -ENOENT;
	}
	if (!e)
		e = pick(c, chosen);
	if (!e)
		e = choose(c, &to, chosen);
	for (size_t k = 0; k < c->res->cnt && !e; k++) {
		c->res->modules[k].is_chosen = chosen[k];
		c->res->chosen += chosen[k];
	}
	if (!e) {
		c->res->time_ns = time_of(c, chosen);
		items__done(c->i);
		*c->i = to;
		to = (struct items){ 0 };
	}
	items__done(&to);
	free(chosen);
	return e;
}

int recompute__apply(struct recompute_result *res, struct items *i, const struct recompute_opts *o)
{
	struct recompute c = { .i = i, .o = o, .res = res, .names_cnt = names__last(o->r->names) + 1 };
	int e = -ENOMEM;

	*res = (struct recompute_result){ 0 };
	res->modules = calloc(RECOMPUTE_MODULES_MAX, sizeof(*res->modules));
	c.of_name = calloc(c.names_cnt, sizeof(*c.of_name));
	if (!begin_step(&c) && res->modules && c.of_name)
		e = apply(&c);
	free(c.of_name);
	end_step(&c);
	return e;
}

void recompute_result__done(struct recompute_result *res)
{
	for (size_t k = 0; res->modules && k < RECOMPUTE_MODULES_MAX; k++)
		free(res->modules[k].path);
	free(res->modules);
	*res = (struct recompute_result){ 0 };
}
