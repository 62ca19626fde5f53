/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * page: lines of aligned cells for people, with colour where asked. Cells are counted in columns of
 * the terminal, not in bytes; text of the target passes text_fit first.
 */
#ifndef MT_VIEW_PAGE_H
#define MT_VIEW_PAGE_H

#include "base/text.h"
#include "view/outbuf.h"

#define HARD_SPACE '\x1f'
#define LABEL_COLS 18 /* of page__para, with the two before the label */

enum page_style { STYLE_PLAIN = 0, STYLE_BOLD, STYLE_RED, STYLE_DIM };

#define PAGE_WIDTH 100	   /* where there is no terminal */
#define PAGE_WIDTH_MIN 72 /* for the fixed columns; narrower terminals wrap */

struct page {
	struct outbuf o;
	int color;
	unsigned width;	    /* columns a line may have */
	uint8_t is_narrow;  /* of a terminal: columns that do not fit are left out of a table */
};

struct view_opts;

/* As wide as the terminal of the options; `otherwise` columns where there is none. */
int page__open(struct page *p, FILE *out, const struct view_opts *opts, unsigned otherwise);
int page__init(struct page *p, FILE *out, unsigned width, int color);
int page__done(struct page *p); /* flushes; 0 or -errno */
/* Text of ours, no newline inside. */
void page__put(struct page *p, const char *text);
void page__printf(struct page *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line, or the rest of one. */
void page__line(struct page *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void page__style(struct page *p, enum page_style style);
/* One cell, filled up with blanks: cols > 0 left-aligned, cols < 0 right-aligned. Cut if too long. */
void page__cell(struct page *p, const char *text, int cols);
void page__path(struct page *p, const char *text, int cols); /* the same of a module's or tensor's path */
void page__begin_of(struct page *p, const char *text, int cols); /* too long a text loses its end */
void page__end_line(struct page *p);
void page__heading(struct page *p, const char *text); /* an empty line, then a bold one */
/* "  … and 12 more operators (--top)", where a table shows fewer than there are. */
void page__more(struct page *p, size_t shown, size_t total, const char *what);
/*
 * The rest of a line, made safe, from column `indent` on, wrapped at the width: further lines are
 * indented. HARD_SPACE shows as a blank and never breaks.
 */
void page__flow(struct page *p, unsigned indent, const char *text);
/* Safe text as Markdown shows it to the letter. */
void page__md(struct page *p, const char *safe);
/* page__flow as a line of its own, two blanks before it. */
void page__item(struct page *p, unsigned indent, const char *text);
void page__itemf(struct page *p, unsigned indent, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "  label          text", as page__flow. */
void page__para(struct page *p, const char *label, const char *text);
void page__paraf(struct page *p, const char *label, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
