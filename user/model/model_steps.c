/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/model_steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/regions.h"
#include "model/flow/flow.h"
#include "model/model_levels.h"
#include "model/model_modules.h"
#include "model/state.h"

/* NULL: no memory, or a process that was launched, forked or execed under trace: it is traced from its first step on. */
static struct price *proc__price(struct proc *p)
{
	if (p->how != EV_PROC_ATTACHED)
		return NULL;
	if (!p->price)
		p->price = calloc(1, sizeof(*p->price));
	return p->price;
}

static void model__step_took(struct model *m, struct proc *p, uint64_t took_ns)
{
	struct price *price = m->levels.cnt ? NULL : proc__price(p);

	standstill__step(&p->standstill, &m->attach, took_ns);
	if (price)
		price__step(price, took_ns, m->now_ns);
}

static void model__boundary(struct model *m, struct proc *p, enum growth_kind kind)
{
	const struct growth_clock before = p->clock;
	bool is_next;

	growth_clock__step(&p->clock, kind, m->last_id, m->now_ns);
	if (p->clock.era == before.era && p->clock.steps == before.steps)
		return;
	is_next = p->clock.era == before.era && p->clock.kind == before.kind && before.steps && !p->is_step_cut;
	if (p->clock.era != before.era || p->is_step_cut)
		p->count = (struct step_count){ 0 };
	p->is_step_cut = false;
	if (is_next)
		model__step_took(m, p, m->now_ns - before.last_ns);
	if (m->levels.cnt)
		model__level_step(m, p, is_next ? m->now_ns - before.last_ns : 0);
	if (p->clock.era == before.era && model__sees_growth(m, p->pid, true))
		growth_clock__count(&p->clock, m->last_id);
}

void model__attach(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);
	struct price *price;

	if (!p)
		return;
	standstill__attach(&p->standstill, &m->attach, ev);
	if (p->is_being_set && !(ev->flags & EV_ATTACH_BEGINS) && !p->set_ts_ns) {
		p->set_ts_ns = m->now_ns;
		growth_clock__anew(&p->clock, m->last_id, m->now_ns);
	}
	p->is_being_set = ev->flags & EV_ATTACH_BEGINS;
	price = proc__price(p);
	if (price)
		price__attach(price, ev->flags & EV_ATTACH_BEGINS);
}

void model__step(struct model *m, const struct event *ev)
{
	struct tl_event tl = model__tl_of(m, ev, TL_STEP);
	struct proc *p = procs__find(&m->procs, ev->pid);

	m->steps++;
	if (p) {
		model__boundary(m, p, GROWTH_BY_MARK);
		model__phase_step(m, ev, p);
	}
	if (m->graph)
		graph__step(m->graph, ev->pid);
	tl.ptr = ev->addr;
	model__tell(m, &tl);
}

uint64_t model__steps_of(const struct model *m, uint32_t pid)
{
	const struct proc *p = procs__find((struct procs *)&m->procs, pid);

	return p && p->clock.kind > GROWTH_BY_TIME ? p->clock.steps + 1 : 0;
}

unsigned model__trains(const struct model *m, uint32_t pid)
{
	const struct proc *p = procs__find((struct procs *)&m->procs, pid);

	return (p && p->has_node ? MODEL_TRAINS_BACKWARD : 0) | (model__steps_of(m, pid) ? MODEL_TRAINS_STEPS : 0);
}

/*
 * A reading between a step()'s begin, which is the boundary, and its counting is one too low: an offset counts once two
 * readings in a row have it.
 */
void model__step_count(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);
	int64_t off;

	if (!p || p->clock.kind == GROWTH_BY_TIME || ev->size > INT64_MAX / 2) /* sums with it fit, too */
		return;
	off = (int64_t)(ev->size - (p->clock.steps + 1));
	if (p->count.is_seen && p->count.seen == off) {
		p->count.off = off;
		p->count.is_known = true;
	}
	p->count.seen = off;
	p->count.is_seen = true;
}

uint64_t model__step_no(const struct model *m, uint32_t pid)
{
	const struct proc *p = procs__find((struct procs *)&m->procs, pid);

	return p ? proc__step_no(p) : 0;
}

static bool is_profiler_mark(const char *region)
{
	return !strncmp(region, PROFILER_STEP, strlen(PROFILER_STEP));
}

/* Regions that are marks themselves: torch.profiler's, whose name has the number, and tools/python's. */
static bool is_mark(const char *region)
{
	return is_profiler_mark(region) || !strcmp(region, "memtrace.step");
}

void model__step_region(struct model *m, const struct event *ev, struct proc *p)
{
	const char *name = names__get(m->names, ev->name);
	struct event mark = *ev;

	if (!is_mark(name))
		return;
	mark.addr = is_profiler_mark(name) ? strtoull(name + strlen(PROFILER_STEP), NULL, 10) : ++p->step_regions;
	model__step(m, &mark);
}

/* zero_grad() may come before the first step(): where a second one does without it, the optimizer is compiled. */
void model__boundary_region(struct model *m, const struct event *ev, struct proc *p)
{
	const char *name = names__get(m->names, ev->name);
	bool clears = region_is_clearing(name) && !p->has_step_regions && p->clearings++;

	if (region_is_step(name) || clears)
		model__boundary(m, p, clears ? GROWTH_BY_CLEARING : GROWTH_BY_OPTIMIZER);
}

/* --- after the trace ------------------------------------------------------------------------------------- */

void model__after(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);
	struct price *price = p && !m->levels.cnt ? proc__price(p) : NULL;

	if (price)
		price__after(price, ev->size);
}

bool model__has_price(const struct model *m, uint32_t pid)
{
	const struct proc *p = procs__find((struct procs *)&m->procs, pid);

	return p && p->price && price__has_traced(p->price) && !m->levels.cnt;
}

bool model__is_boundary(const struct model *m, const struct event *ev)
{
	const struct proc *p = procs__find((struct procs *)&m->procs, ev->pid);
	const char *name = names__get(m->names, ev->name);

	if (!p || (ev->kind != MT_EV_STEP && ev->kind != MT_EV_REGION_BEGIN))
		return false;
	switch ((enum growth_kind)p->clock.kind) {
	case GROWTH_BY_MARK:
		return ev->kind == MT_EV_STEP || is_mark(name);
	case GROWTH_BY_OPTIMIZER:
		return ev->kind == MT_EV_REGION_BEGIN && region_is_step(name);
	case GROWTH_BY_CLEARING:
		return ev->kind == MT_EV_REGION_BEGIN && region_is_clearing(name);
	case GROWTH_BY_TIME:
		break;
	}
	return false;
}
