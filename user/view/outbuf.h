/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * outbuf: a large buffer in front of a FILE, with the few number formats that exporters need in a
 * hot loop. An error is kept and later writes are dropped, so callers check once, at the end.
 */
#ifndef MT_VIEW_OUTBUF_H
#define MT_VIEW_OUTBUF_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define OUTBUF_BYTES (256u << 10)
#define OUTBUF_ROOM 64 /* any number fits */

struct outbuf {
	FILE *f; /* borrowed */
	size_t len;
	int err; /* 0 or -errno of the first failed write */
	char *buf;
};

int outbuf__init(struct outbuf *o, FILE *f); /* 0 or -ENOMEM */
/* Writes buffered bytes and flushes the FILE: 0 or the first error. */
int outbuf__flush(struct outbuf *o);
void outbuf__done(struct outbuf *o); /* drops buffered bytes */
void outbuf__drain(struct outbuf *o);
void outbuf__put_long(struct outbuf *o, const char *data, size_t len);
void outbuf__printf(struct outbuf *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline void outbuf__put(struct outbuf *o, const char *data, size_t len)
{
	if (len > OUTBUF_BYTES - o->len) {
		outbuf__put_long(o, data, len);
		return;
	}
	memcpy(o->buf + o->len, data, len);
	o->len += len;
}

#define outbuf__lit(o, literal) outbuf__put(o, literal, sizeof(literal) - 1)

static inline void outbuf__str(struct outbuf *o, const char *text)
{
	outbuf__put(o, text, strlen(text));
}

static inline void outbuf__char(struct outbuf *o, char c)
{
	if (o->len == OUTBUF_BYTES)
		outbuf__drain(o);
	o->buf[o->len++] = c;
}

void outbuf__u64(struct outbuf *o, uint64_t v);
void outbuf__i64(struct outbuf *o, int64_t v);
void outbuf__hex(struct outbuf *o, uint64_t v); /* 0x… */

/* The text before a number, and the number. */
#define outbuf__lit_u64(o, literal, v) (outbuf__lit(o, literal), outbuf__u64(o, v))

#endif
