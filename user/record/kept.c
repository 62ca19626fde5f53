/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A process can allocate segments without end and free what it never had, so lists are not searched from one end to the
 * other: both have a table of places. A removed event leaves a hole (kind 0); holes are closed when they are half of a list.
 * With a linear search the 65,536 events of one frame of such a process took 4.6 s, with the tables 0.06.
 */
#include "record/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/seed.h"
#include "event/kinds.h"

#define HOLES_MIN 64

int events__add(struct events *e, const struct event *ev, size_t max)
{
	if (e->cnt >= max || !array_has_room(e->v, e->cnt, e->cap, 64))
		return -ENOMEM;
	e->v[e->cnt++] = *ev;
	return 0;
}

void events__done(struct events *e)
{
	free(e->v);
	*e = (struct events){ 0 };
}

static enum ev_keep keep_of(uint8_t kind)
{
	return event_row(kind)->keep;
}

/* The free of a segment does not name its device. */
static uint8_t dev_of(const struct event *ev)
{
	return ev->kind == MT_EV_SEG_ALLOC ? 0 : ev->dev;
}

static int is_same_thing(const struct event *a, const struct event *b)
{
	return a->kind == b->kind && a->pid == b->pid && dev_of(a) == dev_of(b) && event_thing(a) == event_thing(b);
}

/* --- tables ------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct event *ev)
{
	uint64_t key = (uint64_t)ev->pid << 16 | (uint64_t)dev_of(ev) << 8 | ev->kind;

	return hash_two(key, event_thing(ev));
}

/* Where the latest one like ev is. */
static uint32_t places__find(const struct index *p, const struct events *e, const struct event *ev)
{
	return index_find(p, hash_of(ev), i, is_same_thing(&e->v[i], ev));
}

/* It is the latest. */
static int places__set(struct index *p, const struct events *e, size_t at)
{
	uint32_t old = places__find(p, e, &e->v[at]);

	if (old == INDEX_NONE)
		return index__add(p, hash_of(&e->v[at]), (uint32_t)at);
	index__renumber(p, hash_of(&e->v[at]), old, (uint32_t)at);
	return 0;
}

/* --- lists --------------------------------------------------------------------------------------------------- */

/* In order, without holes and those that `goes` names. */
static int list__squeeze(struct events *e, struct index *p, int (*goes)(const void *ctx, const struct event *ev),
			 const void *ctx)
{
	size_t cnt = 0;
	int r = 0;

	for (size_t i = 0; i < e->cnt; i++)
		if (e->v[i].kind && !(goes && goes(ctx, &e->v[i])))
			e->v[cnt++] = e->v[i];
	e->cnt = cnt;
	index__clear(p);
	for (size_t i = 0; i < cnt && !r; i++) /* what is no thing of its own has no place */
		if (e->v[i].kind == MT_EV_SEG_ALLOC || keep_of(e->v[i].kind) == EV_KEEP_LAST)
			r = places__set(p, e, i);
	return r;
}

/* Closes the holes where they are many; sooner where there is no other room. */
static int kept__close_holes(struct kept *k, size_t max)
{
	if (k->holes < HOLES_MIN || k->holes < (k->all.cnt >= max ? max / 16 : k->all.cnt / 2))
		return 0;
	k->holes = 0;
	return list__squeeze(&k->all, &k->segments, NULL, NULL);
}

static int kept__all(struct kept *k, const struct event *ev, size_t max)
{
	int r = kept__close_holes(k, max);

	if (!r)
		r = events__add(&k->all, ev, max);
	if (r || ev->kind != MT_EV_SEG_ALLOC)
		return r;
	r = places__set(&k->segments, &k->all, k->all.cnt - 1);
	if (r)
		k->all.cnt--;
	return r;
}

/* The segment that this one gives back, if it is of a kind that is one address: both have no further meaning. */
static int kept__free_segment(struct kept *k, const struct event *ev)
{
	const struct event like = { .kind = MT_EV_SEG_ALLOC, .pid = ev->pid, .addr = ev->addr };
	uint32_t at = places__find(&k->segments, &k->all, &like);
	struct event *o;

	if (at == INDEX_NONE)
		return 0;
	o = &k->all.v[at];
	if (o->flags == MT_SEG_PHYSICAL || o->flags == MT_SEG_IMPORTED || o->flags == MT_SEG_RESERVED)
		return 0;
	index__remove(&k->segments, hash_of(o), at);
	*o = (struct event){ 0 };
	k->holes++;
	return 1;
}

static int kept__last(struct kept *k, const struct event *ev, size_t max)
{
	uint32_t at = places__find(&k->things, &k->last, ev);
	int r;

	if (at != INDEX_NONE) {
		k->last.v[at] = *ev;
		return 0;
	}
	r = events__add(&k->last, ev, max);
	if (r)
		return r;
	r = places__set(&k->things, &k->last, k->last.cnt - 1);
	if (r)
		k->last.cnt--;
	return r;
}

int kept_wants(uint8_t kind)
{
	return keep_of(kind) != EV_KEEP_NOT;
}

int kept__add(struct kept *k, const struct event *ev, size_t max)
{
	switch (keep_of(ev->kind)) {
	case EV_KEEP_LAST:
		return kept__last(k, ev, max);
	case EV_KEEP_ALL:
		if (ev->kind == MT_EV_SEG_FREE && kept__free_segment(k, ev))
			return 0;
		return kept__all(k, ev, max);
	default:
		return 0;
	}
}

static uint32_t main_pid(const struct kept *k)
{
	return k->all.cnt && k->all.v[0].kind == EV_BEGIN ? k->all.v[0].pid : 0;
}

/* --- what came after -------------------------------------------------------------------------------------------- */

/* A process that ended, and when last: its pid may have been used again since. */
struct ended { /* begins with pid: u32_cmp */
	uint32_t pid;
	uint64_t ts_ns;
};

struct all_ended {
	struct ended *v;
	size_t cnt, cap;
};

/* An event of a process that has ended since: of no use to later readers. */
static int is_of_ended(const void *ctx, const struct event *ev)
{
	const struct all_ended *all = ctx;
	const struct ended key = { .pid = ev->pid };
	const struct ended *e = all->cnt ? bsearch(&key, all->v, all->cnt, sizeof(key), u32_cmp) : NULL;

	return e && ev->ts_ns <= e->ts_ns && ev->kind != EV_BEGIN;
}

/* Sorted, the last end of each. -ENOMEM. */
static int find_ended(const struct kept *later, uint32_t main, struct all_ended *ret)
{
	size_t cnt = 0;

	for (size_t i = 0; i < later->all.cnt; i++) {
		const struct event *ev = &later->all.v[i];

		if (ev->kind != EV_GONE || ev->flags == 1 || ev->pid == main)
			continue;
		if (!array_has_room(ret->v, ret->cnt, ret->cap, 64))
			return -ENOMEM;
		ret->v[ret->cnt++] = (struct ended){ ev->pid, ev->ts_ns };
	}
	if (ret->cnt)
		qsort(ret->v, ret->cnt, sizeof(*ret->v), u32_cmp);
	for (size_t i = 0; i < ret->cnt; i++) {
		if (cnt && ret->v[cnt - 1].pid == ret->v[i].pid)
			ret->v[cnt - 1].ts_ns = ret->v[i].ts_ns > ret->v[cnt - 1].ts_ns ? ret->v[i].ts_ns :
											  ret->v[cnt - 1].ts_ns;
		else
			ret->v[cnt++] = ret->v[i];
	}
	ret->cnt = cnt;
	return 0;
}

/* Of one list; how many found no room. */
static uint64_t kept__append_list(struct kept *k, const struct events *e, const struct all_ended *ended, size_t max)
{
	uint64_t dropped = 0;

	for (size_t i = 0; i < e->cnt; i++)
		if (!is_of_ended(ended, &e->v[i]))
			dropped += kept__add(k, &e->v[i], max) < 0;
	return dropped;
}

uint64_t kept__append(struct kept *k, const struct kept *later, size_t max)
{
	struct all_ended ended = { 0 };
	uint64_t dropped = 0;

	if (find_ended(later, main_pid(k), &ended) < 0)
		ended.cnt = 0; /* then they stay */
	if (ended.cnt) {
		k->holes = 0;
		if (list__squeeze(&k->all, &k->segments, is_of_ended, &ended) < 0 ||
		    list__squeeze(&k->last, &k->things, is_of_ended, &ended) < 0)
			dropped++;
	}
	dropped += kept__append_list(k, &later->all, &ended, max);
	dropped += kept__append_list(k, &later->last, &ended, max);
	free(ended.v);
	return dropped;
}

void kept__done(struct kept *k)
{
	events__done(&k->all);
	events__done(&k->last);
	index__done(&k->segments);
	index__done(&k->things);
	k->holes = 0;
}
