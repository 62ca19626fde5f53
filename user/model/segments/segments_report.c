/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The report of segments: where blocks lie in them is computed for the report, from the live blocks by
 * address, so that events cost nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/blocks.h"
#include "model/core/check.h"
#include "model/segments/segments_state.h"

struct addr_range { /* begins with start: u64_cmp */
	uint64_t start, end;
};

struct addr_ranges {
	struct addr_range *v;
	size_t cnt, cap;
};

static bool addr_ranges__push(struct addr_ranges *r, uint64_t start, uint64_t end)
{
	if (!array_has_room(r->v, r->cnt, r->cap, 256))
		return false;
	r->v[r->cnt++] = (struct addr_range){ start, end };
	return true;
}

static bool blocks_of(const struct blocks *blocks, const struct seg_proc *p, uint8_t dev, struct addr_ranges *ret,
		      uint64_t *rounding)
{
	const struct block *b;
	size_t pos = 0;

	ret->cnt = 0;
	while ((b = blocks__next(blocks, &pos))) {
		const struct asked *a;

		if (b->pid != p->pid || b->dev != dev || b->size > UINT64_MAX - b->ptr)
			continue;
		a = seg_proc__find_asked(p, b->ptr);
		*rounding += a && a->size < b->size ? b->size - a->size : 0;
		if (!addr_ranges__push(ret, b->ptr, b->ptr + b->size))
			return false;
	}
	for (size_t i = 0; i < p->late_cnt; i++)
		if (p->late[i].size && p->late[i].dev == dev && p->late[i].size <= UINT64_MAX - p->late[i].ptr &&
		    !addr_ranges__push(ret, p->late[i].ptr, p->late[i].ptr + p->late[i].size))
			return false;
	if (ret->cnt)
		qsort(ret->v, ret->cnt, sizeof(*ret->v), u64_cmp);
	return true;
}

/* A stretch of cached memory without a hole: a segment, or mapped pieces in a row. */
struct stretch {
	uint64_t free_bytes, largest_free;
	uint32_t blocks;
};

static struct stretch stretch_of(const struct addr_ranges *blocks, size_t *at, uint64_t start, uint64_t end)
{
	struct stretch ret = { 0 };
	uint64_t upto = start;

	while (*at < blocks->cnt && blocks->v[*at].end <= start)
		++*at;
	for (; *at < blocks->cnt && blocks->v[*at].start < end; ++*at) {
		const struct addr_range *b = &blocks->v[*at];

		ret.blocks++;
		if (b->start > upto) {
			ret.free_bytes += b->start - upto;
			if (b->start - upto > ret.largest_free)
				ret.largest_free = b->start - upto;
		}
		if (b->end > upto)
			upto = b->end < end ? b->end : end;
		if (b->end > end)
			break; /* goes on in what follows */
	}
	ret.free_bytes += end - upto;
	if (end - upto > ret.largest_free)
		ret.largest_free = end - upto;
	return ret;
}

/* Of the private pool that the stretch is of. */
static void add_private(struct report_segments *ret, const struct private_pool *pool, uint64_t size, const struct stretch *s)
{
	ret->private_reserved += size;
	ret->private_used += size - s->free_bytes;
	ret->private_free += pool->uses ? s->free_bytes : 0;
}

static void add_stretch(struct report_segments *ret, const struct stretch *s)
{
	if (s->largest_free > ret->largest_free)
		ret->largest_free = s->largest_free;
	if (s->blocks)
		ret->inactive += s->free_bytes;
	else
		ret->free_cached += s->free_bytes;
}

static bool segs_are_pieces(const struct seg_proc *p, uint8_t dev)
{
	for (size_t i = 0; i < p->cnt; i++)
		if (p->segs[i].piece && p->segs[i].cached && p->segs[i].dev == dev)
			return true;
	return false;
}

/* The one at *i, with the pieces of its kind that continue it; moves *i past them. */
static uint64_t stretch_end(const struct seg_proc *p, size_t *i)
{
	const struct seg *first = &p->segs[(*i)++];
	uint64_t end = first->addr + first->size;

	while (first->piece && *i < p->cnt && p->segs[*i].piece && p->segs[*i].cached == first->cached &&
	       p->segs[*i].pool == first->pool && p->segs[*i].dev == first->dev && p->segs[*i].addr == end)
		end += p->segs[(*i)++].size;
	return end;
}

static void add_segment(struct report_segments *ret, const struct seg *seg, uint8_t dev)
{
	if (seg->dev != dev || seg->piece || seg->waits || !is_device_memory(seg->kind))
		return;
	if (seg->cached)
		ret->cached += seg->size;
	else if (seg->comm)
		ret->communication += seg->size;
}

static const struct object *seg_proc__object_of(const struct seg_proc *p, const struct seg *seg)
{
	for (size_t i = 0; seg->object && i < p->objects_cnt; i++)
		if (p->objects[i].id == seg->object)
			return &p->objects[i];
	return NULL;
}

static void add_object(struct report_segments *ret, const struct object *o, uint8_t dev)
{
	if (o->dev != dev || !is_device_memory(o->counts_as))
		return;
	if (o->cached)
		ret->cached += o->size;
	else if (o->comm)
		ret->communication += o->size;
}

static void add_proc(struct report_segments *ret, const struct seg_proc *p, uint8_t dev, const struct addr_ranges *blocks)
{
	size_t at = 0;

	for (size_t i = 0; i < p->cnt;) {
		const struct seg *first = &p->segs[i];
		uint64_t end = stretch_end(p, &i);
		struct stretch s;

		if (!first->cached || first->waits || first->dev != dev)
			continue;
		s = stretch_of(blocks, &at, first->addr, end);
		add_stretch(ret, &s);
		if (first->pool)
			add_private(ret, seg_proc__pool(p, first->pool), end - first->addr, &s);
	}
	for (size_t i = 0; i < p->cnt; i++)
		add_segment(ret, &p->segs[i], dev);
	for (size_t i = 0; i < p->objects_cnt; i++)
		add_object(ret, &p->objects[i], dev);
	ret->backend = segs_are_pieces(p, dev) ? BACKEND_EXPANDABLE : ret->backend;
}

static bool has_any(const struct seg_proc *p, uint8_t dev)
{
	for (unsigned i = 0; i < p->totals_cnt; i++)
		if (p->totals[i].dev == dev)
			return true;
	for (size_t i = 0; i < p->cnt; i++)
		if (p->segs[i].dev == dev && (p->segs[i].cached || p->segs[i].comm))
			return true;
	for (size_t i = 0; i < p->objects_cnt; i++)
		if (p->objects[i].dev == dev && p->objects[i].comm)
			return true;
	return false;
}

int segments__report(const struct segments *s, uint8_t dev, const struct blocks *blocks, struct report_segments *ret)
{
	const struct sums *u = segments__find_sums(s, dev);
	struct addr_ranges of = { 0 };
	int r = 0;

	*ret = (struct report_segments){ 0 };
	if (!u)
		return 0;
	*ret = (struct report_segments){
		.seen = u->seen, .totals = u->totals, .requests = u->requests,
		.live = u->live, .peak = u->peak, .peak_ts_ns = u->peak_ts_ns,
		.allocated = u->allocated, .allocated_peak = u->allocated_peak,
		.reserved = u->reserved, .reserved_peak = u->reserved_peak,
		.requested = u->requested, .requested_peak = u->requested_peak,
		.late = u->late, .late_peak = u->late_peak, .late_blocks = u->late_blocks,
		.resets = u->resets, .trims = u->trims,
		.comm = u->comm, .comm_peak = u->comm_peak, .comms_made = u->comms_made, .comms_ended = u->comms_ended,
		.graphs = u->graphs, .launches = u->launches, .graph_peak = u->graph_peak,
	};
	memcpy(ret->kinds, u->kinds, sizeof(ret->kinds));
	for (size_t i = 0; !r && i < s->procs_cnt; i++) {
		if (!has_any(s->procs[i], dev))
			continue;
		if (blocks_of(blocks, s->procs[i], dev, &of, &ret->rounding))
			add_proc(ret, s->procs[i], dev, &of);
		else
			r = -ENOMEM;
	}
	free(of.v);
	ret->other = u->live - ret->cached;
	if (u->reserved > ret->cached)
		ret->reserved_before = u->reserved - ret->cached;
	return r;
}

/* --- the largest ------------------------------------------------------------------------------------------ */

struct largest_rows {
	struct report_seg_row *v;
	size_t cnt, max;
};

/* Kept in order: of the many small ones most fall out at once. */
static void largest_rows__add(struct largest_rows *rows, const struct report_seg_row *row)
{
	size_t i = rows->cnt;

	if (i == rows->max && (!i || rows->v[i - 1].size >= row->size))
		return;
	if (i < rows->max)
		rows->cnt++;
	else
		i--;
	for (; i && rows->v[i - 1].size < row->size; i--)
		rows->v[i] = rows->v[i - 1];
	rows->v[i] = *row;
}

static void largest_rows__add_proc(struct largest_rows *rows, const struct seg_proc *p, uint8_t dev,
				   const struct addr_ranges *blocks)
{
	size_t at = 0;

	for (size_t i = 0; i < p->cnt;) {
		const struct seg *first = &p->segs[i];
		const struct object *o = seg_proc__object_of(p, first);
		const struct private_pool *pool = seg_proc__pool(p, first->pool);
		uint64_t end = stretch_end(p, &i), size = end - first->addr;
		struct stretch s;

		if (first->dev != dev || first->waits)
			continue;
		s = stretch_of(blocks, &at, first->addr, end);
		largest_rows__add(rows, &(struct report_seg_row){
			.addr = first->addr, .size = size, .used = size - s.free_bytes, .largest_free = s.largest_free,
			.blocks = s.blocks, .pid = p->pid, .dev = dev, .kind = first->kind, .is_cached = first->cached,
			.is_comm = first->comm || (o && o->comm), .is_private = pool != NULL,
			.pool_id = { pool ? pool->id[0] : 0, pool ? pool->id[1] : 0 } });
	}
}

int segments__rows(const struct segments *s, const struct blocks *blocks, uint32_t pid, int dev, size_t top,
		   struct report_seg_row **ret, size_t *ret_cnt)
{
	struct largest_rows rows = { .v = calloc(top ? top : 1, sizeof(*rows.v)), .max = top };
	struct addr_ranges of = { 0 };
	uint64_t rounding = 0;
	int r = rows.v ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < s->procs_cnt; i++) {
		for (unsigned k = 0; !r && k < s->sums_cnt; k++) {
			if ((pid && s->procs[i]->pid != pid) || (dev >= 0 && s->sums[k]->dev != dev))
				continue;
			if (blocks_of(blocks, s->procs[i], s->sums[k]->dev, &of, &rounding))
				largest_rows__add_proc(&rows, s->procs[i], s->sums[k]->dev, &of);
			else
				r = -ENOMEM;
		}
	}
	free(of.v);
	if (r < 0) {
		free(rows.v);
		return r;
	}
	*ret = rows.v;
	*ret_cnt = rows.cnt;
	return 0;
}

/* --- private pools ---------------------------------------------------------------------------------------- */

static int by_reserved(const void *a, const void *b)
{
	const struct report_pool *x = a, *y = b;

	return cmp_down(x->reserved, y->reserved) ?: cmp_up(x->pid, y->pid) ?: cmp_up(x->id[0], y->id[0]) ?:
	       cmp_up(x->id[1], y->id[1]) ?: cmp_up(x->dev, y->dev);
}

struct pools {
	struct report_pool *v;
	size_t cnt, cap;
};

/* Appends those of a process, without their segments. */
static bool pools__add_proc(struct pools *to, const struct seg_proc *p)
{
	struct report_pool *row;

	for (size_t i = 0; i < p->private_cnt; i++) {
		const struct private_pool *v = &p->private_pools[i];

		if (!array_has_room(to->v, to->cnt, to->cap, 16))
			return false;
		row = &to->v[to->cnt++];
		*row = (struct report_pool){ .id = { v->id[0], v->id[1] }, .pid = p->pid,
							 .launches = v->launches, .begun_ns = v->begun_ns,
							 .graphs = v->graphs, .uses = v->uses, .dev = v->dev,
							 .last = v->last };
		memcpy(row->first, v->first, sizeof(row->first));
	}
	return true;
}

/* `of`: the process's own rows. */
static void add_segments(struct report_pool *of, const struct seg_proc *p, uint8_t dev, const struct addr_ranges *blocks)
{
	size_t at = 0;

	for (size_t i = 0; i < p->cnt;) {
		const struct seg *first = &p->segs[i];
		uint64_t end = stretch_end(p, &i), size = end - first->addr;
		struct report_pool *pool = first->pool ? &of[first->pool - 1] : NULL;

		if (!pool || !first->cached || first->waits || first->dev != dev)
			continue;
		pool->segments++;
		pool->reserved += size;
		pool->used += size - stretch_of(blocks, &at, first->addr, end).free_bytes;
	}
}

/* A window's past has no times. */
static void report_pool__date(struct report_pool *v, uint64_t start_ns)
{
	v->begun_ns = v->begun_ns > start_ns ? v->begun_ns : 0;
	v->last.captured_ns = v->last.captured_ns > start_ns ? v->last.captured_ns : 0;
	for (unsigned i = 0; i < REPORT_POOL_GRAPHS; i++)
		v->first[i].captured_ns = v->first[i].captured_ns > start_ns ? v->first[i].captured_ns : 0;
}

int segments__pools(const struct segments *s, const struct blocks *blocks, uint64_t start_ns, size_t top,
		    struct report_pool **ret, size_t *ret_cnt)
{
	struct pools all = { 0 };
	struct addr_ranges of = { 0 };
	uint64_t rounding = 0;
	size_t kept = 0;
	bool is_ok = true;

	for (size_t i = 0; is_ok && i < s->procs_cnt; i++) {
		size_t first = all.cnt;

		is_ok = pools__add_proc(&all, s->procs[i]);
		for (unsigned k = 0; is_ok && all.cnt > first && k < s->sums_cnt; k++) {
			is_ok = blocks_of(blocks, s->procs[i], s->sums[k]->dev, &of, &rounding);
			if (is_ok)
				add_segments(all.v + first, s->procs[i], s->sums[k]->dev, &of);
		}
	}
	free(of.v);
	if (!is_ok) {
		free(all.v);
		return -ENOMEM;
	}
	for (size_t i = 0; i < all.cnt; i++) {
		report_pool__date(&all.v[i], start_ns);
		if (all.v[i].segments)
			all.v[kept++] = all.v[i];
	}
	if (kept)
		qsort(all.v, kept, sizeof(*all.v), by_reserved);
	*ret = all.v;
	*ret_cnt = kept < top ? kept : top;
	return 0;
}

/* --- layers --------------------------------------------------------------------------------------------- */

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* A segment that the caching allocator has given nothing out of yet is reserved already. */
void segments__layers(struct report_segments *r, uint64_t blocks_live)
{
	uint64_t given = r->totals ? r->allocated : blocks_live;

	r->allocated_before = less(r->allocated, blocks_live);
	r->allocator = r->totals ? r->reserved : r->cached;
	r->driver = r->live + r->reserved_before;
	if (r->driver < r->allocator)
		r->driver = r->allocator;
	if (given > r->allocator)
		given = r->allocator;
	if (r->rounding > given)
		r->rounding = given;
	r->tensors = given - r->rounding;
	r->unused = less(r->allocator - given, r->late);
	r->late = r->allocator - given - r->unused;
	if (r->private_free > r->unused)
		r->private_free = r->unused;
	r->unused -= r->private_free;
	r->others = r->driver - r->allocator;
	if (r->communication > r->others)
		r->communication = r->others;
	r->residual = r->nvml_procs ? less(r->nvml_own, r->driver) : 0;
	if (r->totals)
		r->backend = r->backend == BACKEND_EXPANDABLE ? BACKEND_EXPANDABLE : BACKEND_CACHING;
}

static void seg_proc__check_graphs(const struct seg_proc *p)
{
	for (size_t i = 0; i < p->graphs_cnt; i++) {
		const struct cuda_graph *g = &p->graphs[i];
		uint32_t waiting = 0;
		uint64_t live = 0;

		for (size_t j = 0; j < p->cnt; j++) {
			if (p->segs[j].graph != g->id || !p->segs[j].waits)
				continue;
			waiting++;
			live += p->segs[j].size;
		}
		mt_check(waiting == g->waiting && live <= g->live && g->live <= g->peak);
	}
}

void segments__check(const struct segments *s)
{
	for (size_t i = 0; i < s->procs_cnt; i++)
		seg_proc__check_graphs(s->procs[i]);
	for (unsigned k = 0; k < s->sums_cnt; k++) {
		const struct sums *u = s->sums[k];
		uint64_t kinds[MT_SEG_MAX] = { 0 }, asked = 0, live = 0, allocated = 0, reserved = 0, comm = 0, late = 0;

		for (size_t i = 0; i < s->procs_cnt; i++) {
			const struct seg_proc *p = s->procs[i];

			for (size_t j = 0; j < p->cnt; j++) {
				mt_check(!j || p->segs[j - 1].addr + p->segs[j - 1].size <= p->segs[j].addr);
				if (p->segs[j].piece || p->segs[j].dev != u->dev || p->segs[j].waits)
					continue;
				kinds[p->segs[j].kind] += p->segs[j].size;
				comm += p->segs[j].comm ? p->segs[j].size : 0;
			}
			for (size_t j = 0; j < p->objects_cnt; j++) {
				mt_check(p->objects[j].refs || p->objects[j].maps);
				if (p->objects[j].dev != u->dev)
					continue;
				kinds[p->objects[j].counts_as] += p->objects[j].size;
				comm += p->objects[j].comm ? p->objects[j].size : 0;
			}
			for (uint32_t j = 0; j < p->asked.cnt; j++) {
				const struct asked *a = map__at(&p->asked, j);

				asked += a->dev == u->dev ? a->size : 0;
			}
			for (size_t j = 0; j < p->late_cnt; j++)
				late += p->late[j].dev == u->dev ? p->late[j].size : 0;
			for (unsigned j = 0; j < p->totals_cnt; j++) {
				allocated += p->totals[j].dev == u->dev ? p->totals[j].allocated : 0;
				reserved += p->totals[j].dev == u->dev ? p->totals[j].reserved : 0;
			}
		}
		for (int j = 1; j < MT_SEG_MAX; j++) {
			mt_check(kinds[j] == u->kinds[j].live && u->kinds[j].live <= u->kinds[j].peak);
			live += is_device_memory((uint8_t)j) ? kinds[j] : 0;
		}
		mt_check(late == u->late && late <= u->late_peak);
		mt_check(live == u->live && u->live <= u->peak && asked == u->requested);
		mt_check(allocated == u->allocated && reserved == u->reserved && comm == u->comm && comm <= u->comm_peak);
	}
}
