/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Rows as a table is filled with them, and the texts that are theirs (table.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/report.h"
#include "view/tui/table.h"

static const char *keep_text(struct tui_rows *rows, const char *text)
{
	char *copy;

	if (rows->texts_cnt == rows->texts_cap) {
		size_t cap = rows->texts_cap ? 2 * rows->texts_cap : 64;
		char **texts = reallocarray(rows->texts, cap, sizeof(*texts));

		if (!texts) {
			rows->err = -ENOMEM;
			return "";
		}
		rows->texts = texts;
		rows->texts_cap = cap;
	}
	copy = strdup(text);
	if (!copy) {
		rows->err = -ENOMEM;
		return "";
	}
	return rows->texts[rows->texts_cnt++] = copy;
}

struct tui_row *tui_rows__add(struct tui_rows *rows, const struct drawn *d, const void *row)
{
	static _Thread_local struct tui_row nobodys;
	struct tui_row *r;
	struct cell c;
	char hex[24];

	if (rows->cnt == rows->cap) {
		size_t cap = rows->cap ? 2 * rows->cap : 64;

		r = reallocarray(rows->rows, cap, sizeof(*r));
		if (!r) {
			rows->err = -ENOMEM;
			return &nobodys;
		}
		rows->rows = r;
		rows->cap = cap;
	}
	r = &rows->rows[rows->cnt];
	*r = (struct tui_row){ .number = rows->cnt++ };
	for (unsigned i = 0; i < rows->cols_cnt; i++) {
		cell__get(&c, rows->cols[i], d, row);
		r->v[i].num = c.num;
		if (rows->cols[i]->kind == COL_HEX)
			cell__say(&c, "%s", column__words(rows->cols[i], c.num, 0, hex)); /* filters look for it */
		r->v[i].text = c.text == c.buf ? keep_text(rows, c.buf) : c.text ? c.text : c.none ? "-" : NULL;
	}
	return r;
}

void tui_rows__fill(struct tui_rows *rows, const struct tui_table *t, const struct report *r, const struct report_dev *dev)
{
	struct drawn d = drawn_as(AS_TUI, r);

	d.is_then = rows->is_then;
	rows->cols_cnt = table__shown(t->table, &d, rows->cols);
	rows->cols_cnt = rows->cols_cnt < TUI_COLS_MAX ? rows->cols_cnt : TUI_COLS_MAX;
	t->fill(rows, &d, dev);
	rows->whole = d.whole;
}

void tui_rows__done(struct tui_rows *rows)
{
	for (size_t i = 0; i < rows->texts_cnt; i++)
		free(rows->texts[i]);
	free(rows->texts);
	free(rows->rows);
	memset(rows, 0, sizeof(*rows));
}
