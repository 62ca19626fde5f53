/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The verdict on the screen: its first lines above the chart, or all of it, to scroll, with commands on lines of their own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

static void put_line(struct canvas *c, struct rect *at, enum tui_style style, unsigned indent, size_t len, const char *text,
		     const char *end)
{
	char line[VERDICT_BYTES + 16];

	snprintf(line, sizeof(line), "%.*s%s", (int)len, text, end);
	canvas__text(c, at->x + indent, at->y++, at->w, style, line);
	at->h--;
}

/* From at.y on, which goes on behind it. */
static void put_wrapped(struct canvas *c, struct rect *at, enum tui_style style, const char *text)
{
	for (unsigned indent = 0; *text && at->h; indent = 2) {
		size_t len = line_len(text, at->w - indent);

		put_line(c, at, style, indent, len, text, "");
		text += len + strspn(text + len, " ");
	}
}

/* Bytes of a command's first words that have room, one at least; a blank in quotes ends none. */
static size_t words_len(const char *text, unsigned room)
{
	unsigned have = 0, is_quoted = 0;
	size_t len, blank = 0;

	for (len = 0; text[len] && (have <= room || !blank); len++) {
		have += ((unsigned char)text[len] & 0xc0) != 0x80;
		is_quoted ^= text[len] == '\'';
		if (text[len] == ' ' && !is_quoted && (have <= room + 1 || !blank))
			blank = len;
	}
	return text[len] || have > room ? (blank ? blank : len) : len;
}

/* Bytes of at most `cols` characters. */
static size_t cut_len(const char *text, size_t len, unsigned cols)
{
	size_t at = 0;

	for (unsigned have = 0; at < len; at++) {
		have += ((unsigned char)text[at] & 0xc0) != 0x80;
		if (have > cols)
			break;
	}
	return at;
}

/* A command wider than the screen is several lines for a shell: each but the last ends with a backslash. */
static void put_command(struct canvas *c, struct rect *at, const char *text)
{
	while (*text && at->h) {
		size_t len = words_len(text, at->w - 4);
		const char *rest = text + len + strspn(text + len, " ");

		for (size_t part; len; text += part, len -= part) { /* too long a word is cut, and is then no command */
			part = cut_len(text, len, at->w - 4);
			put_line(c, at, TUI_KEY, 2, part, text, part == len && *rest ? " \\" : "");
		}
		text = rest;
	}
}

static void put_next(struct canvas *c, struct rect *at, const struct verdict_line *l)
{
	const char *command = verdict_command(l);
	char words[VERDICT_BYTES + 16];

	snprintf(words, sizeof(words), "next: %.*s", (int)(command - l->next), l->next);
	put_wrapped(c, at, TUI_DIM, words);
	put_command(c, at, command);
}

static enum tui_style style_of(const struct verdict_line *l)
{
	return l->severity == VERDICT_PROBLEM ? TUI_BAD : l->severity == VERDICT_HINT ? TUI_BOLD : TUI_PLAIN;
}

/* --- all of it ---------------------------------------------------------------------------------------------- */

/* Onto a canvas that is high enough; returns the lines used. */
static unsigned put_all(struct canvas *c, const struct verdict *v)
{
	struct rect at = { 0, 0, c->w, c->h };

	for (size_t i = 0; i < v->cnt; i++) {
		if (at.y && at.h) {
			at.y++;
			at.h--;
		}
		put_wrapped(c, &at, style_of(&v->lines[i]), v->lines[i].text);
		if (v->lines[i].next[0])
			put_next(c, &at, &v->lines[i]);
	}
	return at.y;
}

/* --- what has room above the chart --------------------------------------------------------------------------- */

/* The text of an entry, or its next command: lines that it needs, and lines that it gets. */
struct piece {
	char text[VERDICT_BYTES + 16];
	enum tui_style style;
	unsigned wants, has;
};

struct pieces {
	struct piece lines[VERDICT_MAX], next[VERDICT_MAX];
	size_t cnt;
	unsigned left; /* lines */
};

static unsigned lines_of(const char *text, unsigned cols)
{
	unsigned cnt = 0;

	for (; *text; cnt++) {
		text += line_len(text, cols - (cnt ? 2 : 0));
		text += strspn(text, " ");
	}
	return cnt;
}

static void piece__init(struct piece *p, enum tui_style style, const char *before, const char *text, unsigned cols)
{
	*p = (struct piece){ .style = style };
	if (text[0])
		snprintf(p->text, sizeof(p->text), "%s%s", before, text);
	p->wants = lines_of(p->text, cols);
}

static void piece__give(struct piece *p, unsigned most, unsigned *left)
{
	unsigned more = (most < p->wants ? most : p->wants) - p->has;

	more = more < *left ? more : *left;
	p->has += more;
	*left -= more;
}

/*
 * First the worst and its remedy, then the others, in a line each, then their remedies; spare lines make the first ones
 * whole. The cost of tracing stands in the last line but one of the screen.
 */
static unsigned pieces__share(struct pieces *all, const struct verdict *v, unsigned cols, unsigned lines)
{
	unsigned missing = 0;

	all->left = lines;
	for (size_t i = 0; i < v->cnt; i++) {
		const struct verdict_line *l = &v->lines[i];

		if (l->kind == VERDICT_COMPLETE)
			continue;
		piece__init(&all->lines[all->cnt], style_of(l), "", l->text, cols);
		piece__init(&all->next[all->cnt++], TUI_DIM, "next: ", l->next, cols);
	}
	if (all->cnt) {
		piece__give(&all->lines[0], 2, &all->left);
		piece__give(&all->next[0], 1, &all->left);
	}
	for (size_t i = 1; i < all->cnt; i++)
		piece__give(&all->lines[i], 1, &all->left);
	for (size_t i = 1; i < all->cnt; i++)
		if (all->lines[i].has)
			piece__give(&all->next[i], 1, &all->left);
	for (size_t i = 0; i < all->cnt; i++) {
		piece__give(&all->lines[i], all->lines[i].wants, &all->left);
		piece__give(&all->next[i], all->next[i].wants, &all->left);
		missing += all->lines[i].wants - all->lines[i].has + all->next[i].wants - all->next[i].has;
	}
	return missing;
}

static void put_piece(struct canvas *c, struct rect *at, const struct piece *p)
{
	const char *text = p->text;

	for (unsigned i = 0; i < p->has; i++) {
		unsigned indent = i ? 2 : 0, cols = at->w - indent;
		int is_cut = i + 1 == p->has && p->has < p->wants;
		size_t len = line_len(text, is_cut ? cols - 2 : cols);

		put_line(c, at, p->style, indent, len, text, is_cut ? " \xe2\x80\xa6" : ""); /* … */
		text += len + strspn(text + len, " ");
	}
}

/* Returns the number of further lines. */
static unsigned put_short(struct canvas *c, const struct verdict *v, unsigned lines)
{
	struct rect at = { 0, 0, c->w, c->h };
	struct pieces *all = calloc(1, sizeof(*all));
	unsigned missing = all ? pieces__share(all, v, c->w, lines) : 0;

	for (size_t i = 0; all && i < all->cnt; i++) {
		put_piece(c, &at, &all->lines[i]);
		put_piece(c, &at, &all->next[i]);
	}
	free(all);
	return missing;
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
	struct verdict v;
	unsigned missing = 0;
	char more[40];

	if (at.w < COLS_MIN || !at.h)
		return 0;
	if (canvas__init(&all, at.w, CANVAS_LINES_MAX) < 0)
		return -ENOMEM;
	verdict__of(&v, r, words->file);
	if (ui->is_verdict)
		tui_tab_state__scroll(&ui->verdict, put_all(&all, &v), at.h);
	else
		missing = put_short(&all, &v, at.h);
	copy_lines(c, at, &all, ui->is_verdict ? ui->verdict.top : 0);
	canvas__done(&all);
	if (!missing)
		return 0;
	snprintf(more, sizeof(more), "\xe2\x80\xa6 v: %u more line%s", missing, missing == 1 ? "" : "s"); /* … */
	for (unsigned x = at.x + at.w - (unsigned)strlen(more) + 1; x < at.x + at.w; x++)
		canvas__set(c, x, at.y + at.h - 1, ' ', TUI_PLAIN, TUI_PLAIN);
	canvas__right(c, at.x, at.y + at.h - 1, at.w, TUI_KEY, more);
	return 0;
}
