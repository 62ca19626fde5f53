/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/kept.h"

#include <inttypes.h>
#include <string.h>

#include "event/event.h"
#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/json.h"
#include "view/page.h"
#include "view/table.h"
#include "view/tables/verdict.h"

#define WIDTH 112
#define CELL 11
#define OP_COLS 20 /* at least */

static double share(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

/* "train.py:12 step", or "" without stacks. */
static void line_text(const struct kept_view *v, uint32_t line, char *buf, size_t size)
{
	const struct recorded_frame *f = line < v->recorded->frames_cap ? &v->recorded->frames[line] : NULL;
	char file[TEXT_BYTES_MAX], function[TEXT_BYTES_MAX];
	const char *name;

	buf[0] = '\0';
	if (!line || !f)
		return;
	name = strrchr(names__get(v->names, f->file), '/');
	text_fit(file, sizeof(file), name ? name + 1 : names__get(v->names, f->file), 40);
	text_fit(function, sizeof(function), names__get(v->names, f->function), 40);
	snprintf(buf, size, "%.200s:%" PRIu32 " %.200s", file, f->line, function);
}

/* "encoder.layers.0", its root's label where it is the root itself, or "". */
static void module_text(const struct kept_view *v, const struct recorded_row *r, char *buf, size_t size)
{
	buf[0] = '\0';
	if (r->root.v)
		text_fit(buf, size, names__get(v->names, r->module.v ? r->module : r->root), 40);
}

/* Its possible holder: its module, and a line of Python or the region. */
static void holder_text(const struct kept_view *v, const struct recorded_row *r, char *buf, size_t size)
{
	char line[512], module[256];

	line_text(v, r->line, line, sizeof(line));
	if (!line[0] && r->region.v)
		text_fit(line, sizeof(line), names__get(v->names, r->region), 60);
	module_text(v, r, module, sizeof(module));
	snprintf(buf, size, "%.255s%s%.500s", module, module[0] && line[0] ? ", " : "", line);
}

static const char *op_text(const struct kept_view *v, name_id op)
{
	return op.v ? names__get(v->names, op) : "no operator";
}

/* Operators in another order than before: those whose places do not increase. */
static size_t moved(const struct est_order *o)
{
	size_t cnt = 0;
	uint32_t high = 0;

	for (size_t i = 0; i < o->cnt; i++) {
		cnt += o->nodes[i] < high;
		high = o->nodes[i] > high ? o->nodes[i] : high;
	}
	return cnt;
}

/* --- text ---------------------------------------------------------------------------------------------------------- */

static const struct kept_view *view_of(const struct drawn *d)
{
	return d->of;
}

static void op(struct cell *c, const void *row)
{
	name_id id = ((const struct recorded_row *)row)->op;

	c->text = c->d->as == AS_JSON && !id.v ? NULL : op_text(view_of(c->d), id);
}

static void last_op(struct cell *c, const void *row)
{
	name_id id = ((const struct recorded_row *)row)->last_op;

	c->text = c->d->as == AS_JSON && !id.v ? NULL : op_text(view_of(c->d), id);
}

static void region(struct cell *c, const void *row)
{
	name_id id = ((const struct recorded_row *)row)->region;

	c->text = id.v ? names__get(view_of(c->d)->names, id) : NULL;
}

static void line(struct cell *c, const void *row)
{
	line_text(view_of(c->d), ((const struct recorded_row *)row)->line, c->buf, 512);
	c->text = c->buf;
}

static void module(struct cell *c, const void *row)
{
	const struct recorded_row *r = row;

	c->text = r->root.v ? names__get(view_of(c->d)->names, r->module) : NULL;
}

static void root(struct cell *c, const void *row)
{
	const struct recorded_row *r = row;

	c->text = r->root.v ? names__get(view_of(c->d)->names, r->root) : NULL;
}

static void kept_for(struct cell *c, const void *row)
{
	const struct recorded_row *r = row;

	c->num = (uint64_t)(r->byte_ns / (double)r->bytes);
}

static const struct column columns[] = {
	{ "op", "made by", COL_OR_NULL, VIA(op), TEXT(5, OP_COLS, .wide = 1, .gap = 2) },
	{ "region", NULL, COL_OR_NULL, VIA(region) },
	{ "last_op", "used last by", COL_OR_NULL, VIA(last_op), TEXT(6, OP_COLS, .wide = 1, .gap = 1) },
	{ "line", NULL, COL_OR_NULL, VIA(line) },
	{ "module", NULL, COL_OR_NULL, VIA(module) },
	{ "root", NULL, COL_OR_NULL, VIA(root) },
	{ "at_peak", "at the peak", COL_BYTES, OF(recorded_row, at_peak), TEXT(1, CELL) },
	{ "bytes", "in all", COL_BYTES, OF(recorded_row, bytes), TEXT(2, CELL) },
	{ "blocks", "blocks", COL_COUNT, OF(recorded_row, blocks), TEXT(3, CELL) },
	{ "byte_ns", NULL, COL_REAL, OF(recorded_row, byte_ns) },
	{ NULL, "kept for", COL_NS, VIA(kept_for), TEXT(4, CELL) },
};

static const struct table row_table = TABLE(columns);

/* Under the operators, which come after the numbers. */
static void put_holder(const struct table_lines *l, const char *holder)
{
	unsigned at = 6;

	for (unsigned i = 0; i < l->cnt && !l->cols[i]->text.wide; i++)
		at += l->widths[i] + l->cols[i]->text.gap;
	page__printf(l->p, "%*s", (int)at, "");
	page__cell(l->p, holder, (int)(l->p->width - at));
	page__end_line(l->p);
}

static void put_rows(struct page *p, const struct kept_view *v, size_t top)
{
	const struct recorded_kept *k = v->kept;
	size_t shown = k->rows_cnt < top ? k->rows_cnt : top;
	struct drawn d = drawn_as(AS_TEXT, v->report);
	struct table_lines l;
	char holder[1024];

	if (!k->rows_cnt)
		return;
	page__heading(p, "Kept past their last use");
	d.of = v;
	table_lines__begin(&l, p, &row_table, &d);
	for (size_t i = 0; i < shown; i++) {
		table_lines__row(&l, &k->rows[i]);
		holder_text(v, &k->rows[i], holder, sizeof(holder));
		if (holder[0])
			put_holder(&l, holder);
	}
	page__more(p, shown, k->rows_cnt, "(--top, --json)");
}

static void put_bound(struct page *p, const struct kept_view *v)
{
	const struct recorded_kept *k = v->kept;
	const struct report_dev *dev = report_dev_find(v->report, k->dev);
	char a[24], b[24], c[24], jobs[JOBS_WORDS_BYTES];

	page__paraf(p, "peak", "%s, after %s", fmt_bytes(a, k->peak), fmt_ns(b, k->peak_ns - v->recorded->first_ns));
	if (dev && jobs_words(v->report, dev, v->path, jobs)[0])
		page__para(p, "sum", jobs);
	page__paraf(p, "lowest peak", "%s (%.1f %% less): had everything been freed when its last use ended, in the recorded "
		    "order", fmt_bytes(a, k->lowest), share((double)(k->peak - k->lowest), (double)k->peak));
	page__paraf(p, "kept", "%s at the peak; over the recording %s in %s blocks", fmt_bytes(a, k->kept_at_peak),
		    fmt_bytes(b, k->kept_bytes), fmt_count(c, (double)k->kept_blocks));
}

static void put_step(struct page *p, const struct kept_view *v)
{
	const struct step_result *s = v->result;
	char a[24], b[24];
	double error;

	page__heading(p, v->kept->has_step ? "The step of the peak" : "The graph");
	if (!s) {
		page__para(p, "graph", "no node of the data-flow graph falls into it");
		return;
	}
	page__paraf(p, "measured", "process %u: %zu operators, %zu blocks, peak %s", v->kept->pid, s->operators,
		    s->d.storages_cnt, fmt_bytes(a, s->measured));
	error = share((double)s->profile.peak - (double)s->measured, (double)s->measured);
	page__paraf(p, "estimated", "%s (%+.1f %%): torch's estimator on this graph; it sees no scratch memory of operators "
		    "(at most %s)", fmt_bytes(a, (uint64_t)s->profile.peak), error, fmt_bytes(b, s->scratch_max));
	if (s->order.peak < s->order.peak_there_is)
		page__paraf(p, "order", "%s instead of %s (%.1f %% less) with %zu operators moved (%s), all frees at the last "
			    "use", fmt_bytes(a, (uint64_t)s->order.peak), fmt_bytes(b, (uint64_t)s->order.peak_there_is),
			    share((double)(s->order.peak_there_is - s->order.peak), (double)s->order.peak_there_is),
			    moved(&s->order), s->order.rule);
	else
		page__paraf(p, "order", "none better found: %s with all frees at the last use",
			    fmt_bytes(a, (uint64_t)s->order.peak_there_is));
}

static void put_coverage(struct page *p, const struct kept_view *v)
{
	uint64_t lost = report_lost_events(v->report);
	char a[24], b[24];

	if (!lost && !v->recorded->left_out && !v->step->left_out)
		return;
	page__end_line(p);
	page__paraf(p, "not seen", "%s events lost, %s blocks and nodes past the caps: what they say is missing here",
		    fmt_count(a, (double)lost), fmt_count(b, (double)(v->recorded->left_out + v->step->left_out)));
}

int kept_view_text(FILE *out, const struct kept_view *v, const struct view_opts *opts)
{
	const char *choice = v->report->run.choice;
	char safe[TEXT_BYTES_MAX], dev[16], a[24];
	struct page p;
	int err = page__open(&p, out, opts, WIDTH);

	if (err)
		return err;
	text_fit(safe, sizeof(safe), v->path, 60);
	page__style(&p, STYLE_BOLD);
	page__put(&p, safe);
	page__style(&p, STYLE_PLAIN);
	page__line(&p, ": %s%s%s%s, %s nodes of the data-flow graph", dev_name(v->kept->dev, dev), choice ? " (" : "",
		   choice ? choice : "", choice ? ")" : "", fmt_count(a, (double)v->recorded->nodes));
	put_bound(&p, v);
	put_rows(&p, v, opts->top);
	put_step(&p, v);
	put_coverage(&p, v);
	page__end_line(&p);
	page__flow(&p, 0, "A use is a node of the data-flow graph that was given the block. What lives at the end, and what no "
			  "node was given, counts as in use. An order keeps reads and writes of each block, and nothing "
			  "else (random numbers may come out otherwise).");
	return page__done(&p);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static void json_step(struct json *j, const struct kept_view *v)
{
	const struct step_result *s = v->result;

	if (!s) {
		json__null(j, "step");
		return;
	}
	json__begin(j, "step", '{');
	json__u64(j, "pid", v->kept->pid);
	json__bool(j, "is_whole", v->kept->has_step);
	json__u64(j, "operators", s->operators);
	json__u64(j, "blocks", s->d.storages_cnt);
	json__u64(j, "measured_peak", s->measured);
	json__i64(j, "estimated_peak", s->profile.peak);
	json__f64(j, "estimate_error",
		  share((double)s->profile.peak - (double)s->measured, (double)s->measured) / 100);
	json__u64(j, "scratch_max", s->scratch_max);
	json__u64(j, "unseen", s->unseen);
	json__i64(j, "order_peak", s->order.peak_there_is);
	json__i64(j, "best_order_peak", s->order.peak);
	json__str(j, "best_order_rule", s->order.rule);
	json__u64(j, "best_order_moved", moved(&s->order));
	json__end(j, '}');
}

int kept_view_json(FILE *out, const struct kept_view *v, const struct view_opts *opts)
{
	const struct recorded_kept *k = v->kept;
	const struct report_dev *seen = report_dev_find(v->report, k->dev);
	struct drawn d = drawn_as(AS_JSON, v->report);
	struct outbuf o;
	struct json j;
	char dev[16];
	int err = json__begin_doc(&j, &o, out);

	if (err)
		return err;
	d.of = v;
	json__str(&j, "kind", "recording");
	json__str(&j, "file", v->path);
	json__str(&j, "device", dev_name(k->dev, dev));
	whose_json(&j, v->report, seen ? verdict_jobs_on(v->report, seen) : 0);
	json__u64(&j, "nodes", v->recorded->nodes);
	json__u64(&j, "lost", report_lost_events(v->report));
	json__u64(&j, "left_out", v->recorded->left_out + v->step->left_out);
	json__u64(&j, "peak", k->peak);
	json__u64(&j, "peak_after_ns", k->peak_ns - v->recorded->first_ns);
	json__u64(&j, "lowest_peak", k->lowest);
	json__begin(&j, "kept", '{');
	json__u64(&j, "at_peak", k->kept_at_peak);
	json__u64(&j, "bytes", k->kept_bytes);
	json__u64(&j, "blocks", k->kept_blocks);
	json__f64(&j, "byte_ns", k->kept_byte_ns);
	json__u64(&j, "rows_total", k->rows_cnt);
	table__list(&j, "rows", &row_table, &d, k->rows, k->rows_cnt < opts->top ? k->rows_cnt : opts->top, sizeof(*k->rows));
	json__end(&j, '}');
	json_step(&j, v);
	return json__end_doc(&j);
}
