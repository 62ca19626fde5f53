/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_screen: a whole screen from the user's choices and the data, onto a canvas of any size. */
#ifndef MT_VIEW_TUI_SCREEN_H
#define MT_VIEW_TUI_SCREEN_H

#include "view/tui/head.h"

/* r: the report to show, d->now or an older one when paused; NULL: none has come yet. 0 or -ENOMEM. */
int tui_screen__draw(struct canvas *c, struct tui_ui *ui, const struct tui_data *d, const struct report *r,
		     const struct tui_words *words);

#endif
