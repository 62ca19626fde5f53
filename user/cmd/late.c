/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Costs are compared with the CPU time that a process used since its first EV_CPU, which the recording
 * meets with its first counters: so costs start with those, losses with the last ones before.
 */
#include "cmd/late.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/seed.h"
#include "event/recording.h"

#define THREADS_SLOTS (1u << 16) /* half a MiB; threads past three quarters of it are passed on as they are */

struct thread_slot {
	uint32_t tid; /* 0 = free */
	uint32_t seq; /* of the first frame that the recording saw opened; 0: none yet */
};

struct late {
	struct event *head;
	size_t head_cnt, head_cap;
	uint64_t head_dropped;
	uint64_t lost[256], cost_hits[256], cost_ns[256], self_ns;
	uint8_t has_cost[256]; /* 1: told before the recording, 2: its start is known */
	uint64_t *fired; /* by name */
	size_t fired_cnt;
	uint64_t start_ns; /* of the trace */
	struct thread_slot *threads; /* from begin on */
	uint32_t threads_cnt;
};

struct late *late__new(void)
{
	return calloc(1, sizeof(struct late));
}

void late__free(struct late *l)
{
	if (!l)
		return;
	free(l->head);
	free(l->fired);
	free(l->threads);
	free(l);
}

/* --- before ----------------------------------------------------------------------------------------- */

static void late__keep(struct late *l, const struct event *ev)
{
	if (l->head_cnt >= LATE_HEAD_MAX || !array_has_room(l->head, l->head_cnt, l->head_cap, 4096)) {
		l->head_dropped++;
		return;
	}
	l->head[l->head_cnt++] = *ev;
}

static uint64_t *late__fired(struct late *l, name_id name)
{
	if (name.v >= l->fired_cnt) {
		size_t cnt = l->fired_cnt ? l->fired_cnt : 4096;
		uint64_t *fired;

		while (cnt <= name.v)
			cnt *= 2;
		fired = reallocarray(l->fired, cnt, sizeof(*fired));
		if (!fired)
			return NULL;
		memset(fired + l->fired_cnt, 0, (cnt - l->fired_cnt) * sizeof(*fired));
		l->fired = fired;
		l->fired_cnt = cnt;
	}
	return &l->fired[name.v];
}

void late__remember(struct late *l, const struct event *ev)
{
	uint64_t *fired;

	switch (ev->kind) {
	case EV_BEGIN:
		l->start_ns = ev->ts_ns;
		late__keep(l, ev);
		break;
	case EV_MACHINE:
	case EV_PROC:
	case EV_COMM:
	case EV_GONE:
	case EV_LABEL:
	case EV_COVER:
	case EV_SITE:
	case EV_NOTE:
	case EV_IDLE:
	case EV_LATE_OP:
	case EV_ATTACH:
	case EV_STACK:
		late__keep(l, ev);
		break;
	case EV_COST:
		l->has_cost[ev->aux & 255] = 1;
		break;
	case EV_LOSS:
		l->lost[ev->aux & 255] = ev->size;
		break;
	case EV_FIRED:
		fired = late__fired(l, ev->name);
		if (fired)
			*fired = ev->size;
		break;
	case EV_SELF:
		l->self_ns = ev->size;
		break;
	default:
		break;
	}
}

/* --- the beginning ------------------------------------------------------------------------------------ */

static int late__write(struct rec_writer *w, struct event ev, uint64_t ts_ns, struct err *err)
{
	ev.ts_ns = ts_ns;
	return rec_writer__add(w, &ev, err);
}

int late__begin(struct late *l, struct rec_writer *w, struct names *names, uint64_t ts_ns, struct err *err)
{
	char text[160];
	int r = 0;

	l->threads = calloc(THREADS_SLOTS, sizeof(*l->threads));
	if (!l->threads)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < l->head_cnt && !r; i++)
		r = late__write(w, l->head[i], ts_ns, err);
	snprintf(text, sizeof(text), "Recorded from %.1f s after the attach on: blocks from before have no birth in it.",
		 (double)(ts_ns - l->start_ns) / 1e9);
	if (!r)
		r = late__write(w, (struct event){ .kind = EV_NOTE, .name = names__add(names, text) }, ts_ns, err);
	if (!r && l->head_dropped) {
		snprintf(text, sizeof(text), "%llu sites and processes were told before the recording and are not in it.",
			 (unsigned long long)l->head_dropped);
		r = late__write(w, (struct event){ .kind = EV_NOTE, .name = names__add(names, text) }, ts_ns, err);
	}
	free(l->head);
	l->head = NULL;
	l->head_cnt = l->head_cap = 0;
	return r ? r : rec_writer__flush(w, err);
}

/* --- from then on ------------------------------------------------------------------------------------- */

static struct thread_slot *late__thread(struct late *l, uint32_t tid)
{
	uint32_t i = (uint32_t)hash_u64(tid) % THREADS_SLOTS;

	if (!tid)
		return NULL;
	while (l->threads[i].tid && l->threads[i].tid != tid)
		i = (i + 1) % THREADS_SLOTS;
	if (!l->threads[i].tid) {
		if (l->threads_cnt >= THREADS_SLOTS / 4 * 3)
			return NULL;
		l->threads_cnt++;
		l->threads[i].tid = tid;
	}
	return &l->threads[i];
}

static void late__fix_frame(struct late *l, struct event *ev)
{
	int is_frame = ev->kind == MT_EV_OP || ev->kind == MT_EV_NODE || ev->kind == MT_EV_OP_BEGIN ||
		       ev->kind == MT_EV_APPLY || ev->kind == MT_EV_ACC;
	struct thread_slot *t;

	if (!is_frame && !(ev->depth && ev->seq))
		return;
	t = late__thread(l, ev->tid);
	if (!t)
		return;
	if (is_frame) {
		if (!t->seq || ev->seq < t->seq)
			t->seq = ev->seq;
	} else if (!t->seq || ev->seq < t->seq) {
		ev->depth = 0;
		ev->seq = 0;
	}
}

static uint64_t since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

void late__fix(struct late *l, struct event *ev)
{
	uint8_t i = ev->aux & 255;

	switch (ev->kind) {
	case EV_COST:
		if (l->has_cost[i] == 1) {
			l->cost_hits[i] = ev->addr;
			l->cost_ns[i] = ev->size;
			l->has_cost[i] = 2;
		}
		ev->addr = since(ev->addr, l->cost_hits[i]);
		ev->size = since(ev->size, l->cost_ns[i]);
		break;
	case EV_LOSS:
		ev->size = since(ev->size, l->lost[i]);
		break;
	case EV_FIRED:
		if (ev->name.v < l->fired_cnt)
			ev->size = since(ev->size, l->fired[ev->name.v]);
		break;
	case EV_SELF:
		ev->size = since(ev->size, l->self_ns);
		break;
	default:
		if (ev->kind < EV_BEGIN)
			late__fix_frame(l, ev);
		break;
	}
}
