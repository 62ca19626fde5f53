/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/flow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/regions.h"
#include "base/text.h"
#include "view/export.h"
#include "view/fold/node_json.h"
#include "view/json.h"

#define NODE_PREFIX "torch::autograd::"
#define PROCS_MAX 1024
#define NAME_COLS 32
#define INPUT_COLS 52
#define EDGES_SHOWN 16 /* of one role in a line; JSON has all */

/* The last times at which something happened, and how often it did. */
struct marks {
	uint64_t *ts;
	size_t cap, first, cnt; /* a ring once cnt reached the most that is kept */
	uint64_t total;
};

struct flow_proc {
	uint32_t pid;
	struct marks marks, ends; /* step marks; ends of optimizer regions */
	uint64_t shown_step;
	int has_shown;
};

/* A block's number until it is freed. */
struct t_number {
	uint64_t id, past; /* the number + 1 */
};

struct flow_view {
	struct outbuf o;
	uint64_t steps;
	size_t keep; /* times a process */
	int json, has_names;
	const struct names *names;
	struct name_cache cache;
	struct flow_proc *procs;
	size_t procs_cnt, last;
	uint32_t shown_pid;
	int has_steps;	     /* one of the processes has */
	struct map ids;	     /* blocks: struct t_number */
	uint64_t next_t, nodes;
};

/* --- where steps begin --------------------------------------------------------------------------- */

static int marks__add(struct marks *m, uint64_t ts, size_t keep)
{
	if (m->cnt < keep && m->cnt == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 16;
		uint64_t *grown;

		cap = cap < keep ? cap : keep;
		grown = realloc(m->ts, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		m->ts = grown;
		m->cap = cap;
	}
	m->total++;
	if (m->cnt < keep) {
		m->ts[m->cnt++] = ts;
	} else {
		m->ts[m->first] = ts;
		m->first = (m->first + 1) % m->cnt;
	}
	return 0;
}

static uint64_t marks__at(const struct marks *m, size_t i)
{
	return m->ts[(m->first + i) % m->cnt];
}

/* How many of those kept are not after ts. */
static size_t marks__passed(const struct marks *m, uint64_t ts)
{
	size_t lo = 0, hi = m->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (marks__at(m, mid) <= ts)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* NULL: one process too many, or no memory. */
static struct flow_proc *flow_view__proc(struct flow_view *v, uint32_t pid)
{
	struct flow_proc *procs;

	if (v->last < v->procs_cnt && v->procs[v->last].pid == pid)
		return &v->procs[v->last];
	for (size_t i = 0; i < v->procs_cnt; i++)
		if (v->procs[i].pid == pid)
			return &v->procs[v->last = i];
	if (v->procs_cnt == PROCS_MAX)
		return NULL;
	procs = realloc(v->procs, (v->procs_cnt + 1) * sizeof(*procs));
	if (!procs)
		return NULL;
	v->procs = procs;
	v->last = v->procs_cnt++;
	v->procs[v->last] = (struct flow_proc){ .pid = pid };
	return &v->procs[v->last];
}

int flow_view__scan(struct flow_view *v, const struct tl_event *ev)
{
	struct flow_proc *p;

	if (ev->kind != TL_STEP &&
	    (ev->kind != TL_REGION_END || !region_is_step(names__get(v->names, ev->region))))
		return 0;
	p = flow_view__proc(v, ev->pid);
	if (!p)
		return 0;
	v->has_steps = 1;
	return marks__add(ev->kind == TL_STEP ? &p->marks : &p->ends, ev->ts_ns, v->keep);
}

/* --- lines ------------------------------------------------------------------------------------------ */

static uint64_t flow_view__number(struct flow_view *v, uint64_t id)
{
	struct t_number *row = id ? map__put(&v->ids, id) : NULL;

	if (!row)
		return id; /* no memory: better than nothing */
	if (!row->past)
		row->past = ++v->next_t;
	return row->past - 1;
}

static unsigned put_block(struct flow_view *v, const struct tl_edge *e, int is_output, int is_first)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%sT%" PRIu64 "(v%" PRIu32 "%s) %s", is_first ? "" : ", ",
			 flow_view__number(v, e->id), is_output ? e->out_version : e->version,
			 !is_output && e->flags & TL_EDGE_FREED ? "*" : "",
			 tl_cat_name(is_output ? e->out_cat : e->cat));

	outbuf__put(&v->o, text, (size_t)n);
	return (unsigned)n;
}

/* Those of one role, columns used. */
static unsigned put_blocks(struct flow_view *v, const struct tl_event *ev, enum node_role role)
{
	unsigned cols = 0, shown = 0, more = 0;

	for (uint32_t i = 0; i < ev->edges_cnt; i++) {
		if (!node_has_role(&ev->edges[i], role))
			continue;
		if (shown == EDGES_SHOWN) {
			more++;
			continue;
		}
		cols += put_block(v, &ev->edges[i], role == NODE_OUTPUT, !shown);
		shown++;
	}
	if (more) {
		outbuf__printf(&v->o, ", \xe2\x80\xa6 %u more", more);
		cols += 9;
	}
	return cols;
}

static void put_blanks(struct flow_view *v, unsigned from, unsigned to)
{
	for (; from < to; from++)
		outbuf__char(&v->o, ' ');
}

static void put_line(struct flow_view *v, const struct tl_event *ev)
{
	const char *name = ev->op.v ? names__get(v->names, ev->op) : "[memory]";
	char safe[TEXT_BYTES_MAX];
	unsigned cols;

	if (!strncmp(name, NODE_PREFIX, strlen(NODE_PREFIX)))
		name += strlen(NODE_PREFIX);
	cols = text_fit(safe, sizeof(safe), name, 2 * NAME_COLS);
	outbuf__str(&v->o, safe);
	put_blanks(v, cols, NAME_COLS);
	outbuf__char(&v->o, ' ');
	cols = put_blocks(v, ev, NODE_INPUT);
	put_blanks(v, cols, INPUT_COLS);
	outbuf__lit(&v->o, "  ->");
	for (uint32_t i = 0; i < ev->edges_cnt; i++)
		if (node_has_role(&ev->edges[i], NODE_OUTPUT)) {
			outbuf__lit(&v->o, "  ");
			put_blocks(v, ev, NODE_OUTPUT);
			break;
		}
	outbuf__char(&v->o, '\n');
}

static void put_heading(struct flow_view *v, const struct flow_proc *p, const char *text)
{
	outbuf__str(&v->o, v->shown_pid ? "\n" : "");
	outbuf__str(&v->o, text);
	if (v->procs_cnt > 1)
		outbuf__printf(&v->o, ", process %" PRIu32, p->pid);
	outbuf__char(&v->o, '\n');
	v->shown_pid = p->pid;
}

/* A node's step, from 1; 0: before the first mark. *ret_ns: its length, 0 = not whole. */
static uint64_t step_of(const struct flow_proc *p, uint64_t ts, uint64_t *ret_ns)
{
	const struct marks *m = p->marks.cnt ? &p->marks : &p->ends;
	size_t passed = m->cnt ? marks__passed(m, ts) : 0;

	*ret_ns = passed && passed < m->cnt ? marks__at(m, passed) - marks__at(m, passed - 1) : 0;
	return m->total - m->cnt + passed + !p->marks.cnt;
}

/* Is it in the window that is shown? */
static int is_wanted(const struct flow_view *v, const struct flow_proc *p, uint64_t ts)
{
	const struct marks *m = p->marks.cnt ? &p->marks : &p->ends;

	if (v->steps == UINT64_MAX || !v->has_steps)
		return 1;
	if (!m->cnt || ts >= marks__at(m, m->cnt - 1))
		return 0;
	return m->cnt < v->keep || ts >= marks__at(m, 0);
}

static void put_step(struct flow_view *v, struct flow_proc *p, uint64_t step, uint64_t ns)
{
	char text[64] = "All of it: no step was seen", a[24];

	if (p->has_shown && v->shown_pid == p->pid && step <= p->shown_step)
		return;
	if (ns)
		snprintf(text, sizeof(text), "Step %" PRIu64 ", %s", step, fmt_ns(a, ns));
	else if (v->has_steps)
		snprintf(text, sizeof(text), "Step %" PRIu64 ", not whole", step);
	put_heading(v, p, text);
	p->has_shown = 1;
	p->shown_step = step;
}

int flow_view__event(struct flow_view *v, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct flow_proc *p;
	uint64_t step, ns;
	int has_line = 0;

	if (ev->kind != TL_NODE)
		return 0;
	v->nodes++;
	p = flow_view__proc(v, ev->pid);
	if (!p || !is_wanted(v, p, ev->ts_ns))
		return 0;
	step = step_of(p, ev->ts_ns, &ns);
	if (v->json) {
		node_json(&v->o, &v->cache, ev, epoch_off_ns, step);
		return v->o.err;
	}
	for (uint32_t i = 0; i < ev->edges_cnt; i++)
		has_line |= node_has_role(&ev->edges[i], NODE_INPUT) || node_has_role(&ev->edges[i], NODE_OUTPUT);
	if (has_line) {
		put_step(v, p, step, ns);
		put_line(v, ev);
	}
	for (uint32_t i = 0; i < ev->edges_cnt; i++) {
		void *row = ev->edges[i].flags & TL_EDGE_FREED ? map__find(&v->ids, ev->edges[i].id) : NULL;

		if (row)
			map__remove(&v->ids, row);
	}
	return v->o.err;
}

/* --- life ---------------------------------------------------------------------------------------------- */

struct flow_view *flow_view__new(FILE *out, uint64_t steps, int json)
{
	struct flow_view *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->steps = steps;
	v->keep = (steps < FLOW_STEPS_MAX ? (size_t)steps : FLOW_STEPS_MAX) + 1;
	v->json = json;
	v->ids = MAP_OF(struct t_number);
	if (outbuf__init(&v->o, out) < 0) {
		flow_view__free(v);
		return NULL;
	}
	return v;
}

void flow_view__free(struct flow_view *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->procs_cnt; i++) {
		free(v->procs[i].marks.ts);
		free(v->procs[i].ends.ts);
	}
	free(v->procs);
	if (v->has_names)
		name_cache__done(&v->cache);
	map__done(&v->ids);
	outbuf__done(&v->o);
	free(v);
}

void flow_view__names(struct flow_view *v, const struct names *names)
{
	if (v->has_names)
		name_cache__done(&v->cache);
	name_cache__init(&v->cache, names, json_quote);
	v->has_names = 1;
	v->names = names;
}

int flow_view__end(struct flow_view *v, uint64_t *ret_nodes)
{
	*ret_nodes = v->nodes;
	return outbuf__flush(&v->o);
}
