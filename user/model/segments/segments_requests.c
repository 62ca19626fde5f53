/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The caching allocator's further reports of single blocks: the size that was asked for, and freed blocks that it cannot give
 * out again yet, because another stream may use them (record_stream).
 *
 * Requested sizes are many and change with every block: a map. Late blocks are few: an array, an entry for each
 * event that keeps one. A block's size is in one of its entries.
 */
#include "base/array.h"
#include "model/segments/segments_state.h"

/* --- requested sizes ------------------------------------------------------------------------------------- */

const struct asked *seg_proc__find_asked(const struct seg_proc *p, uint64_t ptr)
{
	return map__find(&p->asked, ptr);
}

void segments__unask(struct segments *s, struct seg_proc *p, uint64_t ptr)
{
	struct asked *a = map__find(&p->asked, ptr);

	if (!a)
		return;
	segments__sums(s, a->dev)->requested -= a->size;
	map__remove(&p->asked, a);
}

bool segments__request(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev)
{
	struct asked *a;

	if (!ev->addr || ev->size > SIZE_BELIEVED || u->requested > SIZE_BELIEVED)
		return true;
	segments__unask(s, p, ev->addr);
	a = p->asked.cnt < ASKED_MAX ? map__put(&p->asked, ev->addr) : NULL;
	if (!a)
		return false;
	a->size = ev->size;
	a->dev = u->dev;
	u->requests = true;
	u->requested += ev->size;
	if (u->requested > u->requested_peak)
		u->requested_peak = u->requested;
	return true;
}

/* --- late blocks ----------------------------------------------------------------------------------------- */

static void segments__count_late(struct segments *s, struct late *l, uint8_t dev, uint64_t size)
{
	struct sums *u = segments__sums(s, dev);

	if (!u || !size || size > SIZE_BELIEVED || u->late > SIZE_BELIEVED)
		return;
	l->dev = u->dev;
	l->size = size;
	u->late += size;
	u->late_blocks++;
	if (u->late > u->late_peak)
		u->late_peak = u->late;
}

/* An entry of the block, the counted one if there is such. NULL: none. */
static struct late *seg_proc__late_of(const struct seg_proc *p, uint64_t ptr)
{
	struct late *ret = NULL;

	for (size_t i = 0; i < p->late_cnt; i++)
		if (p->late[i].ptr == ptr && (!ret || p->late[i].size))
			ret = &p->late[i];
	return ret;
}

static void segments__end_late(struct segments *s, struct seg_proc *p, size_t i)
{
	struct late gone = p->late[i], *other;

	p->late[i] = p->late[--p->late_cnt];
	if (!gone.size)
		return;
	other = seg_proc__late_of(p, gone.ptr);
	if (other) {
		other->dev = gone.dev;
		other->size = gone.size;
	} else {
		segments__sums(s, gone.dev)->late -= gone.size;
	}
}

void segments__over(struct segments *s, struct seg_proc *p, uint64_t event)
{
	for (size_t i = p->late_cnt; i-- > 0;)
		if (p->late[i].event == event)
			segments__end_late(s, p, i);
}

void segments__clear_late(struct segments *s, struct seg_proc *p, uint64_t addr, uint64_t size)
{
	for (size_t i = p->late_cnt; i-- > 0;)
		if (p->late[i].ptr >= addr && p->late[i].ptr - addr < size)
			segments__end_late(s, p, i);
}

bool segments__waits(struct segments *s, const struct event *ev, uint8_t dev, uint64_t size)
{
	struct seg_proc *p = segments__add_proc(s, ev->pid);
	struct late *l;
	bool again;

	if (!p)
		return false;
	segments__over(s, p, ev->addr); /* events are used again: its end was not seen */
	again = seg_proc__late_of(p, ev->size) != NULL;
	if (p->late_cnt >= LATE_MAX || !array_has_room(p->late, p->late_cnt, p->late_cap, 64))
		return false;
	l = &p->late[p->late_cnt++];
	*l = (struct late){ .event = ev->addr, .ptr = ev->size, .tid = ev->tid };
	if (!again)
		segments__count_late(s, l, dev, size);
	return true;
}

/* The device's allocated bytes fell: by the block that this thread has just freed, if that one's size is not known. */
void segments__size_late(struct segments *s, struct seg_proc *p, const struct event *totals, uint64_t fell)
{
	struct late *l = p->late_cnt ? &p->late[p->late_cnt - 1] : NULL;

	if (!l || l->tid != totals->tid)
		return;
	l->tid = 0;
	l = seg_proc__late_of(p, l->ptr);
	if (!l->size)
		segments__count_late(s, l, totals->dev, fell);
}
