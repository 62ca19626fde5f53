/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The panel beside the chart: its key, and bytes live now and at the peak, by category or operator. */
#include <string.h>

#include "base/text.h"
#include "timeline/report.h"
#include "view/report_words.h"
#include "view/tui/chart.h"

#define NUMBER_COLS 9
#define BAR_COLS_MIN 4
#define OPS_SHOWN_MAX 64

struct chart_part {
	const char *name;
	uint64_t live, at_peak;
	uint8_t style;
	char letter; /* 0: not in the chart */
};

static const char *const short_names[CAT_MAX] = {
	[CAT_UNKNOWN] = "unknown", [CAT_PARAMETER] = "parameter", [CAT_OPTIMIZER_STATE] = "optimizer",
	[CAT_INPUT] = "input", [CAT_TEMPORARY] = "temporary", [CAT_ACTIVATION] = "activation",
	[CAT_GRADIENT] = "gradient", [CAT_AUTOGRAD_DETAIL] = "autograd", [CAT_FROZEN] = "frozen",
	[CAT_BUFFER] = "buffer", [CAT_DATALOADER] = "dataloader", [CAT_COMMUNICATION] = "comm",
	[CAT_WORKSPACE] = "workspace", [CAT_UNSHARDED] = "unsharded",
};

/* Takes the least important part out, and adds it to `others`. */
static size_t parts_fold(struct chart_part *parts, size_t n, struct chart_part *others)
{
	size_t least = 0;

	for (size_t i = 1; i < n; i++)
		if (parts[i].at_peak + parts[i].live < parts[least].at_peak + parts[least].live)
			least = i;
	others->live += parts[least].live;
	others->at_peak += parts[least].at_peak;
	memmove(&parts[least], &parts[least + 1], (n - least - 1) * sizeof(*parts));
	return n - 1;
}

static int is_held_now(const struct report_dev *dev, unsigned cat, const struct tui_comp *held)
{
	return dev->cats[cat].live || dev->cats[cat].at_peak || (held && held->cats[cat]);
}

/* In the order of the stack in the chart, the top first; parts that are only in the chart come last. */
static size_t parts_by_category(struct chart_part *parts, size_t max, const struct report_dev *dev, const struct tui_ui *ui,
				const struct tui_comp *held, int is_wide)
{
	struct chart_part others = { .name = "(others)", .style = TUI_DIM };
	size_t n = 0;

	for (unsigned i = 2 * CAT_MAX; i--;) {
		unsigned cat = tui_stack[i % CAT_MAX];

		if (i < CAT_MAX ? !is_held_now(dev, cat, held) && (ui->cats >> cat & 1) : is_held_now(dev, cat, held))
			parts[n++] = (struct chart_part){ is_wide ? category_name((enum category)cat) : short_names[cat],
							  held ? held->cats[cat] : dev->cats[cat].live, dev->cats[cat].at_peak,
							  (uint8_t)(TUI_CAT0 + cat), tui_letter(cat) };
	}
	if (n <= max)
		return n;
	while (n && n + 1 > max)
		n = parts_fold(parts, n, &others);
	parts[n++] = others;
	return n;
}

/* Reports are sorted by bytes at the peak; the last line sums up the others. */
static size_t parts_by_op(struct chart_part *parts, size_t max, const struct report *r)
{
	uint64_t live = r->ops.none.live, peak = r->ops.none.at_peak;
	size_t n = 0;

	for (size_t i = 0; i < r->ops.cnt; i++) {
		const struct report_op *op = &r->ops.rows[i];

		if (n + 1 < max && op->at_peak) {
			parts[n++] = (struct chart_part){ op->name, op->live, op->at_peak, TUI_BAR, 0 };
		} else {
			live += op->live;
			peak += op->at_peak;
		}
	}
	if (n < max && (live || peak))
		parts[n++] = (struct chart_part){ "(all others)", live, peak, TUI_DIM, 0 };
	return n;
}

/* Live bytes in front of those at the peak. */
static void draw_bar(struct canvas *c, unsigned x, unsigned y, unsigned cols, const struct chart_part *p, uint64_t whole)
{
	double live = whole ? (double)p->live / (double)whole : 0, peak = whole ? (double)p->at_peak / (double)whole : 0;
	unsigned end = (unsigned)((peak > 1 ? 1 : peak) * cols + 0.5);

	for (unsigned i = 0; i < end; i++)
		canvas__set(c, x + i, y, 0x2591, TUI_ENVELOPE, TUI_PLAIN); /* ░ */
	canvas__bar(c, x, y, cols, live, (enum tui_style)p->style);
}

static void draw_part(struct canvas *c, struct rect at, unsigned y, unsigned name_cols, unsigned bar_cols,
		      const struct chart_part *p, uint64_t whole, const struct tui_ui *ui)
{
	char text[24];
	unsigned x = at.x;

	if (p->letter)
		canvas__set(c, x, y, ui->is_color ? 0x25a0 : (uint32_t)p->letter, (enum tui_style)p->style, TUI_PLAIN); /* ■ */
	canvas__fit(c, x + 2, y, name_cols, TUI_PLAIN, p->name);
	x += 2 + name_cols;
	canvas__right(c, x, y, NUMBER_COLS, p->live ? TUI_PLAIN : TUI_DIM, fmt_bytes(text, p->live));
	canvas__right(c, x + NUMBER_COLS, y, NUMBER_COLS, p->at_peak ? TUI_PLAIN : TUI_DIM, fmt_bytes(text, p->at_peak));
	if (bar_cols)
		draw_bar(c, x + 2 * NUMBER_COLS + 1, y, bar_cols, p, whole);
}

void tui_cats__draw(struct canvas *c, struct rect at, const struct tui_ui *ui, const struct report *r,
		    const struct report_dev *dev, const struct tui_comp *held)
{
	struct chart_part parts[OPS_SHOWN_MAX];
	size_t max = at.h - 1 < OPS_SHOWN_MAX ? at.h - 1 : OPS_SHOWN_MAX, n;
	unsigned name_cols, bar_cols = at.w / 5;
	int has_cats = report_has_cats(r);

	_Static_assert(OPS_SHOWN_MAX >= CAT_MAX, "categories are parts");
	if (at.h < 2 || at.w < 2 + 10 + 2 * NUMBER_COLS || !dev)
		return;
	if (at.w < 2 + 10 + 2 * NUMBER_COLS + 1 + BAR_COLS_MIN)
		bar_cols = 0;
	name_cols = at.w - 2 - 2 * NUMBER_COLS - (bar_cols ? bar_cols + 1 : 0);
	if (!has_cats || name_cols > 15)
		name_cols = has_cats ? 15 : name_cols;
	else if (name_cols > 10 && name_cols < 15)
		name_cols = 10;
	if (has_cats && bar_cols)
		bar_cols = at.w - 2 - 2 * NUMBER_COLS - 1 - name_cols;
	n = has_cats ? parts_by_category(parts, max, dev, ui, held, name_cols >= 15) : parts_by_op(parts, max, r);
	canvas__text(c, at.x + 2, at.y, name_cols, TUI_HEAD, has_cats ? "category" : "operator");
	canvas__right(c, at.x + 2 + name_cols, at.y, NUMBER_COLS, TUI_HEAD, held && has_cats ? "then" : "live");
	canvas__right(c, at.x + 2 + name_cols + NUMBER_COLS, at.y, NUMBER_COLS, TUI_HEAD, "at peak");
	for (size_t i = 0; i < n; i++)
		draw_part(c, at, at.y + 1 + (unsigned)i, name_cols, bar_cols, &parts[i], dev->peak, ui);
}
