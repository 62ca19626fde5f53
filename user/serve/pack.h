/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* pack: a text as gzip, for clients that take it (accept_gzip). */
#ifndef MT_SERVE_PACK_H
#define MT_SERVE_PACK_H

#include <stddef.h>

/* level: zlib's. For free(); NULL: no memory. */
char *pack_gzip(const char *text, size_t len, int level, size_t *ret_len);

#endif
