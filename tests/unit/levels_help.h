/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Events of one process with steps, blocks and windows of tracing, for a model that is checked behind each. */
#ifndef MT_TESTS_LEVELS_HELP_H
#define MT_TESTS_LEVELS_HELP_H

#include "event/event.h"
#include "memtrace/event.h"
#include "unit/model_help.h"

#define PID 100u

static uint64_t ts;
static unsigned gaps_reported, learned_reported;

static int keep(void *ctx, const struct tl_event *ev)
{
	(void)ctx;
	gaps_reported += ev->kind == TL_GAP;
	learned_reported += ev->kind == TL_LEARNED;
	return 0;
}

static void send(struct event ev)
{
	if (ev.kind != EV_LEVEL) {
		ev.pid = ev.pid ? ev.pid : PID;
		ev.tid = ev.tid ? ev.tid : ev.pid;
	}
	ev.ts_ns = ts;
	assert_int_equal(model__handle(m, &ev), 0);
	model__check(m);
}
#define SEND(...) send((struct event){ __VA_ARGS__ })

static int setup(void **state)
{
	(void)state;
	ts = 1000;
	gaps_reported = learned_reported = 0;
	if (model_begin(&(struct model_opts){ .timeline = keep }))
		return 1;
	SEND(.kind = EV_PROC);
	return 0;
}

static const struct report *report(void)
{
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	return rep;
}

__attribute__((unused)) static void alloc(uint64_t ptr, uint64_t size)
{
	SEND(.kind = MT_EV_ALLOC, .addr = ptr, .size = size, .dev = MT_DEV_CPU);
}

static void free_block(uint64_t ptr)
{
	SEND(.kind = MT_EV_FREE, .addr = ptr, .dev = MT_DEV_CPU);
}

static void level(uint8_t state, uint8_t lv, uint64_t steps)
{
	SEND(.kind = EV_LEVEL, .flags = state, .depth = lv, .aux = PID, .size = steps, .addr = 1);
}

static void step(void)
{
	static uint64_t no;

	ts += 100;
	SEND(.kind = MT_EV_STEP, .addr = ++no);
}

/* Given to an operator, which reads it. */
__attribute__((unused)) static void use(uint64_t ptr, uint64_t size)
{
	static uint32_t seq;

	SEND(.kind = MT_EV_OP, .name = names__add(names, "aten::mul"), .seq = ++seq);
	SEND(.kind = EV_ARG, .addr = ptr, .size = size, .dev = MT_DEV_CPU, .seq = seq, .depth = 1);
}

__attribute__((unused)) static void go_down(void)
{
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 3);
	ts += 1000;
	level(EV_LEVEL_REST, MT_LEVEL_WATCH, 3);
}

#endif
