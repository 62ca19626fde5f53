/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * torch checks, for each storage that a node uses, whether all its users have run, and whether it is there. Here these are
 * counts: of a node's users that did not run, of the nodes with users that have a storage in their outputs, of a node's
 * storages that are not there. Each count changes once for each edge.
 */
#include "estimate/tracker.h"

#include <errno.h>
#include <stdlib.h>

#include "base/free.h"

struct est_tracker {
	const struct est_doc *d;
	const struct est_graph *g;
	const struct est_alias *a;
	const struct est_rules *rules;
	uint32_t *users;    /* by node: those that did not run */
	uint32_t *missing;  /* by node: counted storages of its outputs that are not there */
	uint32_t *waits;    /* by storage: nodes with users */
	uint32_t *has_begin, *has; /* by storage: the nodes that have it in their outputs */
	uint8_t *live, *ran;
	size_t ran_cnt;
	int64_t now, high, peak;
};

static void set_live(struct est_tracker *t, uint32_t s, int live)
{
	t->live[s] = (uint8_t)live;
	t->now += live ? (int64_t)t->d->bytes[s] : -(int64_t)t->d->bytes[s];
	for (uint32_t k = t->has_begin[s]; k < t->has_begin[s + 1]; k++)
		t->missing[t->has[k]] += live ? UINT32_MAX : 1; /* - 1, + 1 */
}

static void fill(struct est_tracker *t)
{
	const struct est_graph *g = t->g;

	for (uint32_t i = 0; i < g->nodes_cnt; i++) {
		EST_FOR_INS(g, i, k)
			t->users[g->ins[k]]++;
		EST_FOR_OUTS(g, i, k) {
			t->has_begin[g->outs[k] + 1]++;
			t->missing[i] += (uint32_t)est_rules__counts(t->rules, t->d, g->outs[k]);
		}
	}
	for (size_t s = 0; s < t->d->storages_cnt; s++)
		t->has_begin[s + 1] += t->has_begin[s];
	for (uint32_t i = (uint32_t)g->nodes_cnt; i-- > 0;) /* from the back: has_begin moves to its place */
		EST_FOR_OUTS(g, i, k) {
			t->has[--t->has_begin[g->outs[k] + 1]] = i;
			t->waits[g->outs[k]] += t->users[i] != 0;
		}
	/* has_begin[s + 1] is the beginning of s now: one place too far. */
	for (size_t s = 0; s < t->d->storages_cnt; s++)
		t->has_begin[s] = t->has_begin[s + 1];
	t->has_begin[t->d->storages_cnt] = (uint32_t)g->outs_cnt;
}

static void begin(struct est_tracker *t)
{
	for (uint32_t s = 0; s < t->d->storages_cnt; s++) {
		uint32_t by = t->a->allocator[s];

		if (by != EST_NONE && est_op_is_given(t->g->nodes[by].op) && est_rules__counts(t->rules, t->d, s))
			set_live(t, s, 1);
	}
	t->high = t->peak = t->now;
}

struct est_tracker *est_tracker__new(const struct est_doc *d, const struct est_graph *g, const struct est_alias *a,
				     const struct est_rules *rules)
{
	struct est_tracker *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct est_tracker){ .d = d, .g = g, .a = a, .rules = rules };
	t->users = calloc(g->nodes_cnt + 1, sizeof(*t->users));
	t->missing = calloc(g->nodes_cnt + 1, sizeof(*t->missing));
	t->ran = calloc(g->nodes_cnt + 1, 1);
	t->waits = calloc(d->storages_cnt + 1, sizeof(*t->waits));
	t->has_begin = calloc(d->storages_cnt + 2, sizeof(*t->has_begin));
	t->has = calloc(g->outs_cnt + 1, sizeof(*t->has));
	t->live = calloc(d->storages_cnt + 1, 1);
	if (!t->users || !t->missing || !t->ran || !t->waits || !t->has_begin || !t->has || !t->live) {
		est_tracker__free(t);
		return NULL;
	}
	fill(t);
	begin(t);
	return t;
}

void est_tracker__free(struct est_tracker *t)
{
	if (!t)
		return;
	free_all(t->users, t->missing, t->ran, t->waits, t->has_begin, t->has, t->live, t);
}

static void allocate(struct est_tracker *t, uint32_t node)
{
	EST_FOR_OUTS(t->g, node, k) {
		uint32_t s = t->g->outs[k];

		if (t->a->allocator[s] == node && !t->live[s] && est_rules__counts(t->rules, t->d, s))
			set_live(t, s, 1);
	}
	t->high = t->now;
	t->peak = t->now > t->peak ? t->now : t->peak;
}

/* A node's last user ran: its storages wait for one node less. */
static void let_go(struct est_tracker *t, uint32_t node, int frees)
{
	EST_FOR_OUTS(t->g, node, k) {
		uint32_t s = t->g->outs[k];

		if (--t->waits[s] || !frees || !t->live[s] || est_rules__keeps(t->rules, t->g, t->a->allocator[s]))
			continue;
		set_live(t, s, 0);
	}
}

int est_tracker__run(struct est_tracker *t, uint32_t node, uint32_t *ret_input)
{
	const struct est_graph *g = t->g;
	int is_compute = g->nodes[node].op == EST_COMPUTE;

	if (t->ran[node])
		return -EEXIST;
	if (is_compute)
		EST_FOR_INS(g, node, k)
			if (t->missing[g->ins[k]]) {
				*ret_input = g->ins[k];
				return -ENOENT;
			}
	t->ran[node] = 1;
	t->ran_cnt++;
	if (is_compute)
		allocate(t, node);
	EST_FOR_INS(g, node, k)
		if (!--t->users[g->ins[k]])
			let_go(t, g->ins[k], is_compute);
	return 0;
}

int64_t est_tracker__high(const struct est_tracker *t)
{
	return t->high;
}

int64_t est_tracker__now(const struct est_tracker *t)
{
	return t->now;
}

int64_t est_tracker__peak(const struct est_tracker *t)
{
	return t->peak;
}

size_t est_tracker__ran(const struct est_tracker *t)
{
	return t->ran_cnt;
}
