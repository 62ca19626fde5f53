/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_table: tables (view/table.h) in the terminal interface: a tab each; sorting, filtering, scrolling, drawing. */
#ifndef MT_VIEW_TUI_TABLE_H
#define MT_VIEW_TUI_TABLE_H

#include "view/table.h"
#include "view/tui/canvas.h"
#include "view/tui/ui.h"

#define TUI_COLS_MAX 12

struct report;
struct report_dev;

struct tui_value {
	const char *text; /* TEXT: borrowed from the report, or the rows' own; others: instead of the number */
	uint64_t num;	  /* sorts before the text does */
};

struct tui_row {
	struct tui_value v[TUI_COLS_MAX];
	uint8_t style; /* enum tui_style */
	size_t number; /* in the order of adding */
};

struct tui_rows {
	const struct column *cols[TABLE_SHOWN_MAX]; /* that the table has, in their order */
	unsigned cols_cnt;
	struct tui_row *rows;
	size_t cnt, cap;
	uint64_t whole;
	const char *empty; /* where it depends on the report */
	uint8_t is_then; /* from a report of the held moment; set by the caller before they are filled */
	char **texts; /* made for this table, owned */
	size_t texts_cnt, texts_cap;
	int err;
};

struct tui_table {
	const char *name;
	const char *empty; /* shown if there is no row; NULL: the rows' own */
	const struct table *table;
	void (*fill)(struct tui_rows *rows, struct drawn *d, const struct report_dev *dev);
	uint8_t follows; /* a held moment: a report has this also for blocks live then, not only for the peak */
};

extern const struct tui_table tui_tables[TUI_TABS];

void tui_rows__fill(struct tui_rows *rows, const struct tui_table *t, const struct report *r, const struct report_dev *dev);
/* Valid until the next one; without memory err is set, and the row is not shown. */
struct tui_row *tui_rows__add(struct tui_rows *rows, const struct drawn *d, const void *row);
void tui_rows__done(struct tui_rows *rows);

/* Sorted and filtered as asked. */
void tui_rows__arrange(struct tui_rows *rows, const struct tui_table *t, struct tui_ui *ui);
void tui_table__draw(struct canvas *c, struct rect at, const struct tui_table *t, const struct tui_rows *rows,
		     struct tui_ui *ui);
/* Where they were asked for: all of the chosen row's texts, over the last lines of `at`. After the table is drawn. */
void tui_table__draw_detail(struct canvas *c, struct rect at, const struct tui_table *t, const struct tui_rows *rows,
			    struct tui_ui *ui);

#endif
