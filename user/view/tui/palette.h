/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * palette: the colours of styles, of the 256 that xterm has, for a dark and for a light terminal. Texts have a contrast of 4.5
 * or more to their ground (#1e1e1e or white), bars and areas of 3 or more (WCAG 2.2, 1.4.3 and 1.4.11).
 */
#ifndef MT_VIEW_TUI_PALETTE_H
#define MT_VIEW_TUI_PALETTE_H

#include "view/tui/canvas.h"

#define PALETTE_NONE (-1) /* the terminal's own */

struct palette_color {
	short fg, bg;
};

/* Where COLORFGBG ("0;15", "0;default;15": foreground and ground of the 16 colours) has a light ground, or not. NULL: dark. */
int palette_is_light(const char *colorfgbg);
/* By enum tui_style. */
const struct palette_color *palette_of(int is_light);
/* A selected row's: its texts have one colour. */
extern const struct palette_color palette_selected;
/* A bar or an area: it keeps its colour in a selected row. */
int palette_is_area(enum tui_style style);

#endif
