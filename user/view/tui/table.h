/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_table: tables of the terminal interface: columns as data; sorting, filtering, scrolling, drawing. */
#ifndef MT_VIEW_TUI_TABLE_H
#define MT_VIEW_TUI_TABLE_H

#include "view/tui/canvas.h"
#include "view/tui/ui.h"

#define TUI_COLS_MAX 10

struct report;
struct report_dev;

enum tui_col_kind { TUI_COL_TEXT, TUI_COL_BYTES, TUI_COL_COUNT, TUI_COL_NUMBER, TUI_COL_NS, TUI_COL_SHARE, TUI_COL_BAR };

struct tui_col {
	const char *head;
	uint8_t kind;  /* enum tui_col_kind; SHARE and BAR: of the table's whole */
	uint8_t cols;  /* width; of a wide column the least */
	uint16_t from; /* shown on screens of so many columns or more */
	uint8_t is_wide; /* shares what is left */
	uint8_t is_path; /* text_fit_path */
};

struct tui_value {
	const char *text; /* TEXT: borrowed from the report, or rows__text's; others: instead of the number */
	uint64_t num;	  /* sorts before the text does */
};

struct tui_row {
	struct tui_value v[TUI_COLS_MAX];
	uint8_t style; /* enum tui_style */
	size_t number; /* in the order of adding */
};

struct tui_rows {
	struct tui_row *rows;
	size_t cnt, cap;
	uint64_t whole;
	char **texts; /* made for this table, owned */
	size_t texts_cnt, texts_cap;
	int err;
};

struct tui_table {
	const char *name;
	const char *empty; /* said when there is no row */
	const struct tui_col *cols;
	unsigned cols_cnt;
	void (*fill)(struct tui_rows *rows, const struct report *r, const struct report_dev *dev);
};

extern const struct tui_table tui_tables[TUI_TABS];

struct tui_row *tui_rows__add(struct tui_rows *rows); /* NULL: no memory, kept in err */
const char *tui_rows__text(struct tui_rows *rows, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tui_rows__done(struct tui_rows *rows);

/* Sorted and filtered as asked. */
void tui_rows__arrange(struct tui_rows *rows, const struct tui_table *t, const struct tui_ui *ui);
void tui_table__draw(struct canvas *c, struct rect at, const struct tui_table *t, const struct tui_rows *rows,
		     struct tui_ui *ui);

#endif
