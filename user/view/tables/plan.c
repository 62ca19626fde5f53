/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "plan/plan.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/table.h"

#define SITES_FIRST 20

/* What is not in a row: d->of. */
struct plan_view {
	const struct plan *p;
	const struct names *names;
	const struct plan_view_opts *o;
};

static const struct plan_view *view_of(const struct drawn *d)
{
	return d->of;
}

static const char *class_name(unsigned c)
{
	static const char *const names[] = { [INSN_NOP5] = "5-byte nop", [INSN_NOP] = "nop",
					     [INSN_PUSH] = "emulated", [INSN_JUMP] = "emulated", [INSN_CALL] = "emulated",
					     [INSN_STEPPED] = "single-stepped", [INSN_RET] = "single-stepped",
					     [INSN_NOP5_INSIDE] = "5-byte nop", [INSN_NOP10] = "10-byte nop" };

	return c && c < sizeof(names) / sizeof(names[0]) ? names[c] : "?";
}

static void sites_of(struct cell *c, const void *row)
{
	const struct plan *p = view_of(c->d)->p;

	for (size_t i = 0; i < p->sites_cnt; i++)
		c->num += p->sites[i].source == ((const struct plan_cover *)row)->source;
}

static const struct column cover_columns[] = {
	{ "source", "source", COL_TEXT, OF(plan_cover, source), NAMED(source_name), TEXT(1, 10) },
	{ "wanted", "wanted", COL_NUMBER, OF(plan_cover, wanted), TEXT(2, 9) },
	{ "found", "found", COL_NUMBER, OF(plan_cover, found), TEXT(3, 9, .gap = 1) },
	{ NULL, "sites", COL_NUMBER, VIA(sites_of), TEXT(4, 9, .gap = 1) },
};

static const struct table cover_table = TABLE(cover_columns, .is_untitled = 1);

static void put_sources(struct page *g, struct drawn *d)
{
	const struct plan *p = view_of(d)->p;

	table__text(g, &cover_table, d, p->covers, p->covers_cnt, sizeof(*p->covers));
	if (p->ops_left_out)
		page__line(g, "%" PRIu32 " operators need no probe: they can neither allocate, write nor make a view",
			   p->ops_left_out);
	if (p->views_left_out) {
		page__line(g, "%" PRIu32 " operators only make views or get memory for others: they tell nothing of "
			   "their own; --probes …,views adds them", p->views_left_out);
	}
}

/* The distinct (class, entry or return, cost): with a count and an example. */
static void put_classes(struct page *g, const struct plan *p)
{
	struct {
		const struct site *first;
		size_t sites;
	} seen[32];
	size_t cnt = 0;

	for (size_t i = 0; i < p->sites_cnt; i++) {
		const struct site *s = &p->sites[i];
		size_t k = 0;

		while (k < cnt && (seen[k].first->insn_class != s->insn_class || seen[k].first->is_ret != s->is_ret ||
				   seen[k].first->cost_ns != s->cost_ns))
			k++;
		if (k == 32)
			continue;
		if (k == cnt) {
			seen[cnt].first = s;
			seen[cnt++].sites = 0;
		}
		seen[k].sites++;
	}
	page__heading(g, p->is_tried ? "instruction class      sites     a hit  such as (tried just now)" :
				       "instruction class      sites     a hit  such as (assumed; root can try)");
	for (size_t k = 0; k < cnt; k++) {
		const struct site *s = seen[k].first;

		page__cell(g, s->is_ret ? "return" : class_name(s->insn_class), 16);
		page__printf(g, "%12zu %6u ns  ", seen[k].sites, s->cost_ns);
		page__cell(g, s->insn, SITE_INSN_LEN);
		page__end_line(g);
	}
}

static void path(struct cell *c, const void *row)
{
	const struct plan *p = view_of(c->d)->p;
	const struct site *s = row;

	c->text = s->lib < p->libs_cnt ? p->libs[s->lib].path : "";
}

static void library(struct cell *c, const void *row)
{
	const char *base;

	path(c, row);
	base = strrchr(c->text, '/');
	c->text = base ? base + 1 : c->text[0] ? c->text : "?";
}

static void symbol(struct cell *c, const void *row)
{
	c->text = names__get(view_of(c->d)->names, ((const struct site *)row)->sym);
}

/* "free+3", "malloc return" */
static void symbol_words(struct cell *c, const void *row)
{
	char name[TEXT_BYTES_MAX], more[8] = "";
	const struct site *s = row;

	symbol(c, row);
	text_fit(name, sizeof(name), c->text, 200);
	if (s->skipped)
		snprintf(more, sizeof(more), "+%u", s->skipped);
	cell__say(c, "%s%s%s", name, more, s->is_ret ? " return" : "");
}

static void offset(struct cell *c, const void *row)
{
	cell__say(c, "+0x%" PRIx64, ((const struct site *)row)->offset);
}

static void way(struct cell *c, const void *row)
{
	const struct site *s = row;

	c->text = s->source == SRC_USDT ? "usdt" : view_of(c->d)->o->has_multi ? "uprobe-multi" : "perf";
}

static void cost(struct cell *c, const void *row)
{
	c->num = ((const struct site *)row)->cost_ns;
	cell__say(c, "%" PRIu64 " ns", c->num);
}

/* Kinds and places of an operator's tensors. */
static void put_flow_args(struct json *j, const char *key, const struct drawn *d, const void *row)
{
	static const char *const forms[] = { "none", "tensor",	      "optional", "list",
					     "ilist", "list of optional", "vector" };
	static const struct {
		uint8_t flag;
		const char *name;
	} flags[] = {
		{ MT_FLOW_F_WRITTEN, "written" }, { MT_FLOW_F_REQUIRED, "required" },
		{ MT_FLOW_F_WEIGHT, "weight" },	  { MT_FLOW_F_RUNNING, "running" },
		{ MT_FLOW_F_ALIAS, "alias" },
	};
	const struct plan *p = view_of(d)->p;
	const struct mt_flow_spec *spec;
	const struct site *s = row;

	if (s->prog != MT_PROG_FLOW_OP || s->cookie >> 32 >= p->flow_specs_cnt)
		return;
	spec = &p->flow_specs[s->cookie >> 32];
	json__begin(j, key, '[');
	for (uint32_t i = 0; i < spec->args_cnt && i < MT_FLOW_SPEC_ARGS_MAX; i++) {
		const struct mt_flow_spec_arg *a = &spec->args[i];

		json__begin(j, NULL, '{');
		json__u64(j, "index", a->index);
		json__str(j, "form", a->form < sizeof(forms) / sizeof(*forms) ? forms[a->form] : "?");
		if (arg_name(a->where))
			json__str(j, "register", arg_name(a->where));
		else
			json__u64(j, "stack_word", a->where - (unsigned)MT_ARG_STACK);
		json__begin(j, "flags", '[');
		for (size_t k = 0; k < sizeof(flags) / sizeof(*flags); k++)
			if (a->flags & flags[k].flag)
				json__str(j, NULL, flags[k].name);
		json__end(j, ']');
		json__end(j, '}');
	}
	json__end(j, ']');
}

static const struct column site_columns[] = {
	{ "library", "library", COL_TEXT, VIA(library), TEXT(1, 7, .most = 28) },
	{ "path", NULL, COL_TEXT, VIA(path) },
	{ "symbol", NULL, COL_TEXT, VIA(symbol) },
	{ NULL, "symbol", COL_TEXT, VIA(symbol_words), TEXT(2, 6, .gap = 2, .most = 64) },
	{ "skipped", NULL, COL_NUMBER, OF(site, skipped) },
	{ "offset", NULL, COL_NUMBER, OF(site, offset) },
	{ NULL, "offset", COL_TEXT, VIA(offset), TEXT(3, 12, .gap = 2) },
	{ "instruction", "instruction", COL_TEXT, IN_ROW(site, insn), TEXT(4, 11, .gap = 2, .most = SITE_INSN_LEN) },
	{ "class", NULL, COL_TEXT, OF(site, insn_class), NAMED(class_name) },
	{ "return", NULL, COL_BOOL, OF(site, is_ret) },
	{ "way", "way", COL_TEXT, VIA(way), TEXT(5, 12, .gap = 2) },
	{ "ns", "a hit", COL_NUMBER, VIA(cost), TEXT(6, 9, .gap = 1) },
	{ "source", NULL, COL_TEXT, OF(site, source), NAMED(source_name) },
	{ "program", NULL, COL_TEXT, OF(site, prog), NAMED(prog_key) },
	{ "guard", NULL, COL_NUMBER, OF(site, guard), IF(site, guard) },
	{ "tensors", NULL, .json = put_flow_args },
};

static const struct table site_table = TABLE(site_columns, .is_untitled = 1);

static void put_sites(struct page *g, struct drawn *d, const struct plan *p, const struct plan_view_opts *o)
{
	size_t cnt = o->all || p->sites_cnt <= SITES_FIRST ? p->sites_cnt : SITES_FIRST;

	table__text(g, &site_table, d, p->sites, cnt, sizeof(*p->sites));
	if (cnt < p->sites_cnt)
		page__line(g, "… and %zu more: memtrace plan -p %" PRIu32 " --all", p->sites_cnt - cnt, o->pid);
}

int view_plan_text(FILE *out, const struct plan *p, const struct names *names, const struct plan_view_opts *o)
{
	struct drawn d = { .as = AS_TEXT, .of = &(struct plan_view){ p, names, o } };
	char comm[TEXT_BYTES_MAX];
	struct page g;
	int err = page__open(&g, out, &o->view, PAGE_WIDTH);

	if (err)
		return err;
	g.is_narrow = 0; /* lines wrap: no column is left out */
	text_fit(comm, sizeof(comm), o->comm, 64);
	page__line(&g, "Process %" PRIu32 " (%s): %zu probes in %zu files would be set, none is", o->pid, comm,
		   p->sites_cnt, p->libs_cnt);
	put_sources(&g, &d);
	put_classes(&g, p);
	put_sites(&g, &d, p, o);
	if (p->notes_cnt)
		page__heading(&g, "Not visible");
	for (size_t i = 0; i < p->notes_cnt; i++)
		page__para(&g, "", p->notes[i]);
	return page__done(&g);
}

static void put_flow_json(struct json *j, const struct plan *p)
{
	json__begin_flat(j, "flow", '{');
	json__str_or_null(j, "layout", p->flow_layout.torch);
	json__u64(j, "tensor_classes", p->flow_vtables_cnt);
	json__u64(j, "specs", p->flow_specs_cnt);
	json__u64(j, "unread", p->flow_args_unread);
	json__end(j, '}');
}

void view_plan_json(struct json *j, const struct plan *p, const struct names *names, const struct plan_view_opts *o)
{
	struct drawn d = { .as = AS_JSON, .of = &(struct plan_view){ p, names, o } };

	json__begin(j, NULL, '{');
	json__u64(j, "pid", o->pid);
	json__str(j, "comm", o->comm);
	table__list(j, "sources", &cover_table, &d, p->covers, p->covers_cnt, sizeof(*p->covers));
	json__bool(j, "tried", p->is_tried);
	json__u64(j, "sites_left_out", p->unsafe_cnt);
	json__u64(j, "ops_left_out", p->ops_left_out);
	json__u64(j, "views_left_out", p->views_left_out);
	put_flow_json(j, p);
	json__begin(j, "notes", '[');
	for (size_t i = 0; i < p->notes_cnt; i++)
		json__str(j, NULL, p->notes[i]);
	json__end(j, ']');
	table__list(j, "sites", &site_table, &d, p->sites, p->sites_cnt, sizeof(*p->sites));
	json__end(j, '}');
}
