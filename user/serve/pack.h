/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* pack: a text as gzip, for clients that take it (accept_gzip). */
#ifndef MT_SERVE_PACK_H
#define MT_SERVE_PACK_H

#include <stddef.h>

enum pack_how {
	PACK_QUICKLY, /* while a client and the trace wait: 60 KB of tables and not 400, which cost more than the work */
	PACK_WELL,    /* once, for many */
};

/* For free(); NULL: no memory. */
char *pack_gzip(const char *text, size_t len, enum pack_how how, size_t *ret_len);

#endif
