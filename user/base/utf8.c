/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/utf8.h"

size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp)
{
	const unsigned char *u = (const unsigned char *)s;
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t cp;
	size_t n;

	*ret_cp = UTF8_BAD;
	if (u[0] < 0x80) {
		*ret_cp = u[0];
		return 1;
	}
	n = u[0] >= 0xf0 && u[0] < 0xf5 ? 4 : u[0] >= 0xe0 && u[0] < 0xf0 ? 3 : u[0] >= 0xc2 && u[0] < 0xe0 ? 2 : 0;
	if (!n || n > len)
		return 1;
	cp = u[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 1;
		cp = cp << 6 | (u[i] & 0x3f);
	}
	if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 1;
	*ret_cp = cp;
	return n;
}

unsigned utf8_encode(uint32_t cp, char out[4])
{
	unsigned len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;

	for (unsigned i = len; --i; cp >>= 6)
		out[i] = (char)(0x80 | (cp & 63));
	out[0] = (char)(len == 1 ? cp : (0xf00u >> len & 0xff) | (cp & (0x7fu >> len)));
	return len;
}

int utf8_is_unsafe(uint32_t cp)
{
	static const struct {
		uint32_t first, last;
	} unsafe[] = { { 0x80, 0x9f }, { 0xad, 0xad }, { 0x61c, 0x61c }, { 0x180e, 0x180e },
					       { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
					       { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff } };

	for (size_t i = 0; cp >= 0x80 && i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
		if (cp >= unsafe[i].first && cp <= unsafe[i].last)
			return 1;
	return cp < 0x20 || cp == 0x7f;
}
