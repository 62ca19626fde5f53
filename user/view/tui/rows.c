/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_rows: the tables and the contents of their rows. Tables that only the terminal interface has are here. */
#include "event/event.h"
#include "timeline/report.h"
#include "view/report_words.h"
#include "view/tables/compiles.h"
#include "view/tables/leaks.h"
#include "view/tables/marks.h"
#include "view/tables/modules.h"
#include "view/tables/places.h"
#include "view/tables/saved.h"
#include "view/tables/segments.h"
#include "view/tables/stacks.h"
#include "view/tables/tables.h"
#include "view/tui/table.h"

/* The whole of shares: the peak, or the live bytes of the held moment. */
static uint64_t whole_of(const struct drawn *d)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < d->r->devs_cnt; i++)
		sum += d->r->devs[i].live;
	return d->is_then ? sum : report_peak_sum(d->r);
}

/* --- operators and regions -------------------------------------------------------------------------- */

static void fill_op(struct tui_rows *rows, const struct drawn *d, const struct report_op *op)
{
	struct tui_row *row = tui_rows__add(rows, d, op);

	if (!op->live && (d->is_then || !op->at_peak))
		row->style = TUI_DIM;
}

static void fill_ops(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	d->whole = whole_of(d);
	for (size_t i = 0; i < d->r->ops.cnt; i++)
		fill_op(rows, d, &d->r->ops.rows[i]);
	if (d->r->ops.none.alloc_count)
		fill_op(rows, d, &d->r->ops.none);
}

static void fill_regions(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	d->whole = whole_of(d);
	for (size_t i = 0; i < d->r->regions.cnt; i++)
		fill_op(rows, d, &d->r->regions.rows[i]);
}

/* --- the peak ----------------------------------------------------------------------------------------- */

struct peak_part {
	const char *name;
	uint64_t at_peak, live, use;
};

static int has_use(const struct drawn *d)
{
	return !d->is_then && report_has_use(d->r);
}

static const struct column peak_cols[] = {
	{ NULL, "at the peak", COL_TEXT, OF(peak_part, name), TUI(1, 20, .wide = 1) },
	{ NULL, "", COL_BAR, OF(peak_part, at_peak), TUI(2, 20, 70, 1) },
	{ NULL, "bytes", COL_BYTES, OF(peak_part, at_peak), TUI(3, 9) },
	{ NULL, "of peak", COL_SHARE, OF(peak_part, at_peak), TUI(4, 8) },
	{ NULL, "by use", COL_BYTES, OF(peak_part, use), .shown_if = has_use, TUI(5, 9) },
	{ NULL, "live now", COL_BYTES, OF(peak_part, live), TUI(6, 9) },
};

static const struct table peak_table = TABLE(peak_cols);

/* Of the chosen device by category; without categories by operator. */
static void fill_peak(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	const struct report *r = d->r;
	const struct report_op *none = &r->ops.none;

	if (report_has_cats(r) && dev) {
		d->whole = dev->peak;
		for (unsigned c = 0; c < CAT_MAX; c++) {
			struct peak_part part = { category_name((enum category)c), dev->cats[c].at_peak, dev->cats[c].live,
						  has_use(d) ? report_cat__plain(&dev->cats[c]) : 0 };

			if (part.at_peak || part.live || part.use)
				tui_rows__add(rows, d, &part)->style = (uint8_t)(TUI_CAT0 + c);
		}
		return;
	}
	d->whole = report_peak_sum(r);
	for (size_t i = 0; i < r->ops.cnt; i++)
		if (r->ops.rows[i].at_peak)
			tui_rows__add(rows, d,
				      &(struct peak_part){ r->ops.rows[i].name, r->ops.rows[i].at_peak, r->ops.rows[i].live,
							   0 });
	if (none->at_peak)
		tui_rows__add(rows, d, &(struct peak_part){ "(no operator open)", none->at_peak, none->live, 0 });
}

/* --- blocks and threads ----------------------------------------------------------------------------- */

static void fill_blocks(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	d->whole = report_peak_sum(d->r);
	for (size_t i = 0; i < d->r->peak_blocks.cnt; i++)
		tui_rows__add(rows, d, &d->r->peak_blocks.rows[i]);
}

struct thread_row {
	uint32_t tid, pid;
	uint64_t blocks, bytes, largest;
	const char *op; /* of the largest */
};

static void tid_or_rest(struct cell *c, const void *row)
{
	const struct thread_row *t = row;

	if (t->tid)
		cell__say(c, "%u", t->tid);
	else
		c->text = "(smaller)";
}

static const struct column thread_cols[] = {
	{ NULL, "thread", COL_TEXT, VIA(tid_or_rest), TUI(1, 12) },
	{ NULL, "process", COL_NUMBER, OF(thread_row, pid), IF(thread_row, tid), TUI(2, 8) },
	{ NULL, "blocks", COL_COUNT, OF(thread_row, blocks), IF(thread_row, tid), TUI(3, 7) },
	{ NULL, "bytes", COL_BYTES, OF(thread_row, bytes), TUI(4, 9) },
	{ NULL, "of peak", COL_SHARE, OF(thread_row, bytes), TUI(5, 8) },
	{ NULL, "", COL_BAR, OF(thread_row, bytes), TUI(6, 12, 110, 1) },
	{ NULL, "largest", COL_BYTES, OF(thread_row, largest), IF(thread_row, tid), TUI(7, 9) },
	{ NULL, "made by", COL_TEXT, OF(thread_row, op), TUI(8, 14, .wide = 1) },
};

static const struct table thread_table = TABLE(thread_cols);

static int has_earlier(const struct report *r, size_t block)
{
	const struct report_block *rows = r->peak_blocks.rows;

	for (size_t i = 0; i < block; i++)
		if (rows[i].tid == rows[block].tid && rows[i].pid == rows[block].pid)
			return 1;
	return 0;
}

/* A report has no table of threads: these made the largest blocks at the peak, and the rest is one row. */
static void fill_threads(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	const struct report *r = d->r;
	uint64_t reported = 0;

	(void)dev;
	d->whole = report_peak_sum(r);
	for (size_t i = 0; i < r->peak_blocks.cnt; i++) {
		const struct report_block *first = &r->peak_blocks.rows[i];
		struct thread_row t = { .tid = first->tid, .pid = first->pid };

		if (has_earlier(r, i))
			continue;
		t.op = first->op && first->op[0] ? first->op : "(no operator open)";
		for (size_t k = i; k < r->peak_blocks.cnt; k++) {
			const struct report_block *b = &r->peak_blocks.rows[k];

			if (b->tid != t.tid || b->pid != t.pid)
				continue;
			t.blocks++;
			t.bytes += b->size;
			t.largest = b->size > t.largest ? b->size : t.largest;
		}
		tui_rows__add(rows, d, &t);
		reported += t.bytes;
	}
	if (reported && reported < d->whole)
		tui_rows__add(rows, d, &(struct thread_row){ .bytes = d->whole - reported,
							    .op = "blocks that are not under Blocks" })->style = TUI_DIM;
}

/* --- names, modules, steps, processes, segments ------------------------------------------------------- */

static void fill_names(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < d->r->names.cnt; i++)
		tui_rows__add(rows, d, &d->r->names.rows[i]);
}

static void fill_modules(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < d->r->modules.cnt; i++)
		tui_rows__add(rows, d, &d->r->modules.rows[i]);
}

static void fill_step(struct tui_rows *rows, struct drawn *d, const struct step_marks *s)
{
	uint64_t peak = step_marks__peak(s);

	d->whole = peak > d->whole ? peak : d->whole;
	tui_rows__add(rows, d, s);
}

/* The last ones, and of each process the highest, when that is older than those. */
static void fill_steps(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	const struct report *r = d->r;

	(void)dev;
	for (size_t i = 0; i < r->marks.steps_cnt; i++)
		fill_step(rows, d, &r->marks.steps[i]);
	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct step_marks *high = &r->procs[i].highest_step;

		if (high->pid && r->marks.steps_cnt && high->at[MARK_STEP].ts_ns < r->marks.steps[0].at[MARK_STEP].ts_ns)
			fill_step(rows, d, high);
	}
}

static void fill_saved(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	d->whole = saved_bytes(d->r);
	for (size_t i = 0; i < d->r->saved.cnt; i++)
		tui_rows__add(rows, d, &d->r->saved.rows[i]);
}

static void fill_procs(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	const struct report_proc *p;
	size_t at = 0;

	(void)dev;
	while ((p = proc_next(d->r, &at)))
		tui_rows__add(rows, d, p)->style = p->gone ? TUI_DIM : TUI_PLAIN;
}

static void fill_segments(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < d->r->driver.cnt; i++)
		tui_rows__add(rows, d, &d->r->driver.rows[i]);
}

/* The last ones, in order. */
static void fill_compiles(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	const struct report_compiles *c = &d->r->compiles;

	(void)dev;
	for (size_t i = 0; i < c->rows_cnt; i++)
		tui_rows__add(rows, d, &c->rows[i])->style = c->rows[i].failed[0] ? TUI_BAD :
							     c->rows[i].before ? TUI_DIM : TUI_PLAIN;
}

static void fill_places(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	const struct report_places *p = &d->r->places;

	(void)dev;
	for (size_t i = 0; i < p->cnt; i++)
		d->whole += p->rows[i].bytes;
	for (size_t i = 0; i < p->cnt; i++)
		tui_rows__add(rows, d, &p->rows[i]);
}

static void fill_leaks(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < d->r->leaks.cnt; i++)
		tui_rows__add(rows, d, &d->r->leaks.rows[i])->style = d->r->leaks.rows[i].sure >= SURE_MEDIUM ? TUI_WARN :
													 TUI_PLAIN;
}

static void fill_stacks(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	(void)dev;
	d->whole = whole_of(d);
	rows->empty = stacks_none_words(d->r);
	for (size_t i = 0; i < d->r->stacks.cnt; i++)
		tui_rows__add(rows, d, &d->r->stacks.rows[i]);
}

/* --- coverage and cost of the trace ------------------------------------------------------------------ */

/* An unknown number is empty. */
struct rest {
	const char *about, *what;
	uint64_t count, ns;
	uint8_t has_count, has_ns, has_share;
	const struct report_cover *cover;
};

static void about(struct cell *c, const void *row)
{
	c->text = ((const struct rest *)row)->about;
	c->num = *(const size_t *)c->d->of;
}

static void what(struct cell *c, const void *row)
{
	const struct rest *k = row;

	c->text = k->cover ? k->cover->source : k->what;
	if (k->cover && c->d->r->procs_cnt > 1)
		cell__say(c, "%s in %u", k->cover->source, k->cover->pid);
}

static void count(struct cell *c, const void *row)
{
	const struct rest *k = row;

	c->num = k->count;
	c->text = k->has_count ? NULL : "";
	if (k->cover)
		cell__say(c, "%llu of %llu", (unsigned long long)k->cover->attached, (unsigned long long)k->cover->found);
}

static void spent(struct cell *c, const void *row)
{
	const struct rest *k = row;

	c->num = k->ns;
	c->text = k->has_ns ? NULL : "";
}

static void of_the_job(struct cell *c, const void *row)
{
	const struct rest *k = row;

	c->num = k->has_share ? k->ns : 0;
	c->text = !k->has_share ? "" : c->d->r->cost.target_cpu_ns ? NULL : "-";
}

static const struct column trace_cols[] = {
	{ NULL, "about", COL_TEXT, VIA(about), TUI(1, 9) },
	{ NULL, "what", COL_TEXT, VIA(what), TUI(2, 20, .wide = 1) },
	{ NULL, "count", COL_COUNT, VIA(count), TUI(3, 14) },
	{ NULL, "time", COL_NS, VIA(spent), TUI(4, 10, 50) },
	{ NULL, "of the job", COL_SHARE, VIA(of_the_job), TUI(5, 11, 60) },
};

static const struct table trace_table = TABLE(trace_cols);

static void fill_rest(struct tui_rows *rows, struct drawn *d, enum tui_style style, const struct rest *k)
{
	size_t number = rows->cnt + 1; /* sorted by it, they stand as they were added */

	d->of = &number;
	tui_rows__add(rows, d, k)->style = (uint8_t)style;
	d->of = NULL;
}

static void fill_costs(struct tui_rows *rows, struct drawn *d)
{
	const struct report *r = d->r;

	for (unsigned i = 1; i < MT_PROG_MAX; i++) {
		struct rest k = { "probe", prog_words(i), r->cost.programs[i].hits, r->cost.programs[i].ns, 1, 1, 1, NULL };

		if (k.count)
			fill_rest(rows, d, TUI_PLAIN, &k);
	}
	fill_rest(rows, d, TUI_PLAIN, &(struct rest){ "probe", "all together", r->cost.hits, r->cost.ns, 1, 1, 1, NULL });
	fill_rest(rows, d, TUI_PLAIN, &(struct rest){ "memtrace", "its own CPU time", .ns = r->cost.self_cpu_ns, .has_ns = 1 });
}

static void fill_trace(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev)
{
	const struct report *r = d->r;

	(void)dev;
	d->whole = r->cost.target_cpu_ns;
	for (unsigned i = 1; i < MT_LOSS_MAX; i++) {
		struct rest k = { "lost", loss_name(i) ? loss_name(i) : "?", .count = r->run.lost[i], .has_count = 1 };

		if (k.count)
			fill_rest(rows, d, TUI_BAD, &k);
	}
	if (!report_lost_sum(r))
		fill_rest(rows, d, TUI_GOOD, &(struct rest){ "lost", "nothing" });
	fill_costs(rows, d);
	for (size_t i = 0; i < r->probes.covers_cnt; i++)
		fill_rest(rows, d, r->probes.covers[i].attached < r->probes.covers[i].found ? TUI_WARN : TUI_PLAIN,
			  &(struct rest){ "set", .cover = &r->probes.covers[i] });
	for (size_t i = 0; i < r->run.notes_cnt; i++)
		fill_rest(rows, d, TUI_PLAIN, &(struct rest){ "note", r->run.notes[i] });
	fill_rest(rows, d, TUI_PLAIN, &(struct rest){ "made by", r->run.host });
}

const struct tui_table tui_tables[TUI_TABS] = {
	[TUI_PEAK] = { "Peak", "no block yet", &peak_table, fill_peak },
	[TUI_LEAKS] = { "Leaks", "nothing grows, as far as that can be said yet (docs/leaks.md)", &leak_table, fill_leaks },
	[TUI_MODULES] = { "Modules", "no module known (docs/modules.md)", &module_table, fill_modules, .follows = 1 },
	[TUI_OPS] = { "Operators", "no operator has allocated yet", &op_table, fill_ops, .follows = 1 },
	[TUI_STACKS] = { "Stacks", NULL, &stack_table, fill_stacks, .follows = 1 },
	[TUI_BLOCKS] = { "Blocks", "no block yet", &block_table, fill_blocks },
	[TUI_STEPS] = { "Steps", "no step is over yet", &step_table, fill_steps },
	[TUI_SEGMENTS] = { "Segments", "no memory of a GPU's driver seen yet", &segment_table, fill_segments, .follows = 1 },
	[TUI_PROCS] = { "Processes", "no process yet", &proc_table, fill_procs, .follows = 1 },
	[TUI_TRACE] = { "Trace", "", &trace_table, fill_trace },
	[TUI_NAMES] = { "Names", "no name known (docs/names.md)", &tensor_table, fill_names, .follows = 1 },
	[TUI_SAVED] = { "Kept", "no backward pass is known yet (docs/saved.md)", &saved_table, fill_saved },
	[TUI_REGIONS] = { "Regions", "no region or backward node yet", &region_table, fill_regions, .follows = 1 },
	[TUI_THREADS] = { "Threads", "no block yet", &thread_table, fill_threads },
	[TUI_COMPILES] = { "Recompiles", "nothing was compiled again (docs/compiled.md)", &recompile_table, fill_compiles },
	[TUI_PLACES] = { "Generated", "no line of generated code has allocated (docs/compiled.md)", &place_table, fill_places },
};
