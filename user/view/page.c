/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/page.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

#include "view/view.h"

int page__init(struct page *p, FILE *out, unsigned width, int color)
{
	*p = (struct page){ .color = color, .width = width };
	return outbuf__init(&p->o, out);
}

int page__open(struct page *p, FILE *out, const struct view_opts *opts, unsigned otherwise)
{
	unsigned width = !opts->width ? otherwise : opts->width < PAGE_WIDTH_MIN ? PAGE_WIDTH_MIN : opts->width;
	int err = page__init(p, out, width, opts->color);

	p->is_narrow = opts->width > 0;
	return err;
}

int page__done(struct page *p)
{
	int err = outbuf__flush(&p->o);

	outbuf__done(&p->o);
	return err;
}

void page__put(struct page *p, const char *text)
{
	outbuf__str(&p->o, text);
}

static void put_va(struct page *p, const char *fmt, va_list ap)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	page__put(p, text);
}

void page__printf(struct page *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_va(p, fmt, ap);
	va_end(ap);
}

void page__line(struct page *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_va(p, fmt, ap);
	va_end(ap);
	page__end_line(p);
}

void page__style(struct page *p, enum page_style style)
{
	static const char *const codes[] = { "\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[2m" };

	if (p->color)
		page__put(p, codes[style]);
}

static void put_cell(struct page *p, const char *safe, int cols, unsigned have)
{
	unsigned want = (unsigned)abs(cols);

	if (cols < 0)
		page__printf(p, "%*s", (int)(want - have), "");
	page__put(p, safe);
	if (cols > 0)
		page__printf(p, "%*s", (int)(want - have), "");
}

void page__cell(struct page *p, const char *text, int cols)
{
	char safe[TEXT_BYTES_MAX];
	unsigned have = text_fit(safe, sizeof(safe), text, (unsigned)abs(cols));

	put_cell(p, safe, cols, have);
}

void page__path(struct page *p, const char *text, int cols)
{
	char safe[TEXT_BYTES_MAX];
	unsigned have = text_fit_path(safe, sizeof(safe), text, (unsigned)abs(cols));

	put_cell(p, safe, cols, have);
}

void page__begin_of(struct page *p, const char *text, int cols)
{
	char safe[TEXT_BYTES_MAX];
	unsigned have = text_cut(safe, sizeof(safe), text, (unsigned)abs(cols));

	put_cell(p, safe, cols, have);
}

void page__end_line(struct page *p)
{
	while (p->o.len && p->o.buf[p->o.len - 1] == ' ')
		p->o.len--; /* the last cell's filling */
	page__put(p, "\n");
}

void page__heading(struct page *p, const char *text)
{
	page__end_line(p);
	page__style(p, STYLE_BOLD);
	page__put(p, text);
	page__style(p, STYLE_PLAIN);
	page__end_line(p);
}

/* Letters at the end of the first word that make it a plural. */
static size_t plural_of(const char *what, size_t len)
{
	return len > 3 && !strncmp(what + len - 3, "ses", 3) ? 2 : len > 1 && what[len - 1] == 's' ? 1 : 0;
}

void page__more(struct page *p, size_t shown, size_t total, const char *what)
{
	size_t len = strspn(what, "abcdefghijklmnopqrstuvwxyz"), more = total - shown;

	if (total <= shown)
		return;
	page__style(p, STYLE_DIM);
	page__printf(p, "  … and %zu more %.*s%s", more, (int)(more == 1 ? len - plural_of(what, len) : len), what, what + len);
	page__style(p, STYLE_PLAIN);
	page__end_line(p);
}

/* One word, in columns; HARD_SPACE becomes a blank. */
static unsigned word_of(char *word, const char *text, size_t len, unsigned room)
{
	snprintf(word, TEXT_BYTES_MAX, "%.*s", (int)(len < TEXT_BYTES_MAX ? len : TEXT_BYTES_MAX - 1), text);
	for (char *hard; (hard = strchr(word, HARD_SPACE));)
		*hard = ' ';
	return text_fit(word, TEXT_BYTES_MAX, word, room);
}

/* Bytes up to where a line may break: not between a number and its unit. */
static size_t word_len(const char *text)
{
	size_t len = strcspn(text, " ");

	while (len && len < 20 && text[len] == ' ' && isdigit((unsigned char)text[len - 1]) && text[len + 1] &&
	       text[len + 1] != ' ')
		len += 1 + strcspn(text + len + 1, " ");
	return len;
}

void page__flow(struct page *p, unsigned indent, const char *text)
{
	unsigned room = p->width > indent + 20 ? p->width - indent : 20, at = 0;

	while (*text) {
		size_t gap = strspn(text, " "), len = word_len(text + gap);
		char word[TEXT_BYTES_MAX];
		unsigned cols = word_of(word, text + gap, len, room);

		text += gap + len;
		if (!len)
			break;
		if (at && at + gap + cols > room) {
			page__end_line(p);
			page__printf(p, "%*s", (int)indent, "");
			at = 0;
		}
		if (at) {
			page__printf(p, "%*s", (int)gap, "");
			at += (unsigned)gap;
		}
		page__put(p, word);
		at += cols;
	}
	page__end_line(p);
}

void page__md(struct page *p, const char *safe)
{
	for (; *safe; safe++) {
		if (strchr("\\`*_{}[]<>|#~&$@", *safe))
			outbuf__char(&p->o, '\\');
		outbuf__char(&p->o, *safe);
	}
}

void page__item(struct page *p, unsigned indent, const char *text)
{
	page__put(p, "  ");
	page__flow(p, indent, text);
}

void page__itemf(struct page *p, unsigned indent, const char *fmt, ...)
{
	char text[TEXT_BYTES_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	page__item(p, indent, text);
}

void page__para(struct page *p, const char *label, const char *text)
{
	page__put(p, "  ");
	page__cell(p, label, LABEL_COLS - 2);
	page__flow(p, LABEL_COLS, text);
}

void page__paraf(struct page *p, const char *label, const char *fmt, ...)
{
	char text[TEXT_BYTES_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	page__para(p, label, text);
}
