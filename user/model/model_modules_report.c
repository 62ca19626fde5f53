/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The report of modules, their operators, and phases (model_modules.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/model_saved.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

struct ranked_module {
	uint32_t row, parent; /* parent: place in the list + 1 */
};

static void add_sum(struct report_module_sum *to, const struct report_module_sum *from)
{
	to->alloc_count += from->alloc_count;
	to->alloc_bytes += from->alloc_bytes;
	to->live_count += from->live_count;
	to->live += from->live;
	to->at_peak += from->at_peak;
	to->saved += from->saved;
	to->recomputable += from->recomputable;
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		to->by_phase_count[i] += from->by_phase_count[i];
		to->by_phase_bytes[i] += from->by_phase_bytes[i];
		to->by_phase_live[i] += from->by_phase_live[i];
	}
}

/* A block that no module made belongs to the module that holds it by name. */
static void add_held(const struct model *m, uint32_t row, struct report_module_sum *ret)
{
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct tally_cell *c = row < m->modules.held.devs[i].cnt ? &m->modules.held.devs[i].cells[row] : NULL;
		uint64_t live, peak;

		if (!c || dev_is_host(m->devs[i]->dev))
			continue;
		live = cell__live_of(c, device__hides(m->devs[i]));
		peak = cell__at_peak(c, m->devs[i]->epoch);
		ret->live_count += row ? c->live_count : -c->live_count;
		ret->live += row ? live : -live;
		ret->at_peak += row ? peak : -peak;
	}
}

static void own_sum(const struct model *m, uint32_t row, struct report_module_sum *ret)
{
	const struct tally *t = &m->modules.tally;
	const struct module_row *r = &m->modules.rows[row];

	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct tally_cell *c = row < t->devs[i].cnt ? &t->devs[i].cells[row] : NULL;

		if (!c || dev_is_host(m->devs[i]->dev))
			continue;
		ret->alloc_count += c->alloc_count;
		ret->alloc_bytes += c->alloc_bytes;
		ret->live_count += c->live_count;
		ret->live += cell__live_of(c, device__hides(m->devs[i]));
		ret->at_peak += cell__at_peak(c, m->devs[i]->epoch);
	}
	add_held(m, row, ret);
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		ret->by_phase_count[i] = r->phases[i].alloc_count;
		ret->by_phase_bytes[i] = r->phases[i].alloc_bytes;
		ret->by_phase_live[i] = r->phases[i].live;
	}
}

static int fill(const struct model *m, uint32_t row, uint32_t parent, uint32_t depth, struct report_module *ret)
{
	const struct module_row *r = &m->modules.rows[row];

	*ret = (struct report_module){
		.pid = r->pid, .parent = parent, .depth = depth, .row = row, .calls = r->calls, .activation = r->made.peak,
		.activation_live = r->made.live, .input = r->in.most, .output = r->out.most, .peak_forward = r->peak_forward,
		.peak_backward = r->peak_backward, .name = r->reported ? strdup(names__get(m->names, r->path)) : NULL,
		.root = strdup(names__get(m->names, r->root)), .class = strdup(names__get(m->names, r->class)),
	};
	own_sum(m, row, &ret->own);
	for (unsigned k = 0; k < EV_TENSOR_MAX; k++) {
		ret->kinds[k] = r->kinds[k].peak;
		ret->kinds_live[k] = r->kinds[k].live;
	}
	return ret->root && ret->class && (ret->name || !r->reported) ? 0 : -ENOMEM;
}

/* Children by parent, in the order of named_modules(); rows come with the first allocation. */
struct family {
	uint32_t *first, *next; /* [row] */
	struct tree_place {
		uint64_t at_peak; /* with all that is in it */
		uint32_t turn, row;
	} *order;
	struct module_saved *saved; /* [row] */
};

/* Modules beside each other: what has most at the peak comes first, as a list is built from its end. Row 0 comes last. */
static int later(const void *pa, const void *pb)
{
	const struct tree_place *a = pa, *b = pb;

	return cmp_up(!a->row, !b->row) ?: cmp_up(a->at_peak, b->at_peak) ?: cmp_down(a->turn, b->turn) ?:
	       cmp_down(a->row, b->row);
}

static int family__init(struct family *f, const struct model *m)
{
	const struct modules *s = &m->modules;

	f->first = calloc(s->cnt, sizeof(*f->first));
	f->next = calloc(s->cnt, sizeof(*f->next));
	f->order = calloc(s->cnt, sizeof(*f->order));
	f->saved = model__saved_by_module(m);
	if (!f->first || !f->next || !f->order || !f->saved)
		return -ENOMEM;
	for (uint32_t row = 1; row < s->cnt; row++)
		f->order[row] = (struct tree_place){ .turn = s->rows[row].turn ? s->rows[row].turn : UINT32_MAX, .row = row };
	for (uint32_t row = 1; row < s->cnt; row++) {
		struct report_module_sum own = { 0 };
		unsigned deep = 0;

		own_sum(m, row, &own);
		for (uint32_t up = row; up && deep++ < MODULES_DEEP_MAX; up = s->rows[up].parent)
			f->order[up].at_peak += own.at_peak;
	}
	qsort(f->order, s->cnt, sizeof(*f->order), later);
	for (uint32_t i = 0; f->order[i].row; i++) {
		uint32_t row = f->order[i].row, parent = s->rows[row].parent;

		f->next[row] = f->first[parent];
		f->first[parent] = row;
	}
	return 0;
}

/* A module, then what is in it, and so on: rows never were in themselves. */
static int fill_all(const struct model *m, const struct family *f, struct report *r)
{
	struct {
		uint32_t row, at;
	} stack[MODULES_DEEP_MAX + 1] = { { f->first[0], 0 } };
	unsigned depth = 0;

	for (;;) {
		uint32_t row = stack[depth].row, at = (uint32_t)r->modules.cnt;

		if (!row) {
			if (!depth)
				return 0;
			depth--;
			continue;
		}
		stack[depth].row = f->next[row];
		if (fill(m, row, stack[depth].at, depth, &r->modules.rows[r->modules.cnt++]))
			return -ENOMEM;
		r->modules.rows[at].own.saved = f->saved[row].made;
		r->modules.rows[at].own.recomputable = f->saved[row].within;
		if (depth < MODULES_DEEP_MAX)
			stack[++depth] = (typeof(stack[0])){ f->first[row], at + 1 };
	}
}

static int report_steps(const struct modules *s, struct report *r)
{
	size_t cnt = s->steps_cnt < STEPS_MAX ? s->steps_cnt : STEPS_MAX;

	r->marks.steps = calloc(cnt ? cnt : 1, sizeof(*r->marks.steps));
	if (!r->marks.steps)
		return -ENOMEM;
	for (uint64_t i = s->steps ? s->steps_cnt - cnt : s->steps_cnt; i < s->steps_cnt; i++)
		r->marks.steps[r->marks.steps_cnt++] = s->steps[i % STEPS_MAX];
	return 0;
}

static int report_phases(const struct model *m, struct report *r)
{
	const struct modules *s = &m->modules;
	size_t cnt = s->marks_cnt < MARKS_MAX ? s->marks_cnt : MARKS_MAX;

	for (unsigned i = 0; i < PHASE_MAX; i++)
		r->modules.phases[i] = (struct report_phase){ .entries = s->phases[i].entries, .ns = s->phases[i].ns,
						      .alloc_count = s->phases[i].alloc_count,
						      .alloc_bytes = s->phases[i].alloc_bytes, .live = s->phases[i].live,
						      .peak = s->phases[i].peak };
	memcpy(r->marks.by_kind, s->marks_by_kind, sizeof(r->marks.by_kind));
	r->marks.total = s->marks_cnt;
	r->marks.rows = calloc(cnt ? cnt : 1, sizeof(*r->marks.rows));
	if (!r->marks.rows)
		return -ENOMEM;
	for (uint64_t i = s->marks ? s->marks_cnt - cnt : s->marks_cnt; i < s->marks_cnt; i++) {
		const struct report_mark *k = &s->marks[i % MARKS_MAX];

		r->marks.rows[r->marks.cnt++] = (struct report_mark){ k->at, k->number, k->pid, k->tid, k->kind };
	}
	return report_steps(s, r);
}

static int heavier(const void *pa, const void *pb)
{
	const struct op_module *a = pa, *b = pb;

	return cmp_down(a->alloc_bytes, b->alloc_bytes) ?: cmp_up(a->key, b->key);
}

static int fill_op(const struct model *m, const struct op_module *o, struct report_op_module *ret)
{
	const struct module_row *row = &m->modules.rows[op_module__module(o)];

	*ret = (struct report_op_module){
		.pid = row->pid, .alloc_count = o->alloc_count, .alloc_bytes = o->alloc_bytes,
		.op = strdup(names__get(m->names, m->ops.rows[op_module__op(o)].name)),
		.module = row->reported ? strdup(names__get(m->names, row->path)) : NULL,
		.root = row->reported ? strdup(names__get(m->names, row->root)) : NULL,
		.has_module = op_module__module(o) != 0,
	};
	memcpy(ret->by_phase, o->by_phase, sizeof(ret->by_phase));
	return ret->op && (!row->reported || (ret->module && ret->root)) ? 0 : -ENOMEM;
}

/* Rows of operators that are shown as another one are added to that: how many pairs are left. */
static size_t shown_pairs(const struct model *m, struct op_module *all)
{
	const struct op_modules *s = &m->op_modules;
	size_t n = 0, cnt = 0;

	for (uint32_t i = 0; s->slots && i < 2 * OP_MODULES_MAX; i++) {
		const struct op_module *o = &s->slots[i];

		if (!o->key)
			continue;
		all[n] = *o;
		all[n++].key = op_module__key(tally__shown(&m->ops, op_module__op(o)), op_module__module(o));
	}
	qsort(all, n, sizeof(*all), u64_cmp);
	for (size_t i = 0; i < n; i++) {
		if (cnt && all[cnt - 1].key == all[i].key)
			op_module__add(&all[cnt - 1], &all[i]);
		else
			all[cnt++] = all[i];
	}
	return cnt;
}

/* All of them: which are the heaviest depends on the view's phase. */
static int report_ops(const struct model *m, struct report *r)
{
	const struct op_modules *s = &m->op_modules;
	struct op_module *all = calloc(s->cnt + 1, sizeof(*all));
	size_t n;
	int err = 0;

	r->modules.ops = calloc(s->cnt + 1, sizeof(*r->modules.ops));
	r->modules.ops_rest = s->rest.alloc_bytes;
	if (!all || !r->modules.ops) {
		free(all);
		return -ENOMEM;
	}
	n = shown_pairs(m, all);
	qsort(all, n, sizeof(*all), heavier);
	while (!err && r->modules.ops_cnt < n) {
		err = fill_op(m, &all[r->modules.ops_cnt], &r->modules.ops[r->modules.ops_cnt]);
		r->modules.ops_cnt++;
	}
	free(all);
	return err;
}

int model__report_modules(const struct model *m, struct report *r)
{
	struct family f = { 0 };
	int err = family__init(&f, m);

	own_sum(m, 0, &r->modules.none);
	r->modules.none.saved = f.saved ? f.saved[0].made : 0;
	r->modules.rows = calloc(m->modules.cnt, sizeof(*r->modules.rows));
	err = err || !r->modules.rows ? -ENOMEM : fill_all(m, &f, r);
	for (size_t i = r->modules.cnt; i-- > 0;) { /* those in it come after it */
		struct report_module *row = &r->modules.rows[i];

		add_sum(&row->all, &row->own);
		if (row->parent)
			add_sum(&r->modules.rows[row->parent - 1].all, &row->all);
	}
	free(f.first);
	free(f.next);
	free(f.order);
	free(f.saved);
	err = err ? err : report_phases(m, r);
	return err ? err : report_ops(m, r);
}
