/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * text: strings of the target made safe for a terminal, and numbers formatted for people.
 *
 * Names come from the traced process and may hold anything. The output is valid UTF-8 without control characters (C0, C1, DEL),
 * without characters that change direction or hide text, and never wider than requested.
 */
#ifndef MT_BASE_TEXT_H
#define MT_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"

#define TEXT_BYTES_MAX 1024 /* longest cell in bytes, NUL included */

unsigned utf8_cols(uint32_t cp); /* 0, 1 or 2 */
/* Columns of valid UTF-8 without control characters. */
unsigned text_cols(const char *safe);
/*
 * `src` into buf, safe, in at most `cols` columns: longer ones lose their middle to "…", and before that "inductor: " and
 * "extern_kernels.", with which the operators of generated code begin. Returns the columns used. size should be TEXT_BYTES_MAX.
 */
unsigned text_fit(char *buf, size_t size, const char *src, unsigned cols);
/* All of it, in a buffer of TEXT_BYTES_MAX, which is returned. */
const char *safe_text(char *buf, const char *src);
/*
 * The same for words separated by dots ("layers.10.attention.out"): the longest words lose their ends, numbers never. A text
 * with a list ("extern_kernels.mm (aten.t, aten.mm)") loses the end of that; where there is little room, its middle.
 */
unsigned text_fit_path(char *buf, size_t size, const char *src, unsigned cols);
/* The same, but a text that is too long loses its end. */
unsigned text_cut(char *buf, size_t size, const char *src, unsigned cols);

/* A text made of parts; what does not fit is left out. All 0 at first. */
struct sentence {
	size_t len;
	char text[TEXT_BYTES_MAX];
};

void sentence__add(struct sentence *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Each fills buf (at least 24 bytes) and returns it. Three significant digits. */
char *fmt_bytes(char *buf, uint64_t bytes); /* "12.3 MiB" */
char *fmt_count(char *buf, double n);	    /* "12.3 k", below 10,000 "9876" */
char *fmt_ns(char *buf, uint64_t ns);	    /* "12.3 ms", "3 min 20 s" */
char *fmt_share(char *buf, double part, double whole); /* "12.3 %", "-" if the whole is 0 */
/* "2026-01-02 03:04:05 UTC" */
char *fmt_time(char *buf, int64_t epoch_ns);

#endif
