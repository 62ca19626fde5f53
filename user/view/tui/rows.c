/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_rows: from a report to the rows of each table. Nothing is worked out here but sums and shares. */
#include <string.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/report.h"
#include "view/report_words.h"
#include "view/tables/modules.h"
#include "view/tables/segments.h"
#include "view/tui/table.h"

#define ADD_ROW(rows, row)                                                                         \
	struct tui_row *row = tui_rows__add(rows);                                                 \
	if (!row)                                                                                  \
	return

/* --- operators and regions -------------------------------------------------------------------------- */

static const struct tui_col op_cols[] = {
	{ "operator", TUI_COL_TEXT, 20, 0, 1 }, { "live", TUI_COL_BYTES, 9, 0 },   { "at peak", TUI_COL_BYTES, 9, 0 },
	{ "of peak", TUI_COL_SHARE, 8, 0 },	{ "", TUI_COL_BAR, 12, 110, 1 },   { "blocks", TUI_COL_COUNT, 8, 100 },
	{ "allocated", TUI_COL_BYTES, 10, 0 },	{ "calls", TUI_COL_COUNT, 8, 0 },
};

static void fill_op(struct tui_rows *rows, const struct report_op *op, const char *name)
{
	ADD_ROW(rows, row);
	row->v[0].text = name;
	row->v[1].num = op->live;
	row->v[2].num = row->v[3].num = row->v[4].num = op->at_peak;
	row->v[5].num = op->live_count;
	row->v[6].num = op->alloc_bytes;
	row->v[7].num = op->count;
	if (!op->live && !op->at_peak)
		row->style = TUI_DIM;
}

static void fill_ops(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	(void)dev;
	rows->whole = report_peak_sum(r);
	for (size_t i = 0; i < r->ops_cnt; i++)
		fill_op(rows, &r->ops[i], r->ops[i].name);
	if (r->no_op.alloc_count) {
		fill_op(rows, &r->no_op, "(no operator open)");
		if (!rows->err)
			rows->rows[rows->cnt - 1].v[7].text = "-";
	}
}

static const struct tui_col region_cols[] = {
	{ "region or backward node", TUI_COL_TEXT, 20, 0, 1 }, { "kind", TUI_COL_TEXT, 6, 90 },
	{ "live", TUI_COL_BYTES, 9, 0 },		       { "at peak", TUI_COL_BYTES, 9, 0 },
	{ "of peak", TUI_COL_SHARE, 8, 0 },		       { "", TUI_COL_BAR, 12, 110, 1 },
	{ "allocated", TUI_COL_BYTES, 10, 0 },		       { "calls", TUI_COL_COUNT, 8, 0 },
};

static void fill_regions(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	(void)dev;
	rows->whole = report_peak_sum(r);
	for (size_t i = 0; i < r->regions_cnt; i++) {
		const struct report_op *op = &r->regions[i];

		ADD_ROW(rows, row);
		row->v[0].text = op->name;
		row->v[1].text = op->is_node ? "node" : "region";
		row->v[2].num = op->live;
		row->v[3].num = row->v[4].num = row->v[5].num = op->at_peak;
		row->v[6].num = op->alloc_bytes;
		row->v[7].num = op->count;
		if (!op->live && !op->at_peak)
			row->style = TUI_DIM;
	}
}

/* --- the peak ----------------------------------------------------------------------------------------- */

static const struct tui_col peak_cols[] = {
	{ "at the peak", TUI_COL_TEXT, 20, 0, 1 }, { "", TUI_COL_BAR, 20, 70, 1 }, { "bytes", TUI_COL_BYTES, 9, 0 },
	{ "of peak", TUI_COL_SHARE, 8, 0 },	   { "live now", TUI_COL_BYTES, 9, 0 },
};

static void fill_peak_row(struct tui_rows *rows, const char *name, uint64_t at_peak, uint64_t live, uint8_t style)
{
	ADD_ROW(rows, row);
	row->v[0].text = name;
	row->v[1].num = row->v[2].num = row->v[3].num = at_peak;
	row->v[4].num = live;
	row->style = style;
}

/* Of the chosen device by category; without categories by operator. */
static void fill_peak(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	if (report_has_cats(r) && dev) {
		rows->whole = dev->peak;
		for (unsigned c = 0; c < CAT_MAX; c++)
			if (dev->cats[c].at_peak || dev->cats[c].live)
				fill_peak_row(rows, category_name((enum category)c), dev->cats[c].at_peak,
					      dev->cats[c].live, (uint8_t)(TUI_CAT0 + c));
		return;
	}
	rows->whole = report_peak_sum(r);
	for (size_t i = 0; i < r->ops_cnt; i++)
		if (r->ops[i].at_peak)
			fill_peak_row(rows, r->ops[i].name, r->ops[i].at_peak, r->ops[i].live, TUI_PLAIN);
	if (r->no_op.at_peak)
		fill_peak_row(rows, "(no operator open)", r->no_op.at_peak, r->no_op.live, TUI_PLAIN);
}

/* --- blocks and threads ----------------------------------------------------------------------------- */

static const struct tui_col block_cols[] = {
	{ "size", TUI_COL_BYTES, 9, 0 },	 { "of peak", TUI_COL_SHARE, 8, 0 },   { "age", TUI_COL_NS, 9, 0 },
	{ "device", TUI_COL_TEXT, 7, 100 },	 { "category", TUI_COL_TEXT, 15, 110 }, { "thread", TUI_COL_NUMBER, 8, 90 },
	{ "operator", TUI_COL_TEXT, 16, 0, 1, 1 }, { "region", TUI_COL_TEXT, 16, 0, 1 },
	{ "freed after", TUI_COL_NS, 11, 130 },
	{ "made by", TUI_COL_TEXT, 16, UINT16_MAX }, /* where the name stands in the operator's place: in details */
};

static void fill_blocks(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	int has_cats = report_has_cats(r);

	(void)dev;
	rows->whole = report_peak_sum(r);
	for (size_t i = 0; i < r->peak_blocks_cnt; i++) {
		const struct report_block *b = &r->peak_blocks[i];
		const struct report_dev *of = report_dev_find(r, b->dev);
		char name[16];

		ADD_ROW(rows, row);
		row->v[0].num = row->v[1].num = b->size;
		row->v[2].num = of && of->peak_ts_ns > b->born_ts_ns ? of->peak_ts_ns - b->born_ts_ns : 0;
		row->v[3].text = tui_rows__text(rows, "%s", dev_name(b->dev, name));
		row->v[4].text = has_cats ? category_name((enum category)b->cat) : "-";
		row->v[5].num = b->tid;
		row->v[6].text = b->name ? b->name : b->op && b->op[0] ? b->op : "-";
		row->v[9].text = b->name ? b->op : NULL;
		row->v[7].text = b->region && b->region[0] ? b->region : "-";
		row->v[8].num = b->freed_ts_ns > b->born_ts_ns ? b->freed_ts_ns - b->born_ts_ns : 0;
		if (!b->freed_ts_ns)
			row->v[8].text = "live";
	}
}

static const struct tui_col thread_cols[] = {
	{ "thread", TUI_COL_NUMBER, 8, 0 },	{ "process", TUI_COL_NUMBER, 8, 0 },  { "blocks", TUI_COL_COUNT, 7, 0 },
	{ "bytes", TUI_COL_BYTES, 9, 0 },	{ "of peak", TUI_COL_SHARE, 8, 0 },   { "", TUI_COL_BAR, 12, 110, 1 },
	{ "largest", TUI_COL_BYTES, 9, 0 },	{ "made by", TUI_COL_TEXT, 14, 0, 1 },
};

/* A report has no table of threads: these are those that made the largest blocks at the peak. */
static void fill_threads(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	(void)dev;
	rows->whole = report_peak_sum(r);
	for (size_t i = 0; i < r->peak_blocks_cnt; i++) {
		const struct report_block *b = &r->peak_blocks[i];
		struct tui_row *row = NULL;

		for (size_t k = 0; k < rows->cnt && !row; k++)
			if (rows->rows[k].v[0].num == b->tid && rows->rows[k].v[1].num == b->pid)
				row = &rows->rows[k];
		if (!row) {
			row = tui_rows__add(rows);
			if (!row)
				return;
			row->v[0].num = b->tid;
			row->v[1].num = b->pid;
			row->v[7].text = b->op && b->op[0] ? b->op : "(no operator open)";
		}
		row->v[2].num++;
		row->v[3].num += b->size;
		row->v[4].num = row->v[5].num = row->v[3].num;
		if (b->size > row->v[6].num)
			row->v[6].num = b->size;
	}
}

/* --- names ---------------------------------------------------------------------------------------------- */

static const struct tui_col name_cols[] = {
	{ "name in Python", TUI_COL_TEXT, 24, 0, 1, 1 }, { "kind", TUI_COL_TEXT, 15, 0 },
	{ "size", TUI_COL_BYTES, 9, 0 },	      { "type", TUI_COL_TEXT, 20, 0 },
	{ "of", TUI_COL_TEXT, 14, 110 },	      { "category", TUI_COL_TEXT, 15, 120 },
	{ "device", TUI_COL_TEXT, 7, 130 },	      { "pid", TUI_COL_NUMBER, 8, 130 },
	{ "address", TUI_COL_TEXT, 14, 140 },
};

static void fill_names(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	int has_cats = report_has_cats(r);

	(void)dev;
	for (size_t i = 0; i < r->tensors_cnt; i++) {
		const struct report_tensor *t = &r->tensors[i];
		char name[16];

		ADD_ROW(rows, row);
		row->v[0].text = t->key[0] ? tui_rows__text(rows, "%s %s", t->key, t->path) : t->path;
		row->v[1].text = tensor_kind_words(t->kind);
		row->v[2].num = t->size;
		row->v[3].text = t->type;
		row->v[4].text = t->root;
		row->v[5].text = has_cats ? category_name((enum category)t->cat) : "-";
		row->v[6].text = tui_rows__text(rows, "%s", dev_name(t->dev, name));
		row->v[7].num = t->pid;
		row->v[8].text = tui_rows__text(rows, "%llx", (unsigned long long)t->ptr);
	}
}

/* --- modules -------------------------------------------------------------------------------------------- */

static const struct tui_col module_cols[] = {
	{ "module", TUI_COL_TEXT, 20, 0, 1, 1 },	       { "class", TUI_COL_TEXT, 16, 110 },
	{ "activation", TUI_COL_BYTES, 11, 0 },	       { "at peak", TUI_COL_BYTES, 9, 0 },
	{ "itself", TUI_COL_BYTES, 9, 0 },	       { "parameter", TUI_COL_BYTES, 9, 0 },
	{ "gradient", TUI_COL_BYTES, 9, 90 },	       { "state", TUI_COL_BYTES, 9, 90 },
	{ "peak forward", TUI_COL_BYTES, 12, 120 },    { "peak backward", TUI_COL_BYTES, 13, 120 },
};

/* A module with all that is in it; `itself`: of at peak, what was born with it innermost. */
static void fill_modules(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < r->modules_cnt; i++) {
		const struct report_module *m = &r->modules[i];
		char name[TEXT_BYTES_MAX];

		ADD_ROW(rows, row);
		row->v[0].text = tui_rows__text(rows, "%s", module_words(m, name, sizeof(name)));
		row->v[1].text = m->class;
		row->v[2].num = m->activation;
		row->v[3].num = m->all.at_peak;
		row->v[4].num = m->own.at_peak;
		row->v[5].num = m->kinds[EV_TENSOR_PARAMETER];
		row->v[6].num = m->kinds[EV_TENSOR_GRADIENT];
		row->v[7].num = m->kinds[EV_TENSOR_STATE];
		row->v[8].num = m->peak_forward;
		row->v[9].num = m->peak_backward;
	}
}

/* --- steps ---------------------------------------------------------------------------------------------- */

static const struct tui_col step_cols[] = {
	{ "step", TUI_COL_NUMBER, 8, 0 },	       { "length", TUI_COL_NS, 9, 0 },
	{ "fw_start", TUI_COL_BYTES, 9, 0 },	       { "in forward", TUI_COL_BYTES, 10, 0 },
	{ "fw_bw_boundary", TUI_COL_BYTES, 14, 0 },    { "after it", TUI_COL_BYTES, 9, 0 },
	{ "at end", TUI_COL_BYTES, 9, 0 },	       { "", TUI_COL_BAR, 12, 110, 1 },
	{ "ended at", TUI_COL_NS, 9, 90 },	       { "process", TUI_COL_NUMBER, 8, 100 },
};

static void put_at(struct tui_row *row, unsigned col, const struct mark_at *at, uint64_t bytes)
{
	row->v[col] = (struct tui_value){ at->ts_ns ? NULL : "-", bytes };
}

/* What was live at the marks, and the highest between them; the bar: the highest of all. */
static void fill_step(struct tui_rows *rows, const struct report *r, const struct step_marks *s)
{
	const struct mark_at *boundary = &s->at[MARK_FW_BW_BOUNDARY], *end = &s->at[MARK_STEP];
	uint64_t peak = step_marks__peak(s);

	ADD_ROW(rows, row);
	row->v[0].num = s->number;
	row->v[1] = (struct tui_value){ s->begin_ts_ns ? NULL : "-", s->begin_ts_ns ? end->ts_ns - s->begin_ts_ns : 0 };
	put_at(row, 2, &s->at[MARK_FW_START], s->at[MARK_FW_START].live);
	put_at(row, 3, boundary, boundary->peak);
	put_at(row, 4, boundary, boundary->live);
	put_at(row, 5, end, end->peak);
	put_at(row, 6, end, end->live);
	row->v[7].num = peak;
	row->v[8].num = end->ts_ns - r->start_ts_ns;
	row->v[9].num = s->pid;
	rows->whole = peak > rows->whole ? peak : rows->whole;
}

/* The last ones, and of each process the highest, when that is older than those. */
static void fill_steps(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < r->step_rows_cnt; i++)
		fill_step(rows, r, &r->step_rows[i]);
	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct step_marks *high = &r->procs[i].highest_step;

		if (high->pid && r->step_rows_cnt && high->at[MARK_STEP].ts_ns < r->step_rows[0].at[MARK_STEP].ts_ns)
			fill_step(rows, r, high);
	}
}

/* --- processes ---------------------------------------------------------------------------------------- */

static const struct tui_col proc_cols[] = {
	{ "pid", TUI_COL_NUMBER, 8, 0 },    { "command", TUI_COL_TEXT, 16, 0, 1 }, { "labels", TUI_COL_TEXT, 20, 120, 1 },
	{ "state", TUI_COL_TEXT, 9, 0 },    { "live", TUI_COL_BYTES, 9, 0 },	    { "peak", TUI_COL_BYTES, 9, 0 },
	{ "RSS", TUI_COL_BYTES, 9, 0 },	    { "RSS peak", TUI_COL_BYTES, 9, 90 },   { "CPU", TUI_COL_NS, 10, 100 },
	{ "allocs", TUI_COL_COUNT, 8, 130 },
};

static void fill_procs(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];
		const char *labels = "";
		char state[32];

		ADD_ROW(rows, row);
		row->v[0].num = p->pid;
		row->v[1].text = p->cmdline && p->cmdline[0] ? p->cmdline : p->comm;
		for (size_t k = 0; k < p->labels_cnt; k++)
			labels = tui_rows__text(rows, "%s%s%s", labels, k ? " " : "", p->labels[k]);
		row->v[2].text = labels;
		row->v[3].text = tui_rows__text(rows, "%s", proc_state(state, p));
		row->v[4].num = p->live;
		row->v[5].num = p->peak;
		row->v[6].num = p->gone ? 0 : p->rss_total;
		row->v[7].num = p->rss_peak;
		row->v[8].num = p->cpu_ns;
		row->v[9].num = p->allocs;
		if (p->gone)
			row->style = TUI_DIM;
	}
}

/* --- what the trace rests on ------------------------------------------------------------------------- */

static const struct tui_col trace_cols[] = {
	{ "about", TUI_COL_TEXT, 9, 0 }, { "what", TUI_COL_TEXT, 20, 0, 1 }, { "count", TUI_COL_COUNT, 14, 0 },
	{ "time", TUI_COL_NS, 10, 50 },	 { "of the job", TUI_COL_SHARE, 11, 60 },
};

static struct tui_row *trace_row(struct tui_rows *rows, const char *about, const char *what)
{
	struct tui_row *row = tui_rows__add(rows);

	if (!row)
		return NULL;
	row->v[0] = (struct tui_value){ about, rows->cnt };
	row->v[1].text = what;
	row->v[2].text = row->v[3].text = row->v[4].text = "";
	return row;
}

static void fill_trace_lost(struct tui_rows *rows, const struct report *r)
{
	struct tui_row *row;

	for (unsigned i = 1; i < MT_LOSS_MAX; i++) {
		if (!r->lost[i])
			continue;
		row = trace_row(rows, "lost", loss_name(i) ? loss_name(i) : "?");
		if (!row)
			return;
		row->v[2] = (struct tui_value){ NULL, r->lost[i] };
		row->style = TUI_BAD;
	}
	if (!report_lost_sum(r)) {
		row = trace_row(rows, "lost", "nothing");
		if (row)
			row->style = TUI_GOOD;
	}
}

static void fill_trace_costs(struct tui_rows *rows, const struct report *r)
{
	struct tui_row *row;

	for (unsigned i = 1; i < MT_PROG_MAX; i++) {
		if (!r->costs[i].hits)
			continue;
		row = trace_row(rows, "probe", prog_words(i));
		if (!row)
			return;
		row->v[2] = (struct tui_value){ NULL, r->costs[i].hits };
		row->v[3] = (struct tui_value){ NULL, r->costs[i].ns };
		row->v[4] = (struct tui_value){ r->target_cpu_ns ? NULL : "-", r->costs[i].ns };
	}
	row = trace_row(rows, "probe", "all together");
	if (!row)
		return;
	row->v[2] = (struct tui_value){ NULL, r->probe_hits };
	row->v[3] = (struct tui_value){ NULL, r->probe_ns };
	row->v[4] = (struct tui_value){ r->target_cpu_ns ? NULL : "-", r->probe_ns };
	row = trace_row(rows, "memtrace", "its own CPU time");
	if (row)
		row->v[3] = (struct tui_value){ NULL, r->self_cpu_ns };
}

static void fill_trace(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	struct tui_row *row;

	(void)dev;
	rows->whole = r->target_cpu_ns;
	fill_trace_lost(rows, r);
	fill_trace_costs(rows, r);
	for (size_t i = 0; i < r->covers_cnt; i++) {
		const struct report_cover *k = &r->covers[i];

		row = trace_row(rows, "set",
				r->procs_cnt > 1 ? tui_rows__text(rows, "%s in %u", k->source, k->pid) : k->source);
		if (!row)
			return;
		row->v[2].text = tui_rows__text(rows, "%llu of %llu", (unsigned long long)k->attached,
						(unsigned long long)k->found);
		if (k->attached < k->found)
			row->style = TUI_WARN;
	}
	for (size_t i = 0; i < r->notes_cnt; i++)
		if (!trace_row(rows, "note", r->notes[i]))
			return;
	(void)trace_row(rows, "made by", r->host);
}

/* --- segments ------------------------------------------------------------------------------------------ */

static const struct tui_col segment_cols[] = {
	{ "device", TUI_COL_TEXT, 7, 0 },	 { "kind", TUI_COL_TEXT, 18, 0, 1 },	{ "size", TUI_COL_BYTES, 9, 0 },
	{ "used", TUI_COL_BYTES, 9, 0 },	 { "free", TUI_COL_BYTES, 9, 0 },	{ "largest", TUI_COL_BYTES, 9, 0 },
	{ "fragm.", TUI_COL_TEXT, 7, 0 },	 { "blocks", TUI_COL_COUNT, 7, 90 },	{ "pid", TUI_COL_NUMBER, 8, 100 },
	{ "address", TUI_COL_TEXT, 14, 110 },
};

/* What no block lies in says nothing of its inside: a library's. */
static void fill_segments(struct tui_rows *rows, const struct report *r, const struct report_dev *dev)
{
	(void)dev;
	for (size_t i = 0; i < r->seg_rows_cnt; i++) {
		const struct report_seg_row *s = &r->seg_rows[i];
		uint64_t unused = s->size - s->used;
		double part = unused ? 1 - (double)s->largest_free / (double)unused : 0;
		char name[16], share[24];

		ADD_ROW(rows, row);
		row->v[0].text = s->dev ? tui_rows__text(rows, "%s", dev_name(s->dev, name)) : "-";
		row->v[1].text = s->is_comm ? "communication" : seg_kind_words(s->kind);
		row->v[2].num = s->size;
		row->v[7].num = s->blocks;
		row->v[8].num = s->pid;
		row->v[9].text = tui_rows__text(rows, "%llx", (unsigned long long)s->addr);
		if (!s->is_cached) {
			row->v[3].text = row->v[4].text = row->v[5].text = row->v[6].text = "-";
			continue;
		}
		row->v[3].num = s->used;
		row->v[4].num = unused;
		row->v[5].num = s->largest_free;
		row->v[6] = (struct tui_value){ tui_rows__text(rows, "%s", fmt_share(share, part, 1)),
						(uint64_t)(part * 1e6) };
	}
}

#define COLS(c) c, sizeof(c) / sizeof((c)[0])
const struct tui_table tui_tables[TUI_TABS] = {
	[TUI_OPS] = { "Operators", "no operator has allocated yet", COLS(op_cols), fill_ops },
	[TUI_REGIONS] = { "Regions", "no region or backward node yet", COLS(region_cols), fill_regions },
	[TUI_PEAK] = { "Peak", "no block yet", COLS(peak_cols), fill_peak },
	[TUI_BLOCKS] = { "Blocks", "no block yet", COLS(block_cols), fill_blocks },
	[TUI_THREADS] = { "Threads", "no block yet", COLS(thread_cols), fill_threads },
	[TUI_PROCS] = { "Processes", "no process yet", COLS(proc_cols), fill_procs },
	[TUI_TRACE] = { "Trace", "", COLS(trace_cols), fill_trace },
	[TUI_SEGMENTS] = { "Segments", "no memory of a GPU's driver seen yet", COLS(segment_cols), fill_segments },
	[TUI_NAMES] = { "Names", "no name known (docs/names.md)", COLS(name_cols), fill_names },
	[TUI_MODULES] = { "Modules", "no module known (docs/modules.md)", COLS(module_cols), fill_modules },
	[TUI_STEPS] = { "Steps", "no step is over yet", COLS(step_cols), fill_steps },
};
