/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

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

static void events__remove(struct events *e, size_t i)
{
	memmove(&e->v[i], &e->v[i + 1], (e->cnt - i - 1) * sizeof(*e->v));
	e->cnt--;
}

enum keep { KEEP_NOT, KEEP_ALL, KEEP_LAST };

static enum keep keep_of(uint8_t kind)
{
	switch (kind) {
	case EV_BEGIN:
	case EV_MACHINE:
	case EV_PROC:
	case EV_GONE:
	case EV_LABEL:
	case EV_SITE:
	case EV_NOTE:
	case EV_LATE_OP:
	case EV_ATTACH:
	case MT_EV_EXIT:
	case MT_EV_SEG_ALLOC:
	case MT_EV_SEG_FREE:
	case MT_EV_SEG_MAP:
	case MT_EV_SEG_UNMAP:
	case MT_EV_SEG_RESET:
	case MT_EV_SEG_TRIM:
	case MT_EV_SEG_COMM:
	case MT_EV_SEG_GRAPH:
	case MT_EV_SEG_POOL:
		return KEEP_ALL;
	case EV_COMM:
	case EV_COVER:
	case EV_IDLE:
	case EV_COST:
	case EV_CPU:
	case EV_LOSS:
	case EV_SELF:
	case EV_FIRED:
	case EV_NVML:
	case EV_OOM_KILL:
	case EV_USE:
	case MT_EV_TOTALS:
	case MT_EV_RSS:
		return KEEP_LAST;
	default:
		return KEEP_NOT;
	}
}

static int is_same_thing(const struct event *a, const struct event *b)
{
	if (a->kind != b->kind || a->pid != b->pid || a->dev != b->dev)
		return 0;
	switch (a->kind) {
	case EV_COMM:
		return a->tid == b->tid;
	case EV_COVER:
	case EV_FIRED:
		return a->name.v == b->name.v;
	case MT_EV_RSS:
		return a->addr == b->addr;
	case EV_COST:
	case EV_LOSS:
	case EV_NVML:
	case EV_USE:
		return a->aux == b->aux;
	default:
		return 1;
	}
}

/* The segment that this one gives back, if it is of a kind that is one address: both have no further meaning. */
static int kept__free_segment(struct kept *k, const struct event *ev)
{
	for (size_t i = k->all.cnt; i--;) {
		const struct event *o = &k->all.v[i];

		if (o->pid != ev->pid || o->addr != ev->addr || o->kind != MT_EV_SEG_ALLOC)
			continue;
		if (o->flags == MT_SEG_PHYSICAL || o->flags == MT_SEG_IMPORTED || o->flags == MT_SEG_RESERVED)
			return 0;
		events__remove(&k->all, i);
		return 1;
	}
	return 0;
}

/* An exited process: what was told of it means nothing to those that live. */
static void kept__forget(struct kept *k, uint32_t pid)
{
	struct events *lists[] = { &k->all, &k->last };

	for (size_t l = 0; l < 2; l++) {
		size_t cnt = 0;

		for (size_t i = 0; i < lists[l]->cnt; i++)
			if (lists[l]->v[i].pid != pid || lists[l]->v[i].kind == EV_BEGIN)
				lists[l]->v[cnt++] = lists[l]->v[i];
		lists[l]->cnt = cnt;
	}
}

static int kept__last(struct kept *k, const struct event *ev, size_t max)
{
	for (size_t i = k->last.cnt; i--;)
		if (is_same_thing(&k->last.v[i], ev)) {
			k->last.v[i] = *ev;
			return 0;
		}
	return events__add(&k->last, ev, max);
}

int kept_wants(uint8_t kind)
{
	return keep_of(kind) != KEEP_NOT;
}

int kept__add(struct kept *k, const struct event *ev, size_t max)
{
	switch (keep_of(ev->kind)) {
	case KEEP_LAST:
		return kept__last(k, ev, max);
	case KEEP_ALL:
		if (ev->kind == MT_EV_SEG_FREE && kept__free_segment(k, ev))
			return 0;
		return events__add(&k->all, ev, max);
	default:
		return 0;
	}
}

static uint32_t main_pid(const struct kept *k)
{
	return k->all.cnt && k->all.v[0].kind == EV_BEGIN ? k->all.v[0].pid : 0;
}

uint64_t kept__append(struct kept *k, const struct kept *later, size_t max)
{
	uint64_t dropped = 0;

	for (size_t i = 0; i < later->all.cnt; i++) {
		const struct event *ev = &later->all.v[i];

		if (ev->kind == EV_GONE && ev->flags != 1 && ev->pid != main_pid(k))
			kept__forget(k, ev->pid);
		else
			dropped += kept__add(k, ev, max) < 0;
	}
	for (size_t i = 0; i < later->last.cnt; i++)
		dropped += kept__add(k, &later->last.v[i], max) < 0;
	return dropped;
}

void kept__done(struct kept *k)
{
	events__done(&k->all);
	events__done(&k->last);
}
