/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_head: the lines around chart and table: title, devices, tabs, coverage, keys, and the help. */
#ifndef MT_VIEW_TUI_HEAD_H
#define MT_VIEW_TUI_HEAD_H

#include "view/tui/canvas.h"
#include "view/tui/data.h"
#include "view/tui/ui.h"

struct tui_words {
	const char *message;   /* instead of the keys; "" = none */
	int is_recording;
	const char *file; /* for commands; NULL: FILE stands there */
};

void tui_title__draw(struct canvas *c, struct rect at, const struct tui_ui *ui, const struct tui_data *d,
		     const struct report *r, const struct tui_words *words);
void tui_devs__draw(struct canvas *c, struct rect at, const struct tui_ui *ui, const struct tui_data *d,
		    const struct report *r);
/*
 * conclusion.c: as many of the verdict's lines as there is room for, and the number of the others. If all of it was
 * asked for: losses and cost, too, commands on lines of their own, a blank line between sentences. 0 or -ENOMEM.
 */
int tui_verdict__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct report *r,
		      const struct tui_words *words);
/* And at the right the table's moment, if one is held. */
void tui_tabs__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct tui_data *d);
void tui_coverage__draw(struct canvas *c, struct rect at, const struct tui_data *d, const struct report *r);
void tui_keys__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct tui_words *words);
void tui_help__draw(struct canvas *c, struct rect at, const struct tui_ui *ui);

#endif
