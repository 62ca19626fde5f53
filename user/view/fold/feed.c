/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/feed.h"

#include <errno.h>
#include <stdlib.h>

#include "timeline/report.h"
#include "view/export.h"
#include "view/fold/numbering.h"

#define STEP_PROCS_MAX 4096 /* further processes have no steps */

struct feed_steps {
	uint64_t begin_ts_ns, number;
	uint32_t pid;
	int has_marks;
};

struct feed {
	const struct export_to *to;
	const struct feed_ops *ops;
	struct export_ctx *c;
	struct live *live;
	struct stacks *stacks;
	struct numbering procs, threads;
	struct feed_steps *steps; /* by number of the process */
	uint64_t last_ts_ns, gap_ns, seen_ns; /* gap_ns: begin of the one that is open, or 0; seen until then */
};

static uint32_t feed__process(struct feed *f, uint32_t pid, uint64_t ts_ns)
{
	int is_new;
	uint32_t idx = numbering__get(&f->procs, pid, &is_new);

	if (is_new) {
		if (f->ops->process)
			f->ops->process(f->c, pid);
		if (idx < STEP_PROCS_MAX)
			f->steps[idx].begin_ts_ns = ts_ns;
	}
	return idx;
}

static uint32_t feed__thread(struct feed *f, uint32_t pid, uint32_t tid)
{
	int is_new;
	uint32_t idx = numbering__get(&f->threads, (uint64_t)pid << 32 | tid, &is_new);

	if (is_new && f->ops->thread)
		f->ops->thread(f->c, pid, tid, idx);
	return idx;
}

static void feed__mark(struct feed *f, const struct tl_event *ev)
{
	uint32_t idx = feed__process(f, ev->pid, ev->ts_ns);
	struct feed_steps *s = &f->steps[idx];

	if (!ev->version || ev->version >= MARK_MAX)
		return;
	if (f->ops->mark)
		f->ops->mark(f->c, ev);
	if (ev->version != MARK_STEP || idx >= STEP_PROCS_MAX)
		return;
	f->ops->step(f->c, ev->pid, ev->ptr, s->begin_ts_ns, ev->ts_ns);
	s->begin_ts_ns = ev->ts_ns;
}

/* A step mark is a step's beginning; the time before the first one is no step. */
static void feed__step(struct feed *f, const struct tl_event *ev)
{
	uint32_t idx = feed__process(f, ev->pid, ev->ts_ns);

	if (idx < STEP_PROCS_MAX)
		f->steps[idx] = (struct feed_steps){ .begin_ts_ns = ev->ts_ns, .number = ev->ptr, .pid = ev->pid,
						     .has_marks = 1 };
}

static int feed__wants(const struct feed *f, const struct stack_node *n)
{
	return n->kind != STACK_OP || f->to->ops;
}

static int on_begin(void *ctx, const struct tl_event *ev, const struct stack_node *n)
{
	struct feed *f = ctx;
	uint32_t number;

	if (!feed__wants(f, n))
		return 0;
	number = feed__thread(f, ev->pid, ev->tid);
	if (f->ops->begin)
		f->ops->begin(f->c, number, n, ev->ts_ns);
	return 0;
}

/* An operator's slice without a length. */
static void feed__generated(struct feed *f, const struct tl_event *ev)
{
	const struct stack_node n = { .value = ev->op.v, .kind = STACK_OP };
	struct open_frame frame = { .ts_ns = ev->ts_ns, .kind = OPEN_OP,
				    .made = { ev->size, ev->module, ev->root, ev->phase, 1 } };
	uint32_t number = feed__thread(f, ev->pid, ev->tid);

	if (f->ops->begin)
		f->ops->begin(f->c, number, &n, ev->ts_ns);
	f->ops->end(f->c, ev->pid, ev->tid, number, &n, &frame, ev->ts_ns);
}

static int on_end(void *ctx, uint32_t pid, uint32_t tid, const struct stack_node *n, const struct open_frame *e,
		  uint64_t ts_ns)
{
	struct feed *f = ctx;

	if (feed__wants(f, n))
		f->ops->end(f->c, pid, tid, feed__thread(f, pid, tid), n, e, ts_ns);
	return 0;
}

int feed__new(struct feed **ret, const struct export_to *to, const struct feed_ops *ops, struct export_ctx *c)
{
	struct feed *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->to = to;
	f->ops = ops;
	f->c = c;
	f->live = live__new(to->labels);
	f->stacks = stacks__new(&(struct stacks_opts){ .begin = on_begin, .end = on_end, .ctx = f });
	f->steps = calloc(STEP_PROCS_MAX, sizeof(*f->steps));
	if (!f->live || !f->stacks || !f->steps) {
		feed__free(f);
		return -ENOMEM;
	}
	*ret = f;
	return 0;
}

void feed__free(struct feed *f)
{
	if (!f)
		return;
	live__free(f->live);
	stacks__free(f->stacks);
	numbering__done(&f->procs);
	numbering__done(&f->threads);
	free(f->steps);
	free(f);
}

static void feed__show(struct feed *f, bool learned, uint64_t ts_ns)
{
	live__show(f->live, learned);
	for (size_t i = 0; f->ops->again && i < live__lanes(f->live); i++)
		f->ops->again(f->c, live__lane(f->live, i), ts_ns);
}

static void feed__put_gap(struct feed *f, uint64_t ts_ns)
{
	uint64_t seen_ns = f->seen_ns < ts_ns ? f->seen_ns : ts_ns;

	if (!f->gap_ns || !f->ops->gap)
		return;
	if (seen_ns > f->gap_ns)
		f->ops->gap(f->c, "only allocations traced", f->gap_ns, seen_ns);
	if (ts_ns > seen_ns)
		f->ops->gap(f->c, "not traced", seen_ns, ts_ns);
}

static void feed__gap_end(struct feed *f, uint64_t ts_ns)
{
	feed__put_gap(f, ts_ns);
	f->gap_ns = 0;
	feed__show(f, false, ts_ns);
}

static void feed__gap(struct feed *f, const struct tl_event *ev)
{
	if (ev->ts_ns > f->last_ts_ns)
		f->last_ts_ns = ev->ts_ns;
	if (!ev->version) {
		feed__gap_end(f, ev->ts_ns);
		return;
	}
	f->gap_ns = ev->ts_ns;
	f->seen_ns = f->to->report ? report_gap_seen_ns(f->to->report, ev->ts_ns) : ev->ts_ns;
	if (f->seen_ns > f->gap_ns)
		feed__show(f, true, ev->ts_ns);
}

/* A change as lanes show it: with what was learned, while allocations are seen in a gap. 0: there is nothing to show. */
static int feed__shows(const struct feed *f, struct live_change *ch, uint64_t ts_ns)
{
	if (f->gap_ns && f->ops->again) {
		if (f->seen_ns <= f->gap_ns || ts_ns >= f->seen_ns)
			return 0;
		ch->from = ch->gap_from;
		ch->to = ch->gap_to;
	}
	return ch->from != ch->to && ch->b->size;
}

int feed__event(struct feed *f, const struct tl_event *ev)
{
	struct live_change ch;
	int r;

	if (ev->kind == TL_GAP)
		feed__gap(f, ev);
	/* reported steps later, or of no process */
	if (ev->kind == TL_NODE || ev->kind == TL_FINAL || ev->kind == TL_LEARNED || ev->kind == TL_GAP ||
	    ev->kind == TL_PINNED || ev->kind == TL_MODULE)
		return 0;
	if (ev->ts_ns > f->last_ts_ns)
		f->last_ts_ns = ev->ts_ns;
	feed__process(f, ev->pid, ev->ts_ns);
	if (ev->kind == TL_COMPILED) {
		if (f->ops->compiled)
			f->ops->compiled(f->c, ev);
		return 0;
	}
	stacks__event(f->stacks, ev);
	if (f->to->ops && is_line_of_generated(ev, f->to->names))
		feed__generated(f, ev);
	if (ev->kind == TL_STEP)
		feed__step(f, ev);
	else if (ev->kind == TL_MARK)
		feed__mark(f, ev);
	if (ev->kind == TL_OOM && (f->to->dev < 0 || ev->dev == f->to->dev))
		f->ops->oom(f->c, ev);
	if (f->to->dev >= 0 && ev->dev != f->to->dev)
		return 0;
	r = live__event(f->live, ev, &ch);
	if (r > 0 && ch.is_new_lane && f->ops->lane)
		f->ops->lane(f->c, ch.lane);
	if (r > 0 && feed__shows(f, &ch, ev->ts_ns))
		f->ops->counter(f->c, ch.lane, &ch, ev->ts_ns);
	return r < 0 ? r : 0;
}

void feed__end(struct feed *f)
{
	stacks__end(f->stacks, f->last_ts_ns);
	feed__put_gap(f, f->last_ts_ns);
	for (uint32_t i = 0; i < STEP_PROCS_MAX && i < f->procs.cnt; i++)
		if (f->steps[i].has_marks)
			f->ops->step(f->c, f->steps[i].pid, f->steps[i].number, f->steps[i].begin_ts_ns, f->last_ts_ns);
}
