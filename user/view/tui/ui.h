/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tui_ui: the user's choices, and the effects of keys. No terminal and no report in it: keys in,
 * state out. Drawing writes back what it finds (the number of rows), so that the cursor stays inside.
 */
#ifndef MT_VIEW_TUI_UI_H
#define MT_VIEW_TUI_UI_H

#include <stddef.h>
#include <stdint.h>

#include "view/tui/layout.h"

/* The main tables for finding a problem stand first, where 80 columns and a digit reach; those for few jobs stand last. */
enum tui_tab {
	TUI_PEAK = 0, TUI_LEAKS, TUI_MODULES, TUI_OPS, TUI_STACKS, TUI_BLOCKS, TUI_STEPS, TUI_SEGMENTS, TUI_PROCS, TUI_TRACE,
	TUI_NAMES, TUI_SAVED, TUI_REGIONS, TUI_THREADS, TUI_COMPILES, TUI_PLACES,
	TUI_TABS,
};

/* Keys are code points; these are beyond them. */
enum tui_key {
	TUI_KEY_UP = 0x110000, TUI_KEY_DOWN, TUI_KEY_LEFT, TUI_KEY_RIGHT, TUI_KEY_PAGE_UP, TUI_KEY_PAGE_DOWN,
	TUI_KEY_HOME, TUI_KEY_END, TUI_KEY_BACK_TAB, TUI_KEY_BACKSPACE, TUI_KEY_F1, TUI_KEY_F10, TUI_KEY_RESIZE,
};
#define TUI_KEY_ESC 0x1b
#define TUI_KEY_ENTER '\n'

/* Actions for the caller. */
enum tui_action { TUI_QUIT = 1, TUI_DO_MARK = 2, TUI_DO_RECORD = 4, TUI_DO_TRACE = 8 };

#define TUI_FILTER_MAX 64

struct tui_tab_state {
	unsigned sort; /* column */
	int is_up;     /* smallest first */
	size_t row;    /* the cursor */
	size_t top;    /* first row shown */
	size_t rows;   /* set by the drawing: number of rows … */
	unsigned page; /* … and rows that fit */
	unsigned cols; /* columns that can sort */
};

struct tui_ui {
	struct tui_tab_state tabs[TUI_TABS];
	struct tui_tab_state then_tabs[TUI_TABS]; /* the same tables of a held moment: they have other columns */
	enum tui_tab tab;
	size_t dev;	/* index into the report's devices; the drawing keeps it inside */
	size_t devs;	/* set by the drawing */
	unsigned span;	/* of the chart, see tui_span_ns */
	int is_held;	/* a moment of the chart is looked at: the one in whose column … */
	uint64_t held_ns; /* … this is, since the start */
	int has_moment;	    /* set by the drawing: it was traced, … */
	uint64_t moment_ns; /* … and this is the highest known one of its column */
	int is_then;	    /* set by the drawing: the table shows it */
	struct tui_tab_state verdict; /* its lines, while is_verdict */
	uint64_t col_ns, now_ns, peak_ns; /* set by the drawing: a column's time; the trace's so far; the peak's */
	uint32_t cats;	/* set by the drawing: bits of the categories that the chart shows */
	enum tui_chart_size chart;
	int is_live;	/* else a recording: nothing to pause, mark or record */
	int is_paused, is_help, is_verdict, is_detail, is_typing;
	char filter[TUI_FILTER_MAX]; /* bytes as typed, UTF-8 */
	size_t filter_len;
	int is_color;
	int is_fine;	/* the terminal's font has eighths of blocks */
};

void tui_ui__init(struct tui_ui *ui, int is_live);
struct tui_tab_state *tui_ui__table(struct tui_ui *ui); /* of the table that is shown */
/* Returns bits of enum tui_action. */
unsigned tui_ui__key(struct tui_ui *ui, uint32_t key);
/* Time that the chart shows, 0: all of it. */
uint64_t tui_span_ns(unsigned span);
/* Keeps the cursor inside rows and page. */
void tui_tab_state__settle(struct tui_tab_state *t, size_t rows, unsigned page, unsigned cols);
/* A key that moves the cursor. 0: it is none. */
int tui_tab_state__move(struct tui_tab_state *t, uint32_t key);
/* Lines without a cursor: row is the first that is shown. */
void tui_tab_state__scroll(struct tui_tab_state *t, size_t lines, unsigned page);

#endif
