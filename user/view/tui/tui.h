/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tui: the terminal interface: reports and keys in, the screen and the user's requests out. Reads no clock
 * but the reports'. One at a time: there is one terminal.
 */
#ifndef MT_VIEW_TUI_TUI_H
#define MT_VIEW_TUI_TUI_H

#include "view/tui/ui.h" /* enum tui_action */

struct report;
struct tui;

struct tui_opts {
	int is_live; /* reports keep coming; else a recording's last */
	int color;   /* 0 or 1: the caller looked at NO_COLOR */
	const char *file; /* the recording as it is typed in a shell, the caller's; NULL: none */
};

/* Can this terminal show it? Else there are plain lines. */
int tui_fits(void);
struct tui *tui__new(const struct tui_opts *opts); /* takes nothing over yet; NULL: no memory */
void tui__free(struct tui *t);			    /* the terminal is as it was; NULL is fine */
int tui__open(struct tui *t);			    /* takes the terminal: 0 or -errno; again is fine */
/* A new report, owned by t from now on, also after a failure; drawn at once. 0 or -ENOMEM. */
int tui__show(struct tui *t, struct report *r);
/* A report on the way to the one that will be shown: its numbers go into the chart. 0 or -ENOMEM. */
int tui__sample(struct tui *t, const struct report *r);
/* stdin has something to read, or the window another size: bits of enum tui_action, or -ENOMEM. */
int tui__input(struct tui *t);
/* 1: the held moment was not read from the recording yet; *ret_rel_ns after the start. Else 0. */
int tui__wants(const struct tui *t, uint64_t *ret_rel_ns);
/* Shows how much of the way to it was read; draws. */
int tui__reading(struct tui *t, unsigned percent);
/* The recording's report of it, owned by t from now on; NULL: it could not be read. */
int tui__then(struct tui *t, uint64_t rel_ns, struct report *then);
void tui__mark(struct tui *t); /* at the last report's time */
/* For the last line, from the next draw on; copied. NULL: none. */
void tui__message(struct tui *t, const char *text);
void tui__recording(struct tui *t, int is_recording);

#endif
