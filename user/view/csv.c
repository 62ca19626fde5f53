/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/csv.h"

#include <ctype.h>
#include <string.h>

#include "base/utf8.h"
#include "view/outbuf.h"
#include "view/table.h"

/* Those signs, and their full-width forms, which some spreadsheets take for them. */
static int is_formula(const char *text, size_t len)
{
	static const uint32_t signs[] = { '=', '+', '-', '@', '\'', 0xff1d, 0xff0b, 0xff0d, 0xff20 };
	uint32_t cp = 0;

	if (len)
		(void)utf8_decode(text, len, &cp);
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (cp == signs[i])
			return 1;
	return 0;
}

void csv_quote(struct outbuf *o, const char *text, size_t len)
{
	int needed = 0;

	for (size_t i = 0; i < len; i++)
		needed |= text[i] == ',' || text[i] == '"';
	if (needed)
		outbuf__char(o, '"');
	if (is_formula(text, len))
		outbuf__char(o, '\'');
	while (len) {
		uint32_t cp;
		size_t n = utf8_decode(text, len, &cp);

		if (cp == '"')
			outbuf__lit(o, "\"\"");
		else if ((cp == UTF8_BAD && n == 1) || utf8_is_unsafe(cp))
			outbuf__lit(o, "\xef\xbf\xbd");
		else
			outbuf__put(o, text, n);
		text += n;
		len -= n;
	}
	if (needed)
		outbuf__char(o, '"');
}

/* --- tables ---------------------------------------------------------------------------------------------- */

/* Columns that only people are shown, at the end, unless JSON has one of that name. */
static int is_for_csv(const struct table *t, const struct column *c)
{
	if ((c->only && !(c->only & t->variant)) || c->shown_if == drawn_then)
		return 0;
	if (c->key)
		return !c->json;
	if (!c->head || !*c->head || c->kind < COL_DEV || c->kind == COL_SHARE || c->kind == COL_BAR)
		return 0;
	for (unsigned i = 0; i < t->cnt; i++)
		if (t->cols[i].key && !t->cols[i].json && !strcmp(t->cols[i].key, c->head))
			return 0;
	return 1;
}

static void put_head(struct outbuf *o, const struct column *c)
{
	for (const char *text = c->key ? c->key : c->head; *text; text++)
		outbuf__char(o, isalnum((unsigned char)*text) ? (char)tolower((unsigned char)*text) : '_');
}

static void put_cell(struct outbuf *o, const struct column *col, const struct drawn *d, const void *row)
{
	struct cell c;

	cell__get(&c, col, d, row);
	if (c.none && c.none != NONE_REPORTED)
		return;
	switch (col->kind) {
	case COL_TEXT:
	case COL_OR_NULL:
	case COL_DEV:
	case COL_CAT:
		csv_quote(o, c.text ? c.text : "", c.text ? strlen(c.text) : 0);
		break;
	case COL_HEX:
		outbuf__hex(o, c.num);
		break;
	case COL_SIGNED:
		outbuf__i64(o, (int64_t)c.num);
		break;
	case COL_TIME:
		outbuf__u64(o, c.num ? c.num + (uint64_t)d->epoch_off_ns : 0);
		break;
	case COL_REAL:
	case COL_AVERAGE:
		outbuf__printf(o, "%.6g", c.real);
		break;
	default:
		outbuf__u64(o, c.num);
	}
}

void table__csv(struct outbuf *o, const struct table *t, const struct drawn *d, const void *rows, size_t cnt, size_t size)
{
	for (size_t i = 0; i <= cnt; i++) {
		int is_first = 1;

		for (unsigned k = 0; k < t->cnt; k++) {
			if (!is_for_csv(t, &t->cols[k]))
				continue;
			if (!is_first)
				outbuf__char(o, ',');
			is_first = 0;
			if (i)
				put_cell(o, &t->cols[k], d, (const char *)rows + (i - 1) * size);
			else
				put_head(o, &t->cols[k]);
		}
		outbuf__lit(o, "\r\n");
	}
}
