/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A process has some hundred segments, seldom more than ten thousand, and each change was a driver call
 * that cost far more than moving the tail of a sorted array. Requested sizes are many and
 * change with every block: a hash table of their own.
 */
#include "model/segments.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/blocks.h"
#include "model/segments_state.h"

struct segments *segments__new(void)
{
	struct segments *s = calloc(1, sizeof(*s));

	if (s)
		s->procs = calloc(PROCS_MAX, sizeof(*s->procs));
	if (s && !s->procs) {
		free(s);
		return NULL;
	}
	return s;
}

static void seg_proc__free(struct seg_proc *p)
{
	free(p->segs);
	free(p->objects);
	free(p->asked);
	free(p->graphs);
	free(p->execs);
	free(p->late);
	free(p);
}

void segments__free(struct segments *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->procs_cnt; i++)
		seg_proc__free(s->procs[i]);
	for (unsigned i = 0; i < s->sums_cnt; i++)
		free(s->sums[i]);
	free(s->procs);
	free(s);
}

struct seg_proc *segments__proc(const struct segments *s, uint32_t pid)
{
	for (size_t i = 0; i < s->procs_cnt; i++)
		if (s->procs[i]->pid == pid)
			return s->procs[i];
	return NULL;
}

struct seg_proc *segments__add_proc(struct segments *s, uint32_t pid)
{
	struct seg_proc *p = segments__proc(s, pid);

	if (p || s->procs_cnt == PROCS_MAX)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	return s->procs[s->procs_cnt++] = p;
}

struct sums *segments__find_sums(const struct segments *s, uint8_t dev)
{
	for (unsigned i = 0; i < s->sums_cnt; i++)
		if (s->sums[i]->dev == dev)
			return s->sums[i];
	return NULL;
}

static bool dev_is_gpu(uint8_t dev)
{
	return dev >= MT_DEV_CUDA0 && dev < MT_DEV_CUDA0 + MT_DEV_CUDA_MAX;
}

struct sums *segments__sums(struct segments *s, uint8_t dev)
{
	struct sums *u;

	if (!dev_is_gpu(dev))
		dev = MT_DEV_NONE;
	u = segments__find_sums(s, dev);
	if (u || s->sums_cnt == DEVS_MAX)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->dev = dev;
	return s->sums[s->sums_cnt++] = u;
}

/* --- sums --------------------------------------------------------------------------------------------- */

void sums__add(struct sums *u, uint8_t kind, bool comm, uint64_t size, uint64_t ts_ns)
{
	struct report_seg *k = &u->kinds[kind];

	u->seen = true;
	k->live += size;
	if (k->live > k->peak)
		k->peak = k->live;
	u->comm += comm ? size : 0;
	if (u->comm > u->comm_peak)
		u->comm_peak = u->comm;
	if (!is_device_memory(kind))
		return;
	u->live += size;
	if (u->live > u->peak) {
		u->peak = u->live;
		u->peak_ts_ns = ts_ns;
	}
}

static void sums__remove(struct sums *u, uint8_t kind, bool comm, uint64_t size)
{
	u->comm -= comm ? size : 0;
	u->kinds[kind].live -= size;
	if (is_device_memory(kind))
		u->live -= size;
}

static void segments__count_out(struct segments *s, uint8_t dev, uint8_t kind, bool comm, uint64_t size, enum end how)
{
	struct sums *u = segments__sums(s, dev);

	sums__remove(u, kind, comm, size);
	if (how == END_FREED)
		u->kinds[kind].frees++;
	else
		u->kinds[kind].dropped++;
}

/* The device is known now: what was counted for none moves there. */
static void segments__move_dev(struct segments *s, uint8_t kind, bool comm, uint64_t size, uint8_t dev, uint64_t ts_ns)
{
	struct sums *from = segments__sums(s, MT_DEV_NONE), *to = segments__sums(s, dev);

	if (!from || !to || from == to)
		return;
	sums__remove(from, kind, comm, size);
	if (from->kinds[kind].allocs) {
		from->kinds[kind].allocs--;
		to->kinds[kind].allocs++;
	}
	sums__add(to, kind, comm, size, ts_ns);
}

/* --- the table of a process ---------------------------------------------------------------------------- */

/* First segment that ends after addr. */
static size_t seg_proc__at(const struct seg_proc *p, uint64_t addr)
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

/* Of a handle that was not given back yet. `folded`: as a MAP names it. */
static struct object *seg_proc__object(const struct seg_proc *p, uint8_t kind, uint64_t handle, bool folded)
{
	for (size_t i = 0; i < p->objects_cnt; i++) {
		struct object *o = &p->objects[i];

		if (o->refs && o->kind == kind && (folded ? event_fold(o->handle) : o->handle) == handle)
			return o;
	}
	return NULL;
}

static struct object *seg_proc__object_by_id(const struct seg_proc *p, uint32_t id)
{
	for (size_t i = 0; id && i < p->objects_cnt; i++)
		if (p->objects[i].id == id)
			return &p->objects[i];
	return NULL;
}

static void segments__end_object(struct segments *s, struct seg_proc *p, struct object *o, enum end how)
{
	segments__count_out(s, o->dev, o->counts_as, o->comm, o->size, how);
	*o = p->objects[--p->objects_cnt];
}

/* A cached piece is gone: the allocator says what it has reserved only with its next block. */
static void segments__unreserve(struct segments *s, struct seg_proc *p, const struct seg *seg)
{
	struct sums *u = segments__find_sums(s, seg->dev);

	for (unsigned i = 0; u && seg->cached && i < p->totals_cnt; i++) {
		struct told_totals *t = &p->totals[i];
		uint64_t part = seg->size < t->reserved ? seg->size : t->reserved;

		if (t->dev != seg->dev)
			continue;
		t->reserved -= part;
		u->reserved -= part;
	}
}

void segments__end_at(struct segments *s, struct seg_proc *p, size_t i, enum end how)
{
	struct seg seg = p->segs[i];
	struct object *o = seg_proc__object_by_id(p, seg.object);

	memmove(&p->segs[i], &p->segs[i + 1], (p->cnt - i - 1) * sizeof(*p->segs));
	p->cnt--;
	segments__clear_late(s, p, seg.addr, seg.size);
	segments__unreserve(s, p, &seg);
	graph__freed(seg_proc__graph(p, seg.graph), &seg);
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

/* --- events -------------------------------------------------------------------------------------------- */

static bool is_sane(const struct event *ev)
{
	return ev->flags > 0 && ev->flags < MT_SEG_MAX && ev->size <= SIZE_BELIEVED && ev->addr &&
	       ev->addr <= UINT64_MAX - ev->size;
}

static bool seg_proc__add_object(struct seg_proc *p, const struct object *o)
{
	if (p->objects_cnt >= SEGMENTS_MAX || !array_has_room(p->objects, p->objects_cnt, p->objects_cap, 64))
		return false;
	p->objects[p->objects_cnt] = *o;
	p->objects[p->objects_cnt].id = ++p->last_object;
	p->objects_cnt++;
	return true;
}

/* false: lost. What is told of a handle without a size is one more reference to it. */
static bool segments__object(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev, bool comm)
{
	struct object *old = seg_proc__object(p, ev->flags, ev->addr, false);
	bool is_host = ev->flags == MT_SEG_PHYSICAL && ev->dev == MT_DEV_HOST;
	uint8_t as = is_host ? MT_SEG_PINNED : ev->flags;

	if (old && !ev->size) {
		if (old->refs < UINT32_MAX)
			old->refs++;
		return true;
	}
	if (!ev->size && ev->flags != MT_SEG_IMPORTED)
		return true; /* made before the attach */
	if (old) {
		old->refs = 0;
		if (!old->maps)
			segments__end_object(s, p, old, END_DROPPED);
	}
	if (!seg_proc__add_object(p, &(struct object){ .handle = ev->addr, .size = ev->size, .refs = 1, .kind = ev->flags,
						       .counts_as = as, .dev = u->dev, .ctx = ev->aux, .comm = comm }))
		return false;
	u->kinds[as].allocs++;
	sums__add(u, as, comm, ev->size, ev->ts_ns);
	return true;
}

static bool segments__alloc(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev, bool comm)
{
	struct graph *g = NULL;

	if (!is_sane(ev))
		return true;
	if (u->kinds[ev->flags].live > SIZE_BELIEVED || u->kinds[MT_SEG_PINNED].live > SIZE_BELIEVED ||
	    u->live > SIZE_BELIEVED)
		return false;
	if (has_handle(ev->flags))
		return segments__object(s, p, u, ev, comm);
	if (!ev->size)
		return true;
	if (ev->flags == MT_SEG_GRAPH) {
		g = seg_proc__graph_of(p, ev->aux, false);
		return segments__alloc_node(s, p, u, ev, g ? g : seg_proc__add_graph(p, ev->aux, false));
	}
	if (ev->flags == MT_SEG_ASYNC && (g = seg_proc__graph_of(p, ev->aux, true)))
		return segments__alloc_node(s, p, u, ev, g);
	segments__clear(s, p, ev->addr, ev->size);
	if (!seg_proc__insert(p, &(struct seg){ .addr = ev->addr, .size = ev->size, .kind = ev->flags, .dev = u->dev,
						.ctx = ev->flags == MT_SEG_ASYNC ? 0 : ev->aux, .comm = comm }))
		return false;
	u->kinds[ev->flags].allocs++;
	sums__add(u, ev->flags, comm, ev->size, ev->ts_ns);
	return true;
}

/* cuMemRelease gives imported handles back, too. */
static void segments__released(struct segments *s, struct seg_proc *p, const struct event *ev)
{
	struct object *o = seg_proc__object(p, ev->flags, ev->addr, false);

	if (!o && ev->flags == MT_SEG_PHYSICAL)
		o = seg_proc__object(p, MT_SEG_IMPORTED, ev->addr, false);
	if (o && !--o->refs && !o->maps)
		segments__end_object(s, p, o, END_FREED);
}

static void segments__freed(struct segments *s, struct seg_proc *p, const struct event *ev)
{
	if (has_handle(ev->flags)) {
		segments__released(s, p, ev);
		return;
	}
	for (size_t i = seg_proc__at(p, ev->addr); i < p->cnt && p->segs[i].addr == ev->addr; i++) {
		if (p->segs[i].piece && p->segs[i].kind == MT_SEG_PHYSICAL)
			continue; /* ends with its unmap */
		segments__end_at(s, p, i, END_FREED);
		return;
	}
}

static struct object *seg_proc__mapped_object(const struct seg_proc *p, const struct event *ev)
{
	struct object *o = ev->flags == MT_SEG_IMPORTED ? NULL : seg_proc__object(p, MT_SEG_PHYSICAL, ev->aux, true);

	return o ? o : seg_proc__object(p, MT_SEG_IMPORTED, ev->aux, true);
}

static bool segments__map(struct segments *s, struct seg_proc *p, const struct event *ev)
{
	struct object *o;

	if (!ev->size || ev->size > SIZE_BELIEVED || !ev->addr || ev->addr > UINT64_MAX - ev->size)
		return true;
	segments__clear(s, p, ev->addr, ev->size);
	o = seg_proc__mapped_object(p, ev);
	if (!seg_proc__insert(p, &(struct seg){ .addr = ev->addr, .size = ev->size, .piece = true,
						.kind = o ? o->kind : ev->flags == MT_SEG_IMPORTED ? MT_SEG_IMPORTED :
												     MT_SEG_PHYSICAL,
						.object = o ? o->id : 0, .dev = o ? o->dev : MT_DEV_NONE }))
		return false;
	if (o)
		o->maps++;
	return true;
}

static void segments__unmap(struct segments *s, struct seg_proc *p, const struct event *ev)
{
	size_t i = seg_proc__at(p, ev->addr);
	uint64_t end = ev->addr > UINT64_MAX - ev->size ? UINT64_MAX : ev->addr + ev->size;

	while (i < p->cnt && p->segs[i].addr < end) {
		/* the driver unmaps whole mappings only */
		if (p->segs[i].piece && p->segs[i].addr >= ev->addr && p->segs[i].addr + p->segs[i].size <= end)
			segments__end_at(s, p, i, END_FREED);
		else
			i++;
	}
}

/* The only device that the process has memory on; MT_DEV_NONE if there are several (*ret_several), or none. */
static uint8_t seg_proc__only_dev(const struct seg_proc *p, bool *ret_several)
{
	uint8_t dev = MT_DEV_NONE;

	*ret_several = false;
	for (size_t i = 0; i < p->cnt; i++) {
		*ret_several |= dev && p->segs[i].dev && p->segs[i].dev != dev;
		dev = p->segs[i].dev ? p->segs[i].dev : dev;
	}
	for (unsigned i = 0; i < p->totals_cnt; i++) {
		*ret_several |= dev && p->totals[i].dev != dev;
		dev = p->totals[i].dev;
	}
	return *ret_several ? MT_DEV_NONE : dev;
}

uint8_t segments__only_dev(const struct segments *s, uint32_t pid)
{
	const struct seg_proc *p = segments__proc(s, pid);
	bool several;

	return p ? seg_proc__only_dev(p, &several) : MT_DEV_NONE;
}

/*
 * What a reset takes: of a context, all that was made in it; else what the device holds outside of such
 * contexts. Host memory is pinned through no certain device: it goes with the only one that there is.
 */
struct reset {
	uint32_t ctx;
	uint8_t dev;
	bool is_only;
};

static bool reset__takes(const struct reset *r, uint8_t kind, uint8_t dev, uint32_t ctx)
{
	if (kind == MT_SEG_REGISTERED || kind == MT_SEG_RESERVED)
		return false;
	if (r->ctx)
		return ctx == r->ctx;
	return !ctx && (dev == r->dev || (r->is_only && dev == MT_DEV_NONE));
}

static void segments__reset(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev)
{
	bool several;
	uint8_t only = seg_proc__only_dev(p, &several);
	struct reset r = { .ctx = event_fold(ev->addr), .dev = u->dev ? u->dev : only };

	r.is_only = !several && (!only || r.dev == only);
	u->resets++;
	if (ev->flags)
		return; /* one reference of several: the runtime has its own */
	for (size_t i = p->cnt; i-- > 0;) {
		const struct seg *seg = &p->segs[i];
		bool takes = !seg->piece && reset__takes(&r, seg->kind, seg->dev, seg->ctx);

		/* mappings are the primary context's, as everything that nobody said to be another's */
		if (takes || (seg->piece && !r.ctx && reset__takes(&r, seg->kind, seg->dev, 0)))
			segments__end_at(s, p, i, END_DROPPED);
	}
	for (size_t i = p->objects_cnt; i-- > 0;)
		if (reset__takes(&r, p->objects[i].kind, p->objects[i].dev, p->objects[i].ctx) && !p->objects[i].maps)
			segments__end_object(s, p, &p->objects[i], END_DROPPED);
}

static struct told_totals *seg_proc__totals(struct seg_proc *p, uint8_t dev)
{
	for (unsigned i = 0; i < p->totals_cnt; i++)
		if (p->totals[i].dev == dev)
			return &p->totals[i];
	if (p->totals_cnt == DEVS_MAX)
		return NULL;
	p->totals[p->totals_cnt] = (struct told_totals){ .dev = dev };
	return &p->totals[p->totals_cnt++];
}

static void segments__totals(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev)
{
	struct told_totals *t = seg_proc__totals(p, u->dev);

	if (!t || ev->addr > SIZE_BELIEVED || ev->size > SIZE_BELIEVED)
		return;
	u->totals = true;
	if (t->allocated > ev->addr)
		segments__size_late(s, p, ev, t->allocated - ev->addr);
	u->allocated += ev->addr - t->allocated;
	u->reserved += ev->size - t->reserved;
	t->allocated = ev->addr;
	t->reserved = ev->size;
	if (u->allocated > u->allocated_peak)
		u->allocated_peak = u->allocated;
	if (u->reserved > u->reserved_peak)
		u->reserved_peak = u->reserved;
}

static void sums__comm(struct sums *u, const struct event *ev)
{
	uint64_t cnt = ev->size && ev->size <= SEGMENTS_MAX ? ev->size : 1;

	u->seen = true;
	if (ev->flags == MT_COMM_MADE && ev->addr)
		u->comms_made += cnt;
	if (ev->flags == MT_COMM_ENDED && ev->addr)
		u->comms_ended++;
}

static bool segments__one(struct segments *s, const struct event *ev, bool comm)
{
	struct seg_proc *p = segments__add_proc(s, ev->pid);
	struct sums *u = segments__sums(s, ev->dev);

	if (!p || !u)
		return false;
	switch (ev->kind) {
	case MT_EV_SEG_ALLOC:
		return segments__alloc(s, p, u, ev, comm);
	case MT_EV_SEG_FREE:
		segments__freed(s, p, ev);
		break;
	case MT_EV_SEG_MAP:
		return segments__map(s, p, ev);
	case MT_EV_SEG_UNMAP:
		segments__unmap(s, p, ev);
		break;
	case MT_EV_SEG_FAIL:
		if (!ev->flags || ev->flags >= MT_SEG_MAX)
			break;
		u->seen = true;
		u->kinds[ev->flags].fails++;
		u->kinds[ev->flags].fail_bytes_last = ev->size;
		u->kinds[ev->flags].fail_code_last = ev->aux;
		break;
	case MT_EV_SEG_RESET:
		segments__reset(s, p, u, ev);
		break;
	case MT_EV_SEG_TRIM:
		u->trims++;
		break;
	case MT_EV_SEG_COMM:
		sums__comm(u, ev);
		break;
	case MT_EV_SEG_GRAPH:
		return segments__graph(s, p, ev);
	case MT_EV_SEG_POOL:
		return seg_proc__set_pool(p, event_fold(ev->addr), ev->dev);
	case MT_EV_TOTALS:
		segments__totals(s, p, u, ev);
		break;
	case MT_EV_REQUEST:
		return segments__request(s, p, u, ev);
	case MT_EV_REQUEST_FREE:
		segments__unask(s, p, ev->addr);
		break;
	case MT_EV_STREAM:
		if (ev->flags == MT_STREAM_OVER)
			segments__over(s, p, ev->addr);
		break;
	}
	return true;
}

bool segments__event(struct segments *s, const struct event *ev)
{
	struct event plain = *ev;
	bool comm = false;

	if (ev->kind == MT_EV_SEG_ALLOC || ev->kind == MT_EV_SEG_FAIL) {
		plain.flags = MT_SEG_KIND(ev->flags);
		comm = (ev->flags & MT_SEG_F_COMM || plain.flags == MT_SEG_NCCL) && plain.flags != MT_SEG_RESERVED;
	}
	return segments__one(s, &plain, comm);
}

/* --- blocks --------------------------------------------------------------------------------------------- */

static void segments__use(struct segments *s, struct seg_proc *p, struct seg *seg, uint8_t dev, uint64_t ts_ns)
{
	struct object *o = seg_proc__object_by_id(p, seg->object);

	seg->cached = true;
	if (o)
		o->cached = true;
	if (o && o->dev == MT_DEV_NONE) {
		o->dev = dev;
		segments__move_dev(s, o->counts_as, o->comm, o->size, dev, ts_ns);
	} else if (!seg->piece && seg->dev == MT_DEV_NONE) {
		segments__move_dev(s, seg->kind, seg->comm, seg->waits ? 0 : seg->size, dev, ts_ns);
	}
	if (seg->dev == MT_DEV_NONE)
		seg->dev = dev;
}

void segments__born(struct segments *s, const struct block *b)
{
	struct seg_proc *p = segments__proc(s, b->pid);

	if (p)
		segments__clear_late(s, p, b->ptr, b->size); /* given out again: its event was not seen to be over */
	/* a block may span several mapped pieces */
	for (size_t i = p ? seg_proc__at(p, b->ptr) : 0; p && i < p->cnt; i++) {
		if (p->segs[i].addr >= b->ptr && p->segs[i].addr - b->ptr >= b->size)
			break;
		if (!p->segs[i].cached || p->segs[i].dev == MT_DEV_NONE)
			segments__use(s, p, &p->segs[i], (uint8_t)b->dev, b->born_ts_ns);
	}
}

void segments__disown_async(struct segments *s, uint32_t pid, uint8_t dev)
{
	struct seg_proc *p = segments__proc(s, pid);

	for (size_t i = 0; p && i < p->cnt; i++)
		if (p->segs[i].kind == MT_SEG_ASYNC && p->segs[i].dev == dev)
			p->segs[i].cached = false;
}

bool segments__has(const struct segments *s, uint32_t pid, uint64_t addr)
{
	const struct seg_proc *p = segments__proc(s, pid);
	size_t i = p ? seg_proc__at(p, addr) : 0;

	return p && i < p->cnt && p->segs[i].addr <= addr;
}

bool segments__has_totals(const struct segments *s, uint32_t pid, uint8_t dev)
{
	const struct seg_proc *p = segments__proc(s, pid);

	for (unsigned i = 0; p && i < p->totals_cnt; i++)
		if (p->totals[i].dev == dev)
			return true;
	return false;
}

void segments__drop_pid(struct segments *s, uint32_t pid)
{
	for (size_t i = 0; i < s->procs_cnt; i++) {
		struct seg_proc *p = s->procs[i];

		if (p->pid != pid)
			continue;
		for (unsigned k = 0; k < p->totals_cnt; k++) {
			struct sums *u = segments__sums(s, p->totals[k].dev);

			u->allocated -= p->totals[k].allocated;
			u->reserved -= p->totals[k].reserved;
		}
		p->totals_cnt = 0;
		while (p->cnt)
			segments__end_at(s, p, p->cnt - 1, END_DROPPED);
		segments__clear_late(s, p, 0, UINT64_MAX);
		while (p->objects_cnt)
			segments__end_object(s, p, &p->objects[p->objects_cnt - 1], END_DROPPED);
		for (size_t k = 0; p->asked && k <= p->asked_mask; k++)
			if (p->asked[k].ptr)
				segments__sums(s, p->asked[k].dev)->requested -= p->asked[k].size;
		seg_proc__free(p);
		s->procs[i] = s->procs[--s->procs_cnt];
		return;
	}
}
