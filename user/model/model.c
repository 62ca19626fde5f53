/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One switch over the kinds of events. The frequent ones (OP, ALLOC, FREE) touch: the thread (that of
 * the event before, nearly always), one record of the block table, one cell of each tally, the
 * device and the process; no allocation, no division, no search. Measured by tests/bench/bench_model.
 *
 * Nothing here fails on an event's contents. An impossible one (a device that does not exist) is counted
 * as a loss; an odd one (a second allocation, a free without allocation) has its own counter.
 * Late events of an exited process are ignored: its memory is gone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/regions.h"
#include "model/flow/flow.h"
#include "model/segments/gpu.h"
#include "model/model_blocks.h"
#include "model/model_compiles.h"
#include "model/model_gpu.h"
#include "model/model_learned.h"
#include "model/model_modules.h"
#include "model/model_oom.h"
#include "model/model_saved.h"
#include "model/model_steps.h"
#include "model/model_tensors.h"
#include "model/state.h"

struct model *model__new(const struct names *names, const struct model_opts *opts)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->names = names;
	m->timeline = opts ? opts->timeline : NULL;
	m->timeline_ctx = opts ? opts->timeline_ctx : NULL;
	m->timeline_ops = opts ? opts->timeline_ops : 0;
	m->timeline_nodes = opts && opts->timeline && opts->timeline_nodes;
	m->scans = SCANS_START;
	m->classes = opts ? opts->classes : CLASSES_COMPAT;
	m->learns_nothing = opts && opts->learns_nothing;
	m->was_freed = opts ? opts->was_freed : NULL;
	m->was_freed_ctx = opts ? opts->was_freed_ctx : NULL;
	procs__init(&m->procs, 0, 0);
	places__init(&m->places);
	caught__init(&m->caught);
	m->blocks = blocks__new(opts ? opts->blocks_max : 0);
	m->threads = threads__new(0);
	if (!m->blocks || !m->threads || tally__init(&m->ops) < 0 || tally__init(&m->regions) < 0 ||
	    stackset__init(&m->stacks) < 0 || modules__init(&m->modules) < 0) {
		model__free(m);
		return NULL;
	}
	return m;
}

void model__free(struct model *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < m->devs_cnt; i++)
		device__free(m->devs[i]);
	graph__free(m->graph);
	gpu__free(m->gpu);
	free(m->ooms);
	reported__done(&m->reported);
	model__levels_done(m);
	sampled__done(&m->steps_made);
	free(m->kinds);
	carried__done(&m->carried);
	growth__done(&m->growth);
	compiles__done(&m->compiles);
	caught__done(&m->caught);
	tensors__done(&m->tensors);
	freed__done(&m->freed);
	tally__done(&m->ops);
	tally__done(&m->regions);
	places__done(&m->places);
	stackset__done(&m->stacks);
	modules__done(&m->modules);
	op_modules__done(&m->op_modules);
	procs__done(&m->procs);
	learned__free(m->learned);
	threads__free(m->threads);
	blocks__free(m->blocks);
	free(m);
}

/* --- refusals -------------------------------------------------------------------------------------- */

static void model__oom(struct model *m, const struct event *ev)
{
	struct device *d = model__device(m, ev->dev);
	struct thread *t = d ? model__thread(m, ev) : NULL;
	struct attribution a;
	struct tl_event tl;

	if (!t)
		return;
	a = thread__attribute(t, ev);
	m->lost[MT_LOSS_FRAME] += a.lost;
	d->ooms++;
	d->oom_bytes_last = ev->size;
	model__oom_refused(m, ev, t, &a);
	tl = model__tl_of(m, ev, TL_OOM);
	tl.size = ev->size;
	tl.op = m->ops.rows[a.op].name;
	tl.region = m->regions.rows[a.region].name;
	model__tell(m, &tl);
}

/* --- stacks ---------------------------------------------------------------------------------------- */

static void model__stack(struct model *m, const struct event *ev)
{
	struct tl_event tl = { .ts_ns = m->now_ns, .kind = TL_STACK, .node = ev->seq, .parent = ev->size, .function = ev->name,
			       .file = { (uint32_t)ev->addr }, .line = ev->aux, .frame_kind = ev->flags };

	if (ev->seq && ev->seq <= m->stacks.defs_cnt)
		return; /* reported again, for a recording that began later */
	if (stackset__define(&m->stacks, ev))
		model__tell(m, &tl);
	else
		m->lost[MT_LOSS_STACKS]++;
}

static void model__stack_at(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);

	if (!t)
		return;
	t->stack = stackset__has(&m->stacks, ev->size) ? (uint32_t)ev->size : 0;
	t->stack_ptr = ev->addr;
	m->lost[MT_LOSS_STACKS] += !t->stack;
}

static void model__caught(struct model *m, const struct event *ev)
{
	if (stackset__has(&m->stacks, ev->size)) /* else its frames were lost: no loss of the trace's */
		caught__reported(&m->caught, ev);
}

static void model__handle_stack(struct model *m, const struct event *ev)
{
	if (ev->kind == EV_STACK)
		model__stack(m, ev);
	else if (ev->kind == EV_STACK_AT)
		model__stack_at(m, ev);
	else
		model__caught(m, ev);
}

static void model__tag(struct model *m, const struct event *ev)
{
	const struct block *b = blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	struct tl_event tl = model__tl_of(m, ev, TL_TAG);

	tl.ptr = ev->addr;
	tl.size = b ? b->size : TL_SIZE_UNKNOWN;
	tl.id = b ? b->id : 0;
	tl.op = b ? m->ops.rows[b->op].name : NAME_NONE;
	tl.cat = b ? (uint8_t)b->cat : CAT_UNKNOWN;
	tl.region = ev->name;
	model__tell(m, &tl);
}

/* --- frames, regions ------------------------------------------------------------------------ */

static void model__tell_frame(struct model *m, struct thread *t, const struct event *ev)
{
	struct event inside = *ev;
	struct tl_event tl = model__tl_of(m, ev, TL_OP);
	struct attribution a;

	inside.depth = ev->depth < UINT8_MAX ? (uint8_t)(ev->depth + 1) : UINT8_MAX;
	a = thread__attribute(t, &inside);
	tl.op = ev->name;
	tl.region = m->regions.rows[a.region].name;
	tl.phase = (uint8_t)model__phase_of_op(t, thread__in_node(t, &inside));
	model__tell(m, &tl);
}

/* evaluate_function and the apply() in it are one entry of one node. */
static bool model__counted(const struct thread *t, const struct event *ev, uint32_t row)
{
	const struct frame *under = ev->depth && ev->depth <= t->depth ? &t->frames[ev->depth - 1] : NULL;

	return ev->kind != MT_EV_NODE && under && under->kind == MT_EV_NODE && under->row == row;
}

/* A dispatch mode of Python's, or a subclass, calls the operator that it was given again, by its handle: that is one call. */
static bool model__is_again(const struct thread *t, const struct event *ev, uint32_t row)
{
	const struct frame *under = ev->depth && ev->depth <= t->depth ? &t->frames[ev->depth - 1] : NULL;

	return ev->kind == MT_EV_OP && (ev->flags & MT_OP_BY_HASH) && under && under->kind == MT_EV_OP && under->row == row;
}

static void model__reported_cover(struct model *m, const struct event *ev)
{
	const char *source = names__get(m->names, ev->name);
	struct proc *p = procs__find(&m->procs, ev->pid);
	bool is_flow = !strcmp(source, "flow");

	reported__handle(&m->reported, ev);
	m->flow_covered |= ev->size && is_flow;
	if (!p || !p->listed || !ev->size)
		return;
	p->covered |= is_flow ? COVERED_TENSORS : !strcmp(source, "framework") ? COVERED_MEMORY : 0;
	if (p->covered != COVERED_BOTH || p->covered_ns)
		return;
	p->covered_ns = m->now_ns;
	freed__begin(&m->freed);
}

/* APPLY and ACC: nodes, where a block's operator and region are looked up. */
static void model__apply(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);
	uint32_t row;

	if (!t)
		return;
	row = tally__row(&m->regions, ev->name, true);
	if (model__is_blind(m, ev->pid)) {
		thread__enter(t, ev, row);
		return;
	}
	m->regions.rows[row].count += !model__counted(t, ev, row);
	model__has_graph(m, t, ev);
	thread__enter(t, ev, row);
	if (m->graph)
		graph__frame(m->graph, t, ev);
}

static inline void model__frame(struct model *m, const struct event *ev)
{
	bool is_node = ev->kind == MT_EV_NODE;
	struct tally *tally = is_node ? &m->regions : &m->ops;
	struct thread *t = model__thread(m, ev);
	uint32_t row;
	bool again;

	if (!t)
		return;
	row = tally__row(tally, ev->name, is_node);
	if (__builtin_expect(m->levels.cnt && model__is_blind(m, ev->pid), 0)) {
		thread__enter(t, ev, row);
		return;
	}
	again = model__is_again(t, ev, row);
	tally->rows[row].count += !again;
	thread__enter(t, ev, row);
	if (is_node) {
		model__phase_node(m, t);
		model__saved_node(m, t);
	} else if (!ev->depth) {
		model__saved_outside(m, t);
	}
	if (m->graph || (m->flow_covered && model__has_graph(m, t, ev)))
		graph__frame(m->graph, t, ev);
	if (m->timeline && m->timeline_ops && !again)
		model__tell_frame(m, t, ev);
}

static void model__arg(struct model *m, const struct event *ev)
{
	struct thread *t = model__thread(m, ev);
	struct block *b;

	if (!t || (m->levels.cnt && model__is_blind(m, ev->pid)) || !model__has_graph(m, t, ev))
		return;
	m->scans += SCANS_ARG;
	if (!graph__takes(m->graph, t, ev))
		return;
	b = model__begin_late(m, ev);
	if (b && !b->tracked)
		model__learned_measured(m, b, t->proc);
	graph__arg(m->graph, t, ev, b);
	if (b && t->proc->saved && t->proc->saved->now)
		model__saved_read(m, t, ev, b);
}

static void model__region(struct model *m, const struct event *ev)
{
	bool begin = ev->kind == MT_EV_REGION_BEGIN;
	struct thread *t = model__thread(m, ev);
	struct tl_event tl;
	enum phase before;
	uint32_t row;

	if (!t)
		return;
	if (begin) {
		row = tally__row(&m->regions, ev->name, false);
		m->regions.rows[row].count++;
		t->proc->regions_begun++;
		thread__region_begin(t, ev, row);
		model__step_region(m, ev, t->proc);
		model__boundary_region(m, ev, t->proc);
	} else {
		row = thread__region_end(t, ev);
	}
	before = model__phase_of_op(t, thread__in_node(t, ev));
	model__phase_region(m, t, ev, begin);
	if (m->graph) {
		thread__settle(t, ev->depth, 0);
		graph__region(m->graph, t, ev);
	}
	if (!m->timeline || !m->timeline_ops)
		return;
	tl = model__tl_of(m, ev, begin ? TL_REGION : TL_REGION_END);
	tl.region = begin ? ev->name : m->regions.rows[row].name;
	tl.phase = (uint8_t)(begin ? model__phase_of_op(t, thread__in_node(t, ev)) : before);
	model__tell(m, &tl);
}

/* --- one event ------------------------------------------------------------------------------------- */

static void model__start(struct model *m, uint64_t ts_ns)
{
	m->started = true;
	m->start_ts_ns = m->now_ns = ts_ns;
	series_acc__init(&m->rss, ts_ns);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		series_acc__init(&m->rss_kinds[i], ts_ns);
	series_acc__init(&m->pss, ts_ns);
	series_acc__init(&m->huge, ts_ns);
}

/* Events read from a process's Python. */
static void model__read(struct model *m, const struct event *ev)
{
	switch (ev->kind) {
	case EV_TENSOR_OF:
		model__tensor_of(m, ev);
		break;
	case EV_TENSOR:
		model__tensor(m, ev);
		break;
	case EV_MODULE:
		model__module(m, ev);
		break;
	case EV_HELD:
		growth__held(m, ev);
		break;
	case EV_STEPS:
		model__step_count(m, ev);
		break;
	case EV_AFTER:
		model__after(m, ev);
		break;
	case EV_STAYED:
		model__stayed(m, ev);
		break;
	default:
		model__compiled(m, ev);
	}
}

static void model__place(struct model *m, const struct event *ev)
{
	if (places__reported(&m->places, &m->ops, ev) && m->graph)
		graph__placed(m->graph, ev->name, places__made(&m->places, ev->name));
}

static void model__handle_rare(struct model *m, const struct event *ev)
{
	switch (ev->kind) {
	case MT_EV_SAVED:
		if (ev->addr && ev->size && !model__is_blind(m, ev->pid))
			model__saved_by_node(m, ev, model__begin_late(m, ev));
		break;
	case MT_EV_SEG_ALLOC:
	case MT_EV_SEG_FREE:
	case MT_EV_SEG_MAP:
	case MT_EV_SEG_UNMAP:
	case MT_EV_SEG_FAIL:
	case MT_EV_SEG_RESET:
	case MT_EV_SEG_TRIM:
	case MT_EV_SEG_COMM:
	case MT_EV_SEG_GRAPH:
	case MT_EV_SEG_POOL:
	case MT_EV_TOTALS:
	case MT_EV_REQUEST:
	case MT_EV_REQUEST_FREE:
	case MT_EV_STREAM:
	case EV_NVML:
	case EV_COUNTERS:
		model__handle_gpu(m, ev);
		break;
	case MT_EV_OOM_VICTIM:
		model__oom_victim(m, ev);
		break;
	case EV_WAS:
	case EV_WAS_FLOW:
	case EV_WAS_MODULE:
		model__was(m, ev);
		break;
	case EV_TENSOR_OF:
	case EV_TENSOR:
	case EV_MODULE:
	case EV_HELD:
	case EV_COMPILED:
	case EV_STEPS: case EV_AFTER:
	case EV_STAYED:
		model__read(m, ev);
		break;
	case EV_MODULE_AT:
		model__module_at(m, ev);
		break;
	case EV_PLACE:
		model__place(m, ev);
		break;
	case EV_OOM_KILL:
		model__oom_kills(m, ev);
		break;
	case EV_STACK:
	case EV_STACK_AT:
	case EV_CAUGHT:
		model__handle_stack(m, ev);
		break;
	case EV_MACHINE: /* ranks.c */
		break;
	default:
		m->lost[MT_LOSS_DECODE]++;
	}
}

/* Without the regions of optimizers their state has to be found by another rule (flow_rules.c). */
static void model__reported_site(struct model *m, const struct event *ev)
{
	struct proc *p = ev->size ? procs__find(&m->procs, ev->pid) : NULL;

	if (!p)
		return;
	p->has_flow |= ev->aux == MT_PROG_FLOW_ACC;
	p->has_regions |= ev->aux == MT_PROG_REGION_BEGIN || ev->aux == MT_PROG_FLOW_BOXED;
}

int model__handle(void *model, const struct event *ev)
{
	struct model *m = model;

	if (__builtin_expect(!m->started, 0))
		model__start(m, ev->ts_ns);
	if (ev->ts_ns > m->now_ns)
		m->now_ns = ev->ts_ns;
	m->events[ev->kind]++;
	m->timeline_err = 0;
	switch (ev->kind) {
	case MT_EV_OP:
	case MT_EV_NODE:
	case MT_EV_OP_BEGIN:
		model__frame(m, ev);
		break;
	case MT_EV_ALLOC:
		(void)model__give(m, ev, FROM_ALLOCATOR);
		break;
	case MT_EV_FREE:
		model__take(m, ev);
		break;
	case MT_EV_APPLY:
	case MT_EV_ACC:
		model__apply(m, ev);
		break;
	case EV_ARG:
		model__arg(m, ev);
		break;
	case MT_EV_OP_END: /* the next event has its own depth */
	case EV_TICK:
		break;
	case MT_EV_REGION_BEGIN:
	case MT_EV_REGION_END:
		model__region(m, ev);
		break;
	case MT_EV_OOM:
		model__oom(m, ev);
		break;
	case MT_EV_STEP:
		model__step(m, ev);
		break;
	case MT_EV_TAG:
		model__tag(m, ev);
		break;
	case EV_BEGIN:
	case EV_NOTE:
	case EV_COST:
	case EV_LOSS:
	case EV_SELF:
	case EV_FIRED:
	case EV_IDLE:
	case EV_LATE_OP:
		model__paid_read(m, ev);
		reported__handle(&m->reported, ev);
		break;
	case EV_LEVEL: case EV_PAUSE:
		model__level(m, ev);
		break;
	case EV_ATTACH:
		model__attach(m, ev);
		break;
	case EV_SITE:
		reported__handle(&m->reported, ev);
		model__reported_site(m, ev);
		break;
	case EV_COVER:
		model__reported_cover(m, ev);
		break;
	case EV_END:
		reported__handle(&m->reported, ev);
		if (m->graph)
			graph__finish(m->graph);
		break;
	case MT_EV_MMAP:
	case MT_EV_MUNMAP:
	case MT_EV_BRK:
	case MT_EV_RSS:
	case MT_EV_EXIT:
	case EV_PROC:
	case EV_COMM:
	case EV_GONE:
	case EV_LABEL:
	case EV_CPU:
	case EV_USE:
		model__handle_proc(m, ev);
		break;
	default:
		model__handle_rare(m, ev);
	}
	return m->timeline_err;
}

struct model_live model__live(const struct model *m)
{
	struct model_live live = { 0 };

	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct device *d = m->devs[i];

		*(dev_is_host(d->dev) ? &live.host : d->dev == MT_DEV_CPU ? &live.cpu : &live.gpu) += d->live;
	}
	return live;
}

int model__peak(const struct model *m, unsigned n, uint8_t *ret_dev, uint64_t *ret_peak)
{
	if (n >= m->devs_cnt)
		return 0;
	*ret_dev = m->devs[n]->dev;
	*ret_peak = m->devs[n]->peak;
	return 1;
}

int model__end(struct model *m)
{
	m->timeline_err = 0;
	if (m->graph && m->timeline_nodes && !m->ended)
		graph__end(m->graph);
	m->ended = true;
	return m->timeline_err;
}
