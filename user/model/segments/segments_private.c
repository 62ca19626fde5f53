/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Private pools of PyTorch's caching allocator: torch.cuda.graph and torch.cuda.MemPool have segments of their own. A segment's
 * pool is known from the time it was made: between the beginning and the end of allocating to a pool, by the thread that began
 * it, or during a capture in it (c10/cuda/CUDACachingAllocator.cpp, torch 2.13: there a filter by stream decides, which cannot
 * be read from outside).
 */
#include "base/array.h"
#include "model/segments/segments_state.h"

/* Over, and without segments: its number is given again. */
static struct private_pool *reuse(struct seg_proc *p)
{
	for (size_t i = 0; i < p->private_cnt; i++) {
		struct private_pool *v = &p->private_pools[i];
		bool is_used = v->uses || v->tid;

		for (size_t k = 0; k < p->cnt && !is_used; k++)
			is_used = p->segs[k].pool == i + 1;
		if (is_used)
			continue;
		for (size_t k = 0; k < p->graphs_cnt; k++)
			if (p->graphs[k].pool == i + 1)
				p->graphs[k].pool = 0;
		return v;
	}
	return NULL;
}

static struct private_pool *find_or_add(struct seg_proc *p, const struct event *ev)
{
	struct private_pool *v;

	for (size_t i = 0; i < p->private_cnt; i++) {
		v = &p->private_pools[i];
		if (v->id[0] == ev->size && v->id[1] == ev->addr && v->dev == ev->dev)
			return v;
	}
	if (p->private_cnt == PRIVATE_POOLS_MAX) {
		v = reuse(p);
	} else {
		bool has_room = array_has_room(p->private_pools, p->private_cnt, p->private_cap, 16);

		v = has_room ? &p->private_pools[p->private_cnt++] : NULL;
	}
	if (!v)
		return NULL;
	*v = (struct private_pool){ .id = { ev->size, ev->addr }, .dev = ev->dev };
	return v;
}

bool seg_proc__private(struct seg_proc *p, const struct event *ev)
{
	struct private_pool *v = find_or_add(p, ev);

	if (!v)
		return false;
	switch (ev->flags) {
	case MT_GRAPH_POOL_BEGINS:
		if (!v->begun_ns)
			v->begun_ns = ev->ts_ns;
		v->tid = ev->tid;
		v->captures = false;
		v->opened = ++p->last_opened;
		v->uses++;
		break;
	case MT_GRAPH_POOL_ENDS:
		v->tid = 0;
		v->captures = false;
		break;
	case MT_GRAPH_POOL_USED:
		v->uses++;
		break;
	case MT_GRAPH_POOL_LEFT:
		v->uses -= v->uses > 0;
		break;
	}
	return true;
}

/* The one that this thread began last. */
static uint16_t own_pool(const struct seg_proc *p, uint8_t dev, uint32_t tid)
{
	uint64_t opened = 0;
	uint16_t ret = 0;

	for (size_t i = 0; i < p->private_cnt; i++) {
		const struct private_pool *v = &p->private_pools[i];

		if (!v->tid || v->tid != tid || (v->dev != dev && dev != MT_DEV_NONE) || v->opened < opened)
			continue;
		opened = v->opened;
		ret = (uint16_t)(i + 1);
	}
	return ret;
}

/* A thread that began none works for a capture; where several go on the pool is not known. */
uint16_t seg_proc__open_pool(const struct seg_proc *p, uint8_t dev, uint32_t tid)
{
	uint16_t ret = own_pool(p, dev, tid);
	bool is_own = ret != 0;

	for (size_t i = 0; i < p->private_cnt && !is_own; i++) {
		const struct private_pool *v = &p->private_pools[i];

		if (!v->tid || !v->captures || (v->dev != dev && dev != MT_DEV_NONE))
			continue;
		if (ret)
			return 0;
		ret = (uint16_t)(i + 1);
	}
	return ret;
}

struct private_pool *seg_proc__pool(const struct seg_proc *p, uint16_t number)
{
	return number ? &p->private_pools[number - 1] : NULL;
}

void seg_proc__captures(struct seg_proc *p, struct cuda_graph *g, uint32_t tid)
{
	struct private_pool *v;

	g->pool = own_pool(p, MT_DEV_NONE, tid); /* which it began just before */
	v = seg_proc__pool(p, g->pool);
	if (v)
		v->captures = true;
}

/* g->number 0: it made no graph. */
void seg_proc__captured(struct seg_proc *p, const struct cuda_graph *g, uint64_t ts_ns)
{
	struct private_pool *v = seg_proc__pool(p, g->pool);

	if (!v)
		return;
	v->captures = false;
	if (!g->number)
		return;
	v->last = (struct report_graph){ .captured_ns = ts_ns, .number = g->number };
	if (v->graphs < REPORT_POOL_GRAPHS)
		v->first[v->graphs] = v->last;
	v->graphs++;
}

void private_pool__launched(struct private_pool *v, const struct cuda_graph *g)
{
	v->launches++;
	v->last.launches += v->last.number == g->number;
	for (unsigned i = 0; i < v->graphs && i < REPORT_POOL_GRAPHS; i++)
		v->first[i].launches += v->first[i].number == g->number;
}
