/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/estimate.h"

#include <inttypes.h>
#include <string.h>

#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

#define WIDTH 100

/* "cuda:0, cuda:1", those that are counted (or not). */
static void devices_text(const struct est_result *r, int counted, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < r->d->devs_cnt && len < size; i++)
		if ((int)(r->counts >> i & 1) == counted)
			len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "", r->d->dev_names[i]);
}

/* Bytes of storages that some graph has, on devices that are not counted. */
static uint64_t uncounted_bytes(const struct est_result *r)
{
	uint64_t sum = 0;

	for (size_t s = 0; s < r->d->storages_cnt; s++)
		if (!(r->counts >> r->d->devs[s] & 1))
			sum += r->d->bytes[s];
	return sum;
}

static size_t operators(const struct est_graph *g)
{
	size_t cnt = 0;

	for (size_t i = 0; i < g->nodes_cnt; i++)
		cnt += g->nodes[i].op == EST_COMPUTE;
	return cnt;
}

/* --- what is alive at the peak: d->of is the document, d->index the graph ------------------------------------------ */

static const struct est_node *node_of(const struct drawn *d, const struct est_row *row)
{
	return &((const struct est_doc *)d->of)->graphs[d->index].nodes[row->node];
}

static void name(struct cell *c, const void *row)
{
	c->text = est_doc__name(c->d->of, node_of(c->d, row));
}

static void target(struct cell *c, const void *row)
{
	c->text = names__get(((const struct est_doc *)c->d->of)->words, node_of(c->d, row)->target);
}

static void operator(struct cell *c, const void *row)
{
	target(c, row);
	if (est_op_is_given(node_of(c->d, row)->op))
		c->text = node_of(c->d, row)->op == EST_PLACEHOLDER ? "given" : "attribute";
}

enum { ALIVE = 1, PEAK_NODE = 2 };

static const struct column columns[] = {
	{ "node", NULL, COL_NUMBER, OF(est_row, node) },
	{ "name", "made by", COL_TEXT, VIA(name), TEXT(3, 28, .gap = 2) },
	{ "target", NULL, COL_TEXT, VIA(target) },
	{ NULL, "operator", COL_TEXT, VIA(operator), TEXT(4, 8, .wide = 1, .gap = 1) },
	/* one head over two columns */
	{ "bytes", "alive at ", COL_BYTES, OF(est_row, bytes), .only = ALIVE, TEXT(1, 10) },
	{ NULL, "the peak", COL_SHARE, OF(est_row, bytes), TEXT(2, 8) },
	{ "storages", NULL, COL_NUMBER, OF(est_row, storages), .only = ALIVE },
};

static const struct table alive_table = TABLE(columns, .variant = ALIVE);
static const struct table peak_node_table = TABLE(columns, .variant = PEAK_NODE);

static size_t shown_of(const struct est_profile *f, size_t top)
{
	return f->alive_cnt < top ? f->alive_cnt : top;
}

/* --- text ---------------------------------------------------------------------------------------------------- */

static void put_alive(struct page *p, const struct est_result *r, size_t at, size_t top)
{
	const struct est_profile *f = &r->profiles[at];
	struct drawn d = { .as = AS_TEXT, .of = r->d, .index = (unsigned)at, .whole = (uint64_t)f->peak };

	if (!f->alive_cnt)
		return;
	page__end_line(p);
	table__text(p, &alive_table, &d, f->alive, shown_of(f, top), sizeof(*f->alive));
	page__more(p, shown_of(f, top), f->alive_cnt, "(--top, --json)");
}

static void put_graph(struct page *p, const struct est_result *r, size_t at, size_t top)
{
	const struct est_graph *g = &r->d->graphs[at];
	const struct est_profile *f = &r->profiles[at];
	const struct est_schedule *s = &r->schedules[at];
	char text[TEXT_BYTES_MAX], name[TEXT_BYTES_MAX], target[TEXT_BYTES_MAX], a[24], b[24], c[24];

	text_fit(name, sizeof(name), names__get(r->d->words, g->name), 40);
	snprintf(text, sizeof(text), "Graph %.200s: %zu nodes, %zu operators", name, g->nodes_cnt, operators(g));
	page__heading(p, text);
	if (f->peak_node == EST_NONE) {
		page__paraf(p, "peak", "%s, with what is given: operators take no more than they free",
			    fmt_bytes(a, (uint64_t)f->peak));
	} else {
		const struct est_node *n = &g->nodes[f->peak_node];

		text_fit(name, sizeof(name), est_doc__name(r->d, n), 40);
		text_fit(target, sizeof(target), names__get(r->d->words, n->target), 40);
		page__paraf(p, "peak", "%s, in node %u, %.200s (%.200s)", fmt_bytes(a, (uint64_t)f->peak), f->peak_node, name,
			    target);
	}
	page__paraf(p, "start, end", "%s given at the start, %s left at the end%s%s", fmt_bytes(a, (uint64_t)f->start),
		    fmt_bytes(b, f->end > 0 ? (uint64_t)f->end : 0), f->never_used ? "; made and never used: " : "",
		    f->never_used ? fmt_bytes(c, f->never_used) : "");
	if (s->cnt)
		page__paraf(p, "schedule", "peak %s in the order of its schedule, %s at its end",
			    fmt_bytes(a, (uint64_t)s->peak),
			    fmt_bytes(b, s->now[s->cnt - 1] > 0 ? (uint64_t)s->now[s->cnt - 1] : 0));
	put_alive(p, r, at, top);
}

static void put_pair(struct page *p, const struct est_result *r)
{
	char a[24], b[24], c[24];
	size_t reported = 0;

	if (!r->fwd)
		return;
	for (size_t i = 0; i < r->bwd->nodes_cnt; i++)
		reported += r->pair.named[i];
	page__heading(p, "Forward, then backward");
	page__paraf(p, "peak", "%s: %s in forward, %s in backward", fmt_bytes(a, (uint64_t)r->pair_peak),
		    fmt_bytes(b, (uint64_t)r->profiles[r->fwd - r->d->graphs].peak),
		    fmt_bytes(c, (uint64_t)(r->pair.baseline + r->profiles[r->bwd - r->d->graphs].peak)));
	page__paraf(p, "there all along", "%s that forward returns and backward is not given; %zu inputs of backward are not "
		    "its to free", fmt_bytes(a, (uint64_t)r->pair.baseline), reported);
}

static void put_counted(struct page *p, const struct est_result *r)
{
	char counted[200], others[200], a[24];
	uint64_t rest = uncounted_bytes(r);

	devices_text(r, 1, counted, sizeof(counted));
	devices_text(r, 0, others, sizeof(others));
	if (others[0])
		page__paraf(p, "counted", "%s; not %s (%s)%s", counted[0] ? counted : "nothing", others, fmt_bytes(a, rest),
			    counted[0] ? "" : ": torch's estimator leaves the CPU out, --device cpu counts it");
	else
		page__paraf(p, "counted", "%s", counted);
}

int estimate_view_text(FILE *out, const char *path, const struct est_result *r, const struct view_opts *opts)
{
	char safe[TEXT_BYTES_MAX];
	struct page p;
	int err = page__init(&p, out, opts->width ? opts->width : WIDTH, opts->color);

	if (err)
		return err;
	text_fit(safe, sizeof(safe), path, 60);
	page__style(&p, STYLE_BOLD);
	page__put(&p, safe);
	page__style(&p, STYLE_PLAIN);
	page__printf(&p, ": %zu graph%s, %zu storages", r->d->graphs_cnt, r->d->graphs_cnt == 1 ? "" : "s", r->d->storages_cnt);
	if (r->d->torch) {
		text_fit(safe, sizeof(safe), r->d->torch, 30);
		page__printf(&p, ", torch %s", safe);
	}
	page__end_line(&p);
	put_counted(&p, r);
	for (size_t i = 0; i < r->d->graphs_cnt; i++)
		put_graph(&p, r, i, opts->top);
	put_pair(&p, r);
	page__end_line(&p);
	page__flow(&p, 0, "Bytes of storages, as torch's memory_estimator counts them: no rounding of an allocator, no scratch "
			  "memory of libraries, nothing outside of the graphs. A process takes more.");
	return page__done(&p);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static void json_numbers(struct json *j, const char *key, const int64_t *v, size_t cnt)
{
	json__begin_flat(j, key, '[');
	for (size_t i = 0; i < cnt; i++)
		json__i64(j, NULL, v[i]);
	json__end(j, ']');
}

static void json_graph(struct json *j, const struct est_result *r, size_t at, size_t top)
{
	const struct est_graph *g = &r->d->graphs[at];
	const struct est_profile *f = &r->profiles[at];
	const struct est_schedule *s = &r->schedules[at];
	struct drawn d = { .as = AS_JSON, .of = r->d, .index = (unsigned)at };

	json__begin(j, NULL, '{');
	json__str(j, "name", names__get(r->d->words, g->name));
	json__u64(j, "nodes", g->nodes_cnt);
	json__u64(j, "operators", operators(g));
	json__i64(j, "start", f->start);
	json__i64(j, "peak", f->peak);
	json__i64(j, "end", f->end);
	json__u64(j, "never_used", f->never_used);
	if (f->peak_node == EST_NONE)
		json__null(j, "peak_node");
	else
		table__object(j, "peak_node", &peak_node_table, &d, &(struct est_row){ .node = f->peak_node });
	json__u64(j, "alive_total", f->alive_cnt);
	table__list(j, "alive_at_peak", &alive_table, &d, f->alive, shown_of(f, top), sizeof(*f->alive));
	json_numbers(j, "profile", f->at, f->cnt);
	if (g->has_schedule) {
		json__begin(j, "schedule", '{');
		json__i64(j, "start", s->start);
		json__i64(j, "peak", s->peak);
		json__u64(j, "nodes_left", s->left);
		json_numbers(j, "current", s->now, s->cnt);
		json__end(j, '}');
	}
	json__end(j, '}');
}

static void json_pair(struct json *j, const struct est_result *r)
{
	if (!r->fwd) {
		json__null(j, "forward_backward");
		return;
	}
	json__begin(j, "forward_backward", '{');
	json__i64(j, "peak", r->pair_peak);
	json__i64(j, "baseline", r->pair.baseline);
	json__begin_flat(j, "do_not_delete", '[');
	for (size_t i = 0; i < r->bwd->nodes_cnt; i++)
		if (r->pair.named[i])
			json__str(j, NULL, est_doc__name(r->d, &r->bwd->nodes[i]));
	json__end(j, ']');
	json__end(j, '}');
}

int estimate_view_json(FILE *out, const char *path, const struct est_result *r, const struct view_opts *opts)
{
	struct outbuf o;
	struct json j;
	int err = json__begin_doc(&j, &o, out);

	if (err)
		return err;
	json__str(&j, "kind", "graph");
	json__str(&j, "file", path);
	json__str_or_null(&j, "torch", r->d->torch);
	json__begin_flat(&j, "counted", '[');
	for (size_t i = 0; i < r->d->devs_cnt; i++)
		if (r->counts >> i & 1)
			json__str(&j, NULL, r->d->dev_names[i]);
	json__end(&j, ']');
	json__u64(&j, "not_counted_bytes", uncounted_bytes(r));
	json__u64(&j, "storages", r->d->storages_cnt);
	json__begin(&j, "graphs", '[');
	for (size_t i = 0; i < r->d->graphs_cnt; i++)
		json_graph(&j, r, i, opts->top);
	json__end(&j, ']');
	json_pair(&j, r);
	return json__end_doc(&j);
}
