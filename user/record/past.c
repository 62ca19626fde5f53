/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Labels are as of the time of writing: for freed blocks their last label, for live blocks the current one. Counters are
 * written as they stood, and readers count from there. Losses are those of the whole trace: what was lost earlier may be
 * missing now.
 */
#include "record/past.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/err.h"
#include "base/names.h"
#include "event/kinds.h"
#include "event/packed.h"
#include "event/recording.h"
#include "model/core/blocks.h"

void past__add(struct past *p, const struct event *ev)
{
	p->start_ns = p->start_ns ? p->start_ns : ev->ts_ns;
	if (kept_wants(ev->kind))
		p->dropped += kept__add(&p->kept, ev, PAST_EVENTS_MAX) < 0;
}

void past__done(struct past *p)
{
	kept__done(&p->kept);
}

/* --- the moment ---------------------------------------------------------------------------------------------- */

static int add_open(void *ctx, const struct event *ev)
{
	return events__add(ctx, ev, PAST_EVENTS_MAX);
}

int past_moment__now(struct past_moment *at, struct model *m, uint64_t at_ns)
{
	int r;

	*at = (struct past_moment){ .at_ns = at_ns, .newest_id = model__mark(m) };
	r = model__each_open(m, add_open, &at->open);
	return r ? r : model__each_level(m, add_open, &at->open); /* last: blocks reported before it are live then */
}

/* Blocks of stream-ordered allocators are made again by their segments. */
int past_moment__lived(struct past_moment *at, const struct model_was *was)
{
	if (was->id > at->newest_id || event_from(&was->ev[0]) == FROM_ASYNC)
		return 0;
	if (!array_has_room(at->was, at->was_cnt, at->was_cap, 1024))
		return -ENOMEM;
	at->was[at->was_cnt++] = *was;
	return 0;
}

void past_moment__done(struct past_moment *at, int with_open)
{
	free(at->was);
	if (with_open)
		events__done(&at->open);
}

/* --- writing -------------------------------------------------------------------------------------------------- */

struct writing {
	const struct past *past;
	struct past_moment *at;
	struct rec_writer *out;
	struct err *err;
};

static int writing__event(struct writing *x, struct event ev)
{
	if (event_row(ev.kind)->ago && ev.ts_ns < x->at->at_ns &&
	    __builtin_add_overflow(ev.addr, x->at->at_ns - ev.ts_ns, &ev.addr))
		ev.addr = UINT64_MAX;
	ev.ts_ns = x->at->at_ns;
	if (event_row(ev.kind)->base == EV_BASE_FLAG)
		ev.flags = EV_F_BASE;
	return rec_writer__add(x->out, &ev, x->err);
}

static int writing__events(struct writing *x, const struct events *e)
{
	int r = 0;

	for (size_t i = 0; i < e->cnt && !r; i++)
		r = e->v[i].kind ? writing__event(x, e->v[i]) : 0;
	return r;
}

static int add_event(void *ctx, const struct event *ev)
{
	return writing__event(ctx, *ev);
}

static int add_was(void *ctx, const struct model_was *was)
{
	return past_moment__lived(ctx, was);
}

static int writing__block(struct writing *x, const struct model_was *was)
{
	const struct event *b = &was->ev[0];
	int r = 0;

	if (was->stack || was->caught)
		r = writing__event(x, (struct event){ .kind = was->stack ? EV_STACK_AT : EV_CAUGHT, .pid = b->pid,
				.tid = b->tid, .dev = b->dev, .addr = b->addr, .size = was->stack ? was->stack : was->caught });
	for (unsigned k = 0; k < was->cnt && !r; k++) {
		struct event ev = was->ev[k];
		uint64_t age_ms = ev.ts_ns < x->at->at_ns ? (x->at->at_ns - ev.ts_ns) / 1000000 : 0;

		if (ev.kind != EV_TENSOR)
			ev.seq = age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
		r = writing__event(x, ev);
	}
	return r;
}

static int writing__was(struct writing *x, const struct model *m)
{
	struct past_moment *at = x->at;
	int r = model__each_was(m, at->newest_id, add_was, at);

	if (r < 0)
		return err_set(x->err, r, "out of memory");
	if (at->was_cnt)
		qsort(at->was, at->was_cnt, sizeof(*at->was), u64_cmp);
	for (size_t i = 0; i < at->was_cnt && !r; i++)
		r = writing__block(x, &at->was[i]);
	return r;
}

static int writing__notes(struct writing *x, struct names *names, const char *const *notes, size_t cnt)
{
	char text[160];
	int r = 0;

	for (size_t i = 0; i < cnt && !r; i++)
		r = writing__event(x, (struct event){ .kind = EV_NOTE, .name = names__add(names, notes[i]) });
	if (r || !x->past->dropped)
		return r;
	snprintf(text, sizeof(text), "%llu events about processes, segments and probes from before the recording are missing.",
		 (unsigned long long)x->past->dropped);
	return writing__event(x, (struct event){ .kind = EV_NOTE, .name = names__add(names, text) });
}

int past__write(const struct past *p, struct past_moment *at, const struct model *m, struct names *names,
		const char *const *notes, size_t notes_cnt, struct rec_writer *out, struct err *err)
{
	struct writing x = { .past = p, .at = at, .out = out, .err = err };
	int r = writing__events(&x, &p->kept.all);

	if (!r)
		r = writing__events(&x, &p->kept.last);
	if (!r)
		r = writing__notes(&x, names, notes, notes_cnt);
	if (!r) /* since the start: their numbers have no gaps; those reported again later are known then */
		r = model__each_stack(m, add_event, &x);
	if (!r)
		r = model__each_module(m, add_event, &x);
	if (!r)
		r = writing__was(&x, m);
	return r ? r : writing__events(&x, &at->open);
}
