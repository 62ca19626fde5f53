/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/estimate.h"

#include <inttypes.h>
#include <string.h>

#include "view/json.h"
#include "view/page.h"

#define WIDTH 100
#define BYTES_COLS 10
#define SHARE_COLS 8
#define NAME_COLS 28

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

static const char *target_of(const struct est_doc *d, const struct est_node *n)
{
	return n->op == EST_PLACEHOLDER ? "given" : n->op == EST_GET_ATTR ? "attribute" : names__get(d->words, n->target);
}

/* --- text ---------------------------------------------------------------------------------------------------- */

static void put_alive(struct page *p, const struct est_result *r, const struct est_graph *g, const struct est_profile *f,
		      size_t top)
{
	size_t shown = f->alive_cnt < top ? f->alive_cnt : top;
	char a[24];

	if (!f->alive_cnt)
		return;
	page__end_line(p);
	page__put(p, "  ");
	page__cell(p, "alive at the peak", -(BYTES_COLS + SHARE_COLS));
	page__put(p, "  ");
	page__cell(p, "made by", NAME_COLS);
	page__line(p, " operator");
	for (size_t i = 0; i < shown; i++) {
		const struct est_row *row = &f->alive[i];
		const struct est_node *n = &g->nodes[row->node];

		page__put(p, "  ");
		page__cell(p, fmt_bytes(a, row->bytes), -BYTES_COLS);
		page__cell(p, fmt_share(a, (double)row->bytes, (double)f->peak), -SHARE_COLS);
		page__put(p, "  ");
		page__cell(p, est_doc__name(r->d, n), NAME_COLS);
		page__put(p, " ");
		page__cell(p, target_of(r->d, n), (int)p->width - BYTES_COLS - SHARE_COLS - NAME_COLS - 5);
		page__end_line(p);
	}
	page__more(p, shown, f->alive_cnt, "(--top, --json)");
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
	put_alive(p, r, g, f, top);
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

static void json_alive(struct json *j, const struct est_result *r, const struct est_graph *g, const struct est_profile *f,
		       size_t top)
{
	size_t shown = f->alive_cnt < top ? f->alive_cnt : top;

	json__u64(j, "alive_total", f->alive_cnt);
	json__begin(j, "alive_at_peak", '[');
	for (size_t i = 0; i < shown; i++) {
		const struct est_node *n = &g->nodes[f->alive[i].node];

		json__begin_flat(j, NULL, '{');
		json__u64(j, "node", f->alive[i].node);
		json__str(j, "name", est_doc__name(r->d, n));
		json__str(j, "target", names__get(r->d->words, n->target));
		json__u64(j, "bytes", f->alive[i].bytes);
		json__u64(j, "storages", f->alive[i].storages);
		json__end(j, '}');
	}
	json__end(j, ']');
}

static void json_graph(struct json *j, const struct est_result *r, size_t at, size_t top)
{
	const struct est_graph *g = &r->d->graphs[at];
	const struct est_profile *f = &r->profiles[at];
	const struct est_schedule *s = &r->schedules[at];

	json__begin(j, NULL, '{');
	json__str(j, "name", names__get(r->d->words, g->name));
	json__u64(j, "nodes", g->nodes_cnt);
	json__u64(j, "operators", operators(g));
	json__i64(j, "start", f->start);
	json__i64(j, "peak", f->peak);
	json__i64(j, "end", f->end);
	json__u64(j, "never_used", f->never_used);
	if (f->peak_node == EST_NONE) {
		json__null(j, "peak_node");
	} else {
		const struct est_node *n = &g->nodes[f->peak_node];

		json__begin_flat(j, "peak_node", '{');
		json__u64(j, "node", f->peak_node);
		json__str(j, "name", est_doc__name(r->d, n));
		json__str(j, "target", names__get(r->d->words, n->target));
		json__end(j, '}');
	}
	json_alive(j, r, g, f, top);
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
