/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_layout: places of the parts of the screen. A part without room has height or width 0. */
#ifndef MT_VIEW_TUI_LAYOUT_H
#define MT_VIEW_TUI_LAYOUT_H

#include "view/tui/canvas.h"

struct tui_layout {
	struct rect title, devs, verdict, chart, cats, tabs, table, coverage, keys;
};

enum tui_chart_size { TUI_CHART_HALF = 0, TUI_CHART_HIDDEN, TUI_CHART_FULL, TUI_CHART_SIZES };

void tui_layout(struct tui_layout *l, unsigned w, unsigned h, enum tui_chart_size chart);

#endif
