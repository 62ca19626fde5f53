/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tui_canvas: a screen of cells as plain data. The parts of the terminal interface draw on it, tests
 * read it, tui_term shows it. Nothing drawn outside of it has an effect. Text is made safe (text.h)
 * and cut to its columns here, for all parts.
 */
#ifndef MT_VIEW_TUI_CANVAS_H
#define MT_VIEW_TUI_CANVAS_H

#include <stdint.h>
#include <stdio.h>

#include "timeline/timeline.h"

#define CANVAS_COLS_MAX 1000 /* in a larger terminal only a corner is drawn */
#define CANVAS_LINES_MAX 500

/* The meaning of a cell; tui_term gives it colours and attributes. */
enum tui_style {
	TUI_PLAIN = 0,
	TUI_DIM,
	TUI_BOLD,
	TUI_TITLE,
	TUI_TAB,
	TUI_TAB_ON,
	TUI_HEAD,
	TUI_HEAD_ON, /* the column that sorts */
	TUI_KEY,
	TUI_GOOD,
	TUI_WARN,
	TUI_BAD,
	TUI_BAR,
	TUI_MARK,
	TUI_LIVE,     /* the chart's one layer without categories */
	TUI_ENVELOPE, /* highest between two looks */
	TUI_CAT0,     /* + enum category */
	TUI_STYLES = TUI_CAT0 + CAT_MAX,
};

struct tui_cell {
	uint32_t cp;	/* 0: the right half of a wide character */
	uint8_t style;	/* enum tui_style */
	uint8_t back;	/* style whose colour is behind it; TUI_PLAIN: the terminal's own */
	uint8_t is_on;	/* selected */
};

struct canvas {
	unsigned w, h;
	struct tui_cell *cells;
};

struct rect {
	unsigned x, y, w, h;
};

int canvas__init(struct canvas *c, unsigned w, unsigned h); /* blank; 0 or -ENOMEM */
void canvas__done(struct canvas *c);
void canvas__set(struct canvas *c, unsigned x, unsigned y, uint32_t cp, enum tui_style style, enum tui_style back);
/* Too long a text loses its end to "…"; returns the columns used. */
unsigned canvas__text(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text);
/* Too long a text loses its middle. */
unsigned canvas__fit(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text);
unsigned canvas__fit_path(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text);
/* Ends at x + cols - 1. */
unsigned canvas__right(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text);
/* A bar of eighths; a share above 0 is never invisible. */
void canvas__bar(struct canvas *c, unsigned x, unsigned y, unsigned cols, double share, enum tui_style style);
void canvas__select(struct canvas *c, unsigned x, unsigned y, unsigned cols);
const struct tui_cell *canvas__at(const struct canvas *c, unsigned x, unsigned y); /* NULL: outside */

#endif
