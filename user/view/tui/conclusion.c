/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The verdict on the screen: its first lines above the chart, or all of it, to scroll, with commands on lines of their own. */
#include <errno.h>
#include <string.h>

#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/tui/head.h"

#define COLS_MIN 20

/* Bytes of a line of at most `cols` columns: up to a blank where there is one. */
static size_t line_len(const char *text, unsigned cols)
{
	size_t len = 0, blank = 0;
	unsigned have = 0;

	for (; text[len] && have <= cols; len++) {
		have += ((unsigned char)text[len] & 0xc0) != 0x80;
		if (text[len] == ' ' && have <= cols + 1)
			blank = len;
	}
	return text[len] || have > cols ? (blank ? blank : len - 1) : len;
}

/* From at.y on, which goes on behind it. end: of each line but the last, for who copies them. */
static void put_wrapped(struct canvas *c, struct rect *at, enum tui_style style, unsigned indent, const char *text,
			const char *end)
{
	unsigned room = at->w - 2 - (unsigned)strlen(end);
	char line[VERDICT_BYTES + 16];

	for (unsigned x = at->x + indent; *text && at->h; x = at->x + 2) {
		size_t len = line_len(text, x == at->x ? room + 2 : room);
		const char *rest = text + len + strspn(text + len, " ");

		snprintf(line, sizeof(line), "%.*s%s", (int)len, text, *rest ? end : "");
		canvas__text(c, x, at->y++, at->w, style, line);
		at->h--;
		text = rest;
	}
}

/* Words, then a command: one that is wider than the screen is one of several lines for a shell, too. */
static void put_next(struct canvas *c, struct rect *at, const struct verdict_line *l)
{
	const char *command = verdict_command(l);
	char words[VERDICT_BYTES + 16];

	snprintf(words, sizeof(words), "next: %.*s", (int)(command - l->next), l->next);
	put_wrapped(c, at, TUI_DIM, 0, words, "");
	put_wrapped(c, at, TUI_KEY, 2, command, " \\");
}

/* --- all of it ---------------------------------------------------------------------------------------------- */

/* Onto a canvas that is high enough; returns the lines used. */
static unsigned put_verdict(struct canvas *c, const struct report *r, const char *file, int is_whole)
{
	struct rect at = { 0, 0, c->w, c->h };
	struct verdict v;
	char text[VERDICT_BYTES + 16];

	verdict__of(&v, r, file);
	for (size_t i = 0; i < v.cnt; i++) {
		const struct verdict_line *l = &v.lines[i];
		enum tui_style style = l->severity == VERDICT_PROBLEM ? TUI_BAD :
				       l->severity == VERDICT_HINT    ? TUI_BOLD : TUI_PLAIN;

		if (l->kind == VERDICT_COMPLETE && !is_whole)
			continue;
		if (is_whole && at.y && at.h) {
			at.y++;
			at.h--;
		}
		put_wrapped(c, &at, style, 0, l->text, "");
		snprintf(text, sizeof(text), "next: %s", l->next);
		if (l->next[0] && is_whole)
			put_next(c, &at, l);
		else if (l->next[0])
			put_wrapped(c, &at, TUI_DIM, 0, text, "");
	}
	return at.y;
}

static void copy_lines(struct canvas *to, struct rect at, const struct canvas *from, unsigned top)
{
	for (unsigned y = 0; y < at.h; y++)
		for (unsigned x = 0; x < at.w; x++) {
			const struct tui_cell *cell = canvas__at(from, x, top + y);

			if (cell)
				canvas__set(to, at.x + x, at.y + y, cell->cp, (enum tui_style)cell->style, TUI_PLAIN);
		}
}

int tui_verdict__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct report *r,
		      const struct tui_words *words)
{
	struct canvas all;
	unsigned lines;
	char more[40];

	if (at.w < COLS_MIN || !at.h)
		return 0;
	if (canvas__init(&all, at.w, CANVAS_LINES_MAX) < 0)
		return -ENOMEM;
	lines = put_verdict(&all, r, words->file, ui->is_verdict);
	if (ui->is_verdict)
		tui_tab_state__scroll(&ui->verdict, lines, at.h);
	copy_lines(c, at, &all, ui->is_verdict ? ui->verdict.top : 0);
	canvas__done(&all);
	if (ui->is_verdict || lines <= at.h)
		return 0;
	snprintf(more, sizeof(more), "\xe2\x80\xa6 v: %u more line%s", lines - at.h, lines - at.h == 1 ? "" : "s"); /* … */
	for (unsigned x = at.x + at.w - (unsigned)strlen(more) + 1; x < at.x + at.w; x++)
		canvas__set(c, x, at.y + at.h - 1, ' ', TUI_PLAIN, TUI_PLAIN);
	canvas__right(c, at.x, at.y + at.h - 1, at.w, TUI_KEY, more);
	return 0;
}
