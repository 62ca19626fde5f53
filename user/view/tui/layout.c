/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * When there is little room, the live bytes, the losses and the cost are kept first; then rows of
 * the table, then the chart, then the line of keys and the title.
 */
#include "view/tui/layout.h"

#include <string.h>

#define CHART_LINES_MIN 5 /* four, and the time below them */
#define CHART_LINES_MAX 21
#define TABLE_LINES_MIN 6 /* tabs, head, four rows */
#define TABLE_LINES_GOOD 10 /* … eight rows: beyond that there may be air */
#define CATS_BESIDE_COLS 64

static unsigned cats_cols(unsigned w)
{
	return w >= 150 ? 64 : w >= 100 ? 50 : 38;
}

/* The upper half: the chart, with its categories beside it, or under it on a narrow screen. */
static void tui_layout__chart(struct tui_layout *l, unsigned w, unsigned y, unsigned lines)
{
	unsigned cols = cats_cols(w), under = lines / 2;

	if (w >= CATS_BESIDE_COLS) {
		l->chart = (struct rect){ 0, y, w - cols - 2, lines };
		l->cats = (struct rect){ w - cols, y, cols, lines };
	} else if (lines >= 2 * CHART_LINES_MIN) {
		l->chart = (struct rect){ 0, y, w, lines - under };
		l->cats = (struct rect){ 0, y + lines - under, w, under };
	} else {
		l->chart = (struct rect){ 0, y, w, lines };
	}
}

static unsigned chart_lines(unsigned room, enum tui_chart_size size)
{
	unsigned lines = room / 2;

	if (size == TUI_CHART_HIDDEN || room < CHART_LINES_MIN)
		return 0;
	if (size == TUI_CHART_FULL)
		return room;
	if (room < CHART_LINES_MIN + 1 + TABLE_LINES_MIN)
		return 0;
	lines = lines > CHART_LINES_MAX ? CHART_LINES_MAX : lines;
	return lines < 9 ? CHART_LINES_MIN : lines - (lines - 1) % 4; /* quarters of the scale fall on lines */
}

static unsigned verdict_lines(unsigned h)
{
	return h >= 36 ? 6 : h >= 24 ? 5 : 3;
}

void tui_layout(struct tui_layout *l, unsigned w, unsigned h, enum tui_chart_size chart)
{
	unsigned top = 0, end = h, room, lines;

	memset(l, 0, sizeof(*l));
	if (h >= 3)
		l->title = (struct rect){ 0, top++, w, 1 };
	l->devs = (struct rect){ 0, top++, w > 2 ? w - 1 : w, h ? 1 : 0 };
	if (h >= 5)
		l->keys = (struct rect){ 0, --end, w, 1 };
	if (h >= 2)
		l->coverage = (struct rect){ 0, --end, w, 1 };
	room = end > top ? end - top : 0;
	if (room >= 12) {
		l->verdict = (struct rect){ w > 2, top, w > 2 ? w - 2 : w, verdict_lines(h) };
		top += l->verdict.h;
		end -= h >= 30; /* air */
		room = end - top;
	}
	lines = chart_lines(room, chart);
	if (lines) {
		tui_layout__chart(l, w, top, lines);
		top += lines;
		room -= lines;
	}
	if (lines && room > TABLE_LINES_GOOD) {
		top++;
		room--;
	}
	if (room < 3)
		return;
	l->tabs = (struct rect){ 0, top, w > 2 ? w - 1 : w, 1 };
	l->table = (struct rect){ w > 2, top + 1, w > 2 ? w - 2 : w, room - 1 };
}
