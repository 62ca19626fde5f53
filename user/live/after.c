/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/after.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "live/probing.h"
#include "live/stream.h"
#include "model/core/price.h"
#include "model/model.h"

#define LOWER_NS 1500000000ull /* what is not gone by then goes with the rest */
#define LOOK_BOUNDARIES 8
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

struct after_look {
	const struct after *a;
	uint64_t from_ns; /* 0: not yet */
	struct passed *v;
	size_t cnt, cap;
};

static void after_look__event(void *ctx, const struct event *ev)
{
	struct after_look *l = ctx;

	if (!l->from_ns || ev->ts_ns < l->from_ns || l->cnt == PASSED_MAX || !model__is_boundary(l->a->model, ev) ||
	    !array_has_room(l->v, l->cnt, l->cap, 64))
		return;
	l->v[l->cnt++] = (struct passed){ ev->pid, ev->ts_ns };
}

/* Reads the rings, and waits a little. false: the user or the keeper has ended it. */
static bool after_look__turn(const struct after_look *l)
{
	struct pollfd asked = { .fd = l->a->signal_fd, .events = POLLIN };

	return stream__drain(l->a->stream) >= 0 && poll(&asked, 1, l->a->stream->has_more ? 0 : REST_MS) <= 0;
}

/* Also until what is left of the trace was passed on: that would take the job's CPU time. */
static bool after_look__lower(const struct after_look *l)
{
	uint64_t end_ns = now_ns() + LOWER_NS;
	int r;

	do {
		r = probing__lower(l->a->probing, MT_LEVEL_WATCH);
		if (r < 0 || !after_look__turn(l) || now_ns() > end_ns)
			return false;
	} while (r == 1 || l->a->stream->has_more || l->a->stream->has_backlog);
	return true;
}

static void after_look__steps(struct after_look *l)
{
	uint64_t age;

	l->from_ns = now_ns();
	do {
		if (!after_look__turn(l))
			return;
		age = now_ns() - l->from_ns;
	} while (age < LOOK_NS && (age < LOOK_MIN_NS || l->cnt < LOOK_BOUNDARIES) && (age < LOOK_NO_STEPS_NS || l->cnt));
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
	struct after_look l = { .a = a };

	a->stream->on_late = after_look__event;
	a->stream->late_ctx = &l;
	if (after_look__lower(&l))
		after_look__steps(&l);
	a->stream->on_late = NULL;
	after_look__tell(&l);
	free(l.v);
}
