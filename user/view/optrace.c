/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/optrace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "timeline/labels.h"
#include "view/live.h"
#include "view/numbering.h"

#define DEPTH_MAX 64
#define STEP_PREFIX "Optimizer.step#"

struct open_op {
	uint64_t at;	/* its line: place in the order of lines */
	uint8_t depth;	/* frames under it */
	uint8_t is_node;
};

struct optrace_thread {
	struct open_op open[DEPTH_MAX];
	uint32_t cnt, nodes, optimizers; /* open ones */
};

enum part { PART_BEFORE = 0, PART_FORWARD, PART_BACKWARD }; /* of a step */

struct optrace {
	optrace_fn line;
	void *ctx;
	const struct export_to *to;
	struct live *live;
	struct numbering tids;
	struct optrace_thread *threads[OPTRACE_THREADS];
	struct optrace_line *lines; /* a ring; places are never used twice */
	uint64_t first, next;	    /* places of those that wait */
	uint64_t ops, steps, left_out;
	uint64_t now;		      /* bytes in blocks; in those that are met later, too */
	uint64_t allocated, reserved; /* as told */
	uint32_t pid;
	uint8_t dev, has_totals, has_marks;
	uint8_t part;		/* enum part */
	uint8_t forward_again; /* operators since backward's last node: it may begin once more */
};

/* --- whose trace ------------------------------------------------------------------------------------- */

static uint8_t choose_dev(const struct export_to *to)
{
	if (to->dev >= 0)
		return (uint8_t)to->dev;
	for (size_t i = 0; to->report && i < to->report->devs_cnt; i++)
		if (to->report->devs[i].dev == MT_DEV_CUDA0)
			return MT_DEV_CUDA0;
	return MT_DEV_CPU;
}

static uint32_t choose_pid(const struct report *r)
{
	const struct report_proc *most = NULL;

	if (!r)
		return 0;
	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].pid && (!most || r->procs[i].peak > most->peak))
			most = &r->procs[i];
	return most && most->peak ? most->pid : r->pid;
}

static uint64_t bytes_before(const struct optrace *t)
{
	struct labels_met met;
	uint64_t sum = 0;
	size_t pos = 0;

	while (t->to->labels && !labels__next_met(t->to->labels, &pos, &met))
		if (met.pid == t->pid && met.dev == t->dev && met.size != TL_SIZE_UNKNOWN)
			sum += met.size;
	return sum;
}

int optrace__new(struct optrace **ret, const struct export_to *to, optrace_fn line, void *ctx)
{
	struct optrace *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->line = line;
	t->ctx = ctx;
	t->to = to;
	t->dev = choose_dev(to);
	t->pid = choose_pid(to->report);
	t->live = live__new(to->labels);
	t->lines = malloc(OPTRACE_WAIT * sizeof(*t->lines));
	if (!t->live || !t->lines) {
		optrace__free(t);
		return -ENOMEM;
	}
	t->now = bytes_before(t);
	*ret = t;
	return 0;
}

void optrace__free(struct optrace *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < OPTRACE_THREADS; i++)
		free(t->threads[i]);
	numbering__done(&t->tids);
	live__free(t->live);
	free(t->lines);
	free(t);
}

uint32_t optrace__pid(const struct optrace *t)
{
	return t->pid;
}

uint8_t optrace__dev(const struct optrace *t)
{
	return t->dev;
}

int optrace__has_totals(const struct optrace *t)
{
	return t->has_totals;
}

uint64_t optrace__left_out(const struct optrace *t)
{
	return t->left_out;
}

/* --- lines -------------------------------------------------------------------------------------------- */

static struct optrace_line *line_at(struct optrace *t, uint64_t place)
{
	return place >= t->first ? &t->lines[place % OPTRACE_WAIT] : NULL;
}

static void put_values(const struct optrace *t, struct optrace_line *l)
{
	l->is_open = 0;
	l->allocated = t->has_totals ? t->allocated : t->now;
	l->reserved = t->has_totals ? t->reserved : l->allocated;
}

static int tell_first(struct optrace *t)
{
	return t->line(t->ctx, &t->lines[t->first++ % OPTRACE_WAIT]);
}

static int tell_ready(struct optrace *t)
{
	int r = 0;

	while (!r && t->first < t->next && !t->lines[t->first % OPTRACE_WAIT].is_open)
		r = tell_first(t);
	return r;
}

static int add_line(struct optrace *t, const struct tl_event *ev, uint8_t kind, struct optrace_line **ret)
{
	struct optrace_line *l;
	int r = 0;

	if (t->next - t->first == OPTRACE_WAIT) {
		put_values(t, &t->lines[t->first % OPTRACE_WAIT]);
		t->left_out++;
		r = tell_first(t);
	}
	l = &t->lines[t->next++ % OPTRACE_WAIT];
	*l = (struct optrace_line){ .ts_ns = ev->ts_ns, .index = t->ops, .tid = ev->tid, .kind = kind };
	put_values(t, l);
	*ret = l;
	return r;
}

static int add_mark(struct optrace *t, const struct tl_event *ev, uint8_t kind, uint64_t number)
{
	struct optrace_line *l;
	int r = add_line(t, ev, kind, &l);

	l->number = number;
	return r;
}

/* --- threads ------------------------------------------------------------------------------------------ */

static struct optrace_thread *get_thread(struct optrace *t, uint32_t tid, int *ret_err)
{
	int is_new;
	uint32_t idx = numbering__get(&t->tids, tid, &is_new);

	*ret_err = 0;
	if (idx >= OPTRACE_THREADS)
		return NULL;
	if (!t->threads[idx])
		t->threads[idx] = calloc(1, sizeof(*t->threads[idx]));
	if (!t->threads[idx])
		*ret_err = -ENOMEM;
	return t->threads[idx];
}

/* Operators with `depth` and more frames under them are over. What they made, the one around them made as well. */
static void settle(struct optrace *t, struct optrace_thread *th, unsigned depth)
{
	while (th->cnt && th->open[th->cnt - 1].depth >= depth) {
		const struct open_op *o = &th->open[--th->cnt];
		struct optrace_line *l = line_at(t, o->at);
		struct optrace_line *around = th->cnt ? line_at(t, th->open[th->cnt - 1].at) : NULL;

		th->nodes -= o->is_node;
		if (!l)
			continue;
		if (l->is_open)
			put_values(t, l);
		if (around)
			around->created += l->created;
	}
}

static uint8_t phase_of(const struct optrace_thread *th)
{
	return th->nodes ? PHASE_BACKWARD : th->optimizers ? PHASE_OPTIMIZER : PHASE_FORWARD;
}

/* --- steps and their parts ------------------------------------------------------------------------------ */

static int enter_part(struct optrace *t, const struct tl_event *ev, uint8_t phase)
{
	if (phase == PHASE_BACKWARD && (t->part != PART_BACKWARD || t->forward_again)) {
		t->part = PART_BACKWARD;
		t->forward_again = 0;
		return add_mark(t, ev, OPTRACE_FW_BW_BOUNDARY, 0);
	}
	if (phase != PHASE_FORWARD)
		return 0;
	t->forward_again = t->part == PART_BACKWARD;
	if (t->part != PART_BEFORE)
		return 0;
	t->part = PART_FORWARD;
	return add_mark(t, ev, OPTRACE_FW_START, 0);
}

static int step(struct optrace *t, const struct tl_event *ev, int is_mark)
{
	if (!is_mark && t->has_marks)
		return 0;
	t->has_marks |= (uint8_t)is_mark;
	t->part = PART_BEFORE;
	return add_mark(t, ev, OPTRACE_STEP, is_mark ? ev->ptr : ++t->steps);
}

/* --- decisions ------------------------------------------------------------------------------------------- */

static int on_op(struct optrace *t, struct optrace_thread *th, const struct tl_event *ev)
{
	int is_node = ev->op.v == ev->region.v, r;
	struct optrace_line *l;
	uint8_t phase;

	if (th->cnt == DEPTH_MAX) {
		t->left_out++;
		return 0;
	}
	th->nodes += (uint32_t)is_node;
	phase = phase_of(th);
	r = enter_part(t, ev, phase);
	r = r ? r : add_line(t, ev, is_node ? OPTRACE_NODE : OPTRACE_OP, &l);
	if (r)
		return r;
	l->name = ev->op;
	l->phase = phase;
	l->is_open = 1;
	for (uint32_t i = 0; i < th->cnt; i++)
		l->depth += !th->open[i].is_node;
	th->open[th->cnt++] = (struct open_op){ .at = t->next - 1, .depth = ev->depth, .is_node = (uint8_t)is_node };
	t->ops += !is_node;
	return 0;
}

static int on_region(struct optrace *t, struct optrace_thread *th, const struct tl_event *ev)
{
	int is_end = ev->kind == TL_REGION_END;
	int is_optimizer = !strncmp(names__get(t->to->names, ev->region), STEP_PREFIX, strlen(STEP_PREFIX));
	struct optrace_line *l;
	int r = add_line(t, ev, is_end ? OPTRACE_REGION_END : OPTRACE_REGION, &l);

	l->name = ev->region;
	l->phase = phase_of(th);
	if (!is_optimizer)
		return r;
	if (!is_end)
		th->optimizers++;
	else if (th->optimizers)
		th->optimizers--;
	return r || !is_end || th->optimizers ? r : step(t, ev, 0);
}

static int on_memory(struct optrace *t, const struct optrace_thread *th, const struct tl_event *ev)
{
	struct optrace_line *l = th && th->cnt ? line_at(t, th->open[th->cnt - 1].at) : NULL;
	struct live_change ch;
	int r = live__event(t->live, ev, &ch);

	if (r <= 0)
		return r;
	if (ch.to == CAT_MAX) {
		t->now -= ch.b->size < t->now ? ch.b->size : t->now;
	} else if (ch.from == CAT_MAX && ev->kind == TL_CREATE) { /* what was met is counted already */
		t->now += ch.b->size;
		if (l)
			l->created += ch.b->size;
	}
	return 0;
}

/* Which of a thread's operators are over is told by what tells how deep it is now. */
static int tells_depth(const struct tl_event *ev)
{
	return ev->kind == TL_OP || ev->kind == TL_REGION || ev->kind == TL_REGION_END || ev->kind == TL_CREATE ||
	       ev->kind == TL_DESTROY || ev->kind == TL_OOM;
}

static int apply(struct optrace *t, struct optrace_thread *th, const struct tl_event *ev)
{
	int is_ours = ev->dev == t->dev;

	switch (ev->kind) {
	case TL_OP:
		return th ? on_op(t, th, ev) : 0;
	case TL_REGION:
	case TL_REGION_END:
		return th ? on_region(t, th, ev) : 0;
	case TL_STEP:
		return step(t, ev, 1);
	case TL_TOTALS:
		if (!is_ours)
			return 0;
		t->has_totals = 1;
		t->allocated = ev->ptr;
		t->reserved = ev->size;
		return 0;
	default:
		return is_ours ? on_memory(t, th, ev) : 0;
	}
}

int optrace__event(struct optrace *t, const struct tl_event *ev)
{
	struct optrace_thread *th;
	int r;

	if (ev->pid != t->pid || ev->kind == TL_NODE)
		return 0;
	th = get_thread(t, ev->tid, &r);
	if (r)
		return r;
	t->left_out += !th && ev->kind == TL_OP;
	if (th && tells_depth(ev))
		settle(t, th, ev->depth);
	r = apply(t, th, ev);
	return r ? r : tell_ready(t);
}

int optrace__end(struct optrace *t)
{
	for (uint32_t i = 0; i < OPTRACE_THREADS; i++)
		if (t->threads[i])
			settle(t, t->threads[i], 0);
	return tell_ready(t);
}
