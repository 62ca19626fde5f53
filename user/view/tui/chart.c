/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Two sources: the report's series is exact (the highest value of each column's time, to the byte) but
 * has the sum alone; the history has the parts, of the fullest moment of each quarter of a second. The stack
 * shows the fullest of those moments; a thin line above it is the exact height.
 *
 * A cell holds two colours: eighths of a block in front, another layer behind. Of three layers in one
 * cell the thinnest is not shown.
 */
#include "view/tui/chart.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/report_words.h"

#define AXIS_COLS 9
#define SPAN_NS_MIN 10000000000ull /* a trace that has just begun fills the chart from the left */
#define LAYER_NONE 0xff
#define LAYER_ENVELOPE 0xfe

const uint8_t tui_stack[CAT_MAX] = {
	CAT_PARAMETER, CAT_FROZEN, CAT_BUFFER, CAT_OPTIMIZER_STATE, CAT_GRADIENT, CAT_UNSHARDED, CAT_ACTIVATION,
	CAT_AUTOGRAD_DETAIL, CAT_INPUT, CAT_DATALOADER, CAT_COMMUNICATION, CAT_WORKSPACE, CAT_TEMPORARY, CAT_UNKNOWN,
};

char tui_letter(unsigned cat)
{
	static const char letters[CAT_MAX] = {
		[CAT_UNKNOWN] = '?', [CAT_PARAMETER] = 'P', [CAT_OPTIMIZER_STATE] = 'O', [CAT_INPUT] = 'I',
		[CAT_TEMPORARY] = 't', [CAT_ACTIVATION] = 'A', [CAT_GRADIENT] = 'G', [CAT_AUTOGRAD_DETAIL] = 'd',
		[CAT_FROZEN] = 'F', [CAT_BUFFER] = 'B', [CAT_DATALOADER] = 'L', [CAT_COMMUNICATION] = 'C',
		[CAT_WORKSPACE] = 'W', [CAT_UNSHARDED] = 'U',
	};

	return cat < CAT_MAX ? letters[cat] : '?';
}

uint64_t tui_scale(uint64_t bytes)
{
	static const unsigned steps[] = { 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 60, 80, 100, 120, 160,
					  200, 240, 320, 400, 480, 600, 800 };

	for (uint64_t unit = 1024; unit <= 1ull << 50; unit <<= 10)
		for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
			if (unit * steps[i] >= bytes)
				return unit * steps[i];
	return UINT64_MAX;
}

/* --- a column ----------------------------------------------------------------------------------------- */

static unsigned eighths(uint64_t bytes, uint64_t scale, unsigned lines)
{
	double v = scale ? (double)bytes / (double)scale * lines * 8 : 0;

	return v >= lines * 8 ? lines * 8 : (unsigned)(v + 0.5);
}

/* The layer of each eighth of a line, from the bottom. */
static void column_layers(uint8_t *layers, unsigned lines, const struct tui_column *col, uint64_t scale)
{
	unsigned at = 0, end = 0;
	uint64_t sum = 0;

	memset(layers, LAYER_NONE, lines * 8);
	for (unsigned i = 0; i < CAT_MAX; i++) {
		if (__builtin_add_overflow(sum, col->cats[tui_stack[i]], &sum))
			sum = UINT64_MAX;
		for (end = eighths(sum, scale, lines); at < end; at++)
			layers[at] = tui_stack[i];
	}
	for (end = eighths(col->top, scale, lines); at < end; at++)
		layers[at] = LAYER_ENVELOPE;
	if (!at && (col->top || sum))
		layers[0] = sum ? CAT_UNKNOWN : LAYER_ENVELOPE; /* little is not nothing */
}

static enum tui_style layer_style(uint8_t layer, int has_cats)
{
	return layer == LAYER_NONE     ? TUI_PLAIN :
	       layer == LAYER_ENVELOPE ? TUI_ENVELOPE :
	       !has_cats	       ? TUI_LIVE :
					 (enum tui_style)(TUI_CAT0 + layer);
}

/* The layer with most of a cell. */
static uint8_t cell_layer(const uint8_t *eight)
{
	unsigned n = 0;
	uint8_t best = 0;

	for (unsigned i = 0; i < 8; i++) {
		unsigned cnt = 0;

		for (unsigned k = 0; k < 8; k++)
			cnt += eight[k] == eight[i];
		if (cnt > n) {
			best = eight[i];
			n = cnt;
		}
	}
	return best;
}

/* Without colours a cell shows the layer that has most of it, by its letter. */
static void column_cell_plain(struct canvas *c, unsigned x, unsigned y, const uint8_t *eight, int is_top, int has_cats)
{
	uint8_t best = cell_layer(eight);

	if (best == LAYER_NONE)
		return;
	if (best == LAYER_ENVELOPE && eight[7] == LAYER_ENVELOPE && !is_top)
		return;
	canvas__set(c, x, y, best == LAYER_ENVELOPE ? '-' : has_cats ? (uint32_t)tui_letter(best) : '#',
		    layer_style(best, has_cats), TUI_PLAIN);
}

/* The exact height: a line above the stack. */
static void column_line(struct canvas *c, unsigned x, unsigned y, unsigned height)
{
	canvas__set(c, x, y, height < 3 ? 0x2581 : height < 7 ? 0x2500 : 0x2594, TUI_ENVELOPE, TUI_PLAIN); /* ▁ ─ ▔ */
}

static void column_cell(struct canvas *c, unsigned x, unsigned y, const uint8_t *eight, const struct tui_ui *ui, int is_top,
			int has_cats)
{
	unsigned same = 1, best = 7;

	while (same < 8 && eight[same] == eight[0])
		same++;
	if (eight[0] == LAYER_NONE)
		return;
	if (eight[0] == LAYER_ENVELOPE) {
		if (same < 8 || is_top)
			column_line(c, x, y, ui->is_fine ? same : 4);
		return;
	}
	for (unsigned i = same, most = 0; i < 8; i++) { /* behind: the layer with most of the rest */
		unsigned cnt = 0;

		for (unsigned k = same; k < 8; k++)
			cnt += eight[k] == eight[i];
		if (cnt > most) {
			most = cnt;
			best = i;
		}
	}
	if (!ui->is_fine)
		same = same < 7 ? 4 : 8;
	canvas__set(c, x, y, 0x2580 + same, layer_style(eight[0], has_cats), /* ▁ ▂ … █ */
		    same < 8 && eight[best] != LAYER_ENVELOPE ? layer_style(eight[best], has_cats) : TUI_PLAIN);
}

void tui_chart__column(struct canvas *c, unsigned x, unsigned y, unsigned lines, const struct tui_column *col,
		       uint64_t scale, const struct tui_ui *ui, int has_cats)
{
	uint8_t layers[CANVAS_LINES_MAX * 8];

	if (lines > CANVAS_LINES_MAX)
		return;
	column_layers(layers, lines, col, scale);
	for (unsigned i = 0; i < lines; i++) {
		const uint8_t *eight = &layers[8 * (lines - 1 - i)];
		int is_top = !i || eight[8] == LAYER_NONE; /* of all that is drawn */

		if (ui->is_color)
			column_cell(c, x, y + i, eight, ui, is_top, has_cats);
		else
			column_cell_plain(c, x, y + i, eight, is_top, has_cats);
	}
}

/* A moment before the column's time was higher than any in it: cuts the excess, from the top of the stack down. */
static void column_cut(struct tui_column *col)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CAT_MAX; i++) {
		uint64_t *part = &col->cats[tui_stack[i]], room = col->top - sum;

		*part = *part < room ? *part : room;
		sum += *part;
	}
}

/*
 * Nothing was traced: a pale picture of the highest column traced before it, as steps are much alike; NULL: there is none, and
 * only the ground is dotted. Where allocations were seen it has the height that was measured.
 */
static void column_pale(struct canvas *c, unsigned x, unsigned y, unsigned lines, const struct tui_column *col,
			const struct tui_column *before, uint64_t scale, const struct tui_ui *ui, int has_cats)
{
	struct tui_column pale = before ? *before : *col;
	uint8_t layers[CANVAS_LINES_MAX * 8];

	if (lines > CANVAS_LINES_MAX)
		return;
	if (col->is_seen) {
		pale.top = col->top;
		column_cut(&pale);
	}
	column_layers(layers, lines, &pale, scale);
	for (unsigned i = 0; i < lines; i++) {
		uint8_t layer = cell_layer(&layers[8 * (lines - 1 - i)]);

		if (layer < CAT_MAX)
			canvas__set(c, x, y + i, ui->is_color ? 0x2591 : ':', layer_style(layer, has_cats), TUI_PLAIN); /* ░ */
		else if (layer == LAYER_ENVELOPE && col->is_seen)
			canvas__set(c, x, y + i, ui->is_color ? 0x2591 : ':', TUI_ENVELOPE, TUI_PLAIN); /* ░ */
		else if (i + 1 == lines)
			canvas__set(c, x, y + i, ui->is_color ? 0xb7 : '.', TUI_DIM, TUI_PLAIN); /* · */
	}
}

/* --- the chart ------------------------------------------------------------------------------------------ */

struct chart_window {
	uint64_t from_ns, to_ns; /* since the start */
	uint64_t now_ns;
	unsigned cols;
};

static struct chart_window window_of(const struct tui_ui *ui, const struct report *r, unsigned cols)
{
	uint64_t now = r->run.end_ts_ns - r->run.start_ts_ns, span = tui_span_ns(ui->span);
	struct chart_window w = { .now_ns = now, .cols = cols };

	if (span && now > span) {
		w.to_ns = now;
		if (ui->is_held && ui->held_ns + span / 2 < now) /* the held moment stays in the middle */
			w.to_ns = ui->held_ns > span / 2 ? ui->held_ns + span / 2 : span;
		w.from_ns = w.to_ns - span;
	} else {
		w.to_ns = span ? span : ui->is_live && now < SPAN_NS_MIN ? SPAN_NS_MIN : now ? now : 1;
	}
	return w;
}

static uint64_t window_at(const struct chart_window *w, unsigned col)
{
	return w->from_ns + (uint64_t)((double)(w->to_ns - w->from_ns) * col / w->cols);
}

static unsigned window_col(const struct chart_window *w, uint64_t rel_ns)
{
	double at = (double)(rel_ns - w->from_ns) / (double)(w->to_ns - w->from_ns) * w->cols;

	return at < w->cols ? (unsigned)at : w->cols - 1;
}

/* The first point whose bucket ends behind a time since the start; stretches without tracing have no points. */
static size_t point_from(const struct series *s, uint64_t t0_ns, uint64_t from_ns)
{
	size_t lo = 0, hi = s->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->points[mid].ts_ns + s->bucket_ns <= t0_ns + from_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The series' highest value of [from, to), and, where no moment is known, its last one. false: it has none. */
static bool column_exact(struct tui_column *col, const struct series *s, uint64_t t0_ns, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t last = 0, end_ns = to_ns > from_ns ? to_ns : from_ns + 1;
	bool is_there = false;

	if (!s->bucket_ns)
		return false;
	for (size_t i = point_from(s, t0_ns, from_ns); i < s->cnt && s->points[i].ts_ns < t0_ns + end_ns; i++) {
		if (s->points[i].live_max > col->top)
			col->top = s->points[i].live_max;
		last = s->points[i].live_end;
		is_there = true;
	}
	if (!col->is_known)
		col->cats[CAT_UNKNOWN] = last;
	return is_there;
}

/* 0 is a value only once probes were set. */
static bool is_not_yet_traced(const struct tui_column *col, const struct report *r, uint64_t from_ns)
{
	return !col->top && r->run.start_ts_ns + from_ns < report_traced_from_ns(r);
}

static void column_untraced(struct tui_column *col, const struct report *r, const struct report_dev *dev, uint64_t from_ns,
			    uint64_t to_ns)
{
	col->is_untraced = 1;
	col->is_seen = column_exact(col, &dev->between, r->run.start_ts_ns, from_ns, to_ns);
	col->cats[CAT_UNKNOWN] = 0;
}

static void column_of(struct tui_column *col, const struct tui_data *d, const struct report *r, const struct report_dev *dev,
		      uint64_t from_ns, uint64_t to_ns)
{
	const struct tui_dev_data *data = tui_data__dev(d, dev->dev);
	struct tui_comp comp;

	*col = (struct tui_column){ .at_ns = from_ns };
	col->is_untraced = report_gap_around(r, r->run.start_ts_ns + from_ns, r->run.start_ts_ns + to_ns) != NULL;
	if (col->is_untraced) {
		column_untraced(col, r, dev, from_ns, to_ns);
		return;
	}
	if (data && tui_hist__get(data->hist, from_ns, to_ns, &comp)) {
		memcpy(col->cats, comp.cats, sizeof(col->cats));
		col->top = comp.rel_ns < from_ns ? 0 : comp.sum; /* the series is more exact than an earlier moment */
		col->is_known = 1;
		col->at_ns = comp.rel_ns < from_ns ? from_ns : comp.rel_ns;
	}
	if (column_exact(col, &dev->series, r->run.start_ts_ns, from_ns, to_ns))
		column_cut(col);
	else if (col->is_known)
		col->top = comp.sum;
	else if (r->sampling.is_on) /* what was traced of it is too short: as the rest, which was not */
		column_untraced(col, r, dev, from_ns, to_ns);
	col->is_untraced |= is_not_yet_traced(col, r, from_ns);
}

/* The highest moment between the gap in which the chart begins and the one before; 0: nothing was traced before. */
static int column_before(struct tui_column *col, const struct tui_data *d, const struct report *r, const struct report_dev *dev,
			 uint64_t from_ns)
{
	const struct tui_dev_data *data = tui_data__dev(d, dev->dev);
	uint64_t t0_ns = r->run.start_ts_ns, since_ns = 0, until_ns = from_ns;
	struct tui_comp comp;

	for (size_t i = 0; i < r->sampling.gaps_cnt && r->sampling.gaps[i].begin_ns <= t0_ns + from_ns; i++) {
		since_ns = i ? r->sampling.gaps[i - 1].end_ns - t0_ns : 0;
		until_ns = r->sampling.gaps[i].begin_ns - t0_ns;
	}
	for (uint64_t span = until_ns - since_ns; data && span; span *= 4) { /* less is kept of older times */
		since_ns = until_ns > span ? until_ns - span : 0;
		if (tui_hist__get(data->hist, since_ns, until_ns, &comp)) {
			*col = (struct tui_column){ .is_known = 1, .top = comp.sum };
			memcpy(col->cats, comp.cats, sizeof(col->cats));
			return 1;
		}
		if (!since_ns)
			break;
	}
	return 0;
}

static void draw_axis(struct canvas *c, struct rect at, uint64_t scale)
{
	unsigned lines = at.h - 1;
	char text[24];

	for (unsigned i = 0; i < lines; i++) { /* a label stands for the upper edge of its line */
		int is_tick = lines % 4 ? !(i % (lines / 2 ? (lines + 1) / 2 : 1)) : !(i % (lines / 4));

		canvas__set(c, at.x + AXIS_COLS, at.y + i, is_tick ? 0x2524 : 0x2502, TUI_DIM, TUI_PLAIN); /* ┤ │ */
		if (is_tick)
			canvas__right(c, at.x, at.y + i, AXIS_COLS - 1, TUI_DIM,
				      fmt_bytes(text, (uint64_t)((double)scale * (lines - i) / lines)));
	}
}

/* Dashed, behind what stands there: from a process's first step up to where it has settled, however little of the window. */
static void draw_settling(struct canvas *c, unsigned x, unsigned y, const struct chart_window *w, const struct report *r)
{
	for (size_t i = 0; i < r->procs_cnt; i++) {
		uint64_t from = r->procs[i].settling_from_ns - r->run.start_ts_ns;
		uint64_t to = r->procs[i].settling_to_ns - r->run.start_ts_ns;
		unsigned first, last;

		if (!r->procs[i].settling_to_ns || to < w->from_ns || from > w->to_ns)
			continue;
		first = window_col(w, from > w->from_ns ? from : w->from_ns);
		last = window_col(w, to);
		last = !w->from_ns && !last ? 1 : last; /* in the first one stands "0" */
		for (unsigned k = first; k <= last && k < w->cols; k++) {
			uint32_t cp = canvas__at(c, x + k, y)->cp;

			if (cp == 0x2500 || cp == ' ')
				canvas__set(c, x + k, y, 0x254c, TUI_WARN, TUI_PLAIN); /* ╌ */
		}
	}
}

static int is_line(const struct canvas *c, unsigned x, unsigned y, unsigned cols)
{
	while (cols && canvas__at(c, x + cols - 1, y)->cp == 0x2500)
		cols--;
	return !cols;
}

/* As a word, behind the dashes or before them, in free space. */
static void say_settling(struct canvas *c, unsigned x, unsigned y, unsigned cols)
{
	static const char word[] = " settles ";
	unsigned first = 0, end = cols, len = (unsigned)strlen(word);

	while (end && canvas__at(c, x + end - 1, y)->cp != 0x254c)
		end--;
	while (first < end && canvas__at(c, x + first, y)->cp != 0x254c)
		first++;
	if (end && end + len <= cols && is_line(c, x + end, y, len))
		canvas__text(c, x + end, y, len, TUI_WARN, word);
	else if (end && first >= len && is_line(c, x + first - len + 1, y, len - 1))
		canvas__text(c, x + first - len + 1, y, len - 1, TUI_WARN, word + 1);
}

/* Ends of steps, begins of forward and backward; nothing if they are too close to distinguish memory between them. */
static void draw_marks(struct canvas *c, unsigned x, unsigned y, const struct chart_window *w, const struct report *r)
{
	size_t end = r->marks.cnt, first, cnt = 0;

	while (end && r->marks.rows[end - 1].at.ts_ns > r->run.start_ts_ns + w->to_ns)
		end--;
	first = end;
	while (first && r->marks.rows[first - 1].at.ts_ns >= r->run.start_ts_ns + w->from_ns && cnt <= w->cols)
		cnt += r->marks.rows[--first].kind == MARK_STEP;
	if (cnt > w->cols / 8)
		return;
	for (size_t i = first; i < end; i++) {
		static const uint32_t chars[MARK_MAX] = {
			[MARK_FW_START] = 0x251c, [MARK_FW_BW_BOUNDARY] = 0x252c, [MARK_STEP] = 0x2534, /* ├ ┬ ┴ */
		};
		const struct report_mark *k = &r->marks.rows[i];
		unsigned col = window_col(w, k->at.ts_ns - r->run.start_ts_ns);
		bool is_taken = i > first && k[-1].kind == MARK_STEP &&
				window_col(w, k[-1].at.ts_ns - r->run.start_ts_ns) == col;

		if (k->kind < MARK_MAX && (k->kind != MARK_FW_START || !is_taken)) /* the step's end shows it, too */
			canvas__set(c, x + col, y, chars[k->kind], TUI_DIM, TUI_PLAIN);
	}
}

static void draw_time(struct canvas *c, struct rect at, const struct chart_window *w, const struct tui_ui *ui,
		      const struct report *r)
{
	unsigned y = at.y + at.h - 1, x = at.x + AXIS_COLS + 1;
	char text[40], a[24];

	canvas__set(c, x - 1, y, 0x2514, TUI_DIM, TUI_PLAIN); /* └ */
	for (unsigned i = 0; i < w->cols; i++)
		canvas__set(c, x + i, y, 0x2500, TUI_DIM, TUI_PLAIN);
	draw_marks(c, x, y, w, r);
	if (w->from_ns)
		snprintf(text, sizeof(text), "%s%s ", w->to_ns < w->now_ns ? "" : "-",
			 fmt_ns(a, w->to_ns < w->now_ns ? w->from_ns : w->to_ns - w->from_ns));
	else
		snprintf(text, sizeof(text), "0 ");
	canvas__text(c, x, y, w->cols, TUI_DIM, text);
	draw_settling(c, x, y, w, r);
	if (w->to_ns > w->now_ns || ui->is_held) /* the held moment is there */
		return;
	snprintf(text, sizeof(text), " %s", w->from_ns ? ui->is_live ? "now" : "end" : fmt_ns(a, w->now_ns));
	if (w->cols > 24)
		canvas__right(c, x, y, w->cols, TUI_DIM, text);
}

static int is_word(const struct canvas *c, unsigned x, unsigned y)
{
	return canvas__at(c, x, y)->cp < 0x2190; /* below arrows and lines */
}

/* A flag in the middle of a word would look like a part of it: the whole word is replaced by the line. */
static void put_flag(struct canvas *c, unsigned x, unsigned y, unsigned cols, unsigned col, uint32_t cp, uint8_t style)
{
	unsigned first = col, end = col;
	bool in_word;

	while (first && is_word(c, x + first - 1, y))
		first--;
	while (end < cols && is_word(c, x + end, y))
		end++;
	in_word = is_word(c, x + col, y) && (canvas__at(c, x + col, y)->cp != ' ' || (first < col && end > col + 1));
	if (in_word)
		for (unsigned i = first; i < end; i++)
			canvas__set(c, x + i, y, 0x2500, TUI_DIM, TUI_PLAIN);
	canvas__set(c, x + col, y, cp, style, TUI_PLAIN);
}

static void draw_flags(struct canvas *c, struct rect at, const struct chart_window *w, const struct tui_data *d,
		       const struct report *r, const struct report_dev *dev)
{
	unsigned x = at.x + AXIS_COLS + 1, y = at.y + at.h - 1;
	uint64_t peak = dev->peak_ts_ns > r->run.start_ts_ns ? dev->peak_ts_ns - r->run.start_ts_ns : 0;

	for (size_t i = 0; i < r->compiles.rows_cnt; i++) {
		/* of one before the trace: beyond the window */
		uint64_t at_ns = r->compiles.rows[i].ts_ns - r->run.start_ts_ns;

		if (at_ns >= w->from_ns && at_ns <= w->to_ns)
			put_flag(c, x, y, w->cols, window_col(w, at_ns), 0x21bb, TUI_BAD); /* ↻ */
	}
	if (dev->peak && peak >= w->from_ns && peak <= w->to_ns)
		put_flag(c, x, y, w->cols, window_col(w, peak), 0x25b2, TUI_BOLD); /* ▲ */
	for (size_t i = 0; i < d->marks_cnt; i++)
		if (d->marks[i] >= w->from_ns && d->marks[i] <= w->to_ns)
			put_flag(c, x, y, w->cols, window_col(w, d->marks[i]), 0x25c6, TUI_MARK); /* ◆ */
}

/* The step of any process that the moment lies in; NULL: none is known. */
static const struct step_marks *step_at(const struct report *r, uint64_t rel_ns)
{
	uint64_t ts_ns = r->run.start_ts_ns + rel_ns;

	for (size_t i = r->marks.steps_cnt; i-- > 0;)
		if (ts_ns >= r->marks.steps[i].begin_ts_ns && ts_ns < r->marks.steps[i].at[MARK_STEP].ts_ns)
			return &r->marks.steps[i];
	return NULL;
}

/* Once the recording was read up to the held moment, its exact live bytes are known, not only those near it. */
static void column_then(struct tui_column *col, struct tui_ui *ui, const struct tui_data *d, const struct report_dev *dev)
{
	const struct report *then;

	ui->has_moment = !col->is_untraced;
	ui->moment_ns = col->at_ns;
	then = tui_data__then(d, ui);
	for (size_t i = 0; then && d->then_ns == ui->moment_ns && i < then->devs_cnt; i++)
		for (unsigned k = 0; k < CAT_MAX && then->devs[i].dev == dev->dev; k++) {
			col->cats[k] = then->devs[i].cats[k].live;
			ui->cats |= (uint32_t)(col->cats[k] > 0) << k;
		}
}

/* The column of the held moment, around which the window is; cols: none is held. */
static unsigned settle_held(struct tui_ui *ui, const struct chart_window *w)
{
	ui->col_ns = (w->to_ns - w->from_ns) / w->cols;
	ui->now_ns = w->now_ns;
	return ui->is_held ? window_col(w, ui->held_ns) : w->cols;
}

#define HELD_COLS 52 /* of " 12.3 s, step 123456: 12.3 MiB, up to 28.0 MiB " */

/* "12.3 MiB, up to 28.0 MiB": the tables' sum, and, if there is room, the exact maximum of the column's time. */
static void put_bytes(char *text, size_t size, const struct tui_column *column, int is_narrow)
{
	uint64_t sum = 0;
	char a[24], b[24];

	for (unsigned i = 0; i < CAT_MAX; i++)
		sum += column->cats[i];
	if (!is_narrow && column->top - column->top / 50 > sum)
		snprintf(text, size, "%s, up to %s", fmt_bytes(a, sum), fmt_bytes(b, column->top));
	else
		snprintf(text, size, "%s", fmt_bytes(a, sum));
}

/* On the line of time: time, step and bytes. */
static void draw_held(struct canvas *c, struct rect at, const struct chart_window *w, const struct report *r, unsigned col,
		      const struct tui_column *column)
{
	unsigned x = at.x + AXIS_COLS + 1, y = at.y + at.h - 1, len;
	const struct step_marks *step = step_at(r, column->at_ns);
	uint64_t ns = column->at_ns;
	char text[128], a[24], b[64];

	put_bytes(b, sizeof(b), column, w->cols < HELD_COLS);
	if (column->is_seen)
		snprintf(text, sizeof(text), " %s: not traced, up to %s ", fmt_ns(a, ns), fmt_bytes(b, column->top));
	else if (column->is_untraced)
		snprintf(text, sizeof(text), " %s: not traced ", fmt_ns(a, ns));
	else if (step)
		snprintf(text, sizeof(text), " %s, step %" PRIu64 "%s: %s ", fmt_ns(a, ns), step->number,
			 step->is_settling ? ", settling" : "", b);
	else
		snprintf(text, sizeof(text), " %s: %s ", fmt_ns(a, ns), b);
	len = (unsigned)strlen(text);
	canvas__set(c, x + col, y, 0x2502, TUI_BOLD, TUI_PLAIN); /* │ */
	x += col + 1 + len <= w->cols ? col + 1 : col >= len ? col - len : w->cols > len ? w->cols - len : 0;
	canvas__text(c, x, y, len < w->cols ? len : w->cols, TUI_BOLD, text);
}

int tui_chart__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct tui_data *d, const struct report *r,
		    const struct report_dev *dev, struct tui_comp *ret_held)
{
	struct tui_column cols[CANVAS_COLS_MAX], past;
	const struct tui_column *before = NULL;
	unsigned x = at.x + AXIS_COLS + 1;
	int has_cats = report_has_cats(r);
	struct chart_window w;
	uint64_t top = 0, most[CAT_MAX] = { 0 };
	unsigned held;

	ui->has_moment = 1;
	ui->moment_ns = ui->held_ns;
	if (at.h < 3 || at.w < AXIS_COLS + 8)
		return 0;
	w = window_of(ui, r, at.w - AXIS_COLS - 1);
	held = settle_held(ui, &w);
	ui->peak_ns = dev && dev->peak_ts_ns > r->run.start_ts_ns ? dev->peak_ts_ns - r->run.start_ts_ns : 0;
	ui->cats = 0;
	for (unsigned i = 0; dev && i < w.cols; i++) {
		if (window_at(&w, i) > w.now_ns) {
			memset(&cols[i], 0, sizeof(cols[i]));
			continue;
		}
		column_of(&cols[i], d, r, dev, window_at(&w, i), window_at(&w, i + 1));
		top = cols[i].top > top ? cols[i].top : top;
		for (unsigned k = 0; k < CAT_MAX; k++)
			most[k] = cols[i].cats[k] > most[k] ? cols[i].cats[k] : most[k];
	}
	if (dev && cols[0].is_untraced && column_before(&past, d, r, dev, w.from_ns)) {
		before = &past;
		top = past.top > top ? past.top : top;
	}
	top = tui_scale(top);
	for (unsigned k = 0; k < CAT_MAX; k++)
		ui->cats |= (uint32_t)(eighths(most[k], top, at.h - 1) > 0) << k;
	draw_axis(c, at, top);
	draw_time(c, at, &w, ui, r);
	if (!dev) {
		canvas__text(c, x + 2, at.y + at.h / 2 - 1, at.w - 12, TUI_DIM, "no block allocated or freed yet");
		return 0;
	}
	for (unsigned i = 0; held < w.cols && i + 1 < at.h; i++) /* behind the column */
		canvas__set(c, x + held, at.y + i, 0x2502, TUI_DIM, TUI_PLAIN); /* │ */
	for (unsigned i = 0; i < w.cols; i++)
		if (cols[i].is_untraced) {
			column_pale(c, x + i, at.y, at.h - 1, &cols[i], before, top, ui, has_cats);
		} else {
			tui_chart__column(c, x + i, at.y, at.h - 1, &cols[i], top, ui, has_cats);
			if (!before || !i || cols[i - 1].is_untraced || cols[i].top > before->top)
				before = &cols[i];
		}
	draw_flags(c, at, &w, d, r, dev);
	if (held == w.cols) {
		say_settling(c, x, at.y + at.h - 1, w.cols);
		return 0;
	}
	column_then(&cols[held], ui, d, dev);
	draw_held(c, at, &w, r, held, &cols[held]);
	memcpy(ret_held->cats, cols[held].cats, sizeof(ret_held->cats));
	ret_held->sum = cols[held].top;
	return !cols[held].is_untraced;
}
