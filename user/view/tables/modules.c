/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/report_words.h"
#include "view/tables/marks.h"

const char *module_words(const struct report_module *m, char *buf, size_t size)
{
	if (!m->name)
		snprintf(buf, size, "(not told yet)");
	else
		snprintf(buf, size, "%s%s%s", m->root, m->name[0] ? "." : "", m->name);
	return buf;
}

/* --- JSON ----------------------------------------------------------------------------------------------------- */

static void put_sum(struct json *j, const char *key, const struct report_module_sum *s)
{
	json__begin_flat(j, key, '{');
	json__u64(j, "live", s->live);
	json__u64(j, "live_count", s->live_count);
	json__u64(j, "at_peak", s->at_peak);
	json__u64(j, "alloc_bytes", s->alloc_bytes);
	json__u64(j, "alloc_count", s->alloc_count);
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

/* parent: its place in the list + 1; 0: none */
static void put_module(struct json *j, const struct report_module *m, uint32_t parent)
{
	json__begin(j, NULL, '{');
	if (m->name)
		json__str(j, "name", m->name);
	else
		json__null(j, "name");
	json__str_or_null(j, "root", m->root);
	json__str_or_null(j, "class", m->class);
	json__u64(j, "pid", m->pid);
	json__u64(j, "depth", m->depth);
	if (parent)
		json__u64(j, "parent", parent - 1);
	else
		json__null(j, "parent");
	json__u64(j, "calls", m->calls);
	for (unsigned k = 1; k < EV_TENSOR_MAX; k++)
		json__u64(j, tensor_kind_key(k), m->kinds[k]);
	json__u64(j, "activation", m->activation);
	json__u64(j, "activation_live", m->activation_live);
	json__u64(j, "input", m->input);
	json__u64(j, "output", m->output);
	json__u64(j, "peak_forward", m->peak_forward);
	json__u64(j, "peak_backward", m->peak_backward);
	put_sum(j, "own", &m->own);
	put_sum(j, "all", &m->all);
	json__end(j, '}');
}

static int has_phases(const struct report *r)
{
	for (unsigned i = PHASE_OTHER + 1; i < PHASE_MAX; i++)
		if (r->phases[i].entries)
			return 1;
	return r->marks_total != 0;
}

static void put_phases(struct json *j, const struct report *r)
{
	json__begin(j, "phases", '{');
	json__begin(j, "list", '[');
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		const struct report_phase *p = &r->phases[i];

		json__begin_flat(j, NULL, '{');
		json__str(j, "phase", phase_name((enum phase)i));
		json__u64(j, "entries", p->entries);
		json__u64(j, "ns", p->ns);
		json__u64(j, "alloc_bytes", p->alloc_bytes);
		json__u64(j, "alloc_count", p->alloc_count);
		json__u64(j, "live", p->live);
		json__u64(j, "peak", p->peak);
		json__end(j, '}');
	}
	json__end(j, ']');
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

static int by_weight(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a == b ? 0 : a > b ? -1 : 1;
}

/* The `top` heaviest, in the order of the tree. A module is as heavy as what is in it, and comes first: it is there as well. */
static void put_list(struct json *j, const struct report *r, size_t top)
{
	uint64_t *all = calloc(r->modules_cnt + 1, sizeof(*all)), least = 0;
	uint32_t *places = calloc(r->modules_cnt + 1, sizeof(*places)), shown = 0;

	json__begin(j, "list", '[');
	for (size_t i = 0; all && i < r->modules_cnt; i++)
		all[i] = weight(&r->modules[i]);
	if (all && r->modules_cnt > top) {
		qsort(all, r->modules_cnt, sizeof(*all), by_weight);
		least = all[top - 1];
	}
	for (size_t i = 0; all && places && i < r->modules_cnt && shown < top; i++) {
		const struct report_module *m = &r->modules[i];

		if (weight(m) < least || (m->parent && !places[m->parent - 1]))
			continue;
		places[i] = ++shown;
		put_module(j, m, m->parent ? places[m->parent - 1] : 0);
	}
	json__end(j, ']');
	json__u64(j, "total", r->modules_cnt);
	free(places);
	free(all);
}

static void put_op(struct json *j, const struct report_op_module *o)
{
	json__begin_flat(j, NULL, '{');
	json__str_or_null(j, "op", o->op);
	if (o->module)
		json__str(j, "module", o->module);
	else
		json__null(j, "module");
	if (o->root)
		json__str(j, "module_root", o->root);
	else
		json__null(j, "module_root");
	if (o->has_module)
		json__u64(j, "pid", o->pid);
	json__u64(j, "alloc_bytes", o->alloc_bytes);
	json__u64(j, "alloc_count", o->alloc_count);
	json__begin(j, "phases", '{');
	for (unsigned i = 0; i < PHASE_MAX; i++)
		if (o->by_phase[i])
			json__u64(j, phase_name((enum phase)i), o->by_phase[i]);
	json__end(j, '}');
	json__end(j, '}');
}

static void put_ops(struct json *j, const struct report *r, size_t top)
{
	json__begin(j, "ops", '[');
	for (size_t i = 0; i < r->op_modules_cnt && i < top; i++)
		put_op(j, &r->op_modules[i]);
	json__end(j, ']');
	json__u64(j, "ops_total", r->op_modules_cnt);
	json__u64(j, "ops_rest_bytes", r->op_modules_rest);
}

void modules_json(struct json *j, const struct report *r, size_t top)
{
	if (r->modules_cnt) {
		json__begin(j, "modules", '{');
		put_list(j, r, top && top < MODULES_SHOWN ? top : MODULES_SHOWN);
		put_ops(j, r, top ? top : SIZE_MAX);
		put_sum(j, "none", &r->no_module);
		json__end(j, '}');
	}
	if (has_phases(r))
		put_phases(j, r);
}

/* --- text ----------------------------------------------------------------------------------------------------- */

static void put_bytes(struct page *p, uint64_t bytes, int cols)
{
	char text[24];

	page__cell(p, bytes ? fmt_bytes(text, bytes) : "-", cols);
}

static int is_shown(const struct report_module *m, const struct view_opts *opts)
{
	if (opts->depth && m->depth >= opts->depth)
		return 0;
	return !opts->phase ? weight(m) != 0 : m->all.by_phase_count[opts->phase - 1] != 0;
}

/* What is in it: one level of the tree is two blanks. */
static void put_who(struct page *p, const struct report_module *m, int cols)
{
	const char *last = m->name ? strrchr(m->name, '.') : NULL;
	char text[600];

	snprintf(text, sizeof(text), "%*s%s%s%s%s", (int)(2 * (m->depth < 20 ? m->depth : 20)), "",
		 !m->name ? "(not told yet)" : !m->name[0] ? m->root : last ? last + 1 : m->name,
		 m->name && m->name[0] && m->class[0] ? " (" : "", m->name && m->name[0] ? m->class : "",
		 m->name && m->name[0] && m->class[0] ? ")" : "");
	page__cell(p, text, cols);
}

static void put_row(struct page *p, const struct report_module *m, int cols)
{
	put_who(p, m, cols);
	for (unsigned k = 1; k < EV_TENSOR_MAX; k++)
		put_bytes(p, m->kinds[k], -10);
	put_bytes(p, m->activation, -11);
	put_bytes(p, m->input, -10);
	put_bytes(p, m->output, -10);
	put_bytes(p, m->peak_forward, -11);
	put_bytes(p, m->peak_backward, -11);
	page__end_line(p);
}

static void put_phase_row(struct page *p, const struct report_module *m, unsigned phase, int cols)
{
	char cnt[24];

	put_who(p, m, cols);
	put_bytes(p, m->own.by_phase_bytes[phase], -11);
	put_bytes(p, m->all.by_phase_bytes[phase], -11);
	page__cell(p, fmt_count(cnt, (double)m->all.by_phase_count[phase]), -9);
	put_bytes(p, m->all.by_phase_live[phase], -11);
	page__end_line(p);
}

/* The lightest module that is among the `top`: those above stay in the order of the tree. */
static uint64_t least_of(const struct report *r, const struct view_opts *opts, size_t *ret_cnt)
{
	uint64_t *all = calloc(r->modules_cnt + 1, sizeof(*all)), least = 0;
	size_t cnt = 0;

	for (size_t i = 0; all && i < r->modules_cnt; i++)
		if (is_shown(&r->modules[i], opts))
			all[cnt++] = !opts->phase ? weight(&r->modules[i]) : r->modules[i].all.by_phase_bytes[opts->phase - 1];
	if (all && cnt > opts->top) {
		qsort(all, cnt, sizeof(*all), by_weight);
		least = all[opts->top - 1];
	}
	free(all);
	*ret_cnt = cnt;
	return least;
}

static void put_modules(struct page *p, const struct report *r, const struct view_opts *opts)
{
	int cols = (int)p->width - (!opts->phase ? 4 * 10 + 11 + 2 * 10 + 2 * 11 : 42) - 2;
	size_t cnt, shown = 0;
	uint64_t least = least_of(r, opts, &cnt);

	cols = cols < 24 ? 24 : cols;
	page__put(p, "  ");
	page__cell(p, "module (class)", cols);
	page__put(p, !opts->phase ? " parameter    buffer  gradient     state activation     input    output"
				       "  in forward in backward" :
				       "        own      in all   blocks       alive");
	page__end_line(p);
	for (size_t i = 0; i < r->modules_cnt && shown < opts->top; i++) {
		const struct report_module *m = &r->modules[i];

		if (!is_shown(m, opts) || (!opts->phase ? weight(m) : m->all.by_phase_bytes[opts->phase - 1]) < least)
			continue;
		shown++;
		page__put(p, "  ");
		if (!opts->phase)
			put_row(p, m, cols);
		else
			put_phase_row(p, m, opts->phase - 1, cols);
	}
	if (cnt > shown) {
		page__printf(p, "  … and %zu more modules (--top, --depth, --json)", cnt - shown);
		page__end_line(p);
	}
}

static uint64_t op_bytes(const struct report_op_module *o, unsigned phase)
{
	return phase ? o->by_phase[phase - 1] : o->alloc_bytes;
}

static int by_op_bytes(const void *pa, const void *pb, void *phase)
{
	const struct report_op_module *a = *(const struct report_op_module *const *)pa;
	const struct report_op_module *b = *(const struct report_op_module *const *)pb;
	uint64_t x = op_bytes(a, *(const unsigned *)phase), y = op_bytes(b, *(const unsigned *)phase);

	return x == y ? (a < b ? -1 : a > b) : x > y ? -1 : 1;
}

static void put_op_row(struct page *p, const struct report_op_module *o, unsigned phase, int op_cols, int cols)
{
	char n[24], text[600];

	put_bytes(p, op_bytes(o, phase), -11);
	if (phase) {
		put_bytes(p, o->alloc_bytes, -11);
	} else {
		page__cell(p, fmt_count(n, (double)o->alloc_count), -9);
		put_bytes(p, o->by_phase[PHASE_FORWARD], -10);
		put_bytes(p, o->by_phase[PHASE_BACKWARD], -10);
	}
	page__put(p, "  ");
	page__cell(p, o->op[0] ? o->op : "(none)", op_cols);
	page__put(p, "  ");
	snprintf(text, sizeof(text), "%s%s%s", o->root ? o->root : o->has_module ? "(not told yet)" : "-",
		 o->module && o->module[0] ? "." : "", o->module ? o->module : "");
	page__path(p, text, cols);
	page__end_line(p);
}

/* Operators with the module that called them, heaviest first: of all phases, or of one. */
static void put_op_modules(struct page *p, const struct report *r, const struct view_opts *opts)
{
	const struct report_op_module **rows = calloc(r->op_modules_cnt + 1, sizeof(*rows));
	int room = (int)p->width - (opts->phase ? 26 : 44), op_cols = room * 2 / 5, cols = room - op_cols;
	unsigned phase = opts->phase;
	size_t cnt = 0;

	for (size_t i = 0; rows && i < r->op_modules_cnt; i++)
		if (op_bytes(&r->op_modules[i], phase))
			rows[cnt++] = &r->op_modules[i];
	if (rows)
		qsort_r(rows, cnt, sizeof(*rows), by_op_bytes, &phase);
	page__heading(p, phase ? "Operators by bytes allocated in that phase, with their module" :
				 "Operators by allocated bytes, with their module");
	page__put(p, phase ? "   in phase     in all  " : "  allocated   blocks   forward  backward  ");
	page__cell(p, "operator", op_cols);
	page__put(p, "  ");
	page__cell(p, "module", cols);
	page__end_line(p);
	for (size_t i = 0; i < cnt && i < opts->top; i++)
		put_op_row(p, rows[i], phase, op_cols, cols);
	free(rows);
	if (cnt > opts->top) {
		page__printf(p, "  … and %zu more (--top, --json)", cnt - opts->top);
		page__end_line(p);
	}
}

static void put_phase_table(struct page *p, const struct report *r)
{
	char cnt[24], time[24];

	page__heading(p, "Phases");
	page__put(p, "  phase         entered       time  allocated   blocks      peak");
	page__end_line(p);
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		const struct report_phase *ph = &r->phases[i];

		if (!ph->entries && !ph->alloc_count)
			continue;
		page__put(p, "  ");
		page__cell(p, phase_name((enum phase)i), 12);
		page__cell(p, fmt_count(cnt, (double)ph->entries), -9);
		page__cell(p, fmt_ns(time, ph->ns), -11);
		put_bytes(p, ph->alloc_bytes, -11);
		page__cell(p, fmt_count(cnt, (double)ph->alloc_count), -9);
		put_bytes(p, ph->peak, -10);
		page__end_line(p);
	}
}

static void put_none(struct page *p, const struct report_module_sum *s, unsigned phase)
{
	uint64_t bytes = phase ? s->by_phase_bytes[phase - 1] : s->alloc_bytes;
	uint64_t blocks = phase ? s->by_phase_count[phase - 1] : s->alloc_count;
	char text[24], cnt[24];

	if (!bytes)
		return;
	page__printf(p, "  born in no module: %s in %s blocks", fmt_bytes(text, bytes), fmt_count(cnt, (double)blocks));
	page__end_line(p);
}

void modules_text(struct page *p, const struct report *r, const struct view_opts *opts)
{
	if (has_phases(r))
		put_phase_table(p, r);
	marks_text(p, r, opts->top);
	if (!r->modules_cnt) {
		page__end_line(p);
		page__put(p, "No module is known: no Python that can be read, or none that was called (docs/modules.md).");
		page__end_line(p);
		return;
	}
	page__heading(p, !opts->phase ? "Modules" : "Modules, what was born in them in that phase");
	put_modules(p, r, opts);
	put_none(p, &r->no_module, opts->phase);
	put_op_modules(p, r, opts);
}
