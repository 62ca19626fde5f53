/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Recompiles are reported up to seconds late, so live bytes at their start, and what they added, are looked up in recent
 * history (lately.h). That is of all threads of the process: while one compiles another may allocate.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event/packed.h"
#include "model/model_compiles.h"
#include "base/array.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

/* The number that its mark will have. */
static uint64_t step_of(const struct proc *p)
{
	return p->has_steps ? p->step_number : (p->steps ? p->steps + 1 : 0);
}

void model__lately_turn(struct model *m, struct proc *p)
{
	if (p->lately)
		lately__turn(p->lately, m->now_ns, p->fw.live, step_of(p));
	else if (p->listed)
		p->lately = lately__new(m->now_ns, p->fw.live);
}

/* Not where a part of it was not traced. */
static bool find_bytes(struct model *m, struct proc *p, uint64_t begin_ns, uint64_t end_ns, struct lately_at *ret)
{
	if (!p || !p->lately || begin_ns < m->start_ts_ns || end_ns < begin_ns ||
	    gaps__clock(&m->gaps, end_ns) - gaps__clock(&m->gaps, begin_ns) != end_ns - begin_ns)
		return false;
	model__lately_until(m, p);
	return lately__at(p->lately, begin_ns, end_ns, ret);
}

void model__compiled(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);
	uint64_t begin_ns = event_began_ns(ev);
	const struct compiled *k;
	struct lately_at at;
	bool knows = find_bytes(m, p, begin_ns, begin_ns + ev->took_ns, &at);
	struct tl_event tl = model__tl_of(m, ev, TL_COMPILED);

	k = compiles__reported(&m->compiles, m->names, ev, m->start_ts_ns, knows ? &at : NULL);
	if (!k)
		return;
	tl.tid = 0;
	tl.begin_ns = begin_ns;
	tl.took_ns = ev->took_ns;
	tl.added = knows ? at.peak - at.live : TL_SIZE_UNKNOWN;
	tl.step = knows && at.step < UINT32_MAX ? (uint32_t)at.step : 0;
	tl.function = k->function;
	tl.reason = ev->name;
	tl.compile_id = ev->root;
	tl.failed = ev->type;
	tl.compiled = ev->flags;
	model__tell(m, &tl);
}

/* --- the report ----------------------------------------------------------------------------------------------- */

static char *copy(const struct model *m, name_id name)
{
	return strdup(names__get(m->names, name));
}

static int fill(struct report_recompile *r, const struct model *m, const struct compiled *k)
{
	*r = (struct report_recompile){
		.ts_ns = k->begin_ns, .ns = k->ns, .own_ns = k->own_ns, .step = k->step, .live = k->live,
		.added = k->added, .pid = k->pid,
		.knows_bytes = k->knows_bytes, .before = k->before, .id = copy(m, k->id), .function = copy(m, k->function),
		.reason = copy(m, k->reason), .failed = copy(m, k->failed),
	};
	return r->id && r->function && r->reason && r->failed ? 0 : -ENOMEM;
}

static struct report_recompile_why *why_of(struct report_compiles *r, const struct report_recompile *row)
{
	for (size_t i = 0; i < r->whys_cnt; i++)
		if (recompile_is_alike(r->whys[i].last, row))
			return &r->whys[i];
	return &r->whys[r->whys_cnt++];
}

static void add_why(struct report_compiles *r, const struct report_recompile *row)
{
	struct report_recompile_why *w = why_of(r, row);

	w->varies |= w->last && strcmp(w->last->reason, row->reason) != 0;
	w->last = row;
	w->cnt++;
	if (row->before)
		return;
	if (__builtin_add_overflow(w->ns, row->ns, &w->ns))
		w->ns = UINT64_MAX;
	w->added = row->added > w->added ? row->added : w->added;
}

static int by_cnt(const void *pa, const void *pb)
{
	const struct report_recompile_why *a = pa, *b = pb;

	return cmp_down(a->cnt, b->cnt) ?: cmp_down(a->ns, b->ns) ?: cmp_up(a->last, b->last);
}

int model__report_compiles(const struct model *m, struct report_compiles *r)
{
	const struct compiles *c = &m->compiles;
	uint64_t first = c->cnt > COMPILES_MAX ? c->cnt - COMPILES_MAX : 0;
	int err = 0;

	*r = (struct report_compiles){ .cnt = c->cnt, .cnt_before = c->cnt_before, .ns = c->ns,
				       .again = c->again, .again_ns = c->again_ns, .added = c->added,
				       .again_before = c->again_before, .missed = c->missed };
	r->rows = calloc((size_t)(c->cnt - first) + 1, sizeof(*r->rows));
	r->whys = calloc((size_t)(c->cnt - first) + 1, sizeof(*r->whys));
	if (!r->rows || !r->whys)
		return -ENOMEM;
	for (uint64_t i = first; i < c->cnt && !err; i++)
		if (c->v[i % COMPILES_MAX].again)
			err = fill(&r->rows[r->rows_cnt++], m, &c->v[i % COMPILES_MAX]);
	for (size_t i = 0; i < r->rows_cnt && !err; i++)
		add_why(r, &r->rows[i]);
	if (r->whys_cnt)
		qsort(r->whys, r->whys_cnt, sizeof(*r->whys), by_cnt);
	return err;
}
