/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * torch uses the wall clock, events the monotonic one. Their difference is read at each look, because the wall clock is
 * adjusted now and then; what a look reports is seconds old at most, except for the first one.
 */
#define LOG_MODULE "compiling"
#include "live/compiling.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "live/looker.h"

int compiling__begin(struct compiling *c, const struct looker *by, struct look_job *j, uint64_t now_ns)
{
	if (now_ns < c->next_ns || !by->reader || !py_reader__has_compiles(by->reader))
		return 0;
	c->next_ns = now_ns + COMPILING_EVERY_NS;
	j->compiles = malloc(sizeof(*j->compiles));
	if (!j->compiles)
		return 0;
	j->seen = c->seen;
	return 1;
}

void compiling__drop(struct look_job *j)
{
	free(j->compiles);
	j->compiles = NULL;
}

void compiling__look(struct look_job *j)
{
	struct timespec wall;

	j->r = j->r ? j->r : py_reader__compiles(j->by.reader, &j->seen, j->compiles);
	j->now_ns = now_ns();
	clock_gettime(CLOCK_REALTIME, &wall);
	j->wall_ns = (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec;
}

/* Frame and number: "0/1" is the second of frame 0. */
static int is_again(const struct py_compile *c)
{
	const char *slash = strrchr(c->id, '/');

	return c->reason[0] || (slash && strtoul(slash + 1, NULL, 10) > 0);
}

static name_id name_of(const struct tell *tell, pid_t pid, const char *text)
{
	return text[0] ? tell__name(tell, pid, text) : NAME_NONE;
}

static void say(const struct look_job *j, const struct py_compile *c, const struct tell *tell, uint64_t reported_ns)
{
	struct event ev = { .kind = EV_COMPILED, .ts_ns = reported_ns, .pid = (uint32_t)j->pid,
			    .took_ns = c->end_ns - c->begin_ns };

	ev.ago_ns = c->begin_ns < j->wall_ns ? j->wall_ns - c->begin_ns + (reported_ns - j->now_ns) : 0;
	ev.flags = (uint8_t)((c->is_backward ? EV_COMPILED_BACKWARD : 0) | (is_again(c) ? EV_COMPILED_AGAIN : 0));
	ev.root = name_of(tell, j->pid, c->id);
	ev.key = name_of(tell, j->pid, c->function);
	ev.name = name_of(tell, j->pid, c->reason);
	ev.type = name_of(tell, j->pid, c->failed);
	log_debug("process %d compiled %s %s %s: %s", (int)j->pid, c->is_backward ? "backward" : "forward", c->id, c->function,
		  c->reason);
	tell__event(tell, ev);
}

void compiling__end(struct compiling *c, const struct look_job *j, const struct tell *tell)
{
	uint64_t reported_ns = now_ns(); /* the look may have been long ago: nothing is reported further back than this */

	c->seen = j->seen; /* also after a failed look: it counts those */
	if (j->r)
		return;
	for (size_t i = 0; i < j->compiles->cnt; i++)
		say(j, &j->compiles->v[i], tell, reported_ns);
	if (j->compiles->missed)
		tell__event(tell, (struct event){ .kind = EV_COMPILED, .ts_ns = reported_ns, .pid = (uint32_t)j->pid,
						  .size = j->compiles->missed, .flags = EV_COMPILED_MISSED });
}
