/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/kept.h"

#include <inttypes.h>
#include <string.h>

#include "event/event.h"
#include "view/json.h"
#include "view/page.h"
#include "view/report_words.h"

#define WIDTH 112
#define CELL 11
#define OP_COLS 26

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

/* Who may hold it: its module, and a line of Python or the region. */
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

/* Operators that stand elsewhere than they did: those that do not go up with the ones before. */
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

static void put_rows(struct page *p, const struct kept_view *v, size_t top)
{
	const struct recorded_kept *k = v->kept;
	size_t shown = k->rows_cnt < top ? k->rows_cnt : top;
	char a[24], line[1024];

	if (!k->rows_cnt)
		return;
	page__heading(p, "Kept past their last use");
	page__put(p, "  ");
	page__cell(p, "at the peak", -CELL);
	page__cell(p, "in all", -CELL);
	page__cell(p, "blocks", -CELL);
	page__cell(p, "kept for", -CELL);
	page__put(p, "  ");
	page__cell(p, "made by", OP_COLS);
	page__put(p, " ");
	page__cell(p, "used last by", OP_COLS);
	page__end_line(p);
	for (size_t i = 0; i < shown; i++) {
		const struct recorded_row *r = &k->rows[i];

		page__put(p, "  ");
		page__cell(p, fmt_bytes(a, r->at_peak), -CELL);
		page__cell(p, fmt_bytes(a, r->bytes), -CELL);
		page__cell(p, fmt_count(a, (double)r->blocks), -CELL);
		page__cell(p, fmt_ns(a, (uint64_t)(r->byte_ns / (double)r->bytes)), -CELL);
		page__put(p, "  ");
		page__cell(p, op_text(v, r->op), OP_COLS);
		page__put(p, " ");
		page__cell(p, op_text(v, r->last_op), OP_COLS);
		page__end_line(p);
		holder_text(v, r, line, sizeof(line));
		if (line[0]) {
			page__put(p, "  ");
			page__cell(p, "", 4 * CELL);
			page__put(p, "    ");
			page__cell(p, line, 2 * OP_COLS);
			page__end_line(p);
		}
	}
	if (shown < k->rows_cnt) {
		page__printf(p, "  … and %zu more (--top, --json)", k->rows_cnt - shown);
		page__end_line(p);
	}
}

static void put_bound(struct page *p, const struct kept_view *v)
{
	const struct recorded_kept *k = v->kept;
	char text[600], a[24], b[24], c[24];

	snprintf(text, sizeof(text), "%s, %s after the beginning", fmt_bytes(a, k->peak),
		 fmt_ns(b, k->peak_ns - v->recorded->first_ns));
	page__para(p, "peak", text);
	snprintf(text, sizeof(text),
		 "%s (%.1f %% less): had everything been freed when its last use ended, in the recorded order",
		 fmt_bytes(a, k->lowest), share((double)(k->peak - k->lowest), (double)k->peak));
	page__para(p, "lowest peak", text);
	snprintf(text, sizeof(text), "%s at the peak; over the recording %s in %s blocks", fmt_bytes(a, k->kept_at_peak),
		 fmt_bytes(b, k->kept_bytes), fmt_count(c, (double)k->kept_blocks));
	page__para(p, "kept", text);
}

static void put_step(struct page *p, const struct kept_view *v)
{
	const struct step_result *s = v->result;
	char text[600], a[24], b[24];
	double error;

	page__heading(p, v->kept->has_step ? "The step of the peak" : "The graph");
	if (!s) {
		page__para(p, "graph", "no node of the data-flow graph falls into it");
		return;
	}
	snprintf(text, sizeof(text), "process %u: %zu operators, %zu blocks, peak %s", v->kept->pid, s->operators,
		 s->d.storages_cnt, fmt_bytes(a, s->measured));
	page__para(p, "measured", text);
	error = share((double)s->profile.peak - (double)s->measured, (double)s->measured);
	snprintf(text, sizeof(text),
		 "%s (%+.1f %%): torch's estimator on this graph; it sees no scratch memory of operators (at most %s)",
		 fmt_bytes(a, (uint64_t)s->profile.peak), error, fmt_bytes(b, s->scratch_max));
	page__para(p, "estimated", text);
	if (s->order.peak < s->order.peak_there_is)
		snprintf(text, sizeof(text),
			 "%s instead of %s (%.1f %% less) with %zu operators moved (%s), all frees at the last use",
			 fmt_bytes(a, (uint64_t)s->order.peak), fmt_bytes(b, (uint64_t)s->order.peak_there_is),
			 share((double)(s->order.peak_there_is - s->order.peak), (double)s->order.peak_there_is),
			 moved(&s->order), s->order.rule);
	else
		snprintf(text, sizeof(text), "none better found: %s with all frees at the last use",
			 fmt_bytes(a, (uint64_t)s->order.peak_there_is));
	page__para(p, "order", text);
}

static void put_honesty(struct page *p, const struct kept_view *v)
{
	uint64_t lost = report_lost_events(v->report);
	char text[300], a[24], b[24];

	if (!lost && !v->recorded->left_out && !v->step->left_out)
		return;
	snprintf(text, sizeof(text), "%s events lost, %s blocks and nodes past the caps: what they say is missing here",
		 fmt_count(a, (double)lost), fmt_count(b, (double)(v->recorded->left_out + v->step->left_out)));
	page__end_line(p);
	page__para(p, "not seen", text);
}

int kept_view_text(FILE *out, const struct kept_view *v, const struct view_opts *opts)
{
	char safe[TEXT_BYTES_MAX], dev[16], a[24];
	struct page p;
	int err = page__init(&p, out, opts->width > WIDTH ? opts->width : WIDTH, opts->color);

	if (err)
		return err;
	text_fit(safe, sizeof(safe), v->path, 60);
	page__style(&p, STYLE_BOLD);
	page__put(&p, safe);
	page__style(&p, STYLE_PLAIN);
	page__printf(&p, ": %s, %s nodes of the data-flow graph", dev_name(v->kept->dev, dev),
		     fmt_count(a, (double)v->recorded->nodes));
	page__end_line(&p);
	put_bound(&p, v);
	put_rows(&p, v, opts->top);
	put_step(&p, v);
	put_honesty(&p, v);
	page__end_line(&p);
	page__flow(&p, 0, "A use is a node of the data-flow graph that was given the block. What lives at the end, and what no "
			  "node was given, counts as in use. An order keeps reads and writes of each block, and nothing "
			  "else (random numbers may come out otherwise).");
	return page__done(&p);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static void json_rows(struct json *j, const struct kept_view *v, size_t top)
{
	size_t shown = v->kept->rows_cnt < top ? v->kept->rows_cnt : top;
	char line[512];

	json__u64(j, "rows_total", v->kept->rows_cnt);
	json__begin(j, "rows", '[');
	for (size_t i = 0; i < shown; i++) {
		const struct recorded_row *r = &v->kept->rows[i];

		json__begin_flat(j, NULL, '{');
		json__str_or_null(j, "op", r->op.v ? names__get(v->names, r->op) : NULL);
		json__str_or_null(j, "region", r->region.v ? names__get(v->names, r->region) : NULL);
		json__str_or_null(j, "last_op", r->last_op.v ? names__get(v->names, r->last_op) : NULL);
		line_text(v, r->line, line, sizeof(line));
		json__str_or_null(j, "line", line[0] ? line : NULL);
		json__str_or_null(j, "module", r->root.v ? names__get(v->names, r->module) : NULL);
		json__str_or_null(j, "root", r->root.v ? names__get(v->names, r->root) : NULL);
		json__u64(j, "at_peak", r->at_peak);
		json__u64(j, "bytes", r->bytes);
		json__u64(j, "blocks", r->blocks);
		json__f64(j, "byte_ns", r->byte_ns);
		json__end(j, '}');
	}
	json__end(j, ']');
}

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
	struct outbuf o;
	struct json j;
	char dev[16];
	int err = json__begin_doc(&j, &o, out);

	if (err)
		return err;
	json__str(&j, "kind", "recording");
	json__str(&j, "file", v->path);
	json__str(&j, "device", dev_name(k->dev, dev));
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
	json_rows(&j, v, opts->top);
	json__end(&j, '}');
	json_step(&j, v);
	return json__end_doc(&j);
}
