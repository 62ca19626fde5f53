/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_chart: memory over time, stacked by category, and the panel of categories beside it. */
#ifndef MT_VIEW_TUI_CHART_H
#define MT_VIEW_TUI_CHART_H

#include "view/tui/canvas.h"
#include "view/tui/data.h"
#include "view/tui/ui.h"

/* Categories from the bottom of the stack to its top: steady ones lie under changing ones. */
extern const uint8_t tui_stack[CAT_MAX];

/* Round numbers that people read: 1, 2, 5 × a unit of 1024, at least `bytes`. */
uint64_t tui_scale(uint64_t bytes);
/* The letter of a category, where there are no colours. */
char tui_letter(unsigned cat);

/* One column, bottom up: the layer of each of `lines` cells. Pure: eighths of lines per layer. */
struct tui_column {
	int is_known, is_untraced;
	int is_seen; /* untraced, but allocations were seen: top is known */
	uint64_t cats[CAT_MAX];
	uint64_t top; /* the exact highest value of that time */
	uint64_t at_ns; /* when cats were, since the start; the column's begin, where that was before it or is not known */
};

/* 1, and in *ret_held the live bytes at the held moment, as far as known; sum is the exact highest. Else 0. */
int tui_chart__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct tui_data *d, const struct report *r,
		    const struct report_dev *dev, struct tui_comp *ret_held);
void tui_chart__column(struct canvas *c, unsigned x, unsigned y, unsigned lines, const struct tui_column *col,
		       uint64_t scale, const struct tui_ui *ui, int has_cats);
/* held: in place of present live bytes, while a moment is held. */
void tui_cats__draw(struct canvas *c, struct rect at, const struct tui_ui *ui, const struct report *r,
		    const struct report_dev *dev, const struct tui_comp *held);

#endif
