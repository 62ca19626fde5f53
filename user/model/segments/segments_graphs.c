/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Graphs, whose memory nodes are addresses until the first launch, and pools. A graph has no size of its own: the bytes that
 * its nodes hold at once are counted as they are added, most often while a stream is captured.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/segments/segments_state.h"

/* The graph, or the one that is captured from a stream. NULL: not known. */
struct cuda_graph *seg_proc__graph_of(const struct seg_proc *p, uint32_t handle, bool captures)
{
	for (size_t i = p->graphs_cnt; i-- > 0;)
		if (p->graphs[i].handle == handle && p->graphs[i].captures == captures)
			return &p->graphs[i];
	return NULL;
}

struct cuda_graph *seg_proc__add_graph(struct seg_proc *p, uint32_t handle, bool captures)
{
	if (p->graphs_cnt == GRAPHS_MAX)
		memmove(p->graphs, p->graphs + 1, --p->graphs_cnt * sizeof(*p->graphs));
	if (!array_has_room(p->graphs, p->graphs_cnt, p->graphs_cap, 16))
		return NULL;
	p->graphs[p->graphs_cnt] = (struct cuda_graph){ .id = ++p->last_graph, .handle = handle, .captures = captures };
	return &p->graphs[p->graphs_cnt++];
}

static void cuda_graph__given(struct cuda_graph *g, struct sums *u, uint64_t size)
{
	u->graphs += !g->peak;
	g->dev = u->dev;
	g->waiting++;
	g->live += size;
	if (g->live > g->peak)
		g->peak = g->live;
}

/* false: lost. */
bool segments__alloc_node(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev,
				 struct cuda_graph *g)
{
	if (!g || g->live > SIZE_BELIEVED)
		return false;
	segments__clear(s, p, ev->addr, ev->size);
	if (!seg_proc__insert(p, &(struct seg){ .addr = ev->addr, .size = ev->size, .kind = MT_SEG_GRAPH, .dev = u->dev,
						.waits = true, .graph = g->id }))
		return false;
	u->seen = true;
	u->kinds[MT_SEG_GRAPH].allocs++;
	cuda_graph__given(g, u, ev->size);
	return true;
}

static void segments__launch(struct segments *s, struct seg_proc *p, struct cuda_graph *g, uint64_t ts_ns)
{
	struct sums *u = segments__sums(s, g->dev);

	u->launches += g->peak > 0;
	if (g->pool)
		private_pool__launched(seg_proc__pool(p, g->pool), g);
	u->graph_peak = g->peak > u->graph_peak ? g->peak : u->graph_peak;
	for (size_t i = 0; g->waiting && i < p->cnt; i++) {
		struct seg *seg = &p->segs[i];

		if (seg->graph != g->id || !seg->waits)
			continue;
		seg->waits = false;
		g->waiting--;
		sums__add(segments__sums(s, seg->dev), seg->kind, seg->comm, seg->size, ts_ns);
	}
}

/* graph 0: one that is not kept. The handle was another's before, which is gone. */
static bool seg_proc__set_exec(struct seg_proc *p, uint32_t handle, uint32_t graph)
{
	for (size_t i = 0; i < p->execs_cnt; i++) {
		if (p->execs[i].handle == handle) {
			p->execs[i].graph = graph;
			return true;
		}
	}
	if (!graph)
		return true;
	if (p->execs_cnt == GRAPHS_MAX)
		memmove(p->execs, p->execs + 1, --p->execs_cnt * sizeof(*p->execs));
	if (!array_has_room(p->execs, p->execs_cnt, p->execs_cap, 16))
		return false;
	p->execs[p->execs_cnt++] = (struct exec){ handle, graph };
	return true;
}

/* A graph without memory of its own or in a private pool is not kept. */
static void segments__captured(struct segments *s, struct seg_proc *p, uint32_t stream, uint32_t handle, uint64_t ts_ns)
{
	struct cuda_graph *g = seg_proc__graph_of(p, stream, true), *old = seg_proc__graph_of(p, handle, false);

	p->last_captured += handle != 0;
	if (!g)
		return;
	if (old)
		old->handle = 0; /* destroyed unseen; an executable of it may live on */
	for (size_t i = p->cnt; !handle && i-- > 0;)
		if (p->segs[i].graph == g->id)
			segments__end_at(s, p, i, END_DROPPED);
	g->number = handle ? p->last_captured : 0;
	seg_proc__captured(p, g, ts_ns);
	g->captures = false;
	g->handle = handle;
	if (!g->peak && (!g->pool || !handle))
		*g = p->graphs[--p->graphs_cnt];
}

bool segments__graph(struct segments *s, struct seg_proc *p, const struct event *ev)
{
	uint32_t handle = event_fold(ev->addr);
	struct cuda_graph *g;

	switch (ev->flags) {
	case MT_GRAPH_CAPTURES:
		g = seg_proc__graph_of(p, handle, true);
		g = g ? g : seg_proc__add_graph(p, handle, true);
		if (g)
			seg_proc__captures(p, g, ev->tid);
		return g != NULL;
	case MT_GRAPH_CAPTURED:
		segments__captured(s, p, ev->aux, handle, ev->ts_ns);
		return true;
	case MT_GRAPH_INSTANTIATED:
		g = seg_proc__graph_of(p, ev->aux, false);
		return seg_proc__set_exec(p, handle, g ? g->id : 0);
	case MT_GRAPH_LAUNCHED:
		for (size_t i = 0; i < p->execs_cnt; i++) {
			g = p->execs[i].handle == handle ? seg_proc__graph(p, p->execs[i].graph) : NULL;
			if (g)
				segments__launch(s, p, g, ev->ts_ns);
		}
		return true;
	case MT_GRAPH_POOL_BEGINS:
	case MT_GRAPH_POOL_ENDS:
	case MT_GRAPH_POOL_USED:
	case MT_GRAPH_POOL_LEFT:
		return seg_proc__private(p, ev);
	default:
		return true;
	}
}

bool seg_proc__set_pool(struct seg_proc *p, uint32_t handle, uint8_t dev)
{
	unsigned i = 0;

	while (i < p->pools_cnt && p->pools[i].handle != handle)
		i++;
	if (i == POOLS_MAX)
		return false;
	p->pools[i] = (struct pool){ handle, dev };
	p->pools_cnt += i == p->pools_cnt;
	return true;
}

uint8_t segments__pool_dev(const struct segments *s, uint32_t pid, uint32_t pool)
{
	const struct seg_proc *p = segments__proc(s, pid);

	for (unsigned i = 0; p && i < p->pools_cnt; i++)
		if (p->pools[i].handle == pool)
			return p->pools[i].dev;
	return MT_DEV_NONE;
}
