/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tui_pick: a list on the whole screen, to choose one row by its number or with the arrow keys. Keys and drawing use no
 * terminal; tui_pick() has one, and restores it on every return.
 */
#ifndef MT_VIEW_TUI_PICK_H
#define MT_VIEW_TUI_PICK_H

#include <stddef.h>
#include <stdint.h>

#include "view/tui/ui.h"

struct canvas;

struct tui_pick {
	const char *title;
	char *const *lines; /* borrowed: the columns' heads, rows, and further lines */
	size_t lines_cnt, rows_cnt;
	struct tui_tab_state rows;
	char typed[8];	/* a number, so far */
	char wrong[40]; /* typed, but not a number of a row */
};

enum tui_picked { TUI_PICK_GOES_ON = 0, TUI_PICKED, TUI_PICK_LEFT };

/* first: the row with the cursor, from 0. */
void tui_pick__init(struct tui_pick *p, const char *title, char *const *lines, size_t lines_cnt, size_t rows_cnt, size_t first);
enum tui_picked tui_pick__key(struct tui_pick *p, uint32_t key);
void tui_pick__draw(struct tui_pick *p, struct canvas *c);

/* TUI_PICKED (p->rows.row) or TUI_PICK_LEFT, or -errno. A signal ends the program once the terminal is back. */
int tui_pick(struct tui_pick *p, int want_color);

#endif
