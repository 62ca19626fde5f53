/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The segments of a process by address, and what has a handle instead. A process has some hundred segments, seldom more
 * than ten thousand, and each change was a driver call that cost far more than moving the tail of a sorted array.
 */
#include <string.h>

#include "base/array.h"
#include "model/segments/segments_state.h"

size_t seg_proc__at(const struct seg_proc *p, uint64_t addr)
{
	size_t lo = 0, hi = p->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->segs[mid].addr + p->segs[mid].size <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct object *seg_proc__object(const struct seg_proc *p, uint8_t kind, uint64_t handle, bool folded)
{
	for (size_t i = 0; i < p->objects_cnt; i++) {
		struct object *o = &p->objects[i];

		if (o->refs && o->kind == kind && (folded ? event_fold(o->handle) : o->handle) == handle)
			return o;
	}
	return NULL;
}

struct object *seg_proc__object_by_id(const struct seg_proc *p, uint32_t id)
{
	for (size_t i = 0; id && i < p->objects_cnt; i++)
		if (p->objects[i].id == id)
			return &p->objects[i];
	return NULL;
}

void segments__end_object(struct segments *s, struct seg_proc *p, struct object *o, enum end how)
{
	segments__count_out(s, o->dev, o->counts_as, o->comm, o->size, how);
	*o = p->objects[--p->objects_cnt];
}

/* A cached piece is gone: the allocator reports its reserved bytes only with its next block. */
static void segments__unreserve(struct segments *s, struct seg_proc *p, const struct seg *seg)
{
	struct sums *u = segments__find_sums(s, seg->dev);

	for (unsigned i = 0; u && seg->cached && i < p->totals_cnt; i++) {
		struct reported_totals *t = &p->totals[i];
		uint64_t part = seg->size < t->reserved ? seg->size : t->reserved;

		if (t->dev != seg->dev)
			continue;
		t->reserved -= part;
		u->reserved -= part;
	}
}

struct cuda_graph *seg_proc__graph(const struct seg_proc *p, uint32_t id)
{
	for (size_t i = p->graphs_cnt; id && i-- > 0;)
		if (p->graphs[i].id == id)
			return &p->graphs[i];
	return NULL;
}

/* What was launched is freed by the program, not by the graph. */
static void cuda_graph__freed(struct cuda_graph *g, const struct seg *seg)
{
	if (!g || !seg->waits)
		return;
	g->live -= seg->size;
	g->waiting--;
}

void segments__end_at(struct segments *s, struct seg_proc *p, size_t i, enum end how)
{
	struct seg seg = p->segs[i];
	struct object *o = seg_proc__object_by_id(p, seg.object);

	memmove(&p->segs[i], &p->segs[i + 1], (p->cnt - i - 1) * sizeof(*p->segs));
	p->cnt--;
	segments__clear_late(s, p, seg.addr, seg.size);
	segments__unreserve(s, p, &seg);
	cuda_graph__freed(seg_proc__graph(p, seg.graph), &seg);
	if (seg.pinned && s->pinned)
		s->pinned(s->pinned_ctx, &(struct pinned){ .number = seg.pinned, .addr = seg.addr, .size = seg.size,
							   .pid = p->pid, .is_end = true });
	if (!seg.piece)
		segments__count_out(s, seg.dev, seg.kind, seg.comm, seg.waits ? 0 : seg.size, how);
	else if (o && !--o->maps && !o->refs)
		segments__end_object(s, p, o, how);
}

void segments__clear(struct segments *s, struct seg_proc *p, uint64_t addr, uint64_t size)
{
	size_t i = seg_proc__at(p, addr);

	while (i < p->cnt && p->segs[i].addr < addr + size)
		segments__end_at(s, p, i, END_DROPPED);
}

bool seg_proc__insert(struct seg_proc *p, const struct seg *seg)
{
	size_t i = seg_proc__at(p, seg->addr);

	if (p->cnt >= SEGMENTS_MAX || !array_has_room(p->segs, p->cnt, p->cap, 64))
		return false;
	memmove(&p->segs[i + 1], &p->segs[i], (p->cnt - i) * sizeof(*p->segs));
	p->segs[i] = *seg;
	p->cnt++;
	return true;
}
