/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Rows as a table is filled with them, and the texts that are theirs (table.h). */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "view/tui/table.h"

struct tui_row *tui_rows__add(struct tui_rows *rows)
{
	struct tui_row *r;

	if (rows->cnt == rows->cap) {
		size_t cap = rows->cap ? 2 * rows->cap : 64;

		r = reallocarray(rows->rows, cap, sizeof(*r));
		if (!r) {
			rows->err = -ENOMEM;
			return NULL;
		}
		rows->rows = r;
		rows->cap = cap;
	}
	r = &rows->rows[rows->cnt];
	*r = (struct tui_row){ .number = rows->cnt++ };
	return r;
}

const char *tui_rows__text(struct tui_rows *rows, const char *fmt, ...)
{
	char *text = NULL;
	va_list args;
	int n;

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
	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0) {
		rows->err = -ENOMEM;
		return "";
	}
	return rows->texts[rows->texts_cnt++] = text;
}

void tui_rows__done(struct tui_rows *rows)
{
	for (size_t i = 0; i < rows->texts_cnt; i++)
		free(rows->texts[i]);
	free(rows->texts);
	free(rows->rows);
	memset(rows, 0, sizeof(*rows));
}
