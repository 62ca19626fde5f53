/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What a node would free changes when all users of a storage but one have run: then that one frees it. The remaining users are
 * kept as their number and the xor of their indexes, which gives the last one without a list.
 */
#include "estimate/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "base/heap.h"
#include "estimate/tracker.h"

enum order_rule { RULE_NET = 0, RULE_FREES_FIRST, RULES };
static const char *const rule_names[RULES] = { "least net growth", "frees first" };

struct ready {
	int64_t key;
	uint32_t node;
};

struct sched {
	const struct est_doc *d;
	const struct est_graph *g;
	const struct est_alias *a;
	const struct est_rules *rules;
	const struct est_order_opts *opts;
	uint32_t *then_begin, *then; /* by node: nodes that wait for it */
	uint32_t *waits;	     /* by node: how many it waits for */
	uint32_t *left, *xored;	     /* by storage: users that did not run */
	uint32_t *seen;		     /* by storage: the node that was looked at last, + 1 */
	int64_t *makes, *frees;	     /* by node */
	uint8_t *ran;
	struct ready *heap;
	size_t heap_cnt, heap_cap;
	enum order_rule rule;
};

/* --- the heap ------------------------------------------------------------------------------------------------ */

static int goes_first(const struct ready *a, const struct ready *b)
{
	return a->key != b->key ? a->key < b->key : a->node < b->node;
}

static int push(struct sched *s, uint32_t node, int64_t key)
{
	if (!array_has_room(s->heap, s->heap_cnt, s->heap_cap, 256))
		return -ENOMEM;
	s->heap[s->heap_cnt] = (struct ready){ key, node };
	heap_up(s->heap, s->heap_cnt, goes_first);
	s->heap_cnt++;
	return 0;
}

static struct ready pop(struct sched *s)
{
	struct ready top = s->heap[0];

	s->heap[0] = s->heap[--s->heap_cnt];
	heap_down(s->heap, s->heap_cnt, 0, goes_first);
	return top;
}

static int64_t key_of(const struct sched *s, uint32_t node)
{
	int64_t net = s->makes[node] - s->frees[node];

	if (s->rule == RULE_NET)
		return net;
	return net <= 0 ? INT64_MIN : s->makes[node]; /* those that cost nothing in their own order */
}

/* --- users ---------------------------------------------------------------------------------------------------- */

static int can_free(const struct sched *s, uint32_t storage)
{
	return est_rules__counts(s->rules, s->d, storage) && !est_rules__keeps(s->rules, s->g, s->a->allocator[storage]);
}

/* A user of the storage is known, or has run. */
static void count_user(struct sched *s, uint32_t node, uint32_t storage, int sign)
{
	s->left[storage] += (uint32_t)sign;
	s->xored[storage] ^= node;
}

static int last_user_left(struct sched *s, uint32_t storage)
{
	uint32_t user = s->xored[storage];

	if (s->left[storage] != 1 || !can_free(s, storage) || s->g->nodes[user].op != EST_COMPUTE)
		return 0;
	s->frees[user] += (int64_t)s->d->bytes[storage];
	return s->waits[user] || s->ran[user] ? 0 : push(s, user, key_of(s, user));
}

/* For each storage that the node uses, once. */
static int each_use(struct sched *s, uint32_t node, int sign)
{
	int r = 0;

	EST_FOR_INS(s->g, node, k)
		EST_FOR_OUTS(s->g, s->g->ins[k], j) {
			uint32_t storage = s->g->outs[j];

			if (s->seen[storage] == node + 1)
				continue;
			s->seen[storage] = node + 1;
			count_user(s, node, storage, sign);
			if (sign < 0 && !r)
				r = last_user_left(s, storage);
		}
	return r;
}

/* --- dependencies ----------------------------------------------------------------------------------------------- */

static void each_wait(struct sched *s, int is_counting)
{
	const struct est_graph *g = s->g;

	for (uint32_t i = 0; i < g->nodes_cnt; i++)
		EST_FOR_INS(g, i, k) {
			if (is_counting)
				s->then_begin[g->ins[k] + 1]++;
			else
				s->then[s->then_begin[g->ins[k]]++] = i;
			s->waits[i] += (uint32_t)is_counting;
		}
	for (size_t i = 0; i < s->opts->before_cnt; i++) {
		const struct est_pair_of *p = &s->opts->before[i];

		if (is_counting)
			s->then_begin[p->first + 1]++;
		else
			s->then[s->then_begin[p->first]++] = p->then;
		s->waits[p->then] += (uint32_t)is_counting;
	}
}

static void fill_waits(struct sched *s)
{
	size_t n = s->g->nodes_cnt;

	memset(s->then_begin, 0, (n + 2) * sizeof(*s->then_begin));
	memset(s->waits, 0, (n + 1) * sizeof(*s->waits));
	each_wait(s, 1);
	for (size_t i = 0; i < n; i++)
		s->then_begin[i + 1] += s->then_begin[i];
	each_wait(s, 0);
	for (size_t i = n; i > 0; i--) /* each has moved to its end */
		s->then_begin[i] = s->then_begin[i - 1];
	s->then_begin[0] = 0;
}

static int begin(struct sched *s)
{
	const struct est_graph *g = s->g;
	int r = 0;

	fill_waits(s);
	memset(s->left, 0, (s->d->storages_cnt + 1) * sizeof(*s->left));
	memset(s->xored, 0, (s->d->storages_cnt + 1) * sizeof(*s->xored));
	memset(s->seen, 0, (s->d->storages_cnt + 1) * sizeof(*s->seen));
	memset(s->makes, 0, (g->nodes_cnt + 1) * sizeof(*s->makes));
	memset(s->frees, 0, (g->nodes_cnt + 1) * sizeof(*s->frees));
	memset(s->ran, 0, g->nodes_cnt + 1);
	s->heap_cnt = 0;
	for (uint32_t i = 0; i < g->nodes_cnt; i++) {
		(void)each_use(s, i, 1);
		EST_FOR_OUTS(g, i, k)
			if (s->a->allocator[g->outs[k]] == i && est_rules__counts(s->rules, s->d, g->outs[k]))
				s->makes[i] += (int64_t)s->d->bytes[g->outs[k]];
	}
	memset(s->seen, 0, (s->d->storages_cnt + 1) * sizeof(*s->seen));
	for (uint32_t st = 0; st < s->d->storages_cnt; st++)
		if (s->left[st] == 1 && can_free(s, st) && g->nodes[s->xored[st]].op == EST_COMPUTE)
			s->frees[s->xored[st]] += (int64_t)s->d->bytes[st];
	for (uint32_t i = 0; i < g->nodes_cnt && !r; i++)
		if (!s->waits[i])
			r = push(s, i, est_op_is_given(g->nodes[i].op) ? INT64_MIN : key_of(s, i));
	return r;
}

/* One order by the rule, into `order`. */
static int schedule(struct sched *s, uint32_t *order, size_t *ret_cnt)
{
	size_t cnt = 0, ran = 0;
	int r = begin(s);

	while (!r && s->heap_cnt) {
		uint32_t node = pop(s).node;

		if (s->ran[node])
			continue; /* an older key of it */
		s->ran[node] = 1;
		ran++;
		if (s->g->nodes[node].op != EST_OUTPUT)
			order[cnt++] = node;
		r = each_use(s, node, -1);
		for (uint32_t k = s->then_begin[node]; k < s->then_begin[node + 1] && !r; k++)
			if (!--s->waits[s->then[k]])
				r = push(s, s->then[k], key_of(s, s->then[k]));
	}
	*ret_cnt = cnt;
	return r ? r : ran == s->g->nodes_cnt ? 0 : -EINVAL;
}

/* The peak of an order; -1: no memory, or it cannot run. */
static int64_t peak_of(const struct sched *s, const uint32_t *order, size_t cnt)
{
	struct est_tracker *t = est_tracker__new(s->d, s->g, s->a, s->rules);
	int64_t peak = t ? est_tracker__now(t) : -1;
	uint32_t input;

	for (size_t i = 0; i < cnt && t && peak >= 0; i++) {
		uint64_t scratch = s->opts->scratch ? s->opts->scratch[order[i]] : 0;
		int64_t high;

		if (est_tracker__run(t, order[i], &input) < 0) {
			peak = -1;
			break;
		}
		high = est_tracker__high(t) + (int64_t)scratch;
		peak = high > peak ? high : peak;
	}
	est_tracker__free(t);
	return peak;
}

static int alloc(struct sched *s)
{
	size_t n = s->g->nodes_cnt, st = s->d->storages_cnt;

	s->then_begin = malloc((n + 2) * sizeof(*s->then_begin));
	s->then = malloc((s->g->ins_cnt + s->opts->before_cnt + 1) * sizeof(*s->then));
	s->waits = malloc((n + 1) * sizeof(*s->waits));
	s->left = malloc((st + 1) * sizeof(*s->left));
	s->xored = malloc((st + 1) * sizeof(*s->xored));
	s->seen = malloc((st + 1) * sizeof(*s->seen));
	s->makes = malloc((n + 1) * sizeof(*s->makes));
	s->frees = malloc((n + 1) * sizeof(*s->frees));
	s->ran = malloc(n + 1);
	return s->then_begin && s->then && s->waits && s->left && s->xored && s->seen && s->makes && s->frees && s->ran ?
		       0 : -ENOMEM;
}

static void done(struct sched *s)
{
	free_all(s->then_begin, s->then, s->waits, s->left, s->xored, s->seen, s->makes, s->frees, s->ran, s->heap);
}

static int try_rules(struct sched *s, struct est_order *o, uint32_t *order)
{
	size_t cnt;
	int r = 0;

	for (int rule = 0; rule < RULES && !r; rule++) {
		int64_t peak;

		s->rule = (enum order_rule)rule;
		r = schedule(s, order, &cnt);
		peak = r ? -1 : peak_of(s, order, cnt);
		if (peak < 0 || peak >= o->peak)
			continue;
		memcpy(o->nodes, order, cnt * sizeof(*order));
		o->cnt = cnt;
		o->peak = peak;
		o->rule = rule_names[rule];
	}
	return r;
}

int est_order__init(struct est_order *o, const struct est_doc *d, const struct est_graph *g, const struct est_alias *a,
		    const struct est_rules *rules, const struct est_order_opts *opts)
{
	struct sched s = { .d = d, .g = g, .a = a, .rules = rules, .opts = opts };
	uint32_t *order = malloc((g->nodes_cnt + 1) * sizeof(*order));
	int r = alloc(&s);

	*o = (struct est_order){ .nodes = malloc((g->nodes_cnt + 1) * sizeof(*o->nodes)), .rule = "recorded" };
	if (!r && (!order || !o->nodes))
		r = -ENOMEM;
	for (uint32_t i = 0; i < g->nodes_cnt && !r; i++)
		if (g->nodes[i].op != EST_OUTPUT)
			o->nodes[o->cnt++] = i;
	if (!r) {
		o->peak = o->peak_there_is = peak_of(&s, o->nodes, o->cnt);
		r = o->peak < 0 ? -ENOMEM : try_rules(&s, o, order);
	}
	free(order);
	done(&s);
	if (r < 0)
		est_order__done(o);
	return r;
}

void est_order__done(struct est_order *o)
{
	free(o->nodes);
	*o = (struct est_order){ 0 };
}
