/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"

uint64_t est_not_cpu(const struct est_doc *d)
{
	uint64_t counts = 0;

	for (size_t i = 0; i < d->devs_cnt; i++)
		if (strcmp(d->dev_names[i], "cpu") && strncmp(d->dev_names[i], "cpu:", 4))
			counts |= 1ull << i;
	return counts;
}

/* --- the profile ------------------------------------------------------------------------------------------------ */

struct profile_work {
	const struct est_doc *d;
	const struct est_graph *g;
	const struct est_alias *a;
	const struct est_rules *rules;
	int64_t *made, *freed; /* bytes by node */
};

/* Freed at the end of its last user's turn; an `output` has none. */
static int is_freed(const struct profile_work *w, uint32_t storage)
{
	uint32_t last = w->a->last_user[storage];

	return last != EST_NONE && w->g->nodes[last].op == EST_COMPUTE &&
	       !est_rules__keeps(w->rules, w->g, w->a->allocator[storage]);
}

static void sums(struct profile_work *w, struct est_profile *p)
{
	for (uint32_t s = 0; s < w->d->storages_cnt; s++) {
		uint32_t by = w->a->allocator[s];

		if (by == EST_NONE || !est_rules__counts(w->rules, w->d, s))
			continue;
		w->made[by] += (int64_t)w->d->bytes[s];
		if (is_freed(w, s))
			w->freed[w->a->last_user[s]] += (int64_t)w->d->bytes[s];
		if (w->a->last_user[s] == EST_NONE && w->g->nodes[by].op == EST_COMPUTE)
			p->never_used += w->d->bytes[s];
	}
}

static void walk(const struct profile_work *w, struct est_profile *p)
{
	int64_t now = 0;

	for (uint32_t i = 0; i < w->g->nodes_cnt; i++)
		if (est_op_is_given(w->g->nodes[i].op))
			now += w->made[i];
	p->start = p->peak = now;
	p->peak_node = EST_NONE;
	p->at[p->cnt++] = now;
	for (uint32_t i = 0; i < w->g->nodes_cnt; i++) {
		if (w->g->nodes[i].op != EST_COMPUTE)
			continue;
		now += w->made[i];
		if (now > p->peak) {
			p->peak = now;
			p->peak_idx = p->cnt;
			p->peak_node = i;
		}
		p->at[p->cnt++] = now;
		now -= w->freed[i];
		p->at[p->cnt++] = now;
	}
	p->end = now;
}

/* --- alive at the peak --------------------------------------------------------------------------------------------- */

static int is_alive(const struct profile_work *w, const struct est_profile *p, uint32_t s)
{
	uint32_t by = w->a->allocator[s];

	if (by == EST_NONE || !est_rules__counts(w->rules, w->d, s) || w->g->nodes[by].op == EST_OUTPUT)
		return 0;
	if (p->peak_node == EST_NONE)
		return est_op_is_given(w->g->nodes[by].op);
	if (!est_op_is_given(w->g->nodes[by].op) && by > p->peak_node)
		return 0;
	return !is_freed(w, s) || w->a->last_user[s] >= p->peak_node;
}

static int larger(const void *a, const void *b)
{
	const struct est_row *x = a, *y = b;

	return cmp_down(x->bytes, y->bytes) ?: cmp_up(x->node, y->node);
}

static int alive(const struct profile_work *w, struct est_profile *p)
{
	struct est_row *by_node = calloc(w->g->nodes_cnt + 1, sizeof(*by_node));
	size_t cnt = 0;

	if (!by_node)
		return -ENOMEM;
	for (uint32_t s = 0; s < w->d->storages_cnt; s++)
		if (is_alive(w, p, s)) {
			struct est_row *row = &by_node[w->a->allocator[s]];

			row->bytes += w->d->bytes[s];
			row->storages++;
		}
	for (uint32_t i = 0; i < w->g->nodes_cnt; i++)
		if (by_node[i].bytes) {
			by_node[cnt] = by_node[i];
			by_node[cnt++].node = i;
		}
	qsort(by_node, cnt, sizeof(*by_node), larger);
	p->alive = by_node;
	p->alive_cnt = cnt;
	return 0;
}

int est_profile__init(struct est_profile *p, const struct est_doc *d, const struct est_graph *g, const struct est_alias *a,
		      const struct est_rules *rules)
{
	struct profile_work w = { .d = d, .g = g, .a = a, .rules = rules };
	int r = -ENOMEM;

	*p = (struct est_profile){ .at = malloc((2 * g->nodes_cnt + 1) * sizeof(*p->at)) };
	w.made = calloc(g->nodes_cnt + 1, sizeof(*w.made));
	w.freed = calloc(g->nodes_cnt + 1, sizeof(*w.freed));
	if (p->at && w.made && w.freed) {
		sums(&w, p);
		walk(&w, p);
		r = alive(&w, p);
	}
	free(w.made);
	free(w.freed);
	if (r < 0)
		est_profile__done(p);
	return r;
}

void est_profile__done(struct est_profile *p)
{
	free(p->at);
	free(p->alive);
	*p = (struct est_profile){ 0 };
}

/* --- forward and backward ------------------------------------------------------------------------------------------- */

enum { IS_PRIMAL = 1, IS_FWD_OUTPUT = 2, IS_BWD_INPUT = 4 };

static void mark_forward(const struct est_doc *d, const struct est_graph *fwd, const struct est_alias *a, uint8_t *marks)
{
	uint32_t out = (uint32_t)fwd->nodes_cnt - 1;

	for (uint32_t s = 0; s < d->storages_cnt; s++) {
		uint32_t by = a->allocator[s];

		if (by != EST_NONE && fwd->nodes[by].op == EST_PLACEHOLDER && fwd->nodes[by].is_primal)
			marks[s] |= IS_PRIMAL;
	}
	EST_FOR_INS(fwd, out, k)
		EST_FOR_OUTS(fwd, fwd->ins[k], j)
			marks[fwd->outs[j]] |= IS_FWD_OUTPUT;
}

static void mark_backward(const struct est_graph *bwd, uint8_t *marks, struct est_pair *p)
{
	for (uint32_t i = 0; i < bwd->nodes_cnt; i++) {
		int is_primal = 0, is_output = 0;

		p->kept[i] = (uint8_t)bwd->nodes[i].is_primal;
		if (bwd->nodes[i].op != EST_PLACEHOLDER)
			continue;
		EST_FOR_OUTS(bwd, i, k) {
			marks[bwd->outs[k]] |= IS_BWD_INPUT;
			is_primal |= marks[bwd->outs[k]] & IS_PRIMAL;
			is_output |= marks[bwd->outs[k]] & IS_FWD_OUTPUT;
		}
		p->named[i] = is_primal || !is_output;
		p->kept[i] |= p->named[i];
	}
}

int est_pair__init(struct est_pair *p, const struct est_doc *d, const struct est_graph *fwd, const struct est_alias *fwd_alias,
		   const struct est_graph *bwd, uint64_t counts, struct err *err)
{
	uint8_t *marks;

	*p = (struct est_pair){ 0 };
	if (!fwd->nodes_cnt || fwd->nodes[fwd->nodes_cnt - 1].op != EST_OUTPUT)
		return err_set(err, -EINVAL, "the forward graph does not end with its output");
	marks = calloc(d->storages_cnt + 1, 1);
	p->kept = calloc(bwd->nodes_cnt + 1, 1);
	p->named = calloc(bwd->nodes_cnt + 1, 1);
	if (!marks || !p->kept || !p->named) {
		free(marks);
		est_pair__done(p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	mark_forward(d, fwd, fwd_alias, marks);
	mark_backward(bwd, marks, p);
	for (uint32_t s = 0; s < d->storages_cnt; s++)
		if ((marks[s] & (IS_FWD_OUTPUT | IS_BWD_INPUT)) == IS_FWD_OUTPUT && counts >> d->devs[s] & 1)
			p->baseline += (int64_t)d->bytes[s];
	free(marks);
	return 0;
}

void est_pair__done(struct est_pair *p)
{
	free(p->kept);
	free(p->named);
	*p = (struct est_pair){ 0 };
}
