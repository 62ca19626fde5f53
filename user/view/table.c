/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"

#define INDENT 2 /* of a line in text */

struct drawn drawn_as(enum drawn_as as, const struct report *r)
{
	return (struct drawn){ .r = r, .as = as, .epoch_off_ns = r ? r->run.epoch_off_ns : 0 };
}

int drawn_then(const struct drawn *d)
{
	return d->is_then;
}

int drawn_at_end(const struct drawn *d)
{
	return !d->is_then;
}

/* --- cells ----------------------------------------------------------------------------------------------- */

void cell__say(struct cell *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->buf, sizeof(c->buf), fmt, args);
	va_end(args);
	c->text = c->buf;
}

static uint64_t number_at(const char *at, size_t size)
{
	uint32_t four;
	uint16_t two;
	uint64_t eight;

	switch (size) {
	case 1:
		return (uint8_t)*at;
	case 2:
		memcpy(&two, at, sizeof(two));
		return two;
	case 4:
		memcpy(&four, at, sizeof(four));
		return four;
	default:
		memcpy(&eight, at, sizeof(eight));
		return eight;
	}
}

void cell__get(struct cell *c, const struct column *col, const struct drawn *d, const void *row)
{
	const char *at = (const char *)row + col->at + (col->is_element ? d->index * col->size : 0);

	c->d = d;
	c->text = NULL;
	c->num = 0;
	c->real = 0;
	c->whole = d->whole;
	c->none = col->if_none && !number_at((const char *)row + col->if_at, col->if_size) ? col->if_none : 0;
	if (col->via) {
		col->via(c, row);
		return;
	}
	switch (col->kind) {
	case COL_TEXT:
	case COL_OR_NULL:
		if (col->name)
			c->text = col->name((unsigned)number_at(at, col->size));
		else if (col->is_inside)
			c->text = at;
		else
			memcpy(&c->text, at, sizeof(c->text));
		break;
	case COL_REAL:
	case COL_AVERAGE:
		memcpy(&c->real, at, sizeof(c->real));
		break;
	case COL_DEV:
		c->text = dev_name((uint8_t)*at, c->buf);
		break;
	case COL_CAT:
		c->text = category_name((enum category)((uint8_t)*at < CAT_MAX ? (uint8_t)*at : CAT_UNKNOWN));
		break;
	default:
		c->num = number_at(at, col->size);
	}
}

const char *column__words(const struct column *col, uint64_t num, uint64_t whole, char *buf)
{
	switch (col->kind) {
	case COL_BYTES:
		return fmt_bytes(buf, num);
	case COL_COUNT:
		return fmt_count(buf, (double)num);
	case COL_NS:
		return fmt_ns(buf, num);
	case COL_SHARE:
		return fmt_share(buf, (double)num, (double)whole);
	default:
		snprintf(buf, 24, col->kind == COL_HEX ? "%" PRIx64 : "%" PRIu64, num);
		return buf;
	}
}

static const char *cell__words(const struct cell *c, const struct column *col, char *buf)
{
	if (c->text)
		return c->text;
	if (c->none)
		return "-";
	return col->kind <= COL_OR_NULL ? "" : column__words(col, c->num, c->whole, buf);
}

int column__is_left(const struct column *col)
{
	return col->kind < COL_BYTES;
}

unsigned table__shown(const struct table *t, const struct drawn *d, const struct column *shown[TABLE_SHOWN_MAX])
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < t->cnt; i++) {
		const struct column *c = &t->cols[i];
		const struct column_place *place = d->as == AS_TUI ? &c->tui : &c->text;
		unsigned at = cnt;

		if (!place->place || cnt == TABLE_SHOWN_MAX || (c->only && !(c->only & t->variant)))
			continue;
		if ((d->as == AS_TEXT && d->width < place->from) || (c->shown_if && !c->shown_if(d)))
			continue;
		for (; at && (d->as == AS_TUI ? shown[at - 1]->tui : shown[at - 1]->text).place > place->place; at--)
			shown[at] = shown[at - 1];
		shown[at] = c;
		cnt++;
	}
	return cnt;
}

/* --- text ------------------------------------------------------------------------------------------------ */

static unsigned cols_of(const struct column *col, const struct drawn *d)
{
	unsigned widest = col->cols ? col->cols(d) : col->text.cols;
	char buf[24], safe[TEXT_BYTES_MAX];
	struct cell c;

	for (size_t i = 0; col->text.most && i < d->rows_cnt; i++) {
		unsigned have;

		cell__get(&c, col, d, (const char *)d->rows + i * d->row_size);
		have = text_fit(safe, sizeof(safe), cell__words(&c, col, buf), col->text.most);
		widest = have > widest ? have : widest;
	}
	return widest;
}

static unsigned least_of(const struct table_lines *l, unsigned i)
{
	return l->cols[i]->text.gap + cols_of(l->cols[i], l->d);
}

/* Too narrow a terminal: the last columns are left out, except those of any width. */
static void leave_out(struct table_lines *l, unsigned width, int spare)
{
	int left = (int)(width - l->indent) - spare;

	for (unsigned i = 0; i < l->cnt; i++)
		left -= (int)least_of(l, i);
	for (unsigned i = l->cnt; --i && left < 0;) {
		if (l->cols[i]->text.wide)
			continue;
		left += (int)least_of(l, i);
		l->cnt--;
		memmove(&l->cols[i], &l->cols[i + 1], (l->cnt - i) * sizeof(*l->cols));
	}
}

/* Spare width goes to the wide columns by their parts, and the rest of it to the widest of them. */
static void lay_out(struct table_lines *l, unsigned width, int spare)
{
	unsigned wide = 0, widest = 0;
	int left = (int)(width - l->indent) - spare, rest;

	for (unsigned i = 0; i < l->cnt; i++) {
		const struct column_place *t = &l->cols[i]->text;

		l->widths[i] = t->wide ? 0 : cols_of(l->cols[i], l->d);
		left -= (int)(l->widths[i] + t->gap);
		wide += t->wide;
		widest = t->wide > l->cols[widest]->text.wide ? i : widest;
	}
	rest = left;
	for (unsigned i = 0; i < l->cnt; i++) {
		const struct column_place *t = &l->cols[i]->text;

		if (!t->wide)
			continue;
		l->widths[i] = left > 0 ? (unsigned)left * t->wide / wide : 0;
		rest -= (int)l->widths[i];
	}
	if (wide && rest > 0)
		l->widths[widest] += (unsigned)rest;
	for (unsigned i = 0; i < l->cnt; i++) {
		unsigned least = l->cols[i]->text.cols, more = l->widths[i] < least ? least - l->widths[i] : 0;

		l->widths[i] += more;
		if (i != widest && l->widths[widest] >= l->cols[widest]->text.cols + more)
			l->widths[widest] -= more;
	}
}

static void put_cell(struct table_lines *l, unsigned i, const char *text)
{
	const struct column *c = l->cols[i];
	int cols = column__is_left(c) ? (int)l->widths[i] : -(int)l->widths[i];

	page__printf(l->p, "%*s", c->text.gap + (i ? 0 : (int)l->indent), "");
	(c->is_path ? page__path : c->is_begin ? page__begin_of : page__cell)(l->p, text, cols);
}

void table_lines__begin(struct table_lines *l, struct page *p, const struct table *t, struct drawn *d)
{
	int spare;

	d->width = p->width;
	*l = (struct table_lines){ .p = p, .d = d, .is_sparse = t->is_sparse, .indent = t->is_untitled ? 0 : INDENT };
	l->cnt = table__shown(t, d, l->cols);
	spare = p->is_narrow && t->spare < 0 ? 0 : t->spare;
	if (p->is_narrow)
		leave_out(l, p->width, spare);
	lay_out(l, p->width, spare);
	if (t->is_untitled) {
		page__end_line(p);
		page__style(p, STYLE_BOLD);
	}
	for (unsigned i = 0; i < l->cnt; i++)
		put_cell(l, i, l->cols[i]->text.head ? l->cols[i]->text.head : l->cols[i]->head);
	if (t->is_untitled)
		page__style(p, STYLE_PLAIN);
	page__end_line(p);
}

void table_lines__cells(struct table_lines *l, const void *row)
{
	struct cell c;
	char buf[24];

	for (unsigned i = 0; i < l->cnt; i++) {
		cell__get(&c, l->cols[i], l->d, row);
		if (l->is_sparse && l->cols[i]->kind == COL_BYTES && !c.num)
			c.none = NONE_LEFT_OUT;
		if (l->cols[i]->is_bold)
			page__style(l->p, STYLE_BOLD);
		put_cell(l, i, cell__words(&c, l->cols[i], buf));
		if (l->cols[i]->is_bold)
			page__style(l->p, STYLE_PLAIN);
	}
}

void table_lines__row(struct table_lines *l, const void *row)
{
	table_lines__cells(l, row);
	page__end_line(l->p);
}

void table__text(struct page *p, const struct table *t, struct drawn *d, const void *rows, size_t cnt, size_t size)
{
	struct table_lines l;

	d->rows = rows;
	d->rows_cnt = cnt;
	d->row_size = size;
	table_lines__begin(&l, p, t, d);
	d->rows_cnt = 0;
	for (size_t i = 0; i < cnt; i++)
		table_lines__row(&l, (const char *)rows + i * size);
}

/* --- Markdown --------------------------------------------------------------------------------------------- */

#define MD_COLS 60
#define MD_WIDTH 120 /* all columns that a report for people may have */

void table_md__begin(struct table_lines *l, struct page *p, const struct table *t, struct drawn *d)
{
	d->width = MD_WIDTH;
	*l = (struct table_lines){ .p = p, .d = d, .is_sparse = t->is_sparse };
	l->cnt = table__shown(t, d, l->cols);
	page__put(p, "\n");
	for (unsigned i = 0; i < l->cnt; i++)
		page__printf(p, "| %s ", l->cols[i]->text.head ? l->cols[i]->text.head : l->cols[i]->head);
	page__put(p, "|\n");
	for (unsigned i = 0; i < l->cnt; i++)
		page__put(p, column__is_left(l->cols[i]) ? "| --- " : "| ---: ");
	page__put(p, "|\n");
}

void table_md__row(struct table_lines *l, const void *row)
{
	char buf[24], safe[TEXT_BYTES_MAX];
	struct cell c;

	for (unsigned i = 0; i < l->cnt; i++) {
		cell__get(&c, l->cols[i], l->d, row);
		if (l->is_sparse && l->cols[i]->kind == COL_BYTES && !c.num)
			c.none = NONE_LEFT_OUT;
		(l->cols[i]->is_path ? text_fit_path : text_fit)(safe, sizeof(safe), cell__words(&c, l->cols[i], buf), MD_COLS);
		page__put(l->p, "| ");
		page__md(l->p, safe);
		page__put(l->p, " ");
	}
	page__put(l->p, "|\n");
}

/* --- JSON ------------------------------------------------------------------------------------------------ */

static void put_json(struct json *j, const struct column *col, const struct drawn *d, const struct cell *c)
{
	switch (col->kind) {
	case COL_OR_NULL:
		json__str_or_null(j, col->key, c->text);
		break;
	case COL_TEXT:
	case COL_DEV:
	case COL_CAT:
		json__str(j, col->key, c->text);
		break;
	case COL_HEX:
		json__hex(j, col->key, c->num);
		break;
	case COL_BOOL:
		json__bool(j, col->key, c->num != 0);
		break;
	case COL_SIGNED:
		json__i64(j, col->key, (int64_t)c->num);
		break;
	case COL_TIME:
		json__u64(j, col->key, c->num ? c->num + (uint64_t)d->epoch_off_ns : 0);
		break;
	case COL_REAL:
		json__f64(j, col->key, c->real);
		break;
	case COL_AVERAGE:
		json__average(j, col->key, c->real);
		break;
	default:
		json__u64(j, col->key, c->num);
	}
}

void table__fields(struct json *j, const struct table *t, const struct drawn *d, const void *row)
{
	struct cell c;

	for (unsigned i = 0; i < t->cnt; i++) {
		const struct column *col = &t->cols[i];

		if (!col->key || (col->only && !(col->only & t->variant)))
			continue;
		if (col->json) {
			col->json(j, col->key, d, row);
			continue;
		}
		cell__get(&c, col, d, row);
		if (!c.none || c.none == NONE_REPORTED)
			put_json(j, col, d, &c);
		else if (c.none == NONE_NULL)
			json__null(j, col->key);
	}
}

void table__object(struct json *j, const char *key, const struct table *t, const struct drawn *d, const void *row)
{
	json__begin_flat(j, key, '{');
	table__fields(j, t, d, row);
	json__end(j, '}');
}

void table__list(struct json *j, const char *key, const struct table *t, const struct drawn *d, const void *rows, size_t cnt,
		 size_t size)
{
	json__begin(j, key, '[');
	for (size_t i = 0; i < cnt; i++)
		table__object(j, NULL, t, d, (const char *)rows + i * size);
	json__end(j, ']');
}
