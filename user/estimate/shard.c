/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What fully_shard does and when is in torch/distributed/fsdp/_fully_shard: _fsdp_param_group.py (unshard, wait_for_unshard,
 * post_backward) and _fsdp_collectives.py. Ticks around an allocation: the root's gathering comes 16 before it, a unit's 8;
 * what follows an allocation comes 1 to 8 after it.
 */
#include "estimate/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "estimate/paths.h"

#define ROOT 0

struct unit {
	char *path;
	size_t len;
	double whole, part; /* bytes of its parameters; of a rank's part of them */
	uint64_t gathered;  /* since when; 0: they are not */
	size_t visit;	    /* the last one, + 1 */
};

/* A unit's forward or backward. */
struct visit {
	uint32_t unit;
	int is_backward;
	uint64_t from, to;
	double grads;	  /* bytes of whole gradients allocated in it */
	uint64_t grads_end; /* of the last of them */
};

struct shard_part {
	double bytes, share; /* of one parameter */
};

struct buffer {
	uint64_t since;
	double bytes; /* 0: there is none */
};

struct shard {
	struct items *i;
	const struct shard_opts *o;
	struct shard_result *res;
	struct unit *units;
	size_t units_cnt;
	uint32_t *of_module, modules_cnt; /* unit + 1 by name */
	struct visit *visits;
	size_t visits_cnt, visits_cap;
	struct shard_part *parts;
	size_t parts_cnt;
	struct buffer held, ahead, reduced; /* of all-gather; of the one that is fetched ahead; of reduce-scatter */
	uint32_t ahead_of;
	uint32_t last_unit;
};

/* --- units --------------------------------------------------------------------------------------------------------- */

static int unit_at(struct shard *s, const char *path, size_t len, uint32_t *ret)
{
	for (size_t u = 1; u < s->units_cnt && len; u++)
		if (s->units[u].len == len && !memcmp(s->units[u].path, path, len)) {
			*ret = (uint32_t)u;
			return 0;
		}
	*ret = ROOT;
	if (!len)
		return 0;
	if (s->units_cnt == SHARD_UNITS_MAX)
		return -E2BIG;
	s->units[s->units_cnt] = (struct unit){ .path = strndup(path, len), .len = len };
	if (!s->units[s->units_cnt].path)
		return -ENOMEM;
	*ret = (uint32_t)s->units_cnt++;
	return 0;
}

static int unit_of_parameter(struct shard *s, const struct recorded_block *k, uint32_t *ret)
{
	const char *path = names__get(s->o->r->names, k->path), *dot = strrchr(path, '.');
	size_t len = dot ? paths__unit(path, s->o->units) : 0;

	return unit_at(s, path, dot && len <= (size_t)(dot - path) ? len : 0, ret);
}

static uint32_t unit_of_module(struct shard *s, const struct recorded_block *k)
{
	const char *path = names__get(s->o->r->names, k->module);
	uint32_t u = ROOT;
	size_t len;

	if (!k->root.v || k->module.v >= s->modules_cnt)
		return ROOT;
	if (!s->of_module[k->module.v]) {
		len = paths__unit(path, s->o->units);
		for (size_t at = 1; at < s->units_cnt && len; at++)
			if (s->units[at].len == len && !memcmp(s->units[at].path, path, len))
				u = (uint32_t)at;
		s->of_module[k->module.v] = u + 1;
	}
	return s->of_module[k->module.v] - 1;
}

/* --- a rank's share of a block -------------------------------------------------------------------------------------- */

/* "float32[512,256]": 512. 0: not known. */
static double rows_of(const char *type)
{
	const char *at = strchr(type, '[');
	double rows = at ? strtod(at + 1, NULL) : 0;

	return rows >= 1 ? rows : 0;
}

/* The part that rank 0 has: rows are whole, and padded up to it on the others. */
static double part_of(const struct shard *s, const struct recorded_block *k)
{
	double rows = rows_of(names__get(s->o->r->names, k->type)), ranks = s->o->ranks;
	double per_row = rows > 0 ? (double)k->size / rows : 1;
	uint64_t mine = (uint64_t)((rows > 0 ? rows : (double)k->size) / ranks);

	if ((double)mine * ranks < (rows > 0 ? rows : (double)k->size))
		mine++;
	return (double)mine * per_row / (double)k->size;
}

/* By its bytes: state and temporaries are like a parameter, in its precision or another one. */
static double share_like_a_parameter(const struct shard *s, double bytes)
{
	static const double widths[] = { 1, 2, 0.5, 4, 0.25 };

	for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++)
		for (size_t p = 0; p < s->parts_cnt; p++)
			if (s->parts[p].bytes == bytes * widths[w])
				return s->parts[p].share;
	return 1;
}

static int is_parameter(const struct shard *s, const struct item *t)
{
	return t->is_given && item__is_used(s->i, t) &&
	       (t->k->cat == CAT_PARAMETER || t->k->kind == EV_TENSOR_PARAMETER);
}

static void add_part(struct shard *s, double bytes, double share)
{
	for (size_t p = 0; p < s->parts_cnt; p++)
		if (s->parts[p].bytes == bytes)
			return;
	s->parts[s->parts_cnt++] = (struct shard_part){ bytes, share };
}

static int split_parameters(struct shard *s)
{
	int e = 0;

	for (size_t k = 0; k < s->i->given && !e; k++) {
		struct item *t = &s->i->at[k];
		double share, bytes;
		uint32_t u;

		if (!is_parameter(s, t))
			continue;
		e = unit_of_parameter(s, t->k, &u);
		if (e)
			break;
		share = part_of(s, t->k);
		bytes = item__size(t, 0);
		add_part(s, (double)t->k->size, share);
		s->units[u].whole += bytes;
		s->units[u].part += bytes * share;
		t->factor *= share;
	}
	return e;
}

static double mean_share(const struct shard *s)
{
	double whole = 0, part = 0;

	for (size_t u = 0; u < s->units_cnt; u++) {
		whole += s->units[u].whole;
		part += s->units[u].part;
	}
	return whole > 0 ? part / whole : 1;
}

static void split_the_rest(struct shard *s)
{
	double mean = mean_share(s);

	for (size_t k = 0; k < s->i->recorded; k++) {
		struct item *t = &s->i->at[k];
		int is_step = !t->is_given && t->k->phase == PHASE_OPTIMIZER;

		if (is_parameter(s, t))
			continue;
		if (t->k->cat == CAT_GRADIENT && t->is_given)
			t->factor *= mean;
		else if (t->k->cat == CAT_OPTIMIZER_STATE || (is_step && t->k->cat != CAT_GRADIENT))
			t->factor *= share_like_a_parameter(s, (double)t->k->size);
	}
}

/* --- when units run ------------------------------------------------------------------------------------------------- */

static int new_visit(struct shard *s, uint32_t unit, int is_backward, uint64_t at)
{
	if (!array_has_room(s->visits, s->visits_cnt, s->visits_cap, 64))
		return -ENOMEM;
	s->visits[s->visits_cnt++] = (struct visit){ .unit = unit, .is_backward = is_backward, .from = at, .to = at };
	s->units[unit].visit = s->visits_cnt;
	return 0;
}

/* A forward goes on until another unit's begins; a backward until the next forward. */
static int see(struct shard *s, uint32_t unit, int is_backward, uint64_t at)
{
	struct visit *v = s->units[unit].visit ? &s->visits[s->units[unit].visit - 1] : NULL;

	if (v && v->is_backward == is_backward && (is_backward || unit == ROOT || unit == s->last_unit)) {
		v->to = at;
		return 0;
	}
	return new_visit(s, unit, is_backward, at);
}

static int see_alloc(struct shard *s, struct item *t)
{
	int is_forward = t->k->phase == PHASE_FORWARD || t->k->phase == PHASE_EVALUATION;
	int is_backward = t->k->phase == PHASE_BACKWARD || t->k->phase == PHASE_RECOMPUTE;
	uint32_t unit = unit_of_module(s, t->k);
	struct visit *v;
	int e;

	if (!is_forward && !is_backward)
		return 0;
	e = see(s, ROOT, is_backward, t->alloc);
	if (!e && unit != ROOT) {
		e = see(s, unit, is_backward, t->alloc);
		s->last_unit = unit;
	}
	if (e || !is_backward || t->k->cat != CAT_GRADIENT)
		return e;
	v = &s->visits[s->units[unit].visit - 1];
	v->grads += item__size(t, 0);
	v->grads_end = t->freed > v->grads_end ? t->freed : v->grads_end;
	return 0;
}

/* --- gathered parameters, buffers, gradients ----------------------------------------------------------------------- */

static double gathered_bytes(const struct shard *s, uint32_t u)
{
	return s->units[u].part * s->o->ranks;
}

static int drop(struct shard *s, struct buffer *b, uint64_t at)
{
	int e = b->bytes > 0 ? items__add(s->i, b->since, at, b->bytes) : 0;

	b->bytes = 0;
	return e;
}

static int all_gather(struct shard *s, struct buffer *b, uint32_t u, uint64_t at)
{
	*b = (struct buffer){ at, gathered_bytes(s, u) };
	return s->o->is_cpu && b->bytes > 0 ? items__add(s->i, at, at + 1, b->bytes) : 0;
}

static int ungather(struct shard *s, uint32_t u, uint64_t at)
{
	struct buffer b = { s->units[u].gathered, s->units[u].gathered ? gathered_bytes(s, u) : 0 };

	s->units[u].gathered = 0;
	return drop(s, &b, at);
}

static int forward(struct shard *s, const struct visit *v)
{
	uint64_t at = v->from - (v->unit == ROOT ? 16 : 8);
	struct buffer b;
	int e = 0;

	if (!s->units[v->unit].gathered) {
		e = all_gather(s, &b, v->unit, at);
		if (!e)
			e = drop(s, &s->held, at + 2);
		s->held = b;
		s->units[v->unit].gathered = at + 2;
	}
	if (!e && v->unit != ROOT && !s->o->no_reshard)
		e = ungather(s, v->unit, v->to + 2);
	return e;
}

static int fetch_ahead(struct shard *s, size_t visit, uint64_t at)
{
	size_t next = visit + 1;

	if (s->o->no_reshard || next >= s->visits_cnt || !s->visits[next].is_backward)
		return 0;
	s->ahead_of = s->visits[next].unit;
	return all_gather(s, &s->ahead, s->ahead_of, at);
}

/* After a unit's backward its gradients are reduced. */
static int reduce(struct shard *s, const struct visit *v, uint64_t at)
{
	const struct unit *u = &s->units[v->unit];
	double share = u->whole > 0 ? v->grads / u->whole : 0;
	int e = ungather(s, v->unit, at + 1);

	share = share > 1 ? 1 : share;
	if (!e)
		e = drop(s, &s->reduced, at + 1);
	if (e || share <= 0)
		return e;
	s->reduced = (struct buffer){ at + 2, gathered_bytes(s, v->unit) * share };
	return items__add(s->i, at + 3, v->grads_end, u->part * share);
}

static int backward(struct shard *s, size_t visit)
{
	const struct visit *v = &s->visits[visit];
	uint64_t at = v->from - 8;
	int e = 0;

	if (!s->units[v->unit].gathered) {
		if (!(s->ahead.bytes > 0) || s->ahead_of != v->unit)
			e = all_gather(s, &s->ahead, v->unit, at);
		s->units[v->unit].gathered = at + 2;
		if (!e)
			e = drop(s, &s->ahead, at + 3);
	}
	if (!e)
		e = fetch_ahead(s, visit, at + 4);
	return e ? e : reduce(s, v, v->to);
}

/* The root's is over last: all that is still there ends. */
static int finish(struct shard *s, const struct visit *root)
{
	uint64_t at = root->to + 8;
	int e = reduce(s, root, at);

	if (!e)
		e = drop(s, &s->reduced, at + 6);
	if (!e)
		e = drop(s, &s->ahead, at + 6);
	for (uint32_t u = 0; u < s->units_cnt && !e; u++)
		e = ungather(s, u, at + 6);
	return e;
}

static int come_and_go(struct shard *s)
{
	const struct visit *root = NULL; /* its backward, under way */
	const struct visit *forward_root = NULL;
	int e = 0;

	for (size_t k = 0; k < s->visits_cnt && !e; k++) {
		const struct visit *v = &s->visits[k];

		if (root && !v->is_backward) {
			e = finish(s, root);
			root = NULL;
		}
		if (!e && !v->is_backward)
			e = forward(s, v);
		if (v->unit == ROOT && !v->is_backward)
			forward_root = v;
		if (e || !v->is_backward)
			continue;
		if (v->unit != ROOT) {
			e = backward(s, k);
			continue;
		}
		root = v;
		if (forward_root)
			e = drop(s, &s->held, forward_root->to + 3);
		if (!e)
			e = fetch_ahead(s, k, v->from - 16);
	}
	if (!e && root)
		e = finish(s, root);
	if (!e && s->held.bytes > 0)
		e = drop(s, &s->held, ITEM_NEVER);
	for (uint32_t u = 0; u < s->units_cnt && !e; u++)
		e = ungather(s, u, ITEM_NEVER);
	return e;
}

/* Whole gradients end when they are reduced. */
static void cut_gradients(struct shard *s)
{
	for (size_t k = s->i->given; k < s->i->recorded; k++) {
		struct item *t = &s->i->at[k];

		if (t->k->cat != CAT_GRADIENT || (t->k->phase != PHASE_BACKWARD && t->k->phase != PHASE_RECOMPUTE))
			continue;
		for (size_t n = 0; n < s->visits_cnt; n++) {
			const struct visit *v = &s->visits[n];
			uint64_t end = v->to + (v->unit == ROOT ? 8 : 0) + 3;

			if (v->is_backward && v->unit == unit_of_module(s, t->k) && v->from <= t->alloc && v->to >= t->alloc)
				t->freed = end < t->freed ? end : t->freed;
		}
	}
}

static void tell(struct shard *s)
{
	double whole = 0, part = 0;

	for (uint32_t u = 0; u < s->units_cnt; u++) {
		double gathered = gathered_bytes(s, u);

		whole += s->units[u].whole;
		part += s->units[u].part;
		if (u == ROOT)
			s->res->root = (uint64_t)gathered;
		else if (gathered > (double)s->res->largest)
			s->res->largest = (uint64_t)gathered;
	}
	s->res->units = s->units_cnt - 1;
	s->res->parameters = (uint64_t)whole;
	s->res->sharded = (uint64_t)part;
	s->res->is_guess = !s->o->units;
}

static int apply(struct shard *s)
{
	int e = split_parameters(s);

	if (e)
		return e;
	if (!s->parts_cnt)
		return -ENODATA;
	if (s->o->units && s->units_cnt == 1)
		return -ENOENT;
	split_the_rest(s);
	for (size_t k = s->i->given; k < s->i->recorded && !e; k++)
		e = see_alloc(s, &s->i->at[k]);
	if (!e) {
		cut_gradients(s);
		tell(s);
		e = come_and_go(s);
	}
	return e ? e : items__sort(s->i);
}

int shard__apply(struct shard_result *res, struct items *i, const struct shard_opts *o)
{
	struct shard s = { .i = i, .o = o, .res = res, .units_cnt = 1, .modules_cnt = names__last(o->r->names) + 1 };
	int e = -ENOMEM;

	*res = (struct shard_result){ 0 };
	s.units = calloc(SHARD_UNITS_MAX, sizeof(*s.units));
	s.of_module = calloc(s.modules_cnt, sizeof(*s.of_module));
	s.parts = calloc(i->given + 1, sizeof(*s.parts));
	if (s.units && s.of_module && s.parts)
		e = apply(&s);
	for (size_t u = 0; s.units && u < s.units_cnt; u++)
		free(s.units[u].path);
	free_all(s.units, s.of_module, s.parts, s.visits);
	return e;
}
