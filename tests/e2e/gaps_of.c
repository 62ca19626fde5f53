/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gaps_of FULL.mtr STEPS EVERY OUT.mtr [blocks]: what a session with windows of STEPS whole steps, one window in EVERY steps,
 * would have recorded of the same trace: without what its probes would not have told meanwhile. They come and go in the middle
 * of steps. blocks: allocations and frees are seen between windows, too (--between blocks), of no operator.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "event/recording.h"
#include "model/model.h"

#define MID_STEP 37 /* events of a job behind a boundary */

struct session {
	struct model *full, *seen; /* told all, and what is written */
	struct rec_writer *out;
	uint64_t steps, every, next, number;
	uint64_t since; /* events of this kind of state */
	uint32_t pid;
	uint8_t state, between; /* between: enum mt_level */
	int is_set; /* all probes were, in the full one */
	struct err err;
};

static int fail(const char *what)
{
	fprintf(stderr, "gaps_of: %s\n", what);
	return 1;
}

static int write_event(struct session *s, const struct event *ev)
{
	uint64_t window;
	uint8_t before = s->state;
	int r = model__handle(s->seen, ev);

	s->state = model__level_of(s->seen, &window);
	s->since = s->state == before ? s->since + 1 : 0;
	return r ? r : rec_writer__add(s->out, ev, &s->err);
}

static int tell(struct session *s, uint64_t ts_ns, uint8_t state, uint8_t level)
{
	struct event ev = { .ts_ns = ts_ns, .kind = EV_LEVEL, .flags = state, .depth = level, .aux = s->pid, .addr = s->number,
			    .size = s->steps };

	return write_event(s, &ev);
}

/* What probes above those that stay tell. */
static int is_of_probe(const struct session *s, const struct event *ev)
{
	switch (ev->kind) {
	case MT_EV_ALLOC:
	case MT_EV_FREE:
		return s->between < MT_LEVEL_BLOCKS;
	case MT_EV_OP:
	case MT_EV_NODE:
	case MT_EV_APPLY:
	case MT_EV_ACC:
	case EV_ARG:
	case EV_MODULE_AT:
	case EV_STACK_AT:
		return 1;
	default:
		return 0;
	}
}

static int event(struct session *s, const struct event *ev)
{
	uint64_t steps;
	int r = model__handle(s->full, ev), is_away = s->state == EV_LEVEL_GAP || s->state == EV_LEVEL_REST;
	struct event seen = *ev;

	if (is_away && (ev->kind == MT_EV_ALLOC || ev->kind == MT_EV_FREE))
		seen.depth = 0, seen.seq = 0; /* no frame is known */
	if (!r && !(is_away && is_of_probe(s, ev)))
		r = write_event(s, &seen);
	else if (!r)
		s->since++;
	if (r)
		return r;
	if (ev->kind == EV_BEGIN) {
		s->pid = ev->pid;
		return tell(s, ev->ts_ns, EV_LEVEL_GAP, MT_LEVEL_WATCH);
	}
	steps = model__steps_of(s->full, s->pid);
	if (s->state == EV_LEVEL_TAIL && s->since >= MID_STEP) {
		r = tell(s, ev->ts_ns, EV_LEVEL_GAP, s->between);
		return r ? r : tell(s, ev->ts_ns, EV_LEVEL_REST, s->between);
	}
	s->is_set |= ev->kind == EV_ATTACH && !(ev->flags & EV_ATTACH_BEGINS);
	if (is_away && s->is_set && steps >= s->next && steps && s->since >= MID_STEP) {
		s->next = steps + s->every;
		s->number++;
		return tell(s, ev->ts_ns, EV_LEVEL_ARMED, MT_LEVEL_FULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct session s = { .state = EV_LEVEL_TRACED, .between = argc == 6 ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH };
	const struct event *evs;
	struct rec_reader *r;
	size_t cnt;
	int more;

	if (argc != 5 && (argc != 6 || strcmp(argv[5], "blocks")))
		return fail("usage: gaps_of FULL.mtr STEPS EVERY OUT.mtr [blocks]");
	s.steps = strtoull(argv[2], NULL, 10);
	s.every = strtoull(argv[3], NULL, 10);
	if (rec_reader__open(&r, argv[1], &s.err))
		return fail(s.err.msg);
	struct rec_writer_opts wo = { .names = rec_reader__names(r), .how.force = 1 };

	s.full = model__new(rec_reader__names(r), NULL);
	s.seen = model__new(rec_reader__names(r), NULL);
	if (!s.full || !s.seen || rec_writer__open(&s.out, argv[4], &wo, &s.err))
		return fail(s.err.msg);
	while ((more = rec_reader__next(r, &evs, &cnt, &s.err)) > 0) {
		for (size_t i = 0; i < cnt; i++)
			if (event(&s, &evs[i]))
				return fail(s.err.msg);
		model__check(s.seen);
	}
	if (more < 0 || rec_writer__close(s.out, &s.err))
		return fail(s.err.msg);
	model__free(s.full);
	model__free(s.seen);
	rec_reader__free(r);
	return 0;
}
