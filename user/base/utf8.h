/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* utf8: text of the target as code points, and which of them must not be printed. */
#ifndef MT_BASE_UTF8_H
#define MT_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_BAD 0xfffdu

/* One code point: bytes used (at least 1 if len > 0); *ret_cp is UTF8_BAD for a byte that is no UTF-8. */
size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp);
/* Encodes as UTF-8, without a NUL: bytes used. Of an invalid code point the low 21 bits. */
unsigned utf8_encode(uint32_t cp, char out[4]);
/* Control characters (C0, C1, DEL), and those that change the text's direction, break lines or are invisible. */
int utf8_is_unsafe(uint32_t cp);

#endif
