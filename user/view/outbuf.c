/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * An export of millions of lines spends its time in stdio's formatting, not in writing: a printf of
 * ten fields takes 1 µs, two digits a step from a table takes 10 ns a number.
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

/* Room for a number, in its final place. */
static char *outbuf__room(struct outbuf *o)
{
	if (OUTBUF_BYTES - o->len < OUTBUF_ROOM)
		outbuf__drain(o);
	return o->buf + o->len;
}

static unsigned digits_of(uint64_t v)
{
	static const uint64_t tens[20] = { 0,
					   10ull,
					   100ull,
					   1000ull,
					   10000ull,
					   100000ull,
					   1000000ull,
					   10000000ull,
					   100000000ull,
					   1000000000ull,
					   10000000000ull,
					   100000000000ull,
					   1000000000000ull,
					   10000000000000ull,
					   100000000000000ull,
					   1000000000000000ull,
					   10000000000000000ull,
					   100000000000000000ull,
					   1000000000000000000ull,
					   10000000000000000000ull };
	unsigned bits = 64 - (unsigned)__builtin_clzll(v | 1), few = bits * 1233 >> 12; /* log10(2) is 1233 / 4096, nearly */

	return few + (v >= tens[few]);
}

void outbuf__u64(struct outbuf *o, uint64_t v)
{
	unsigned len = digits_of(v | 1);
	char *p = outbuf__room(o) + len;

	o->len += len;
	while (v >= 100) {
		p -= 2;
		memcpy(p, digit_pairs + v % 100 * 2, 2);
		v /= 100;
	}
	if (v >= 10)
		memcpy(p - 2, digit_pairs + v * 2, 2);
	else
		p[-1] = (char)('0' + v);
}

void outbuf__i64(struct outbuf *o, int64_t v)
{
	if (v < 0)
		outbuf__char(o, '-');
	outbuf__u64(o, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void outbuf__hex(struct outbuf *o, uint64_t v)
{
	unsigned len = (64 - (unsigned)__builtin_clzll(v | 1) + 3) / 4;
	char *p = outbuf__room(o);

	p[0] = '0';
	p[1] = 'x';
	o->len += 2 + len;
	for (unsigned i = len; i; v >>= 4)
		p[1 + i--] = "0123456789abcdef"[v & 15];
}
