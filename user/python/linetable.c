/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/linetable.h"

#define NO_LINE_310 -128

/* Pairs: bytes of code, lines further; the sum so far is the line of the pair's bytes. */
static int64_t line_310(const uint8_t *t, size_t len, int64_t line, uint64_t at)
{
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t delta = (int8_t)t[i + 1];

		end += t[i];
		if (delta != NO_LINE_310)
			line += delta;
		if (at < end)
			return delta == NO_LINE_310 ? 0 : line;
	}
	return 0;
}

enum { KIND_SHORT_MAX = 9, KIND_ONE_LINE_0 = 10, KIND_ONE_LINE_2 = 12, KIND_NO_COLUMNS = 13, KIND_LONG = 14, KIND_NONE = 15 };

/* 6 bits a byte, lowest first, bit 6: more; bit 0 of the whole is the sign. */
static int64_t svarint(const uint8_t *t, size_t len, size_t at)
{
	uint64_t v = 0;

	for (unsigned shift = 0; at < len && shift < 36; at++, shift += 6) {
		v |= (uint64_t)(t[at] & 63) << shift;
		if (!(t[at] & 64))
			break;
	}
	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

/* Each entry begins with the one byte that has bit 7. */
static int64_t line_311(const uint8_t *t, size_t len, int64_t line, uint64_t at)
{
	uint64_t end = 0;

	for (size_t i = 0; i < len;) {
		unsigned kind = t[i] >> 3 & 15;

		if (!(t[i] & 128))
			return 0; /* no table of this kind */
		end += 2 * ((t[i] & 7) + 1u);
		if (kind >= KIND_ONE_LINE_0 && kind <= KIND_ONE_LINE_2)
			line += kind - KIND_ONE_LINE_0;
		else if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
			line += svarint(t, len, i + 1);
		if (at < end)
			return kind == KIND_NONE ? 0 : line;
		for (i++; i < len && !(t[i] & 128); i++)
			;
	}
	return 0;
}

uint32_t py_line(unsigned minor, const uint8_t *table, size_t len, uint32_t firstlineno, uint64_t at)
{
	int64_t line = minor == 10 ? line_310(table, len, firstlineno, at) : line_311(table, len, firstlineno, at);

	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}
