/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What the caching allocator tells of single blocks beside that they are there: what was asked for, and what it cannot
 * give out again yet, though it was freed, because another stream may use it (record_stream).
 *
 * Requested sizes are many and change with every block: a hash table. Late blocks are few: an array, an entry for each
 * event that keeps one. What is counted of a block stands in one of its entries.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/seed.h"
#include "model/segments/segments_state.h"

/* --- requested sizes ------------------------------------------------------------------------------------- */

static size_t asked_home(const struct seg_proc *p, uint64_t ptr)
{
	return hash_u64(ptr) & p->asked_mask;
}

static struct asked *seg_proc__asked(const struct seg_proc *p, uint64_t ptr)
{
	size_t i = asked_home(p, ptr);

	while (p->asked[i].ptr && p->asked[i].ptr != ptr)
		i = (i + 1) & p->asked_mask;
	return &p->asked[i];
}

const struct asked *seg_proc__find_asked(const struct seg_proc *p, uint64_t ptr)
{
	const struct asked *a = p->asked && ptr ? seg_proc__asked(p, ptr) : NULL;

	return a && a->ptr ? a : NULL;
}

static bool seg_proc__grow_asked(struct seg_proc *p)
{
	struct asked *old = p->asked;
	size_t had = old ? p->asked_mask + 1 : 0, cap = had ? 2 * had : 256;

	if (had && (p->asked_cnt + 1) * 4 <= had * 3)
		return true;
	if (cap > ASKED_MAX || !(p->asked = calloc(cap, sizeof(*p->asked)))) {
		p->asked = old;
		return false;
	}
	p->asked_mask = cap - 1;
	for (size_t i = 0; i < had; i++)
		if (old[i].ptr)
			*seg_proc__asked(p, old[i].ptr) = old[i];
	free(old);
	return true;
}

void segments__unask(struct segments *s, struct seg_proc *p, uint64_t ptr)
{
	struct asked *a = p->asked ? seg_proc__asked(p, ptr) : NULL;
	size_t i, mask = p->asked_mask;

	if (!a || !a->ptr)
		return;
	segments__sums(s, a->dev)->requested -= a->size;
	i = (size_t)(a - p->asked);
	for (size_t j = (i + 1) & mask; p->asked[j].ptr; j = (j + 1) & mask) {
		if (((j - asked_home(p, p->asked[j].ptr)) & mask) >= ((j - i) & mask)) {
			p->asked[i] = p->asked[j];
			i = j;
		}
	}
	p->asked[i].ptr = 0;
	p->asked_cnt--;
}

bool segments__request(struct segments *s, struct seg_proc *p, struct sums *u, const struct event *ev)
{
	if (!ev->addr || ev->size > SIZE_BELIEVED || u->requested > SIZE_BELIEVED)
		return true;
	segments__unask(s, p, ev->addr);
	if (!seg_proc__grow_asked(p))
		return false;
	*seg_proc__asked(p, ev->addr) = (struct asked){ .ptr = ev->addr, .size = ev->size, .dev = u->dev };
	p->asked_cnt++;
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
