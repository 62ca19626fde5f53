/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The report for people. Order: who and how long; refused memory and deaths; each device; the main table
 * (what --by asks for); what the peak was made of; processes and the kernel's view; and last, always, the honesty block.
 */
#include <errno.h>

#include "event/event.h"
#include "plan/plan.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/tables/honesty.h"
#include "view/tables/leaks.h"
#include "view/tables/marks.h"
#include "view/tables/modules.h"
#include "view/tables/oom.h"
#include "view/tables/ranks.h"
#include "view/tables/segments.h"
#include "view/tables/stacks.h"
#include "view/view.h"

#define WIDTH_DEFAULT 100
#define WIDTH_MIN 72 /* what the fixed columns need; narrower terminals wrap */
#define BLOCKS_SHOWN 10

static double per_second(const struct report *r, double n)
{
	uint64_t ns = r->end_ts_ns - r->start_ts_ns;

	return ns ? n * 1e9 / (double)ns : 0;
}

static void put_bytes(struct page *p, uint64_t bytes, int cols)
{
	char buf[24];

	page__cell(p, fmt_bytes(buf, bytes), cols);
}

static void put_count(struct page *p, double n, int cols)
{
	char buf[24];

	page__cell(p, fmt_count(buf, n), cols);
}

static void put_share(struct page *p, uint64_t part, uint64_t whole, int cols)
{
	char buf[24];

	page__cell(p, fmt_share(buf, (double)part, (double)whole), cols);
}

/* --- who and how long -------------------------------------------------------------------------- */

static void put_head(struct page *p, const struct report *r)
{
	char safe[TEXT_BYTES_MAX], text[200], a[24], b[24], c[24];
	uint64_t events = report_events_sum(r);
	size_t n;

	page__style(p, STYLE_BOLD);
	if (r->pid || !r->procs_cnt)
		page__printf(p, "Process %u", r->pid);
	else
		page__printf(p, "All jobs of the machine: %zu process%s (--by process)", r->procs_cnt,
			     r->procs_cnt == 1 ? "" : "es");
	page__style(p, STYLE_PLAIN);
	page__put(p, "  ");
	text_fit(safe, sizeof(safe), r->cmdline && r->cmdline[0] ? r->cmdline : r->comm, p->width - 20);
	page__put(p, safe);
	page__end_line(p);
	n = (size_t)snprintf(text, sizeof(text), "%s, %s traced, %s events (%s/s)",
			     fmt_time(safe, (int64_t)r->start_ts_ns + r->epoch_off_ns),
			     fmt_ns(a, r->end_ts_ns - r->start_ts_ns), fmt_count(b, (double)events),
			     fmt_count(c, per_second(r, (double)events)));
	if (r->steps)
		snprintf(text + n, sizeof(text) - n, ", %s steps (%s/s)", fmt_count(a, (double)r->steps),
			 fmt_count(b, per_second(r, (double)r->steps)));
	page__flow(p, 0, text);
}

/* --- devices ------------------------------------------------------------------------------------- */

static void put_dev_lines(struct page *p, const struct report *r, const struct report_dev *d)
{
	uint64_t ns = r->end_ts_ns - r->start_ts_ns;
	char text[200], a[24], b[24], c[24];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "live %s   peak %s", fmt_bytes(a, d->live), fmt_bytes(b, d->peak));
	if (d->peak_ts_ns >= r->start_ts_ns && d->peak)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " after %s", fmt_ns(a, d->peak_ts_ns - r->start_ts_ns));
	if (ns)
		snprintf(text + n, sizeof(text) - n, "   mean %s",
			 fmt_bytes(a, (uint64_t)((double)d->byte_ns / (double)ns)));
	page__put(p, "  ");
	page__flow(p, 2, text);
	n = (size_t)snprintf(text, sizeof(text), "allocated %s in %s blocks (%s/s)", fmt_bytes(a, d->alloc_bytes),
			     fmt_count(b, (double)d->allocs), fmt_count(c, per_second(r, (double)d->allocs)));
	snprintf(text + n, sizeof(text) - n, "   freed %s in %s", fmt_bytes(a, d->free_bytes),
		 fmt_count(b, (double)d->frees));
	page__put(p, "  ");
	page__flow(p, 2, text);
}

static void put_dev(struct page *p, const struct report *r, const struct report_dev *d)
{
	char a[24], b[24], title[40];

	snprintf(title, sizeof(title), "%s%s", dev_name(d->dev, a), d->dev == MT_DEV_HOST ? " (malloc family)" : "");
	page__heading(p, title);
	put_dev_lines(p, r, d);
	segments_text(p, r, d);
	if (d->carried_blocks) {
		page__printf(p, "  from before the window: %s in %s blocks", fmt_bytes(a, d->carried_bytes),
			     fmt_count(b, (double)d->carried_blocks));
		page__end_line(p);
	}
	if (d->preexisting_blocks) {
		page__printf(p, "  met too: %s in %s blocks from before the attach or of others",
			     fmt_bytes(a, d->preexisting_bytes), fmt_count(b, (double)d->preexisting_blocks));
		page__end_line(p);
	}
	if (d->preexisting_frees) {
		page__printf(p, "  freed too: %s blocks from before the attach, of unknown size",
			     fmt_count(a, (double)d->preexisting_frees));
		page__end_line(p);
	}
	if (d->dropped) {
		page__printf(p, "  gone with their process: %s in %s blocks", fmt_bytes(a, d->dropped_bytes),
			     fmt_count(b, (double)d->dropped));
		page__end_line(p);
	}
	if (d->ooms) {
		page__style(p, STYLE_RED);
		page__printf(p, "  out of memory %s times, last when asked for %s", fmt_count(a, (double)d->ooms),
			     fmt_bytes(b, d->oom_bytes_last));
		page__style(p, STYLE_PLAIN);
		page__end_line(p);
	}
}

static void put_dev_table(struct page *p, const struct report *r)
{
	char name[16];

	page__heading(p, "By device");
	page__put(p, "  ");
	page__cell(p, "device", 10);
	page__put(p, "      live      peak allocated     freed   blocks   blocks/s");
	page__end_line(p);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		page__put(p, "  ");
		page__cell(p, dev_name(d->dev, name), 10);
		put_bytes(p, d->live, -10);
		put_bytes(p, d->peak, -10);
		put_bytes(p, d->alloc_bytes, -10);
		put_bytes(p, d->free_bytes, -10);
		put_count(p, (double)d->allocs, -9);
		put_count(p, per_second(r, (double)d->allocs), -11);
		page__end_line(p);
	}
}

/* Devices whose driver's layer was seen. */
static void put_layer_table(struct page *p, const struct report *r)
{
	char name[16];
	size_t shown = 0;

	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_segments *s = &r->devs[i].segs;

		if (!segments_are_seen(s))
			continue;
		if (!shown++) {
			page__heading(p, "What the driver gave, by device");
			page__put(p, "  device      driver allocator   tensors  rounding      free    others");
			page__put(p, p->width >= 91 ? "  backend" : "");
			page__end_line(p);
		}
		page__put(p, "  ");
		page__cell(p, dev_name(r->devs[i].dev, name), 8);
		put_bytes(p, s->driver, -10);
		put_bytes(p, s->allocator, -10);
		put_bytes(p, s->tensors, -10);
		put_bytes(p, s->rounding, -10);
		put_bytes(p, s->unused, -10);
		put_bytes(p, s->others, -10);
		if (p->width >= 91) {
			page__put(p, "  ");
			page__cell(p, backend_name(s->backend), 19);
		}
		page__end_line(p);
	}
}

static void put_cats(struct page *p, const struct report *r)
{
	uint64_t ns = r->end_ts_ns - r->start_ts_ns;

	page__heading(p, "By category");
	page__put(p, "  device    category                  live   at peak   of peak      mean");
	page__end_line(p);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];
		char name[16];

		for (unsigned c = 0; d->dev != MT_DEV_HOST && c < CAT_MAX; c++) {
			const struct report_cat *cat = &d->cats[c];

			if (!cat->live && !cat->at_peak && !cat->byte_ns)
				continue;
			page__put(p, "  ");
			page__cell(p, dev_name(d->dev, name), 10);
			page__cell(p, category_name((enum category)c), 20);
			put_bytes(p, cat->live, -10);
			put_bytes(p, cat->at_peak, -10);
			put_share(p, cat->at_peak, d->peak, -10);
			put_bytes(p, ns ? (uint64_t)((double)cat->byte_ns / (double)ns) : 0, -10);
			page__end_line(p);
		}
	}
}

/* --- operators and regions ---------------------------------------------------------------------- */

static void put_op(struct page *p, const struct report_op *op, const char *name, unsigned name_cols,
		   uint64_t peak)
{
	page__put(p, "  ");
	page__cell(p, name, (int)name_cols);
	put_bytes(p, op->live, -10);
	put_bytes(p, op->at_peak, -10);
	put_share(p, op->at_peak, peak, -8);
	put_bytes(p, op->alloc_bytes, -11);
	if (op->count)
		put_count(p, (double)op->count, -8);
	else
		page__cell(p, "-", -8); /* blocks without an operator: there was nothing to enter */
	page__end_line(p);
}

/* Rows that gave memory out; the others are in JSON only. */
static size_t rows_with_bytes(const struct report_op *ops, size_t cnt)
{
	size_t n = 0;

	for (size_t i = 0; i < cnt; i++)
		n += ops[i].live || ops[i].at_peak || ops[i].alloc_count;
	return n;
}

struct op_table {
	const char *title, *column, *more;
	const struct report_op *ops;
	size_t cnt, total;
	const struct report_op *rest; /* a last row, or NULL */
};

static void put_ops(struct page *p, const struct report *r, const struct op_table *t, size_t top)
{
	uint64_t peak = report_peak_sum(r);
	unsigned cols = p->width - 49;
	size_t shown = 0;

	if (!rows_with_bytes(t->ops, t->cnt) && !(t->rest && t->rest->alloc_count))
		return;
	page__heading(p, t->title);
	page__put(p, "  ");
	page__cell(p, t->column, (int)cols);
	page__put(p, "      live   at peak of peak  allocated   count");
	page__end_line(p);
	for (size_t i = 0; i < t->cnt && shown < top; i++) {
		const struct report_op *op = &t->ops[i];

		if (!op->live && !op->at_peak && !op->alloc_count)
			continue; /* gave nothing out: in JSON only */
		put_op(p, op, op->name, cols, peak);
		shown++;
	}
	if (t->rest && t->rest->alloc_count)
		put_op(p, t->rest, "(no operator open)", cols, peak);
	if (t->total > shown) {
		page__style(p, STYLE_DIM);
		page__printf(p, "  … and %zu more %s (--top, --json)", t->total - shown, t->more);
		page__style(p, STYLE_PLAIN);
		page__end_line(p);
	}
}

static void put_op_table(struct page *p, const struct report *r, size_t top)
{
	struct op_table t = { "Operators, by their part of the peak", "operator", "operators",
			      r->ops, r->ops_cnt, r->ops_total, &r->no_op };

	put_ops(p, r, &t, top);
}

static void put_region_table(struct page *p, const struct report *r, size_t top)
{
	struct op_table t = { "Regions and backward nodes", "region", "regions", r->regions, r->regions_cnt,
			      r->regions_total, NULL };

	put_ops(p, r, &t, top);
}

/* --- the peak ---------------------------------------------------------------------------------------- */

/* Then the device is worth a column, and the stream, where it was told. */
static int has_gpu_blocks(const struct report *r)
{
	for (size_t i = 0; i < r->peak_blocks_cnt; i++)
		if (r->peak_blocks[i].dev >= MT_DEV_CUDA0)
			return 1;
	return 0;
}

static void put_block(struct page *p, const struct report *r, const struct report_block *b, unsigned name_cols)
{
	const struct report_dev *d = report_dev_find(r, b->dev);
	char a[24];

	page__put(p, "  ");
	put_bytes(p, b->size, -9);
	put_share(p, b->size, d ? d->peak : 0, -8);
	page__cell(p, d && d->peak_ts_ns >= b->born_ts_ns ? fmt_ns(a, d->peak_ts_ns - b->born_ts_ns) : "?", -11);
	page__put(p, "  ");
	page__path(p, b->name ? b->name : b->op && b->op[0] ? b->op : "-", (int)(name_cols - name_cols / 3));
	page__put(p, " ");
	page__cell(p, b->region && b->region[0] ? b->region : "-", (int)(name_cols / 3));
	if (r->procs_cnt > 1)
		page__printf(p, " %8u", b->pid);
	if (has_gpu_blocks(r)) {
		page__put(p, "  ");
		page__cell(p, dev_name(b->dev, a), 7);
		if (b->has_stream && b->stream)
			page__printf(p, " %08x", b->stream);
		else
			page__put(p, b->has_stream ? " default" : " -");
	}
	page__end_line(p);
}

static void put_blocks(struct page *p, const struct report *r, size_t top)
{
	unsigned cols = p->width - (r->procs_cnt > 1 ? 42 : 33) - (has_gpu_blocks(r) ? 18 : 0);
	size_t cnt = r->peak_blocks_cnt < top ? r->peak_blocks_cnt : top;

	if (!cnt)
		return;
	page__heading(p, "Largest blocks at the peak");
	page__put(p, "       size of peak        age  ");
	page__cell(p, "operator", (int)(cols - cols / 3));
	page__put(p, " ");
	page__cell(p, "region", (int)(cols / 3));
	page__put(p, r->procs_cnt > 1 ? "  process" : "");
	page__put(p, has_gpu_blocks(r) ? "  device  stream" : "");
	page__end_line(p);
	for (size_t i = 0; i < cnt; i++)
		put_block(p, r, &r->peak_blocks[i], cols);
}

/* --- names ------------------------------------------------------------------------------------------------ */

static void put_named(struct page *p, const struct report *r)
{
	char bytes[24], cnt[24];

	for (unsigned kind = 1; kind < EV_TENSOR_MAX; kind++) {
		const struct report_named *n = &r->named[kind];

		if (!n->cnt)
			continue;
		page__printf(p, "  %s: %s in %s", tensor_kind_words(kind), fmt_bytes(bytes, n->bytes),
			     fmt_count(cnt, (double)n->cnt));
		if (n->differ_cnt)
			page__printf(p, ", %s (%s) of them in another category", fmt_bytes(bytes, n->differ_bytes),
				     fmt_count(cnt, (double)n->differ_cnt));
		page__end_line(p);
	}
}

static void put_tensor(struct page *p, const struct report *r, const struct report_tensor *t, int cols, int type_cols)
{
	char name[512];

	snprintf(name, sizeof(name), "%s%s%s: %s", t->root, t->key[0] ? " " : "", t->key, t->path);
	page__put(p, "  ");
	put_bytes(p, t->size, -9);
	page__put(p, "  ");
	page__cell(p, tensor_kind_words(t->kind), 15);
	page__put(p, "  ");
	page__path(p, name, cols);
	page__put(p, "  ");
	page__cell(p, t->type, type_cols);
	if (r->procs_cnt > 1)
		page__printf(p, " %8u", t->pid);
	page__end_line(p);
}

static void put_tensors(struct page *p, const struct report *r, size_t top)
{
	int room = (int)p->width - 32 - (r->procs_cnt > 1 ? 9 : 0), type_cols = room / 3, cols = room - type_cols;
	size_t cnt = r->tensors_cnt < top ? r->tensors_cnt : top;

	if (!r->tensors_total)
		return;
	page__heading(p, "Named tensors that are alive, by size");
	put_named(p, r);
	page__put(p, "       size  kind             ");
	page__cell(p, "name", cols);
	page__put(p, "  ");
	page__cell(p, "type", type_cols);
	page__put(p, r->procs_cnt > 1 ? "  process" : "");
	page__end_line(p);
	for (size_t i = 0; i < cnt; i++)
		put_tensor(p, r, &r->tensors[i], cols, type_cols);
	if (r->tensors_total > cnt) {
		page__printf(p, "  … and %zu more (--top, --json)", r->tensors_total - cnt);
		page__end_line(p);
	}
}

/* --- processes and kernel ----------------------------------------------------------------------------- */

static void put_proc(struct page *p, const struct report_proc *proc, unsigned name_cols, int has_use)
{
	char name[TEXT_BYTES_MAX], state[32];
	size_t n = 0;

	page__printf(p, "  %8u  ", proc->pid);
	n += (size_t)snprintf(name, sizeof(name), "%.64s", proc->comm ? proc->comm : "");
	for (size_t i = 0; i < proc->labels_cnt && n < sizeof(name) / 2; i++)
		n += (size_t)snprintf(name + n, sizeof(name) - n, " %.64s", proc->labels[i]);
	page__cell(p, name, (int)name_cols);
	put_bytes(p, proc->live, -10);
	put_bytes(p, proc->peak, -10);
	put_count(p, (double)proc->allocs, -8);
	put_bytes(p, proc->gone == 1 ? proc->rss_peak : proc->rss_total, -10);
	if (has_use && !proc->use_ts_ns)
		page__put(p, "         -         -");
	else if (has_use) {
		put_bytes(p, proc->use[MT_USE_PRIVATE], -10);
		put_bytes(p, proc->use[MT_USE_SHARED], -10);
	}
	page__put(p, "  ");
	page__cell(p, proc_state(state, proc), 11);
	page__end_line(p);
}

static void put_procs(struct page *p, const struct report *r, size_t top)
{
	size_t cnt = r->procs_cnt < top ? r->procs_cnt : top;
	unsigned cols = p->width - 63;
	int has_use = 0;

	for (size_t i = 0; i < cnt; i++)
		has_use |= r->procs[i].use_ts_ns != 0;
	cols = has_use ? (cols > 32 ? cols - 20 : 12) : cols;
	page__heading(p, "Processes");
	page__put(p, "       pid  ");
	page__cell(p, "name", (int)cols);
	page__put(p, "      live      peak  blocks       RSS");
	page__put(p, has_use ? "   private    shared  state" : "  state");
	page__end_line(p);
	for (size_t i = 0; i < cnt; i++)
		put_proc(p, &r->procs[i], cols, has_use);
	if (cnt < r->procs_cnt) {
		page__printf(p, "  … and %zu more processes (--top)", r->procs_cnt - cnt);
		page__end_line(p);
	}
}

/* Resident memory that no tensor met so far explains. */
static void put_unseen(struct page *p, const struct report *r, uint64_t rss)
{
	uint64_t seen = report_framework_live(r);
	char text[200], a[24], b[24];

	if (!rss || !seen)
		return;
	snprintf(text, sizeof(text), "tensors seen: %s; other memory, and tensors that nothing has used since the attach: %s",
		 fmt_bytes(a, seen), seen < rss ? fmt_bytes(b, rss - seen) : "none");
	page__put(p, "  ");
	page__flow(p, 2, text);
}

static void put_kernel(struct page *p, const struct report *r)
{
	uint64_t kinds[MT_RSS_KINDS] = { 0 }, mapped = 0, peak, rss = report_rss(r, &peak);
	char text[200], a[24], b[24], c[24];
	size_t n;

	if (!peak)
		return;
	for (size_t i = 0; i < r->procs_cnt; i++) {
		mapped += r->procs[i].mapped;
		for (unsigned k = 0; k < MT_RSS_KINDS; k++)
			kinds[k] += r->procs[i].gone == 1 ? 0 : r->procs[i].rss[k];
	}
	page__heading(p, "Kernel's view");
	n = (size_t)snprintf(text, sizeof(text), "RSS %s   peak %s", fmt_bytes(a, rss), fmt_bytes(b, peak));
	if (rss)
		snprintf(text + n, sizeof(text) - n, "   (anonymous %s, file %s, shared %s)",
			 fmt_bytes(a, kinds[MT_RSS_ANON]), fmt_bytes(b, kinds[MT_RSS_FILE]),
			 fmt_bytes(c, kinds[MT_RSS_SHMEM]));
	page__put(p, "  ");
	page__flow(p, 2, text);
	if (r->use[MT_USE_RSS]) {
		snprintf(text, sizeof(text), "PSS %s, huge pages %s, pinned %s, when last read",
			 fmt_bytes(a, r->use[MT_USE_PSS]), fmt_bytes(b, r->use[MT_USE_HUGE]),
			 fmt_bytes(c, r->use[MT_USE_LOCKED] + r->use[MT_USE_PINNED]));
		page__put(p, "  ");
		page__flow(p, 2, text);
	}
	put_unseen(p, r, rss);
	if (mapped) {
		page__printf(p, "  mapped since the attach and not unmapped: %s", fmt_bytes(a, mapped));
		page__end_line(p);
	}
}

/* --- probes by symbol ------------------------------------------------------------------------------------ */

static void put_symbols(struct page *p, const struct report *r, size_t top)
{
	int cols = (int)p->width - 46;
	size_t shown = 0, silent = 0;

	page__heading(p, "Probed symbols, by how often they fired");
	page__put(p, "  ");
	page__cell(p, "symbol", cols);
	page__put(p, "  source       found  attached      fired");
	page__end_line(p);
	for (size_t i = 0; i < r->symbols_cnt; i++) {
		const struct report_symbol *s = &r->symbols[i];

		/* Those that could not be set are shown whatever the number of rows. */
		if ((shown >= top || !s->fired) && s->attached == s->found) {
			silent++;
			continue;
		}
		shown++;
		page__put(p, "  ");
		page__cell(p, s->name, cols);
		page__put(p, "  ");
		page__cell(p, source_name((enum source)(1u << (s->source & 31))), 10);
		put_count(p, (double)s->found, -8);
		put_count(p, (double)s->attached, -10);
		put_count(p, (double)s->fired, -11);
		page__end_line(p);
	}
	if (silent) {
		page__printf(p, "  … and %zu more symbols, set, that fired less often or never (--top)", silent);
		page__end_line(p);
	}
}

/* --- the whole ------------------------------------------------------------------------------------------ */

static void put_main(struct page *p, const struct report *r, const struct view_opts *opts)
{
	switch (opts->by) {
	case BY_DEVICE:
		put_dev_table(p, r);
		put_layer_table(p, r);
		break;
	case BY_PROCESS:
		put_procs(p, r, opts->top);
		break;
	case BY_REGION:
		put_region_table(p, r, opts->top);
		break;
	case BY_CATEGORY:
		put_cats(p, r);
		break;
	case BY_NAME:
		put_tensors(p, r, opts->top);
		break;
	case BY_SYMBOL:
		put_symbols(p, r, opts->top);
		break;
	case BY_RANK:
		ranks_text(p, r, opts->top);
		break;
	case BY_MODULE:
		modules_text(p, r, opts);
		break;
	case BY_STACK:
		stacks_text(p, r, opts->top);
		break;
	default:
		if (report_has_cats(r))
			put_cats(p, r);
		marks_text(p, r, opts->top < 4 ? opts->top : 4);
		put_op_table(p, r, opts->top);
		put_region_table(p, r, opts->top < 8 ? opts->top : 8);
		put_tensors(p, r, opts->top < 6 ? opts->top : 6);
	}
}

int view_report_text(FILE *out, const struct report *r, const struct view_opts *opts)
{
	unsigned width = opts->width ? opts->width : WIDTH_DEFAULT;
	struct page p;
	int err = page__init(&p, out, width < WIDTH_MIN ? WIDTH_MIN : width, opts->color);

	if (err)
		return err;
	put_head(&p, r);
	oom_text(&p, r);
	for (size_t i = 0; i < r->devs_cnt; i++)
		put_dev(&p, r, &r->devs[i]);
	if (!r->devs_cnt) {
		page__end_line(&p);
		page__put(&p, "No block was allocated or freed while memtrace looked.");
		page__end_line(&p);
	}
	segments_text_host(&p, r);
	leaks_line(&p, r);
	put_main(&p, r, opts);
	put_blocks(&p, r, opts->top < BLOCKS_SHOWN ? opts->top : BLOCKS_SHOWN);
	if (r->procs_cnt > 1 && opts->by != BY_PROCESS && opts->by != BY_RANK)
		put_procs(&p, r, opts->top);
	put_kernel(&p, r);
	view_honesty(&p, r);
	return page__done(&p);
}
