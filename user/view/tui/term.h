/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tui_term: the only user of ncurses: shows a canvas, reads keys, and restores the terminal, after a
 * crash too. There is one terminal, so there is one of it.
 */
#ifndef MT_VIEW_TUI_TERM_H
#define MT_VIEW_TUI_TERM_H

#include <stdint.h>

struct canvas;

#define TUI_COLS_MIN 40
#define TUI_LINES_MIN 8

/* Can stdin and stdout be taken over: a terminal that can place its cursor, large enough, UTF-8? */
int tui_term_fits(void);
int tui_term_open(int want_color); /* 0 or -ENOTTY */
void tui_term_close(void);	    /* nothing is done if it is not open */
int tui_term_has_color(void);
int tui_term_has_eighths(void);
void tui_term_size(unsigned *ret_w, unsigned *ret_h); /* as it is now */
void tui_term_show(const struct canvas *c);
/* The next key typed, enum tui_key or a code point; 0: none waits. Never blocks. */
uint32_t tui_term_key(void);

#endif
