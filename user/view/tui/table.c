/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

static int row_matches(const struct tui_rows *rows, const struct tui_row *r, const char *filter)
{
	for (unsigned i = 0; i < rows->cols_cnt; i++)
		if (r->v[i].text && strcasestr(r->v[i].text, filter))
			return 1;
	return !filter[0];
}

struct row_order {
	unsigned col;
	int is_text, is_up;
};

/* The largest number, the first letter on top; equal rows stay in the order in which they were added. */
static int row_cmp(const void *pa, const void *pb, void *ctx)
{
	const struct tui_row *ra = pa, *rb = pb;
	const struct row_order *o = ctx;
	const struct tui_value *a = &ra->v[o->col], *b = &rb->v[o->col];
	int r = cmp_down(a->num, b->num);

	if (o->is_text)
		r = r ? -r : strcmp(a->text ? a->text : "", b->text ? b->text : "");
	return (o->is_up ? -r : r) ?: cmp_up(ra->number, rb->number);
}

static struct tui_tab_state *state_of(struct tui_ui *ui, const struct tui_rows *rows, const struct tui_table *t)
{
	return rows->is_then ? &ui->then_tabs[t - tui_tables] : &ui->tabs[t - tui_tables];
}

void tui_rows__arrange(struct tui_rows *rows, const struct tui_table *t, struct tui_ui *ui)
{
	const struct tui_tab_state *s = state_of(ui, rows, t);
	struct row_order o = { .col = s->sort < rows->cols_cnt ? s->sort : 0, .is_up = s->is_up };
	size_t kept = 0;

	o.is_text = rows->cols_cnt && column__is_left(rows->cols[o.col]);
	for (size_t i = 0; i < rows->cnt; i++)
		if (row_matches(rows, &rows->rows[i], ui->filter))
			rows->rows[kept++] = rows->rows[i];
	rows->cnt = kept;
	if (kept)
		qsort_r(rows->rows, kept, sizeof(*rows->rows), row_cmp, &o);
}

/* --- drawing -------------------------------------------------------------------------------------- */

static const char *head_of(const struct column *col)
{
	return col->tui.head ? col->tui.head : col->head;
}

/* Widths of the columns; 0: not shown. */
static void col_widths(const struct tui_rows *r, unsigned screen, unsigned sort, unsigned *widths)
{
	unsigned used = 0, wide = 0;

	for (unsigned i = 0; i < r->cols_cnt; i++) {
		widths[i] = screen >= r->cols[i]->tui.from ? r->cols[i]->tui.cols : 0;
		used += widths[i] ? widths[i] + 1 : 0;
		wide += widths[i] && r->cols[i]->tui.wide;
	}
	for (unsigned i = r->cols_cnt; i-- && used > screen + 1;) /* too narrow: the last ones go */
		if (i && i != sort && widths[i] && !r->cols[i]->tui.stays) {
			used -= widths[i] + 1;
			wide -= r->cols[i]->tui.wide != 0;
			widths[i] = 0;
		}
	for (unsigned i = 0; i < r->cols_cnt && used < screen + 1; i++)
		if (widths[i] && r->cols[i]->tui.wide) {
			unsigned more = (screen + 1 - used) / wide--;

			widths[i] += more;
			used += more;
		}
}

static void draw_head(struct canvas *c, struct rect at, const struct tui_rows *r, const unsigned *widths,
		      const struct tui_tab_state *s)
{
	unsigned x = at.x;

	for (unsigned i = 0; i < r->cols_cnt; i++) {
		enum tui_style style = i == s->sort ? TUI_HEAD_ON : TUI_HEAD;
		const struct column *col = r->cols[i];
		char head[40];

		if (!widths[i])
			continue;
		snprintf(head, sizeof(head), "%s%s", head_of(col),
			 i != s->sort ? "" : s->is_up ? "\xe2\x96\xb4" : "\xe2\x96\xbe"); /* ▴ ▾ */
		if (column__is_left(col) || col->kind == COL_BAR)
			canvas__text(c, x, at.y, widths[i], style, head);
		else
			canvas__right(c, x, at.y, widths[i], style, head);
		x += widths[i] + 1;
	}
}

static void draw_value(struct canvas *c, unsigned x, unsigned y, unsigned w, const struct tui_row *row, unsigned i,
		       const struct column *col, uint64_t whole)
{
	const struct tui_value *v = &row->v[i];
	char text[32];

	if (column__is_left(col))
		(col->is_path ? canvas__fit_path : col->is_begin ? canvas__text : canvas__fit)(
			c, x, y, w, (enum tui_style)row->style, v->text ? v->text : "");
	else if (v->text)
		canvas__right(c, x, y, w, v->text[0] == '-' ? TUI_DIM : (enum tui_style)row->style, v->text);
	else if (col->kind == COL_BAR)
		canvas__bar(c, x, y, w, whole ? (double)v->num / (double)whole : 0,
			    row->style >= TUI_CAT0 ? (enum tui_style)row->style : TUI_BAR);
	else
		canvas__right(c, x, y, w, v->num ? TUI_PLAIN : TUI_DIM, column__words(col, v->num, whole, text));
}

static void clear_line(struct canvas *c, struct rect at, unsigned y)
{
	for (unsigned x = at.x; x < at.x + at.w; x++)
		canvas__set(c, x, y, ' ', TUI_PLAIN, TUI_PLAIN);
}

#define DETAIL_HEAD 12 /* columns */

/* Bytes of a line of at most `cols` columns: up to behind a blank where there is one. */
static size_t line_len(const char *safe, unsigned cols)
{
	size_t n = 0, len = strlen(safe), blank = 0;

	for (unsigned have = 0; n < len;) {
		uint32_t cp;
		size_t bytes = utf8_decode(safe + n, len - n, &cp);

		if ((have += utf8_cols(cp)) > cols)
			return blank ? blank : n;
		n += bytes;
		blank = cp == ' ' ? n : blank;
	}
	return n;
}

/* One text in as many lines as it takes, from y on; c NULL: they are counted alone. Returns the line behind it. */
static unsigned draw_detail_text(struct canvas *c, struct rect at, unsigned y, const char *head, const char *text)
{
	unsigned room = at.w > DETAIL_HEAD ? at.w - DETAIL_HEAD : 1;
	char safe[TEXT_BYTES_MAX], line[TEXT_BYTES_MAX];
	const char *rest = safe;

	text_fit(safe, sizeof(safe), text, TEXT_BYTES_MAX);
	for (size_t len; *rest && y < at.y + at.h; rest += len, y++) {
		len = line_len(rest, room);
		if (!len) /* a wide letter in one column */
			break;
		if (!c)
			continue;
		clear_line(c, at, y);
		snprintf(line, sizeof(line), "%.*s", (int)len, rest);
		canvas__text(c, at.x, y, DETAIL_HEAD - 1, TUI_HEAD, rest == safe ? head : "");
		canvas__text(c, at.x + DETAIL_HEAD, y, room, TUI_PLAIN, line);
	}
	return y;
}

static unsigned draw_detail_texts(struct canvas *c, struct rect at, unsigned y, const struct tui_rows *rows,
				  const struct tui_row *row)
{
	for (unsigned i = 0; i < rows->cols_cnt; i++)
		if (column__is_left(rows->cols[i]) && row->v[i].text && row->v[i].text[0])
			y = draw_detail_text(c, at, y, head_of(rows->cols[i]), row->v[i].text);
	return y;
}

void tui_table__draw(struct canvas *c, struct rect at, const struct tui_table *t, const struct tui_rows *rows,
		     struct tui_ui *ui)
{
	struct tui_tab_state *s = state_of(ui, rows, t);
	unsigned widths[TUI_COLS_MAX], page = at.h ? at.h - 1 : 0;

	tui_tab_state__settle(s, rows->cnt, page, rows->cols_cnt);
	if (!at.h)
		return;
	col_widths(rows, at.w, s->sort, widths);
	draw_head(c, at, rows, widths, s);
	for (unsigned line = 0; line < page && s->top + line < rows->cnt; line++) {
		const struct tui_row *row = &rows->rows[s->top + line];
		unsigned x = at.x, y = at.y + 1 + line;

		for (unsigned i = 0; i < rows->cols_cnt; i++) {
			if (!widths[i])
				continue;
			draw_value(c, x, y, widths[i], row, i, rows->cols[i], rows->whole);
			x += widths[i] + 1;
		}
		if (s->top + line == s->row)
			canvas__select(c, at.x, y, at.w);
	}
	if (!rows->cnt && page)
		canvas__text(c, at.x, at.y + 1, at.w, TUI_DIM,
			     ui->filter[0] ? "nothing matches the filter (Esc clears it)" :
			     t->empty	    ? t->empty :
						      rows->empty);
}

void tui_table__draw_detail(struct canvas *c, struct rect at, const struct tui_table *t, const struct tui_rows *rows,
			    struct tui_ui *ui)
{
	const struct tui_row *row = rows->cnt ? &rows->rows[state_of(ui, rows, t)->row] : NULL;
	unsigned lines, end = at.y + at.h, y;

	if (!ui->is_detail || !row || at.h <= 3)
		return;
	lines = draw_detail_texts(NULL, at, at.y, rows, row) - at.y;
	if (lines + 2 > at.h)
		lines = at.h - 2;
	y = end - lines - 1;
	clear_line(c, at, y);
	for (unsigned x = at.x; x < at.x + at.w; x++)
		canvas__set(c, x, y, 0x2500, TUI_DIM, TUI_PLAIN);
	draw_detail_texts(c, at, y + 1, rows, row);
}
