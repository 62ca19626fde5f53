/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Operators of a recording with their tensor arguments, and the blocks. Usage: say_args FILE
 *
 *	alloc TIME POINTER SIZE, free TIME POINTER, frame TIME NAME, arg INDEX ITEM POINTER SIZE DEVICE CLASS FLAGS
 *
 * Times are CLOCK_MONOTONIC in ns; an arg belongs to the frame above it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "event/packed.h"
#include "event/recording.h"

static void say(const struct names *names, const struct event *e)
{
	switch (e->kind) {
	case MT_EV_ALLOC:
		printf("alloc %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", e->ts_ns, e->addr, e->size);
		break;
	case MT_EV_FREE:
		printf("free %" PRIu64 " %" PRIu64 "\n", e->ts_ns, e->addr);
		break;
	case MT_EV_OP:
	case MT_EV_APPLY:
	case MT_EV_ACC:
		printf("frame %" PRIu64 " %s\n", e->ts_ns, names__get(names, e->name));
		break;
	case EV_ARG:
		printf("arg %u %u %" PRIu64 " %" PRIu64 " %u %u %u\n", event_arg_index(e), event_arg_item(e), e->addr, e->size,
		       e->dev, e->flags, event_arg_flags(e));
		break;
	}
}

int main(int argc, char **argv)
{
	const struct event *ev;
	struct rec_reader *r;
	struct err err = { 0 };
	size_t cnt;
	int code;

	if (argc != 2 || rec_reader__open(&r, argv[1], &err) < 0) {
		fprintf(stderr, "say_args: %s\n", argc == 2 ? err.msg : "FILE");
		return 1;
	}
	while ((code = rec_reader__next(r, &ev, &cnt, &err)) > 0)
		for (size_t i = 0; i < cnt; i++)
			say(rec_reader__names(r), &ev[i]);
	rec_reader__free(r);
	return code != 0;
}
