/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/palette.h"

#include <stdlib.h>
#include <string.h>

#include "timeline/timeline.h"

#define NONE PALETTE_NONE

const struct palette_color palette_selected = { 255, 24 };

static const struct palette_color dark[TUI_STYLES] = {
	[TUI_PLAIN] = { NONE, NONE },
	[TUI_DIM] = { 246, NONE },
	[TUI_BOLD] = { NONE, NONE },
	[TUI_TITLE] = { 252, 236 },
	[TUI_TAB] = { 246, NONE },
	[TUI_TAB_ON] = { 255, 24 },
	[TUI_HEAD] = { 246, NONE },
	[TUI_HEAD_ON] = { 74, NONE },
	[TUI_KEY] = { 74, NONE },
	[TUI_GOOD] = { 71, NONE },
	[TUI_WARN] = { 172, NONE },
	[TUI_BAD] = { 167, NONE },
	[TUI_BAR] = { 67, NONE },
	[TUI_MARK] = { 172, NONE },
	[TUI_LIVE] = { 67, NONE },
	[TUI_ENVELOPE] = { 242, NONE },
	[TUI_CAT0 + CAT_UNKNOWN] = { 246, NONE },
	[TUI_CAT0 + CAT_PARAMETER] = { 67, NONE },
	[TUI_CAT0 + CAT_OPTIMIZER_STATE] = { 97, NONE },
	[TUI_CAT0 + CAT_INPUT] = { 73, NONE },
	[TUI_CAT0 + CAT_TEMPORARY] = { 144, NONE },
	[TUI_CAT0 + CAT_ACTIVATION] = { 179, NONE },
	[TUI_CAT0 + CAT_GRADIENT] = { 107, NONE },
	[TUI_CAT0 + CAT_AUTOGRAD_DETAIL] = { 131, NONE },
	[TUI_CAT0 + CAT_FROZEN] = { 103, NONE },
	[TUI_CAT0 + CAT_BUFFER] = { 66, NONE },
	[TUI_CAT0 + CAT_DATALOADER] = { 37, NONE },
	[TUI_CAT0 + CAT_COMMUNICATION] = { 168, NONE },
	[TUI_CAT0 + CAT_WORKSPACE] = { 138, NONE },
	[TUI_CAT0 + CAT_UNSHARDED] = { 110, NONE },
};

static const struct palette_color light[TUI_STYLES] = {
	[TUI_PLAIN] = { NONE, NONE },
	[TUI_DIM] = { 241, NONE },
	[TUI_BOLD] = { NONE, NONE },
	[TUI_TITLE] = { 252, 236 },
	[TUI_TAB] = { 241, NONE },
	[TUI_TAB_ON] = { 255, 24 },
	[TUI_HEAD] = { 241, NONE },
	[TUI_HEAD_ON] = { 25, NONE },
	[TUI_KEY] = { 25, NONE },
	[TUI_GOOD] = { 28, NONE },
	[TUI_WARN] = { 130, NONE },
	[TUI_BAD] = { 160, NONE },
	[TUI_BAR] = { 67, NONE },
	[TUI_MARK] = { 130, NONE },
	[TUI_LIVE] = { 67, NONE },
	[TUI_ENVELOPE] = { 243, NONE },
	[TUI_CAT0 + CAT_UNKNOWN] = { 246, NONE },
	[TUI_CAT0 + CAT_PARAMETER] = { 67, NONE },
	[TUI_CAT0 + CAT_OPTIMIZER_STATE] = { 97, NONE },
	[TUI_CAT0 + CAT_INPUT] = { 30, NONE },
	[TUI_CAT0 + CAT_TEMPORARY] = { 101, NONE },
	[TUI_CAT0 + CAT_ACTIVATION] = { 136, NONE },
	[TUI_CAT0 + CAT_GRADIENT] = { 64, NONE },
	[TUI_CAT0 + CAT_AUTOGRAD_DETAIL] = { 131, NONE },
	[TUI_CAT0 + CAT_FROZEN] = { 60, NONE },
	[TUI_CAT0 + CAT_BUFFER] = { 66, NONE },
	[TUI_CAT0 + CAT_DATALOADER] = { 31, NONE },
	[TUI_CAT0 + CAT_COMMUNICATION] = { 168, NONE },
	[TUI_CAT0 + CAT_WORKSPACE] = { 138, NONE },
	[TUI_CAT0 + CAT_UNSHARDED] = { 61, NONE },
};

const struct palette_color *palette_of(int is_light)
{
	return is_light ? light : dark;
}

int palette_is_light(const char *colorfgbg)
{
	const char *ground = colorfgbg ? strrchr(colorfgbg, ';') : NULL;
	char *end;
	unsigned long n = ground ? strtoul(ground + 1, &end, 10) : 0;

	return ground && end != ground + 1 && !*end && (n == 7 || (n >= 9 && n <= 15)); /* 8 is a dark grey */
}

int palette_is_area(enum tui_style style)
{
	return style == TUI_BAR || style == TUI_LIVE || style == TUI_ENVELOPE || style >= TUI_CAT0;
}
