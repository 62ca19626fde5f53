/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "staying"
#include "live/staying.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "live/tell.h"
#include "model/model.h"
#include "target/heap.h"

/* A process may delay each read, and rings are not drained meanwhile. */
#define LOOK_NS 250000000ull

void staying__done(struct staying *s)
{
	free(s->v);
	free(s->then);
	*s = (struct staying){ 0 };
}

static int by_process(const void *a, const void *b)
{
	const struct model_stay *x = a, *y = b;

	return cmp_up(x->pid, y->pid) ?: cmp_up(x->addr, y->addr);
}

void staying__remember(struct staying *s, const struct model *m)
{
	uint64_t from_ns = now_ns();

	if (s->is_gap)
		return;
	staying__done(s);
	s->is_gap = true;
	(void)model__stays(m, &s->v, &s->cnt);
	s->then = s->cnt ? calloc(s->cnt, sizeof(*s->then)) : NULL;
	if (!s->then) {
		s->cnt = 0;
		return;
	}
	qsort(s->v, s->cnt, sizeof(*s->v), by_process);
	for (size_t i = 0; i < s->cnt; i++)
		s->then[i] = (struct heap_block){ .addr = s->v[i].addr, .size = s->v[i].size, .pid = (pid_t)s->v[i].pid };
	heap__read(s->then, s->cnt, from_ns + LOOK_NS);
	log_debug("%zu blocks remembered in %.1f ms", s->cnt, (double)(now_ns() - from_ns) / 1e6);
}

void staying__look(struct staying *s)
{
	struct heap_block *now = s->cnt ? malloc(s->cnt * sizeof(*now)) : NULL;
	uint64_t from_ns = now_ns();
	size_t there = 0;

	if (!now) {
		s->cnt = 0;
		return;
	}
	memcpy(now, s->then, s->cnt * sizeof(*now));
	heap__read(now, s->cnt, from_ns + LOOK_NS);
	for (size_t i = 0; i < s->cnt; i++) {
		struct heap_block *b = &s->then[i];

		b->is_used = b->is_used && now[i].is_used && heap_print__is(&b->print, &now[i].print);
		there += b->is_used;
	}
	free(now);
	log_debug("%zu of %zu blocks are still there: looked for %.1f ms", there, s->cnt, (double)(now_ns() - from_ns) / 1e6);
}

void staying__tell(struct staying *s, const struct tell *tell, uint64_t ts_ns)
{
	s->is_gap = false;
	for (size_t i = 0; i < s->cnt; i++) {
		const struct model_stay *b = &s->v[i];

		if (s->then[i].is_used)
			tell__event(tell, (struct event){ .ts_ns = ts_ns, .kind = EV_STAYED, .pid = b->pid, .dev = b->dev,
							  .addr = b->addr, .size = b->size,
							  .flags = heap_print__is_alike(&s->then[i].print) ? EV_STAYED_ALIKE :
													     0 });
	}
	s->cnt = 0; /* behind the next window allocations may be seen */
}
