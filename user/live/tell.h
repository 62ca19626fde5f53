/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tell: how the files of live report what they know: as events, in the session's stream (live/stream.h). */
#ifndef MT_LIVE_TELL_H
#define MT_LIVE_TELL_H

#include <string.h>
#include <sys/types.h>

#include "event/event.h"

struct tell {
	struct names *names;
	void (*push)(void *ctx, struct event ev); /* ts_ns 0 = now */
	void *ctx;
};

static inline void tell__event(const struct tell *t, struct event ev)
{
	t->push(t->ctx, ev);
}

/* A sentence for the report; pid 0: about no process. */
static inline void tell__note(const struct tell *t, pid_t pid, const char *text)
{
	tell__event(t, (struct event){ .kind = EV_NOTE, .pid = (uint32_t)pid, .name = names__add(t->names, text) });
}

/* A name chosen by the process, charged to its own share of names. */
static inline name_id tell__name(const struct tell *t, pid_t pid, const char *text)
{
	return names__add_of(t->names, (uint32_t)pid, text, strlen(text));
}

#endif
