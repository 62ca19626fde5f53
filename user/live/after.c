/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/after.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "keeper/keeper.h"
#include "live/followed.h"
#include "live/probing.h"
#include "live/stream.h"
#include "model/model.h"

#define LOWER_NS 1500000000ull /* what is not gone by then goes with the rest */
#define LOWER_ASK_NS 20000000ull
#define LOOK_BOUNDARIES 8 /* of each process */
#define LOOK_MIN_NS 200000000ull
#define LOOK_NS 500000000ull
#define LOOK_NO_STEPS_NS 250000000ull /* steps as long as this would be too few */
#define PASSED_MAX 16384
#define REST_MS 5

/* A boundary of a step. */
struct passed {
	uint32_t pid;
	uint64_t ts_ns;
};

struct after_proc {
	uint32_t pid;
	unsigned cnt; /* boundaries */
};

struct after_look {
	const struct after *a;
	uint64_t from_ns; /* 0: not yet */
	struct passed *v;
	size_t cnt, cap;
	struct after_proc procs[FOLLOW_PROCS_MAX]; /* with a price */
	size_t procs_cnt;
};

static struct after_proc *after_look__proc(struct after_look *l, uint32_t pid)
{
	for (size_t i = 0; i < l->procs_cnt; i++)
		if (l->procs[i].pid == pid)
			return &l->procs[i];
	return NULL;
}

static void after_look__event(void *ctx, const struct event *ev)
{
	struct after_look *l = ctx;
	struct after_proc *p;

	if (!l->from_ns || ev->ts_ns < l->from_ns || l->cnt == PASSED_MAX || !model__is_boundary(l->a->model, ev))
		return;
	p = after_look__proc(l, ev->pid);
	if (!p || !array_has_room(l->v, l->cnt, l->cap, 64))
		return;
	p->cnt++;
	l->v[l->cnt++] = (struct passed){ ev->pid, ev->ts_ns };
}

/* Reads the rings, and waits a little. false: the user does not want to wait, or the keeper is gone. */
static bool after_look__turn(const struct after_look *l)
{
	struct pollfd ends[] = { { .fd = l->a->signal_fd, .events = POLLIN },
				 { .fd = keeper__fd(l->a->keeper), .events = POLLIN } };

	return stream__drain(l->a->stream) >= 0 && poll(ends, 2, l->a->stream->has_more ? 0 : REST_MS) <= 0;
}

/* Also until what is left of the trace was passed on: that would take the job's CPU time. */
static bool after_look__lower(const struct after_look *l)
{
	uint64_t begin_ns = now_ns(), asked_ns = 0;
	int r = 1;

	while (r == 1 || l->a->stream->has_more || l->a->stream->has_backlog) {
		if (r == 1 && now_ns() - asked_ns >= LOWER_ASK_NS) {
			r = probing__lower(l->a->probing, MT_LEVEL_WATCH);
			asked_ns = now_ns();
		}
		if (r < 0 || !after_look__turn(l) || now_ns() - begin_ns > LOWER_NS)
			return false;
	}
	return true;
}

/* All that make steps have made enough; those that have made none do not count. */
static bool after_look__has_enough(const struct after_look *l)
{
	bool has_any = false;

	for (size_t i = 0; i < l->procs_cnt; i++) {
		if (l->procs[i].cnt && l->procs[i].cnt < LOOK_BOUNDARIES)
			return false;
		has_any |= l->procs[i].cnt > 0;
	}
	return has_any;
}

static void after_look__steps(struct after_look *l)
{
	uint64_t age;

	l->from_ns = now_ns();
	do {
		if (!after_look__turn(l))
			return;
		age = now_ns() - l->from_ns;
	} while (age < LOOK_NS && (age < LOOK_MIN_NS || !after_look__has_enough(l)) && (age < LOOK_NO_STEPS_NS || l->cnt));
}

/* By process, each in order: it may have moved from one CPU's ring to another's. */
static int by_process(const void *va, const void *vb)
{
	const struct passed *a = va, *b = vb;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return (a->ts_ns > b->ts_ns) - (a->ts_ns < b->ts_ns);
}

static void after_look__tell(struct after_look *l)
{
	if (l->cnt)
		qsort(l->v, l->cnt, sizeof(*l->v), by_process);
	for (size_t i = 1; i < l->cnt; i++)
		if (l->v[i].pid == l->v[i - 1].pid)
			tell__event(&l->a->tell, (struct event){ .kind = EV_AFTER, .pid = l->v[i].pid,
								 .size = l->v[i].ts_ns - l->v[i - 1].ts_ns });
}

void after__watch(const struct after *a)
{
	struct after_look *l = calloc(1, sizeof(*l));
	const struct process *p;

	if (!l)
		return;
	l->a = a;
	for (size_t at = 0; (p = followed__next(a->followed, &at)) && l->procs_cnt < FOLLOW_PROCS_MAX;)
		if (model__has_price(a->model, (uint32_t)p->pid))
			l->procs[l->procs_cnt++].pid = (uint32_t)p->pid;
	a->stream->on_late = after_look__event;
	a->stream->late_ctx = l;
	if (l->procs_cnt && after_look__lower(l))
		after_look__steps(l);
	a->stream->on_late = NULL;
	after_look__tell(l);
	free(l->v);
	free(l);
}
