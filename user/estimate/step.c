/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"

struct step_node {
	uint64_t ts_ns;
	name_id op;
	uint32_t tid;
	size_t edges_end;
};

void step__init(struct step *s, const struct recorded *r, const struct recorded_kept *k)
{
	*s = (struct step){ .r = r, .k = k };
}

void step__done(struct step *s)
{
	free(s->nodes);
	free(s->edges);
	*s = (struct step){ 0 };
}

int step__event(struct step *s, const struct tl_event *ev)
{
	if (ev->kind != TL_NODE || ev->pid != s->k->pid || ev->ts_ns < s->k->step_from || ev->ts_ns >= s->k->step_to)
		return 0;
	if (s->nodes_cnt == STEP_NODES_MAX || s->edges_cnt + ev->edges_cnt > STEP_EDGES_MAX) {
		s->left_out++;
		return 0;
	}
	if (!array_has_room(s->nodes, s->nodes_cnt, s->nodes_cap, 256) ||
	    !array_has_room_for(s->edges, s->edges_cnt, ev->edges_cnt, s->edges_cap, 256))
		return -ENOMEM;
	for (uint32_t i = 0; i < ev->edges_cnt; i++)
		if (ev->edges[i].dev == s->k->dev)
			s->edges[s->edges_cnt++] = ev->edges[i];
	s->nodes[s->nodes_cnt++] = (struct step_node){ .ts_ns = ev->ts_ns, .op = ev->op, .tid = ev->tid,
						       .edges_end = s->edges_cnt };
	return 0;
}

/* --- the graph ------------------------------------------------------------------------------------------- */

struct reader_of {
	uint32_t node, next; /* the reader before it, EST_NONE: none */
};

struct build {
	const struct step *s;
	struct step_result *res;
	struct est_graph *g;
	uint32_t *storage; /* by id: its number + 1 */
	uint32_t *holder;  /* by storage: the node that stands for it */
	uint32_t *writer;  /* by storage: the node that wrote it last, EST_NONE */
	uint32_t *readers; /* by storage: of what was written last, into `read` */
	struct reader_of *read;
	struct est_pair_of *before;
	uint64_t *scratch;
	size_t ids, storages_cap, read_cnt, read_cap, before_cnt, before_cap, scratch_cnt, scratch_cap, writer_cap, readers_cap;
};

static const struct recorded_block *block_of(const struct build *b, uint64_t id)
{
	const struct recorded_block *k = id < b->ids ? &b->s->r->blocks[id] : NULL;

	return k && k->alloc_ns && k->dev == b->s->k->dev && k->pid == b->s->k->pid ? k : NULL;
}

static int add_node(struct build *b, enum est_op op, name_id target, const char *name)
{
	struct est_node n = { .op = (uint16_t)op, .target = target };

	return est_doc__node(&b->res->d, b->g, &n, name, strlen(name));
}

/* A storage for a block, made by the node that comes next. */
static int add_storage(struct build *b, uint64_t id, uint32_t holder)
{
	size_t at = b->res->d.storages_cnt;
	int r;

	if (!array_has_room(b->holder, at, b->storages_cap, 256) || !array_has_room(b->writer, at, b->writer_cap, 256) ||
	    !array_has_room(b->readers, at, b->readers_cap, 256))
		return -ENOMEM;
	r = est_doc__storage(&b->res->d, b->s->r->blocks[id].size, 0);
	if (r < 0)
		return r;
	b->holder[at] = holder;
	b->writer[at] = b->readers[at] = EST_NONE;
	b->storage[id] = (uint32_t)at + 1;
	return est_graph__out(b->g, (uint32_t)at);
}

static int lives_at(const struct recorded_block *k, uint64_t ns)
{
	return k->alloc_ns < ns && (!k->free_ns || k->free_ns >= ns);
}

/* Freed in the step and not used in it: no input of a graph. */
static int is_left_behind(const struct build *b, const struct recorded_block *k)
{
	return k->free_ns && k->free_ns < b->s->k->step_to && k->used_ns <= b->s->k->step_from;
}

static int add_given(struct build *b)
{
	name_id none = NAME_NONE;
	char name[32];
	int r = 0;

	for (uint64_t id = 1; id < b->ids && !r; id++) {
		const struct recorded_block *k = block_of(b, id);

		if (!k || !lives_at(k, b->s->k->step_from) || is_left_behind(b, k))
			continue;
		snprintf(name, sizeof(name), "block_%llu", (unsigned long long)id);
		r = add_storage(b, id, (uint32_t)b->g->nodes_cnt);
		if (!r)
			r = add_node(b, EST_PLACEHOLDER, none, name);
	}
	return r;
}

static int add_before(struct build *b, uint32_t first, uint32_t then)
{
	if (first == EST_NONE || first == then)
		return 0;
	if (!array_has_room(b->before, b->before_cnt, b->before_cap, 256))
		return -ENOMEM;
	b->before[b->before_cnt++] = (struct est_pair_of){ first, then };
	return 0;
}

/* The node reads, and maybe writes, a block: after the last write, and a write after all reads of what it changes. */
static int touch(struct build *b, uint32_t node, uint32_t st, int writes)
{
	int r = add_before(b, b->writer[st], node);

	if (writes) {
		for (uint32_t at = b->readers[st]; at != EST_NONE && !r; at = b->read[at].next)
			r = add_before(b, b->read[at].node, node);
		b->readers[st] = EST_NONE;
		b->writer[st] = node;
		return r;
	}
	if (r < 0)
		return r;
	if (!array_has_room(b->read, b->read_cnt, b->read_cap, 256))
		return -ENOMEM;
	b->read[b->read_cnt] = (struct reader_of){ node, b->readers[st] };
	b->readers[st] = (uint32_t)b->read_cnt++;
	return 0;
}

/* --- scratch memory of a node ---------------------------------------------------------------------------- */

struct scratch_change {
	uint64_t ns;
	int64_t bytes;
};

static int by_moment(const void *a, const void *b)
{
	const struct scratch_change *x = a, *y = b;

	return cmp_up(x->ns, y->ns) ?: cmp_up(x->bytes, y->bytes); /* frees first */
}

static uint64_t most_at_once(struct scratch_change *m, size_t cnt)
{
	int64_t now = 0, most = 0;

	qsort(m, cnt, sizeof(*m), by_moment);
	for (size_t i = 0; i < cnt; i++) {
		now += m[i].bytes;
		most = now > most ? now : most;
	}
	return (uint64_t)most;
}

static int is_scratch(const struct tl_edge *e)
{
	return (e->flags & (TL_EDGE_ALLOCATED | TL_EDGE_FREED)) == (TL_EDGE_ALLOCATED | TL_EDGE_FREED);
}

static int scratch_of(const struct build *b, size_t from, size_t to, uint64_t *ret)
{
	struct scratch_change *m = malloc((2 * (to - from) + 1) * sizeof(*m));
	size_t cnt = 0;

	if (!m)
		return -ENOMEM;
	for (size_t i = from; i < to; i++) {
		const struct tl_edge *e = &b->s->edges[i];
		const struct recorded_block *k = block_of(b, e->id);

		if (!k || !is_scratch(e) || !k->free_ns)
			continue;
		m[cnt++] = (struct scratch_change){ k->alloc_ns, (int64_t)k->size };
		m[cnt++] = (struct scratch_change){ k->free_ns, -(int64_t)k->size };
	}
	*ret = most_at_once(m, cnt);
	free(m);
	return 0;
}

/* --- nodes ----------------------------------------------------------------------------------------------- */

static name_id word(struct build *b, name_id op)
{
	return op.v ? names__add(b->res->d.words, names__get(b->s->r->names, op)) : NAME_NONE;
}

/* Each new block of a node of several, on its own. */
static int add_items(struct build *b, uint32_t node)
{
	uint32_t first = est_out_begin(b->g, node), last = b->g->nodes[node].out_end;
	int r = 0;

	if (last - first < 2)
		return 0;
	for (uint32_t k = first; k < last && !r; k++) {
		uint32_t st = b->g->outs[k];

		if (b->holder[st] != node)
			continue;
		b->holder[st] = (uint32_t)b->g->nodes_cnt;
		r = est_graph__in(b->g, node);
		if (!r)
			r = est_graph__out(b->g, st);
		if (!r)
			r = add_node(b, EST_COMPUTE, names__add(b->res->d.words, "getitem"), "getitem");
	}
	return r;
}

static int add_edges(struct build *b, uint32_t node, size_t from, size_t to)
{
	int r = 0;

	for (size_t i = from; i < to && !r; i++) {
		const struct tl_edge *e = &b->s->edges[i];
		const struct recorded_block *k = block_of(b, e->id);
		int is_given = e->flags & (TL_EDGE_GIVEN | TL_EDGE_WRITTEN);

		if (!k || is_scratch(e))
			continue;
		if (!b->storage[e->id]) {
			/* allocated in it; or before it, in a node that was not known */
			r = add_storage(b, e->id, node);
			if (!r)
				b->writer[b->storage[e->id] - 1] = node;
			continue;
		}
		if (!is_given || (e->flags & TL_EDGE_ALLOCATED))
			continue;
		r = est_graph__in(b->g, b->holder[b->storage[e->id] - 1]);
		if (!r)
			r = touch(b, node, b->storage[e->id] - 1, e->flags & TL_EDGE_WRITTEN);
	}
	return r;
}

static int has_edges(const struct build *b, const struct step_node *n, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		const struct tl_edge *e = &b->s->edges[i];

		if (!block_of(b, e->id))
			continue;
		if (n->op.v || e->flags & TL_EDGE_ALLOCATED)
			return 1;
	}
	return 0;
}

/* Of a node; those between it and the one before have none. */
static int set_scratch(struct build *b, size_t node, uint64_t bytes)
{
	if (!array_has_room(b->scratch, node, b->scratch_cap, 256))
		return -ENOMEM;
	memset(b->scratch + b->scratch_cnt, 0, (node - b->scratch_cnt) * sizeof(*b->scratch));
	b->scratch[node] = bytes;
	b->scratch_cnt = node + 1;
	return 0;
}

static int add_nodes(struct build *b)
{
	size_t from = 0;
	int r = 0;

	for (size_t i = 0; i < b->s->nodes_cnt && !r; from = b->s->nodes[i++].edges_end) {
		const struct step_node *n = &b->s->nodes[i];
		uint32_t at = (uint32_t)b->g->nodes_cnt;
		uint64_t scratch = 0;
		const char *name = n->op.v ? names__get(b->s->r->names, n->op) : "[memory]";

		if (!has_edges(b, n, from, n->edges_end))
			continue;
		r = add_edges(b, at, from, n->edges_end);
		if (!r)
			r = scratch_of(b, from, n->edges_end, &scratch);
		if (!r)
			r = add_node(b, EST_COMPUTE, word(b, n->op), name);
		if (!r)
			r = set_scratch(b, at, scratch);
		if (r < 0)
			break;
		b->res->scratch_max = scratch > b->res->scratch_max ? scratch : b->res->scratch_max;
		b->res->operators++;
		r = add_items(b, at);
	}
	return r;
}

/* Blocks live at the step's end are returned. */
static int add_output(struct build *b)
{
	uint64_t end = b->s->k->step_to;
	int r = 0;

	for (uint64_t id = 1; id < b->ids && !r; id++) {
		const struct recorded_block *k = block_of(b, id);

		if (k && b->storage[id] && (!k->free_ns || (end != UINT64_MAX && k->free_ns >= end)))
			r = est_graph__in(b->g, b->holder[b->storage[id] - 1]);
	}
	return r ? r : add_node(b, EST_OUTPUT, NAME_NONE, "output");
}

/* --- measured bytes -------------------------------------------------------------------------------------- */

static int measure(struct build *b)
{
	uint64_t from = b->s->k->step_from, to = b->s->k->step_to;
	struct scratch_change *all = malloc((2 * b->ids + 1) * sizeof(*all));
	struct scratch_change *unseen = malloc((2 * b->ids + 1) * sizeof(*unseen));
	size_t all_cnt = 0, unseen_cnt = 0;

	if (!all || !unseen) {
		free(all);
		free(unseen);
		return -ENOMEM;
	}
	for (uint64_t id = 1; id < b->ids; id++) {
		const struct recorded_block *k = block_of(b, id);

		if (!k || k->alloc_ns >= to || (k->free_ns && k->free_ns < from))
			continue;
		all[all_cnt++] = (struct scratch_change){ k->alloc_ns < from ? from : k->alloc_ns, (int64_t)k->size };
		if (k->free_ns)
			all[all_cnt++] = (struct scratch_change){ k->free_ns, -(int64_t)k->size };
		if (b->storage[id] || !k->free_ns || k->used_ns)
			continue;
		unseen[unseen_cnt++] = (struct scratch_change){ k->alloc_ns, (int64_t)k->size };
		unseen[unseen_cnt++] = (struct scratch_change){ k->free_ns, -(int64_t)k->size };
	}
	b->res->measured = most_at_once(all, all_cnt);
	b->res->unseen = most_at_once(unseen, unseen_cnt);
	free(all);
	free(unseen);
	return 0;
}

static int estimate(struct build *b)
{
	const struct est_rules rules = { .counts = 1 };
	struct est_order_opts opts;
	struct est_alias a;
	int r = set_scratch(b, b->g->nodes_cnt, 0);

	if (!r)
		r = est_alias__init(&a, &b->res->d, b->g);
	if (r < 0)
		return r;
	opts = (struct est_order_opts){ .before = b->before, .before_cnt = b->before_cnt, .scratch = b->scratch };
	r = est_profile__init(&b->res->profile, &b->res->d, b->g, &a, &rules);
	if (!r)
		r = est_order__init(&b->res->order, &b->res->d, b->g, &a, &rules, &opts);
	est_alias__done(&a);
	return r;
}

static int build(struct build *b)
{
	int r = est_doc__graph(&b->res->d, &b->g);

	if (!r)
		r = est_doc__device(&b->res->d, "it", 2);
	if (r < 0)
		return r;
	b->g->name = names__add(b->res->d.words, "step");
	r = add_given(b);
	if (!r)
		r = add_nodes(b);
	if (!r)
		r = b->res->operators ? add_output(b) : -ENODATA;
	if (!r)
		r = est_doc__finish(&b->res->d, NULL);
	if (!r)
		r = measure(b);
	return r ? r : estimate(b);
}

int step_result__init(struct step_result *res, const struct step *s)
{
	struct build b = { .s = s, .res = res, .ids = s->r->last_id + 1 };
	int r;

	*res = (struct step_result){ 0 };
	if (s->r->blocks_cap < b.ids)
		b.ids = s->r->blocks_cap;
	r = est_doc__init(&res->d);
	b.storage = calloc(b.ids + 1, sizeof(*b.storage));
	if (!r)
		r = b.storage ? build(&b) : -ENOMEM;
	free_all(b.storage, b.holder, b.writer, b.readers, b.read, b.before, b.scratch);
	if (r < 0)
		step_result__done(res);
	return r;
}

void step_result__done(struct step_result *res)
{
	est_order__done(&res->order);
	est_profile__done(&res->profile);
	est_doc__done(&res->d);
	*res = (struct step_result){ 0 };
}
