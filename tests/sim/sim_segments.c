/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * sim_segments: a made-up driver through the real model, held against a slow oracle after every event.
 *
 * Three processes on two devices: one with a caching allocator (plain and expandable segments, its totals told), one whose
 * blocks are stream-ordered segments, one of libraries alone. Memory is drawn in a map of units, so that every sum is counted
 * again from nothing: no list is kept in order and nothing is added up. (That of nested calls only the outermost is told is
 * the BPF side's doing, and simulated where that runs: tests/bpf/test_kernel.c, calls in calls at random; and the stub's
 * runtime calls its driver: tests/e2e/test_gpu_stub.py.)
 *
 *   sim_segments [SEED [SECONDS]]    a failing seed again: sim_segments SEED 0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "model/model.h"
#include "sim/oracle.h"
#include "sim/seeds.h"
#include "timeline/report.h"

#define PROCS 3
#define DEVS 2
#define UNITS 192 /* of address space a process */
#define UNIT (1ull << 20)
#define BASE 0x7f0000000000ull
#define SEGS 256
#define OBJECTS 64
#define STEPS 1500
#define CONTEXT 0xc1u

enum mode { CACHING, ASYNC, LIBRARIES };

struct seg {
	unsigned start, cnt; /* units; cnt 0: free place */
	int object;	     /* -1: none */
	uint32_t ctx, stream;
	uint8_t kind, dev;
	int cached, comm, waits;
};

struct object {
	uint64_t handle;
	unsigned cnt; /* units; 0: free place */
	int refs, maps, comm, cached;
	uint8_t dev;
};

struct graph {
	uint64_t exec;
	uint32_t stream;
	int captures;
};

struct proc {
	uint32_t pid;
	enum mode mode;
	struct seg segs[SEGS];
	struct object objects[OBJECTS];
	uint8_t block[UNITS]; /* number of the block there; 0: none */
	uint8_t block_dev[256];
	uint64_t handles, starts, reported[DEVS]; /* what the allocator said to have reserved */
	uint32_t captured; /* stream that is captured; 0: none */
};

struct kind_sums {
	uint64_t live, allocs, frees, dropped;
};

struct sim {
	uint64_t rng, ts, events;
	struct names *names;
	struct model *model;
	struct proc procs[PROCS];
	struct kind_sums kinds[DEVS + 1][MT_SEG_MAX]; /* [DEVS]: of no device; live is counted anew */
	uint64_t peak[DEVS + 1], kind_peak[DEVS + 1][MT_SEG_MAX], comm_peak[DEVS + 1];
	uint64_t resets[DEVS], trims;
};

static uint32_t below(struct sim *s, uint32_t n)
{
	uint64_t z = (s->rng += 0x9e3779b97f4a7c15u); /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)((uint64_t)(uint32_t)(z ^ (z >> 31)) * n >> 32);
}

static uint64_t addr_of(unsigned unit) { return BASE + unit * UNIT; }
static int row_of(uint8_t dev) { return dev ? dev - MT_DEV_CUDA0 : DEVS; }
static int is_of_device(uint8_t kind) { return kind != MT_SEG_PINNED && kind != MT_SEG_REGISTERED; }

static void tell(struct sim *s, struct proc *p, struct event ev)
{
	ev.pid = p->pid;
	ev.tid = p->pid + below(s, 3);
	ev.ts_ns = s->ts += 1 + below(s, 1000);
	o_must(!model__handle(s->model, &ev), "no memory");
	s->events++;
}

/* --- the driver ---------------------------------------------------------------------------------------- */

static struct seg *seg_at(struct proc *p, unsigned unit)
{
	for (int i = 0; i < SEGS; i++)
		if (p->segs[i].cnt && p->segs[i].start <= unit && unit < p->segs[i].start + p->segs[i].cnt)
			return &p->segs[i];
	return NULL;
}

static struct seg *seg_place(struct proc *p)
{
	for (int i = 0; i < SEGS; i++)
		if (!p->segs[i].cnt)
			return &p->segs[i];
	return NULL;
}

/* Free units in a row; UNITS: none. */
static unsigned room_for(struct sim *s, struct proc *p, unsigned cnt)
{
	unsigned first = below(s, UNITS);

	for (unsigned k = 0; k < UNITS; k++) {
		unsigned at = (first + k) % UNITS, n = 0;

		while (n < cnt && at + n < UNITS && !seg_at(p, at + n))
			n++;
		if (n == cnt)
			return at;
	}
	return UNITS;
}

static void count_end(struct sim *s, uint8_t dev, uint8_t kind, int was_freed)
{
	struct kind_sums *k = &s->kinds[row_of(dev)][kind];

	*(was_freed ? &k->frees : &k->dropped) += 1;
}

static void object_end(struct sim *s, struct object *o, int was_freed)
{
	count_end(s, o->dev, MT_SEG_PHYSICAL, was_freed);
	o->cnt = 0;
}

static void seg_end(struct sim *s, struct proc *p, struct seg *g, int was_freed)
{
	struct object *o = g->object >= 0 ? &p->objects[g->object] : NULL;

	if (g->cached && p->mode == CACHING)
		p->reported[row_of(g->dev)] -= g->cnt * UNIT;
	g->cnt = 0;
	if (!o)
		count_end(s, g->dev, g->kind, was_freed);
	else if (!--o->maps && !o->refs)
		object_end(s, o, was_freed);
}

/* --- the allocator ------------------------------------------------------------------------------------- */

static uint64_t allocated(const struct proc *p, int dev)
{
	uint64_t units = 0;

	for (unsigned u = 0; u < UNITS; u++)
		units += p->block[u] && p->block_dev[p->block[u]] == dev;
	return units * UNIT;
}

static void tell_totals(struct sim *s, struct proc *p, uint8_t dev)
{
	p->reported[row_of(dev)] = 0;
	for (int i = 0; i < SEGS; i++)
		if (p->segs[i].cnt && p->segs[i].cached && p->segs[i].dev == dev)
			p->reported[row_of(dev)] += p->segs[i].cnt * UNIT;
	tell(s, p, (struct event){ .kind = MT_EV_TOTALS, .dev = dev, .addr = allocated(p, row_of(dev)),
				   .size = p->reported[row_of(dev)] });
}

/* From a unit on as far as the memory goes, pieces side by side as one, and no other block lies. */
static void give_block(struct sim *s, struct proc *p, unsigned unit)
{
	struct seg *first = seg_at(p, unit), *g = first;
	unsigned cnt = 0, most = 1 + below(s, 6);
	uint8_t number = 1;

	while (number < 255 && memchr(p->block, number, UNITS))
		number++;
	if (!first || p->block[unit] || number == 255)
		return;
	while (cnt < most && unit + cnt < UNITS && !p->block[unit + cnt]) {
		struct seg *next = seg_at(p, unit + cnt);

		if (!next || (next != g && (next->object < 0 || g->object < 0 || next->dev != first->dev)))
			break;
		g = next;
		g->cached = 1;
		if (g->object >= 0)
			p->objects[g->object].cached = 1;
		p->block[unit + cnt++] = number;
	}
	p->block_dev[number] = (uint8_t)row_of(first->dev);
	tell(s, p, (struct event){ .kind = MT_EV_ALLOC, .dev = first->dev, .addr = addr_of(unit), .size = cnt * UNIT });
	tell_totals(s, p, first->dev);
}

static void take_block(struct sim *s, struct proc *p, uint8_t number)
{
	const uint8_t *at = number ? memchr(p->block, number, UNITS) : NULL;
	uint8_t dev = (uint8_t)(MT_DEV_CUDA0 + p->block_dev[number]);
	unsigned unit = at ? (unsigned)(at - p->block) : UNITS;

	if (!at)
		return;
	for (unsigned u = 0; u < UNITS; u++)
		if (p->block[u] == number)
			p->block[u] = 0;
	tell(s, p, (struct event){ .kind = MT_EV_FREE, .dev = dev, .addr = addr_of(unit) });
	tell_totals(s, p, dev);
}

static void take_blocks_in(struct sim *s, struct proc *p, unsigned start, unsigned cnt)
{
	for (unsigned u = start; u < start + cnt; u++)
		take_block(s, p, p->block[u]);
}

/* --- steps ----------------------------------------------------------------------------------------------- */

static void step_alloc(struct sim *s, struct proc *p)
{
	static const uint8_t kinds[] = { MT_SEG_DEVICE, MT_SEG_DEVICE, MT_SEG_ASYNC, MT_SEG_MANAGED, MT_SEG_PINNED,
					 MT_SEG_NCCL, MT_SEG_REGISTERED };
	uint8_t kind = kinds[below(s, 7)], dev = (uint8_t)(MT_DEV_CUDA0 + below(s, DEVS));
	unsigned cnt = 1 + below(s, 12), at = room_for(s, p, cnt);
	int comm = p->mode == LIBRARIES && below(s, 3) == 0, is_async;
	uint32_t stream = 1 + below(s, 4), ctx = below(s, 4) ? 0 : CONTEXT;
	struct seg *g = seg_place(p);

	if (p->mode == CACHING)
		kind = MT_SEG_DEVICE;
	if (!is_of_device(kind))
		dev = MT_DEV_NONE;
	if (!g || at == UNITS)
		return;
	is_async = kind == MT_SEG_ASYNC;
	if (is_async)
		ctx = 0;
	*g = (struct seg){ .start = at, .cnt = cnt, .object = -1, .ctx = ctx, .kind = kind, .dev = dev,
			   .comm = comm || kind == MT_SEG_NCCL };
	if (is_async && p->captured == stream) {
		g->kind = MT_SEG_GRAPH;
		g->stream = stream;
		g->waits = 1;
		g->comm = 0;
	}
	g->cached = is_async; /* without totals: the framework's */
	s->kinds[row_of(dev)][g->kind].allocs++;
	tell(s, p, (struct event){ .kind = MT_EV_SEG_ALLOC, .flags = (uint8_t)(kind | (comm ? MT_SEG_F_COMM : 0)), .dev = dev,
				   .addr = addr_of(at), .size = cnt * UNIT, .aux = is_async ? stream : ctx });
	if (p->mode == CACHING)
		give_block(s, p, at);
}

static void step_free(struct sim *s, struct proc *p)
{
	struct seg *g = &p->segs[below(s, SEGS)];
	unsigned at = g->start;

	if (!g->cnt || g->object >= 0)
		return;
	take_blocks_in(s, p, g->start, g->cnt);
	seg_end(s, p, g, 1);
	/* the function may be for another kind: the pointer decides */
	tell(s, p, (struct event){ .kind = MT_EV_SEG_FREE, .flags = below(s, 2) ? MT_SEG_DEVICE : MT_SEG_ASYNC,
				   .addr = addr_of(at) });
}

static void map_object(struct sim *s, struct proc *p, int i)
{
	struct object *o = &p->objects[i];
	unsigned at = room_for(s, p, o->cnt);
	struct seg *g = seg_place(p);

	if (!g || at == UNITS || !o->cnt || !o->refs)
		return;
	*g = (struct seg){ .start = at, .cnt = o->cnt, .object = i, .kind = MT_SEG_PHYSICAL, .dev = o->dev };
	o->maps++;
	tell(s, p, (struct event){ .kind = MT_EV_SEG_MAP, .flags = MT_SEG_PHYSICAL, .addr = addr_of(at), .size = o->cnt * UNIT,
				   .aux = event_fold(o->handle) });
	if (p->mode == CACHING && o->maps == 1)
		give_block(s, p, at);
}

static void step_create(struct sim *s, struct proc *p)
{
	int i = (int)below(s, OBJECTS), comm = p->mode == LIBRARIES && below(s, 2);
	struct object *o = &p->objects[i];

	if (o->cnt)
		return;
	*o = (struct object){ .handle = 0x550000001000 + 64 * ++p->handles, .cnt = 1 + below(s, 6), .refs = 1, .comm = comm,
			      .dev = (uint8_t)(MT_DEV_CUDA0 + below(s, DEVS)) };
	s->kinds[row_of(o->dev)][MT_SEG_PHYSICAL].allocs++;
	tell(s, p, (struct event){ .kind = MT_EV_SEG_ALLOC, .flags = (uint8_t)(MT_SEG_PHYSICAL | (comm ? MT_SEG_F_COMM : 0)),
				   .dev = o->dev, .addr = o->handle, .size = o->cnt * UNIT });
	if (p->mode == CACHING)
		map_object(s, p, i);
}

static void step_reference(struct sim *s, struct proc *p)
{
	struct object *o = &p->objects[below(s, OBJECTS)];

	if (!o->cnt || !o->refs)
		return;
	if (below(s, 3) == 0) { /* retained */
		o->refs++;
		tell(s, p, (struct event){ .kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_PHYSICAL, .addr = o->handle });
		return;
	}
	if (p->mode == CACHING && o->maps)
		return; /* the allocator unmaps first, as PyTorch's does */
	o->refs--;
	tell(s, p, (struct event){ .kind = MT_EV_SEG_FREE, .flags = MT_SEG_PHYSICAL, .addr = o->handle });
	if (!o->refs && !o->maps)
		object_end(s, o, 1);
}

static void step_unmap(struct sim *s, struct proc *p)
{
	struct seg *g = &p->segs[below(s, SEGS)], *also;
	unsigned at = g->start, cnt = g->cnt;

	if (!g->cnt || g->object < 0)
		return;
	also = at + cnt < UNITS ? seg_at(p, at + cnt) : NULL;
	if (also && (also->object < 0 || below(s, 2)))
		also = NULL;
	cnt += also ? also->cnt : 0; /* two in one call */
	take_blocks_in(s, p, at, cnt);
	seg_end(s, p, g, 1);
	if (also)
		seg_end(s, p, also, 1);
	tell(s, p, (struct event){ .kind = MT_EV_SEG_UNMAP, .flags = MT_SEG_PHYSICAL, .addr = addr_of(at),
				   .size = cnt * UNIT });
}

static void step_block(struct sim *s, struct proc *p)
{
	unsigned u = below(s, UNITS);

	if (p->mode != CACHING)
		return;
	if (p->block[u])
		take_block(s, p, p->block[u]);
	else
		give_block(s, p, u);
}

static void step_capture(struct sim *s, struct proc *p)
{
	uint64_t graph = 0xaa0000000000 + 0x100 * ++p->handles;
	uint32_t stream = p->captured;
	int comes_of_it = below(s, 4) != 0;

	if (p->mode == CACHING)
		return;
	if (!stream) {
		p->captured = 1 + below(s, 4);
		tell(s, p, (struct event){ .kind = MT_EV_SEG_GRAPH, .flags = MT_GRAPH_CAPTURES, .addr = p->captured });
		return;
	}
	p->captured = 0;
	for (int i = 0; i < SEGS; i++) { /* what an earlier capture left waits for ever: nothing launches it */
		struct seg *g = &p->segs[i];

		if (!g->cnt || !g->waits || g->stream != stream)
			continue;
		g->stream = 0;
		if (!comes_of_it)
			seg_end(s, p, g, 0);
		else
			g->waits = 0;
	}
	tell(s, p, (struct event){ .kind = MT_EV_SEG_GRAPH, .flags = MT_GRAPH_CAPTURED, .aux = stream,
				   .addr = comes_of_it ? graph : 0 });
	if (!comes_of_it)
		return;
	tell(s, p, (struct event){ .kind = MT_EV_SEG_GRAPH, .flags = MT_GRAPH_INSTANTIATED, .addr = graph + 1,
				   .aux = event_fold(graph) });
	for (uint32_t n = 1 + below(s, 3); n; n--)
		tell(s, p, (struct event){ .kind = MT_EV_SEG_GRAPH, .flags = MT_GRAPH_LAUNCHED, .addr = graph + 1 });
}

/* Whether the process has memory on this device alone, or on none. */
static int is_only(const struct proc *p, uint8_t dev)
{
	if (p->mode == CACHING)
		return 0; /* its totals are of both */
	for (int i = 0; i < SEGS; i++)
		if (p->segs[i].cnt && p->segs[i].dev && p->segs[i].dev != dev)
			return 0;
	return 1;
}

static void step_reset(struct sim *s, struct proc *p)
{
	uint8_t dev = (uint8_t)(MT_DEV_CUDA0 + below(s, DEVS));
	uint32_t ctx = below(s, 3) ? CONTEXT : 0;
	int only = is_only(p, dev);

	for (int pass = 0; pass < 2; pass++) { /* what the allocator tells comes before the reset */
		for (int i = 0; i < SEGS; i++) {
			struct seg *g = &p->segs[i];
			int mine = g->dev == dev || (only && !g->dev);

			if (!g->cnt || g->kind == MT_SEG_REGISTERED || (ctx ? g->ctx != ctx : g->ctx || !mine))
				continue;
			if (pass)
				seg_end(s, p, g, 0);
			else
				take_blocks_in(s, p, g->start, g->cnt);
		}
	}
	for (int i = 0; i < OBJECTS && !ctx; i++)
		if (p->objects[i].cnt && p->objects[i].dev == dev && !p->objects[i].maps)
			object_end(s, &p->objects[i], 0);
	s->resets[row_of(dev)]++;
	tell(s, p, (struct event){ .kind = MT_EV_SEG_RESET, .addr = ctx, .dev = dev });
}

static void proc_begin(struct sim *s, struct proc *p)
{
	memset(p->segs, 0, sizeof(p->segs));
	memset(p->objects, 0, sizeof(p->objects));
	memset(p->block, 0, sizeof(p->block));
	memset(p->reported, 0, sizeof(p->reported));
	p->captured = 0;
	tell(s, p, (struct event){ .kind = EV_PROC, .size = ++p->starts });
	for (uint8_t d = 0; d < DEVS && p->mode == CACHING; d++)
		tell_totals(s, p, (uint8_t)(MT_DEV_CUDA0 + d));
}

static void step_exit(struct sim *s, struct proc *p)
{
	for (int i = 0; i < SEGS; i++)
		if (p->segs[i].cnt)
			seg_end(s, p, &p->segs[i], 0);
	for (int i = 0; i < OBJECTS; i++)
		if (p->objects[i].cnt)
			object_end(s, &p->objects[i], 0);
	tell(s, p, (struct event){ .kind = EV_GONE, .aux = below(s, 2) ? 9 : 0 });
	proc_begin(s, p);
}

static void step_trim(struct sim *s, struct proc *p)
{
	s->trims++; /* what the pool kept is no segment: nothing that was given out goes */
	tell(s, p, (struct event){ .kind = MT_EV_SEG_TRIM, .flags = MT_SEG_ASYNC, .addr = 0x880000000000,
				   .dev = MT_DEV_CUDA0 });
}

static void step(struct sim *s)
{
	static void (*const steps[])(struct sim *, struct proc *) = {
		step_alloc, step_alloc, step_alloc, step_free, step_free, step_create, step_create, step_reference,
		step_unmap, step_block, step_block, step_block, step_capture, step_trim,
	};
	struct proc *p = &s->procs[below(s, PROCS)];
	uint32_t r = below(s, 400);

	if (r == 0)
		step_exit(s, p);
	else if (r < 4)
		step_reset(s, p);
	else
		steps[below(s, sizeof(steps) / sizeof(steps[0]))](s, p);
}

/* --- the comparison -------------------------------------------------------------------------------------- */

struct truth {
	uint64_t live, cached, comm, communication, allocated, reserved, inactive, free_cached, largest;
	uint64_t kinds[MT_SEG_MAX];
};

static void count(struct truth *t, uint8_t kind, uint64_t size, int cached, int comm)
{
	t->kinds[kind] += size;
	t->comm += comm ? size : 0;
	if (!is_of_device(kind))
		return;
	t->live += size;
	t->cached += cached ? size : 0;
	t->communication += comm && !cached ? size : 0;
}

static int goes_on(const struct seg *a, const struct seg *b)
{
	return a == b || (a && b && a->object >= 0 && b->object >= 0 && b->cached && a->dev == b->dev);
}

static void count_free(struct truth *t, struct proc *p, uint8_t dev)
{
	struct seg *at_unit[UNITS + 1] = { 0 };

	for (int i = 0; i < SEGS; i++)
		for (unsigned u = 0; u < p->segs[i].cnt; u++)
			at_unit[p->segs[i].start + u] = &p->segs[i];
	for (unsigned u = 0; u < UNITS;) {
		struct seg *g = at_unit[u];
		unsigned end = u, run = 0, units = 0, used = 0;

		if (!g || !g->cached || g->waits || g->dev != dev) {
			u++;
			continue;
		}
		for (struct seg *at = g; end < UNITS && goes_on(at, at_unit[end]); end++) {
			int busy = p->mode == CACHING ? p->block[end] != 0 : 1;

			at = at_unit[end];
			used += busy ? 1u : 0;
			units += busy ? 0 : 1u;
			run = busy ? 0 : run + 1;
			if (run * UNIT > t->largest)
				t->largest = run * UNIT;
		}
		*(used ? &t->inactive : &t->free_cached) += units * UNIT;
		u = end;
	}
}

static struct truth truth_of(struct sim *s, uint8_t dev)
{
	struct truth t = { 0 };

	for (int i = 0; i < PROCS; i++) {
		struct proc *p = &s->procs[i];

		for (int k = 0; k < SEGS; k++)
			if (p->segs[k].cnt && p->segs[k].object < 0 && p->segs[k].dev == dev && !p->segs[k].waits)
				count(&t, p->segs[k].kind, p->segs[k].cnt * UNIT, p->segs[k].cached, p->segs[k].comm);
		for (int k = 0; k < OBJECTS; k++)
			if (p->objects[k].cnt && p->objects[k].dev == dev)
				count(&t, MT_SEG_PHYSICAL, p->objects[k].cnt * UNIT, p->objects[k].cached, p->objects[k].comm);
		if (!dev)
			continue;
		count_free(&t, p, dev);
		if (p->mode == CACHING) {
			t.allocated += allocated(p, row_of(dev));
			t.reserved += p->reported[row_of(dev)];
		}
	}
	return t;
}

#define EQUAL(have, want) \
	o_must((have) == (want), "%s: model %" PRIu64 ", truth %" PRIu64, where, (uint64_t)(have), (uint64_t)(want))

static void compare_kinds(const struct sim *s, const struct report_seg *have, const struct truth *t, int row,
			  const char *where)
{
	for (int k = 1; k < MT_SEG_MAX; k++) {
		EQUAL(have[k].live, t->kinds[k]);
		EQUAL(have[k].allocs, s->kinds[row][k].allocs);
		EQUAL(have[k].frees, s->kinds[row][k].frees);
		EQUAL(have[k].dropped, s->kinds[row][k].dropped);
		EQUAL(have[k].peak, s->kind_peak[row][k]);
	}
}

static void compare_dev(const struct sim *s, const struct report_segments *r, const struct truth *t, int row)
{
	char where[32];

	snprintf(where, sizeof(where), "cuda:%d", row);
	compare_kinds(s, r->kinds, t, row, where);
	EQUAL(r->live, t->live);
	EQUAL(r->peak, s->peak[row]);
	EQUAL(r->comm, t->comm);
	EQUAL(r->comm_peak, s->comm_peak[row]);
	EQUAL(r->cached, t->cached);
	EQUAL(r->other, t->live - t->cached);
	EQUAL(r->communication, t->communication);
	EQUAL(r->allocated, t->allocated);
	EQUAL(r->reserved, t->reserved);
	EQUAL(r->allocated_before, 0);
	EQUAL(r->inactive, t->inactive);
	EQUAL(r->free_cached, t->free_cached);
	EQUAL(r->largest_free, t->largest);
	EQUAL(r->resets, s->resets[row]);
	EQUAL(r->driver, r->allocator + r->others);
	EQUAL(r->driver, t->live + r->reserved_before);
	EQUAL(r->allocator, r->tensors + r->rounding + r->late + r->private_free + r->unused);
}

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void compare(struct sim *s)
{
	struct report *r = NULL;
	struct truth t;

	model__check(s->model);
	o_must(!model__report(s->model, 3, &r), "no memory");
	for (int row = 0; row <= DEVS; row++) {
		const struct report_segments *seen = NULL;

		t = truth_of(s, row == DEVS ? MT_DEV_NONE : (uint8_t)(MT_DEV_CUDA0 + row));
		s->peak[row] = max_u64(s->peak[row], t.live);
		s->comm_peak[row] = max_u64(s->comm_peak[row], t.comm);
		for (int k = 0; k < MT_SEG_MAX; k++)
			s->kind_peak[row][k] = max_u64(s->kind_peak[row][k], t.kinds[k]);
		for (size_t i = 0; i < r->devs_cnt; i++)
			if (row < DEVS && r->devs[i].dev == MT_DEV_CUDA0 + row)
				seen = &r->devs[i].segs;
		if (seen)
			compare_dev(s, seen, &t, row);
		else if (row < DEVS)
			o_must(!t.live, "cuda:%d is not in the report", row);
		else
			compare_kinds(s, r->driver.unknown, &t, row, "no device");
	}
	for (int i = 0; i < MT_LOSS_MAX; i++)
		o_must(!r->run.lost[i], "lost for reason %d", i);
	report__free(r);
}

static uint64_t run_once(uint64_t seed)
{
	struct sim *s = calloc(1, sizeof(*s));
	struct model_opts opts = { 0 };
	uint64_t events;

	o_must(s != NULL, "no memory");
	s->rng = seed;
	s->ts = 1000;
	s->names = names__new();
	s->model = model__new(s->names, &opts);
	o_must(s->names && s->model, "no memory");
	for (unsigned i = 0; i < PROCS; i++) {
		s->procs[i].pid = 4000 + 10 * i;
		s->procs[i].mode = (enum mode)i;
		proc_begin(s, &s->procs[i]);
	}
	for (int i = 0; i < STEPS; i++) {
		step(s);
		compare(s);
	}
	events = s->events;
	model__free(s->model);
	names__free(s->names);
	free(s);
	return events;
}

int main(int argc, char **argv)
{
	uint64_t events, runs = seeds__run("sim_segments", argc, argv, run_once, &events);

	printf("sim_segments: %" PRIu64 " runs, %" PRIu64 " events, equal after each step\n", runs, events);
	return 0;
}
