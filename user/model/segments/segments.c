/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Changes of segments by events, and what is known of them from the allocator's blocks. */
#include <string.h>

#include "base/array.h"
#include "model/core/blocks.h"
#include "model/segments/segments_state.h"

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

/* false: lost. An event of a handle without a size is one more reference to it. */
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
	struct cuda_graph *g = NULL;
	uint64_t number;

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
	number = ev->flags == MT_SEG_PINNED ? s->pinned_last + 1 : 0;
	if (!seg_proc__insert(p, &(struct seg){ .addr = ev->addr, .size = ev->size, .kind = ev->flags, .dev = u->dev,
						.ctx = ev->flags == MT_SEG_ASYNC ? 0 : ev->aux, .comm = comm,
						.pool = seg_proc__open_pool(p, u->dev, ev->tid), .pinned = number }))
		return false;
	if (number) {
		s->pinned_last = number;
		if (s->pinned)
			s->pinned(s->pinned_ctx, &(struct pinned){ .number = number, .addr = ev->addr, .size = ev->size,
								   .pid = p->pid });
	}
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
						.object = o ? o->id : 0, .dev = o ? o->dev : MT_DEV_NONE,
						.pool = seg_proc__open_pool(p, o ? o->dev : MT_DEV_NONE, ev->tid) }))
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
 * What a reset frees: of a context, all that was made in it; else what the device holds outside of such
 * contexts. Host memory is pinned through no certain device: it is freed with the only one that there is.
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

		/* mappings are the primary context's, as all that is not known to be another's */
		if (takes || (seg->piece && !r.ctx && reset__takes(&r, seg->kind, seg->dev, 0)))
			segments__end_at(s, p, i, END_DROPPED);
	}
	for (size_t i = p->objects_cnt; i-- > 0;)
		if (reset__takes(&r, p->objects[i].kind, p->objects[i].dev, p->objects[i].ctx) && !p->objects[i].maps)
			segments__end_object(s, p, &p->objects[i], END_DROPPED);
}

static struct reported_totals *seg_proc__totals(struct seg_proc *p, uint8_t dev)
{
	for (unsigned i = 0; i < p->totals_cnt; i++)
		if (p->totals[i].dev == dev)
			return &p->totals[i];
	if (p->totals_cnt == DEVS_MAX)
		return NULL;
	p->totals[p->totals_cnt] = (struct reported_totals){ .dev = dev };
	return &p->totals[p->totals_cnt++];
}

static void segments__totals(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev)
{
	struct reported_totals *t = seg_proc__totals(p, u->dev);

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

void segments__allocated(struct segments *s, const struct block *b)
{
	struct seg_proc *p = segments__proc(s, b->pid);
	uint8_t dev = dev_is_gpu((uint8_t)b->dev) ? (uint8_t)b->dev : MT_DEV_NONE; /* pinned memory has the CPU's */

	if (p)
		segments__clear_late(s, p, b->ptr, b->size); /* given out again: its event was not seen to be over */
	/* a block may span several mapped pieces */
	for (size_t i = p ? seg_proc__at(p, b->ptr) : 0; p && i < p->cnt; i++) {
		if (p->segs[i].addr >= b->ptr && p->segs[i].addr - b->ptr >= b->size)
			break;
		if (!p->segs[i].cached || (dev != MT_DEV_NONE && p->segs[i].dev == MT_DEV_NONE))
			segments__use(s, p, &p->segs[i], dev, b->allocated_ts_ns);
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
		for (uint32_t k = 0; k < p->asked.cnt; k++) {
			const struct asked *a = map__at(&p->asked, k);

			segments__sums(s, a->dev)->requested -= a->size;
		}
		seg_proc__free(p);
		s->procs[i] = s->procs[--s->procs_cnt];
		return;
	}
}
