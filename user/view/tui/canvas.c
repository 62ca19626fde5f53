/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/canvas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

int canvas__init(struct canvas *c, unsigned w, unsigned h)
{
	c->w = w < CANVAS_COLS_MAX ? w : CANVAS_COLS_MAX;
	c->h = h < CANVAS_LINES_MAX ? h : CANVAS_LINES_MAX;
	c->cells = calloc((size_t)c->w * c->h + 1, sizeof(*c->cells));
	if (!c->cells)
		return -ENOMEM;
	for (size_t i = 0; i < (size_t)c->w * c->h; i++)
		c->cells[i].cp = ' ';
	return 0;
}

void canvas__done(struct canvas *c)
{
	free(c->cells);
	c->cells = NULL;
}

void canvas__set(struct canvas *c, unsigned x, unsigned y, uint32_t cp, enum tui_style style, enum tui_style back)
{
	if (x < c->w && y < c->h)
		c->cells[(size_t)y * c->w + x] = (struct tui_cell){ cp, (uint8_t)style, (uint8_t)back, 0 };
}

/* Combining marks are left out: a cell holds one character. */
static unsigned canvas__put(struct canvas *c, unsigned x, unsigned y, enum tui_style style, const char *safe)
{
	size_t left = strlen(safe);
	unsigned at = x;

	while (left) {
		uint32_t cp;
		size_t n = utf8_decode(safe, left, &cp);
		unsigned cols = utf8_cols(cp);

		if (cols && at + cols <= c->w) {
			canvas__set(c, at, y, cp, style, TUI_PLAIN);
			if (cols == 2)
				canvas__set(c, at + 1, y, 0, style, TUI_PLAIN);
		}
		at += cols;
		safe += n;
		left -= n;
	}
	return at - x;
}

static unsigned cols_left(const struct canvas *c, unsigned x, unsigned cols)
{
	return x >= c->w ? 0 : cols < c->w - x ? cols : c->w - x;
}

unsigned canvas__text(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text)
{
	char safe[TEXT_BYTES_MAX];

	if (!text_cut(safe, sizeof(safe), text, cols_left(c, x, cols)))
		return 0;
	return canvas__put(c, x, y, style, safe);
}

unsigned canvas__fit(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text)
{
	char safe[TEXT_BYTES_MAX];

	if (!text_fit(safe, sizeof(safe), text, cols_left(c, x, cols)))
		return 0;
	return canvas__put(c, x, y, style, safe);
}

unsigned canvas__fit_path(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text)
{
	char safe[TEXT_BYTES_MAX];

	if (!text_fit_path(safe, sizeof(safe), text, cols_left(c, x, cols)))
		return 0;
	return canvas__put(c, x, y, style, safe);
}

unsigned canvas__right(struct canvas *c, unsigned x, unsigned y, unsigned cols, enum tui_style style, const char *text)
{
	char safe[TEXT_BYTES_MAX];
	unsigned used = text_cut(safe, sizeof(safe), text, cols);

	return used ? canvas__put(c, x + cols - used, y, style, safe) : 0;
}

void canvas__bar(struct canvas *c, unsigned x, unsigned y, unsigned cols, double share, enum tui_style style)
{
	double eighths = (share > 1 ? 1 : share > 0 ? share : 0) * cols * 8;
	unsigned n = (unsigned)(eighths + 0.5);

	if (!n && eighths > 0)
		n = 1;
	for (unsigned i = 0; i < cols && n; i++) {
		unsigned part = n < 8 ? n : 8;

		canvas__set(c, x + i, y, 0x2588 + 8 - part, style, TUI_PLAIN); /* left eighths: █ ▉ … ▏ */
		n -= part;
	}
}

void canvas__select(struct canvas *c, unsigned x, unsigned y, unsigned cols)
{
	for (unsigned i = 0; i < cols_left(c, x, cols) && y < c->h; i++)
		c->cells[(size_t)y * c->w + x + i].is_on = 1;
}

const struct tui_cell *canvas__at(const struct canvas *c, unsigned x, unsigned y)
{
	return x < c->w && y < c->h ? &c->cells[(size_t)y * c->w + x] : NULL;
}
