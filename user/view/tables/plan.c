/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "plan/plan.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"

#define SITES_FIRST 20
#define SYM_COLS_MAX 64

static const char *site_way(const struct site *s, const struct plan_view_opts *o)
{
	return s->source == SRC_USDT ? "usdt" : o->has_multi ? "uprobe-multi" : "perf";
}

static const char *way_name(unsigned c)
{
	static const char *const names[] = { [INSN_NOP5] = "5-byte nop", [INSN_NOP] = "nop",
					     [INSN_PUSH] = "emulated", [INSN_JUMP] = "emulated", [INSN_CALL] = "emulated",
					     [INSN_STEPPED] = "single-stepped", [INSN_RET] = "single-stepped",
					     [INSN_NOP5_INSIDE] = "5-byte nop", [INSN_NOP10] = "10-byte nop" };

	return c && c < sizeof(names) / sizeof(names[0]) ? names[c] : "?";
}

static const char *lib_base(const struct plan *p, const struct site *s)
{
	const char *path = s->lib < p->libs_cnt ? p->libs[s->lib].path : "?", *base = strrchr(path, '/');

	return base ? base + 1 : path;
}

/* "free+3", "malloc return" */
static void site_symbol(char *buf, const struct site *s, const struct names *names)
{
	text_fit(buf, TEXT_BYTES_MAX, names__get(names, s->sym), 200);
	if (s->skipped)
		snprintf(buf + strlen(buf), TEXT_BYTES_MAX - strlen(buf), "+%u", s->skipped);
	if (s->is_ret)
		snprintf(buf + strlen(buf), TEXT_BYTES_MAX - strlen(buf), " return");
}

struct site_cols {
	unsigned lib, sym, insn;
};

static unsigned wider(unsigned have, const char *text, unsigned max)
{
	char safe[TEXT_BYTES_MAX];
	unsigned cols = text_fit(safe, sizeof(safe), text, max);

	return cols > have ? cols : have;
}

static struct site_cols measure(const struct plan *p, const struct names *names, size_t cnt)
{
	struct site_cols c = { .lib = 7, .sym = 6, .insn = 11 };
	char sym[TEXT_BYTES_MAX];

	for (size_t i = 0; i < cnt; i++) {
		site_symbol(sym, &p->sites[i], names);
		c.lib = wider(c.lib, lib_base(p, &p->sites[i]), 28);
		c.sym = wider(c.sym, sym, SYM_COLS_MAX);
		c.insn = wider(c.insn, p->sites[i].insn, SITE_INSN_LEN);
	}
	return c;
}

static void put_site(struct page *g, const struct plan *p, const struct site *s, const struct names *names,
		     const struct site_cols *c, const struct plan_view_opts *o)
{
	char sym[TEXT_BYTES_MAX];

	site_symbol(sym, s, names);
	page__cell(g, lib_base(p, s), (int)c->lib);
	page__put(g, "  ");
	page__cell(g, sym, (int)c->sym);
	page__printf(g, "  +0x%-9" PRIx64 "  ", s->offset);
	page__cell(g, s->insn, (int)c->insn);
	page__put(g, "  ");
	page__cell(g, site_way(s, o), 12);
	page__line(g, " %6u ns", s->cost_ns);
}

static void put_sites(struct page *g, const struct plan *p, const struct names *names,
		      const struct plan_view_opts *o)
{
	size_t cnt = o->all || p->sites_cnt <= SITES_FIRST ? p->sites_cnt : SITES_FIRST;
	struct site_cols c = measure(p, names, cnt);

	page__end_line(g);
	page__style(g, STYLE_BOLD);
	page__cell(g, "library", (int)c.lib);
	page__put(g, "  ");
	page__cell(g, "symbol", (int)c.sym);
	page__put(g, "  offset       ");
	page__cell(g, "instruction", (int)c.insn);
	page__put(g, "  way           a hit");
	page__style(g, STYLE_PLAIN);
	page__end_line(g);
	for (size_t i = 0; i < cnt; i++)
		put_site(g, p, &p->sites[i], names, &c, o);
	if (cnt < p->sites_cnt)
		page__line(g, "… and %zu more: memtrace plan -p %" PRIu32 " --all", p->sites_cnt - cnt, o->pid);
}

static void put_sources(struct page *g, const struct plan *p)
{
	page__heading(g, "source       wanted     found     sites");
	for (size_t i = 0; i < p->covers_cnt; i++) {
		size_t sites = 0;

		for (size_t k = 0; k < p->sites_cnt; k++)
			sites += p->sites[k].source == p->covers[i].source;
		page__cell(g, source_name(p->covers[i].source), 10);
		page__line(g, "%9" PRIu32 " %9" PRIu32 " %9zu", p->covers[i].wanted, p->covers[i].found, sites);
	}
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

		page__cell(g, s->is_ret ? "return" : way_name(s->insn_class), 16);
		page__printf(g, "%12zu %6u ns  ", seen[k].sites, s->cost_ns);
		page__cell(g, s->insn, SITE_INSN_LEN);
		page__end_line(g);
	}
}

int view_plan_text(FILE *out, const struct plan *p, const struct names *names, const struct plan_view_opts *o)
{
	char comm[TEXT_BYTES_MAX];
	struct page g;
	int err = page__open(&g, out, &o->view, PAGE_WIDTH);

	if (err)
		return err;
	text_fit(comm, sizeof(comm), o->comm, 64);
	page__line(&g, "Process %" PRIu32 " (%s): %zu probes in %zu files would be set, none is", o->pid, comm,
		   p->sites_cnt, p->libs_cnt);
	put_sources(&g, p);
	put_classes(&g, p);
	put_sites(&g, p, names, o);
	if (p->notes_cnt)
		page__heading(&g, "Not visible");
	for (size_t i = 0; i < p->notes_cnt; i++)
		page__para(&g, "", p->notes[i]);
	return page__done(&g);
}

/* Kinds and places of an operator's tensors. */
static void put_flow_args(struct json *j, const struct plan *p, const struct site *s)
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
	const struct mt_flow_spec *spec;

	if (s->prog != MT_PROG_FLOW_OP || s->cookie >> 32 >= p->flow_specs_cnt)
		return;
	spec = &p->flow_specs[s->cookie >> 32];
	json__begin(j, "tensors", '[');
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
	json__begin(j, NULL, '{');
	json__u64(j, "pid", o->pid);
	json__str(j, "comm", o->comm);
	json__begin(j, "sources", '[');
	for (size_t i = 0; i < p->covers_cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__str(j, "source", source_name(p->covers[i].source));
		json__u64(j, "wanted", p->covers[i].wanted);
		json__u64(j, "found", p->covers[i].found);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__bool(j, "tried", p->is_tried);
	json__u64(j, "sites_left_out", p->unsafe_cnt);
	json__u64(j, "ops_left_out", p->ops_left_out);
	json__u64(j, "views_left_out", p->views_left_out);
	put_flow_json(j, p);
	json__begin(j, "notes", '[');
	for (size_t i = 0; i < p->notes_cnt; i++)
		json__str(j, NULL, p->notes[i]);
	json__end(j, ']');
	json__begin(j, "sites", '[');
	for (size_t i = 0; i < p->sites_cnt; i++) {
		const struct site *s = &p->sites[i];

		json__begin_flat(j, NULL, '{');
		json__str(j, "library", lib_base(p, s));
		json__str(j, "path", s->lib < p->libs_cnt ? p->libs[s->lib].path : "");
		json__str(j, "symbol", names__get(names, s->sym));
		json__u64(j, "skipped", s->skipped);
		json__u64(j, "offset", s->offset);
		json__str(j, "instruction", s->insn);
		json__str(j, "class", way_name(s->insn_class));
		json__bool(j, "return", s->is_ret);
		json__str(j, "way", site_way(s, o));
		json__u64(j, "ns", s->cost_ns);
		json__str(j, "source", source_name(s->source));
		json__str(j, "program", prog_key(s->prog));
		if (s->guard)
			json__u64(j, "guard", s->guard);
		put_flow_args(j, p, s);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__end(j, '}');
}
