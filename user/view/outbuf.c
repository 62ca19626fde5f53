/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * stdio's formatting is what an export of millions of lines spends its time in, not the writing: a
 * printf of ten fields takes 1 µs, two digits a step from a table takes 10 ns a number.
 */
#include "view/outbuf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

static const char digit_pairs[201] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
				     "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
				     "8081828384858687888990919293949596979899";

int outbuf__init(struct outbuf *o, FILE *f)
{
	*o = (struct outbuf){ .f = f, .buf = malloc(OUTBUF_BYTES) };
	return o->buf ? 0 : -ENOMEM;
}

void outbuf__done(struct outbuf *o)
{
	free(o->buf);
	o->buf = NULL;
	o->len = 0;
}

static void outbuf__write(struct outbuf *o, const char *data, size_t len)
{
	if (o->err || !len)
		return;
	errno = 0;
	if (fwrite(data, 1, len, o->f) != len)
		o->err = errno ? -errno : -EIO;
}

void outbuf__drain(struct outbuf *o)
{
	outbuf__write(o, o->buf, o->len);
	o->len = 0;
}

int outbuf__flush(struct outbuf *o)
{
	outbuf__drain(o);
	errno = 0;
	if (fflush(o->f) && !o->err)
		o->err = errno ? -errno : -EIO;
	return o->err;
}

void outbuf__put_long(struct outbuf *o, const char *data, size_t len)
{
	outbuf__drain(o);
	if (len > OUTBUF_BYTES) {
		outbuf__write(o, data, len);
		return;
	}
	memcpy(o->buf, data, len);
	o->len = len;
}

void outbuf__printf(struct outbuf *o, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0)
		outbuf__put(o, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void outbuf__u64(struct outbuf *o, uint64_t v)
{
	char text[20], *end = text + sizeof(text), *p = end;

	while (v >= 100) {
		p -= 2;
		memcpy(p, digit_pairs + v % 100 * 2, 2);
		v /= 100;
	}
	if (v >= 10) {
		p -= 2;
		memcpy(p, digit_pairs + v * 2, 2);
	} else {
		*--p = (char)('0' + v);
	}
	outbuf__put(o, p, (size_t)(end - p));
}

void outbuf__i64(struct outbuf *o, int64_t v)
{
	if (v < 0)
		outbuf__char(o, '-');
	outbuf__u64(o, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void outbuf__hex(struct outbuf *o, uint64_t v)
{
	char text[18], *end = text + sizeof(text), *p = end;

	do {
		*--p = "0123456789abcdef"[v & 15];
		v >>= 4;
	} while (v);
	*--p = 'x';
	*--p = '0';
	outbuf__put(o, p, (size_t)(end - p));
}
