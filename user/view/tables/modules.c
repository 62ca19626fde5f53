/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "view/report_words.h"
#include "view/tables/marks.h"

enum { WHOLE = 1, OF_PHASE = 2 };

/* --- JSON ----------------------------------------------------------------------------------------------------- */

static const struct column sum_columns[] = {
	{ "live", NULL, COL_BYTES, OF(report_module_sum, live) },
	{ "live_count", NULL, COL_COUNT, OF(report_module_sum, live_count) },
	{ "at_peak", NULL, COL_BYTES, OF(report_module_sum, at_peak) },
	{ "saved", NULL, COL_BYTES, OF(report_module_sum, saved) },
	{ "recomputable", NULL, COL_BYTES, OF(report_module_sum, recomputable) },
	{ "alloc_bytes", NULL, COL_BYTES, OF(report_module_sum, alloc_bytes) },
	{ "alloc_count", NULL, COL_COUNT, OF(report_module_sum, alloc_count) },
};

static void put_sum(struct json *j, const char *key, const struct report_module_sum *s)
{
	static const struct table fields = TABLE(sum_columns);
	const struct drawn d = drawn_as(AS_JSON, NULL);

	json__begin_flat(j, key, '{');
	table__fields(j, &fields, &d, s);
	json__begin(j, "phases", '{');
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		if (!s->by_phase_count[i] && !s->by_phase_live[i])
			continue;
		json__begin(j, phase_name((enum phase)i), '{');
		json__u64(j, "alloc_bytes", s->by_phase_bytes[i]);
		json__u64(j, "alloc_count", s->by_phase_count[i]);
		json__u64(j, "live", s->by_phase_live[i]);
		json__end(j, '}');
	}
	json__end(j, '}');
	json__end(j, '}');
}

/* --- a row a module ------------------------------------------------------------------------------------------- */

/* Of a module that no look at the job's Python has found. */
static const char *no_name(const struct drawn *d)
{
	return d->r->run.is_live ? "(no name yet)" : "(no name)";
}

/* "Net.layers.0.linear1": path behind its root's label. */
static void path(struct cell *c, const void *row)
{
	const struct report_module *m = row;

	if (m->name)
		cell__say(c, "%s%s%s", m->root, m->name[0] ? "." : "", m->name);
	else
		c->text = no_name(c->d);
}

/* Indented: one level of the tree is two blanks. */
static void place(struct cell *c, const void *row)
{
	const struct report_module *m = row;
	const char *last = m->name ? strrchr(m->name, '.') : NULL;
	int has_class = m->name && m->name[0] && m->class[0];

	cell__say(c, "%*s%s%s%s%s", (int)(2 * (m->depth < 20 ? m->depth : 20)), "",
		  !m->name ? no_name(c->d) : !m->name[0] ? m->root : last ? last + 1 : m->name, has_class ? " (" : "",
		  has_class ? m->class : "", has_class ? ")" : "");
}

/* Of JSON: its place in the list + 1 is what the row is drawn with; 0: none. */
static void put_parent(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)row;
	if (d->index)
		json__u64(j, key, d->index - 1);
	else
		json__null(j, key);
}

static void put_own(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)d;
	put_sum(j, key, &((const struct report_module *)row)->own);
}

static void put_all(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	(void)d;
	put_sum(j, key, &((const struct report_module *)row)->all);
}

static int has_several(const struct drawn *d)
{
	for (size_t i = 1; i < d->r->modules.cnt; i++)
		if (d->r->modules.rows[i].pid != d->r->modules.rows[0].pid)
			return 1;
	return 0;
}

static void whose(struct cell *c, const void *row)
{
	c->text = proc_words(c->buf, sizeof(c->buf), c->d->r, ((const struct report_module *)row)->pid);
}

#define OF_KIND(kind) OF(report_module, kinds[EV_TENSOR_##kind]), .only = WHOLE

static const struct column columns[] = {
	{ "name", NULL, COL_TEXT, OF(report_module, name), OR_NULL_IF_NOT(report_module, name) },
	{ NULL, "module", COL_TEXT, VIA(path), .is_path = 1, TUI(1, 20, .wide = 1) },
	{ NULL, "module (class)", COL_TEXT, VIA(place), TEXT(1, 24, .wide = 1) },
	{ NULL, "process", COL_TEXT, VIA(whose), .shown_if = has_several, TEXT(2, 8, .gap = 2), TUI(12, 8, .stays = 1) },
	{ "root", NULL, COL_OR_NULL, OF(report_module, root) },
	{ "class", "class", COL_OR_NULL, OF(report_module, class), TUI(2, 16, 110) },
	{ "pid", NULL, COL_NUMBER, OF(report_module, pid) },
	{ "depth", NULL, COL_NUMBER, OF(report_module, depth) },
	{ "parent", NULL, .json = put_parent },
	{ "calls", NULL, COL_COUNT, OF(report_module, calls) },
	{ "parameter", "parameter", COL_BYTES, OF_KIND(PARAMETER), TEXT(3, 10), TUI(6, 9),
	  .shown_if = drawn_at_end },
	{ "buffer", "buffer", COL_BYTES, OF_KIND(BUFFER), TEXT(4, 10) },
	{ "gradient", "gradient", COL_BYTES, OF_KIND(GRADIENT), TEXT(5, 10), TUI(7, 9, 90),
	  .shown_if = drawn_at_end },
	{ "optimizer_state", "state", COL_BYTES, OF_KIND(STATE), TEXT(6, 10), TUI(8, 9, 90),
	  .shown_if = drawn_at_end },
	{ "activation", "activation", COL_BYTES, OF(report_module, activation), .only = WHOLE, TEXT(7, 11), TUI(3, 11),
	  .shown_if = drawn_at_end },
	{ "activation_live", NULL, COL_BYTES, OF(report_module, activation_live) },
	{ NULL, "at peak", COL_BYTES, OF(report_module, all.at_peak), .shown_if = drawn_at_end, TUI(4, 9) },
	{ NULL, "itself", COL_BYTES, OF(report_module, own.at_peak), .shown_if = drawn_at_end, TUI(5, 9) },
	{ NULL, "then", COL_BYTES, OF(report_module, all.live), .shown_if = drawn_then, TUI(3, 9) },
	{ NULL, "itself", COL_BYTES, OF(report_module, own.live), .shown_if = drawn_then, TUI(4, 9) },
	{ NULL, "activation", COL_BYTES, OF(report_module, activation_live), .shown_if = drawn_then, TUI(5, 11) },
	{ NULL, "parameter", COL_BYTES, OF(report_module, kinds_live[EV_TENSOR_PARAMETER]), .shown_if = drawn_then, TUI(6, 9) },
	{ NULL, "gradient", COL_BYTES, OF(report_module, kinds_live[EV_TENSOR_GRADIENT]), .shown_if = drawn_then,
	  TUI(7, 9, 90) },
	{ NULL, "state", COL_BYTES, OF(report_module, kinds_live[EV_TENSOR_STATE]), .shown_if = drawn_then, TUI(8, 9, 90) },
	{ "input", "input", COL_BYTES, OF(report_module, input), .only = WHOLE, TEXT(8, 10) },
	{ "output", "output", COL_BYTES, OF(report_module, output), .only = WHOLE, TEXT(9, 10) },
	{ "peak_forward", "in forward", COL_BYTES, OF(report_module, peak_forward), .only = WHOLE, TEXT(10, 11),
	  .shown_if = drawn_at_end, TUI(9, 12, 120, .head = "peak forward") },
	{ "peak_backward", "in backward", COL_BYTES, OF(report_module, peak_backward), .only = WHOLE, TEXT(11, 12),
	  .shown_if = drawn_at_end, TUI(10, 13, 120, .head = "peak backward") },
	{ NULL, "own", COL_BYTES, ELEMENT(report_module, own.by_phase_bytes), .only = OF_PHASE, TEXT(3, 11) },
	{ NULL, "in all", COL_BYTES, ELEMENT(report_module, all.by_phase_bytes), .only = OF_PHASE, TEXT(4, 11) },
	{ NULL, "blocks", COL_COUNT, ELEMENT(report_module, all.by_phase_count), .only = OF_PHASE, TEXT(5, 9) },
	{ NULL, "alive", COL_BYTES, ELEMENT(report_module, all.by_phase_live), .only = OF_PHASE, TEXT(6, 11) },
	{ "own", NULL, .json = put_own },
	{ "all", NULL, .json = put_all },
};

const struct table module_table = TABLE(columns, .is_sparse = 1, .variant = WHOLE);
const struct table of_phase_table = TABLE(columns, .is_sparse = 1, .variant = OF_PHASE);

static int has_phases(const struct report *r)
{
	for (unsigned i = PHASE_OTHER + 1; i < PHASE_MAX; i++)
		if (r->modules.phases[i].entries)
			return 1;
	return r->marks.total != 0;
}

static void phase(struct cell *c, const void *row)
{
	c->text = phase_name((enum phase)((const struct report_phase *)row - c->d->r->modules.phases));
}

static const struct column phase_columns[] = {
	{ "phase", "phase", COL_TEXT, VIA(phase), TEXT(1, 12) },
	{ "entries", "entered", COL_COUNT, OF(report_phase, entries), TEXT(2, 9) },
	{ "ns", "time", COL_NS, OF(report_phase, ns), TEXT(3, 11) },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_phase, alloc_bytes), TEXT(4, 11) },
	{ "alloc_count", "blocks", COL_COUNT, OF(report_phase, alloc_count), TEXT(5, 9) },
	{ "live", NULL, COL_BYTES, OF(report_phase, live) },
	{ "peak", "peak", COL_BYTES, OF(report_phase, peak), TEXT(6, 10) },
};

static const struct table phase_table = TABLE(phase_columns, .is_sparse = 1);

static void put_phases(struct json *j, const struct report *r)
{
	struct drawn d = drawn_as(AS_JSON, r);

	json__begin(j, "phases", '{');
	table__list(j, "list", &phase_table, &d, r->modules.phases, PHASE_MAX, sizeof(r->modules.phases[0]));
	marks_json(j, r);
	json__end(j, '}');
}

static uint64_t weight(const struct report_module *m)
{
	uint64_t w = m->activation + m->all.alloc_bytes;

	for (unsigned k = 1; k < EV_TENSOR_MAX; k++)
		w += m->kinds[k];
	return w;
}

/* By bytes at the peak, as in the summary; then by weight. */
static int cmp(const struct report_module *a, const struct report_module *b)
{
	return cmp_down(a->all.at_peak, b->all.at_peak) ?: cmp_down(weight(a), weight(b));
}

static int by_weight(const void *pa, const void *pb)
{
	return cmp(*(const struct report_module *const *)pa, *(const struct report_module *const *)pb);
}

/* The `top` heaviest, in the order of the tree. A module weighs as much as those in it and comes first: it is included. */
static void put_list(struct json *j, const struct report *r, size_t top)
{
	const struct report_module **all = calloc(r->modules.cnt + 1, sizeof(*all)), *least = NULL;
	uint32_t *places = calloc(r->modules.cnt + 1, sizeof(*places)), shown = 0;
	struct drawn d = drawn_as(AS_JSON, r);

	json__begin(j, "list", '[');
	for (size_t i = 0; all && i < r->modules.cnt; i++)
		all[i] = &r->modules.rows[i];
	if (all && r->modules.cnt > top) {
		qsort(all, r->modules.cnt, sizeof(*all), by_weight);
		least = all[top - 1];
	}
	for (size_t i = 0; all && places && i < r->modules.cnt && shown < top; i++) {
		const struct report_module *m = &r->modules.rows[i];

		if ((least && cmp(m, least) > 0) || (m->parent && !places[m->parent - 1]))
			continue;
		places[i] = ++shown;
		d.index = m->parent ? places[m->parent - 1] : 0;
		json__begin(j, NULL, '{');
		table__fields(j, &module_table, &d, m);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__u64(j, "total", r->modules.cnt);
	free(places);
	free(all);
}

/* --- a row an operator with its module ------------------------------------------------------------------------ */

static uint64_t op_bytes(const struct report_op_module *o, unsigned phase)
{
	return phase ? o->by_phase[phase - 1] : o->alloc_bytes;
}

static void op(struct cell *c, const void *row)
{
	const struct report_op_module *o = row;

	c->text = c->d->as == AS_JSON || o->op[0] ? o->op : "(none)";
}

static void module(struct cell *c, const void *row)
{
	const struct report_op_module *o = row;

	c->text = o->module;
	if (c->d->as == AS_TEXT)
		cell__say(c, "%s%s%s", o->root ? o->root : o->has_module ? no_name(c->d) : "-",
			  o->module && o->module[0] ? "." : "", o->module ? o->module : "");
}

static void put_by_phase(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	const struct report_op_module *o = row;

	(void)d;
	json__begin(j, key, '{');
	for (unsigned i = 0; i < PHASE_MAX; i++)
		if (o->by_phase[i])
			json__u64(j, phase_name((enum phase)i), o->by_phase[i]);
	json__end(j, '}');
}

static const struct column op_columns[] = {
	{ "op", "operator", COL_OR_NULL, VIA(op), TEXT(6, 12, .wide = 2, .gap = 2) },
	{ "module", "module", COL_TEXT, VIA(module), OR_NULL_IF_NOT(report_op_module, module), .is_path = 1,
	  TEXT(7, 16, .wide = 3, .gap = 2) },
	{ "module_root", NULL, COL_TEXT, OF(report_op_module, root), OR_NULL_IF_NOT(report_op_module, root) },
	{ "pid", NULL, COL_NUMBER, OF(report_op_module, pid), IF(report_op_module, has_module) },
	{ NULL, "in phase", COL_BYTES, ELEMENT(report_op_module, by_phase), .only = OF_PHASE, TEXT(1, 9) },
	{ NULL, "in all", COL_BYTES, OF(report_op_module, alloc_bytes), .only = OF_PHASE, TEXT(2, 11) },
	{ "alloc_bytes", "allocated", COL_BYTES, OF(report_op_module, alloc_bytes), .only = WHOLE, TEXT(1, 9) },
	{ "alloc_count", "blocks", COL_COUNT, OF(report_op_module, alloc_count), .only = WHOLE, TEXT(2, 9) },
	{ NULL, "forward", COL_BYTES, OF(report_op_module, by_phase[PHASE_FORWARD]), .only = WHOLE, TEXT(3, 10) },
	{ NULL, "backward", COL_BYTES, OF(report_op_module, by_phase[PHASE_BACKWARD]), .only = WHOLE, TEXT(4, 10) },
	{ "phases", NULL, .json = put_by_phase },
};

static const struct table op_module_table = TABLE(op_columns, .is_sparse = 1, .variant = WHOLE);
static const struct table phase_op_table = TABLE(op_columns, .is_sparse = 1, .variant = OF_PHASE);

static void put_ops(struct json *j, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_JSON, r);

	table__list(j, "ops", &op_module_table, &d, r->modules.ops, r->modules.ops_cnt < top ? r->modules.ops_cnt : top,
		    sizeof(*r->modules.ops));
	json__u64(j, "ops_total", r->modules.ops_cnt);
	json__u64(j, "ops_rest_bytes", r->modules.ops_rest);
}

void modules_json(struct json *j, const struct report *r, size_t top)
{
	if (r->modules.cnt) {
		json__begin(j, "modules", '{');
		put_list(j, r, top && top < MODULES_SHOWN ? top : MODULES_SHOWN);
		put_ops(j, r, top ? top : SIZE_MAX);
		put_sum(j, "none", &r->modules.none);
		json__end(j, '}');
	}
	if (has_phases(r))
		put_phases(j, r);
}

/* --- text ----------------------------------------------------------------------------------------------------- */

static int is_shown(const struct report_module *m, const struct view_opts *opts)
{
	if (opts->depth && m->depth >= opts->depth)
		return 0;
	return !opts->phase ? weight(m) != 0 : m->all.by_phase_count[opts->phase - 1] != 0;
}

/* Below 0: a is above b. */
static int cmp_of(const void *pa, const void *pb, void *phase)
{
	const struct report_module *a = *(const struct report_module *const *)pa, *b = *(const struct report_module *const *)pb;
	unsigned k = *(unsigned *)phase;
	uint64_t x = k ? a->all.by_phase_bytes[k - 1] : 0, y = k ? b->all.by_phase_bytes[k - 1] : 0;

	return k ? cmp_down(x, y) : cmp(a, b);
}

/* The last module that is among the `top`, NULL: all are. Those above stay in the order of the tree. */
static const struct report_module *least_of(const struct report *r, const struct view_opts *opts, size_t *ret_cnt)
{
	const struct report_module **all = calloc(r->modules.cnt + 1, sizeof(*all)), *least = NULL;
	unsigned phase = opts->phase;
	size_t cnt = 0;

	for (size_t i = 0; all && i < r->modules.cnt; i++)
		if (is_shown(&r->modules.rows[i], opts))
			all[cnt++] = &r->modules.rows[i];
	if (all && cnt > opts->top) {
		qsort_r(all, cnt, sizeof(*all), cmp_of, &phase);
		least = all[opts->top - 1];
	}
	free(all);
	*ret_cnt = cnt;
	return least;
}

static void put_modules(struct page *p, const struct report *r, const struct view_opts *opts)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;
	size_t cnt, shown = 0;
	const struct report_module *least = least_of(r, opts, &cnt);
	unsigned phase = opts->phase;

	d.index = opts->phase ? opts->phase - 1 : 0;
	table_lines__begin(&l, p, opts->phase ? &of_phase_table : &module_table, &d);
	for (size_t i = 0; i < r->modules.cnt && shown < opts->top; i++) {
		const struct report_module *m = &r->modules.rows[i];

		if (!is_shown(m, opts) || (least && cmp_of(&m, &least, &phase) > 0))
			continue;
		shown++;
		table_lines__row(&l, m);
	}
	page__more(p, shown, cnt, "modules (--top, --depth, --json)");
}

static int by_op_bytes(const void *pa, const void *pb, void *phase)
{
	const struct report_op_module *a = *(const struct report_op_module *const *)pa;
	const struct report_op_module *b = *(const struct report_op_module *const *)pb;
	unsigned k = *(const unsigned *)phase;

	return cmp_down(op_bytes(a, k), op_bytes(b, k)) ?: cmp_up(a, b);
}

/* Operators with the module that called them, heaviest first: of all phases, or of one. */
static void put_op_modules(struct page *p, const struct report *r, const struct view_opts *opts)
{
	const struct report_op_module **rows = calloc(r->modules.ops_cnt + 1, sizeof(*rows));
	struct drawn d = drawn_as(AS_TEXT, r);
	unsigned phase = opts->phase;
	struct table_lines l;
	size_t cnt = 0, shown = 0;

	for (size_t i = 0; rows && i < r->modules.ops_cnt; i++)
		if (op_bytes(&r->modules.ops[i], phase))
			rows[cnt++] = &r->modules.ops[i];
	if (rows)
		qsort_r(rows, cnt, sizeof(*rows), by_op_bytes, &phase);
	page__heading(p, phase ? "Operators by bytes allocated in that phase, with their module" :
				 "Operators by allocated bytes, with their module");
	d.index = opts->phase ? opts->phase - 1 : 0;
	table_lines__begin(&l, p, phase ? &phase_op_table : &op_module_table, &d);
	for (; shown < cnt && shown < opts->top; shown++)
		table_lines__row(&l, rows[shown]);
	free(rows);
	page__more(p, shown, cnt, "(--top, --json)");
}

static void put_phase_table(struct page *p, const struct report *r)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	page__heading(p, "Phases");
	table_lines__begin(&l, p, &phase_table, &d);
	for (unsigned i = 0; i < PHASE_MAX; i++)
		if (r->modules.phases[i].entries || r->modules.phases[i].alloc_count)
			table_lines__row(&l, &r->modules.phases[i]);
}

static void put_none(struct page *p, const struct report_module_sum *s, unsigned phase)
{
	uint64_t bytes = phase ? s->by_phase_bytes[phase - 1] : s->alloc_bytes;
	uint64_t blocks = phase ? s->by_phase_count[phase - 1] : s->alloc_count;
	char text[24], cnt[24];

	if (!bytes)
		return;
	page__line(p, "  allocated in no module: %s in %s blocks", fmt_bytes(text, bytes), fmt_count(cnt, (double)blocks));
}

/* --- in short ------------------------------------------------------------------------------------------------- */

static const struct column summary_columns[] = {
	{ NULL, "module", COL_TEXT, VIA(path), .is_path = 1, TEXT(1, 24, .wide = 1) },
	{ NULL, "process", COL_TEXT, VIA(whose), .shown_if = has_several, TEXT(2, 8, .gap = 2) },
	{ NULL, "at peak", COL_BYTES, OF(report_module, all.at_peak), .is_bold = 1, TEXT(3, 11) },
	{ NULL, "of peak", COL_SHARE, OF(report_module, all.at_peak), TEXT(4, 9) },
	{ NULL, "of that itself", COL_BYTES, OF(report_module, own.at_peak), TEXT(5, 16) },
	{ NULL, "kept for backward", COL_BYTES, OF(report_module, all.saved), TEXT(6, 19) },
	{ NULL, "recomputation saves", COL_BYTES, OF(report_module, all.recomputable), TEXT(7, 21) },
};

static int by_peak(const void *pa, const void *pb)
{
	const struct report_module *a = *(const struct report_module *const *)pa, *b = *(const struct report_module *const *)pb;

	return cmp_down(a->all.at_peak, b->all.at_peak) ?: cmp_down(a->all.saved, b->all.saved) ?: cmp_up(a, b);
}

const struct table module_summary_table = TABLE(summary_columns, .is_sparse = 1);

const struct report_module **modules_of_peak(const struct report *r, size_t *ret_cnt)
{
	const struct report_module **rows = calloc(r->modules.cnt + 1, sizeof(*rows));
	size_t cnt = 0;

	for (size_t i = 0; rows && i < r->modules.cnt; i++)
		if (r->modules.rows[i].all.at_peak || r->modules.rows[i].all.saved)
			rows[cnt++] = &r->modules.rows[i];
	if (cnt)
		qsort(rows, cnt, sizeof(*rows), by_peak);
	*ret_cnt = cnt;
	return rows;
}

void modules_summary(struct page *p, const struct report *r, size_t top)
{
	size_t cnt;
	const struct report_module **rows = modules_of_peak(r, &cnt);
	struct drawn d = drawn_as(AS_TEXT, r);
	struct table_lines l;

	if (cnt) {
		page__heading(p, "Modules, by their part of the peak, with all that is in them");
		d.whole = report_peak_sum(r);
		table_lines__begin(&l, p, &module_summary_table, &d);
		for (size_t i = 0; i < cnt && i < top; i++)
			table_lines__row(&l, rows[i]);
		page__more(p, cnt < top ? cnt : top, cnt, "modules (--by module)");
	}
	free(rows);
}

void modules_text(struct page *p, const struct report *r, const struct view_opts *opts)
{
	if (r->modules.cnt) {
		page__heading(p, !opts->phase ? "Modules" : "Modules, what was allocated in them in that phase");
		put_modules(p, r, opts);
		put_none(p, &r->modules.none, opts->phase);
		put_op_modules(p, r, opts);
	} else {
		page__end_line(p);
		page__flow(p, 0, "No module is known: no Python that can be read, or none that was called (docs/modules.md).");
	}
	if (has_phases(r))
		put_phase_table(p, r);
	marks_text(p, r, opts->top);
}
