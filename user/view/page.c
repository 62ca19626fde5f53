/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/page.h"

#include <stdarg.h>
#include <stdlib.h>

#define LABEL_COLS 18

int page__init(struct page *p, FILE *out, unsigned width, int color)
{
	*p = (struct page){ .color = color, .width = width };
	return outbuf__init(&p->o, out);
}

int page__done(struct page *p)
{
	int err = outbuf__flush(&p->o);

	outbuf__done(&p->o);
	return err;
}

void page__put(struct page *p, const char *text)
{
	if (!p->is_full)
		outbuf__str(&p->o, text);
}

void page__printf(struct page *p, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	page__put(p, text);
}

void page__style(struct page *p, enum page_style style)
{
	static const char *const codes[] = { "\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[2m" };

	if (p->color)
		page__put(p, codes[style]);
}

void page__cell(struct page *p, const char *text, int cols)
{
	unsigned want = (unsigned)abs(cols), have;
	char safe[TEXT_BYTES_MAX];

	have = text_fit(safe, sizeof(safe), text, want);
	if (cols < 0)
		page__printf(p, "%*s", (int)(want - have), "");
	page__put(p, safe);
	if (cols > 0)
		page__printf(p, "%*s", (int)(want - have), "");
}

void page__end_line(struct page *p)
{
	while (p->o.len && p->o.buf[p->o.len - 1] == ' ')
		p->o.len--; /* the last cell's filling */
	page__put(p, "\n");
	p->lines++;
	p->is_full = p->lines_max && p->lines >= p->lines_max;
}

void page__heading(struct page *p, const char *text)
{
	page__end_line(p);
	page__style(p, STYLE_BOLD);
	page__put(p, text);
	page__style(p, STYLE_PLAIN);
	page__end_line(p);
}

void page__para(struct page *p, const char *label, const char *text)
{
	unsigned room = p->width > LABEL_COLS + 20 ? p->width - LABEL_COLS : 20, at = 0;

	page__put(p, "  ");
	page__cell(p, label, LABEL_COLS - 2);
	while (*text) {
		size_t len = strcspn(text, " ");
		char word[TEXT_BYTES_MAX];
		unsigned cols;

		if (!len) {
			text++;
			continue;
		}
		snprintf(word, sizeof(word), "%.*s", (int)(len < sizeof(word) ? len : sizeof(word) - 1), text);
		for (char *hard; (hard = strchr(word, HARD_SPACE));)
			*hard = ' ';
		cols = text_fit(word, sizeof(word), word, room);
		if (at && at + 1 + cols > room) {
			page__end_line(p);
			page__printf(p, "%*s", LABEL_COLS, "");
			at = 0;
		}
		if (at)
			page__put(p, " ");
		page__put(p, word);
		at += cols + !!at;
		text += len;
	}
	page__end_line(p);
}
