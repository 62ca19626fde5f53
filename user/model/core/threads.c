/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A slab of threads that never move, and an index by tid.
 * No event reports the end of a thread, so places are recycled by the clock algorithm: one bit a
 * thread, set by its events, cleared by the hand in passing; a thread whose bit is clear has had no
 * event for a whole round. That is near enough to least recently used and costs one store an event.
 */
#include "model/core/threads.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/seed.h"
#include "model/core/check.h"

#define CHUNK_THREADS 64u

struct threads {
	struct index by_tid; /* numbers */
	struct thread **chunks;
	uint32_t used; /* numbers ever handed out */
	uint32_t *free_list;
	uint32_t free_cnt;
	uint32_t hand;
	uint32_t max;
};

struct threads *threads__new(size_t max)
{
	struct threads *ths = calloc(1, sizeof(*ths));

	if (!ths)
		return NULL;
	ths->max = max && max < THREADS_MAX ? (uint32_t)max : THREADS_MAX;
	ths->free_list = malloc(ths->max * sizeof(*ths->free_list));
	ths->chunks = calloc(ths->max / CHUNK_THREADS + 1, sizeof(*ths->chunks));
	if (!ths->free_list || !ths->chunks) {
		threads__free(ths);
		return NULL;
	}
	return ths;
}

void threads__free(struct threads *ths)
{
	if (!ths)
		return;
	for (size_t i = 0; ths->chunks && i < ths->max / CHUNK_THREADS + 1; i++)
		free(ths->chunks[i]);
	free(ths->chunks);
	index__done(&ths->by_tid);
	free(ths->free_list);
	free(ths);
}

static struct thread *threads__at(const struct threads *ths, uint32_t num)
{
	return &ths->chunks[num / CHUNK_THREADS][num % CHUNK_THREADS];
}

const struct thread *threads__next(const struct threads *ths, uint32_t *pos)
{
	while (*pos < ths->used) {
		const struct thread *t = threads__at(ths, (*pos)++);

		if (t->in_use)
			return t;
	}
	return NULL;
}

static void threads__drop(struct threads *ths, uint32_t num)
{
	struct thread *t = threads__at(ths, num);

	index__remove(&ths->by_tid, hash_u64(t->tid), num);
	t->in_use = false;
	ths->free_list[ths->free_cnt++] = num;
}

/* Gives back the place of a thread that was silent for a whole round of the hand. */
static void threads__evict(struct threads *ths, bool *ret_lost)
{
	for (;;) {
		struct thread *t = threads__at(ths, ths->hand);
		uint32_t num = ths->hand;

		ths->hand = (ths->hand + 1) % ths->used;
		if (t->recent) {
			t->recent = false;
			continue;
		}
		if (ret_lost && (t->depth || t->regions_cnt))
			*ret_lost = true;
		threads__drop(ths, num);
		return;
	}
}

static struct thread *threads__place(struct threads *ths, bool *ret_lost, uint32_t *ret_num)
{
	struct thread **chunk;

	if (!ths->free_cnt && ths->used == ths->max)
		threads__evict(ths, ret_lost);
	if (ths->free_cnt) {
		*ret_num = ths->free_list[--ths->free_cnt];
		return threads__at(ths, *ret_num);
	}
	chunk = &ths->chunks[ths->used / CHUNK_THREADS];
	if (!*chunk) {
		*chunk = malloc(CHUNK_THREADS * sizeof(**chunk));
		if (!*chunk)
			return NULL;
	}
	*ret_num = ths->used++;
	return threads__at(ths, *ret_num);
}

struct thread *threads__get(struct threads *ths, uint32_t pid, uint32_t tid, bool *ret_lost)
{
	uint64_t hash = hash_u64(tid);
	uint32_t num = index_find(&ths->by_tid, hash, i, threads__at(ths, i)->tid == tid);
	struct thread *t;

	if (num != INDEX_NONE) {
		t = threads__at(ths, num);
		if (t->pid != pid)
			*t = (struct thread){ .in_use = true, .pid = pid, .tid = tid, .num = num };
		t->recent = true;
		return t;
	}
	t = threads__place(ths, ret_lost, &num);
	if (!t)
		return NULL;
	if (index__add(&ths->by_tid, hash, num) < 0) {
		t->in_use = false;
		ths->free_list[ths->free_cnt++] = num;
		return NULL;
	}
	*t = (struct thread){ .in_use = true, .recent = true, .pid = pid, .tid = tid, .num = num };
	return t;
}

void threads__drop_pid(struct threads *ths, uint32_t pid)
{
	for (uint32_t num = 0; num < ths->used; num++) {
		const struct thread *t = threads__at(ths, num);

		if (t->in_use && t->pid == pid)
			threads__drop(ths, num);
	}
}

size_t threads__count(const struct threads *ths)
{
	return ths->used - ths->free_cnt;
}

void threads__check(const struct threads *ths)
{
	size_t in_use = 0;

	for (uint32_t num = 0; num < ths->used; num++) {
		const struct thread *t = threads__at(ths, num);

		if (!t->in_use)
			continue;
		in_use++;
		mt_check(index_find(&ths->by_tid, hash_u64(t->tid), i, threads__at(ths, i)->tid == t->tid) == num);
		mt_check(t->num == num);
		mt_check(t->regions_cnt <= MT_REGIONS_MAX && t->depth <= MT_FRAMES_MAX);
	}
	mt_check(ths->by_tid.cnt == in_use);
	mt_check(in_use == threads__count(ths));
}

/* --- one thread ---------------------------------------------------------------------------------- */

static uint8_t clamp(uint32_t n, uint8_t max)
{
	return n < max ? (uint8_t)n : max;
}

/* A hole in seq: the frames under the new one may be others now. */
static void thread__doubt(struct thread *t, const struct event *ev, uint8_t depth)
{
	uint8_t cnt = ev->seq > t->last_seq ? depth : MT_FRAMES_MAX; /* counting began anew */

	for (uint8_t i = 0; i < cnt; i++) {
		t->frames[i].unsure = true;
		if (ev->seq <= t->last_seq)
			t->frames[i].kind = 0;
	}
}

void thread__enter(struct thread *t, const struct event *ev, uint32_t row)
{
	uint8_t depth = clamp(ev->depth, MT_FRAMES_MAX);
	const struct frame *under;
	struct frame *f;

	if (ev->seq != t->last_seq + 1 && !(ev->flags & EV_FRAME_OPEN))
		thread__doubt(t, ev, depth);
	t->last_seq = ev->seq;
	thread__settle(t, depth, 0);
	if (depth == MT_FRAMES_MAX)
		return; /* too deep to be kept, here as in the probe */
	t->depth++;
	f = &t->frames[depth];
	f->row = row;
	f->seq = ev->seq;
	f->kind = ev->kind == MT_EV_APPLY || ev->kind == MT_EV_ACC ? MT_EV_NODE : ev->kind;
	f->reported = ev->kind;
	f->class = 0;
	f->unsure = false;
	f->node_row = 0;
	if (f->kind == MT_EV_NODE) {
		f->node_row = row;
		f->node_entry = ++t->entries;
	} else if (depth) {
		under = f - 1;
		if (under->kind && !under->unsure) {
			f->node_row = under->node_row;
			f->node_entry = under->node_entry;
		}
	}
}

/* Region records that were lost leave regions of unknown name. */
static void thread__fill_regions(struct thread *t, uint8_t cnt)
{
	while (t->regions_cnt < cnt)
		t->regions[t->regions_cnt++] = (struct open_region){ .entry = ++t->entries };
}

void thread__region_begin(struct thread *t, const struct event *ev, uint32_t row)
{
	uint8_t idx = clamp(ev->aux, MT_REGIONS_MAX);

	thread__fill_regions(t, idx);
	t->regions_cnt = idx;
	if (idx < MT_REGIONS_MAX)
		t->regions[t->regions_cnt++] = (struct open_region){ .row = row, .entry = ++t->entries };
}

uint32_t thread__region_end(struct thread *t, const struct event *ev)
{
	uint8_t stay = clamp(ev->aux, MT_REGIONS_MAX);
	uint32_t row = stay < t->regions_cnt ? t->regions[stay].row : 0;

	thread__fill_regions(t, stay);
	t->regions_cnt = stay;
	return row;
}

/* The innermost open frame, NULL if its own record was lost. */
static struct frame *thread__leaf(struct thread *t, const struct event *ev)
{
	struct frame *f;

	if (ev->depth > MT_FRAMES_MAX)
		return NULL;
	f = &t->frames[ev->depth - 1];
	if (!f->kind)
		return NULL;
	f->unsure = false;
	return f;
}

uint32_t thread__region(const struct thread *t, unsigned depth, uint32_t seq)
{
	const struct open_region *r = t->regions_cnt ? &t->regions[t->regions_cnt - 1] : NULL;
	const struct frame *f = depth && seq && depth <= MT_FRAMES_MAX ? &t->frames[depth - 1] : NULL;

	if (f && f->kind && f->seq == seq && f->node_row && (!r || f->node_entry > r->entry))
		return f->node_row;
	return r ? r->row : 0;
}

bool thread__in_node(const struct thread *t, const struct event *ev)
{
	const struct frame *f = ev->depth && ev->seq && ev->depth <= MT_FRAMES_MAX ? &t->frames[ev->depth - 1] : NULL;

	return f && f->kind && f->seq == ev->seq && f->node_row;
}

struct attribution thread__attribute(struct thread *t, const struct event *ev)
{
	struct attribution a = { 0 };
	const struct frame *leaf = NULL;

	thread__settle(t, ev->depth, ev->seq);
	if (ev->depth && ev->seq) {
		leaf = thread__leaf(t, ev);
		if (!leaf)
			a.lost = true;
		else if (leaf->kind != MT_EV_NODE)
			a.op = leaf->row;
	}
	a.region = thread__region(t, ev->depth, ev->seq);
	return a;
}
